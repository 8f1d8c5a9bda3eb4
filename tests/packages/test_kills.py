#!/usr/bin/python3 -B
"""Goal: whichever process is killed while packages come, nothing that arrives or is kept is wrong or half, and limits stay.

    test_kills.py CORDON [name ...]"""
import hashlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
import registry_answer  # noqa: E402
from checks import settled  # noqa: E402
from harness import check, equal, wait_for  # noqa: E402
from internet_client import make, policy, sh  # noqa: E402
from registry import Registry  # noqa: E402

R = Registry()
KILLS = True  # for harness.py: programs of the server die


def session(server, **packages):
    if "npm.example" not in internet.NET.zone:
        R.join(internet.NET)
    return make(server, policy(packages={"registries": R.entries("npm"), **packages}))


def fetched(server, s, url):
    """(exit code of curl, status, SHA-256)"""
    done = sh(server, s, f"curl -sS -m 20 -o /tmp/body -w '%{{http_code}} ' '{url}'; echo $?; sha256sum < /tmp/body")
    words = done["stdout"].split()
    return int(words[1]), int(words[0]), words[2]


def test_downloads_and_kills(server):
    for i, name in enumerate(["cordon-cache", "cordond", "cordon-egress"] * 2):
        R.add("npm", f"big{i}", "1.0.0", age="400d", pad=400000)
        path, s = R.path("npm", f"big{i}", "1.0.0"), session(server)
        want = hashlib.sha256(R.parts["npm"].data(R.find("npm", f"big{i}", "1.0.0"))).hexdigest()
        R.fault(path, registry_answer.slow(40000, 0.1))
        sh(server, s, f"rm -f /tmp/code; (curl -sS -m 20 -o /tmp/got https://npm.example{path}; echo $? > /tmp/code) >/dev/null 2>&1 &")
        wait_for(lambda path=path: R.count(path), 10, "the request at the registry")
        server.restarted(name)
        R.heal()
        code = wait_for(lambda s=s: sh(server, s, "cat /tmp/code")["stdout"].strip(), 20, "the end of the download")
        got = sh(server, s, "sha256sum < /tmp/got")["stdout"][:64]
        if name == "cordon-egress":
            check(code != "0", "a download came to its end without cordon-egress")
        else:
            equal((code, got), ("0", want), f"a download while {name} was killed")
        for _ in range(2):  # from the registry, then from the cache
            equal(wait_for(lambda s=s, path=path: (f := fetched(server, s, f"https://npm.example{path}"))[0] == 0 and f, 20, "the file"),
                  (0, 200, want), f"after the end of {name}")


def test_metadata_and_kills(server):
    s = session(server)
    for i, name in enumerate(["cordon-cache", "cordon-egress"]):
        R.add("npm", f"doc{i}", "1.0.0", age="400d")
        R.fault(f"/doc{i}", registry_answer.delay(1), times=1)
        sh(server, s, f"(curl -sS -m 20 -o /tmp/got https://npm.example/doc{i}) >/dev/null 2>&1 &")
        wait_for(lambda i=i: R.count(f"/doc{i}"), 10, "the request at the registry")
        server.restarted(name)
        equal(wait_for(lambda i=i: (f := fetched(server, s, f"https://npm.example/doc{i}"))[0] == 0 and f, 20, "the document")[1], 200,
              f"after the end of {name}")
    R.heal()


def test_budgets_stay(server):
    R.add("npm", "paid", "1.0.0", age="400d", pad=100000)
    path = R.path("npm", "paid", "1.0.0")
    s = session(server, bytes="150000", new_names=2)
    equal(fetched(server, s, f"https://npm.example{path}")[1], 200, "the first")
    for i in range(2):
        equal(fetched(server, s, f"https://npm.example/nobody{i}")[1], 404, "a name")
    requests = settled(lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}")["usage"]["network"]["requests"], quiet=1.0)
    check(requests >= 5, f"cordond knows of {requests} requests")
    server.restarted("cordon-egress")
    wait_for(lambda: fetched(server, s, f"https://npm.example{path}")[1] == 403, 20, "the refusal of what is over the budget")
    equal(fetched(server, s, "https://npm.example/nobody9")[1], 403, "a name too many")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
