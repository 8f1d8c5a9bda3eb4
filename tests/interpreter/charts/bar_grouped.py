import matplotlib.pyplot as plt
import numpy as np

places = np.arange(3)
fig, ax = plt.subplots()
ax.bar(places - 0.2, [1, 2, 3], 0.4, label="2023")
ax.bar(places + 0.2, [4, 5, 6], 0.4)
ax.set_xticks(places)
ax.set_xticklabels(["x", "y", "z"])
ax.legend()
plt.show()
