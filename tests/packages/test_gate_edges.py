#!/usr/bin/python3 -B
"""Goal: bounds of what registries and programs send through the package gate, at their values and one beyond (doc/security/bounds.md).

    test_gate_edges.py CORDON_EGRESS CORDON_CACHE [name ...]
"""
import hashlib
import json
import re

from gate_world import answer, check, equal, get, main, settle, wait_for, world
from cache_channel import key

MIB = 1 << 20
NPM = {"registries": [{"ecosystem": "npm", "host": "npm.example"}], "unknown_age": "allow"}
GO = {"registries": [{"ecosystem": "go", "host": "go.example"}], "unknown_age": "allow"}
PYPI = {"registries": [{"ecosystem": "pypi", "host": "pypi.example"}], "unknown_age": "allow"}


def path_of(request):
    return request.line.split(" ")[1]


def npm_document(name="demo"):
    return {"name": name, "dist-tags": {"latest": "1.0.0"}, "time": {"1.0.0": "2020-01-01T00:00:00Z"},
            "versions": {"1.0.0": {"name": name, "version": "1.0.0", "dist": {"tarball": f"https://npm.example/{name}/-/{name}-1.0.0.tgz"}}}}


def test_size_of_a_document():
    """A registry that says how much it sends is believed at once."""
    text = json.dumps(npm_document()).encode()
    for more, want in ((0, 200), (1, 502)):
        with world({"npm.example": lambda q: answer(text + b" " * (64 * MIB + more - len(text)))}) as w:
            reply = get(w.cell(NPM), "npm.example", "/demo", True)
            equal((reply.status, "larger than 64 MiB" in reply.reason), (want, more > 0), f"{more} beyond: {reply}")


def test_size_of_a_document_in_chunks():
    text = json.dumps(npm_document()).encode()

    def registry(more):
        def handle(request):
            body = text + b" " * (64 * MIB + more - len(text))
            pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + MIB]), body[at:at + MIB]) for at in range(0, len(body), MIB))
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
        return handle

    for more, want in ((0, 200), (1, 502)):
        with world({"npm.example": registry(more)}) as w:
            equal(get(w.cell(NPM), "npm.example", "/demo", True).status, want, f"{more} beyond")


def test_tags_of_documents():
    """A longer one is not kept: the document is fetched as a whole the next time."""
    for n in (255, 256):
        tag = '"' + "t" * (n - 2) + '"'
        with world({"npm.example": lambda q: answer(json.dumps(npm_document()).encode(), headers=(f"ETag: {tag}",))}, cache=True) as w:
            equal(get(w.cell(NPM), "npm.example", "/demo", True).status, 200, "the document")
            settle(w)
            view = wait_for(lambda: [v for v in w.cache.list() if v[2] == "/demo"], 10, "the document in the cache")[0]
            found = w.cache.link().find(key(*view))
            equal(found[0][0], tag if n == 255 else "", f"a tag of {n} bytes")


def test_size_of_a_module():
    """That is held to compute its hash: of 128 MiB it is refused for its bytes, of more for its size."""
    pins = {"go:example.org/m": ["v1.0.0 h1:" + "A" * 43 + "="]}
    for more in (0, 1):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nPK" % (128 * MIB + more)

        def registry(request):
            if not path_of(request).endswith(".zip"):
                return answer(b'{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}')
            request.conn.sendall(head)
            request.conn.close()
            return b""

        with world({"go.example": registry}) as w:
            reply = get(w.cell({**GO, "mode": "pinned", "pins": pins}), "go.example", "/example.org/m/@v/v1.0.0.zip", True)
            equal((reply.status, "larger than 128 MiB" in reply.reason), (502, more > 0), f"{more} beyond: {reply}")


def test_answers_that_are_no_file():
    """Of a refusal the program needs the head of a 401, and a short body."""
    for more in (0, 1):
        body = answer(b"r" * (65536 + more), "401 Unauthorized", ("WWW-Authenticate: Basic",))

        def registry(request):
            return body if path_of(request).endswith(".tgz") else answer(json.dumps(npm_document()).encode())

        with world({"npm.example": registry}) as w:
            reply = get(w.cell({**NPM, "unverified": "allow"}), "npm.example", "/demo/-/demo-1.0.0.tgz", True)
            equal((reply.status, len(reply.body) == 65536), (401, more == 0), f"{more} beyond: {reply}")


def test_credentials_of_a_program():
    """They go along when egress asks for metadata; longer ones do not."""
    name = len("Authorization: \r\n")
    for more in (0, 1):
        got = []

        def registry(request):
            if path_of(request) == "/demo":
                got.append(len(request.get("Authorization") or ""))
            return answer(json.dumps(npm_document()).encode())

        with world({"npm.example": registry}) as w:
            n = 16384 - name + more
            get(w.cell({**NPM, "min_age": "1d"}), "npm.example", "/demo/-/demo-1.0.0.tgz", True, f"Authorization: {'c' * n}\r\n")
            equal(got[:1], [n if more == 0 else 0], f"{more} beyond")


def test_pins_of_a_file():
    """A file of which nothing but pins is known is compared with as many as a version may have."""
    data = b"wheel" * 100
    right, others = f"1.0 sha256:{hashlib.sha256(data).hexdigest()}", [f"1.0 sha256:{i:064x}" for i in range(1024)]
    for before, want in ((0, 200), (32, 200), (1023, 200), (1024, 403)):
        with world({"web.example": lambda q: answer(data)}) as w:
            packages = {**PYPI, "mode": "pinned", "pins": {"pypi:demo": [*others[:before], right]}}
            reply = get(w.cell(packages, rules=[{"host": "web.example"}]), "web.example", "/dl/demo-1.0-py3-none-any.whl", True)
            equal(reply.status, want, f"{before} pins before that of the file: {reply}")
    with world({"web.example": lambda q: answer(data)}) as w:
        packages = {**PYPI, "mode": "pinned", "pins": {"pypi:demo": others}}
        reply = get(w.cell(packages, rules=[{"host": "web.example"}]), "web.example", "/dl/demo-1.0-py3-none-any.whl", True)
        check(reply.status != 200, f"a file that no pin names: {reply}")


def test_times_of_versions():
    """The registry is asked for those of the newest."""
    for n in (31, 32, 33):
        asked = []

        def registry(request):
            path = path_of(request)
            if path.endswith("/@v/list"):
                return answer("".join(f"v1.{i}.0\n" for i in range(n)).encode())
            version = path.rsplit("/", 1)[1].removesuffix(".info")
            asked.append(version)
            return answer(json.dumps({"Version": version, "Time": "2020-01-01T00:00:00Z"}).encode())

        with world({"go.example": registry}) as w:
            reply = get(w.cell({**GO, "min_age": "1d"}), "go.example", "/example.org/x/@v/list", True)
            equal(reply.status, 200, f"{reply}")
            equal(len(set(asked)), min(n, 32), f"of {n} versions")


def test_reasons_for_pip():
    """The refusal of a name as a version of a file; a long one is cut."""
    with world({"pypi.example": lambda q: answer(b"{}")}) as w:
        lengths = []
        for n in (1, 120):
            cell = w.cell({**PYPI, "deny": ["pypi:" + "a" * n]})
            reply = get(cell, "pypi.example", f"/simple/{'a' * n}/", True, "User-Agent: pip/23\r\nAccept: text/html\r\n")
            found = re.search(rb"-(0\+[^-]*)-py3", reply.body)
            check(found, f"{reply}")
            lengths.append(len(found[1]))
        check(lengths[0] <= 99 and lengths[1] <= 99, f"{lengths}")


if __name__ == "__main__":
    main(globals())
