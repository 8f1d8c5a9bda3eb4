#!/usr/bin/python3 -B
"""Goal: what programs of a session see of its level: each difference of doc/levels.md that no other test of the server meets is shown
here, at the levels that have it and at those that do not.

    CORDON_TEST_LEVEL=gvisor test_level_differences.py CORDON [name ...]
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402
from level import LEVEL, differs  # noqa: E402
from streams import Attached  # noqa: E402

POLICY = {"version": 1, "rules": ["nothing.example"]}
CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
SESSION = None


def session(server):
    global SESSION
    SESSION = SESSION or server.create(timeout="1h", network=POLICY)["id"]
    return SESSION


def sh(server, line, **more):
    done = server.run(session(server), line, **more)
    return done["stdout"] + done["stderr"]


def python(server, code, **more):
    return sh(server, ["/usr/bin/python3", "-c", code], **more)


def test_its_kernel(server):
    release = sh(server, "uname -r").strip()
    if differs("kernel"):
        has(release, "cloud")
    elif differs("system calls"):
        equal(release, "4.4.0")
    else:
        equal(release, os.uname().release)


def test_system_calls(server):
    code = "import os\ntry: os.pidfd_open(os.getpid()); print('done')\nexcept OSError as e: print(e.strerror)"
    equal(python(server, code).strip(), "Function not implemented" if differs("system calls") else "done")


def test_random_addresses(server):
    """Of a program, its libraries and its stack."""
    maps = [sh(server, ["/bin/cat", "/proc/self/maps"]).splitlines() for _ in range(2)]
    for name in ("/bin/cat", "libc", "[stack]"):
        first, second = (next(line.split()[0] for line in lines if name in line) for lines in maps)
        equal(first == second, differs("random addresses"), f"{name} is at the same address again")


def test_proc_of_others(server):
    """A program of root, and what a user sees of it."""
    x = server.spawn(session(server), "exec sleep 2001", env={"OWN": "its-own-value"}, user="root")
    found = wait_for(lambda: [p for p in server.want(200, "GET", f"/v1/sessions/{session(server)}/processes")["processes"]
                              if p["command"] == "sleep 2001"], 15, "its process")
    pid = found[0]["pid"]
    for name in ("environ", "maps"):
        text = sh(server, f"tr '\\0' '\\n' < /proc/{pid}/{name}")
        if differs("/proc/PID"):
            has(text, "OWN=its-own-value" if name == "environ" else "sleep")
        else:
            check("its-own-value" not in text and "/sleep" not in text, f"{name} is shown: {text}")
    server.want(204, "DELETE", f"/v1/sessions/{session(server)}/executions/{x['id']}")


def test_sys_and_dev(server):
    listing = sh(server, "ls /sys").split()
    own = sh(server, "grep -c NoNewPrivs /proc/self/status").strip()
    made = sh(server, "touch /dev/own && rm /dev/own && echo made", user="root")
    if differs("/dev, /proc, /sys"):
        check(listing and own == "0" and made == "made\n", f"/sys {listing}, NoNewPrivs {own}, /dev: {made}")
    else:
        equal((listing, own), ([], "1"), "/sys, lines of NoNewPrivs")
        has(made, "Read-only file system")


def test_extended_attributes(server):
    code = (f"import os\nopen('/root/f', 'w')\ntry: os.setxattr('/root/f', 'security.capability', {CAPABILITY!r}); "
            "print(os.listxattr('/root/f'))\nexcept OSError as e: print(e.strerror)")
    equal(python(server, code, user="root").strip(),
          "Operation not supported" if differs("extended attributes") and LEVEL == "gvisor" else "['security.capability']")


def test_pipes_and_sockets_in_files(server):
    """Such a file is used by programs; whether it is a change of the session's files differs."""
    code = "import os, socket\nos.mkfifo('/home/user/pipe'); socket.socket(socket.AF_UNIX).bind('/home/user/socket')"
    equal(python(server, code), "")
    equal(sh(server, "cd; test -p pipe && test -S socket && (echo text > pipe & cat pipe)"), "text\n")
    changed = {c["path"] for c in server.diff(session(server))["changes"]}
    both = {"/home/user/pipe", "/home/user/socket"}
    equal(changed & both, set() if differs("FIFOs and sockets in files") else both, f"the diff: {changed}")
    sh(server, "rm /home/user/pipe /home/user/socket")


def test_the_size_of_a_terminal(server):
    """It changes for a program in the foreground that another one, a shell, has started."""
    code = ("import os, signal, sys\n"
            "def show(*a): os.write(1, b'size %d %d\\n' % os.get_terminal_size(0))\n"
            "signal.signal(signal.SIGWINCH, show); show()\n"
            "for line in sys.stdin: show(); os.write(1, b'asked\\n')\n")
    x = server.spawn(session(server), ["/bin/bash", "--norc", "-i"], tty={"rows": 10, "cols": 20}, env={"PS1": "$ ", "CODE": code})
    with Attached(server, f"/v1/sessions/{x['session_id']}/executions/{x['id']}/attach") as ws:
        ws.until_output(b"$ ")
        ws.send(b"python3 -c \"$CODE\"\n")
        ws.until_output(b"size 20 10\r\n")
        ws.say(type="resize", rows=50, cols=132)
        if differs("size of a terminal"):  # no signal: the new size is there when it is asked for
            ws.send(b"\n")
            ws.until_output(b"size 132 50\r\nasked\r\n")
            equal(ws.streams[1].count(b"size 132 50"), 1, "told once, when asked")
        else:
            ws.until_output(b"size 132 50\r\n")
    server.want(204, "DELETE", f"/v1/sessions/{session(server)}/executions/{x['id']}")


def test_records_of_the_network(server):
    x = server.run(session(server), "curl -s -m 20 http://93.184.215.14/ > /dev/null; true")

    def records():
        return server.want(200, "GET", f"/v1/sessions/{session(server)}/network/log")["records"]

    found = wait_for(records, 15, "a record")
    for r in found:
        if differs("records of the network"):
            equal((r["execution_id"], bool(r["execution_unknown"])), (None, True), f"{r}")
        else:
            equal(r["execution_id"], x["id"], f"{r}")


def test_sessions_of_a_snapshot(server):
    """Their files are those of the first; its programs run in them where the memory was kept."""
    s = server.create()["id"]
    server.run(s, "echo kept > /home/user/kept")
    server.spawn(s, "exec sleep 2002")
    wait_for(lambda: "sleep 2002" in server.run(s, "ps axo args")["stdout"], 15, "its program")
    snapshot = server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})
    child = server.create(template=snapshot["id"])["id"]
    equal(server.run(child, "cat /home/user/kept")["stdout"], "kept\n")
    equal("sleep 2002" in server.run(child, "ps axo args")["stdout"], differs("memory images"), "the program")
    for one in (child, s):
        server.delete(one)


def test_storage_on_disk(server):
    body = {"storage": "disk"}
    if differs("storage on disk"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", body, "storage disk", LEVEL)
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"persist": True}, "persist", LEVEL)
        return
    s = server.want(201, "POST", "/v1/sessions", body)
    equal(s["storage"], "disk")
    server.delete(s["id"])


def test_the_end_of_pid_1(server):
    """Last: it may end the session."""
    s = session(server)
    has(sh(server, "kill -9 1"), "not permitted")
    x = server.spawn(s, "kill -9 1; kill -TERM 1; sleep 0.3", user="root")
    server.ended(x)
    if differs("PID 1"):
        equal(server.reaches(s, "ended")["reason"], "engine_exited")
    else:
        equal((server.get(s)["state"], server.run(s, "echo well")["stdout"]), ("running", "well\n"))


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
