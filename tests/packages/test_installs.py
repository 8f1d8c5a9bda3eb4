#!/usr/bin/python3 -B
"""Goal: an install under a package policy gets what the policy allows and nothing else, and its client shows why.

    test_installs.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and npm and pip in cells."""
import json
import os
import subprocess
import sys

from gate_tools import NPM, PIP, R, installed, session, world
import internet
from checks import check, equal, has, wait_for
from internet_client import policy, sh


def test_npm_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, NPM + "demo", 0)
    equal(json.loads(installed(server, s, "npm", "demo"))["version"], "1.0.0", "the version")


def test_pip_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, PIP + "demo", 0)
    has(installed(server, s, "pip", "demo"), "demo-1.0.0")


def test_install_code_hides_no_version(server):
    """Nobody gets an old version without a word because the others run code: npm prints why."""
    R.add("npm", "builder", "0.0.1", age="900d")
    R.add("npm", "builder", "1.0.0", age="400d", script=True)
    s = session(server, scripts="deny")
    done = sh(server, s, NPM + "builder")
    check(done["exit_code"] != 0, "an old one was installed")
    has(done["stdout"] + done["stderr"], "builder 1.0.0 runs code when it is installed")
    s = session(server, scripts="deny", scripts_except=["npm:builder"])
    sh(server, s, NPM + "--ignore-scripts builder", 0)
    equal(json.loads(installed(server, s, "npm", "builder"))["version"], "1.0.0", "the version")


def test_clients_print_why_a_name_is_refused(server):
    s = session(server, deny=["npm:other", "pypi:other"], min_age="7d")
    for line, word in ((NPM + "other", "packages.deny"), (PIP + "other", "packages.deny"), (NPM + "young", "old"), (PIP + "young", "old")):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        has(done["stdout"] + done["stderr"], word, line)


def test_what_was_hidden_is_on_record(server):
    """npm says of a hidden version only that there is none: the record has the reason."""
    s = session(server, deny=["npm:demo@2.0.0"])
    done = sh(server, s, NPM + "demo@2.0.0")
    check(done["exit_code"] != 0, "a denied version was installed")
    sh(server, s, NPM + "demo", 0)
    sh(server, s, "curl -sS -m 20 https://npm.example/demo/1.0.0", 0)
    found = {}

    def recorded():
        found.update({r["version"]: r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]})
        return "1.0.0" in found and "2.0.0" in found
    wait_for(recorded, 10, "both versions on record")
    equal(found["1.0.0"]["result"], "downloaded", "the other version")
    row = found["2.0.0"]
    equal((row["result"], row["verdict"], row["rule"], row["refusals"]), ("hidden", "allow", "session packages.deny[0]", 0), "the row")
    check(row["reason"].startswith("1 version hidden, newest 2.0.0: demo 2.0.0 is denied"), row["reason"])
    records = [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?kind=package")["records"]
               if (r["package"]["kind"], r["package"]["name"]) == ("meta", "demo")]
    check(records, "no record of the metadata")
    for r in records:
        equal((r["package"]["result"], r["package"]["shaped"], r["reason"]), ("hidden", {"hidden": 1, "newest_hidden": "2.0.0"}, row["reason"]), "the record")


def test_offline_says_so(server):
    s = session(server, mode="offline")
    before = len(R.requests)
    for line in (NPM + "demo", PIP + "demo", PIP + "demo==1.0.0"):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        said = (done["stdout"] + done["stderr"]).replace(".", " ")
        has(said, "packages are off in this session", line)
    equal(len(R.requests), before, "requests at the registries")


def test_cordon_run_has_the_gate_without_a_cache(server):
    world()
    path = os.path.join(internet.FOLDER, "packages.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump(policy(packages={"registries": R.entries("npm"), "min_age": "7d"}), f)
    words = [sys.argv[1], "run", "--policy", path, "--egress-ca", os.path.join(internet.FOLDER, "world.pem"), "--", "/bin/sh", "-c"]

    def run(line):
        return subprocess.run([*words, line], capture_output=True, text=True, timeout=60, check=False)

    done = run(f"{NPM} demo >/dev/null && cat /tmp/n/node_modules/demo/package.json")
    equal(json.loads(done.stdout or "{}").get("version"), "1.0.0", f"the version ({done.stderr[-600:]})")
    done = run(f"{NPM} young")
    check(done.returncode != 0, "a young package was installed")
    has(done.stdout + done.stderr, "old")
    check(server.pid("cordond") is not None, "the server is gone")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
