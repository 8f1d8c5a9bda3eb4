#!/usr/bin/python3
"""test_completions.py - every request is answered once, whatever happens to the keeper, to PID 1 and to
the session meanwhile: stopped, killed, refusing, late, or deleted in between. The daemon keeps its pid.

    test_completions.py CORDON [name ...]
"""
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402

KILLS = True  # of the keeper, in here
FILES = "mkdir -p d; cd d; seq 1 {} | xargs touch"


def same_daemon(test):
    """The daemon that answered the first request answers the last one, too."""

    def tested(server):
        before = server.pid("cordond")
        test(server)
        equal(server.pid("cordond"), before, "cordond's pid")
        equal(server.request("GET", "/healthz", key=None)[0], 200)

    tested.__name__ = test.__name__
    return tested


def at_once(calls):
    """The answers of calls that are made at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [f.result() for f in [pool.submit(call) for call in calls]]


def diff(server, s, key=""):
    return server.request("GET", f"/v1/sessions/{s}/diff", key=key)


def is_honest(answer, allowed):
    """One of the statuses; those that may be tried again say when."""
    status, headers, body = answer
    check(status in allowed, f"{status}, want one of {allowed}: {body}")
    if status in (429, 503):
        check(int(headers.get("retry-after", 0)) > 0, f"{status} without Retry-After")
    return status


class stopped:
    """A process that stands still inside the block."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


# --- lists of changes


@same_daemon
def test_many_diffs_at_once(server):
    s = server.create(timeout="1h")["id"]
    server.run(s, FILES.format(5000))
    read = server.want(201, "POST", "/v1/keys", {"name": "reader", "scopes": ["read"]})["key"]
    for n in (9, 12, 16):
        got = [is_honest(a, (200, 429)) for a in at_once([lambda: diff(server, s, read)] * n)]
        check(200 in got, f"all of {n} were refused")
        check(429 in got, f"{n} readers at once, none was refused")
    status, _, body = wait_for(lambda: (a := diff(server, s, read))[0] == 200 and a, 10, "a reader's place")
    check(status == 200 and len(body["changes"]) >= 5000, "the list is whole")
    server.delete(s)


@same_daemon
def test_diffs_and_the_end_of_their_session(server):
    for _ in range(15):
        s = server.create(timeout="1h")["id"]
        server.run(s, FILES.format(300))
        calls = [lambda s=s: diff(server, s)] * 3 + [lambda s=s: server.request("DELETE", f"/v1/sessions/{s}")]
        for answer in at_once(calls):
            is_honest(answer, (200, 204, 410, 429, 503))


@same_daemon
def test_diffs_of_a_keeper_that_is_late(server):
    s = server.create(timeout="1h")["id"]
    server.run(s, FILES.format(100))
    with ThreadPoolExecutor(8) as pool:
        with stopped(server.pid("keeper")):
            calls = [pool.submit(diff, server, s) for _ in range(8)]
            time.sleep(0.5)  # the requests wait for the keeper
        got = [is_honest(c.result(), (200, 429)) for c in calls]
    check(got.count(200) >= 4, f"answers: {got}")
    server.delete(s)


@same_daemon
def test_diffs_of_a_keeper_that_dies(server):
    s = server.create(timeout="1h")["id"]
    server.run(s, FILES.format(20000))
    for wait_s in (0.0, 0.02, 0.05, 0.1):
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(diff, server, s) for _ in range(4)]
            time.sleep(wait_s)  # the moment of the kill varies
            server.kill("keeper")
            for call in calls:
                is_honest(call.result(), (200, 429, 503))
        server.wait_ready()
    server.delete(s)


@same_daemon
def test_a_diff_whose_client_has_gone(server):
    s = server.create(timeout="1h")["id"]
    server.run(s, FILES.format(2000))
    for _ in range(20):
        link = server.link()
        link.request("GET", f"/v1/sessions/{s}/diff", headers={"X-API-Key": server.key})
        link.close()
    wait_for(lambda: diff(server, s)[0] == 200, 10, "a reader's place")
    server.delete(s)


# --- secrets that cannot be brought


@same_daemon
def test_secrets_that_cannot_be_brought(server):
    server.want(201, "POST", "/v1/secrets", {"name": "tok", "value": "hunter2SECRETVALUE", "hosts": ["a.example.com"]})
    for profile, owner in (("standard", "nosuch"), ("locked", "root")):
        for _ in range(3):
            spec = {"profile": profile, "secrets": [{"name": "tok", "as": "file", "owner": owner}]}
            status, _, body = server.request("POST", "/v1/sessions", spec)
            check(400 <= status < 500, f"{profile}, {owner}: {status} {body}")
    def crashed():
        ended = server.want(200, "GET", "/v1/sessions?state=ended&limit=100")["sessions"]
        return [e["reason"] for e in ended if e["detail"] == "the secrets of the session could not be delivered"] == ["crashed"] * 6

    wait_for(crashed, 10, "the reason of six sessions")
    server.want(204, "DELETE", "/v1/secrets/tok")


# --- logs that are not files


@same_daemon
def test_a_log_that_is_a_fifo(server):
    s = server.create(timeout="1h")["id"]
    x = server.run(s, "echo before")
    name = os.path.join(server.state, "output", f"{x['id']}.log")
    os.unlink(name)
    os.mkfifo(name, 0o666)
    os.chmod(name, 0o666)
    for path in ("output", "output?follow=false", "stream"):
        status, _, _ = server.request("GET", f"/v1/sessions/{s}/executions/{x['id']}/{path}", timeout=20)
        check(status >= 200, path)
    equal(server.run(s, "echo after")["stdout"], "after\n")
    server.delete(s)


# --- everything at once


def everything(server, s):
    """One request of every kind that another program has to do something for."""
    where = f"/v1/sessions/{s}"
    # The end of the keeper that was killed before may be noticed only now.
    made = wait_for(lambda: (r := server.request("POST", "/v1/sessions", {"timeout": "1m"}))[0] == 201 and r[2], 15, "a spare session")
    spare = made["id"]
    server.ids.add(spare)
    return [
        lambda: server.request("POST", "/v1/sessions", {"timeout": "1m"}, timeout=30),
        lambda: server.request("POST", f"{where}/executions?wait=true", {"command": "echo x"}, timeout=30),
        lambda: server.request("GET", f"{where}/diff", timeout=30),
        lambda: server.request("POST", f"{where}/pause", timeout=30),
        lambda: server.request("POST", f"{where}/resume", timeout=30),
        lambda: server.request("GET", f"{where}/files?path=/etc/hostname", timeout=30),
        lambda: server.request("GET", f"{where}/files/list?path=/", timeout=30),
        lambda: server.request("GET", f"{where}/processes", timeout=30),
        lambda: server.request("PUT", f"{where}/network", "deny", timeout=30),
        lambda: server.request("GET", f"{where}/metrics", timeout=30),
        lambda: server.request("PUT", f"{where}/files?path=up", b"x" * 100000, timeout=30),
        lambda: server.request("DELETE", f"/v1/sessions/{spare}", timeout=30),
    ]


@same_daemon
def test_every_request_is_answered_when_the_keeper_dies(server):
    s = server.create(timeout="1h")["id"]
    server.run(s, FILES.format(500))
    for wait_s in (0.0, 0.003, 0.01, 0.03):
        with ThreadPoolExecutor(24) as pool:
            calls = [pool.submit(call) for call in everything(server, s) * 2]
            time.sleep(wait_s)  # the moment of the kill varies
            server.kill("keeper")
            for call in calls:
                status, headers, body = call.result()  # an answer that does not come is an exception
                check(status < 500 or status == 503, f"{status}: {body}")
                check(status != 503 or "retry-after" in headers, "503 without Retry-After")
        server.wait_ready()
        server.want(200, "POST", f"/v1/sessions/{s}/resume")
    server.delete(s)


# --- programs that do not answer


def readiness(server):
    """(status, reason) of /readyz."""
    status, _, body = server.request("GET", "/readyz", key=None)
    return status, str(body)


@same_daemon
def test_a_keeper_that_hangs_is_replaced(server):
    before = server.pid("keeper")
    s = server.create(timeout="1h")["id"]
    with ThreadPoolExecutor(4) as pool:
        os.kill(before, signal.SIGSTOP)
        made = pool.submit(server.request, "POST", "/v1/sessions", {})
        read = pool.submit(diff, server, s)
        wait_for(lambda: server.pid("keeper") not in (None, before), 30, "another keeper")
        status, _, body = made.result()
        equal(status, 201, f"a session that the next keeper makes: {body}")
        is_honest(read.result(), (200, 503))
    has(server.log(), "the keeper does not answer")
    server.wait_ready()
    equal(diff(server, s)[0], 200)
    server.delete(s)
    server.delete(body["id"])


@same_daemon
def test_readiness_tells_of_a_keeper_that_hangs(server):
    """The supervisor stands still, too, so that there is no other keeper for a while."""
    before = server.pid("keeper")
    s = server.create(timeout="1h")["id"]
    with stopped(server.pid("supervisor")), ThreadPoolExecutor(4) as pool:
        os.kill(before, signal.SIGSTOP)
        late = pool.submit(diff, server, s)
        paused = pool.submit(server.request, "POST", f"/v1/sessions/{s}/pause")
        wait_for(lambda: readiness(server)[0] == 503, 30, "readiness")
        has(readiness(server)[1], "the keeper does not answer")
        is_honest(server.request("POST", "/v1/sessions", {}), (503,))
        is_honest(late.result(), (503,))
        is_honest(paused.result(), (503, 422, 501))
        equal(server.run(s, "echo still here")["stdout"], "still here\n", "what needs no keeper")
    server.wait_ready(30)
    check(server.pid("keeper") != before, "the keeper was not replaced")
    equal(diff(server, s)[0], 200)
    server.delete(s)


@same_daemon
def test_an_egress_that_hangs_is_replaced(server):
    before = server.pid("cordon-egress")
    with stopped(server.pid("supervisor")):
        os.kill(before, signal.SIGSTOP)
        wait_for(lambda: readiness(server)[0] == 503, 30, "readiness")
        has(readiness(server)[1], "cordon-egress does not answer")
        is_honest(server.request("POST", "/v1/sessions", {"network": {"version": 1, "rules": ["a.example"]}}), (503,))
    wait_for(lambda: server.pid("cordon-egress") not in (None, before), 30, "another egress")
    server.wait_ready()
    s = server.create(timeout="1h", network="deny")["id"]
    server.delete(s)


@same_daemon
def test_a_pid_1_that_hangs(server):
    s = server.create(timeout="1h", network="none")["id"]
    where = f"/v1/sessions/{s}"
    server.run(s, "echo hello > file")
    with stopped(server.cell_pids(s)[0]), ThreadPoolExecutor(8) as pool:
        begun = time.monotonic()
        short = {"command": "sleep 100", "timeout": "1s"}
        calls = {
            "file": pool.submit(server.request, "GET", f"{where}/files?path=file"),
            "list": pool.submit(server.request, "GET", f"{where}/files/list?path=."),
            "execution": pool.submit(server.request, "POST", f"{where}/executions?wait=true", short),
            "policy": pool.submit(server.request, "PUT", f"{where}/network", "deny"),
        }
        for name in ("file", "list", "policy"):
            is_honest(calls[name].result(), (503,))
        status, _, body = calls["execution"].result()
        equal((status, body["state"], body["limit"]), (200, "killed", "timeout"), "an execution that nothing ends")
        check(time.monotonic() - begun < 40, "all of them took too long")
    equal(server.want(200, "GET", f"{where}/files?path=file"), b"hello\n", "when it goes on")
    equal(server.run(s, "echo again")["stdout"], "again\n", "when it goes on")
    wait_for(lambda: server.run(s, "pgrep -x sleep || true")["stdout"] == "", 10, "end of what timed out")
    server.delete(s)


@same_daemon
def test_a_program_whose_pid_1_hangs(server):
    """It runs on after its timeout, and its record says so, until the cell is ended for it."""
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, "while true; do echo x; sleep 0.2; done", timeout="2s")
    wait_for(lambda: server.execution(x)["stdout_bytes"] > 0, 15, "its output")
    with stopped(server.cell_pids(s)[0]):
        time.sleep(4)  # past its timeout
        equal(server.execution(x)["state"], "running", "the state of a program that runs")
        equal(server.reaches(s, "ended", 60)["reason"], "unresponsive")
    done = server.execution(x)
    equal((done["state"], done["limit"], done["exit_code"]), ("killed", "timeout", 124))


@same_daemon
def test_a_session_deleted_while_its_pid_1_hangs(server):
    s = server.create(timeout="1h")["id"]
    where = f"/v1/sessions/{s}"
    with stopped(server.cell_pids(s)[0]), ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(server.request, "GET", f"{where}/files?path=file"),
            pool.submit(server.request, "POST", f"{where}/executions?wait=true", {"command": "true"}),
            pool.submit(server.request, "PUT", f"{where}/network", "deny"),
        ]
        time.sleep(0.3)  # the requests wait for PID 1
        server.delete(s)
        for call in calls:
            is_honest(call.result(), (200, 410, 409))
    server.reaches(s, "ended")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0, keepers=1, keeper_timeout="3s", egress_timeout="3s")
