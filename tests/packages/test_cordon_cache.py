#!/usr/bin/python3
"""cordon-cache over its channels.

Goal: what it gives out has the bytes that its hash says, whatever a cordon-egress that was taken over sends and wherever it
is killed; a view of one scope is not one of another; nothing is left of what was not stored completely; its bounds hold.

usage: test_cordon_cache.py CORDON_CACHE [name ...]
"""
import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "shared")]
from checks import Skip, check, equal, has, named_tests, run_tap, wait_for  # noqa: E402
import cache_channel as wire  # noqa: E402
from cache_channel import Cache, files_of, key, sha256  # noqa: E402

PROGRAM = ""
DICE = random.Random(16)
MIB = 1 << 20


class Bed:
    """A folder with a cordon-cache."""

    def __init__(self, **how):
        self.folder, self.how = tempfile.mkdtemp(prefix="cordon-cache-"), how
        self.cache = Cache(PROGRAM, self.folder, **how)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        code = self.cache.close()
        shutil.rmtree(self.folder)
        if args[0] is None:
            equal(code, 0, "exit status of cordon-cache; its log: " + "".join(self.cache.log[-5:]))

    def again(self, kill=False, **how):
        """Ends it and starts it again on the same folder."""
        code = self.cache.kill() if kill else self.cache.close()
        if not kill:
            equal(code, 0, "exit status: " + "".join(self.cache.log[-5:]))
        self.cache = Cache(PROGRAM, self.folder, **(self.how | how))

    def left(self):
        return [name for name in files_of(self.folder) if not name.startswith(("objects/", "views/")) and name != "seen"]


def test_stored_and_found():
    data = DICE.randbytes(3 * MIB + 17)
    with Bed() as bed:
        link = bed.cache.link()
        equal(link.find(key()), None, "of an empty cache")
        meta = ("\"abc\"", "Mon, 16 Nov 2026 10:00:00 GMT", "application/octet-stream")
        equal(link.store(key(), data, meta=meta), (True, sha256(data)), "stored")
        equal(link.find(key()), (list(meta), sha256(data), data), "found")
        equal(bed.cache.link().find(key()), (list(meta), sha256(data), data), "over another link")
        stats = bed.cache.stats()
        equal((stats["objects"], stats["views"], stats["bytes"], stats["stored"]), (1, 1, len(data), 1), "stats")
        bed.again()
        equal(bed.cache.link().find(key()), (list(meta), sha256(data), data), "after a restart")
        equal(bed.left(), [], "files left")


def test_scopes_are_apart():
    with Bed() as bed:
        link = bed.cache.link()
        for scope in ("public", "ten_a", "ten_b"):
            link.store(key(scope), f"of {scope}".encode())
        for scope in ("public", "ten_a", "ten_b"):
            equal(link.find(key(scope))[2], f"of {scope}".encode(), scope)
        equal(link.find(key("ten_c")), None, "a scope that stored nothing")
        # The parts of a key do not run into each other.
        equal(link.find(key("public", "npm npm.test/a", "/-/a-1.0.0.tgz")), None, "parts moved")
        link.send(wire.DROP, key("ten_a"))
        equal(link.find(key("ten_a")), None, "dropped")
        equal(link.find(key("ten_b"))[2], b"of ten_b", "the other one")
        # One object for all: it stays while any view names it.
        for scope in ("ten_x", "ten_y"):
            link.store(key(scope), b"the same")
        equal(bed.cache.stats()["objects"], 3, "objects")
        link.send(wire.DROP, key("ten_x"))
        equal(link.find(key("ten_y"))[2], b"the same", "still named")


def test_wrong_bytes_are_not_kept():
    with Bed() as bed:
        link = bed.cache.link()
        right = bytes.fromhex(sha256(b"right"))
        ok, why = link.store(key(), b"wrong", expected=right)
        check(not ok and "SHA-256" in why, why)
        ok, why = link.store(key(), b"12345", size=6)
        check(not ok and "fewer or more" in why, why)
        ok, why = link.store(key(), b"1234567", size=6)
        check(not ok and "fewer or more" in why, why)
        equal(link.store(key(), b"right", expected=right), (True, right.hex()), "the right one")
        equal(link.find(key())[2], b"right", "found")
        # A wrong one later does not take its place.
        link.store(key(), b"other", expected=right)
        equal(link.find(key())[2], b"right", "found after a wrong one")
        equal(bed.left(), [], "files left")


def test_aborted_or_left():
    with Bed() as bed:
        link = bed.cache.link()
        number, ours = link.begin(key())
        ours.sendall(b"x" * 100000)
        link.send(wire.ABORT, number=number)
        ours.close()
        number, ours = link.begin(key(path="/b"))
        ours.sendall(b"x" * 100000)
        ours.close()  # and no COMMIT
        equal(link.find(key()), None, "aborted")
        equal(link.find(key(path="/b")), None, "not committed")
        link.close()
        wait_for(lambda: bed.left() == [], 10, "no file of the link that ended")
        equal(bed.cache.stats()["objects"], 0, "objects")


def test_replaced_and_touched():
    with Bed() as bed:
        link = bed.cache.link()
        link.store(key(), b"one", meta=("\"1\"", "", "text/plain"))
        before = link.find(key()) and link.fetched
        wait_for(lambda: time.time() * 1000 > before + 1, 5, "the next millisecond")
        link.send(wire.TOUCH, key() + wire.string("\"1b\"") + wire.string("") + wire.string(""))
        equal(link.find(key()), (["\"1b\"", "", "text/plain"], sha256(b"one"), b"one"), "touched")
        check(link.fetched > before, "a later time")
        link.store(key(), b"two")
        equal(link.find(key())[2], b"two", "replaced")
        equal(bed.cache.stats()["objects"], 1, "the object that no view names is gone")
        # Nothing can be confirmed that is not there.
        link.send(wire.TOUCH, key(path="/none") + wire.string("e") * 3)
        equal(link.find(key(path="/none")), None, "touched, but never stored")


def test_no_more_than_its_size():
    with Bed(size=20 * MIB) as bed:
        link = bed.cache.link()
        for i in range(12):
            check(link.store(key(path=f"/{i}"), DICE.randbytes(MIB - 1))[0], f"file {i}")
        bed.again(size=20 * MIB)
        link = bed.cache.link()
        equal(link.find(key(path="/0"))[1] != "", True, "used now")
        for i in range(12, 40):
            check(link.store(key(path=f"/{i}"), DICE.randbytes(MIB - 1))[0], f"file {i}")
            if i == 20:
                bed.again(size=20 * MIB)  # what was just given out may go after that
                link = bed.cache.link()
                link.find(key(path="/0"))
        stats = bed.cache.stats()
        check(stats["bytes"] <= 20 * MIB and stats["evicted"] > 0, f"{stats}")
        check(link.find(key(path="/0")) is not None, "what was used stays")
        check(link.find(key(path="/1")) is None, "what was not used went")
        before = bed.cache.stats()["objects"]
        ok, why = link.store(key(path="/huge"), bytes(6 * MIB))
        check(not ok and "full" in why, why)
        check(bed.cache.stats()["objects"] >= before - 5, "a large file pushes out at most a quarter")
        equal(bed.left(), [], "files left")


def test_bytes_of_an_object():
    """One object has at most a quarter of the cache, or 8 GiB of a larger one, by the same comparison."""
    with Bed(size=20 * MIB) as bed:
        link = bed.cache.link()
        ok, why = link.store(key(path="/most"), bytes(5 * MIB))
        check(ok, why)
        ok, why = link.store(key(path="/more"), bytes(5 * MIB + 1))
        check(not ok and "full" in why, why)
        equal((link.find(key(path="/most")) is not None, link.find(key(path="/more"))), (True, None), "what is kept")


def test_number_of_files():
    with Bed(files=20) as bed:
        link = bed.cache.link()
        for i in range(30):
            link.store(key(path=f"/{i}"), f"{i}".encode())
        stats = bed.cache.stats()
        check(stats["objects"] + stats["views"] <= 20, f"{stats}")
        check(len(files_of(bed.folder)) <= 21, "files on disk")


def test_disk_full():
    if os.geteuid() != 0:
        raise Skip("mounts a small tmpfs")
    folder = tempfile.mkdtemp(prefix="cordon-cache-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
    try:
        cache = Cache(PROGRAM, folder)
        link = cache.link()
        check(link.store(key(path="/small"), bytes(MIB))[0], "a small one")
        ok, why = link.store(key(path="/large"), DICE.randbytes(12 * MIB))
        check(not ok and "full" in why, why)
        check(link.store(key(path="/next"), bytes(MIB))[0], "the next small one")
        equal(link.find(key(path="/large")), None, "nothing of the large one")
        equal([x for x in files_of(folder) if x.startswith("tmp/")], [], "files left")
        equal(cache.close(), 0, "exit status")
        # Others fill the disk into the reserve: nothing is stored, and what is there is found.
        with open(f"{folder}/other", "wb") as f:
            f.write(bytes(5 * MIB))
        cache = Cache(PROGRAM, folder, reserve=50)
        link = cache.link()
        ok, why = link.store(key(path="/more"), bytes(1000))
        check(not ok and "full" in why, why)
        check(link.find(key(path="/small")) is not None, "what is there was not removed in vain")
        equal(cache.close(), 0, "exit status")
        has("".join(cache.log), "is full")
    finally:
        cache.control.close()
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def test_damaged_files():
    data = DICE.randbytes(100000)
    with Bed() as bed:
        link = bed.cache.link()
        for i in range(4):
            link.store(key(path=f"/{i}"), data + bytes([i]))
        link.store(key(path="/torn"), b"torn")
        names = {path[2]: digest for path, (digest, _) in bed.cache.list().items()}
        objects = {p: f"{bed.folder}/objects/{names[p][:2]}/{names[p][2:]}" for p in names}
        bed.cache.close()
        os.chmod(objects["/0"], 0o600)
        with open(objects["/0"], "r+b") as f:  # as long as before
            f.write(b"??")
        os.truncate(objects["/1"], 99)
        os.unlink(objects["/2"])
        for name in files_of(bed.folder):
            if name.startswith("views/") and b"/torn" in open(f"{bed.folder}/{name}", "rb").read():
                os.truncate(f"{bed.folder}/{name}", 50)
        for junk in ("objects/00/junk", "views/ff/junk", "tmp/77"):
            open(f"{bed.folder}/{junk}", "w").close()
        bed.cache = Cache(PROGRAM, bed.folder)
        link = bed.cache.link()
        equal(link.find(key(path="/1")), None, "shorter than its view says")
        equal(link.find(key(path="/2")), None, "its object is gone")
        equal(link.find(key(path="/torn")), None, "a torn view")
        equal(link.find(key(path="/3"))[2], data + b"\3", "an untouched one")
        wait_for(lambda: bed.cache.stats()["bad"] == 1, 20, "the sample at the start finds the changed one")
        equal(link.find(key(path="/0")), None, "changed bytes")
        equal(bed.cache.order(wire.VERIFY)[0], 1, "objects verified")
        equal([x for x in files_of(bed.folder) if "junk" in x or x.startswith("tmp/")], [], "junk")


def test_orders():
    with Bed() as bed:
        link = bed.cache.link()
        for i in range(60):
            link.store(key("public" if i % 2 else "ten_a", path=f"/{i}/" + "p" * 1500), f"{i}".encode() * 1000)
        listed = bed.cache.list()
        equal(len(listed), 60, "views listed")
        for (scope, _, path), (digest, size) in listed.items():
            i = int(path.split("/")[1])
            equal((digest, size, scope), (sha256(f"{i}".encode() * 1000), len(f"{i}") * 1000, "public" if i % 2 else "ten_a"), path)
        count, _, _ = bed.cache.order(wire.VERIFY)
        equal(count, 60, "verified")
        check(bed.cache.order(wire.GC, struct.pack("<Q", 10000))[0] > 0, "collected")
        check(bed.cache.stats()["bytes"] <= 10000, "bytes left")
        bed.cache.order(wire.GC, struct.pack("<Q", 0))
        equal((bed.cache.list(), files_of(bed.folder)), ({}, ["seen"]), "all removed")


def test_first_sight():
    with Bed() as bed:
        link = bed.cache.link()
        for _ in range(2):
            equal(link.seen("mod@v1.0.0", ask=wire.KNOWN), 0, "to ask is not to note")
        first = link.seen("mod@v1.0.0")
        equal(link.seen("mod@v1.0.0", ask=wire.KNOWN), first, "asked, after it was noted")
        check(abs(first / 1000 - time.time()) < 60, "now")
        wait_for(lambda: time.time() * 1000 > first + 1, 5, "the next millisecond")
        equal(link.seen("mod@v1.0.0"), first, "again")
        check(link.seen("mod@v1.0.0", scope="ten_a") > first, "of another scope")
        check(link.seen("mod@v1.0.1") > first, "another version")
        bed.again(kill=True)
        link = bed.cache.link()
        equal(link.seen("mod@v1.0.0"), first, "after kill -9")
        bed.cache.close()
        with open(f"{bed.folder}/seen", "ab") as f:
            f.write(b"torn")
        bed.cache = Cache(PROGRAM, bed.folder)
        link = bed.cache.link()
        equal(link.seen("mod@v1.0.0"), first, "after a torn record")
        later = link.seen("mod@v2")
        bed.again()
        equal(bed.cache.link().seen("mod@v2"), later, "stored after the torn one")


def closes(link):
    try:
        while True:
            link.receive()
    except (EOFError, ConnectionError):
        return True


def test_taken_over_egress():
    """Whatever comes over a link, the others go on, and what they stored stays."""
    with Bed() as bed:
        good = bed.cache.link()
        good.store(key(), b"good")
        pipe = os.pipe()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        packets = [b"", b"\1", struct.pack("<HI", 999, 1), struct.pack("<HI", wire.FOUND, 1), struct.pack("<HI", wire.FIND, 0) + key(),
                   struct.pack("<HI", wire.FIND, 1) + key() + b"x", struct.pack("<HI", wire.FIND, 1) + key(path="p" * 3000),
                   struct.pack("<HI", wire.FIND, 1) + key(path="a\0b"), struct.pack("<HI", wire.LINK, 1) + bytes(4),
                   struct.pack("<HI", wire.GC, 1) + bytes(8), struct.pack("<HI", wire.STORE, 1) + key() + wire.string("") * 3 + bytes(33),
                   bytes(wire.PACKET + 1)] + [DICE.randbytes(DICE.randrange(1, 300)) for _ in range(200)]
        for packet in packets[1:]:
            bad = bed.cache.link(slot=9)
            bad.raw(packet)
            with contextlib.suppress(BrokenPipeError):
                bad.raw(struct.pack("<HI", 777, 1))
            check(closes(bad), "closed")
        # Descriptors in the wrong place, and of the wrong kind.
        for kind, fds in ((wire.FIND, [pipe[0]]), (wire.STORE, [pipe[0]] * 3)):
            bad = bed.cache.link(slot=9)
            bad.send(kind, key() + (wire.string("") * 3 + bytes(33) if kind == wire.STORE else b""), fds)
            check(closes(bad), "closed")
        bad = bed.cache.link(slot=9)
        for fd in (pipe[0], listener.fileno(), os.open("/dev/zero", os.O_RDONLY)):
            number = bad.send(wire.STORE, key() + wire.string("") * 3 + bytes(33), [fd])
            check(not bad.stored(number)[0], "not a stream socket")
        # The same number twice.
        bad.begin(key(path="/x"), number=500)
        with contextlib.suppress(BrokenPipeError):
            bad.begin(key(path="/y"), number=500)
        check(closes(bad), "closed")
        # A name of a view can be taken by anybody with a link, but only for bytes under their own hash.
        equal(good.find(key())[2], b"good", "what the other link stored")
        equal(bed.left(), [], "files left")
        equal(bed.cache.stats()["objects"], 1, "objects")
        os.close(pipe[0])
        os.close(pipe[1])
        listener.close()


def test_floods():
    with Bed() as bed:
        good, bad = bed.cache.link(), bed.cache.link()
        good.store(key(), b"good")
        # Files that are begun and never end: the next is refused, those of others are not.
        held = [bad.begin(key(path=f"/{i}")) for i in range(128)]
        number, ours = bad.begin(key(path="/more"))
        check(not bad.stored(number)[0], "one more than may be stored at a time")
        ours.close()
        check(good.store(key(path="/g"), b"g")[0], "of another link")
        for number, ours in held:
            bad.send(wire.ABORT, number=number)
            ours.close()
        # Questions whose answers nobody reads: it stops asking them, and others are answered.
        bad.sock.setblocking(False)
        sent = 0
        try:
            while sent < 100000:
                bad.send(wire.FIND, key())
                sent += 1
        except BlockingIOError:
            pass
        check(sent < 100000, "the flood was stopped")
        for _ in range(50):
            equal(good.find(key())[2], b"good", "of another link meanwhile")
        with open(f"/proc/{bed.cache.pid}/status", encoding="ascii") as f:
            rss = int(next(line for line in f if line.startswith("VmRSS")).split()[1])
        check(rss < 64 * 1024, f"{rss} KiB")
        check(len(os.listdir(f"/proc/{bed.cache.pid}/fd")) < 400, "descriptors")


def test_aborted_while_the_disk_writes():
    """A file that is aborted after its COMMIT counts until the disk has it: no more are open than may be stored at once."""
    with Bed() as bed:
        link = bed.cache.link()
        bed.cache.stats()
        folder = f"/proc/{bed.cache.pid}/fd"
        before, most = len(os.listdir(folder)), 0
        for i in range(3000):
            number, ours = link.begin(key(path=f"/{i}"))
            with contextlib.suppress(BrokenPipeError):
                ours.sendall(b"x%d" % i)
            ours.close()
            link.commit(number, len(b"x%d" % i))
            if i >= 60:
                link.send(wire.ABORT, number=number - 60)
            if i % 100 == 99:
                link.sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        link.receive()
                link.sock.settimeout(20)
                most = max(most, len(os.listdir(f"{bed.folder}/tmp")))
        check(most <= 128, f"{most} files open at once, where 128 may be stored")
        for n in range(number - 60, number + 1):
            link.send(wire.ABORT, number=n)
        wait_for(lambda: len(os.listdir(folder)) <= before + 1, 20, "all are closed")
        wait_for(lambda: not bed.left(), 20, "no file is left")  # one of them may be closed last
        check(link.store(key(path="/after"), b"after")[0], "stored afterwards")


def test_objects_without_views_at_the_start():
    """Those of a folder whose views are gone: all are removed, in several turns, and the others stay."""
    with Bed() as bed:
        check(bed.cache.link().store(key(path="/stays"), b"stays")[0], "one with a view")
        bed.cache.close()
        for i in range(1000):
            name = sha256(b"%d" % i)
            os.makedirs(f"{bed.folder}/objects/{name[:2]}", exist_ok=True)
            with open(f"{bed.folder}/objects/{name[:2]}/{name[2:]}", "wb") as f:
                f.write(b"%d" % i)
        bed.cache = Cache(PROGRAM, bed.folder)
        check(bed.cache.link().find(key(path="/stays")), "the one with a view")
        equal(len(files_of(f"{bed.folder}/objects")), 1, "objects left")
        equal(bed.cache.stats()["objects"], 1, "objects that it knows")


def test_many_views_of_one_object():
    """The same bytes at many places: an object goes with all its views in one turn, so they are bounded."""
    with Bed() as bed:
        link = bed.cache.link()
        for i in range(300):
            check(link.store(key(path=f"/{i}"), b"{}")[0], f"view {i}")
        stats = bed.cache.stats()
        equal((stats["objects"], stats["views"]), (1, 256), "objects and views")
        check(link.find(key(path="/0")) is None and link.find(key(path="/43")) is None, "the oldest were dropped")
        check(link.find(key(path="/44")) is not None and link.find(key(path="/299")) is not None, "the others stay")
        check(link.store(key(path="/44"), b"{}")[0], "the same again")
        equal(bed.cache.stats()["views"], 256, "views afterwards")
        bed.again()
        check(bed.cache.link().find(key(path="/299")) is not None, "the newest after a restart")
        equal(bed.cache.stats()["views"], 256, "views after a restart")


def test_other_bytes_after_the_commit():
    """The sender keeps its end, and the file: what it writes later changes nothing."""
    with Bed() as bed:
        link = bed.cache.link()
        number, ours = link.begin(key())
        ours.sendall(b"bytes")
        link.commit(number, 5)
        ours.sendall(b"more")
        ours.close()
        check(not link.stored(number)[0], "more bytes than announced")
        equal(link.find(key()), None, "nothing stored")


def test_killed_at_random():
    """kill -9 while files are stored and replaced: each is whole and right, or not there; nothing else is left."""
    files = {f"/{i}": DICE.randbytes(DICE.choice((10, 5000, 300000, 2 * MIB))) for i in range(12)}
    whole = 0
    with Bed(size=30 * MIB) as bed:
        for turn in range(12):
            link = bed.cache.link()
            end = time.monotonic() + DICE.uniform(0.005, 0.25)
            held = []
            while time.monotonic() < end:
                path = DICE.choice(list(files))
                number, ours = link.begin(key(path=path))
                ours.settimeout(0.5)
                try:
                    ours.sendall(files[path] + (b"" if turn % 2 else bytes([turn])))
                except OSError:
                    pass
                if DICE.random() < 0.8:
                    ours.close()
                    link.commit(number, len(files[path]) + (0 if turn % 2 else 1))
                else:
                    held.append(ours)
            bed.again(kill=True)
            link = bed.cache.link()
            for path, data in files.items():
                found = link.find(key(path=path))
                if found is not None:
                    whole += 1
                    check(found[2][:len(data)] == data and len(found[2]) <= len(data) + 1, f"{path} has other bytes")
                    equal(sha256(found[2]), found[1], "hash")
            equal(bed.left(), [], "files left")
            stats = bed.cache.stats()
            equal(len(files_of(bed.folder)), stats["objects"] + stats["views"] + 1, "files on disk")
    check(whole > 0, "no file was ever found after a kill")


def test_no_network_no_other_files():
    with Bed() as bed:
        bed.cache.link().store(key(), b"x")
        with open(f"/proc/{bed.cache.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines())
        equal((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), "filter")
        for task in os.listdir(f"/proc/{bed.cache.pid}/task"):
            with open(f"/proc/{bed.cache.pid}/task/{task}/status", encoding="ascii") as f:
                has(f.read(), "Seccomp:\t2")


def test_only_its_user_can_read():
    with Bed() as bed:
        bed.cache.link().store(key(), b"x")
        for folder, _, files in os.walk(bed.folder):
            for name in files if folder == bed.folder else [".", *files]:
                mode = os.stat(os.path.join(folder, name)).st_mode & 0o777
                equal(mode & 0o077, 0, f"{oct(mode)} of {folder}/{name}: bits for others")


def main():
    global PROGRAM
    PROGRAM = sys.argv[1]
    return run_tap(named_tests(globals(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
