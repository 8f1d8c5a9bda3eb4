#!/usr/bin/python3
"""watch: what changes is told, what cannot be told is said, and it ends when nobody listens."""
import errno
import os
import time

import lib
from lib import Watch, check, chunks, equal, run


def ready(w):
    equal(w.next()["kind"], "ready", "first record")
    return w


def test_one_directory(d):
    (d / "sub").mkdir()
    (d / "f").write_bytes(b"1")
    with Watch("watch", d, "-") as w:
        ready(w)
        (d / "new").touch()
        w.until("create", "new")
        (d / "f").write_bytes(b"2")
        w.until("write", "f")
        (d / "f").chmod(0o600)
        w.until("chmod", "f")
        os.rename(d / "f", d / "g")
        w.until("rename", "f", "g")
        os.unlink(d / "g")
        w.until("remove", "g")
        (d / "sub/unseen").touch()
        (d / "last").touch()
        before = w.until("create", "last")
        check(all(p is None or not p.startswith("sub/") for _, p, _ in before), f"not recursive, but {before}")


def test_tree(d):
    (d / "a/b").mkdir(parents=True)
    with Watch("watch", d, "recursive") as w:
        ready(w)
        (d / "a/b/f").write_bytes(b"1")
        w.until("create", "a/b/f")
        (d / "n/e/s/t").mkdir(parents=True)
        (d / "n/e/s/t/f").write_bytes(b"1")
        w.until("create", "n/e/s/t/f")
        time.sleep(0.2)  # the tool watches the new directories; nothing shows it
        (d / "n/e/s/t/g").touch()
        w.until("create", "n/e/s/t/g")
        # A directory that is renamed takes its watches along.
        os.rename(d / "n/e", d / "a/x")
        w.until("rename", "n/e", "a/x")
        (d / "a/x/s/t/h").touch()
        w.until("create", "a/x/s/t/h")
        os.unlink(d / "a/x/s/t/h")
        w.until("remove", "a/x/s/t/h")


def test_moves_in_and_out(d):
    (d / "w/d/deep").mkdir(parents=True)
    (d / "o/new/sub").mkdir(parents=True)
    (d / "o/new/sub/f").touch()
    with Watch("watch", d / "w", "recursive") as w:
        ready(w)
        os.rename(d / "w/d", d / "o/d")
        w.until("rename", "d")
        (d / "o/d/deep/unseen").touch()
        os.rename(d / "o/new", d / "w/new")
        before = w.until("create", "new")
        equal(before, [], "what is out of the tree is not told")
        w.until("create", "new/sub/f")
        (d / "w/new/sub/g").touch()
        w.until("create", "new/sub/g")


def test_our_own_writes(d):
    (d / "old").write_bytes(b"1")
    with Watch("watch", d, "recursive") as w:
        ready(w)
        run("write", d / "old", "-", "-", "-", 100, data=chunks(b"2")).ok()
        equal(w.until("chmod", "old"), [], "an atomic replacement is a change of owner")
        equal(w.until("write", "old"), [], "and a write, and nothing else")
        run("write", d / "new", "-", "-", "-", 100, data=chunks(b"2")).ok()
        equal(w.until("create", "new"), [], "a new file is created")
        equal(w.until("chmod", "new"), [], "given to its user")
        equal(w.until("write", "new"), [], "and written")
        run("write", d / "empty", "-", "-", "-", 100, data=chunks(b"")).ok()
        equal(w.until("create", "empty"), [], "nothing in between")
        equal(w.until("chmod", "empty"), [], "an empty one, too")
        equal(w.until("write", "empty"), [], "an empty one, too")
        equal(((d / "new").read_bytes(), (d / "empty").stat().st_size), (b"2", 0), "what they hold")
        run("write", d / "old", "-", "-", "a", 100, data=chunks(b"2")).ok()
        w.until("write", "old")


def test_the_directory_goes(d):
    (d / "w").mkdir()
    with Watch("watch", d / "w", "-") as w:
        ready(w)
        os.rmdir(d / "w")
        w.until("gone", "")
        equal(w.p.wait(10), 0, "exit status")


def test_ends_when_nobody_listens(d):
    w = ready(Watch("watch", d, "recursive"))
    w.p.stdout.close()
    equal(w.p.wait(10), 0, "exit status")  # without any event


def test_overflow_is_told(d):
    with open("/proc/sys/fs/inotify/max_queued_events") as f:
        queue = int(f.read())
    if queue > 100_000:
        raise lib.Skip(f"the queue holds {queue} events")
    with Watch("watch", d, "-") as w:
        ready(w)
        # Nobody reads: our pipe fills, then the kernel's queue.
        names = [d / (c * 200) for c in "ab"]
        for n in names:
            n.touch()
        for i in range(queue + 20_000):
            os.chmod(names[i % 2], 0o600)
        w.until("overflow", "")
        time.sleep(0.5)  # the queue is read empty
        while w.next(0.5) is not None:
            pass
        (d / "last").touch()
        w.until("create", "last")


def test_limit_is_told(d):
    with open("/proc/sys/fs/inotify/max_user_watches") as f:
        if int(f.read()) < 9000:
            raise lib.Skip("this machine allows fewer watches than we do")
    for i in range(8300):
        (d / f"d{i}").mkdir()
    with Watch("watch", d, "recursive") as w:
        r = w.next()
        equal((r["kind"], r["what"]), ("event", "limited"), "first it says that it cannot see all")
        ready(w)
        (d / "still").touch()
        w.until("create", "still")
        with open(f"/proc/{w.p.pid}/fdinfo/{inotify_fd(w.p.pid)}") as f:
            equal(sum(line.startswith("inotify ") for line in f), 8192, "watches")


def inotify_fd(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if "inotify" in os.readlink(f"/proc/{pid}/fd/{fd}"):
            return fd
    raise AssertionError("no inotify descriptor")


def test_refused(d):
    (d / "f").touch()
    run("watch", d / "f", "-").fails("not_found", errno.ENOTDIR)
    run("watch", d / "none", "-").fails("not_found", errno.ENOENT)
    run("watch", d, "maybe").fails("invalid")
    if os.geteuid() == 0:
        (d / "closed").mkdir(mode=0o700)
        run("watch", d / "closed", "-", user=lib.NOBODY).fails("denied")


lib.main(globals())
