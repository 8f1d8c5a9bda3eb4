#!/usr/bin/python3
"""Goal: layers of images are unpacked by OCI's rules, and nothing that a hostile archive says is done outside of them.

    test_unpack.py UNPACK_TOOL [name ...]

Each rule is a test or a row of a table. The last test unpacks the same image with umoci and compares."""
import gzip
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, check, equal, has  # noqa: E402
from images import Image, archive, digest, directory, hard_link, member, symlink  # noqa: E402
from storage_tests import run  # noqa: E402

TOOL = os.path.abspath(sys.argv[1])
WHITEOUT = "whiteout"


class Stack:
    """A folder with layers, unpacked one above the other."""

    def __init__(self, within=None):
        self.folder = tempfile.mkdtemp(prefix="cordon-unpack-", dir=within)
        self.tops = []

    def __enter__(self):
        return self

    def __exit__(self, *why):
        shutil.rmtree(self.folder)

    def run(self, data, *options, size=1 << 30, entries=100000):
        top = os.path.join(self.folder, str(len(self.tops)))
        os.mkdir(top)
        got = subprocess.run([TOOL, *options, str(size), str(entries), top, *self.tops], input=data, stdout=subprocess.PIPE)
        return top, got.stdout.decode(errors="replace").strip()

    def add(self, *members, whole=False):
        data = archive(*members)
        top, said = self.run(data, *(["--whole"] if whole else []))
        check(said.startswith("ok "), said)
        equal(said.split()[3], digest(data)[7:], "hash of the stream")
        self.tops.append(top)
        return top

    def refuse(self, data, why, **more):
        top, said = self.run(data, **more)
        shutil.rmtree(top)
        check(said.startswith("error "), f"{why}: {said}")
        has(said, why)


def tree(top):
    """Names below top: of files the content, of links '-> target', of directories None."""
    found = {}
    for folder, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                value = "-> " + os.readlink(path)
            elif stat.S_ISDIR(st.st_mode):
                value = None
            elif stat.S_ISCHR(st.st_mode) and st.st_rdev == 0:
                value = WHITEOUT
            elif stat.S_ISFIFO(st.st_mode):
                value = "fifo"
            else:
                value = open(path, "rb").read().decode()
            found[os.path.relpath(path, top)] = value
    return found


BASE = [directory("d"), member("d/a", b"a"), member("d/b", b"b"), directory("d/s"), member("d/s/x", b"x"),
        directory("d/s/t"), member("d/s/t/y", b"y"), member("f", b"f"), symlink("l", "d"), directory("usr"),
        directory("usr/lib", mode=0o711, uid=3, gid=4), symlink("lib", "usr/lib"), symlink("abs", "/usr/lib")]


def above(*members):
    """What a layer with these members has, above BASE."""
    with Stack() as s:
        s.add(*BASE)
        return tree(s.add(*members))


def whiteouts_become_devices():
    equal(above(directory("d"), member("d/.wh.a"), member(".wh.f")), {"d": None, "d/a": WHITEOUT, "f": WHITEOUT})
    equal(above(member("d/.wh.missing")), {"d": None}, "nothing to hide")
    equal(above(member(".wh..wh.plnk"), directory(".wh..wh.orph"), member(".wh..wh.orph/x", b"1")), {}, "aufs")
    equal(above(member("d/.wh.s")), {"d": None, "d/s": WHITEOUT})


def opaque_directories_hide_each_name():
    hidden = {"d": None, "d/a": WHITEOUT, "d/b": WHITEOUT, "d/s": WHITEOUT}
    equal(above(directory("d"), member("d/.wh..wh..opq")), hidden)
    after = dict(hidden, **{"d/b": "new"})
    equal(above(member("d/.wh..wh..opq"), member("d/b", b"new")), after, "an entry behind it wins")
    equal(above(member("d/b", b"new"), member("d/.wh..wh..opq")), after, "an entry before it wins")
    deep = dict(hidden, **{"d/s": None, "d/s/x": WHITEOUT, "d/s/t": WHITEOUT, "d/s/new": "n"})
    equal(above(member("d/s/new", b"n"), member("d/.wh..wh..opq")), deep, "a directory of this layer hides what is in it")
    equal(above(member("d/.wh..wh..opq"), directory("d/s"), member("d/s/new", b"n")), deep)


def whiteout_and_entry_of_one_name():
    want = {"d": None, "d/s": None, "d/s/x": WHITEOUT, "d/s/t": WHITEOUT, "d/s/n": "n"}
    equal(above(member("d/.wh.s"), member("d/s/n", b"n")), want)
    equal(above(member("d/s/n", b"n"), member("d/.wh.s")), want)
    equal(above(member("d/.wh.a"), member("d/a", b"new")), {"d": None, "d/a": "new"})


def files_and_directories_replace_each_other():
    equal(above(member("d", b"now a file")), {"d": "now a file"})
    equal(above(directory("f"), member("f/in", b"1")), {"f": None, "f/in": "1"})
    equal(above(member("d", b"1"), directory("d"), member("d/n", b"n")),
          {"d": None, "d/a": WHITEOUT, "d/b": WHITEOUT, "d/s": WHITEOUT, "d/n": "n"})
    equal(above(directory("l"), member("l/n", b"n")), {"l": None, "l/n": "n"})
    equal(above(member("n", b"1"), member("n", b"2")), {"n": "2"})


def three_layers():
    with Stack() as s:
        s.add(*BASE)
        s.add(member("d/.wh.a"), member("d/s/z", b"z"))
        got = tree(s.add(member("d/.wh..wh..opq")))
        equal(got, {"d": None, "d/b": WHITEOUT, "d/s": WHITEOUT})
        got = tree(s.add(hard_link("again", "f")))
        equal(got, {"f": "f", "again": "f"})
        s.refuse(archive(hard_link("no", "d/b")), "not there")


def links_of_lower_layers_are_followed_inside():
    want = {"usr": None, "usr/lib": None, "usr/lib/n": "n"}
    equal(above(member("lib/n", b"n")), want)
    equal(above(member("abs/n", b"n")), want)
    equal(above(symlink("up", "../../../usr/lib"), member("up/n", b"n")), dict(want, up="-> ../../../usr/lib"))
    with Stack() as s:
        s.add(*BASE)
        top = s.add(member("lib/n", b"n"))
        st = os.stat(os.path.join(top, "usr/lib"))
        equal((stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid), (0o711, 3, 4), "a directory that is made for it is as below")


def links_lead_out_of_nowhere():
    victim = tempfile.mkdtemp(prefix="cordon-victim-")
    try:
        for target in (victim, "/" + "../" * 20 + victim, ".." * 1 + "/.." * 20 + victim):
            with Stack() as s:
                top = s.add(symlink("a", target), member("a/escaped", b"x"))
                equal(os.listdir(victim), [])
                has(tree(top), victim.lstrip("/") + "/escaped")
        with Stack() as s:
            open(os.path.join(victim, "secret"), "w").write("s")
            s.refuse(archive(symlink("a", victim), hard_link("b", "a/secret")), "not there")
            s.refuse(archive(symlink("a", "a"), member("a/b", b"x")), "too many links")
    finally:
        shutil.rmtree(victim)


def hard_links():
    with Stack() as s:
        s.add(*BASE)
        top = s.add(member("n", b"n"), hard_link("m", "./n"), hard_link("/k", "/d/b"))
        equal(tree(top), {"n": "n", "m": "n", "k": "b", "d": None, "d/b": "b"})
        for one, other in (("n", "m"), ("k", "d/b")):
            equal(os.stat(os.path.join(top, one)).st_ino, os.stat(os.path.join(top, other)).st_ino)
        top = s.add(hard_link("l2", "l"), hard_link("self", "n"), hard_link("n", "n"))
        equal(tree(top), {"l": "-> d", "l2": "-> d", "n": "n", "self": "n"})


def attributes():
    pax = {"SCHILY.xattr.user.x": "1", "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.opaque": "y",
           "SCHILY.xattr.security.selinux": "x"}
    with Stack() as s:
        top = s.add(member("f", b"1", mode=0o4755, uid=5, gid=6, mtime=12345, pax=pax),
                    directory("d", mode=0o1777, mtime=777), member("d/late", b"1"), member("big", uid=1 << 20, gid=70000),
                    member("old", mtime=-5), member("far", mtime=1 << 40),
                    directory("far.d", mtime=1 << 40))
        f = os.path.join(top, "f")
        st = os.stat(f)
        equal((stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_mtime), (0o4755, 5, 6, 12345))
        equal(sorted(os.listxattr(f)), ["user.x"])
        st = os.stat(os.path.join(top, "d"))
        equal((stat.S_IMODE(st.st_mode), st.st_mtime), (0o1777, 777), "the time of a directory is set at the end")
        st = os.stat(os.path.join(top, "big"))
        equal((st.st_uid, st.st_gid), (65534, 65534))
        equal(os.stat(os.path.join(top, "old")).st_mtime, -5, "a time before 1970")
        for name in ("far", "far.d"):
            check(os.stat(os.path.join(top, name)).st_mtime <= 1 << 33, f"an absurd time: {name}")


def times_before_1970():
    with Stack() as s:
        top = s.add(*(member(name, mtime=0, pax={"mtime": text}) for name, text in
                      (("a", "-1.25"), ("b", "-1000000000.000000001"), ("c", "-0.5"), ("d", "-99999999999"))),
                    directory("dir", mtime=0, pax={"mtime": "-3.75"}), member("dir/late", b"1"))
        got = {name: os.stat(os.path.join(top, name)).st_mtime_ns for name in ("a", "b", "c", "d", "dir")}
        equal(got, {"a": -1250000000, "b": -1000000000000000001, "c": -500000000, "d": -(1 << 31) * 10**9, "dir": -3750000000})
        top = s.add(archive(member("g", mtime=-86400), form=tarfile.GNU_FORMAT))  # as a binary number
        equal(os.stat(os.path.join(top, "g")).st_mtime, -86400)


NONE = 0xffffffff


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def pax_acl(**values):
    return {"SCHILY.xattr.system.posix_acl_" + name: value.decode("utf-8", "surrogateescape") for name, value in values.items()}


def lists_of_rights():
    mine = acl((1, 6, NONE), (2, 4, 1000), (4, 0, NONE), (8, 5, 33), (16, 7, NONE), (32, 0, NONE))
    far = acl((1, 6, NONE), (2, 4, 1 << 20), (4, 0, NONE), (16, 7, NONE), (32, 0, NONE))

    def read(top, name):
        return {a: os.getxattr(os.path.join(top, name), a) for a in os.listxattr(os.path.join(top, name))}
    with Stack() as s:
        top = s.add(directory("d", mode=0o770, pax=pax_acl(access=mine, default=mine)), member("d/plain", b"1"), directory("d/sub"),
                    member("d/p", kind=tarfile.FIFOTYPE), member("d/f", b"1", pax=pax_acl(access=mine)), member("far", pax=pax_acl(access=far)),
                    member("p", kind=tarfile.FIFOTYPE, pax=pax_acl(access=mine)))
        both = {"system.posix_acl_access": mine, "system.posix_acl_default": mine}
        equal(read(top, "d"), both)
        for name in ("d/plain", "d/sub", "d/p"):
            equal(read(top, name), {}, f"{name} inherits nothing: the archive gives it nothing")
        equal(stat.S_IMODE(os.stat(os.path.join(top, "d/plain")).st_mode), 0o644)
        for name in ("d/f", "p"):
            equal(read(top, name), {"system.posix_acl_access": mine})
        equal(read(top, "far"), {"system.posix_acl_access": far.replace(struct.pack("<I", 1 << 20), struct.pack("<I", 65534))})
        top = s.add(member("d/late", b"2"), hard_link("copy", "d/f"))  # d is made again in this layer, as it was
        equal((read(top, "d"), read(top, "d/late"), read(top, "copy")), (both, {}, {"system.posix_acl_access": mine}))
        for value, why in ((b"", "malformed"), (mine[:-1], "malformed"), (b"\3\0\0\0" + mine[4:], "malformed"),
                           (acl((2, 4, 1000)), "kernel refuses"), (acl(*[(1, 6, NONE)] * 1024), "kernel refuses"), (acl(*[(1, 6, NONE)] * 1025), "malformed")):
            s.refuse(archive(member("x", pax=pax_acl(access=value))), why)
        s.refuse(archive(member("x", pax={"SCHILY.acl.access": "user::rwx,user:bob:r--,group::r--,mask::r--,other::---"})), "ACL as text")


def kinds():
    with Stack() as s:
        top = s.add(member("c", kind=tarfile.CHRTYPE, dev=(1, 3)), member("b", kind=tarfile.BLKTYPE, dev=(8, 0)),
                    member("p", kind=tarfile.FIFOTYPE), member("/abs", b"a"), member("./dot//x", b"x"))
        equal(tree(top), {"p": "fifo", "abs": "a", "dot": None, "dot/x": "x"})
        equal(stat.S_IMODE(os.stat(os.path.join(top, "dot")).st_mode), 0o755, "missing parents")


def whole_root_file_systems_hide_nothing():
    with Stack() as s:
        equal(tree(s.add(member(".wh.x", b"1"), member(".wh..wh..opq"), whole=True)), {".wh.x": "1", ".wh..wh..opq": ""})


def sparse_files():
    with Stack() as s, tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "s"), "wb") as f:
            f.write(b"begin")
            f.seek(1 << 22)
            f.write(b"end")
        want = open(os.path.join(folder, "s"), "rb").read()
        for form in ("gnu", "posix", "oldgnu"):
            for version in ("0.0", "0.1", "1.0"):
                data = subprocess.run(["tar", "--sparse", "--format=" + form, "--sparse-version=" + version, "-C", folder,
                                       "-cf", "-", "s"], stdout=subprocess.PIPE, check=True).stdout
                top, said = s.run(data)
                check(said.startswith("ok "), said)
                made = os.path.join(top, "s")
                check(open(made, "rb").read() == want, f"content of {form} {version}")
                check(os.stat(made).st_blocks * 512 < 1 << 20, "it has holes")
                shutil.rmtree(top)


def hostile_archives_are_refused():
    long = "n" * 256
    rows = [
        ("..", [member("../a", b"x")]),
        ("..", [member("a/../../b", b"x")]),
        ("..", [hard_link("a", "../../etc/passwd")]),
        ("device 0:0", [member("w", kind=tarfile.CHRTYPE, dev=(0, 0))]),
        ("not there", [hard_link("a", "b")]),
        ("not there", [directory("d"), hard_link("a", "d")]),
        ("not a directory", [member("f", b"1"), member("f/x", b"2")]),
        ("without a name", [member("", b"1")]),
        ("without a name", [member("./", b"1")]),
        ("without a target", [symlink("a", "")]),
        ("without a target", [hard_link("a", "/")]),
        ("whiteout", [member(".wh.")]),
        ("whiteout", [member("d/.wh...")]),
        ("whiteout", [directory(".wh.d"), member(".wh.d/x", b"1")]),
        ("255 bytes", [member(long, b"1")]),
        ("levels", [member("/".join(["d"] * 300), b"1")]),
        ("unknown type", [member("m", kind=b"M")]),
        ("4096 bytes", [member("/".join(["d" * 200] * 25), b"1")]),
        ("checksum", [b"x" * 512]),
        ("number", [member("a", pax={"uid": "-1"})]),
    ]
    with Stack() as s:
        for why, members in rows:
            s.refuse(archive(*members), why)
        good = archive(member("a", b"1" * 5000))
        s.refuse(good[:-1024], "end marker")
        s.refuse(good[:2000], "ends in the middle")
        s.refuse(gzip.compress(good)[:-20], "too early")
        s.refuse(gzip.compress(good) + b"garbage", "gzip")
        s.refuse(b"", "end marker")
        s.refuse(archive(member("a", b"1" * 5000)), "bytes of files", size=4096)
        s.refuse(archive(*[member(str(i)) for i in range(20)]), "more than 10 files", entries=10)
        s.refuse(gzip.compress(archive(member("z", b"\0" * (200 << 20)))), "100 times")


def limits_of_an_order():
    """At their values, and one beyond: images have 10 GiB and a million files."""
    with Stack() as s:
        for data, most in ((archive(member("a", b"1" * 4096)), {"size": 4096}), (archive(*[member(str(i)) for i in range(10)]), {"entries": 10})):
            top, said = s.run(data, **most)
            shutil.rmtree(top)
            check(said.startswith("ok "), f"{most}: {said}")
        s.refuse(archive(member("a", b"1" * 4097)), "bytes of files", size=4096)
        s.refuse(archive(*[member(str(i)) for i in range(11)]), "more than 10 files", entries=10)


def zstd(data, window):
    """One frame of raw blocks that wants a window of this size: an exponent, and eighths of it."""
    blocks = [data[i : i + 65536] for i in range(0, len(data), 65536)]
    heads = [struct.pack("<I", (i == len(blocks) - 1) | len(b) << 3)[:3] for i, b in enumerate(blocks)]
    return struct.pack("<I", 0xFD2FB528) + b"\0" + bytes([window]) + b"".join(h + b for h, b in zip(heads, blocks))


def names_and_links_at_their_bounds():
    """A name of 256 parts, or of 4,095 bytes; 40 links on the way; a window of zstd of 128 MiB."""
    def chain(n):
        return [directory("l0"), *[symlink(f"l{i}", f"l{i - 1}") for i in range(1, n + 1)], member(f"l{n}/x", b"1")]

    def long(n):
        return "/".join(["d" * 250] * 16 + ["f" * (n - 16 * 251)])

    window = (27 - 10) << 3
    with Stack() as s:
        for data in (archive(member("/".join(["d"] * 256), b"1")), archive(member(long(4095), b"1"), form=tarfile.GNU_FORMAT),
                     archive(member(long(4095), b"1")), archive(*chain(40)), zstd(archive(member("z", b"1" * 5000)), window)):
            top, said = s.run(data)
            check(said.startswith("ok "), said)
            shutil.rmtree(top)
        s.refuse(archive(member("/".join(["d"] * 257), b"1")), "levels")
        s.refuse(archive(member(long(4096), b"1"), form=tarfile.GNU_FORMAT), "4096 bytes")
        s.refuse(archive(member(long(4096), b"1")), "4096 bytes")
        s.refuse(archive(*chain(41)), "too many links")
        s.refuse(zstd(archive(member("z", b"1" * 5000)), window + 1), "zstd")


def times_of_directories_at_their_bound():
    """64 MiB of paths and times are kept, for directories in which later members make files. The next one has the time of its file."""
    above = ["d" * 250] * 15
    deep = "/".join(above)
    parts = [16 + len("/".join(above[: i + 1])) + 1 for i in range(15)]  # a time and a path with its NUL
    most = ((64 << 20) - sum(parts)) // (16 + len(deep) + len("/00000") + 1)
    with Stack("/dev/shm" if os.path.isdir("/dev/shm") else None) as s:  # many small directories
        top, said = s.run(archive(*[directory("/".join(above[: i + 1])) for i in range(15)],
                                  *[directory(f"{deep}/{i:05}") for i in range(most + 1)],
                                  *[member(f"{deep}/{i:05}/f", b"1") for i in (0, most - 1, most)], form=tarfile.GNU_FORMAT))
        check(said.startswith("ok "), said)
        set_ = [os.stat(os.path.join(top, deep, f"{i:05}")).st_mtime == 1000 for i in (0, most - 1, most)]
        equal(set_, [True, True, False])


def what_follows_the_end_is_hashed():
    with Stack() as s:
        data = archive(member("a", b"1")) + b"\0" * 5000 + b"anything"
        _, said = s.run(data)
        equal(said.split()[3], digest(data)[7:])


def describe(root):
    """What can be compared of a tree."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            rel = os.path.relpath(path, root)
            row = [stat.S_IFMT(st.st_mode), st.st_uid, st.st_gid]
            if stat.S_ISLNK(st.st_mode):
                row.append(os.readlink(path))
            else:
                row.append(stat.S_IMODE(st.st_mode))
            if stat.S_ISREG(st.st_mode):
                row += [open(path, "rb").read(), int(st.st_mtime)]
            found[rel] = row
    return found


def merge(tops, into):
    """Layers in the form of overlay as one tree."""
    for top in tops:
        for folder, names, files in os.walk(top):
            for name in names + files:
                path = os.path.join(folder, name)
                to = os.path.join(into, os.path.relpath(path, top))
                st = os.lstat(path)
                is_dir = stat.S_ISDIR(st.st_mode)
                if os.path.lexists(to) and not (is_dir and stat.S_ISDIR(os.lstat(to).st_mode)):
                    (shutil.rmtree if stat.S_ISDIR(os.lstat(to).st_mode) else os.unlink)(to)
                if stat.S_ISCHR(st.st_mode):
                    continue
                if is_dir:
                    os.makedirs(to, exist_ok=True)
                    os.chown(to, st.st_uid, st.st_gid)
                    os.chmod(to, stat.S_IMODE(st.st_mode))
                elif stat.S_ISLNK(st.st_mode):
                    os.symlink(os.readlink(path), to)
                    os.lchown(to, st.st_uid, st.st_gid)
                else:
                    shutil.copyfile(path, to)
                    os.chown(to, st.st_uid, st.st_gid)
                    os.chmod(to, stat.S_IMODE(st.st_mode))
                    os.utime(to, (st.st_mtime, st.st_mtime))


def umoci_makes_the_same():
    if shutil.which("umoci") is None or os.getuid() != 0:
        raise Skip("needs root and umoci")
    layers = [
        BASE + [member("bin", b"#!x", mode=0o4755), hard_link("bin2", "bin"), member("deep/er/file", b"1", uid=7, gid=8)],
        [member("d/.wh.a"), member("lib/new", b"n"), directory("d/s"), member("d/s/.wh..wh..opq"), member("d/s/only", b"o"),
         hard_link("usr/lib/linked", "f"), member(".wh.l")],
        [member("d/.wh.s"), directory("d/s", mode=0o700), member("d/s/again", b"a"), member("f", b"new f", mtime=5),
         symlink("bin", "bin2"), member("deep/er/.wh..wh..opq"), member("deep/er/other", b"2")],
        [member("deep", b"now a file"), directory("l"), member("l/x", b"x"), member(".wh.abs")],
    ]
    image = Image([archive(*one) for one in layers])
    with Stack() as s, tempfile.TemporaryDirectory() as folder:
        for one in layers:
            s.add(*one)
        image.write_layout(os.path.join(folder, "layout"))
        subprocess.run(["umoci", "unpack", "--image", os.path.join(folder, "layout:latest"), os.path.join(folder, "bundle")],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        merged = os.path.join(folder, "merged")
        os.mkdir(merged)
        merge(s.tops, merged)
        ours, theirs = describe(merged), describe(os.path.join(folder, "bundle/rootfs"))
        equal(sorted(ours), sorted(theirs), "names")
        for name in ours:
            a, b = ours[name], theirs[name]
            equal(a, b, name)


TESTS = [whiteouts_become_devices, opaque_directories_hide_each_name, whiteout_and_entry_of_one_name,
         files_and_directories_replace_each_other, three_layers, links_of_lower_layers_are_followed_inside,
         links_lead_out_of_nowhere, hard_links, attributes, times_before_1970, lists_of_rights, kinds, whole_root_file_systems_hide_nothing, sparse_files,
         hostile_archives_are_refused, limits_of_an_order, names_and_links_at_their_bounds, times_of_directories_at_their_bound, what_follows_the_end_is_hashed, umoci_makes_the_same]


if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv[2:], root=False))
