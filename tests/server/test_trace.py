#!/usr/bin/python3 -B
"""Goal: the trace of a session has each program that started, with the path, arguments, directory and user that really ran,
and how it ended; programs that try to hide, race or flood harm neither it nor others.

    test_trace.py CORDON [name ...]
"""
import json
import os
import signal
import subprocess
import time

from harness import Server, check, equal, has, run_tests, wait_for
from streams import Events
from test_refused_calls import CALLS, cpu, watcher

KILLS = True
RACE = r"""
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
word = ctypes.create_string_buffer(b"aaaa")
argv = (ctypes.c_char_p * 3)(b"/bin/echo", None, None)
ctypes.cast(argv, ctypes.POINTER(ctypes.c_void_p))[1] = ctypes.addressof(word)
path = ctypes.create_string_buffer(b"/bin/echo")
env = (ctypes.c_char_p * 1)(None)

def flip():
    while True:
        word.raw = b"bbbb\0"; word.raw = b"aaaa\0"
        path.raw = b"/bin/nope\0"; path.raw = b"/bin/echo\0"
for i in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=flip, daemon=True).start()
        threading.Thread(target=flip, daemon=True).start()
        while True:
            libc.execve(path, argv, env)
    os.waitpid(pid, 0)
"""
TRACED = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, 0, 0)
    os.execv("/bin/echo", ["echo", "under", "a", "debugger"])
while True:
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        break
    libc.ptrace(7, pid, 0, 0)
"""


def entries(server, session, after=0, limit=1000):
    got, query = [], f"?limit={limit}&after={after}"
    while query:
        page = server.want(200, "GET", f"/v1/sessions/{session['id']}/trace{query}")
        got += page["entries"]
        query = f"?limit={limit}&after={page['next']}" if page["next"] else None
    return got


def starts(server, session):
    return [(e["path"], e["argv"]) for e in entries(server, session) if e["kind"] == "exec"]


def test_programs_and_how_they_end(server):
    session = server.create(trace="programs")
    equal(session["trace"], "programs")
    server.run(session["id"], "cd /tmp; /bin/echo hi; no-such-program; sh -c 'ls /nowhere 2>&1' | cat; exit 3")
    got = entries(server, session)
    first = got[0]
    equal((first["kind"], first["source"], first["path"], first["cwd"], first["uid"], first["parent"]), ("exec", "exact", first["path"], "/home/user", 1000, 1))
    equal(first["argv"][:2], ["sh", "-c"])
    echo = next(e for e in got if e["kind"] == "exec" and e["argv"] == ["/bin/echo", "hi"])
    equal((os.path.basename(echo["path"]), echo["cwd"], echo["parent"], echo["source"]), ("echo", "/tmp", first["pid"], "exact"))
    check(not [e for e in got if "no-such-program" in str(e.get("path"))], "a call that fails starts nothing")
    ends = {e["pid"]: e["exit_code"] for e in got if e["kind"] == "exit"}
    equal((ends[first["pid"]], ends[echo["pid"]]), (3, 0))
    ls = next(e for e in got if e["kind"] == "exec" and e["argv"][:1] == ["ls"])
    equal(ends[ls["pid"]], 2)
    equal([e["seq"] for e in got], sorted({e["seq"] for e in got}))
    equal(entries(server, session, limit=2), got, "in pages")
    equal(entries(server, session, after=got[3]["seq"]), got[4:])
    root = server.run(session["id"], "true", user="root")
    equal([e["uid"] for e in entries(server, session, after=got[-1]["seq"]) if e["kind"] == "exec"][0], 0, str(root))


def test_killed_programs(server):
    session = server.create(trace="programs")
    server.run(session["id"], "sleep 100 & p=$!; sleep 0.3; kill -TERM $p; wait; true")
    slept = next(e for e in entries(server, session) if e.get("argv") == ["sleep", "100"])

    def end():
        return [e for e in entries(server, session) if e["kind"] == "exit" and e["pid"] == slept["pid"]]

    told = wait_for(end, 10, "its end")[0]
    check(told["exit_code"] is None and told["signal"] in (15, None), str(told))  # by 15 on kernels that tell


def test_all_ways_to_start(server):
    session = server.create(trace="programs")
    code = ("import os, subprocess, threading\n"
            "fd = os.open('/bin/true', os.O_RDONLY)\n"
            "if os.fork() == 0: os.execve(fd, ['by-descriptor'], {})\n"
            "os.wait()\nos.waitpid(os.posix_spawn('/bin/true', ['spawned'], {}), 0)\n"
            "if os.fork() == 0:\n"
            "    t = threading.Thread(target=lambda: os.execv('/bin/true', ['by-a-thread'])); t.start(); t.join()\n"
            "os.wait()\n"
            "open('/tmp/script', 'w').write('#!/bin/sh\\nexit 4\\n'); os.chmod('/tmp/script', 0o755)\n"
            "print(subprocess.run(['/tmp/script', 'x']).returncode)\n"
            "import shutil; shutil.copy('/bin/true', '/tmp/git'); subprocess.run(['/tmp/git'])\n"
            "subprocess.run(['env', '-i', '/bin/true', 'through', 'env'])\n")
    equal(server.run(session["id"], ["python3", "-c", code])["stdout"], "4\n")
    got = starts(server, session)
    words = [argv[0] for _, argv in got]
    for word in ("by-descriptor", "spawned", "by-a-thread"):
        check(word in words, f"{word} in {words}")
    check((os.path.realpath("/bin/sh"), ["/bin/sh", "/tmp/script", "x"]) in got, "a script is its interpreter")
    check(("/tmp/git", ["/tmp/git"]) in got, "a copy is a file of its own")
    check(["/bin/true", "through", "env"] in [argv for _, argv in got], "what env starts")
    equal([e["source"] for e in entries(server, session)], ["exact"] * len(entries(server, session)))


def test_a_race_of_arguments(server):
    """What is recorded is what ran, whatever other threads change meanwhile."""
    session = server.create(trace="programs")
    out = server.run(session["id"], ["python3", "-c", RACE, "40"], timeout="120s")["stdout"].split()
    told = [e["argv"][1] for e in entries(server, session) if e["kind"] == "exec" and e["path"].endswith("/echo")]
    equal((len(out), told), (40, out))


def test_many_groups(server):
    """The groups of a process stand before its number in /proc/PID/status, and root of a cell has as many as it likes."""
    session = server.create(trace="programs")
    code = "import os, sys\nos.setgroups(range(1, int(sys.argv[1])))\nos.execv('/bin/sh', ['sh', '-c', 'echo $$; /bin/true of many'])"
    for groups in (150, 200, 250, 300, 400, 3000, 65000):
        done = server.run(session["id"], ["python3", "-c", code, str(groups)], user="root")
        pid = int(done["stdout"])
        got = [e for e in entries(server, session) if e["pid"] >= pid]
        shell = [e for e in got if e["kind"] == "exec" and e["pid"] == pid and e["argv"][0] == "sh"]
        equal([(e["source"], e["parent"], e["uid"]) for e in shell], [("exact", 1, 0)], f"{groups} groups: {got}")
        child = [e for e in got if e.get("argv") == ["/bin/true", "of", "many"] and e["pid"] > pid]
        equal([(e["source"], e["parent"]) for e in child], [("exact", pid)], f"{groups} groups: {got}")
        equal([e["exit_code"] for e in got if e["kind"] == "exit" and e["pid"] == pid], [0], f"{groups} groups: {got}")


def test_a_thread_ends_the_program(server):
    """The number is that of the process, whichever thread makes the call."""
    session = server.create(trace="programs")
    code = "import os, threading, time\nprint(os.getpid(), flush=True)\nthreading.Thread(target=lambda: os._exit(7)).start()\ntime.sleep(60)"
    pid = int(server.run(session["id"], ["python3", "-c", code])["stdout"])
    got = [e for e in entries(server, session) if e["kind"] == "exit" and e["pid"] == pid]
    equal([e["exit_code"] for e in got], [7], str(entries(server, session)))


def test_under_a_debugger(server):
    session = server.create(trace="programs")
    equal(server.run(session["id"], ["python3", "-c", TRACED])["stdout"], "under a debugger\n")
    told = [e for e in entries(server, session) if e.get("argv") == ["echo", "under", "a", "debugger"]]
    equal([(e["source"], e["path"]) for e in told], [("claimed", "/bin/echo")])


def test_calls(server):
    """Some calls are recorded, too, and do what they did; those that are refused stay so."""
    for profile, traces in (("standard", True), ("locked", False)):
        session = server.create(trace="calls", profile=profile)
        code = ("import ctypes, os, socket\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                "s = socket.socket(); s.bind(('127.0.0.1', 7777)); s.listen(); c = socket.create_connection(('127.0.0.1', 7777))\n"
                "os.close(os.memfd_create('m'))\n"
                "pid = os.fork()\nif pid == 0: print('traceme', libc.ptrace(0, 0, 0, 0), ctypes.get_errno(), flush=True); os._exit(0)\nos.wait()\n"
                "print('bpf', libc.syscall(%d, 0, 0, 0), ctypes.get_errno())" % CALLS["bpf"])
        out = server.run(session["id"], ["python3", "-c", code])
        equal(out["stdout"], f"traceme {0 if traces else -1} {0 if traces else 1}\nbpf -1 1\n", str(out))
        got = [e for e in entries(server, session) if e["kind"] == "call"]
        names = [e["call"] for e in got]
        check({"bind", "connect", "memfd_create"} <= set(names), str(names))
        equal("ptrace" in names, traces, "of a refused call there is no entry")
        bound = next(e for e in got if e["call"] == "bind")
        equal((bound["source"], bound["address"][4:16], os.path.basename(bound["path"])[:6], bound["uid"]), ("claimed", "1e617f000001", "python", 1000))
        equal(len(bound["arguments"]), 6)
        equal(server.get(session["id"])["refused_calls"].get("bpf"), 1)
        check([e for e in entries(server, session) if e["kind"] == "exec"], "programs, too")


def test_a_flood_loses_the_oldest(server):
    session, other = server.create(trace="programs"), server.create(trace="programs")
    server.spawn(session["id"], "i=0; while [ $i -lt 900 ]; do /bin/true; i=$((i+1)); done; echo > /tmp/done; sleep 100")
    equal(server.run(other["id"], "/bin/echo works")["stdout"], "works\n")
    wait_for(lambda: server.run(session["id"], "cat /tmp/done")["exit_code"] == 0, 90, "its end")
    got = entries(server, session)
    check(900 < len(got) <= 1024, f"{len(got)} entries")
    check(got[0]["lost"] > 500 and sum(e["lost"] for e in got[1:]) == 0, str(got[0]))
    path = os.path.join(server.run_dir, "cells", session["id"] + ".calls")
    check(os.stat(path).st_size <= 8192 + 1024 * 1024, "the file is bounded")
    check(len(starts(server, other)) >= 2, "of the other one nothing is lost")


def test_long_and_strange_words(server):
    session = server.create(trace="programs")
    server.run(session["id"], ["/bin/echo", "x" * 5000])
    server.run(session["id"], ["/bin/echo", "a\x1b[31m\u202eb", "", "c"])
    server.run(session["id"], ["python3", "-c", "import subprocess; subprocess.run([b'/bin/echo', b'\\xff\\xfe'])"])
    got = [e for e in entries(server, session) if e["kind"] == "exec" and e["path"].endswith("/echo")]
    equal([e["cut"] for e in got], [True, False, False])
    check(len(got[0]["argv"][1]) < 700, "bounded")
    equal(got[1]["argv"], ["/bin/echo", "a\x1b[31m\u202eb", "", "c"])
    has(got[2]["argv"][1], "\ufffd")


def test_secrets_are_covered(server):
    server.want(201, "POST", "/v1/secrets", {"name": "traced", "value": "a-secret-value-0123456789"})
    session = server.create(trace="programs", secrets=[{"name": "traced", "as": "env", "env": "T"}])
    server.run(session["id"], "/bin/echo $T > /dev/null")
    # The watcher cuts paths, directories and arguments: at the end is a half of the value.
    for n in (196, 205):
        server.run(session["id"], f"d=/tmp/$(printf %0{n - 6}d 0)$T; mkdir $d; cp /bin/true $d/; cd $d; $d/true")
        server.run(session["id"], f"d=/tmp/$(printf %0{n - 70}d 0)$T; mkdir $d; cd $d; /bin/true")
    for n in range(560, 590, 7):
        server.run(session["id"], f"/bin/echo $(printf %0{n}d 0)$T > /dev/null")
    check("a-sec" not in json.dumps(entries(server, session)), "a part of its value is in the trace")
    check([argv for _, argv in starts(server, session) if argv == ["/bin/echo", "*" * 25]], str(starts(server, session)))
    called = server.create(trace="calls", secrets=[{"name": "traced", "as": "env", "env": "T"}])
    code = ("import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('/tmp/' + os.environ['T'])\n"
            "socket.socket(socket.AF_UNIX).connect_ex(b'\\0' + os.environ['T'].encode() + b'x' * 20)\n")
    server.run(called["id"], ["python3", "-c", code])
    told = [bytes.fromhex(e["address"])[2:] for e in entries(server, called) if e.get("call") in ("bind", "connect")]
    equal(told, [b"/tmp/" + b"*" * 25 + b"\0", b"\0" + b"*" * 25 + b"x" * 20], "as long as the call says, and covered")
    server.want(204, "DELETE", "/v1/secrets/traced")


def test_followed(server):
    session = server.create(trace="programs")
    server.run(session["id"], "true")
    with Events(server, f"/v1/sessions/{session['id']}/trace?follow=true") as events:
        first = events.next()
        equal(first.name, "exec")
        server.run(session["id"], "/bin/echo live")
        while (event := events.next()).data.get("argv") != ["/bin/echo", "live"]:
            pass
        check(event.data["seq"] > first.data["seq"], "later")


def test_what_is_not_traced(server):
    plain = server.create()
    equal(plain["trace"], "none")
    server.refused(409, "conflict", "GET", f"/v1/sessions/{plain['id']}/trace", None, "no trace")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"trace": "everything"}, "trace")
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"trace": "programs", "level": "gvisor"})
    session = server.create(trace="programs")
    server.delete(session["id"])
    server.reaches(session["id"], "ended", 20)
    server.refused(410, "gone", "GET", f"/v1/sessions/{session['id']}/trace")


def test_locked_and_restarts(server):
    session = server.create(trace="programs", profile="locked")
    server.run(session["id"], "/bin/echo one")
    server.kill("cordond")
    server.wait_ready()
    server.run(session["id"], "/bin/echo two")
    told = [argv[1] for path, argv in starts(server, session) if path.endswith("/echo")]
    equal(told, ["one", "two"])
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")
    equal(server.run(session["id"], "/bin/echo three")["stdout"], "three\n")


def test_paused_and_killed_in_the_middle(server):
    """A cell is frozen, and its programs are killed, while they start others without end."""
    session = server.create(trace="programs")
    for _ in range(5):
        busy = server.spawn(session["id"], "while :; do /bin/true; done")
        wait_for(lambda: len(entries(server, session)) > 20, 20, "some programs")
        server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
        server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")
        server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{busy['id']}")
        equal(server.ended(busy)["state"], "killed")
    equal(server.run(session["id"], "/bin/echo works")["stdout"], "works\n")
    stopped = watcher(server, session)
    os.kill(stopped, signal.SIGSTOP)
    held = server.spawn(session["id"], "true")
    time.sleep(0.3)  # it waits for its first program
    os.kill(stopped, signal.SIGCONT)
    equal(server.ended(held)["exit_code"], 0)


def test_the_watcher_dies(server):
    """Without it no program could start: the session ends, and says why."""
    session, other = server.create(trace="programs"), server.create(trace="programs")
    os.kill(watcher(server, session), signal.SIGKILL)
    ended = server.reaches(session["id"], "ended", 30)
    equal(ended["reason"], "alarm")
    has(ended["detail"], "cell_fault")
    equal(server.run(other["id"], "/bin/echo works")["stdout"], "works\n")


def test_its_time_is_charged(server):
    """What a session makes its watcher do is processor time of the session, and has a bound."""
    session = server.create(trace="programs")
    code = ("import os, resource, sys\nos.setgroups(range(1, 65000))\nprint('begins', flush=True)\n"
            "for i in range(60): os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n"
            "used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
            "print(sum(u.ru_utime + u.ru_stime for u in used))")
    before, begun, charged = cpu(watcher(server, session)), time.monotonic(), server.get(session["id"])["usage"]["cpu_ms"]
    own = float(server.run(session["id"], ["python3", "-c", code], user="root", timeout="120s")["stdout"].split()[1])
    taken = cpu(watcher(server, session)) - before
    seconds = time.monotonic() - begun
    more = (server.get(session["id"])["usage"]["cpu_ms"] - charged) / 1000
    check(taken > 0.1, f"too little to see: {taken} s")
    check(more >= own + 0.8 * taken, f"{more} s charged, {own} of its programs, {taken} of the watcher")
    check(taken < 0.5 * seconds + 0.7, f"{taken} s in {seconds}")


def test_a_cell_cannot_reach_it(server):
    session = server.create(trace="programs")
    pid = watcher(server, session)
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    equal([status[name].strip() for name in ("CapEff", "NoNewPrivs", "Seccomp")], [f"{1 << 19:016x}", "1", "2"], "only CAP_SYS_PTRACE, over the cell")
    equal(os.readlink(f"/proc/{pid}/root"), "/proc")
    check("cordon-watch" not in server.run(session["id"], "cat /proc/[0-9]*/comm", user="root")["stdout"], "its processes do not see it")
    for process in server.cell_pids(session["id"]):
        links = [os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
        check(not [link for link in links if "seccomp" in link or ".calls" in link], str(links))


def test_the_client(server):
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}

    def cli(*words):
        done = subprocess.run([server.program, *words], env=env, capture_output=True, timeout=40)
        equal(done.returncode, 0, str(done))
        return done.stdout.decode()

    session = cli("create", "--trace", "programs").strip()
    cli("exec", session, "--", "/bin/echo", "by", "cli")
    lines = [line.split(None, 5) for line in cli("trace", session).splitlines()]
    check([w for w in lines if w[1] == "exec" and w[5].endswith("/echo /bin/echo by cli")], str(lines))
    check([w for w in lines if w[1] == "exit" and w[5] == "exit 0"], str(lines))
    equal(json.loads(cli("trace", "--json", session).splitlines()[0])["kind"], "exec")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
