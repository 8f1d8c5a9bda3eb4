"""slim_root.py - a small root file system for tests of virtual machines, made of the machine's programs: below 100 MB.

state(cordon) gives its directory, made once per build directory; a template of a server is made from it, or `cordon run
--level microvm --template DIR` uses it as it is."""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

FORMAT = 1  # raise it with every change of what is made here
PROGRAMS = """awk base64 bash busybox cat chmod chown cp curl date dd df du echo env false find getent grep head hostname id kill ls mkdir
    mount mv nproc od ps pwd rm sed seq sh sha256sum sleep sort stat stty tail tee touch tr true tty uname wc xargs yes""".split()
LIBRARIES = "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"
FOLDERS = "dev etc home/user mnt opt proc root run srv sys tmp usr/bin usr/lib usr/lib64 usr/sbin usr/share var/lib var/tmp".split()
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
                  "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def add(root, path):
    """One file at its place; directories of the merged /usr are links."""
    to = root / re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", str(path)).lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        shutil.copy2(os.path.realpath(path), to)


def add_program(root, path):
    add(root, path)
    libraries = subprocess.run(["ldd", os.path.realpath(path)], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", libraries):
        add(root, library)


def fill(root):
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name, text in FILES.items():
        (root / name).write_text(text)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    (root / "root").chmod(0o700)
    if os.geteuid() == 0:
        os.chown(root / "home/user", 1000, 1000)
    for name in PROGRAMS:
        if path := shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin"):
            add_program(root, path)
    for found in (path for name in LIBRARIES for path in pathlib.Path("/usr/lib").glob(f"*/{name}")):
        add(root, found)
    python = pathlib.Path("/usr/bin/python3").resolve()
    add_program(root, python)
    (root / "usr/bin/python3").symlink_to(python.name)
    unwanted = shutil.ignore_patterns("test", "tests", "__pycache__", "idlelib", "config-*", "ensurepip", "lib2to3", "tkinter", "pydoc_data")
    shutil.copytree(f"/usr/lib/{python.name}", root / f"usr/lib/{python.name}", symlinks=True, ignore=unwanted)


def state(cordon):
    folder = pathlib.Path(cordon).resolve().parent / f"slim-root-{FORMAT}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            being_made = pathlib.Path(f"{folder}.new")
            shutil.rmtree(being_made, ignore_errors=True)
            fill(being_made)
            being_made.rename(folder)
    return folder
