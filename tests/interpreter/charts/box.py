import matplotlib.pyplot as plt

fig, ax = plt.subplots()
ax.boxplot([[1, 2, 3, 4, 5, 20], [2, 3, 4, 5, 6, 7, 8, 9, 10, 40, 50], [1.5, 1.75, 2.25, 2.5]], patch_artist=True)
ax.set_xticklabels(["A", "B", "C"])
ax.set_title("Scores")
ax.set_xlabel("Group")
ax.set_ylabel("Score (points)")
plt.show()
