#!/usr/bin/python3 -B
"""Goal: numbers, texts and lists of requests are taken at their bound and refused one beyond it, by every interface. One
server for all of them, best with sanitized daemons (CORDON_TEST_SANITIZED=1). The bounds are those of doc/security/bounds.md.

    test_client_edges.py CORDON [name ...]
"""
import contextlib
import json
import os
import select
import socket
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from contract import Sandbox, Server  # noqa: E402
from harness import check, equal, has, run_tests, short  # noqa: E402
from images import archive, directory, member  # noqa: E402
from mcp_client import Client  # noqa: E402
from streams import Attached  # noqa: E402

# A parameter of a query: (the most, one beyond), where a text stands for itself. {box}: a sandbox of E2B. {session}: a session.
PARAMETERS = {
    "/v2/sandboxes?limit=": (100, 101),
    "/snapshots?limit=": (100, 101),
    "/v2/templates?limit=": (100, 101),
    "/secrets?limit=": (100, 101),
    "/v2/sandboxes/{box}/logs?limit=": (1000, 1001),
    "/v2/sandboxes/{box}/logs?search=": ("s" * 256, "s" * 257),
    "/sandboxes/{box}/metrics?start=": (10**11, 10**11 + 1),
    "/sandboxes/metrics?sandbox_ids=": (",".join(f"i{i}" for i in range(100)), ",".join(f"i{i}" for i in range(101))),
    "/v1/sessions?limit=": (1000, 1001),
    "/v1/sessions?metadata[k]=": ("v" * 511, "v" * 512),
    "/v1/sessions?": ("&".join(f"metadata[k{i}]=v" for i in range(8)), "&".join(f"metadata[k{i}]=v" for i in range(9))),
    "/v1/templates?limit=": (1000, 1001),
    "/v1/snapshots?limit=": (1000, 1001),
    "/v1/volumes?limit=": (1000, 1001),
    "/v1/keys?limit=": (1000, 1001),
    "/v1/secrets?limit=": (1000, 1001),
    "/v1/events?limit=": (1000, 1001),
    "/v1/sessions/{session}/executions?limit=": (1000, 1001),
    "/v1/sessions/{session}/events?limit=": (1000, 1001),
    "/v1/sessions/{session}/network/log?limit=": (1000, 1001),
    "/v1/sessions/{session}/packages?limit=": (1000, 1001),
    "/v1/sessions/{session}/files/list?path=/tmp&limit=": (10000, 10001),
    "/v1/sessions/{session}/files/list?path=/tmp&depth=": (64, 65),
}  # fmt: skip

# A member of a body: (method, path, body with one {} for the member), bytes, and words of the refusal.
MEMBERS = [
    ("/v1/builds", {"name": "{}"}, 256, "name: is too long"),
    ("/v3/templates", {"name": "{}"}, 256, "name: is too long"),
    ("/v3/templates", {"alias": "{}"}, 256, "alias: is too long"),
    ("/templates/tags", {"target": "{}", "tags": ["t"]}, 256, "target: is too long"),
    ("/v1/templates/pull", {"reference": "{}", "name": "a"}, 1024, "reference: is too long"),
    ("/v1/templates/pull", {"reference": "h/a", "name": "{}"}, 1024, "name: is too long"),
    ("/v1/templates/pull", {"reference": "h/a", "name": "a", "secret": "{}"}, 1024, "secret: is too long"),
    ("/v1/templates/pull", {"reference": "h/a", "name": "a", "username": "{}"}, 1024, "username: is too long"),
    ("/volumes", {"name": "{}"}, 1024, "name: is too long"),
    ("/v1/sessions/{session}/snapshots", {"name": "{}"}, 256, "name: is too long"),
]  # fmt: skip


def place(server, text):
    if not hasattr(server, "edge_box"):
        server.edge_box, server.edge_session = Sandbox(server), server.create()["id"]
    return text.replace("{box}", server.edge_box.id).replace("{session}", server.edge_session)


def words(data):
    return data if isinstance(data, str) else data.get("message") or data.get("error", {}).get("message", "")


def test_parameters(server):
    for path, (most, more) in PARAMETERS.items():
        where = place(server, path)
        got, _, data = server.request("GET", f"{where}{most}")
        equal(got, 200, f"{path} at its bound: {short(data)}")
        got, _, data = server.request("GET", f"{where}{more}")
        equal(got, 400, f"{path} one beyond: {short(data)}")
        check(words(data), path)


def test_members(server):
    """Texts that are too long for what they name, too, have another message than those beyond the bound of the request."""
    for path, body, most, said in MEMBERS:
        for n in (most, most + 1):
            sent = json.loads(json.dumps(body).replace("{}", "n" * n))
            got, _, data = server.request("POST", place(server, path), sent)
            check(400 <= got < 500, f"{path} of {n}: {got} {short(data)}")
            equal(said in words(data), n > most, f"{path} of {n} bytes: {short(words(data))}")


def test_numbers(server):
    """A process id of the most that Linux has goes to the cell. One more is none, and the message names it as it was given."""
    processes = place(server, "/v1/sessions/{session}/processes/")
    for pid, told in ((4194304, False), (4194305, True)):
        equal("'4194305'" in server.want(404, "DELETE", f"{processes}{pid}")["error"]["message"], told)
    for n in (135, 136):
        server.want(404, "GET", "/v1/tenants/" + "t" * n)


def test_forks(server):
    """As many as allowed are begun, or refused one by one; more are not asked for."""
    id, key = server.tenant("edge-forks", max_sessions=1)
    session = server.create(key=key)["id"]
    for path, most in ((f"/v1/sessions/{session}/fork", 201), (f"/v2/sandboxes/{session}/fork", 201)):
        got, _, data = server.request("POST", path, {"count": 100}, key=key)
        check(got != 400, f"{path}: {got} {short(data)}")
        got, _, data = server.request("POST", path, {"count": 101}, key=key)
        equal(got, 400, f"{path}: {short(data)}")
        has(words(data), "100")
    server.delete(session, key=key)


def test_rules_of_a_session(server):
    paths = [f"/tmp/w{i}" for i in range(17)]
    for member in ("writable", "exportable"):
        server.delete(server.create(rules={member: paths[:16]})["id"])
        has(server.want(400, "POST", "/v1/sessions", {"rules": {member: paths}})["error"]["message"], "at most 16")


def test_tags_of_a_template(server):
    server.want(201, "POST", "/v1/templates?name=edge-tags", archive(directory("etc"), member("etc/f", b"")), headers={"Content-Type": "application/x-tar"})
    where = "/v1/templates/edge-tags/tags"
    got, _, data = server.request("POST", where, {"tags": [f"t{i}" for i in range(65)]})
    equal(got, 400, short(data))
    for tags, want in (([f"t{i}" for i in range(64)], 200), (["one-more"], 429)):  # default does not count
        got, _, data = server.request("POST", where, {"tags": tags})
        equal(got, want, short(data))
    has(words(data), "64")
    server.want(204, "DELETE", "/v1/templates/edge-tags")


# --- secrets


def test_secrets(server):
    """Of a tenant: the 1,001st has no room. The others go with the tenant."""
    id, key = server.tenant("edge-secrets")
    key = server.want(201, "POST", f"/v1/tenants/{id}/keys", {"name": "all", "scopes": ["sessions", "admin"]})["key"]

    def secret(status, name, value):
        return words(server.want(status, "POST", "/v1/secrets", {"name": name, "value": value}, key=key) or "")

    secret(201, "long", "v" * 65536)
    has(secret(400, "more", "v" * 65537), "65536")
    for n, want in ((256, 201), (257, 400)):
        made = server.want(want, "POST", "/v1/sessions", {"secrets": [{"name": "long", "as": "env", "env": "V" * n}]}, key=key)
        if want == 201:
            server.delete(made["id"], key=key)
    for i in range(999):
        secret(201, f"s{i}", f"value-{i}")
    has(secret(429, "more", "value-1"), "1000 secrets")


def test_secrets_of_a_session(server):
    """32 of a session, its running executions included, and 64 names of all its executions."""
    id, key = server.tenant("edge-lines")
    key = server.want(201, "POST", f"/v1/tenants/{id}/keys", {"name": "all", "scopes": ["sessions", "admin"]})["key"]
    for i in range(65):
        server.want(201, "POST", "/v1/secrets", {"name": f"s{i}", "value": f"value-of-{i}"}, key=key)
    lines = [{"name": f"s{i}", "as": "env", "env": f"S{i}"} for i in range(65)]
    has(server.want(400, "POST", "/v1/sessions", {"secrets": lines[:33]}, key=key)["error"]["message"], "at most 32")
    session = server.create(key=key, secrets=lines[:32])["id"]
    where = f"/v1/sessions/{session}/executions?wait=true"
    has(server.want(429, "POST", where, {"command": "true", "secrets": lines[32:33]}, key=key)["error"]["message"], "at most 32")
    server.delete(session, key=key)
    session = server.create(key=key)["id"]
    where = f"/v1/sessions/{session}/executions?wait=true"
    for some in (lines[:32], lines[32:64]):
        equal(server.want(200, "POST", where, {"command": "env | grep -c '^S[0-9]*='", "secrets": some}, key=key)["stdout"], "32\n")
    has(server.want(429, "POST", where, {"command": "true", "secrets": lines[64:]}, key=key)["error"]["message"], "at most 64")
    server.delete(session, key=key)


# --- envd


def test_names_of_users(server):
    box = Sandbox(server)
    for n, want in ((63, 401), (64, 400)):
        equal(box.call("filesystem.Filesystem/Stat", {"path": "/"}, user="u" * n)[0], want)
        equal(box.envd("GET", "/files?path=/etc/hostname&username=" + "u" * n)[0], want)


def post(box, path, body, kind="application/json"):
    return box.envd("POST", path, json.dumps(body).encode() if isinstance(body, dict) else body, {"Content-Type": kind})


def test_sources_of_a_file(server):
    box = Sandbox(server)
    box.run("mkdir -p parts && seq -f parts/%.0f 1 100 | xargs touch && echo x > parts/1")
    sources = [f"parts/{i}" for i in range(1, 101)]
    equal(post(box, "/files/compose", {"source_paths": sources + ["parts/1"], "destination": "whole"})[0], 400)
    equal(post(box, "/files/compose", {"source_paths": sources, "destination": "whole"})[0], 200)
    for n, want in ((48 << 10, 404), ((48 << 10) + 1, 400)):  # bytes of all paths with an end each, of files that do not exist
        paths = [("p/" * 400)[:489]] * 99
        paths.append(("p/" * 400)[: n - len("new") - sum(len(p) + 1 for p in paths) - 1])
        status, _, data = post(box, "/files/compose", {"source_paths": paths, "destination": "new"})
        equal(status, want, f"{n} bytes: {short(data)}")


def form(box, before=b"", files=1, name=b"file", field=b""):
    part = b'--b\r\nContent-Disposition: form-data; name="%s"; filename="%s%d"\r\n\r\n\r\n'
    body = before + field + b"".join(part % (name, b"many/", i) for i in range(files)) + b"--b--\r\n"
    return post(box, "/files", body, "multipart/form-data; boundary=b")


def test_forms(server):
    """Files of a form, bytes before its first part, and bytes of parts that are no files."""
    box = Sandbox(server)
    equal(form(box, b"x" * 1022 + b"\r\n")[0], 200)
    equal(form(box, b"x" * 1023 + b"\r\n")[0], 400)
    other = b'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\n%s\r\n'
    equal(form(box, field=other % (b"n" * ((1 << 20) - 100)))[0], 200)
    equal(form(box, field=other % (b"n" * ((1 << 20) + 100)))[0], 413)


def test_many_files_of_a_form(server):
    box = Sandbox(server)
    status, _, data = form(box, files=10001)
    check(status == 429 or status == 413 or status == 400, f"{status} {short(data)}")
    has(words(data), "10000")
    equal(box.run("ls many | wc -l")[1].strip(), b"10000")


DROPPED = 64 << 20  # bytes of a body that are read after its refusal
TAKEN, SOME = 2 << 20, 64 << 10  # no less than what was on its way when it was refused, sent in pieces


def refused_body(server, method, path, headers, status, dropped=DROPPED):
    """A refused body is read for so long, so that a client that has not looked yet gets its answer. With more it is
    answered at once: the rest need not come."""
    words = {"Host": "h", "Content-Length": dropped + DROPPED, **headers}
    piece = b"\0" * (1 << 20)
    with socket.create_connection(server.address, timeout=60) as link:
        link.sendall(f"{method} {path} HTTP/1.1\r\n".encode() + "".join(f"{n}: {v}\r\n" for n, v in words.items()).encode() + b"\r\n")
        for _ in range(dropped >> 20):
            link.sendall(piece)
        check(not select.select([link], [], [], 0.3)[0], f"{path} is answered within {dropped} bytes")
        for left in range(TAKEN // SOME, 0, -1):
            link.sendall(piece[:SOME])  # so little that the socket takes it
            if select.select([link], [], [], 0.2 if left > 1 else 30)[0]:
                break
        check(select.select([link], [], [], 0)[0], f"{path} is not answered after {dropped + TAKEN} bytes")
        equal(link.recv(4096).split(b" ")[1], str(status).encode())


def test_bodies_after_a_refusal(server):
    key = {"Authorization": f"Bearer {server.key}"}
    session = server.create()["id"]
    server.run(session, "echo x >/tmp/file")
    refused_body(server, "PUT", f"/v1/sessions/{session}/files?path=/tmp/file/below", key, 409)
    box = Sandbox(server)
    box.run("echo x >/tmp/file")
    refused_body(server, "POST", "/files?path=/tmp/file/below", {**box.headers(), "Content-Type": "application/octet-stream"}, 400)
    refused_body(server, "POST", "/filesystem.Filesystem/Stat", {**box.headers(), "Content-Type": "application/json"}, 429, 512 << 20)
    volume = server.want(201, "POST", "/volumes", {"name": "edge-dropped"})
    refused_body(server, "PUT", f"/volumecontent/{volume['volumeID']}/file?path=/none/below&force=false",
                 {"Authorization": "Bearer " + volume["token"]}, 404)
    server.want(204, "DELETE", "/v1/volumes/edge-dropped")
    server.delete(session)


def test_messages(server):
    """A unary message of a MiB, and one byte more."""
    box = Sandbox(server)
    for n, want in ((1 << 20, (400, 404)), ((1 << 20) + 1, (413, 429))):
        start = b'{"path":"/none"'
        status, _, data = box.call("filesystem.Filesystem/Stat", start + b" " * (n - len(start) - 1) + b"}")
        check(status in want, f"{n} bytes: {status} {short(data)}")


def test_selected_tags(server):
    box = Sandbox(server)
    for n, code in ((1024, "not_found"), (1025, "invalid_argument")):
        box.rpc_error(code, "process.Process/SendSignal", {"process": {"tag": "t" * n}, "signal": "SIGNAL_SIGTERM"})


def test_depth_of_a_volume(server):
    if server.request("POST", "/volumes", {"name": "edge"})[0] != 201:
        return
    volume = next(v for v in server.want(200, "GET", "/volumes") if v["name"] == "edge")
    volume = server.want(200, "GET", f"/volumes/{volume['volumeID']}")
    for depth, want in ((10, 200), (11, 400)):
        got = server.request("GET", f"/volumecontent/{volume['volumeID']}/dir?path=/&depth={depth}", key=None,
                             headers={"Authorization": "Bearer " + volume["token"]})[0]
        equal(got, want, depth)
    server.request("DELETE", f"/volumes/{volume['volumeID']}")


def test_messages_of_a_websocket(server):
    """A text of 4 KiB and a message of a MiB are taken. A longer text is answered with an error, a longer message ends it."""
    session = server.create()["id"]
    x = server.spawn(session, "wc -c", stdin_stream=True)
    where = f"/v1/sessions/{session}/executions/{x['id']}/attach"
    with Attached(server, where) as ws:
        ws.frame(ws.TEXT, b'{"type":"eof"}' + b" " * (4097 - 14))
        while not ws.said or ws.said[-1]["type"] != "error":
            check(ws.step(), f"closed with {ws.code}")
        has(ws.said.pop()["error"]["message"], "4096")
        ws.send(b"x" * (1 << 20))
        ws.frame(ws.TEXT, b'{"type":"eof"}' + b" " * (4096 - 14))
        ws.until_end()
        equal(ws.streams[1].strip(), b"1048576")
    x = server.spawn(session, "wc -c", stdin_stream=True)
    ws = Attached(server, f"/v1/sessions/{session}/executions/{x['id']}/attach")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read all of it
        ws.send(b"x" * ((1 << 20) + 1))
        while ws.step():
            pass
    check(ws.code in (1009, None), f"closed with {ws.code}")
    equal(server.execution(x)["stdout_bytes"], 0)
    server.delete(session)


# --- tools of MCP

NUMBERS = [("read_file", "max_bytes", 262144, {"session_id": 0, "path": "/etc/hostname"}), ("read_output", "max_bytes", 65536, {"execution_id": "ex_none"}),
           ("run", "timeout_s", 86400, {"session_id": 0, "command": "true"}), ("list_files", "depth", 32, {"session_id": 0, "path": "/tmp"})]  # fmt: skip


def test_tools(server):
    c = Client(server)
    session = server.create()["id"]
    for tool, name, most, more in NUMBERS:
        for n in (most, most + 1):
            got = c.post("tools/call", {"name": tool, "arguments": {**more, name: n, **({"session_id": session} if "session_id" in more else {})}})[2]
            said = json.dumps(got)
            equal(f"{name} must be at most {most}" in said, n > most, f"{tool} {name} {n}: {short(got)}")
    server.run(session, f"head -c {1 << 19} /dev/zero > most.bin; (printf '\\211PNG\\r\\n\\032\\n'; cat most.bin) | head -c {1 << 19} > /tmp/most.png; "
                        f"(cat /tmp/most.png; echo -n x) > /tmp/more.png; head -c 262144 /dev/zero | tr '\\0' t > /tmp/text")

    def kinds(path, **more):
        got = c.result("tools/call", {"name": "read_file", "arguments": {"session_id": session, "path": path, **more}})
        return got["structuredContent"], [part["type"] for part in got["content"]]

    check("image" in kinds("/tmp/most.png")[1], "a picture of 512 KiB")
    check("image" not in kinds("/tmp/more.png")[1], "one more byte")
    got, _ = kinds("/tmp/text", max_bytes=262144)
    equal((len(got["text"]), got["more"]), (262144, False))
    server.run(session, "echo -n t >> /tmp/text")
    got, _ = kinds("/tmp/text", max_bytes=262144)
    equal((got["next"], got["more"]), (len(got["text"]), True))
    server.run(session, "mkdir /tmp/long; cd /tmp/long; for i in $(seq 100 600); do touch $(printf 'n%.0s' $(seq 200))$i; done")
    got = c.call("list_files", session_id=session, path="/tmp/long")
    equal((len(got["entries"]), got["more"]), (500, True))
    server.delete(session)


def test_files_of_a_volume(server):
    """A list of as many files as a list may have, and one more."""
    volume = server.want(201, "POST", "/volumes", {"name": "edge-many"})
    session = server.create(volumes=[{"name": "edge-many", "path": "/v"}])["id"]
    equal(server.run(session, "mkdir /v/d && cd /v/d && seq 1 50000 | xargs touch", timeout="60s")["exit_code"], 0)
    where, headers = f"/volumecontent/{volume['volumeID']}/dir?path=/d", {"Authorization": "Bearer " + volume["token"]}
    got, _, data = server.request("GET", where, headers=headers, key=None)
    equal((got, len(data)), (200, 50000))
    server.run(session, "touch /v/d/more")
    equal(server.request("GET", where, headers=headers, key=None)[0], 400)
    server.delete(session)
    server.want(204, "DELETE", "/v1/volumes/edge-many")


if __name__ == "__main__":
    run_tests(globals(), Server, pool_size=4)
