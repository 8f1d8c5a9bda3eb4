#!/usr/bin/python3
"""test_keepers.py - several keepers behind one queue: as many as the setting says, one of them killed or stopped while
the others go on serving, and nothing left of the cells that they made.

    test_keepers.py CORDON [name ...]
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import Server, cgroups_of, check, children, comm, equal, has, run_tests, wait_for  # noqa: E402

KILLS = True  # of keepers, in here
KEEPERS = 3


def cycle(server):
    """Creates, runs, deletes; the id."""
    s = server.create(timeout="5m")["id"]
    equal(server.run(s, "echo hi")["stdout"], "hi\n", s)
    server.delete(s)
    return s


def cycles(server, n, clients=6):
    with ThreadPoolExecutor(clients) as pool:
        return [f.result() for f in [pool.submit(cycle, server) for _ in range(n)]]


def all_there(server):
    return wait_for(lambda: len(p := server.pids("keeper")) == KEEPERS and p, 15, "all keepers")


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def is_ended(server, s):
    return not server.cell_pids(s) and not os.path.exists(os.path.join(server.run_dir, "cells", s + ".sock"))


def written(path, text, server):
    """Writes into the file that the server holds open, which no process may execute at that moment."""
    for pid in server.pids("keeper"):
        os.kill(pid, signal.SIGKILL)
    try:
        with open(path, "wb") as f:
            f.write(text)
        return True
    except OSError:  # ETXTBSY
        return False


def test_keepers_that_never_work():
    """Programs that end before they say HELLO: the log and /readyz say so, and they are not started all the time."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        for name in harness.PROGRAMS:
            shutil.copy(os.path.join(os.path.dirname(os.path.abspath(harness.PROGRAM)), name), d)
        with Server(program=f"{d}/cordon", pool_size=0, keepers=2) as server:
            with open(f"{d}/cordon-keeper", "rb") as f:
                good = f.read()
            wait_for(lambda: written(f"{d}/cordon-keeper", b"#!/nowhere/interpreter\n", server), 20, "a moment without a keeper")
            said = wait_for(lambda: "ends right after each start" in (log := server.log()) and log, 20, "a line of the log")
            line = next(v for v in said.splitlines() if "ends right after each start" in v)
            has(line, "program=cordon-keeper", "which program")
            has(line, "why=\"it cannot be executed\"", "why")
            why = wait_for(lambda: (a := server.request("GET", "/readyz", key=None))[0] == 503 and "see the log" in str(a[2])
                           and a[2], 10, "/readyz")
            has(str(why), "ends right after its start", "/readyz")
            wait_for(lambda: written(f"{d}/cordon-keeper", good, server), 20, "a moment without a keeper")
            server.wait_ready(30)


def test_as_many_as_set(server):
    equal(len(all_there(server)), KEEPERS)
    with Server(pool_size=0) as usual:
        wait_for(lambda: len(usual.pids("keeper")) == min(4, os.cpu_count()), 10, "one for each processor")


def test_all_of_them_make_cells(server):
    """Each is the parent of some cells: PID 1 is a child of the keeper that made it."""
    keepers = all_there(server)
    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda _: server.create(timeout="5m")["id"], range(24)))
    makers = {k for k in keepers for c in children(k) if comm(c) == "cordon-init"}
    equal(makers, set(keepers), "who made cells")
    for s in made:
        server.delete(s)
    for s in made:
        wait_for(lambda s=s: is_ended(server, s), 10, f"the end of {s}")


def test_the_one_that_made_a_cell_ends_it(server):
    """It is the parent of PID 1: no zombie stays, however idle it is."""
    cycles(server, 30)
    keepers = all_there(server)
    wait_for(lambda: not [c for k in keepers for c in children(k) if state(c) == "Z"], 10, "no zombies")


def test_one_is_killed(server):
    for round in range(3):
        before = all_there(server)
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(cycle, server) for _ in range(24)]
            wait_for(lambda c=calls: any(x.done() for x in c), 20, "the first")
            os.kill(before[round % KEEPERS], signal.SIGKILL)
            for call in calls:
                call.result()  # every one of them is served: by another keeper, or again
        after = all_there(server)
        equal(len(set(before) & set(after)), KEEPERS - 1, "the others are the same processes")


def test_all_are_killed(server):
    """A request that comes while there is no keeper waits for the next one."""
    for _ in range(4):
        before = all_there(server)
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(cycle, server) for _ in range(24)]
            wait_for(lambda c=calls: any(x.done() for x in c), 20, "the first")
            for keeper in before:
                os.kill(keeper, signal.SIGKILL)
            for call in calls:
                call.result()


def test_one_hangs(server):
    before = all_there(server)
    os.kill(before[1], signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(cycle, server) for _ in range(30)]
            for call in calls:
                call.result()
        after = wait_for(lambda: before[1] not in (p := all_there(server)) and p, 15, "another in its place")
    finally:
        if state(before[1]) == "T":
            os.kill(before[1], signal.SIGCONT)
    equal(len(set(before) & set(after)), KEEPERS - 1, "the others are the same processes")
    has(server.log(), "the keeper does not answer")
    cycles(server, 6)


def test_others_serve_while_one_hangs(server):
    """With a timeout that the test does not live to see."""
    with Server(pool_size=0, keepers=2, keeper_timeout="10m") as patient:
        one, _ = wait_for(lambda: len(p := patient.pids("keeper")) == 2 and p, 10, "two")
        os.kill(one, signal.SIGSTOP)
        try:
            made = 0
            for _ in range(8):  # those that the stopped one was sent wait for it, and the rest does not
                pool = ThreadPoolExecutor(1)
                try:
                    pool.submit(cycle, patient).result(timeout=5)
                    made += 1
                except TimeoutError:
                    pass
                pool.shutdown(wait=False)
            check(made >= 4, f"{made} of 8 cycles beside a keeper that stands still")
        finally:
            os.kill(one, signal.SIGCONT)
        cycle(patient)


def test_none_is_left(server):
    """All killed at once, over and over: sessions go on, and there are keepers again."""
    s = server.create(timeout="5m")["id"]
    for _ in range(3):
        before = set(all_there(server))
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        equal(server.run(s, "echo on")["stdout"], "on\n")
        wait_for(lambda b=before: not b & set(all_there(server)), 10, "others")
        server.wait_ready()
        cycle(server)
    check(server.get(s)["state"] == "running", "its session")
    server.delete(s)


TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) < 0:  # PTRACE_SEIZE
    sys.exit(os.strerror(ctypes.get_errno()))
print("traced", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def late_end(server, s):
    """PID 1 of the cell leaves its cgroup when it is killed, but is not dead before this ends: a process of its namespace is traced
    from outside, and so is not reaped."""
    traced = server.cell_pids(s)[-1]
    tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(traced)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        equal(tracer.stdout.readline(), b"traced\n", "a tracer")
        yield
    finally:
        tracer.communicate()


def test_no_zombie_of_a_frozen_cell(server):
    """Whether PID 1 runs, stands still or is stopped when it is killed, its keeper reaps it, also if that needs no other request."""
    for stopped, frozen in ((False, True), (True, True), (True, False)):
        s = server.create(timeout="5m")["id"]
        server.spawn(s, "sleep 1000")
        wait_for(lambda s=s: "sleep" in map(comm, server.cell_pids(s)), 15, "a program")
        pids = server.cell_pids(s)
        for pid in pids if stopped else ():
            os.kill(pid, signal.SIGSTOP)
        if frozen:
            server.want(200, "POST", f"/v1/sessions/{s}/pause", {"memory": True})
        with late_end(server, s):
            server.delete(s)
            wait_for(lambda: not cgroups_of({s}), 15, "the end of its cgroups")
            check(state(pids[0]) not in "Zgone", f"PID 1 has ended too early: {state(pids[0])}")
        equal(server.reaches(s, "ended")["reason"], "deleted")
        left = [(comm(pid), state(pid)) for pid in server.cell_pids(s)]
        equal(left, [], f"processes of a cell that is gone (stopped: {stopped}, frozen: {frozen})")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0, keepers=KEEPERS, keeper_timeout="2s")
