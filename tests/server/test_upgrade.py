#!/usr/bin/python3 -B
"""Goal: sessions outlive `cordon serve`, and an upgrade by SIGHUP loses nothing, whatever it meets.

    test_upgrade.py CORDON [name ...]
"""
import os
import re
import shutil
import signal
import tempfile
import threading
import time

import harness
from harness import Server, check, children, comm, equal, has, reachable, run_tests, wait_for
from level import LEVEL, TEMPLATE, differs  # after harness, which knows where it is

KILLS = True  # upgrades end programs


def test_sessions_outlive_the_server():
    with Server(pool_size=2) as server:
        session = server.create(metadata={"a": "b"})["id"]
        server.run(session, "echo kept > kept")
        ticks = server.spawn(session, "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.01; done")
        wait_for(lambda: server.execution(ticks)["stdout_bytes"] > 0, 10, "the first output")
        server.stop()
        equal([p for p in children(os.getpid()) if comm(p) in ("cordond", "cordon-keeper")], [], "left running")
        check(len(server.cell_pids(session)) >= 2, "the cell is gone")
        time.sleep(1.0)  # the program goes on without a server
        server.start()
        equal((server.get(session)["state"], server.get(session)["metadata"]), ("running", {"a": "b"}), "session")
        equal(server.run(session, "cat kept")["stdout"], "kept\n", "its files")
        done = server.ended(ticks)
        equal(done["exit_code"], 0, "the execution")
        path = f"/v1/sessions/{session}/executions/{ticks['id']}/output?stream=stdout"
        out = server.want(200, "GET", path).decode().split()
        equal(out, [str(i) for i in range(400)], "its output")


def test_upgrades_one_after_the_other():
    """A SIGHUP at any moment of an upgrade, also before the new supervisor looks at signals, ends nothing."""
    with Server(pool_size=1) as server:
        session, pid = server.create()["id"], server.process.pid
        for i in range(60):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.005 + 0.002 * (i % 20))  # the moment of the kill varies
        server.wait_ready()
        equal((server.process.poll(), server.process.pid), (None, pid), "the supervisor")
        equal(server.run(session, "echo hi")["stdout"], "hi\n", "a session from before")


def test_an_upgrade_does_not_wait_for_what_hangs():
    """Keepers are not replaced during an upgrade: the pool's cells are left to the next cordond. At a level with a guest
    these are guests that wait."""
    with Server(pool_size=2, pool_started_size=1) as server:
        session, daemon = server.create()["id"], server.pid("cordond")
        if LEVEL != "container":
            wait_for(lambda: server.want(200, "GET", f"/v1/templates/{TEMPLATE}")["pool"]["ready"] > 0, 30, "a guest that waits")
        hung = [*server.pids("keeper"), *server.pids("cordon-egress")]
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.pid("cordond") not in (None, daemon), 30, "the next cordond")
        server.wait_ready(30)
        said = server.log()
        has(said, "cells are left for the next cordond to end")
        equal(sorted(map(int, re.findall(r"killed, because it does not end.* pid=(\d+)", said))), sorted(hung), "killed")
        equal(server.run(session, "echo hi")["stdout"], "hi\n", "a session from before")


def test_programs_are_those_of_the_start_until_a_reload():
    """Files that are installed in between are of another version, perhaps: a program that dies is started from the file of before."""
    program = reachable(harness.ORIGINAL)
    folder = os.path.dirname(program)

    def files():
        return {n: os.stat(f"/proc/{server.pid(n)}/exe").st_ino for n in ("cordond", "cordon-keeper", "cordon-egress", "cordon-storage", "cordon-pull", "cordon-cache", "cordon-notary")}

    with Server(program, pool_size=0) as server:
        session, before = server.create()["id"], files()
        for name in harness.PROGRAMS:
            with open(f"{folder}/new", "w") as f:
                f.write("#!/bin/sh\nexit 1\n")
            os.chmod(f"{folder}/new", 0o755)
            os.rename(f"{folder}/{name}", f"{folder}/old-{name}")
            os.rename(f"{folder}/new", f"{folder}/{name}")
        for name in reversed(before):
            server.restarted(name)
        wait_for(lambda: all(server.pid(n) for n in before), 20, "all programs, of which some end with cordond")
        equal(files(), before, "the files of programs that were killed")
        equal(server.run(session, "echo hi")["stdout"], "hi\n", "a session from before")
        fresh = server.create()["id"]
        equal(server.run(fresh, "echo hi")["stdout"], "hi\n", "a new session")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "upgrade refused" in server.log(), 20, "the refusal of programs that cannot work")
        equal(files(), before)
        for name in harness.PROGRAMS:
            shutil.copy(f"{folder}/old-{name}", f"{folder}/new")
            os.rename(f"{folder}/new", f"{folder}/{name}")
        daemon = server.pid("cordond")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.pid("cordond") not in (None, daemon), 30, "the next cordond")
        server.wait_ready(30)
        wait_for(lambda: None not in [server.pid(n) for n in before], 10, "all programs")
        equal({n: i for n, i in files().items() if i != os.stat(f"{folder}/{n}").st_ino}, {}, "programs of other files")
        equal(server.run(session, "echo on")["stdout"], "on\n", "a session from before")


def test_mount_roots_change_while_sessions_run():
    """SIGHUP reads the configuration again: a new root can be mounted from, one that is gone no more, and a session
    from before keeps what it has."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        for name in ("one", "two"):
            os.mkdir(f"{d}/{name}")
            with open(f"{d}/{name}/file", "w") as f:
                f.write(name)

        def configure(name):
            with open(f"{d}/conf", "w") as f:
                f.write(f"mount_roots = {d}/{name}\n")

        def mount(name):
            return {"mounts": [{"source": f"{d}/{name}", "target": "/mnt"}]}

        configure("one")
        with Server(config=f"{d}/conf", pool_size=0) as server:
            if differs("mounts"):
                server.refused(422, "unsupported", "POST", "/v1/sessions", mount("one"), "mounts", LEVEL)
                return
            old, daemon = server.create(**mount("one"))["id"], server.pid("cordond")
            server.refused(403, "forbidden", "POST", "/v1/sessions", mount("two"))
            configure("two")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.pid("cordond") not in (None, daemon), 30, "the next cordond")
            server.wait_ready(30)
            equal(server.run(old, "cat /mnt/file")["stdout"], "one", "the mount of a session from before")
            equal(server.run(server.create(**mount("two"))["id"], "cat /mnt/file")["stdout"], "two", "the new root")
            server.refused(403, "forbidden", "POST", "/v1/sessions", mount("one"))


def test_an_upgrade_loses_nothing():
    with Server(pool_size=2) as server:
        session = server.create()["id"]
        before, daemon = server.process.pid, server.pid("cordond")
        results, slowest, stop = [], [0.0], threading.Event()

        def ask():
            while not stop.is_set():
                began = time.monotonic()
                try:
                    results.append(server.request("GET", f"/v1/sessions/{session}")[0])
                except Exception as e:
                    results.append(repr(e))
                slowest[0] = max(slowest[0], time.monotonic() - began)

        def wait():
            path = f"/v1/sessions/{session}/executions?wait=true"
            waiting.append(server.request("POST", path, {"command": "sleep 8; echo done"}))

        askers = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        waiting = []
        slow = threading.Thread(target=wait, daemon=True)
        for t in (*askers, slow):
            t.start()
        wait_for(lambda: len(results) > 10, 10, "the first answers")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.pid("cordond") not in (None, daemon), 15, "the next cordond")
        server.wait_ready()
        slow.join(15)
        seen = len(results)
        wait_for(lambda: len(results) > seen + 10, 10, "answers of the next cordond")
        stop.set()
        for t in askers:
            t.join(15)
        equal(set(results), {200}, f"of {len(results)} requests meanwhile")
        check(len(results) > 20, f"only {len(results)} requests")
        check(slowest[0] < 7, f"one of them took {slowest[0]} s: it waited for the one that waits")
        status, headers, x = waiting[0]
        equal((status, headers.get("retry-after")), (202, "1"), f"a request that waited: {x}")
        equal(server.ended(x)["exit_code"], 0, "what it waited for")
        path = f"/v1/sessions/{session}/executions/{x['id']}/output?stream=stdout"
        equal(server.want(200, "GET", path), b"done\n", "its output")
        equal(server.process.pid, before, "pid of the supervisor")
        equal(server.run(session, "echo on")["stdout"], "on\n", "the session after it")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
