#!/usr/bin/python3 -B
"""What a tenant gives cordond to read is read in pieces: others wait for a piece of it, never for all. Measured is the share of the
time that passes in long turns of the loop, which is most of it if one turn reads all, and next to nothing else.

    test_turns.py CORDON [name ...]
"""
import base64
import hashlib
import http.client
import itertools
import json
import os
import re
import resource
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, run_tests, wait_for  # noqa: E402
from mcp_client import Client  # noqa: E402
from rows import copies, database, number  # noqa: E402
from test_mcp_servers_attacks import FLOOD, create, hostile, shown  # noqa: E402

SECONDS = 5
SANITIZED = os.environ.get("CORDON_TEST_SANITIZED") == "1"  # such programs take a few times as long
BUCKET = re.compile(r'^cordon_loop_turn_seconds_bucket{le="([0-9.]+)"} (\d+)$', re.M)


def turns(server):
    """{bound in seconds: turns that took at most so long}"""
    return {float(le): int(n) for le, n in BUCKET.findall(server.want(200, "GET", "/metrics", raw=True).decode())}


def share(before, after, longer):
    """Of SECONDS, in turns of more than so many seconds; each counts as the lower bound of its bucket, so it is more."""
    bounds, spent = sorted(after), 0
    for low, high in zip(bounds, bounds[1:]):
        n = (after[high] - after[low]) - (before[high] - before[low])
        spent += n * low if low >= longer else 0
    return spent / SECONDS


def count(before, after, longer):
    """Turns of more than so many seconds."""
    return (after[max(after)] - after[longer]) - (before[max(before)] - before[longer])


def loaded(server, clients, work, longer):
    """The share of long turns while so many threads call work(end) until that time."""
    before, end = turns(server), time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(end,)) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return share(before, turns(server), longer)


# Root of a cell answers in the place of its interpreter.
LINES = r"""
import socket, threading
def serve(c):
    c.recv(65536); c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True: c.sendall(b"x\n" * 30000)
l = socket.create_server(("127.0.0.1", 49999), backlog=64)
print("up", flush=True)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
"""


def test_lines_of_an_interpreter(server):
    s = server.create(timeout="1h")["id"]
    path = f"/v1/sessions/{s}/executions"
    server.want(200, "POST", path + "?wait=true", {"code": "1"})  # so it has one
    taken = server.run(s, "mv /opt/cordon/bin/cordon-interpreter /opt/gone; pkill -9 -f 'cordon-interpreter serv[e]'", user="root")
    equal(taken["exit_code"], 0, taken)
    x = server.spawn(s, ["python3", "-c", LINES], user="root", background=True)
    wait_for(lambda: server.execution(x)["stdout_bytes"] > 0, 20, "the server in the cell")
    got = []

    def work(end):
        link = http.client.HTTPConnection(*server.address, timeout=60)
        link.request("POST", "/execute", '{"code":"1"}', {"E2b-Sandbox-Id": s, "E2b-Sandbox-Port": "49999", "X-API-Key": server.key})
        answer, n = link.getresponse(), 0
        while time.monotonic() < end and (piece := answer.read(65536)):
            n += len(piece)
        got.append((answer.status, n))
        link.close()

    part = loaded(server, 40, work, 0.05)
    check(len(got) == 40 and all(status == 200 and n > 0 for status, n in got), f"{got}")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 50 ms")
    server.delete(s)


def test_files_over_mcp(server):
    """The mask of many long secrets goes over a file of 1 MB."""
    names = [f"turns{i}" for i in range(32)]
    for i, name in enumerate(names):
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": "a" * 2000 + f"{i:04d}", "ways": ["env"]})
    s = server.create(secrets=[{"name": name, "as": "env", "env": name.upper()} for name in names])["id"]
    equal(server.run(s, "head -c 1000000 /dev/zero | tr '\\0' a > /tmp/f")["exit_code"], 0)
    read = []

    def work(end):
        c = Client(server)
        while time.monotonic() < end:
            read.append(len(c.result("resources/read", {"uri": f"cordon://sessions/{s}/files/tmp/f"})["contents"][0]["text"]))

    part = loaded(server, 6, work, 0.02)
    check(read and set(read) == {1000000}, f"{read}")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 20 ms, for {len(read)} files")
    server.delete(s)
    for name in names:
        server.want(204, "DELETE", f"/v1/secrets/{name}")


def test_servers_that_flood(server):
    """Eight programs in the places of the gateways of a session's MCP servers send what nobody asked for, of many values each."""
    names = [f"flood{i}" for i in range(8)]
    s = create(server, **{name: hostile() for name in names})
    children = [row["session_id"] for row in shown(server, s).values()]
    line = "'{\"jsonrpc\":\"2.0\",\"result\":[0' + ',0' * 500000 + '],\"id\":999999}\\n'"
    for child in children:
        server.run(child, ["tee", "/root/flood"], user="root", stdin=FLOOD)
        made = server.run(child, ["python3", "-c", f"open('/tmp/line', 'w').write({line})"], user="root")
        equal(made["exit_code"], 0, made["stderr"])
        equal(server.run(child, "chmod 755 /root/flood && mv /root/flood /opt/cordon/bin/mcp-gateway", user="root")["exit_code"], 0)
    for child in children:
        server.run(child, "pkill -9 -f '[m]cp-gateway'", user="root")

    def took(child):
        return server.run(child, "cat /tmp/took 2>/dev/null")["stdout"].split()

    _, key = server.tenant("beside")
    for child in children:
        wait_for(lambda: took(child), 60, "the first flood")
    asked = []

    def work(end):
        while time.monotonic() < end:
            server.want(200, "GET", "/v1/node", key=key)
            asked.append(1)

    before = [len(took(child)) for child in children]
    part = loaded(server, 2, work, 0.05)
    after = [len(took(child)) for child in children]
    check(sum(after) > sum(before), f"no flood came: {before} {after}")
    check(len(asked) > 100, f"{len(asked)} answers for others")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 50 ms")
    server.delete(s)


# A server whose list of tools is nearly 1 MB, and which says after each that its tools have changed.
LONG_PAGE = r"""
import json, sys
def send(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n"); sys.stdout.flush()
page = [{"name": f"t{i}", "description": "a" * 120000, "inputSchema": {"type": "object"}} for i in range(8)]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    n, what = m["id"], m["method"]
    if what == "initialize": send({"id": n, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "x", "version": "1"}}})
    elif what == "tools/list":
        send({"id": n, "result": {"tools": page}})
        open("/tmp/listed", "a").write("x")
        send({"method": "notifications/tools/list_changed"})
    else: send({"id": n, "error": {"code": -32601, "message": "no"}})
"""


def test_pages_of_tools(_):
    """A pattern of the operator that is begun at each byte goes over pages of 256 KB: mcp-gateway makes four of a server's list."""
    with Server(pool_size=1, redact_patterns="a{250}[0-9]") as server:
        before = turns(server)
        s = create(server, **{f"long{i}": {"command": ["python3", "-c", LONG_PAGE]} for i in range(4)})
        children = [row["session_id"] for row in shown(server, s).values()]

        def lists():
            return [len(server.run(child, "cat /tmp/listed 2>/dev/null")["stdout"]) for child in children]

        wait_for(lambda: min(lists()) >= 2, 60, "two lists of each")
        wait_for(lambda: all(len(row["tools"]) == 8 for row in shown(server, s).values()), 60, "their tools")
        long = count(before, turns(server), 0.25 if SANITIZED else 0.05)
        check(long <= 4, f"{long} turns of more than 50 ms for {4 * sum(lists())} pages")
        server.delete(s)


def test_environments_at_their_bound(server):
    """A base with nearly as many variables as there may be, and a step that sets 128 of them, each from 256 references to the one that
    is found last. ENV needs no session."""
    names, numbers = [f"v{i}" for i in range(1900)] + ["z"], itertools.count()

    def build(*steps, base):
        name = f"wide{next(numbers)}"
        made = server.want(201, "POST", "/v1/builds", {"name": name})
        where = f"/v1/builds/{made['id']}"
        server.want(202, "POST", where + "/start", {"fromTemplate": base, "steps": [{"type": "ENV", "args": args} for args in steps]})
        row = wait_for(lambda: (r := server.want(200, "GET", where))["status"] in ("ready", "error") and r, 60)
        equal(row["status"], "ready", row["reason"])
        return name

    base = build(*([x for name in names[i : i + 128] for x in (name, "x" * 110 if name != "z" else "")] for i in range(0, len(names), 128)), base="base")
    built = []

    def work(end):
        while time.monotonic() < end:
            name = build([x for name in names[:128] for x in (name, "$z" * 256)], base=base)
            server.want(204, "DELETE", f"/templates/{name}")
            built.append(name)

    part = loaded(server, 2, work, 0.05)
    check(built, "no build")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 50 ms, for {len(built)} builds")


def long_turns_of_logs(server):
    """Of more than 50 ms and of more than 250, while a template goes with as many builds as it may have, each with a log at its bound."""
    made = server.want(201, "POST", "/v1/builds", {"name": "logs"})["id"]
    where = f"/v1/builds/{made}"
    server.want(202, "POST", where + "/start", {"fromTemplate": "base", "steps": [{"type": "ENV", "args": ["A", "1"]}]})
    wait_for(lambda: server.want(200, "GET", where)["status"] == "ready", 60, "the build")
    server.stop()  # so that nothing else waits for the store
    copies(server, "build", "id", 49, f"id = '{made}'")
    with database(server, write=True) as db:
        db.execute("WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 10099) INSERT INTO build_log"
                   " (build, seq, time_ms, level, step, message) SELECT id, i, 1, 0, '', printf('%.99c', 'x') FROM build, n WHERE build.name = 'logs'")
    server.start()
    check(number(server, "SELECT count(*) FROM build_log") >= 500000, "fewer entries")
    before = turns(server)
    server.want(204, "DELETE", "/templates/logs")
    rest = ("build_gone", "build WHERE name = 'logs'", "build_log WHERE build NOT IN (SELECT id FROM build)")
    wait_for(lambda: not any(number(server, f"SELECT count(*) FROM {what}") for what in rest), 120, "the builds and their logs to go")
    after = turns(server)
    return count(before, after, 0.25 if SANITIZED else 0.05), count(before, after, 1.0 if SANITIZED else 0.25)


def test_logs_of_a_removed_template(server):
    """Other programs of the machine make some turns long, so the best of some rounds counts."""
    rounds = []
    while len(rounds) < 3 and not (rounds and rounds[-1][0] <= 2 and rounds[-1][1] == 0):
        rounds.append(long_turns_of_logs(server))
    check(rounds[-1][0] <= 2 and rounds[-1][1] == 0, f"{rounds} turns of more than 50 and 250 ms")


def test_uploads_that_wait(server):
    """Tenants with as many uploads as they may have, which send nothing: others come and go beside them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    tenants, links = [server.tenant(f"uploads{i}") for i in range(8)], []
    for _, key in tenants:
        build = server.want(201, "POST", "/v1/builds", {"name": "waits"}, key=key)["id"]
        for i in range(250):
            link = socket.create_connection(server.address, timeout=30)
            link.sendall(f"PUT /v1/builds/{build}/files/{i:064x} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: 9\r\n\r\n".encode())
            links.append(link)
    other, key = server.tenant("uploads-other")
    build = server.want(201, "POST", "/v1/builds", {"name": "goes"}, key=key)["id"]
    done = []

    def work(end):
        while time.monotonic() < end:
            server.want(204, "PUT", f"/v1/builds/{build}/files/{len(done) % 100:064x}", b"x", key=key)
            done.append(1)

    part = loaded(server, 2, work, 0.02)
    check(len(done) > 20, f"{len(done)} uploads of one that does not wait")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 20 ms")
    before = turns(server)
    for link in links:
        link.close()
    wait_for(lambda: len(os.listdir(os.path.join(server.state, "uploads"))) <= 100, 30, "what was sent in vain to go")
    part = share(before, turns(server), 0.02)
    check(part < 0.25, f"{part:.0%}: turns of more than 20 ms while they go")
    for tenant, _ in [*tenants, (other, key)]:
        server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def test_lists_of_thousands_of_templates(server):
    """Versions of four tenants that all may use: E2B's list shows each of the templates."""
    tenants = []
    for i in range(4):
        tenant, _ = server.tenant(f"turns{i}")
        key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "team", "scopes": ["sessions", "admin"]})["key"]
        tenants.append((tenant, key))
    for i, (_, key) in enumerate(tenants):
        link, headers = server.link(), {"X-API-Key": key, "Content-Type": "application/json"}
        for k in range(1000):
            link.request("POST", "/v1/templates", json.dumps({"name": f"t{i}-{k}", "from": "host"}), headers)
            made = link.getresponse()
            equal((made.status, len(made.read()) > 0), (201, True), f"template {k} of tenant {i}")
            link.request("PATCH", f"/v1/templates/t{i}-{k}", json.dumps({"public": True}), headers)
            made = link.getresponse()
            equal((made.status, len(made.read()) > 0), (200, True), f"template {k} of tenant {i} becomes public")
        link.close()
    listed = []

    def work(end):
        while time.monotonic() < end:
            listed.append([t["templateID"] for t in server.want(200, "GET", "/templates", key=tenants[0][1])])

    part = loaded(server, 2, work, 0.02)
    check(listed and all(len(ids) == len(set(ids)) >= 4000 for ids in listed), f"{[len(ids) for ids in listed]}")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 20 ms, for {len(listed)} lists")
    pages, token = [], "0"
    while token is not None:  # the pages of the second version have the same
        status, headers, page = server.request("GET", f"/v2/templates?limit=100&nextToken={token}", key=tenants[0][1])
        equal(status, 200)
        pages += [t["templateID"] for t in page]
        token = headers.get("x-next-token")
    equal(pages, listed[-1])
    for tenant, _ in tenants:
        server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def package_lock(entries):
    """The largest one that a session takes: its pins fill a document, and each entry has more that is no pin."""
    packages = {"": {"name": "app", "version": "1.0.0"}}
    for i in range(entries):
        name, digest = f"package-number-{i}", base64.b64encode(hashlib.sha512(str(i).encode()).digest()).decode()
        packages[f"node_modules/{name}"] = {
            "version": "1.0.0", "resolved": f"https://registry.npmjs.org/{name}/-/{name}-1.0.0.tgz", "integrity": "sha512-" + digest,
            "license": "MIT", "dependencies": {f"dep{k}": "^1.0.0" for k in range(12)}, "engines": {"node": ">=10.0.0"}}
    return json.dumps({"name": "app", "lockfileVersion": 3, "packages": packages}, indent=2)


def long_turns_of_lockfiles(server, document, number):
    """Of more than 50 ms, for eight tenants: four make a session, four change a policy."""
    made, tenants = [], [server.tenant(f"locks{number}-{i}") for i in range(8)]
    for _, key in tenants[::2]:
        made.append((server.create(key=key)["id"], key))
    before = turns(server)
    for _, key in tenants[1::2]:
        made.append((server.create(key=key, network=document)["id"], key))
    for s, key in made[:4]:
        server.want(200, "PUT", f"/v1/sessions/{s}/network", document, key=key)
    long = count(before, turns(server), 0.25 if SANITIZED else 0.05)
    for s, key in made:
        pins = server.want(200, "GET", f"/v1/sessions/{s}/network", key=key)["policy"]["packages"]["pins"]
        equal((len(pins), list(pins)[7]), (3000, "npm:package-number-7"), "what was read")
        server.delete(s, key=key)
    for ident, _ in tenants:
        server.want(204, "DELETE", f"/v1/tenants/{ident}")
    return long


def test_the_largest_lockfile(server):
    """Of a request for a session, and of a change of its policy. One turn for all of it is a long one each time; other programs of the
    machine make some turns long, so the best of some rounds counts."""
    text = package_lock(3000)
    document = {"version": 1, "packages": {"registries": ["npm"], "lockfiles": [{"name": "package-lock.json", "text": text}]}}
    check(len(json.dumps(document)) > 2200000, "a smaller body")
    rounds = []
    while len(rounds) < 4 and min(rounds, default=8) > 2:
        rounds.append(long_turns_of_lockfiles(server, document, len(rounds)))
    check(min(rounds) <= 2, f"{rounds} turns of more than 50 ms for eight lockfiles of {len(text)} bytes")


def test_policies_for_keys_that_read(server):
    """The largest documents, of sessions that run and of those that have ended, to 16 clients."""
    ident, key = server.tenant("readers")
    read = server.want(201, "POST", f"/v1/tenants/{ident}/keys", {"name": "r", "scopes": ["read"]})["key"]
    pins = {f"npm:name{i}" + "x" * 60: [f"1.0.{i}"] for i in range(5500)}
    document = {"version": 1, "proxy": {"address": "proxy.example:1080", "username": "u", "password": "p"},
                "packages": {"registries": ["npm"], "mode": "pinned", "pins": pins}}
    ids = []
    for _ in range(4):
        wait_for(lambda: server.request("POST", "/v1/sessions", {"network": document, "timeout": "1h"}, key=key)[0] == 201, 20, "a session")
    ids = [s["id"] for s in server.want(200, "GET", "/v1/sessions", key=key)["sessions"]]
    for s in ids[:2]:
        server.delete(s, key=key)
    shown = []

    def work(end):
        link, n = server.link(), 0
        while time.monotonic() < end:
            link.request("GET", f"/v1/sessions/{ids[n % len(ids)]}/network", headers={"X-API-Key": read})
            answer = link.getresponse()
            shown.append((answer.status, len(answer.read())))
            n += 1
        link.close()

    part = loaded(server, 16, work, 0.1 if SANITIZED else 0.02)
    check(len(shown) > 50 and all(status == 200 and n > 400000 for status, n in shown), f"{shown[:20]}")
    check(part < 0.25, f"{part:.0%} of the time was spent in turns of more than 20 ms, for {len(shown)} policies")
    equal(server.want(200, "GET", f"/v1/sessions/{ids[2]}/network", key=read)["policy"]["proxy"].get("password"), None, "a password")
    for s in ids[2:]:
        server.delete(s, key=key)
    server.want(204, "DELETE", f"/v1/tenants/{ident}")


def long_turns_of(server, work, longer):
    """The fewest for six requests, of some rounds: other programs of the machine make some turns long."""
    rounds = []
    while len(rounds) < 4 and min(rounds, default=3) > 2:
        before = turns(server)
        for _ in range(6):
            work()
        rounds.append(count(before, turns(server), longer))
    return min(rounds)


def test_a_kept_diff(server):
    """Of the session's files at its end: nearly as many as are kept."""
    s = server.create(keep_diff=True)["id"]
    made = server.run(s, f"mkdir /tmp/d && cd /tmp/d && seq -f '{'n' * 20}%05g' 60000 | xargs touch")
    equal(made["exit_code"], 0, made["stderr"])
    server.delete(s)
    kept = server.reaches(s, "ended", 60)["kept_diff"]
    check(kept["state"] == "kept" and kept["bytes"] > 2500000, f"{kept}")
    agent = Client(server)

    def diff():
        got = server.want(200, "GET", f"/v1/sessions/{s}/diff")
        check(len([c for c in got["changes"] if "nnnn" in c["path"]]) == 60000 and not got["truncated"], "not all changes")
        got = agent.call("get_changes", session_id=s)
        check(len(got["added"]) > 400 and got["more"], f"{got}"[:500])

    long = long_turns_of(server, diff, 0.1 if SANITIZED else 0.02)
    check(long <= 2, f"{long} turns of more than 20 ms for six readings of a kept diff")


def test_usage_of_a_month(server):
    """257 labels in each hour, which is the bound."""
    ident, key = server.tenant("month")
    end = int(time.time()) // 3600 * 3600
    hours = 31 * 24 - 1
    with database(server, write=True) as db:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO usage (tenant, hour_ms, label, cpu_us, memory_kib_ms, disk_kib_ms, net_bytes_in, net_bytes_out,"
                       " sessions) VALUES (?, ?, ?, 1000000, 0, 0, 1, 2, 1)",
                       ((ident, 1000 * (end - 3600 * h), f"{n:03}" + "ü" * 60) for h in range(hours) for n in range(257)))
        db.execute("COMMIT")

    def usage():
        got = server.want(200, "GET", f"/v1/usage?from={end - 3600 * hours}&to={end + 3600}", key=key)
        equal((len(got["labels"]), [u["label"] for u in got["labels"]][7]), (257, "007" + "ü" * 60))
        equal((got["labels"][7]["sessions"], got["labels"][7]["cpu_seconds"], got["total"]["sessions"]), (hours, hours, 257 * hours))

    long = long_turns_of(server, usage, 0.25 if SANITIZED else 0.05)
    check(long <= 2, f"{long} turns of more than 50 ms for six readings of a month's sums")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
