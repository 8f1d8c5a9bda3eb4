#!/usr/bin/python3
"""copy-in: an archive is put at its place as COPY of a build does it, and nothing is left beside it."""
import glob
import gzip
import io
import os
import pwd
import tarfile

import lib
from lib import check, chunks, equal, names, need_root, run

BIG = 1 << 40


def archive(*members, mode=None):
    """A tar of (name, content), (name, None) for a directory, (name, ("link", target)) for a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.uid = info.gid = 4321  # the developer's: ignored
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, tuple):
                info.type, info.linkname = tarfile.SYMTYPE, content[1]
            else:
                info.size, info.mode = len(content), mode or 0o644
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def copy(dest, data, entry="", owner="-", mode="-", flags=None, limit=BIG, entries=1_000_000, whose="root"):
    need_root()
    dest = str(dest)
    if flags is None:
        flags = ("z" if data[:2] == b"\x1f\x8b" else "") + ("/" if dest.endswith("/") else "")
    done = run("copy-in", dest, flags or "-", entry, owner, mode, limit, entries, data=chunks(data), whose=whose)
    equal(glob.glob("/.cordon-copy-*"), [], "temporary directories that are left")
    return done


TREE = archive(("folder", None), ("folder/a.txt", b"a"), ("folder/sub", None), ("folder/sub/b.txt", b"b"))


def test_a_directory_is_merged(d):
    (d / "to").mkdir(mode=0o700)
    (d / "to/a.txt").write_text("old")
    (d / "to/kept").write_text("kept")
    equal(copy(d / "to", TREE, "folder").ok().last["count"], 4)
    equal(names(d / "to"), ["a.txt", "kept", "sub", "sub/b.txt"])
    equal((d / "to/a.txt").read_text(), "a")
    equal((d / "to").stat().st_mode & 0o777, 0o700, "mode of a directory that was there")
    equal((d / "to/sub").stat().st_mode & 0o777, 0o755, "mode of one that was not")


def test_the_whole_archive(d):
    copy(d / "new/deep", TREE).ok()
    equal(names(d / "new"), ["deep", "deep/folder", "deep/folder/a.txt", "deep/folder/sub", "deep/folder/sub/b.txt"])


def test_a_file_and_its_destination(d):
    one = archive(("x", None), ("x/f.txt", b"new"))
    copy(d / "a/b/name", one, "x/f.txt").ok()
    equal((d / "a/b/name").read_text(), "new")
    copy(f"{d}/dir/", one, "x/f.txt").ok()
    equal((d / "dir/f.txt").read_text(), "new")
    copy(d / "dir", one, "x/f.txt").ok()  # a directory that is there receives it
    equal(names(d / "dir"), ["f.txt"])
    (d / "target").write_text("kept")
    (d / "link").symlink_to("target")
    copy(d / "link", one, "x/f.txt").ok()
    check(not (d / "link").is_symlink() and (d / "target").read_text() == "kept", "the link was followed")


def test_links_in_the_destination(d):
    (d / "real").mkdir()
    (d / "to").mkdir()
    (d / "to/sub").symlink_to("../real")
    (d / "file").write_text("kept")
    (d / "to/a.txt").symlink_to("../file")
    copy(d / "to", TREE, "folder").ok()
    equal((d / "real/b.txt").read_text(), "b", "behind a link to a directory")
    check(not (d / "to/a.txt").is_symlink() and (d / "file").read_text() == "kept", "a link to a file was followed")


def test_links_in_the_archive(d):
    data = archive(("f", None), ("f/dangling", ("link", "nowhere")), ("f/absolute", ("link", "/etc/passwd")))
    copy(d / "to", data, "f").ok()
    equal(os.readlink(d / "to/dangling"), "nowhere")
    equal(os.readlink(d / "to/absolute"), "/etc/passwd")
    copy(d / "one", data, "f/absolute", mode="0600").ok()
    equal(os.readlink(d / "one"), "/etc/passwd")


def test_owner_and_mode(d):
    nobody = pwd.getpwnam("nobody")
    before = os.stat("/etc/passwd").st_mode
    data = archive(("f", None), ("f/x", b"x"), ("f/l", ("link", "/etc/passwd")))
    copy(d / "to", data, "f", owner="nobody:daemon", mode="0750").ok()
    st = (d / "to/x").stat()
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777), (nobody.pw_uid, pwd.getpwnam("daemon").pw_gid, 0o750))
    equal((d / "to/l").lstat().st_uid, nobody.pw_uid)
    equal(os.stat("/etc/passwd").st_mode, before, "mode of a file behind a link")
    copy(d / "user", data, "f/x", whose="daemon").ok()
    equal((d / "user").stat().st_uid, pwd.getpwnam("daemon").pw_uid, "owner without one")
    copy(d / "x", data, "f", owner="no-such-user").fails("not_found")
    check(not (d / "x").exists(), "made although the owner is not known")


def test_gzip(d):
    copy(d / "to", gzip.compress(TREE), "folder").ok()
    equal(names(d / "to"), ["a.txt", "sub", "sub/b.txt"])
    copy(d / "bad", gzip.compress(TREE)[:-9], "folder").fails("invalid")
    copy(d / "bad", b"\x1f\x8b" + bytes(100), "folder").fails("invalid")
    check(not (d / "bad").exists(), "made from half an archive")


def test_refusals(d):
    copy(d / "x", TREE, "nothing").fails("not_found")
    copy(d / "x", TREE, "folder", limit=1).fails("limit")
    copy(d / "x", TREE, "folder", entries=2).fails("limit")
    copy(d / "x", archive(("../out", b"x"))).fails("invalid")
    copy(d / "x", archive(("a", ("link", "/tmp")), ("a/b", b"x"))).fails("invalid")
    copy(d / "x", archive(("a", ("link", "/etc"))), "a/passwd").fails("not_found")
    (d / "full").mkdir()
    (d / "full/a.txt").mkdir()
    copy(d / "full", TREE, "folder").fails("conflict")
    check(not (d / "x").exists(), "something was made")


if __name__ == "__main__":
    lib.main(globals())
