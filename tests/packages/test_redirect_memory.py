#!/usr/bin/python3 -B
"""Goal: what a request has for its record is freed, however often the registry redirects the request.

    test_redirect_memory.py CORDON_EGRESS CORDON_CACHE [name ...]

For plain builds: sanitized ones keep memory that was freed."""
import os

from gate_world import answer, check, equal, main, world

WARM, REQUESTS = 100, 1000
GROWTH = 3 << 20  # bytes; a model call of each of three redirects would take three times as many


def resident(w):
    with open(f"/proc/{w.egress.process.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ask(link, path):
    link.sendall(f"GET {path} HTTP/1.1\r\nHost: git.example\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\nend" not in got:
        data = link.recv(65536)
        check(data, f"the connection ended: {got!r}")
        got += data
    return int(got.split(b" ")[1])


def test_model_calls_that_are_redirected():
    """The path of an archive ends as that of a model's API does, and the rule says that the host has models."""
    def git(request):
        hop = int(request.line.split(" ")[1].split("/")[2][1:])
        if hop < 3:
            return answer(b"", status="302 Found", headers=(f"Location: http://git.example/o/r{hop + 1}/zipball/responses",))
        return answer(b"end", status="404 Not Found")

    with world({"git.example": git}) as w:
        cell = w.cell({"registries": [{"ecosystem": "git", "host": "git.example"}], "unknown_age": "allow", "new_names": 1000000},
                      rules=[{"host": "git.example", "class": "model"}])
        link = cell.connect("git.example", 80, 30)
        for _ in range(WARM):
            equal(ask(link, "/o/r0/zipball/responses"), 404, "the last answer")
        before = resident(w)
        for _ in range(REQUESTS):
            ask(link, "/o/r0/zipball/responses")
        grown = resident(w) - before
        check(grown < GROWTH, f"cordon-egress grew by {grown} bytes in {REQUESTS} requests")
        link.close()


if __name__ == "__main__":
    main(globals())
