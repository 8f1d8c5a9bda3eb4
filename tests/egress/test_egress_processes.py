#!/usr/bin/python3 -B
"""Goal: several processes of cordon-egress. Sessions are spread over them; one that is killed or hangs takes the
network from its own sessions only, and they get it back; an upgrade replaces all; records of all are complete.

    test_egress_processes.py CORDON [name ...]

Which session belongs to which process is found out by stopping one process and asking in all sessions: a test does not
know how it is chosen. Runs in a small internet of its own (internet.py)."""
import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import internet
import level
from harness import Server, check, equal, has, note, wait_for
from internet_client import POLICY, curl, make, policy, put, records

KILLS = True  # tests here kill programs of the server
PROCESSES = 2
READY_S = 20


def number(server, name):
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    return int(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + " ")))


def all_there(server):
    pids = wait_for(lambda: len(p := server.pids("cordon-egress")) == PROCESSES and p, READY_S, "all processes")
    wait_for(lambda: number(server, "cordon_egress_up") == PROCESSES, READY_S, "their channels")
    return pids


def together(calls):
    with ThreadPoolExecutor(16) as pool:
        return [f.result() for f in [pool.submit(c) for c in calls]]


def reach(server, s, seconds=10, path="/echo"):
    return curl(server, s, f"http://web.example{path}", seconds=seconds)[1] == 200


def reach_all(server, sessions, **more):
    return together([lambda s=s: reach(server, s, **more) for s in sessions])


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def sessions_of(server, pid, sessions):
    """(those of this process, the others)"""
    with stopped(pid):
        reached = reach_all(server, sessions, seconds=1 + level.PATIENCE)
    own = [s for s, r in zip(sessions, reached) if not r]
    return own, [s for s in sessions if s not in own]


def spread(server, network=POLICY):
    """Sessions in both processes: (pid, its sessions, sessions of the other)."""
    pids = all_there(server)
    sessions = together([lambda: make(server, network)] * 6)
    for _ in range(6):
        own, others = sessions_of(server, pids[0], sessions)
        if len(own) >= 2 and len(others) >= 2:
            return pids[0], own, others
        sessions += together([lambda: make(server, network)] * 3)
    raise AssertionError(f"{len(sessions)} sessions are not spread: {len(own)} and {len(others)}")


def come_back(server, sessions, why):
    for s in sessions:
        wait_for(lambda s=s: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", READY_S,
                 f"network access {why}")
        wait_for(lambda s=s: reach(server, s), READY_S, f"the network {why}")


def end(server, *lists):
    for sessions in lists:
        for s in sessions:
            server.delete(s["id"])


HOLD = """
import socket, sys, time
s = socket.create_connection(('web.example', 80))
while True:
    s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')
    if not s.recv(65536).startswith(b'HTTP/1.1 200 '):
        sys.exit(3)
    open('/tmp/held', 'w').close()
    time.sleep(0.05)
"""


def hold(server, sessions):
    """One connection of each, used all the time; it ends the program if it breaks."""
    made = [server.spawn(s["id"], ["/usr/bin/python3", "-c", HOLD]) for s in sessions]
    for s in sessions:
        wait_for(lambda s=s: server.run(s["id"], "test -e /tmp/held")["exit_code"] == 0, READY_S, "the connection")
    return made


def is_running(server, x):
    return server.execution(x)["state"] == "running"


def test_as_many_as_set(server):
    equal(len(all_there(server)), PROCESSES)
    equal(number(server, "cordon_egress_processes"), PROCESSES, "processes that there should be")
    with Server(pool_size=0, egress_processes=0) as usual:
        wait_for(lambda: len(usual.pids("cordon-egress")) == max(1, min(4, os.cpu_count() // 2)), READY_S,
                 "one for each two processors")


def test_sessions_are_spread(server):
    pid, own, others = spread(server)
    note(f"{len(own)} sessions in one process, {len(others)} in the other")
    check(all(reach_all(server, own + others)), "all of them have a network")
    end(server, own, others)


def test_a_change_reaches_all(server):
    """A layer of the tenant concerns sessions of every process."""
    _, own, others = spread(server)
    tenant = server.want(200, "GET", "/v1/tenants")["tenants"][0]["id"]
    path = f"/v1/tenants/{tenant}/network"
    server.want(200, "PUT", path, {"version": 1, "rules": [{"host": "web.example", "action": "deny"}]})
    wait_for(lambda: not any(reach_all(server, own + others)), READY_S, "the layer in all of them")
    server.want(200, "PUT", path, {"version": 1})
    wait_for(lambda: all(reach_all(server, own + others)), READY_S, "the network, without the layer")
    end(server, own, others)


def test_one_is_killed(server):
    """Connections of the other process's sessions go on; its own sessions have a network again soon, and the same
    policy."""
    pid, own, others = spread(server)
    kept, broken = hold(server, others), hold(server, own)
    before = set(all_there(server))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in (p := all_there(server)) and p, READY_S, "another in its place")
    equal(len(before & set(all_there(server))), PROCESSES - 1, "the other is the same process")
    come_back(server, own, "after a kill")
    check(all(is_running(server, x) for x in kept), "connections of the other process's sessions")
    wait_for(lambda: not any(is_running(server, x) for x in broken), 10, "the end of its own connections")
    for s in own + others:
        code, status, _ = curl(server, s, "http://evil.example/")
        check(code == 0 and status == 403, f"what is not allowed: {code} {status}")
    end(server, own, others)


def test_one_hangs(server):
    """While it stands still the other serves, also new policies; then it is replaced."""
    pid, own, others = spread(server)
    kept = hold(server, others)
    before = set(all_there(server))
    with stopped(pid):
        check(all(reach_all(server, others)), "the other's sessions")
        for s in others:
            put(server, s, policy({"host": "web.example"}))
        wait_for(lambda: pid not in (p := server.pids("cordon-egress")) and len(p) == PROCESSES, READY_S,
                 "another in its place")
    equal(len(before & set(all_there(server))), PROCESSES - 1, "the other is the same process")
    has(server.log(), "cordon-egress does not answer")
    come_back(server, own, "after one hung")
    server.wait_ready(READY_S)
    check(all(is_running(server, x) for x in kept), "connections of the other process's sessions")
    end(server, own, others)


def test_cordond_is_killed(server):
    """Each session is found where it was: connections of all go on, and each record is there once."""
    pid, own, others = spread(server)
    sessions = own + others
    held = hold(server, sessions)
    for n in range(2):
        together([lambda s=s, n=n: reach(server, s, path=f"/before/{n}") for s in sessions])
    loops = [server.spawn(s["id"], "sleep 0.4; for i in 0 1 2 3; do "
                          "curl -sS -m 5 -o /dev/null http://web.example/while/$i; done") for s in sessions]
    old = server.kill("cordond")
    wait_for(lambda: server.pid("cordond") not in (None, old), READY_S, "another cordond")
    server.wait_ready(READY_S)
    for x in loops:
        server.ended(x)
    want = sorted([f"/before/{n}" for n in range(2)] + [f"/while/{n}" for n in range(4)])

    def paths(s):
        return sorted(r["path"] for r in records(server, s, kind="request", limit=1000) if r["path"] != "/echo")

    for s in sessions:
        wait_for(lambda s=s: len(paths(s)) >= len(want), 10, "records that waited")
        equal(paths(s), want, "each once")
    check(all(is_running(server, x) for x in held), "connections that were open")
    equal(number(server, "cordon_egress_invalid_total"), 0, "records for sessions of another process")
    end(server, own, others)


def test_limits_go_on(server):
    """What a session has used is its own, and survives the death of its process."""
    limited = policy({"name": "web", "host": "web.example"}, limits={"bytes_out": 60000})
    pid, own, others = spread(server, limited)

    def send(s):
        return curl(server, s, "http://web.example/echo", "--data-binary", "@/tmp/25000", "-H", "Expect:")[1]

    for s in own[:1] + others[:1]:
        server.run(s["id"], "head -c 25000 /dev/zero > /tmp/25000")
        equal(send(s), 200, "one fits")
    time.sleep(0.5)  # what was used is written
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in (p := all_there(server)) and p, READY_S, "another in its place")
    for s in own[:1] + others[:1]:
        wait_for(lambda s=s: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", READY_S,
                 "network access")
        equal([send(s) for _ in range(2)], [200, 403], "one more fits, and then none")
    end(server, own, others)


def test_upgrade(server):
    """SIGHUP: all processes are new, and all sessions are served again."""
    pid, own, others = spread(server)
    before = set(all_there(server))
    for s in own + others:
        check(reach(server, s, path="/first"), "before")
    server.kill("supervisor", signal.SIGHUP)
    wait_for(lambda: not before & set(server.pids("cordon-egress")), READY_S, "the end of the old processes")
    server.wait_ready(READY_S)
    equal(len(set(all_there(server)) & before), 0, "processes that stayed")
    come_back(server, own + others, "after an upgrade")
    for s in own + others:
        check(reach(server, s, path="/second"), "after")
        wait_for(lambda s=s: {"/first", "/second"} <= {r["path"] for r in records(server, s, kind="request")}, 10,
                 "records of before and after")
    end(server, own, others)


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2, egress_processes=PROCESSES, egress_timeout=f"{5 * level.PATIENCE}s")
