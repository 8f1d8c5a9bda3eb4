# Two lines with labels, units, a grid line that is left out, and a line without a label.
import matplotlib.pyplot as plt

plt.plot([1, 2, 3], [4.0, 5.5, 6.25], label="y(t)")
plt.plot([1, 2, 3], [3, float("nan"), 1], label="noise")
plt.plot([1, 2, 3], [7, 8, 9])
plt.axhline(5)
plt.title("Two lines")
plt.xlabel("Time (s)")
plt.ylabel("Speed [m/s]")
plt.xticks([1, 2, 3])
plt.yticks([0, 5, 10])
plt.legend()
plt.show()
