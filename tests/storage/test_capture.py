#!/usr/bin/python3
"""Goal: what a cell changed is there again, byte by byte, in a cell that is made from its capture; through several
layers and folded ones, too. A capture that is not whole, or that no cell can write, leaves nothing.

    test_capture.py STORAGE_TOOL CORDON_STORAGE [name ...]

Real cells and a real cordon-storage. Needs root."""
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import CAPTURE, DIR, HOST, UNPACK, Refused, Storage  # noqa: E402
from checks import Skip, check, equal, has, note, wait_for  # noqa: E402
from images import archive, directory, hard_link, member, symlink  # noqa: E402

TOOL, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

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
    if kind in (stat.S_IFREG, stat.S_IFDIR) and full:
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

CHANGE = r"""
set -e
mkdir /data && cd /data
echo hi > plain; chown 1000:1000 plain; chmod 640 plain
echo suid > suid; chown 0:65534 suid; chmod 4755 suid
mkdir sticky; chmod 1777 sticky; mkdir none; chmod 0 none; echo x > none/inside
ln plain hard; ln plain sticky/hard2; ln -s /no/where dangling; ln -s ../data loop; mkfifo -m 600 pipe
touch -d '2001-02-03 04:05:06.123456789' old; touch -h -d '1999-01-01' dangling
touch -d '2031-01-01 00:00:00.5' later; mkdir -p dir/a; touch -d '2010-10-10 10:10:10.000000001' dir/a dir
python3 - <<'E'
import os, socket
os.setxattr("plain", "user.note", b"a\0b\n"); os.setxattr("sticky", "user.dir", b"")
os.setxattr("suid", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
with open("sparse", "wb") as f:
    f.truncate(5 << 30)
    for at in (0, 1 << 20, 3 << 30, (5 << 30) - 1):
        f.seek(at); f.write(b"x")
with open("hole", "wb") as f: f.truncate(1 << 20)
with open("big", "wb") as f: f.write(os.urandom(3 << 20))
for name in (b"new\nline", b"sp ace", "\u00e4\u6f22".encode(), b"\xff\xfe", b"n" * 255, b"-rf", b"*", b"\\", b"100%"):
    with open(name, "wb") as f: f.write(name)
os.makedirs("/".join(["deep"] + ["d%d" % i for i in range(200)])); os.chdir("/data")
path = "/data/long"
os.mkdir(path)
while len(path) < 3800:
    path += "/" + "l" * 200
    os.mkdir(path)
with open(path + "/end", "w") as f: f.write("end")
s = socket.socket(socket.AF_UNIX); s.bind("/data/socket")
for i in range(300):
    with open("/data/many%d" % i, "w") as f: f.write(str(i))
E
rm /etc/hostname; rm -rf /etc/skel; rm -rf /etc/ssl; mkdir /etc/ssl; echo mine > /etc/ssl/mine
rm -rf /usr/share/misc; rm -rf /usr/include; mkdir /usr/include; echo x > /usr/include/new.h
rm -rf /usr/games; echo file > /usr/games; rm -f /usr/bin/yes; mkdir /usr/bin/yes
echo changed >> /etc/passwd; chown 1000 /etc/group; chmod 700 /opt; mv /etc/profile /etc/moved
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


def refused(call, why):
    try:
        call()
    except Refused as e:
        has(str(e), why)
        return
    raise AssertionError(f"not refused: {why}")


def differences(a, b):
    return {bytes.fromhex(k): (a.get(k), b.get(k)) for k in sorted({*a, *b}) if a.get(k) != b.get(k)}


PLACES = ("+/data", "+/etc", "+/opt", "-/home", "-/usr/include", "-/usr/share/misc", "-/usr/bin")


def changes_are_there_again():
    with World() as w:
        look = f"python3 -c '{LOOK}' {' '.join(PLACES)}; test -f /usr/games"
        before = json.loads(w.cell([], CHANGE + look, "lay_a"))
        after = json.loads(w.cell(["lay_a"], look))
        equal(differences(before, after), {})
        check(len(before) > 1000, f"{len(before)} entries")
        check(all(k in before for k in (b"/data/sparse".hex(), b"/data/new\nline".hex(), b"/etc/ssl/mine".hex())), "looked at")
        st = os.stat(w.path("lay_a", "data/sparse"))
        check(st.st_size == 5 << 30 and st.st_blocks < 1000, f"sparse: {st.st_blocks} blocks")
        equal(os.stat(w.path("lay_a", "data/plain")).st_uid, 1000, "ids on disk are those of the cell")
        check(not os.path.exists(w.path("lay_a", "data/socket")), "a socket")
        check(w.last["entries"] > 500 and w.last["bytes"] < 20 << 20, w.last)
        # A capture of a cell that changed nothing has its places, too.
        w.cell(["lay_a"], "true", "lay_b")
        equal(sorted(os.listdir(os.path.join(w.folder, "layers/lay_b"))), ["0", "1"])
        equal(differences(before, json.loads(w.cell(["lay_a", "lay_b"], look))), {})


STEPS = ("mkdir -p /t/a /t/b/c /t/d; echo 1 > /t/a/x; echo 1 > /t/a/y; echo 1 > /t/b/c/x; echo 1 > /t/d/f; echo 1 > /t/file",
         "rm -r /t/a; rm -r /etc/ssl; rm /t/b/c/x; rm -r /t/d; rm /t/file; rm -r /usr/include",
         "mkdir /t/a; echo 3 > /t/a/z; mkdir /etc/ssl; echo 3 > /etc/ssl/only; echo 3 > /t/d; mkdir /t/file; mkdir /usr/include; echo 3 > /usr/include/h",
         "rm /t/d; mkdir -p /t/d/new; echo 4 > /t/a/y; rm -r /t/b; mkdir -p /t/b/c; echo 4 > /t/file/in",
         "chmod 700 /t/a; touch /t/b/c/y; rm /etc/ssl/only")


def whiteouts_reach_through_layers():
    tops = ("+/t", "+/etc/ssl", "-/usr/include")
    with World() as w:
        stack = []
        for i, step in enumerate(STEPS):
            w.cell(stack, step, f"lay_{i}")
            stack.append(f"lay_{i}")
        want = w.look(stack, *tops)
        names = sorted(bytes.fromhex(k).decode() for k in want)
        equal(names, ["/etc/ssl", "/t", "/t/a", "/t/a/y", "/t/a/z", "/t/b", "/t/b/c", "/t/b/c/y", "/t/d", "/t/d/new", "/t/file", "/t/file/in",
                      "/usr/include", "/usr/include/h"])
        for end in range(1, 6):
            w.fold(f"fold_{end}", stack[:end], HOST)
            equal(differences(want, w.look([f"fold_{end}"] + stack[end:], *tops)), {}, f"the lowest {end} folded")
        for stay in range(1, len(stack)):
            w.fold(f"above_{stay}", stack, HOST, stay=stay)
            equal(differences(want, w.look(stack[:stay] + [f"above_{stay}"], *tops)), {}, f"those above {stay} folded")
        w.fold("again", ["fold_2", *stack[2:]], HOST)
        equal(differences(want, w.look(["again"], *tops)), {}, "a fold folded")
        inode = os.stat(os.path.join(w.folder, "layers/lay_2/0/t/a/z")).st_ino
        equal(os.stat(os.path.join(w.folder, "layers/fold_5/0/t/a/z")).st_ino, inode, "a file is linked, not copied")
        equal(whiteouts(w, "fold_5"), {"0/etc/ssl": True, "1/include": True}, "whiteouts of a fold")
        for one in stack:
            w.remove(one)
        equal(differences(want, w.look(["fold_5"], *tops)), {}, "without the layers that it was made of")


def whiteouts(w, layer):
    """Directories of a layer that have some."""
    top = os.path.join(w.folder, "layers", layer)
    return {os.path.relpath(d, top): True for d, _, files in os.walk(top) for n in files if stat.S_ISCHR(os.lstat(os.path.join(d, n)).st_mode)}


def folds_stand_on_what_is_below():
    one = archive(directory("0"), directory("0/t"), member("0/t/gone", kind=tarfile.CHRTYPE), member("0/t/made", b"1"), member("whole", b"4"))
    two = archive(directory("0"), directory("0/t"), directory("0/t/gone"), member("0/t/made", kind=tarfile.CHRTYPE), member("whole", b"4"))
    with World() as w:
        w.unpack("lay_1", one, form=CAPTURE)
        w.unpack("lay_2", two, form=CAPTURE)
        w.fold("one_dir", ["lay_1"], DIR, "base")
        equal(whiteouts(w, "one_dir"), {"0/t": True}, "hides the base")
        w.fold("one", ["lay_1"])
        equal((whiteouts(w, "one"), os.listdir(w.path("one", "t"))), ({}, ["made"]), "nothing to hide")
        w.fold("both", ["lay_1", "lay_2"], DIR, "base")
        equal((whiteouts(w, "both"), os.listdir(w.path("both", "t"))), ({}, ["gone"]), "removed and made again")
        refused(lambda: w.fold("x", ["lay_1"], DIR, "none"), "below the layers")
        refused(lambda: w.fold("x", ["lay_1", "lay_9"]), "not there")
        refused(lambda: w.fold("one", ["lay_1"]), "there is a layer")
        equal(w.listed(), ["both", "lay_1", "lay_2", "one", "one_dir"])


def as_many_layers_as_a_cell_can_have():
    with World() as w:
        stack = []
        for i in range(19):
            stack.append(f"lay_{i}")
            tree = archive(directory("0"), directory("0/t", mode=0o700 + i % 8), member(f"0/t/f{i}", b"%d" % i), member("0/t/top", b"%d" % i),
                           directory("1"), member("whole", b"5"))
            w.unpack(stack[-1], tree, form=CAPTURE)
        equal(w.cell(stack, "ls /t | wc -l; cat /t/top; stat -c %a /t"), "20\n18702\n")


def the_keeper_takes_layers_only():
    good = archive(directory("0"), directory("1"), member("whole", b"2"))
    with World() as w:
        w.unpack("lay_a", good, form=CAPTURE)
        layers = os.path.join(w.folder, "layers")
        os.mkdir(os.path.join(layers, "open"), 0o755)
        os.mkdir(os.path.join(layers, "open/0"))
        os.mkdir(os.path.join(layers, "other"), 0o700)
        os.mkdir(os.path.join(layers, "other/0"))
        os.chown(os.path.join(layers, "other"), 1000, 1000)
        os.mkdir(os.path.join(layers, ".new-1"), 0o700)
        os.mkdir(os.path.join(layers, ".new-1/0"))
        os.symlink("lay_a", os.path.join(layers, "link"))
        for name, why in (("open", "mode 0700"), ("other", "mode 0700"), (".new-1", "not a name"), ("link", "has a link"), ("none", "No such file"),
                          ("lay_a/.", "not a name"), ("../layers/lay_a", "outside"), ("lay_a/0/..", "not a name")):
            said = w.cell([name], "echo made a cell")
            has(said, "refused", name)
            has(said, why, name)
        equal(w.cell(["lay_a"], "echo made a cell"), "made a cell\n")


def what_cannot_be_captured_is_told():
    with World() as w:
        script = "mkdir /x && cd /x && python3 -c 'import os\nfor i in range(30):\n  os.mkdir(\"n\" * 200); os.chdir(\"n\" * 200)'"
        refused(lambda: w.cell([], script, "lay_a"), "a path of 4096 bytes")
        script = "echo > /x; python3 -c 'import os\nfor i in range(20): os.setxattr(\"/x\", \"user.%d\" % i, b\"v\" * 30000)'"
        refused(lambda: w.cell([], script, "lay_a"), "ttribute")
        equal(w.names(), [])


def bad(name, why, *members, end=None, **more):
    """The end is right unless it is given."""
    return name, why, members, end, more


def sparse(name, text, data, real, **more):
    body = text.encode() + b"\0" * (-len(text) % 512) + data
    return member(name, body, pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": str(real)}, **more)


TOP = directory("0")
HOSTILE = [
    bad("nothing", "cut short", end=b""),
    bad("no place", "not a path", member("x", b"1")),
    bad("a place that was not begun", "not a path", TOP, member("1/x", b"1")),
    bad("places out of order", "out of order", TOP, directory("2")),
    bad("a place twice", "out of order", TOP, directory("0")),
    bad("a place that is a file", "not a path", member("0", b"1")),
    bad("a place that is a link", "not a path", symlink("0", "/")),
    bad("a place with another spelling", "not a path", TOP, member("00/x", b"1")),
    bad("too many places", "not a path", TOP, directory("40")),
    bad("up", "not a path", TOP, member("0/../x", b"1")),
    bad("up at the end", "not a path", TOP, directory("0/..")),
    bad("absolute", "not a path", TOP, member("/etc/x", b"1")),
    bad("twice a slash", "not a path", TOP, member("0//x", b"1")),
    bad("a dot", "not a path", TOP, member("0/./x", b"1")),
    bad("a missing directory", "No such file", TOP, member("0/a/x", b"1")),
    bad("through a link", "symbolic links", TOP, symlink("0/a", "/"), member("0/a/x", b"1")),
    bad("through a link beside", "symbolic links", TOP, directory("0/b"), symlink("0/a", "b"), member("0/a/x", b"1")),
    bad("through a file", "Not a directory", TOP, member("0/a", b"1"), member("0/a/x", b"1")),
    bad("a name twice", "File exists", TOP, member("0/a", b"1"), member("0/a", b"2")),
    bad("a directory twice", "File exists", TOP, directory("0/a"), directory("0/a")),
    bad("over a whiteout", "File exists", TOP, member("0/a", kind=tarfile.CHRTYPE), member("0/a", b"2")),
    bad("a device", "a device", TOP, member("0/a", kind=tarfile.CHRTYPE, dev=(1, 3))),
    bad("a block device", "unknown kind", TOP, member("0/a", kind=tarfile.BLKTYPE, dev=(8, 0))),
    bad("a kind of its own", "unknown kind", TOP, member("0/a", kind=b"Z")),
    bad("a link to nothing", "No such file", TOP, hard_link("0/a", "0/b")),
    bad("a link out of the layer", "not a path", TOP, hard_link("0/a", "../../../lay_x")),
    bad("a link to the machine", "not a path", TOP, hard_link("0/a", "/etc/passwd")),
    bad("a link through a link", "symbolic links", TOP, symlink("0/l", "/etc"), hard_link("0/a", "0/l/passwd")),
    bad("a link to a directory", "not permitted", TOP, directory("0/d"), hard_link("0/a", "0/d")),
    bad("an owner that no cell has", "below 65536", TOP, member("0/a", b"1", uid=65536)),
    bad("a group that no cell has", "below 65536", TOP, member("0/a", b"1", gid=1 << 20)),
    bad("a name of 256 bytes", "255", TOP, member("0/" + "n" * 256, b"1")),
    bad("too many bytes", "bytes of files", TOP, member("0/a", b"1" * 100000), size=50000),
    bad("too many files", "more than 3 files", TOP, *[member(f"0/{i}", b"") for i in range(4)], entries=3),
    bad("a sparse map out of order", "sparse", TOP, sparse("0/a", "2\n512\n1\n0\n1\n", b"ab", 1024)),
    bad("a sparse map beyond the file", "sparse", TOP, sparse("0/a", "1\n1024\n10\n", b"a" * 10, 1024)),
    bad("a sparse map of nothing", "sparse", TOP, sparse("0/a", "x\n", b"", 1024)),
    bad("a huge sparse file", "write 0/a", TOP, sparse("0/a", f"1\n{1 << 59}\n1\n", b"a", (1 << 59) + 1)),
    bad("a sparse file of many small pieces", "bytes of files", TOP,
        sparse("0/a", "1000\n" + "".join(f"{i * 4096}\n1\n" for i in range(1000)), b"a" * 1000, 4096000), size=1 << 20),
    bad("large attributes", "bytes of files", TOP,
        *[member(f"0/{i}", b"", pax={"SCHILY.xattr.user.a": "v" * 3000}) for i in range(30)], size=50000),
    bad("a member that is not counted", "missing", TOP, member("0/a", b"1"), end=b"1"),
    bad("members that were lost", "missing", TOP, end=b"2"),
    bad("a failed capture", "cannot be captured: disk on fire", TOP, member("failed", b"disk on fire"), end=b""),
    bad("something behind the end", "behind the last one", TOP, member("whole", b"1"), member("0/a", b"1"), end=b""),
    bad("a last member of a megabyte", "malformed last", TOP, end=b"1" * 1000000),
]


def hostile_streams_leave_nothing():
    with World() as w:
        inside = os.path.join(w.folder, "layers")
        for name, why, members, end, more in HOSTILE:
            members = [*members] + ([member("whole", end if end is not None else b"%d" % len(members))] if end != b"" else [])
            try:
                refused(lambda: w.unpack("lay_x", archive(*members), form=CAPTURE, **more), why)
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from None
            equal(os.listdir(inside), [], name)
        good = archive(TOP, member("0/a", b"1" * 2000), member("whole", b"2"))
        for cut in (0, 100, 512, 700, 1024, 1536, 2600, 3100, 3584, 4000):
            refused(lambda: w.unpack("lay_x", good[:cut], form=CAPTURE), "ends")
        for at in range(0, 3500, 97):
            broken = bytearray(good)
            broken[at] ^= 0x10
            try:
                w.unpack("lay_y", bytes(broken), form=CAPTURE)
                w.remove("lay_y")
            except Refused:
                pass
        # Attributes that only the machine may set, or that overlayfs acts on, are left out.
        pax = {"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.security.selinux": "x",
               "SCHILY.xattr.user.mine": "1"}
        w.unpack("lay_x", archive(TOP, directory("0/a", pax=pax), member("whole", b"2")), form=CAPTURE)
        equal(os.listxattr(w.path("lay_x", "a")), ["user.mine"])
        equal(w.listed(), ["lay_x"])
        check(w.process.poll() is None, "the program goes on")


def big_stream(megabytes):
    return archive(TOP, *[member(f"0/f{i}", os.urandom(1 << 20)) for i in range(megabytes)], member("whole", b"%d" % (megabytes + 1)))


def below(pid):
    """All processes below one."""
    found = [pid]
    for at in found:
        found += [int(p) for p in subprocess.run(["pgrep", "-P", str(at)], capture_output=True, text=True).stdout.split()]
    return found[1:]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def killed_at_any_time_it_is_whole_or_absent():
    data = big_stream(24)
    choice = random.Random(13)
    with World() as w:
        for i in range(24):
            victim = ("storage-worker", "storage-job", "cordon-storage")[i % 3]
            before = len(w.names())
            with tempfile.TemporaryFile() as f:
                f.write(data)
                f.seek(0)
                w.send(UNPACK, w.unpack_request(f"lay_{i}", CAPTURE), [f.fileno()])
                time.sleep(choice.uniform(0, 0.08))  # a random moment is what is tested
                victims = [pid for pid in below(w.process.pid) if name_of(pid) == victim]
                for pid in victims[:1]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                try:
                    answer = w.receive()
                except EOFError:
                    answer = None
            if victim == "cordon-storage":
                w.process.wait(10)
                w.sock.close()
                w.start()
            wait_for(lambda: not [n for n in w.names() if n.startswith(".")], 10, f"{w.names()} to be clean")
            there = f"lay_{i}" in w.names()
            if answer is not None and answer["code"] == 0:
                check(there, "reported and not there")
            if there:
                equal(len(os.listdir(w.path(f"lay_{i}"))), 24, "files of a layer that is there")
                equal(sum(os.path.getsize(w.path(f"lay_{i}", f"f{n}")) for n in range(24)), 24 << 20)
                w.remove(f"lay_{i}")
            equal(len(w.names()), before)


def a_full_disk_is_told():
    folder = tempfile.mkdtemp(prefix="cordon-full-", dir="/var/tmp")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "none", folder]).returncode != 0:
        raise Skip("cannot mount")
    try:
        w = Storage(PROGRAM, folder)
        refused(lambda: w.unpack("lay_a", big_stream(16), form=CAPTURE), "no room")
        equal(w.names(), [])
        equal(w.unpack("lay_b", big_stream(2), form=CAPTURE)["entries"], 3)
        w.stop()
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def late_ones_are_ended():
    with World() as w:
        r, out = os.pipe()
        w.send(UNPACK, w.unpack_request("lay_a", CAPTURE), [r], deadline_ms=300)
        os.write(out, archive(TOP)[:512])
        w.send(UNPACK, w.unpack_request("lay_b", CAPTURE), [r], deadline_ms=1)
        got = sorted((w.receive() for _ in range(2)), key=lambda g: g["job"])
        for one in got:
            has(one["msg"], "deadline")
        wait_for(lambda: w.names() == [], 10, "nothing left")
        os.close(r)
        os.close(out)
        equal(w.listed(), [])


def one_program_for_a_folder():
    """The next one waits until every process of the one before has exited."""
    with World() as w:
        stopped = [p for p in below(w.process.pid)][0]
        os.kill(stopped, signal.SIGSTOP)
        later = []
        thread = threading.Thread(target=lambda: later.append(Storage(PROGRAM, w.folder)))
        thread.start()
        thread.join(0.5)
        check(thread.is_alive(), "two at a time")
        os.kill(stopped, signal.SIGKILL)
        thread.join(10)
        check(not thread.is_alive(), "the next one waits for ever")
        later[0].stop()
        w.process.wait()
        w.start()


def in_its_jail():
    with World() as w:
        pid = below(w.process.pid)[0]
        with open(f"/proc/{pid}/status") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        equal(int(status["CapEff"], 16) & ~(1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 18 | 1 << 31), 0, "capabilities")
        with open(f"/proc/{pid}/uid_map") as f:
            equal(f.read().split(), ["0", "0", "65536"])
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            check(os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind)
        check(set(os.listdir(f"/proc/{pid}/root")) <= {"storage", "usr", "lib", "lib64", "bin", "sbin", "templates", "host0", "host1"}, os.listdir(f"/proc/{pid}/root"))


class Rootless(Storage):
    """In a user namespace as the keepers of an ordinary user have one: with one id, or a range behind it."""

    def __init__(self, lines, folder):
        maps = "".join("%d %d %d\n" % line for line in lines)
        script = f"""
import ctypes, os, sys
r, w = os.pipe()
parent = os.getpid()
if os.fork() == 0:
    os.read(r, 1)
    for kind in "ug":
        with open(f"/proc/{{parent}}/{{kind}}id_map", "w") as f: f.write({maps!r})
    os._exit(0)
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0
os.write(w, b"x")
assert os.wait()[1] == 0
os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
        self.prefix = (sys.executable, "-c", script)
        super().__init__(PROGRAM, folder)


def owners_of_rootless_servers():
    tree = archive(directory("0"), member("0/a", b"1", uid=5, gid=6, mode=0o4755), directory("0/d", uid=65535, gid=0), symlink("0/l", "x", uid=7), member("whole", b"4"))
    for lines, want in (([(0, 7000, 1)], lambda i: 7000), ([(0, 7000, 1), (1, 200000, 65536)], lambda i: 200000 + i)):
        folder = tempfile.mkdtemp(prefix="cordon-rootless-", dir="/var/tmp")
        os.chown(folder, 7000, 7000)
        w = Rootless(lines, folder)
        try:
            equal(w.hello["code"], 0, w.hello["msg"])
            equal(w.unpack("lay_a", tree, form=CAPTURE)["entries"], 4)
            for name, uid, gid in (("a", 5, 6), ("d", 65535, 0), ("l", 7, 0)):
                st = os.lstat(w.path("lay_a", name))
                equal((st.st_uid, st.st_gid), (want(uid), want(gid)), f"{name} with {lines}")
            equal(stat.S_IMODE(os.stat(w.path("lay_a", "a")).st_mode), 0o4755)
            st = os.stat(os.path.join(folder, "layers/lay_a"))
            equal((st.st_uid, stat.S_IMODE(st.st_mode)), (7000, 0o700), "the directory around it is the user's")
            w.fold("lay_b", ["lay_a"])
            equal(os.lstat(w.path("lay_b", "d")).st_uid, want(65535), "folded")
            w.remove("lay_a")
            equal(w.listed(), ["lay_b"])
        finally:
            w.stop()
            shutil.rmtree(folder)


def cells_of_rootless_servers():
    """With one id. Where a user has subordinate ids, cells are as above, and owners as in the test before."""
    tree = archive(directory("0"), directory("0/t"), member("0/t/a", b"hello\n", uid=5), member("0/t/b", b"b\n"), directory("1"), member("whole", b"5"))
    folder, programs = tempfile.mkdtemp(prefix="cordon-rootless-", dir="/var/tmp"), tempfile.mkdtemp(prefix="cordon-programs-", dir="/var/tmp")
    os.chown(folder, 7000, 7000)
    os.chmod(programs, 0o755)
    for name in ("storage_tool", "cordon-keeper", "cordon-init"):  # where the user can execute them
        shutil.copy(os.path.join(os.path.dirname(TOOL), name), programs)
    w = Rootless([(0, 7000, 1)], folder)
    stream = os.path.join(folder, "stream")

    def cell(stack, script):
        args = [os.path.join(programs, "storage_tool"), folder + "/layers", ",".join(stack), script, stream]
        done = subprocess.run(args, user=7000, group=7000, extra_groups=[], capture_output=True, text=True, cwd="/", timeout=60,
                              env={"HOME": folder, "PATH": os.environ["PATH"]})
        equal(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    try:
        w.unpack("lay_a", tree, form=CAPTURE)
        equal(cell(["lay_a"], "cat /t/a; stat -c %u /t/a; rm /t/a; rm -r /etc/ssl; mkdir /etc/ssl; echo c > /t/c; ln /t/c /t/d"), "hello\n1000\n")
        with open(stream, "rb") as f:
            w.ask(UNPACK, w.unpack_request("lay_b", CAPTURE), [f.fileno()])
        equal(os.listxattr(w.path("lay_b", "etc/ssl")), [], "attributes of overlayfs")
        equal(cell(["lay_a", "lay_b"], "ls /t /etc/ssl; stat -c %h /t/d"), "/etc/ssl:\n\n/t:\nb\nc\nd\n2\n")
    finally:
        w.stop()
        shutil.rmtree(folder)
        shutil.rmtree(programs)


def how_fast():
    """Prints; asserts nothing about time."""
    mib = int(os.environ.get("CORDON_CAPTURE_MIB", "200"))
    with World() as w:
        os.mkfifo(w.stream)
        script = f"mkdir /data; head -c {mib * 1048576 // 4} /dev/urandom > /data/0; for i in 1 2 3; do cp /data/0 /data/$i; done; true"
        args = [TOOL, os.path.join(w.folder, "layers"), "", script, w.stream]
        with subprocess.Popen(["timeout", "60", *args], stdout=subprocess.DEVNULL) as tool:
            with open(w.stream, "rb") as f:  # opens when the capture begins
                began = time.monotonic()
                got = w.ask(UNPACK, w.unpack_request("lay_a", CAPTURE, size=1 << 34), [f.fileno()])
                took = time.monotonic() - began
            equal(tool.wait(60), 0)
        check(got["bytes"] >= mib << 20, got)
        note(f"capture of {mib} MiB: {took:.2f} s, {mib * 1.048576 / took:.0f} MB/s, synced to disk")


TESTS = [changes_are_there_again, whiteouts_reach_through_layers, folds_stand_on_what_is_below, as_many_layers_as_a_cell_can_have, the_keeper_takes_layers_only,
         what_cannot_be_captured_is_told, hostile_streams_leave_nothing, killed_at_any_time_it_is_whole_or_absent, a_full_disk_is_told,
         late_ones_are_ended, one_program_for_a_folder, in_its_jail,
         owners_of_rootless_servers, cells_of_rootless_servers, how_fast]


def main():
    chosen = [t for t in TESTS if not sys.argv[3:] or t.__name__ in sys.argv[3:]]
    if os.getuid() != 0:
        print("1..0 # SKIP needs root")
        return 0
    print(f"1..{len(chosen)}")
    failed = False
    for i, test in enumerate(chosen, 1):
        name, began = test.__name__.replace("_", " "), time.monotonic()
        try:
            test()
            print(f"ok {i} - {name}\n# {time.monotonic() - began:.2f} s")
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}")
        except Exception:  # noqa: BLE001
            failed = True
            print(f"not ok {i} - {name}")
            for line in traceback.format_exc().splitlines():
                print("#", line[:1500])
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
