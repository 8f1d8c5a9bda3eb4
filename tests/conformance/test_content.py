#!/usr/bin/python3
"""The plain HTTP endpoints of envd: /files, /files/compose, /health, /metrics, /envs; signatures."""
import gzip
import http.client
import json
import time
from urllib.parse import quote

from contract import NO_TOKEN, Sandbox, check, equal, has, run_tests, short, signature
from level import LEVEL, differs

OCTETS = {"Content-Type": "application/octet-stream"}


def form(*parts, boundary="frontier"):
    """(headers, body) of parts (filename or None, data[, name of the field])."""
    body = b""
    for filename, data, *field in parts:
        name = field[0] if field else "file"
        named = "" if filename is None else f'; filename="{filename}"'
        body += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\nContent-Type: application/octet-stream\r\n\r\n'.encode()
            + data
            + b"\r\n"
        )
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body + f"--{boundary}--\r\n".encode()


def get(box, path, headers=None, **more):
    return box.envd("GET", "/files?path=" + quote(path), None, headers, raw=True, **more)


def error(answer, status, *parts):
    got, headers, data = answer
    data = json.loads(data) if isinstance(data, bytes) else data
    equal((got, data.get("code")), (status, status), short(data))
    equal(set(data), {"code", "message"}, "members of an error")
    check(headers["content-type"].replace(" ", "") == "application/json;charset=utf-8", headers["content-type"])
    for part in parts:
        has(data["message"], part, "message")


def test_health_metrics_envs(server):
    box = Sandbox(server, envVars={"A": "b", "SNOW": "☃"})
    status, _, data = box.envd("GET", "/health", token=None)
    equal((status, data), (204, b""))
    status, _, data = box.envd("GET", "/metrics")
    equal(status, 200)
    want = {
        "ts",
        "cpu_count",
        "cpu_used_pct",
        "mem_total",
        "mem_used",
        "mem_cache",
        "mem_total_mib",
        "mem_used_mib",
        "disk_used",
        "disk_total",
    }
    memory = 256 if LEVEL == "microvm" else 512  # MiB: see tests/server/leveled.py
    check(want <= set(data), f"missing {want - set(data)}")
    check(
        abs(data["ts"] - time.time()) < 10 and data["mem_total"] == memory << 20 and data["mem_total_mib"] == memory,
        str(data),
    )
    status, _, data = box.envd("GET", "/envs")
    equal((status, data["A"], data["SNOW"]), (200, "b", "☃"))


def test_get(server):
    box = Sandbox(server)
    box.write("a.txt", b"0123456789")
    status, headers, data = get(box, "a.txt")
    equal((status, data, headers["content-length"]), (200, b"0123456789", "10"))
    check(
        headers["content-disposition"].startswith("inline; filename=") and "a.txt" in headers["content-disposition"],
        headers["content-disposition"],
    )
    has(headers["vary"].lower(), "accept-encoding")
    check(headers.get("content-type"), "a content type")
    box.write("empty")
    status, headers, data = get(box, "empty")
    equal((status, data, headers.get("content-length")), (200, b"", "0"), "an empty file has its length")
    box.write("/root/r", b"x")
    equal(box.envd("GET", "/files?path=r&username=root", raw=True)[::2], (200, b"x"), "relative to another home")
    status, _, data = get(box, "/proc/version")
    equal((status, data[:14]), (200, b"Linux version "), "a file whose size is said to be 0")
    box.run("ln -s a.txt link; mkdir d")
    equal(get(box, "link")[2], b"0123456789")
    name = 'qu"ote ü\n.bin'
    equal(box.envd("POST", "/files?path=" + quote(name), b"x", OCTETS)[0], 200)
    status, headers, _ = get(box, name)
    check(status == 200 and "\n" not in headers["content-disposition"], str(headers))


def test_get_errors(server):
    box = Sandbox(server)
    box.rpc("filesystem.Filesystem/MakeDir", {"path": "d"})
    box.write("f", b"x")
    error(get(box, "none"), 404, "path '", "none' does not exist")
    error(get(box, "/home/user/d"), 400, "path '/home/user/d' is a directory")
    error(box.envd("GET", "/files?path=f&username=root123", raw=True), 401, "error looking up user 'root123'")
    check(box.envd("GET", "/files", raw=True)[0] == 400, "no path is a directory, the home")
    error(get(box, "f", {"Accept-Encoding": "identity;q=0, *;q=0"}), 406)
    equal(get(box, "f", {"Accept-Encoding": "gzip, deflate"})[0], 200)
    equal(get(box, "f", {"Accept-Encoding": "br"})[0], 200, "identity is always acceptable")
    box.run("mkfifo p")
    check(400 <= get(box, "p")[0] < 600, "a pipe is not waited for")


def test_ranges(server):
    box = Sandbox(server)
    box.write("f", b"0123456789")
    for text, want, where in (
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=0-99", b"0123456789", "bytes 0-9/10"),
    ):
        status, headers, data = get(box, "f", {"Range": text})
        equal((status, data, headers["content-range"]), (206, want, where), text)
    status, headers, _ = get(box, "f", {"Range": "bytes=10-"})
    equal((status, headers.get("content-range")), (416, "bytes */10"))
    equal(get(box, "f", {"Range": "lines=1-2"})[::2], (200, b"0123456789"))
    modified = get(box, "f")[1].get("last-modified")
    if modified:
        equal(get(box, "f", {"If-Modified-Since": modified})[0], 304)
        equal(get(box, "f", {"Range": "bytes=0-0", "If-Range": "Thu, 01 Jan 1970 00:00:00 GMT"})[0], 200)


def test_post_octets(server):
    box = Sandbox(server)
    status, _, data = box.envd("POST", "/files?path=d/e/f", b"one", OCTETS)
    equal((status, data), (200, [{"path": "/home/user/d/e/f", "name": "f", "type": "file"}]))
    equal(box.run("cat d/e/f; stat -c '%U:%G %a' d d/e/f")[1], b"oneuser:user 755\nuser:user 644\n")
    box.envd("POST", "/files?path=d/e/f", b"2", OCTETS)
    equal(get(box, "d/e/f")[2], b"2", "truncated")
    status, _, data = box.envd("POST", "/files?path=r&username=root", b"", OCTETS)
    equal((status, data[0]["path"]), (200, "/root/r"))
    error(box.envd("POST", "/files", b"x", OCTETS), 400)
    error(box.envd("POST", "/files?path=d", b"x", OCTETS), 400)
    error(box.envd("POST", "/files?path=x&username=root123", b"x", OCTETS), 401, "root123")
    for kind in ("text/plain", "application/json", "multipart/form-data", "application/x-www-form-urlencoded"):
        error(box.envd("POST", "/files?path=x", b"x", {"Content-Type": kind}), 400)
    equal(get(box, "x")[0], 404)


def test_post_chunked(server):
    box = Sandbox(server)
    link = http.client.HTTPConnection(*server.address, timeout=10)
    link.request(
        "POST",
        "/files?path=c",
        iter([b"one", b"two" * 50000, b"end"]),
        {**box.headers(), **OCTETS},
        encode_chunked=True,
    )
    answer = link.getresponse()
    equal((answer.status, json.loads(answer.read())[0]["name"]), (200, "c"))
    link.close()
    equal(get(box, "c")[2], b"one" + b"two" * 50000 + b"end")


def test_post_gzip(server):
    box = Sandbox(server)
    data = b"packed " * 100000
    headers = {**OCTETS, "Content-Encoding": "gzip"}
    equal(box.envd("POST", "/files?path=z", gzip.compress(data), headers)[0], 200)
    equal(get(box, "z")[2], data)
    equal(box.envd("POST", "/files?path=z2", gzip.compress(b"one") + gzip.compress(b"two"), headers)[0], 200)
    equal(get(box, "z2")[2], b"onetwo", "two members")
    packed = gzip.compress(data)
    for bad in (b"no gzip", packed[:-5], packed[:100], packed[:-8] + b"\0" * 8, b""):
        error(box.envd("POST", "/files?path=bad", bad, headers), 400)
        equal(get(box, "bad")[0], 404, "nothing half written")
    for encoding in ("br", "deflate", "compress", "gzip, gzip"):
        error(box.envd("POST", "/files?path=bad", b"x", {**OCTETS, "Content-Encoding": encoding}), 400)
    equal(box.envd("POST", "/files?path=plain", b"x", {**OCTETS, "Content-Encoding": "identity"})[0], 200)


def test_post_forms(server):
    box = Sandbox(server)
    headers, body = form(("one", b"1"), ("d/two.txt", b"22"), ("/tmp/three", b""))
    status, _, data = box.envd("POST", "/files", body, headers)
    equal(
        (status, data),
        (
            200,
            [
                {"path": "/home/user/one", "name": "one", "type": "file"},
                {"path": "/home/user/d/two.txt", "name": "two.txt", "type": "file"},
                {"path": "/tmp/three", "name": "three", "type": "file"},
            ],
        ),
    )
    equal((get(box, "d/two.txt")[2], get(box, "/tmp/three")[2]), (b"22", b""))
    headers, body = form(("ignored", b"by path"))
    equal(box.envd("POST", "/files?path=p", body, headers)[2], [{"path": "/home/user/p", "name": "p", "type": "file"}])
    headers, body = form((None, b"no name"))
    equal(box.envd("POST", "/files?path=n", body, headers)[0], 200)
    equal(get(box, "n")[2], b"no name")
    headers, body = form(("with %22quote%22 and %0D%0A", b"x"))
    equal(box.envd("POST", "/files", body, headers)[2][0]["name"], 'with "quote" and \r\n')
    headers, body = form(("other", b"skip", "field"), ("kept", b"x"))
    equal([f["name"] for f in box.envd("POST", "/files", body, headers)[2]], ["kept"], "only parts named file")
    tricky = b"--frontier\r\n--frontie\r\n\r\n--fronti" + b"\r\n-" * 1000
    headers, body = form(("tricky", tricky), boundary="frontier2")
    equal(box.envd("POST", "/files", body, headers)[0], 200)
    equal(get(box, "tricky")[2], tricky, "almost a boundary")
    quoted = {"Content-Type": 'multipart/form-data; boundary="fr:ont ier"'}
    _, body = form(("q", b"x"), boundary="fr:ont ier")
    equal(box.envd("POST", "/files", body, quoted)[0], 200)


def test_post_bad_forms(server):
    box = Sandbox(server)
    for name, (headers, body) in {
        "the same file twice": form(("same", b"1"), ("/home/user/same", b"2")),
        "two parts for one path": form(("a", b"1"), ("b", b"2")),
        "no name and no path": form((None, b"x")),
    }.items():
        path = "/files?path=same" if name.startswith("two") else "/files"
        error(box.envd("POST", path, body, headers), 400)
    headers, body = form(("cut", b"x" * 1000))
    for cut in (10, 60, 120, 500, len(body) - 16):
        status, _, data = box.envd("POST", "/files", body[:cut], headers)
        check(status == 400, f"cut at {cut}: {status} {short(data)}")
        equal(get(box, "cut")[0], 404, f"cut at {cut}: nothing is written")
    error(box.envd("POST", "/files", b"no form at all", headers), 400)
    error(box.envd("POST", "/files", body, {"Content-Type": "multipart/form-data; boundary=" + "x" * 200}), 400)
    error(box.envd("POST", "/files", b"--frontier\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n", headers), 400)
    equal(box.run("echo alive")[1], b"alive\n")


def keeps_attributes(box):
    """tmpfs has those of users since Linux 6.6; gVisor says that it is 4.4."""
    return tuple(int(n) for n in box.run("uname -r")[1].split(b".")[:2]) >= (6, 6)


def test_metadata(server):
    box = Sandbox(server)
    meta = {"X-Metadata-Author": "ada", "x-metadata-kind": "a b=c"}
    if differs("extended attributes") and not keeps_attributes(box):
        error(box.envd("POST", "/files?path=f", b"x", {**OCTETS, **meta}), 400, "this kernel cannot keep file metadata")
        equal(get(box, "f")[0], 404, "nothing is written")
        box.write("f", b"x")
        check("metadata" not in box.rpc("filesystem.Filesystem/Stat", {"path": "f"})["entry"], "metadata")
        return
    status, _, data = box.envd("POST", "/files?path=f", b"x", {**OCTETS, **meta})
    equal(
        (status, data),
        (200, [{"path": "/home/user/f", "name": "f", "type": "file", "metadata": {"author": "ada", "kind": "a b=c"}}]),
    )
    stat = lambda: box.rpc("filesystem.Filesystem/Stat", {"path": "f"})["entry"].get("metadata", {})  # noqa: E731
    equal(stat(), {"author": "ada", "kind": "a b=c"})
    box.envd("POST", "/files?path=f", b"x", {**OCTETS, "X-Metadata-Other": "1"})
    equal(stat(), {"other": "1"}, "replaced")
    for bad in (
        {"X-Metadata-A": "v" * 5000},
        {"X-Metadata-" + "k" * 247: "v"},
        {"X-Metadata-": "v"},
        {f"X-Metadata-{i}": "v" * 500 for i in range(9)},
    ):
        error(box.envd("POST", "/files?path=f", b"new", {**OCTETS, **bad}), 400)
    equal((get(box, "f")[2], stat()), (b"x", {"other": "1"}), "a refused write changes nothing")
    box.envd("POST", "/files?path=f", b"x", OCTETS)
    equal(stat(), {}, "cleared")


def test_disk_full(server):
    box = Sandbox(server)
    error(box.envd("POST", "/files?path=big", b"\0" * (70 << 20), OCTETS), 507, "not enough disk space available")
    equal(get(box, "big")[0], 404)
    box.write("small", b"x")


def test_compose(server):
    box = Sandbox(server)
    for name in ("p1", "p2", "p3"):
        box.write(name, name.encode())
    status, _, entry = box.envd(
        "POST", "/files/compose", {"source_paths": ["p1", "p2", "p3"], "destination": "new/whole"}
    )
    equal(status, 200, short(entry))
    equal(get(box, "new/whole")[2], b"p1p2p3")
    equal([get(box, p)[0] for p in ("p1", "p2", "p3")], [404, 404, 404])
    box.write("p1", b"x")
    error(box.envd("POST", "/files/compose", {"source_paths": ["p1", "none"], "destination": "w"}), 404)
    equal(get(box, "p1")[0], 200, "nothing is lost when a part is missing")
    for bad in (
        {},
        {"source_paths": "p1", "destination": "w"},
        {"source_paths": [], "destination": "w"},
        {"source_paths": ["p1"]},
    ):
        check(box.envd("POST", "/files/compose", bad)[0] == 400, str(bad))


def test_the_vector(server):
    """The contract's own, of the function by which the other tests sign."""
    equal(
        signature("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"),
        "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E",
    )


def test_signatures(server):
    box, other = Sandbox(server), Sandbox(server)
    box.write("a%20b", b"signed")

    def ask(
        path="a b",
        operation="read",
        user="",
        token=None,
        expires=None,
        username=None,
        method="GET",
        headers=None,
        **change,
    ):
        sign = signature(path, operation, user, token or box.token, expires)
        query = {"path": path, "signature": sign}
        if expires is not None:
            query["signature_expiration"] = str(expires)
        if username is not None:
            query["username"] = username
        query.update(change)
        url = "/files?" + "&".join(f"{n}={quote(v, safe='')}" for n, v in query.items() if v is not None)
        sent = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983", **(headers or {})}
        status, _, data = server.request(method, url, b"new" if method == "POST" else None, sent, raw=True, key=None)
        return status, data

    now = int(time.time())
    bad = (401, b'{"code":401,"message":"invalid signature"}')
    equal(ask(), (200, b"signed"))
    equal(ask(expires=now + 60), (200, b"signed"))
    equal(ask(user="user", username="user"), (200, b"signed"))
    equal(ask(expires=now - 1), (401, b'{"code":401,"message":"signature is already expired"}'))
    equal(ask(expires=1, signature="v1_x"), bad, "first the signature, then the time")
    equal(ask(signature=None), (401, b'{"code":401,"message":"missing signature query parameter"}'))
    equal(ask(token=other.token), bad)
    equal(ask(operation="write"), bad)
    equal(ask(user="root"), bad)
    equal(ask(username="root"), bad)
    equal(ask(expires=now + 60, signature_expiration=str(now + 61)), bad)
    equal(ask(expires=now + 60, signature_expiration=None), bad)
    for text in ("x", "-1", "1e9", "99999999999999999999999"):
        check(ask(signature_expiration=text)[0] in (400, 401), f"expiry {text}")
    for sign in (
        "",
        "v1_",
        "v2_" + signature("a b", "read", "", box.token)[3:],
        signature("a b", "read", "", box.token) + "=",
    ):
        check(ask(signature=sign)[0] == 401, f"signature {sign!r}")
    equal(
        ask(headers={"X-Access-Token": "wrong"}),
        (401, b'{"code":401,"message":"access token present in header but does not match"}'),
        "a header wins",
    )
    equal(ask(headers={"X-Access-Token": box.token}, signature="nonsense"), (200, b"signed"), "a header is enough")
    post = {"method": "POST", "headers": OCTETS}
    equal(ask(**post)[0], 401, "to read is not to write")
    equal(ask(operation="write", **post)[0], 200)
    equal(ask(), (200, b"new"))
    status, _, data = server.request(
        "GET",
        "/envs?signature=" + quote(signature("", "read", "", box.token), safe=""),
        None,
        {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"},
        key=None,
    )
    equal((status, data), (401, NO_TOKEN), "only files can be signed for")


def httpx_form(*files):
    """(headers, body) as httpx, which E2B's Python SDK uses, writes them: parts with a guessed type, the whole path as
    file name, an md5-like boundary, and names of headers in lower case."""
    boundary = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    body = b""
    for path, kind, data in files:
        name = path.replace("\\", "\\\\").replace('"', "%22")
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'.encode()
        body += data + b"\r\n"
    return {"content-type": f"multipart/form-data; boundary={boundary}"}, body + f"--{boundary}--\r\n".encode()


PYTHON = {"accept": "*/*", "accept-encoding": "gzip, deflate, br, zstd", "user-agent": "e2b-python-sdk/2.45.1", "connection": "keep-alive"}


def test_files_as_python_sends_them(server):
    box = Sandbox(server)
    # write(): one part, and its path and user in the query, too.
    headers, body = httpx_form(("/tmp/py/snow ☃.txt", "text/plain", "données".encode()))
    status, _, data = box.envd("POST", f"/files?username=user&path={quote('/tmp/py/snow ☃.txt')}", body, {**PYTHON, **headers})
    equal((status, [e["path"] for e in data]), (200, ["/tmp/py/snow ☃.txt"]))
    equal({"name", "type", "path"} <= set(data[0]), True, "WriteInfo(**f) takes them by name")
    # write_files(): several parts, no path; relative ones are below the home directory.
    headers, body = httpx_form(("a.json", "application/json", b"{}"), ("/tmp/py/b", "application/octet-stream", b"\0\xff\r\n--x"), ("empty", "application/octet-stream", b""))
    status, _, data = box.envd("POST", "/files", body, {**PYTHON, **headers})
    equal((status, [e["path"] for e in data]), (200, ["/home/user/a.json", "/tmp/py/b", "/home/user/empty"]))
    # An open file has no length that httpx knows: the body comes in chunks of 64 KiB.
    big = bytes(range(256)) * 1024
    headers, body = httpx_form(("/tmp/py/big", "application/octet-stream", big))
    link = http.client.HTTPConnection(*server.address, timeout=60)
    pieces = [body[at : at + 65536] for at in range(0, len(body), 65536)]
    link.request("POST", "/files?path=/tmp/py/big", iter(pieces), {**box.headers(), **PYTHON, **headers, "transfer-encoding": "chunked"}, encode_chunked=True)
    answer = link.getresponse()
    equal((answer.status, json.loads(answer.read())[0]["path"]), (200, "/tmp/py/big"))
    # read(): every encoding that httpx knows is offered; what comes is one of them, and says so.
    for path, want in (("/tmp/py/big", big), ("/tmp/py/b", b"\0\xff\r\n--x"), ("empty", b""), ("/tmp/py/snow ☃.txt", "données".encode())):
        status, headers, data = get(box, path, PYTHON)
        equal(status, 200)
        coded = headers.get("content-encoding", "identity")
        check(coded in ("identity", "gzip"), coded)
        equal(gzip.decompress(data) if coded == "gzip" else data, want, path)
    # write(gzip=True, use_octet_stream=True)
    status, _, data = box.envd("POST", "/files?path=/tmp/py/z", gzip.compress(big), {**PYTHON, **OCTETS, "Content-Encoding": "gzip"})
    equal(status, 200)
    equal(get(box, "/tmp/py/z")[2], big)
    box.kill()


if __name__ == "__main__":
    run_tests(globals(), pool_size=4, disk_default="64M")
