#!/usr/bin/python3
"""--for: whose home paths are in and who owns what is made; and what is told of where things are.

Users are those of a passwd of our own, which a mount namespace of each call puts in place."""
import errno
import os
import signal
import stat
import subprocess

import lib
from lib import ENDS, NOBODY, Skip, Watch, check, chunks, equal, names, need_root, run

BIG = 1 << 40
NO_USER = 4095


def passwd(d, *lines):
    """Makes the directories of a cell in d, and this machine's /etc/passwd be these lines for run()."""
    need_root()
    home = d / "home"
    home.mkdir(exist_ok=True)
    os.chown(home, 1000, 1001)
    text = "\n".join((f"root:x:0:0::{d}/root:/bin/sh", f"user:x:1000:1001::{home}:/bin/sh", *lines)) + "\n"
    (d / "passwd").write_text(text)
    inside = ["unshare", "-m", "--propagation", "private", "sh", "-c"]
    script = 'mount --bind "$0" /etc/passwd && shift 0 && exec "$@"'
    prefix = [*inside, script, d / "passwd"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("needs a mount namespace of its own")
    return lambda *args, whose="user", **more: run(*args, whose=whose, prefix=prefix, **more)


def owner(path):
    st = os.lstat(path)
    return st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)


def test_unknown_users(d):
    call = passwd(d, "broken:x:1:", "norel:x:5:5::relative/home:/bin/sh")
    for who in ("nosuch", "4242", "broken", "user ", "-1", "x" * 300, "user:user", "\x1b[2J"):
        r = call("stat", d, whose=who).fails("not_found", NO_USER)
        want = f"invalid username: '{who}'".replace("\x1b", "?")[:100]
        check(r.last["text"].replace("\x1b", "?").startswith(want), f"text {r.last['text']!r}")
    r = call("write", d / "new", "-", "-", "p", 10, whose="nosuch", data=chunks(b"x")).fails("not_found", NO_USER)
    check(not (d / "new").exists(), "nothing is written")
    equal(call("stat", d / "none").fails("not_found", errno.ENOENT).last["sys"], errno.ENOENT, "a file is another matter")
    equal(call("stat", "~", whose="1000").ok().last["path"], str(d / "home"), "by number")
    call("stat", "x/..", whose="norel").fails("not_found", errno.ENOENT)
    call("stat", d, whose="").ok()
    run("--for", "root").fails("invalid")
    run("--for").fails("invalid")


def test_paths_are_in_the_home(d):
    call = passwd(d)
    home = d / "home"
    (home / "sub").mkdir()
    (home / "sub/f").write_bytes(b"1")
    os.symlink("sub", home / "link")
    for path, want in (
        ("sub/f", "sub/f"),
        ("~/sub/f", "sub/f"),
        ("./sub//f", "sub/f"),
        ("~/./x/../sub/f/", "sub/f"),
        ("~", ""),
        ("~/", ""),
        ("~//sub///f", "sub/f"),
        ("", ""),
        (".", ""),
        ("sub/..", ""),
        ("link/../sub", "sub"),
    ):
        e = call("stat", path, cwd="/").ok().last
        equal((e["abs"], e["path"]), (str(home / want).rstrip("/"),) * 2, f"{path!r}")
    e = call("stat", "link/f").ok().last
    equal((e["abs"], e["path"]), (str(home / "link/f"), str(home / "sub/f")), "as asked for, and really")
    equal(call("stat", home / "sub").ok().last["abs"], str(home / "sub"), "absolute stays")
    call("stat", "~root/x").fails("invalid", 0)
    call("stat", "~user").fails("invalid", 0)
    call("stat", "a/" * 3000).fails("limit", 0)
    equal(call("read", "link/f", 0, -1).ok().raw, b"1", "read")
    equal([e["abs"] for e in call("list", "link", 1, 9).ok().records[:-1]], [f"{home}/link", f"{home}/link/f"], "list")
    # Without --for: as before, and `abs` says where the directory is that it was started in.
    e = run("stat", "link/../sub", cwd=home).ok().last
    equal((e["abs"], e["path"]), (str(home / "sub"), str(home / "sub")), "the kernel's way")
    run("stat", "~", cwd=home).fails("not_found", errno.ENOENT)


def test_what_is_made_belongs_to_the_user(d):
    call = passwd(d)
    home = d / "home"
    e = call("write", "a/b/f", "-", "-", "p", BIG, data=chunks(b"x")).ok().last
    equal((e["owner"], e["uid"], e["gid"], e["mode"], e["abs"]), ("user", 1000, 1001, 0o644, f"{home}/a/b/f"))
    for path, mode in (("a", 0o755), ("a/b", 0o755), ("a/b/f", 0o644)):
        equal(owner(home / path), (1000, 1001, mode), path)
    call("mkdir", "m/n", "-", "p").ok()
    equal((owner(home / "m"), owner(home / "m/n")), ((1000, 1001, 0o755),) * 2, "mkdir")
    call("mkdir", "o", "2700", "-").ok()
    equal(owner(home / "o"), (1000, 1001, 0o2700), "mkdir with a mode")
    call("move", "a/b/f", "p/q/g", "p").ok()
    equal((owner(home / "p"), owner(home / "p/q"), owner(home / "p/q/g")[0]), ((1000, 1001, 0o755),) * 2 + (1000,))
    os.mkdir(d / "root")
    equal(call("write", "~/r", "-", "-", "-", BIG, whose="root", data=chunks(b"")).ok().last["path"], f"{d}/root/r")
    equal(owner(d / "root/r"), (0, 0, 0o644), "for root")
    # Outside of the home, too, and where the user himself could not.
    os.mkdir(d / "closed", 0o700)
    call("write", d / "closed/x/f", "-", "-", "p", BIG, data=chunks(b"x")).ok()
    equal((owner(d / "closed"), owner(d / "closed/x"), owner(d / "closed/x/f")[:2]), ((0, 0, 0o700), (1000, 1001, 0o755), (1000, 1001)))


def test_what_was_there_becomes_the_users(d):
    call = passwd(d)
    f = d / "home/f"
    f.write_bytes(b"old")
    f.chmod(0o4741)
    os.chown(f, 77, 78)
    os.chmod(f, 0o4741)
    e = call("write", "f", "-", "-", "-", BIG, data=chunks(b"new")).ok().last
    equal((e["flags"], f.read_bytes(), owner(f)), (1, b"new", (1000, 1001, 0o741)), "mode kept but for set-id bits")
    os.chown(f, 77, 78)
    call("write", "f", "-", "-", "a", BIG, data=chunks(b"er")).ok()
    equal((f.read_bytes(), owner(f)[:2]), (b"newer", (1000, 1001)), "appended, in place")
    call("write", "f", "-", "12:13", "-", BIG, data=chunks(b"")).ok()
    equal(owner(f)[:2], (12, 13), "who is named is the owner")
    call("write", f, "-", "-", "-", BIG, data=ENDS, whose="root").ok()
    equal(owner(f)[:2], (0, 0), "for root")
    os.chown(f, 77, 78)
    call("move", "f", "g").ok()
    equal(owner(d / "home/g")[:2], (77, 78), "what is moved keeps its owner")
    (d / "home/dir").mkdir()
    equal(call("mkdir", "dir", "-", "p").ok().last["flags"], 1, "existed")
    equal(owner(d / "home/dir")[:2], (0, 0), "a directory that was there stays whose it is")


def test_nothing_is_left_of_a_failure(d):
    call = passwd(d)
    for target in ("f", "a/b/f"):
        call("write", target, "-", "-", "p", BIG, data=lib.broken(b"x")).fails("conflict", 0)
        call("write", target, "-", "-", "p", 0, data=chunks(b"x")).fails("limit", 0)
    call("move", "none", "a/b/c", "p").fails("not_found", errno.ENOENT)
    call("join", "a/b/c", "none").fails("not_found", errno.ENOENT)
    call("mkdir", "a/b/" + "n" * 256, "-", "p").fails("limit")
    equal(names(d / "home"), [], "what is left")


def test_a_user_who_is_not_root_works_for_himself(d):
    call = passwd(d, f"me:x:{NOBODY}:{NOBODY}::{d}/mine:/bin/sh")
    os.mkdir(d / "mine")
    os.chown(d / "mine", NOBODY, NOBODY)
    (d / "mine/others").write_bytes(b"1")
    (d / "mine/others").chmod(0o666)
    equal(call("write", "a/f", "-", "-", "p", 9, whose="me", data=chunks(b"x"), drop=NOBODY).ok().last["uid"], NOBODY)
    call("write", "others", "-", "-", "-", 9, whose="me", data=chunks(b"2"), drop=NOBODY).ok()
    equal(((d / "mine/others").read_bytes(), owner(d / "mine/others")[0]), (b"2", 0), "in place, owner stays")
    call("mkdir", "m", "-", "-", whose="me", drop=NOBODY).ok()
    # For another he can look, but give nothing away; and what he made for it goes again.
    call("stat", "", drop=NOBODY).ok()
    (d / "home").chmod(0o777)
    call("write", "f", "-", "-", "-", 9, data=chunks(b"x"), drop=NOBODY).fails("denied", errno.EPERM)
    call("mkdir", "m", "-", "-", drop=NOBODY).fails("denied", errno.EPERM)
    call("mkdir", "m/n", "-", "p", drop=NOBODY).fails("denied", errno.EPERM)
    equal(names(d / "home"), [], "what is left")


def test_with_within(d):
    call = passwd(d)
    home = d / "home"
    os.symlink(d / "passwd", home / "out")
    os.symlink("in", home / "link")
    (home / "in").write_bytes(b"1")
    w = str(home)
    call("read", "out", 0, -1, within=w).fails("denied", 0)
    call("read", "../passwd", 0, -1, within=w).fails("denied", 0)
    e = call("stat", "out", "nofollow", within=w).ok().last
    equal((e["target"], e["resolved"], e["meta"]), (str(d / "passwd"), "", {}), "where it leads is not told")
    equal(call("stat", "out", "nofollow").ok().last["resolved"], str(d / "passwd"), "without it, it is")
    equal(call("stat", "link", "nofollow", within=w).ok().last["resolved"], f"{home}/in", "inside")
    equal({e["path"]: e["resolved"] for e in call("list", ".", 1, 9, within=w).ok().records[1:-1]}["out"], "", "list")
    call("move", "in", "../x/y", "p", within=w).fails("denied", 0)
    call("join", "../x/y", "in", within=w).fails("denied", 0)
    call("join", "new", "../passwd", within=w).fails("denied", 0)
    check((d / "passwd").exists() and (home / "in").exists() and not (d / "x").exists(), "nothing happened")


def test_what_does_not_work_for_others(d):
    call = passwd(d)
    for args in (("tar-out", d, BIG), ("tar-in", d, BIG, 9), ("processes",), ("kill", 2, 15)):
        call(*args).fails("invalid", 0)


def test_root_of_the_file_system(d):
    call = passwd(d)
    for path in ("/", "//", "/.", "/..", "/../."):
        e = call("mkdir", path, "-", "p").ok().last
        equal((e["flags"], e["path"], e["abs"]), (1, "/", "/"), path)
        call("write", path, "-", "-", "p", 9, data=chunks(b"")).fails("invalid", 0)
        call("remove", path, "recursive").fails("invalid", 0)
    equal(call("list", "/", 1, 1).ok().records[0]["abs"], "/", "list")
    check(call("list", "/", 1, 1).ok().records[1]["abs"].count("/") == 1, "an entry of it")


# --- where links lead -------------------------------------------------------------------------------


def test_links(d):
    (d / "sub").mkdir()
    (d / "sub/f").write_bytes(b"123")
    (d / "sub/f").chmod(0o640)
    (d / "sub").chmod(0o711)
    os.symlink("sub", d / "dir")
    os.symlink("dir/f", d / "file")
    os.symlink(d / "file", d / "far")
    os.symlink("none", d / "dangling")
    os.symlink("loop", d / "loop")
    os.symlink("/proc/self/exe", d / "magic")
    os.symlink("/dev/null", d / "null")
    want = {
        "dir": (str(d / "sub"), "dir", 0o711),
        "file": (str(d / "sub/f"), "file", 0o640),
        "far": (str(d / "sub/f"), "file", 0o640),
        "dangling": ("", "file", 0),
        "loop": ("", "file", 0),
        "magic": ("", "file", 0),
        "null": ("/dev/null", "char", 0o666),
        "sub": ("", "file", 0),
    }
    listed = {e["path"]: e for e in run("list", d, 1, 99).ok().records[1:-1]}
    equal(sorted(listed), sorted(want), "all are listed")
    for name, (resolved, kind, mode) in want.items():
        for e in (run("stat", d / name, "nofollow").ok().last, listed[name]):
            equal((e["resolved"], e["target_type"], e["target_mode"]), (resolved, kind, mode), name)
            equal((e["type"], e["abs"]), ("dir" if name == "sub" else "symlink", str(d / name)), name)
    equal(run("stat", d / "far").ok().last["resolved"], "", "what is followed is no link")
    equal(listed["far"]["target"], str(d / "file"), "what the link says")


def test_a_link_is_listed_as_a_directory(d):
    (d / "real/sub").mkdir(parents=True)
    os.symlink("real", d / "link")
    os.symlink("..", d / "real/up")
    os.symlink("loop", d / "loop")
    (d / "f").touch()
    r = run("list", d / "link", 64, 99).ok()
    equal((r.records[0]["path"], r.records[0]["abs"]), (str(d / "real"), str(d / "link")), "the directory")
    equal(sorted(e["abs"] for e in r.records[1:-1]), [f"{d}/link/sub", f"{d}/link/up"], "not into links")
    run("list", d / "loop", 1, 9).fails("invalid", errno.ELOOP)
    run("list", d / "f", 1, 9).fails("not_found", errno.ENOTDIR)
    run("list", d / "none", 1, 9).fails("not_found", errno.ENOENT)


def test_long_paths_are_told_as_far_as_they_go(d):
    """An absolute path of 4096 bytes or more is not told; the entry is."""
    name = "d" * 250
    os.chdir(d)
    try:
        for _ in range(16):
            os.mkdir(name)
            os.chdir(name)
        for last in ("f" * 30, "g" * 75):
            with open(last, "w", encoding="ascii"):
                pass
        found = {e["path"]: e["abs"] for e in run("list", d, 64, 99).ok().records[1:-1]}
        equal(len(found), 18, "all are told")
        for path, told in found.items():
            equal(told, f"{d}/{path}" if len(f"{d}/{path}") < 4096 else "", f"...{path[-5:]}")
        check("" in found.values() and any(p.endswith("f") for p, told in found.items() if told), "both happened")
    finally:
        os.chdir("/")


# --- mkdir, move ------------------------------------------------------------------------------------


def test_mkdir_tells_files_from_directories(d):
    (d / "f").touch()
    (d / "dir").mkdir()
    os.symlink("dir", d / "link")
    os.symlink("none", d / "dangling")
    equal(run("mkdir", d / "dir", "-", "p").ok().last["flags"], 1, "a directory")
    equal(run("mkdir", d / "link", "-", "p").ok().last["flags"], 1, "a link to one")
    run("mkdir", d / "f", "-", "p").fails("conflict", errno.EEXIST)
    run("mkdir", d / "f/x", "-", "p").fails("not_found", errno.ENOTDIR)
    run("mkdir", d / "dangling", "-", "p").fails("not_found", errno.ENOENT)


def test_move_makes_parents(d):
    (d / "f").write_bytes(b"1")
    run("move", d / "f", d / "a/b/g").fails("not_found", errno.ENOENT)
    run("move", d / "f", d / "a/b/g", "-").fails("not_found", errno.ENOENT)
    run("move", d / "f", d / "a/b/g", "q").fails("invalid", 0)
    e = run("move", d / "f", d / "a/b/g", "p").ok().last
    equal((e["path"], e["abs"], names(d)), (f"{d}/a/b/g", f"{d}/a/b/g", ["a", "a/b", "a/b/g"]))
    (d / "h").write_bytes(b"2")
    run("move", d / "h", d / "a/b/g", "p").ok()
    equal((d / "a/b/g").read_bytes(), b"2", "replaced")
    run("move", d / "none", d / "x/y", "p").fails("not_found", errno.ENOENT)
    run("move", d / "a", d / "a/b/c/d", "p").fails("invalid", errno.EINVAL)
    equal(names(d), ["a", "a/b", "a/b/g"], "no parents are left of what failed")


# --- watch ------------------------------------------------------------------------------------------


def entries_of(w, count):
    """The next events that have an entry, with it."""
    found = []
    while len(found) < count:
        r = w.next()
        check(r is not None, f"only {found}")
        equal(r["kind"], "event", "an event comes first")
        if r["has_entry"]:
            e = w.next()
            equal((e["kind"], e["path"]), ("entry", r["to"] or r["path"]), "then its entry")
            found.append((r["what"], e))
    return found


def test_watch_with_entries(d):
    (d / "real").mkdir()
    os.symlink("real", d / "link")
    with Watch("watch", d / "link", "recursive", "entries") as w:
        equal(w.next()["kind"], "ready", "first")
        run("write", d / "real/f", "640", "-", "-", 99, "k=v", data=chunks(b"12345")).ok()
        events = entries_of(w, 3)
        equal([what for what, _ in events], ["create", "chmod", "write"], "a new file")
        for _, e in events:
            equal((e["size"], e["mode"], e["abs"], e["path"]), (5, 0o640, f"{d}/link/f", "f"), "whole from the start")
            equal(e["meta"], {"k": "v"}, "with its metadata")
        (d / "real/f").chmod(0o600)
        ((what, e),) = entries_of(w, 1)
        equal((what, e["mode"]), ("chmod", 0o600))
        (d / "real/sub").mkdir()
        ((what, e),) = entries_of(w, 1)
        equal((what, e["type"], e["abs"]), ("create", "dir", f"{d}/link/sub"))
        os.symlink("f", d / "real/l")
        ((what, e),) = entries_of(w, 1)
        equal((e["type"], e["resolved"]), ("symlink", f"{d}/real/f"), "a link")
        os.rename(d / "real/f", d / "real/g")
        ((what, e),) = entries_of(w, 1)
        equal((what, e["path"], e["size"]), ("rename", "g", 5), "under its new name")
        os.unlink(d / "real/g")
        r = w.next()
        equal((r["kind"], r["what"], r["has_entry"]), ("event", "remove", False), "nothing is there any more")
        (d / "real").chmod(0o700)
        r = w.next()
        equal((r["what"], r["path"], r["has_entry"]), ("chmod", "", False), "the directory itself")


def test_watch_of_what_is_gone(d):
    with Watch("watch", d, "-", "entries") as w:
        equal(w.next()["kind"], "ready", "first")
        os.kill(w.p.pid, signal.SIGSTOP)
        for i in range(100):
            (d / f"n{i}").write_bytes(b"x")
            (d / f"n{i}").unlink()
        os.kill(w.p.pid, signal.SIGCONT)
        whats = set()
        while "remove" not in whats or r["path"] != "n99":
            r = w.next()
            check(r is not None, "the last event does not come")
            equal((r["kind"], r["has_entry"]), ("event", False), "there is nothing to tell")
            whats.add(r["what"])
        check({"create", "write", "remove"} <= whats, f"only {whats}")


def test_watch_refuses(d):
    call = passwd(d)
    (d / "home/f").touch()
    call("watch", "f", "-", "entries").fails("not_found", errno.ENOTDIR)
    call("watch", "none", "-", "entries").fails("not_found", errno.ENOENT)
    call("watch", "", "-", "nothing").fails("invalid", 0)


lib.main(globals())
