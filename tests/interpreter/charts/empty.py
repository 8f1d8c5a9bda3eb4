# Axes without data: a figure, but no chart.
import matplotlib.pyplot as plt

fig, ax = plt.subplots()
ax.set_title("nothing")
plt.show()
