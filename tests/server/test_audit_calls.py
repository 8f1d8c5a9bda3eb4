#!/usr/bin/python3 -B
"""Goal: what clients do by any interface is on record: executions, files, the lives of sessions, keys, tenants, templates, ports, secrets.

    test_audit_calls.py CORDON [name ...]
"""
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import audit_log  # noqa: E402
from contract import Sandbox  # noqa: E402
from harness import check, equal, run_tests, wait_for  # noqa: E402
from mcp_client import Client  # noqa: E402


def sha(text):
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class Log:
    """The records that came since it was made."""

    def __init__(self, server, session=None, key=""):
        self.server, self.session, self.key = server, session, key
        self.after = server.want(200, "GET", "/v1/audit?limit=1", key=key)["size"] - 1

    def new(self, kind=None):
        found, after = [], self.after
        while True:
            page = self.server.want(200, "GET", f"/v1/audit?limit=1000&after={after}", key=self.key)
            found += page["records"]
            if page["next"] is None:
                break
            after = page["next"]
        found = [r for r in found if r["record"]["type"] != "audit.read"]
        found = [r for r in found if self.session in (None, r["record"].get("session"))]
        return [r for r in found if kind is None or r["record"]["type"] == kind]

    def one(self, kind):
        found = self.new(kind)
        equal(len(found), 1, f"{kind} among {[r['record']['type'] for r in self.new()]}")
        return found[0]


def values(r):
    return {name: one["value"] for name, one in (r["side"] or {}).items()}


def test_executions(server):
    s = server.create()["id"]
    log = Log(server, s)
    done = server.run(s, "echo out; echo err >&2; exit 7", cwd="/tmp")
    started, ended = log.one("execution.started"), log.one("execution.ended")
    equal(values(started), {"command_sha256": done["command_sha256"], "cwd": "/tmp"})
    equal((started["record"]["data"]["user"], started["record"]["actor"]["interface"]), ("user", "api"))
    equal(started["record"]["execution"], done["id"])
    data = ended["record"]["data"]
    equal((data["exit_code"], data["stdout_sha256"], data["stderr_sha256"], data["bytes"]), (7, sha("out\n"), sha("err\n"), 8))
    check(0 <= data["duration_ms"] < 60000, data)
    server.delete(s)


def test_a_session(server):
    log = Log(server)
    s = server.create(limits={"memory": "128M"}, timeout="1h")
    log.session = s["id"]
    server.run(s["id"], "true")
    server.delete(s["id"])
    server.reaches(s["id"], "ended")
    data = log.one("session.created")["record"]["data"]
    equal((data["memory"], data["timeout_ms"], data["level"], len(data["policy_sha256"])), (128 << 20, 3600000, s["level"], 64))
    end = log.one("session.ended")["record"]
    equal((end["session"], end["data"]["reason"], end["data"]["cleanup"]), (s["id"], "deleted", "done"))
    check(end["data"]["duration_ms"] > 0 and end["data"]["cpu_us"] > 0, end)


def files(log, **interface):
    return [(r["record"]["type"], values(r).get("path"), r["record"]["data"]["result"], r["record"]["data"].get("bytes"), values(r).get("sha256"),
             r["record"]["actor"]["interface"]) for r in log.new() if r["record"]["type"].startswith("file.")]


def test_files_by_rest(server):
    s = server.create()["id"]
    log = Log(server, s)
    at = f"/v1/sessions/{s}/files"
    content = os.urandom(100000)
    server.want(201, "PUT", at + "?path=/tmp/a", content)
    equal(server.request("GET", at + "?path=/tmp/a")[2], content)
    server.want(404, "GET", at + "?path=/tmp/none")
    server.want(201, "POST", at + "/mkdir", {"path": "/tmp/d"})
    server.want(200, "POST", at + "/move", {"from": "/tmp/a", "to": "/tmp/d/b"})
    status, _, tar = server.request("GET", at + "/tar?path=/tmp/d")
    equal(status, 200)
    server.want(204, "DELETE", at + "?path=/tmp/d/b")
    server.want(200, "GET", at + "/list?path=/tmp")
    found = files(log)
    equal([f[:3] for f in found], [("file.written", "/tmp/a", "done"), ("file.read", "/tmp/a", "done"), ("file.read", "/tmp/none", "failed"),
                                   ("file.made", "/tmp/d", "done"), ("file.moved", "/tmp/a", "done"), ("file.exported", "/tmp/d", "done"),
                                   ("file.removed", "/tmp/d/b", "done")])
    for f in found[:2]:
        equal(f[3:], (len(content), sha(content), "api"))
    equal(found[5][3:5], (len(tar), sha(tar)))
    moved = log.one("file.moved")
    equal(values(moved)["to"], "/tmp/d/b")
    check("/tmp" not in json.dumps(moved["record"]), "a path is in the record itself")
    server.delete(s)


def test_files_and_commands_by_e2b(server):
    box = Sandbox(server)
    log = Log(server, box.id)
    box.run("true")
    status, _, _ = box.envd("POST", "/files?path=/home/user/e.txt", b"hello", {"Content-Type": "application/octet-stream"})
    equal(status, 200)
    equal(box.envd("GET", "/files?path=/home/user/e.txt")[0], 200)
    found = files(log)
    equal([(f[0], f[1], f[3], f[4]) for f in found], [(t, "/home/user/e.txt", 5, sha("hello")) for t in ("file.written", "file.read")])
    check({r["record"]["actor"]["interface"] for r in log.new()} <= {"e2b", "server"}, log.new())
    equal(log.one("execution.started")["record"]["actor"]["interface"], "e2b")
    equal(server.request("DELETE", "/sandboxes/" + box.id)[0], 204)


def test_files_and_commands_by_mcp(server):
    client = Client(server)
    log = Log(server)
    s = client.call("create_session")["session_id"]
    server.ids.add(s)
    log.session = s
    client.call("run", session_id=s, command="true")
    client.call("write_file", session_id=s, path="m.txt", text="hello")
    client.call("read_file", session_id=s, path="m.txt")
    found = files(log)
    check(("file.written", 5, sha("hello")) in [(f[0], f[3], f[4]) for f in found], found)
    check("file.read" in [f[0] for f in found], found)
    equal({f[5] for f in found}, {"mcp"})
    equal(log.one("execution.started")["record"]["actor"]["interface"], "mcp")
    server.delete(s)


def test_values_of_secrets_are_covered(server):
    server.want(201, "POST", "/v1/secrets", {"name": "TOKEN", "value": "sec-4f1b9c77aa"})
    s = server.create(secrets=[{"name": "TOKEN", "as": "env", "env": "TOKEN"}])["id"]
    log = Log(server, s)
    server.request("PUT", f"/v1/sessions/{s}/files?path=/tmp/sec-4f1b9c77aa", b"x")
    server.run(s, "true", cwd="/tmp")
    check("sec-4f1b9c77aa" not in json.dumps(log.new()), "a value of a secret")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/TOKEN")


def test_the_rest(server):
    """What is no session: (request, type) each leaves its record of the one who asked."""
    log = Log(server)
    key = server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": ["read"]})
    server.want(204, "DELETE", "/v1/keys/" + key["id"])
    made = server.want(201, "POST", "/v1/tenants", {"name": "rest"})["id"]
    server.want(200, "PATCH", f"/v1/tenants/{made}", {"max_sessions": 3})
    server.want(200, "PUT", f"/v1/tenants/{made}/network", {"default": "deny"})
    server.want(204, "DELETE", f"/v1/tenants/{made}")
    server.want(201, "POST", "/v1/secrets", {"name": "S", "value": "value-1234"})
    server.want(200, "PUT", "/v1/secrets/S", {"value": "value-5678"})
    server.want(204, "DELETE", "/v1/secrets/S")
    server.want(201, "POST", "/v1/templates", {"name": "mine", "from": "host"})
    server.want(200, "POST", "/v1/templates/mine/tags", {"tags": ["v1"]})
    server.want(204, "DELETE", "/v1/templates/mine/tags/v1")
    for public in (True, True, False):
        server.want(200, "PATCH", "/v1/templates/mine", {"public": public})
    server.want(204, "DELETE", "/v1/templates/mine")
    s = server.create()["id"]
    server.want(200, "PUT", f"/v1/sessions/{s}/network", {"default": "deny"})
    server.want(200, "POST", f"/v1/sessions/{s}/ports", {"port": 3000})
    server.want(204, "DELETE", f"/v1/sessions/{s}/ports/3000")
    snapshot = server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})["id"]
    server.want(204, "DELETE", "/v1/snapshots/" + snapshot)
    server.delete(s)
    found = [r["record"] for r in log.new()]
    for kind in ("key.created", "key.revoked", "tenant.created", "tenant.changed", "tenant.network", "tenant.removed", "secret.created", "secret.updated",
                 "secret.deleted", "template.added", "template.tagged", "template.untagged", "template.published", "template.unpublished", "template.removed",
                 "session.created", "session.network",
                 "session.port_opened", "session.port_closed", "snapshot.created", "snapshot.removed"):
        of = [leaf for leaf in found if leaf["type"] == kind]
        check(of, f"no {kind} among {sorted({leaf['type'] for leaf in found})}")
        equal(of[0]["actor"]["interface"], "api", kind)
        check(of[0]["actor"]["key"] and of[0]["actor"]["request"], of[0])
    equal(len([leaf for leaf in found if leaf["type"].endswith("published")]), 2, "a change is on record once")
    check("value-" not in json.dumps(log.new()), "a value of a secret")
    audit_log.verified(audit_log.export(server))


if __name__ == "__main__":
    run_tests(globals())
