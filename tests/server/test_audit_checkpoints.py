#!/usr/bin/python3 -B
"""Goal: checkpoints of audit logs are signed by cordon-notary, an independent program verifies exports by them, and a store that lost or
changed what was signed is noticed: from a backup, edited, cut, with the tree made again.

    test_audit_checkpoints.py CORDON [name ...]
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import shutil
import tempfile

import audit_log
from audit_log import INCOMPLETE, TAMPERED, checkpoint, edited, export, lines, note, verified
from harness import Server, check, equal, run_tests, wait_for

KILLS = True  # of cordond and cordon-notary


def work(server, n=1):
    """Some records."""
    for _ in range(n):
        session = server.create()["id"]
        server.delete(session)
        server.reaches(session, "ended")


def leaf_hash(leaf):
    return hashlib.sha256(b"\0" + leaf.encode()).digest()


def root(hashes):
    """RFC 6962, as it is written there."""
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while 2 * k < len(hashes):
        k *= 2
    return hashlib.sha256(b"\1" + root(hashes[:k]) + root(hashes[k:])).digest()


def metric(server, name):
    text = server.request("GET", "/metrics")[2].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def test_a_checkpoint_is_the_root_of_the_records(server):
    work(server)
    text = note(server)
    origin, size, base, empty, line, rest = text.split("\n")
    check(line.startswith("\u2014 " + origin.split("/")[0] + " ") and not empty and not rest, text)
    data = export(server)
    exported = lines(data)
    leaves = [x["leaf"] for x in exported if "leaf" in x]
    equal(base64.b64encode(root([leaf_hash(x) for x in leaves[: int(size)]])).decode(), base)
    equal(lines(data)[-1]["checkpoint"].split("\n")[1], str(len(leaves)), "the last checkpoint covers the export")
    verified(data, "--key", exported[0]["vkey"])
    # what it shows of itself
    shown = checkpoint(server)
    equal((shown["origin"], shown["epoch"], shown["alarm"], shown["vkey"]), (origin, 1, None, exported[0]["vkey"]))
    # hashes of the records by the paths of tiles
    status, headers, tile = server.request("GET", f"/v1/audit/tile/0/000.p/{size}")
    equal((status, headers["content-type"], tile), (200, "application/octet-stream", b"".join(leaf_hash(x) for x in leaves[: int(size)])))
    for wrong, want in (("0/000", 404), ("1/000.p/1", 404), ("0/001.p/1", 404), ("0/0", 400), ("9/000", 400), ("0/000.p/0", 400), ("0/000.p/257", 400),
                        ("", 400), ("../../checkpoint", 400)):
        equal(server.request("GET", "/v1/audit/tile/" + wrong)[0], want, wrong)


def test_they_come_by_themselves(server):
    before = checkpoint(server)["size"]
    work(server)
    wait_for(lambda: checkpoint(server)["size"] > before, 40, "a checkpoint")


def test_any_change_is_seen(server):
    data = export(server)
    parts = data.decode().splitlines(keepends=True)
    key = json.loads(parts[0])["vkey"]
    at = next(i for i in range(len(parts) // 2, 0, -1) if '"leaf"' in parts[i] and "session" in parts[i])
    changed = parts[at].replace("session", "sessiom")
    for name, these, want in (("as it is", parts, 0), ("changed", parts[:at] + [changed] + parts[at + 1:], TAMPERED),
                              ("dropped", parts[:at] + parts[at + 1:], TAMPERED), ("doubled", parts[:at] + [parts[at]] + parts[at:], TAMPERED)):
        equal(audit_log.verify("".join(these).encode(), "--key", key)[0], want, name)


def ends_and_begins(server, alarm, before):
    """The log has ended by an alarm, and another one has begun."""
    wait_for(lambda: checkpoint(server)["epoch"] == before["epoch"] + 1, 20, "another log")
    now = checkpoint(server, "fresh=true")
    equal((now["alarm"], now["origin"]), (alarm, before["origin"].rsplit("/", 1)[0] + f"/{before['epoch'] + 1}"))
    records = server.want(200, "GET", "/v1/audit")["records"]
    equal(records[0]["record"]["type"], f"audit.{alarm}")
    equal(int(records[0]["record"]["data"]["epoch"]), before["epoch"])
    check(metric(server, f'cordon_audit_alarms_total{{kind="{alarm}"}}') >= 1, "no metric")
    check(f"alarm={alarm}" in server.log(), "it is not in the log")
    verified(export(server), "--key", now["vkey"])
    # the one before can still be read
    old = server.want(200, "GET", f"/v1/audit?epoch={before['epoch']}&limit=1")
    equal(old["origin"], before["origin"])


def test_a_backup_is_a_rollback(server):
    work(server)
    backup = tempfile.mkdtemp(prefix="cordon-backup-", dir="/var/tmp")
    try:
        checkpoint(server, "fresh=true")
        server.stop()
        audit_log.copy(server, backup)
        server.start()
        work(server, 2)
        before = checkpoint(server, "fresh=true")
        server.stop()
        audit_log.restore(server, backup)
        server.start()
        ends_and_begins(server, "rollback", before)
    finally:
        shutil.rmtree(backup)


def test_an_export_misses_a_record(server):
    """One that the tiles cover already. The export ends there, and so does the log."""
    work(server)
    before = checkpoint(server, "fresh=true")
    server.stop()
    with edited(server) as db:
        log = db.execute("SELECT id FROM audit_log WHERE tenant = ? AND epoch = ?", (before["origin"].split("/")[1], before["epoch"])).fetchone()[0]
        db.execute("DELETE FROM audit WHERE id = ?", ((log << 40) + 2,))
    server.start()
    for query in ("", f"&epoch={before['epoch']}"):  # of the log that goes on, and of the one that has ended
        with contextlib.suppress(http.client.IncompleteRead):
            got = export(server, query)
            check(False, f"an export without a record has an end: {got[-300:]}")
        ends_and_begins(server, "gap", before)


def test_an_edited_store(server):
    """Of one who may write the database, but not cordon-notary's folder."""
    def log_id(db):
        return db.execute("SELECT id FROM audit_log WHERE tenant <> '' ORDER BY tenant, epoch DESC").fetchone()[0]

    def change(db, log, records):
        (number, leaf), = db.execute("SELECT id, leaf FROM audit WHERE id >= ? AND id < ? AND session <> '' ORDER BY id LIMIT 1",
                                     (log << 40, log + 1 << 40)).fetchall()
        db.execute("UPDATE audit SET leaf = ? WHERE id = ?", (leaf.replace(b"session", b"sessiom"), number))

    def again(db, log):
        """Have the tree made of what is there now."""
        db.execute("UPDATE audit_log SET hashed = 0, note_size = 0, note = '' WHERE id = ?", (log,))
        db.execute("DELETE FROM audit_tile WHERE log = ?", (log,))

    def cut(db, log, records):
        db.execute("DELETE FROM audit WHERE id >= ? AND id < ?", ((log << 40) + records - 2, log + 1 << 40))

    def drop_one(db, log, records):
        db.execute("DELETE FROM audit WHERE id = ?", ((log << 40) + records // 2,))

    def forget(db, log, records):
        db.execute("DELETE FROM audit WHERE id >= ? AND id < ?", (log << 40, log + 1 << 40))
        db.execute("DELETE FROM audit_log WHERE id = ?", (log,))
        db.execute("DELETE FROM audit_tile WHERE log = ?", (log,))

    for name, alarm, edit in (("the tail is cut", "gap", cut), ("the tail is cut, and the tree with it", "rollback", lambda *a: (cut(*a), again(*a[:2]))),
                              ("a record is changed, and the tree", "fork", lambda *a: (change(*a), again(*a[:2]))),
                              ("a record is dropped, and the tree", "gap", lambda *a: (drop_one(*a), again(*a[:2])))):
        work(server, 2)
        before = checkpoint(server, "fresh=true")
        server.stop()
        with edited(server) as db:
            edit(db, log_id(db), before["size"])
        server.start()
        try:
            ends_and_begins(server, alarm, before)
        except Exception as e:
            raise type(e)(f"{name}: {e}") from e
    # A changed record alone: the tree is what it was, and the export shows it.
    work(server, 2)
    before = checkpoint(server, "fresh=true")
    server.stop()
    with edited(server) as db:
        change(db, log_id(db), before["size"])
    server.start()
    verified(export(server), "--key", before["vkey"], want=TAMPERED)
    # The log of the tenant as if it had never been: its name is known.
    server.stop()
    with edited(server) as db:
        for (log,) in db.execute("SELECT id FROM audit_log WHERE tenant <> ''").fetchall():
            forget(db, log, 0)
    server.start()
    work(server)
    # So are those that came after it.
    wait_for(lambda: checkpoint(server)["epoch"] == before["epoch"] + 1, 40, "another log")
    equal(checkpoint(server)["alarm"], "rollback")
    wait_for(lambda: server.request("GET", "/v1/audit/checkpoint?fresh=true")[0] == 200, 20, "a checkpoint")


def test_without_the_notary(server):
    """Records go on, checkpoints are late, and an export says that it is not complete."""
    before = checkpoint(server, "fresh=true")
    pid = server.pid("cordon-notary")
    os.kill(pid, 19)  # SIGSTOP
    try:
        work(server)
        status, _, answer = server.request("GET", "/v1/audit/checkpoint?fresh=true")
        check(status in (503, 504), f"{status} {answer}")
        data = export(server)
        verified(data, "--key", before["vkey"], want=INCOMPLETE)
    finally:
        os.kill(pid, 9)
    wait_for(lambda: server.request("GET", "/v1/audit/checkpoint?fresh=true")[0] == 200, 40, "another cordon-notary")
    verified(export(server), "--key", before["vkey"])


def test_the_log_of_the_node(server):
    server.restart()
    records = server.want(200, "GET", "/v1/audit?tenant=node&limit=1000")["records"]
    types = [r["record"]["type"] for r in records]
    check("node.stop" in types and types.count("node.start") >= 2, types)
    started = [r["record"]["data"]["program"] for r in records if r["record"]["type"] == "node.program"]
    check({"cordon-keeper", "cordon-egress", "cordon-storage", "cordon-notary"} <= set(started), started)
    equal([r["seq"] for r in records], list(range(len(records))))
    check("tenant" not in records[0]["record"], records[0])
    verified(export(server, "&tenant=node"))


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms")
