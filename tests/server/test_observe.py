#!/usr/bin/python3 -B
"""Goal: what an operator sees of a server is true, complete and safe to read: its log, its metrics, its
health; and cordond is as powerless as it is said to be.

    test_observe.py CORDON [name ...]
"""
import json
import os
import re
import signal
import socket
import stat

import harness
from harness import Server, check, children, equal, has, run_tests, stays, wait_for

KILLS = True  # the keeper, once
EVIL = 'x"\n time=0 level=error msg=forged\r\x1b[31m\x07 é\u202e\\'
FIELD = re.compile(r'([a-z0-9_]+)=("(?:[^"\\\x00-\x1f\x7f]|\\.)*"|[^\s"=\x00-\x1f\x7f]*)(?: |$)')
LEVELS = ("debug", "info", "warn", "error")


def logfmt(line):
    """A line as fields; anything that is not well-formed is a failure."""
    at, fields = 0, {}
    while at < len(line):
        match = FIELD.match(line, at)
        check(match is not None, f"no field at {at} of {line!r}")
        check(match[1] not in fields, f"{match[1]} twice in {line!r}")
        fields[match[1]] = json.loads(match[2]) if match[2].startswith('"') else match[2]
        at = match.end()
    return fields


def lines(server, parse):
    found = []
    for line in server.log().splitlines():
        fields = parse(line)
        check({"time", "level", "msg"} <= set(fields), f"no time, level or msg: {line!r}")
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"]), f"time of {line!r}")
        check(fields["level"] in LEVELS, f"level of {line!r}")
        found.append(fields)
    return found


def provoke(server):
    """Everything that a tenant can put into a log, at least once: (session, request ids)."""
    tenant, key = server.tenant('evil "tenant\' name=x')
    session = server.create(key=key, metadata={"note": EVIL}, env={"EVIL": EVIL})["id"]
    server.run(session, "echo '" + EVIL.replace("\n", " ") + "'", key=key)
    requests = []
    for method, path in (
        ("GET", f"/v1/sessions/{session}/files?path=%0a%22%1b[31m"),
        ("PUT", f"/v1/sessions/{session}/files?path=a%0ab%22c"),
        ("GET", f"/v1/sessions/{session}"),
        ("GET", "/v1/sessions/%0aforged%3d1"),
        ("GET", "/v1/x%22y%20level=error"),
    ):
        _, headers, _ = server.request(method, path, b"x" if method == "PUT" else None, key=key)
        requests.append(headers["x-request-id"])
    server.request("POST", "/v1/sessions", {"template": EVIL}, key=key)
    server.request("POST", "/v1/sessions", {"mounts": [{"source": "/" + EVIL, "target": "/x"}]}, key=key)
    server.request("POST", f"/v1/sessions/{session}/executions", {"command": "true", "user": EVIL}, key=key)
    server.request("GET", "/v1/sessions", headers={"X-API-Key": "e2b_" + "5" * 40, "User-Agent": "a\tb"})
    with socket.create_connection(server.address, 10) as s:
        s.sendall(b'GET /\x1b[31m"\xff HTTP/1.1\r\nHost: "x\r\n\r\n')
        s.recv(4096)
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")
    return session, requests, key


def look_at_log(server, parse):
    session, requests, key = provoke(server)
    wait_for(lambda: not server.cell_pids(session), 10, "the end of its cell")
    wait_for(lambda: re.search(session + ".*ending.*ended", server.log()), 15, "the line of its end")
    text = server.log()
    for secret in (server.key, key, "5" * 40):
        check(secret[4:] not in text, "a key is in the log")
    bad = [c for c in text if (ord(c) < 32 and c != "\n") or ord(c) in (0x7F, 0xFFFD)]
    equal(bad, [], "control characters in the log")
    found = lines(server, parse)
    check(not any(f["msg"] == "forged" or "forged" in f for f in found), "a forged line")
    by_id = {f["request_id"]: f for f in found if f["msg"] == "request"}
    for request in requests:
        check(request in by_id, f"no line of request {request}")
        check({"session_id", "method", "path", "status", "us"} <= set(by_id[request]), f"{by_id[request]}")
    equal(by_id[requests[2]]["session_id"], session, "session_id of a request about a session")
    moves = [(f["from"], f["to"]) for f in found if f["msg"] == "session state changed" and f.get("session_id") == session]
    has(moves, ("ending", "ended"), "the session's states in the log")


def test_the_log_as_logfmt(server):
    look_at_log(server, logfmt)


def test_the_log_as_json():
    with Server(pool_size=0, log_format="json") as server:
        look_at_log(server, json.loads)


def test_the_log_says_only_what_was_asked_for():
    with Server(pool_size=0, log_level="error") as server:
        server.create()
        server.restart()
        equal([f["level"] for f in lines(server, logfmt) if f["level"] != "error"], [], "below error")


# -- metrics


def metrics(server):
    """{name{labels}: value}, by the rules of Prometheus' text format."""
    status, headers, data = server.request("GET", "/metrics", raw=True)
    equal(status, 200, "/metrics")
    has(headers["content-type"], "text/plain", "type")
    text, types, helped, values = data.decode(), {}, set(), {}
    check(text.endswith("\n"), "the last line has no end")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            check(name not in types, f"{name}: TYPE twice")
            check(kind in ("counter", "gauge", "histogram"), line)
            types[name] = kind
        else:
            m = re.fullmatch(r'([a-z_]+)(\{[a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*\})? ([0-9.e+-]+|\+Inf)', line)
            check(m is not None, f"not a sample: {line!r}")
            base = re.sub(r"_(bucket|sum|count)$", "", m[1]) if m[1] not in types else m[1]
            check(base in types and base in helped, f"{m[1]} has no TYPE or HELP before it")
            check(types[base] != "counter" or m[1].endswith("_total"), f"counter {m[1]}")
            key = m[1] + (m[2] or "")
            check(key not in values, f"{key} twice")
            values[key] = float(m[3])
    for name, kind in types.items():
        if kind == "histogram":
            check_histogram(name, values)
    return values


def check_histogram(name, values):
    series = {}
    for key, value in values.items():
        m = re.fullmatch(name + r'_bucket\{(.*,)?le="([^"]+)"\}', key)
        if m:
            series.setdefault((m[1] or "").rstrip(","), []).append((float(m[2].replace("+Inf", "inf")), value))
    check(series, f"{name} has no buckets")
    for labels, buckets in series.items():
        equal(buckets, sorted(buckets), f"order of the buckets of {name}")
        counts = [count for _, count in buckets]
        equal(counts, sorted(counts), f"buckets of {name} add up")
        equal(buckets[-1][0], float("inf"), f"last bucket of {name}")
        equal(counts[-1], values[f"{name}_count" + (f"{{{labels}}}" if labels else "")], f"count of {name}")


def test_metrics_move(server):
    before = metrics(server)

    def moved(prefix, now):
        return sum(v - before.get(k, 0) for k, v in now.items() if k.startswith(prefix))

    session = server.create()["id"]
    equal(metrics(server)['cordon_sessions{state="running"}'], 1, "running sessions")
    server.run(session, "true")
    server.run(session, "kill -9 $$")
    server.run(session, "no-such-program-at-all")
    server.run(session, ["/no/such/program"])
    server.run(session, "sleep 60", timeout="100ms")
    server.run(session, "head -c 40M /dev/zero > /dev/shm/x; sleep 0.1")
    server.create(limits={"memory": "100M"})
    now = metrics(server)
    equal(now['cordon_sessions{state="running"}'], 2, "running sessions")
    check(moved("cordon_requests_total", now) >= 8, "requests")
    check(moved("cordon_request_seconds_count", now) >= 8, "requests' time")
    equal(moved("cordon_create_seconds_count", now), 2, "creates' time")
    equal(moved('cordon_executions_total{outcome="exited"}', now), 3, "executions that exited")
    equal(moved('cordon_executions_total{outcome="killed"}', now), 2, "executions that were killed")
    equal(moved('cordon_executions_total{outcome="failed"}', now), 1, "executions that failed")
    equal(moved("cordon_execution_seconds_count", now), 6, "executions' time")
    equal(moved('cordon_limit_hits_total{limit="timeout"}', now), 1, "limits hit")
    equal((moved("cordon_pool_hits_total", now), moved("cordon_pool_misses_total", now)), (1, 1), "pool")
    wait_for(lambda: metrics(server)["cordon_cell_memory_bytes"] > 40 << 20, 20, "memory of cells")
    check(now["cordon_memory_promised_bytes"] >= 612 << 20, "memory promised")
    check(0 < moved("cordon_request_seconds_sum", now) < 100, "seconds of all requests")
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    check(session not in text and "ten_" not in text, "tenants' data in /metrics")
    for s in server.want(200, "GET", "/v1/sessions?state=running")["sessions"]:
        server.delete(s["id"])
    wait_for(lambda: metrics(server)['cordon_sessions{state="running"}'] == 0, 10, "no sessions")


# -- health


def test_health_and_readiness(server):
    equal(server.want(200, "GET", "/healthz", key=None), {"status": "ok"}, "/healthz")
    equal(server.want(200, "GET", "/readyz", key=None)["status"], "ok", "/readyz")
    supervisor = server.pid("supervisor")
    os.kill(supervisor, signal.SIGSTOP)  # so that nobody replaces the keeper
    try:
        for pid in server.pids("keeper"):
            os.kill(pid, signal.SIGKILL)
        why = wait_for(lambda: (a := server.request("GET", "/readyz", key=None))[0] == 503 and a[2], 15, "503")
        has(why["why"], "keeper", "why")
        server.want(200, "GET", "/healthz", key=None)
        status, headers, body = server.request("POST", "/v1/sessions", {})
        check(status in (201, 503), f"a create without a keeper: {status} {body}")
        check(status == 201 or "retry-after" in headers, "when to ask again")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    server.wait_ready()
    server.run(server.create()["id"], "true")


def test_ready_means_that_every_program_is_there(server):
    """One of each kind that sessions need. cordon-pull, cordon-cache and cordon-notary are none of them."""
    supervisor = server.pid("supervisor")
    for name, ready in (("cordon-storage", False), ("cordon-egress", False), ("cordon-pull", True), ("cordon-cache", True), ("cordon-notary", True)):
        os.kill(supervisor, signal.SIGSTOP)  # so that nobody replaces it
        try:
            for pid in server.pids(name):
                os.kill(pid, signal.SIGKILL)
            server.want(200, "GET", "/healthz", key=None)
            if ready:
                stays(lambda: server.request("GET", "/readyz", key=None)[0] == 200, 0.3, "readiness")
                continue
            why = wait_for(lambda: (a := server.request("GET", "/readyz", key=None))[0] == 503 and a[2], 15, "503")
            has(why["why"], name + " is not running", "why")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        server.wait_ready()
        server.run(server.create()["id"], "true")


# -- how little cordond may


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def test_cordond_is_confined(server):
    pid = server.pid("cordond")
    user = "\t".join([str(harness.USER)] * 4)
    threads = os.listdir(f"/proc/{pid}/task")
    equal(len(threads), 2, "threads: the event loop, and the one that moves the store's journal")
    for thread in threads:
        now = status_of(f"{pid}/task/{thread}")
        equal((now["Uid"], now["Gid"], now["Groups"].strip()), (user, user, ""), "user and groups")
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            equal(int(now[name], 16), 0, name)
        equal((now["NoNewPrivs"], now["Seccomp"]), ("1", "2"), "no new privileges, system-call filter")
    with open(f"/proc/{pid}/environ", "rb") as f:
        equal(f.read(), b"", "environment")
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        equal(f.read(), b"cordond\0", "command line")
    equal(os.stat(f"/proc/{pid}/environ").st_uid, 0, "it is not dumpable")
    good = re.compile(
        r"socket:|pipe:|anon_inode:|/memfd:|/dev/null|/proc/meminfo|/sys/fs/cgroup|/$|/.*/runsc$" + f"|{server.folder}/(state|run|log)($|/)"
    )
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:  # closed meanwhile
            continue
        check(good.match(path), f"descriptor {fd} of cordond is {path}")


def test_the_keeper_is_alone_with_its_rights(server):
    pid = server.pid("keeper")
    with open(f"/proc/{pid}/environ", "rb") as f:
        equal(f.read(), b"", "environment")
    def owners():
        found = {}
        for p in children(server.process.pid):
            try:
                found[harness.comm(p)] = status_of(p)["Uid"].split()[1]
            except (FileNotFoundError, ProcessLookupError):  # another test killed it, and it was collected in between
                continue
        return found
    want = {"cordond": str(harness.USER), "cordon-egress": str(harness.USER + 1), "cordon-keeper": "0", "cordon-storage": "0",
            "cordon-pull": str(harness.USER + 1), "cordon-cache": str(harness.USER + 2), "cordon-notary": str(harness.USER + 3)}
    wait_for(lambda: set(owners()) == set(want), 10, "the programs, which other tests kill, under their own names")
    wait_for(lambda: owners() == want, 10, f"who runs as whom: {owners()}, want {want}")


def test_files_are_its_own(server):
    for folder, dirs, names in os.walk(server.state):
        for name in [*dirs, *names]:
            st = os.lstat(os.path.join(folder, name))
            # The supervisor's: the key that secrets are sealed with, the directory of templates, and all of cordon-storage.
            path = os.path.relpath(os.path.join(folder, name), server.state)
            root = path in ("secrets.key", "templates") or path.split("/")[0] == "storage"
            others = {"packages": 2}  # of cordon-cache
            equal(st.st_uid, 0 if root else harness.USER + others.get(path.split("/")[0], 0), f"owner of {path}")
            equal(stat.S_IMODE(st.st_mode) & 0o077, 0, f"mode of {name} for others")
    for name in os.listdir(os.path.join(server.run_dir, "cells")):
        equal(os.lstat(os.path.join(server.run_dir, "cells", name)).st_uid, harness.USER, f"owner of {name}")
    equal(stat.S_IMODE(os.stat(os.path.join(server.run_dir, "cells")).st_mode) & 0o077, 0, "mode of RUN/cells")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
