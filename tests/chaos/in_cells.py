#!/usr/bin/python3
"""in_cells.py - programs of cells that cordond listens to are taken over: the code interpreter (evil_interpreter.py) and the
gateways of MCP servers (evil_gateway.py) answer at random, while clients call, leave, kill, pause and resume.

    in_cells.py CORDON [--seconds 60] [--seed N]

Afterwards no client has seen the secret of these programs, each execution has ended once, cordond has not ended, and no
sanitizer has a report. Sanitized programs are used where they are beside CORDON (make sanitized)."""
import argparse
import http.client
import json
import os
import random
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "server"), os.path.join(HERE, "..", "shared")]
import harness  # noqa: E402
from harness import Server, check, equal, note, wait_for  # noqa: E402
from model_watch import died  # noqa: E402
from test_mcp_servers import Client, shown  # noqa: E402

CLIENTS = 4  # of each kind
VALUE = "v4lue-0f-the-secret"
INTERPRETER = "code-interpreter-v1"
SECRET = [{"name": "tok", "as": "env", "env": "TOKEN"}]
# An MCP server that is as it should be: its gateway is replaced later.
GOOD = r"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        result = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}},
                  "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}}.get(m["method"], {"content": []})
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


def source(name):
    with open(os.path.join(HERE, name)) as f:
        return f.read()


class InCells:
    def __init__(self, server, seed):
        self.server, self.seed, self.counts, self.problems = server, seed, {}, []
        self.lock, self.over = threading.Lock(), threading.Event()
        server.want(201, "POST", "/v1/secrets", {"name": "tok", "value": VALUE, "ways": ["env"]})
        self.pid = server.pid("cordond")
        self.kernels = [self.interpreter(i) for i in range(2)]
        self.hubs = [self.hub(i) for i in range(2)]

    def interpreter(self, number):
        session = self.server.create(template=INTERPRETER, secrets=SECRET, timeout="1h")["id"]
        self.server.spawn(session, ["python3", "-c", source("evil_interpreter.py"), f"{self.seed}{number}"], user="root", background=True)
        return session

    def hub(self, number):
        servers = {f"a{i}": {"command": ["python3", "-c", GOOD], "secrets": SECRET, "tools": {"deny": ["t3"]}, **({"pin": "strict"} if number else {})} for i in range(2)}
        session = self.server.create(mcp={"servers": servers}, timeout="1h")["id"]
        for i in range(2):
            child = shown(self.server, session)[f"a{i}"]["session_id"]
            self.server.run(child, ["tee", "/root/evil"], user="root", stdin=source("evil_gateway.py"))
            equal(self.server.run(child, f"echo {self.seed}{number}{i} >/tmp/seed; chmod 755 /root/evil && mv /root/evil /opt/cordon/bin/mcp-gateway; pkill -9 -x mcp-gateway; true", user="root")["exit_code"], 0)
        return session

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def saw(self, where, data):
        if VALUE.encode() in data:
            at = data.index(VALUE.encode())
            self.problems.append(f"{where}: the secret is in the answer: {data[:200]!r} ... {data[max(0, at - 200) : at + 50]!r}")

    # ---- calls of code

    def execute(self, dice, session):
        code = json.dumps({"code": "x" * dice.choice((1, 100, 100000))}).encode()
        if dice.random() < 0.1:
            code = dice.choice((b"{", b"[]", b'{"code":1}', b'{"code":"a","code":"b"}', b'{"c\\u006fde":"a"}'))
        head = f"POST /execute HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {session}\r\nE2b-Sandbox-Port: 49999\r\nX-API-Key: {self.server.key}\r\n"
        if dice.random() < 0.05:
            request = f"{head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
        elif dice.random() < 0.3:
            request = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(code):x}\r\n".encode() + code + b"\r\n0\r\n\r\n"
        else:
            request = f"{head}Content-Length: {len(code)}\r\n\r\n".encode() + code
        with socket.create_connection(self.server.address, timeout=10) as s:
            s.sendall(request if dice.random() < 0.9 else request[: len(request) // 2])
            if dice.random() < 0.1:
                return "left"
            s.settimeout(0.7)
            got = b""
            try:
                while len(got) < 2000000 and (more := s.recv(65536)):
                    got += more
                    if dice.random() < 0.02:
                        break
            except TimeoutError:
                pass
        self.saw("code", got)
        return got[9:12].decode("latin-1") or "cut"

    def kill(self, dice, session):
        """One of the last calls."""
        found = [x for x in self.server.want(200, "GET", f"/v1/sessions/{session}/executions?limit=5")["executions"] if x["language"]]
        return f"kill {self.server.request('DELETE', f'/v1/sessions/{session}/executions/' + dice.choice(found)['id'])[0]}" if found else "none to kill"

    def pause(self, session):
        first = self.server.request("POST", f"/v1/sessions/{session}/pause")[0]
        return f"pause {first}, resume {self.server.request('POST', f'/v1/sessions/{session}/resume')[0]}"

    def code_client(self, number):
        dice = random.Random(f"{self.seed}/code/{number}")
        while not self.over.is_set():
            session, what = dice.choice(self.kernels), dice.random()
            try:
                self.count(self.kill(dice, session) if what < 0.05 else self.pause(session) if what < 0.06 else self.execute(dice, session))
            except (OSError, http.client.HTTPException) as e:
                self.count(type(e).__name__)

    # ---- calls of tools

    def call(self, dice, session):
        c, what = Client(self.server, session, legacy=dice.random() < 0.3), dice.random()
        if what < 0.2:
            status, _, m = c.post("tools/list", {} if dice.random() < 0.8 else {"cursor": dice.choice(("a0", "zz", "x" * 500))}, timeout=30)
            self.saw("a list of tools", json.dumps(m).encode())
            return f"list {status}"
        if what < 0.85:
            name = dice.choice(["a0__go"] * 4 + ["a1__go"] * 4 + ["a0__t3", "a1__nope", "a0__" + "x" * 120, "zz__go", "__go", "a0__go.x"])
            status, _, m = c.post("tools/call", {"name": name, "arguments": {"p": "q"}}, token=dice.choice((None, 7, "tok")), timeout=dice.choice((30, 30, 0.3)),
                                  **({"Mcp_Param_P": "q"} if dice.random() < 0.3 else {}))
            self.saw(f"a call of {name}", json.dumps(m).encode())
            return f"call {status}"
        if what < 0.9:
            link = c.open("tools/call", {"name": "a0__go", "arguments": {}}, token=1)
            time.sleep(dice.random() * 0.1)
            link.close()
            return "tool left"
        if what < 0.95:
            return "tools' " + self.pause(shown(self.server, session)[dice.choice(("a0", "a1"))]["session_id"])
        self.saw("the state of the servers", json.dumps(self.server.want(200, "GET", f"/v1/sessions/{session}/mcp")).encode())
        return "shown"

    def tool_client(self, number):
        dice = random.Random(f"{self.seed}/tool/{number}")
        while not self.over.is_set():
            try:
                self.count(self.call(dice, dice.choice(self.hubs)))
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                self.count(type(e).__name__)

    # ---- all of it

    def run(self, seconds):
        threads = [threading.Thread(target=f, args=(i,), daemon=True) for f in (self.code_client, self.tool_client) for i in range(CLIENTS)]
        for t in threads:
            t.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.problems and self.server.pid("cordond") == self.pid:
            time.sleep(0.5)
        self.over.set()
        for t in threads:
            t.join(60)
        equal(self.server.pid("cordond"), self.pid, "cordond")
        check(not self.problems, "\n".join(self.problems[:3]))
        check(self.counts.get("200", 0) > 0 and self.counts.get("call 200", 0) > 0, f"nothing happened: {self.counts}")

    def executions_ended_once(self):
        for session in self.kernels:
            self.server.request("POST", f"/v1/sessions/{session}/resume")
            path = f"/v1/sessions/{session}/executions?limit=1000"
            wait_for(lambda path=path: not [x for x in self.server.want(200, "GET", path)["executions"] if x["language"] and x["state"] == "running"], 30, "the end of all calls of code")
            ended, after = [], 0
            while rows := self.server.want(200, "GET", f"/v1/sessions/{session}/events?limit=1000&after={after}")["events"]:
                ended += [e["execution_id"] for e in rows if e["type"] == "execution.ended"]
                after = rows[-1]["seq"]
            equal(len(ended), len(set(ended)), "ends of executions that are told")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    harness.isolate()
    print(f"1..4\n# seed {args.seed}, {args.seconds:.0f} s", flush=True)
    os.environ["CORDON_TEST_SANITIZED"] = "1"
    cordon = os.path.abspath(args.cordon)
    server = Server(harness.reachable(cordon, harness.sanitized(cordon)), pool_size=0)
    bad = number = 0

    def step(name, function, *more):
        nonlocal bad, number
        number += 1
        verdict, why = harness.attempt(function, *more)
        bad += verdict != "ok"
        print(f"{verdict} {number} - {name}", flush=True)
        note(why or "")

    def no_reports():
        server.reports()
        check(not harness.REPORTS, "\n".join(harness.REPORTS))
        check(not died(server.log()), "ended by itself:\n" + "\n".join(died(server.log())[:20]))
        check(VALUE not in server.log(), "the secret is in the log")

    whole = InCells(server, args.seed)
    step("hostile programs of cells, and clients that leave", whole.run, args.seconds)
    note(f"summary: seed {args.seed}, {args.seconds:.0f} s, {dict(sorted(whole.counts.items()))}")
    step("each execution has ended once", whole.executions_ended_once)
    step("no report of a sanitizer, no program that ended by itself", no_reports)
    step("nothing is left", server.close)
    if bad:
        note(f"again: --seed {args.seed} --seconds {args.seconds:.0f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
