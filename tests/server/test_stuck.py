#!/usr/bin/python3 -B
"""Goal: a program that cannot be frozen harms nothing but itself. A process traces a thread of another one, which ends, and does not
reap it: an execve of the other process then waits in the kernel for ever. Pauses come all the same, no program of the session runs
on, and no watcher waits for it.

    test_stuck.py CORDON [name ...]
"""
import json
import time

from harness import Skip, check, equal, has, run_tests, stays, wait_for
from test_refused_calls import calls

KILLS = True
STUCK = r"""
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
go_r, go_w = os.pipe()
tid_r, tid_w = os.pipe()
pid = os.fork()
if pid == 0:
    def wait():
        os.write(tid_w, b"%d" % threading.get_native_id())
        os.read(go_r, 1)
    thread = threading.Thread(target=wait)
    thread.start()
    while "Z (zombie)" not in open(f"/proc/self/task/{thread.native_id}/status").read():
        time.sleep(0.01)  # between two looks
    for other in range(int(sys.argv[1])):
        threading.Thread(target=lambda: os.execv("/bin/true", ["true"])).start()
    os.execv("/bin/true", ["true"])
if libc.ptrace(0x4206, int(os.read(tid_r, 20)), 0, 0) != 0:
    sys.exit("no ptrace")
os.write(go_w, b"x")
def states():
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            yield open(f"/proc/{pid}/task/{tid}/stat").read().rsplit(") ", 1)[1][0]
        except OSError:
            pass
while "D" not in states():
    time.sleep(0.01)  # between two looks
while True:
    print("stuck", flush=True)
    time.sleep(0.02)  # output that grows, but not much
"""


THREAD = ("import threading, time\nthread = threading.Thread(target=lambda: time.sleep(1000))\nthread.start()\n"
          "print(thread.native_id, flush=True)\nthread.join()")
HOLD = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print("holds" if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0 else "does not", flush=True)
time.sleep(1000)  # until it is killed
"""


def stick(server, session, others=0):
    """Starts it: the execution, when its second process waits in the kernel."""
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")
    x = server.spawn(session["id"], ["python3", "-c", STUCK, str(others)])
    wait_for(lambda: server.execution(x)["stdout_bytes"] > 0, 40, "the stuck call")
    return x


def stands_still(server, x):
    time.sleep(0.2)  # what was in the pipe
    before = server.execution(x)["stdout_bytes"]
    stays(lambda: server.execution(x)["stdout_bytes"] == before, 0.5, "its output")


def runs(server, x):
    before = server.execution(x)["stdout_bytes"]
    wait_for(lambda: server.execution(x)["stdout_bytes"] > before, 20, "more output")


def test_a_client_pauses(server):
    session = server.create()
    x = stick(server, session)
    for _ in range(2):
        equal(server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")["state"], "paused")
        stands_still(server, x)
        equal(server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")["state"], "running")
        runs(server, x)
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
    server.delete(session["id"])
    server.reaches(session["id"], "ended", 20)


def test_an_alarm_pauses(server):
    session = server.create(alarms={"escape_attempt": {"action": "pause"}})
    x = stick(server, session)
    calls(server, session, bpf=1, wait=False)
    server.reaches(session["id"], "paused", 20)
    stands_still(server, x)
    server.refused(409, "conflict", "POST", f"/v1/sessions/{session['id']}/executions", {"command": "true"}, "alarm")
    equal(server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")["state"], "running")
    runs(server, x)


def test_its_time_ends(server):
    for action in ("pause", "pause_files"):
        session = server.create(timeout="1h", on_timeout=action)
        x = stick(server, session)
        server.want(200, "PATCH", f"/v1/sessions/{session['id']}", {"timeout": "1s"})
        server.reaches(session["id"], "paused", 30)
        stands_still(server, x)


def test_files_are_not_read(server):
    """A copy would have halves of files: the client is told what to do. The session is as it was."""
    session = server.create()
    x, path = stick(server, session), f"/v1/sessions/{session['id']}"
    server.refused(409, "not_frozen", "POST", path + "/snapshots", {}, "system call", "end that program")
    equal(server.get(session["id"])["state"], "running")
    runs(server, x)
    server.want(200, "POST", path + "/pause")
    server.refused(409, "not_frozen", "POST", path + "/snapshots", {}, "system call")
    equal(server.get(session["id"])["state"], "paused")
    stands_still(server, x)
    server.kill("cordond")
    server.wait_ready()
    server.refused(409, "not_frozen", "POST", path + "/snapshots", {}, "system call")
    equal(server.get(session["id"])["state"], "paused", "after a restart")
    server.want(200, "POST", path + "/resume")
    server.want(204, "DELETE", f"{path}/executions/{x['id']}")
    server.ended(x)
    server.want(201, "POST", path + "/snapshots", {})


def test_its_changes_are_kept(server):
    session = server.create(keep_diff=True)
    server.run(session["id"], "echo > /tmp/evidence")
    stick(server, session)
    server.delete(session["id"])
    server.reaches(session["id"], "ended", 40)
    has(json.dumps(server.want(200, "GET", f"/v1/sessions/{session['id']}/diff")), "/tmp/evidence")


def test_the_watcher_does_not_wait(server):
    """Not for the stuck call, nor for other threads of that process, which a debugger could not attach to, either."""
    for others in (0, 8):
        session = server.create(trace="programs")
        x = stick(server, session, others)
        for i in range(3):
            equal(server.run(session["id"], f"/bin/echo {i}", timeout="20s")["stdout"], f"{i}\n")
        server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{x['id']}")
        equal(server.ended(x)["state"], "killed")
        equal(server.run(session["id"], "/bin/echo works")["stdout"], "works\n")
        told = [e["argv"] for e in server.want(200, "GET", f"/v1/sessions/{session['id']}/trace")["entries"] if e["kind"] == "exec"]
        check([["/bin/echo", word] for word in ("0", "1", "2", "works")] == [argv for argv in told if argv[0] == "/bin/echo"], str(told))


def test_a_killed_program_that_is_traced(server):
    """PID 1 cannot reap it, so it does not report its exit. Its record ends all the same."""
    session = server.create()
    path = f"/v1/sessions/{session['id']}/executions"
    x = server.spawn(session["id"], "echo $$; exec sleep 1000")
    pid = wait_for(lambda: server.want(200, "GET", f"{path}/{x['id']}/output").decode(), 20, "its number").strip()
    tracer = server.spawn(session["id"], ["python3", "-c", HOLD, pid])
    wait_for(lambda: server.want(200, "GET", f"{path}/{tracer['id']}/output") == b"holds\n", 20, "its tracer")
    server.want(204, "DELETE", f"{path}/{x['id']}")
    ended = server.ended(x, 30)
    equal((ended["state"], ended["signal"]), ("killed", 9))
    equal(server.execution(tracer)["state"], "running")
    server.want(204, "DELETE", f"{path}/{tracer['id']}")  # PID 1 reaps both
    equal(server.ended(tracer)["state"], "killed")
    equal(server.run(session["id"], "echo works")["stdout"], "works\n")


def test_a_killed_program_with_a_traced_thread(server):
    """Its threads have exited, but are not gone. A kill says that it worked, and the session continues."""
    session = server.create()
    path = f"/v1/sessions/{session['id']}/executions"
    x = server.spawn(session["id"], ["python3", "-c", THREAD])
    thread = wait_for(lambda: server.want(200, "GET", f"{path}/{x['id']}/output").decode(), 20, "its number").strip()
    tracer = server.spawn(session["id"], ["python3", "-c", HOLD, thread])
    wait_for(lambda: server.want(200, "GET", f"{path}/{tracer['id']}/output") == b"holds\n", 20, "its tracer")
    server.want(204, "DELETE", f"{path}/{x['id']}")
    equal(server.ended(x, 30)["state"], "killed")
    equal((server.get(session["id"])["state"], server.execution(tracer)["state"]), ("running", "running"))


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
