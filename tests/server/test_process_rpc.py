#!/usr/bin/python3
"""test_process_rpc.py - the process service of E2B's envd, by its bytes: Connect framing, events and their
order, errors, signals, input, several subscribers, slow ones, and the end of the sandbox."""
import base64
import hashlib
import http.client
import json
import os
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, check, equal, has, rss, run_tests, stays, wait_for, wait_read  # noqa: E402
from level import PATIENCE, TEMPLATE, differs  # noqa: E402
from process_stream import KILLED, LIMIT, MIB, TERMINATED, Box, Dropped, Stream, b64, collect, ended, of  # noqa: E402

KILLS = True  # one test kills cordond
UNTIL_INPUT = """
import fcntl, struct, time
while not struct.unpack("i", fcntl.ioctl(0, 0x541B, bytes(4)))[0]:  # FIONREAD
    time.sleep(0.01)  # between two looks
"""


# --- start


def test_echo(server):
    box = Box(server)
    stream = box.start("echo out; sleep 0.2; echo err >&2; exit 3", stdin=False)
    equal((stream.answer.status, stream.headers["content-type"]), (200, "application/connect+json"))
    equal(stream.headers["x-accel-buffering"], "no")
    check(stream.pid() > 1, "pid")
    equal(collect(stream), (b"out\n", b"err\n", ended(3), {}))
    equal(box.run("true"), (b"", b"", ended(0), {}))


def test_environment(server):
    box = Box(server, envVars={"A": "sandbox", "B": "sandbox"})
    out = box.run("echo $A $B $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID $HOME $USER $LOGNAME; pwd", envs={"B": "call"})[0]
    equal(out.decode(), f"sandbox call true {box.id} {'base' if TEMPLATE == 'host' else TEMPLATE} /home/user user user\n/home/user\n")
    equal(box.run("echo $E2B_SANDBOX", envs={"E2B_SANDBOX": "mine"})[0], b"mine\n")
    equal(box.run("id -un; pwd", user="root")[0], b"root\n/root\n")
    for cwd, want in (("/tmp", "/tmp"), ("~", "/home/user"), ("", "/home/user"), ("sub", "/home/user/sub")):
        box.run("mkdir -p ~/sub")
        equal(box.run("pwd", cwd=cwd)[0].decode(), want + "\n", cwd)


def test_not_started(server):
    box = Box(server)
    equal(box.start("true", cwd="/no/such").error(), ("invalid_argument", "cwd '/no/such' does not exist"))
    equal(box.start("true", user="nobody-here").error(), ("unauthenticated", "invalid username: 'nobody-here'"))
    code, message = box.start("", cmd="/no/such/program", args=[]).error()
    equal(code, "invalid_argument")
    has(message, "No such file or directory")
    code, message = box.start("x" * 200000).error()  # more than one argument may have
    long = "File name too long" if differs("long arguments") else "Argument list too long"
    equal((code, long in message), ("invalid_argument", True), message)
    equal(box.start("", cmd="", args=[]).error()[0], "invalid_argument")
    equal(box.start("true", envs={"A=B": "c"}).error()[0], "invalid_argument")
    equal(box.pids(), [])


def test_timeout(server):
    box = Box(server)
    began = time.monotonic()
    out, _, end, last = box.run("echo begun; sleep 60 & sleep 60", timeout=700 * PATIENCE ** 2)
    equal((out, end, last["error"]["code"]), (b"begun\n", None, "deadline_exceeded"))
    check(0.6 < time.monotonic() - began < 15 * PATIENCE ** 2, f"{time.monotonic() - began} s")
    equal(box.pids(), [])
    equal(box.run("pgrep sleep; true")[0], b"", "children of what was killed")


def test_disconnect_kills_nothing(server):
    box = Box(server)
    stream = box.start("sleep 0.5; echo done > ~/done; sleep 60")
    pid = stream.pid()
    stream.close()
    wait_for(lambda: box.run("cat ~/done 2>/dev/null; true")[0] == b"done\n", 10, "the work of the program")
    equal(box.pids(), [pid])


def test_many_lines(server):
    box = Box(server)
    stream = box.start("seq 1000000")
    stream.pid()
    began = time.monotonic()
    messages, n, last = 0, 0, b""
    for event in stream:
        if "data" in event:
            data = base64.b64decode(event["data"]["stdout"])
            messages, n, last = messages + 1, n + len(data), data
    equal((n, last[-8:]), (6888896, b"1000000\n"))
    check(messages < 2000, f"{messages} messages")
    check(time.monotonic() - began < 20 * PATIENCE, f"{time.monotonic() - began} s")
    # In single writes, as an unbuffered program does it: what waits in the log goes out together.
    out = box.run("for i in {1..20000}; do echo $i; done")[0]
    equal(out, b"".join(b"%d\n" % i for i in range(1, 20001)))


def test_slow_reader_holds_up_nobody(server):
    box = Box(server)
    pid = server.pid("cordond")
    size = 40000000 // PATIENCE
    slow = box.start(f"head -c {size} /dev/zero; echo end >&2")
    slow.pid()
    wait_for(lambda: box.run("pgrep head; true")[0] == b"", 20, "its end")  # the log took it all
    check(rss(pid) < 100 * MIB, f"{rss(pid)} bytes")
    out, err, end, _ = collect(slow)
    equal((len(out), err, end), (size, b"end\n", ended(0)))


def test_too_much(server):
    box = Box(server)
    stream = box.start(f"head -c {LIMIT + 1} /dev/zero; sleep 60")
    pid = stream.pid()
    out, _, end, last = collect(stream)
    equal((len(out), end, last["error"]["code"]), (LIMIT, None, "resource_exhausted"))
    has(last["error"]["message"], "e2b_output_limit")
    equal(box.pids(), [pid], "it goes on")
    again = Stream(box, "Connect", of(pid))
    equal(again.pid(), pid)
    equal(collect(again)[3]["error"]["code"], "resource_exhausted")


def test_open_output(server):
    """The end waits for every process that holds the output open, unless a signal was sent."""
    box = Box(server)
    began = time.monotonic()
    out, _, end, _ = box.run("(sleep 1; echo late) & echo soon")
    equal((out, end, time.monotonic() - began > 0.9), (b"soon\nlate\n", ended(0), True))
    stream = box.start("trap 'exit 0' TERM; setsid sleep 60 & echo soon; wait")
    pid = stream.pid()
    equal(list(stream.next()), ["data"])
    equal(box.ok("SendSignal", {**of(pid), "signal": "SIGNAL_SIGTERM"}), {})
    equal(collect(stream)[2], ended(0))
    stream = box.start("setsid sleep 61 & echo soon")
    pid = stream.pid()
    equal(list(stream.next()), ["data"])
    time.sleep(0.2)  # the shell ends; its output stays open, so nothing shows it
    equal(box.ok("SendSignal", {**of(pid), "signal": "SIGNAL_SIGKILL"}), {}, "ended, with its output open")
    equal(collect(stream)[2], ended(0))


# --- signals


def test_signals(server):
    box = Box(server)
    for signal, want in (("SIGNAL_SIGKILL", KILLED), ("SIGNAL_SIGTERM", TERMINATED), (9, KILLED), (15, TERMINATED)):
        stream = box.start("", cmd="sleep", args=["60"])
        pid = stream.pid()
        equal(box.ok("SendSignal", {**of(pid), "signal": signal}), {})
        equal(collect(stream)[2:], (want, {}), signal)
    stream = box.start("sleep 60", tag="t")
    pid = stream.pid()
    for signal in ("SIGNAL_SIGINT", 2, "SIGNAL_UNSPECIFIED", 0, None, "SIGKILL"):
        box.fails(501, "unimplemented", "SendSignal", {**of(pid), "signal": signal})
    box.fails(404, "not_found", "SendSignal", {**of(99999), "signal": 9}, "process with pid 99999 not found")
    box.fails(404, "not_found", "SendSignal", {"process": {"tag": "u"}, "signal": 9}, "process with tag u not found")
    box.fails(404, "not_found", "SendSignal", {**of(1), "signal": 9})
    box.fails(501, "unimplemented", "SendSignal", {"process": {}, "signal": 9})
    equal(box.ok("SendSignal", {"process": {"tag": "t"}, "signal": 9}), {})
    equal(collect(stream)[2], KILLED)
    box.fails(404, "not_found", "SendSignal", {**of(pid), "signal": 9})
    segv = box.run("kill -SEGV $$")
    equal(segv[2]["status"], "signal: segmentation fault")


# --- input


def test_input(server):
    box = Box(server)
    stream = box.start("cat; sleep 0.5; echo closed")
    pid = stream.pid()
    equal(box.ok("SendInput", {**of(pid), "input": {"stdin": b64(b"one\n")}}), {})
    equal(base64.b64decode(stream.next()["data"]["stdout"]), b"one\n")
    equal(box.ok("SendInput", {**of(pid), "input": {"stdin": ""}}), {})
    box.fails(500, "internal", "SendInput", {**of(pid), "input": {"pty": b64(b"x")}}, "tty not assigned")
    box.fails(501, "unimplemented", "SendInput", {**of(pid), "input": {}})
    box.fails(400, "invalid_argument", "SendInput", {**of(pid), "input": {"stdin": "*"}}, "stdin")
    box.fails(404, "not_found", "SendInput", {**of(4242), "input": {"stdin": ""}})
    equal(box.ok("CloseStdin", of(pid)), {})
    box.fails(500, "internal", "SendInput", {**of(pid), "input": {"stdin": b64(b"x")}}, "stdin not enabled or closed")
    equal(collect(stream)[:3], (b"closed\n", b"", ended(0)))
    box.fails(404, "not_found", "CloseStdin", of(pid))
    equal(box.run("cat", stdin=False)[:3], (b"", b"", ended(0)))
    stream = box.start("sleep 60", stdin=False)
    box.fails(500, "internal", "SendInput", {**of(stream.pid()), "input": {"stdin": ""}}, "stdin not enabled or closed")


def test_large_input(server):
    box = Box(server)
    data = os.urandom(3) * 2000000
    stream = box.start("sleep 0.5; sha256sum; true")
    pid = stream.pid()
    began = time.monotonic()
    equal(box.ok("SendInput", {**of(pid), "input": {"stdin": b64(data)}}), {})
    check(time.monotonic() - began > 0.3, "it must wait for its reader")
    equal(box.ok("CloseStdin", of(pid)), {})
    equal(collect(stream)[0].decode().split()[0], hashlib.sha256(data).hexdigest())
    # One that ends without reading what has arrived: the call that waits gets an error.
    stream = box.start(f"python3 -c '{UNTIL_INPUT}'")
    box.fails(500, "internal", "SendInput", {**of(stream.pid()), "input": {"stdin": b64(data)}}, "stdin")
    equal(collect(stream)[2], ended(0))
    status, _, got = box.call("SendInput", b'{"process":{"pid":1},"input":{"stdin":"' + b"A" * (64 * MIB) + b'"}}')
    equal((status, got["code"]), (429, "resource_exhausted"))


def test_stream_input(server):
    box = Box(server)
    stream = box.start("cat")
    pid = stream.pid()

    def body(*messages):
        raw = [json.dumps(m).encode() for m in messages]
        return b"".join(b"\0" + struct.pack(">I", len(r)) + r for r in raw)

    parts = [os.urandom(30000) for _ in range(8)] + [os.urandom(700000), b"the last"]
    sent = body({"start": of(pid)}, {"keepalive": {}}, *({"data": {"input": {"stdin": b64(p)}}} for p in parts))
    answer = Stream(box, "StreamInput", b"", body=sent)
    equal((answer.read(7), answer.read(7), answer.answer.read()), (b"\0\0\0\0\2{}", b"\2\0\0\0\2{}", b""))
    box.ok("CloseStdin", of(pid))
    equal(collect(stream)[0], b"".join(parts))
    for bad, code in (
        (body({"start": of(4242)}), "not_found"), (body({"data": {"input": {"stdin": ""}}}), "invalid_argument"),
        (body({"start": of(pid)})[:-1], "invalid_argument"), (b"", "invalid_argument"), (body({}), "unimplemented"),
        (b"\1\0\0\0\2{}", "internal"), (b"\0\xff\xff\xff\xff", "resource_exhausted"),
    ):
        equal(Stream(box, "StreamInput", b"", body=bad).error()[0], code, bad[:20])


def test_pty(server):
    box = Box(server)
    stream = box.start("", args=["-i", "-l"], pty={"size": {"cols": 91, "rows": 33}}, envs={"PS1": "$ "})
    pid = stream.pid()
    box.ok("SendInput", {**of(pid), "input": {"pty": b64(b"stty size\n")}})
    seen = b""
    while b"33 91\r\n" not in seen:
        seen += base64.b64decode(stream.next()["data"]["pty"])
    equal(box.ok("Update", {**of(pid), "pty": {"size": {"cols": 40, "rows": 10}}}), {})
    box.fails(500, "internal", "SendInput", {**of(pid), "input": {"stdin": ""}}, "tty assigned")
    box.fails(500, "internal", "CloseStdin", of(pid), "PTY")
    box.ok("SendInput", {**of(pid), "input": {"pty": b64(b"stty size; exit 7\n")}})
    out, _, end, last = collect(stream)
    has(out, b"10 40\r\n")
    equal((end, last), (ended(7), {}))
    stream = box.start("sleep 60")
    pid = stream.pid()
    box.fails(500, "internal", "Update", {**of(pid), "pty": {"size": {"cols": 1, "rows": 1}}}, "tty not assigned")
    equal(box.ok("Update", of(pid)), {})
    box.fails(404, "not_found", "Update", {**of(4242), "pty": {"size": {"cols": 1, "rows": 1}}})


# --- connect, list


def test_connect(server):
    box = Box(server)
    first = box.start("echo early; read; echo late; exit 4", tag="t")
    pid = first.pid()
    equal(base64.b64decode(first.next()["data"]["stdout"]), b"early\n")
    others = [Stream(box, "Connect", of(pid)), Stream(box, "Connect", {"process": {"tag": "t"}})]
    equal([o.pid() for o in others], [pid, pid])
    brief = Stream(box, "Connect", of(pid), timeout=300)
    brief.pid()
    equal(collect(brief)[2:], (None, {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}}))
    box.ok("SendInput", {**of(pid), "input": {"stdin": b64(b"\n")}})
    for stream in [first, *others]:
        equal(collect(stream)[:3], (b"late\n", b"", ended(4)))
    past = Stream(box, "Connect", of(pid))
    equal((past.pid(), *collect(past)), (pid, b"", b"", ended(4), {}))
    equal(Stream(box, "Connect", of(4242)).error(), ("not_found", "process with pid 4242 not found"))
    equal(Stream(box, "Connect", {"process": {"tag": "t"}}).error(), ("not_found", "process with tag t not found"))
    equal(Stream(box, "Connect", {}).error()[0], "unimplemented")


def test_list(server):
    box = Box(server)
    equal(box.ok("List", {}), {"processes": []})
    equal(box.ok("List", b""), {"processes": []})
    a = box.start("sleep 60", tag="a ☃", envs={"K": "V"}, cwd="/tmp")
    b = box.start("", cmd="sleep", args=["61"])
    pids = a.pid(), b.pid()
    want = [
        {"config": {"cmd": "/bin/bash", "args": ["-l", "-c", "sleep 60"], "envs": {"K": "V"}, "cwd": "/tmp"},
         "tag": "a ☃", "pid": pids[0]},
        {"config": {"cmd": "sleep", "args": ["61"]}, "pid": pids[1]},
    ]
    equal(box.ok("List", {}), {"processes": sorted(want, key=lambda p: p["pid"])})
    x = server.spawn(box.id, "sleep 62", record="text", background=True)
    third = wait_for(lambda: [p for p in box.ok("List", {})["processes"] if p["pid"] not in pids], 15, "the third")
    equal(third[0]["config"], {"cmd": "sleep 62"}, x["id"])
    equal(Box(server).pids(), [], "of another sandbox")


def test_keepalive(server):
    box = Box(server)
    stream = box.start("sleep 2.5; echo x", keepalive=1)
    stream.pid()
    events = list(stream)
    kinds = [next(iter(e)) for e in events]
    equal(kinds[-2:], ["data", "end"])
    check(kinds[:2] == ["keepalive", "keepalive"] and set(kinds[:-2]) == {"keepalive"} and len(kinds) <= 8 * PATIENCE ** 2, f"{kinds}")
    equal(events[0], {"keepalive": {}})


def test_the_first_message_is_the_start(server):
    """Clients read it as that: no keepalive comes before it, however long PID 1 of the sandbox takes."""
    box = Box(server)
    pid1 = server.cell_pids(box.id)[0]
    os.kill(pid1, signal.SIGSTOP)
    threading.Timer(2.5, os.kill, (pid1, signal.SIGCONT)).start()
    stream = box.start("echo x", keepalive=1)
    has(next(iter(stream)), "start", "the first message")


def test_a_server_that_starts_says_so(server):
    """cordond does not know its sandboxes before the keeper is there: that is no reason to call them gone."""
    box = Box(server)

    def ask(path, **more):
        try:
            status = server.request("GET", path, key=None, timeout=10, **more)[0]
        except (OSError, http.client.HTTPException):
            return None  # the one that was killed
        return status

    keepers = server.pids("keeper")
    for keeper in keepers:
        os.kill(keeper, signal.SIGSTOP)
    try:
        server.kill("cordond")
        health = wait_for(lambda: ask("/health", headers=box.headers(None)), 20, "an answer")
        signed = ask("/files?path=/etc/hostname&username=user&signature=v1_" + "A" * 43)
    finally:
        for keeper in keepers:
            os.kill(keeper, signal.SIGCONT)
    equal((health, signed), (503, 503), "while it starts")
    server.wait_ready()
    equal(ask("/health", headers=box.headers(None)), 204, "later")


# --- the protocol


def test_protocol(server):
    box = Box(server)
    echo = {"process": {"cmd": "echo", "args": ["hi"]}}
    for kind in ("application/json", "text/plain", "application/proto", "application/connect+proto", None):
        equal(Stream(box, "Start", echo, Content_Type=kind).answer.status, 415, f"Start as {kind}")
    for kind in ("application/connect+json", "application/proto", "text/plain", None):
        equal(box.call("List", {}, Content_Type=kind)[0], 415, f"List as {kind}")
    equal(box.call("List", {}, kind="application/json; charset=utf-8")[0], 200)
    equal(box.call("List", b'{\n  "x" : 1\n}', Content_Encoding="identity")[0], 200)
    box.fails(501, "unimplemented", "List", {}, Content_Encoding="gzip")
    box.fails(400, "invalid_argument", "List", {}, **{"Connect_Protocol_Version": "2"})
    for bad in (b"[]", b"{", b"{}{}", b'{"a":1,"a":1}', b"\xff"):
        box.fails(400, "invalid_argument", "List", bad)
    equal(collect_all(Stream(box, "Start", echo, Connect_Content_Encoding="identity"))[1:], (b"hi\n", ended(0)))
    equal(Stream(box, "Start", echo, Connect_Content_Encoding="gzip").error()[0], "unimplemented")
    equal(Stream(box, "Start", echo, flags=1).error()[0], "internal")
    equal(Stream(box, "Start", echo, flags=2).error()[0], "invalid_argument")
    whole = b"\0\0\0\0\2{}"
    for body in (b"", b"\0", b"\0\0\0\0\3{}", whole + b"x", whole + whole):
        equal(Stream(box, "Start", b"", body=body).error()[0], "invalid_argument", body)
    equal(Stream(box, "Start", b"", body=b"\0\xff\xff\xff\xff{}").error()[0], "resource_exhausted")
    equal(Stream(box, "Start", echo, timeout="soon").error()[0], "invalid_argument")
    equal(Stream(box, "Start", b"x" * (9 * MIB)).error()[0], "resource_exhausted")
    big = {"process": {"cmd": "bash", "args": ["-c", "echo ${#*}", "x"] + ["y" * 1000] * 1000}}
    equal(collect_all(Stream(box, "Start", big))[1:], (b"1000\n", ended(0)))


def collect_all(stream):
    return (stream.pid(), *collect(stream)[0::2][:2])


def test_token(server):
    box = Box(server)
    equal(box.call("List", {}, X_Access_Token=None)[0], 401)
    equal(box.call("List", {}, X_Access_Token=Box(server).token)[0], 401)


# --- the end


def test_sandbox_dies(server):
    box = Box(server)
    running = box.start("echo x; sleep 60")
    pid = running.pid()
    equal(list(running.next()), ["data"])
    other = Stream(box, "Connect", of(pid))
    other.pid()
    waiting = box.start("sleep 60")
    waits = waiting.pid()
    answers = []
    data = {**of(waits), "input": {"stdin": b64(b"x" * MIB)}}
    thread = threading.Thread(target=lambda: answers.append(box.call("SendInput", data)[0]))
    thread.start()
    time.sleep(0.2)  # the input fills the pipe and waits
    began = time.monotonic()
    server.want(204, "DELETE", f"/sandboxes/{box.id}")
    for stream in (running, other, waiting):
        try:
            event = stream.next()
        except Dropped:
            continue
        raise Failed(f"not dropped: {event} {stream.end}")
    check(time.monotonic() - began < 8, "at once")
    thread.join(5)
    equal(answers, [502], "SendInput that waited")
    equal(box.call("List", {})[0], 502)
    equal(Stream(box, "Start", {"process": {"cmd": "true"}}).answer.status, 502)


def test_a_killed_sandbox_ends_its_streams_by_fin(server):
    """E2B's clients expect an incomplete chunked read, not a reset, and ask /health then. Bytes that the server has
    not read must not turn the one into the other."""
    box = Box(server)
    message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "echo up; sleep 60"]}}).encode()
    body = b"\0" + struct.pack(">I", len(message)) + message
    head = "".join(f"{n}: {v}\r\n" for n, v in box.headers("application/connect+json").items())
    with socket.create_connection(server.address, timeout=20) as s:
        s.sendall(f"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        got = b""
        while b'"data"' not in got:
            got += s.recv(65536)
        s.sendall(b"GET /health HTTP/1.1\r\n")  # a second request, not read while the first is answered
        server.want(204, "DELETE", f"/sandboxes/{box.id}")
        while piece := s.recv(65536):  # raises if there is a reset
            got += piece
    has(got.lower(), b"transfer-encoding: chunked")
    check(not got.endswith(b"\r\n0\r\n\r\n"), "there is a last chunk")
    check(got.endswith(b"}\r\n"), f"cut inside a chunk: {got[-60:]}")
    equal(server.request("GET", "/health", key=None, headers=box.headers("application/json"))[0], 502, "/health")


def test_restart(server):
    box = Box(server)
    stream = box.start("read; echo late; exit 5", tag="t", envs={"K": "V"})
    pid = stream.pid()
    before = box.ok("List", {})
    server.kill("cordond")
    try:
        raise Failed(f"not dropped: {stream.next()}")
    except Dropped:
        pass
    server.wait_ready()
    equal(box.ok("List", {}), before, "the first answer")
    again = Stream(box, "Connect", {"process": {"tag": "t"}})
    equal(again.pid(), pid)
    box.ok("SendInput", {**of(pid), "input": {"stdin": b64(b"\n")}})
    equal(collect(again)[:3], (b"late\n", b"", ended(5)))


def test_restart_with_a_slow_cell(server):
    """What runs in it only its PID 1 can say: until it has, nobody is told that a process is gone."""
    box = Box(server)
    stream = box.start("sleep 60", stdin=False)
    pid = stream.pid()
    init, answers = server.cell_pids(box.id)[0], []
    os.kill(init, signal.SIGSTOP)
    try:
        server.kill("cordond")
        stream.close()
        wait_for(lambda: server.pid("cordond"), 10, "the next cordond")
        server.wait_ready()
        thread = threading.Thread(target=lambda: answers.append(Stream(box, "Connect", of(pid)).pid()))
        thread.start()
        stays(lambda: answers == [], 0.3, "the wait for PID 1")
    finally:
        os.kill(init, signal.SIGCONT)
    thread.join(10)
    equal(answers, [pid])


def test_late_body_wakes_nobody(server):
    """Who was let in before the sandbox fell asleep is as late as who comes now."""
    box = Box(server)
    link = server.link(20)
    link.putrequest("POST", "/process.Process/List")
    for name, value in {**box.headers("application/json"), "Content-Length": "2"}.items():
        link.putheader(name, value)
    link.endheaders()
    wait_read(link.sock)
    server.want(204, "POST", f"/sandboxes/{box.id}/pause")
    link.send(b"{}")
    equal(link.getresponse().status, 502)
    link.close()
    stays(lambda: server.want(200, "GET", f"/sandboxes/{box.id}")["state"] == "paused", 0.2, "the pause")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, e2b_output_limit=LIMIT)
