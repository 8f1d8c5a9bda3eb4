import datetime

import matplotlib.dates
import matplotlib.pyplot as plt

fig, ax = plt.subplots()
ax.scatter([datetime.datetime(2023, 9, 1, 12), datetime.datetime(2023, 9, 2)], [1, 2], label="s")
ax.xaxis.set_major_locator(matplotlib.dates.DayLocator())
ax.set_yticks([1, 2])
plt.show()
