#!/usr/bin/python3 -B
"""Goal: sealed values of the audit log are erased without a trace of their texts, and without harm to any proof. Old records go in whole tiles,
on record, by age, by size and when asked for; what is left is still verified.

    test_audit_changes.py CORDON [name ...]
"""
import os

import audit_log
from audit_log import checkpoint, edited, export, lines, verified
from harness import Server, check, equal, run_tests, wait_for
from rows import database

TILE = 256


def claimed(server, who, n=1, key=""):
    """Records with a claim: (sessions)."""
    made = []
    for _ in range(n):
        status, _, answer = server.request("POST", "/v1/sessions", {}, headers={"X-Cordon-Actor": who}, key=key)
        equal(status, 201, answer)
        server.ids.add(answer["id"])
        server.delete(answer["id"], key=key)
        server.reaches(answer["id"], "ended", key=key)
        made.append(answer["id"])
    return made


def records(server, query=""):
    found, page = [], server.want(200, "GET", "/v1/audit?limit=1000" + query)
    while True:
        found += page["records"]
        if page["next"] is None:
            return found
        page = server.want(200, "GET", f"/v1/audit?limit=1000{query}&after={page['next']}")


def claims(server):
    return [r["side"]["on_behalf"]["value"] for r in records(server) if r["side"] and "on_behalf" in r["side"]]


def in_files(server, text):
    """Is it in the database or its journal?"""
    found = []
    for end in ("", "-wal"):
        with open(os.path.join(server.state, "cordon.db" + end), "rb") as f:
            if text.encode() in f.read():
                found.append("cordon.db" + end)
    return found


def test_erase_by_claim(server):
    claimed(server, "ann-1c95@example.com", 3)
    claimed(server, "bob@example.com")
    check("ann-1c95@example.com" in claims(server), "no claim")
    check(in_files(server, "ann-1c95@example.com"), "the search does not find what is there")
    before = records(server)
    erased = server.want(200, "POST", "/v1/audit/erase", {"on_behalf": "ann-1c95@example.com"})
    check(erased["records"] >= 3, erased)
    equal(set(claims(server)), {"bob@example.com"})
    equal(in_files(server, "ann-1c95@example.com"), [])
    for was, now in zip(before, records(server)):
        equal(was["record"], now["record"], "the record stays")
    verified(export(server), "--key", checkpoint(server)["vkey"])
    last = records(server, "&type=audit.erased")[-1]["record"]
    equal((last["data"]["by"], last["actor"]["interface"]), ("on_behalf", "api"))
    check("ann-1c95" not in str(last), last)


def test_erase_one_and_a_session(server):
    first, second = claimed(server, "carl@example.com", 2)
    of = [r for r in records(server, f"&session={first}") if r["side"]]
    equal(server.want(200, "POST", "/v1/audit/erase", {"seq": of[0]["seq"], "values": ["path"]}), {"records": 0})
    equal(server.want(200, "POST", "/v1/audit/erase", {"seq": of[0]["seq"], "values": ["on_behalf"]}), {"records": 1})
    now = [r for r in records(server, f"&session={first}") if r["seq"] == of[0]["seq"]][0]
    check("on_behalf" not in (now["side"] or {}), now)
    equal(server.want(200, "POST", "/v1/audit/erase", {"seq": of[0]["seq"], "values": ["on_behalf"]}), {"records": 0})
    check(server.want(200, "POST", "/v1/audit/erase", {"session": second})["records"] > 0, "nothing was erased")
    equal([r for r in records(server, f"&session={second}") if r["side"]], [])
    verified(export(server))
    for body in ({}, {"seq": 1, "session": "i"}, {"on_behalf": "a", "values": ["A"]}, {"seq": -1}, {"sessions": "i"}):
        equal(server.request("POST", "/v1/audit/erase", body)[0], 400, body)
    equal(server.request("POST", "/v1/audit/erase", {"seq": 1, "epoch": 7})[0], 404)
    other = server.want(201, "POST", "/v1/tenants", {"name": "other"})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{other}/keys", {"name": "k", "scopes": ["audit", "admin"]})["key"]
    operator = checkpoint(server)["origin"].split("/")[1]
    for path in ("erase", "prune"):
        body = {"session": second} if path == "erase" else {"keep": "0s"}
        equal(server.request("POST", "/v1/audit/" + path, {**body, "tenant": operator}, key=key)[0], 403, path)
        for scopes in (["audit"], ["admin"]):
            less = server.want(201, "POST", f"/v1/tenants/{other}/keys", {"name": "k", "scopes": scopes})["key"]
            equal(server.request("POST", "/v1/audit/" + path, body, key=less)[0], 403, f"{path} with {scopes}")


def test_an_erasure_that_failed_is_repeated(server):
    """Another process reads, so the journal cannot be emptied. Then nothing is left to erase but there."""
    claimed(server, "eve-77ab@example.com")
    with database(server) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM audit").fetchone()
        status, _, answer = server.request("POST", "/v1/audit/erase", {"on_behalf": "eve-77ab@example.com"})
        check(status >= 500, f"{status} {answer}")
    check(in_files(server, "eve-77ab@example.com"), "the journal was emptied")
    equal(server.want(200, "POST", "/v1/audit/erase", {"on_behalf": "eve-77ab@example.com"}), {"records": 0})
    equal(in_files(server, "eve-77ab@example.com"), [])


def test_erase_in_every_epoch(server):
    """Of one who edited the store: that begins another epoch, and the values of the former stay where they were."""
    (session,) = claimed(server, "fay-90cd@example.com")
    before = checkpoint(server, "fresh=true")
    server.stop()
    with edited(server) as db:
        log = db.execute("SELECT id FROM audit_log WHERE tenant = ?", (before["origin"].split("/")[1],)).fetchone()[0]
        db.execute("DELETE FROM audit WHERE id >= ? AND id < ?", ((log << 40) + before["records"] - 1, log + 1 << 40))
    server.start()
    wait_for(lambda: checkpoint(server)["epoch"] == before["epoch"] + 1, 20, "another log")
    claimed(server, "fay-90cd@example.com")
    old = f"&epoch={before['epoch']}"
    check([r for r in records(server, old + f"&session={session}") if r["side"]], "nothing in the former epoch")
    check(server.want(200, "POST", "/v1/audit/erase", {"on_behalf": "fay-90cd@example.com"})["records"] >= 2, "one epoch")
    equal(in_files(server, "fay-90cd@example.com"), [])
    server.want(200, "POST", "/v1/audit/erase", {"session": session})
    equal([r for r in records(server, old + f"&session={session}") if r["side"]], [])


def fill(server, more):
    """Records with a claim, by the cheapest request that makes one."""
    for i in range(more):
        server.want(200, "GET", "/v1/audit?limit=1", headers={"X-Cordon-Actor": "gil@example.com"})


def test_prune(server):
    fill(server, 3 * TILE)
    before = checkpoint(server, "fresh=true")
    equal(server.want(200, "POST", "/v1/audit/prune", {"keep": "1d"}), {"records": 0, "first": 0})
    pruned = server.want(200, "POST", "/v1/audit/prune", {"keep": "0s"})
    first = before["size"] // TILE * TILE
    equal(pruned, {"records": first, "first": first})
    found = records(server)
    equal(found[0]["seq"], first, "the first that is left")
    gone = [r["record"]["data"] for r in found if r["record"]["type"] == "audit.pruned"]
    equal(gone, [{"from": 0, "to": i + TILE, "why": "request"} for i in range(0, first, TILE)])
    exported = export(server)
    equal(sum("tile" in x for x in lines(exported)), first // TILE)
    verified(exported, "--key", before["vkey"])
    # a record that is gone is not there to erase, nor is another one instead of it. The tree grows on
    check(found[0]["side"], "the first that is left has no claim")
    for seq in (0, first - 1):
        equal(server.want(200, "POST", "/v1/audit/erase", {"seq": seq}), {"records": 0})
    equal(records(server)[0]["side"], found[0]["side"], "the first that is left")
    fill(server, TILE)
    server.restart()
    verified(export(server), "--key", before["vkey"])
    for body in ({}, {"keep": "soon"}, {"keep": "1d", "before": 1}):
        equal(server.request("POST", "/v1/audit/prune", body)[0], 400, body)


def test_retention_and_bounds(server):
    """By age, and by the size of the tenant's log and of all logs. The oldest go, whole tiles, each on record."""
    for why, settings in (("audit_retention", {"audit_retention": "1d"}), ("tenant_audit_max", {"tenant_audit_max": "64K"}), ("audit_max", {"audit_max": "64K"})):
        with Server(audit_checkpoint="200ms", **settings) as own:
            fill(own, 2 * TILE)
            vkey = checkpoint(own, "fresh=true")["vkey"]
            if why == "audit_retention":
                equal(records(own)[0]["seq"], 0)
                own.stop()
                with edited(own) as db:  # two days later
                    db.execute("UPDATE audit SET time_ms = time_ms - 2 * 86400000")
                own.start()
            wait_for(lambda: records(own)[0]["seq"] >= TILE, 90, f"{why} to delete records")
            gone = [r["record"]["data"] for r in records(own) if r["record"]["type"] == "audit.pruned"]
            check(gone and {d["why"] for d in gone} == {why}, gone)
            # An export that began before a deletion does not have its record.
            wait_for(lambda: audit_log.verify(export(own), "--key", vkey)[0] == 0, 20, "a good export")


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms")
