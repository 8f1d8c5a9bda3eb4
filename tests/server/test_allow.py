#!/usr/bin/python3 -B
"""Goal: a tenant and a key can be allowed less than the node allows, each narrower than the one above it, and a
tenant can read what it may use and what it uses.

    test_allow.py CORDON [name ...]
"""
import itertools
import os
import sys
from concurrent import futures

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402

KILLS = True  # of cordond
numbers = itertools.count(1)
MIB = 1 << 20


def tenant(server, **limits):
    """Its id and a key with all scopes."""
    i, _ = server.tenant(f"allow{next(numbers)}", **limits)
    made = server.want(201, "POST", f"/v1/tenants/{i}/keys", {"scopes": ["sessions", "admin", "read"]})
    return i, made["key"]


def key(server, maker, **allow):
    made = server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": ["sessions", "admin"], "allow": allow}, key=maker)
    return made["key"]


def refused(server, status, code, k, *words, **spec):
    answer = server.refused(status, code, "POST", "/v1/sessions", spec, *words, key=k)
    return answer


def limits(server, k):
    return server.want(200, "GET", "/v1/limits", key=k)


def test_sizes_of_a_tenant_and_of_a_key(server):
    _, k = tenant(server, allow={"memory": "128M", "pids": 100, "timeout": "1h"})
    s = server.create(key=k)
    equal((s["limits"]["memory_bytes"], s["limits"]["pids"]), (128 * MIB, 100), "defaults are lowered")
    server.delete(s["id"], key=k)
    refused(server, 400, "invalid", k, "memory", "tenant", limits={"memory": "129M"})
    refused(server, 400, "invalid", k, "timeout", "tenant", timeout="2h")
    narrow = key(server, k, memory="64M", cpus=0.5)
    s = server.create(key=narrow)
    equal((s["limits"]["memory_bytes"], s["limits"]["pids"]), (64 * MIB, 100), "the key's, and the tenant's")
    server.delete(s["id"], key=k)
    refused(server, 400, "invalid", narrow, "memory", "key", limits={"memory": "65M"})
    wide = key(server, k, memory="1G")
    refused(server, 400, "invalid", wide, "memory", "tenant", limits={"memory": "129M"})


def test_names(server):
    _, k = tenant(server, allow={"networks": ["pypi", "npm"]})
    server.delete(server.create(key=k, network=["pypi", "npm"])["id"], key=k)
    server.delete(server.create(key=k, network="none")["id"], key=k)
    server.delete(server.create(key=k, network="deny")["id"], key=k)
    refused(server, 403, "forbidden", k, "network internet", "tenant", network="internet")
    one = key(server, k, networks=["npm"])
    refused(server, 403, "forbidden", one, "network pypi", "key", network="pypi")
    s = server.create(key=one, network="npm")
    server.refused(403, "forbidden", "PUT", f"/v1/sessions/{s['id']}/network", "pypi", "key", key=one)
    server.want(200, "PUT", f"/v1/sessions/{s['id']}/network", "deny", key=one)
    server.delete(s["id"], key=one)
    refused(server, 403, "forbidden", key(server, k, templates=["other"]), "template host", "key")
    refused(server, 403, "forbidden", key(server, k, levels=["vm"]), "level", "key")


def test_a_policy_has_no_name_of_less_than_it_permits(server):
    _, k = tenant(server, allow={"networks": ["debian"]})
    s = server.create(key=k, network="debian")
    proxy = {"version": 1, "extends": ["debian"], "proxy": {"address": "evil.example:1080"}}
    for wide in (["deny"] * 24 + ["debian", "internet"], ["deny"] * 25 + ["debian"], proxy):
        refused(server, 403, "forbidden", k, "tenant", network=wide)
        server.refused(403, "forbidden", "PUT", f"/v1/sessions/{s['id']}/network", wide, "tenant", key=k)
    server.delete(s["id"], key=k)


def test_a_refused_update_by_e2b_is_not_stored(server):
    _, k = tenant(server, allow={"networks": ["debian"]})
    s = server.create(key=k, network="debian")
    path = f"/sandboxes/{s['id']}"
    before = server.want(200, "GET", path, key=k).get("network")
    equal(server.request("PUT", path + "/network", {"denyOut": ["0.0.0.0/0"]}, key=k)[0], 403, "refused")
    equal(server.want(200, "GET", path, key=k).get("network"), before, "as before")
    server.delete(s["id"], key=k)


def test_timeouts_stay_within_what_is_allowed(server):
    _, k = tenant(server, allow={"timeout": "10m"})
    short = key(server, k, timeout="5m")
    s = server.create(key=k)
    path = f"/v1/sessions/{s['id']}/timeout"
    server.refused(400, "invalid", "POST", path, {"timeout": "11m"}, "timeout", key=k)
    server.refused(400, "invalid", "POST", path, {"timeout": "6m"}, "timeout", key=short)
    equal(server.want(200, "POST", path, {"timeout": "6m"}, key=k)["timeout_ms"], 360000, "the tenant's own")
    equal(server.request("POST", f"/sandboxes/{s['id']}/timeout", {"timeout": 50000}, key=k)[0], 204, "E2B cuts")
    check(server.get(s["id"], key=k)["timeout_ms"] <= 600000, "to what is allowed")
    equal(server.request("POST", f"/sandboxes/{s['id']}/connect", {"timeout": 50000}, key=k)[0], 400, "asked for more")
    server.delete(s["id"], key=k)


def test_sessions_of_a_key(server):
    _, k = tenant(server)
    two = key(server, k, sessions=2)
    equal(limits(server, two)["allow_key"], {"sessions": 2})
    made = [server.create(key=two)["id"] for _ in range(2)]
    refused(server, 429, "quota_sessions", two, "key's sessions")
    other = server.create(key=k)["id"]  # made with another key: not counted
    server.kill("cordond")
    server.wait_ready()
    refused(server, 429, "quota_sessions", two, "key's sessions")
    server.delete(made[0], key=k)
    wait_for(lambda: server.request("POST", "/v1/sessions", {}, key=two)[0] == 201, 10, "room again")
    refused(server, 429, "quota_sessions", two, "key's sessions")
    server.delete(other, key=k)
    server.delete_all()


def test_creates_of_a_key_in_a_minute(server):
    _, k = tenant(server)
    few = key(server, k, creates_per_minute=3)
    for _ in range(3):
        server.delete(server.create(key=few)["id"], key=few)
    status, headers, body = server.request("POST", "/v1/sessions", {}, key=few)
    equal((status, body["error"]["code"]), (429, "quota_rate"), str(body))
    check(1 <= int(headers["retry-after"]) <= 21, str(headers))
    server.delete(server.create(key=k)["id"], key=k)
    i, _ = tenant(server)
    server.refused(400, "invalid", "PATCH", f"/v1/tenants/{i}", {"allow": {"sessions": 3}}, "allow")


def test_a_waiting_session_of_a_key_is_counted(server):
    """One key at its limit is not in the way of another in the tenant's queue."""
    _, k = tenant(server, max_sessions=1, queue_length=5, queue_timeout="20s")
    one = key(server, k, sessions=1)
    first = server.create(key=k)["id"]
    with futures.ThreadPoolExecutor(3) as pool:
        both = [pool.submit(server.request, "POST", "/v1/sessions", {}, key=one) for _ in range(2)]
        done, waits = futures.wait(both, 10, futures.FIRST_COMPLETED)
        equal([f.result()[0] for f in done], [429], "the one that waits counts")
        other = pool.submit(server.request, "POST", "/v1/sessions", {}, key=k)
        server.delete(first, key=k)
        for later in (*waits, other):
            status, _, body = later.result()
            equal(status, 201, str(body))
            server.delete(body["id"], key=k)


def test_a_limited_key_creates_no_keys(server):
    _, k = tenant(server)
    narrow = key(server, k, pids=100)
    server.refused(403, "forbidden", "POST", "/v1/keys", {"scopes": ["sessions"]}, "limits of its own", key=narrow)


def test_a_limited_key_changes_no_secrets(server):
    """A secret that is bound to other hosts, or has another value, would go with sessions of wider keys, too."""
    _, k = tenant(server)
    wide, narrow = key(server, k), key(server, k, networks=["none"])
    server.want(201, "POST", "/v1/secrets", {"name": "mine", "value": "0123456789"}, key=wide)
    for method, path, body in (
        ("POST", "/v1/secrets", {"name": "more", "value": "0123456789"}),
        ("PUT", "/v1/secrets/mine", {"value": "9876543210"}),
        ("DELETE", "/v1/secrets/mine", None),
    ):
        server.refused(403, "forbidden", method, path, body, "limits of its own", key=narrow)
    server.want(204, "DELETE", "/v1/secrets/mine", key=wide)


def test_a_limited_key_of_the_operator_changes_no_templates(server):
    narrow = key(server, server.key, templates=["host"])
    for method, path, body in (
        ("POST", "/v1/templates", {"name": "host", "root": {"layers": ["other"]}}),
        ("DELETE", "/v1/templates/host", None),
    ):
        server.refused(403, "forbidden", method, path, body, "limits of its own", key=narrow)


def test_a_limited_key_of_the_operator_changes_no_tenants(server):
    i, _ = tenant(server)
    narrow = key(server, server.key, pids=100)
    for method, path, body in (
        ("POST", "/v1/tenants", {"name": "more"}),
        ("PATCH", f"/v1/tenants/{i}", {"max_sessions": 9}),
        ("PUT", f"/v1/tenants/{i}/network", {"version": 1}),
        ("POST", f"/v1/tenants/{i}/keys", {"scopes": ["sessions"]}),
        ("DELETE", f"/v1/tenants/{i}", None),
    ):
        server.refused(403, "forbidden", method, path, body, "limits of its own", key=narrow)
    row = server.want(200, "GET", f"/v1/tenants/{i}", key=narrow)
    equal((row["max_sessions"], row["disabled"]), (0, False), "read, and unchanged")
    check("more" not in [t["name"] for t in server.want(200, "GET", "/v1/tenants")["tenants"]], "a new tenant")


def test_a_key_grants_only_its_own_scopes(server):
    i, k = tenant(server)
    for maker, own in ((k, "/v1/keys"), (server.key, f"/v1/tenants/{i}/keys")):
        admin = server.want(201, "POST", "/v1/keys", {"scopes": ["admin"]}, key=maker)["key"]
        for scope in ("read", "sessions"):
            server.refused(403, "forbidden", "POST", own, {"scopes": [scope, "admin"]}, "scopes", scope, key=admin)
        server.want(201, "POST", own, {"scopes": ["admin"]}, key=admin)
        both = server.want(201, "POST", "/v1/keys", {"scopes": ["admin", "sessions"]}, key=maker)["key"]
        server.want(201, "POST", own, {"scopes": ["read"]}, key=both)  # which sessions includes


def test_a_key_is_not_outlived_by_those_it_creates(server):
    _, k = tenant(server)
    spec = {"scopes": ["admin", "sessions"], "expires_in": "1h"}
    maker = server.want(201, "POST", "/v1/keys", spec, key=k)
    longer = {"scopes": ["sessions"], "expires_in": "2h"}
    server.refused(403, "forbidden", "POST", "/v1/keys", longer, "expires_in", key=maker["key"])
    shorter = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"], "expires_in": "1m"}, key=maker["key"])
    check(shorter["expires_at"] < maker["expires_at"], shorter)
    same = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"]}, key=maker["key"])
    equal(same["expires_at"], maker["expires_at"], "without a time of its own")


def test_the_operator_changes_them(server):
    i, k = tenant(server, allow={"memory": "64M"})
    row = server.want(200, "PATCH", f"/v1/tenants/{i}", {"max_sessions": 7})
    equal(row["allow"], {"memory_bytes": 64 * MIB}, "unchanged by another member")
    row = server.want(200, "PATCH", f"/v1/tenants/{i}", {"allow": {"pids": 50}})
    equal((row["allow"], row["max_sessions"]), ({"pids": 50}, 7), "replaced")
    equal(server.want(200, "PATCH", f"/v1/tenants/{i}", {"allow": {}})["allow"], {}, "all again")
    s = server.create(key=k, limits={"memory": "65M"})
    server.delete(s["id"], key=k)
    for bad in ({"templates": []}, {"templates": ["a b"]}, {"networks": "pypi"}, {"what": 1}, {"networks": ["x" * 300]}):
        server.refused(400, "invalid", "PATCH", f"/v1/tenants/{i}", {"allow": bad}, "allow")


def test_a_tenant_reads_its_limits(server):
    _, k = tenant(server, max_sessions=5, max_memory="2G", max_pids=1000, allow={"memory": "256M"})
    narrow = key(server, k, networks=["pypi"])
    s = server.create(key=k, limits={"pids": 70})
    found = limits(server, narrow)
    equal((found["tenant"]["max_sessions"], found["tenant"]["max_memory_bytes"], found["tenant"]["max_pids"]), (5, 2 << 30, 1000))
    equal((found["allow_tenant"], found["allow_key"]), ({"memory_bytes": 256 * MIB}, {"networks": ["pypi"]}))
    used = found["used"]
    equal((used["sessions"], used["memory_bytes"], used["pids"], used["records"]), (1, 256 * MIB, 70, 1), "used")
    check(found["session"]["memory_bytes"] > 0 and used["record_bytes"] > 0, found)
    server.delete(s["id"], key=k)
    read = server.want(201, "POST", "/v1/keys", {"scopes": ["read"]}, key=k)["key"]
    equal(limits(server, read)["used"]["records"], 1, "with a key that only reads")


def test_they_stay_after_a_restart(server):
    _, k = tenant(server, allow={"memory": "64M"})
    narrow = key(server, k, memory="32M")
    server.restart()
    has(str(refused(server, 400, "invalid", k, "tenant", limits={"memory": "65M"})), "memory", "message")
    s = server.create(key=narrow)
    equal(s["limits"]["memory_bytes"], 32 * MIB)
    server.delete(s["id"], key=narrow)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, session_timeout_max="1d")
