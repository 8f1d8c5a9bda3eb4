import matplotlib.pyplot as plt

plt.scatter([1, 2], [3, 4], label="Dataset 1")
plt.scatter([5.5], [6.5])
plt.axvline(2)
plt.text(1, 3, "a note")
plt.xlabel("A")
plt.ylabel("B")
plt.xticks([0, 5])
plt.yticks([3, 6])
plt.show()
