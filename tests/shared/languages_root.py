"""languages_root.py - the root of slim_root.py with the languages that this machine has: Python with IPython, pandas and matplotlib,
JavaScript with npm, TypeScript, R, Java. For tests of the code interpreter and of clients in virtual machines; about 700 MB.

state(cordon) gives its directory, made once per build directory."""
import os
import pathlib
import re
import shutil
import subprocess

import slim_root

FORMAT = 1  # raise it with every change of what is made here
NOT_PYTHON = """test tests idlelib ensurepip lib2to3 tkinter config-* scipy sympy mpmath pythran poetry mitmproxy mesonbuild pip
    coverage debugpy _pydevd_* ldap3 dulwich passlib""".split()
NOT_JAVA = "jmods legal man docs include demo src.zip".split()
DATA = "/usr/share/matplotlib /etc/matplotlibrc /usr/share/fonts /usr/share/fontconfig /etc/fonts /usr/share/zoneinfo /usr/lib/locale".split()
R = "/usr/lib/R /usr/share/R".split()


def add_tree(root, path, without=()):
    """A directory or file with all that its links lead to, and the libraries of what is in it. Nothing if it is not there."""
    path = pathlib.Path(path)
    to = root / str(path).lstrip("/")
    if path.is_file():
        slim_root.add(root, path)
    elif path.is_dir():
        shutil.copytree(path, to, ignore=shutil.ignore_patterns(*without), ignore_dangling_symlinks=True, dirs_exist_ok=True)
        objects = [str(found) for found in to.rglob("*") if found.is_file() and is_elf(found)]
        for library in set(libraries(objects)):
            slim_root.add(root, library)


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def libraries(objects):
    """What a linker finds on this machine for these; those of the same folder are there already."""
    for at in range(0, len(objects), 200):
        told = subprocess.run(["ldd", *objects[at : at + 200]], capture_output=True, text=True).stdout
        yield from (path for path in re.findall(r"=> (/\S+) \(0x", told) if "/languages-root-" not in path)


def program(name):
    return shutil.which(name, path="/usr/bin:/bin")


def fill(root):
    slim_root.fill(root)
    python = pathlib.Path("/usr/bin/python3").resolve().name
    shutil.rmtree(root / f"usr/lib/{python}")
    # With compiled modules: an emulated processor takes long for them.
    for path in (f"/usr/lib/{python}", "/usr/lib/python3/dist-packages"):
        add_tree(root, path, NOT_PYTHON)
    for path in DATA:
        add_tree(root, path)
    for name in ("node", "esbuild"):
        if program(name):
            slim_root.add_program(root, program(name))
    if program("Rscript"):
        for path in R:
            add_tree(root, path)
        slim_root.add_program(root, program("Rscript"))
        (root / "usr/bin/R").symlink_to("../lib/R/bin/R")
    if program("java"):
        home = pathlib.Path(program("java")).resolve().parents[1]
        add_tree(root, home, NOT_JAVA)
        for name in ("java", "jshell"):
            (root / "usr/bin" / name).symlink_to(os.path.relpath(home / "bin" / name, "/usr/bin"))
    if program("npm"):
        add_tree(root, pathlib.Path(program("npm")).resolve().parents[1])
        (root / "usr/bin/npm").symlink_to(os.path.relpath(os.path.realpath(program("npm")), "/usr/bin"))


def state(cordon):
    return slim_root.made(cordon, f"languages-root-{slim_root.FORMAT}-{FORMAT}", fill)
