# More ticks than bars: each has the label of the nearest.
import matplotlib.pyplot as plt

plt.bar([10, 20, 30], [1, 4, 2])
plt.xticks([0, 5, 10, 15, 20, 25, 30, 35])
plt.show()
