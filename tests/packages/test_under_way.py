#!/usr/bin/python3 -B
"""Goal: a request for a package that a registry redirects, or that is open while the policy changes, gets nothing that a
request of its own would not get, and its record says what was done for it.

    test_under_way.py CORDON_EGRESS CORDON_CACHE [name ...]
"""
import contextlib
import threading

from gate_world import answer, check, document, equal, get, main, start, world

VALUE, PLACEHOLDER = "tok-9fQ2xLmZ7TbKw0aRVd4U", "cordon_" + "A" * 32
GIT = {"registries": [{"ecosystem": "git", "host": "code.example", "files": ["files.example"]}], "unknown_age": "allow"}
OPEN = [{"host": "*", "tls": "terminate"}]
PIECE = 64 << 10


def secret(name="t", value=VALUE, hosts=("code.example",), **more):
    return {"name": name, "value": value, "hosts": list(hosts), "placeholder": PLACEHOLDER, **more}


def request_of(cell, **want):
    return cell.record(lambda r: r.get("kind") in ("request", "package") and all(r.get(k) == v for k, v in want.items()), 10)


class Slow:
    """A server that sends half of an answer, and the rest when the test says so."""

    def __init__(self):
        self.more = threading.Event()

    def __call__(self, request):
        request.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * PIECE) + b"a" * PIECE)
        self.more.wait(60)
        with contextlib.suppress(OSError):
            request.conn.sendall(b"b" * PIECE)


def half(s):
    """Wait for the beginning of the body."""
    got = b""
    while b"\r\n\r\na" not in got:
        data = s.recv(65536)
        check(data, f"the connection ended: {got!r}")
        got += data


def rest(s):
    """How many bytes of the second half come."""
    s.settimeout(20)
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while data := s.recv(65536):
            got += data.count(b"b")
    s.close()
    return got


def led(request):
    asked.append((request.line.split(" ")[1], request.get("Authorization")))
    return answer(b"", "302 Found", ("Location: https://files.example/storage/1",))


asked = []


def test_secrets_of_a_redirected_request():
    """The host that leads elsewhere got the secret: the one record of both says so."""
    files = []

    def kept(request):
        files.append(request.get("Authorization"))
        return answer(b"data")

    with world({"code.example": led, "files.example": kept}) as w:
        cell = w.cell(GIT, secrets=[secret()])
        asked.clear()
        reply = get(cell, "code.example", "/good/y/archive/v1.tar.gz", True, f"Authorization: Bearer {PLACEHOLDER}\r\n")
        equal((reply.status, reply.body), (200, b"data"), reply)
        equal((asked, files), ([("/good/y/archive/v1.tar.gz", f"Bearer {VALUE}")], [None]), "what the servers got")
        row = request_of(cell, name="files.example")
        equal((row["secrets"], row["status"]), ("t", 200), row)


def test_many_long_names_of_secrets():
    """A record has the names of all that were sent."""
    names = [f"{number:02d}" + "n" * 61 for number in range(20)]
    secrets = [{"name": name, "value": f"{VALUE}-{name[:2]}", "hosts": ["code.example"], "placeholder": "cordon_" + name[:2] * 16} for name in names]
    with world({"code.example": lambda r: answer(r.get("X-All").encode())}) as w:
        cell = w.cell(None, secrets=secrets, rules=OPEN)
        reply = get(cell, "code.example", "/", True, "X-All: " + " ".join(s["placeholder"] for s in secrets) + "\r\n")
        equal(set(reply.body.split()), {b"*" * (len(VALUE) + 3)}, "all values are put in, and covered in the answer")
        equal(request_of(cell, name="code.example")["secrets"].split(","), names)


def test_a_policy_that_begins_to_judge_packages():
    """What nobody judged is cut if it would be judged now, whatever the judge would say; all else goes on."""
    cut = [("web.example", "/evil-1.0.tar.gz"), ("pypi.org", "/packages/ab/evil-1.0.tar.gz"), ("pypi.org", "/simple/evil/")]
    stays = [("web.example", "/evil.html"), ("web.example", "/")]
    for packages in ({"min_age": "7d"}, {"deny": ["pypi:evil"]}):
        slow = Slow()
        with world({"web.example": slow, "pypi.org": slow}) as w:
            cell = w.cell(None, rules=OPEN)
            links = [start(cell, host, path, True) for host, path in cut + stays]
            for link in links:
                half(link)
            equal(cell.change(document(packages, rules=OPEN)), "", "the change")
            slow.more.set()
            equal([rest(link) for link in links], [0] * len(cut) + [PIECE] * len(stays), packages)
            for host, path in cut:
                row = request_of(cell, name=host, path=path)
                equal((row["verdict"], row["reason"]), ("deny", "the policy changed: the policy of packages changed"), row)


if __name__ == "__main__":
    main(globals())
