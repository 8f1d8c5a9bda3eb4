#!/usr/bin/python3 -B
"""Goal: `cordon audit` prints, exports, erases and prunes what the server's routes do.

    test_audit_cli.py CORDON [name ...]
"""
import json
import os
import subprocess
import tempfile

import harness
from audit_log import verified
from harness import check, equal, run_tests

WRONG, NOT_FOUND, REFUSED = 2, 3, 4


def audit(server, *words, key="", code=0):
    done = subprocess.run([harness.PROGRAM, "audit", *words, "--server", server.url], capture_output=True, timeout=60,
                          env={**os.environ, "CORDON_API_KEY": key or server.key}, check=False)
    equal(done.returncode, code, f"audit {' '.join(words)}: {done.stderr.decode()}")
    return (done.stderr if code else done.stdout).decode()


def session(server, who):
    status, _, made = server.request("POST", "/v1/sessions", {}, headers={"X-Cordon-Actor": who})
    equal(status, 201)
    server.ids.add(made["id"])
    server.run(made["id"], "true")
    server.delete(made["id"])
    server.reaches(made["id"], "ended")
    return made["id"]


def test_ls_and_show(server):
    s = session(server, "ann")
    out = audit(server, "ls", "--session", s).splitlines()
    equal([line.split()[2] for line in out if "session.state" not in line], ["session.created", "execution.started", "execution.ended", "session.ended"])
    number, _, kind, actor, of = out[0].split()[:5]
    equal((kind, actor.split(":")[0], of), ("session.created", "api", s))
    check("level=" in out[0], out[0])
    shown = json.loads(audit(server, "show", number))
    equal((shown["seq"], shown["side"]["on_behalf"]["value"]), (int(number), "ann"))
    equal(json.loads(audit(server, "ls", "--session", s, "--json").splitlines()[0]), shown)
    check(audit(server, "ls", "--type", "execution.started", "--after", number).count("\n") >= 1, "nothing after it")
    audit(server, "show", "99999999", code=NOT_FOUND)
    for words in (("show",), ("show", "x"), ("ls", "more"), ("lss",), ("prune",), ("erase",), ("erase", "1", "--session", s)):
        audit(server, *words, code=WRONG)
    audit(server, "ls", "--tenant", "ten_nobody", code=NOT_FOUND)
    check("node.start" in audit(server, "ls", "--tenant", "node"), "the log of the node")


def test_head_and_export(server):
    head = audit(server, "head")
    check(head.startswith("cordon.") and "\u2014 cordon." in head, head)
    with tempfile.TemporaryDirectory(prefix="cordon-audit-", dir="/var/tmp") as folder:
        out = os.path.join(folder, "audit.jsonl")
        audit(server, "export", "--out", out)
        with open(out, "rb") as f:
            data = f.read()
        verified(data, "--key", json.loads(data.splitlines()[0])["vkey"])
        audit(server, "verify", out)
        audit(server, "export", "--out", out, code=125)
    check(audit(server, "export").startswith('{"cordon_audit":1'), "to stdout")
    audit(server, "verify")


def test_erase_and_prune(server):
    s = session(server, "bob")
    check(int(audit(server, "erase", "--session", s, "--value", "cwd").split()[0]) >= 1, "no cwd was erased")
    check(int(audit(server, "erase", "--on-behalf", "bob").split()[0]) >= 1, "no claim was erased")
    equal(audit(server, "erase", "0"), "0 records lost values\n")
    equal(audit(server, "prune", "--keep", "30d"), "0 records deleted\n")
    key = server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": ["audit"]})["key"]
    audit(server, "ls", key=key)
    audit(server, "prune", "--keep", "30d", key=key, code=REFUSED)


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms")
