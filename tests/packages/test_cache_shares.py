#!/usr/bin/python3 -B
"""Goal: a tenant has a share of what cordon-egress asks of cordon-cache at a time, and of what it stores there; more of its
requests wait, and those of others do not.

    test_cache_shares.py CORDON_EGRESS CORDON_CACHE [name ...]"""
import os
import select
import socket
import struct

from cache_channel import FIND, NONE, Channel
from gate_world import LINK_TO_CACHE, Held, answer, check, equal, finish, get, main, settle, start, wait_for, world

REQUESTS = 256  # CACHE_REQUESTS_MAX
NPM = {"ecosystem": "npm", "host": "npm.example"}
MAVEN = {"ecosystem": "maven", "host": "repo.example"}


class SlowCache(Channel):
    """The other end of the link, which answers when the test says so."""

    def __init__(self, w):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        self.asked = []  # (number, path)
        w.egress.send(LINK_TO_CACHE, "", "", [its.fileno()])
        its.close()

    def read(self, quiet=1.0):
        """All requests that come, until none comes for so long."""
        while select.select([self.sock], [], [], quiet)[0]:
            kind, number, fields, fd = self.receive()
            if fd is not None:
                os.close(fd)
            if kind == FIND:
                fields.text()
                fields.text()
                self.asked.append((number, fields.text()))

    def none(self, number):
        self.raw(struct.pack("<HI", NONE, number))


def test_requests_of_one_tenant_leave_room_for_others():
    with world({"npm.example": lambda q: answer(b"")}) as w:
        cache, policy = SlowCache(w), {"registries": [NPM], "mode": "offline-cache"}
        cells = [w.cell(policy, tenant="a") for _ in range(3)]
        many = [start(cells[i % 3], "npm.example", f"/name{i}", True) for i in range(180)]
        cache.read()
        equal(len(cache.asked), REQUESTS // 2, "requests of the one tenant at cordon-cache")
        other = start(w.cell(policy, tenant="b"), "npm.example", "/other", True)
        cache.read()
        equal([path for _, path in cache.asked[REQUESTS // 2:]], ["/other"], "that of another tenant")
        while cache.asked:
            for number, _ in cache.asked:
                cache.none(number)
            cache.asked.clear()
            cache.read(0.5)
        for s in (*many, other):
            reply = finish(s)
            check(reply.status == 403 and "is not in the package cache" in reply.reason, f"every request is answered, by the cache: {reply}")


def test_requests_that_wait_end_with_their_session_and_with_the_link():
    with world({"npm.example": lambda q: answer(b"{}", "404 Not Found")}) as w:
        cache, policy = SlowCache(w), {"registries": [NPM], "mode": "offline-cache"}
        gone, stays = w.cell(policy, tenant="a"), w.cell(policy, tenant="a")
        conns = [start(gone if i % 2 else stays, "npm.example", f"/name{i}", True) for i in range(160)]
        cache.read()
        gone.detach()
        cache.read()
        cache.close()
        for i, s in enumerate(conns):
            reply = finish(s)
            check(i % 2 or (reply.status == 403 and "it is not running" in reply.reason), f"a request of the session that stays: {reply}")
        SlowCache(w).close()
        settle(w)


def test_stores_of_one_tenant_leave_room_for_others():
    held = Held()

    def slow(request):
        path = request.line.split(" ")[1]
        if path.startswith("/org/slow"):
            request.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"x" * 10)
            held.wait("all")
            return b"x" * 10
        return answer(b"metadata")

    with world({"repo.example": slow}, cache=True) as w:
        policy = {"registries": [MAVEN], "unknown_age": "allow"}
        a = w.cell(policy, tenant="a")
        many = [start(a, "repo.example", f"/org/slow{i}/lib/maven-metadata.xml", True) for i in range(140)]
        for s in many:
            check(s.recv(10), "the head of a slow answer")
        b = w.cell(policy, tenant="b")
        equal(get(b, "repo.example", "/org/demo/lib/maven-metadata.xml", True).status, 200, "another tenant's document")
        offline = w.cell({**policy, "mode": "offline-cache"}, tenant="b")
        wait_for(lambda: get(offline, "repo.example", "/org/demo/lib/maven-metadata.xml", True).status == 200, 10, "which is kept")
        held.release_all()
        for s in many:
            finish(s)


if __name__ == "__main__":
    main(globals())
