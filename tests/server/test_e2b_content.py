#!/usr/bin/python3
"""test_e2b_content.py - downloads from and uploads to /files of a sandbox: ranges, conditions, forms, pieces, sizes,
and what happens when one side dies."""
import gzip
import hashlib
import http.client
import json
import os
import sys
import time
from email.utils import formatdate, parsedate_to_datetime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sandbox_files import HOME, MIB, Sandbox, Watch, answer_of, box, chunked, files  # noqa: E402
from harness import Failed, check, equal, has, run_tests, wait_for, wait_read  # noqa: E402
from level import differs  # noqa: E402


# --- downloads -----------------------------------------------------------------------------------------


def test_read(server):
    b = box(server)
    b.put("d/a b.txt", b"0123456789")
    heads, data = b.get("d/a b.txt")
    equal(data, b"0123456789", "content")
    equal(heads["content-disposition"], 'inline; filename="a b.txt"', "disposition")
    equal(heads["content-type"], "text/plain; charset=utf-8", "type")
    equal((heads["vary"], heads["accept-ranges"], heads["content-length"]), ("Accept-Encoding", "bytes", "10"), "headers")
    b.put("d/\u20ac.bin", b"x")
    heads, _ = b.get("d/\u20ac.bin")
    equal(heads["content-disposition"], "inline; filename=\"___.bin\"; filename*=UTF-8''%E2%82%AC.bin", "disposition")
    equal(heads["content-type"], "application/octet-stream", "type")
    b.put("d/empty", b"")
    heads, data = b.get("d/empty")
    equal((heads["content-length"], data), ("0", b""), "an empty file")
    check(b"MemTotal" in b.get("/proc/meminfo")[1], "a file of /proc")
    check(b.get("/proc/self/status")[1].startswith(b"Name:"), "another")
    b.put("d/page.html", b"<script>")
    equal(b.get("d/page.html")[0]["content-security-policy"], "sandbox", "a page")


def test_read_refused(server):
    b = box(server)
    error = lambda path, status, **more: json.loads(b.get(path, status, **more)[1])
    equal(error("/no/such", 404), {"code": 404, "message": "path '/no/such' does not exist"}, "no file")
    equal(error(HOME, 400), {"code": 400, "message": f"path '{HOME}' is a directory"}, "a directory")
    has(error("x", 401, username="nobody123")["message"], "error looking up user 'nobody123'", "an unknown user")
    error("", 400)
    error("/etc/passwd", 406, headers={"Accept-Encoding": "gzip, identity;q=0"})
    b.get("/etc/passwd", 200, headers={"Accept-Encoding": "gzip, deflate, br"})
    b.sh("mkfifo fifo")
    check(error("fifo", 400)["code"] == 400, "a pipe")


def test_ranges(server):
    b = box(server)
    data = os.urandom(100000)
    b.put("range", data)
    for header, want in (
        ("bytes=0-0", data[:1]),
        ("bytes=10-19", data[10:20]),
        ("bytes=99990-", data[99990:]),
        ("bytes=99990-200000", data[99990:]),
        ("bytes=-10", data[-10:]),
        ("bytes=-200000", data),
    ):
        heads, got = b.get("range", 206, headers={"Range": header})
        equal(got, want, f"Range: {header}")
        first = data.find(want)
        equal(heads["content-range"], f"bytes {first}-{first + len(want) - 1}/100000", f"Content-Range of {header}")
    for header in "bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6":
        equal(b.get("range", 200, headers={"Range": header})[1], data, f"Range: {header}")
    heads, _ = b.get("range", 416, headers={"Range": "bytes=100000-"})
    equal(heads["content-range"], "bytes */100000", "beyond the end")
    b.put("range0", b"")
    equal(b.get("range0", 200, headers={"Range": "bytes=0-"})[1], b"", "of nothing")


def test_conditions(server):
    b = box(server)
    b.put("cond", b"0123456789")
    heads, _ = b.get("cond")
    changed = heads["last-modified"]
    before = formatdate(parsedate_to_datetime(changed).timestamp() - 10, usegmt=True)
    heads, data = b.get("cond", 304, headers={"If-Modified-Since": changed})
    equal((data, heads["last-modified"]), (b"", changed), "304")
    b.get("cond", 200, headers={"If-Modified-Since": before})
    b.get("cond", 412, headers={"If-Unmodified-Since": before})
    b.get("cond", 304, headers={"If-None-Match": "*"})
    equal(b.get("cond", 206, headers={"If-Range": changed, "Range": "bytes=2-3"})[1], b"23", "If-Range, the same")
    equal(b.get("cond", 200, headers={"If-Range": before, "Range": "bytes=2-3"})[1], b"0123456789", "If-Range, another")
    heads, data = b.get("cond", 200, method="HEAD")
    equal((data, heads["content-length"], heads["last-modified"]), (b"", "10", changed), "HEAD")
    equal(b.get("cond", 206, method="HEAD", headers={"Range": "bytes=-3"})[0]["content-length"], "3", "HEAD of a range")
    b.get("none", 404, method="HEAD")


# --- uploads -------------------------------------------------------------------------------------------


def test_write(server):
    b = box(server)
    equal(b.put("u/new/x.txt", b"hello"), [{"path": f"{HOME}/u/new/x.txt", "name": "x.txt", "type": "file"}], "answer")
    entry = b.rpc("Stat", {"path": "u/new/x.txt"})["entry"]
    equal((entry["permissions"], entry["owner"], entry["group"]), ("-rw-r--r--", "user", "user"), "a new file")
    equal(b.rpc("Stat", {"path": "u"})["entry"]["permissions"], "drwxr-xr-x", "a new directory")
    b.sh("chmod 755 u/new/x.txt")
    b.put("u/new/x.txt", b"")
    equal(b.get("u/new/x.txt")[1], b"", "empty now")
    equal(b.rpc("Stat", {"path": "u/new/x.txt"})["entry"]["permissions"], "-rwxr-xr-x", "its mode is kept")
    has(b.put("u/new", b"x", 400)["message"], "is a directory", "onto a directory")
    has(b.put("u/new/x.txt/y", b"x", 400)["message"], "not a directory", "below a file")
    has(b.put("x", b"x", 401, username="nobody123")["message"], "nobody123", "an unknown user")
    equal(b.put("", b"x", 400)["code"], 400, "no path")
    for kind in "text/plain", "application/json", "multipart/form-data", "multipart/mixed; boundary=x":
        b.put("x", b"x", 400, headers={"Content-Type": kind})
    b.fails("Stat", {"path": "x"}, 404, "not_found")


def test_write_packed(server):
    b = box(server)
    data = b"".join(b"line %d\n" % i for i in range(200000))
    packed = {"Content-Encoding": "gzip"}
    b.put("z", gzip.compress(data), headers=packed)
    equal(b.get("z")[1], data, "content")
    b.put("z", gzip.compress(b"a") + gzip.compress(b"b"), headers=packed)
    equal(b.get("z")[1], b"ab", "of two members")
    b.put("z", gzip.compress(data)[:-5], 400, headers=packed)
    b.put("z", b"this is not gzip", 400, headers=packed)
    b.put("z", gzip.compress(data)[:1000] + b"garbage", 400, headers=packed)
    equal(b.get("z")[1], b"ab", "unchanged")
    b.put("z", b"x", 400, headers={"Content-Encoding": "br"})
    b.form([('name="file"; filename="z"', b"x")], 400, headers=packed)


def test_metadata(server):
    b = box(server)
    if differs("extended attributes") and not b.keeps_attributes():
        metadata_are_refused(b)
        return
    meta = {"X-Metadata-Author": "me", "X-METADATA-Two": "a=b c"}
    want = {"author": "me", "two": "a=b c"}
    equal(b.put("meta", b"x", headers=meta), [{"path": f"{HOME}/meta", "name": "meta", "type": "file", "metadata": want}], "answer")
    equal(b.rpc("Stat", {"path": "meta"})["entry"]["metadata"], want, "of Stat")
    b.put("meta", b"x", headers={"X-Metadata-Three": "3"})
    equal(b.rpc("Stat", {"path": "meta"})["entry"]["metadata"], {"three": "3"}, "replaced")
    b.put("meta", b"x")
    check("metadata" not in b.rpc("Stat", {"path": "meta"})["entry"], "cleared")
    both = b.form([('name="file"; filename="m1"', b"1"), ('name="file"; filename="m2"', b"2")], headers={"X-Metadata-A": "b"})
    equal([e["metadata"] for e in both], [{"a": "b"}] * 2, "of a form")
    for bad in {"X-Metadata-": "x"}, {"X-Metadata-A": "caf\u00e9".encode()}, {"X-Metadata-" + "k" * 247: "x"}, {"X-Metadata-A": "v" * 4096}:
        b.put("meta", b"x", 400, headers=bad)


def metadata_are_refused(b):
    """Where the kernel cannot keep them: whole uploads, and what was there stays."""
    b.put("meta", b"before")
    for refused in (b.put("meta", b"x", 400, {"X-Metadata-A": "b"}), b.form([('name="file"; filename="meta"', b"x")], 400, {"X-Metadata-A": "b"})):
        has(refused["message"], "this kernel cannot keep file metadata")
    equal(b.get("meta")[1], b"before", "the file")
    check("metadata" not in b.rpc("Stat", {"path": "meta"})["entry"], "of Stat")


def test_forms(server):
    b = box(server)
    answer = b.form([('name="file"; filename="/tmp/f/one.txt"', b"1"), ('name="note"', b"no file"), ('name="file"; filename="f/two"', b"\r\n--XBOUND\r\n")])
    equal(
        answer,
        [
            {"path": "/tmp/f/one.txt", "name": "one.txt", "type": "file"},
            {"path": f"{HOME}/f/two", "name": "two", "type": "file"},
        ],
        "answer",
    )
    equal((b.get("/tmp/f/one.txt")[1], b.get("f/two")[1]), (b"1", b"\r\n--XBOUND\r\n"), "contents")
    equal(b.form([('name="file"; filename="ignored"', b"p")], path="f/by path")[0]["path"], f"{HOME}/f/by path", "by path")
    equal(b.form([('name="file"', b"plain")], path="f/plain")[0]["name"], "plain", "without a filename")
    equal(b.form([('name="file"; filename="q%22u%0D%0Ao\\\\te"', b"q")])[0]["name"], 'q"u\r\no\\te', "escapes")
    equal(b.form([]), [], "an empty form")
    has(b.form([('name="file"', b"x")], 400)["message"], "filename", "neither name nor path")
    has(b.form([('name="file"; filename="f/d"', b"first"), ('name="file"; filename="f/d"', b"second")], 400)["message"], "same path", "one path twice")
    equal(b.get("f/d")[1], b"first", "the first one stays")
    has(b.form([('name="file"; filename="f/e"', b"1"), ('name="file"; filename="~/f/e"', b"2")], 400)["message"], "same path", "twice, spelt differently")
    b.form([('name="file"', b"1"), ('name="file"', b"2")], 400, path="f/g")
    b.form([('name="file"; filename="f/h"', b"1")], 400, end=False)
    b.fails("Stat", {"path": "f/h"}, 404, "not_found")
    b.form([('name="file"; filename="f/h"', b"1"), ("nonsense", b"")], 400)
    equal(b.get("f/h")[1], b"1", "what was complete stays")
    answer = b.form([('name="file"; filename="f/i"', b"1"), ('name="file"; filename="/tmp"', b"x" * MIB), ('name="file"; filename="f/j"', b"1")], 400)
    has(answer["message"], "/tmp", "which one failed")
    b.fails("Stat", {"path": "f/j"}, 404, "not_found")


def test_many_in_a_form(server):
    b = box(server)
    parts = [(f'name="file"; filename="many/{i}"', os.urandom(i * 7)) for i in range(300)]
    equal(len(b.form(parts)), 300, "files")
    for i in 0, 1, 150, 299:
        equal(b.get(f"many/{i}")[1], parts[i][1], f"file {i}")


def test_chunked_forms(server):
    """A boundary cut in every place."""
    b = box(server)
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="ch"\r\n\r\n\r\n--\r\n--b--\r\n'
    for size in 1, 2, 3, 5, 8:
        s = chunked(b, "/files", "multipart/form-data; boundary=b", [body[i : i + size] for i in range(0, len(body), size)])
        s.sendall(b"0\r\n\r\n")
        equal(answer_of(s)[0], 200, f"pieces of {size}")
        equal(b.get("ch")[1], b"\r\n--", f"pieces of {size}")


def test_an_upload_that_breaks_off(server):
    b = box(server)
    b.put("broken", b"before")
    for kind, piece in (
        ("application/octet-stream", b"x" * 100000),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="file"; filename="broken"\r\n\r\n' + b"x" * 100000),
    ):
        s = chunked(b, files(path="broken"), kind, [piece])
        wait_read(s)
        s.close()
        wait_for(lambda: len(server.programs(b.id)) == 1, 10, "the end of the writer")
        equal(b.get("broken")[1], b"before", f"after a broken {kind}")
    left = [name for name in b.sh("ls -A").split() if "broken" in name or ".cordon-new-" in name]
    if differs("uploads that break off"):
        left = [name for name in left if not name.startswith(".cordon-new-")]
    equal(left, ["broken"], "files left behind")


def test_full_disk(server):
    b = Sandbox(server)
    disk = int(server.get(b.id)["limits"]["disk_bytes"])
    b.sh(f"head -c {disk - 8 * MIB} /dev/zero > fill", timeout="60s")
    answer = b.put("big", b"x" * (16 * MIB), 507)
    equal(answer, {"code": 507, "message": "not enough disk space available"}, "answer")
    b.fails("Stat", {"path": "big"}, 404, "not_found")
    b.form([('name="file"; filename="small"', b"s"), ('name="file"; filename="big"', b"x" * (16 * MIB))], 507)
    equal(b.get("small")[1], b"s", "what came before")
    server.delete(b.id)


def test_compose(server):
    b = box(server)
    for i in range(3):
        b.put(f"c/{i}", b"%d;" % i)
    got, _, data = b.ask(
        "POST",
        "/files/compose",
        json.dumps({"source_paths": ["c/0", "c/1", "c/2"], "destination": "c/new/all"}).encode(),
        {"Content-Type": "application/json"},
    )
    equal((got, json.loads(data)), (200, {"path": f"{HOME}/c/new/all", "name": "all", "type": "file"}), "answer")
    equal(b.get("c/new/all")[1], b"0;1;2;", "content")
    equal([e["name"] for e in b.rpc("ListDir", {"path": "c"})["entries"]], ["new"], "the sources are gone")
    for body, status in (
        ({"source_paths": ["c/none"], "destination": "c/x"}, 404),
        ({"source_paths": [], "destination": "c/x"}, 400),
        ({"source_paths": ["c/new/all"]}, 400),
        ({"source_paths": ["a"] * 101, "destination": "c/x"}, 400),
        ({"source_paths": [7], "destination": "c/x"}, 400),
        ({"source_paths": ["a"], "destination": "c/x", "username": "nobody123"}, 401),
    ):
        got, _, data = b.ask("POST", "/files/compose", json.dumps(body).encode(), {"Content-Type": "application/json"})
        equal(got, status, f"{body}: {data}")


# --- size and death ------------------------------------------------------------------------------------


def test_large_files(server):
    b = box(server)
    data = os.urandom(MIB) * 64
    want = hashlib.sha256(data).hexdigest()
    for how in "octets", "form":
        began = time.monotonic()
        if how == "octets":
            b.put("large", data)
        else:
            b.form([('name="file"; filename="large"', data)])
        up = time.monotonic() - began
        began = time.monotonic()
        got = b.get("large")[1]
        down = time.monotonic() - began
        equal(hashlib.sha256(got).hexdigest(), want, "content")
        print(f"# 64 MiB as {how}: up {64 / up:.0f} MiB/s, down {64 / down:.0f} MiB/s")
        check(up < 6 and down < 6, f"up {up:.1f} s, down {down:.1f} s")
    b.sh("rm large")


def test_too_large(server):
    b = box(server)
    s = chunked(b, files(path="huge"), "application/octet-stream", [])
    s.close()
    limit = 2 * MIB * 1024 * 1024
    link = server.link()
    link.putrequest("POST", files(path="huge"))
    for k, v in b.headers({"Content-Type": "application/octet-stream", "Content-Length": str(limit)}).items():
        link.putheader(k, v)
    link.endheaders()
    answer = link.getresponse()
    equal((answer.status, json.loads(answer.read())["code"]), (413, 413), "2 TiB")
    link.close()


def test_death_while_a_file_is_read(server):
    b = Sandbox(server)
    b.sh("head -c 100000000 /dev/zero > f")
    link = server.link(timeout=20)
    link.request("GET", files(path="f"), headers=b.headers())
    answer = link.getresponse()
    answer.read(1000)
    server.delete(b.id)
    try:
        rest = answer.read()
        raise Failed(f"{len(rest)} bytes, as if that were all")
    except (ConnectionResetError, http.client.IncompleteRead):
        pass
    equal(b.ask("GET", files(path="f"))[0], 502, "afterwards")


def test_death_while_a_file_is_written(server):
    b = Sandbox(server)
    s = chunked(b, files(path="f"), "application/octet-stream", [b"x" * 1000])
    wait_read(s)
    server.delete(b.id)
    s.sendall(b"0\r\n\r\n")
    try:
        status, _ = answer_of(s)
        equal(status, 502, "answer")
    except (ConnectionResetError, http.client.RemoteDisconnected):
        pass


def test_clients_that_vanish(server):
    """In the middle of everything: nothing stays behind in the sandbox."""
    b = box(server)
    b.put("v", b"x" * 4 * MIB)
    for _ in range(10):
        w = Watch(b, "/tmp")
        w.next()
        w.close()
        link = server.link()
        link.request("GET", files(path="v"), headers=b.headers())
        link.sock.close()
        chunked(b, files(path="v2"), "application/octet-stream", [b"x" * 100]).close()
    if differs("watchers of files"):
        b.sh("touch /tmp/again")
    wait_for(lambda: len(server.programs(b.id)) == 1, 10, "end of all built-ins")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
