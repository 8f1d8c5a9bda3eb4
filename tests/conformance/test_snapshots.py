#!/usr/bin/python3
"""Snapshots, forks, clone, reset and pauses without memory: every status and shape that the contract names."""
import re
import urllib.parse

from contract import UNKNOWN, Sandbox, check, equal, refused, run_tests

ID = re.compile(r"[a-z0-9]{20}:default")


def shots(server, query=""):
    status, headers, data = server.request("GET", "/snapshots" + query)
    equal(status, 200)
    return data, headers.get("x-next-token")


def delete(server, shot):
    return server.request("DELETE", "/templates/" + urllib.parse.quote(shot, safe=""))[0]


def test_snapshots(server):
    box = Sandbox(server)
    one = server.want(201, "POST", f"/sandboxes/{box.id}/snapshots", {})
    equal((set(one), one["names"]), ({"snapshotID", "names"}, []))
    check(ID.fullmatch(one["snapshotID"]), one)
    two = server.want(201, "POST", f"/sandboxes/{box.id}/snapshots", {"name": "Mine:v1"})
    check(two["snapshotID"].endswith("/mine:v1") and two["names"][0].endswith("/mine"), two)
    equal(box.state(), "running")
    equal([s["snapshotID"] for s in shots(server, f"?sandboxID={box.id}")[0]], [two["snapshotID"], one["snapshotID"]])
    page, token = shots(server, "?limit=1")
    equal((len(page), bool(token)), (1, True))
    rest, last = shots(server, f"?limit=1&nextToken={token}")
    equal((rest[0]["snapshotID"], last), (one["snapshotID"], None))
    for query, n in (("?name=mine", 1), ("?name=mine:v1", 1), ("?name=mine:default", 0), ("?name=nobody", 0), (f"?sandboxID={UNKNOWN}", 0)):
        equal(len(shots(server, query)[0]), n, query)
    for bad in ("?limit=0", "?limit=101", "?nextToken=!"):
        refused(server, 400, "GET", "/snapshots" + bad)
    for body in ({"name": "a b"}, {"name": "x:"}, {"name": "nobody/x"}, {"name": 1}, []):
        refused(server, 400, "POST", f"/sandboxes/{box.id}/snapshots", body)
    refused(server, 404, "POST", f"/sandboxes/{UNKNOWN}/snapshots", {})
    listed = [t["templateID"] for t in server.want(200, "GET", "/templates")]
    check(one["snapshotID"].split(":")[0] not in listed, "a snapshot is in no list of templates")
    for template in (one["snapshotID"], one["snapshotID"].split(":")[0], "mine:v1", two["snapshotID"]):
        Sandbox(server, templateID=template).kill()
    for shot in (one["snapshotID"], two["snapshotID"]):
        equal((delete(server, shot), delete(server, shot)), (204, 404))
    refused(server, 404, "POST", "/v2/sandboxes", {"templateID": one["snapshotID"]})
    box.kill()
    refused(server, 404, "POST", f"/sandboxes/{box.id}/snapshots", {})


def test_fork(server):
    box = Sandbox(server)
    for path in (f"/sandboxes/{box.id}/fork", f"/v2/sandboxes/{box.id}/fork"):
        made = server.want(201, "POST", path, {"count": 2})
        equal((len(made), [set(m) for m in made]), (2, [{"sandbox"}] * 2))
        for m in made:
            check(m["sandbox"]["sandboxID"] != box.id and m["sandbox"]["envdAccessToken"], m)
            server.want(204, "DELETE", f"/sandboxes/{m['sandbox']['sandboxID']}")
        for count in (0, 101, -1, "x"):
            refused(server, 400, "POST", path, {"count": count})
    refused(server, 404, "POST", f"/sandboxes/{UNKNOWN}/fork", {})
    server.want(204, "POST", f"/sandboxes/{box.id}/pause", {"memory": None})
    refused(server, 409, "POST", f"/sandboxes/{box.id}/fork", {}, "is paused and cannot be forked; resume it first")
    box.kill()


def test_pause_without_memory(server):
    box = Sandbox(server)
    server.want(204, "POST", f"/sandboxes/{box.id}/pause", {"memory": False})
    refused(server, 409, "POST", f"/sandboxes/{box.id}/pause", {"memory": False}, "already paused")
    equal(box.state(), "paused")
    back = server.want(201, "POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 60})
    equal(back["sandboxID"], box.id)
    equal(box.state(), "running")
    server.want(204, "POST", f"/sandboxes/{box.id}/pause", {})
    server.want(201, "POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 60, "memory": False})
    box.kill()


def test_clone_and_reset(server):
    box = Sandbox(server)
    made = server.want(200, "POST", f"/sandboxes/{box.id}/clone", {"count": 2, "strict": True})
    equal((set(made), len(made["sandboxes"])), ({"sandboxes", "snapshotTemplateId"}, 2))
    for m in made["sandboxes"]:
        server.want(204, "DELETE", f"/sandboxes/{m['sandboxID']}")
    equal(delete(server, made["snapshotTemplateId"]), 204)
    equal(server.want(200, "POST", f"/sandboxes/{box.id}/reset", {"resume": True, "timeout": 60})["sandboxID"], box.id)
    equal(box.state(), "running")
    for body in (b"{", b"[]", {"timeout": 1 << 61}, {"timeout": "60"}, {"resume": "no"}):
        refused(server, 400, "POST", f"/sandboxes/{box.id}/reset", body)
    equal(box.state(), "running", "nothing of it was lost")
    server.want(200, "POST", f"/sandboxes/{box.id}/reset", {"resume": False})
    equal(box.state(), "paused")
    refused(server, 404, "POST", f"/sandboxes/{UNKNOWN}/reset", {})
    box.kill()


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
