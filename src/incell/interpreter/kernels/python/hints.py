"""hints.py - a line under the traceback when a well-known module is not installed."""

# What `cordon template interpreter --science` installs, by the name of the module.
SCIENCE = {"numpy", "pandas", "matplotlib", "PIL", "scipy", "sympy", "requests"}
# Others that code often imports, with their names for pip.
OTHERS = {
    "sklearn": "scikit-learn", "seaborn": "seaborn", "plotly": "plotly", "statsmodels": "statsmodels",
    "cv2": "opencv-python-headless", "bs4": "beautifulsoup4", "yaml": "pyyaml", "openpyxl": "openpyxl",
    "torch": "torch", "tqdm": "tqdm", "networkx": "networkx", "polars": "polars", "altair": "altair",
    "httpx": "httpx", "lxml": "lxml",
}


def for_error(error):
    """A line that begins with a line break, or an empty text."""
    if not isinstance(error, ModuleNotFoundError) or not isinstance(error.name, str):
        return ""
    name = error.name.partition(".")[0]
    if name in SCIENCE:
        return ("\nHint: %s is not installed in this template. `cordon template interpreter --science` makes "
                "one that has it." % name)
    if name in OTHERS:
        return ("\nHint: %s is not installed in this template. `%%pip install %s` installs it, if the network "
                "policy of the session allows a package index." % (name, OTHERS[name]))
    return ""
