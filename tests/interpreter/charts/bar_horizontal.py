import matplotlib.pyplot as plt

plt.barh(["Author A", "Author B"], [100, 200])
plt.xlabel("Sales (USD)")
plt.ylabel("Authors")
plt.show()
