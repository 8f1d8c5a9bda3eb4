#!/usr/bin/python3 -B
"""Goal: a request that is repeated with its Idempotency-Key gets what the first one made, and makes nothing: sessions, executions
and snapshots, at the same time, after errors, kills and restarts. And the header Location leads to what a request made.

    test_once.py CORDON [name ...]
"""
import os
import sqlite3
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, short, wait_for
from images import archive, directory, member

SESSIONS = "/v1/sessions"
KILLS = True


def ask(server, path, body=None, once=None, key="", method="POST", **more):
    return server.request(method, path, body if body is not None else {}, {"Idempotency-Key": once} if once else {}, key=key, **more)


def live(server):
    return {s["id"] for s in server.want(200, "GET", SESSIONS)["sessions"]}


def again(got, first):
    status, headers, data = got
    equal((status, headers.get("idempotency-replayed"), data["id"]), (first[0], "true", first[2]["id"]), short(data))
    equal(headers["location"], first[1]["location"])


def test_sessions(server):
    before = live(server)
    first = ask(server, SESSIONS, {"metadata": {"a": "b"}}, "create-1")
    equal((first[0], first[1].get("idempotency-replayed")), (201, None), short(first[2]))
    server.ids.add(first[2]["id"])
    equal(server.want(200, "GET", first[1]["location"])["id"], first[2]["id"], "Location")
    again(ask(server, SESSIONS, {"metadata": {"a": "b"}}, "create-1"), first)
    equal(live(server) - before, {first[2]["id"]})
    status, _, data = ask(server, SESSIONS, {"metadata": {"a": "c"}}, "create-1")
    equal((status, data["error"]["code"]), (409, "conflict"), "another body")
    other = ask(server, SESSIONS, {"metadata": {"a": "b"}}, "create-2")
    check(other[2]["id"] != first[2]["id"], "another key")
    server.delete(other[2]["id"])
    server.delete(first[2]["id"])
    again(ask(server, SESSIONS, {"metadata": {"a": "b"}}, "create-1"), first)  # it has ended, and no other is made
    wait_for(lambda: live(server) <= before, 15, "their end")


def test_keys(server):
    for bad in ("", "a b", "k" * 129, "a\tb"):
        equal(ask(server, SESSIONS, {}, bad)[0] if bad else 400, 400, bad)
    made = ask(server, SESSIONS, {}, "k" * 128)
    equal(made[0], 201)
    server.delete(made[2]["id"])
    id, key = server.tenant("once-other")
    mine, theirs = ask(server, SESSIONS, {}, "same"), ask(server, SESSIONS, {}, "same", key=key)
    check(mine[2]["id"] != theirs[2]["id"], "a key is of a tenant")
    server.delete(mine[2]["id"])
    server.delete(theirs[2]["id"], key=key)


def test_errors_are_not_remembered(server):
    equal(ask(server, SESSIONS, {"template": "no-such"}, "after-error")[0], 404)
    made = ask(server, SESSIONS, {}, "after-error")
    equal((made[0], made[1].get("idempotency-replayed")), (201, None))
    where = f"{SESSIONS}/{made[2]['id']}/executions"
    equal(ask(server, where, {"command": 1}, "bad-command")[0], 400)
    equal(ask(server, where, {"command": "true"}, "bad-command")[0], 202)
    server.delete(made[2]["id"])


def test_at_the_same_time(server):
    before, got = live(server), []
    threads = [threading.Thread(target=lambda: got.append(ask(server, SESSIONS, {}, "together"))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check({s for s, _, _ in got} <= {201, 409}, str([s for s, _, _ in got]))
    ids = {data["id"] for status, _, data in got if status == 201}
    equal(len(ids), 1)
    equal(live(server) - before, ids)
    for status, _, data in got:
        if status == 409:
            has(data["error"]["message"], "no answer yet")
    server.delete(ids.pop())


def test_executions(server):
    session = server.create()["id"]
    where = f"{SESSIONS}/{session}/executions"
    first = ask(server, where, {"command": "echo x >> /tmp/runs"}, "run-1")
    equal((first[0], first[2]["command"]), (202, "echo x >> /tmp/runs"))
    server.ended(first[2])
    again(ask(server, where, {"command": "echo x >> /tmp/runs"}, "run-1"), first)
    equal(server.want(200, "GET", first[1]["location"])["id"], first[2]["id"], "Location")
    got, _, done = ask(server, where + "?wait=true", {"command": "sleep 0.3; echo y >> /tmp/runs; cat /tmp/runs"}, "run-2")
    equal((got, done["stdout"], done["command"][:5]), (200, "x\ny\n", "sleep"))
    status, headers, data = ask(server, where + "?wait=true", {"command": "sleep 0.3; echo y >> /tmp/runs; cat /tmp/runs"}, "run-2")
    check(status in (200, 202) and headers["idempotency-replayed"] == "true" and data["id"] == done["id"], f"{status} {short(data)}")
    equal(server.run(session, "cat /tmp/runs")["stdout"], "x\ny\n", "each ran once")
    equal(ask(server, where, {"command": "true"}, "run-1")[0], 409, "another command")
    other = server.create()["id"]
    equal(ask(server, f"{SESSIONS}/{other}/executions", {"command": "echo x >> /tmp/runs"}, "run-1")[0], 409, "in another session")
    server.delete(other)
    server.delete(session)


def test_the_creator_sees_the_command(server):
    session = server.create()["id"]
    for body, want in (({"command": "echo hi"}, "echo hi"), ({"argv": ["/bin/echo", "a", "b"]}, "/bin/echo a b"),
                       ({"command": "true " + "x" * 8000}, "true " + "x" * 4088 + "...")):
        done = server.run(session, **body) if "command" in body else server.want(200, "POST", f"{SESSIONS}/{session}/executions?wait=true", body)
        equal(done["command"], want)
        equal(server.want(200, "GET", f"{SESSIONS}/{session}/executions/{done['id']}")["command"], None, "the record has its hash only")
    server.delete(session)


def test_snapshots(server):
    session = server.create()["id"]
    where = f"{SESSIONS}/{session}/snapshots"
    first = ask(server, where, {"name": "once-shot"}, "shot-1")
    equal(first[0], 201, short(first[2]))
    again(ask(server, where, {"name": "once-shot"}, "shot-1"), first)
    equal(server.want(200, "GET", first[1]["location"])["id"], first[2]["id"], "Location")
    server.want(204, "DELETE", first[1]["location"])
    second = ask(server, where, {"name": "once-shot"}, "shot-1")
    equal((second[0], second[1].get("idempotency-replayed")), (201, None), "the first one is gone")
    user = server.want(201, "POST", SESSIONS, {"template": second[2]["id"]})["id"]  # keeps what the snapshot was
    server.ids.add(user)
    again(ask(server, where, {"name": "once-shot"}, "shot-1"), second)
    server.want(204, "DELETE", second[1]["location"])
    third = ask(server, where, {"name": "once-shot"}, "shot-1")
    equal((third[0], third[1].get("idempotency-replayed")), (201, None), "the second one is deleted, though a session keeps it")
    equal(server.want(200, "GET", third[1]["location"])["id"], third[2]["id"], "Location")
    server.want(204, "DELETE", third[1]["location"])
    server.delete(user)
    server.delete(session)


def test_kills(server):
    first = ask(server, SESSIONS, {}, "survives")
    run = ask(server, f"{SESSIONS}/{first[2]['id']}/executions", {"command": "echo x >> /tmp/runs"}, "survives-too")
    for end in (lambda: server.kill("cordond"), lambda: server.restart()):
        end()
        server.wait_ready()
        again(ask(server, SESSIONS, {}, "survives"), first)
        again(ask(server, f"{SESSIONS}/{first[2]['id']}/executions", {"command": "echo x >> /tmp/runs"}, "survives-too"), run)
    equal(server.run(first[2]["id"], "cat /tmp/runs")["stdout"], "x\n")
    server.delete(first[2]["id"])


def test_bounds(server):
    """As many keys of the last hour as there may be; older ones do not count."""
    id, key = server.tenant("once-many")
    now = int(time.time() * 1000)

    def add(n, prefix, at):
        with sqlite3.connect(os.path.join(server.state, "cordon.db"), timeout=20) as db:
            db.executemany("INSERT INTO once VALUES (?, ?, ?, 'none', ?)", [(id, f"{prefix}{i}", b"d" * 32, at) for i in range(n)])
        db.close()

    server.stop()
    add(4096, "old", now - 3700000)
    add(4095, "new", now)
    server.start()
    made = ask(server, SESSIONS, {}, "last", key=key)
    equal(made[0], 201, short(made[2]))
    status, _, data = ask(server, SESSIONS, {}, "one-more", key=key)
    equal((status, data["error"]["code"]), (429, "quota_records"))
    server.delete(made[2]["id"], key=key)


def test_locations(server):
    """Of everything else that a POST makes."""
    tar = archive(directory("etc"), member("etc/f", b""))
    for path, body, more in (("/v1/volumes", {"name": "once-v"}, {}), ("/v1/secrets", {"name": "once.s", "value": "value-1"}, {}),
                             ("/v1/tenants", {"name": "once-t"}, {}), ("/v1/builds", {"name": "once-b"}, {}),
                             ("/v1/templates?name=once-t", tar, {"Content-Type": "application/x-tar"})):
        status, headers, data = server.request("POST", path, body, more)
        equal(status, 201, f"{path}: {short(data)}")
        check("location" in headers, f"{path} has no Location: {headers}")
        shown = server.want(200, "GET", headers["location"])
        equal(shown.get("id") or shown.get("name"), data.get("id") or data.get("name"), path)
        check(server.request("DELETE", headers["location"])[0] in (202, 204), headers["location"])
    status, headers, data = server.request("POST", "/v1/keys", {"name": "once-k", "scopes": ["read"]})
    equal((status, headers["location"]), (201, f"/v1/keys/{data['id']}"))
    server.want(204, "DELETE", headers["location"])


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
