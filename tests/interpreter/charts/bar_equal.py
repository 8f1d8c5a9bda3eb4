# Bars of one height stand, too.
import matplotlib.pyplot as plt

plt.bar(["a", "b"], [3, 3])
plt.xlabel("x")
plt.ylabel("y")
plt.show()
