#!/usr/bin/python3 -B
"""Goal: records cannot fill the store, lists look at a bounded number of rows, and retention keeps up with what
comes, whenever the server is killed.

    test_records.py CORDON [name ...]
"""
import hashlib
import itertools
import json
import os
import threading
import time

import rows
from harness import Failed, Server, check, equal, note, run_tests, wait_for

KILLS = True  # of cordond, while it deletes
numbers = itertools.count(1)


def pages(server, path, member, key="", most=100):
    """All that a list shows, and how many pages it took."""
    found, after = [], None
    for n in range(1, most + 1):
        url = path + ("&" if "?" in path else "?") + (f"after={after}" if after is not None else "")
        page = server.want(200, "GET", url.rstrip("?&"), key=key)
        found += page[member]
        after = page["next"]
        if after is None:
            return found, n
    raise Failed(f"{path} has more than {most} pages")


def outputs(server):
    return [name for name in os.listdir(os.path.join(server.state, "output")) if name != "removed"]


def all_gone(server):
    tables = ("session", "execution", "sample", "usage_session")
    return rows.number(server, "SELECT " + " + ".join(f"(SELECT count(*) FROM {t})" for t in tables)) == 0


def made(server, sessions, executions):
    """Sessions that have ended, with executions that said something."""
    for _ in range(sessions):
        s = server.create()
        for _ in range(executions):
            server.run(s["id"], "echo said")
        server.delete(s["id"])


def test_retention_keeps_up():
    """More sessions than a minute's worth of any fixed batch are gone a moment after their time."""
    with Server(retention="1s", pool_size=4) as server:
        made(server, 12, 3)
        s = server.create()
        rows_before = rows.number(server, "SELECT count(*) FROM session")
        check(rows_before >= 1, "there was a session")
        server.delete(s["id"])
        server.stop()
        rows.copies(server, "session", "id", 5000, f"id = '{s['id']}'")
        server.start()
        wait_for(lambda: all_gone(server), 30, "the end of all records")
        equal(outputs(server), [], "logs that are left")
        equal(rows.number(server, "SELECT coalesce(sum(rows), 0) + coalesce(sum(bytes), 0) FROM records"), 0,
              "what records are said to take")


def test_those_that_ended_first_go_first():
    """A session that lives long does not keep younger ones, which ended before it, from going."""
    with Server(retention="2s") as server:
        old = server.create()
        young = server.create()
        server.run(young["id"], "echo said")
        server.delete(young["id"])
        wait_for(lambda: rows.number(server, "SELECT count(*) FROM session") == 1, 15, "the younger one's end")
        for part in ("timeline", "resources"):
            server.refused(404, "not_found", "GET", f"/v1/sessions/{young['id']}/{part}")
        equal(server.get(old["id"])["state"], "running", "state of the older one")
        server.delete(old["id"])


def test_killed_while_it_deletes():
    """A session with many executions is deleted in pieces; killed at any moment, the next daemon goes on."""
    with Server(retention="1s") as server:
        s = server.create()
        for _ in range(5):
            server.run(s["id"], "echo said")
        server.delete(s["id"])
        server.stop()
        rows.copies(server, "execution", "id", 20000,
                    f"id = (SELECT max(id) FROM execution WHERE session = '{s['id']}')")
        server.start()
        kills = 0
        while kills < 5 and not all_gone(server):
            server.kill("cordond")
            kills += 1
            server.wait_ready()
        note(f"{kills} kills")
        wait_for(lambda: all_gone(server), 30, "the end of all records")
        equal(outputs(server), [], "logs that are left")


def kept(server, table):
    """How many rows each tenant has."""
    with rows.database(server) as db:
        return dict(db.execute(f"SELECT tenant, count(*) FROM {table} GROUP BY tenant"))


def test_a_tenant_loses_its_own_records_first():
    """What one tenant writes removes its own oldest records, not those of another: at its bound and at the node's."""
    with Server(event_max=3000, tenant_event_max=2000, network_records_max=3000, tenant_network_records_max=2000) as server:
        quiet, quiet_key = server.tenant("quiet")
        noisy, noisy_key = server.tenant("noisy")
        for key in (quiet_key, noisy_key):
            s = server.create(key=key, network="deny")["id"]
            server.run(s, "curl -s http://example.com/; true", key=key)
            server.delete(s, key=key)
        equal(set(kept(server, "net")) >= {quiet, noisy}, True, "both have network records")
        server.stop()
        before = {}
        for table in ("event", "net"):
            rows.copies(server, table, "seq", 900, f"seq = (SELECT max(seq) FROM {table} WHERE tenant = '{quiet}')")
            before[table] = kept(server, table)[quiet]
            rows.copies(server, table, "seq", 20000, f"seq = (SELECT max(seq) FROM {table} WHERE tenant = '{noisy}')")
        server.start()
        for table in ("event", "net"):
            wait_for(lambda t=table: kept(server, t)[noisy] <= 2000, 20, f"the bound of the noisy tenant's {table}")
            equal(kept(server, table)[quiet], before[table], f"{table} of the quiet tenant")
        # Three tenants within their bounds, and the node is beyond its own: the one that has most loses its oldest.
        server.stop()
        third = server_tenant_rows(server, quiet, noisy)
        server.start()
        wait_for(lambda: sum(kept(server, "event").values()) <= 3000, 20, "the node's bound")
        equal(kept(server, "event")[quiet], before["event"] + third, "events of the quiet tenant")


def server_tenant_rows(server, quiet, noisy):
    """More events of both, within each one's bound: how many the quiet one got."""
    rows.copies(server, "event", "seq", 200, f"seq = (SELECT max(seq) FROM event WHERE tenant = '{quiet}')")
    have = kept(server, "event")[noisy]
    rows.copies(server, "event", "seq", 1995 - have, f"seq = (SELECT max(seq) FROM event WHERE tenant = '{noisy}')")
    return 200


def test_events_stay_within_their_bound():
    with Server(event_max=1000) as server:
        s = server.create()
        server.run(s["id"], "true")
        server.stop()
        rows.copies(server, "event", "seq", 20000, "seq = (SELECT max(seq) FROM event)")
        server.start()
        wait_for(lambda: rows.number(server, "SELECT count(*) FROM event") <= 1000, 20, "the bound")
        threads = [threading.Thread(target=lambda: [server.run(s["id"], "true") for _ in range(100)]) for _ in range(4)]
        for t in threads:
            t.start()
        most = 0
        while any(t.is_alive() for t in threads):
            most = max(most, rows.number(server, "SELECT count(*) FROM event"))
        for t in threads:
            t.join()
        check(most <= 1000 + 512, f"there were {most} events while more came")
        server.delete(s["id"])


def test_text_of_a_record_is_cut(server):
    s = server.create()
    line = "true " + "é" * 5000
    x = server.run(s["id"], line, record="text")
    shown = server.want(200, "GET", f"/v1/sessions/{s['id']}/executions/{x['id']}")
    check(len(shown["command"].encode()) <= 4096 and shown["command"].endswith("é..."), shown["command"][-10:])
    check(line.startswith(shown["command"][:-3]), "it is the beginning")
    equal(shown["command_sha256"], hashlib.sha256(line.encode()).hexdigest(), "the hash is of all of it")
    server.delete(s["id"])


def test_records_of_a_tenant_are_bounded():
    """Bytes of records count, those of ended sessions too, until their time is over."""
    with Server(tenant_max_records="64K", retention="3s") as server:
        s = server.create(env={"A": "x" * 8000})
        n = 0
        while True:
            status, _, body = server.request("POST", f"/v1/sessions/{s['id']}/executions?wait=true",
                                             {"command": "true", "record": "text"})
            if status != 200:
                break
            n += 1
        equal((status, body["error"]["code"], body["error"]["fault"]), (429, "quota_records", "user"), "the refusal")
        check(20 < n < 64, f"{n} executions")
        equal(server.request("POST", "/v1/sessions", {})[2]["error"]["code"], "quota_records", "a session, too")
        server.restart()
        server.refused(429, "quota_records", "POST", "/v1/sessions", {})
        server.delete(s["id"])
        again = wait_for(lambda: (lambda a: a[2] if a[0] == 201 else None)(server.request("POST", "/v1/sessions", {})), 30,
                         "room after retention", step=0.2)
        server.ids.add(again["id"])
        server.run(again["id"], "true")
        server.delete(again["id"])


def test_texts_count_for_the_session():
    """Beyond session_output_max the text is left out; the hash stays."""
    with Server(session_output_max="1M") as server:
        s = server.create()
        shown = []
        for _ in range(270):  # of 4 KiB
            shown.append(server.execution(server.run(s["id"], "true " + "x" * 5000, record="text"))["command"] is not None)
        equal(shown.count(True), 256, "texts that were kept")
        check(not shown[-1], "the last was not")
        x = server.run(s["id"], "true " + "x" * 5000, record="text")
        equal(x["command_sha256"], hashlib.sha256(("true " + "x" * 5000).encode()).hexdigest(), "hash")
        server.delete(s["id"])


def test_filters_that_match_nothing():
    """A page ends after so many rows that were looked at, and says where to go on."""
    with Server() as server:
        s = server.create()
        for _ in range(3):
            server.run(s["id"], "true")
        server.delete(s["id"])
        server.stop()
        rows.copies(server, "execution", "id", 50000,
                    f"id = (SELECT max(id) FROM execution WHERE session = '{s['id']}')", created_ms="created_ms + i")
        rows.copies(server, "session", "id", 30000, f"id = '{s['id']}'", created_ms="created_ms - i")
        rows.copies(server, "event", "seq", 50000, f"seq = (SELECT max(seq) FROM event WHERE session = '{s['id']}')")
        server.start()
        found, n = pages(server, f"/v1/sessions/{s['id']}/executions?state=running", "executions")
        equal((found, n), ([], 3), "of 50,003 executions")
        found, n = pages(server, f"/v1/sessions/{s['id']}/executions?limit=1000&order=asc", "executions")
        equal((len({x["id"] for x in found}), n), (50003, 51), "all of them, in pages")
        found, n = pages(server, "/v1/sessions?state=creating", "sessions")
        equal((found, n), ([], 2), "of 30,001 sessions")
        found, n = pages(server, "/v1/sessions?ended=any&template=none", "sessions")
        equal((found, n), ([], 2), "the same by template")
        found, n = pages(server, "/v1/sessions?ended=any&metadata.a=b&limit=1000", "sessions")
        equal((found, n), ([], 2), "the same by metadata")
        check(len(pages(server, f"/v1/sessions/{s['id']}/events?limit=1000", "events")[0]) > 50000, "events")


def test_a_follower_passes_what_its_filter_hides():
    """It looks at 30,000 records that it does not show, and then at new ones only."""
    with Server() as server:
        s = server.create(network={"version": 1, "rules": ["nothing.example"]})
        server.run(s["id"], "curl -s -m 5 http://hidden.example/; true")
        wait_for(lambda: rows.number(server, "SELECT count(*) FROM net") > 0, 10, "a record")
        server.stop()
        rows.copies(server, "net", "seq", 30000, "seq = (SELECT min(seq) FROM net)")
        server.start()
        link = server.link(30)
        link.request("GET", f"/v1/sessions/{s['id']}/network/log?follow=true&after=0&name=wanted.example",
                     headers={"X-API-Key": server.key})
        stream = link.getresponse()
        for n in range(2):
            server.run(s["id"], "curl -s -m 5 http://wanted.example/; true")
            line = b""
            while b"wanted.example" not in line:
                line = stream.readline()
                check(line, f"the stream ended before record {n}")
        link.close()
        server.delete(s["id"])


def test_events_reach_followers_of_their_tenant(server):
    """Two tenants follow; each sees its own sessions, in order and none twice."""
    streams = {}
    for name in ("a", "b"):
        key = server.tenant(f"follow{name}{next(numbers)}")[1]
        link = server.link(30)
        link.request("GET", "/v1/events?follow=true", headers={"X-API-Key": key})
        streams[name] = (key, link, link.getresponse())
    made = {name: [server.create(key=streams[name][0])["id"] for _ in range(3)] for name in ("a", "b")}
    for name, (key, link, stream) in streams.items():
        for i in made[name]:
            server.delete(i, key=key)
        seen, last = [], 0
        while sum(x[1] == "ended" for x in seen) < 3:
            line = stream.readline().decode()
            check(line, f"the stream ended after {seen}")
            if line.startswith("data:"):
                event = json.loads(line[5:])
                check(event["seq"] > last, f"seq {event['seq']} after {last}")
                last = event["seq"]
                seen.append((event["session_id"], event["data"].get("to", event["data"].get("state"))))
        check({x[0] for x in seen} <= set(made[name]) | {None}, f"{name} sees {seen}")
        link.close()


def test_many_lists_at_once(server):
    """Lists of one tenant, more than a turn has room for, are all answered, and a client that leaves is no harm."""
    s = server.create()
    for _ in range(20):
        server.run(s["id"], "true")
    answers = []

    def ask():
        for _ in range(20):
            answers.append(len(server.want(200, "GET", f"/v1/sessions/{s['id']}/executions?limit=7")["executions"]))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for t in threads:
        t.start()
    for _ in range(200):
        link = server.link()
        link.request("GET", f"/v1/sessions/{s['id']}/executions?state=running", headers={"X-API-Key": server.key})
        link.close()
    for t in threads:
        t.join()
    equal(answers, [7] * 320, "rows of each page")
    server.delete(s["id"])


def test_lists_show_what_the_store_could_not_be_told(server):
    """While nothing can be written, a list says of a deleted session what the session itself says."""
    s = server.create()
    with rows.database(server, write=True) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            server.request("DELETE", f"/v1/sessions/{s['id']}")
            wait_for(lambda: server.get(s["id"])["state"] == "ended", 20, "its end")
            listed = {x["id"]: x["state"] for x in server.want(200, "GET", "/v1/sessions?ended=any")["sessions"]}
            equal(listed[s["id"]], "ended", "state in the list")
            running = server.want(200, "GET", "/v1/sessions?state=running")["sessions"]
            check(s["id"] not in [x["id"] for x in running], "it is not among those that run")
        finally:
            db.execute("ROLLBACK")
    wait_for(lambda: rows.number(server, "SELECT ended_ms FROM session WHERE id = ?", s["id"]) > 0, 15, "the store's record")


def test_keys_are_bounded():
    with Server(tenant_max_keys=20) as server:
        tenant = server.tenant("a")[0]
        key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin", "read"]})["key"]
        made_keys = [server.want(201, "POST", "/v1/keys", {"scopes": ["read"]}, key=key) for _ in range(18)]
        server.refused(429, "quota_keys", "POST", "/v1/keys", {"scopes": ["read"]}, key=key)
        found, n = pages(server, "/v1/keys?limit=7", "keys", key=key)
        equal((len({k["id"] for k in found}), n), (20, 3), "keys in pages of 7")
        server.want(204, "DELETE", f"/v1/keys/{made_keys[0]['id']}", key=key)
        server.want(204, "DELETE", f"/v1/keys/{made_keys[0]['id']}", key=key)  # again is fine
        server.want(201, "POST", "/v1/keys", {"scopes": ["read"]}, key=key)
        server.refused(429, "quota_keys", "POST", "/v1/keys", {"scopes": ["read"]}, key=key)
        for _ in range(250):  # beyond the burst
            status, _, body = server.request("POST", "/v1/keys", {"scopes": ["read"]}, key=key)
            if body["error"]["code"] == "quota_rate":
                break
        equal((status, body["error"]["code"]), (429, "quota_rate"), "too fast")
        server.want(204, "DELETE", f"/v1/tenants/{tenant}")
        equal(rows.number(server, "SELECT count(*) FROM key WHERE tenant = ? AND revoked_ms = 0", tenant), 0,
              "keys of a tenant that was removed")


def test_the_key_of_tokens_is_sealed():
    """A copy of the database has no key that makes tokens; one in the clear, of an older version, is wiped."""
    with Server() as server:
        sandbox = server.want(201, "POST", "/sandboxes", {"templateID": "host", "secure": True})
        server.ids.add(sandbox["sandboxID"])
        names = rows.names(server)
        check("e2b.token_key" not in names and "e2b.token_key.sealed" in names, f"names {names}")
        server.stop()
        clear = os.urandom(32).hex()
        with rows.database(server, write=True) as db:
            db.execute("DELETE FROM meta WHERE key = 'e2b.token_key.sealed'")
            db.execute("INSERT INTO meta VALUES ('e2b.token_key', ?)", (clear,))
        server.start()
        names = rows.names(server)
        check("e2b.token_key" not in names and "e2b.token_key.sealed" in names, f"names after the start {names}")
        first = server.want(200, "POST", f"/sandboxes/{sandbox['sandboxID']}/connect", {"timeout": 60})["envdAccessToken"]
        server.restart()
        again = server.want(200, "POST", f"/sandboxes/{sandbox['sandboxID']}/connect", {"timeout": 60})["envdAccessToken"]
        equal(again, first, "the token that the same key makes")
        check(first != sandbox["envdAccessToken"], "it is another key's than before")
        server.stop()
        for name in os.listdir(server.state):
            if name.startswith("cordon.db"):
                with open(os.path.join(server.state, name), "rb") as f:
                    check(clear.encode() not in f.read(), f"the clear key is in {name}")
        server.start()


def test_a_damaged_database():
    """Clients are told, nothing is started again and again, and it serves when the file is right again."""
    with Server() as server:
        server.stop()
        path = os.path.join(server.state, "cordon.db")
        with rows.database(server, write=True) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(path, "rb") as f:
            good = f.read()
        with open(path, "r+b") as f:
            f.seek(4096)
            f.write(os.urandom(len(good) - 4096))
        server.start(ready=False)
        for probe in ("/readyz", "/v1/sessions"):
            status, headers, body = wait_for(lambda p=probe: answer_of(server, p), 15, "an answer")
            equal((status, body["error"]["code"]), (503, "unavailable"), probe)
            check("damaged" in body["error"]["message"] and headers["retry-after"].isdigit(), f"{body} {headers}")
        check("recover" in server.log(), "the log says what to do")
        pid = server.pid("cordond")
        wait_for(lambda: server.pid("keeper"), 15, "a keeper")
        equal(server.pid("cordond"), pid, "the daemon, a moment later")
        with open(path, "r+b") as f:
            f.write(good)
        server.wait_ready(40)
        s = server.create()
        server.delete(s["id"])


def answer_of(server, path):
    try:
        return server.request("GET", path)
    except OSError:
        return None


def test_a_tenant_is_removed_whenever_the_server_is_killed(_):
    """Its sessions end one after the other, its secrets after them: the next daemon goes on."""
    with Server(pool_size=2) as server:
        for pause in (0, 0.01, 0.05):
            tenant, key = server.tenant(f"doomed-{next(numbers)}")
            admin = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin"]})["key"]
            for i in range(3):
                server.want(201, "POST", "/v1/secrets", {"name": f"s{i}", "value": "12345678"}, key=admin)
            sessions = [server.create(key=key)["id"] for _ in range(8)]
            server.want(204, "DELETE", f"/v1/tenants/{tenant}")
            equal(server.request("GET", "/v1/sessions", key=key)[0], 401, "its key, at once")
            equal(server.request("POST", "/v1/sessions", {}, key=key)[0], 401, "another session")
            time.sleep(pause)  # the moment of the kill varies
            pid = server.kill("cordond")
            wait_for(lambda pid=pid: server.pid("cordond") not in (None, pid), 10, "cordond")
            server.wait_ready()
            wait_for(lambda: not any(server.cell_pids(s) for s in sessions), 20, "the end of its processes")
            live = "SELECT count(*) FROM session WHERE tenant = ? AND ended_ms = 0"
            wait_for(lambda: rows.number(server, live, tenant) == 0, 20, "the end of its sessions")
            kept = "SELECT count(*) FROM secret WHERE tenant = ?"
            wait_for(lambda: rows.number(server, kept, tenant) == 0, 20, "the end of its secrets")


if __name__ == "__main__":
    run_tests(globals())
