#!/usr/bin/python3
"""tar-in and tar-out: round trips with the system's tar, and archives that want out."""
import errno
import io
import os
import socket
import stat
import subprocess
import tarfile

import lib
from lib import NOBODY, check, chunks, equal, names, need_root, run

BIG = 1 << 40


def head(name=b"f", size=0, kind=b"0", link=b"", mode=0o644, magic=b"ustar\x0000", prefix=b"", checksum=None):
    """One raw header block; whatever is asked for."""
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    block = bytearray(512)
    for at, text in (
        (0, name[:100]),
        (100, b"%07o\0" % mode),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, field),
        (136, b"00000000000\0"),
        (148, b"        "),
        (156, kind),
        (157, link[:100]),
        (257, magic),
        (345, prefix),
    ):
        block[at : at + len(text)] = text
    block[148:156] = b"%06o\0 " % (sum(block) if checksum is None else checksum)
    return bytes(block)


def entry(name=b"f", content=b"", size=None, **more):
    padded = content + bytes(-len(content) % 512)
    return head(name, len(content) if size is None else size, **more) + padded


def pax(*pairs):
    body = b""
    for key, value in pairs:
        n = len(key) + len(value) + 3
        n += len(str(n + len(str(n))))
        body += b"%d %s=%s\n" % (n, key, value)
    return entry(b"PaxHeader", body, kind=b"x")


END = bytes(1024)


def extract(path, archive, limit=BIG, entries=1_000_000, **more):
    return run("tar-in", path, limit, entries, data=chunks(archive), **more)


def test_good_archives(d):
    long = b"/".join([b"n" * 90] * 4)
    good = {
        "plain": (entry(b"f", b"hi"), {"f": b"hi"}),
        "v7": (entry(b"f", b"hi", magic=b"", kind=b"\0"), {"f": b"hi"}),
        "v7 directory": (entry(b"sub/", magic=b"", kind=b"\0"), {}),
        "contiguous": (entry(b"f", b"hi", kind=b"7"), {"f": b"hi"}),
        "prefix": (entry(b"f", b"hi", prefix=b"a/b"), {"a/b/f": b"hi"}),
        "GNU long name": (entry(b"././@LongLink", long + b"\0", kind=b"L") + entry(b"x", b"hi"), {long.decode(): b"hi"}),
        "pax name": (pax((b"path", long), (b"uid", b"0"), (b"comment", b"")) + entry(b"x", b"hi"), {long.decode(): b"hi"}),
        "pax as long as allowed": (pax((b"comment", b"c" * (65536 - 15))) + entry(b"f", b"hi"), {"f": b"hi"}),
        "pax size": (pax((b"size", b"3")) + head(b"f", 0) + b"abc" + bytes(509), {"f": b"abc"}),
        "binary size": (head(b"f", b"\x80" + bytes(10) + b"\x03") + b"abc" + bytes(509), {"f": b"abc"}),
        "dots and slashes": (entry(b"././/a//./f", b"hi"), {"a/f": b"hi"}),
        "absolute is relative": (entry(b"/etc/f", b"hi"), {"etc/f": b"hi"}),
        "root entry": (entry(b"./", kind=b"5") + entry(b"./f", b"hi"), {"f": b"hi"}),
        "global header": (entry(b"g", b"11 path=bad\n", kind=b"g") + entry(b"f", b"hi"), {"f": b"hi"}),
        "later wins": (entry(b"f", b"1") + entry(b"f", b"2"), {"f": b"2"}),
        "newline": (entry(b"a\nb", b"hi"), {"a\nb": b"hi"}),
        "8 extensions": (entry(b"L", b"n", kind=b"L") * 8 + entry(b"f", b"hi"), {"n": b"hi"}),
        "64 levels": (pax((b"path", b"/".join([b"d"] * 64))) + entry(b"x", b"hi"), {"/".join(["d"] * 64): b"hi"}),
        "16 MiB behind the end": (entry(b"f", b"hi") + END + bytes((16 << 20) - len(END) - 512), {"f": b"hi"}),
    }
    for i, (name, (archive, want)) in enumerate(good.items()):
        to = d / str(i)
        to.mkdir()
        r = extract(to, archive + END)
        equal((r.rc, r.last["kind"]), (0, "end"), f"{name}: {r.records}")
        got = {n: (to / n).read_bytes() for n in names(to) if (to / n).is_file()}
        equal(got, want, name)
    check((d / "2/sub").is_dir(), "v7 directory")


SLIPS = {
    "dot dot": (entry(b"../f", b"bad"), "invalid"),
    "dot dot in the middle": (entry(b"a/../../f", b"bad"), "invalid"),
    "dot dot at the end": (entry(b"a/..", kind=b"5"), "invalid"),
    "dot dot by pax": (pax((b"path", b"../f")) + entry(b"x", b"bad"), "invalid"),
    "dot dot by GNU name": (entry(b"L", b"../f", kind=b"L") + entry(b"x", b"bad"), "invalid"),
    "dot dot by prefix": (entry(b"f", b"bad", prefix=b".."), "invalid"),
    "through a relative link": (entry(b"l", kind=b"2", link=b"../out") + entry(b"l/f", b"bad"), "invalid"),
    "through an absolute link": (entry(b"l", kind=b"2", link=b"OUT") + entry(b"l/f", b"bad"), "invalid"),
    "through a link to here": (entry(b"l", kind=b"2", link=b".") + entry(b"l/f", b"bad"), "invalid"),
    "through an old link": (entry(b"oldlink/f", b"bad"), "invalid"),
    "through an old link, deep": (entry(b"oldlink/a/b/f", b"bad"), "invalid"),
    "directory through a link": (entry(b"oldlink/d/", kind=b"5"), "invalid"),
    "hard link to dot dot": (entry(b"h", kind=b"1", link=b"../out/victim"), "invalid"),
    "hard link through a link": (entry(b"h", kind=b"1", link=b"oldlink/victim"), "invalid"),
    "hard link to absolute": (entry(b"h", kind=b"1", link=b"OUT/victim"), "not_found"),
    "hard link by pax": (pax((b"linkpath", b"../out/victim")) + entry(b"h", kind=b"1", link=b"x"), "invalid"),
    "hard link with content": (entry(b"f") + entry(b"h", b"bad", kind=b"1", link=b"f"), "invalid"),
    "huge size": (entry(b"f", b"bad", size=b"\x80" + b"\x00" * 3 + b"\x0f" + b"\xff" * 7), "limit"),
    "size over 2^60": (entry(b"f", b"bad", size=b"\x80" + b"\x00" * 3 + b"\x7f" + b"\xff" * 7), "invalid"),
    "negative size": (entry(b"f", b"bad", size=b"\xff" * 12), "invalid"),
    "size that is no number": (entry(b"f", b"bad", size=b"0000000zzzz\0"), "invalid"),
    "pax size that is no number": (pax((b"size", b"-1")) + entry(b"f", b"bad"), "invalid"),
    "pax that lies about its length": (entry(b"x", b"99 path=f\n", kind=b"x") + entry(b"f"), "invalid"),
    "pax of zero length records": (entry(b"x", b"0 path=f\n", kind=b"x") + entry(b"f"), "invalid"),
    "pax name with NUL": (pax((b"path", b"a\0b")) + entry(b"f", b"bad"), "invalid"),
    "pax that is too large": (head(b"x", 65537, kind=b"x") + bytes(66048), "limit"),
    "long name that is too long": (entry(b"L", b"n" * 4096, kind=b"L") + entry(b"f"), "invalid"),
    "extensions without end": (entry(b"L", b"n", kind=b"L") * 100 + entry(b"f"), "limit"),
    "sparse, GNU": (entry(b"f", b"bad", kind=b"S"), "unsupported"),
    "sparse, pax": (pax((b"GNU.sparse.major", b"1")) + entry(b"f", b"bad"), "unsupported"),
    "bad checksum": (entry(b"f", b"bad", checksum=1), "invalid"),
    "no tar at all": (b"x" * 512, "invalid"),
    "empty name": (entry(b"", b"bad"), "invalid"),
    "empty link": (entry(b"l", kind=b"2"), "not_found"),
    "name of 256 bytes": (pax((b"path", b"n" * 256)) + entry(b"x", b"bad"), "limit"),
    "9 extensions": (entry(b"L", b"n", kind=b"L") * 9 + entry(b"f"), "limit"),
    "16 MiB and a block behind the end": (entry(b"f", b"hi") + END + bytes((16 << 20) - len(END) + 512), "limit"),
    "65 levels": (pax((b"path", b"/".join([b"d"] * 65))) + entry(b"x", b"bad"), "limit"),
}


def test_archives_that_want_out(d):
    for i, (name, (archive, code)) in enumerate(SLIPS.items()):
        to, out = d / f"{i}/in", d / f"{i}/out"
        to.mkdir(parents=True)
        out.mkdir()
        (out / "victim").write_bytes(b"victim")
        os.symlink("../out", to / "oldlink")
        # A header with the path of this very directory in it gets a new checksum.
        if b"OUT" in archive:
            parts = [archive[n : n + 512] for n in range(0, len(archive), 512)]
            for n, part in enumerate(parts):
                if part[157:160] == b"OUT":
                    tail = part[160:257].rstrip(b"\0")
                    parts[n] = head(part[:100].rstrip(b"\0"), kind=part[156:157], link=os.fsencode(out) + tail)
            archive = b"".join(parts)
        r = extract(to, archive + END)
        check(r.rc == 1 and r.last.get("code") == code, f"{name}: {r.rc} {r.last}, want {code}")
        equal((names(out), (out / "victim").read_bytes()), (["victim"], b"victim"), f"{name}: outside")
        equal((out / "victim").stat().st_nlink, 1, f"{name}: links to the outside")
        check("f" not in os.listdir(d / str(i)), f"{name}: landed above")


def test_links_are_replaced_not_followed(d):
    (d / "in").mkdir()
    (d / "victim").write_bytes(b"victim")
    os.symlink("../victim", d / "in/f")
    extract(d / "in", entry(b"f", b"new") + END).ok()
    equal(((d / "victim").read_bytes(), (d / "in/f").is_symlink()), (b"victim", False), "a link in place of a file")
    os.symlink("..", d / "in/dir")
    extract(d / "in", entry(b"dir/", kind=b"5", mode=0o777) + entry(b"dir/x", b"1") + END).ok()
    equal((names(d / "in"), stat.S_IMODE(d.stat().st_mode)), (["dir", "dir/x", "f"], 0o755), "of a directory")
    # A hard link to an old file, then the same name as a file: the old one must not be written.
    (d / "in/old").write_bytes(b"old")
    extract(d / "in", entry(b"h", kind=b"1", link=b"old") + entry(b"h", b"new") + END).ok()
    equal(((d / "in/old").read_bytes(), (d / "in/h").read_bytes()), (b"old", b"new"), "through a hard link")


def test_truncated_anywhere(d):
    whole = entry(b"a", b"1" * 700) + entry(b"b", b"2") + END[:512]
    for n in [*range(0, 600, 37), 512, 513, 1024, 1535, 1536, 1537, 2047, 2048, 2559, 2560]:
        to = d / str(n)
        to.mkdir()
        r = extract(to, whole[:n])
        if n == len(whole):
            r.ok()
            continue
        r.fails("invalid")
        check(set(names(to)) <= {"a", "b"}, f"{n}: {names(to)}")
        for name in names(to):
            equal(len((to / name).read_bytes()), 700 if name == "a" else 1, f"{n}: {name} is complete")
        # The same without the end of the input: an abort.
        run("tar-in", to, BIG, 10, data=lib.broken(whole[:n])).fails("conflict")


def test_what_is_not_made(d):
    archive = b"".join(entry(b"n" + k, kind=k) for k in (b"3", b"4", b"6", b"V", b"Z"))
    r = extract(d, archive + entry(b"f", b"1", mode=0o6777) + END).ok()
    equal((r.last["count"], r.last["skipped"], r.last["bytes"], names(d)), (1, 5, 1, ["f"]), "made and skipped")
    equal(stat.S_IMODE((d / "f").stat().st_mode), 0o777, "no setuid")
    extract(d, entry(b"f/", kind=b"5") + END).ok()
    check((d / "f").is_dir(), "a directory in place of a file")
    extract(d, entry(b"f", b"1") + END).fails("conflict")
    extract(d / "none", END).fails("not_found")


def test_limits(d):
    archive = b"".join(entry(b"f%d" % i, b"x" * 100) for i in range(10)) + END
    extract(d, archive, limit=1000, entries=10).ok()
    extract(d, archive, limit=999).fails("limit")
    extract(d, archive, entries=9).fails("limit")
    skipped = entry(b"z", b"x" * 600, kind=b"Z") * 2 + END
    extract(d, skipped, limit=1199).fails("limit")
    extract(d, END + bytes(20 << 20)).fails("limit")
    for args in ((d, "x", 1), (d, 1, "x"), (d, 1)):
        run("tar-in", *args).fails("invalid")


def make_tree(top, many=False):
    """Long names, empty directories, sparse content, odd names, links."""
    deep = top / "/".join(["d" * 60] * 8)
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_bytes(b"deep")
    (top / "empty/er").mkdir(parents=True)
    (top / "odd\nname \xff").write_bytes(b"odd")
    with open(top / "sparse", "wb") as f:
        f.seek(5_000_000)
        f.write(b"end")
    (top / "exact").write_bytes(os.urandom(1024))
    (top / "none").touch()
    os.symlink("../" * 50 + "x" * 80, top / "longlink")
    os.symlink("none", top / "link")
    os.link(top / "exact", top / "hard")
    (top / "exact").chmod(0o755)
    os.utime(top / "exact", (1_000_000_000, 1_000_000_000))
    for i in range(100):
        (top / f"many{i}").mkdir()
        for j in range(100 if many else 2):
            (top / f"many{i}/{j}").write_bytes(b"%d" % (i * j))


def same(a, b):
    equal(names(a) == names(b), True, f"names: {len(names(a))} and {len(names(b))}")
    for name in names(a):
        x, y = a / name, b / name
        equal(stat.S_IFMT(x.lstat().st_mode), stat.S_IFMT(y.lstat().st_mode), name)
        if x.is_symlink():
            equal(os.readlink(x), os.readlink(y), name)
        elif x.is_file():
            check(x.read_bytes() == y.read_bytes(), f"content of {name}")
            equal((x.stat().st_mode, int(x.stat().st_mtime)), (y.stat().st_mode, int(y.stat().st_mtime)), name)


def test_out_is_read_by_system_tar(d):
    (d / "a").mkdir()
    (d / "b").mkdir()
    make_tree(d / "a", many=True)
    r = run("tar-out", d / "a", BIG, raw_after="entry").ok()
    equal(r.records[0]["path"], str(d / "a"), "first record")
    p = subprocess.run(["tar", "-xpf", "-", "-C", d / "b"], input=r.raw, capture_output=True, check=False)
    equal((p.returncode, p.stderr), (0, b""), "tar")
    same(d / "a", d / "b")
    equal(len(r.raw) % 512, 0, "whole blocks")


def test_in_reads_system_tar(d):
    (d / "a").mkdir()
    make_tree(d / "a")
    for i, more in enumerate((["--format=gnu"], ["--format=pax"], ["--format=posix", "-b", "1"])):
        to = d / f"b{i}"
        to.mkdir()
        p = subprocess.run(["tar", *more, "-cf", "-", "-C", d / "a", "."], capture_output=True, check=False)
        equal(p.returncode, 0, f"tar {more}: {p.stderr}")
        r = extract(to, p.stdout).ok()
        equal(r.last["count"], len(names(d / "a")), "entries")
        same(d / "a", to)
    (d / "v7").mkdir()
    old = subprocess.run(["tar", "--format=v7", "-cf", "-", "-C", d / "a/many7", "."], capture_output=True, check=True)
    extract(d / "v7", old.stdout).ok()
    same(d / "a/many7", d / "v7")
    sparse = subprocess.run(["tar", "--sparse", "-cf", "-", "-C", d / "a", "sparse"], capture_output=True, check=True)
    extract(d / "v7", sparse.stdout).fails("unsupported")


def test_round_trip_through_both(d):
    (d / "a").mkdir()
    (d / "b").mkdir()
    make_tree(d / "a", many=True)
    extract(d / "b", run("tar-out", d / "a", BIG, raw_after="entry").ok().raw).ok()
    same(d / "a", d / "b")


def test_python_reads_large_sizes(d):
    """Over 8 GiB the size goes into a pax record; the archive is broken off there by its limit."""
    with open(d / "huge", "wb") as f:
        f.truncate(9 << 30)
    r = run("tar-out", d / "huge", 100_000, raw_after="entry").ok(1)
    check(b"larger than allowed" in r.err, f"the reason is told: {r.err}")
    info = tarfile.TarFile(fileobj=io.BytesIO(r.raw), mode="r").next()
    equal((info.name, info.size), ("huge", 9 << 30), "what is announced")


def test_out_of_one_file_and_of_nothing(d):
    (d / "f").write_bytes(b"content")
    with tarfile.TarFile(fileobj=io.BytesIO(run("tar-out", d / "f", BIG, raw_after="entry").ok().raw)) as t:
        equal([(m.name, m.size) for m in t], [("f", 7)], "one file")
    (d / "e").mkdir()
    equal(run("tar-out", d / "e", BIG, raw_after="entry").ok().raw, END, "an empty directory")
    run("tar-out", d / "none", BIG, raw_after="entry").fails("not_found", errno.ENOENT)
    run("tar-out", "/dev/null", BIG, raw_after="entry").fails("invalid", 0)
    run("tar-out", d / "f", "x", raw_after="entry").fails("invalid")


def test_out_says_what_is_missing(d):
    (d / "t").mkdir()
    (d / "t/f").write_bytes(b"1")
    os.mkfifo(d / "t/fifo")
    r = run("tar-out", d / "t", BIG, raw_after="entry").ok(2)
    check(r.raw.endswith(END), "complete but for that")
    os.unlink(d / "t/fifo")
    run("tar-out", d / "t", BIG, raw_after="entry").ok(0)
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(d / "t/sock"))
    run("tar-out", d / "t", BIG, raw_after="entry").ok(2)
    s.close()
    r = run("tar-out", d / "t", 1000, raw_after="entry").ok(1)
    check(not r.raw.endswith(END), "no end marker when broken off")


def test_out_as_another_user(d):
    need_root()
    (d / "secret").write_bytes(b"x")
    (d / "secret").chmod(0o600)
    (d / "open").write_bytes(b"y")
    r = run("tar-out", d, BIG, user=NOBODY, raw_after="entry").ok(2)
    with tarfile.TarFile(fileobj=io.BytesIO(r.raw)) as t:
        equal([m.name for m in t], ["open"], "what he may read")
    run("tar-out", d / "secret", BIG, user=NOBODY, raw_after="entry").fails("denied", errno.EACCES)
    extract(d, entry(b"f", b"1") + END, user=NOBODY).fails("denied", errno.EACCES)


lib.main(globals())
