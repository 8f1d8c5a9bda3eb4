#!/usr/bin/python3 -B
"""Goal: `cordon audit verify` says of a server's log what examples/verify.py says of its export, through a restart, killed programs and a
witness, and a log that was rewritten below it is found.

    test_audit_verify.py CORDON [name ...]
"""
import json
import os
import subprocess
import sys
import tempfile

import audit_log
import harness
from harness import check, equal, has, run_tests, wait_for

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "audit"))
from witness import Witness  # noqa: E402

KILLS = True  # of cordond and cordon-notary


def cordon(server, *words):
    """The exit status and the output of `cordon audit`, with the operator's key."""
    done = subprocess.run([harness.PROGRAM, "audit", words[0], "--server", server.url, *words[1:]], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"CORDON_API_KEY": server.key})
    return done.returncode, done.stdout + done.stderr


def work(server, n=1):
    for _ in range(n):
        session = server.create()["id"]
        server.run(session, "true")
        server.delete(session)
        server.reaches(session, "ended")


def both(server, *words):
    """Both verifiers, over the same log. An export waits for a cordon-notary that was just killed."""
    vkey = audit_log.checkpoint(server)["vkey"]
    data = audit_log.export(server)
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        code, said = cordon(server, "verify", "--key", vkey, *words, f.name)
    equal((code, audit_log.verify(data, "--key", vkey, *words)[0]), (0, 0), said)
    code, said = cordon(server, "verify", "--key", vkey, *words)
    equal(code, 0, said)
    return vkey


def test_logs_of_a_server(server):
    work(server, 3)
    vkey = both(server)
    code, said = cordon(server, "verify", "--key", vkey, "--tenant", "node")
    equal(code, 0, said)
    has(said, "/node/", "the node's log")
    kept = audit_log.note(server)
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(kept)
        f.flush()
        for _ in range(3):
            work(server)
            server.kill("cordon-notary")
            both(server, "--since", f.name)
        server.kill("cordond")
        server.wait_ready()
        work(server)
        both(server, "--since", f.name)
    code, said = cordon(server, "verify", "--key", vkey.replace("+", "x+", 1))
    equal(code, 3, said)


def test_a_witness_of_a_server(server):
    work(server, 2)
    head = audit_log.checkpoint(server, "fresh=true")
    with Witness("witness.example/one", {head["origin"]: head["vkey"]}) as one, tempfile.TemporaryDirectory() as d:
        for _ in range(4):
            code, said = cordon(server, "witness", "--out", f"{d}/kept", one.url, one.signer.vkey)
            equal(code, 0, said)
            both(server, "--since", f"{d}/kept", "--witness", one.signer.vkey)
            work(server, 2)
        check(one.seen[head["origin"]][0] > 20, f"the log has grown: {one.seen}")


def test_a_rewritten_log(server):
    """An export whose records were changed afterwards: both name the same first bad record."""
    work(server, 2)
    data = audit_log.export(server)
    vkey = audit_log.lines(data)[0]["vkey"]
    changed = data.replace(b'\\"interface\\":\\"api\\"', b'\\"interface\\":\\"web\\"', 1)
    check(changed != data, "nothing was changed")
    code, said = audit_log.verify(changed, "--key", vkey)
    equal(code, 1, said)
    with tempfile.NamedTemporaryFile() as f:
        f.write(changed)
        f.flush()
        code, text = cordon(server, "verify", "--json", "--key", vkey, f.name)
    equal(code, 1, text)
    equal(json.loads(text)["first_bad"], json.loads(said)["first_bad"], "the first bad record")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
