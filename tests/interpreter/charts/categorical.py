import matplotlib.pyplot as plt

plt.plot(["apple", "pear", "plum"], [1, 2, 3])
plt.yticks([1, 2, 3])
plt.show()
