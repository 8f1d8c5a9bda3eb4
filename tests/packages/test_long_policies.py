#!/usr/bin/python3 -B
"""Goal: a session whose policy makes each request cost much waits for itself: sessions of other tenants are served between
its requests, and a change of such a policy ends.

    test_long_policies.py CORDON_EGRESS CORDON_CACHE [name ...]

Nothing here looks at a clock: what counts is how many of the costly requests come before another one."""
import contextlib
import threading

from gate_world import answer, check, document, equal, get, main, world

LONG = "ab" * 1900  # each rule walks over all of it
RULES = [{"name": f"r{number}", "host": "web.example", "headers": {"x-a": f"*a*b*c{number}*d*"}} for number in range(256)]
REQUEST = f"GET / HTTP/1.1\r\nHost: web.example\r\nX-A: {LONG}\r\n\r\n".encode()


def refused(cell):
    return [r for r in list(cell.records) if r.get("kind") == "request" and r["verdict"] == "deny"]


def test_requests_of_a_long_policy():
    with world({"web.example": lambda r: answer(b"x"), "other.example": lambda r: answer(b"x")}) as w:
        cell, other = w.cell(None, rules=RULES), w.cell(None, tenant="b", rules=[{"host": "other.example"}])
        links = [cell.connect("web.example", 80) for _ in range(30)]
        for link in links:
            link.setblocking(False)
            link.send(REQUEST * 12)
        check(cell.record(lambda r: r.get("verdict") == "deny", 30), "a refusal")
        before = len(refused(cell))
        equal(get(other, "other.example", "/").status, 200)
        came = len(refused(cell)) - before
        check(came < 100, f"{came} requests were refused before another tenant's was answered")
        for link in links:
            link.close()


def test_change_to_a_long_policy():
    more = threading.Event()

    def slow(request):
        request.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        more.wait(60)
        with contextlib.suppress(OSError):
            request.conn.sendall(b"b")

    with world({"web.example": slow}) as w:
        cell = w.cell(None, rules=[{"host": "web.example"}])
        links = [cell.connect("web.example", 80) for _ in range(60)]
        for link in links:
            link.sendall(REQUEST)
        for link in links:
            check(link.recv(1000).startswith(b"HTTP/1.1 200"), "the answer begins")
        equal(cell.change(document(None, rules=RULES)), "", "the change")
        more.set()
        check(cell.record(lambda r: "takes too long to compare" in r.get("reason", ""), 30), "requests are cut without a comparison")
        for link in links:
            link.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                while data := link.recv(1000):
                    check(b"b" not in data, "nothing comes of what no rule allows")
            link.close()


if __name__ == "__main__":
    main(globals())
