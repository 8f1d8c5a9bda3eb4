#!/usr/bin/python3 -B
"""Goal: what sessions used is added up by tenant and label, once, whatever is killed, in a bounded number of rows.

    test_usage.py CORDON [name ...]
"""
import csv
import io
import itertools
import json
import os
import subprocess
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


SUMS = ("sessions", "cpu_seconds", "memory_gib_seconds", "disk_gib_seconds", "network_bytes_in", "network_bytes_out", "model_tokens_in",
        "model_tokens_out")


def close(one, other, what):
    """The same sums, but for thousandths that were cut off."""
    for name in SUMS:
        check(abs(one[name] - other[name]) <= 0.02, f"{what}: {name}: {one} and {other}")


def added(rows):
    return {name: sum(row[name] for row in rows) for name in SUMS}


def by_session(server, key, limit=100):
    after, found = "", []
    while after is not None:
        page = usage(server, key, f"?by=session&limit={limit}" + (f"&after={after}" if after else ""))
        check(len(page["usage"]) <= limit, "a page beyond its limit")
        found, after = found + page["usage"], page["next"]
    return found


def test_by_session_key_and_tenant(server):
    """The same use, added up in four ways; a restart changes nothing; a session's sums go with its record."""
    mine, key = tenant(server)
    team = {"team": "=cmd|'x'!A1", "label": "red"}
    made = [server.create(key=key, metadata=m)["id"] for m in (team, team, {"team": "two"}, {}, {"team": "7"})]
    for s in made:
        server.run(s, BURN if s == made[2] else "true", key=key)
        server.delete(s, key=key)
        server.reaches(s, "ended", key=key)
    all_ = usage(server, key)["total"]
    rows_ = by_session(server, key)
    equal([row["session_id"] for row in rows_], made[::-1], "newest first")
    equal(rows_[-1]["metadata"], team)
    check(rows_[2]["cpu_seconds"] >= 1 and rows_[2]["sessions"] == 1, rows_[2])
    close(added(rows_), all_, "by session")
    for limit in (1, 2):
        equal(by_session(server, key, limit), rows_, f"pages of {limit}")
    teams = usage(server, key, "?by=label&key=team")
    equal([(u["label"], u["sessions"]) for u in teams["labels"]], [("", 1), ("7", 1), ("=cmd|'x'!A1", 2), ("two", 1)])
    close(teams["total"], all_, "by another key")
    equal(usage(server, key, "?by=label&key=label"), usage(server, key), "the usual key")
    own = usage(server, key, "?by=tenant")
    equal([u["tenant_id"] for u in own["tenants"]], [mine], "others see their own")
    close(own["total"], all_, "by tenant")
    every = usage(server, "", "?by=tenant")
    (row,) = [u for u in every["tenants"] if u["tenant_id"] == mine]
    close(row, all_, "the operator's view")
    check(len(every["tenants"]) >= 2, every)
    # what others have is in none of them
    _, other = tenant(server)
    equal((by_session(server, other), usage(server, other, "?by=label&key=team")["labels"]), ([], []))
    # spans: whole hours
    equal(usage(server, key, "?by=session&from=0&to=3600")["usage"], [])
    equal(usage(server, key, "?by=label&key=team&from=0&to=3600")["labels"], [])
    for query in ("by=x", "key=team&by=session", "by=session&limit=0", "by=session&after=x", "by=label&key=" + 300 * "k"):
        server.refused(400, "invalid", "GET", f"/v1/usage?{query}", key=key)
    server.restart()
    equal(by_session(server, key), rows_, "after a restart")
    check_command_line(server, key, rows_, all_)


def check_command_line(server, key, rows_, all_):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": key}

    def cordon(*args, code=0):
        p = subprocess.run([server.program, "usage", *args], env=env, capture_output=True, timeout=60)
        equal(p.returncode, code, p.stderr)
        return (p.stdout if code == 0 else p.stderr).decode()

    prices = os.path.join(server.folder, "prices.json")
    with open(prices, "w") as f:
        json.dump({"currency": "EUR", "session": 0.5, "cpu_second": 2, "network_gib_out": 1}, f)
    got = list(csv.DictReader(io.StringIO(cordon("--by", "session", "--prices", prices, "--csv"), newline="")))
    equal([row["session_id"] for row in got], [row["session_id"] for row in rows_])
    for row, want in zip(got, rows_):
        equal((float(row["cpu_seconds"]), int(row["network_bytes_out"]), row["currency"]),
              (want["cpu_seconds"], want["network_bytes_out"], "EUR"))
        check(abs(float(row["cost"]) - 0.5 - 2 * want["cpu_seconds"] - want["network_bytes_out"] / 2**30) < 1e-5, row)
    # no field is a formula, and a text keeps its quotes
    text = cordon("--key", "team", "--csv")
    check("\r\n\"'=cmd|'x'!A1\",2," in text, text)
    equal(list(csv.reader(io.StringIO(text, newline="")))[0], ["label", *SUMS])
    answer = json.loads(cordon("--key", "team", "--json", "--prices", prices))
    check(abs(float(answer["total"]["cost"]) - sum(float(row["cost"]) for row in got)) < 0.05, answer["total"])
    equal(json.loads(cordon("--json"))["total"]["sessions"], all_["sessions"])
    check("(all)" in cordon("--by", "tenant") and "COST" in cordon("--prices", prices), "tables")
    with open(prices, "w") as f:
        f.write('{"cpu_seconds": 1}')
    check("cpu_seconds: unknown member" in cordon("--prices", prices, code=2), "a wrong name")
    with open(prices, "w") as f:
        f.write('{"cpu_second": -1}')
    check("must be a number" in cordon("--prices", prices, code=2), "a wrong price")
    cordon("--by", "x", code=2)
    cordon("--by", "session", "--key", "team", code=2)


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
            db.execute("INSERT INTO usage (tenant, hour_ms, label, cpu_us, memory_kib_ms, disk_kib_ms, net_bytes_in, net_bytes_out, sessions) VALUES (?, ?, ?, 0, 0, 0, 0, 0, 1)", (i, hour, f"l{n}"))
        db.execute("INSERT INTO usage (tenant, hour_ms, label, cpu_us, memory_kib_ms, disk_kib_ms, net_bytes_in, net_bytes_out, sessions) VALUES (?, ?, ?, 0, 0, 0, 0, 0, 1)", (i, hour - 400 * 24 * 3600000, "old"))
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
