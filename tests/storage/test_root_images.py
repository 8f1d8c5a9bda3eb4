#!/usr/bin/python3
"""Goal: a root image that cordon-storage writes has, for the kernel's erofs, exactly the files that a cell of the same layers would see.

    test_root_images.py CORDON_STORAGE [name ...]"""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import DIR, HOST, ROOT_MAKE, Storage  # noqa: E402
from checks import Skip, check, equal, wait_for  # noqa: E402
from images import archive, directory, hard_link, member, symlink  # noqa: E402
from storage_tests import refused, run  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_RDONLY, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 1, 0x4000, 1 << 18, 2
NO_ROOM = "full"


class World(Storage):
    def __init__(self, bases=(), folder=None):
        super().__init__(PROGRAM, bases=bases, folder=folder)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def image(self, layer):
        return os.path.join(self.folder, "layers", layer, "root.erofs")

    def make(self, layer, stack=(), **more):
        got = self.root_make(layer, stack, **more)
        check(fcntl.fcntl(got["fd"], fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY, "the descriptor reads only")
        equal(os.fstat(got["fd"]).st_size, got["bytes"])
        os.close(got["fd"])
        return got


def call(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def own_mounts():
    """Mounts of this process from here on are its own."""
    call(libc.unshare(CLONE_NEWNS), "unshare")
    call(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private")


@contextlib.contextmanager
def mounted(image):
    """The file system of the image, by the kernel: from the file itself, or by a loop device."""
    with open("/proc/filesystems", encoding="ascii") as f:
        if "\terofs\n" not in f.read():
            raise Skip("this kernel has no erofs")
    at = tempfile.mkdtemp(prefix="cordon-erofs-")
    device = None
    try:
        if libc.mount(image.encode(), at.encode(), b"erofs", MS_RDONLY, None) != 0:
            device = subprocess.run(["losetup", "-r", "-f", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
            call(libc.mount(device.encode(), at.encode(), b"erofs", MS_RDONLY, None), "mount erofs")
        yield at
    finally:
        libc.umount2(at.encode(), MNT_DETACH)
        if device:
            subprocess.run(["losetup", "-d", device], check=False)
        os.rmdir(at)


def attributes(path):
    if os.path.islink(path):
        return {}
    return {n: os.getxattr(path, n) for n in os.listxattr(path) if not n.startswith(("trusted.", "security.selinux"))}


def content(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def describe(top, links=True):
    """Every file below a directory: all that is to be seen of it."""
    seen, first = {}, {}
    for where, dirs, files in os.walk(top):
        for name in [""] * (where == top) + dirs + files:
            path = os.path.join(where, name) if name else top
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            rel = os.path.relpath(path, top)
            seen[rel] = {"mode": st.st_mode, "owner": (st.st_uid, st.st_gid), "mtime": st.st_mtime_ns, "attributes": attributes(path),
                         "size": st.st_size if kind == stat.S_IFREG else None, "device": st.st_rdev if kind in (stat.S_IFCHR, stat.S_IFBLK) else 0,
                         "content": content(path) if kind == stat.S_IFREG and st.st_size < 1 << 30 else None,
                         "link": os.readlink(path) if kind == stat.S_IFLNK else None}
            if links:
                seen[rel]["links"] = st.st_nlink if kind != stat.S_IFDIR else None
                seen[rel]["same"] = first.setdefault(st.st_ino, rel) if kind != stat.S_IFDIR and st.st_nlink > 1 else None
    return seen


def compare(got, want):
    equal(sorted(got), sorted(want), "the names")
    for name, entry in want.items():
        equal(got[name], entry, name)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


ACL = acl((1, 6, 0xFFFFFFFF), (2, 7, 1000), (4, 4, 0xFFFFFFFF), (8, 5, 65535), (0x10, 7, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF))
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


def fill(top):
    """A tree with a file of every kind."""
    def put(name, data=b"", mode=0o644):
        path = os.path.join(top, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)
        return path

    os.chmod(top, 0o755)
    for name in ("a", "a/b", "a/b/c", "empty", "proc"):
        os.mkdir(os.path.join(top, name))
    for size in (0, 1, 4095, 4096, 4097, 8192, 100001):
        put(f"a/file{size}", os.urandom(size))
    put("n" * 255, b"a long name")
    put("\udcff\udcfe not text", b"1")
    put("a/setuid", b"#!", 0o4755)
    os.chown(put("a/owned", b"x"), 1000, 65534)
    os.link(os.path.join(top, "a/file4097"), os.path.join(top, "a/b/again"))
    os.link(os.path.join(top, "a/file4097"), os.path.join(top, "0first"))
    for name, target in (("short", "x"), ("long", "t" * 4000), ("longest", "u" * 4095), ("up", "../../etc")):
        os.symlink(target, os.path.join(top, "a", "link-" + name))
    os.mkfifo(os.path.join(top, "a/fifo"), 0o600)
    os.mknod(os.path.join(top, "a/null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(os.path.join(top, "a/block"), stat.S_IFBLK | 0o660, os.makedev(259, 70000))
    os.setxattr(put("a/capable", b"1", 0o755), "security.capability", CAPABILITY)
    os.setxattr(put("a/acl", b"2", 0o670), "system.posix_acl_access", ACL)
    os.setxattr(os.path.join(top, "a/b"), "system.posix_acl_default", ACL)
    noted = put("a/noted", b"3")
    for name, value in (("user.a", b""), ("user.large", b"v" * 3000), ("user." + "n" * 200, b"\0\1")):
        with contextlib.suppress(OSError):  # what this file system keeps
            os.setxattr(noted, name, value)
    os.setxattr(os.path.join(top, "a"), "user.dir", b"d" * 900)
    for name, when in (("a/file1", -5_000_000_001), ("a/file4095", 4102444800123456789), ("a/b", 1_000_000_007)):
        os.utime(os.path.join(top, name), ns=(0, when))


def template_dir(make):
    """A template_dir with one template, which `make` fills."""
    top = tempfile.mkdtemp(prefix="cordon-templates-")
    os.mkdir(os.path.join(top, "t"))
    make(os.path.join(top, "t"))
    return top


def a_template_is_the_same_file_by_file():
    top = template_dir(fill)
    try:
        with World(bases=[top]) as w:
            got = w.make("lay_r", below=DIR, base="t")
            equal(got["entries"], 1)
            with mounted(w.image("lay_r")) as at:
                compare(describe(at), describe(os.path.join(top, "t")))
                equal(os.stat(os.path.join(at, "a")).st_nlink, 4 - 1, "links of a directory: itself, its name, a/b")
                check(os.stat(at).st_ino != 0, "no inode has the number 0")
            again = w.make("lay_again", below=DIR, base="t")
            equal(again["bytes"], got["bytes"])
            equal(content(w.image("lay_again")), content(w.image("lay_r")), "made twice, byte for byte")
            for_ever = w.root_open("lay_r")
            equal(os.fstat(for_ever["fd"]).st_ino, os.stat(w.image("lay_r")).st_ino)
            os.close(for_ever["fd"])
            refused(lambda: w.root_open("lay_none"), "there is no root image")
            refused(lambda: w.root_make("lay_r", below=DIR, base="t"), "there is a layer")
            if shutil.which("fsck.erofs"):
                subprocess.run(["fsck.erofs", w.image("lay_r")], check=True, capture_output=True)
    finally:
        shutil.rmtree(top)


def attributes_at_their_bounds():
    """A value of 65,535 bytes, and 512 names: those that EROFS has room for. A template with more has no image."""
    own_mounts()
    top = tempfile.mkdtemp(prefix="cordon-templates-")
    subprocess.run(["mount", "-t", "tmpfs", "none", top], check=True)  # which keeps so many
    try:
        os.mkdir(os.path.join(top, "t"))
        path = os.path.join(top, "t/f")
        open(path, "wb").close()
        try:
            os.setxattr(path, "user.v", b"v" * 65535)
        except OSError as e:
            raise Skip(f"this tmpfs keeps no such attributes: {e}") from None
        with World(bases=[top]) as w:
            w.make("lay_value", below=DIR, base="t")
            with mounted(w.image("lay_value")) as at:
                equal(os.getxattr(os.path.join(at, "f"), "user.v"), b"v" * 65535)
            os.setxattr(path, "user.v", b"v" * 65536)
            refused(lambda: w.make("lay_more", below=DIR, base="t"), "user.v")
            os.removexattr(path, "user.v")
            for i in range(512):
                os.setxattr(path, f"user.n{i}", b"")
            w.make("lay_names", below=DIR, base="t")
            with mounted(w.image("lay_names")) as at:
                equal(len(os.listxattr(os.path.join(at, "f"))), 512)
            os.setxattr(path, "user.more", b"")
            refused(lambda: w.make("lay_more", below=DIR, base="t"), "over 512 attributes")
            equal([n for n in w.names() if "more" in n], [])
    finally:
        subprocess.run(["umount", top], check=False)
        os.rmdir(top)


def layers_are_merged_as_in_a_cell():
    with World() as w:
        w.unpack("lay_1", archive(directory("d"), member("d/below", b"1"), member("d/gone", b"1"), directory("was"), member("was/x", b"1"),
                                  directory("opaque"), member("opaque/old", b"1"), member("file", b"1"), directory("deep/er")))
        w.unpack("lay_2", archive(member("d/.wh.gone"), member("d/above", b"2", uid=5), member("was", b"a file now"), member("file", b"2", mode=0o600),
                                  member("opaque/.wh..wh..opq"), member("opaque/new", b"2"), hard_link("linked", "d/above")), lower=["lay_1"])
        w.unpack("lay_3", archive(member(".wh.deep"), symlink("link", "d/above"), directory("d", mode=0o700)), lower=["lay_1", "lay_2"])
        w.make("lay_r", ["lay_1", "lay_2", "lay_3"])
        with mounted(w.image("lay_r")) as at:
            got = describe(at)
            equal(sorted(got), [".", "d", "d/above", "d/below", "file", "link", "linked", "opaque", "opaque/new", "was"])
            for name, text in (("d/below", "1"), ("file", "2"), ("was", "a file now"), ("link", "2"), ("linked", "2")):
                with open(os.path.join(at, name), encoding="ascii") as f:
                    equal(f.read(), text, name)
            equal(got["d/above"]["owner"], (5, 0))
            equal((got["linked"]["links"], got["linked"]["same"]), (2, got["d/above"]["same"]))
            equal((got["d"]["mode"], got["file"]["mode"]), (stat.S_IFDIR | 0o700, stat.S_IFREG | 0o600))


def places_of_the_host_template():
    """"/" and "/usr" are two trees, each with its own part of a layer; what "/" has at "usr" is covered."""
    top = tempfile.mkdtemp(prefix="cordon-host-")
    for name in ("root/etc", "root/usr/covered", "usr/bin", "templates"):
        os.makedirs(os.path.join(top, name))
    for name in ("root/etc/base", "usr/bin/tool"):
        with open(os.path.join(top, name), "w", encoding="ascii") as f:
            f.write(name)
    try:
        with World(bases=[os.path.join(top, "templates"), os.path.join(top, "root"), os.path.join(top, "usr")]) as w:
            w.unpack("lay_1", archive(member("etc/added", b"1")))
            os.makedirs(os.path.join(w.folder, "layers/lay_1/1/bin"))
            with open(os.path.join(w.folder, "layers/lay_1/1/bin/more"), "w", encoding="ascii") as f:
                f.write("2")
            w.make("lay_r", ["lay_1"], below=HOST, places=["usr"])
            with mounted(w.image("lay_r")) as at:
                equal(sorted(describe(at)), [".", "etc", "etc/added", "etc/base", "usr", "usr/bin", "usr/bin/more", "usr/bin/tool"])
            # Packages of the machine changed: requests name another root directory, and need no other cordon-storage.
            os.makedirs(os.path.join(top, "renewed/etc"))
            with open(os.path.join(top, "renewed/etc/installed"), "w", encoding="ascii") as f:
                f.write("3")
            w.make("lay_n", ["lay_1"], below=HOST, base="renewed", places=["usr"])
            with mounted(w.image("lay_n")) as at:
                equal(sorted(describe(at)), [".", "etc", "etc/added", "etc/installed", "usr", "usr/bin", "usr/bin/more", "usr/bin/tool"])
            refused(lambda: w.make("lay_x", below=HOST, base="none", places=["usr"]), "No such file")
            os.rmdir(os.path.join(top, "root/usr/covered"))
            os.rmdir(os.path.join(top, "root/usr"))
            w.make("lay_s", below=HOST, places=["usr"])
            with mounted(w.image("lay_s")) as at:
                equal(sorted(describe(at)), [".", "etc", "etc/base", "usr", "usr/bin", "usr/bin/tool"], "its place need not be there")
    finally:
        shutil.rmtree(top)


def a_directory_with_many_names():
    def make(top):
        for i in range(100_000):
            os.close(os.open(os.path.join(top, f"name-{i * 7919 % 100_000}"), os.O_CREAT | os.O_WRONLY, 0o644))

    top = template_dir(make)
    try:
        with World(bases=[top]) as w:
            w.make("lay_r", below=DIR, base="t")
            with mounted(w.image("lay_r")) as at:
                equal(sorted(os.listdir(at)), sorted(os.listdir(os.path.join(top, "t"))))
                for name in ("name-0", "name-99999", "name-50000"):
                    check(os.path.exists(os.path.join(at, name)), name)
                for name in ("name-", "name-100000", "zzz", "-"):
                    check(not os.path.exists(os.path.join(at, name)), name)
    finally:
        shutil.rmtree(top)


def a_file_of_five_gigabytes():
    size, marks = 5 << 30, {0: b"first", (4 << 30) + 12345: b"beyond four", (5 << 30) - 4: b"last"}

    def make(top):
        with open(os.path.join(top, "large"), "wb") as f:
            f.truncate(size)
            for at, text in marks.items():
                f.seek(at)
                f.write(text)
        with open(os.path.join(top, "zafter"), "wb") as f:
            f.write(b"behind it")

    top = template_dir(make)
    try:
        with World(bases=[top]) as w:
            refused(lambda: w.root_make("lay_s", below=DIR, base="t", size=4 << 30), "over 4096 MiB (guest_root_max)")
            equal(w.names(), [])
            got = w.make("lay_r", below=DIR, base="t")
            check(got["bytes"] > size, got)
            check(os.stat(w.image("lay_r")).st_blocks * 512 < 1 << 20, "holes stay holes in the file of the image")
            with mounted(w.image("lay_r")) as at, open(os.path.join(at, "large"), "rb") as f:
                equal(os.fstat(f.fileno()).st_size, size)
                for where, text in marks.items():
                    f.seek(where)
                    equal(f.read(len(text)), text)
                f.seek(3 << 30)
                equal(f.read(4096), bytes(4096))
                with open(os.path.join(at, "zafter"), "rb") as after:
                    equal(after.read(), b"behind it")
    finally:
        shutil.rmtree(top)


def a_full_disk_and_the_reserve_are_answered():
    """On a file system of 80 MB."""
    at = tempfile.mkdtemp(prefix="cordon-small-")
    top = template_dir(lambda path: [open(os.path.join(path, f"f{i}"), "wb").write(os.urandom(1 << 20)) for i in range(90)])
    call(libc.mount(b"small", at.encode(), b"tmpfs", 0, b"size=80m"), "tmpfs")
    folder = os.path.join(at, "s")
    os.mkdir(folder)
    try:
        with World(bases=[top], folder=folder) as w:
            refused(lambda: w.root_make("lay_r", below=DIR, base="t"), NO_ROOM)
            equal(w.names(), [])
            refused(lambda: w.root_make("lay_r", below=DIR, base="t", reserve=50), "storage_reserve")
            equal(w.names(), [])
    finally:
        libc.umount2(at.encode(), MNT_DETACH)
        os.rmdir(at)
        shutil.rmtree(top)


def a_kill_leaves_nothing():
    def make(top):
        for i in range(400):
            with open(os.path.join(top, f"f{i}"), "wb") as f:
                f.write(os.urandom(200_000))

    top = template_dir(make)
    try:
        with World(bases=[top]) as w:
            w.send(ROOT_MAKE, w.root_request("lay_r", below=DIR, base="t"))
            wait_for(lambda: any(n.startswith(".new-") for n in w.names()), name="the new directory")
            w.kill()
            equal([n for n in w.names() if not n.startswith(".new-")], [])
            w.start()
            equal(w.names(), [], "after the next start")
            w.make("lay_r", below=DIR, base="t")
            w.remove("lay_r")
            equal(w.names(), [])
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    if os.getuid() == 0:
        own_mounts()
    sys.exit(run([a_template_is_the_same_file_by_file, attributes_at_their_bounds, layers_are_merged_as_in_a_cell, places_of_the_host_template, a_directory_with_many_names,
                  a_file_of_five_gigabytes, a_full_disk_and_the_reserve_are_answered, a_kill_leaves_nothing], sys.argv[2:]))
