#!/usr/bin/python3 -B
"""What one tenant feels of another: waits of a tenant's /healthz, executions and requests through egress while
another tenant (or a client without a key) loads the server, with a store that is full.

    bench/neighbours.py BUILD [--seconds N] [--rows N] [--loads a,b] [--list] [--short]

Theory of operation

The world is the small internet of tests/egress (namespaces of our own, gone with the process). One server, two
tenants: "quiet" is measured, "busy" loads. Before the first load the server is stopped and rows are put into its
database directly: executions, events, network records, keys and ended sessions of the busy tenant.

Each probe and each load is a process of its own (this file with --role), so no load shares an interpreter with a
probe. They all run on the machine's processors beside the server: the waits are those of a server whose machine is
busy with its clients, too. Loads are bounded in number and time. Nothing passes or fails by time; the exit code is
1 if a probe got no answer at all.
"""
import argparse
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for part in ("behaviour", "server", "egress"):
    sys.path.insert(1, str(HERE.parent / "tests" / part))
sys.path.insert(0, str(HERE.parent / "tests" / "shared"))  # before this folder, which has another images.py
import harness  # noqa: E402
import internet  # noqa: E402
import rows  # noqa: E402
from images import archive, member  # noqa: E402

GOAL_MS = 50
FLOOD_PORT = 8091
REGISTRY_PORT = 8092


# ---- what runs in processes of its own: functions of (address, key, session, seconds, ...)

def connection(address, timeout=30):
    host, port = address.rsplit(":", 1)
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def send(link, method, path, key, body=None):
    headers = {"X-API-Key": key} if key else {}
    link.request(method, path, None if body is None else json.dumps(body), headers)
    answer = link.getresponse()
    return answer.status, answer.read()


def measure(ask, pause, seconds):
    """Milliseconds of each call; a call that fails counts as long as it took, and in "failed"."""
    waits, failed, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            failed += not ask()
        except (OSError, http.client.HTTPException):
            failed += 1
        waits.append((time.monotonic() - began) * 1000)
        time.sleep(pause)
    print(json.dumps({"waits": waits, "failed": failed}))


def probe_health(a):
    links = [connection(a.address)]

    def ask():
        try:
            return send(links[0], "GET", "/healthz", None)[0] == 200
        except (OSError, http.client.HTTPException):
            links[0] = connection(a.address)
            raise

    measure(ask, 0.01, a.seconds)


def probe_exec(a):
    link = connection(a.address)
    path = f"/v1/sessions/{a.session}/executions?wait=true"
    measure(lambda: send(link, "POST", path, a.key, {"argv": ["/bin/true"]})[0] == 200, 0.05, a.seconds)


# Inside the quiet tenant's cell.
EGRESS_PROBE = """
import http.client, json, sys, time
waits, failed, end, link = [], 0, time.monotonic() + float(sys.argv[1]), None
while time.monotonic() < end:
    began = time.monotonic()
    try:
        link = link or http.client.HTTPConnection("web.example", 80, timeout=10)
        link.request("GET", "/")
        failed += link.getresponse().read() is None
    except Exception:
        failed, link = failed + 1, None
    waits.append((time.monotonic() - began) * 1000)
    time.sleep(0.02)
print(json.dumps({"waits": waits, "failed": failed}))
"""


def probe_egress(a):
    link = connection(a.address, a.seconds + 60)
    status, body = send(link, "POST", f"/v1/sessions/{a.session}/executions?wait=true", a.key,
                        {"argv": ["python3", "-c", EGRESS_PROBE, str(a.seconds)]})
    got = json.loads(body)
    print(got["stdout"] if status == 200 and got.get("stdout") else json.dumps({"waits": [], "failed": 1}))


def repeat(a, ask):
    """a.clients threads, each with a connection of its own, until the time is over."""
    end = time.monotonic() + a.seconds

    def work():
        link = connection(a.address)
        while time.monotonic() < end:
            try:
                ask(link)
            except (OSError, http.client.HTTPException):
                link.close()
                link = connection(a.address)
                time.sleep(0.01)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(a.clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(a.seconds + 30)


def load_get(a):
    repeat(a, lambda link: send(link, "GET", a.path, a.key))


def load_members(a):
    body = "{" + ",".join(f'"m{i}":0' for i in range(80000)) + "}"

    def ask(link):
        link.request("POST", "/v1/sessions", body, {"X-API-Key": a.key})
        link.getresponse().read()

    repeat(a, ask)


def load_execute(a):
    repeat(a, lambda link: send(link, "POST", f"/v1/sessions/{a.session}/executions?wait=true", a.key,
                                {"argv": ["/bin/true"]}))


def load_lockfiles(a):
    """Lockfiles that are wrong in their last line."""
    text = "\n".join(f"a{i}==1.0" for i in range(19000)) + "\n-r wrong"
    body = {"network": {"version": 1, "packages": {"registries": ["pypi"], "lockfiles": [{"name": "requirements.txt", "text": text}]}}}
    repeat(a, lambda link: send(link, "POST", "/v1/sessions", a.key, body))


def load_broker(a):
    """Executions with a brokered secret, in sessions (a.path names them) with large policies."""
    turn, sessions = itertools.count(), a.path.split(",")
    repeat(a, lambda link: send(link, "POST", f"/v1/sessions/{sessions[next(turn) % len(sessions)]}/executions?wait=true", a.key,
                                {"argv": ["/bin/true"], "secrets": [{"name": "brokered", "as": "broker", "env": "B"}]}))


def load_updates(a):
    turn = itertools.count()
    repeat(a, lambda link: send(link, "PUT", "/v1/secrets/brokered", a.key, {"value": f"value-{next(turn):020d}"}))


def hold(a, request, small=False):
    """a.clients connections that send something and read nothing."""
    held, host, port = [], *a.address.rsplit(":", 1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    end = time.monotonic() + a.seconds
    while time.monotonic() < end:
        while len(held) < min(a.clients, hard - 64) and time.monotonic() < end:
            s = socket.socket()
            if small:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 500)
            try:
                s.settimeout(2)
                if small:  # without a key, an address has its share of connections: from eight
                    s.bind((f"127.0.1.{1 + len(held) % 8}", 0))
                s.connect((host, int(port)))
                s.setblocking(False)
                s.send(request)
                held.append(s)
            except OSError:
                s.close()
                time.sleep(0.01)
        time.sleep(0.5)
        if small:  # those that were closed are opened again
            held = [s for s in held if not closed(s)]


def closed(s):
    try:
        return s.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def load_unread(a):
    hold(a, b"GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n" * 40, small=True)


def load_bodies(a):
    hold(a, f"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nX-API-Key: {a.key}\r\nContent-Length: 1048576\r\n\r\n".encode()
         + b" " * (64 << 10))


def build_of(a, link, name, steps):
    """Asks for a build and starts it; its status when it has ended."""
    made = json.loads(send(link, "POST", "/v1/templates/builds", a.key, {"name": name})[1])
    where = f"/v1/templates/builds/{made['id']}"
    send(link, "POST", where + "/start", a.key, {"fromTemplate": "base", "steps": steps})
    while True:
        row = json.loads(send(link, "GET", where + "?after=1000000", a.key)[1])
        if row.get("status") not in ("waiting", "building"):
            return made["template_id"]
        time.sleep(0.05)


def load_env(a):
    """As many variables as there may be, and values with as many references to the last of them."""
    many = [{"type": "ENV", "args": [x for i in range(k, k + 120) for x in (f"V{i}", "x")]} for k in range(0, 1920, 120)]
    values = [{"type": "ENV", "args": [x for i in range(120) for x in (f"V{i}", "$V1919" * 256)]}] * 20
    steps = [*many, *values, {"type": "RUN", "args": ["exit 1"]}]
    repeat(a, lambda link: build_of(a, link, f"env{threading.get_ident()}", steps))


def load_build_logs(a):
    """Templates with full logs are made and deleted."""
    def ask(link):
        made = build_of(a, link, f"log{threading.get_ident()}", [{"type": "RUN", "args": ["seq 1 12000; exit 1"]}])
        send(link, "DELETE", f"/templates/{made}", a.key)

    repeat(a, ask)


def load_uploads(a):
    link = connection(a.address)
    made = json.loads(send(link, "POST", "/v1/templates/builds", a.key, {"name": "uploads"})[1])
    hold(a, f"PUT /v1/templates/builds/{made['id']}/files/{'ab' * 32} HTTP/1.1\r\nHost: x\r\nX-API-Key: {a.key}\r\nContent-Length: 100\r\n\r\n".encode())


def load_follow(a):
    hold(a, f"GET {a.path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {a.key}\r\n\r\n".encode())


def load_orders(a):
    """Large requests to a PID 1 that does not get to read them, and small ones behind them whose clients leave."""
    link = connection(a.address)
    for _ in range(7):
        send(link, "POST", f"/v1/sessions/{a.session}/executions", a.key, {"command": "true", "env": {"A": "x" * 900000}})

    def ask(_):
        short = connection(a.address, 0.02)
        with contextlib.suppress(OSError), contextlib.closing(short):
            send(short, "GET", f"/v1/sessions/{a.session}/files/stat?path=/tmp", a.key)

    repeat(a, ask)


def mcp(a, method, params, session=""):
    """A request of MCP, in its older form."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    def ask(link):
        link.request("POST", "/mcp" + ("/" + session if session else ""), json.dumps(body),
                     {"X-API-Key": a.key, "MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"})
        link.getresponse().read()

    repeat(a, ask)


def load_mcp_files(a):
    mcp(a, "resources/read", {"uri": f"cordon://sessions/{a.session}/files/tmp/f"})


def load_mcp_results(a):
    mcp(a, "tools/call", {"name": "a0__go", "arguments": {}}, a.session)


def load_code_lines(a):
    """Clients of an interpreter's port that read all that comes."""
    def ask(link):
        link.request("POST", "/execute", '{"code":"1"}', {"E2b-Sandbox-Id": a.session, "E2b-Sandbox-Port": "49999"})
        answer, end = link.getresponse(), time.monotonic() + a.seconds
        while time.monotonic() < end and answer.read(65536):
            pass
        link.close()

    repeat(a, ask)


def load_flood_origin(a):
    """Answers everyone with an endless stream of one letter."""
    listener = socket.create_server((internet.SPARE, FLOOD_PORT), backlog=64)

    def serve(conn):
        with contextlib.suppress(OSError), conn:
            conn.recv(65536)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                conn.sendall(b"a" * 65536)

    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def load_registry(a):
    """A registry whose documents are as long as it likes: a list of Go, and tags of npm with long names."""
    versions = "".join(f"v1.0.{i}\n" for i in range(200000)).encode()
    tags = {f"t{i}": f"1.0.0-{'a.' * 50}{i}" for i in range(19000)}
    document = json.dumps({"name": "tags", "dist-tags": tags, "versions": {v: {"name": "tags", "version": v, "dist": {
        "tarball": f"http://long.example:{REGISTRY_PORT}/tags/-/tags-{v}.tgz"}} for v in [*list(tags.values())[:100], "1.0.0"]}}).encode()
    listener = socket.create_server((internet.SPARE, REGISTRY_PORT), backlog=512)

    def serve(conn):
        with contextlib.suppress(OSError, IndexError), conn:
            path = conn.recv(65536).split(b" ")[1].decode()
            version = path.rsplit("/", 1)[1].removesuffix(".info")
            body = (versions if path.endswith("/@v/list") else document if path == "/tags" else
                    json.dumps({"Version": version, "Time": "2020-01-01T00:00:00Z"}).encode())
            conn.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


# ---- the world

# In cells of the busy tenant.
REFUSED = "while true; do curl -s -m 2 -o /dev/null http://not-allowed.example/; sleep 0.4; done"
LOOKUPS = """
import socket, sys, threading
def ask(k):
    n = 0
    while True:
        n += 1
        try:
            s = socket.create_connection(("198.18.0.1", 3128), 20)
            s.sendall(f"GET http://n{k}-{n}.silent.example/ HTTP/1.1\\r\\nHost: n{k}-{n}.silent.example\\r\\n\\r\\n".encode())
            s.recv(100)
            s.close()
        except OSError:
            pass
for k in range(36):
    threading.Thread(target=ask, args=(k,)).start()
"""
NAMES = """
import socket, ssl, threading
def ask(k):
    n, context = 0, ssl._create_unverified_context()
    while True:
        try:
            s = context.wrap_socket(socket.create_connection(("registry.npmjs.org", 443), 20), server_hostname="registry.npmjs.org")
            while True:
                n += 1
                s.sendall(f"GET /n{k}-{n} HTTP/1.1\\r\\nHost: registry.npmjs.org\\r\\n\\r\\n".encode())
                if not s.recv(65536):
                    break
        except OSError:
            pass
for k in range(90):
    threading.Thread(target=ask, args=(k,)).start()
"""
HELLOS = """
import socket, ssl
def hello(name):
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(a, b, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return b.read()
template, held, n = hello("a00000000.t.example"), [], 0
while True:
    n += 1
    name = b"a%08d.t.example" % n
    try:
        s = socket.create_connection(("198.18.0.1", 3128), 5)
        s.sendall(b"CONNECT " + name + b":443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" + template.replace(b"a00000000.t.example", name))
        held.append(s)
    except OSError:
        pass
    if len(held) > 100:
        held.pop(0).close()
"""


class Silent(dict):
    def get(self, name, other=None):
        return "silent" if name.endswith(".silent.example") else super().get(name, other)


def process(*arguments, **more):
    return subprocess.Popen([sys.executable, "-B", str(HERE / "neighbours.py"), "-", *map(str, arguments)],
                            stdout=subprocess.PIPE, text=True, **more)


class World:
    """The server, its two tenants and what the store holds."""

    def __init__(self, options, **settings):
        self.options = options
        self.server = harness.Server(str(options.build / "cordon"), log_level="warn", egress_ca="/mnt/world.pem",
                                     node_create_rate=0, tenant_create_rate=0, tenant_max_storage=0, **settings)
        self.quiet = self.tenant("quiet")
        self.busy = self.tenant("busy")
        self.cell = self.create(self.quiet, network={"version": 1, "rules": ["web.example"]})
        self.victim = self.create(self.busy, network={"version": 1, "rules": ["web.example"]})
        self.ended = self.create(self.busy)
        self.fill()

    def tenant(self, name):
        made = self.server.want(201, "POST", "/v1/tenants", {"name": name})
        return self.server.want(201, "POST", f"/v1/tenants/{made['id']}/keys",
                                {"scopes": ["read", "sessions", "admin"]})["key"]

    def create(self, key, **spec):
        return self.server.create(key=key, timeout="1h", **spec)["id"]

    def fill(self):
        """Rows of the busy tenant, as if it had been at it for days."""
        s, n = self.server, self.options.rows
        s.run(self.ended, "true", key=self.busy)
        s.run(self.victim, "curl -s -m 3 http://not-allowed.example/; true", key=self.busy)
        harness.wait_for(lambda: rows.number(s, "SELECT count(*) FROM net") > 0, 10, "a network record")
        s.delete(self.ended, key=self.busy)
        s.stop()
        one = f"(SELECT min(id) FROM execution WHERE session = '{self.ended}')"
        rows.copies(s, "execution", "id", n, f"id = {one}", created_ms="created_ms + i")
        rows.copies(s, "session", "id", n, f"id = '{self.ended}'", created_ms="created_ms - i")
        rows.copies(s, "event", "seq", n, f"seq = (SELECT max(seq) FROM event WHERE session = '{self.victim}')")
        rows.copies(s, "net", "seq", n, "seq = (SELECT max(seq) FROM net)")
        rows.copies(s, "key", "id", n, "name = '' AND scopes = (SELECT max(scopes) FROM key) AND id = (SELECT max(id) FROM key"
                    f" WHERE tenant = (SELECT tenant FROM session WHERE id = '{self.victim}'))",
                    hash="randomblob(32)", created_ms="created_ms + i")
        s.start()

    def load(self, role, clients=1, path="", session="", key=None):
        return process("--role", "load_" + role, "--address", self.server.settings["listen"], "--key",
                       self.busy if key is None else key, "--clients", clients, "--path", path, "--session",
                       session or self.victim, "--seconds", self.options.seconds + 4)

    def in_cells(self, n, argv, network=None, secrets=None, each=1):
        """n sessions of the busy tenant, each with that many programs, until they are deleted."""
        made = []
        for _ in range(n):
            spec = {k: v for k, v in (("network", network), ("secrets", secrets)) if v is not None}
            made.append(self.create(self.busy, **spec))
            for _ in range(each):
                self.server.want(202, "POST", f"/v1/sessions/{made[-1]}/executions", {"argv": argv}, key=self.busy)
        return made

    def secrets(self, n, length):
        for i in range(n):
            self.server.request("POST", "/v1/secrets", {"name": f"s{length}-{i}", "value": "a" * length + f"{i:04d}"},
                                key=self.busy)
        return [{"name": f"s{length}-{i}", "as": "env", "env": f"S{i}"} for i in range(n)]

    def probes(self):
        def start(role):
            return process("--role", role, "--address", self.server.settings["listen"], "--key", self.quiet, "--session",
                           self.cell, "--seconds", self.options.seconds)

        started = {name: start("probe_" + name) for name in ("health", "exec", "egress")}
        return {name: json.loads(p.communicate(timeout=self.options.seconds + 120)[0] or '{"waits": [], "failed": 1}')
                for name, p in started.items()}

    def turns(self):
        """Turns of cordond's loop: all of them, and those of more than 20 ms."""
        for _ in range(10):
            status, _, text = self.server.request("GET", "/metrics", raw=True)
            if status == 200:
                break
            time.sleep(0.5)
        text = text.decode()
        got = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line.startswith("cordon_loop")
               and line.count(" ") == 1}
        all_of_them = got.get("cordon_loop_turn_seconds_count", 0)
        return all_of_them, all_of_them - got.get('cordon_loop_turn_seconds_bucket{le="0.020000000"}', 0)


# ---- loads: each starts processes, or programs in cells, and gives what has to be ended

def lists(path, clients):
    return lambda w: ([w.load("get", clients, path.format(ended=w.ended, live=w.victim))], [])


def silent_names(w):
    internet.NET.odd = Silent(internet.NET.odd)
    return [], w.in_cells(8, ["python3", "-c", LOOKUPS], {"version": 1, "rules": ["*.silent.example"]})


def orders(w):
    starved = w.create(w.busy, limits={"cpus": "0.01"})
    w.server.want(202, "POST", f"/v1/sessions/{starved}/executions",
                  {"command": "for i in $(seq 400); do (while :; do :; done) & done; sleep 1000"}, key=w.busy)
    time.sleep(5)
    return [w.load("orders", 16, session=starved)], [starved]


def flood(w):
    with internet.NET.inside(internet.NET.world):
        origin = process("--role", "load_flood_origin")
    origin.stdout.readline()
    internet.NET.zone["flood.example"] = (internet.SPARE,)
    rule = {"version": 1, "rules": [{"host": "flood.example", "ports": [FLOOD_PORT]}]}
    return [origin], w.in_cells(1, ["curl", "-s", "-o", "/dev/null", f"http://flood.example:{FLOOD_PORT}/"], rule,
                                w.secrets(32, 2000))


LINES = r"""
import socket, threading
def serve(c):
    c.recv(65536); c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True: c.sendall(b"x\n" * 30000)
l = socket.create_server(("127.0.0.1", 49999), backlog=64)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
"""


def code_lines(w):
    """Root of a cell answers in the place of its interpreter, with lines of one byte."""
    s = w.create(w.busy)
    w.server.want(200, "POST", f"/v1/sessions/{s}/executions?wait=true", {"code": "1"}, key=w.busy)
    w.server.run(s, "mv /opt/cordon/bin/cordon-interpreter /opt/gone; pkill -9 -f 'cordon-interpreter serv[e]'; sleep 1", key=w.busy, user="root")
    w.server.spawn(s, ["python3", "-c", LINES], key=w.busy, user="root", background=True)
    time.sleep(2)
    return [w.load("code_lines", 40, session=s)], [s]


def mcp_servers(w, n, secrets):
    import test_request_memory
    one = {"command": ["python3", "-c", test_request_memory.LARGE], "secrets": secrets}
    return w.create(w.busy, mcp={"servers": {f"a{i}": one for i in range(n)}})


def mcp_flood(w):
    """Programs in the place of gateways, which send what was not asked for."""
    import test_mcp_servers_attacks
    s = mcp_servers(w, 8, [])
    for v in w.server.want(200, "GET", f"/v1/sessions/{s}/mcp", key=w.busy)["servers"]:
        child = v["session_id"]
        w.server.run(child, ["tee", "/root/flood"], key=w.busy, user="root", stdin=test_mcp_servers_attacks.FLOOD)
        line = "'{\"jsonrpc\":\"2.0\",\"result\":[0' + ',0' * 500000 + '],\"id\":999999}\\n'"
        w.server.run(child, ["python3", "-c", f"open('/tmp/line', 'w').write({line})"], key=w.busy, user="root")
        w.server.run(child, "chmod 755 /root/flood && mv /root/flood /opt/cordon/bin/mcp-gateway; pkill -9 -f '[m]cp-gateway'", key=w.busy, user="root")
    return [], [s]


def mcp_results(w):
    s = mcp_servers(w, 1, w.secrets(8, 64))
    return [w.load("mcp_results", 60, session=s)], [s]


def mcp_files(w):
    s = w.create(w.busy, secrets=w.secrets(32, 2000))
    w.server.run(s, "head -c 1000000 /dev/zero | tr '\\0' a > /tmp/f", key=w.busy)
    return [w.load("mcp_files", 6, session=s)], [s]


def upload(w, name, members):
    """A root file system of many members, as a template of the busy tenant."""
    status = w.server.request("POST", "/v1/templates?name=" + name, archive(*members), key=w.busy,
                              headers={"Content-Type": "application/x-tar"}, raw=True)[0]
    harness.check(status == 201, f"import: {status}")


def files(w):
    """A directory with many names, listed all the time."""
    upload(w, "many", [member(f"d/{i:050d}", b"") for i in range(20000)])
    return [w.load("get", 16, "/v1/templates/many/files?path=/d&limit=4096")], []


def load_imports(a):
    data = archive(*[member("/".join([f"{i % 2}"] * 40) + f"/{i}", b"") for i in range(60000)])

    def ask(link):
        link.request("POST", "/v1/templates?name=deep", data, {"X-API-Key": a.key, "Content-Type": "application/x-tar"})
        link.getresponse().read()

    repeat(a, ask)


def versions(w):
    """As many versions as a tenant may have."""
    for i in range(1000):
        w.server.request("POST", "/v1/templates", {"name": f"v{i}", "from": "host"}, key=w.busy)
    return [w.load("get", 4, "/v1/templates")], []


def documents(eco, path):
    """Eight connections that ask for one long document again and again."""
    def start(w):
        with internet.NET.inside(internet.NET.world):
            registry = process("--role", "load_registry")
        registry.stdout.readline()
        internet.NET.zone["long.example"] = (internet.SPARE,)
        host = f"long.example:{REGISTRY_PORT}"
        policy = {"version": 1, "rules": [{"host": "long.example", "ports": [REGISTRY_PORT]}],
                  "packages": {"registries": [{"ecosystem": eco, "host": host}], "min_age": "7d", "unknown_age": "allow"}}
        line = f"for i in 1 2 3 4 5 6 7 8; do while :; do curl -s -m 60 -o /dev/null http://{host}{path}; done & done; wait"
        return [registry], w.in_cells(1, ["sh", "-c", line], policy)
    return start


def cache_calls(w):
    """Names that no package cache has, asked for by more connections than requests may be under way."""
    policy = {"version": 1, "packages": {"registries": ["npm"], "mode": "offline-cache"}}
    return [], w.in_cells(4, ["python3", "-c", NAMES], policy)


def large_policies(w, n):
    """Sessions with policies of 340 KB, made at the rate that a tenant may change them, and a secret that they have."""
    w.server.request("POST", "/v1/secrets", {"name": "brokered", "value": "first-value", "hosts": ["web.example"]}, key=w.busy)
    pins = {f"npm:p{i:05d}{'x' * 40}": ["1.0.0"] for i in range(4800)}
    made = [w.create(w.busy, secrets=[{"name": "brokered", "as": "broker", "env": "A"}],
                     network={"version": 1, "rules": ["web.example"]}) for _ in range(n)]
    for s in made:
        harness.wait_for(lambda s=s: w.server.request("PUT", f"/v1/sessions/{s}/network", {
            "version": 1, "rules": ["web.example"], "packages": {"registries": ["npm"], "mode": "pinned", "pins": pins}},
            key=w.busy)[0] == 200, 60, "a large policy")
    return made


def merged(w):
    made = large_policies(w, 10)
    return [w.load("get", 2, f"/v1/sessions/{s}/network?effective=true") for s in made[:8]], made


def brokered(w):
    made = large_policies(w, 10)
    return [w.load("broker", 16, ",".join(made))], made


def updates(w):
    return [w.load("updates", 4)], large_policies(w, 6)


LOADS = {
    "nothing": ("no load", lambda w: ([], [])),
    "unread": ("4,100 connections without a key that read no answer", lambda w: ([w.load("unread", 4100, key="")], [])),
    "executions": ("executions?state=running, 64 clients", lists("/v1/sessions/{ended}/executions?state=running", 64)),
    "sessions": ("sessions?state=creating, 16 clients", lists("/v1/sessions?state=creating", 16)),
    "logs": ("logs?direction=backward&search=nosuch, 16 clients",
             lists("/v2/sandboxes/{live}/logs?direction=backward&search=nosuch", 16)),
    "network": ("network/log?name=nosuch, 16 clients", lists("/v1/sessions/{live}/network/log?name=nosuch", 16)),
    "keys": ("keys, 16 clients", lists("/v1/keys?limit=1000", 16)),
    "net_followers": ("50 followers of network/log?name=nosuch, and 2.5 records a second",
                      lambda w: ([w.load("follow", 50, f"/v1/sessions/{w.victim}/network/log?follow=true&after=0&name=nosuch")],
                                 w.in_cells(1, ["sh", "-c", REFUSED], {"version": 1, "rules": ["web.example"]}))),
    "bodies": ("1,000 bodies that never end", lambda w: ([w.load("bodies", 1000)], [])),
    "masks": ("60 executions that write what 32 secrets begin with",
              lambda w: ([], w.in_cells(2, ["sh", "-c", "tr '\\0' a < /dev/zero"], secrets=w.secrets(32, 16000), each=30))),
    "members": ("1 MB of JSON with 80,000 unknown members, 32 clients", lambda w: ([w.load("members", 32)], [])),
    "followers": ("3,000 followers of events, and executions by 4 clients",
                  lambda w: ([w.load("follow", 3000, "/v1/events?follow=true"), w.load("execute", 4)], [])),
    "env": ("builds with 1,920 variables and 2,400 values of 256 references, 2 clients", lambda w: ([w.load("env", 2)], [])),
    "build_logs": ("templates with a log of 10,000 entries that are deleted, 2 clients", lambda w: ([w.load("build_logs", 2)], [])),
    "uploads": ("2,500 uploads for a build that send nothing", lambda w: ([w.load("uploads", 2500)], [])),
    "flood": ("an endless answer to a session with 32 secrets", flood),
    "code_lines": ("40 clients of an interpreter that sends lines of one byte", code_lines),
    "mcp_flood": ("8 MCP servers in the place of their gateways, which send 1 MiB again and again", mcp_flood),
    "mcp_results": ("60 callers of a tool that returns 1 MB, with 8 secrets", mcp_results),
    "mcp_files": ("6 readers of a file of 1 MB over MCP, with 32 secrets", mcp_files),
    "orders": ("requests by 16 clients to a PID 1 that does not read them", orders),
    "imports": ("imports of 60,000 files in deep directories, 2 clients", lambda w: ([w.load("imports", 2)], [])),
    "files": ("lists of a directory of 20,000 files of a template, 16 clients", files),
    "versions": ("1,000 versions of templates, and their list by 4 clients", versions),
    "merged": ("merged policies of 340 KB, 16 clients", merged),
    "lockfiles": ("lockfiles of 19,000 lines, 8 clients", lambda w: ([w.load("lockfiles", 8)], [])),
    "brokered": ("executions with brokered secrets in 10 sessions with large policies, 16 clients", brokered),
    "updates": ("changes of a secret of 6 sessions with large policies, 4 clients", updates),
    "names": ("8 sessions whose names are not answered", silent_names),
    "go_list": ("a list of 200,000 versions of a registry's own, 8 connections", documents("go", "/example.org/m/@latest")),
    "npm_tags": ("19,000 tags of a registry's own, 8 connections", documents("npm", "/tags")),
    "cache_calls": ("4 sessions with 90 connections each that ask the package cache for names", cache_calls),
    "hellos": ("4 sessions with handshakes that never end",
               lambda w: ([], w.in_cells(4, ["python3", "-c", HELLOS], {"version": 1, "rules": [
                   {"host": "*.t.example", "tls": "terminate"}]}))),
}


def numbers(got):
    waits = sorted(got["waits"])
    if not waits:
        return "no answer"
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    failed = f" ({got['failed']} failed)" if got["failed"] else ""
    return f"{waits[len(waits) // 2]:.1f} / {p99:.1f} / {waits[-1]:.0f}{failed}"


def longest_turn(log):
    """Of cordond's and egress's loops, as their logs say: only turns of more than 100 ms are there."""
    found = [(int(m[1]), m[2]) for m in re.finditer(r'msg="a turn of the loop took long" ms=(\d+) .*?longest="?([^"]*?)"? longest_ms', log)]
    return "{} ms in {}".format(*max(found)) if found else ""


def row(name, got, turns, log=""):
    slow = any(got[p]["waits"] and numbers(got[p]).split(" / ")[1] and
               float(numbers(got[p]).split(" / ")[1]) > GOAL_MS for p in got)
    print(f"| {name} | " + " | ".join(numbers(got[p]) for p in ("health", "exec", "egress")) +
          f" | {turns:.0f} | {longest_turn(log)} | {'no' if slow else 'yes'} |", flush=True)


def said(what, status, began):
    """What a new thing took; "": it is there, and came at once."""
    took = (time.monotonic() - began) * 1000
    return f"{what} {status}, {took:.0f} ms" if took > 100 or status != 201 else ""


def new_session(world, what, **spec):
    began = time.monotonic()
    status, _, made = world.server.request("POST", "/v1/sessions", spec, key=world.quiet)
    text = said(what, status, began)
    if status == 201:
        world.server.delete(made["id"], key=world.quiet)
    return text


def new_template(world):
    began = time.monotonic()
    status = world.server.request("POST", "/v1/templates?name=small", archive(member("etc/x", b"1")), key=world.quiet,
                                  headers={"Content-Type": "application/x-tar"})[0]
    return said("import", status, began)


def run_load(world, name):
    words, start = LOADS[name]
    at = len(world.server.log())
    ended, sessions = start(world)
    try:
        time.sleep(1)
        before = world.turns()
        also = [text for text in (new_session(world, "session"), new_session(world, "session with a disk", storage="disk"),
                                  new_template(world)) if text]
        got = world.probes()
        row(words + (f" (new: {'; '.join(also)})" if also else ""), got, world.turns()[1] - before[1], world.server.log()[at:])
        return all(p["waits"] for p in got.values())
    finally:
        for p in ended:
            p.kill()
            p.communicate()
        for s in sessions:
            world.server.delete(s, key=world.busy)


def retention(options):
    """Another server, which has just begun to delete all that the first one had."""
    world = World(options, retention="1s", pool_size=4)
    try:
        before = world.turns()
        row(f"retention of {options.rows} executions and {options.rows} sessions", world.probes(),
            world.turns()[1] - before[1])
    finally:
        world.server.destroy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--loads", default=",".join([*LOADS, "retention"]))
    parser.add_argument("--short", action="store_true", help="2,000 rows and 2 seconds: does it work at all?")
    parser.add_argument("--list", action="store_true")
    for name in ("role", "address", "key", "session", "path"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--clients", type=int, default=1)
    a = parser.parse_args()
    if a.role:
        globals()[a.role](a)
        return 0
    if a.list:
        print("\n".join(f"{name:14} {words[0]}" for name, words in LOADS.items()))
        return 0
    if os.geteuid() != 0:
        print("neighbours: needs root")
        return 0
    if a.short:
        a.seconds, a.rows = 2, 2000
    a.build = a.build.resolve()
    internet.enter()
    harness.PROGRAM = harness.reachable(str(a.build / "cordon"))
    internet.start()
    print(f"p50 / p99 / longest wait in ms of another tenant, {a.seconds:.0f} s each, {a.rows} rows of each kind\n")
    print(f"| load | /healthz | exec | request through egress | turns over 20 ms | longest turn over 100 ms | p99 under {GOAL_MS} ms |")
    print("|---|---|---|---|---|---|---|", flush=True)
    wanted, good = a.loads.split(","), True
    if set(wanted) - {"retention"}:
        world = World(a, retention="30d", event_retention="30d")
        try:
            for name in wanted:
                if name != "retention":
                    good = run_load(world, name) and good
        finally:
            world.server.destroy()
    if "retention" in wanted:
        retention(a)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
