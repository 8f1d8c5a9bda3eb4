#!/usr/bin/python3 -B
"""Goal: packages of an imported list are refused within seconds, by id, in running sessions; a new list replaces it.

    test_advisories.py CORDON [name ...]"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
from checks import has, wait_for  # noqa: E402
from harness import check, equal  # noqa: E402
from internet_client import make, policy, sh  # noqa: E402
from registry import Registry  # noqa: E402

KILLS = True  # of cordon-egress
R = Registry()
R.add("npm", "good", "1.0.0", age="400d")
R.add("npm", "evil", "1.0.0", age="400d")
R.add("npm", "half", "1.0.0", age="400d")
R.add("npm", "half", "1.0.1", age="300d")


def report(folder, number, name, versions=None, **more):
    affected = {"package": {"ecosystem": "npm", "name": name}}
    if versions:
        affected["versions"] = versions
    path = os.path.join(folder, "osv", "malicious", "npm", name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, f"MAL-2026-{number}.json"), "w", encoding="utf-8") as f:
        json.dump({"id": f"MAL-2026-{number}", "modified": "2026-01-01T00:00:00Z", "affected": [affected], **more}, f)


def advisories(server, *words, state=None):
    done = subprocess.run([server.program, "packages", "advisories", *words, "--state-dir", state or server.state], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def asked(server, s, path):
    """Status and reason of a request."""
    out = sh(server, s, f"curl -s -m 20 -D - -o /dev/null https://npm.example{path}")["stdout"]
    return out.split("\r\n")[0]


def test_an_imported_list_is_in_force(server):
    R.join(internet.NET)
    s = make(server, policy(packages={"registries": R.entries("npm")}))
    has(asked(server, s, "/evil/-/evil-1.0.0.tgz"), " 200")
    code, out, _ = advisories(server)
    check(code == 0 and "no advisories" in out, out)
    folder = os.path.join(server.state, "reports")
    report(folder, 1, "evil")
    report(folder, 2, "half", ["1.0.1"])
    report(folder, 3, "good", withdrawn="2026-01-02T00:00:00Z")
    with open(os.path.join(folder, "broken.json"), "w", encoding="utf-8") as f:
        f.write("{")
    code, out, err = advisories(server, "import", folder)
    equal((code, out), (0, "4 reports, 1 unreadable, 1 entries left out, 2 lines in force\n"), err)
    has(err, "broken.json")
    wait_for(lambda: " 403 " in asked(server, s, "/evil/-/evil-1.0.0.tgz"), 30, "the list", 0.5)
    has(asked(server, s, "/evil/-/evil-1.0.0.tgz"), "evil 1.0.0 is known as malicious: MAL-2026-1 (packages.advisories)")
    has(asked(server, s, "/half/-/half-1.0.1.tgz"), "MAL-2026-2")
    has(asked(server, s, "/half/-/half-1.0.0.tgz"), " 200")
    has(asked(server, s, "/good/-/good-1.0.0.tgz"), " 200")
    code, out, _ = advisories(server)
    equal((code, out), (0, "2 lines, imported 0 hours ago\n"))
    metrics = server.want(200, "GET", "/metrics", raw=True).decode()
    has(metrics, "cordon_advisories 2\n")
    age = [line for line in metrics.splitlines() if line.startswith("cordon_advisories_age_seconds ")]
    check(len(age) == 1 and 0 <= int(age[0].split()[1]) < 120, age)


def test_the_list_is_in_force_in_a_new_process(server):
    """From the first request: the list is there before any session."""
    s = make(server, policy(packages={"registries": R.entries("npm")}))
    for pid in server.pids("cordon-egress"):
        os.kill(pid, 9)
    seen = set()
    wait_for(lambda: seen.add(asked(server, s, "/evil/-/evil-1.0.0.tgz")) or any(" 403 " in line for line in seen), 30, "the new process", 0.05)
    check(not [line for line in seen if " 200" in line], seen)


def test_an_empty_import_changes_nothing(server):
    folder = os.path.join(server.state, "nothing")
    os.makedirs(folder)
    code, _, err = advisories(server, "import", folder)
    check(code != 0 and "the list is not changed" in err, err)
    equal(advisories(server)[1], "2 lines, imported 0 hours ago\n")
    for words in ((), ("import", folder)):
        code, _, err = advisories(server, *words, state="/nowhere")
        check(code != 0 and "there is no state directory /nowhere: --state-dir names it" in err, err)


def test_the_list_is_dropped(server):
    """The last test: what was refused by the list is allowed again, also in sessions that run."""
    s = make(server, policy(packages={"registries": R.entries("npm")}))
    has(asked(server, s, "/evil/-/evil-1.0.0.tgz"), "MAL-2026-1")
    code, out, err = advisories(server, "clear")
    equal((code, err), (0, ""), out)
    wait_for(lambda: " 200" in asked(server, s, "/evil/-/evil-1.0.0.tgz"), 30, "the list is gone", 0.5)
    for words in ((), ("clear",)):
        code, out, _ = advisories(server, *words)
        check(code == 0 and "no advisories" in out, out)
    code, _, err = advisories(server, "clear", "now")
    check(code != 0 and "advisories clear" in err, err)


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
