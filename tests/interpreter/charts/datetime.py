import datetime

import matplotlib.dates
import matplotlib.pyplot as plt
import numpy as np

days = [datetime.date(2023, 9, 1) + datetime.timedelta(days=i) for i in range(3)]
fig, ax = plt.subplots()
ax.plot(days, [1, 2, 3], label="dates")
ax.plot(np.array(days, dtype="datetime64[ns]"), [2, 3, 4], label="datetime64")
ax.xaxis.set_major_locator(matplotlib.dates.DayLocator())
ax.set_yticks([1, 4])
plt.show()
