#!/usr/bin/python3
"""Goal: what a cell changed is there again, byte by byte, in a cell that is made from its capture; through several
layers and folded ones, too.

    test_capture.py STORAGE_TOOL CORDON_STORAGE [name ...]

Real cells and a real cordon-storage. Needs root."""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from capture_world import LOOK, PROGRAM, TOOL, World, below  # noqa: E402
from channel import CAPTURE, DIR, HOST, UNPACK, Storage  # noqa: E402
from checks import check, equal, has, note  # noqa: E402
from images import archive, directory, member, symlink  # noqa: E402
from storage_tests import refused, run  # noqa: E402

NONE = 0xffffffff
CHANGE = r"""
set -e
mkdir /data && cd /data
echo hi > plain; chown 1000:1000 plain; chmod 640 plain
echo suid > suid; chown 0:65534 suid; chmod 4755 suid
mkdir sticky; chmod 1777 sticky; mkdir none; chmod 0 none; echo x > none/inside
ln plain hard; ln plain sticky/hard2; ln -s /no/where dangling; ln -s ../data loop; mkfifo -m 600 pipe
touch -d '2001-02-03 04:05:06.123456789' old; touch -h -d '1999-01-01' dangling
touch -d '1965-03-04 05:06:07.25' before; touch -d '1969-12-31 23:59:58 UTC' second; mkdir early; touch -d '1912-06-23 00:00:00.000000001' early
touch -d '2031-01-01 00:00:00.5' later; mkdir -p dir/a; touch -d '2010-10-10 10:10:10.000000001' dir/a dir
python3 - <<'E'
import os, socket
os.setxattr("plain", "user.note", b"a\0b\n"); os.setxattr("sticky", "user.dir", b"")
os.setxattr("suid", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
import struct
def acl(*entries):  # (tag, rights, id)
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
NOBODY = 0xffffffff
mine = acl((1, 6, NOBODY), (2, 4, 1000), (2, 7, 65534), (4, 0, NOBODY), (8, 5, 33), (16, 7, NOBODY), (32, 0, NOBODY))
os.mkdir("shared"); os.setxattr("shared", "system.posix_acl_access", mine)
open("shared/without", "w").close(); os.mkdir("shared/dir")
os.setxattr("shared", "system.posix_acl_default", mine)  # not what is there already, but all that follow
open("shared/inherits", "w").close(); os.mkdir("shared/below"); open("shared/below/too", "w").close()
open("shared/cleared", "w").close(); os.removexattr("shared/cleared", "system.posix_acl_access"); os.chmod("shared/cleared", 0o640)
os.mkfifo("shared/pipe"); os.mkfifo("fifo"); os.setxattr("fifo", "system.posix_acl_access", mine, follow_symlinks=False)
os.symlink("none", "shared/link")
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
    def acl(user):
        return struct.pack("<IHHIHHIHHIHHIHHI", 2, 1, 6, NONE, 2, 4, user, 4, 0, NONE, 16, 4, NONE, 32, 0, NONE)
    rights = {"SCHILY.xattr.system.posix_acl_access": acl(5).decode("utf-8", "surrogateescape")}
    tree = archive(directory("0"), member("0/a", b"1", uid=5, gid=6, mode=0o4755), directory("0/d", uid=65535, gid=0, pax=rights), symlink("0/l", "x", uid=7), member("whole", b"4"))
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
            found = {a: os.getxattr(w.path("lay_a", "d"), a) for a in os.listxattr(w.path("lay_a", "d"))}
            equal(found, {"system.posix_acl_access": acl(want(5))} if len(lines) > 1 else {}, "an ACL; with one id it means nothing")
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
    folder = tempfile.mkdtemp(prefix="cordon-rootless-", dir="/var/tmp")
    os.chown(folder, 7000, 7000)
    w = Rootless([(0, 7000, 1)], folder)
    stream = os.path.join(folder, "stream")

    def cell(stack, script):
        args = [TOOL, folder + "/layers", ",".join(stack), script, stream]
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
         what_cannot_be_captured_is_told, in_its_jail,
         owners_of_rootless_servers, cells_of_rootless_servers, how_fast]


if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv[3:]))
