"""capture_world.py - a real cordon-storage, and real cells that are made of its layers (tool.c).

Of programs with the arguments STORAGE_TOOL CORDON_STORAGE."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import CAPTURE, UNPACK, Storage  # noqa: E402
from checks import equal  # noqa: E402
from images import directory  # noqa: E402



def reachable(*programs):
    """Copies that other users can execute, in one folder: a clone may well be in /root."""
    folder = tempfile.mkdtemp(prefix="cordon-programs-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    return [shutil.copy(program, folder) for program in programs]


BUILT = os.path.dirname(os.path.abspath(sys.argv[1]))
TOOL, PROGRAM, *_ = reachable(sys.argv[1], sys.argv[2], *(os.path.join(BUILT, name) for name in ("cordon-keeper", "cordon-init")))
TOP = directory("0")  # the place of a cell's root directory in a capture

# In a cell: what it sees, as JSON. Directories of other file systems and of the kernel are left out.
LOOK = r"""
import hashlib, json, os, stat, sys
found, links = {}, {}
def content(path, size):
    h, at = hashlib.sha256(), 0
    with open(path, "rb") as f:
        while at < size:  # where there is data; pages of zeros do not count
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA) & ~4095
                end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            except OSError:
                break
            for at in range(at, end, 4096):
                page = os.pread(f.fileno(), 4096, at)
                if page.strip(b"\0"):
                    h.update(b"%d " % at + page)
            at = end
    return h.hexdigest()
def one(path, full):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    if kind == stat.S_IFSOCK:
        return
    row = [oct(st.st_mode), st.st_uid, st.st_gid, str(st.st_mtime_ns) if full else 0]
    if kind == stat.S_IFLNK:
        row.append(os.readlink(os.fsencode(path)).hex())
    if kind == stat.S_IFREG and full:
        links.setdefault(st.st_ino, []).append(path)
        row += [st.st_size, content(path, st.st_size), links[st.st_ino]]
    if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO) and full:
        row += sorted((a, os.getxattr(path, a).hex()) for a in os.listxattr(path))
    found[os.fsencode(path).hex()] = row
for top, full in ((a[1:], a[0] == "+") for a in sys.argv[1:]):
    for folder, dirs, files in os.walk(top):
        dirs[:] = sorted(d for d in dirs if os.path.join(folder, d) not in ("/proc", "/dev", "/sys", "/run", "/tmp", "/usr"))
        for name in sorted(dirs + files):
            one(os.path.join(folder, name), full)
    if os.path.lexists(top):
        one(top, full)
json.dump(found, sys.stdout)
"""


class World(Storage):
    def __init__(self, folder=None):
        folder = folder or tempfile.mkdtemp(prefix="cordon-capture-", dir="/var/tmp")
        self.templates = folder + ".templates"
        os.makedirs(self.templates + "/base/t/gone", exist_ok=True)
        host = subprocess.run([TOOL, "host"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
        super().__init__(PROGRAM, folder, bases=[self.templates, *host])
        self.stream = os.path.join(os.path.dirname(self.folder), os.path.basename(self.folder) + ".stream")

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
        shutil.rmtree(self.folder)
        shutil.rmtree(self.templates)
        if os.path.exists(self.stream):
            os.remove(self.stream)

    def cell(self, stack, script, layer=None):
        """Runs a script in a cell of these layers; layer: the id of what it changed. Gives its output."""
        args = [TOOL, os.path.join(self.folder, "layers"), ",".join(stack), script] + ([self.stream] if layer else [])
        done = subprocess.run(args, capture_output=True, timeout=120)
        equal(done.returncode, 0, (done.stdout + done.stderr).decode(errors="replace")[-3000:])
        if layer:
            with open(self.stream, "rb") as f:
                self.last = self.ask(UNPACK, self.unpack_request(layer, CAPTURE, size=1 << 33), [f.fileno()])
        return done.stdout.decode()

    def look(self, stack, *tops):
        return json.loads(self.cell(stack, f"python3 -c '{LOOK}' {' '.join(tops)}"))


def below(pid):
    """All processes below one."""
    found = [pid]
    for at in found:
        found += [int(p) for p in subprocess.run(["pgrep", "-P", str(at)], capture_output=True, text=True).stdout.split()]
    return found[1:]
