#!/usr/bin/python3
"""evil.py - cells whose PID 1 is stopped, or was taken over: garbage, floods, lies, wrong descriptors, pipes
that block, silence. The daemon lives on, others are served, memory is bounded, the session ends.

    evil.py CORDON --evil EVIL_INIT [--only NAME ...]"""
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import faults  # noqa: E402
import harness  # noqa: E402
from chaos import pid1  # noqa: E402
from faults import QUICK_S, quickly  # noqa: E402
from harness import Server, check, equal, rss, wait_for  # noqa: E402


def test_stopped_pid1():
    with Server(pool_size=2) as server:
        session, other = server.create(), server.create()
        os.kill(pid1(session["id"]), signal.SIGSTOP)
        waiting = server.spawn(session["id"], "echo late")
        began = time.monotonic()
        for _ in range(5):
            equal(server.run(other["id"], "echo on")["stdout"], "on\n", "another session")
        check(time.monotonic() - began < QUICK_S, "another session is slow")
        server.kill("cordond")
        server.wait_ready(10)
        equal(server.get(session["id"])["state"], "running", "after a restart")
        os.kill(pid1(session["id"]), signal.SIGCONT)
        equal(server.ended(waiting)["exit_code"], 0, "when it goes on")
        os.kill(pid1(session["id"]), signal.SIGSTOP)
        began = time.monotonic()
        server.delete(session["id"])
        check(time.monotonic() - began < QUICK_S, "delete is slow")
        server.reaches(session["id"], "ended")
        equal(server.run(other["id"], "echo on")["stdout"], "on\n", "another session, afterwards")


def evil(how):
    """Programs with that PID 1 in the place of ours."""
    folder = tempfile.mkdtemp(prefix="cordon-evil-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    for name in harness.PROGRAMS:
        shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), folder)
    with open(faults.ARGS.evil, "rb") as f:
        program = f.read()
    equal(program.count(b"HOW:................"), 1, "the word in the program")
    with open(folder + "/cordon-init", "wb") as f:
        f.write(program.replace(b"HOW:................", b"HOW:" + how.encode().ljust(16, b"\0")))
    return folder


def with_evil(how, what, **settings):
    folder = evil(how)
    try:
        with Server(folder + "/cordon", pool_size=0, pool_max=0, **settings) as server:
            pid = server.pid("cordond")
            what(server)
            quickly(server, how)
            equal(server.pid("cordond"), pid, "cordond lives on")
            check(rss(pid) < 60 << 20, f"cordond has {rss(pid) >> 20} MiB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def crashes(server):
    """Whatever it is asked to run: the session ends as crashed, the client is told."""
    session = server.create()
    began = time.monotonic()
    server.request("POST", f"/v1/sessions/{session['id']}/executions?wait=true", {"command": "true"}, timeout=10)
    equal(server.reaches(session["id"], "ended")["reason"], "crashed", "reason")
    check(time.monotonic() - began < 5, "slow")


def test_pid1_talks_garbage():
    with_evil("garbage", crashes)


def test_pid1_sends_a_huge_frame():
    with_evil("huge", crashes)


def test_pid1_sends_wrong_descriptors():
    with_evil("fds", crashes)


def test_pid1_talks_garbage_at_once():
    def what(server):
        status, _, data = server.request("POST", "/v1/sessions", {}, timeout=10)
        check(status >= 500, f"a create that cannot work: {status} {data}")

    with_evil("early", what)


def test_pid1_is_never_ready():
    """A client that goes away takes the session with it; one that stays is told within its time."""

    def what(server):
        with socket.create_connection(server.address) as link:
            link.sendall(f"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\n".encode())
            link.sendall(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            time.sleep(1)
            quickly(server, "a cell is silent")
        wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 15, "its end")

    with_evil("silent", what)


def test_pid1_floods():
    def what(server):
        session = server.create()
        server.spawn(session["id"], "true")
        for _ in range(5):
            time.sleep(0.2)
            quickly(server, "flooded")
        server.delete(session["id"])
        server.reaches(session["id"], "ended")

    with_evil("flood", what)


def test_pid1_never_reads():
    def what(server):
        session, statuses = server.create(), set()
        for _ in range(120):
            spec = {"argv": ["/bin/true", "x" * 120000]}
            statuses.add(server.request("POST", f"/v1/sessions/{session['id']}/executions", spec)[0])
        check(statuses <= {202, 429, 503} and len(statuses) > 1, f"statuses {statuses}")
        quickly(server, "it is deaf")
        server.delete(session["id"])
        server.reaches(session["id"], "ended")

    with_evil("deaf", what)


def test_pid1_makes_pipes_block():
    def what(server):
        one, two = server.create(), server.create()
        server.spawn(one["id"], "true", stdin_stream=True)

        def read():
            try:
                server.request("GET", f"/v1/sessions/{two['id']}/files?path=x", raw=True, timeout=8)
            except OSError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(15):
            time.sleep(0.1)
            quickly(server, "pipes block")
        for session in (one, two):
            server.delete(session["id"])
            server.reaches(session["id"], "ended")
        reader.join(10)

    with_evil("block", what)


def test_pid1_lies():
    def what(server):
        session = server.create()
        for _ in range(5):
            done = server.run(session["id"], "true")
            check(done["state"] in ("exited", "killed", "failed"), f"{done}")
        server.delete(session["id"])
        server.reaches(session["id"], "ended")

    with_evil("lies", what)


if __name__ == "__main__":
    faults.main(globals())
