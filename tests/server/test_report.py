#!/usr/bin/python3 -B
"""Goal: a report says what is in force and how that was found, is signed by cordon-notary, and a changed one is told.

    test_report.py CORDON [name ...]
"""
import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from harness import check, equal, has, run_tests, wait_for  # noqa: E402

KILLS = True  # of cordon-notary
CORDON_FAILED = 125


def payload(envelope):
    return json.loads(base64.b64decode(envelope["payload"]))


def client(server, *words, code=0):
    program = os.path.join(os.path.dirname(server.program), "cordon-client")
    done = subprocess.run([program, "report", "--server", server.url, *words], env=dict(os.environ, CORDON_API_KEY=server.key),
                          capture_output=True, text=True, timeout=60)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done.stdout + done.stderr


def test_of_the_node(server):
    envelope = server.want(200, "GET", "/v1/report")
    equal(envelope["payloadType"], "application/vnd.cordon.report+json")
    p = payload(envelope)
    equal(p["cordon_report"], 1)
    controls = {c["control"]: c for c in p["controls"]}
    check(all(c["checked"] for c in controls.values()), controls)
    for name in ("cordond sees its own folders only", "cordond is not root", "checkpoints are signed by another process",
                 "every record is covered by a checkpoint in time", "no audit log was rolled back, forked, cut, or ended by another key"):
        check(controls[name]["in_force"], controls[name])
    equal(controls["cordond sees its own folders only"]["found"], "open: Permission denied")
    check("1y" in p["settings"]["audit_retention"] or p["settings"]["audit_retention"], p["settings"])
    has(json.dumps(p["keys"]), "audit")
    # The log as it was then: with a checkpoint that covers the record of this report.
    equal(p["audit"]["checkpoint"].splitlines()[0], p["audit"]["origin"])
    check(int(p["audit"]["checkpoint"].splitlines()[1]) >= 1, p["audit"])
    reads = [r["record"] for r in server.want(200, "GET", "/v1/audit?type=audit.read&limit=1000")["records"]]
    check(any(r["data"]["how"] == "report" for r in reads), reads)


def test_a_session_is_an_option(server):
    has(client(server, "i0000000000000000", code=2), "--session ID for a session")


def test_policies_keys_and_retention(server):
    """Policies by their digest, and as the operator may see them; keys counted by scope; how long what is kept."""
    t = server.want(201, "POST", "/v1/tenants", {"name": "policed"})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{t}/keys", {"name": "a", "scopes": ["audit", "read"]})["key"]
    document = {"version": 1, "rules": [{"host": "a.example", "set_headers": {"X-Key": "hidden-word"}}], "proxy": {"address": "10.9.8.7:1080", "username": "u", "password": "hidden-word"}}
    server.want(200, "PUT", f"/v1/tenants/{t}/network", document)
    p = payload(server.want(200, "GET", "/v1/report", key=key))
    (rule,) = p["policies"]["tenant"]["document"]["rules"]
    equal((rule["host"], list(rule["set_headers"])), ("a.example", ["X-Key"]), "the tenant's policy")
    check("hidden-word" not in json.dumps(p), "the password of a proxy, or the value of a header that the operator set")
    equal((len(p["policies"]["tenant"]["sha256"]), p["policies"]["session_default"]), (64, "deny"))
    equal(p["policies"]["node"]["document"], None, "the node's is for the operator")
    equal(payload(server.want(200, "GET", "/v1/report"))["policies"]["node"]["document"]["alarms"]["package"]["action"], "end")
    equal(p["keys_by_scope"], {"read": 1, "sessions": 0, "admin": 0, "audit": 1})
    for name in ("audit_retention", "retention", "event_retention", "usage_retention", "audit_max", "snapshot_keep", "alarms"):
        check(name in p["settings"], name)


def test_the_log_is_compared(server):
    """Each kept record with its hash, the tiles, the signed root. More than a tile of records, so that there are two levels."""
    t = server.want(201, "POST", "/v1/tenants", {"name": "compared"})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{t}/keys", {"name": "a", "scopes": ["audit", "read", "sessions", "admin"]})["key"]
    for i in range(300):
        server.want(201, "POST", "/v1/secrets", {"name": f"S{i}", "value": "some-value-of-a-secret", "hosts": ["a.example"]}, key=key)

    def found():
        p = payload(server.want(200, "GET", "/v1/report", key=key))
        control = [c for c in p["controls"] if c["control"].startswith("every kept record")][0]
        v = p["audit"]["verification"]
        equal((control["in_force"], control["found"]), (v["result"] == "good", v["result"]))
        return v

    good = found()
    equal((good["result"], good["wrong_from"]), ("good", None))
    check(good["records"] == good["size"] >= 300, good)
    log = rows.number(server, "SELECT id FROM audit_log WHERE tenant = ? ORDER BY epoch DESC", t)

    def changed(sql, *values):
        with rows.database(server, write=True) as db:
            equal(db.execute(sql, values).rowcount, 1, sql)

    leaf = lambda value: changed("UPDATE audit SET leaf = ? WHERE id = ?", value, (log << 40) + 17)  # noqa: E731
    tile = lambda value: changed("UPDATE audit_tile SET hashes = ? WHERE log = ? AND level = 0 AND idx = 0", value, log)  # noqa: E731
    leaf_was = rows.number(server, "SELECT leaf FROM audit WHERE id = ?", (log << 40) + 17)
    tile_was = rows.number(server, "SELECT hashes FROM audit_tile WHERE log = ? AND level = 0 AND idx = 0", log)
    rewritten = leaf_was.replace(b'"v":1', b'"v":2')
    leaf(rewritten)
    v = found()
    equal((v["result"], v["wrong_from"]), ("changed", 17), "a record")
    # One who rewrites the record's hash, too: the hash of its tile is in the tile above.
    tile(tile_was[:17 * 32] + hashlib.sha256(b"\0" + rewritten).digest() + tile_was[18 * 32:])
    v = found()
    equal((v["result"], v["wrong_from"]), ("changed", 0), "a record and its hash")
    leaf(leaf_was)
    v = found()
    equal((v["result"], v["wrong_from"]), ("changed", 17), "a hash")
    tile(tile_was)
    equal(found()["result"], "good")
    changed("DELETE FROM audit WHERE id = ?", (log << 40) + 40)
    v = found()
    equal((v["result"], v["wrong_from"]), ("missing", 40))
    # The log ends by an alarm, and the next report is of the one that follows.
    audit = lambda: payload(server.want(200, "GET", "/v1/report", key=key))["audit"]  # noqa: E731
    wait_for(lambda: (lambda a: a["epoch"] == 2 and a["verification"]["result"] == "good")(audit()), 30, "the next log")
    equal(audit()["alarm"], "gap")


def doctor(server, *words, code=0):
    done = subprocess.run([server.program, "doctor", "--state-dir", server.state, *words], capture_output=True, text=True, timeout=120)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done.stdout + done.stderr


def test_evidence_of_the_operator(server):
    """The findings of cordon doctor and the results of tests, dated; the content for the operator only."""
    equal(payload(server.want(200, "GET", "/v1/report"))["evidence"], {"doctor": None, "tests": None})
    has(doctor(server, "--quick", "--record"), "evidence/doctor.json")
    e = payload(server.want(200, "GET", "/v1/report"))["evidence"]["doctor"]
    rows_of = {(r["group"], r["name"]): r for r in e["content"]["rows"]}
    check(rows_of["isolation", "keeper"]["ok"] and rows_of["isolation", "standard profile"]["ok"], rows_of)
    equal((e["by_root"], len(e["sha256"])), (os.geteuid() == 0, 64))
    log = os.path.join(server.folder, "testlog.json")
    with open(log, "w") as f:
        for name, result in (("a", "OK"), ("b", "OK"), ("c \u00e9 \"x\"", "FAIL"), ("d", "SKIP"), ("e", "TIMEOUT")):
            f.write(json.dumps({"name": name, "stdout": "...", "result": result}) + "\n")
    doctor(server, "--tests", log)
    e = payload(server.want(200, "GET", "/v1/report"))["evidence"]
    tests = e["tests"]["content"]
    equal((tests["tests"], tests["results"]["OK"], tests["results"]["SKIP"], tests["failed"], tests["failed_count"]), (5, 2, 1, ["c \u00e9 \"x\"", "e"], 2))
    equal(e["doctor"]["content"]["possible"], True, "the other file stays")
    text = client(server)
    for words in ("5 tests, 2 good, 2 failed", "compared", "good", "policies:"):
        has(text, words)
    t = server.want(201, "POST", "/v1/tenants", {"name": "nosy"})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{t}/keys", {"name": "a", "scopes": ["audit"]})["key"]
    seen = payload(server.want(200, "GET", "/v1/report", key=key))["evidence"]["doctor"]
    equal((seen["content"], seen["sha256"]), (None, e["doctor"]["sha256"]))


def test_bad_evidence(server):
    """Nothing that lies there breaks a report, and the recorder writes through no link."""
    folder = os.path.join(server.state, "evidence")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "tests.json")
    read = lambda: payload(server.want(200, "GET", "/v1/report"))["evidence"]["tests"]  # noqa: E731
    for text in ("", "no JSON", '{"a": 1', '"text"', '{"a": ' * 20 + "1" + "}" * 20, json.dumps({"a": "x" * 60000})):
        with open(path, "w") as f:
            f.write(text)
        equal(read()["content"], None, text[:20])
    os.unlink(path)
    os.mkfifo(path)
    equal(read(), None, "a FIFO")
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    equal(read(), None, "a link")
    log = os.path.join(server.folder, "bad.json")
    for text, words in (("", "1 byte"), ("{}\n", "line 1"), ('{"name": "a", "result": "OK"}\n{"name": "b", "result": "GREAT"}\n', "line 2"), ("x\n", "line 1")):
        with open(log, "w") as f:
            f.write(text)
        has(doctor(server, "--tests", log, code=CORDON_FAILED), words)
    with open(log, "w") as f:
        f.write('{"name": "a", "result": "OK"}\n')
    doctor(server, "--tests", log)
    check(os.path.isfile(path) and not os.path.islink(path), "the link was replaced")
    equal(read()["content"]["tests"], 1)
    os.rename(folder, folder + ".moved")
    os.symlink(server.folder, folder)
    has(doctor(server, "--tests", log, code=CORDON_FAILED), "evidence")
    check(not os.path.exists(os.path.join(server.folder, "tests.json")), "written through a link")
    os.unlink(folder)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    has(doctor(server, "--tests", log, code=CORDON_FAILED), "others may write")
    os.rmdir(folder)


def test_of_a_session(server):
    s = server.create(metadata={"a": "b"})["id"]
    p = payload(server.want(200, "GET", f"/v1/sessions/{s}/report"))
    equal((p["session"]["id"], p["session"]["state"], p["session"]["level"]), (s, "running", p["session"]["level"]))
    check("keys" not in p, "keys are not of a session")
    server.delete(s)
    server.reaches(s, "ended")
    equal(payload(server.want(200, "GET", f"/v1/sessions/{s}/report"))["session"]["state"], "ended")
    server.refused(404, "not_found", "GET", "/v1/sessions/i0000000000000000/report")


def test_who_may(server):
    """Only keys of the scope audit, and of their own tenant."""
    own = server.create()["id"]
    t = server.want(201, "POST", "/v1/tenants", {"name": "other"})["id"]
    use = server.want(201, "POST", f"/v1/tenants/{t}/keys", {"name": "u", "scopes": ["sessions", "read"]})["key"]
    audit = server.want(201, "POST", f"/v1/tenants/{t}/keys", {"name": "a", "scopes": ["audit", "read"]})["key"]
    server.refused(403, "forbidden", "GET", "/v1/report", key=use)
    p = payload(server.want(200, "GET", "/v1/report", key=audit))
    equal((p["tenant"], {k["name"] for k in p["keys"]}), (t, {"u", "a"}))
    server.refused(404, "not_found", "GET", f"/v1/sessions/{own}/report", key=audit)
    server.delete(own)


def test_verify(server):
    folder = tempfile.mkdtemp(dir=server.folder)
    path = os.path.join(folder, "report.json")
    client(server, "-o", path)
    text = client(server, "verify", path)
    for words in ("signature is good", "cordond is not root", "audit log"):
        has(text, words)
    with open(path) as f:
        good = json.load(f)
    key = payload(good)["attest_vkey"]
    client(server, "verify", "--key", key, path)
    # The key of checkpoints is another one.
    has(client(server, "verify", "--key", payload(good)["audit"]["vkey"], path, code=1), "of another key")
    changed = payload(good)
    changed["controls"][0]["in_force"] = not changed["controls"][0]["in_force"]
    sig = good["signatures"][0]["sig"]
    for bad, code in (
        (dict(good, payload=base64.b64encode(json.dumps(changed).encode()).decode()), 1),
        (dict(good, signatures=[{"keyid": "", "sig": ("A" if sig[0] != "A" else "B") + sig[1:]}]), 1),
        (dict(good, signatures=[]), 1),
        (dict(good, payloadType="application/vnd.in-toto+json"), 3),
        (dict(good, payload="!"), 3),
        ({}, 3),
    ):
        with open(path, "w") as f:
            json.dump(bad, f)
        has(client(server, "verify", path, code=code), "is not good")
    client(server, "verify", os.path.join(folder, "none"), code=3)
    s = server.create()["id"]
    has(client(server, "--session", s), f"id           {s}")
    server.delete(s)


def test_kills_of_the_notary(server):
    """A report is signed, or there is none."""
    for _ in range(3):
        os.kill(server.pid("cordon-notary"), signal.SIGKILL)
        status, _, body = server.request("GET", "/v1/report")
        check(status in (200, 503) and ("payload" in body) == (status == 200), body)
        wait_for(lambda: server.request("GET", "/v1/report")[0] == 200, 30, "a report again")


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".json") as node:
        node.write('{"alarms": {"package": {"action": "end"}}}')
        node.flush()
        os.chmod(node.name, 0o644)
        run_tests(globals(), egress_policy=node.name)
