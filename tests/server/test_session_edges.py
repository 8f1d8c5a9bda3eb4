#!/usr/bin/python3 -B
"""Goal: what a session can have, and what its programs and servers can give, is taken at its bound and refused, cut or
left out one beyond it, as doc/security/bounds.md says; the server lives on. Best with sanitized daemons
(CORDON_TEST_SANITIZED=1).

    test_session_edges.py CORDON [name ...]
"""
import base64
import contextlib
import json
import os
import sqlite3
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from harness import check, equal, has, run_tests, wait_for
from contract import Sandbox, serve

PYTHON = os.path.realpath("/usr/bin/python3")
ODD = "\x7f"  # six characters in JSON


def python(server, session, code, *args):
    got = server.run(session, [PYTHON, "-c", code, *args], user="root")
    equal((got["exit_code"], got["stderr"]), (0, ""))
    return got["stdout"]


DEEP = """
import os, sys
fd = os.open(sys.argv[1], os.O_PATH)
for i in range(int(sys.argv[2])):
    os.mkdir("d", dir_fd=fd)
    new = os.open("d", os.O_PATH, dir_fd=fd)
    os.close(fd)
    fd = new
os.mknod("end", dir_fd=fd)
"""
DEPTH = """
import os, sys
fd, n = os.open(sys.argv[1], os.O_RDONLY), 0
while "d" in (names := os.listdir(fd)):
    fd, n = os.open("d", os.O_RDONLY, dir_fd=fd), n + 1
print(n, names)
"""


def test_depth_of_changes(server):
    """A file 1,000 directories deep is in a list of changes and in a snapshot, and what is made of it goes again. With
    one more the list leaves the file out, and the snapshot is refused."""
    def changes(session):
        return sum(e["path"].endswith("/end") for e in server.want(200, "GET", f"/v1/sessions/{session}/diff")["changes"])

    for more in (0, 1):
        session = server.create()["id"]
        python(server, session, DEEP, "/srv", str(999 + more))
        equal(changes(session), 1 - more, "in the list of changes")
        if more == 0:
            server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "deep"})
            copy = server.create(template="deep")["id"]
            equal(python(server, copy, DEPTH, "/srv"), "999 ['end']\n")
            for one in (copy, session):
                server.delete(one)
            server.want(204, "DELETE", "/v1/templates/deep")
        else:
            said = server.want(429, "POST", f"/v1/sessions/{session}/snapshots", {"name": "deeper"})
            has(said["error"]["message"], "over 1000 levels deep")
            server.delete(session)
    wait_for(lambda: server.want(200, "GET", "/v1/limits")["used"]["stored_bytes"] == 0, 60, "the layer goes")


def test_number_of_changes(server):
    """A list of 100,000 changes is whole, one with a file more is truncated and has as many."""
    session = server.create(limits={"inodes": 200000})["id"]

    def changes():
        got = server.want(200, "GET", f"/v1/sessions/{session}/diff", timeout=60)
        return len(got["changes"]), got["truncated"]

    python(server, session, "import os; os.mkdir('/srv/d')")
    there, _ = changes()
    make = "import os, sys; os.chdir('/srv/d')\nfor i in range(int(sys.argv[1]), int(sys.argv[2])): os.mknod(str(i))"
    python(server, session, make, "0", str(100000 - there))
    equal(changes(), (100000, False))
    python(server, session, make, "100000", "100001")
    equal(changes(), (100000, True))
    server.delete(session)


def test_depth_of_a_list_of_e2b(server):
    """ListDir goes 64 levels deep, also if more are asked for."""
    box = Sandbox(server)
    box.run("mkdir -p t && cd t && for i in $(seq 70); do mkdir d && cd d; done")
    for asked, found in ((63, 63), (64, 64), (65, 64), (4000000000, 64)):
        equal(len(box.rpc("filesystem.Filesystem/ListDir", {"path": "t", "depth": asked})["entries"]), found, f"depth {asked}")
    box.kill()


def test_the_largest_session(server):
    """With all that it shows at its longest, it is shown, alone and in lists."""
    volumes = []
    for i in range(8):
        server.want(201, "POST", "/v1/volumes", {"name": f"{i}" + "v" * 62, "size": "16M"})
        volumes.append({"name": f"{i}" + "v" * 62, "path": f"/mnt/{i}/" + "p" * 248, "mode": "rw"})
    metadata = {f"{i:02}" + "k" * 61: ODD * 180 for i in range(64)}
    body = json.dumps({"volumes": volumes, "metadata": metadata, "rules": {"writable": ["/" + "w" * 250] * 7, "exportable": ["/" + "e" * 250] * 7}},
                      ensure_ascii=False).encode()
    status, _, data = server.request("POST", "/v1/sessions", body, raw=True)
    equal(status, 201, data[:300])
    session = json.loads(data)["id"]
    shown = server.want(200, "GET", f"/v1/sessions/{session}")
    equal((shown["metadata"], [v["path"] for v in shown["volumes"]]), (metadata, [v["path"] for v in volumes]))
    check(session in [s["id"] for s in server.want(200, "GET", "/v1/sessions")["sessions"]], "in the list")  # another one may still end
    equal(server.want(200, "GET", f"/sandboxes/{session}")["metadata"], metadata, "by E2B's route")
    server.delete(session)
    server.reaches(session, "ended")
    for v in volumes:
        wait_for(lambda v=v: server.request("DELETE", f"/v1/volumes/{v['name']}")[0] in (204, 404), 30, "the volume")


def test_names_that_find_no_template(server):
    """E2B's route looks for a name of 255 bytes, and does not look for a longer one."""
    for n in (255, 256):
        status, _, body = server.request("POST", "/sandboxes", {"templateID": "t" * n})
        equal(status, 404, f"{n} bytes: {body}")


def test_the_host_that_a_server_is_told(server):
    """maskRequestHost has 255 bytes, which a server in the sandbox gets, with the port in its place."""
    longest = ".".join(["h" * 62] * 4)[: 255 - 8]
    box = Sandbox(server, network={"maskRequestHost": longest + ":${PORT}"})
    serve(box, 3000)
    status, _, body = server.request("GET", "/headers", headers=box.headers(3000, token=None), key=None, raw=True)
    has(body.decode(), longest + ":3000")
    equal(status, 200)
    box.kill()
    said = server.want(400, "POST", "/sandboxes", {"templateID": "base", "network": {"maskRequestHost": "h" + longest + ":${PORT}"}})
    has(said["message"], "at most 255 bytes")


def test_secrets_of_rules(server):
    """The rules of a session name 32 secrets, however often. With one more the session is refused, and the rules stay as they were."""
    for i in range(33):
        server.want(201, "POST", "/v1/secrets", {"name": f"s{i}", "value": f"value-{i}-abcdefgh", "hosts": ["*.example.org"]})

    def network(n):
        return {"rules": [{"host": f"h{i}.example.org", "set_headers": {"X": "${secret.s%d}" % (i % n)}} for i in range(n + 5)]}

    session = server.create(network=network(32))["id"]
    for method, path, body in (("POST", "/v1/sessions", {"network": network(33)}), ("PUT", f"/v1/sessions/{session}/network", network(33))):
        said = server.request(method, path, body)
        equal(said[0], 429, said[2])
        has(said[2]["error"]["message"], "32 secrets")
    has(str(server.want(200, "GET", f"/v1/sessions/{session}/network")), "s31")
    server.delete(session)
    for i in range(33):
        server.want(204, "DELETE", f"/v1/secrets/s{i}")


HEADS = r"""
import socket
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", 3000)); l.listen(8)
while True:
    c = l.accept()[0]
    kind = "text/" + "t" * (int(c.recv(65536).split(b" ")[1][1:]) - 5)
    c.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: {kind}\r\n\r\nok".encode())
    c.close()
"""


def test_heads_of_a_server_in_a_session(server):
    """A media type arrives whatever its length: of 255 bytes and fewer cordond looks at it."""
    box = Sandbox(server)
    box.write("/tmp/heads.py", HEADS.encode())
    box.start(f"{PYTHON} /tmp/heads.py")[0].close()
    wait_for(lambda: server.request("GET", "/20", headers=box.headers(3000, token=None), key=None)[0] == 200, 30, "the server")
    for n in (255, 256, 2000):
        status, headers, body = server.request("GET", f"/{n}", headers=box.headers(3000, token=None), key=None, raw=True)
        equal((status, headers["content-type"], body), (200, "text/" + "t" * (n - 5), b"ok"), f"{n} bytes")
    box.kill()


def test_versions_of_mcp(server):
    """An unknown version is repeated up to 64 bytes."""
    for n in (64, 65):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "v" * n, "io.modelcontextprotocol/clientCapabilities": {}}}}
        status, _, got = server.request("POST", "/mcp", body, headers={"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {server.key}",
                                                                       "MCP-Protocol-Version": "v" * n, "Mcp-Method": "tools/list"})
        equal((status, got["error"]["data"]["requested"]), (400, "v" * 64), f"{n} bytes: {got}")


def test_places_of_secrets(server):
    """The place of a secret is read up to 1,023 bytes. The names in it have smaller bounds."""
    server.want(201, "POST", "/v1/secrets", {"name": "placed", "value": "value-of-a-place"})

    def create(**where):
        status, _, body = server.request("POST", "/v1/sessions", {"secrets": [{"name": "placed", **where}]})
        return body["id"] if status == 201 else body["error"]["message"]

    has(create(**{"as": "file", "path": "/run/secrets/" + "d" * 1010}), "/run/secrets/NAME")
    has(create(**{"as": "file", "path": "/run/secrets/" + "d" * 1011}), "at most 1023 bytes")
    server.want(204, "DELETE", "/v1/secrets/placed")


def test_numbers(server):
    """A number has at most 2^53. What it may be here is another bound."""
    for n, words in ((1 << 53, "memory_max"), ((1 << 53) + 1, "whole number")):
        has(server.want(400, "POST", "/v1/sessions", {"limits": {"memory_bytes": n}})["error"]["message"], words)


def test_labels_of_usage(server):
    """An answer has 1,000 labels. The last one holds what more of them used, so that the sums are right."""
    end = int(time.time()) // 3600 * 3600
    for n in (999, 1000, 1002):
        ident, key = server.tenant(f"labels{n}")
        with contextlib.closing(sqlite3.connect(os.path.join(server.state, "cordon.db"), timeout=30)) as db, db:
            db.executemany("INSERT INTO usage (tenant, hour_ms, label, cpu_us, memory_kib_ms, disk_kib_ms, net_bytes_in, net_bytes_out, sessions)"
                           " VALUES (?, ?, ?, 1000000, 0, 0, 1, 2, 1)", ((ident, 1000 * (end - 3600 * (i // 200 + 1)), f"{i:04}") for i in range(n)))
        got = server.want(200, "GET", f"/v1/usage?from={end - 3600 * 10}&to={end + 3600}", key=key)
        others = [u["sessions"] for u in got["labels"] if u["label"] == "(other)"]
        equal((len(got["labels"]), others, got["total"]["sessions"]), (min(n, 1000), [] if n < 1000 else [n - 999], n), f"{n} labels")


def test_keys_of_a_report(server):
    """A report names 200 keys, and says whether there are more. Revoked ones do not count, however many."""
    ident, _ = server.tenant("keys")
    key = server.want(201, "POST", f"/v1/tenants/{ident}/keys", {"name": "audit", "scopes": ["audit"]})["key"]

    def report():
        return json.loads(base64.b64decode(server.want(200, "GET", "/v1/report", key=key)["payload"]))

    def add(n, revoked):  # beside the server, which makes ten a second
        with contextlib.closing(sqlite3.connect(os.path.join(server.state, "cordon.db"), timeout=30)) as db, db:
            new = {"id": "'key_' || hex(randomblob(8))", "hash": "randomblob(32)", "prefix": "hex(randomblob(4))", "created_ms": "created_ms - 1000",
                   "revoked_ms": f"{revoked}"}
            names = [row[1] for row in db.execute("PRAGMA table_info(key)")]
            for _ in range(n):
                db.execute(f"INSERT INTO key ({', '.join(names)}) SELECT {', '.join(new.get(name, name) for name in names)}"
                           " FROM key WHERE tenant = ? AND name = 'audit' LIMIT 1", (ident,))

    there = len(report()["keys"])
    for n, revoked, want in ((300, 1, (there, False)), (200 - there, 0, (200, False)), (1, 0, (200, True))):
        add(n, revoked)
        got = report()
        equal((len(got["keys"]), got["more_keys"]), want, f"{n} more, revoked at {revoked}")


if __name__ == "__main__":
    run_tests(globals())
