#!/usr/bin/python3 -B
"""Goal: what a session can have, and what its programs and servers can give, is taken at its bound and refused, cut or
left out one beyond it, as doc/security/bounds.md says; the server lives on. Best with sanitized daemons
(CORDON_TEST_SANITIZED=1).

    test_session_edges.py CORDON [name ...]
"""
import json
import os
import sys

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
    equal([s["id"] for s in server.want(200, "GET", "/v1/sessions")["sessions"]], [session])
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


if __name__ == "__main__":
    run_tests(globals())
