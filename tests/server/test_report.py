#!/usr/bin/python3 -B
"""Goal: a report says what is in force and how that was found, is signed by cordon-notary, and a changed one is told.

    test_report.py CORDON [name ...]
"""
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402

KILLS = True  # of cordon-notary


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
    run_tests(globals())
