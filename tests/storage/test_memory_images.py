#!/usr/bin/python3
"""Goal: memory that cordon-storage was given comes back as it was, sealed; zeros take no room; it is whole or not there.

    test_memory_images.py CORDON_STORAGE [name ...]"""
import ctypes
import fcntl
import os
import shutil
import stat
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import MEMORY_SAVE, Storage  # noqa: E402
from checks import check, equal, wait_for  # noqa: E402
from storage_tests import refused, run  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2
WRITE_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
MIB = 1 << 20


class World(Storage):
    def __init__(self, folder=None):
        super().__init__(PROGRAM, folder=folder)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def file(self, layer, name):
        return os.path.join(self.folder, "layers", layer, name)


def memory(size, parts, seals=WRITE_SEALS):
    """A memfd with these bytes at these places."""
    fd = os.memfd_create("memory", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    for at, data in parts.items():
        os.pwrite(fd, data, at)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def empty():
    return os.memfd_create("empty", os.MFD_ALLOW_SEALING)


def taken(path):
    return os.stat(path).st_blocks * 512


def memory_comes_back_as_it_was():
    page = os.urandom(4096)
    parts = {0: page, 5 * 4096: page + page, 100 * MIB: bytes(MIB) + page + bytes(MIB), 256 * MIB - 4096: page}
    ram, devices = memory(256 * MIB, parts), memory(50_001, {0: os.urandom(50_001)})
    with World() as w:
        got = w.memory_save("lay_m", ram, devices)
        equal((got["bytes"], got["entries"]), (5 * 4096 + 50_001, 2), "zeros are not counted")
        check(taken(w.file("lay_m", "ram")) <= 64 << 10, "and take no room, although they were written once")
        for name in ("ram", "devices"):
            st = os.stat(w.file("lay_m", name))
            equal((st.st_uid, stat.S_IMODE(st.st_mode)), (0, 0o400), name)
        back, more = empty(), empty()
        got = w.memory_load("lay_m", back, more)
        equal(got["entries"], 2)
        for fd, was in ((back, ram), (more, devices)):
            same(was, fd)
            equal(fcntl.fcntl(fd, fcntl.F_GET_SEALS), WRITE_SEALS | fcntl.F_SEAL_SEAL)
            try:
                os.pwrite(fd, b"x", 0)
                raise AssertionError("sealed memory can be written")
            except PermissionError:
                pass
        check(os.fstat(back).st_blocks * 512 < 2 * MIB, "what was zero takes no memory")
        refused(lambda: w.memory_save("lay_m", ram, devices), "there is a layer")
        equal(w.listed(), ["lay_m"])
        w.remove("lay_m")
        refused(lambda: w.memory_load("lay_m", empty(), empty()), "no memory image")
        equal(w.names(), [])


def same(a, b):
    size = os.fstat(a).st_size
    equal(os.fstat(b).st_size, size)
    for at in range(0, size, MIB):
        check(os.pread(a, MIB, at) == os.pread(b, MIB, at), f"the bytes at {at}")


def a_copy_is_in_memory_only():
    page = os.urandom(4096)
    image = memory(256 * MIB, {0: page, 100 * MIB: bytes(MIB) + page + bytes(MIB)}), memory(50_001, {0: os.urandom(50_001)})
    with World() as w:
        copy = empty(), empty()
        equal(w.memory_copy(image, copy)["bytes"], 2 * 4096 + 50_001, "zeros are not counted")
        for was, fd in zip(image, copy):
            same(was, fd)
            equal(fcntl.fcntl(fd, fcntl.F_GET_SEALS), WRITE_SEALS | fcntl.F_SEAL_SEAL)
            check(os.fstat(fd).st_ino != os.fstat(was).st_ino, "it is the same file")
        equal(os.fstat(copy[0]).st_blocks * 512, 2 * 4096, "zeros take no memory")
        equal(w.names(), [], "nothing is on disk")
        refused(lambda: w.memory_copy(image, (empty(), empty()), size=MIB // 32), "more than")
        refused(lambda: w.memory_copy((memory(4096, {}, seals=0), image[1]), (empty(), empty())), "not sealed")
        refused(lambda: w.memory_copy(image, copy), "permitted")


def what_is_not_sealed_is_refused():
    good = memory(4096, {0: b"x"})
    with World() as w, tempfile.TemporaryFile() as file:
        file.write(b"x" * 4096)
        for bad in (memory(4096, {}, seals=fcntl.F_SEAL_WRITE), memory(4096, {}, seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW), file.fileno(),
                    os.open("/dev/zero", os.O_RDONLY), os.pipe()[0]):
            refused(lambda bad=bad: w.memory_save("lay_m", bad, good), "not sealed")
            refused(lambda bad=bad: w.memory_save("lay_m", good, bad), "not sealed")
        equal(w.names(), [])


def bounds_are_kept():
    """More than was admitted, and more than the disk holds: an answer, and nothing is left."""
    ram, devices = memory(128 * MIB, {0: os.urandom(120 * MIB)}), memory(4096, {0: b"d"})
    at = tempfile.mkdtemp(prefix="cordon-small-")
    if libc.mount(b"small", at.encode(), b"tmpfs", 0, b"size=100m") != 0:
        raise OSError(ctypes.get_errno(), "tmpfs")
    folder = os.path.join(at, "s")
    os.mkdir(folder)
    try:
        with World(folder) as w:
            refused(lambda: w.memory_save("lay_m", ram, devices, size=MIB), f"more than {MIB} bytes")
            refused(lambda: w.memory_save("lay_m", ram, devices), "full")
            refused(lambda: w.memory_save("lay_m", ram, devices, reserve=50), "storage_reserve")
            equal(w.names(), [])
    finally:
        libc.umount2(at.encode(), MNT_DETACH)
        os.rmdir(at)


def a_kill_leaves_all_or_nothing():
    ram, devices = memory(256 * MIB, {0: os.urandom(200 * MIB)}), memory(4096, {0: b"d"})
    with World() as w:
        w.send(MEMORY_SAVE, struct.pack("<IIQ72s", 0, 0, 1 << 36, b"lay_m"), [ram, devices])
        wait_for(lambda: any(n.startswith(".new-") for n in w.names()), name="the new directory")
        w.kill()
        check("lay_m" not in w.names(), "not whole, so not there")
        w.start()
        equal(w.names(), [], "after the next start")
        w.memory_save("lay_m", ram, devices)
        w.kill()
        w.start()
        back = empty()
        w.memory_load("lay_m", back, empty())
        check(os.pread(back, MIB, 199 * MIB) == os.pread(ram, MIB, 199 * MIB), "what was answered is on disk")


if __name__ == "__main__":
    if os.getuid() == 0 and (libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0):
        raise OSError(ctypes.get_errno(), "a mount namespace")
    sys.exit(run([memory_comes_back_as_it_was, a_copy_is_in_memory_only, what_is_not_sealed_is_refused, bounds_are_kept, a_kill_leaves_all_or_nothing], sys.argv[2:]))
