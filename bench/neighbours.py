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
import harness  # noqa: E402
import internet  # noqa: E402
import rows  # noqa: E402

GOAL_MS = 50
FLOOD_PORT = 8091


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


def load_follow(a):
    hold(a, f"GET {a.path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {a.key}\r\n\r\n".encode())


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


def flood(w):
    with internet.NET.inside(internet.NET.world):
        origin = process("--role", "load_flood_origin")
    origin.stdout.readline()
    internet.NET.zone["flood.example"] = (internet.SPARE,)
    rule = {"version": 1, "rules": [{"host": "flood.example", "ports": [FLOOD_PORT]}]}
    return [origin], w.in_cells(1, ["curl", "-s", "-o", "/dev/null", f"http://flood.example:{FLOOD_PORT}/"], rule,
                                w.secrets(32, 2000))


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
    "flood": ("an endless answer to a session with 32 secrets", flood),
    "names": ("8 sessions whose names are not answered", silent_names),
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


def run_load(world, name):
    words, start = LOADS[name]
    at = len(world.server.log())
    ended, sessions = start(world)
    try:
        time.sleep(1)
        before = world.turns()
        began = time.monotonic()
        status, _, made = world.server.request("POST", "/v1/sessions", {}, key=world.quiet)  # can be had, too
        took = (time.monotonic() - began) * 1000
        if status == 201:
            world.server.delete(made["id"], key=world.quiet)
        got = world.probes()
        row(f"{words}" + (f" (a new session: {status}, {took:.0f} ms)" if took > 100 or status != 201 else ""), got, world.turns()[1] - before[1],
            world.server.log()[at:])
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
