#!/usr/bin/python3 -B
"""Goal: a persistent session keeps its id and its files over restarts, crashes and reboots; idle, it has no processes, and its
next use starts it again; it ends when it was not used for the time that it is kept, and counts in the tenant's limits.

    test_persist.py CORDON [name ...]
"""
import http.client
import os
import signal
import sqlite3
import threading

from harness import Server, check, children, equal, has, run_tests, wait_for
from test_disk import folder, gone, images, loops

KILLS = True
SMALL = {"persist": True, "limits": {"disk": "64M"}}


def at_rest(server, session_id, seconds=30):
    now = server.rests(session_id, seconds)
    equal(now["reason"], None)
    wait_for(lambda: not [n for n in loops(server) if n.startswith(session_id)], 20, "no loop device")
    equal(images(server).count(session_id + ".img"), 1)
    return now


def test_stops_when_idle_and_wakes(server):
    session = server.create(**SMALL, idle_timeout="1s")
    equal((session["persist"], session["storage"], session["on_idle"]), (True, "disk", "pause_files"))
    server.run(session["id"], "echo first >a; mkdir -p /opt/tool; sudo chown root a", user="root", cwd="/home/user")
    now = at_rest(server, session["id"])
    check(now["kept_until"] > now["created_at"], str(now))
    check(any(s["id"] == session["id"] for s in server.want(200, "GET", "/v1/sessions")["sessions"]), "it is in the list")
    for round_ in range(2):
        done = server.run(session["id"], "cat a; stat -c %U a; ls -d /opt/tool; echo more >>b; wc -l <b")
        equal(done["stdout"].split(), ["first", "root", "/opt/tool", str(round_ + 1)])
        equal(server.get(session["id"])["state"], "running")
        at_rest(server, session["id"])
    # a file is a use, too
    equal(server.want(200, "GET", f"/v1/sessions/{session['id']}/files?path=/home/user/a", raw=True), b"first\n")
    gone(server, session["id"])


def test_survives_its_cell(server):
    session = server.create(**SMALL, idle_timeout="1h")
    server.run(session["id"], "echo kept >a; sync")
    running = server.spawn(session["id"], "sleep 1000")
    pids = server.cell_pids(session["id"])
    os.kill(min(pids), signal.SIGKILL)
    at_rest(server, session["id"])
    equal(server.execution(running)["state"], "killed")
    equal(server.run(session["id"], "cat a")["stdout"], "kept\n")
    gone(server, session["id"])


def test_survives_restarts(server):
    session = server.create(**SMALL, idle_timeout="1h")
    server.run(session["id"], "echo kept >a; sync")
    server.restart()
    equal(server.run(session["id"], "cat a")["stdout"], "kept\n", "of the server")
    server.kill("cordond")
    server.wait_ready()
    equal(server.run(session["id"], "cat a")["stdout"], "kept\n", "of the daemon")
    # all at once, the cell included
    pids = server.cell_pids(session["id"])
    server.stop()
    os.kill(min(pids), signal.SIGKILL)
    server.start()
    at_rest(server, session["id"])
    equal(server.run(session["id"], "cat a")["stdout"], "kept\n", "of all")
    gone(server, session["id"])


def reboot(server, session_ids):
    """As if the machine was restarted: no process of the sessions is left, and the rows are of another boot."""
    pids = [min(server.cell_pids(i)) for i in session_ids]
    server.stop()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    with sqlite3.connect(os.path.join(server.state, "cordon.db")) as db:
        db.execute("UPDATE session SET boot_id = 'another' WHERE ended_ms = 0")
    db.close()
    server.start()


def test_survives_a_reboot(server):
    kept = server.create(**SMALL, idle_timeout="1h")
    plain = server.create(storage="disk", limits={"disk": "64M"})
    server.run(kept["id"], "echo kept >a; sync")
    reboot(server, [kept["id"], plain["id"]])
    equal(server.get(plain["id"])["reason"], "host_restart")
    at_rest(server, kept["id"])
    equal(server.run(kept["id"], "cat a; cat /proc/sys/kernel/random/boot_id | wc -c")["stdout"].split(), ["kept", "37"])
    wait_for(lambda: images(server) == [kept["id"] + ".img"], 20, "one image")
    gone(server, kept["id"])


def test_ends_when_it_is_not_used(server):
    session = server.create(**SMALL, idle_timeout="1s", keep="3s")
    ended = server.reaches(session["id"], "ended", 40)
    equal(ended["reason"], "expired")
    has(ended["detail"], "kept")
    wait_for(lambda: images(server) == [], 20, "no image")


def test_pause_and_reset(server):
    session = server.create(**SMALL, idle_timeout="1h")
    path = f"/v1/sessions/{session['id']}"
    server.run(session["id"], "echo old >a; echo shm >/dev/shm/b")
    server.want(200, "POST", path + "/pause")
    equal(server.run(session["id"], "cat a /dev/shm/b")["stdout"], "old\nshm\n", "a pause keeps memory")
    server.want(200, "POST", path + "/pause", {"memory": False})
    at_rest(server, session["id"])
    equal(server.run(session["id"], "cat a; ls /dev/shm")["stdout"], "old\n", "without memory it keeps the disk")
    server.want(200, "POST", path + "/reset", {})
    equal(server.run(session["id"], "ls a 2>&1 | grep -c No; echo new >c; sync")["stdout"], "1\n", "a reset makes a new disk")
    server.want(200, "POST", path + "/pause", {"memory": False})
    equal(server.run(session["id"], "cat c")["stdout"], "new\n", "which is kept")
    gone(server, session["id"])


def test_reset_and_a_killed_daemon(server):
    """The reset of a session at rest is on record before its new disk is made."""
    session = server.create(**SMALL, idle_timeout="1h")
    path = f"/v1/sessions/{session['id']}"
    server.run(session["id"], "echo old >a; sync")
    server.want(200, "POST", path + "/pause", {"memory": False})
    at_rest(server, session["id"])
    jobs = [below for pid in server.pids("cordon-storage") for below in children(pid)]
    for pid in jobs:  # so the new disk is not made
        os.kill(pid, signal.SIGSTOP)
    try:
        asked = threading.Thread(target=attempt_reset, args=(server, path), daemon=True)
        asked.start()
        server.reaches(session["id"], "resuming")
        server.kill("cordond")
        asked.join()
    finally:
        for pid in jobs:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
    server.wait_ready(30)
    equal(server.run(session["id"], "ls a 2>&1 | grep -c No")["stdout"], "1\n", "the disk is new")
    wrong = [line for line in server.log().splitlines() if "configuration rejected" in line and session["id"] in line]
    equal(wrong, [], "a session without a cell has no network to configure")
    gone(server, session["id"])


def attempt_reset(server, path):
    try:
        server.request("POST", path + "/reset", {})
    except (OSError, http.client.HTTPException):
        pass  # the daemon was killed


def test_wakes_for_e2b(server):
    """By connect, by a request of an SDK and by traffic to a port."""
    body = {"templateID": "base", "timeout": 3600, "metadata": {"cordon.persist": "true", "cordon.disk": "64M"}}
    box = server.want(201, "POST", "/v2/sandboxes", body)["sandboxID"]
    server.ids.add(box)
    server.run(box, "echo kept >a; sync")

    def rest():
        os.kill(min(server.cell_pids(box)), signal.SIGKILL)
        at_rest(server, box)
        equal(server.want(200, "GET", f"/sandboxes/{box}")["state"], "paused")

    rest()
    equal(server.want(201, "POST", f"/sandboxes/{box}/connect", {"timeout": 3600})["sandboxID"], box)
    equal(server.run(box, "cat a")["stdout"], "kept\n", "by connect")
    rest()
    status, _, _ = server.request("GET", "/", headers={"Host": f"3000-{box}.cordon.localhost"})
    equal((status, server.get(box)["state"]), (502, "running"), "by traffic; no server listens")
    gone(server, box)


def test_starts_its_command_again(_server):
    """The one that wakes it gets its answer when the ready command has succeeded."""
    with Server(pool_size=0) as server:
        server.stop()
        with sqlite3.connect(os.path.join(server.state, "cordon.db")) as db:
            db.execute("UPDATE template SET start_command = 'sleep 0.3; echo up >>/home/user/up; exec sleep 1000',"
                       " ready_command = 'test $(wc -l </home/user/up) -gt $(cat /home/user/n 2>/dev/null || echo 0)'"
                       " WHERE name = 'host'")
        db.close()
        server.start()
        session = server.create(**SMALL, idle_timeout="1s")
        for n in (1, 2):
            equal(server.run(session["id"], "wc -l <up; wc -l <up >n; sync")["stdout"].strip(), str(n))
            at_rest(server, session["id"])  # although its command runs
        gone(server, session["id"])


def test_fork_and_snapshot(server):
    """The children begin with the files of the disk."""
    session = server.create(**SMALL, idle_timeout="1h")
    server.run(session["id"], "echo mine >a; rm /etc/magic; ln a b; sync", user="root", cwd="/home/user")
    made = server.want(201, "POST", f"/v1/sessions/{session['id']}/fork", {"count": 1})["sessions"]
    equal(len(made), 1)
    server.ids.add(made[0]["id"])
    look = "cat a b; ls /etc/magic 2>&1 | grep -c No"
    equal(server.run(made[0]["id"], look)["stdout"].split(), ["mine", "mine", "1"])
    equal((made[0]["storage"], made[0]["persist"]), ("disk", False), "it has a disk of its own, and an end")
    server.run(made[0]["id"], "echo other >a; sync", user="root", cwd="/home/user")
    equal(server.run(session["id"], "cat a")["stdout"], "mine\n")
    gone(server, session["id"])
    equal(server.run(made[0]["id"], "cat a")["stdout"], "other\n")
    gone(server, made[0]["id"])


def test_counts(_server):
    with Server(pool_size=1, tenant_max_persistent=1, persist_idle="1s", persist_keep_max="40d") as server:
        session = server.create(**SMALL)
        equal(session["idle_timeout_ms"], 1000)
        equal(session["keep_ms"], 30 * 86400000)
        server.refused(429, "quota_sessions", "POST", "/v1/sessions", SMALL, "persistent sessions are 1 (tenant_max_persistent: delete one")
        at_rest(server, session["id"])
        server.refused(429, "quota_sessions", "POST", "/v1/sessions", SMALL)
        server.refused(400, "invalid", "POST", "/v1/sessions", {**SMALL, "keep": "41d"}, "keep")
        gone(server, session["id"])
        again = server.create(**SMALL)
        gone(server, again["id"])


def test_a_full_folder_is_refused(_server):
    with Server(pool_size=1, storage_reserve=90) as server:
        server.refused(507, "storage_full", "POST", "/v1/sessions", {"storage": "disk"}, "reserve")
        equal(os.listdir(folder(server)), [])


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
