#!/usr/bin/python3 -B
"""Goal: a tenant has a share of what cordon-egress asks of cordon-cache at a time, and of what it stores there; more of its
requests wait, and those of others do not.

    test_cache_shares.py CORDON_EGRESS CORDON_CACHE [name ...]"""
import base64
import contextlib
import hashlib
import json
import os
import select
import socket
import struct
import threading
import time

from cache_channel import COMMIT, FIND, KNOWN, NONE, SEEN, Channel
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

    def read(self, quiet=1.0, least=0):
        """All requests that come, until none comes for so long, and there are so many in all."""
        end = time.monotonic() + 60
        while select.select([self.sock], [], [], quiet)[0] or len(self.asked) < least and time.monotonic() < end:
            if not select.select([self.sock], [], [], 0)[0]:
                continue
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
        cache.read(least=REQUESTS // 2)
        equal(len(cache.asked), REQUESTS // 2, "requests of the one tenant at cordon-cache")
        other = start(w.cell(policy, tenant="b"), "npm.example", "/other", True)
        cache.read(least=REQUESTS // 2 + 1)
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


class SilentCache(Channel):
    """The other end of the link: it has nothing, and takes files without a word."""

    def __init__(self, w):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        self.found, self.stores, self.commits = {}, [], 0
        w.egress.send(LINK_TO_CACHE, "", "", [its.fileno()])
        its.close()
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, number, fields, fd = self.receive()
                if fd is not None:
                    self.stores.append(fd)
                self.commits += kind == COMMIT
                if kind == FIND:
                    path = [fields.text() for _ in range(3)][2].split(" ")[0]
                    self.found[path] = self.found.get(path, 0) + 1
                if kind in (FIND, SEEN, KNOWN):
                    self.raw(struct.pack("<HI", NONE, number))

    def end(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.close()
        for fd in self.stores:
            os.close(fd)


def test_the_link_ends_while_stores_with_followers_are_in_progress():
    """Requests that wait for a file of another one go on, whichever store of the list fails first."""
    files, followers, data, held = 6, 3, b"y" * 5000, Held()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    slow = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"x" * 10

    def registry(request):
        path = request.line.split(" ")[1]
        name = path.split("/")[1]
        if not path.endswith(".tgz"):
            return answer(json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
                "name": name, "version": "1.0.0", "dist": {"tarball": f"https://npm.example/{name}/-/{name}-1.0.0.tgz", "integrity": integrity}}}}).encode())
        head, body = answer(data).split(b"\r\n\r\n", 1)
        request.conn.sendall(head + b"\r\n\r\n")
        return held.drip("files", request.conn, body)

    def documents(request):
        request.conn.sendall(slow)
        held.wait("documents")
        return b"x" * 10

    with world({"npm.example": registry, "repo.example": documents}) as w:
        cache = SilentCache(w)
        cells = [w.cell({"registries": [NPM, MAVEN], "unknown_age": "allow"}, tenant=t) for t in ("a", "b")]
        paths = [f"/name{i}/-/name{i}-1.0.0.tgz" for i in range(files)]
        conns = [start(cells[i % 2], "npm.example", path, True) for i, path in enumerate(paths)]
        wait_for(lambda: all(w.count(p) == 1 for p in paths), 30, "the first downloads")
        conns += [start(cells[(i + k) % 2], "npm.example", path, True) for i, path in enumerate(paths) for k in range(followers)]
        wait_for(lambda: sum(n for p, n in cache.found.items() if p.endswith(".tgz")) == files * (1 + followers), 30, "questions of all requests")
        late = [start(cells[i % 2], "repo.example", f"/org/slow{i}/lib/maven-metadata.xml", True) for i in range(4)]
        for s in late:
            check(s.recv(10), "the head of a slow answer")
        held.release("files")
        wait_for(lambda: cache.commits == 2 * files, 30, "stores of all files and their metadata")
        equal(sum(w.count(p) for p in paths), files, "downloads until then")
        cache.end()
        held.release("documents")
        for s in conns:
            equal(finish(s).body, data, "the file")
        for s in late:
            check(finish(s).body.endswith(b"x" * 10), "a slow document")
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
