#!/usr/bin/python3 -B
"""Goal: who may do what is one rule on every interface. doc/security/scopes.md has a row for every route of the native interface, of E2B's and for
every tool of MCP; each is tried without a key and with a key of every scope.

    test_scopes.py CORDON [name ...]
"""
import os
import re
import subprocess

import harness
from harness import check, equal, run_tests
from mcp_client import Client

DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "security", "scopes.md")
SCOPES = ("read", "sessions", "admin", "audit")
NOBODY = "i0000000000000000"


def tables():
    """The rows of each table of the document: [{route: scope}, ...]; no key: None."""
    found, into = [], None
    with open(DOC, encoding="utf-8") as f:
        for line in f:
            row = re.match(r"\| `([^`]+)` \| ([a-z ]+?)(?: for ([^|]*))? \|$", line.strip())
            if line.startswith("|---"):
                found.append({})
                into = found[-1]
            elif row and into is not None:
                check(row[1] not in into, f"{row[1]} is there twice")
                into[row[1]] = None if row[2] == "no key" else "admin" if row[3] else row[2]  # what is for a template, with no snapshot there
    return found


def routes(option):
    cordond = os.path.join(os.path.dirname(harness.PROGRAM), "cordond")
    out = subprocess.run([cordond, option], capture_output=True, check=True, text=True, timeout=30).stdout
    return out.splitlines()


def keys(server):
    return {one: server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": [one]})["key"] for one in SCOPES}


def allows(have, needed):
    return have == needed or (have == "sessions" and needed == "read")


def try_all(server, table, own_tokens=()):
    mine = keys(server)
    for route, needed in table.items():
        method, pattern = route.split()
        path = re.sub(r"\{\w+\}", NOBODY, pattern)
        body = b"[]" if method in ("POST", "PUT", "PATCH", "DELETE") and "/tags" in path or method in ("POST", "PUT", "PATCH") else None
        status, _, answer = server.request(method, path, body, key=None)
        if needed is None:
            check(status in (200, 503) or pattern.startswith(own_tokens), f"{route} without a key: {status} {answer}")
            continue
        if pattern != "/metrics":
            equal(status, 401, f"{route} without a key")
        for have, key in mine.items():
            status, _, answer = server.request(method, path, body, key=key)
            if allows(have, needed):
                check(status not in (401, 403, 405, 500), f"{route} with {have}: {status} {answer}")
            else:
                equal(status, 403, f"{route} with {have}")


def test_native(server):
    table = tables()[0]
    equal(sorted(table), sorted(routes("--routes")), "routes of the document")
    try_all(server, table)


def test_e2b(server):
    table = tables()[1]
    equal(sorted(table), sorted(routes("--e2b-routes")), "routes of the document")
    try_all(server, table, ("/volumecontent", "/templates/{template}/files"))


def test_tools(server):
    table = tables()[2]
    for have, key in keys(server).items():
        if have in ("admin", "audit"):
            equal(server.request("POST", "/mcp", b"[]", key=key)[0], 403)
            continue
        _, _, message = Client(server, key=key).post("tools/list")
        shown = sorted(tool["name"] for tool in message["result"]["tools"])
        equal(shown, sorted(name for name, needed in table.items() if allows(have, needed)), f"tools of a key of scope {have}")


def test_templates_are_changed_with_admin_only(server):
    """The same templates by both interfaces: a key that makes sessions neither tags nor deletes them; it deletes snapshots."""
    team = server.want(201, "POST", "/v1/tenants", {"name": "team"})["id"]
    mine = {one: server.want(201, "POST", f"/v1/tenants/{team}/keys", {"scopes": [one]})["key"] for one in SCOPES}
    tagged = {"tags": ["v1"]}
    server.want(201, "POST", "/v1/templates", {"name": "team", "from": "host"}, key=mine["admin"])
    for method, path, body in (("DELETE", "/templates/team", None), ("DELETE", "/v1/templates/team", None),
                               ("POST", "/templates/tags", {"target": "team:default", **tagged}), ("POST", "/v1/templates/team/tags", tagged),
                               ("DELETE", "/templates/tags", {"name": "team", **tagged}), ("DELETE", "/v1/templates/team/tags/v1", None),
                               ("PATCH", "/templates/team", {"public": True}), ("PATCH", "/v1/templates/team", {"public": True})):
        for have in ("read", "sessions"):
            equal(server.request(method, path, body, key=mine[have])[0], 403, f"{method} {path} with {have}")
    equal(server.want(200, "GET", "/v1/templates/team", key=mine["read"])["tags"], ["default"])
    session = server.create(key=mine["sessions"])["id"]
    made = [server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {}, key=mine["sessions"])["id"] for _ in range(2)]
    server.want(204, "DELETE", "/v1/snapshots/" + made[0], key=mine["sessions"])
    equal(server.request("DELETE", "/templates/" + made[1], key=mine["admin"])[0], 403, "a snapshot with admin")
    server.want(204, "DELETE", "/templates/" + made[1], key=mine["sessions"])
    equal(server.request("POST", "/templates/tags", {"target": "team:default", **tagged}, key=mine["admin"])[0], 201)
    equal(server.request("DELETE", "/templates/team", key=mine["admin"])[0], 204)
    server.want(204, "DELETE", "/v1/tenants/" + team)


def test_an_owner_deletes_what_others_use(server):
    """A public template that another tenant has a session of goes by both interfaces; the session goes on."""
    other = server.want(201, "POST", "/v1/tenants", {"name": "other"})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{other}/keys", {"scopes": ["sessions", "admin"]})["key"]
    for path in ("/templates/", "/v1/templates/"):
        made = server.want(201, "POST", "/v1/templates", {"name": "shown", "from": "host"}, key=key)
        server.want(200, "PATCH", "/v1/templates/shown", {"public": True}, key=key)
        session = server.create(template=made["template_id"])["id"]
        equal(server.request("DELETE", path + "shown", key=key)[0], 204, path)
        for name in "shown", made["template_id"]:
            equal(server.request("DELETE", path + name, key=key)[0], 404, f"{path}{name}, which is deleted already")
        equal(server.run(session, "echo on")["stdout"], "on\n")
        server.delete(session)
    server.want(204, "DELETE", "/v1/tenants/" + other)


if __name__ == "__main__":
    run_tests(globals())
