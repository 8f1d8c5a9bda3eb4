#!/usr/bin/python3
"""test_pause.py - sessions that stand still: memory kept, time not counted, woken by any call."""
import os
import sys
import time
from datetime import datetime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check, equal, run_tests, stays, wait_for  # noqa: E402
from checks import PATIENCE  # noqa: E402
from streams import Attached, Events  # noqa: E402

KILLS = True  # of cordond, in here
COUNTER = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done"


def need(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")


def pause(server, s):
    return server.want(200, "POST", f"/v1/sessions/{s}/pause")


def resume(server, s):
    return server.want(200, "POST", f"/v1/sessions/{s}/resume")


def bytes_of(server, x):
    """Of its log, without waking the session."""
    return server.execution(x)["stdout_bytes"]


def test_pause_and_resume(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, COUNTER)
    wait_for(lambda: bytes_of(server, x) > 20, 15, "output")
    paused = pause(server, s)
    equal((paused["state"], paused["executions_running"]), ("paused", 1))
    time.sleep(0.15)  # cordond reads what was in the pipe
    before = bytes_of(server, x)
    stays(lambda: bytes_of(server, x) == before, 0.4, "the output while paused")
    equal(server.get(s)["state"], "paused", "looking does not wake it")
    equal(pause(server, s)["state"], "paused", "pausing twice")
    equal(resume(server, s)["state"], "running")
    equal(resume(server, s)["state"], "running", "resuming twice")
    wait_for(lambda: bytes_of(server, x) > before + 20, 15, "more output")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}")
    out = server.want(200, "GET", f"/v1/sessions/{s}/executions/{x['id']}/output").split()
    equal([int(n) for n in out], list(range(len(out))), "its memory: no number missing")
    server.delete(s)
    server.reaches(s, "ended")
    server.refused(410, "gone", "POST", f"/v1/sessions/{s}/pause")
    server.refused(410, "gone", "POST", f"/v1/sessions/{s}/resume")


def test_calls_wake_it(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo kept > /tmp/file")
    pause(server, s)
    equal(server.run(s, "cat /tmp/file")["stdout"], "kept\n", "an execution")
    equal(server.get(s)["state"], "running")
    pause(server, s)
    equal(server.want(200, "GET", f"/v1/sessions/{s}/files?path=/tmp/file"), b"kept\n", "a file read")
    pause(server, s)
    server.want(201, "PUT", f"/v1/sessions/{s}/files?path=/tmp/new", b"x")
    pause(server, s)
    server.want(200, "GET", f"/v1/sessions/{s}/processes")
    x = server.spawn(s, "read a; echo got $a", stdin_stream=True)
    pause(server, s)
    server.want(200, "POST", f"/v1/sessions/{s}/executions/{x['id']}/input", b"hello\n")
    equal(server.ended(x)["exit_code"], 0, "typed input")
    x = server.spawn(s, "read a; echo got $a", stdin_stream=True)
    pause(server, s)
    with Attached(server, f"/v1/sessions/{s}/executions/{x['id']}/attach") as ws:
        ws.send(b"again\n")
        equal(ws.until_end()["execution"]["exit_code"], 0, "a connection")
    equal(ws.streams[1], b"got again\n")
    server.delete(s)


def test_session_time_stands_still(server):
    need(server)
    at = [time.time()]
    s = server.create(timeout="8s")["id"]
    at.append(time.time())
    paused = pause(server, s)
    at.append(time.time())
    equal(paused["expires_at"], None, "a paused session does not expire")
    stays(lambda: server.get(s)["state"] == "paused", 1, "the pause")
    at.append(time.time())
    resumed = resume(server, s)
    at.append(time.time())
    # What it used up lies between the ends of create and pause; the rest counts from the resume.
    least, most = at[3] + 8 - (at[2] - at[0]), at[4] + 8 - max(0, at[1] - at[2])
    end = datetime.fromisoformat(resumed["expires_at"]).timestamp()
    check(least - 0.1 < end < most + 0.1, f"ends {end - at[4]:.2f} s after the resume, {least - at[4]:.2f} to {most - at[4]:.2f} should be")
    server.want(200, "POST", f"/v1/sessions/{s}/timeout", {"timeout": "100ms"})
    equal(server.reaches(s, "ended")["reason"], "expired")


def test_execution_time_stands_still(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    begun = time.monotonic()
    x = server.spawn(s, "sleep 1000", timeout="2s")
    pause(server, s)
    stays(lambda: server.execution(x)["ended_at"] is None, 2.2, "the execution of a paused session")
    resume(server, s)
    done = server.ended(x)
    took = time.monotonic() - begun
    equal((done["limit"], done["exit_code"]), ("timeout", 124))
    check(took > 4.1, f"ended after {took:.2f} s, 4.2 should be")
    server.delete(s)


def test_idle_pause(server):
    need(server)
    s = server.create(timeout="1h", idle_timeout="500ms", on_idle="pause")["id"]
    server.run(s, "sleep 0.9")
    equal(server.get(s)["state"], "running", "busy is not idle")
    server.reaches(s, "paused")
    equal(server.run(s, "echo awake")["stdout"], "awake\n")
    server.reaches(s, "paused")
    events = [e["data"].get("to") for e in server.want(200, "GET", f"/v1/sessions/{s}/events")["events"]]
    equal([e for e in events if e in ("pausing", "paused", "resuming", "running")][1:],
          ["pausing", "paused", "resuming", "running", "pausing", "paused"])  # fmt: skip
    server.delete(s)
    equal(server.reaches(s, "ended")["reason"], "deleted")


def test_viewer_is_no_idleness(server):
    need(server)
    s = server.create(timeout="1h", idle_timeout="400ms", on_idle="pause")["id"]
    x = server.spawn(s, "sleep 1000")
    with Events(server, f"/v1/sessions/{s}/executions/{x['id']}/events") as events:
        equal(events.next().name, "start")
        time.sleep(1)  # a request for the session would be activity
        equal(server.get(s)["state"], "running")
    server.delete(s)


def test_pause_at_timeout(server):
    need(server)
    s = server.create(timeout=0.7 * PATIENCE ** 2, on_timeout="pause")["id"]  # longer than a program takes
    server.run(s, "echo kept > /tmp/file")
    server.reaches(s, "paused")
    equal(server.run(s, "cat /tmp/file")["stdout"], "kept\n")
    equal(server.get(s)["state"], "running")
    server.reaches(s, "paused")
    server.delete(s)
    server.reaches(s, "ended")


def test_delete_while_paused(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, "trap '' TERM; sleep 1000")
    pause(server, s)
    begun = time.monotonic()
    server.delete(s)
    equal(server.reaches(s, "ended")["reason"], "deleted")
    check(time.monotonic() - begun < 10, "slow")
    equal(server.execution(x)["state"], "killed")
    equal(server.cell_pids(s), [])


def test_delete_an_execution_while_paused(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, "sleep 1000")
    pause(server, s)
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}", timeout=10)
    equal(server.execution(x)["state"], "killed")
    server.delete(s)


def test_timeout_set_while_paused(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    pause(server, s)
    equal(server.want(200, "POST", f"/v1/sessions/{s}/timeout", {"timeout": "1s"})["state"], "paused")
    stays(lambda: server.get(s)["state"] == "paused", 1.3, "the pause: its time begins when it goes on")
    resume(server, s)
    equal(server.reaches(s, "ended")["reason"], "expired")


def test_daemon_dies_meanwhile(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, COUNTER)
    wait_for(lambda: bytes_of(server, x) > 20, 15, "output")
    pause(server, s)
    old = server.kill("cordond")
    wait_for(lambda: server.pid("cordond") not in (None, old), 10, "another cordond")
    server.wait_ready()
    equal(server.get(s)["state"], "paused", "after the daemon's death")
    before = bytes_of(server, x)
    stays(lambda: bytes_of(server, x) == before, 0.3, "the output while paused")
    equal(server.run(s, "echo awake")["stdout"], "awake\n")
    wait_for(lambda: bytes_of(server, x) > before + 20, 15, "more output")
    server.restart()
    equal(server.get(s)["state"], "running", "after a restart")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}")
    out = server.want(200, "GET", f"/v1/sessions/{s}/executions/{x['id']}/output").split()
    equal([int(n) for n in out], list(range(len(out))), "no number missing")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
