#!/usr/bin/python3 -B
"""Goal: whoever attacks the interface for E2B's clients (without a key, with another tenant's, with a
sandbox's token, from inside of a sandbox, as its PID 1, from a web page) gets nothing and holds up nobody.

    test_e2b_attacks.py CORDON HOSTILE_INIT [name ...]

HOSTILE_INIT takes the place of cordon-init: see hostile_dial.h.
"""
import base64
import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import struct
import sys
import tempfile
import time
from urllib.parse import quote

import harness
from harness import Server, check, equal, free_port, has, rss, run_tests, wait_for

KILLS = True  # of our own servers
HOSTILE = ""
ENVD = 49983
JSON, FRAMED, BYTES = "application/json", "application/connect+json", "application/octet-stream"

# Says what it was asked, or what a path tells it to say: /say/HEX; at 8001 it says nothing, ever.
INSIDE = """
import select, socket
def listen(port):
    s = socket.socket()
    s.bind(('127.0.0.1', port))
    s.listen(500)
    return s
speaks, silent, held = listen(8000), listen(8001), []
print('up', flush=True)
while True:
    for s in select.select([speaks, silent], [], [])[0]:
        c = s.accept()[0]
        if s is silent:
            held.append(c)
            continue
        d = b''
        while b'\\r\\n\\r\\n' not in d:
            d += c.recv(65536) or b'\\r\\n\\r\\n'
        path = d.split(b' ')[1]
        if path.startswith(b'/say/'):
            c.sendall(bytes.fromhex(path[5:].decode()))
        else:
            c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(d), d))
        c.close()
"""


class Box:
    """A sandbox of a tenant's."""

    def __init__(self, server, key="", **spec):
        self.server = server
        self.made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", **spec}, key=key)
        self.id, self.token = self.made["sandboxID"], self.made["envdAccessToken"]
        server.ids.add(self.id)

    def head(self, port=ENVD, **more):
        own = {"X-Access-Token": self.token} if port == ENVD else {}
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), **own, **more}

    def ask(self, method, path, body=None, port=ENVD, **more):
        """(status, body)"""
        status, _, data = self.server.request(method, path, body, self.head(port, **more), key=None)
        return status, data

    def call(self, name, message, **more):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.ask("POST", "/" + name, body, **{"Content-Type": JSON, **more})

    def put(self, path, data=b"x", user="user"):
        return self.ask("POST", f"/files?path={quote(path, safe='')}&username={user}", data, **{"Content-Type": BYTES})

    def start(self, command):
        """Runs a shell line and gives its connection, which is open until it ends."""
        return stream(self, "process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", command]}})

    def serve(self):
        """INSIDE runs in it."""
        equal(self.put("/tmp/inside.py", INSIDE.encode())[0], 200)
        wire = self.start("exec python3 /tmp/inside.py")
        until(wire, b"stdout")
        return wire


def until(wire, word):
    got = b""
    while word not in got:
        piece = wire.recv(65536)
        check(piece, f"ended without {word}: {got[-300:]}")
        got += piece
    return got


def stream(box, name, message):
    body = json.dumps(message).encode()
    body = struct.pack(">BI", 0, len(body)) + body
    lines = "".join(f"{k}: {v}\r\n" for k, v in box.head().items())
    wire = socket.create_connection(box.server.address, timeout=20)
    wire.sendall(f"POST /{name} HTTP/1.1\r\nHost: x\r\n{lines}Content-Type: {FRAMED}\r\n".encode())
    wire.sendall(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return wire


def raw(server, text, seconds=5):
    """All that is said until the end of the connection."""
    got = b""
    with socket.create_connection(server.address, timeout=seconds) as wire, contextlib.suppress(OSError):
        wire.sendall(text)
        while piece := wire.recv(65536):
            got += piece
    return got


def status_of(answer):
    check(answer.startswith(b"HTTP/1.1 "), f"no answer: {answer[:100]}")
    return int(answer[9:12])


def sign(box, path, operation, user="", expires=None):
    text = f"{path}:{operation}:{user}:{box.token}" + (f":{expires}" if expires is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@contextlib.contextmanager
def unharmed(server):
    before = server.pid("cordond")
    yield
    began = time.monotonic()
    server.want(200, "GET", "/healthz", key=None, timeout=20)
    check(time.monotonic() - began < 5, "the daemon is busy")
    equal(server.pid("cordond"), before, "the daemon's pid")


# -- another tenant, another sandbox


def test_sandboxes_of_others_do_not_exist(server):
    _, theirs = server.tenant("stranger")
    box = Box(server)
    one = f"/sandboxes/{box.id}"
    for method, path, body in (
        ("GET", one, None), ("DELETE", one, None), ("POST", f"/v2{one}/connect", {}),
        ("POST", f"{one}/connect", {"timeout": 5}), ("POST", f"{one}/resume", {}), ("POST", f"{one}/pause", {}),
        ("POST", f"{one}/timeout", {"timeout": 5}), ("POST", f"{one}/refreshes", {"duration": 5}),
        ("PUT", f"{one}/network", {}), ("GET", f"{one}/metrics", None), ("GET", f"{one}/logs", None),
        ("GET", f"/v2{one}/logs", None), ("GET", f"{one}-cordon", None),
    ):  # fmt: skip
        equal(server.request(method, path, body, key=theirs)[0], 404, f"{method} {path}")
    equal(server.want(200, "GET", f"/sandboxes/metrics?sandbox_ids={box.id}", key=theirs), {"sandboxes": {}})
    for path in ("/sandboxes", "/v2/sandboxes?state=running,paused"):
        equal(server.want(200, "GET", path, key=theirs), [])
    server.delete(box.id)


def test_a_key_to_read_gets_no_token(server):
    made = server.want(201, "POST", "/v1/keys", {"name": "reader", "scopes": ["read"]})
    box = Box(server)
    shown = server.want(200, "GET", f"/sandboxes/{box.id}", key=made["key"])
    check("envdAccessToken" not in shown, "with its token one can do everything")
    for path in ("connect", "resume"):
        equal(server.request("POST", f"/sandboxes/{box.id}/{path}", {"timeout": 5}, key=made["key"])[0], 403, path)
    equal(server.want(200, "GET", f"/sandboxes/{box.id}")["envdAccessToken"], box.token)
    server.delete(box.id)


def test_a_token_is_for_one_sandbox(server):
    a, b = Box(server), Box(server)
    digits = a.token[len(a.id) :]
    for token in (b.token, b.id + digits, digits, a.token.upper(), a.token[:-1], a.token + "0", a.id, "", "x" * 88, "0" * 88):
        for path in ("/envs", "/metrics", "/files?path=/etc/passwd"):
            equal(b.ask("GET", path, **{"X-Access-Token": token})[0], 200 if token == b.token else 401, token + path)
    for n in range(200):  # its id has so many bytes: there was one too many once
        check(server.request("GET", "/envs", None, {"X-Access-Token": "a" * n}, key=None)[0] in (401, 502), str(n))
    # What is in one cannot be named in another.
    made = a.call("filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})[1]["watcherId"]
    for name in ("GetWatcherEvents", "RemoveWatcher"):
        equal(b.call(f"filesystem.Filesystem/{name}", {"watcherId": made})[0], 404)
    wire = a.start("exec sleep 60")
    pid = json.loads(until(wire, b"}}}").split(b'"pid":')[1].split(b"}")[0])
    for name, more in (("SendSignal", {"signal": "SIGNAL_SIGKILL"}), ("SendInput", {"input": {"stdin": "eA=="}})):
        equal(b.call(f"process.Process/{name}", {"process": {"pid": pid}, **more})[0], 404, name)
    equal(len(a.call("process.Process/List", {})[1]["processes"]), 1)
    wire.close()
    for box in (a, b):
        server.delete(box.id)


def test_signatures_are_for_one_thing(server):
    a, b = Box(server), Box(server)
    path, good = "/etc/hostname", sign(a, "/etc/hostname", "read")

    def get(path, signature, user="", expires=None, method="GET", at=None):
        query = f"/files?path={quote(path, safe='')}&signature={quote(signature, safe='')}"
        query += f"&username={quote(user)}" if user else ""
        query += f"&signature_expiration={quote(expires)}" if expires is not None else ""
        head = {"E2b-Sandbox-Id": at.id, "E2b-Sandbox-Port": str(ENVD)} if at else {}
        body = b"x" if method == "POST" else None
        return server.request(method, query, body, {**head, "Content-Type": BYTES}, key=None)[0]

    equal((get(path, good), get(path, good, at=a), get(path, good, method="HEAD")), (200, 200, 200))
    equal(get(path, good, at=b), 401, "at another")
    equal(get("/etc/passwd", good), 401, "another path")
    equal(get(path, good, user="root"), 401, "another user")
    equal(get(path, good, method="POST"), 401, "another operation")
    equal(get(path, sign(a, path, "read", expires="9999999999")), 401, "without its end")
    equal(get("/etc/hostname", sign(a, "/etc/hostname:write:root", "read", "user"), "root:read:user", method="POST"), 401)
    for end in ("-1", "0", "1", "1e9", "1e30", " 9999999999", "+9999999999", "9999999999s", "0x7fffffffff", "9" * 20):
        equal(get(path, sign(a, path, "read", expires=end), expires=end), 401, end)
    equal(get(path, sign(a, path, "read", expires="9999999999"), expires="9999999999"), 200)
    for box in (a, b):
        server.delete(box.id)


def test_names_lead_nowhere_else(server):
    """Through the name of a sandbox nothing of the node is reached, and through no name two things."""
    a, b = Box(server), Box(server)

    def ask(host, target="/v1/node", more="", method="GET"):
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}X-API-Key: {server.key}\r\nConnection: close\r\n\r\n"
        return status_of(raw(server, head.encode()))

    equal(ask("x"), 200)
    for path in ("/v1/node", "/v1/sessions", "/metrics", "/healthz", "/readyz", "/sandboxes", f"/sandboxes/{a.id}", "/"):
        equal(ask(f"{ENVD}-{a.id}.x", path), 401, f"envd {path}")
        equal(ask(f"3000-{a.id}.x", path), 502, f"port {path}")
    for host, status in (
        (f"{ENVD}-{a.id.upper()}.x", 401), (f"{ENVD}-{a.id}.x.", 401), (f"65536-{a.id}.x", 400), (f"0-{a.id}.x", 400),
        (f"000003000-{a.id}.x", 400), ("3000-.x", 400), (f"u@{ENVD}-{a.id}.x", 400), (f"{ENVD}-{a.id}.x:x", 400),
        (f"{ENVD}-{a.id} .x", 400),
    ):  # fmt: skip
        equal(ask(host), status, host)
    equal(ask("x", f"http://{ENVD}-{a.id}.x/v1/node"), 400, "two hosts")
    equal(ask(f"{ENVD}-{a.id}.x", "http://x/v1/node"), 400, "two hosts")
    equal(ask(f"{ENVD}-{a.id}.x", "*", method="OPTIONS"), 401)
    equal(ask(f"{ENVD}-{a.id}.x", f"{a.id}.x:80", method="CONNECT"), 501)
    twice = f"E2b-Sandbox-Id: {a.id}\r\nE2b-Sandbox-Id: {b.id}\r\nE2b-Sandbox-Port: {ENVD}\r\n"
    equal(ask("x", more=twice), 400, "two ids")
    equal(ask("x", more=f"E2b-Sandbox-Id: {a.id}\r\n"), 400, "no port")
    tokens = f"E2b-Sandbox-Id: {a.id}\r\nE2b-Sandbox-Port: {ENVD}\r\n" + "".join(f"X-Access-Token: {x.token}\r\n" for x in (b, a))
    equal(ask("x", "/envs", tokens), 401, "two tokens")
    for box in (a, b):
        server.delete(box.id)


def test_strangers_wake_nobody(server):
    box = Box(server, autoPause=True, autoResume={"enabled": True}, network={"allowPublicTraffic": False}, timeout=600)
    equal(server.request("POST", f"/sandboxes/{box.id}/pause", {})[0], 204)
    at = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": str(ENVD)}
    port = {**at, "E2b-Sandbox-Port": "3000"}
    browser = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for method, path, head, status in (
        ("GET", "/envs", at, 401), ("POST", "/init", at, 404), ("GET", "/health", at, 502), ("GET", "/files?path=/x", at, 401),
        ("GET", "/files?path=/x&signature=v1_x", at, 401), ("OPTIONS", "/envs", {**at, **browser}, 204),
        ("GET", "/envs", {"X-Access-Token": box.id + "0" * 64}, 401), ("GET", "/", port, 403),
        ("GET", "/", {**port, "E2b-Traffic-Access-Token": box.token}, 403),
    ):  # fmt: skip
        equal(server.request(method, path, None, head, key=None)[0], status, f"{method} {path} {head}")
        equal(server.want(200, "GET", f"/sandboxes/{box.id}")["state"], "paused", f"after {method} {path} {head}")
    equal(box.ask("GET", "/health")[0], 204)
    equal(server.want(200, "GET", f"/sandboxes/{box.id}")["state"], "running")
    server.delete(box.id)


def test_rules_of_a_session_hold(server):
    """Those of one that was made by the native interface, for files that are touched as root of the cell."""
    ok = "/home/user/ok"
    session = server.create(rules={"writable": [ok], "exportable": [ok]})["id"]
    server.run(session, f"mkdir {ok}; ln -s /etc/passwd {ok}/l; ln -s /etc {ok}/d; ln -s /home/user/new {ok}/n")
    box = Box.__new__(Box)
    box.server, box.id = server, session
    box.token = server.want(200, "GET", f"/sandboxes/{session}")["envdAccessToken"]
    equal((box.put(f"{ok}/a")[0], box.ask("GET", f"/files?path={ok}/a")), (200, (200, b"x")))
    for path in ("/home/user/b", f"{ok}/../b", f"{ok}/l", f"{ok}/d/x", f"{ok}/n", "/etc/x", f"{ok}ay/x", ok):
        for user in ("user", "root"):
            equal(box.put(path, user=user)[0], 403, f"{path} by {user}")
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="../../etc/x"\r\n\r\nx\r\n--b--\r\n'
    equal(box.ask("POST", "/files", form, **{"Content-Type": "multipart/form-data; boundary=b"})[0], 403)
    for path in (f"{ok}/l", f"{ok}/d/passwd", "/etc/passwd"):
        equal(box.ask("GET", f"/files?path={path}")[0], 403, path)
    joined = {"source_paths": ["/etc/passwd"], "destination": f"{ok}/stolen"}
    equal(box.ask("POST", "/files/compose", json.dumps(joined).encode(), **{"Content-Type": JSON})[0], 403)
    for name, message in (
        ("MakeDir", {"path": "/home/user/q"}), ("MakeDir", {"path": f"{ok}/d/q"}), ("Remove", {"path": ok}),
        ("Remove", {"path": f"{ok}/d/passwd"}), ("Move", {"source": f"{ok}/a", "destination": "/tmp/a"}),
        ("Move", {"source": "/etc/passwd", "destination": f"{ok}/p"}), ("ListDir", {"path": f"{ok}/d"}),
        ("Stat", {"path": "/etc/passwd"}), ("CreateWatcher", {"path": "/etc"}),
    ):  # fmt: skip
        equal(box.call(f"filesystem.Filesystem/{name}", message)[0], 403, f"{name} {message}")
    server.delete(session)


# -- servers in sandboxes, and the way to them


def test_a_port_is_the_sandboxs_own(server):
    box, other = Box(server), Box(server)
    wire = other.serve()
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", free_port()))
        ours.listen(5)
        ours.settimeout(0.3)
        for port in (ours.getsockname()[1], server.address[1], 8000):
            status, body = box.ask("GET", "/", port=port)
            equal((status, body["message"]), (502, "The sandbox is running but port is not open"), str(port))
        with contextlib.suppress(TimeoutError):
            ours.accept()
            check(False, "a listener of the machine was reached")
    wire.close()
    for b in (box, other):
        server.delete(b.id)


def test_servers_in_sandboxes_get_no_keys(server):
    box = Box(server)
    wire = box.serve()
    bearer = {"Authorization": f"Bearer {server.key}"}
    for head in ({"X-API-Key": server.key}, bearer, {**bearer, "x-api-KEY": server.key, "E2b-Traffic-Access-Token": "t0"}):
        status, said = box.ask("GET", "/echo", port=8000, **head)
        equal(status, 200)
        check(server.key.encode() not in said and b"t0" not in said, f"told: {said}")
    said = box.ask("GET", "/echo", port=8000, **{"X-API-Key": "mine", "Authorization": "Bearer e2b_mine", "X-Forwarded-For": "6.6.6.6"})[1]
    has(said.decode(), "X-API-Key: mine")
    has(said.decode(), "Authorization: Bearer e2b_mine")
    # the token that envd asks for, which the SDK for code sends to other ports too
    for head in ({"X-Access-Token": box.token}, {"x-ACCESS-token": box.token, "X-API-Key": server.key}):
        status, said = box.ask("GET", "/echo", port=8000, **head)
        check(status == 200 and box.token.encode() not in said, f"told: {said}")
    has(box.ask("GET", "/echo", port=8000, **{"X-Access-Token": "mine"})[1].decode(), "X-Access-Token: mine")
    check(b"6.6.6.6" not in said, "who the client is, is ours to say")
    wire.close()
    server.delete(box.id)


def test_answers_of_a_sandbox_are_its_own(server):
    """The next answer on the same connection is the node's, whatever the server in the cell says."""
    box = Box(server)
    wire = box.serve()
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    cases = [  # what it says, what for, how many of the two requests are answered
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" + evil, "HEAD", "", 2),
        (b"HTTP/1.1 304 Not\r\nContent-Length: 44\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 204 No\r\nContent-Length: 44\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 100 Go\r\nContent-Length: 44\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 101 Up\r\nUpgrade: websocket\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 101 Up\r\nUpgrade: websocket\r\n\r\n" + evil, "GET", upgrade + "Content-Length: 0\r\n", 2),
        (b"HTTP/1.1 999 OK\r\nContent-Length: 44\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 103 H\r\n\r\n" * 100 + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: b\r\n\r\n" + evil, "GET", "", 2),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nZ\r\n" + evil, "GET", "", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", "GET", "", 1),
    ]
    for said, method, more, answers in cases:
        first = f"{method} /say/{said.hex()} HTTP/1.1\r\nHost: 8000-{box.id}.x\r\n{more}\r\n"
        got = raw(server, (first + "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").encode())
        equal(got.count(b"HTTP/1.1 "), answers, f"answers to {method} {said[:80]}: {got}")
        equal(got.endswith(b'{"status":"ok"}'), answers == 2, f"the last of {got}")
        check(b"EVIL" not in got and b"Set-Cookie" not in got, f"{said[:80]}: {got}")
    # A protocol that was asked for is a tunnel, and nothing behind it is a request.
    said = b"HTTP/1.1 101 Up\r\nUpgrade: websocket\r\n\r\nhello"
    got = raw(server, f"GET /say/{said.hex()} HTTP/1.1\r\nHost: 8000-{box.id}.x\r\n{upgrade}\r\nGET /healthz HTTP/1.1\r\n\r\n".encode())
    check(got.endswith(b"hello") and got.count(b"HTTP/1.1 ") == 1, f"a tunnel: {got}")
    wire.close()
    server.delete(box.id)


# -- more than there is room for


def test_messages_that_would_fill_memory(server):
    box = Box(server)
    small = [b"[],", b"{},", b'"",', b"0,", b'{"a":0},']
    before = rss(server.pid("cordond"))
    with unharmed(server):
        for value in small:
            body = b'{"a":[' + value * ((1 << 20) // len(value)) + b"0]}"
            began = time.monotonic()
            check(box.call("process.Process/List", body)[0] in (400, 429), f"many of {value}")
            check(time.monotonic() - began < 8, f"slow: {value}")
        check(box.call("process.Process/List", b'{"a":' + b"[" * 500_000)[0] in (400, 429), "deep")
        check(box.call("process.Process/SendInput", b'{"a":[' + b"{}," * 3_000_000 + b"0]}")[0] in (400, 413, 429), "input")
        with open(f"/proc/{server.pid('cordond')}/status") as f:
            most = next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))
        check(most - before < 128 << 20, f"took {(most - before) >> 20} MiB")
    server.delete(box.id)


def test_input_that_nobody_reads_is_in_nobodys_way(server):
    """What waits for processes is bounded for all of them together; who fills that keeps others from nothing usual."""
    _, victims = server.tenant("bystander")
    box, theirs = Box(server), Box(server, key=victims)
    wire = box.start("exec sleep 100")
    pid = json.loads(until(wire, b"}}}").split(b'"pid":')[1].split(b"}")[0])
    held, refused = [wire], 0
    for size in (60 << 20, 8 << 20, 1 << 20, 100_000, 16_000, 1000):
        body = json.dumps({"process": {"pid": pid}, "input": {"stdin": "A" * (size // 4 * 4)}}).encode()
        for _ in range(40):
            link = server.link(20)
            link.request("POST", "/process.Process/SendInput", body, box.head(**{"Content-Type": JSON}))
            if select.select([link.sock], [], [], 0.2 if size > 100_000 else 0.05)[0]:
                refused += link.getresponse().status == 429
                link.close()
                break
            held.append(link)
    equal(refused, 4, "sizes that were refused at last: the small ones never are")
    check(rss(server.pid("cordond")) < 400 << 20, "memory of the daemon")
    equal(theirs.call("filesystem.Filesystem/ListDir", {"path": "/home"})[0], 200, "a list of another")
    other = theirs.start("echo $((6 * 7))")
    has(until(other, b'"end"').decode(), base64.b64encode(b"42\n").decode())
    for one in (*held, other):
        one.close()
    for b in (box, theirs):
        server.request("DELETE", f"/sandboxes/{b.id}", key=victims if b is theirs else "")


def test_connections_that_were_answered_make_room():
    """Without a key: a request that is refused at once, and a body that never comes."""
    with Server(connections_max=64, pool_size=0) as server:
        wires = [socket.create_connection(server.address) for _ in range(48)]  # the rest is for those with a key
        for wire in wires:
            wire.sendall(b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
        for wire in wires:
            equal(status_of(wire.recv(1000)), 401)
        wait_for(lambda: server.request("GET", "/healthz", key=None)[0] == 200, 15, "room", 0.2)
        for wire in wires:
            wire.close()


def test_no_tenant_takes_all_connections():
    with Server(connections_max=80, pool_size=1) as server:
        _, victims = server.tenant("victim")
        box, theirs = Box(server), Box(server, key=victims)
        inside = box.serve()
        wires = []
        for _ in range(90):  # no key is needed for this: whoever knows its name can
            wires.append(socket.create_connection(server.address))
            wires[-1].sendall(f"GET / HTTP/1.1\r\nHost: 8001-{box.id}.x\r\n\r\n".encode())
        wait_for(lambda: server.request("GET", "/sandboxes")[0] == 429, 10, "the tenant's bound of connections")
        equal(server.request("GET", "/healthz", key=None)[0], 200)
        equal(server.request("GET", "/sandboxes", key=victims)[0], 200, "another tenant")
        equal(theirs.ask("GET", "/envs")[0], 200, "another's sandbox")
        equal(server.request("GET", "/sandboxes")[0], 429, "who has them all")
        refused = server.request("GET", "/v1/sessions")
        equal((refused[0], refused[2]["error"]["code"]), (429, "quota_connections"))
        for wire in wires + [inside]:
            wire.close()
        wait_for(lambda: server.request("GET", "/sandboxes")[0] == 200, 15, "room", 0.1)


# -- a PID 1 that was taken over


def test_pid1_hands_out_anything_for_a_connection():
    folder = tempfile.mkdtemp(prefix="cordon-hostile-", dir="/var/tmp")
    try:
        os.chmod(folder, 0o755)
        for name in harness.PROGRAMS:
            shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), folder)
        shutil.copy(HOSTILE, os.path.join(folder, "cordon-init"))
        with Server(os.path.join(folder, "cordon"), pool_size=0) as server:
            other = Box(server)
            fds = f"/proc/{server.pid('cordond')}/fd"
            before = len(os.listdir(fds))
            for port in range(1, 14):
                box = Box(server)
                with unharmed(server), contextlib.suppress(TimeoutError):
                    body = b"x" * 3_000_000 if port == 9 else None  # more than fits, to one who does not read
                    status, _, _ = server.request("POST" if body else "GET", "/", body, box.head(port), key=None, timeout=1)
                    check(status in (500, 502), f"port {port}: {status}")
                server.request("DELETE", f"/sandboxes/{box.id}")
            equal(server.want(200, "GET", f"/sandboxes/{other.id}")["state"], "running", "another sandbox")
            wait_for(lambda: len(os.listdir(fds)) <= before + 8, 10, "descriptors to be closed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- a web page in somebody's browser


def test_pages_of_others_learn_nothing(server):
    box = Box(server)
    page = {"Origin": "http://evil.example"}
    asks = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}
    for path in ("/sandboxes", "/v2/sandboxes", "/v1/sessions", f"/sandboxes/{box.id}", "/metrics", "/healthz", "/health"):
        for method, head in (("GET", page), ("OPTIONS", asks)):
            _, got, _ = server.request(method, path, None, head, key=None)
            equal([n for n in got if n.startswith("access-control-")], [], f"{method} {path}")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        status = server.request("POST", "/sandboxes", b'{"templateID":"base"}', {**page, "Content-Type": kind}, key=None)[0]
        equal(status, 401, kind)
    # envd answers to everybody, and tells who has no token nothing; no answer is for credentials.
    status, got, _ = server.request("GET", "/envs", None, {**box.head(), **page, "X-Access-Token": "x"}, key=None)
    equal((status, got.get("access-control-allow-origin"), got.get("access-control-allow-credentials")), (401, "*", None))
    # A file of a sandbox that is shown at the node's own address runs no script there.
    equal(box.put("/tmp/page.html", b"<script>1</script>")[0], 200)
    query = f"/files?path=/tmp/page.html&signature={quote(sign(box, '/tmp/page.html', 'read'), safe='')}"
    status, got, _ = server.request("GET", query, key=None)
    equal((status, got.get("content-security-policy"), got.get("x-content-type-options")), (200, "sandbox", "nosniff"))
    server.delete(box.id)


if __name__ == "__main__":
    if "HOSTILE_INIT" not in os.environ:  # the harness starts us again, with what is left of the arguments
        os.environ["HOSTILE_INIT"] = os.path.abspath(sys.argv.pop(2))
    HOSTILE = os.environ["HOSTILE_INIT"]
    run_tests(globals(), pool_size=2)
