import matplotlib.pyplot as plt

plt.bar(["Author A", "Author B", "Author C"], [100, 200.5, 150])
plt.title("Book Sales by Authors")
plt.xlabel("Authors")
plt.ylabel("Sales (USD)")
plt.show()
