import matplotlib.pyplot as plt

fig, (left, right) = plt.subplots(1, 2)
fig.suptitle("Both")
left.plot([0, 1, 2], [0, 1, 4])
left.set_title("line")
left.set_xticks([0, 2])
left.set_yticks([0, 4])
right.bar(["a", "b"], [1, 2])
right.set_title("bars")
plt.show()
