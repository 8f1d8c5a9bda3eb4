import matplotlib.pyplot as plt

plt.imshow([[1, 2], [3, 4]])
plt.title("A picture")
plt.xlabel("x")
plt.show()
