"""hints.py - a line under the traceback when a well-known module is not installed."""

SCIENCE = {
    "numpy": "python3-numpy", "pandas": "python3-pandas", "matplotlib": "python3-matplotlib",
    "PIL": "python3-pil", "scipy": "python3-scipy",
}


def for_error(error):
    if not isinstance(error, ModuleNotFoundError) or not isinstance(error.name, str):
        return ""
    name = error.name.partition(".")[0]
    if name not in SCIENCE:
        return ""
    return ("\nHint: %s is not installed in this template. A template that has it is made by "
            "`cordon template interpreter --science`; in an image, install %s or use pip."
            % (name, SCIENCE[name]))
