#!/usr/bin/python3
"""test_cold_pause.py - sessions without a cell: paused without memory, reset, booted again under the same id."""
import os
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, Skip, check, equal, run_tests, wait_for  # noqa: E402
from mcp_client import Client  # noqa: E402

KILLS = True  # of cordond, in here
BOOT = "cat /proc/sys/kernel/random/boot_id"


def need(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")


def pause(server, s, memory=False):
    return server.want(200, "POST", f"/v1/sessions/{s}/pause", {"memory": memory})


def resume(server, s):
    return server.want(200, "POST", f"/v1/sessions/{s}/resume")


def out(server, s, command, **spec):
    return server.run(s, command, **spec)["stdout"].strip()


FILES = (
    "mkdir -p ~/d/e && echo one >~/d/e/one && ln -s e/one ~/d/link && ln ~/d/e/one ~/d/hard && chmod 4711 ~/d/e/one && "
    "truncate -s 1M ~/d/sparse && rm /etc/profile && rm -r /usr/share/doc && mkdir /usr/share/doc && touch /usr/share/doc/mine && "
    "echo '$x' >~/'odd name\n'"
)
LOOK = (
    "cat ~/d/e/one ~/d/link; stat -c '%a %h %U' ~/d/e/one; stat -c '%s %b' ~/d/sparse; ls /etc/profile 2>&1; ls /usr/share/doc; "
    "ls ~ | wc -l"
)


def test_files_and_boot_id(server):
    need(server)
    s = server.create(timeout="1h", metadata={"a": "b"}, env={"X": "y"})["id"]
    server.run(s, FILES, user="root")
    server.run(s, FILES.split(" && rm /etc")[0])
    server.spawn(s, "sleep 1000")
    look, boot = out(server, s, LOOK), out(server, s, BOOT)
    cold = pause(server, s)
    equal((cold["state"], cold["reason"], cold["ended_at"], cold["executions_running"]), ("stopped", None, None, 0))
    wait_for(lambda: not server.cell_pids(s), 15, "its cell to be gone, and its memory free")
    equal(pause(server, s)["state"], "stopped", "pausing twice")
    back = resume(server, s)
    equal((back["state"], back["id"], back["metadata"]), ("running", s, {"a": "b"}))
    equal(out(server, s, LOOK), look, "its files")
    equal(out(server, s, "echo $X"), "y", "its environment")
    check(out(server, s, BOOT) != boot, "another boot")
    equal(out(server, s, "pgrep -c sleep || true"), "0", "its processes are gone")
    boot = out(server, s, BOOT)
    pause(server, s, memory=True)
    resume(server, s)
    equal(out(server, s, BOOT), boot, "the same boot after a pause with memory")
    # Once more, on top of the first layer.
    server.run(s, "rm -r ~/d/e; echo two >~/two")
    look = out(server, s, "cd; find . | sort; cat two")
    pause(server, s)
    equal(out(server, s, "cd; find . | sort; cat two"), look, "a call boots it")
    server.delete(s)
    server.reaches(s, "ended")
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "its layers to go")


def shown(server, s, **query):
    words = "&".join(f"{name}={value}" for name, value in query.items())
    return s in [row["id"] for row in server.want(200, "GET", f"/v1/sessions?limit=1000&{words}")["sessions"]]


def moves(server, s):
    found = server.want(200, "GET", f"/v1/sessions/{s}/events?limit=1000")["events"]
    return [(e["data"]["from"], e["data"]["to"]) for e in found if e["type"] == "session.state"]


def test_without_a_cell_it_is_stopped_and_not_ended(server):
    """In every interface but E2B's, whose word for it is paused."""
    need(server)
    s = server.create(timeout="1h")["id"]
    pause(server, s, memory=True)
    equal((shown(server, s, state="paused"), shown(server, s, state="stopped")), (True, False), "with its memory it is paused")
    before = server.want(200, "GET", "/v1/node")["sessions"]
    equal(pause(server, s)["state"], "stopped", "its memory is dropped")
    equal((shown(server, s, state="paused"), shown(server, s, state="stopped")), (False, True))
    equal((shown(server, s, ended="false"), shown(server, s, ended="true")), (True, False))
    equal((shown(server, s, ended="false", state="stopped"), shown(server, s, ended="true", state="stopped")), (True, False))
    now = server.want(200, "GET", "/v1/node")["sessions"]
    equal((now["paused"], now["stopped"]), (before["paused"] - 1, before["stopped"] + 1))
    check(f'cordon_sessions{{state="stopped"}} {now["stopped"]}' in server.want(200, "GET", "/metrics", raw=True).decode(), "metrics")
    told = Client(server).call("session_info", session_id=s)
    equal((told["state"], "ended_because" in told), ("stopped", False))
    equal(server.want(200, "GET", f"/sandboxes/{s}")["state"], "paused", "in E2B's words")
    equal(out(server, s, "echo up"), "up", "its next use starts it")
    pause(server, s)
    server.delete(s)
    equal(server.reaches(s, "ended")["reason"], "deleted")
    equal((shown(server, s, ended="false"), shown(server, s, ended="true", state="ended")), (False, True))
    kept = [("pausing", "stopped"), ("stopped", "resuming"), ("resuming", "running"), ("running", "pausing"), ("pausing", "stopped")]
    equal(moves(server, s)[-9:], [("running", "pausing"), ("pausing", "paused"), ("paused", "stopped"), *kept[1:],
                                  ("stopped", "ending"), ("ending", "ended")])


def test_expires_without_use(_):
    with Server(pool_size=0, cold_keep="3s") as server:
        need(server)
        s, warm = (server.create(timeout="1h")["id"] for _ in range(2))
        pause(server, warm, memory=True)
        check(server.get(warm)["kept_until"] > server.get(warm)["created_at"], "one with memory has a time of its own")
        now = pause(server, s)
        check(now["kept_until"] > now["created_at"], str(now))
        env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
        listed = subprocess.run([server.program, "ls"], env=env, capture_output=True, text=True, timeout=30, check=True).stdout
        [line] = [line.split() for line in listed.splitlines() if line.startswith(s)]
        check(line[4] != "-", f"EXPIRES of a session that is paused without memory: {listed}")
        equal(server.get(resume(server, s)["id"])["kept_until"], None, "a use begins it anew")
        pause(server, s)
        server.restart()
        ended = server.reaches(s, "ended", 20)
        equal(ended["reason"], "expired")
        last = [e for e in server.want(200, "GET", f"/v1/sessions/{s}/events")["events"] if e["type"] == "session.state"]
        check(any(e["data"].get("reason") == "expired" for e in last), str(last))
        wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "its layers to go")
        equal(server.get(warm)["state"], "paused")


def test_expires_with_memory(_):
    with Server(pool_size=0, pause_keep="2s") as server:
        s, used, never = (server.create(timeout="1h")["id"] for _ in range(3))
        pause(server, s, memory=True)
        pause(server, used, memory=True)
        resume(server, used)
        server.restart()
        ended = server.reaches(s, "ended", 20)
        equal((ended["reason"], ended["detail"]), ("expired", "not used for the time that it is kept"))
        equal([server.get(x)["state"] for x in (used, never)], ["running", "running"], "a use ends it")


def test_many_times(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    for i in range(13):
        server.run(s, f"cd; mkdir -p d; echo {i} >d/{i}; rm -rf d/{i - 3} /usr/share/doc/{i}")
        pause(server, s)
    equal(out(server, s, "cd; cat d/* | sort -n | xargs"), "10 11 12", "its files, after layers were folded")
    wait_for(lambda: len(server.want(200, "GET", "/v1/layers")["layers"]) <= 4, 60, "the layers that were folded to go")
    shot = server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})["id"]
    server.delete(s)
    c = server.create(template=shot)["id"]
    equal(out(server, c, "cd; cat d/* | sort -n | xargs"), "10 11 12", "of a session made from it")
    server.delete(c)
    server.want(204, "DELETE", "/v1/snapshots/" + shot.replace(":", "%3A"))
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "all layers to go")


def test_many_times_above_a_snapshot(server):
    """What is folded hides files of the snapshot, of the layers below it and of the host template."""
    need(server)
    base = server.create(timeout="1h")["id"]
    for i in range(3):  # a template of four layers
        server.run(base, f"cd; mkdir -p old/{i} gone/{i}; touch old/{i}/x gone/{i}/x; echo {i} >f{i}; rm -f gone/{i - 1}/x")
        pause(server, base)
    resume(server, base)
    shot = server.want(201, "POST", f"/v1/sessions/{base}/snapshots", {})["id"]
    s = server.create(template=shot, timeout="1h")["id"]
    server.run(s, "rm -r ~/gone ~/f1 ~/old/0; mkdir ~/old/0; touch ~/old/0/new")
    server.run(s, "rm -r /usr/share/doc /etc/profile; mkdir /usr/share/doc; touch /usr/share/doc/mine", user="root")
    for i in range(25):
        server.run(s, f"cd; mkdir -p d; echo {i} >d/{i}; rm -rf d/{i - 3}; if [ {i} = 12 ]; then rm f2; mkdir gone; touch gone/again; fi")
        pause(server, s)
    look = out(server, s, "cd; cat d/* | sort -n | xargs; find old gone f* | sort | xargs; ls /usr/share/doc; ls /etc/profile 2>&1 | wc -l")
    equal(look.split("\n"), ["22 23 24", "f0 gone gone/again old old/0 old/0/new old/1 old/1/x old/2 old/2/x", "mine", "1"])
    wait_for(lambda: len(server.want(200, "GET", "/v1/layers")["layers"]) <= 12, 60, "the layers that were folded to go")
    for one in (s, base):
        server.delete(one)
    server.want(204, "DELETE", "/v1/snapshots/" + shot)
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "nothing to be left")


def test_it_survives_kills_and_a_reboot(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo kept >~/kept")
    pause(server, s)
    server.kill("cordond")
    server.wait_ready()
    equal(server.rests(s)["reason"], None)
    server.stop()
    db = sqlite3.connect(os.path.join(server.state, "cordon.db"))
    db.execute("UPDATE session SET boot_id = 'another'")
    db.commit()
    db.close()
    server.start()
    equal(out(server, s, "cat ~/kept"), "kept")
    server.delete(s)


def test_time_stands_still(server):
    need(server)
    s = server.create(timeout="2s", on_timeout="pause_files")["id"]
    server.run(s, "echo kept >~/kept")
    server.rests(s)
    server.want(200, "POST", f"/v1/sessions/{s}/resume")
    server.want(200, "POST", f"/v1/sessions/{s}/timeout", {"timeout": "1h"})
    equal(out(server, s, "cat ~/kept"), "kept")
    server.delete(s)


def test_quota_is_given_back(server):
    need(server)
    tenant, key = server.tenant("cold", max_sessions=1)
    a = server.create(key=key)["id"]
    server.refused(429, "quota_sessions", "POST", "/v1/sessions", {}, key=key)
    server.want(200, "POST", f"/v1/sessions/{a}/pause", {"memory": False}, key=key)
    b = server.create(key=key)["id"]
    server.refused(429, "quota_sessions", "POST", f"/v1/sessions/{a}/resume", None, key=key)
    server.delete(b, key=key)
    wait_for(lambda: server.request("POST", f"/v1/sessions/{a}/resume", key=key)[0] == 200, 15, "room for it")
    equal(server.run(a, "echo up", key=key)["stdout"], "up\n")
    server.delete(a, key=key)


def resets(server, s):
    events = server.want(200, "GET", f"/v1/sessions/{s}/events?limit=1000")["events"]
    return [(e["actor"]["interface"], e["data"]["template"]) for e in events if e["type"] == "session.reset"]


def test_reset(server):
    s = server.create(timeout="1h", metadata={"a": "b"})["id"]
    boot = out(server, s, BOOT)
    server.run(s, "echo x >~/x; rm /etc/profile || true")
    server.spawn(s, "sleep 1000")
    again = server.want(200, "POST", f"/v1/sessions/{s}/reset")
    equal((again["state"], again["id"], again["metadata"]), ("running", s, {"a": "b"}))
    equal(out(server, s, "ls ~/x 2>/dev/null; pgrep -c sleep || true"), "0", "neither files nor processes")
    check(out(server, s, BOOT) != boot, "another boot")
    equal(resets(server, s), [("api", again["template"])], "an event of its own")
    server.delete(s)
    server.refused(410, "gone", "POST", f"/v1/sessions/{s}/reset")


def test_reset_of_a_cold_one(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo x >~/x")
    pause(server, s)
    server.want(200, "POST", f"/v1/sessions/{s}/reset")
    equal(out(server, s, "ls ~/x 2>/dev/null || echo none"), "none")
    equal(len(resets(server, s)), 1, "an event of its own")
    server.delete(s)


def test_a_session_with_a_disk(server):
    need(server)
    status, _, made = server.request("POST", "/v1/sessions", {"timeout": "1h", "storage": "disk", "limits": {"disk": "64M"}})
    if status != 201:
        raise Skip(f"no disks here: {made}")
    s = made["id"]
    server.run(s, "echo x >~/x")
    shot = server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})["id"]
    c = server.create(template=shot)["id"]
    equal(out(server, c, "cat ~/x"), "x", "a snapshot of a disk")
    server.delete(c)
    server.want(204, "DELETE", "/v1/snapshots/" + shot.replace(":", "%3A"))
    pause(server, s)
    equal(out(server, s, "cat ~/x"), "x")
    server.want(200, "POST", f"/v1/sessions/{s}/reset")
    equal(out(server, s, "ls ~/x 2>/dev/null || echo none"), "none", "a new disk")
    server.delete(s)


def test_secrets_and_network_come_back(server):
    need(server)
    server.want(201, "POST", "/v1/secrets", {"name": "cold", "value": "a-value-of-a-cold-secret"})
    s = server.create(timeout="1h", secrets=[{"name": "cold", "as": "env", "env": "COLD"}])["id"]
    equal(server.run(s, "echo ${#COLD}")["stdout"], "24\n")
    pause(server, s)
    equal(server.run(s, "echo ${#COLD}; echo $COLD")["stdout"], "24\n" + "*" * 24 + "\n", "delivered again, and masked")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/cold")


def test_delete_while_it_is_captured(server):
    need(server)
    s = server.create(timeout="1h", limits={"disk": "200M"})["id"]
    server.run(s, "head -c 100M /dev/urandom >~/big")
    link = server.link()
    link.request("POST", f"/v1/sessions/{s}/pause", b'{"memory":false}',
                 {"Content-Type": "application/json", "X-API-Key": server.key})
    wait_for(lambda: server.get(s)["state"] == "pausing", 10, "the capture to begin")
    server.delete(s)
    equal(link.getresponse().status, 410)
    link.close()
    server.reaches(s, "ended")
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "nothing to be left")


DEEP = "mkdir /tmp/x && cd /tmp/x && python3 -c 'import os\nfor i in range(30): os.mkdir(\"n\" * 200); os.chdir(\"n\" * 200)'"


def test_a_cell_that_cannot_be_captured_does_not_outlive_its_timeout(server):
    """Its code chooses what is in its files. It is frozen instead, and has its whole timeout again when it is used."""
    need(server)
    s = server.create(timeout="4s", on_timeout="pause_files")["id"]
    server.run(s, DEEP)
    server.reaches(s, "paused", 30)
    check(len(server.cell_pids(s)) > 0, "it is paused with its memory")
    equal(out(server, s, "ls /tmp"), "x", "a call resumes it, with its files")
    server.reaches(s, "paused", 30)
    server.delete(s)
    server.reaches(s, "ended")


def test_sessions_without_a_cell_are_bounded(server):
    need(server)
    with Server(pool_size=1, tenant_max_persistent=1) as small:
        first, second = small.create(timeout="1h")["id"], small.create(timeout="1h")["id"]
        pause(small, first)
        small.refused(429, "quota_sessions", "POST", f"/v1/sessions/{second}/pause", {"memory": False}, "tenant_max_persistent")
        equal(out(small, second, "echo goes on"), "goes on")
        resume(small, first)
        pause(small, second)
        small.delete(second)
        small.reaches(second, "ended")
        pause(small, first)
        third = small.create(timeout="2s", on_timeout="pause_files")["id"]
        small.reaches(third, "paused", 30)  # its time is over: paused with its memory
        for s in (first, third):
            small.delete(s)
            small.reaches(s, "ended")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
