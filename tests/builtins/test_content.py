#!/usr/bin/python3
"""What goes into files in other ways: metadata, gzip, files joined; and files that hide their size."""
import errno
import gzip
import os
import random
import stat
import struct
import subprocess
import zlib

import lib
from lib import NOBODY, Skip, check, chunks, equal, names, need_root, run

BIG = 1 << 40


def write(path, data=b"x", *more, flags="-", limit=BIG, **named):
    return run("write", path, "-", "-", flags, limit, *more, data=chunks(data), **named)


def attributes(path):
    return {n: os.getxattr(path, n) for n in os.listxattr(path) if n.startswith("user.")}


def need_attributes(d):
    try:
        (d / "probe").touch()
        os.setxattr(d / "probe", "user.probe", b"1")
    except OSError as e:
        raise Skip(f"no extended attributes here: {e}") from None
    finally:
        (d / "probe").unlink()


# --- metadata ---------------------------------------------------------------------------------------


def test_metadata(d):
    need_attributes(d)
    e = write(d / "f", b"x", "author=me\nempty=\nwith=a=b and spaces\nk\xe9y=v\xe4l").ok().last
    want = {"author": "me", "empty": "", "with": "a=b and spaces", "k\xe9y": "v\xe4l"}
    equal(e["meta"], want, "told")
    equal(attributes(d / "f"), {f"user.e2b.{k}": v.encode() for k, v in want.items()}, "kept")
    for r in (run("stat", d / "f"), run("read", d / "f", 0, -1)):
        equal(r.ok().records[0]["meta"], want, "told again")
    equal(run("list", d, 1, 9).ok().records[1]["meta"], want, "in a list")
    os.symlink("f", d / "l")
    equal(run("stat", d / "l", "nofollow").ok().last["meta"], want, "of a link's target")
    equal(write(d / "f", b"y", "a=1").ok().last["meta"], {"a": "1"}, "replaced")
    equal(write(d / "f", b"z", "", flags="a").ok().last["meta"], {}, "cleared in place")
    equal((attributes(d / "f"), (d / "f").read_bytes()), ({}, b"yz"), "and content appended")
    equal(write(d / "f", b"!", "b=2\nc=3", flags="a").ok().last["meta"], {"b": "2", "c": "3"}, "set in place")
    equal(write(d / "f", b"?", flags="a").ok().last["meta"], {"b": "2", "c": "3"}, "not spoken of: kept in place")
    os.setxattr(d / "f", "user.mine", b"1")
    write(d / "f", b"", "b=3", flags="a").ok()
    equal(attributes(d / "f"), {"user.mine": b"1", "user.e2b.b": b"3"}, "others are left alone")
    equal(write(d / "f", b"new", "").ok().last["meta"], {}, "cleared by a replacement")


def test_metadata_survives_a_move(d):
    need_attributes(d)
    write(d / "f", b"x", "a=1").ok()
    equal(run("move", d / "f", d / "g").ok().last["meta"], {"a": "1"}, "within")
    shm = f"/dev/shm/cordon-content-{os.getpid()}"
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == d.stat().st_dev:
        raise Skip("/dev/shm is no mount of its own")
    try:
        try:
            with open(shm, "w"):
                os.setxattr(shm, "user.probe", b"1")
        except OSError:
            run("move", d / "g", shm).fails("unsupported", 0)
            equal(names(d), ["g"], "refused, and still there")
            return
        equal(run("move", d / "g", shm).ok().last["meta"], {"a": "1"}, "between mounts")
        equal(attributes(shm), {"user.e2b.a": b"1"}, "the old one's are gone")
    finally:
        os.unlink(shm)


def test_metadata_that_is_refused(d):
    need_attributes(d)
    write(d / "f", b"old", "a=1").ok()
    for text, code in (
        ("nothing", "invalid"),
        ("a=1\nb", "invalid"),
        ("\n", "invalid"),
        ("a=1\n\nb=2", "invalid"),
        ("=1", "limit"),
        ("a=1\na=2", "limit"),
        ("k" * 247 + "=1", "limit"),
        ("k=" + "v" * 4096, "limit"),
        ("\n".join(f"k{i}={'v' * 100}" for i in range(41)), "limit"),
        ("\n".join(f"k{i}=" for i in range(129)), "limit"),
        ("k=" + "v" * 9000, "limit"),
    ):
        for target in ("f", "new", "p/q"):
            write(d / target, b"bad", text, flags="p").fails(code, 0)
        equal((names(d), (d / "f").read_bytes()), (["f"], b"old"), f"after {text[:20]!r}")
    equal(run("stat", d / "f").ok().last["meta"], {"a": "1"}, "as before")


def test_metadata_at_its_bounds(d):
    need_attributes(d)
    for meta in (
        {"k" * 246: "v" * (4096 - 246)},
        {f"k{i:03}": "v" * 28 for i in range(128)},
        {"k": "v" * 4095},
    ):
        text = "\n".join(f"{k}={v}" for k, v in meta.items())
        r = write(d / "f", b"x", text)
        if r.rc != 0 and r.last["sys"] in (errno.ENOSPC, errno.E2BIG):
            r.fails("limit")  # ext4 has one block for them all; refused, and nothing written
            check(not (d / "f").exists(), "nothing is written")
            continue
        equal(r.ok().last["meta"], meta, "all of it")


def test_metadata_of_others(d):
    """What a program in the cell sets may be anything: what does not fit the bounds is left out."""
    need_attributes(d)
    f = d / "f"
    f.touch()
    os.setxattr(f, "user.e2b.good", b"1")
    os.setxattr(f, "user.e2b.binary", b"a\0b")
    os.setxattr(f, "user.e2b.newline", b"a\nb\xff")
    os.setxattr(f, "user.e2bx", b"1")
    os.setxattr(f, "user.e2b", b"1")
    want = {"good": "1", "newline": "a\nb\udcff"}
    equal(run("stat", f).ok().last["meta"], want, "text only")
    try:
        os.setxattr(f, "user.e2b.huge", b"x" * 4097)
    except OSError:
        pass  # then there is nothing to leave out
    equal(run("stat", f).ok().last["meta"], want, "nothing too large")
    (d / "dir").mkdir()
    os.setxattr(d / "dir", "user.e2b.k", b"v")
    equal(run("stat", d / "dir").ok().last["meta"], {"k": "v"}, "of a directory")
    os.mkfifo(d / "fifo")
    equal(run("stat", d / "fifo").ok().last["meta"], {}, "a FIFO has none")
    if os.geteuid() == 0:
        f.chmod(0o600)
        equal(run("stat", f, user=NOBODY).ok().last["meta"], {}, "what may not be read is none")


def test_metadata_where_it_cannot_be_kept(d):
    """A file system that has no such attributes refuses them, and all is as before."""
    need_root()
    (d / "bare").mkdir()
    inside = ["unshare", "-m", "--propagation", "private", "sh", "-c"]
    script = 'mount -t ramfs none "$0" && shift 0 && echo old > "$0/f" && "$@"; rc=$?; ls "$0" >&2; cat "$0/f" >&2; exit $rc'
    prefix = [*inside, script, d / "bare"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("needs a mount namespace of its own")
    for target in ("f", "new", "p/q"):
        r = write(d / "bare" / target, b"new", "a=1", flags="p", prefix=prefix).fails("unsupported", 0)
        check("cannot keep file metadata" in r.last["text"], r.last["text"])
        equal(r.err, b"f\nold\n", "what is there afterwards")
    r = write(d / "bare/f", b"more", "a=1", flags="a", prefix=prefix).fails("unsupported", 0)
    equal(r.err, b"f\nold\n", "in place, too")
    r = write(d / "bare/f", b"new", "", prefix=prefix).ok()
    equal((r.err, r.last["meta"]), (b"f\nnew", {}), "without any it works")


# --- gzip -------------------------------------------------------------------------------------------


def packed(data, level=6, strategy=zlib.Z_DEFAULT_STRATEGY):
    z = zlib.compressobj(level, zlib.DEFLATED, 31, 9, strategy)
    return z.compress(data) + z.flush()


def samples():
    rng = random.Random(4711)
    yield b""
    yield b"a"
    yield b"hello, hello, hello\n" * 3
    yield bytes(200_000)
    yield os.urandom(150_000)
    yield b"".join(b"%d %x\n" % (i, i * i) for i in range(40_000))
    yield bytes(rng.choice(b"ab") for _ in range(100_000))
    block = os.urandom(32_768)
    yield block + block + os.urandom(3) + block  # matches that reach back as far as they can
    for _ in range(12):
        parts = [rng.randbytes(rng.randrange(1, 400)) * rng.randrange(1, 60) for _ in range(rng.randrange(1, 30))]
        yield b"".join(parts)


def test_gzip(d):
    strategies = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED)
    for data in samples():
        for level in (0, 1, 6, 9):
            for strategy in strategies if level == 6 else strategies[:1]:
                r = write(d / "f", packed(data, level, strategy), flags="z").ok()
                equal((r.last["size"], (d / "f").read_bytes() == data), (len(data), True), f"level {level}, {strategy}")
    data = b"content" * 999
    run("write", d / "f", "-", "-", "z", BIG, data=chunks(gzip.compress(data), 1)).ok()
    equal((d / "f").read_bytes() == data, True, "byte by byte")
    write(d / "f", gzip.compress(b"1") + gzip.compress(b"") + gzip.compress(b"2"), flags="z").ok()
    equal((d / "f").read_bytes(), b"12", "members in a row")
    head = b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03" + b"\x05\0extra" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    write(d / "f", head + gzip.compress(b"good")[10:], flags="z").ok()
    equal((d / "f").read_bytes(), b"good", "a header with everything")
    write(d / "f", gzip.compress(b"!"), flags="za").ok()
    equal((d / "f").read_bytes(), b"good!", "appended")


def test_gzip_that_is_refused(d):
    good = gzip.compress(b"some content, some content " * 40, mtime=0)
    cases = {f"cut at {n}": good[:n] for n in range(len(good))}
    cases["garbage behind"] = good + b"x"
    cases["zeros behind"] = good + bytes(8)
    cases["half a member behind"] = good + good[:20]
    cases["plain"] = b"plain text, not packed"
    cases["zlib"] = zlib.compress(b"x")
    for at in (0, 1, 2, 3, *range(10, len(good))):
        cases[f"bit of byte {at}"] = good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :]
    (d / "f").write_bytes(b"old")
    for name, data in cases.items():
        r = write(d / "f", data, flags="z")
        if r.rc == 0:
            raise AssertionError(f"{name} was taken")
        r.fails("invalid", 0)
    equal(((d / "f").read_bytes(), names(d)), (b"old", ["f"]), "nothing happened")
    run("write", d / "f", "-", "-", "z", BIG, data=lib.broken(good)).fails("conflict", 0)
    equal((d / "f").read_bytes(), b"old", "broken off")


def test_gzip_is_bounded_by_what_comes_out(d):
    bomb = packed(bytes(50_000_000), 9)
    check(len(bomb) < 60_000, "small when packed")
    write(d / "f", bomb, flags="z", limit=49_999_999).fails("limit", 0)
    equal(names(d), [], "nothing is left")
    equal(write(d / "f", bomb, flags="z", limit=50_000_000).ok().last["size"], 50_000_000, "exactly")


# --- join -------------------------------------------------------------------------------------------


def test_join(d):
    data = [os.urandom(n) for n in (100_000, 0, 1, 70_000)]
    for i, part in enumerate(data):
        (d / f"p{i}").write_bytes(part)
    parts = [d / f"p{i}" for i in range(4)]
    e = run("join", d / "a/b/f", *parts).ok().last
    equal((e["size"], e["flags"], e["mode"], e["abs"]), (170_001, 0, 0o644, f"{d}/a/b/f"), "told")
    equal(((d / "a/b/f").read_bytes() == b"".join(data), names(d)), (True, ["a", "a/b", "a/b/f"]), "sources are gone")
    (d / "x").write_bytes(b"x")
    equal(run("join", d / "a/b/f", d / "x").ok().last["flags"], 1, "over what was there")
    equal((d / "a/b/f").read_bytes(), b"x", "replaced")


def test_join_with_itself(d):
    for name in "fg":
        (d / name).write_bytes(name.encode())
    run("join", d / "f", d / "f", d / "g", d / "f", d / "g").ok()
    equal((names(d), (d / "f").read_bytes()), (["f"], b"fgfg"), "read before it is replaced, and kept")
    os.link(d / "f", d / "other")
    run("join", d / "f", d / "other", d / "./f").ok()
    equal((names(d), (d / "f").read_bytes()), (["f"], b"fgfg" * 2), "another name of it goes")
    os.symlink("f", d / "l")
    (d / "g").write_bytes(b"!")
    run("join", d / "l", d / "f", d / "g").ok()
    equal((names(d), os.readlink(d / "l"), (d / "f").read_bytes()), (["f", "l"], "f", b"fgfg" * 2 + b"!"), "over a link")


def test_join_refused(d):
    (d / "a").write_bytes(b"1")
    (d / "b").write_bytes(b"2")
    (d / "dir").mkdir()
    os.mkfifo(d / "fifo")
    os.symlink("a", d / "link")
    before = names(d)
    for bad, code, sys in (
        ("none", "not_found", errno.ENOENT),
        ("dir", "conflict", errno.EISDIR),
        ("fifo", "invalid", 0),
        ("link", "invalid", errno.ELOOP),
        ("..", "invalid", 0),
    ):
        run("join", d / "x/y", d / "a", d / bad, d / "b").fails(code, sys)
        equal(names(d), before, f"after {bad}")
    run("join", d / "dir", d / "a").fails("conflict", errno.EISDIR)
    run("join", d / "fifo", d / "a").fails("invalid", 0)
    run("join", d / "x").fails("invalid")
    run("join", d / "x", *[d / "a"] * 257).fails("invalid")
    equal((names(d), (d / "a").read_bytes()), (before, b"1"), "nothing happened")
    run("join", d / "x", *[d / "a"] * 256).ok()
    equal((d / "x").read_bytes(), b"1" * 256, "as many as there may be")
    run("join", d / "x", "/proc/version").fails("denied")  # it is read, but nobody can remove it


def test_join_as_another_user(d):
    need_root()
    for name in ("closed/s", "open/t"):
        (d / name).parent.mkdir()
        (d / name).write_bytes(b"1")
    (d / "open").chmod(0o777)
    run("join", d / "open/x", d / "open/t", d / "closed/s", user=NOBODY).fails("denied", errno.EACCES)
    equal(names(d), ["closed", "closed/s", "open", "open/t"], "what cannot go is not joined")
    run("join", d / "open/x", d / "open/t", user=NOBODY).ok()
    st = (d / "open/x").stat()
    equal((st.st_uid, stat.S_IMODE(st.st_mode)), (NOBODY, 0o644), "whose it is")


# --- files that hide their size ---------------------------------------------------------------------


def test_read_files_of_proc_to_their_end(d):
    with open("/proc/kallsyms", "rb") as f:
        want = f.read()
    if len(want) < 200_000 or len(want) > 16 << 20:
        raise Skip(f"/proc/kallsyms has {len(want)} bytes")
    r = run("read", "/proc/kallsyms", 0, -1).ok()
    equal((r.records[0]["size"], r.records[1]["len"], r.raw == want), (len(want), len(want), True), "all of it")
    equal(run("read", "/proc/kallsyms", 0, 100_000).ok().raw == want[:100_000], True, "the first part")
    equal(run("read", "/proc/kallsyms", 70_000, -1).ok().raw == want[70_000:], True, "the rest")


def test_read_files_of_proc_has_a_bound(d):
    """The memory of a process is a file that says 0 and has far more."""
    p = subprocess.Popen(
        ["/usr/bin/python3", "-c", "import ctypes,sys\nb=ctypes.create_string_buffer(b'x'*(20<<20))\nprint(ctypes.addressof(b),flush=True)\nsys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        at = int(p.stdout.readline())
        r = run("read", f"/proc/{p.pid}/mem", at, -1)
        if r.last.get("code") == "denied":
            raise Skip("may not look at another's memory")
        r.fails("limit", 0)
        equal(run("read", f"/proc/{p.pid}/mem", at, 10 << 20).ok().raw == b"x" * (10 << 20), True, "below the bound")
    finally:
        p.stdin.close()
        p.wait(10)
        p.stdout.close()


lib.main(globals())
