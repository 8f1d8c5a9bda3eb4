#!/usr/bin/python3 -B
"""Goal: a client of MCP in a cell speaks both eras with a server outside: answers, streams, requests on streams; and a rule
with paths allows no other.

    test_egress_mcp.py CORDON FIXTURE [name ...]

FIXTURE is the server of tests/mcp. Runs in a small internet of its own (internet.py)."""
import json
import os
import subprocess
import sys

import internet
from harness import equal
from internet_client import PYTHON, make, policy, recorded

FIXTURE, PORT, NAME = "", 9000, "mcp.example"
WANT = {
    "discover": ["2026-07-28"], "call": True, "mismatch": -32020, "progress": [0, 50, 100, "complete"],
    "listen": ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"],
    "initialize": "2025-06-18", "sampling": ["sampling/createMessage", 202, "LLM response: yes"], "elsewhere": 403,
}


def test_both_eras_pass(server):
    internet.NET.zone[NAME] = (internet.SPARE,)
    with internet.NET.inside(internet.NET.world):
        fixture = subprocess.Popen([FIXTURE, f"{internet.SPARE}:{PORT}", NAME], stdout=subprocess.PIPE, text=True)
    try:
        fixture.stdout.readline()
        s = make(server, policy({"name": "mcp", "host": NAME, "ports": [PORT], "methods": ["POST"], "paths": ["/mcp"]}))
        with open(os.path.join(internet.HERE, "mcp_in_cell.py"), encoding="utf-8") as f:
            done = server.run(s["id"], [PYTHON, "-", NAME, str(PORT)], stdin=f.read(), user="user")
        got = dict(json.loads(line) for line in done["stdout"].splitlines())
        equal(got, WANT, f"exit {done['exit_code']}: {done['stderr'][-2000:]}")
        recorded(server, s, lambda r: r.get("path") == "/other" and r["verdict"] == "deny", name="the refusal")
        recorded(server, s, lambda r: r.get("path") == "/mcp" and r["verdict"] == "allow", name="the calls")
    finally:
        fixture.kill()
        fixture.wait()
        fixture.stdout.close()


if __name__ == "__main__":
    if "MCP_FIXTURE" not in os.environ:
        os.environ["MCP_FIXTURE"] = os.path.abspath(sys.argv.pop(2))
    FIXTURE = os.environ["MCP_FIXTURE"]
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
