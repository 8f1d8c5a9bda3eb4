#!/usr/bin/python3
"""test_fork.py - one capture, N sessions; and the verbs of the command line."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check, equal, run_tests, wait_for  # noqa: E402


def need(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")


def fork(server, s, key="", **body):
    return server.want(201, "POST", f"/v1/sessions/{s}/fork", body, key=key)


def test_fork(server):
    need(server)
    s = server.create(timeout="1h", metadata={"a": "b"}, env={"X": "y"}, limits={"pids": 99})["id"]
    server.run(s, "echo kept >~/kept; rm -f ~/.bashrc")
    x = server.spawn(s, "sleep 1000")
    made = fork(server, s, count=3, timeout="10m")
    equal((len(made["sessions"]), made["errors"]), (3, []))
    check(len({m["id"] for m in made["sessions"]} | {s}) == 4, "ids")
    for m in made["sessions"]:
        equal((m["metadata"], m["limits"]["pids"], m["timeout_ms"], m["state"]), ({"a": "b"}, 99, 600000, "running"))
        equal(server.run(m["id"], "cat ~/kept; echo $X; ls ~/.bashrc 2>/dev/null; pgrep -c sleep || true")["stdout"], "kept\ny\n0\n")
        server.run(m["id"], f"echo {m['id']} >~/kept")
    equal(server.run(s, "cat ~/kept")["stdout"], "kept\n", "the source has its own files")
    equal(server.execution(x)["state"], "running")
    second = fork(server, made["sessions"][0]["id"])["sessions"][0]["id"]
    equal(server.run(second, "cat ~/kept")["stdout"], made["sessions"][0]["id"] + "\n", "a fork of a fork")
    server.delete(s)
    server.delete(made["sessions"][0]["id"])
    equal(server.run(second, "cat ~/kept")["stdout"], made["sessions"][0]["id"] + "\n", "the sources are gone")
    for m in made["sessions"][1:]:
        server.delete(m["id"])
    server.delete(second)
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "all layers to go")


def deep(server, s, prepare):
    """A fork of a fork, 25 times: more than a stack has layers."""
    server.run(s, prepare, user="root")
    for i in range(25):
        server.run(s, f"cd; mkdir -p d; echo {i} >d/{i}; rm -rf d/{i - 3} e; mkdir e; touch e/{i}")
        made = fork(server, s, timeout="1h")
        equal(made["errors"], [])
        server.delete(s)
        s = made["sessions"][0]["id"]
    equal(server.run(s, "cd; cat d/* | sort -n | xargs; ls e /usr/share/doc")["stdout"], "22 23 24\n/usr/share/doc:\nmine\n\ne:\n24\n")
    return s


def test_deep(server):
    need(server)
    first = server.create(timeout="1h")["id"]
    last = deep(server, first, "rm -r /usr/share/doc; mkdir /usr/share/doc; touch /usr/share/doc/mine")
    shot = server.want(201, "POST", f"/v1/sessions/{last}/snapshots", {})["id"]
    server.delete(last)
    s = server.create(template=shot, timeout="1h")["id"]
    last = deep(server, s, "rm -r ~user/d ~user/e; rm /usr/share/doc/mine; touch /usr/share/doc/mine")
    wait_for(lambda: len(server.want(200, "GET", "/v1/layers")["layers"]) <= 12, 60, "the layers that were folded to go")
    server.delete(last)
    server.want(204, "DELETE", "/v1/snapshots/" + shot)
    wait_for(lambda: not server.want(200, "GET", "/v1/layers")["layers"], 60, "nothing to be left")


def test_errors_one_by_one(server):
    need(server)
    _, key = server.tenant("fork", max_sessions=3)
    s = server.create(key=key)["id"]
    made = fork(server, s, key=key, count=4)
    equal((len(made["sessions"]), len(made["errors"])), (2, 2))
    check("sessions at a time" in made["errors"][0]["error"]["message"], made["errors"])
    for bad in ({"count": 0}, {"count": 101}, {"count": "x"}, {"other": 1}):
        server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/fork", bad, key=key)
    for m in made["sessions"]:
        server.delete(m["id"], key=key)
    server.delete(s, key=key)


def cordon(server, *words):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    p = subprocess.run([server.program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, timeout=60,
                       check=False)
    return p.returncode, p.stdout, p.stderr


def test_command_line(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo kept >~/kept")
    code, shot, why = cordon(server, "snapshot", s, "cli")
    equal((code, shot, why), (0, "cli\n", ""), "its name, as it is typed")
    code, out, why = cordon(server, "snapshot", "ls")
    check(code == 0 and shot.strip() in out, (out, why))
    code, ids, why = cordon(server, "fork", s, "--count", "2")
    check(code == 0 and len(ids.split()) == 2, (code, ids, why))
    for f in ids.split():
        equal(server.run(f, "cat ~/kept")["stdout"], "kept\n")
        equal(cordon(server, "rm", f)[0], 0)
    equal(cordon(server, "pause", "--no-memory", s), (0, s + "\n", ""))
    equal([line.split()[1:3] for line in cordon(server, "ls")[1].splitlines() if line.startswith(s)][0][0], "stopped")
    equal(server.get(s)["state"], "stopped", "paused without memory")
    equal(cordon(server, "reset", s), (0, s + "\n", ""))
    equal(server.run(s, "ls ~/kept || true")["stdout"], "")
    code, out, why = cordon(server, "layers")
    check(code == 0 and "lay_" in out, (out, why))
    equal(cordon(server, "snapshot", "rm", shot.strip())[0], 0)
    check(cordon(server, "snapshot", "rm", shot.strip())[0] != 0, "twice")
    code, out, why = cordon(server, "gc")
    check(code == 0 and "0 orphans" in out, (out, why))
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
