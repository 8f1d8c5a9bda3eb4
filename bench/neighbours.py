#!/usr/bin/python3 -B
"""What one tenant feels of another: waits of a tenant's /healthz, executions and requests through egress while
another tenant (or a client without a key) loads the server, with a store that is full.

    bench/neighbours.py BUILD [--seconds N] [--rows N] [--loads a,b] [--list] [--short]

--short asks only whether each load still is one, and prints TAP: 2 seconds each, with few rows. The suite chaos has some
loads that way, `make soak` all.

Theory of operation

The world is the small internet of tests/egress (namespaces of our own, gone with the process). One server, two
tenants: "quiet" is measured, "busy" loads. Before the first load the server is stopped and rows are put into its
database directly: executions, events, network records, keys and ended sessions of the busy tenant.

Each probe and each load is a process of its own (neighbour_roles.py), so no load shares an interpreter with a
probe. They all run on the machine's processors beside the server: the waits are those of a server whose machine is
busy with its clients, too. Loads are bounded in number and time. Nothing passes or fails by time. The exit code is 1 if
a probe got no answer, or if a load did not run: each process of a load counts its answers by status, or what it held and
served, and says so when it ends; a program in a cell must still run, and have written or used the network.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for part in ("behaviour", "server", "egress", "registry"):
    sys.path.insert(1, str(HERE.parent / "tests" / part))
sys.path.insert(0, str(HERE.parent / "tests" / "shared"))  # before this folder, which has another images.py
import harness  # noqa: E402
import internet  # noqa: E402
import rows  # noqa: E402
from images import archive, member  # noqa: E402
from neighbour_roles import FLOOD_PORT, REGISTRY_PORT, connection, execute  # noqa: E402

GOAL_MS = 50
SHORT = "--short" in sys.argv


# ---- the world

# In cells of the busy tenant.
STORES = """
import socket, sys, time
held = []
for i in range(140):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
    s.sendall(f"GET /org/slow{i}/lib/maven-metadata.xml HTTP/1.1\\r\\nHost: {sys.argv[1]}:{sys.argv[2]}\\r\\n\\r\\n".encode())
    held.append(s)
time.sleep(3600)
"""
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
    return subprocess.Popen([sys.executable, "-B", str(HERE / "neighbour_roles.py"), *map(str, arguments)],
                            stdout=subprocess.PIPE, text=True, **more)


class World:
    """The server, its two tenants and what the store holds."""

    def __init__(self, options, **settings):
        self.options = options
        self.server = harness.Server(str(options.build / "cordon"), log_level="warn", egress_ca="/mnt/world.pem", registries="*, 127.0.0.1",
                                     node_create_rate=0, tenant_create_rate=0, tenant_max_storage=0, **settings)
        self.made = []  # sessions of a load
        self.cells = {}  # those with programs: do they use the network? Or a file that they write
        self.quiet = self.tenant("quiet")
        self.busy = self.tenant("busy")
        self.read = self.server.want(201, "POST", "/v1/keys", {"name": "reads", "scopes": ["read"]}, key=self.busy)["key"]
        self.cell = self.create(self.quiet, network={"version": 1, "rules": ["web.example"]})
        self.victim = self.create(self.busy, network={"version": 1, "rules": ["web.example"]})
        self.ended = self.create(self.busy)
        self.fill()

    def tenant(self, name):
        made = self.server.want(201, "POST", "/v1/tenants", {"name": name})
        return self.server.want(201, "POST", f"/v1/tenants/{made['id']}/keys",
                                {"scopes": ["read", "sessions", "admin"]})["key"]

    def create(self, key, **spec):
        self.made.append(self.server.create(key=key, timeout="1h", **spec)["id"])
        return self.made[-1]

    def fill(self):
        """Rows of the busy tenant, as if it had been at it for days."""
        s, n = self.server, self.options.rows
        s.run(self.ended, "true", key=self.busy)
        s.run(self.victim, "curl -s -m 3 http://not-allowed.example/; true", key=self.busy)
        harness.wait_for(lambda: rows.number(s, "SELECT count(*) FROM net") > 0, 10, "a network record")
        s.delete(self.ended, key=self.busy)
        status = s.request("POST", "/v1/templates?name=layered", archive(member("etc/x", b"1")), key=self.busy,
                           headers={"Content-Type": "application/x-tar"})[0]
        harness.equal(status, 201, "an import")
        s.stop()
        one = f"(SELECT min(id) FROM execution WHERE session = '{self.ended}')"
        rows.copies(s, "execution", "id", n, f"id = {one}", created_ms="created_ms + i")
        rows.copies(s, "session", "id", n, f"id = '{self.ended}'", created_ms="created_ms - i")
        rows.copies(s, "event", "seq", n, f"seq = (SELECT max(seq) FROM event WHERE session = '{self.victim}')")
        rows.copies(s, "net", "seq", n, "seq = (SELECT max(seq) FROM net)")
        rows.copies(s, "key", "id", n, "name = '' AND scopes = (SELECT max(scopes) FROM key) AND id = (SELECT max(id) FROM key"
                    f" WHERE tenant = (SELECT tenant FROM session WHERE id = '{self.victim}'))",
                    hash="randomblob(32)", created_ms="created_ms + i")
        # Layers as the cache of builds would have them.
        rows.copies(s, "layer", "id", n // 2, "id = (SELECT max(id) FROM layer WHERE tenant <> '')", digest="''")
        with rows.database(s, write=True) as db:
            db.execute("INSERT INTO layer_use (owner_kind, owner, position, layer) SELECT 2, 'bench-' || id, 0, id FROM layer"
                       " WHERE NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id)")
        s.start()
        harness.equal(rows.number(s, "SELECT count(*) FROM layer WHERE state = 0") >= n // 2, True, "layers that are used")

    def load(self, role, clients=1, path="", session="", key=None):
        return process("--role", "load_" + role, "--address", self.server.settings["listen"], "--key",
                       self.busy if key is None else key, "--clients", clients, "--path", path, "--session",
                       session or self.victim, "--seconds", self.options.seconds + 4)

    def in_cells(self, n, argv, network=None, secrets=None, each=1, quiet=False):
        """n sessions of the busy tenant, each with that many programs, until they are deleted. quiet: nothing is recorded while they run."""
        for _ in range(n):
            spec = {k: v for k, v in (("network", network), ("secrets", secrets)) if v is not None}
            made = self.create(self.busy, **spec)
            for _ in range(each):  # PID 1 does not take all of them as fast as they come
                harness.wait_for(lambda: self.server.request("POST", f"/v1/sessions/{made}/executions", {"argv": argv}, key=self.busy)[0] == 202,
                                 30, "an execution")
            self.cells[made] = None if quiet else network is not None

    def idle_cells(self):
        """Those of a load whose programs have ended, or did nothing."""
        idle = []
        for s, records in self.cells.items():
            if isinstance(records, str):
                idle += [] if self.server.run(s, ["cat", records], key=self.busy)["stdout"] else [f"no {records} in {s}"]
                continue
            running = self.server.want(200, "GET", f"/v1/sessions/{s}/executions?state=running", key=self.busy)["executions"]
            if not running:
                idle.append(f"no program of {s} runs")
            elif records and not self.server.want(200, "GET", f"/v1/sessions/{s}/network/log?limit=1", key=self.busy)["records"]:
                idle.append(f"no record of the network of {s}")
            elif records is False and not any(x["stdout_bytes"] for x in running):
                idle.append(f"no output in {s}")
        return idle

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


# ---- loads: each starts processes, which it gives, or programs in cells of World.create()

def lists(path, clients):
    return lambda w: [w.load("get", clients, path.format(ended=w.ended, live=w.victim))]


def net_followers(w):
    w.in_cells(1, ["sh", "-c", REFUSED], {"version": 1, "rules": ["web.example"]})
    return [w.load("follow", 50, f"/v1/sessions/{w.victim}/network/log?follow=true&after=0&name=nosuch")]


def silent_names(w):
    internet.NET.odd = Silent(internet.NET.odd)
    w.in_cells(8, ["python3", "-c", LOOKUPS], {"version": 1, "rules": ["*.silent.example"]}, quiet=True)


def orders(w):
    starved = w.create(w.busy, limits={"cpus": "0.01"})
    w.server.want(202, "POST", f"/v1/sessions/{starved}/executions",
                  {"command": "for i in $(seq 400); do (while :; do :; done) & done; sleep 1000"}, key=w.busy)
    time.sleep(5)
    return [w.load("orders", 16, session=starved)]


def flood(w):
    with internet.NET.inside(internet.NET.world):
        origin = process("--role", "load_flood_origin")
    origin.stdout.readline()
    internet.NET.zone["flood.example"] = (internet.SPARE,)
    rule = {"version": 1, "rules": [{"host": "flood.example", "ports": [FLOOD_PORT]}]}
    w.in_cells(1, ["curl", "-s", "-o", "/dev/null", f"http://flood.example:{FLOOD_PORT}/"], rule, w.secrets(32, 2000), quiet=True)
    return [origin]


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
    with contextlib.closing(connection(w.server.settings["listen"])) as link:
        harness.equal(execute(link, s, w.busy).status, 200, "the answer of the cell")
    return [w.load("code_lines", 40, session=s)]


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
        w.cells[child] = "/tmp/took"


def mcp_results(w):
    s = mcp_servers(w, 1, w.secrets(8, 64))
    return [w.load("mcp_results", 60, session=s)]


def mcp_files(w):
    s = w.create(w.busy, secrets=w.secrets(32, 2000))
    w.server.run(s, "head -c 1000000 /dev/zero | tr '\\0' a > /tmp/f", key=w.busy)
    return [w.load("mcp_files", 6, session=s)]


def upload(w, name, members):
    """A root file system of many members, as a template of the busy tenant."""
    status = w.server.request("POST", "/v1/templates?name=" + name, archive(*members), key=w.busy,
                              headers={"Content-Type": "application/x-tar"}, raw=True)[0]
    harness.check(status == 201, f"import: {status}")


def files(w):
    """A directory with many names, listed all the time."""
    upload(w, "many", [member(f"d/{i:050d}", b"") for i in range(20000)])
    return [w.load("get", 16, "/v1/templates/many/files?path=/d&limit=4096")]


def versions(w):
    """As many versions as a tenant may have."""
    for i in range(1000):
        w.server.request("POST", "/v1/templates", {"name": f"v{i}", "from": "host"}, key=w.busy)
    return [w.load("get", 4, "/v1/templates")]


def templates(w):
    """Those of four tenants that all may use."""
    for i in range(4):
        tenant = w.server.want(201, "POST", "/v1/tenants", {"name": f"templates{i}"})
        key = w.server.want(201, "POST", f"/v1/tenants/{tenant['id']}/keys", {"scopes": ["sessions", "admin"]})["key"]
        for k in range(min(1000, w.options.rows // 100)):
            w.server.want(201, "POST", "/v1/templates", {"name": f"t{i}-{k}", "from": "host"}, key=key)
            w.server.want(200, "PATCH", f"/v1/templates/t{i}-{k}", {"public": True}, key=key)
    return [w.load("get", 4, "/templates")]


LONG_NAMES = r"""
import os, sys
os.makedirs(sys.argv[1])
for i in range(int(sys.argv[2])):
    os.close(os.open(f"{sys.argv[1]}/{i:06}" + "\x7f" * 245, os.O_CREAT | os.O_WRONLY))
"""


def volume(w):
    """Lists of nearly as many bytes as an answer may have."""
    made = w.server.want(201, "POST", "/volumes", {"name": "long"}, key=w.busy)
    s = w.create(w.busy, volumes=[{"name": "long", "path": "/v"}])
    harness.equal(w.server.run(s, ["python3", "-c", LONG_NAMES, "/v/d", "4700"], key=w.busy)["exit_code"], 0)
    return [w.load("volume", 16, f"/volumecontent/{made['volumeID']}/dir?path=/d", session=made["token"])]


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
        w.in_cells(1, ["sh", "-c", line], policy)
        return [registry]
    return start


def cache_stores(w):
    """More documents that never end than cordon-egress stores at a time."""
    with internet.NET.inside(internet.NET.world):
        registry = process("--role", "load_slow_registry")
    registry.stdout.readline()
    internet.NET.zone["slow.example"] = (internet.SPARE,)
    policy = {"version": 1, "rules": [{"host": "slow.example", "ports": [REGISTRY_PORT]}],
              "packages": {"registries": [{"ecosystem": "maven", "host": f"slow.example:{REGISTRY_PORT}"}], "unknown_age": "allow"}}
    w.in_cells(1, ["python3", "-c", STORES, "slow.example", str(REGISTRY_PORT)], policy, quiet=True)
    return [registry]


def cache_calls(w):
    """Names that no package cache has, asked for by more connections than requests may be under way."""
    policy = {"version": 1, "packages": {"registries": ["npm"], "mode": "offline-cache"}}
    w.in_cells(4, ["python3", "-c", NAMES], policy)


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


def policies(w):
    """Of sessions with large policies, by a key that may only read."""
    made = large_policies(w, 8)
    return [w.load("get", 2, f"/v1/sessions/{s}/network", key=w.read) for s in made]


def package_locks(w):
    s = w.create(w.busy, network={"version": 1, "rules": ["web.example"]})
    return [w.load("package_locks", 8, s)]


def merged(w):
    made = large_policies(w, 10)
    return [w.load("get", 2, f"/v1/sessions/{s}/network?effective=true") for s in made[:8]]


def brokered(w):
    made = large_policies(w, 10)
    return [w.load("broker", 16, ",".join(made))]


def updates(w):
    made = large_policies(w, 6)  # before the load, which ends when its time is over
    return [w.load("updates", 4)]


LOADS = {
    "nothing": ("no load", lambda w: []),
    "unread": ("4,100 connections without a key that read no answer", lambda w: [w.load("unread", 4100, key="")]),
    "executions": ("executions?state=running, 64 clients", lists("/v1/sessions/{ended}/executions?state=running", 64)),
    "sessions": ("sessions?state=creating, 16 clients", lists("/v1/sessions?state=creating", 16)),
    "logs": ("logs?direction=backward&search=nosuch, 16 clients",
             lists("/v2/sandboxes/{live}/logs?direction=backward&search=nosuch", 16)),
    "network": ("network/log?name=nosuch, 16 clients", lists("/v1/sessions/{live}/network/log?name=nosuch", 16)),
    "keys": ("keys, 16 clients", lists("/v1/keys?limit=1000", 16)),
    "net_followers": ("50 followers of network/log?name=nosuch, and 2.5 records a second",
                      net_followers),
    "bodies": ("1,000 bodies that never end", lambda w: [w.load("bodies", 1000)]),
    "masks": ("60 executions that write what 32 secrets begin with",
              lambda w: w.in_cells(2, ["sh", "-c", "tr '\\0' a < /dev/zero"], secrets=w.secrets(32, 16000), each=30)),
    "members": ("1 MB of JSON with 80,000 unknown members, 32 clients", lambda w: [w.load("members", 32)]),
    "followers": ("3,000 followers of events, and executions by 4 clients",
                  lambda w: [w.load("follow", 3000, "/v1/events?follow=true"), w.load("execute", 4)]),
    "env": ("builds with 1,920 variables and 2,400 values of 256 references, 2 clients", lambda w: [w.load("env", 2)]),
    "build_logs": ("templates with a log of 10,000 entries that are deleted, 2 clients", lambda w: [w.load("build_logs", 2)]),
    "uploads": ("2,500 uploads for a build that send nothing", lambda w: [w.load("uploads", 2500)]),
    "flood": ("an endless answer to a session with 32 secrets", flood),
    "code_lines": ("40 clients of an interpreter that sends lines of one byte", code_lines),
    "mcp_flood": ("8 MCP servers in the place of their gateways, which send 1 MiB again and again", mcp_flood),
    "mcp_results": ("60 callers of a tool that returns 1 MB, with 8 secrets", mcp_results),
    "mcp_files": ("6 readers of a file of 1 MB over MCP, with 32 secrets", mcp_files),
    "orders": ("requests by 16 clients to a PID 1 that does not read them", orders),
    "imports": ("imports of 60,000 files in deep directories, 2 clients", lambda w: [w.load("imports", 2, min(60000, 2 * w.options.rows))]),
    "files": ("lists of a directory of 20,000 files of a template, 16 clients", files),
    "versions": ("1,000 versions of templates, and their list by 4 clients", versions),
    "merged": ("merged policies of 340 KB, 16 clients", merged),
    "policies": ("policies of 340 KB by a key that reads, 16 clients", policies),
    "lockfiles": ("lockfiles of 19,000 lines, 8 clients", lambda w: [w.load("lockfiles", 8)]),
    "package_locks": ("a package-lock.json of 2.4 MB for sessions and for changes of a policy, 8 clients", package_locks),
    "brokered": ("executions with brokered secrets in 10 sessions with large policies, 16 clients", brokered),
    "updates": ("changes of a secret of 6 sessions with large policies, 4 clients", updates),
    "names": ("8 sessions whose names are not answered", silent_names),
    "layers": ("sessions with layers, beside half as many other layers, 4 clients", lambda w: [w.load("sessions", 4, "layered")]),
    "manifests": ("a manifest of 19,000 values, 4 clients", lambda w: [w.load("manifests", 4)]),
    "mcp_values": ("messages of MCP with 12,000 values, 1 client", lambda w: [w.load("mcp_values", 1)]),
    "templates": ("E2B's list of 4,000 templates, 4 clients", templates),
    "volume": ("lists of a volume's directory of 14 MiB, 16 clients", volume),
    "go_alike": ("a list of 50,000 versions that collide without a seed, 8 connections", documents("go", "/example.org/alike/@latest")),
    "go_list": ("a list of 200,000 versions of a registry's own, 8 connections", documents("go", "/example.org/m/@latest")),
    "npm_tags": ("19,000 tags of a registry's own, 8 connections", documents("npm", "/tags")),
    "cache_calls": ("4 sessions with 90 connections each that ask the package cache for names", cache_calls),
    "cache_stores": ("140 documents that never end, for the package cache", cache_stores),
    "hellos": ("4 sessions with handshakes that never end",
               lambda w: w.in_cells(4, ["python3", "-c", HELLOS], {"version": 1, "rules": [{"host": "*.t.example", "tls": "terminate"}]}, quiet=True)),
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
    print(("# " if SHORT else "") + f"| {name} | " + " | ".join(numbers(got[p]) for p in ("health", "exec", "egress")) +
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


EXPECTED = {"load_members": "400", "load_lockfiles": "400", "load_manifests": "404"}  # where the answer is no success


def ended(p):
    """What a process of a load says at its end. Lines that it has printed before are gone."""
    try:
        out = p.communicate(timeout=90)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        return {}
    return json.loads(out.splitlines()[-1]) if out.strip() else {}


def unanswered(processes):
    """Why those of a load were none; some of one kind may be refused all they ask for, by the rate of the others."""
    for p in processes:
        p.terminate()
    counts = {}
    for p in processes:
        counts.setdefault(p.args[p.args.index("--role") + 1], collections.Counter()).update(ended(p))
    return [f"{role} had no answer: {dict(got)}" for role, got in counts.items()
            if not any(name in ("held", "served", EXPECTED.get(role)) or name[0] == "2" for name in got)]


def run_load(world, name):
    """Why it was none, in words."""
    words, start = LOADS[name]
    at, before = len(world.server.log()), len(world.made)
    processes, why = [], []
    try:
        processes = start(world) or []
        time.sleep(1)
        turns = world.turns()[1]
        also = [text for text in (new_session(world, "session"), new_session(world, "session with a disk", storage="disk"),
                                  new_template(world)) if text]
        got = world.probes()
        row(words + (f" (new: {'; '.join(also)})" if also else ""), got, world.turns()[1] - turns, world.server.log()[at:])
        why = [f"probe {p}: no answer" for p in got if len(got[p]["waits"]) <= got[p]["failed"]]
        why += world.idle_cells()
    finally:
        why += unanswered(processes)
        world.cells.clear()
        for s in world.made[before:]:
            world.server.delete(s, key=world.busy)
        del world.made[before:]
    return why


def retention(options):
    """Another server, which has just begun to delete all that the first one had."""
    world = World(options, retention="1s", pool_size=4)
    try:
        before, got = world.turns(), world.probes()
        row(f"retention of {options.rows} executions and {options.rows} sessions", got, world.turns()[1] - before[1])
        return [f"probe {p}: no answer" for p in got if len(got[p]["waits"]) <= got[p]["failed"]]
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
    a = parser.parse_args()
    if a.list:
        print("\n".join(f"{name:14} {words[0]}" for name, words in LOADS.items()))
        return 0
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    if a.short:
        a.seconds, a.rows = 2, 2000
    a.build = a.build.resolve()
    internet.enter()
    harness.PROGRAM = harness.reachable(str(a.build / "cordon"))
    internet.start()
    wanted, bad = a.loads.split(","), 0
    if a.short:
        print(f"1..{len(wanted)}", flush=True)
    else:
        print(f"p50 / p99 / longest wait in ms of another tenant, {a.seconds:.0f} s each, {a.rows} rows of each kind\n")
        print(f"| load | /healthz | exec | request through egress | turns over 20 ms | longest turn over 100 ms | p99 under {GOAL_MS} ms |")
        print("|---|---|---|---|---|---|---|", flush=True)
    others = [name for name in wanted if name != "retention"]
    world = World(a, retention="30d", event_retention="30d") if others else None
    try:
        for name in others:
            bad += not told(a, wanted, name, run_load, world, name)
    finally:
        if world is not None:
            world.server.destroy()
    if "retention" in wanted:
        bad += not told(a, wanted, "retention", retention, a)
    return 1 if bad else 0


def told(a, wanted, name, run, *args):
    """Runs a load and says what was wrong with it. True: it was one."""
    try:
        why = run(*args)
    except (harness.Failed, OSError, http.client.HTTPException) as e:
        why = [f"{type(e).__name__}: {e}"]
    if a.short:
        print(f"{'not ok' if why else 'ok'} {wanted.index(name) + 1} - {name}")
    for text in why:
        print(f"# {name}: {text}", flush=True)
    return not why


if __name__ == "__main__":
    sys.exit(main())
