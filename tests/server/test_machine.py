#!/usr/bin/python3 -B
"""Goal: all cells together cannot take the machine: the kernel bounds their sum, and when memory is short the
daemons are the last to go.

    test_machine.py CORDON [name ...]
"""
import os
import subprocess

import harness
from harness import Server, Skip, cgroups_of, check, equal, has, run_tests, wait_for

GROUP = "cordon.server-"


def groups(server):
    """{directory: controller file names} of the groups that the server's cells are in."""
    session = server.create()
    found = {os.path.dirname(path) for path in cgroups_of([session["id"]])}
    return [path for path in found if os.path.basename(path).startswith(GROUP)]


def limit(paths, *names):
    for path in paths:
        for name in names:
            if os.path.exists(os.path.join(path, name)):
                with open(os.path.join(path, name)) as f:
                    return int(f.read())
    return None


def total_memory():
    with open("/proc/meminfo") as f:
        return int(f.readline().split()[1]) << 10


def score(pid):
    with open(f"/proc/{pid}/oom_score_adj") as f:
        return int(f.read())


def test_defaults_are_shares_of_the_machine(server):
    paths = groups(server)
    memory = limit(paths, "memory.max", "memory.limit_in_bytes")
    check(memory is not None and total_memory() * 0.87 < memory < total_memory() * 0.88, f"memory of all cells: {memory}")
    with open("/proc/sys/kernel/pid_max") as f:
        pids = limit(paths, "pids.max")
        check(pids is not None and pids <= int(f.read()) * 3 // 4, f"processes of all cells: {pids}")


def may_lower_scores():
    with open("/proc/self/status") as f:
        return any(line.startswith("CapEff") and int(line.split()[1], 16) >> 24 & 1 for line in f)  # CAP_SYS_RESOURCE


def test_daemons_go_last(server):
    if not may_lower_scores():
        raise Skip("root lacks CAP_SYS_RESOURCE here")
    session = server.create()
    equal(score(server.pid("cordond")), -900, "cordond")
    equal(score(server.pid("cordon-egress")), -900, "cordon-egress")
    check(score(server.cell_pids(session["id"])[0]) >= 0, "a cell's PID 1")


def test_processes_of_all_cells():
    """Two sessions of 512 processes each, in a server whose cells may have 200."""
    with Server(pool_size=0, node_pids_limit=200) as server:
        paths = groups(server)  # before the limit is reached: PID 1 of one more cell is moved into its cgroup in spite of it
        sessions = [server.create(limits={"pids": 512})["id"] for _ in range(2)]
        for s in sessions:
            server.spawn(s, "for i in $(seq 400); do sleep 300 & done; wait")
        wait_for(lambda: limit(paths, "pids.current") >= 199, 20, "full use")
        # A fork that is refused is in the kernel's count for a moment.
        wait_for(lambda: limit(paths, "pids.current") <= 200, 20, "no more processes than all may have")
        equal(server.request("GET", "/healthz")[0], 200, "the daemon answers")


def test_memory_of_all_cells():
    """A session of 512 MiB cannot fill its files beyond what all cells may use."""
    with Server(pool_size=0, node_memory_limit="96M") as server:
        paths = groups(server)
        s = server.create(limits={"memory": "512M", "disk": "400M"})["id"]
        server.run(s, "head -c 300M /dev/zero > /tmp/fill")
        used = limit(paths, "memory.current", "memory.usage_in_bytes")
        check(used <= 96 << 20, f"memory of all cells: {used}")
        equal(server.request("GET", "/healthz")[0], 200, "the daemon answers")


def test_the_group_goes_with_the_server():
    with Server(pool_size=1) as server:
        paths = groups(server)
        check(paths, "a group of cgroups")
    wait_for(lambda: not any(map(os.path.exists, paths)), 15, "the end of the group")


def test_cells_without_limits_are_refused():
    """As nobody, who has no cgroups here: the server says what to do, and starts only if told to."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        raise Skip("an ordinary user may have a delegated cgroup here")
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", harness.PROGRAM, "serve", "--state", "/tmp/none/s",
         "--run", "/tmp/none/r", "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=20, env={"HOME": "/tmp/none"},
    )
    equal(done.returncode, 1, "exit code")
    has(done.stderr, "best_effort")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
