#!/usr/bin/python3 -B
"""What neighbours.py runs in processes of its own, one for each call: its probes, and its loads.

    bench/neighbour_roles.py --role NAME --address HOST:PORT --key KEY --session ID --path PATH --clients N --seconds S

A probe prints {"waits": [ms, ...], "failed": n}. A load prints its answers by status, or what it held and served, at its end
or when it gets SIGTERM: neighbours.py knows from them that it was one.
"""
import argparse
import base64
import collections
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for part in ("behaviour", "server", "egress", "registry"):
    sys.path.insert(1, str(HERE.parent / "tests" / part))
sys.path.insert(0, str(HERE.parent / "tests" / "shared"))  # before this folder, which has another images.py
import internet  # noqa: E402
from images import archive, member  # noqa: E402

FLOOD_PORT = 8091
REGISTRY_PORT = 8092
ANSWERS = collections.Counter()  # of a load: by status, "held" and "served"


def report(*_):
    """Ends a load, with its first answer at the earliest: some take longer than a short load lasts."""
    end = time.monotonic() + 60
    while not ANSWERS and time.monotonic() < end:
        time.sleep(0.05)
    print(json.dumps(ANSWERS), flush=True)
    os._exit(0)


def connection(address, timeout=120):
    host, port = address.rsplit(":", 1)
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def send(link, method, path, key, body=None):
    headers = {"X-API-Key": key} if key else {}
    link.request(method, path, None if body is None else json.dumps(body), headers)
    return take(link)


def take(link):
    answer = link.getresponse()
    body = answer.read()
    ANSWERS[str(answer.status)] += 1
    return answer.status, body


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
        take(link)

    repeat(a, ask)


def load_execute(a):
    repeat(a, lambda link: send(link, "POST", f"/v1/sessions/{a.session}/executions?wait=true", a.key,
                                {"argv": ["/bin/true"]}))


def load_lockfiles(a):
    """Lockfiles that are wrong in their last line."""
    text = "\n".join(f"a{i}==1.0" for i in range(19000)) + "\n-r wrong"
    body = {"network": {"version": 1, "packages": {"registries": ["pypi"], "lockfiles": [{"name": "requirements.txt", "text": text}]}}}
    repeat(a, lambda link: send(link, "POST", "/v1/sessions", a.key, body))


def package_lock():
    """A package-lock.json of 2.4 MB: its 3,000 pins nearly fill a document."""
    packages = {"": {"name": "app", "version": "1.0.0"}}
    for i in range(3000):
        name, digest = f"package-number-{i}", base64.b64encode(hashlib.sha512(str(i).encode()).digest()).decode()
        packages[f"node_modules/{name}"] = {
            "version": "1.0.0", "resolved": f"https://registry.npmjs.org/{name}/-/{name}-1.0.0.tgz", "integrity": "sha512-" + digest,
            "license": "MIT", "dependencies": {f"dep{k}": "^1.0.0" for k in range(12)}, "engines": {"node": ">=10.0.0"}}
    text = json.dumps({"name": "app", "lockfileVersion": 3, "packages": packages}, indent=2)
    return {"version": 1, "packages": {"registries": ["npm"], "lockfiles": [{"name": "package-lock.json", "text": text}]}}


def load_package_locks(a):
    """Requests for sessions, which are ended at once, and changes of a policy (a.path: of which session), in turn."""
    document, turn = package_lock(), itertools.count()
    create = json.dumps({"network": document, "timeout": "1m"})
    change = json.dumps(document)

    def ask(link):
        method, path, body = ("POST", "/v1/sessions", create) if next(turn) % 2 else ("PUT", f"/v1/sessions/{a.path}/network", change)
        link.request(method, path, body, {"X-API-Key": a.key})
        status, made = take(link)
        if status == 201:
            send(link, "DELETE", f"/v1/sessions/{json.loads(made)['id']}", a.key)

    repeat(a, ask)


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
            ANSWERS["held"] = max(len(held), ANSWERS["held"])
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
    made = json.loads(send(link, "POST", "/v1/builds", a.key, {"name": name})[1])
    where = f"/v1/builds/{made['id']}"
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
    made = json.loads(send(link, "POST", "/v1/builds", a.key, {"name": "uploads"})[1])
    hold(a, f"PUT /v1/builds/{made['id']}/files/{'ab' * 32} HTTP/1.1\r\nHost: x\r\nX-API-Key: {a.key}\r\nContent-Length: 100\r\n\r\n".encode())


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
                     {"X-API-Key": a.key, "Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"})
        take(link)

    repeat(a, ask)


def load_mcp_files(a):
    mcp(a, "resources/read", {"uri": f"cordon://sessions/{a.session}/files/tmp/f"})


def load_mcp_results(a):
    mcp(a, "tools/call", {"name": "a0__go", "arguments": {}}, a.session)


def load_mcp_values(a):
    """As many values as a message may have."""
    mcp(a, "ping", {"x": [[0] * 100 for _ in range(117)]})


def load_volume(a):
    """a.session: the token."""
    def ask(link):
        link.request("GET", a.path, headers={"Authorization": "Bearer " + a.session})
        take(link)

    repeat(a, ask)


def load_sessions(a):
    """Sessions of a template, made and ended."""
    def ask(link):
        status, made = send(link, "POST", "/v1/sessions", a.key, {"template": a.path, "timeout": "1m"})
        if status == 201:
            send(link, "DELETE", f"/v1/sessions/{json.loads(made)['id']}", a.key)

    repeat(a, ask)


def load_manifests(a):
    """Pulls of an image whose manifest has as many values as it may have, and whose configuration is missing."""
    from fake_registry import Registry
    from registry_images import Image, layer
    image = Image([layer({"etc/x": b"1"})])
    image.blobs.clear()
    image.tag = json.dumps({**image.manifest, "annotations": {f"k{i}": "v" for i in range(19000)}}).encode(), image.tag[1]
    registry = Registry(image)
    repeat(a, lambda link: send(link, "POST", "/v1/templates/pull", a.key, {"reference": f"{registry.host}/a/b:t", "name": "manifest"}))


def execute(link, session, key):
    link.request("POST", "/execute", '{"code":"1"}', {"E2b-Sandbox-Id": session, "E2b-Sandbox-Port": "49999", "X-API-Key": key})
    return link.getresponse()


def load_code_lines(a):
    """Clients of an interpreter's port that read all that comes."""
    def ask(link):
        answer, end = execute(link, a.session, a.key), time.monotonic() + a.seconds
        ANSWERS[str(answer.status)] += 1
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
            ANSWERS["served"] += 1
            while True:
                conn.sendall(b"a" * 65536)

    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def colliding(n, bits=17):
    """n versions whose FNV-1a ends alike: what a table without a seed would keep in one place. From the wanted end, three letters are
    taken off, which leaves a state; a beginning with that state gets the letters."""
    prime, mask, letters = 0x100000001B3, (1 << bits) - 1, "abcdefghijklmnopqrstuvwxyz0123456789"
    inverse, ends, found = pow(prime, -1, 1 << bits), {}, []
    for end in itertools.product(letters, repeat=3):
        state = 7
        for c in reversed(end):
            state = (state * inverse & mask) ^ ord(c)
        ends[state] = "".join(end)
    for i in itertools.count():
        name, state = f"v1.0.0-{i}x", 0xCBF29CE484222325
        for c in name.encode():
            state = (state ^ c) * prime & mask
        if state in ends:
            found.append(name + ends[state])
        if len(found) == n:
            return found


def load_registry(a):
    """A registry whose documents are as long as it likes: lists of Go, and tags of npm with long names."""
    versions = "".join(f"v1.0.{i}\n" for i in range(200000)).encode()
    alike = "".join(f"{v}\n" for v in colliding(50000)).encode()
    tags = {f"t{i}": f"1.0.0-{'a.' * 50}{i}" for i in range(19000)}
    document = json.dumps({"name": "tags", "dist-tags": tags, "versions": {v: {"name": "tags", "version": v, "dist": {
        "tarball": f"http://long.example:{REGISTRY_PORT}/tags/-/tags-{v}.tgz"}} for v in [*list(tags.values())[:100], "1.0.0"]}}).encode()
    listener = socket.create_server((internet.SPARE, REGISTRY_PORT), backlog=512)

    def serve(conn):
        with contextlib.suppress(OSError, IndexError), conn:
            path = conn.recv(65536).split(b" ")[1].decode()
            version = path.rsplit("/", 1)[1].removesuffix(".info")
            ANSWERS["served"] += 1
            body = (alike if path.endswith("/alike/@v/list") else versions if path.endswith("/@v/list") else document if path == "/tags" else
                    json.dumps({"Version": version, "Time": "2020-01-01T00:00:00Z"}).encode())
            conn.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def load_slow_registry(a):
    """A registry of Maven whose documents never end."""
    listener = socket.create_server((internet.SPARE, REGISTRY_PORT), backlog=512)
    held = []
    print("ready", flush=True)
    while True:
        held.append(listener.accept()[0])
        ANSWERS["served"] += 1
        held[-1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"x" * 10)


def load_imports(a):
    data = archive(*[member("/".join([f"{i % 2}"] * 40) + f"/{i}", b"") for i in range(int(a.path))])

    def ask(link):
        link.request("POST", "/v1/templates?name=deep", data, {"X-API-Key": a.key, "Content-Type": "application/x-tar"})
        take(link)

    repeat(a, ask)


def main():
    parser = argparse.ArgumentParser()
    for name in ("role", "address", "key", "session", "path"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, report)
    globals()[a.role](a)
    if a.role.startswith("load_"):
        report()


if __name__ == "__main__":
    main()
