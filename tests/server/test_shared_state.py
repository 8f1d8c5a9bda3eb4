#!/usr/bin/python3 -B
"""Goal: what tenants share on this node (doc/security/shared-state.md) is decided by nothing that is not in its key: layers, caches of builds and
uploads, pools of finished cells. Two tenants for each.

    test_shared_state.py CORDON [name ...]
"""
import hashlib
import json
import os
import pathlib
import re

from harness import check, equal, run_tests, wait_for
from images import Image, archive, directory, member

BUILDS = "/v1/builds"
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


def runnable(megabytes):
    """An image with a shell, of so much that cannot be packed."""
    with open("/bin/busybox", "rb") as file:
        shell = file.read()
    return Image([archive(directory("bin"), directory("tmp", mode=0o1777), directory("etc"), member("bin/sh", shell, mode=0o755),
                          member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"), member("etc/group", b"root:x:0:\n"),
                          member("large", os.urandom(1 << 20) * megabytes))])


def stored(server, key):
    return server.want(200, "GET", "/v1/limits", key=key)["used"]["stored_bytes"]


def removed_while_used(server, a, b, memory, own):
    """Tenant a removes its public template while a session of b has it, and perhaps one of its own. Returns the latter, and the size of both."""
    import_(server, a[1], "pub", runnable(16))
    size = stored(server, a[1])
    server.want(200, "PATCH", f"/v1/tenants/{a[0]}", {"max_stored": size})
    server.want(200, "PATCH", "/v1/templates/pub", {"public": True}, key=a[1])
    theirs = server.create(key=b[1], template=f"{a[0]}/pub", timeout="1h")["id"]
    equal(server.run(theirs, "echo kept >/tmp/f", key=b[1])["exit_code"], 0)
    server.want(200, "POST", f"/v1/sessions/{theirs}/pause", {"memory": memory}, key=b[1])
    mine = server.create(key=a[1], template="pub")["id"] if own else None
    server.want(204, "DELETE", "/v1/templates/pub", key=a[1])
    return theirs, mine, size


def paid_by_the_user(server, a, b, theirs, size):
    """All of a's room is its own, and b pays until its session is deleted."""
    wait_for(lambda: stored(server, a[1]) == 0, 15, "its owner pays no more")
    check(stored(server, b[1]) >= size, "the tenant of the session pays")
    import_(server, a[1], "again", runnable(16))
    equal(server.run(theirs, "read x </tmp/f; echo $x", key=b[1])["stdout"], "kept\n")
    server.delete(theirs, key=b[1])
    wait_for(lambda: stored(server, b[1]) == 0, 20, "nothing is left")


def test_a_removed_public_template_counts_for_who_uses_it(server):
    made = tenants(server, "a", "b")
    theirs, _, size = removed_while_used(server, made["a"], made["b"], False, False)
    paid_by_the_user(server, made["a"], made["b"], theirs, size)
    remove(server, made)


def test_a_removed_public_template_counts_for_its_owner_as_long_as_it_uses_it(server):
    made = tenants(server, "a", "b")
    theirs, mine, size = removed_while_used(server, made["a"], made["b"], True, True)
    equal((stored(server, made["a"][1]), stored(server, made["b"][1])), (size, 0))
    import_(server, made["a"][1], "again", runnable(16), 429)
    server.delete(mine, key=made["a"][1])
    paid_by_the_user(server, made["a"], made["b"], theirs, size)
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


def test_merged_policies(server):
    """Two tenants whose sessions have the same document, and layers of their own: each sees what its own layer makes of it, again and again."""
    made = tenants(server, "a", "b")
    for name, (tenant, _) in made.items():
        server.want(200, "PUT", f"/v1/tenants/{tenant}/network", {"version": 1, "rules": [{"host": f"of-{name}.example"}]})
    sessions = {name: server.create(key=key, network={"version": 1, "rules": [{"host": "own.example"}]})["id"] for name, (_, key) in made.items()}
    for _ in range(3):
        for name, (_, key) in made.items():
            seen = json.dumps(server.want(200, "GET", f"/v1/sessions/{sessions[name]}/network?effective=true", key=key)["effective"])
            other = "b" if name == "a" else "a"
            check(f"of-{name}.example" in seen and f"of-{other}.example" not in seen and "own.example" in seen, f"{name}: {seen}")
    for name, (_, key) in made.items():
        server.delete(sessions[name], key=key)
    remove(server, made)


TESTS = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = TESTS.parent / "doc" / "security" / "shared-state.md"


def test_every_row_names_tests_that_exist(_):
    rows = [line.split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if len(row) != 2 and row[0] != "| thing"]  # the scopes have two columns
    check(len(rows) >= 17 and all(len(row) == 5 for row in rows), f"{[len(r) for r in rows]} columns")
    for row in rows:
        named = re.findall(r"`([\w/]+\.(?:py|c)) (\w+)`", row[4])
        check(named and re.sub(r"`[^`]*`", "", row[4]).strip(" ,|") == "", f"no tests by FILE NAME: {row[0]}: {row[4]}")
        for file, name in named:
            text = (TESTS / file).read_text() if (TESTS / file).exists() else ""
            found = f"def test_{name}(" in text if file.endswith(".py") else re.search(rf"\b{name}\b.*\}}", text[text.find("TEST_MAIN"):])
            check(found, f"{file} has no test {name}")


if __name__ == "__main__":
    os.umask(0o022)
    run_tests(globals(), pool_size=1)
