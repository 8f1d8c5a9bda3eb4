# One box has no other to compare its height with.
import matplotlib.pyplot as plt

plt.boxplot([1, 2, 3, 4, 5], patch_artist=True)
plt.xticks([1], ["only"])
plt.ylabel("y")
plt.show()
