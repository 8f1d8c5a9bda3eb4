#!/usr/bin/python3
"""A key that is revoked or expires, and a tenant that is removed, end what is open because of them: every kind of
stream, in both directions. test_revocation.py CORDON."""
import json
import os
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, note, run_tests, wait_read

ENVD = 49983
SERVE = "import http.server as h; h.HTTPServer(('127.0.0.1', 8001), h.BaseHTTPRequestHandler).serve_forever()"


class Open:
    """A request on a connection of its own, whose answer is not read further than its head."""

    def __init__(self, server, line, headers, body=b""):
        self.line = line
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect(server.address)
        head = "".join(f"{n}: {v}\r\n" for n, v in headers.items())
        close = "" if "Connection" in headers else "Connection: close\r\n"
        self.socket.sendall(f"{line} HTTP/1.1\r\nHost: x\r\n{close}{head}\r\n".encode() + body)
        self.got = b""

    def begun(self, status):
        """Waits for the head of the answer."""
        while b"\r\n\r\n" not in self.got:
            piece = self.socket.recv(500)
            check(piece, f"{self.line}: ended with {self.got!r}")
            self.got += piece
        equal(int(self.got.split()[1]), status, f"status of {self.line}: {self.got!r}")
        return self

    def end(self):
        """All that comes until the connection ends, which it must."""
        try:
            while piece := self.socket.recv(1 << 16):
                self.got = self.got[-10000:] + piece
        except ConnectionResetError:
            pass
        except TimeoutError:
            check(False, f"{self.line}: still open")
        self.socket.close()
        return self.got


WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
WEBSOCKET["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
UNFINISHED = {"Content-Length": "100000"}


def frame(data):
    return struct.pack(">BBI", 0x82, 0x80 | len(data), 0) + data


def session_of(server, key):
    session = server.create(key=key, timeout="1h", network="deny")["id"]
    server.run(session, "truncate -s 200M big; mkdir d w; truncate -s 200M d/big", key=key)
    return session


def streams(server, session, key):
    """One of each kind that a key opens: (its name, the connection)."""
    path, mine = f"/v1/sessions/{session}", {"X-API-Key": key}
    ticks = server.spawn(session, "while sleep 0.1; do echo tick; done", key=key)["id"]
    cat = server.spawn(session, "cat > typed", key=key, stdin_stream=True)["id"]
    for line, headers in (
        (f"GET {path}/executions/{ticks}/events", {}),
        (f"GET {path}/events?follow=true", {}),
        ("GET /v1/events?follow=true", {}),
        (f"GET {path}/network/log?follow=true", {}),
        (f"GET {path}/timeline?follow=true&after=0", {}),
        (f"GET {path}/files/watch?path=w", {}),
        (f"GET {path}/files?path=big", {}),
        (f"GET {path}/files/tar?path=d", {}),
    ):
        yield Open(server, line, {**mine, **headers}).begun(200)
    yield Open(server, f"GET {path}/executions/{cat}/attach", {**mine, **WEBSOCKET}).begun(101)
    yield Open(server, f"PUT {path}/files?path=up", {**mine, **UNFINISHED}, b"half of it")
    yield Open(server, f"POST {path}/executions/{cat}/input", {**mine, **UNFINISHED}, b"half of it")
    yield Open(server, "POST /v1/sessions", {**mine, **UNFINISHED}, b"{")
    body = json.dumps({"command": "sleep 1000"}).encode()
    yield Open(server, f"POST {path}/executions?wait=true", {**mine, "Content-Length": len(body)}, body)


def boxes(server, key):
    """The same for what a sandbox's token opens, and for a port of it."""
    made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600}, key=key)
    server.ids.add(made["sandboxID"])
    envd = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": ENVD, "X-Access-Token": made["envdAccessToken"]}

    def call(name, message):
        body = json.dumps(message).encode()
        body = struct.pack(">BI", 0, len(body)) + body
        headers = {**envd, "Content-Type": "application/connect+json", "Content-Length": len(body)}
        return Open(server, f"POST /{name}", headers, body).begun(200)

    def start(*argv):
        return call("process.Process/Start", {"process": {"cmd": argv[0], "args": list(argv[1:])}})

    yield start("/bin/sleep", "1000")
    yield start("/usr/bin/python3", "-c", SERVE)
    yield call("filesystem.Filesystem/WatchDir", {"path": "/tmp"})
    yield Open(server, "POST /files?path=/tmp/up", {**envd, **UNFINISHED, "Content-Type": "application/octet-stream"}, b"x")
    time.sleep(1)  # the server in the sandbox listens; asking it would use up its only answer
    port = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": 8001}
    yield Open(server, "POST /", {**port, **UNFINISHED}, b"x")


def all_end(opened):
    began = time.monotonic()
    for one in opened:
        one.end()
    note(f"{len(opened)} streams ended in {time.monotonic() - began:.2f} s")


def test_a_revoked_key_ends_what_it_opened(server):
    tenant, admin = server.tenant("revoked")
    made = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["sessions"]})
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin"]})["key"]
    session = session_of(server, admin)
    opened = list(streams(server, session, made["key"]))
    other = Open(server, "GET /v1/events?follow=true", {"X-API-Key": admin}).begun(200)
    server.want(204, "DELETE", f"/v1/keys/{made['id']}", key=key)
    typed = next(one for one in opened if "attach" in one.line)
    all_end([one for one in opened if one is not typed])
    try:
        typed.socket.sendall(frame(b"after the end\n"))
    except OSError:
        pass
    has(typed.end(), struct.pack(">H", 1008), "the code of the WebSocket's end")
    has(next(one for one in opened if "wait=true" in one.line).got, b" 401 ", "the answer of one that waits")
    time.sleep(0.3)  # nothing may arrive
    equal(server.run(session, "cat typed", key=admin)["stdout"].replace("half of it", ""), "", "what was typed")
    seen = len(other.got)
    server.delete(session, key=admin)
    other.got += other.socket.recv(4096)
    check(len(other.got) > seen, "the stream of another key of that tenant has ended")
    other.socket.close()


def given(server, key):
    """What a key gets that is good without it: the token of a volume and the URL of an upload, as requests."""
    volume = server.want(201, "POST", "/volumes", {"name": "given"}, key=key)
    build = server.want(202, "POST", "/v3/templates", {"name": "given"}, key=key)
    url = server.want(201, "GET", f"/templates/{build['templateID']}/files/{64 * 'a'}", key=key)["url"]
    token = {"Authorization": f"Bearer {volume['token']}"}
    content = f"/volumecontent/{volume['volumeID']}"
    return (("GET", f"{content}/path?path=/", token), ("PUT", url[url.index("/templates"):], {}),
            (f"PUT {content}/file?path=/f", {**token, **UNFINISHED}))


def test_what_a_revoked_key_was_given_ends_with_it(server):
    tenant, _ = server.tenant("given")
    made, admin = (server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": [scope]}) for scope in ("sessions", "admin"))
    look, upload, write = given(server, made["key"])

    def ask(method, path, headers):
        return server.request(method, path, b"x" if method == "PUT" else None, headers=headers, key=None, raw=True)[0]

    equal((ask(*look), ask(*upload)), (200, 200))
    writing = Open(server, *write, b"half of it")
    wait_read(writing.socket)
    server.want(204, "DELETE", f"/v1/keys/{made['id']}", key=admin["key"])
    writing.end()
    equal((ask(*look), ask(*upload)), (401, 403), "after the key was revoked")


def test_a_key_that_expires_ends_what_it_opened(server):
    tenant, admin = server.tenant("expired")
    session = session_of(server, admin)
    spec = {"scopes": ["sessions"], "expires_in": "4s"}
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", spec)["key"]
    opened = list(streams(server, session, key))
    server.want(200, "GET", f"/v1/sessions/{session}", key=key)
    all_end(opened)
    server.want(401, "GET", f"/v1/sessions/{session}", key=key)
    server.delete(session, key=admin)


def test_a_removed_tenant_ends_what_it_opened(server):
    tenant, key = server.tenant("removed")
    opened = list(streams(server, session_of(server, key), key)) + list(boxes(server, key))
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")
    all_end(opened)


def test_a_removed_tenant_makes_no_session(server):
    """Although its request was let in before, and ends in the turn of the loop in which the tenant is removed."""
    tenant, key = server.tenant("gone-in-a-turn")
    body = b'{"templateID":"base","timeout":300}'
    head = f"POST /sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(server.address) as making, socket.create_connection(server.address) as operator:
        making.settimeout(20)
        operator.settimeout(20)
        making.sendall(head.encode() + body[:-1])
        operator.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        operator.recv(4096)
        wait_read(making)
        pid = server.pid("cordond")
        os.kill(pid, signal.SIGSTOP)
        operator.sendall(f"DELETE /v1/tenants/{tenant} HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\n\r\n".encode())
        time.sleep(0.1)  # the order of the two in the stopped daemon's queue
        making.sendall(body[-1:])
        os.kill(pid, signal.SIGCONT)
        has(operator.recv(4096).decode(), "HTTP/1.1 204")
        status = int(making.recv(1 << 16).split()[1])
        check(status in (401, 403), f"status {status}")


def test_a_key_that_revokes_itself_is_answered(server):
    made = server.want(201, "POST", "/v1/keys", {"scopes": ["admin"]})
    server.want(204, "DELETE", f"/v1/keys/{made['id']}", key=made["key"])
    server.want(401, "GET", "/v1/keys", key=made["key"])


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
