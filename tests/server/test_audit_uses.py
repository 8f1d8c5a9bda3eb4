#!/usr/bin/python3 -B
"""Goal: the first use of a secret and of a port in an hour is in the audit log, with who used it, and the next ones add nothing.
Secrets that cordon-egress puts into requests are in test_hostile_egress.py.

    test_audit_uses.py CORDON [name ...]
"""
from harness import check, equal, run_tests
from test_ports import ANSWERS, serve, through
from test_report import payload


def records(server, ident, kind):
    return [r["record"] for r in server.want(200, "GET", f"/v1/audit?session={ident}&type={kind}&limit=1000")["records"]]


def uses(server, ident):
    return [(r["data"]["name"], r["data"]["as"], r.get("execution", "")) for r in records(server, ident, "secret.used")]


def test_secrets_given(server):
    for name in ("uses-a", "uses-b"):
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": "v-" + name + "-0123456789", "hosts": ["a.example.org"]})
    s = server.create(secrets=[{"name": "uses-a", "as": "env", "env": "A"}, {"name": "uses-b", "as": "broker", "env": "B"}])["id"]
    equal(uses(server, s), [("uses-a", "env", "")], "a placeholder is not used yet")
    runs = [server.run(s, "true", secrets=[{"name": "uses-b", "as": way, **more}]) for way, more in (("env", {"env": "C"}), ("file", {}))]
    plain = server.run(s, "true")
    equal(uses(server, s)[1:], [("uses-b", "env", runs[0]["id"]), ("uses-b", "file", runs[1]["id"])])
    check(plain["id"] not in str(uses(server, s)), "an execution without secrets")
    for record in records(server, s, "secret.used"):
        check("0123456789" not in str(record), f"a value: {record}")
        equal(record["code"], "SEC04")
    server.delete(s)


def test_ports(server):
    s = server.create()["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    box = {"E2b-Sandbox-Id": s, "E2b-Sandbox-Port": "8000"}
    equal(through(server, box)[0], 403)
    equal(through(server, {**box, "E2b-Sandbox-Port": "8001", "X-API-Key": server.key})[0], 502)
    equal(records(server, s, "port.used"), [], "nobody has used a port yet")
    for _ in range(3):
        equal(through(server, {**box, "X-API-Key": server.key})[0], 200)
    url = server.want(200, "POST", f"/v1/sessions/{s}/ports", {"port": 8000})["url"]
    for _ in range(2):
        equal(through(server, {"Host": url.split("/")[2], "X-Cordon-Actor": "ann"})[0], 200)
    found = records(server, s, "port.used")
    equal([(r["data"]["port"], r["data"]["by"]) for r in found], [("8000", "key"), ("8000", "url")])
    me = server.want(200, "GET", "/v1/keys")["keys"]
    check(found[0]["actor"]["key"] in [k["id"] for k in me] and found[0]["actor"]["address"] == "127.0.0.1", found[0])
    equal((found[1]["actor"].get("key"), found[1]["actor"]["address"], "on_behalf" in found[1].get("sealed", {})), (None, "127.0.0.1", True), found[1])
    server.delete(s)
    made = server.want(201, "POST", "/sandboxes", {"templateID": "base"})
    server.ids.add(made["sandboxID"])
    serve(server, made["sandboxID"], ANSWERS, "AF_INET", "127.0.0.1")
    equal(through(server, {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "8000"})[0], 200)
    equal([r["data"]["by"] for r in records(server, made["sandboxID"], "port.used")], ["public"])


def test_the_policy_in_force(server):
    """By its digest, when the session is made and at each change, also of its tenant."""
    s = server.create(network="deny")["id"]
    made = records(server, s, "session.created")[0]["data"]
    server.want(200, "PUT", f"/v1/sessions/{s}/network", {"version": 1, "rules": ["a.example.org"]})
    server.want(200, "PUT", f"/v1/sessions/{s}/network", {"version": 1, "rules": ["b.example.org"]})
    server.want(200, "PUT", f"/v1/sessions/{s}/network", {"version": 1, "rules": ["a.example.org"]})
    hashes = [r["data"]["policy_sha256"] for r in records(server, s, "session.network")]
    equal((len(hashes), len(set(hashes)), hashes[0] == hashes[2]), (3, 2, True), hashes)
    check(all(len(h) == 64 for h in [made["policy_sha256"], *hashes]), hashes)
    t = server.create(network={"version": 1, "rules": ["a.example.org"]})["id"]
    equal(records(server, t, "session.created")[0]["data"]["policy_sha256"], hashes[0], "the same policy from the start")
    for password in ("one", "two"):  # who reads the rest could guess it
        server.want(200, "PUT", f"/v1/sessions/{s}/network", {"version": 1, "proxy": {"address": "p.example.org:1080", "username": "u", "password": password}})
    hashes = [r["data"]["policy_sha256"] for r in records(server, s, "session.network")][3:]
    equal((len(hashes), len(set(hashes))), (2, 1), "a digest without the password of the proxy")
    equal(payload(server.want(200, "GET", f"/v1/sessions/{s}/report"))["policy_sha256"], hashes[1], "the report has the same one")
    server.delete(s)
    server.delete(t)
    ident, key = server.tenant("uses-policy")
    for rules in (["a.example.org"], ["b.example.org"], ["a.example.org"]):
        server.want(200, "PUT", f"/v1/tenants/{ident}/network", {"version": 1, "rules": rules})
    page = server.want(200, "GET", f"/v1/audit?tenant={ident}&type=tenant.network")["records"]
    hashes = [r["record"]["data"]["policy_sha256"] for r in page]
    equal((len(hashes), len(set(hashes)), hashes[0] == hashes[2]), (3, 2, True), hashes)


if __name__ == "__main__":
    run_tests(globals())
