#!/usr/bin/python3 -B
"""Goal: the operator sees what the package cache holds, empties it, has it checked and fills it; sessions install from
it, with the registry gone; nobody else may ask.

    test_cache_admin.py CORDON [name ...]

Real programs in a small internet, fake registries."""
import glob
import hashlib
import os
import subprocess

from attack_tools import R, asks, internet, npm, recorded, session
import harness  # of tests/server, which internet.py adds to the path
import registry_answer as faults
from checks import check, equal, has, wait_for
from internet_client import sh
from test_warm import NPM, lock, warm

CACHE = "/v1/packages/cache"
KILLS = True  # for harness.py: programs of the server die


def cordon(server, *words, code=0):
    done = subprocess.run([harness.PROGRAM, "packages", "cache", *words, "--server", server.url, "--key-file",
                           server.state + "/first.key"], capture_output=True, text=True, timeout=60, check=False)
    equal(done.returncode, code, f"exit of {words} ({done.stderr})")
    return done.stdout or done.stderr


def entries(server):
    found, after = [], ""
    while True:
        page = server.want(200, "GET", f"{CACHE}/entries{after}")
        found += page["entries"]
        if page["next"] is None:
            return found
        after = f"?after={page['next']}"


def fetched(server, name, **more):
    """A package that one session has got; its path and bytes."""
    p = next((p for p in R.packages if p.name == name), None) or R.add("npm", name, "1.0.0", pad=3000, **more)
    path = R.path("npm", name, "1.0.0")
    check(npm(server, session(server, "npm"), path).whole, f"{name} arrives")
    data = R.parts["npm"].data(p)
    wait_for(lambda: [e for e in entries(server) if e["sha256"] == hashlib.sha256(data).hexdigest()], 10, "it in the cache")
    return path, data


def test_the_second_session_asks_no_registry(server):
    path, data = fetched(server, "kept")
    R.forget()
    s = session(server, "npm")
    reply = npm(server, s, path)
    check(reply.whole and reply.body.encode("latin-1") == data, f"the same bytes: {reply}")
    equal(R.count(path), 0, "requests for the file that the registry saw")
    equal(recorded(server, s, name="kept")["cache"], "hit", "on record")
    equal(server.want(200, "GET", f"/v1/sessions/{s['id']}/metrics")["packages"]["cache_hits"], 1, "counted")


def test_shown_and_emptied(server):
    path, data = fetched(server, "shown")
    entry = next(e for e in entries(server) if e["sha256"] == hashlib.sha256(data).hexdigest())
    equal((entry["scope"], entry["size"]), ("public", len(data)), "an entry")
    has(entry["path"], path, "its path")
    table = cordon(server, "ls").splitlines()
    equal(table[0].split(), ["SCOPE", "ECOSYSTEM", "HOST", "SIZE", "FETCHED", "USED", "WHAT"], "heads")
    rows = [line.split() for line in table[1:-1]]
    check(["public", "npm", "npm.example"] in [r[:3] for r in rows] and path in [r[-1] for r in rows], table)
    equal(rows, sorted(rows, key=lambda r: (r[0], r[1], "/-/" in r[-1], r[-1])), "order")
    check(all(r[4:6] <= r[6:8] for r in rows), f"used after it was fetched: {table}")
    has(table[-1], " objects, ", "the sums")
    stats = server.want(200, "GET", CACHE)
    check(stats["objects"] >= 1 and stats["bytes"] >= len(data) and stats["max_bytes"] > 0, stats)
    has(cordon(server, "gc", code=2), "--to SIZE", "gc without a size, which removes nothing")
    has(cordon(server, "ls"), path, "the table")
    has(cordon(server, "gc", "--to", "0"), "removed", "gc")
    equal((entries(server), server.want(200, "GET", CACHE)["objects"]), ([], 0), "what is left")
    R.forget()
    check(npm(server, session(server, "npm"), path).whole, "fetched again")
    equal(R.count(path), 1, "requests that the registry saw")


def test_metadata_after_gc(server):
    """What cordon-egress holds in memory is written again after gc, and gc reaches what it holds for offline-cache."""
    fetched(server, "gone-meta")
    s, offline = session(server, "npm"), session(server, "npm", mode="offline-cache")
    document = ("npm.example", "/gone-meta")

    def kept():
        return [e for e in entries(server) if e["path"] == document[1]]
    equal(asks(server, s, document)[0].status, 200, "the document")
    wait_for(kept, 10, "the document in the cache")
    equal(asks(server, offline, document)[0].status, 200, "the document, from the cache")
    cordon(server, "gc", "--to", "0")
    equal(kept(), [], "what is left")
    reply = asks(server, offline, document)[0]
    equal(reply.status, 403, "the document after gc")
    has(reply.reason, "gone-meta is not in the package cache, and this session fetches nothing (packages.mode)", "why")
    R.forget()

    def asked():
        equal(asks(server, s, document)[0].status, 200, "the document again")
        return kept()
    wait_for(asked, 10, "the document in the cache again")
    equal(R.count(), 0, "requests that the registry saw")
    equal(asks(server, offline, document)[0].status, 200, "the document, from the cache again")


def test_damage_is_found(server):
    path, data = fetched(server, "damaged")
    digest = hashlib.sha256(data).hexdigest()
    found = glob.glob(f"{server.state}/packages/**/*{digest[8:]}*", recursive=True)
    check(found, f"the object of {digest} below {server.state}/packages")
    with open(found[0], "r+b") as f:
        f.seek(len(data) - 1)
        f.write(bytes([data[-1] ^ 1]))
    held = server.want(200, "GET", CACHE)["bytes"]
    said = server.want(200, "POST", CACHE + "/verify")
    equal((said["damaged"], said["bytes"]), (1, held), "what verify says")
    has(cordon(server, "verify"), "0 were damaged", "and again")
    reply = npm(server, session(server, "npm"), path)
    check(reply.whole and reply.body.encode("latin-1") == data, f"the right bytes: {reply.end}")


def test_damage_that_nobody_looked_for(server):
    """A damaged object is not served as whole."""
    path, data = fetched(server, "rotten")
    digest = hashlib.sha256(data).hexdigest()
    for name in glob.glob(f"{server.state}/packages/**/*{digest[8:]}*", recursive=True):
        with open(name, "r+b") as f:
            f.seek(100)
            f.write(b"hostile")
    reply = npm(server, session(server, "npm"), path)
    check(not reply.whole or reply.body.encode("latin-1") == data, "a damaged object was served")
    reply = npm(server, session(server, "npm"), path)
    check(reply.whole and reply.body.encode("latin-1") == data, f"the next one gets the right one: {reply.status} {reply.end}")


def test_warm_then_offline(server):
    """npm ci and npm install from the cache alone, with the registry gone."""
    files = lock("warm-x", "warm-y")
    has(warm(server, files, "package-lock.json", NPM), "2 packages of", "filled")
    sh(server, session(server, "npm"), "cd /tmp && npm install --no-audit --no-fund --ignore-scripts --registry https://npm.example/ warm-x", 0)
    R.fault("*", faults.status(503))
    R.forget()
    try:
        s = session(server, "npm", mode="offline-cache")
        write = "".join(f"cat > {n} <<'E'\n{text}\nE\n" for n, text in files.items())
        sh(server, s, f"mkdir /tmp/x && cd /tmp/x\n{write}npm ci --no-audit --no-fund --ignore-scripts --registry https://npm.example/ "
           "&& ls node_modules/warm-x/package.json node_modules/warm-y/package.json", 0)
        sh(server, s, "mkdir /tmp/y && cd /tmp/y && npm install --no-audit --no-fund --ignore-scripts "
           "--registry https://npm.example/ warm-x", 0)
        R.add("npm", "cold", "1.0.0")
        reply = asks(server, s, ("npm.example", R.path("npm", "cold", "1.0.0")))[0]
        check(reply.status == 403 and "cache" in reply.reason, f"what the cache does not have: {reply}")
        equal(R.count(), 0, "requests that the registry saw")
    finally:
        R.heal()
    has(warm(server, files, "package-lock.json", NPM), "2 of them were in the cache before", "again")


def unfinished(server):
    folder = server.state + "/packages"
    return [n for at, _, names in os.walk(folder) for n in names if os.path.relpath(at, folder).startswith("tmp")]


def test_a_kill_leaves_nothing_half(server):
    """cordon-cache dies while a file is being stored (test_kills.py has what the session gets)."""
    R.add("npm", "halved", "1.0.0", pad=400000)
    path = R.path("npm", "halved", "1.0.0")
    s = session(server, "npm")
    R.forget()
    R.fault(path, faults.slow(20000, 0.1))
    try:
        server.spawn(s["id"], ["curl", "-s", "-o", "/tmp/x", "https://npm.example" + path])
        wait_for(lambda: R.count(path) and unfinished(server), 20, "a file that is being stored")
        server.restarted("cordon-cache")
    finally:
        R.heal()
    wait_for(lambda: server.request("GET", CACHE)[0] == 200 and not unfinished(server), 20, "the end of what was half")
    equal(server.want(200, "POST", CACHE + "/verify")["damaged"], 0, "damaged objects")


def test_only_the_operator(server):
    tenant = server.want(201, "POST", "/v1/tenants", {"name": "not the operator"})
    key = server.want(201, "POST", f"/v1/tenants/{tenant['id']}/keys", {"name": "k", "scopes": ["admin", "sessions", "read"]})["key"]
    for method, path in (("GET", ""), ("GET", "/entries"), ("GET", "/entries?after=x"), ("POST", "/gc"), ("POST", "/gc?bytes=x"), ("POST", "/verify")):
        equal(server.request(method, CACHE + path, key=key)[0], 403, f"{method} {path}")
    server.refused(400, "invalid", "POST", CACHE + "/gc?bytes=x", None)


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
