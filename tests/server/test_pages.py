#!/usr/bin/python3 -B
"""Goal: every list of the native interface comes in pages: each thing once, in order, whatever the size of a page, and also
while others come and go."""
import time
import urllib.parse

from harness import check, equal, run_tests

N = 7


def pages(server, path, member, limit, key="", **query):
    """The names of each page, until there is no next one."""
    got, after = [], None
    while True:
        words = {**query, "limit": limit, **({"after": after} if after is not None else {})}
        page = server.want(200, "GET", f"{path}?{urllib.parse.urlencode(words)}", key=key)
        equal(sorted(page), sorted([member, "next"]), path)
        check(len(page[member]) <= limit, f"{path}: a page of {len(page[member])}")
        got.append([x.get("name") or x["id"] for x in page[member]])
        check(page["next"] is None or page["next"] != after, f"{path}: the same page again")
        after = page["next"]
        if after is None:
            return got
        check(len(got) <= 1000, f"{path}: no end")


def look(server, path, member, want, key="", **query):
    """The wanted things, in that order, among all others."""
    for limit in (1, 2, 3, 1000):
        parts = pages(server, path, member, limit, key, **query)
        found = [x for part in parts for x in part]
        equal(len(found), len(set(found)), f"{path} by {limit}: none twice")
        equal([x for x in found if x in set(want)], want, f"{path} by {limit}")
        check(all(len(part) == limit for part in parts[:-1]), f"{path} by {limit}: {[len(part) for part in parts]}")
    for wrong in ("limit=0", "limit=1001", "limit=x", "order=asc", "afte=x"):
        server.refused(400, "invalid", "GET", f"{path}?{wrong}", key=key)


def test_volumes(server):
    names = [f"page{i}" for i in range(N)]
    for name in reversed(names):
        server.want(201, "POST", "/v1/volumes", {"name": name, "size": "16M"})
    look(server, "/v1/volumes", "volumes", names)
    first = server.want(200, "GET", "/v1/volumes?limit=2")
    server.want(204, "DELETE", f"/v1/volumes/{first['next']}")  # the last one that was seen
    rest = server.want(200, "GET", f"/v1/volumes?after={first['next']}")["volumes"]
    equal([v["name"] for v in rest], [n for n in names if n > first["next"]], "what follows it")
    for name in set(names) - {first["next"]}:
        server.want(204, "DELETE", f"/v1/volumes/{name}")


def test_secrets(server):
    names = [f"page.{i}" for i in range(N)]
    for name in reversed(names):
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": "v"})
    look(server, "/v1/secrets", "secrets", names)
    for name in names:
        server.want(204, "DELETE", f"/v1/secrets/{name}")


def test_tenants(server):
    made = {f"page {i}": server.want(201, "POST", "/v1/tenants", {"name": f"page {i}"})["id"] for i in reversed(range(N))}
    look(server, "/v1/tenants", "tenants", sorted(made))
    key = server.want(201, "POST", f"/v1/tenants/{made['page 1']}/keys", {"scopes": ["admin"]})["key"]
    server.refused(403, "forbidden", "GET", "/v1/tenants", key=key)
    server.refused(403, "forbidden", "GET", "/v1/layers", key=key)
    for i in made.values():
        server.want(204, "DELETE", f"/v1/tenants/{i}")


def test_builds(server):
    names = [f"page{i}" for i in range(N)]
    for name in reversed(names):
        server.want(201, "POST", "/v1/builds", {"name": name})
        time.sleep(0.005)  # those of one millisecond have no order
        newest = server.want(201, "POST", "/v1/builds", {"name": name})["id"]
        equal([b["id"] for b in server.want(200, "GET", "/v1/builds")["builds"] if b["name"] == name], [newest], "the newest of a name")
    look(server, "/v1/builds", "builds", names)
    key = server.tenant("builds")[1]
    equal(server.want(200, "GET", "/v1/builds", key=key), {"builds": [], "next": None}, "of another tenant")


def test_snapshots_and_layers(server):
    s = server.create(timeout="1h")["id"]
    made = [server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {"name": f"page{i}"})["name"] for i in range(N)]
    look(server, "/v1/snapshots", "snapshots", made[::-1])
    look(server, "/v1/snapshots", "snapshots", made[::-1], session=s)
    look(server, "/v1/snapshots", "snapshots", made[2:3], name="page2")
    layers = [x["id"] for x in server.want(200, "GET", "/v1/layers")["layers"]]
    check(len(layers) >= N, f"{layers}")
    look(server, "/v1/layers", "layers", layers)
    for path in ("/v1/snapshots", "/v1/layers"):
        server.refused(400, "invalid", "GET", f"{path}?after=x")
    for name in made:
        server.want(204, "DELETE", "/v1/snapshots/" + urllib.parse.quote(name, safe=""))


def test_a_page_has_a_bound_in_bytes(server):
    """Secrets with much metadata: a page ends before its limit, and the rest follows."""
    names = [f"big{i:02}" for i in range(20)]
    for name in names:
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": "v", "metadata": {"k": "m" * 8000}})
    parts = pages(server, "/v1/secrets", "secrets", 1000)
    check(len(parts) > 1, "160 KB in one page")
    equal([x for part in parts for x in part if x in names], names)
    for name in names:
        server.want(204, "DELETE", f"/v1/secrets/{name}")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
