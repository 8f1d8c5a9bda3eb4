#!/usr/bin/python3 -B
"""Goal: who signs an audit log. Witnesses' signatures are stored with the checkpoint that they are of, and nothing else is. A new key comes
to every log, both verifiers go over to it, and programs that are killed on the way change nothing of that.

    test_audit_keys.py CORDON [name ...]
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import audit_log
import harness
from harness import Server, check, equal, has, run_tests, wait_for

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "audit"))
from audit_world import Signer, verify  # noqa: E402
from witness import Witness  # noqa: E402

KILLS = True  # of cordond and cordon-notary
COSIGN = "/v1/audit/cosignature"
DICE = random.Random(int(os.environ.get("CORDON_TEST_SEED", "7")))


def cordon(server, *words, key=""):
    done = subprocess.run([harness.PROGRAM, "audit", words[0], "--server", server.url, *words[1:]], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"CORDON_API_KEY": key or server.key})
    return done.returncode, done.stdout + done.stderr


def work(server, key=""):
    session = server.create(key=key)["id"]
    server.delete(session, key=key)


def both(server, *words, query="", want=0):
    """Both verifiers over one export. Gives its lines."""
    data = audit_log.export(server, query)
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        code, said = cordon(server, "verify", *words, f.name)
    equal((code, audit_log.verify(data, *words)[0]), (want, want), said)
    return audit_log.lines(data)


def notes(exported):
    return [verify.Note(x["checkpoint"]) for x in exported if "checkpoint" in x]


def send(server, text, query="", key="", kind="text/plain"):
    return server.request("POST", COSIGN + query, text.encode(), headers={"Content-Type": kind}, key=key)


def refused(server, status, text, *parts, **more):
    got, _, answer = send(server, text, **more)
    equal(got, status, f"{text[-200:]!r} {answer}")
    for part in parts:
        has(answer["error"]["message"], part, "message")


def split(note):
    """The text that is signed, with its newline, and the lines."""
    text, _, lines = note.partition("\n\n")
    return text + "\n", lines


ONE, TWO = Signer("witness.example/one", 4), Signer("witness.example/two", 4)


# ---- the folder of cordon-notary


def as_cordond(server, *words):
    """The exit status of a program with cordond's user."""
    with open(f"/proc/{server.pid('cordond')}/status") as f:
        ids = {line.split()[0]: int(line.split()[1]) for line in f if line[:4] in ("Uid:", "Gid:")}
    return subprocess.run(words, user=ids["Uid:"], group=ids["Gid:"], extra_groups=[], capture_output=True).returncode


def test_cordond_cannot_move_the_folder(server):
    folder = server.state + "-notary"
    check(os.path.exists(f"{folder}/keys") and not os.path.exists(f"{server.state}/notary"), "where the keys are")
    equal(as_cordond(server, "mv", f"{server.state}/cordon.db", f"{server.state}/other.db"), 0, "it may move its own files")
    equal(as_cordond(server, "mv", f"{server.state}/other.db", f"{server.state}/cordon.db"), 0)
    check(as_cordond(server, "mv", folder, f"{server.state}/notary") != 0 and as_cordond(server, "mv", folder, folder + ".old") != 0, "it was moved")
    check(as_cordond(server, "ls", folder) != 0, "it can be read")
    check("could move the folder" not in server.log(), "a warning")


def test_a_folder_of_before_is_taken_along(server):
    """It was in the state folder, where cordond's user could move it."""
    work(server)
    before = audit_log.checkpoint(server, "fresh=true")
    server.stop()
    os.rename(server.state + "-notary", server.state + "/notary")
    server.start()
    check(os.path.exists(server.state + "-notary/keys") and not os.path.exists(server.state + "/notary"), "where the keys are")
    wait_for(lambda: server.request("GET", "/v1/audit/checkpoint?fresh=true")[0] == 200, 20, "a checkpoint")
    now = audit_log.checkpoint(server)
    equal((now["origin"], now["vkey"]), (before["origin"], before["vkey"]))
    both(server, "--key", before["vkey"])
    with Server(notary_dir=server.folder + "/apart") as other:
        other.wait_ready()
        wait_for(lambda: os.path.exists(server.folder + "/apart/keys"), 20, "keys where the setting says")
        check("could move the folder" not in other.log(), "a warning")
    with Server() as other:
        other.stop()
        other.settings["notary_dir"] = other.state + "/inside"
        other.start()
        has(other.log(), "could move the folder of cordon-notary")


# ---- witnesses


def test_a_witness_needs_no_file(server):
    work(server)
    head = audit_log.checkpoint(server, "fresh=true")
    equal(server.request("GET", "/v1/audit/checkpoint?cosigned=true")[0], 404, "before")
    with Witness("witness.example/run", {head["origin"]: head["vkey"]}) as one:
        for _ in range(3):
            code, said = cordon(server, "witness", one.url, one.signer.vkey)
            equal(code, 0, said)
            kept = verify.Note(audit_log.note(server, "cosigned=true"))
            check(kept.signed_by(verify.Key(one.signer.vkey)) and kept.signed_by(verify.Key(head["vkey"])) is True, "signatures of what is kept")
            equal(kept.size, one.seen[head["origin"]][0])
            work(server)
            # It is in exports long after the last checkpoint is another one, and over a restart.
            exported = both(server, "--key", head["vkey"], "--witness", one.signer.vkey)
            equal([n.size for n in notes(exported)][0], kept.size)
            check(notes(exported)[-1].size > kept.size, "the last checkpoint is later")
            equal(cordon(server, "verify", "--key", head["vkey"], "--witness", TWO.vkey)[0], 2, "another witness")
        server.restart()
        both(server, "--key", head["vkey"], "--witness", one.signer.vkey)
        equal(audit_log.checkpoint(server)["cosigned"], audit_log.note(server, "cosigned=true"))
        # The checkpoint that the witness saw, when the log has grown: its own signature is sent along.
        note = audit_log.note(server)
        work(server)
        audit_log.note(server)
        text, own = split(note)
        equal(send(server, f"{text}\n{own}{ONE.line(text)}")[0], 200, "an earlier checkpoint")
        refused(server, 400, f"{text.replace(text, split(audit_log.note(server))[0])}\n", "signed note")
        found = [r["record"] for r in server.want(200, "GET", "/v1/audit?type=audit.cosigned&limit=100")["records"]]
        equal(found[-1]["data"]["witnesses"], ONE.name)
        check(found[-1]["actor"]["key"] and len(found) == 4, found)


def test_only_what_the_log_signed(server):
    work(server)
    note = audit_log.note(server)
    text, own = split(note)
    old = audit_log.checkpoint(server)["cosigned"]
    origin, size, root = text.splitlines()
    for bad, status, words in (
            ("", 400, ""), ("x", 400, ""), (text, 400, ""), (f"{text}\n", 400, ""), (f"{text}\n{own}", 400, "no line of a witness"),
            (f"{text}\n{ONE.line(text)}{ONE.line(text, 1700000000)}", 400, "two signature lines"),
            (f"{text}\n{ONE.line(text)}x\n", 400, "signature line"), (f"{text}\n{ONE.line(text)[:-1]}", 400, ""), (f"{text}\n{ONE.line(text)}\n", 400, ""),
            (f"{text}\n{Signer('a.b', 1).line(text)}", 400, "cosignature/v1"), (f"{text}more\n\n{ONE.line(text)}", 400, "unknown lines"),
            (f"{text}\n" + "".join(Signer(f"w.{i}", 4).line(text) for i in range(33)), 429, "more than 32"), (f"{text}\n{ONE.line(text)}" + "y" * 16384, 413, "")):
        got, _, answer = send(server, bad)
        equal(got, status, f"{bad[-120:]!r}: {answer}")
        has(str(answer), words, bad[-120:])
    other = verify.base64.b64encode(bytes(32)).decode()
    for bad, status in ((f"{origin}\n{int(size) + 100000}\n{root}\n", 400), (f"{origin}\n0\n{root}\n", 400), (f"{origin}\n{size}\n{other}\n", 409),
                        (f"{origin}\n{int(size) - 1}\n{root}\n", 409), (f"{origin[:-1]}2\n{size}\n{root}\n", 404), (f"{origin}0\n{size}\n{root}\n", 404),
                        (f"{origin.replace('ten_', 'tex_')}\n{size}\n{root}\n", 404), (f"{origin}/x\n{size}\n{root}\n", 404), (f"x\n{size}\n{root}\n", 404)):
        refused(server, status, f"{bad}\n{ONE.line(bad)}")
    # An earlier size, whose root is right: only with the log's signature.
    work(server)
    audit_log.note(server)
    refused(server, 400, f"{text}\n{ONE.line(text)}", "no good signature")
    forged = Signer(origin.split("/")[0])
    refused(server, 400, f"{text}\n{forged.line(text)}{ONE.line(text)}", "no good signature")
    refused(server, 400, f"{text}\n{own[:-12]}AAAAAAAAAA=\n{ONE.line(text)}")
    equal(audit_log.checkpoint(server)["cosigned"], old, "nothing was stored")
    # Types of bodies that browsers send by themselves are no way around the key.
    equal(send(server, f"{text}\n{own}{ONE.line(text)}", kind="application/json")[0], 415)


def test_lines_of_several_witnesses(server):
    note = audit_log.note(server)
    text, own = split(note)
    size = int(text.splitlines()[1])
    equal(send(server, f"{text}\n{own}{ONE.line(text)}")[2], {"origin": text.splitlines()[0], "size": size, "cosignatures": 1})
    count = len(server.want(200, "GET", "/v1/audit?type=audit.cosigned&limit=1000")["records"])
    equal(send(server, f"{text}\n{ONE.line(text)}")[2]["cosignatures"], 1, "the same again")
    equal(len(server.want(200, "GET", "/v1/audit?type=audit.cosigned&limit=1000")["records"]), count, "is nothing new")
    equal(send(server, f"{text}\n{TWO.line(text)}")[2]["cosignatures"], 2)
    equal(send(server, f"{text}\n{ONE.line(text, 1800000000)}")[2]["cosignatures"], 2, "a later line of one")
    kept = verify.Note(audit_log.note(server, "cosigned=true"))
    equal((kept.signed_by(verify.Key(ONE.vkey)), kept.signed_by(verify.Key(TWO.vkey))), (1800000000, 1790000000))
    both(server, "--witness", ONE.vkey, "--witness", TWO.vkey)
    work(server)
    later, own = split(audit_log.note(server))
    equal(send(server, f"{later}\n{own}{ONE.line(later)}")[2]["cosignatures"], 1, "a later checkpoint begins anew")
    refused(server, 409, f"{text}\n{TWO.line(text)}", "later checkpoint")
    # As many as a note may have, with the log's.
    equal(send(server, f"{later}\n" + "".join(Signer(f"w.{i}", 4).line(later) for i in range(30)))[2]["cosignatures"], 31)
    refused(server, 429, f"{later}\n{TWO.line(later)}", "at most 32")
    both(server, "--witness", ONE.vkey)


def test_logs_of_others(server):
    tenant, _ = server.tenant("others")
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "audit", "scopes": ["audit", "sessions"]})["key"]
    plain = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "plain", "scopes": ["sessions", "read"]})["key"]
    work(server, key=key)
    text, own = split(audit_log.note(server, key=key))
    node, node_own = split(audit_log.note(server, "fresh=true&tenant=node"))
    line = f"{text}\n{own}{ONE.line(text)}"
    equal(send(server, line, key=plain)[0], 403, "without the scope")
    equal(send(server, line)[0], 404, "the operator's own log is another one")
    equal(send(server, f"{node}\n{node_own}{ONE.line(node)}", "?tenant=node", key=key)[0], 403, "the node's, by a tenant")
    equal(send(server, line, key=key)[0], 200)
    equal(send(server, line, f"?tenant={tenant}")[0], 200, "by the operator")
    equal(send(server, f"{node}\n{node_own}{ONE.line(node)}", "?tenant=node")[0], 200)
    both(server, "--witness", ONE.vkey, query="&tenant=node")
    equal(server.request("POST", "/v1/audit/rotate", key=key)[0], 403, "a new key, by a tenant")
    equal(server.request("GET", "/v1/audit/rotate", key=key)[0], 403)


# ---- the key


def keys(server):
    return server.want(200, "GET", "/v1/audit/rotate")


def rotated(server, former):
    wait_for(lambda: keys(server)["former_vkey"] is None and keys(server)["vkey"] != former, 40, "the new key")
    return keys(server)["vkey"]


def logs_of(server):
    return ["", "&tenant=node"] + [f"&tenant={t['id']}" for t in server.want(200, "GET", "/v1/tenants")["tenants"]]


def every_log_goes_over(server, first, last):
    """From the first key to the last, in each log that there is."""
    for query in logs_of(server):
        if server.request("GET", "/v1/audit/checkpoint?fresh=true" + query)[0] == 404:
            continue
        exported = both(server, "--key", first, query=query)
        equal(exported[0]["vkey"], first, query)
        check(notes(exported)[-1].signed_by(verify.Key(last)) is True, "the last checkpoint is by the last key")
        both(server, "--key", last, query=query)
        equal(audit_log.checkpoint(server, query[1:])["vkey"], last, query)


def test_a_new_key(server):
    first = keys(server)
    equal((first["former_vkey"], first["vkey"]), (None, audit_log.checkpoint(server)["vkey"]))
    work(server)
    text, own = split(audit_log.note(server))
    equal(send(server, f"{text}\n{own}{ONE.line(text)}")[0], 200)
    code, said = cordon(server, "rotate")
    equal(code, 0, said)
    second = keys(server)["vkey"]
    check(second != first["vkey"] and second in said and first["vkey"] in said, said)
    equal(keys(server)["former_vkey"], None)
    every_log_goes_over(server, first["vkey"], second)
    # The checkpoint of a witness from before, the one of both keys, the last one.
    exported = both(server, "--key", first["vkey"], "--witness", ONE.vkey)
    signed = [(n.signed_by(verify.Key(first["vkey"])), n.signed_by(verify.Key(second))) for n in notes(exported)]
    equal((signed[0], signed[1], signed[-1]), ((True, None), (True, True), (None, True)))
    who = server.want(200, "GET", "/v1/audit?tenant=node&type=audit.rotation&limit=10")["records"][-1]["record"]["actor"]
    check(who["key"], who)
    # A log that begins now knows the new key only.
    tenant, key = server.tenant("later")
    work(server, key=key)
    equal(both(server, "--key", second, query=f"&tenant={tenant}")[0]["vkey"], second)
    # Again, and over a restart.
    equal(server.request("POST", "/v1/audit/rotate")[0], 202)
    third = rotated(server, second)
    every = [q for q in logs_of(server) if tenant not in q]
    for query in every[:2]:
        both(server, "--key", first["vkey"], query=query)
    both(server, "--key", second, query=f"&tenant={tenant}")
    server.restart()
    work(server)
    for query in every[:2]:
        exported = both(server, "--key", first["vkey"], query=query)
        check(notes(exported)[-1].signed_by(verify.Key(third)) is True, "after a restart")


def test_kills_on_the_way(server):
    for i in range(6):
        tenant, key = server.tenant(f"many{i}")
        work(server, key=key)
    first = keys(server)["vkey"]
    begun = {q: audit_log.lines(audit_log.export(server, q))[0]["vkey"] for q in logs_of(server)
             if server.request("GET", "/v1/audit/checkpoint?fresh=true" + q)[0] == 200}
    for turn in range(4):
        name = ("cordond", "cordon-notary")[turn % 2]
        before = keys(server)
        try:
            server.request("POST", "/v1/audit/rotate")
        except (OSError, ValueError):
            pass  # it may have been asked
        time.sleep(DICE.random() * 0.3)  # the kill comes at any moment of a rotation, which takes about this long
        server.kill(name)
        server.wait_ready()
        if keys(server)["former_vkey"] is None and keys(server)["vkey"] == before["vkey"]:
            wait_for(lambda: server.request("POST", "/v1/audit/rotate")[0] in (202, 409), 20, "a rotation")
        rotated(server, before["vkey"])
    last = keys(server)["vkey"]
    check(last != first, "no new key")
    for query, known in begun.items():
        wait_for(lambda q=query: server.request("GET", "/v1/audit/checkpoint?fresh=true" + q)[0] == 200, 20, "a checkpoint")
        exported = both(server, "--key", known, query=query)
        named = [x for x in exported if '"type":"audit.key"' in x.get("leaf", "")]
        check(len(named) >= 4, f"{query}: {len(named)} records of keys")
        check(notes(exported)[-1].signed_by(verify.Key(last)) is True, query)


def test_as_many_keys_as_a_log_remembers(server):
    server.stop()
    with audit_log.edited(server) as db:
        (log,), = db.execute("SELECT id FROM audit_log WHERE tenant = '' ORDER BY epoch DESC LIMIT 1").fetchall()
        (had,), = db.execute("SELECT count(*) FROM audit_note WHERE log = ? AND kind = 1", (log,)).fetchall()
        db.executemany("INSERT INTO audit_note (log, size, kind, vkey, note) VALUES (?, ?, 1, '', '')", [(log, 10**6 + i) for i in range(had, 249)])
    server.start()
    wait_for(lambda: server.request("POST", "/v1/audit/rotate")[0] == 202, 20, "the last one")
    rotated(server, "")
    server.refused(429, "quota", "POST", "/v1/audit/rotate", None, "250 keys")
    server.stop()
    with audit_log.edited(server) as db:
        db.execute("DELETE FROM audit_note WHERE size >= 1000000")
    server.start()


def test_deleted_records_take_their_key_along(server):
    """An export that begins behind a rotation begins with that key."""
    former = keys(server)["vkey"]
    equal(cordon(server, "rotate")[0], 0)
    present = keys(server)["vkey"]
    size = audit_log.checkpoint(server, "fresh=true")["size"]
    while audit_log.checkpoint(server, "fresh=true")["size"] < size // 256 * 256 + 256 + 8:
        for _ in range(40):
            server.want(200, "GET", "/v1/audit?limit=1")
    server.want(200, "POST", "/v1/audit/prune", {"keep": "0s"})
    exported = both(server, "--key", present)
    equal(exported[0]["vkey"], present)
    check("tile" in exported[1], exported[1])
    both(server, "--key", former, want=1)


def ends_by_another_name(server, tenants, act):
    """What a log says of itself when cordon-notary has another folder. act replaces it. Gives the new key."""
    queries = ["", "&tenant=node"] + [f"&tenant={t}" for t in tenants]
    before = {q: audit_log.checkpoint(server, "fresh=true" + q) for q in queries}
    act()
    server.wait_ready()

    def is_another(query):
        status, _, now = server.request("GET", "/v1/audit/checkpoint?fresh=true" + query, headers={"Accept": "application/json"})
        return status == 200 and now["epoch"] > before[query]["epoch"]
    for query, old in before.items():
        wait_for(lambda q=query: is_another(q), 60, f"another log {query}")
        now, former = audit_log.checkpoint(server, query[1:]), old["vkey"]
        equal((now["alarm"], now["epoch"]), ("key", old["epoch"] + 1), query)
        check(now["vkey"] != former and now["origin"].split("/")[0] != old["origin"].split("/")[0], now)
        for words in ((), ("--key", former)):
            both(server, *words, query=query, want=1)
            with tempfile.NamedTemporaryFile() as f:
                f.write(audit_log.export(server, query))
                f.flush()
                code, said = cordon(server, "verify", *words, f.name)
            equal(code, 1, said)
            has(said, f"record 0 names the new key {now['vkey']}", query)
            has(said, "give it with --key", query)
        exported = both(server, "--key", now["vkey"], query=query)
        first = json.loads(exported[1]["leaf"])
        equal((first["type"], first["data"]["vkey"], first["data"]["former"], first["data"]["epoch"]), ("audit.key", now["vkey"], former, old["epoch"]), query)
        both(server, "--key", former, "--key", now["vkey"], query=query)
        # The log before keeps its name, its records, and its key. Records that came too late for a checkpoint have none.
        ended = audit_log.export(server, f"&epoch={old['epoch']}" + query)
        code, said = audit_log.verify(ended, "--key", former)
        check(code in (0, 2) and json.loads(said)["verified"] >= old["size"], said)
        equal(audit_log.lines(ended)[0]["origin"], old["origin"], query)
        equal(audit_log.verify(ended, "--key", now["vkey"])[0], 1, "the former log by the new key")
    return audit_log.checkpoint(server)["vkey"]


def test_a_folder_that_was_replaced(server):
    """A new name and a new key that the former one does not vouch for: nobody believes it who does not say so."""
    with Server(audit_checkpoint="200ms", pool_size=1) as own:
        tenant, key = own.tenant("one")
        work(own)
        work(own, key=key)
        equal(cordon(own, "rotate")[0], 0)  # a checkpoint that is kept
        folder, other = own.state + "-notary", own.state + "-other"
        first = keys(own)["vkey"]

        def lose():
            own.stop()
            os.rename(folder, other)
            own.start()

        def restore():
            own.stop()
            os.rename(folder, folder + ".second")
            os.rename(other, folder)
            own.start()
            own.kill("cordond")  # somewhere between the first log and the last one
        second = ends_by_another_name(own, [tenant], lose)
        check(second != first, "no new key")
        alarms = [line for line in own.request("GET", "/metrics")[2].decode().splitlines() if line.startswith('cordon_audit_alarms_total{kind="key"}')]
        check(float(alarms[0].split()[1]) >= 3, alarms)
        work(own, key=key)
        equal(ends_by_another_name(own, [tenant], restore), first)
        # It goes on from there as any other.
        work(own)
        code, said = cordon(own, "rotate")
        equal(code, 0, said)
        both(own, "--key", first)


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms", pool_size=1)
