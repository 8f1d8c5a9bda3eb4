#!/usr/bin/python3 -B
"""Goal: the diff of a session that was created with keep_diff is there after its end, whole or not at all; it counts as
stored output of its tenant, and goes with the session's record.

    test_kept_diff.py CORDON [name ...]
"""
import os
import signal
import subprocess
import time

from harness import check, equal, has, run_tests, wait_for
from leveled import Leveled as Server
from level import LEVEL, differs  # after harness, which knows where it is

KILLS = True


MANY = f"cd /tmp; for i in $(seq 6000); do echo {'n' * 100}$i; done | xargs touch"  # 0.7 MB of list


def stop(server, session):
    server.delete(session["id"])
    return server.reaches(session["id"], "ended", 40)


def diff(server, session):
    return server.want(200, "GET", f"/v1/sessions/{session['id']}/diff")


def paths(answer):
    return {c["path"]: c["kind"] for c in answer["changes"]}


def files(server):
    return sorted(n for n in os.listdir(os.path.join(server.state, "output")) if ".diff" in n)


def test_kept_when_it_is_deleted(server):
    session = server.create(keep_diff=True)
    equal(session["kept_diff"], {"state": "wanted", "bytes": 0, "why": None})
    server.run(session["id"], "echo new > new; rm /etc/magic; mkdir -p a/b; echo x > a/b/c", user="root", cwd="/root")
    before = diff(server, session)
    running = server.spawn(session["id"], "while :; do date > /tmp/changing; done")
    wait_for(lambda: server.execution(running)["state"] == "running" and "/tmp/changing" in paths(diff(server, session)), 10, "it runs")
    ended = stop(server, session)
    equal(ended["kept_diff"]["state"], "kept", str(ended["kept_diff"]))
    after = diff(server, session)
    equal({p: k for p, k in paths(after).items() if not p.startswith("/tmp")}, paths(before))
    equal(paths(after)["/root/a/b/c"], "added")
    check("/tmp/changing" in paths(after), "what ran until the end")
    path = os.path.join(server.state, "output", session["id"] + ".diff")
    equal(os.stat(path).st_size, ended["kept_diff"]["bytes"])
    seen = server.want(200, "GET", f"/v1/sessions/{session['id']}/events")["events"]
    check(any(e["type"] == "session.diff" for e in seen), str(seen))


def test_a_value_in_a_name_is_kept_masked(server):
    server.want(201, "POST", "/v1/secrets", {"name": "named", "value": "value-in-a-name-0123456789"})
    session = server.create(keep_diff=True)
    server.run(session["id"], "touch /tmp/$T.txt", secrets=[{"name": "named", "as": "env", "env": "T"}])
    equal(stop(server, session)["kept_diff"]["state"], "kept")
    equal([p for p in paths(diff(server, session)) if p.endswith(".txt")], ["/tmp/" + 26 * "*" + ".txt"])
    with open(os.path.join(server.state, "output", session["id"] + ".diff"), "rb") as f:
        check(b"value-in-a-name" not in f.read(), "the value is in the file")
    server.want(204, "DELETE", "/v1/secrets/named")


def test_not_asked_for(server):
    session = server.create()
    equal(session["kept_diff"], None)
    equal(stop(server, session)["kept_diff"], None)
    server.refused(410, "gone", "GET", f"/v1/sessions/{session['id']}/diff")


def test_other_ends(server):
    expired = server.create(keep_diff=True, timeout="2s" if LEVEL == "container" else "10s")
    server.run(expired["id"], "echo x > /tmp/x")
    paused = server.create(keep_diff=True)
    server.run(paused["id"], "echo x > /tmp/x")
    server.request("POST", f"/v1/sessions/{paused['id']}/pause")
    ends = {expired["id"]: server.reaches(expired["id"], "ended", 40), paused["id"]: stop(server, paused)}
    if differs("memory images"):  # with the memory its files were on disk, and no cell was left to read them
        has(ends.pop(paused["id"])["kept_diff"]["why"], "the cell ended")
    for session, ended in ends.items():
        equal(ended["kept_diff"]["state"], "kept", str(ended["kept_diff"]))
        equal(paths(diff(server, {"id": session})), {"/tmp/x": "added"})
    killed = server.create(keep_diff=True)
    os.kill(server.cell_pids(killed["id"])[0], signal.SIGKILL)
    ended = server.reaches(killed["id"], "ended", 40)
    equal(ended["kept_diff"]["state"], "failed")
    has(ended["kept_diff"]["why"], "the cell ended")
    server.refused(410, "gone", "GET", f"/v1/sessions/{killed['id']}/diff", None, "was not kept")


def test_many_at_once(server):
    """More than are read at a time: the others wait, and none is lost."""
    sessions = [server.create(keep_diff=True) for _ in range(12)]
    for i, session in enumerate(sessions):
        server.run(session["id"], f"echo > /tmp/{i}")
    for session in sessions:
        server.delete(session["id"])
    for i, session in enumerate(sessions):
        equal(server.reaches(session["id"], "ended", 60)["kept_diff"]["state"], "kept")
        equal(paths(diff(server, session)), {f"/tmp/{i}": "added"})


def test_a_kill_in_the_middle():
    """cordond dies at any moment of it: then there is a whole file and a record that says so, or none of both."""
    with Server(pool_size=2) as server:
        for ms in (0, 1, 2, 4, 8, 16, 32):
            session = server.create(keep_diff=True)
            server.run(session["id"], "for i in $(seq 2000); do : > /tmp/file$i; done")
            server.delete(session["id"])
            time.sleep(ms / 1000)  # to be killed at another moment each time
            server.kill("cordond")
            server.wait_ready()
            ended = server.reaches(session["id"], "ended", 60)["kept_diff"]
            check(ended["state"] in ("kept", "failed"), str(ended))
            if ended["state"] == "kept":
                equal(len(diff(server, session)["changes"]), 2000, f"killed after {ms} ms")
                check(session["id"] + ".diff" in files(server), str(files(server)))
            else:
                has(ended["why"], "the cell ended")
                check(session["id"] + ".diff" not in files(server), str(files(server)))
            equal([n for n in files(server) if n.endswith(".new")], [], "half a file")


def test_room_and_retention():
    retention = {"container": "6s", "gvisor": "20s", "microvm": "60s"}[LEVEL]  # longer than three sessions take
    with Server(pool_size=1, tenant_max_output="1M", session_output_max="1M", retention=retention) as server:
        session = server.create(keep_diff=True)
        server.run(session["id"], MANY)
        ended = stop(server, session)["kept_diff"]
        equal(ended["state"], "kept", str(ended))
        other = server.create(keep_diff=True)
        server.run(other["id"], MANY)
        ended = stop(server, other)["kept_diff"]
        equal(ended["state"], "failed", "both do not fit")
        has(ended["why"], "no room")
        server.kill("cordond")
        server.wait_ready()
        third = server.create(keep_diff=True)
        server.run(third["id"], MANY)
        equal(stop(server, third)["kept_diff"]["state"], "failed", "counted again after a restart")
        wait_for(lambda: files(server) == [], 40, "the end of the file")
        server.refused(404, "not_found", "GET", f"/v1/sessions/{session['id']}/diff")
        again = server.create(keep_diff=True)
        server.run(again["id"], MANY)
        equal(stop(server, again)["kept_diff"]["state"], "kept", "there is room again")


def test_a_long_list_is_cut():
    with Server(pool_size=0, inodes_max=200000, inodes_default=200000) as server:
        session = server.create(keep_diff=True)
        name = "n" * 200
        server.run(session["id"], ["sh", "-c", f"mkdir d; cd d; for i in $(seq 22000); do echo {name}$i; done | xargs touch"], timeout="60s")
        ended = stop(server, session)["kept_diff"]
        equal(ended["state"], "kept", str(ended))
        got = diff(server, session)
        equal(got["truncated"], True)
        check(3 << 20 < ended["bytes"] < 5 << 20, str(ended))


def test_the_client(server):
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}

    def cli(*words):
        done = subprocess.run([server.program, *words], env=env, capture_output=True, timeout=40)
        equal(done.returncode, 0, str(done))
        return done.stdout.decode().strip()

    session = cli("create", "--keep-diff")
    cli("exec", session, "--", "touch", "/tmp/by-cli")
    equal(stop(server, {"id": session})["level"], LEVEL)
    equal(cli("diff", session), "A /tmp/by-cli")


if __name__ == "__main__":
    run_tests(globals(), Server, pool_size=2)
