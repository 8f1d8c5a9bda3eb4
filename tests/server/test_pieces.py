#!/usr/bin/python3 -B
"""Goal: what cordond reads in pieces is whole, whatever changes or ends between two pieces.

    test_pieces.py CORDON [name ...]

Most of it shows with sanitized daemons only (suite chaos).
"""
import itertools
import json
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, run_tests, wait_for  # noqa: E402

SECONDS = 4


def beside(*works):
    """Calls each work(until) in a thread of its own. Raises what any of them raised."""
    until, failed = time.monotonic() + SECONDS, []

    def run(work):
        try:
            work(until)
        except Exception as e:  # pylint: disable=broad-except
            failed.append(e)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


def asked(server, method, path, body=None):
    """A function that sends one request after the other on a connection of its own."""
    link, headers = server.link(), {"X-API-Key": server.key, "Content-Type": "application/json"}

    def ask():
        link.request(method, path, body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    return ask


def pinned(n):
    return {"version": 1, "packages": {"registries": ["npm"], "pins": {f"npm:name{i}": [f"1.0.{i}"] for i in range(n)}}}


def test_a_policy_is_read_while_it_changes(server):
    documents = [json.dumps(p) for p in (["pypi"], ["npm"], pinned(200))]
    s = server.create(network=["pypi"], timeout="1h")["id"]
    path = f"/v1/sessions/{s}/network"
    seen, changed = set(), []

    def read(until):
        get = asked(server, "GET", path)
        while time.monotonic() < until:
            status, body = get()
            equal(status, 200)
            seen.add(json.loads(body)["name"])

    def change(until):
        puts = [asked(server, "PUT", path, d) for d in documents]
        while time.monotonic() < until:
            for put in puts:
                changed.append(put()[0])

    beside(*[read] * 12, *[change] * 3)
    check({"pypi", "npm"} <= seen, f"names that were seen: {seen}")
    check(changed.count(200) > 20, f"changes: {changed[:20]}")
    server.delete(s)


def test_a_policy_is_read_while_its_session_ends(server):
    """The rows of sessions that end are read from the store."""
    spec = {"network": pinned(300), "timeout": "1h"}
    ids = []
    for _ in range(6):
        wait_for(lambda: ids.append(server.request("POST", "/v1/sessions", spec)[2].get("id")) or ids[-1], 20, "the rate of changes")
    ids = [i for i in ids if i]
    statuses = []

    def read(until):
        gets = [asked(server, "GET", f"/v1/sessions/{i}/network") for i in ids]
        while time.monotonic() < until:
            for get in gets:
                status, body = get()
                statuses.append(status)
                json.loads(body)

    def end(until):
        for i in ids:
            time.sleep(SECONDS / 10)  # others read meanwhile
            server.delete(i)

    beside(*[read] * 8, end)
    equal(set(statuses) - {200, 404}, set(), "statuses")
    check(statuses.count(200) > 50, f"{len(statuses)} answers")


def lockfile(entries):
    lines = [f"package-number-{i}==1.0.{i} --hash=sha256:{i:064x}" for i in range(entries)]
    return {"version": 1, "packages": {"registries": ["pypi"], "lockfiles": [{"name": "requirements.txt", "text": "\n".join(lines)}]}}


def tenants(server, name):
    """Keys of new tenants, without end: each may send a few lockfiles before its rate holds it."""
    return (server.tenant(f"{name}{i}")[1] for i in itertools.count())


def none_is_left(server, key):
    """No session of the tenant. Those whose creation was answered before the client went are ended here: the client
    was told of them. cordond ends the others."""
    left = {s["id"] for s in server.want(200, "GET", "/v1/sessions?ended=false", key=key)["sessions"]}
    told = set(re.findall(r"msg=request .*session_id=(\w+) method=POST path=/v1/sessions status=201", server.log()))
    for s in left & told:
        server.delete(s, key=key)
    return not left


def test_clients_go_while_lockfiles_are_read(server):
    """And a change of a policy, whose session ends meanwhile."""
    create, change = json.dumps({"network": lockfile(4000), "timeout": "1h"}).encode(), json.dumps(lockfile(4000)).encode()
    for n, key in zip(range(10), tenants(server, "goes")):
        s = server.create(key=key, timeout="1h")["id"]
        for method, path, body in (("POST", "/v1/sessions", create), ("PUT", f"/v1/sessions/{s}/network", change)):
            link = server.link()
            link.request(method, path, body, {"X-API-Key": key, "Content-Type": "application/json"})
            time.sleep(n * 0.004)  # another piece each time
            link.close()
        link = server.link()
        link.request("PUT", f"/v1/sessions/{s}/network", change, {"X-API-Key": key, "Content-Type": "application/json"})
        time.sleep(n * 0.004)  # as above
        server.delete(s, key=key)
        answer = link.getresponse()
        check(answer.status in (200, 404, 409, 410, 429), f"{answer.status} {answer.read()}")
        link.close()
        wait_for(lambda key=key: none_is_left(server, key), 20, "no session is left")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
