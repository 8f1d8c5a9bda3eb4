import matplotlib.pyplot as plt

plt.plot([1, 10, 100], [1, 2, 3])
plt.xscale("log")
plt.xlim(1, 100)
plt.yticks([1, 2, 3])
plt.show()
