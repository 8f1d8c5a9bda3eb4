#!/usr/bin/python3
"""Goal: doc/openapi.yaml says what the server does: every route, every status, every shape.

Each documented status of each route is provoked by a probe below, or stands in CANNOT with the reason. What a
probe gets must be documented, and a JSON answer must fit its schema. A probe that is answered otherwise, a
status that no probe provokes, and an entry of CANNOT that is provoked after all are failures.
"""
import base64
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "audit")]
from audit_world import Signer  # noqa: E402
from harness import Failed, Server, wait_for  # noqa: E402
from openapi_document import DOC, METHODS, check_shape, operations, resolve  # noqa: E402
from tree import make_tree  # noqa: E402

SESSION = "/v1/sessions/{session}"
EXECUTION = SESSION + "/executions/{execution}"
FILES = SESSION + "/files"
NO_KEY = "none"
HUGE = {"Content-Length": str(1 << 50)}  # announced; nothing of it is sent

# (method, path, status): why no test can cause it at will. "*": any.
BUILDS = "/v1/builds"
BUILD = BUILDS + "/{build}"
CANNOT = {
    ("*", "*", "500"): "a fault of ours; tests/chaos looks for those",
    ("GET", "/readyz", "503"): "only for the moment before the first keeper is there",
    ("PATCH", SESSION, "422"): "needs a machine whose cells cannot be paused",
    ("POST", "/v1/sessions", "503"): "only while starting or ending",
    ("PUT", "/v1/sessions/{session}/network", "422"): "a cell of an older version, or a kernel without nftables",
    ("PUT", "/v1/sessions/{session}/network", "503"): "only while there is no egress",
    ("POST", "/v1/templates", "429"): "needs four that are being added at once: tests/core",
    ("POST", "/v1/templates", "503"): "only while starting or ending",
    ("POST", "/v1/templates/pull", "200"): "needs a registry: test_pull.py",
    ("POST", "/v1/templates/pull", "404"): "needs a registry: test_pull.py",
    ("POST", "/v1/templates/pull", "429"): "needs tenant_max_streams open at once: test_bounds.py",
    ("POST", "/v1/templates/pull", "503"): "needs four that are being pulled at once",
    ("GET", "/v1/templates/{template}/files", "503"): "only while there is no cordon-storage",
    ("POST", "/v1/templates", "507"): "needs a full disk under the state folder: tests/chaos",
    ("POST", "/v1/templates/{template}/tags", "429"): "needs 64 tags: tests/core",
    ("POST", BUILDS, "429"): "needs 64 that wait: conformance has build_max",
    ("POST", BUILD + "/start", "429"): "needs build_max that run: conformance builds",
    ("POST", BUILD + "/start", "503"): "only while starting or ending",
    ("PUT", BUILD + "/files/{hash}", "429"): "needs tenant_max_connections requests at once: test_bounds.py",
    ("PUT", BUILD + "/files/{hash}", "507"): "needs a full disk under the state folder: tests/chaos",
    ("POST", "/v1/sessions", "507"): "needs a full disk under the state folder: tests/chaos",
    ("POST", SESSION + "/executions", "507"): "needs a full disk under the state folder: tests/chaos",
    ("POST", SESSION + "/resume", "507"): "needs a full disk under the storage folder: test_full_disk.py",
    ("GET", SESSION + "/diff", "429"): "needs nine that are read at once: test_completions.py",
    ("GET", SESSION + "/diff", "503"): "only when the keeper ends or hangs: test_completions.py",
    ("DELETE", EXECUTION, "429"): "needs many that PID 1 takes long to end, at once",
    ("POST", SESSION + "/ports", "429"): "needs 16 open ports: test_ports.py",
    ("PUT", SESSION + "/network", "429"): "needs 4 MiB of policies in a tenant's sessions",
    ("GET", SESSION + "/network", "429"): "needs many large policies: test_network_policy.py",
    ("POST", "/v1/volumes", "422"): "needs a server without cordon-storage",
    ("POST", "/v1/volumes", "429"): "needs a hundred volumes: test_volumes.py does it with a smaller limit",
    ("POST", "/v1/volumes", "503"): "needs a cordon-storage that dies",
    ("POST", "/v1/volumes", "507"): "needs a full disk: test_volumes.py",
    ("GET", "/v1/volumes/{volume}", "503"): "needs a cordon-storage that dies",
    ("GET", "/v1/report", "503"): "only while there is no cordon-notary: test_report.py",
    ("GET", SESSION + "/report", "503"): "only while there is no cordon-notary: test_report.py",
    ("PUT", "/v1/secrets/{secret}", "429"): "needs 4 MiB of values in a tenant's sessions",
    **{("GET", path, "429"): "needs tenant_max_streams open at once: test_bounds.py" for path in (
        "/v1/audit", "/v1/events", "/v1/network/log", SESSION + "/events", SESSION + "/trace", SESSION + "/network/log", SESSION + "/timeline", EXECUTION + "/cast", SESSION + "/files/watch", EXECUTION + "/events",
        EXECUTION + "/attach")},
    ("POST", SESSION + "/pause", "409"): "only while the session is in between two states",
    ("POST", SESSION + "/pause", "422"): "only on a machine without a freezer",
    ("POST", SESSION + "/executions", "409"): "only while the session is in between two states",
    **{("POST", path, status): why for path in (SESSION + "/snapshots", SESSION + "/fork", SESSION + "/pause", SESSION + "/reset") for status, why in (
        ("409", "only while the session is in between two states"), ("422", "only on a machine without a freezer"),
        ("429", "needs a small bound: test_snapshots.py, test_cold_pause.py"),
        ("507", "needs a full disk: test_snapshots.py")) if (path, status) not in ((SESSION + "/reset", "422"), (SESSION + "/reset", "507"))},
    ("POST", "/v1/gc", "503"): "only without cordon-storage",
    **{(method, "/v1/packages/cache" + path, "503"): "only without cordon-cache"
       for method, path in (("GET", ""), ("GET", "/entries"), ("POST", "/gc"), ("POST", "/verify"))},
    ("GET", "/v1/audit/checkpoint", "503"): "needs a cordon-notary that hangs: test_audit_checkpoints.py",
    ("POST", "/v1/audit/cosignature", "429"): "needs 33 signatures: test_audit_keys.py",
    ("POST", "/v1/audit/rotate", "409"): "only while the key is changed: test_audit_keys.py",
    ("POST", "/v1/audit/rotate", "429"): "needs 250 keys: test_audit_keys.py",
    ("POST", "/v1/audit/rotate", "503"): "only without cordon-notary: test_audit_keys.py",
    ("POST", "/mcp", "429"): "needs tenant_max_streams open at once: test_mcp_attacks.py",
    ("POST", "/mcp/{session}", "429"): "needs tenant_max_streams open at once: test_mcp_attacks.py",
    ("POST", "/mcp/{session}", "409"): "only while the session is in between two states",
}


# ---- probes

class Probes:
    def __init__(self, server):
        self.s = server
        self.seen = {}  # (method, pattern, status) -> name of the probe
        self.results = []
        self.ops = operations()
        self.ids = {}

    def call(self, method, pattern, query="", body=None, headers=None, ids=None, key=""):
        path = pattern
        for name, value in {**self.ids, **(ids or {})}.items():
            path = path.replace("{" + name + "}", value)
        return self.s.request(method, path + (f"?{query}" if query else ""), body, headers, raw=True,
                              key=None if key == NO_KEY else key)

    def probe(self, want, method, pattern, query="", body=None, headers=None, ids=None, key="", send=None):
        name = f"{send or method} {pattern}{'?' + query if query else ''} -> {want}"
        status, got_headers, answer = self.call(send or method, pattern, query, body, headers, ids, key)
        self.results.append((self.judge(want, method, pattern, status, got_headers, answer, send == "HEAD"), name))
        return answer

    def judge(self, want, method, pattern, status, headers, answer, bodiless):
        op = self.ops.get((method, pattern))
        if op is None:
            return "not in the document"
        self.seen.setdefault((method, pattern, str(status)), True)
        if status != want:
            return f"got {status}: {answer[:300]!r}"
        response = resolve(op["responses"].get(str(status)))
        if response is None:
            return f"{status} is not documented"
        if "x-request-id" not in headers:
            return "no X-Request-Id"
        for wanted in response.get("headers", {}):
            if wanted.lower() not in headers and wanted != "Content-Range":
                return f"no {wanted}"
        kind = headers.get("content-type", "").split(";")[0]
        content = response.get("content", {})
        if content and kind not in content:
            return f"the type is {kind!r}, documented are {list(content)}"
        if kind == "application/json" and not bodiless:
            return check_shape(json.loads(answer), content[kind].get("schema", {}))
        return None

    def json(self, want, method, pattern, **more):
        answer = self.probe(want, method, pattern, **more)
        try:
            return json.loads(answer)
        except ValueError:
            raise SystemExit(f"Bail out! {method} {pattern}: {self.results[-1][0]}") from None


def make_fixtures(p):
    p.admin = p.json(201, "POST", "/v1/keys", body={"scopes": ["admin"], "name": "admin only"})
    p.use = p.json(201, "POST", "/v1/keys", body={"scopes": ["sessions"], "expires_in": "1h"})
    p.read = p.json(201, "POST", "/v1/keys", body={"scopes": ["read"]})
    live = p.json(201, "POST", "/v1/sessions", body={
        "timeout": "15m", "metadata": {"test": "openapi"}, "limits": {"disk": "16M"},
        "rules": {"writable": ["/home/user", "/tmp"]}})
    dead = p.json(201, "POST", "/v1/sessions")
    p.ids = {"session": live["id"], "key": p.read["id"], "pid": "4000000", "port": "8000", "template": "host", "tag": "nosuch"}
    p.dead = {"session": dead["id"]}
    ended = p.json(200, "POST", SESSION + "/executions", query="wait=true",
                   body={"command": "echo out; echo err >&2; exit 3", "record": "text"})
    p.ids["execution"] = ended["id"]
    p.json(200, "POST", SESSION + "/executions", query="wait=true&encoding=base64", body={"argv": ["printf", "\\377"]})
    p.probe(204, "DELETE", SESSION, ids=p.dead)
    p.probe(204, "DELETE", SESSION, ids=p.dead)
    p.tenant = p.json(201, "POST", "/v1/tenants", body={"name": "openapi", "max_sessions": 1, "create_rate": 1.5})
    p.ids["tenant"] = p.tenant["id"]
    p.ids["build"], p.ids["hash"] = p.json(201, "POST", BUILDS, body={"name": "openapi"})["id"], "0" * 64
    p.ids["secret"] = p.json(201, "POST", "/v1/secrets", body={
        "name": "openapi", "value": "v", "hosts": ["a.example.org"], "ttl": "1h"})["name"]
    p.ids["volume"] = p.json(201, "POST", "/v1/volumes", body={"name": "openapi", "size": "16M", "expires_in": "1h"})["name"]


def generic(p):
    """What every route answers alike."""
    for (method, pattern), op in p.ops.items():
        documented = op["responses"]
        if op.get("security") == []:
            p.probe(200, method, pattern, key=NO_KEY)
            continue
        p.probe(401, method, pattern, key=NO_KEY)
        p.probe(401, method, pattern, key="e2b_" + "0" * 40)
        scope = op["x-scope"]
        p.probe(403, method, pattern, key=(p.admin if scope == "read" else p.read)["key"])
        p.probe(400, method, pattern, query="nonsense=1")
        json_body = "application/json" in op.get("requestBody", {}).get("content", {})
        if json_body:
            p.probe(400, method, pattern, body={"nonsense": 1})
            p.probe(400, method, pattern, body=b"{", headers={"Content-Type": "application/json"})
            p.probe(413, method, pattern, headers=HUGE)
            p.probe(415, method, pattern, body=b"{}", headers={"Content-Type": "text/plain"})
        names = re.findall(r"{(\w+)}", pattern)
        body = {"/pause": None, "/resume": None}.get(pattern[len(SESSION):], good_body(pattern)) if json_body else None
        query = "path=/tmp" if FILES in pattern and method != "POST" else ""
        for i, name in enumerate(names):
            known = {n: p.ids.get(n, "1") for n in names[:i]}
            p.probe(404, method, pattern, query=query, body=body, ids={**known, name: "nosuch0"},
                    headers=upgrade() if pattern.endswith("/attach") else None)
            p.probe(404, method, pattern, query=query, body=body, ids={**known, name: "%2e%2e%2fetc"})
        if "410" in documented and "{session}" in pattern:
            p.probe(410, method, pattern, query=query, body=body, ids={**p.dead, "pid": "2"})


def good_body(pattern):
    return {
        "/v1/sessions": {}, SESSION + "/timeout": {"timeout": 600}, SESSION + "/executions": {"command": "true"},
        EXECUTION + "/signals": {"signal": "TERM"}, EXECUTION + "/resize": {"rows": 24, "cols": 80},
        FILES + "/mkdir": {"path": "/tmp/x"}, FILES + "/move": {"from": "a", "to": "b"},
        SESSION + "/pause": {}, SESSION + "/snapshots": {}, SESSION + "/fork": {},
        SESSION + "/network": {"version": 1}, "/v1/tenants/{tenant}/network": {"version": 1},
        "/v1/tenants/{tenant}": {"burst": 5}, "/v1/tenants/{tenant}/keys": {"scopes": ["read"]},
    }.get(pattern)


def upgrade():
    key = base64.b64encode(os.urandom(16)).decode()
    return {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}


def cosignatures(p):
    path, plain = "/v1/audit/cosignature", {"Content-Type": "text/plain"}
    text, _, own = p.s.request("GET", "/v1/audit/checkpoint?fresh=true")[2].decode().partition("\n\n")
    line = Signer("witness.example", 4).line(text + "\n")
    p.probe(200, "POST", path, body=f"{text}\n\n{own}{line}".encode(), headers=plain)
    p.probe(400, "POST", path, body=b"x", headers=plain)
    p.probe(404, "POST", path, body=f"{text.replace('/1', '/2', 1)}\n\n{own}{line}".encode(), headers=plain)
    origin, size, root = text.split("\n")
    p.probe(409, "POST", path, body=f"{origin}\n{int(size) - 1}\n{root}\n\n{own}{line}".encode(), headers=plain)
    p.probe(413, "POST", path, body=b"x" * 20000, headers=plain)
    p.probe(415, "POST", path, body=b"{}", headers={"Content-Type": "application/json"})


def sessions(p):
    p.probe(200, "GET", "/metrics")
    p.probe(200, "GET", "/v1/node")
    templates(p)
    p.probe(200, "GET", "/v1/limits")
    p.probe(200, "GET", "/v1/usage", query="from=1800000000&to=1800003600")
    for query in ("by=session&limit=2", "by=tenant", "by=label&key=test"):
        p.probe(200, "GET", "/v1/usage", query=query)
    p.probe(400, "GET", "/v1/usage", query="from=2&to=1")
    for query in ("", "limit=1&order=asc", "state=running,stopped&template=host&metadata.test=openapi"):
        p.probe(200, "GET", "/v1/sessions", query=query)
    p.probe(400, "GET", "/v1/sessions", query="state=asleep")
    p.probe(400, "GET", "/v1/sessions", query="after=zz")
    p.probe(400, "GET", "/v1/sessions", query="limit=0")
    p.probe(404, "POST", "/v1/sessions", body={"template": "nosuch"})
    p.probe(422, "POST", "/v1/sessions", body={"level": "nosuch"})
    p.probe(403, "POST", "/v1/sessions", body={"mounts": [{"source": "/etc", "target": "/mnt"}]})
    key = p.json(201, "POST", "/v1/tenants/{tenant}/keys", body={"scopes": ["sessions"]})["key"]
    one = p.json(201, "POST", "/v1/sessions", key=key)
    p.probe(429, "POST", "/v1/sessions", key=key)
    p.probe(404, "GET", SESSION, key=key)  # another tenant's
    once = {"Idempotency-Key": "openapi"}
    p.probe(201, "POST", "/v1/sessions", body={"timeout": "1m"}, headers=once)
    p.probe(409, "POST", "/v1/sessions", body={"timeout": "2m"}, headers=once)
    p.probe(204, "DELETE", SESSION, ids={"session": one["id"]}, key=key)
    p.probe(200, "GET", SESSION)
    p.probe(200, "GET", SESSION, ids=p.dead)
    p.probe(200, "POST", SESSION + "/timeout", body={"timeout": "20m"})
    p.probe(200, "PATCH", SESSION, body={"timeout": "20m"})
    p.probe(400, "POST", SESSION + "/timeout", body={})
    p.probe(200, "POST", SESSION + "/ports", body={"port": 8000})
    p.probe(400, "POST", SESSION + "/ports", body={"port": 70000})
    p.probe(200, "GET", SESSION)  # with an open port
    p.probe(204, "DELETE", SESSION + "/ports/{port}", ids={"port": "8000"})
    p.probe(404, "DELETE", SESSION + "/ports/{port}", ids={"port": "8000"})
    p.probe(200, "GET", SESSION + "/metrics")
    p.probe(200, "GET", SESSION + "/resources")
    p.probe(200, "GET", SESSION + "/timeline")
    p.probe(200, "GET", SESSION + "/timeline", query="after=1-0.0.0&types=session,execution&limit=1")
    p.probe(200, "GET", SESSION + "/timeline", query="follow=true", send="HEAD")
    p.probe(400, "GET", SESSION + "/timeline", query="types=x")
    p.probe(200, "GET", SESSION + "/diff")
    p.probe(200, "GET", SESSION + "/events")
    p.probe(200, "GET", SESSION + "/events", query="limit=1")
    p.probe(200, "GET", SESSION + "/events", query="follow=true", send="HEAD")
    traced = {"session": p.json(201, "POST", "/v1/sessions", body={"trace": "programs"})["id"]}
    p.json(200, "POST", SESSION + "/executions", query="wait=true", ids=traced, body={"command": "/bin/true"})
    p.probe(200, "GET", SESSION + "/trace", ids=traced, query="limit=3")
    p.probe(200, "GET", SESSION + "/trace", ids=traced, query="follow=true", send="HEAD")
    p.probe(400, "GET", SESSION + "/trace", ids=traced, query="after=x")
    p.probe(409, "GET", SESSION + "/trace")
    p.probe(410, "GET", SESSION + "/trace", ids=p.dead)
    p.probe(200, "GET", "/v1/events", query="after=1&limit=2")
    p.probe(200, "GET", "/v1/network/log", query="after=1&limit=2")
    p.probe(200, "GET", "/v1/report")
    p.probe(200, "GET", SESSION + "/report")
    p.probe(400, "GET", "/v1/network/log", query="kind=x")
    p.probe(200, "GET", "/v1/audit", query="after=1&limit=2")
    p.probe(404, "GET", "/v1/audit", query="tenant=ten_nobody")
    p.probe(200, "GET", "/v1/audit/checkpoint", query="fresh=true")
    p.probe(404, "GET", "/v1/audit/checkpoint", query="epoch=9")
    p.probe(200, "GET", "/v1/audit/tile/{*}", ids={"*": "0/000.p/1"})
    cosignatures(p)
    p.probe(200, "GET", "/v1/audit/rotate")
    p.probe(202, "POST", "/v1/audit/rotate")
    p.probe(200, "POST", "/v1/audit/erase", body={"on_behalf": "nobody"})
    p.probe(404, "POST", "/v1/audit/erase", body={"seq": 1, "epoch": 9})
    p.probe(400, "POST", "/v1/audit/erase", body={})
    p.probe(200, "POST", "/v1/audit/prune", body={"keep": "1d"})
    p.probe(404, "POST", "/v1/audit/prune", body={"keep": "1d", "epoch": 9})
    p.probe(400, "POST", "/v1/audit/prune", body={})
    p.probe(404, "GET", "/v1/audit/tile/{*}", ids={"*": "0/000"}, query="epoch=9")
    network(p)
    mcp(p)
    p.probe(200, "POST", SESSION + "/resume")
    if p.s.request("GET", "/v1/node")[2]["restrictions"]["pause"]:
        p.probe(200, "POST", SESSION + "/pause")
        p.probe(200, "POST", SESSION + "/pause")
        p.probe(200, "POST", SESSION + "/resume")
        snapshots(p)
    else:
        p.probe(422, "POST", SESSION + "/pause")
        CANNOT[("POST", SESSION + "/pause", "200")] = "this machine has no freezer"
        del CANNOT[("POST", SESSION + "/pause", "422")]


def mcp(p):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gateway", "stdio_server.py"), encoding="utf-8") as f:
        script = f.read()
    own = p.s.want(201, "POST", "/v1/sessions", {"mcp": {"servers": {"a": {"command": ["python3", "-c", script]}}}})["id"]
    for status, message in ((200, {"id": 1, "method": "ping"}), (202, {"method": "notifications/initialized"}),
                            (200, {"id": "a", "method": "tools/list"}),
                            (404, {"id": 1, "method": "ping", "params": {"_meta": {
                                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                                "io.modelcontextprotocol/clientCapabilities": {}}}})):
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"} if status == 404 else None
        for path in ("/mcp", "/mcp/{session}"):
            p.probe(status, "POST", path, ids={"session": own}, body={"jsonrpc": "2.0", **message}, headers=headers)
    for path in ("/mcp", "/mcp/{session}"):
        p.probe(406, "POST", path, body={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={"Accept": "text/html"})
    p.probe(404, "POST", "/mcp/{session}", body={"jsonrpc": "2.0", "id": 1, "method": "ping"})  # it has no servers
    p.probe(200, "GET", SESSION + "/mcp")
    p.s.want(204, "DELETE", f"/v1/sessions/{own}")


def builds(p):
    p.probe(403, "POST", "/v1/templates/pull", body={"reference": "169.254.169.254/x"})
    p.probe(200, "GET", BUILDS)
    p.probe(204, "DELETE", BUILDS + "/cache")
    p.probe(409, "POST", BUILDS, body={"name": p.json(200, "GET", BUILD)["template_id"]})
    p.probe(200, "GET", BUILD, query="after=0")
    p.probe(413, "PUT", BUILD + "/files/{hash}", headers=HUGE)
    p.probe(204, "PUT", BUILD + "/files/{hash}", body=a_tar())
    p.probe(202, "POST", BUILD + "/start", body={"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["sleep 100"]}]})
    p.probe(204, "DELETE", BUILD)
    p.probe(409, "DELETE", BUILD)


def snapshots(p):
    made = p.json(201, "POST", SESSION + "/snapshots", body={})
    p.probe(200, "GET", "/v1/snapshots", query="name=openapi&session=" + p.ids["session"])
    one = {"snapshot": made["id"].replace(":", "%3A")}
    p.probe(200, "GET", "/v1/snapshots/{snapshot}", ids=one)
    p.probe(201, "POST", SESSION + "/fork", body={"count": 2, "timeout": "1m"})
    p.probe(400, "POST", SESSION + "/fork", body={"count": 0})
    p.probe(200, "GET", "/v1/layers")
    p.probe(200, "POST", "/v1/gc")
    p.probe(200, "GET", "/v1/packages/cache")
    p.probe(200, "GET", "/v1/packages/cache/entries")
    p.probe(200, "POST", "/v1/packages/cache/gc", query="bytes=1000")
    p.probe(200, "POST", "/v1/packages/cache/verify")
    p.probe(204, "DELETE", "/v1/snapshots/{snapshot}", ids=one)
    fork = p.json(201, "POST", SESSION + "/fork", body={})["sessions"][0]["id"]
    p.probe(200, "POST", SESSION + "/pause", ids={"session": fork}, body={"memory": False})
    p.probe(200, "POST", SESSION + "/reset", ids={"session": fork})
    p.probe(204, "DELETE", SESSION, ids={"session": fork})


def templates(p):
    where = "/v1/templates"
    builds(p)
    make_tree(os.path.join(p.s.state, "templates", "tree"))
    os.mkdir(os.path.join(p.s.state, "templates", "open"))
    os.chmod(os.path.join(p.s.state, "templates", "open"), 0o777)
    body = {"name": "a-tree", "root": {"kind": "layers", "layers": ["tree"]}, "env": {"A": "b"}, "user": "root", "workdir": "/tmp"}
    p.probe(201, "POST", where, body=body)
    p.probe(200, "GET", where)
    p.probe(200, "GET", where + "/{template}", ids={"template": "a-tree"})
    p.probe(403, "POST", where, body={**body, "root": {"layers": ["open"]}})
    p.probe(404, "POST", where, body={**body, "root": {"layers": ["nosuch"]}})
    p.probe(409, "POST", where, body={**body, "name": "host"})
    p.probe(422, "POST", where, body={**body, "root": {"layers": ["tree", "tree"]}})
    p.probe(200, "POST", where + "/{template}/tags", ids={"template": "a-tree"}, body={"tags": ["one", "two"]})
    p.probe(400, "POST", where + "/{template}/tags", ids={"template": "a-tree:one"}, body={"tags": ["a b"]})
    p.probe(204, "DELETE", where + "/{template}/tags/{tag}", ids={"template": "a-tree", "tag": "one"})
    p.probe(400, "DELETE", where + "/{template}/tags/{tag}", ids={"template": "a-tree", "tag": "default"})
    p.probe(422, "GET", where + "/{template}/files", ids={"template": "a-tree"})
    p.probe(201, "POST", where, query="name=layered", body=a_tar(), headers={"Content-Type": "application/x-tar"})
    p.probe(200, "GET", where + "/{template}/files", ids={"template": "layered"}, query="path=/etc&limit=5")
    p.probe(404, "GET", where + "/{template}/files", ids={"template": "layered"}, query="path=/nosuch")
    p.probe(400, "GET", where + "/{template}/files", ids={"template": "layered"}, query="path=/../etc")
    p.probe(204, "DELETE", where + "/{template}", ids={"template": "layered"})
    p.probe(200, "PATCH", where + "/{template}", ids={"template": "a-tree"}, body={"public": True})
    p.probe(204, "DELETE", where + "/{template}", ids={"template": "a-tree"})
    p.probe(409, "DELETE", where + "/{template}", ids={"template": "host"})
    p.probe(200, "GET", where + "/{template}", ids={"template": "host"})


def network(p):
    p.probe(200, "GET", SESSION + "/network")
    p.probe(200, "GET", SESSION + "/network", ids=p.dead)
    for choice in ("deny", ["pypi", "npm"], {"version": 1, "rules": ["a.example/x/**"]}):
        p.probe(200, "PUT", SESSION + "/network", body=json.dumps(choice).encode(),
                headers={"Content-Type": "application/json"})
    p.probe(200, "GET", SESSION + "/network")
    p.json(200, "POST", SESSION + "/executions", query="wait=true",
           body={"command": "getent ahosts b.example; getent ahosts a.example"})
    p.probe(200, "GET", SESSION + "/network/log")
    p.probe(200, "GET", SESSION + "/network/log", query="kind=dns&allowed=false&name=b.example&limit=1")
    p.probe(200, "GET", SESSION + "/network/log", query="follow=true", send="HEAD")
    p.probe(400, "GET", SESSION + "/network/log", query="kind=other")
    p.probe(200, "GET", SESSION + "/packages", query="ecosystem=npm&result=refused&name=x&limit=1")
    p.probe(400, "GET", SESSION + "/packages", query="result=other")
    p.probe(200, "GET", "/v1/tenants/{tenant}/network")
    p.probe(200, "PUT", "/v1/tenants/{tenant}/network", body={"version": 1, "rules": ["a.example"]})
    p.probe(200, "GET", "/v1/tenants/{tenant}/network")
    p.probe(200, "PUT", "/v1/tenants/{tenant}/network", body=b"null", headers={"Content-Type": "application/json"})


def executions(p):
    running = p.json(202, "POST", SESSION + "/executions", body={"argv": ["cat"], "stdin_stream": True})
    here = {"execution": running["id"]}
    p.probe(200, "GET", SESSION + "/executions", query="state=running&limit=5")
    p.probe(400, "GET", SESSION + "/executions", query="state=asleep")
    p.probe(200, "GET", EXECUTION)
    p.probe(200, "GET", EXECUTION, ids=here)
    p.probe(200, "GET", EXECUTION + "/output", query="stream=stderr&offset=1&length=2")
    p.probe(400, "GET", EXECUTION + "/output", query="stream=stdin")
    p.probe(200, "GET", EXECUTION + "/events")
    p.probe(200, "GET", EXECUTION + "/cast")
    p.probe(400, "GET", EXECUTION + "/events", query="after=x")
    p.probe(101, "GET", EXECUTION + "/attach", headers=upgrade())
    p.probe(400, "GET", EXECUTION + "/attach")
    p.probe(403, "GET", EXECUTION + "/attach", headers={**upgrade(), "Origin": "http://elsewhere.example"})
    p.probe(200, "POST", EXECUTION + "/input", ids=here, body=b"hello")
    p.probe(409, "POST", EXECUTION + "/input", body=b"hello")
    p.probe(400, "POST", EXECUTION + "/input", query="eof=perhaps")
    p.probe(204, "POST", EXECUTION + "/signals", ids=here, body={"signal": "CONT"})
    p.probe(400, "POST", EXECUTION + "/signals", ids=here, body={"signal": "NONE"})
    p.probe(409, "POST", EXECUTION + "/signals", body={"signal": 15})
    p.probe(409, "POST", EXECUTION + "/resize", ids=here, body={"rows": 24, "cols": 80})
    p.probe(204, "DELETE", EXECUTION, ids=here)
    p.probe(204, "DELETE", EXECUTION, ids=here)
    tty = p.json(202, "POST", SESSION + "/executions", body={"argv": ["cat"], "tty": {"rows": 24, "cols": 80}})
    wait_running(p, tty["id"])
    p.probe(204, "POST", EXECUTION + "/resize", ids={"execution": tty["id"]}, body={"rows": 30, "cols": 90})
    listed = p.json(200, "GET", SESSION + "/processes")["processes"]
    pid = next((x["pid"] for x in listed if x["execution_id"] == tty["id"]), None)
    p.results.append((None if pid else "the terminal's process is not listed", "a process knows its execution"))
    p.probe(204, "DELETE", SESSION + "/processes/{pid}", ids={"pid": str(pid or 2)})
    p.probe(404, "DELETE", SESSION + "/processes/{pid}", ids={"pid": "4000000"})
    p.probe(404, "DELETE", SESSION + "/processes/{pid}", ids={"pid": "1"})
    too_many(p)


def wait_running(p, execution):
    """Until it has said that it runs: the first event."""
    for _ in range(500):
        got = json.loads(p.call("GET", EXECUTION, ids={"execution": execution})[2])
        if got["state"] != "starting":
            return


def too_many(p):
    session = {"session": p.json(201, "POST", "/v1/sessions")["id"]}
    for _ in range(300):
        status, _, _ = p.call("POST", SESSION + "/executions", body={"argv": ["sleep", "100"]}, ids=session)
        if status != 202:
            break
    p.probe(429, "POST", SESSION + "/executions", body={"argv": ["sleep", "100"]}, ids=session)
    p.probe(204, "DELETE", SESSION, ids=session)


def a_tar(name="t/f", data=b"x" * 1000):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def files(p):
    p.probe(201, "PUT", FILES, query="path=d/f&mode=0640", body=b"0123456789")
    p.probe(200, "PUT", FILES, query="path=d/f", body=b"0123456789")
    p.probe(400, "PUT", FILES, query="path=d/f&mode=rw", body=b"x")
    p.probe(400, "PUT", FILES, body=b"x")
    p.probe(409, "PUT", FILES, query="path=d/f&exclusive=true", body=b"x")
    p.probe(403, "PUT", FILES, query="path=/usr/bin/x", body=b"x")  # the session's rules
    p.probe(403, "PUT", FILES, query="path=/tmp/../etc/x&user=root", body=b"x")
    p.probe(413, "PUT", FILES, query="path=big", headers=HUGE)
    p.probe(507, "PUT", FILES, query="path=big", body=b"x" * (20 << 20))
    p.probe(200, "GET", FILES, query="path=d/f")
    p.probe(200, "GET", FILES, query="path=d/f&offset=3&length=2")
    p.probe(206, "GET", FILES, query="path=d/f", headers={"Range": "bytes=2-4"})
    p.probe(206, "GET", FILES, query="path=d/f", headers={"Range": "bytes=-3"})
    p.probe(416, "GET", FILES, query="path=d/f", headers={"Range": "bytes=10-"})
    p.probe(403, "GET", FILES, query="path=/etc/shadow")
    p.probe(404, "GET", FILES, query="path=none")
    p.probe(409, "GET", FILES, query="path=d")
    p.probe(400, "GET", FILES, query="path=")
    p.probe(200, "GET", FILES + "/stat", query="path=d/f&follow=true")
    p.probe(404, "GET", FILES + "/stat", query="path=none")
    p.probe(200, "GET", FILES + "/list", query="path=d&depth=3&limit=10")
    p.probe(409, "GET", FILES + "/list", query="path=d/f")
    p.probe(201, "POST", FILES + "/mkdir", body={"path": "m/n", "parents": True, "mode": "0700"})
    p.probe(200, "POST", FILES + "/mkdir", body={"path": "m/n"})
    p.probe(404, "POST", FILES + "/mkdir", body={"path": "none/n"})
    p.probe(409, "POST", FILES + "/mkdir", body={"path": "d/f"})
    p.probe(200, "POST", FILES + "/move", body={"from": "d/f", "to": "m/g"})
    p.probe(404, "POST", FILES + "/move", body={"from": "none", "to": "m/g"})
    p.probe(409, "POST", FILES + "/move", body={"from": "d", "to": "m/g"})
    p.probe(200, "GET", FILES + "/watch", query="path=m&recursive=true", send="HEAD")
    p.probe(404, "GET", FILES + "/watch", query="path=none")
    p.probe(200, "GET", FILES + "/tar", query="path=m")
    p.probe(404, "GET", FILES + "/tar", query="path=none")
    p.probe(200, "PUT", FILES + "/tar", query="path=m", body=a_tar())
    p.probe(400, "PUT", FILES + "/tar", query="path=m", body=b"no tar at all" * 100)
    p.probe(403, "PUT", FILES + "/tar", query="path=/usr", body=a_tar())
    p.probe(404, "PUT", FILES + "/tar", query="path=none", body=a_tar())
    p.probe(409, "PUT", FILES + "/tar", query="path=m/g", body=a_tar())
    p.probe(413, "PUT", FILES + "/tar", query="path=m", headers=HUGE)
    p.probe(507, "PUT", FILES + "/tar", query="path=m", body=a_tar(data=b"x" * (20 << 20)))
    p.probe(409, "DELETE", FILES, query="path=m")
    p.probe(204, "DELETE", FILES, query="path=m&recursive=true")
    p.probe(404, "DELETE", FILES, query="path=m")
    no_inodes(p)


def no_inodes(p):
    session = {"session": p.json(201, "POST", "/v1/sessions", body={"limits": {"inodes": 300}})["id"]}
    p.call("POST", SESSION + "/executions", query="wait=true", ids=session,
           body={"command": "for i in $(seq 400); do : > f$i || break; done"})
    p.probe(507, "POST", FILES + "/mkdir", body={"path": "one-more"}, ids=session)
    p.probe(204, "DELETE", SESSION, ids=session)


def keys_and_tenants(p):
    p.probe(200, "GET", "/v1/keys")
    p.probe(400, "POST", "/v1/keys", body={"scopes": ["everything"]})
    p.probe(204, "DELETE", "/v1/keys/{key}")
    p.probe(200, "GET", "/v1/tenants")
    p.probe(200, "GET", "/v1/tenants/{tenant}")
    p.probe(200, "PATCH", "/v1/tenants/{tenant}", body={"max_sessions": 5})
    p.probe(409, "POST", "/v1/tenants", body={"name": "openapi"})
    p.probe(201, "POST", "/v1/tenants", body={"name": "openapi2"})
    p.probe(409, "PATCH", "/v1/tenants/{tenant}", body={"name": "openapi2"})
    operator = next(t["id"] for t in p.json(200, "GET", "/v1/tenants")["tenants"] if t["operator"])
    p.probe(409, "DELETE", "/v1/tenants/{tenant}", ids={"tenant": operator})
    other = p.json(201, "POST", "/v1/tenants/{tenant}/keys", body={"scopes": ["admin"]})["key"]
    for method, pattern in (("GET", "/v1/tenants"), ("POST", "/v1/tenants"), ("GET", "/v1/tenants/{tenant}"),
                            ("PATCH", "/v1/tenants/{tenant}"), ("DELETE", "/v1/tenants/{tenant}")):
        p.probe(403, method, pattern, key=other)  # admin of his own tenant, not the operator
    p.probe(204, "DELETE", "/v1/tenants/{tenant}")
    p.probe(401, "GET", "/v1/keys", key=other)


def secrets(p):
    p.probe(200, "GET", "/v1/secrets")
    p.probe(200, "GET", "/v1/secrets/{secret}")
    p.probe(200, "PUT", "/v1/secrets/{secret}", body={"value": "w", "ttl": 0})
    p.probe(409, "POST", "/v1/secrets", body={"name": "openapi", "value": "v"})
    p.json(201, "POST", "/v1/sessions", body={"secrets": [{"name": "openapi", "as": "env", "env": "S"}]})
    for i in range(1000):
        if p.call("POST", "/v1/secrets", body={"name": f"many{i}", "value": "v"})[0] == 429:
            break
    p.probe(429, "POST", "/v1/secrets", body={"name": "more", "value": "v"})
    p.probe(204, "DELETE", "/v1/secrets/{secret}")


def volumes(p):
    p.probe(200, "GET", "/v1/volumes", query="limit=1")
    p.probe(200, "GET", "/v1/volumes/{volume}")
    p.probe(409, "POST", "/v1/volumes", body={"name": "openapi"})
    box = p.json(201, "POST", "/v1/sessions", body={"volumes": [{"name": "openapi", "path": "/v", "mode": "ro"}]})["id"]
    p.probe(409, "DELETE", "/v1/volumes/{volume}")
    p.probe(204, "DELETE", SESSION, ids={**p.ids, "session": box})
    wait_for(lambda: p.call("DELETE", "/v1/volumes/{volume}")[0] == 204, 15, "removed with its last session")
    p.json(201, "POST", "/v1/volumes", body={"name": "openapi"})
    p.probe(204, "DELETE", "/v1/volumes/{volume}")


def methods(p):
    """405 with Allow and OPTIONS, wherever."""
    for pattern in DOC["paths"]:
        path = re.sub(r"{\w+}", "x0", pattern)
        have = {m.upper() for m in DOC["paths"][pattern] if m in METHODS}
        status, headers, _ = p.s.request("OPTIONS", path, raw=True)
        allow = {m.strip() for m in headers.get("allow", "").split(",")}
        want = have | {"OPTIONS"} | ({"HEAD"} if "GET" in have else set())
        p.results.append((None if status == 204 and allow == want else f"{status}, {allow}", f"OPTIONS {pattern}"))
        wrong = next(m for m in ("PATCH", "PUT", "POST") if m not in have)
        status, headers, _ = p.s.request(wrong, path, raw=True)
        p.results.append((None if status == 405 and "allow" in headers else f"got {status}", f"405 {wrong} {pattern}"))


def document(p):
    """The server shows this document, without a key, and names it at `/`."""
    status, headers, text = p.s.request("GET", "/openapi.yaml", key=None, raw=True)
    same = (status, text) == (200, (pathlib.Path(__file__).resolve().parents[2] / "doc/openapi.yaml").read_bytes())
    p.results.append((None if same and headers["content-type"] == "application/yaml" else f"{status}, {len(text)} bytes", "GET /openapi.yaml is the document"))
    status, _, text = p.s.request("GET", "/", key=None, raw=True)
    p.results.append((None if status == 200 and b"/openapi.yaml" in text else f"{status} {text!r}", "GET / names it"))


def coverage(p):
    used = set()
    for (method, path), op in p.ops.items():
        for status in op["responses"]:
            reasons = [k for k in CANNOT if k[0] in ("*", method) and k[1] in ("*", path) and k[2] == status]
            seen = (method, path, status) in p.seen
            used.update(reasons)
            wrong = None
            if not seen and not reasons:
                wrong = "documented, and no probe gets it"
            if seen and any(k[0] != "*" for k in reasons):
                wrong = "can be provoked after all: take it out of CANNOT"
            p.results.append((wrong, f"{method} {path} {status} is provoked or cannot be"))
    for entry in CANNOT:
        p.results.append((None if entry in used else "not documented", f"CANNOT {entry} is documented"))


def routes(p, cordond):
    lines = subprocess.run([cordond, "--routes"], capture_output=True, text=True, check=True, timeout=30).stdout
    served = {tuple(line.split()) for line in lines.splitlines()}
    missing, extra = served - set(p.ops), set(p.ops) - served
    p.results.append((None if not missing else f"{missing}", "every route is documented"))
    p.results.append((None if not extra else f"{extra}", "every documented route is served"))


def main():
    program = sys.argv[1]
    server = Server(program)
    p = Probes(server)
    try:
        routes(p, pathlib.Path(program).resolve().parent / "cordond")
        make_fixtures(p)
        for part in (generic, sessions, executions, files, keys_and_tenants, secrets, volumes, methods, document, coverage):
            part(p)
    finally:
        try:
            server.close()
            p.results.append((None, "nothing is left behind"))
        except Failed as e:
            p.results.append((str(e).replace("\n", "; "), "nothing is left behind"))
    print(f"1..{len(p.results)}")
    for i, (wrong, name) in enumerate(p.results, 1):
        print(f"{'not ok' if wrong else 'ok'} {i} - {name}")
        if wrong:
            print(f"# {wrong}")
    return 1 if any(wrong for wrong, _ in p.results) else 0


if __name__ == "__main__":
    sys.exit(main())
