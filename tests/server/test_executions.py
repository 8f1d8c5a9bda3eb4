#!/usr/bin/python3
"""test_executions.py - programs in sessions: how they start, what they get, how they end, what is kept."""
import base64
import hashlib
import http.client
import json
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Server, check, equal, has, processes_of, run_tests, wait_for  # noqa: E402
from level import LEVEL, PATIENCE, differs  # noqa: E402

MEMBERS = (
    "id session_id state command command_sha256 language context cwd user tty record_input redacted background pid started_at ended_at wall_ms exit_code signal "
    "limit limits_hit error stdout_bytes stderr_bytes result_bytes output_truncated output_open cpu_ms secrets actor denied"
).split()
SESSION = None
MEMORY_LEAST = "128M" if LEVEL == "microvm" else "64M"  # a small one


def session(server):
    """One session for the tests that leave nothing in it."""
    global SESSION
    if SESSION is None:
        SESSION = server.create(timeout="1h")["id"]
    return SESSION


def test_wait(server):
    s = session(server)
    done = server.run(s, "echo out; echo err >&2; exit 7")
    equal(sorted(done), sorted(MEMBERS + ["stdout", "stderr", "inline_truncated"]), "members")
    equal((done["state"], done["exit_code"], done["signal"], done["limit"]), ("exited", 7, None, None))
    equal((done["stdout"], done["stderr"], done["stdout_bytes"], done["stderr_bytes"]), ("out\n", "err\n", 4, 4))
    equal(done["command_sha256"], hashlib.sha256(b"echo out; echo err >&2; exit 7").hexdigest())
    equal(done["command"], "echo out; echo err >&2; exit 7", "its creator sees it")
    check(0 <= done["wall_ms"] < 5000, done["wall_ms"])
    kept = server.execution(done)
    equal(kept, {**{k: v for k, v in done.items() if k in MEMBERS}, "command": None}, "the record has its hash only")
    equal(server.run(s, "echo x", record="text")["command"], "echo x", "recorded as text when asked to")


def test_start_and_look(server):
    s = session(server)
    x = server.spawn(s, "echo a; sleep 0.4; echo b")
    equal(sorted(x), sorted(MEMBERS))
    check(x["state"] in ("starting", "running"), x["state"])
    running = server.execution(x)
    equal((running["ended_at"], running["exit_code"]), (None, None))
    equal(server.get(s)["executions_running"], 1)
    done = server.ended(x)
    equal((done["state"], done["exit_code"], done["stdout_bytes"], done["output_open"]), ("exited", 0, 4, False))
    equal(server.get(s)["executions_running"], 0)
    equal(server.want(200, "GET", f"/v1/sessions/{s}/executions/{x['id']}/output"), b"a\nb\n")


def test_argv(server):
    s = session(server)
    odd = ["/usr/bin/printf", "[%s]", "a b", "$HOME", "", "*", "☃", "\n", "'\""]
    equal(server.run(s, odd)["stdout"], "[a b][$HOME][][*][☃][\n]['\"]")
    equal(server.run(s, ["echo", "by name"])["stdout"], "by name\n")
    equal(server.run(s, ["true"] + ["x" * 1000] * 200)["exit_code"], 0)


BAD = [
    ({}, "command"),
    ({"command": "true", "argv": ["true"]}, "argv"),
    ({"argv": []}, "argv"),
    ({"argv": [""]}, "argv"),
    ({"argv": ["true", 5]}, "argv"),
    ({"argv": "true"}, "argv"),
    ({"command": 5}, "command"),
    ({"command": "true", "cwd": 1}, "cwd"),
    ({"command": "true", "env": {"A=": "x"}}, "env"),
    ({"command": "true", "user": 5}, "user"),
    ({"command": "true", "timeout": "long"}, "timeout"),
    ({"command": "true", "timeout": -1}, "timeout"),
    ({"command": "true", "stdin": "x", "stdin_base64": "eA=="}, "stdin"),
    ({"command": "true", "stdin": "x", "stdin_stream": True}, "stdin"),
    ({"command": "true", "stdin_base64": "*"}, "stdin_base64"),
    ({"command": "true", "tty": 1}, "tty"),
    ({"command": "true", "tty": {"rows": 0, "cols": 80}}, "rows"),
    ({"command": "true", "tty": {"rows": 24, "cols": 70000}}, "cols"),
    ({"command": "true", "output_limit": "100G"}, "output_limit: 100G is above the maximum of 1G (output_limit_max)"),
    ({"command": "true", "record": "all"}, "record"),
    ({"command": "true", "background": "yes"}, "background"),
    ({"command": "true", "shell": "zsh"}, "shell"),
]


def test_bad_specs(server):
    s, wrong = session(server), []
    for spec, name in BAD:
        try:
            error = server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/executions", spec, name)
            equal((error["fault"], error["session_id"]), ("user", s), f"of {spec}")
        except Failed as e:
            wrong.append(str(e))
    check(not wrong, "\n".join(wrong))
    server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/executions?wat=1", {"command": "true"})
    for path in ("exe_aaaaaaaaaaaaaaaa", "x", "%2e%2e"):
        server.refused(404, "not_found", "GET", f"/v1/sessions/{s}/executions/{path}")


def test_cwd_env_user(server):
    s = server.create(env={"A": "session", "B": "session", "PATH": "/usr/bin:/bin"})["id"]
    equal(server.run(s, "pwd")["stdout"], "/home/user\n")
    equal(server.run(s, "pwd", cwd="/usr/lib")["stdout"], "/usr/lib\n")
    done = server.run(s, "pwd", cwd="/none")
    check(done["error"] is not None and "/none" in done["error"]["message"], f"a cwd that is not there: {done}")
    equal(done["error"]["fault"], "user")
    equal(server.run(s, "echo $A $B $C $HOME $USER", env={"B": "own", "C": "own"})["stdout"], "session own own /home/user user\n")
    equal(server.run(s, "id -un; id -u; echo $HOME; pwd", user="root")["stdout"], "root\n0\n/root\n/root\n")
    equal(server.run(s, "id -u", user="user")["stdout"], "1000\n")
    done = server.run(s, "id", user="nosuchuser")
    check(done["state"] == "failed" and "nosuchuser" in done["error"]["message"], f"an unknown user: {done}")
    equal((done["error"]["fault"], done["pid"]), ("user", None))
    done = server.run(s, "sudo id -u")
    if differs("set-user-id"):
        equal((done["exit_code"], done["stdout"]), (1, ""))
        has(done["stderr"], "no new privileges")
    else:
        equal(done["stdout"], "0\n")


def test_no_path_leads_through_a_descriptor_of_pid1(server):
    """One of them is the directory of the cell's disk, which is outside of its root."""
    s = server.create()["id"]
    for number in range(3, 16):
        done = server.run(s, ["pwd"], cwd=f"/proc/self/fd/{number}", user="root")
        check(done["error"] is not None and "working directory" in done["error"]["message"], f"cwd by descriptor {number}: {done}")


def test_exit_codes(server):
    s = session(server)
    for code in (0, 1, 2, 42, 100, 125, 126, 127, 128, 200, 254, 255):
        done = server.run(s, ["/bin/sh", "-c", f"exit {code}"])
        equal((done["state"], done["exit_code"], done["signal"], done["error"]), ("exited", code, None, None), f"exit {code}")
    for number in (1, 2, 3, 6, 9, 11, 13, 15):
        done = server.run(s, ["/bin/sh", "-c", f"kill -{number} $$"])
        equal((done["exit_code"], done["signal"], done["limit"]), (128 + number, number, None), f"signal {number}")
        equal(done["state"], "killed", f"state after signal {number}")
    done = server.run(s, ["/none/such"])
    equal((done["state"], done["exit_code"]), ("failed", 127))
    equal((done["error"]["code"], done["error"]["fault"]), ("invalid", "user"))
    equal(server.run(s, ["nosuchprogram"])["exit_code"], 127)
    equal(server.run(s, ["/etc/passwd"])["exit_code"], 126)
    equal(server.run(s, ["/usr"])["exit_code"], 126)
    equal(server.run(s, "nosuchprogram")["exit_code"], 127, "by the shell")


def test_timeout_ends_the_tree(server):
    s = session(server)
    begun = time.monotonic()
    line = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1111' &) ; (sh -c 'sleep 1112' &); echo up; trap '' TERM; sleep 1113"
    done = server.run(s, line, timeout=f"{400 * PATIENCE ** 2}ms")
    took = time.monotonic() - begun
    equal((done["limit"], done["exit_code"], done["stdout"]), ("timeout", 124, "up\n"))
    check(0.4 <= took < 15 * PATIENCE, f"took {took:.2f} s")
    check(400 <= done["wall_ms"] < 15000 * PATIENCE, done["wall_ms"])
    wait_for(lambda: len(server.programs(s)) == 1, 15, "the end of the tree")
    equal(server.run(s, "sleep 0.3; echo done", timeout="20s")["limit"], None)


def test_timeout_without_client(server):
    s = session(server)
    x = server.spawn(s, "sleep 1000", timeout=0.5)
    time.sleep(1.2)  # without a request that could wake the daemon
    done = server.execution(x)
    equal((done["state"], done["limit"], done["exit_code"]), ("killed", "timeout", 124))


def test_no_program_outlives_its_timeout_in_a_starved_cell(server):
    """PID 1 has no time to end what forks: it does in the end, or the cell is ended. The record says that it runs until then."""
    s = server.create(limits={"cpus": "0.01", "pids": 100}, timeout="10m")["id"]
    x = server.spawn(s, "while :; do (while :; do :; done) & done", timeout="3s")
    done = server.ended(x, 60 * PATIENCE)
    equal((done["state"], done["limit"]), ("killed", "timeout"))
    wait_for(lambda: server.get(s)["state"] != "running" or len(server.programs(s)) == 1, 30 * PATIENCE, "only PID 1, or no cell")
    if server.get(s)["state"] == "running":
        server.delete(s)
    else:
        equal(server.reaches(s, "ended", 30)["reason"], "unresponsive")
        wait_for(lambda: not processes_of({s}), 15, "the end of its processes")


def test_delete_ends_the_tree(server):
    s = session(server)
    # Two forks and a session of its own: nothing but the kernel knows whose child it is.
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.closerange(0, 3); time.sleep(1000)\n"
        "    os._exit(0)\n"
        "os.wait(); print('up', flush=True); time.sleep(1000)\n"
    )
    wait_for(lambda: len(server.programs(s)) == 1, 15, "quiet")
    other = server.spawn(s, ["sleep", "1000"])
    x = server.spawn(s, ["/usr/bin/python3", "-c", code])
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 3, 10, "its start")
    equal(len(server.programs(s)), 4, "PID 1, the other and two")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}")
    done = server.execution(x)
    equal((done["state"], done["limit"]), ("killed", "killed"), "right after the answer")
    equal(len(server.programs(s)), 2, "PID 1 and the other, right after the answer")
    equal(server.execution(other)["state"], "running", "another execution")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{other['id']}")
    equal(server.execution(x)["id"], x["id"], "the record stays")


def test_stdin(server):
    s = session(server)
    equal(server.run(s, "cat", stdin="héllo")["stdout"], "héllo")
    equal(server.run(s, "cat | wc -c")["stdout"].strip(), "0", "without any")
    data = bytes(range(256)) * 2000
    done = server.run(s, "sha256sum", stdin_base64=base64.b64encode(data).decode())
    equal(done["stdout"].split()[0], hashlib.sha256(data).hexdigest())
    equal(server.run(s, "head -c 1", stdin="x" * 500000)["exit_code"], 0, "input that nobody reads")


def test_stdin_stream(server):
    s = session(server)
    x = server.spawn(s, "head -c 6; echo; cat", stdin_stream=True)
    path = f"/v1/sessions/{s}/executions/{x['id']}"
    equal(server.want(200, "POST", f"{path}/input", b"first\n"), {"accepted": 6})
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 7, 15, "the first line")
    big = os.urandom(3 << 20)
    equal(server.want(200, "POST", f"{path}/input", big), {"accepted": len(big)}, "more than a pipe holds")
    equal(server.want(200, "POST", f"{path}/input?eof=true", b"end"), {"accepted": 3})
    done = server.ended(x)
    equal((done["exit_code"], done["stdout_bytes"]), (0, 7 + len(big) + 3))
    got = server.want(200, "GET", f"{path}/output?stream=stdout&offset=7")
    check(got == big + b"end", f"{len(got)} other bytes came back")
    server.refused(409, "conflict", "POST", f"{path}/input", b"late")
    none = server.spawn(s, "sleep 5")
    server.refused(409, "conflict", "POST", f"/v1/sessions/{s}/executions/{none['id']}/input", b"x")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{none['id']}")


def test_signals(server):
    s = session(server)
    x = server.spawn(s, ["/bin/sh", "-c", "trap 'echo got usr1' USR1; trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"])
    path = f"/v1/sessions/{s}/executions/{x['id']}/signals"
    wait_for(lambda: server.execution(x)["stdout_bytes"] >= 3, 15, "its start")
    server.want(204, "POST", path, {"signal": "USR1"})
    wait_for(lambda: server.execution(x)["stdout_bytes"] >= 12, 15, "the handler")
    for bad in ("NONE", 0, 65, -9, None, "usr 1"):
        server.refused(400, "invalid", "POST", path, {"signal": bad}, "signal")
    server.want(204, "POST", path, {"signal": 15})
    done = server.ended(x)
    equal((done["state"], done["exit_code"]), ("exited", 3))
    status = server.request("POST", path, {"signal": "KILL"})[0]
    check(status in (204, 409), f"a signal to one that has ended: {status}")


def test_output_limit(server):
    s = session(server)
    done = server.run(s, "yes | head -c 1000000; echo end >&2", output_limit="64K")
    equal((done["output_truncated"], done["limit"]), (True, "output"), "cut")
    equal((done["stdout_bytes"], done["stderr_bytes"], done["exit_code"]), (1000000, 4, 0), "what it wrote")
    equal(done["stdout"], "y\n" * (32 << 10), "what is kept of it")
    got = server.request("GET", f"/v1/sessions/{s}/executions/{done['id']}/output?stream=stdout")
    equal((got[1]["x-cordon-truncated"], got[2]), ("true", b"y\n" * (32 << 10)))
    done = server.run(s, "yes | head -c 4000000")
    equal((done["output_truncated"], done["stdout_bytes"], done["inline_truncated"]), (False, 4000000, True))
    equal(len(done["stdout"]), 1 << 20, "inline")


def test_odd_output(server):
    s = session(server)
    equal(server.run(s, r"printf 'a\377b\0c'")["stdout"], "a\ufffdb\0c")
    path = f"/v1/sessions/{s}/executions?wait=true&encoding=base64"
    done = server.want(200, "POST", path, {"command": r"printf 'a\377b\0c'; printf x >&2"})
    equal(base64.b64decode(done["stdout_base64"]), b"a\xffb\0c")
    equal((base64.b64decode(done["stderr_base64"]), "stdout" in done), (b"x", False))


def test_limits_are_named(server):
    s = server.create(limits={"memory": MEMORY_LEAST, "pids": 20, "disk": "4M", "inodes": 1000})["id"]
    if not differs("memory"):  # there the session may end: test_memory_is_named
        done = server.run(s, ["/usr/bin/python3", "-c", "x = b'x' * (200 << 20)"])
        equal((done["limit"], done["signal"], done["exit_code"]), ("memory", 9, 137))
    done = server.run(s, "for i in $(seq 40); do sleep 0.3 & done; wait")
    if differs("pids"):
        equal((done["limit"], "fork" in done["stderr"]), (None, True), f"a fork that fails: {done}")
    else:
        equal(done["limit"], "pids")
    wait_for(lambda: len(server.programs(s)) == 1, 15, "the end of those that could start")
    done = server.run(s, "head -c 20M /dev/zero > /tmp/big")
    equal((done["limit"], done["exit_code"]), ("disk", 1))
    equal(server.run(s, "rm /tmp/big")["limits_hit"], [], "of one that frees the disk")
    done = server.run(s, "i=0; while [ $i -lt 2000 ]; do : > /tmp/f$i || exit 9; i=$((i+1)); done")
    equal((done["limit"], done["exit_code"] != 0), ("inodes", True))
    server.run(s, "rm -f /tmp/f*")
    equal(server.run(s, "true")["limit"], None, "afterwards")


def told(server, s, done):
    """Limits of an execution, as its events have them."""
    events = server.want(200, "GET", f"/v1/sessions/{s}/events?limit=1000")["events"]
    return [e["data"]["limits_hit"].split(",") for e in events if e["type"] == "execution.limit" and e["execution_id"] == done["id"]]


def hits(server, name):
    found = re.search(rf'^cordon_limit_hits_total{{limit="{name}"}} (\d+)$', server.want(200, "GET", "/metrics").decode(), re.M)
    return int(found.group(1)) if found else 0


def test_limits_that_a_command_hides(server):
    """They are told although it ends with 0: as a list, as an event, in the metrics; and not of the next one."""
    s = server.create(limits={"memory": "256M", "pids": 20, "disk": "32M", "inodes": 2000})["id"]
    # Full for longer than the distance of two samples: a disk that nothing was written to is looked at every 100 ms (doc/limits.md).
    full = f"dd if=/dev/zero of=/tmp/big bs=64k 2> /dev/null; sleep {0.5 * PATIENCE}; rm /tmp/big; exit 0"
    files = "i=0; while [ $i -lt 4000 ]; do true > /tmp/f$i || break; i=$((i+1)); done 2> /dev/null; sleep 0.5; rm -f /tmp/f*; exit 0"
    rows = [
        ("disk", ["/bin/sh", "-c", full]),
        ("disk", ["/bin/sh", "-c", "sleep 2; " + full]),
        ("inodes", ["/bin/sh", "-c", files]),
    ]
    if not differs("memory"):
        rows.append(("memory", ["/bin/sh", "-c", "python3 -c 'bytearray(600 << 20)' || true"]))
    if not differs("pids"):
        rows.append(("pids", ["/bin/sh", "-c", "(for i in $(seq 40); do sleep 0.2 & done; wait) 2> /dev/null; exit 0"]))
    on_disk = None if differs("storage on disk") else server.create(storage="disk", limits={"disk": "64M"})["id"]
    rows = [(s, *row) for row in rows] + [(on_disk, *row) for row in rows if row[0] == "disk" and on_disk]
    for s, name, argv in rows:
        before = hits(server, name)
        done = server.run(s, argv)
        equal((done["exit_code"], done["limit"], done["limits_hit"]), (0, name, [name]), f"{argv} {done}")
        equal(told(server, s, done), [[name]], "events")
        equal(hits(server, name) - before, 1, "the metric")
        wait_for(lambda: len(server.programs(s)) == 1, 15, "the end of what it started")
        quiet = server.run(s, "true")
        equal((quiet["limit"], quiet["limits_hit"], told(server, s, quiet)), (None, [], []), "the next one")
    for s in {row[0] for row in rows}:
        server.delete(s)


def test_limits_that_a_command_hides_beside_another(server):
    """They are in the list only, as the other may have hit them; and a command that begins later has not."""
    s = server.create(limits={"memory": "256M", "pids": 40, "disk": "32M"})["id"]
    rows = [("disk", "dd if=/dev/zero of=/tmp/big bs=64k 2> /dev/null; rm /tmp/big; exit 0")]
    rows += [] if differs("memory") else [("memory", "python3 -c 'bytearray(600 << 20)' || true")]
    rows += [] if differs("pids") else [("pids", "(for i in $(seq 80); do sleep 0.2 & done; wait) 2> /dev/null; exit 0")]
    server.spawn(s, ["sleep", "1000"], background=True)
    wait_for(lambda: len(server.programs(s)) == 2, 15, "the other one")
    for name, line in rows:
        done = server.run(s, line)
        equal((done["exit_code"], done["limit"], done["limits_hit"]), (0, None, [name]), line)
        equal(told(server, s, done), [[name]], "events")
        wait_for(lambda: len(server.programs(s)) == 2, 15, "the end of what it started")
        after = server.run(s, "exit 3")
        equal((after["limit"], after["limits_hit"]), (None, []), f"of a command after it: {name}")
    server.delete(s)


def test_one_that_ends_well_takes_no_limit_from_another(server):
    if differs("memory"):
        return
    s = server.create(limits={"memory": "256M"})["id"]
    hog = server.spawn(s, "python3 -c 'bytearray(600 << 20)'; sleep 2; exit 1")
    wait_for(lambda: server.run(s, "true")["limits_hit"] == ["memory"] or server.execution(hog)["ended_at"], 15, "the kill")
    ended = server.ended(hog)
    equal((ended["limit"], ended["limits_hit"]), ("memory", ["memory"]))
    server.delete(s)


def test_who_where_and_by_whom(server):
    """Of one that names nothing, too."""
    s = server.create()
    check(s["template_id"].startswith("tpl_"), s["template_id"])
    done = server.run(s["id"], "id -un; pwd")
    equal((done["stdout"].split("\n")[0], done["user"], done["cwd"]), ("user", "user", "~"))
    equal((done["actor"]["interface"], done["actor"]["key_id"]), ("api", s["created_by"]))
    check(done["actor"]["request_id"].startswith("req_"), done["actor"])
    done = server.run(s["id"], "true", user="root", cwd="/tmp")
    equal((done["user"], done["cwd"]), ("root", "/tmp"))
    server.delete(s["id"])


def test_memory_is_named(server):
    """By the execution, or, where the guest ends with it, by its session."""
    s = server.create(limits={"memory": MEMORY_LEAST})["id"]
    x = server.spawn(s, ["/usr/bin/python3", "-c", "x = b'x' * (200 << 20)"])
    done = server.ended(x)
    if differs("memory"):
        check(done["exit_code"] in (1, 137) or server.reaches(s, "ended")["reason"] == "oom", f"how it ended: {done} {server.get(s)}")
    else:
        equal((done["limit"], server.get(s)["state"]), ("memory", "running"))
    server.delete(s)


def test_background(server):
    s = session(server)
    x = server.run(s, "sleep 1234 > /dev/null 2>&1 & echo started")
    equal((x["stdout"], x["exit_code"]), ("started\n", 0))

    def sleeper():
        found = server.want(200, "GET", f"/v1/sessions/{s}/processes")["processes"]
        return next((p for p in found if p["command"] == "sleep 1234" and p["rss_bytes"] > 0), None)

    p = wait_for(sleeper, 15, "sleep in the list")
    equal((p["user_id"], p["name"]), (1000, "sleep"))
    check(p["ppid"] >= 1 and p["started_at"], p)
    server.want(204, "DELETE", f"/v1/sessions/{s}/processes/{p['pid']}")
    wait_for(lambda: len(server.programs(s)) == 1, 15, "its end")
    server.refused(404, "not_found", "DELETE", f"/v1/sessions/{s}/processes/{p['pid']}")
    for odd in ("x", "1", "0", "-1", "99999999999"):
        server.refused(404, "not_found", "DELETE", f"/v1/sessions/{s}/processes/{odd}")
    equal(server.get(s)["state"], "running")
    # An execution that is told to stay in the background ends when it is stopped.
    x = server.spawn(s, "sleep 4321 & sleep 4321", background=True)
    equal(x["background"], True)
    wait_for(lambda: len(server.programs(s)) == 4, 15, "its start")
    found = server.want(200, "GET", f"/v1/sessions/{s}/processes")["processes"]
    equal({p["execution_id"] for p in found if "4321" in p["command"]}, {x["id"]}, "whose they are")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{x['id']}")
    equal(server.execution(x)["state"], "killed")


def left_behind(server, s, seconds):
    """An execution that has ended and left a daemon that says nothing; and whose that is by the list."""
    x = server.run(s, f"(setsid nohup sleep {seconds} > /dev/null 2>&1 < /dev/null &); sleep 0.1; echo left")
    equal((x["state"], x["exit_code"], x["stdout"]), ("exited", 0, "left\n"))
    wait_for(lambda: not server.execution(x)["output_open"], 15, "the end of its output")
    wait_for(lambda: owners(server, s, seconds) == [x["id"]], 15, "the daemon, and whose it is")
    return x


def owners(server, s, seconds):
    found = server.want(200, "GET", f"/v1/sessions/{s}/processes")["processes"]
    return [p["execution_id"] for p in found if p["command"] == f"sleep {seconds}"]


def test_delete_ends_what_was_left(server):
    s = server.create()["id"]
    first, second = left_behind(server, s, 2001), left_behind(server, s, 2002)
    equal(len(server.programs(s)), 3, "PID 1 and two")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{second['id']}")
    equal(len(server.programs(s)), 2, "PID 1 and the first's, right after the answer")
    equal((owners(server, s, 2001), owners(server, s, 2002)), ([first["id"]], []))
    equal(server.execution(second), {**{k: v for k, v in second.items() if k in MEMBERS}, "command": None}, "the record stays as it was")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{second['id']}")
    failed = server.run(s, ["/none/such"])
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{failed['id']}")
    equal(len(server.programs(s)), 2, "one that left nothing, one that never ran")
    # A paused session is woken: what stands still cannot be seen to end.
    server.want(200, "POST", f"/v1/sessions/{s}/pause")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{first['id']}")
    equal((server.get(s)["state"], len(server.programs(s))), ("running", 1))
    third = left_behind(server, s, 2003)
    server.delete(s)
    server.reaches(s, "ended")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{third['id']}")


def end_what_was_left_before(server):
    s = server.create()["id"]
    first, second = left_behind(server, s, 2011), left_behind(server, s, 2012)
    running = server.spawn(s, "(setsid sleep 2013 > /dev/null 2>&1 &); sleep 2013")
    wait_for(lambda: len(server.programs(s)) == 6, 15, "PID 1, two, a shell and two")
    server.kill("cordond")
    server.wait_ready()
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{first['id']}")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{running['id']}")
    equal((owners(server, s, 2011), owners(server, s, 2012), owners(server, s, 2013)), ([], [second["id"]], []))
    equal(len(server.programs(s)), 2, "PID 1 and the second's")
    # One whose end nobody was there to see.
    late = server.spawn(s, "(setsid sleep 2014 > /dev/null 2>&1 &); sleep 0.5")
    wait_for(lambda: owners(server, s, 2014), 15, "its start")
    server.kill("cordond")
    time.sleep(0.6)  # the execution ends without a daemon
    server.wait_ready()
    server.ended(late)
    equal(owners(server, s, 2014), [late["id"]], "whose it is")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{late['id']}")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{second['id']}")
    equal(len(server.programs(s)), 1, "PID 1")


def test_delete_ends_what_was_left_before_a_restart(_):
    with Server() as own:  # the others' must not die
        end_what_was_left_before(own)


def test_client_gone_while_ending(server):
    """Many ask at once and go away: what was left ends all the same, and the server goes on."""
    s = server.create()["id"]
    x = left_behind(server, s, 2021)
    for _ in range(80):
        link = http.client.HTTPConnection(*server.address)
        link.request("DELETE", f"/v1/sessions/{s}/executions/{x['id']}", headers={"X-API-Key": server.key})
        link.close()
    wait_for(lambda: len(server.programs(s)) == 1, 15, "the end of what was left")
    y = left_behind(server, s, 2022)
    link = http.client.HTTPConnection(*server.address)
    link.request("DELETE", f"/v1/sessions/{s}/executions/{y['id']}", headers={"X-API-Key": server.key})
    server.delete(s)
    check(link.getresponse().status in (204, 409, 410), "an answer, whichever came first")
    link.close()
    server.reaches(s, "ended")


def test_executions_max(server):
    s = server.create()["id"]
    running = [server.spawn(s, "sleep 1000") for _ in range(8)]
    status, _, data = server.request("POST", f"/v1/sessions/{s}/executions", {"command": "true"})
    check(status in (409, 429), f"one more than executions_max: {status} {data}")
    check(data["error"]["fault"] == "user" and "8" in data["error"]["message"], data)
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{running[0]['id']}")
    equal(server.run(s, "echo again")["stdout"], "again\n")
    server.delete(s)
    server.reaches(s, "ended")
    for x in running[1:]:
        equal(server.execution(x)["state"], "killed")


def test_client_gone_while_waiting(server):
    s = session(server)
    link = http.client.HTTPConnection(*server.address)
    body = json.dumps({"command": "sleep 0.5; echo done > /tmp/gone", "env": {"MARK": "gone"}})
    link.request("POST", f"/v1/sessions/{s}/executions?wait=true", body, {"X-API-Key": server.key})
    wait_for(lambda: server.get(s)["executions_running"] == 1, 15, "its start")
    link.close()
    wait_for(lambda: server.get(s)["executions_running"] == 0, 15, "its end")
    equal(server.run(s, "cat /tmp/gone")["stdout"], "done\n")


def test_many_at_once(server):
    s = server.create(limits={"memory": "1G"})["id"]
    got = {}

    def one(i):
        got[i] = server.run(s, f"head -c 100000 /dev/zero | tr '\\0' {chr(97 + i)}; exit {i}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(8):
        equal((got[i]["exit_code"], got[i]["stdout"]), (i, chr(97 + i) * 100000), f"execution {i}")


def test_long_answers(server):
    """Executions whose output becomes 12 MiB of JSON each, composed one after the other in pieces."""
    s = session(server)
    command = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 3"
    done = []
    waiting = [threading.Thread(target=lambda: done.append(server.run(s, command))) for _ in range(4)]
    for t in waiting:
        t.start()
    for t in waiting:
        t.join()
    equal(len(done), 4)
    for x in done:
        check(x["stdout"] == x["stderr"] == "\0" * 1000000, "the output")
        equal((x["exit_code"], x["inline_truncated"]), (3, False))


def test_records(server):
    s = server.create()["id"]
    xs = [server.run(s, f"echo {i}; exit {i}") for i in range(5)]
    page = server.want(200, "GET", f"/v1/sessions/{s}/executions?limit=2")
    equal(len(page["executions"]), 2)
    rest = server.want(200, "GET", f"/v1/sessions/{s}/executions?limit=9&after={page['next']}")
    equal(rest["next"], None)
    listed = {x["id"]: x["exit_code"] for x in page["executions"] + rest["executions"]}
    equal(listed, {x["id"]: i for i, x in enumerate(xs)})
    running = server.spawn(s, "echo half; sleep 1000")
    wait_for(lambda: server.execution(running)["stdout_bytes"] == 5, 15, "output")
    only = server.want(200, "GET", f"/v1/sessions/{s}/executions?state=running")["executions"]
    equal([x["id"] for x in only], [running["id"]])
    server.delete(s)
    server.reaches(s, "ended")
    equal(server.execution(xs[3])["exit_code"], 3)
    equal(server.want(200, "GET", f"/v1/sessions/{s}/executions/{xs[3]['id']}/output"), b"3\n")
    last = server.execution(running)
    equal((last["state"], last["limit"], last["stdout_bytes"]), ("killed", "killed", 5))
    equal(server.want(200, "GET", f"/v1/sessions/{s}/executions/{running['id']}/output"), b"half\n")
    server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{running['id']}")
    equal(processes_of({s}), {})


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, executions_max=8)
