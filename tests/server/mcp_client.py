"""mcp_client.py - a small client of the Model Context Protocol for tests, of both eras, so that what
is sent is exactly what the test says.

    c = Client(server)                 # modern; Client(server, legacy=True)
    result = c.call("run", command="echo hi")
    status, headers, message = c.post("tools/list")
"""
import http.client
import itertools
import json

VERSION, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"


class Client:
    def __init__(self, server, key="", legacy=False, session=None):
        self.server, self.key, self.legacy, self.session = server, key or server.key, legacy, session
        self.ids = itertools.count(1)

    def message(self, method, params=None, number=None, token=None):
        params = dict(params or {})
        meta = {}
        if not self.legacy:
            meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
        if token is not None:
            meta["progressToken"] = token
        if meta:
            params["_meta"] = meta
        m = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            m["id"] = next(self.ids) if number is None else number
        return m

    def headers(self, m, **more):
        h = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
             "Authorization": f"Bearer {self.key}", "MCP-Protocol-Version": LEGACY if self.legacy else VERSION}
        if not self.legacy:
            h["Mcp-Method"] = m["method"]
            name = m["params"].get("name") or m["params"].get("uri")
            if name:
                h["Mcp-Name"] = name
        if self.session:
            h["Mcp-Session-Id"] = self.session
        for name, value in more.items():
            h[name.replace("_", "-")] = value
        return {n: v for n, v in h.items() if v is not None}

    def open(self, method, params=None, number=None, token=None, timeout=60, **headers):
        """A connection with the request sent, for those that do not wait for its answer."""
        m = self.message(method, params, number, token)
        host, port = self.server.settings["listen"].rsplit(":", 1)
        link = http.client.HTTPConnection(host, int(port), timeout=timeout)
        link.request("POST", "/mcp", json.dumps(m), self.headers(m, **headers))
        return link

    def post(self, method, params=None, number=None, token=None, timeout=60, **headers):
        """(status, headers, message); of a stream a list of all messages."""
        link = self.open(method, params, number, token, timeout, **headers)
        try:
            answer = link.getresponse()
            data = answer.read()
        finally:
            link.close()
        got = {n.lower(): v for n, v in answer.getheaders()}
        if got.get("content-type") == "text/event-stream":
            return answer.status, got, events(data)
        return answer.status, got, json.loads(data) if data else None

    def result(self, method, params=None, **more):
        status, _, m = self.post(method, params, **more)
        if isinstance(m, list):
            m = m[-1]
        if status != 200 or "result" not in m:
            raise AssertionError(f"{method}: {status} {m}")
        return m["result"]

    def call(self, tool, token=None, timeout=60, **arguments):
        """The structured result of a tool that works."""
        got = self.result("tools/call", {"name": tool, "arguments": arguments}, token=token, timeout=timeout)
        if got.get("isError"):
            raise AssertionError(f"{tool}: {got}")
        return got["structuredContent"]

    def fails(self, tool, *words, **arguments):
        """The text of a result with isError, which has these words."""
        got = self.result("tools/call", {"name": tool, "arguments": arguments})
        text = got["content"][0]["text"]
        if not got.get("isError") or any(w not in text for w in words):
            raise AssertionError(f"{tool}: {got}, expected {words}")
        return text


def events(data):
    """The messages of a text/event-stream."""
    found = []
    for block in data.decode().split("\n\n"):
        lines = [line[5:].strip() for line in block.split("\n") if line.startswith("data:")]
        if lines:
            found.append(json.loads("\n".join(lines)))
    return found
