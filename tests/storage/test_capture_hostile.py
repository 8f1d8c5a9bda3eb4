#!/usr/bin/python3
"""Goal: a capture that is not whole, or that no cell can write, leaves nothing; nor does one that is killed, late or too large
for the disk.

    test_capture_hostile.py STORAGE_TOOL CORDON_STORAGE [name ...]

A real cordon-storage. Needs root."""
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from capture_world import PROGRAM, TOP, World, below  # noqa: E402
from channel import CAPTURE, UNPACK, Refused, Storage  # noqa: E402
from checks import Skip, check, equal, has, wait_for  # noqa: E402
from images import archive, directory, hard_link, member, symlink  # noqa: E402
from storage_tests import refused, run  # noqa: E402


def bad(name, why, *members, end=None, **more):
    """The end is right unless it is given."""
    return name, why, members, end, more


def sparse(name, text, data, real, **more):
    body = text.encode() + b"\0" * (-len(text) % 512) + data
    return member(name, body, pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": str(real)}, **more)


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


def a_guest_has_one_file_system():
    """What it changed below the places of its template belongs to those; they stay directories."""
    with World() as w:
        guest = {"form": CAPTURE, "places": ["usr"]}
        members = [TOP, directory("0/usr", mode=0o711), member("0/usr/x", b"1"), member("0/usrx", b"2"), directory("0/usr/d"),
                   hard_link("0/usr/d/l", "0/usr/x"), member("0/usr/d/gone", kind=tarfile.CHRTYPE), directory("0/a"), hard_link("0/a/l", "0/usr/x")]
        w.unpack("lay_x", archive(*members, member("whole", b"%d" % len(members))), **guest)
        top = os.path.join(w.folder, "layers", "lay_x")
        found = sorted(os.path.relpath(os.path.join(d, n), top) for d, dirs, files in os.walk(top) for n in dirs + files)
        equal(found, ["0", "0/a", "0/a/l", "0/usrx", "1", "1/d", "1/d/gone", "1/d/l", "1/x"])
        equal((os.stat(f"{top}/1").st_mode & 0o777, os.stat(f"{top}/1/x").st_nlink), (0o711, 3))
        w.unpack("lay_y", archive(TOP, member("whole", b"1")), **guest)
        equal(sorted(os.listdir(os.path.join(w.folder, "layers", "lay_y"))), ["0", "1"], "each place is there")
        for name, why, *members in (
            ("a place is removed", "not a path", member("0/usr", kind=tarfile.CHRTYPE)),
            ("a place is a link", "not a path", symlink("0/usr", "etc")),
            ("a place is a file", "not a path", member("0/usr", b"1")),
            ("up", "not a path", directory("0/usr"), member("0/usr/../x", b"1")),
            ("twice a slash", "not a path", directory("0/usr"), member("0/usr//x", b"1")),
            ("a link to the place", "not a path", hard_link("0/l", "0/usr")),
            ("the place by its number, twice", "File exists", member("0/usr/x", b"1"), member("1/x", b"2")),
        ):
            try:
                refused(lambda: w.unpack("lay_z", archive(TOP, *members, member("whole", b"%d" % (1 + len(members)))), **guest), why)
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from None
        equal(w.listed(), ["lay_x", "lay_y"])


def a_silent_guest_is_given_up():
    with World() as w:
        r, out = os.pipe()
        for sent in (b"", archive(TOP)[:512], archive(TOP, member("0/f", b"1" * 300000))[:100000]):
            began = time.monotonic()
            w.send(UNPACK, w.unpack_request("lay_a", CAPTURE, silence_ms=300), [r])
            writer = threading.Thread(target=os.write, args=(out, sent))
            writer.start()
            has(w.receive()["msg"], "nothing of the archive came for 300 ms")
            writer.join(20)
            check(time.monotonic() - began < 30, "it waits for the deadline")
            wait_for(lambda: w.names() == [], 10, "nothing left")
            os.close(r)
            os.close(out)
            r, out = os.pipe()
        os.close(r)
        os.close(out)


def big_stream(megabytes):
    return archive(TOP, *[member(f"0/f{i}", os.urandom(1 << 20)) for i in range(megabytes)], member("whole", b"%d" % (megabytes + 1)))


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


TESTS = [hostile_streams_leave_nothing, a_guest_has_one_file_system, a_silent_guest_is_given_up, killed_at_any_time_it_is_whole_or_absent, a_full_disk_is_told, late_ones_are_ended,
         one_program_for_a_folder]


if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv[3:]))
