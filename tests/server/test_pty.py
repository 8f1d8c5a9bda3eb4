#!/usr/bin/python3
"""test_pty.py - executions with a terminal: what they see of it, and what those see who look at it."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, stays, wait_for  # noqa: E402
from streams import Attached, Events  # noqa: E402
from level import differs  # noqa: E402

SESSION = None


def session(server):
    global SESSION
    SESSION = SESSION or server.create(timeout="1h")["id"]
    return SESSION


def start(server, command, rows=24, cols=80, **spec):
    return server.spawn(session(server), command, tty={"rows": rows, "cols": cols}, **spec)


def attach(server, x, **more):
    return Attached(server, f"/v1/sessions/{x['session_id']}/executions/{x['id']}/attach", **more)


def call(server, x, what, body):
    return server.request("POST", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/{what}", body)


def test_it_is_a_terminal(server):
    x = server.run(session(server), "tty; test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo $TERM", tty={"rows": 33, "cols": 101})
    equal((x["tty"], x["stderr_bytes"], x["exit_code"]), (True, 0, 0))
    lines = x["stdout"].split("\r\n")
    check(lines[0].startswith("/dev/pts/"), lines)
    equal(lines[1:3], ["all", "33 101"])
    check(lines[3], "TERM is empty")
    x = server.run(session(server), "ps -o tty=,sid=,pid= -p $$", tty={"rows": 24, "cols": 80})
    tty, sid, pid = x["stdout"].split()
    equal(sid, pid, "its session")
    x = server.run(session(server), "echo shown > /dev/tty", tty={"rows": 24, "cols": 80})
    if differs("controlling terminal"):
        equal(tty, "?", "its name")
        has(x["stdout"], "Input/output error")
    else:
        check(tty.startswith("pts/"), f"its name: {tty}")
        equal(x["stdout"], "shown\r\n", "its controlling terminal")


def test_the_answer_has_all_output(server):
    """The kernel passes output on after the program has exited: up to 64 KiB of it, and on a busy machine some
    milliseconds later."""
    want = "".join(f"{i}\r\n" for i in range(1, 8001))
    for _ in range(10):
        x = server.run(session(server), "seq 8000", tty={"rows": 24, "cols": 80})
        check(x["stdout"] == want, f"{len(x['stdout'])} bytes of {len(want)}")


def test_typing_and_echo(server):
    x = start(server, "stty -echo; echo ready; read a; echo \"<$a>\"; stty echo; echo ready2; read b; echo \"<$b>\"")
    with attach(server, x) as ws:
        ws.until_output(b"ready\r\n")
        ws.send(b"hidden\n")
        ws.until_output(b"ready2\r\n")
        ws.send("sh\u00f6wn\n".encode())
        end = ws.until_end()
    equal(end["execution"]["exit_code"], 0)
    equal(ws.streams[1], "ready\r\n<hidden>\r\nready2\r\nsh\u00f6wn\r\n<sh\u00f6wn>\r\n".encode(), "what is seen")
    equal(ws.streams[2], b"")


def test_resize(server):
    code = (
        "import os, signal, time\n"
        "def show(*a): os.write(1, b'size %d %d\\n' % os.get_terminal_size(0))\n"
        "signal.signal(signal.SIGWINCH, show); show()\n"
        "while True: time.sleep(1)\n"
    )
    x = start(server, ["/usr/bin/python3", "-c", code], 10, 20)
    with attach(server, x) as ws:
        ws.until_output(b"size 20 10\r\n")
        ws.say(type="resize", rows=50, cols=132)
        ws.until_output(b"size 132 50\r\n")
        equal(call(server, x, "resize", {"rows": 40, "cols": 90})[0], 204)
        ws.until_output(b"size 90 40\r\n")
        for bad in ({"rows": 0, "cols": 80}, {"rows": 24}, {"rows": 24, "cols": 70000}, {"rows": "x", "cols": 1}, {}):
            equal(call(server, x, "resize", bad)[0], 400, f"{bad}")
        ws.say(type="signal", signal="KILL")
        equal(ws.until_end()["execution"]["signal"], 9)
    plain = server.spawn(session(server), "sleep 5")
    equal(call(server, plain, "resize", {"rows": 24, "cols": 80})[0], 409, "no terminal")
    server.want(204, "DELETE", f"/v1/sessions/{session(server)}/executions/{plain['id']}")


def test_control_characters(server):
    x = start(server, "trap 'echo interrupted; exit 3' INT; echo up; while :; do sleep 0.05; done")
    with attach(server, x) as ws:
        ws.until_output(b"up\r\n")
        ws.send(b"\x03")
        end = ws.until_end()
    equal(end["execution"]["exit_code"], 3)
    has(ws.streams[1], b"interrupted\r\n")
    x = start(server, "echo up; cat; echo after")
    with attach(server, x) as ws:
        ws.until_output(b"up\r\n")
        ws.send(b"line\n")
        ws.until_output(b"line\r\nline\r\n")
        ws.send(b"\x04")
        end = ws.until_end()
    equal(end["execution"]["exit_code"], 0, "Ctrl-D is the end of input")
    check(ws.streams[1].endswith(b"after\r\n"), ws.streams[1])
    x = start(server, ["sleep", "1000"])
    with attach(server, x) as ws:
        time.sleep(0.2)  # `sleep` is in the foreground; nothing shows it
        ws.send(b"\x1c")
        equal(ws.until_end()["execution"]["signal"], 3, "Ctrl-\\ quits")


def test_a_raw_terminal_gets_control_characters(server):
    """A program that asked for them gets ^C, ^\\ and ^Z as bytes; after it, the terminal has its characters as before."""
    code = (
        "import os, sys, termios, tty\n"
        "old = termios.tcgetattr(0); tty.setraw(0); os.write(1, b'R'); got = b''\n"
        "while len(got) < 5: got += os.read(0, 5)\n"
        "now = termios.tcgetattr(0)[6]; same = [now[i] == old[6][i] for i in (termios.VINTR, termios.VQUIT, termios.VSUSP)]\n"
        "termios.tcsetattr(0, termios.TCSANOW, old); print(got, same); sys.stdout.flush(); os.read(0, 1)\n"
    )
    x = start(server, ["/usr/bin/python3", "-c", code])
    with attach(server, x) as ws:
        ws.until_output(b"R")
        ws.send(b"a\x03\x1c\x1ab")
        ws.until_output(b"b'a\\x03\\x1c\\x1ab' [True, True, True]\r\n")
        ws.send(b"\x03")
        equal(ws.until_end()["execution"]["exit_code"], 130, "the end by KeyboardInterrupt, on a terminal that is not raw any more")


def test_raw_bytes(server):
    code = (
        "import os, tty\n"
        "tty.setraw(0); os.write(1, b'R'); got = b''\n"
        "while len(got) < 256: got += os.read(0, 256)\n"
        "os.write(1, got)\n"
    )
    x = start(server, ["/usr/bin/python3", "-c", code])
    with attach(server, x) as ws:
        ws.until_output(b"R")
        ws.send(bytes(range(256)))
        ws.until_end()
    equal(ws.streams[1], b"R" + bytes(range(256)), "every byte, both ways")


def test_input_by_post(server):
    x = start(server, "read a; echo \"<$a>\"")
    equal(call(server, x, "input", b"posted\n")[2], {"accepted": 7})
    done = server.ended(x)
    equal(done["exit_code"], 0)
    output = server.want(200, "GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output")
    equal(output, b"posted\r\n<posted>\r\n")


def test_much_input(server):
    """More than a terminal takes at once, by one who does not wait: nothing is lost, nothing hangs."""
    code = (
        "import hashlib, os, tty\n"
        "tty.setraw(0); os.write(1, b'R'); h = hashlib.sha256(); n = 0\n"
        "while n < 300000: d = os.read(0, 65536); n += len(d); h.update(d)\n"
        "print(h.hexdigest())\n"
    )
    import hashlib

    data = os.urandom(300000)
    if differs("raw terminals"):
        data = bytes(b | 32 for b in data)  # without the bytes that are signals
    x = start(server, ["/usr/bin/python3", "-c", code])
    with attach(server, x) as ws:
        ws.until_output(b"R")
        for at in range(0, len(data), 30000):
            ws.send(data[at : at + 30000])
        ws.until_end()
    has(ws.streams[1], hashlib.sha256(data).hexdigest().encode())


def test_reattach(server):
    x = start(server, "echo first; read a; echo \"second $a\"; read b; echo \"third $b\"")
    with attach(server, x) as ws:
        ws.until_output(b"first\r\n")
    server.want(200, "POST", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/input", b"x\n")
    wait_for(lambda: server.execution(x)["stdout_bytes"] >= 7 + 3 + 10, 15, "what is said meanwhile")
    with attach(server, x) as ws:
        ws.until_output(b"second x\r\n")
        check(ws.streams[1].startswith(b"first\r\n"), "without a cursor: from the beginning")
    # With the cursor of the last event that was seen: from there.
    with Events(server, f"/v1/sessions/{x['session_id']}/executions/{x['id']}/events") as events:
        event, seen = None, b""
        while b"second x\r\n" not in seen:
            event = events.next()
            seen += event.output if event.name == "stdout" else b""
    with attach(server, x, after=event.id) as ws:
        ws.send(b"y\n")
        end = ws.until_end()
    equal(ws.streams[1], b"y\r\nthird y\r\n", "after the cursor")
    equal(end["execution"]["exit_code"], 0)


def test_two_viewers(server):
    x = start(server, "stty -echo; while read a; do echo \"<$a>\"; [ \"$a\" = end ] && exit 0; done")
    with attach(server, x) as one, attach(server, x) as two:
        time.sleep(0.1)  # the shell turns the echo off; nothing shows it
        one.send(b"by one\n")
        one.until_output(b"<by one>\r\n")
        two.until_output(b"<by one>\r\n")
        two.send(b"by two\n")
        one.until_output(b"<by two>\r\n")
        two.until_output(b"<by two>\r\n")
        one.close()
        two.send(b"end\n")
        equal(two.until_end()["execution"]["exit_code"], 0)


def test_hangup_and_job_control(server):
    x = start(server, ["/bin/bash", "--norc", "-i"], env={"PS1": "$ "})
    with attach(server, x) as ws:
        ws.until_output(b"$ ")
        ws.send(b"sleep 500\n")
        time.sleep(0.3)  # `sleep` is in the foreground; nothing shows it
        ws.send(b"\x1a")
        ws.until_output(b"Stopped")
        ws.send(b"kill %1; echo sum $((40+2))\n")
        ws.until_output(b"sum 42\r\n")
    # Without a viewer the shell goes on until it is ended.
    stays(lambda: server.execution(x)["state"] == "running", 0.2, "the shell")
    server.want(204, "DELETE", f"/v1/sessions/{x['session_id']}/executions/{x['id']}")
    equal(server.execution(x)["state"], "killed")
    wait_for(lambda: len(server.programs(session(server))) == 1, 15, "end of all programs")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
