#!/usr/bin/python3 -B
"""Goal: sessions at level microvm are clones of one booted guest, each a machine of its own: files, randomness, machine
id, host name and clock. A guest that hangs is told apart from one whose engine has ended.

    test_microvm.py CORDON [name ...]
"""
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402
import guest_kernel  # noqa: E402
import slim_root  # noqa: E402

MIB = 1 << 20
LIMITS = {"memory": 256 * MIB, "disk": 32 * MIB}  # not the server's defaults: no cell of a pool fits
KILLS = True  # programs of the server die in these tests
CLONES = 10
BOOT = 240  # seconds: the first session of a template boots a guest, under emulation and load
FACTS = "cat /home/user/own; date +%s; cat /dev/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | base64"


def create(server, **more):
    return server.want(201, "POST", "/v1/sessions", {"level": "microvm", "template": "slim", "limits": LIMITS, **more}, timeout=BOOT)


def output(server, session, text):
    done = server.run(session["id"], ["bash", "-c", text])
    equal(done["exit_code"], 0, str(done))
    return done["stdout"]


def engine(server, session):
    """The process of QEMU."""
    return next(pid for pid in server.cell_pids(session["id"]) if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("qemu-system"))


def setup(server):
    if not (pathlib.Path(server.state) / "templates" / "slim").exists():
        subprocess.run(["cp", "-a", slim_root.state(sys.argv[1]), f"{server.state}/templates/slim"], check=True)
        server.want(201, "POST", "/v1/templates", {"name": "slim", "root": {"layers": ["slim"]}})


def test_a_session_is_a_machine(server):
    setup(server)
    began = time.monotonic()
    s = create(server)
    print(f"# first: {time.monotonic() - began:.1f} s")
    equal(s["level"], "microvm")
    kernel = output(server, s, "uname -r").strip()
    check(kernel != os.uname().release and "cloud" in kernel, f"its kernel is {kernel}")
    cpu = output(server, s, "grep -m 2 -E '^(model name|flags)' /proc/cpuinfo")
    check("QEMU TCG" not in cpu or not {"erms", "fsrm"} & set(cpu.split()), f"copies by bytes, which are slow in emulation: {cpu}")
    server.delete(s["id"])


def test_clones_are_machines_of_their_own(server):
    setup(server)
    made, facts = [], []
    began = time.monotonic()
    threads = [threading.Thread(target=lambda: made.append(create(server))) for _ in range(CLONES)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"# {CLONES} clones: {time.monotonic() - began:.1f} s")
    equal(len(made), CLONES, "clones")
    for number, s in enumerate(made):
        output(server, s, f"echo {number} > /home/user/own")
    for number, s in enumerate(made):
        own, clock, *rest = output(server, s, FACTS).splitlines()
        equal(own, str(number), "its file")
        check(abs(int(clock) - time.time()) < 20, f"its clock says {clock}")
        equal(len(rest), 3, f"machine id, boot id, random bytes: {rest}")
        facts.append(rest)
    for what, values in zip(("machine id", "boot id", "random bytes"), zip(*facts)):
        equal(len(set(values)), CLONES, f"{what}: {values}")
    for s in made:
        server.delete(s["id"])


def test_a_guest_outlives_cordond(server):
    setup(server)
    s = create(server)
    x = server.spawn(s["id"], ["sleep", "1000"])
    wait_for(lambda: server.execution(x)["state"] == "running", 60, "the program")
    server.restarted("cordond")
    equal(server.get(s["id"])["state"], "running", "the session")
    wait_for(lambda: server.execution(x)["state"] == "running", 60, "the program, again")
    equal(output(server, s, "echo again"), "again\n", "another program")
    server.want(204, "POST", f"/v1/sessions/{s['id']}/executions/{x['id']}/signals", {"signal": "KILL"})
    equal(server.ended(x, 60)["signal"], 9, "how it ended")
    server.delete(s["id"])


def test_a_guest_that_hangs_is_not_a_dead_one(server):
    setup(server)
    s = create(server)
    pid = engine(server, s)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: server.get(s["id"]).get("guest") == "unresponsive", 120, "unresponsive")
        equal(server.get(s["id"])["state"], "running", "a session whose guest hangs")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: server.get(s["id"]).get("guest") != "unresponsive", 120, "responsive again")
    equal(output(server, s, "echo back"), "back\n")
    server.delete(s["id"])


def test_an_engine_that_ended_ends_the_session(server):
    setup(server)
    s = create(server)
    os.kill(engine(server, s), signal.SIGKILL)
    ended = wait_for(lambda: (lambda v: v if v["state"] == "ended" else None)(server.get(s["id"])), 60, "its end")
    has(str(ended), "engine_exited")


# ---- clones that are made in advance: for sessions with the default limits

WAITING = 2


def pooled(server, **more):
    return create(server, limits={}, **more)


def pool(server):
    return server.want(200, "GET", "/v1/templates/slim")["pool"]


def idle_engines(server):
    """{cell: process of QEMU} of the cells of no session."""
    owned = {s["id"] for s in server.want(200, "GET", "/v1/sessions?limit=1000&ended=false")["sessions"]}
    ids = {n[:-5] for n in os.listdir(f"{server.run_dir}/cells") if n.endswith(".sock")} - owned
    return {i: pid for i in ids for pid in server.cell_pids(i) if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("qemu-system")}


def wait_full(server):
    wait_for(lambda: pool(server)["ready"] == WAITING, 120, "clones that wait")
    server.note_cells()


def test_no_clone_waits_before_the_level_was_used(server):
    setup(server)
    s = create(server)  # with other limits
    time.sleep(2)  # demand is looked at every second
    equal((idle_engines(server), pool(server)["size"]), ({}, 0), "clones that fit no session")
    server.delete(s["id"])


def test_sessions_get_clones_that_wait(server):
    setup(server)
    first = pooled(server)
    wait_full(server)
    before, waiting = pool(server), idle_engines(server)
    equal(len(waiting), WAITING, "engines that wait")
    made = [first] + [pooled(server) for _ in range(WAITING)]
    equal(pool(server)["hits"] - before["hits"], WAITING, "sessions that got one")
    equal({s["id"] for s in made[1:]}, set(waiting), "sessions that got one")
    equal({engine(server, s) for s in made[1:]}, set(waiting.values()), "their engines")
    facts = []
    for number, s in enumerate(made):
        host, left, clock, *rest = output(server, s, "hostname; ls -A /home/user | wc -l;" + FACTS.replace("cat /home/user/own; ", "")).splitlines()
        equal((host, left), (s["id"], "0"), "its name, and files in its home")
        check(abs(int(clock) - time.time()) < 20, f"its clock says {clock}")
        equal(len(rest), 3, f"machine id, boot id, random bytes: {rest}")
        facts.append(rest)
    for what, values in zip(("machine id", "boot id", "random bytes"), zip(*facts)):
        equal(len(set(values)), len(made), f"{what}: {values}")
    for s in made:
        server.delete(s["id"])


def test_a_session_with_a_clone_that_waited_outlives_cordond(server):
    setup(server)
    pooled(server)
    wait_full(server)
    old = idle_engines(server)
    s = pooled(server)
    has(str(old), s["id"], "it waited")
    output(server, s, "echo kept > /home/user/own")
    server.restarted("cordond")
    equal(output(server, s, "cat /home/user/own"), "kept\n")
    wait_for(lambda: not set(idle_engines(server)) & set(old), 60, "the end of those that waited")
    wait_for(lambda: idle_engines(server) == {}, 60, "the end of one that was being made")
    server.delete_all()


def test_clones_of_a_root_image_that_is_gone_are_not_given_out(server):
    setup(server)
    pooled(server)
    wait_full(server)
    old = idle_engines(server)
    server.delete_all()
    with sqlite3.connect(f"{server.state}/cordon.db") as db:
        db.execute("DELETE FROM layer_use WHERE layer IN (SELECT id FROM layer WHERE kind = 'root')")
        db.execute("UPDATE layer SET state = 1 WHERE kind = 'root'")
    db.close()
    s = pooled(server)
    check(s["id"] not in old, "the session got a clone of the image that is gone")
    equal(output(server, s, "echo new"), "new\n")
    wait_for(lambda: not set(idle_engines(server)) & set(old), 60, "the end of the others")
    server.delete_all()


def test_a_dead_engine_of_the_pool_is_replaced(server):
    setup(server)
    pooled(server)
    wait_full(server)
    cell, pid = idle_engines(server).popitem()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: cell not in idle_engines(server) and len(idle_engines(server)) == WAITING, 120, "another one")
    wait_full(server)
    s = pooled(server)
    check(s["id"] != cell, "the session got the dead one")
    equal(output(server, s, "echo well"), "well\n")
    server.delete_all()


if __name__ == "__main__":
    if not shutil.which("qemu-system-x86_64"):
        print("1..0 # SKIP there is no qemu-system-x86_64")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    with tempfile.TemporaryDirectory(prefix="cordon-microvm-", dir="/var/tmp") as place:
        os.mkdir(f"{place}/state", 0o755)
        guest_kernel.give(sys.argv[1], f"{place}/state")
        run_tests(globals(), folder=place, pool_size=0, memory_default="256M", disk_default="64M", pool_started_size=WAITING)
