#!/usr/bin/python3
"""read, write, stat, list, mkdir, move, remove, processes, kill: each as promised and refused."""
import ctypes
import errno
import multiprocessing
import os
import resource
import signal
import socket
import stat
import subprocess
import time

import lib
from lib import NOBODY, Skip, broken, check, chunks, equal, names, need_root, run

BIG = 1 << 40


def write(path, data=b"x", mode="-", owner="-", flags="-", limit=BIG, **more):
    return run("write", path, mode, owner, flags, limit, data=chunks(data), **more)


# --- read -------------------------------------------------------------------------------------------


def test_read_whole_and_parts(d):
    data = os.urandom(300_000)
    (d / "f").write_bytes(data)
    for at, n, want in (
        (0, -1, data),
        (0, 0, b""),
        (0, 10, data[:10]),
        (65_535, 2, data[65_535:65_537]),
        (100_000, -1, data[100_000:]),
        (299_999, 500, data[-1:]),
        (300_000, -1, b""),
        (10**15, 5, b""),
    ):
        r = run("read", d / "f", at, n).ok()
        equal([x["kind"] for x in r.records], ["entry", "data"], "records")
        equal((r.records[0]["size"], r.records[0]["path"], r.records[0]["type"]), (300_000, str(d / "f"), "file"))
        equal((r.records[1]["len"], r.raw == want), (len(want), True), f"{n} bytes at {at}")


def test_read_files_that_do_not_tell_their_size(d):
    with open("/proc/version", "rb") as f:
        want = f.read()
    r = run("read", "/proc/version", 0, -1).ok()
    equal((r.raw, r.records[0]["size"]), (want, len(want)), "/proc/version")
    equal(run("read", "/proc/version", 3, 4).ok().raw, want[3:7], "a part of it")
    (d / "empty").touch()
    equal(run("read", d / "empty", 0, -1).ok().records[1]["len"], 0, "empty file")


def test_read_refuses_what_is_no_file(d):
    os.mkfifo(d / "fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(d / "sock"))
    run("read", d, 0, -1).fails("conflict", errno.EISDIR)
    run("read", d / "fifo", 0, -1).fails("invalid", 0)
    run("read", d / "sock", 0, -1).fails("invalid", 0)
    run("read", "/dev/zero", 0, -1).fails("invalid", 0)
    run("read", d / "none", 0, -1).fails("not_found", errno.ENOENT)
    run("read", "/proc/self/exe", 0, -1).fails("invalid", errno.ELOOP)
    s.close()


def test_read_bad_arguments(d):
    (d / "f").write_bytes(b"x")
    for at, n in (("x", 1), ("-1", 1), (0, "-2"), ("", 1), (0, ""), ("99999999999999999999", 1), (0, "1k")):
        run("read", d / "f", at, n).fails("invalid")
    run("read", d / "f").fails("invalid")
    run("read", "", 0, -1).fails("not_found", errno.ENOENT)
    run("read", "a" * 5000, 0, -1).fails("limit", errno.ENAMETOOLONG)
    run("nonsense", "x").fails("invalid")
    run().fails("invalid")


def test_read_as_another_user(d):
    need_root()
    (d / "secret").write_bytes(b"x")
    (d / "secret").chmod(0o600)
    run("read", d / "secret", 0, -1, user=NOBODY).fails("denied", errno.EACCES)


# --- write ------------------------------------------------------------------------------------------


def test_write_new_and_replace(d):
    data = os.urandom(200_001)
    r = write(d / "f", data).ok()
    equal((d / "f").read_bytes() == data, True, "content")
    e = r.last
    equal((e["kind"], e["size"], e["mode"], e["flags"], e["path"]), ("entry", 200_001, 0o644, 0, str(d / "f")))
    (d / "f").chmod(0o751)
    r = write(d / "f", b"new").ok()
    equal((r.last["flags"], r.last["mode"], (d / "f").read_bytes()), (1, 0o751, b"new"), "replaced, mode kept")
    write(d / "f", b"", mode="600").ok()
    equal((stat.S_IMODE((d / "f").stat().st_mode), (d / "f").read_bytes()), (0o600, b""), "mode given")
    equal(names(d), ["f"], "nothing else")


def test_write_aborted_leaves_nothing(d):
    (d / "old").write_bytes(b"old")
    for data in (b"", b"\x01", broken(b"x" * 100), broken(b"x" * 100_000), b"\x05\0\0\0abc", b"\xff\xff\xff\xff"):
        for target in ("old", "new", "a/b/new"):
            r = run("write", d / target, "-", "-", "p", BIG, data=data)
            r.fails("invalid" if data == b"\xff\xff\xff\xff" else "conflict", 0)
        equal((names(d), (d / "old").read_bytes()), (["old"], b"old"), f"after {data[:8]!r}")


def test_write_old_content_until_complete(d):
    (d / "f").write_bytes(b"old")
    p = subprocess.Popen(
        [lib.TOOL, "write", d / "f", "-", "-", "-", "1000"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    p.stdin.write(broken(b"new"))
    p.stdin.flush()
    time.sleep(0.1)  # the tool has read the first part; nothing shows it
    equal(((d / "f").read_bytes(), names(d)), (b"old", ["f"]), "in the middle")
    p.stdin.write(lib.ENDS)
    p.stdin.close()
    equal((p.wait(10), (d / "f").read_bytes()), (0, b"new"), "at the end")


def test_write_killed_leaves_nothing(d):
    p = subprocess.Popen([lib.TOOL, "write", d / "f", "-", "-", "-", "1000"], stdin=subprocess.PIPE)
    p.stdin.write(broken(b"new"))
    p.stdin.flush()
    time.sleep(0.1)  # the tool has read the first part; nothing shows it
    p.kill()
    p.wait(10)
    p.stdin.close()
    equal(names(d), [], "what is left")


def test_write_limit(d):
    write(d / "f", b"x" * 1000, limit=1000).ok()
    write(d / "f", b"y" * 1001, limit=1000).fails("limit", 0)
    equal((d / "f").read_bytes(), b"x" * 1000, "content")


def test_write_flags(d):
    write(d / "a/b/f").fails("not_found", errno.ENOENT)
    write(d / "a/b/f", flags="p").ok()
    equal(stat.S_IMODE((d / "a").stat().st_mode), 0o755, "mode of a parent")
    write(d / "a/b/f", b"more", flags="x").fails("conflict", errno.EEXIST)
    equal((d / "a/b/f").read_bytes(), b"x", "exclusive")
    write(d / "n", b"1", flags="x").ok()
    write(d / "n", b"2", flags="a").ok()
    equal((d / "n").read_bytes(), b"12", "appended")
    write(d / "m", b"new", flags="a").ok()
    equal((d / "m").read_bytes(), b"new", "append to nothing")
    run("write", d / "n", "-", "-", "a", BIG, data=broken(b"3")).fails("conflict")
    equal((d / "n").read_bytes(), b"12", "aborted append")
    write(d / "n", flags="q").fails("invalid")
    for mode in ("9", "", "10000", "0x1", "-1", "0000000"):
        write(d / "n", mode=mode).fails("invalid")
    write(d / "n", owner="nosuchuser").fails("not_found", 0)


def test_write_follows_links_and_keeps_them(d):
    (d / "sub").mkdir()
    os.symlink("sub/real", d / "link")
    os.symlink("link", d / "link2")
    os.symlink("loop", d / "loop")
    write(d / "link2", b"via").ok()
    equal(((d / "sub/real").read_bytes(), os.readlink(d / "link2")), (b"via", "link"), "through a dangling link")
    write(d / "link2", b"again").ok()
    equal(((d / "sub/real").read_bytes(), os.readlink(d / "link")), (b"again", "sub/real"), "through a link")
    write(d / "loop").fails("invalid", errno.ELOOP)


def test_write_refuses_what_is_no_file(d):
    os.mkfifo(d / "fifo")
    write(d).fails("conflict", errno.EISDIR)
    write(d / "fifo").fails("invalid", 0)
    write("/dev/null").fails("invalid", 0)
    check(stat.S_ISFIFO((d / "fifo").stat().st_mode), "the FIFO is still one")
    for path in ("/", ".", "..", "", "///"):
        write(path).fails("invalid", 0)
    write(d / ("n" * 256)).fails("limit")
    write(d / ("n" * 255)).ok()


def test_write_owner(d):
    need_root()
    (d / "f").write_bytes(b"x")
    os.chown(d / "f", 1234, 2345)
    (d / "f").chmod(0o4755)
    write(d / "f", b"y").ok()
    st = (d / "f").stat()
    equal((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)), (1234, 2345, 0o4755), "kept")
    equal(write(d / "f", owner="nobody").ok().last["owner"], "nobody", "owner's name")
    equal(((d / "f").stat().st_uid, (d / "f").stat().st_gid), (NOBODY, 2345), "user alone")
    write(d / "f", owner="77:root").ok()
    equal(((d / "f").stat().st_uid, (d / "f").stat().st_gid), (77, 0), "both")


def test_write_in_place_where_a_rename_cannot(d):
    """Files of others that we may write, and directories that we may not: content changes, owner stays."""
    need_root()
    (d / "open").mkdir()
    (d / "open").chmod(0o777)
    for name in ("f", "open/f"):
        (d / name).write_bytes(b"old old old")
        (d / name).chmod(0o666)
        write(d / name, b"new", user=NOBODY).ok()
        equal(((d / name).read_bytes(), (d / name).stat().st_uid), (b"new", 0), name)
        run("write", d / name, "-", "-", "-", BIG, data=broken(b"no"), user=NOBODY).fails("conflict")
        equal((d / name).read_bytes(), b"new", f"{name}: aborted")
    (d / "open/g").write_bytes(b"old")
    (d / "open/g").chmod(0o644)
    write(d / "open/g", b"no", user=NOBODY).fails("denied", errno.EACCES)
    write(d / "new", b"no", user=NOBODY).fails("denied", errno.EACCES)
    equal((d / "open/g").read_bytes(), b"old", "not writable")


# --- --within ---------------------------------------------------------------------------------------


def test_without(d):
    """What lies in such a place is not opened, whichever way leads there; an archive leaves it out."""
    hidden = d / "tree/hidden"
    hidden.mkdir(parents=True)
    (hidden / "f").write_bytes(b"SECRET")
    (d / "tree/hidden2").write_bytes(b"shown")
    os.symlink("tree/hidden/f", d / "filelink")
    os.symlink("tree/hidden", d / "dirlink")
    w = f"/nosuch:{os.path.realpath(hidden)}"
    for path in (hidden / "f", d / "filelink", d / "dirlink/f", d / "tree/../tree/hidden/f"):
        run("read", path, 0, -1, without=w).fails("denied", 0)
        run("tar-out", path, BIG, without=w).fails("denied", 0)
    for path in (hidden, d / "dirlink"):
        run("list", path, 1, 10, without=w).fails("denied", 0)
        run("tar-out", path, BIG, without=w).fails("denied", 0)
    run("read", d / "tree/hidden2", 0, -1, without=w).ok()
    done = subprocess.run([lib.TOOL, "--without", w, "tar-out", str(d), str(BIG)], capture_output=True, check=False)
    equal(done.returncode, 2, "status of an archive that lacks something")
    check(b"shown" in done.stdout and b"SECRET" not in done.stdout, "content of the archive")


def test_within(d):
    inside, outside = d / "in", d / "in2"
    inside.mkdir()
    outside.mkdir()
    (outside / "f").write_bytes(b"out")
    (inside / "f").write_bytes(b"in")
    os.symlink("../in2", inside / "dirlink")
    os.symlink("../in2/f", inside / "filelink")
    os.symlink("../in2/new", inside / "dangling")
    os.symlink("f", inside / "good")
    w = str(inside)
    for path in (outside / "f", inside / "../in2/f", inside / "dirlink/f", inside / "filelink"):
        run("read", path, 0, -1, within=w).fails("denied", 0)
        run("stat", path, within=w).fails("denied", 0)
        write(path, b"bad", within=w).fails("denied", 0)
    write(inside / "dangling", b"bad", within=w).fails("denied", 0)
    write(inside / "dirlink/a/b", b"bad", flags="p", within=w).fails("denied", 0)
    run("list", inside / "dirlink", 1, 10, within=w).fails("denied", 0)
    run("watch", inside / "dirlink", "-", within=w).fails("denied", 0)
    run("tar-out", inside / "dirlink", BIG, within=w).fails("denied", 0)
    run("tar-in", inside / "dirlink", BIG, 10, within=w).fails("denied", 0)
    run("mkdir", inside / "dirlink/x", "-", "-", within=w).fails("denied", 0)
    run("mkdir", inside / "dirlink/x/y", "-", "p", within=w).fails("denied", 0)
    run("remove", inside / "dirlink/f", "-", within=w).fails("denied", 0)
    run("remove", inside, "recursive", within=w).fails("denied", 0)
    run("move", inside / "f", outside / "g", within=w).fails("denied", 0)
    run("move", outside / "f", inside / "g", within=w).fails("denied", 0)
    equal((names(outside), (outside / "f").read_bytes()), (["f"], b"out"), "outside")
    equal(run("read", inside / "good", 0, -1, within=w).ok().raw, b"in", "inside, by a link")
    run("list", inside, 1, 10, within=w).ok()
    run("stat", inside / "filelink", "nofollow", within=w).ok()
    run("read", outside / "f", 0, -1, within=f"{w}:{outside}").ok()
    run("read", outside / "f", 0, -1, within="/").ok()
    for bad in ("relative", f"{w}:", f"{w}:x", ":" + w):
        run("read", inside / "f", 0, -1, within=bad).fails("invalid", 0)


def exchange(a, b, stop):
    """Exchanges two names as fast as it can."""
    libc = ctypes.CDLL(None)
    a, b = os.fsencode(a), os.fsencode(b)
    while not stop.is_set():
        for _ in range(50):
            libc.renameat2(-100, a, -100, b, 2)


def race(d, times, within):
    """Writes into a directory that a link to the outside takes turns with. (in, outside, refused)"""
    inside, outside = d / "in", d / "out"
    for p in (inside / "d", outside):
        p.mkdir(parents=True, exist_ok=True)
    if not (inside / "l").exists():
        os.symlink(outside, inside / "l")
    stop = multiprocessing.Event()
    p = multiprocessing.Process(target=exchange, args=(inside / "d", inside / "l", stop))
    p.start()
    good = refused = landed = 0
    try:
        for _ in range(times):
            r = write(inside / "d/f", b"x", within=within)
            good += r.rc == 0
            refused += r.rc != 0 and r.last["code"] == "denied"
            check(r.rc == 0 or r.last["code"] == "denied", f"unexpected: {r.records}")
            if (outside / "f").exists():
                landed += 1
                (outside / "f").unlink()
    finally:
        stop.set()
        p.join()
    return good, landed, refused


def test_within_holds_in_a_race(d):
    good, landed, refused = race(d, 2000, str(d / "in"))
    equal(landed, 0, "writes that landed outside")
    check(good >= 50 and refused >= 50, f"no race: {good} written, {refused} refused")


def test_without_within_the_race_is_lost(d):
    """The control: the race above is one."""
    _, landed, _ = race(d, 200, None)
    check(landed > 0, "nothing landed outside: the race test proves nothing")


# --- stat, list, mkdir, move, remove ----------------------------------------------------------------


def test_stat(d):
    (d / "f").write_bytes(b"12345")
    (d / "f").chmod(0o640)
    os.utime(d / "f", ns=(1, 1_234_567_890_123_456_789))
    os.symlink("f", d / "l")
    e = run("stat", d / "f").ok().last
    st = (d / "f").stat()
    want = ("file", 0o640, 5, 1_234_567_890_123_456_789, st.st_uid, st.st_gid, "", str(d / "f"))
    equal(tuple(e[k] for k in ("type", "mode", "size", "mtime", "uid", "gid", "target", "path")), want)
    if os.geteuid() == 0:
        equal((e["owner"], e["group"]), ("root", "root"), "names")
        os.chown(d / "f", 54987, 54987)
        e = run("stat", d / "f").ok().last
        equal((e["owner"], e["group"], e["uid"]), ("", "", 54987), "an owner without a name")
    equal(run("stat", d / "l").ok().last["path"], str(d / "f"), "followed")
    e = run("stat", d / "l", "nofollow").ok().last
    equal((e["type"], e["target"], e["path"]), ("symlink", "f", str(d / "l")), "not followed")
    run("stat", d / "l", "x").fails("invalid")
    run("stat", d / "f/g").fails("not_found", errno.ENOTDIR)
    os.mkfifo(d / "fifo")
    equal(run("stat", d / "fifo").ok().last["type"], "fifo")
    equal(run("stat", "/dev/null").ok().last["type"], "char")
    equal(run("stat", "f", cwd=d).ok().last["path"], str(d / "f"), "relative to the directory")
    (d / "new\nline").mkdir()
    equal(run("stat", d / "new\nline").ok().last["path"], str(d / "new\nline"), "any name")


def test_list(d):
    for p in ("a/b/c", "x"):
        (d / p).mkdir(parents=True)
    (d / "a/f").write_bytes(b"1")
    os.symlink("/", d / "a/root")
    r = run("list", d, 64, 100).ok()
    equal(r.records[0]["path"], str(d), "first the directory itself")
    got = [e["path"] for e in r.records[1:-1]]
    equal(sorted(got), ["a", "a/b", "a/b/c", "a/f", "a/root", "x"], "all, no link followed")
    equal([p.count("/") for p in got], sorted(p.count("/") for p in got), "breadth first")
    equal((r.last["kind"], r.last["count"], r.last["truncated"]), ("end", 6, False))
    equal(sorted(e["path"] for e in run("list", d, 1, 100).ok().records[1:-1]), ["a", "x"], "depth 1")
    run("list", d / "a/f", 1, 1).fails("not_found", errno.ENOTDIR)
    for depth, limit in ((0, 1), (65, 1), (1, 0), ("", 1)):
        run("list", d, depth, limit).fails("invalid")


def test_many_links(d):
    """As many links as the kernel follows, and one more: to be read, written and looked at."""
    (d / "l0").write_bytes(b"end")
    for i in range(1, 42):
        os.symlink(f"l{i - 1}", d / f"l{i}")
    equal(run("read", d / "l40", 0, -1).ok().raw, b"end")
    run("read", d / "l41", 0, -1).fails("invalid", errno.ELOOP)
    write(d / "l40", b"new").ok()
    equal((d / "l0").read_bytes(), b"new")
    write(d / "l41", b"bad").fails("invalid", errno.ELOOP)


def test_list_bounds(d):
    for i in range(300):
        (d / f"n{i}").touch()
    r = run("list", d, 1, 300).ok()
    equal((r.last["count"], r.last["truncated"], len(r.records)), (300, False, 302), "all")
    r = run("list", d, 1, 299).ok()
    equal((r.last["count"], r.last["truncated"], len(r.records)), (299, True, 301), "one too many")
    deep, at = 0, str(d)
    os.chdir(d)
    try:
        while deep < 200:
            os.mkdir("d" * 50)
            os.chdir("d" * 50)
            deep += 1
        r = run("list", at, 64, 100_000).ok()
        equal(max(e["path"].count("/") for e in r.records[1:-1]), 63, "deepest")
    finally:
        os.chdir("/")


def test_mkdir(d):
    e = run("mkdir", d / "a", "-", "-").ok().last
    equal((e["type"], e["mode"], e["flags"]), ("dir", 0o755, 0))
    equal(run("mkdir", d / "a", "-", "-").ok().last["flags"], 1, "it was there")
    run("mkdir", d / "a", "-", "x").fails("conflict", errno.EEXIST)
    run("mkdir", d / "b/c/d", "-", "-").fails("not_found", errno.ENOENT)
    equal(run("mkdir", d / "b/c/d", "2770", "p").ok().last["mode"], 0o2770, "mode given")
    (d / "f").touch()
    run("mkdir", d / "f", "-", "-").fails("conflict", errno.EEXIST)
    run("mkdir", d / "f/g", "-", "p").fails("not_found", errno.ENOTDIR)
    os.symlink("a", d / "l")
    equal(run("mkdir", d / "l/n/m", "-", "p").ok().last["path"], str(d / "a/n/m"), "by a link")
    equal(run("mkdir", "rel/x/", "-", "p", cwd=d).ok().last["path"], str(d / "rel/x"), "relative")
    run("mkdir", d / "q", "-", "z").fails("invalid")


def test_move(d):
    (d / "f").write_bytes(b"1")
    (d / "dir").mkdir()
    (d / "dir/x").touch()
    equal(run("move", d / "f", d / "g").ok().last["path"], str(d / "g"))
    equal(names(d), ["dir", "dir/x", "g"], "moved")
    (d / "h").write_bytes(b"2")
    run("move", d / "h", d / "g").ok()
    equal((d / "g").read_bytes(), b"2", "replaced")
    run("move", d / "dir", d / "dir2").ok()
    run("move", d / "g", d / "dir2").fails("conflict", errno.EISDIR)
    run("move", d / "dir2", d / "dir2/y").fails("invalid", errno.EINVAL)
    run("move", d / "none", d / "x").fails("not_found", errno.ENOENT)
    os.symlink("g", d / "l")
    run("move", d / "l", d / "l2").ok()
    equal((os.readlink(d / "l2"), (d / "g").exists()), ("g", True), "a link itself")


def test_move_between_mounts(d):
    shm = f"/dev/shm/cordon-builtins-{os.getpid()}"
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == d.stat().st_dev:
        raise Skip("/dev/shm is no mount of its own")
    (d / "f").write_bytes(b"content" * 50_000)
    (d / "f").chmod(0o640)
    try:
        run("move", d / "f", shm).ok()
        with open(shm, "rb") as f:
            equal((f.read() == b"content" * 50_000, names(d)), (True, []), "moved")
        equal(stat.S_IMODE(os.stat(shm).st_mode), 0o640, "mode")
        (d / "dir").mkdir()
        run("move", d / "dir", shm + "d").fails("unsupported")
    finally:
        os.unlink(shm)


def test_remove(d):
    for p in ("t/a/b", "t/c", "keep"):
        (d / p).mkdir(parents=True)
    (d / "t/a/f").touch()
    (d / "keep/f").touch()
    os.symlink(d / "keep", d / "t/a/link")
    os.symlink("keep", d / "toplink")
    run("remove", d / "t", "-").fails("conflict", errno.ENOTEMPTY)
    equal(run("remove", d / "t", "recursive").ok().last["count"], 6, "how many")
    run("remove", d / "toplink", "recursive").ok()
    equal(names(d), ["keep", "keep/f"], "what links lead to stays")
    run("remove", d / "t", "recursive").fails("not_found", errno.ENOENT)
    run("remove", d / "keep/f", "-").ok()
    run("remove", d / "keep", "-").ok()
    equal(names(d), [], "empty directory")
    run("remove", d / "x", "maybe").fails("invalid")
    for path in ("/", ".", "..", f"{d}/.."):
        run("remove", path, "recursive").fails("invalid", 0)


def test_remove_deep_tree(d):
    """Far deeper than the stack of directories."""
    os.mkdir(d / "t")
    os.chdir(d / "t")
    for _ in range(1000):
        os.mkdir("d")
        open("f", "w").close()
        os.chdir("d")
    os.chdir("/")
    run("remove", d / "t", "recursive").ok()
    equal(names(d), [], "what is left")


def test_remove_stops_at_what_it_may_not(d):
    need_root()
    (d / "t/a").mkdir(parents=True)
    (d / "t/a/f").touch()
    os.chown(d / "t", NOBODY, NOBODY)
    run("remove", d / "t", "recursive", user=NOBODY).fails("denied", errno.EACCES)
    equal(names(d / "t"), ["a", "a/f"], "what is left")


# --- processes --------------------------------------------------------------------------------------


def test_processes(_):
    began = time.time()
    p = subprocess.Popen(["/bin/sh", "-c", "read x", "an argument"], stdin=subprocess.PIPE)
    resource.prlimit(p.pid, 10, (4711, 4711))  # RLIMIT_LOCKS
    q = subprocess.Popen(["sleep", "1000"])
    try:
        time.sleep(0.3)  # both have executed their programs and sleep
        r = run("processes").ok()
        found = {x["pid"]: x for x in r.records[:-1]}
        equal(r.last["count"], len(found), "count")
        me = found[q.pid]
        equal((me["name"], me["command"], me["ppid"], me["state"]), ("sleep", "sleep 1000", os.getpid(), "S"))
        equal((me["uid"], me["mark"]), (os.geteuid(), resource.getrlimit(10)[0] % 2**64), "user and mark; in a cell it has one")
        check(abs(me["start_ms"] / 1000 - began) < 5, f"start {me['start_ms']}, now {began}")
        check(0 < me["rss"] < 1 << 30, f"rss {me['rss']}")
        equal((found[p.pid]["mark"], found[p.pid]["command"]), (4711, "/bin/sh -c read x an argument"), "marked")
        run("kill", q.pid, int(signal.SIGTERM)).ok()
        equal(q.wait(10), -signal.SIGTERM, "killed")
        run("kill", q.pid, 15).fails("not_found", errno.ESRCH)
    finally:
        for x in (p, q):
            x.kill()
            x.wait()
        p.stdin.close()


def test_kill_refuses(d):
    for pid, sig in ((0, 9), (1, 9), (-1, 9), ("", 9), (2, 65), (2, -1)):
        run("kill", pid, sig).fails("invalid")
    if os.geteuid() == 0:
        p = subprocess.Popen(["sleep", "1000"])
        run("kill", p.pid, 9, user=NOBODY).fails("denied", errno.EPERM)
        p.kill()
        p.wait()


lib.main(globals())
