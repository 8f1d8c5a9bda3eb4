#!/usr/bin/python3 -B
"""Goal: the audit log has a record of every event, without gaps, of the one who caused it; its readers see their own log only, and each
reading is a record.

    test_audit.py CORDON [name ...]
"""
import hashlib
import json

from harness import check, equal, run_tests
from streams import Events

CLAIM = {"X-Cordon-Actor": "ann@example.com"}


def tenant(server, name, scopes=("sessions", "admin", "audit")):
    made = server.want(201, "POST", "/v1/tenants", {"name": name})["id"]
    return made, server.want(201, "POST", f"/v1/tenants/{made}/keys", {"name": "k", "scopes": list(scopes)})["key"]


def log(server, query="", key=""):
    return server.want(200, "GET", f"/v1/audit?limit=1000{query}", key=key)


def everything(server, query="", key=""):
    """All records, page by page."""
    found, page = [], log(server, query, key)
    while True:
        found += page["records"]
        if page["next"] is None:
            return found
        page = log(server, f"{query}&after={page['next']}", key)


def types(records):
    return [r["record"]["type"] for r in records]


def check_whole(records):
    """A log from its beginning: numbers without gaps, commitments that match."""
    equal([r["seq"] for r in records], list(range(len(records))), "numbers")
    for r in records:
        leaf = r["record"]
        equal((leaf["v"], leaf["seq"]), (1, r["seq"]))
        equal(sorted(leaf.get("sealed", {})), sorted(r["side"] or {}), leaf)
        for name, one in (r["side"] or {}).items():
            text = b"cordon-field\0" + bytes.fromhex(one["salt"]) + name.encode() + b"\0" + one["value"].encode()
            equal(leaf["sealed"][name], "c:" + hashlib.sha256(text).hexdigest(), f"{name} of {leaf}")


def test_every_event_is_a_record(server):
    mine, key = tenant(server, "events")
    s = server.create(key=key)["id"]
    server.run(s, "exit 3", key=key)
    server.delete(s, key=key)
    server.reaches(s, "ended", key=key)
    events = server.want(200, "GET", "/v1/events?limit=1000", key=key)["events"]
    records = everything(server, key=key)
    check_whole(records)
    events = [e for e in events if e["type"] not in ("execution.output", "file.changed")]
    shared = [r for r in records if r["record"]["type"] in {e["type"] for e in events}]
    equal(len(shared), len(events))
    for event, r in zip(events, shared):
        leaf = r["record"]
        equal((leaf["type"], leaf["time"], leaf["tenant"], leaf.get("session"), leaf.get("execution")),
              (event["type"], event["time"], mine, event["session_id"], event["execution_id"]))
        equal({**leaf.get("data", {}), **event["data"]}, leaf.get("data", {}), "it has the facts of the event")
        actor = leaf["actor"]
        equal((actor["interface"], actor.get("key"), actor.get("request")),
              tuple(event["actor"][m] for m in ("interface", "key_id", "request_id")), leaf)
        equal(actor.get("address"), None if actor["interface"] == "server" else "127.0.0.1", leaf)


def test_times_follow_numbers(server):
    """A record has the time at which it is written, so no time is before that of the record before it."""
    mine, key = tenant(server, "times")
    for _ in range(40):
        s = server.create(key=key)["id"]
        server.run(s, "curl -s http://example.org", key=key)  # refused: the end writes a batch of network records, too
        server.delete(s, key=key)
        server.reaches(s, "ended", key=key)
    records = everything(server, key=key)
    equal(types(records).count("session.ended"), 40)
    times = [r["record"]["time"] for r in records]
    equal([(a, b) for a, b in zip(times, times[1:]) if b < a], [], "times before the one of the record before")


def test_a_claim_is_sealed(server):
    _, key = tenant(server, "claims")
    status, _, made = server.request("POST", "/v1/sessions", {}, key=key, headers=CLAIM)
    equal(status, 201)
    server.delete(made["id"], key=key)
    records = everything(server, key=key)
    created = [r for r in records if r["record"]["type"] == "session.created"]
    equal(len(created), 1)
    equal(created[0]["side"]["on_behalf"]["value"], "ann@example.com")
    check("ann@" not in json.dumps([r["record"] for r in records]), "the claim is in a record")
    check_whole(records)
    for bad in ("", "a" * 129, "a\x7fb", "\x85"):
        status, _, answer = server.request("POST", "/v1/sessions", {}, key=key, headers={"X-Cordon-Actor": bad})
        equal((status, answer["error"]["code"]), (400, "invalid"), repr(bad))


def test_no_client_makes_facts(server):
    """Facts are lines of text inside. No text of a client ends one."""
    mine, key = tenant(server, "forger")
    s = server.create(key=key)["id"]
    path = f"/v1/sessions/{s}/executions"
    server.refused(400, "invalid", "POST", path, {"argv": ["true"], "user": "root\nkind\tservice"}, key=key)
    server.refused(400, "invalid", "GET", "/v1/audit?session=i%0Ahow%09nothing", key=key)
    server.want(201, "POST", f"/v1/tenants/{mine}/keys", {"name": "k\nscopes\tall\nwho\tbob", "scopes": ["read"]})
    made = [r["record"]["data"] for r in everything(server, "&type=key.created", key=key)][-1]
    equal((made["name"], made["scopes"], sorted(made)), ("k?scopes?all?who?bob", "read", ["key_id", "name", "scopes", "tenant_id"]))
    server.want(201, "POST", "/v1/secrets", {"name": "forged", "value": "value-of-a-user-0123456789", "ways": ["env"]}, key=key)
    hidden = server.create(key=key, secrets=[{"name": "forged", "as": "env", "env": "S"}])["id"]
    server.request("POST", f"/v1/sessions/{hidden}/executions", {"argv": ["true"], "user": "value-of-a-user-0123456789"}, key=key)
    check(not any("value-of-a-user" in str(r) for r in everything(server, key=key)), "a secret's value in a record")
    server.delete(s, key=key)
    server.delete(hidden, key=key)


def test_long_paths(server):
    mine, key = tenant(server, "paths")
    s = server.create(key=key)["id"]
    path = "/" + "/".join("a" * 200 for _ in range(8))
    server.request("GET", f"/v1/sessions/{s}/files?path={path}", key=key)
    read = everything(server, "&type=file.read", key=key)[-1]
    equal(read["side"]["path"]["value"], path[:512] + "... sha256:" + hashlib.sha256(path.encode()).hexdigest())
    server.delete(s, key=key)


def test_a_reading_is_a_record(server):
    _, key = tenant(server, "readings")
    equal(types(log(server, key=key)["records"])[-1], "audit.read")
    before = log(server, key=key)["size"]
    page = server.want(200, "GET", "/v1/audit?limit=1", key=key)
    for _ in range(3):  # the pages of one reading
        page = server.want(200, "GET", f"/v1/audit?limit=1&after={page['next']}", key=key)
    equal(page["size"], before + 1)
    last = log(server, "&type=audit.read&session=inobody", key=key)
    equal(last["records"], [])
    read = everything(server, "&type=audit.read", key=key)
    equal(read[-2]["record"]["data"], {"how": "list", "session": "inobody", "type": "audit.read"})


def test_no_reading_hides_behind_another(server):
    _, key = tenant(server, "hidden")
    s = server.create(key=key)["id"]

    log(server, "&session=inobody", key=key)
    for query in ("&after=0", "&after=0", "&session=inobody&after=0", f"&session={s}&after=1", "&type=audit.read&after=2", "&epoch=1&after=3"):
        before = log(server, query, key=key)["size"]  # with its own record
        equal(log(server, query, key=key)["size"], before + 1, query)
    size = log(server, "", key=key)["size"]
    equal(log(server, "&after=0", key=key)["size"], size, "the next page of the same")
    equal(log(server, "&after=7", key=key)["size"], size, "and the one after it")
    equal(log(server, "&after=7", key=key)["size"], size + 1, "the same page again")
    server.delete(s, key=key)


def test_pages_and_filters(server):
    _, key = tenant(server, "pages")
    ids = [server.create(key=key)["id"] for _ in range(2)]
    for s in ids:
        server.delete(s, key=key)
        server.reaches(s, "ended", key=key)
    whole = everything(server, key=key)
    for limit in (1, 3, 7):
        page = server.want(200, "GET", f"/v1/audit?limit={limit}", key=key)
        found = page["records"]
        while page["next"] is not None:
            check(len(page["records"]) <= limit, "too many")
            page = server.want(200, "GET", f"/v1/audit?limit={limit}&after={page['next']}", key=key)
            found += page["records"]
        equal([r for r in found if r["seq"] < len(whole)], whole)
    for s in ids:
        of = everything(server, f"&session={s}", key=key)
        equal(of, [r for r in whole if r["record"].get("session") == s])
        check(types(of)[0] == "session.created", types(of))
    equal(everything(server, "&type=session.created", key=key), [r for r in whole if r["record"]["type"] == "session.created"])
    for query, words in (("type=session.creates", "no such type"), ("proofs=true&type=session.created", "whole log"), ("limit=0", "limit"),
                         ("epoch=0", "epoch"), ("whom=me", "unknown")):
        status, _, answer = server.request("GET", "/v1/audit?" + query, key=key)
        check(status == 400 and words in answer["error"]["message"], f"{query}: {status} {answer}")
    equal(server.request("GET", "/v1/audit?epoch=2", key=key)[0], 404)


def test_logs_are_apart(server):
    one, key = tenant(server, "one")
    two, other = tenant(server, "two")
    s = server.create(key=key)["id"]
    server.delete(s, key=key)
    check(s not in json.dumps(everything(server, key=other)), "a session of another tenant")
    for name in (one, "node", "ten_nobody"):
        equal(server.request("GET", f"/v1/audit?tenant={name}", key=other)[0], 403, name)
        for path in ("checkpoint", "tile/0/000"):
            equal(server.request("GET", f"/v1/audit/{path}?tenant={name}", key=other)[0], 403, name)
    equal(log(server, f"&tenant={two}", key=other)["origin"].split("/")[1], two)
    # the operator reads all, and the tenant sees it
    records = everything(server, f"&tenant={one}")
    check(s in json.dumps(records), "the operator reads the log")
    seen = [r["record"] for r in everything(server, "&type=audit.read", key=key)]
    operator = server.want(200, "GET", "/v1/keys")["keys"][0]["id"]
    check(any(r["actor"].get("key") == operator for r in seen), seen)
    equal(server.request("GET", "/v1/audit?tenant=ten_nobody")[0], 404)
    equal(server.request("GET", f"/v1/audit?tenant={one}&epoch=2")[0], 404)


def test_a_scope_of_its_own(server):
    """Neither admin nor sessions read the log; and only a key with the scope gives it."""
    made, _ = tenant(server, "scopes")
    for scopes in (["read"], ["sessions"], ["admin"], ["read", "sessions", "admin"]):
        key = server.want(201, "POST", f"/v1/tenants/{made}/keys", {"name": "k", "scopes": scopes})["key"]
        answer = server.request("GET", "/v1/audit", key=key)
        equal((answer[0], "audit" in answer[2]["error"]["message"]), (403, True), scopes)
        if "admin" in scopes:
            equal(server.request("POST", "/v1/keys", {"name": "k", "scopes": ["audit"]}, key=key)[0], 403)
    key = server.want(201, "POST", f"/v1/tenants/{made}/keys", {"name": "k", "scopes": ["audit"]})["key"]
    equal(server.request("GET", "/v1/audit", key=key)[0], 200)
    equal(server.request("GET", "/v1/sessions", key=key)[0], 403)


def test_followers(server):
    _, key = tenant(server, "followers")
    with Events(server, "/v1/audit?follow=true", key=key) as stream:
        s = server.create(key=key)["id"]
        first = stream.next()
        equal(first.data["record"]["type"], "session.created")
        equal(int(first.id), first.data["seq"])
    server.delete(s, key=key)
    with Events(server, f"/v1/audit?follow=true&session={s}", after=0, key=key) as stream:
        equal(stream.next().data, first.data)


def lines(server, query="", key=""):
    status, headers, body = server.request("GET", "/v1/audit?proofs=true" + query, key=key)
    equal((status, headers["content-type"]), (200, "application/x-ndjson"))
    return [json.loads(line) for line in body.decode().splitlines()] if isinstance(body, bytes) else body


def test_exports(server):
    mine, key = tenant(server, "exports")
    for _ in range(3):
        server.delete(server.create(key=key)["id"], key=key)
    exported = lines(server, key=key)
    head = exported[0]
    equal((head["cordon_audit"], head["first"]), (1, 0))
    check(head["origin"].startswith("cordon.") and head["origin"].endswith(f"/{mine}/1"), head)
    leaves = [line for line in exported[1:] if "leaf" in line]
    equal([x["index"] for x in leaves], list(range(head["size"])))
    records = everything(server, key=key)
    for x, r in zip(leaves, records):
        equal(json.loads(x["leaf"]), r["record"])
        equal(x.get("side"), r["side"])
        equal(json.dumps(r["record"], separators=(",", ":"), ensure_ascii=False), x["leaf"], "the bytes of the record")


if __name__ == "__main__":
    run_tests(globals())
