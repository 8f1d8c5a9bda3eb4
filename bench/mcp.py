"""Tools of MCP beside the native interface: a section of bench/run.

The same command in the same session, by POST /v1/sessions/{id}/executions?wait=true and by tools/call of `run` in both eras, in
turns, each on one kept connection; and in a session of its own: create, run and delete against one call without session_id. The
client is Python: both sides pay for it alike.
"""
import http.client
import json
import random
import statistics
import time

import server

TARGET = 1.5  # from the requirement: of the native call
COMMAND = "echo hello"
VERSION, LEGACY, META = "2026-07-28", "2025-11-25", "io.modelcontextprotocol/"


class Client:
    def __init__(self, to):
        self.http = http.client.HTTPConnection(to.address, timeout=60)
        self.key = to.key_file.read_text().strip()

    def ask(self, method, path, body=None, headers=None):
        self.http.request(method, path, None if body is None else json.dumps(body),
                          {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})})
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text else None

    def native(self, session):
        return self.ask("POST", f"/v1/sessions/{session}/executions?wait=true", {"command": COMMAND})["stdout"]

    def call(self, arguments, modern):
        params = {"name": "run", "arguments": {"command": COMMAND, **arguments}}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LEGACY}
        if modern:
            params["_meta"] = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
            headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "run"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.ask("POST", "/mcp", message, headers)["result"]["structuredContent"]["stdout"]

    def whole(self):
        session = self.ask("POST", "/v1/sessions", {})["id"]
        out = self.native(session)
        self.ask("DELETE", f"/v1/sessions/{session}")
        return out


def measure(ways, rounds):
    times = {name: [] for name in ways}
    for i in range(rounds + 5):
        for name in random.sample(list(ways), len(ways)):
            begin = time.perf_counter()
            if ways[name]() != "hello\n":
                raise RuntimeError(f"{name}: another answer")
            if i >= 5:
                times[name].append((time.perf_counter() - begin) * 1e3)
    return times


def section(setup, judge, table, heading):
    heading("mcp: the tool `run`, beside the native interface")
    rounds = 30 if setup.options.rounds < 100 else 300
    with server.Server(setup.build, setup.folder, setup.outside) as to:
        c = Client(to)
        session = c.ask("POST", "/v1/sessions", {"timeout": 600})["id"]
        same = measure({"native": lambda: c.native(session),
                        "run, 2026-07-28": lambda: c.call({"session_id": session}, True),
                        "run, 2025-11-25": lambda: c.call({"session_id": session}, False)}, rounds)
        fresh = measure({"native: create, run, delete": c.whole, "run without a session": lambda: c.call({}, True)},
                        max(10, rounds // 5))
    rows = [(name, f"{statistics.median(t):.2f}", f"{sorted(t)[len(t) * 95 // 100]:.2f}")
            for times in (same, fresh) for name, t in times.items()]
    table(("ms", "median", "95 %"), rows)
    base = statistics.median(same["native"])
    for name in ("run, 2026-07-28", "run, 2025-11-25"):
        judge(f"mcp: {name} / the native call", TARGET, statistics.median(same[name]) / base)
    whole = fresh["native: create, run, delete"]
    judge("mcp: run without a session / create, run, delete", TARGET,
          statistics.median(fresh["run without a session"]) / statistics.median(whole))
