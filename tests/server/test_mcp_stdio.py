#!/usr/bin/python3
"""test_mcp_stdio.py - cordon mcp: the tools over standard input and output. Only whole messages come out, each on a
line of its own, whatever a sandbox prints; calls do not wait for each other; the end of the input is the end."""
import json
import os
import queue
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import check, equal, has, run_tests, wait_for  # noqa: E402
from mcp_client import META, VERSION  # noqa: E402


class Stdio:
    def __init__(self, server, key="", url="", options=None):
        options = ["--server", url or server.url] if options is None else options
        self.process = subprocess.Popen(
            [harness.PROGRAM, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "HOME": "/nonexistent", "CORDON_API_KEY": server.key if key == "" else key or ""})
        self.lines, self.got, self.errors = queue.Queue(), {}, b""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method, params=None, number=None, modern=True):
        params = dict(params or {})
        if modern:
            params["_meta"] = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}, **params.get("_meta", {})}
        m = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps({**m, "id": number} if number is not None else m).encode())

    def next(self, seconds=20):
        line = self.lines.get(timeout=seconds)
        check(line is not None and line.endswith(b"\n"), f"a whole line: {line!r}")
        m = json.loads(line)
        equal(m["jsonrpc"], "2.0", "a message")
        return m

    def call(self, number, tool, modern=True, **arguments):
        self.send("tools/call", {"name": tool, "arguments": arguments}, number, modern)

    def result(self, number, tool, **arguments):
        self.call(number, tool, **arguments)
        m = self.next()
        equal(m["id"], number, "id")
        return m["result"]["structuredContent"]

    def end(self):
        began = time.monotonic()
        self.process.stdin.close()
        code = self.process.wait(timeout=10)
        self.errors = self.process.stderr.read()
        return code, time.monotonic() - began


def live(server):
    return {r["id"] for r in server.want(200, "GET", "/v1/sessions?limit=100")["sessions"]
            if r["state"] not in ("ending", "ended")}


def test_both_eras(server):
    s = Stdio(server)
    s.send("server/discover", number=1)
    has(str(s.next()["result"]["supportedVersions"]), VERSION, "modern")
    equal(s.result("two", "run", command="echo é")["stdout"], "é\n", "a call")
    s.send("resources/read", {"uri": "cordon://sessions/é"}, 3)
    equal(s.next()["error"]["code"], -32602, "a name that is no plain ASCII")
    equal(s.end()[0], 0, "the end")
    s = Stdio(server)
    s.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
           1, modern=False)
    equal(s.next()["result"]["protocolVersion"], "2025-11-25", "legacy")
    s.send("notifications/initialized", modern=False)
    s.send("tools/list", number=2, modern=False)
    equal(len(s.next()["result"]["tools"]), 10, "tools")
    equal(s.end()[0], 0, "the end")
    equal(s.errors, b"", "nothing on stderr")


def test_calls_do_not_wait_for_each_other(server):
    s = Stdio(server)
    session = s.result(1, "create_session")["session_id"]
    s.call(2, "run", session_id=session, command="while [ ! -e go ]; do sleep 0.05; done; echo slow")
    s.call(3, "run", session_id=session, command="echo fast")
    equal(s.next()["id"], 3, "the one that is done")
    s.call(4, "write_file", session_id=session, path="go", text="")
    equal({s.next()["id"], s.next()["id"]}, {2, 4}, "the others")
    for i in range(10, 40):
        s.call(i, "run", session_id=session, command=f"seq 1 20000 | head -c 40000; echo; echo {i}")
    ends = {}
    for _ in range(30):
        m = s.next()
        ends[m["id"]] = m["result"]["structuredContent"]["stdout"].split("\n")[-2]
    equal(ends, {i: str(i) for i in range(10, 40)}, "thirty at once, whole")
    s.end()
    server.delete(session)


def test_what_a_sandbox_prints_is_no_message(server):
    s = Stdio(server)
    fake = '{"jsonrpc":"2.0","id":9,"result":{}}'
    got = s.result(9, "run", command=f"printf '\\033]0;x\\007\\n{fake}\\n\\r\\n\\342\\200\\250{fake}'")
    has(got["stdout"], "\\x1b]0;x\\x07\n" + fake, "as text")
    has(got["stdout"], "\\u2028", "no separator of lines")
    equal(s.result(10, "run", command="true")["exit_code"], 0, "the next one")
    check(s.lines.empty(), "nothing else")
    s.end()


def test_progress_and_cancellation(server):
    s = Stdio(server)
    before = live(server)
    s.send("tools/call", {"name": "run", "arguments": {"command": "echo first; exec sleep 1000"},
                          "_meta": {"progressToken": 7}}, 1)
    m = s.next()
    equal((m["method"], m["params"]["progressToken"], m["params"]["message"]), ("notifications/progress", 7, "first"))
    s.send("notifications/cancelled", {"requestId": 1})
    wait_for(lambda: live(server) <= before, 20, "the end of the call and its session")
    equal(s.result(2, "session_info")["more"], False, "the next one")
    s.end()
    s = Stdio(server)
    s.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
           0, modern=False)
    s.next()
    s.call(1, "run", modern=False, command="exec sleep 1000")
    wait_for(lambda: live(server) - before, 20, "a session")
    s.send("notifications/cancelled", {"requestId": 1}, modern=False)
    wait_for(lambda: live(server) <= before, 20, "the end of the call and its session")
    s.end()


def test_the_end_of_the_input(server):
    s = Stdio(server)
    before = live(server)
    s.call(1, "run", command="exec sleep 1000")
    wait_for(lambda: live(server) - before, 20, "a session")
    code, seconds = s.end()
    equal(code, 1, "its end, with a call that is not answered")
    check(seconds < 8, f"soon: {seconds}")
    wait_for(lambda: live(server) <= before, 20, "the end of what it started")


def test_bad_input(server):
    s = Stdio(server)
    s.write(b"")
    s.write(b"garbage")
    equal(s.next()["error"]["code"], -32700, "no JSON")
    s.write(b"[]")
    equal(s.next()["error"]["code"], -32600, "a batch")
    s.write(b'{"a":' * 100000)
    check(s.next()["error"]["code"] in (-32700, -32600), "nested")
    s.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":"' + b"x" * (3 << 20) + b'"}}')
    equal(s.next()["error"]["code"], -32600, "too long")
    s.send("nonsense", number=5)
    equal(s.next()["error"]["code"], -32601, "an unknown method")
    equal(s.result(6, "session_info")["more"], False, "the next one")
    s.end()


def test_a_server_that_refuses_or_is_not_there(server):
    """Every request is answered, or a client would wait for ever."""
    s = Stdio(server, key="e2b_" + "0" * 40)
    s.send("tools/list", number=1)
    m = s.next()
    equal(m["id"], 1, "the request")
    has(m["error"]["message"], "not valid", "why")
    s.end()
    has(s.errors.decode(), "not valid", "also on stderr")
    s = Stdio(server, url=f"http://127.0.0.1:{harness.free_port()}")
    s.send("tools/list", number="x")
    m = s.next()
    equal(m["id"], "x", "the request")
    has(m["error"]["message"], "is the server running (make up, cordon serve)?", "why")
    s.end()
    if not os.path.exists("/var/lib/cordon/first.key"):  # it would be used
        s = Stdio(server, key=None)
        s.send("tools/list", number=1)
        has(s.next()["error"]["message"], "no API key found: set CORDON_API_KEY or give --key-file", "as other verbs")
        s.end()


def test_without_a_server(server):
    """cordon mcp --run: one tool, on cordon run."""
    s = Stdio(server, options=["--run"])
    s.send("tools/list", number=1)
    equal([t["name"] for t in s.next()["result"]["tools"]], ["run"], "tools")
    got = s.result(2, "run", command="cat; echo $A; pwd; printf '\\033x' >&2; exit 4", stdin="in\n", env={"A": "b c"}, cwd="/tmp")
    equal((got["exit_code"], got["stdout"], got["stderr"]), (4, "in\nb c\n/tmp\n", "\\x1bx"), "a command")
    got = s.result(3, "run", command="seq 1 100000")
    check(len(got["stdout"]) < 17000 and got["stdout"].endswith("\n100000\n") and got["truncated"], "both ends")
    equal(s.result(4, "run", command="sleep 100", timeout_s=1)["exit_code"], 124, "its time")
    for arguments in ({}, {"command": "true", "nonsense": 1}, {"command": "true", "network": ["--mount=/:/mnt"]}):
        s.call(5, "run", **arguments)
        m = s.next()["result"]
        check(m["isError"] or m["structuredContent"]["exit_code"] in (2, 125), f"{arguments}: {m}")
    s.call(6, "session_info")
    equal(s.next()["error"]["code"], -32602, "another tool")
    s.call(7, "run", command="exec sleep 4321")
    wait_for(lambda: cells_of("sleep 4321"), 20, "a command")
    s.send("notifications/cancelled", {"requestId": 7})
    wait_for(lambda: not cells_of("sleep 4321"), 20, "its end")
    s.call(8, "run", command="exec sleep 4322")
    wait_for(lambda: cells_of("sleep 4322"), 20, "a command")
    equal(s.end()[0], 1, "the end of the input, and a call that is not answered")
    has(s.errors.decode(), "the input has ended, and 1 message was under way: not answered")
    wait_for(lambda: not cells_of("sleep 4322"), 20, "its end")


def test_requests_before_the_end_of_the_input_are_answered(server):
    """echo ... | cordon mcp"""
    s = Stdio(server)
    s.call(1, "run", command="echo piped")
    equal(s.end()[0], 0, "all is answered")
    equal(s.next()["result"]["structuredContent"]["stdout"], "piped\n")


def cells_of(words):
    """Processes whose command is this one and nothing else."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found += [pid] * (f.read().rstrip(b"\0").replace(b"\0", b" ").decode() == words)
        except OSError:
            pass
    return found


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, node_max_memory="500G")
