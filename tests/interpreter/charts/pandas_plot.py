import pandas as pd

frame = pd.DataFrame({"a": [1, 2, 3], "b": [3, 2, 1]}, index=pd.date_range("2024-01-01", periods=3))
ax = frame.plot.bar(title="From a data frame")
ax.set_xticklabels(["1", "2", "3"])
None
