#!/usr/bin/python3 -B
"""Goal: packages that only one tenant may read stay with it, whatever the cache holds, in whatever order it was filled,
and whatever another tenant or a session without credentials asks for; and nothing wrong gets into the cache.

    test_tenants.py CORDON [name ...]

Real programs in a small internet; a registry that shows a package only to requests with the right token."""
import hashlib

import registry_answer as faults
from attack_tools import R, asks, internet, npm, packages, session
from checks import check, equal

RULE = {"host": "npm.example", "tls": "terminate", "set_headers": {"Authorization": "Bearer ${secret.registry}"}}
KEYS = {}


def tenant(server, name):
    """A key of the tenant, which has a secret for the registry."""
    if KEYS.get("server") is not server:
        KEYS.clear()
        KEYS["server"] = server
    if name not in KEYS:
        made = server.want(201, "POST", "/v1/tenants", {"name": name})
        KEYS[name] = server.want(201, "POST", f"/v1/tenants/{made['id']}/keys", {"name": "t", "scopes": ["admin", "sessions"]})["key"]
        server.want(201, "POST", "/v1/secrets", {"name": "registry", "value": f"{name}-token", "hosts": ["npm.example"]},
                    key=KEYS[name])
    return KEYS[name]


def member(server, name, secret=True, **packages):
    return session(server, "npm", rules=[RULE] if secret else [{"host": "npm.example", "tls": "terminate"}],
                   key=tenant(server, name), **packages)


def private(name, owner, **more):
    p = next((p for p in R.packages if p.name == name), None) or R.add("npm", name, "1.0.0", token=f"Bearer {owner}-token", pad=5000, **more)
    return f"/{name}", R.path("npm", name, "1.0.0"), R.parts["npm"].data(p).decode("latin-1")


def test_the_owner_and_nobody_else(server):
    meta, path, data = private("secret-a", "aaa")
    a, b, none = member(server, "aaa"), member(server, "bbb"), member(server, "aaa", secret=False)
    for turn in ("first", "again"):
        got = asks(server, a, ("npm.example", meta), ("npm.example", path))
        equal([r.status for r in got], [200, 200], f"the owner, {turn}")
        equal(got[1].body, data, "its bytes")
        for who, s in (("another tenant", b), ("the same tenant without the secret", none)):
            for reply in asks(server, s, ("npm.example", meta), ("npm.example", path), ("npm.example", path + "?x")):
                check(reply.status >= 400 and "1.0.0" not in reply.body and data[:100] not in reply.body,
                      f"{who}, {turn}: {reply}")
    equal(sum(r["downloads"] for r in packages(server, b, name="secret-a")), 0, "what is on record of the other")


def test_the_same_name_of_two_owners(server):
    """Each gets its own bytes, also when both are in the cache."""
    R.add("npm", "common", "1.0.0", token="Bearer aaa-token", pad=3000)
    one = R.packages[-1]
    R.add("npm", "common", "1.0.0", token="Bearer bbb-token", pad=4000)
    two = R.packages[-1]
    path = R.parts["npm"].path(one)
    wanted = {n: R.parts["npm"].data(p).decode("latin-1") for n, p in (("aaa", one), ("bbb", two))}
    check(wanted["aaa"] != wanted["bbb"], "they differ")
    for name in ("aaa", "bbb", "aaa", "bbb"):
        reply = npm(server, member(server, name), path)
        check(reply.whole and reply.body == wanted[name], f"{name}: {reply.status} {len(reply.body)} bytes")


def test_credentials_of_a_program(server):
    """A token in the cell opens what it opens, and for nobody else, not even in the same tenant."""
    meta, path, data = private("secret-own", "aaa")
    s = member(server, "aaa", secret=False)
    token = {"host": "npm.example", "headers": "Authorization: Bearer aaa-token\r\n"}
    got = asks(server, s, {**token, "path": meta}, {**token, "path": path})
    equal([r.status for r in got], [200, 200], "with the token")
    equal(got[1].body, data, "its bytes")
    for other in (s, member(server, "aaa", secret=False), member(server, "bbb", secret=False)):
        for reply in asks(server, other, ("npm.example", meta), ("npm.example", path),
                          {**token, "path": path, "headers": "Authorization: Bearer other\r\n"},
                          {**token, "path": path, "headers": "authorization : Bearer aaa-token\r\n"}):
            check(reply.status >= 400 and data[:100] not in reply.body, f"without it: {reply}")


def test_what_is_stored_is_whole(server):
    """Errors, parts and other methods never become what the next one gets."""
    meta, path, data = private("careful", "aaa")
    a = member(server, "aaa")
    try:
        for fault in (faults.status(500), faults.status(404), faults.partial, faults.cut, faults.last_byte, faults.short,
                      faults.header(Vary="*"), faults.header(Cache_Control="no-store")):
            R.fault(path, fault, times=1)
            asks(server, a, ("npm.example", path))
        asks(server, a, {"host": "npm.example", "path": path, "method": "HEAD"},
             {"host": "npm.example", "path": path, "headers": "Range: bytes=0-9\r\n"},
             {"host": "npm.example", "path": path, "headers": "Range: bytes=5-\r\nIf-Range: \"x\"\r\n"},
             {"host": "npm.example", "path": path, "headers": "If-None-Match: *\r\n"})
    finally:
        R.heal()
    for s in (a, member(server, "aaa")):
        reply = npm(server, s, path)
        check(reply.whole and reply.body == data, f"afterwards: {reply.status} {len(reply.body)} bytes, {reply.end}")
    for name in ("age", "x-cache", "via"):
        check(name not in reply.headers, f"{name} tells of the cache: {reply.headers}")


def test_no_object_by_its_hash(server):
    _, path, data = private("by-hash", "aaa")
    check(npm(server, member(server, "aaa"), path).whole, "stored")
    digest = hashlib.sha256(data.encode("latin-1")).hexdigest()
    b = member(server, "bbb")
    for guess in (f"/objects/sha256/{digest[:2]}/{digest[2:]}", f"/sha256:{digest}", f"/-/blobs/sha256:{digest}",
                  f"/by-hash/SHA256/{digest}", f"{path}#sha256={digest}", f"{path}?sha256={digest}"):
        reply = npm(server, b, guess)
        check(reply.status >= 400 and data[:100] not in reply.body, f"{guess}: {reply}")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
