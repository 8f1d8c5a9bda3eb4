#!/usr/bin/python3 -B
"""Goal: what sessions used is added up by tenant and label, once, whatever is killed, in a bounded number of rows.

    test_usage.py CORDON [name ...]
"""
import itertools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from harness import check, equal, run_tests, wait_for  # noqa: E402

KILLS = True  # of cordond
BURN = "python3 -c 'import time\nwhile time.process_time() < 1: pass'"
numbers = itertools.count(1)


def tenant(server):
    return server.tenant(f"usage{next(numbers)}")


def usage(server, key, query=""):
    return server.want(200, "GET", "/v1/usage" + query, key=key)


def labels(server, key):
    return {u["label"]: u for u in usage(server, key)["labels"]}


def run(server, key, label, command, end=True):
    s = server.create(key=key, metadata={} if label is None else {"label": label, "other": "x"})
    server.run(s["id"], command, key=key)
    if end:
        server.delete(s["id"], key=key)
    return s["id"]


def test_by_label(server):
    _, key = tenant(server)
    run(server, key, "red", BURN)
    run(server, key, "red", "head -c 64M /dev/zero > held; sleep 1")
    run(server, key, None, "true")
    found = labels(server, key)
    equal({label: u["sessions"] for label, u in found.items()}, {"": 1, "red": 2}, "sessions")
    check(1 <= found["red"]["cpu_seconds"] < 5, found)
    check(found[""]["cpu_seconds"] < 1, found)
    check(found["red"]["memory_gib_seconds"] >= 0.06, found)
    total = usage(server, key)["total"]
    equal(total["sessions"], 3)
    check(abs(total["cpu_seconds"] - sum(u["cpu_seconds"] for u in found.values())) < 0.01, total)


def test_tenants_see_their_own(server):
    _, one = tenant(server)
    _, two = tenant(server)
    run(server, one, "x", "true")
    equal(labels(server, two), {}, "of another tenant")


def test_once_whatever_is_killed(server):
    _, key = tenant(server)
    s = run(server, key, "killed", BURN, end=False)
    server.kill("cordond")
    server.wait_ready()
    server.run(s, "true", key=key)
    server.delete(s, key=key)
    found = labels(server, key)["killed"]
    check(1 <= found["cpu_seconds"] < 5 and found["sessions"] == 1, found)
    server.restart()
    equal(labels(server, key)["killed"], found, "after another start")


def test_memory_of_the_time_around_a_kill(server):
    """What was not written yet, and the time without a daemon: the cell held its memory all the while."""
    _, key = tenant(server)
    s = run(server, key, "held", "head -c 96M /dev/zero > /tmp/held; sleep 3", end=False)
    server.stop()
    time.sleep(3)  # the time that must be counted
    server.start()
    server.delete(s, key=key)
    found = labels(server, key)["held"]
    check(found["memory_gib_seconds"] >= 0.09 * 5, f"at least 5 of 6 seconds of 96 MiB: {found}")
    check(found["memory_gib_seconds"] < 0.09 * 60 and found["sessions"] == 1, found)


def test_spans(server):
    _, key = tenant(server)
    run(server, key, "now", "true")
    now = int(time.time())
    equal(usage(server, key, f"?from={now - 7200}&to={now}")["total"]["sessions"], 1, "the hour is in it")
    equal(usage(server, key, f"?from={now - 90000}&to={now - 7200}")["total"]["sessions"], 0, "before it")
    for bad in (f"?from={now}&to={now - 1}", f"?from=1&to={now}", "?from=x", "?what=1"):
        server.refused(400, "invalid", "GET", "/v1/usage" + bad, key=key)


def test_labels_and_hours_are_bounded(server):
    i, key = tenant(server)
    run(server, key, "l0", "true")
    hour = int(time.time()) // 3600 * 3600000
    server.stop()
    with rows.database(server, write=True) as db:
        for n in range(1, 256):
            db.execute("INSERT INTO usage VALUES (?, ?, ?, 0, 0, 0, 0, 0, 1)", (i, hour, f"l{n}"))
        db.execute("INSERT INTO usage VALUES (?, ?, ?, 0, 0, 0, 0, 0, 1)", (i, hour - 400 * 24 * 3600000, "old"))
    server.start()
    run(server, key, "one too many", "true")
    run(server, key, "l7", "true")
    count = "SELECT count(*) FROM usage WHERE tenant = ?"
    found = labels(server, key)
    if int(time.time()) // 3600 * 3600000 == hour:
        equal((len(found), found["(other)"]["sessions"], found["l7"]["sessions"]), (257, 1, 2), "labels")
    wait_for(lambda: rows.number(server, count + " AND label = 'old'", i) == 0, 10, "the end of rows whose retention is over", 0.1)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
