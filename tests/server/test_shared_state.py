#!/usr/bin/python3 -B
"""Goal: what tenants share on this node (doc/shared-state.md) is decided by nothing that is not in its key: layers, caches of builds and
uploads, pools of finished cells. Two tenants for each.

    test_shared_state.py CORDON [name ...]
"""
import hashlib
import json
import os

from harness import check, equal, run_tests, wait_for
from images import Image, archive, member

BUILDS = "/v1/templates/builds"
TAR = {"Content-Type": "application/x-tar"}


def tenants(server, *names):
    """Keys of scope admin and sessions, by name."""
    made = {}
    for name in names:
        tenant = server.want(201, "POST", "/v1/tenants", {"name": name})["id"]
        made[name] = (tenant, server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["sessions", "admin"]})["key"])
    return made


def remove(server, made):
    for tenant, _ in made.values():
        server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def layers_of(server, tenant):
    return {x["id"] for x in server.want(200, "GET", "/v1/layers")["layers"] if x["tenant"] == tenant}


def import_(server, key, name, image, status=201):
    got, _, body = server.request("POST", "/v1/templates?name=" + name, image.layout_tar(), headers=TAR, key=key, raw=True)
    equal(got, status, body)


def finished(server, key, build):
    row = wait_for(lambda: (r := server.want(200, "GET", f"{BUILDS}/{build}", key=key))["status"] in ("ready", "error") and r, 60, "the build")
    equal(row["status"], "ready", row.get("reason"))
    return [e["message"] for e in row["log"]]


def build(server, key, name, steps):
    made = server.want(201, "POST", BUILDS, {"name": name}, key=key)["id"]
    server.want(202, "POST", f"{BUILDS}/{made}/start", {"fromTemplate": "base", "steps": steps}, key=key)
    return finished(server, key, made)


def test_layers_of_private_images(server):
    """The same image of two tenants: each has layers of its own; a digest that another tenant has gives no content."""
    made = tenants(server, "a", "b")
    content = archive(member("etc/secret", b"of tenant a"))
    image = Image([content])
    import_(server, made["a"][1], "one", image)
    mine = layers_of(server, made["a"][0])
    check(mine, "no layer")
    # the digests of a, and nothing of its content: the layer that a has is not taken
    claimed = Image([content])
    stored = claimed.manifest["layers"][0]["digest"]
    del claimed.blobs[stored]
    import_(server, made["b"][1], "stolen", claimed, 400)
    equal(layers_of(server, made["b"][0]), set(), "layers of the second")
    import_(server, made["b"][1], "one", image)
    theirs = layers_of(server, made["b"][0])
    check(theirs and not theirs & mine, f"shared: {theirs & mine}")
    server.want(204, "DELETE", "/v1/templates/one", key=made["a"][1])
    entries = server.want(200, "GET", "/v1/templates/one/files?path=/etc", key=made["b"][1])["entries"]
    check("secret" in [e["name"] for e in entries], f"without the first: {entries}")
    remove(server, made)


def test_cached_steps(server):
    """A step that one tenant has run is run again for another."""
    made = tenants(server, "a", "b")
    steps = [{"type": "RUN", "args": ["date +%s%N >/stamp", "root"]}]
    build(server, made["a"][1], "one", steps)
    again = build(server, made["a"][1], "two", steps)
    check(any(m.startswith("CACHED [builder 1/1]") for m in again), f"not cached for its own tenant: {again}")
    other = build(server, made["b"][1], "one", steps)
    check(not any(m.startswith("CACHED [builder") for m in other), f"of another tenant: {other}")
    stamps = set()
    for name, (_, key) in made.items():
        session = server.create(template="one", key=key)["id"]
        stamps.add(server.run(session, "cat /stamp", key=key)["stdout"])
        server.delete(session, key=key)
    equal(len(stamps), 2, f"stamps {stamps}")
    remove(server, made)


def test_uploaded_archives(server):
    """Two tenants upload different archives under the same hash, which is the client's word."""
    made = tenants(server, "a", "b")
    name = hashlib.sha256(b"the same").hexdigest()
    for tenant, (_, key) in made.items():
        one = server.want(201, "POST", BUILDS, {"name": "copied"}, key=key)
        status, _, link = server.request("GET", f"/templates/{one['template_id']}/files/{name}", key=key)
        equal((status, link["present"]), (201, False), f"before {tenant} uploaded anything")
        server.want(204, "PUT", f"{BUILDS}/{one['id']}/files/{name}", archive(member("f", tenant.encode())), headers=TAR, key=key)
        steps = [{"type": "COPY", "args": ["f", "/f", "root", ""], "filesHash": name}]
        server.want(202, "POST", f"{BUILDS}/{one['id']}/start", {"fromTemplate": "base", "steps": steps}, key=key)
        finished(server, key, one["id"])
    for tenant, (_, key) in made.items():
        session = server.create(template="copied", key=key)["id"]
        equal(server.run(session, "cat /f", key=key)["stdout"], tenant, f"the archive of {tenant}")
        server.delete(session, key=key)
    remove(server, made)


def test_pools(server):
    """Cells that wait belong to one version of one template: another tenant's template of the same name has others."""
    made = tenants(server, "a", "b")
    for tenant, (_, key) in made.items():
        server.want(201, "POST", "/v1/templates", {"name": "waiting", "from": "host", "start_command": f"echo {tenant} >/tmp/started; sleep 1000",
                                                   "ready_command": "test -s /tmp/started"}, key=key)
    for _ in range(3):  # the first makes the pool, others get cells of it
        for tenant, (_, key) in made.items():
            session = server.create(template="waiting", key=key)["id"]
            equal(server.run(session, "cat /tmp/started", key=key)["stdout"], tenant + "\n", f"a session of {tenant}")
            server.delete(session, key=key)
    shown = [t["pool"] for t in server.want(200, "GET", "/v1/templates")["templates"] if t["name"] == "waiting"]
    equal(len(shown), 2, json.dumps(shown))
    check(all(pool["misses"] >= 1 for pool in shown), f"pools: {shown}")
    remove(server, made)


if __name__ == "__main__":
    os.umask(0o022)
    run_tests(globals(), pool_size=1)
