import matplotlib.pyplot as plt

fig, ax = plt.subplots()
ax.boxplot([[1, 2, 3, 4, 5, 20], [2, 4, 6, 8, 10]], patch_artist=True, vert=False)
ax.set_yticklabels(["A", "B"])
ax.set_xlabel("Score (points)")
ax.set_ylabel("Group")
plt.show()
