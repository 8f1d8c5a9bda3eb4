"""fonts.py - matplotlib's list of fonts, made before the first plot needs it.

matplotlib looks at every font of the machine when it finds no list in its cache folder, which is a third of
the time of a first plot. The parent forks a process for it when it has nothing to do. The list is made in a
folder of its own and renamed: a kernel finds all of it or none, and never waits for matplotlib's lock."""
import glob
import importlib.util
import os
import shutil
import tempfile


def cache_folder():
    """As matplotlib chooses it."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("MPLCONFIGDIR") or os.path.join(caches, "matplotlib")


def are_wanted():
    return (importlib.util.find_spec("matplotlib") is not None
            and not glob.glob(os.path.join(cache_folder(), "fontlist*")))


def make_list():
    """In a process of its own, which does not go on afterwards."""
    folder = cache_folder()
    os.makedirs(folder, exist_ok=True)
    own = tempfile.mkdtemp(prefix=".new-", dir=folder)
    try:
        os.environ["MPLCONFIGDIR"] = own
        import matplotlib.font_manager  # noqa: F401  makes the list
        for path in glob.glob(os.path.join(own, "fontlist*")):
            os.rename(path, os.path.join(folder, os.path.basename(path)))
    finally:
        shutil.rmtree(own, ignore_errors=True)
