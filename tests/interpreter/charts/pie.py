import matplotlib.pyplot as plt

plt.pie([90, 10], labels=["Step 1", "Step 2"], autopct="%1.1f%%")
plt.title("Will I wake up early tomorrow?")
plt.show()
