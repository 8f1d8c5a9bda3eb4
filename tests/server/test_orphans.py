#!/usr/bin/python3 -B
"""Goal: a cell whose server is gone for good does not live for ever: its PID 1 ends it after
`unattended_timeout`, or at its session's deadline. `cordon doctor --cells` lists cells of no running server, with
commands that remove them, and never those of a server that runs.

    test_orphans.py CORDON [name ...]
"""
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import Server, check, children, equal, has, run_tests, wait_for

KILLS = True


def doctor():
    """{session id: (what it says, command)} of cells without a server, and the commands for whole servers."""
    out = subprocess.run([harness.PROGRAM, "doctor", "--quick", "--cells"], capture_output=True, timeout=60, stdin=subprocess.DEVNULL).stdout.decode()
    cells = re.findall(r"^cell +(\S+) +(.*)\n +-> (.*)$", out, re.M)
    groups = re.findall(r"^server +gone\n +-> rmdir (.*)$", out, re.M)
    return {i: (says, command) for i, says, command in cells}, " ".join(groups).split()


def kill_all(server):
    """Everything that makes up the server, at once, as when a machine's operator gives up on it."""
    server.note_cells()
    pids = [server.process.pid, *children(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # none is replaced meanwhile
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    server.process.wait()


def remove(server):
    """What is left of this server's cells, by the commands that doctor prints; then none is listed any more."""
    cells, _ = doctor()
    for cell in server.ids & set(cells):
        subprocess.run(["sh", "-ec", cells[cell][1]], check=True, timeout=60)
    left = server.ids & set(doctor()[0])
    check(not left, f"still listed after their removal: {left}")


def remove_groups(before):
    for path in doctor()[1]:
        if path not in before:
            os.rmdir(path)


def test_a_cell_ends_when_no_server_comes_back():
    before = doctor()[1]
    server = Server(unattended_timeout="2s", pool_size=0)
    session = server.create()["id"]
    server.spawn(session, "sleep 1000")
    wait_for(lambda: len(server.cell_pids(session)) > 1, 10, "the command")
    check(session not in doctor()[0], "a cell of a running server is listed")
    kill_all(server)
    check(len(server.cell_pids(session)) > 1, "the cell ended with its server")
    shutil.rmtree(server.run_dir)
    says = doctor()[0].get(session)
    check(says, "a cell without a server is not listed")
    wait_for(lambda: not server.cell_pids(session), 20, "the end of the cell")
    has(doctor()[0][session][0], "ended, its cgroups are left")
    remove(server)
    server.close()
    remove_groups(before)


def test_doctor_counts_them_in_one_line():
    before = doctor()[1]
    servers = [Server(unattended_timeout="1s", pool_size=0) for _ in range(2)]
    for server in servers:
        for _ in range(3):
            server.create()
        kill_all(server)
    out = subprocess.run([harness.PROGRAM, "doctor", "--quick"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL).stdout
    lines = out.splitlines()
    has(lines[2], "the standard profile is", "the verdict comes before the rows")
    check(len(lines) < 60, f"{len(lines)} lines")
    count = re.search(r"^(\d+) cells of no running server", out, re.M)
    check(count and int(count[1]) >= 6, out)
    has(out, "cordon doctor --clean removes them")
    check("rmdir" not in out, "commands for single cells without --cells")
    for server in servers:
        shutil.rmtree(server.run_dir)
        wait_for(lambda: not any(server.cell_pids(i) for i in server.ids), 20, "the end of the cells")
        remove(server)
        server.close()
    remove_groups(before)


def test_a_pool_cell_does_so_too():
    before = doctor()[1]
    server = Server(unattended_timeout="1s", pool_size=1, pool_max=1)
    pooled = wait_for(lambda: [n[:-5] for n in os.listdir(os.path.join(server.run_dir, "cells")) if n.endswith(".sock")], 15, "a pool cell")[0]
    wait_for(lambda: server.cell_pids(pooled), 15, "its PID 1")
    server.want(200, "GET", "/v1/node")
    kill_all(server)
    shutil.rmtree(server.run_dir)
    wait_for(lambda: not server.cell_pids(pooled), 20, "the end of the pool cell")
    remove(server)
    server.close()
    remove_groups(before)


def test_a_deadline_counts_without_a_server():
    server = Server(unattended_timeout="1h", pool_size=0)
    session = server.create(timeout=3)["id"]
    server.spawn(session, "sleep 1000")
    kill_all(server)
    wait_for(lambda: not server.cell_pids(session), 20, "the end of the cell")
    server.start()
    was = server.reaches(session, "ended")
    equal(was["reason"], "expired", "why the session ended")
    server.close()


def test_a_deadline_that_was_extended_does_not_end_it():
    """By a server that PID 1 had not answered yet, as it did not run; then that server is gone, too."""
    server = Server(unattended_timeout="1h", pool_size=0)
    session, began = server.create(timeout=4)["id"], time.monotonic()
    pid1 = server.cell_pids(session)[0]
    os.kill(pid1, signal.SIGSTOP)
    server.restarted("cordond")
    server.want(200, "POST", f"/v1/sessions/{session}/timeout", {"timeout": 600})
    check(time.monotonic() < began + 4, "the machine is too slow: the session's time was over")
    kill_all(server)
    os.kill(pid1, signal.SIGCONT)
    time.sleep(max(0, began + 5 - time.monotonic()))  # the old deadline has to pass
    check(server.cell_pids(session), "PID 1 has ended the cell at the deadline that was changed")
    server.start()
    equal(server.run(session, "echo on")["stdout"], "on\n", "the session")
    server.close()


def test_a_server_that_comes_back_finds_its_cells():
    server = Server(unattended_timeout="1h", pool_size=0)
    session = server.create(timeout=600)["id"]
    server.run(session, "echo kept > /tmp/file")
    kill_all(server)
    server.start()
    equal(server.run(session, "cat /tmp/file")["stdout"], "kept\n", "the cell's file")
    check(session not in doctor()[0], "an adopted cell is listed")
    server.close()


def test_clean_removes_them():
    """Those of a server that is gone, running or frozen, and none of a server that runs."""
    before = doctor()[1]
    gone, running = Server(unattended_timeout="1h", pool_size=0), Server(pool_size=0)
    kept = running.create()["id"]
    cells = [gone.create()["id"] for _ in range(2)]
    gone.spawn(cells[0], "sleep 1000")
    if gone.request("POST", f"/v1/sessions/{cells[1]}/pause")[0] != 501:
        gone.reaches(cells[1], "paused")
    kill_all(gone)
    shutil.rmtree(gone.run_dir)
    wait_for(lambda: set(cells) <= set(doctor()[0]), 10, "both in the list")
    # By name: cells of other servers may be on this machine.
    done = subprocess.run([harness.PROGRAM, "doctor", "--clean", kept, *cells], capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, done.stdout + done.stderr)
    for cell in cells:
        has(done.stdout, cell, "what it says")
        wait_for(lambda c=cell: not gone.cell_pids(c), 10, "the end of the cell")
    check(kept not in done.stdout, "a cell of a running server")
    equal(running.run(kept, "echo on")["stdout"], "on\n", "the other server")
    left = doctor()[0]
    check(not set(cells) & set(left), f"listed all the same: {[left.get(c) for c in cells]} {done.stdout}")
    running.close()
    gone.close()
    remove_groups(before)


def test_a_paused_cell_is_listed_as_one_that_cannot_end():
    before = doctor()[1]
    server = Server(unattended_timeout="1s", pool_size=0)
    session = server.create()["id"]
    if server.request("POST", f"/v1/sessions/{session}/pause")[0] == 501:
        server.close()
        raise harness.Skip("no freezer here")
    server.reaches(session, "paused")
    kill_all(server)
    shutil.rmtree(server.run_dir)
    has(doctor()[0][session][0], "frozen: it cannot end by itself")
    check(server.cell_pids(session), "a frozen cell has ended")
    remove(server)
    server.close()
    remove_groups(before)


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
