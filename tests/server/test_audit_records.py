#!/usr/bin/python3 -B
"""Goal: the audit log has every network record of a session in exactly one batch, by the root of a tree that a stranger computes, too, whatever is
killed meanwhile; and `cordon audit records` finds each record that was changed, added or taken away.

    test_audit_records.py CORDON [name ...]
"""
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import time

import harness
from audit_log import verified, export
from harness import Server, check, equal, run_tests, wait_for

KILLS = True  # of cordond
GOOD, CHANGED, INCOMPLETE = 0, 1, 2
ADDRESS, PORT = "10.99.0.1", 8000  # no policy here allows it
ASK = f"""
import socket, sys
for i in range(int(sys.argv[1])):
    try:
        with socket.create_connection(("{ADDRESS}", {PORT}), 5) as s:
            s.sendall(b"GET /%d HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n" % i)
            while s.recv(4096):
                pass
    except OSError:
        pass
"""


def ask(server, session, n):
    return server.run(session["id"], ["python3", "-c", ASK, str(n)])


def root_of(leaves):
    """RFC 6962, as it is written there."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + root_of(leaves[:k]) + root_of(leaves[k:])).digest()


def rows(server, ident):
    """[(record, its bytes)] of all network records of a session."""
    found, after = [], 0
    while after is not None:
        status, _, text = server.request("GET", f"/v1/sessions/{ident}/network/log?limit=1000&after={after}", raw=True)
        equal(status, 200, text)
        text, at = text.decode(), len('{"records":[')
        while text[at] == "{":
            record, end = json.JSONDecoder().raw_decode(text, at)
            found.append((record, text[at:end].encode()))
            at = end + (text[end] == ",")
        after = json.loads(text)["next"]
    return found


def batches(server, ident, kind="network.batch"):
    found, after = [], 0
    while after is not None:
        page = server.want(200, "GET", f"/v1/audit?session={ident}&type={kind}&limit=1000&after={after}")
        found += [r["record"] for r in page["records"]]
        after = page["next"]
    return found


def is_covered(server, ident, want, kind="network.batch"):
    """Every record is in one batch, and the batch has what it says."""
    all_rows = [r for r in rows(server, ident) if (r[0]["kind"] == "package") == (kind == "package.batch")]
    got, last = [], 0
    for b in batches(server, ident, kind):
        data = b["data"]
        inside = [text for record, text in all_rows if data["first_seq"] <= record["seq"] <= data["last_seq"]]
        equal((len(inside), root_of(inside).hex()), (data["records"], data["root"]), str(data))
        check(last <= data["after_seq"] < data["first_seq"] <= data["last_seq"], f"{data} after {last}")
        last = data["last_seq"]
        got += inside
    equal(got, [text for _, text in all_rows], "records of all batches")
    check(len(got) >= want, f"{len(got)} records, want {want}")
    equal((b["actor"], b["session"], data["lost_before"]), ({"interface": "server"}, ident, 0))
    return len(got)


def compare(server, ident, want=GOOD, key=""):
    done = subprocess.run([harness.PROGRAM, "audit", "records", ident, "--json", "--server", server.url], capture_output=True, timeout=120,
                          env={**os.environ, "CORDON_API_KEY": key or server.key}, check=False)
    equal(done.returncode, want, (done.stdout + done.stderr).decode())
    return json.loads(done.stdout)


def ended(server, session):
    server.delete(session["id"])
    server.reaches(session["id"], "ended")


def test_while_it_runs(server):
    s = server.create()
    ask(server, s, 3)
    wait_for(lambda: batches(server, s["id"]), 30, "a batch of a session that runs")
    wait_for(lambda: compare(server, s["id"])["waiting"] == 0, 30, "no record without its batch")
    is_covered(server, s["id"], 3)
    ask(server, s, 2)
    ended(server, s)
    n = is_covered(server, s["id"], 5)
    found = compare(server, s["id"])
    equal((found["verdict"], found["records"], found["matched"], found["missing"]), ("good", n, n, 0))
    order = [r["record"]["type"] for r in server.want(200, "GET", f"/v1/audit?session={s['id']}&limit=1000")["records"]]
    equal(order[-1], "session.ended", "the last batch comes before the end")
    verified(export(server))


def test_none(server):
    s = server.create(network="none")
    ended(server, s)
    equal(batches(server, s["id"]), [])
    equal(compare(server, s["id"])["batches"], 0)


def test_who_may(server):
    s = server.create()
    ask(server, s, 1)
    ended(server, s)
    _, key = server.tenant("other-records")
    for words in (["records"], ["records", "a", "b"]):
        done = subprocess.run([harness.PROGRAM, "audit", *words, "--server", server.url], capture_output=True, timeout=60,
                              env={**os.environ, "CORDON_API_KEY": server.key}, check=False)
        equal(done.returncode, 2, done.stderr)
    done = subprocess.run([harness.PROGRAM, "audit", "records", s["id"], "--server", server.url], capture_output=True, timeout=60,
                          env={**os.environ, "CORDON_API_KEY": key}, check=False)
    check(done.returncode not in (GOOD, CHANGED), done.stdout)


def edit(server, sql, *values):
    server.stop()
    db = sqlite3.connect(os.path.join(server.state, "cordon.db"))
    with db:
        n = db.execute(sql, values).rowcount
    db.close()
    server.start()
    return n


def test_packages_and_an_upgrade(_):
    """Records of packages have batches of their own. Rows from before the first batch are told, and are no change."""
    with Server(audit_checkpoint="10m") as server:
        s = server.create()
        ask(server, s, 3)
        first = rows(server, s["id"])[0][0]["seq"]
        copy = ("INSERT INTO net (tenant, session, time_ms, kind, allowed, name, data, execution) SELECT tenant, session, time_ms, 'package', allowed, "
                "name, replace(replace(data, '\"kind\":\"connect\"', '\"kind\":\"package\"'), '\"kind\":\"request\"', '\"kind\":\"package\"'), execution"
                " FROM net WHERE session = ?")
        check(edit(server, copy, s["id"]) >= 3, "rows of packages")
        ask(server, s, 1)
        edit(server, "UPDATE session SET net_batched = ? WHERE id = ?", first, s["id"])  # as after the step of the schema
        ask(server, s, 1)
        ended(server, s)
        is_covered(server, s["id"], 3, "package.batch")
        equal(len(batches(server, s["id"])), 1)
        found = compare(server, s["id"], INCOMPLETE)
        equal((found["before"], found["missing"], found["error"]), (1, 0, "records from before the first batch"))


def test_changed(_):
    with Server(audit_checkpoint="10m") as server:
        s = server.create()
        ask(server, s, 1500)  # more than one batch takes
        ended(server, s)
        is_covered(server, s["id"], 1500)
        check(len(batches(server, s["id"])) > 1, "one batch has all")
        n = compare(server, s["id"])["records"]
        all_rows = [r for r, _ in rows(server, s["id"])]
        seq = all_rows[700]["seq"]
        one = "DELETE FROM net WHERE seq = ?"
        equal(edit(server, "UPDATE net SET data = replace(data, '\"deny\"', '\"allow\"') WHERE seq = ?", seq), 1)
        found = compare(server, s["id"], CHANGED)
        equal(found["first_bad"], batches(server, s["id"])[0]["data"]["first_seq"])
        equal(edit(server, "UPDATE net SET data = replace(data, '\"allow\"', '\"deny\"') WHERE seq = ?", seq), 1)
        compare(server, s["id"])
        edit(server, "INSERT INTO net (tenant, session, time_ms, kind, allowed, name, data, execution) SELECT tenant, session, time_ms, kind, allowed, "
             "name, data, execution FROM net WHERE seq = ?", seq)
        equal(compare(server, s["id"], CHANGED)["error"], "a record behind the last batch")
        edit(server, "DELETE FROM net WHERE seq = (SELECT max(seq) FROM net WHERE session = ?)", s["id"])
        compare(server, s["id"])
        equal(edit(server, one, seq), 1)
        found = compare(server, s["id"], INCOMPLETE)
        equal((found["missing"], found["records"]), (1, n - 1))


def test_kills(_):
    """Killed at any moment: no record is in two batches, and none is in no batch."""
    with Server(audit_checkpoint="200ms") as server:
        s = server.create(network={"version": 1, "rules": ["origin.test"]})
        for _ in range(8):
            x = server.spawn(s["id"], ["python3", "-c", ASK, "400"])
            began = len(rows(server, s["id"]))
            wait_for(lambda: len(rows(server, s["id"])) > began + 20, 30, "records")  # noqa: B023
            time.sleep(0.01 * (os.getpid() % 7))  # anywhere in it
            server.restarted("cordond")
            server.ended(x, 60)
        ended(server, s)
        is_covered(server, s["id"], 160)
        compare(server, s["id"])
        verified(export(server))


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms")
