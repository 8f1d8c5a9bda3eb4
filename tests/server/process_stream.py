"""process_stream.py - a client of the process service of E2B's envd, by its bytes: streams of Connect's framing, and a
sandbox to open them in. For test_process_rpc.py."""
import base64
import http.client
import json
import struct

from harness import Failed, check, equal, has

MIB = 1 << 20
LIMIT = 48 * MIB


class Dropped(Exception):
    """The connection ended without a last frame."""


class Stream:
    """An answer of envelopes."""

    def __init__(self, box, method, message, **more):
        self.link = box.server.link(20)
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        flags = more.pop("flags", 0)
        body = more.pop("body", bytes([flags]) + struct.pack(">I", len(raw)) + raw)
        self.link.request("POST", f"/process.Process/{method}", body, box.headers("application/connect+json", **more))
        self.answer = self.link.getresponse()
        self.headers = {n.lower(): v for n, v in self.answer.getheaders()}
        self.end = None

    def read(self, n):
        got = b""
        while len(got) < n:
            try:
                piece = self.answer.read(n - len(got))
            except (http.client.IncompleteRead, ConnectionResetError) as e:
                raise Dropped from e
            if not piece:
                raise Dropped
            got += piece
        return got

    def next(self):
        """The next event, or None after the last frame (which is in self.end)."""
        flags, n = struct.unpack(">BI", self.read(5))
        message = json.loads(self.read(n))
        if flags == 0:
            equal(list(message), ["event"])
            return message["event"]
        equal(flags, 2, "flags")
        equal(self.answer.read(), b"", "what follows the last frame")
        self.end = message
        self.link.close()
        return None

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event

    def close(self):
        # The answer holds the socket, too.
        self.answer.close()
        self.link.close()

    def error(self):
        """Of a stream that must fail at once."""
        equal((self.answer.status, self.next()), (200, None))
        return self.end["error"]["code"], self.end["error"]["message"]

    def pid(self):
        event = self.next()
        if event is None:
            raise Failed(f"no start: {self.end}")
        equal(list(event), ["start"])
        return event["start"]["pid"]


class Box:
    """A sandbox."""

    def __init__(self, server, **spec):
        self.server = server
        made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, **spec})
        self.id, self.token = made["sandboxID"], made["envdAccessToken"]
        server.ids.add(self.id)

    def headers(self, kind, user=None, timeout=None, keepalive=None, **more):
        sent = {"Content-Type": kind, "Connect-Protocol-Version": "1", "E2b-Sandbox-Id": self.id,
                "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token}
        if user is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        if timeout is not None:
            sent["Connect-Timeout-Ms"] = str(timeout)
        if keepalive is not None:
            sent["Keepalive-Ping-Interval"] = str(keepalive)
        sent.update({n.replace("_", "-"): v for n, v in more.items()})
        return {n: v for n, v in sent.items() if v is not None}

    def call(self, method, message, **more):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.server.request("POST", f"/process.Process/{method}", body, key=None,
                                   headers=self.headers(more.pop("kind", "application/json"), **more))

    def ok(self, method, message, **more):
        status, headers, data = self.call(method, message, **more)
        equal((status, headers["content-type"]), (200, "application/json"), f"{method} {data}")
        return data

    def fails(self, status, code, method, message, *parts, **more):
        got, headers, data = self.call(method, message, **more)
        equal((got, headers.get("content-type")), (status, "application/json"), f"{method} {data}")
        equal((sorted(data), data["code"]), (["code", "message"], code), f"{data}")
        for part in parts:
            has(data["message"], part)

    def start(self, command, pty=None, stdin=None, tag=None, cmd="/bin/bash", args=None, cwd=None, envs=None, **more):
        message = {"process": {"cmd": cmd, "args": ["-l", "-c", command] if args is None else args}}
        if cwd is not None:
            message["process"]["cwd"] = cwd
        if envs is not None:
            message["process"]["envs"] = envs
        for name, value in (("pty", pty), ("stdin", stdin), ("tag", tag)):
            if value is not None:
                message[name] = value
        return Stream(self, "Start", message, **more)

    def run(self, command, **more):
        """(stdout, stderr, end event, last frame)"""
        stream = self.start(command, **more)
        stream.pid()
        return collect(stream)

    def pids(self):
        return [p["pid"] for p in self.ok("List", {})["processes"]]


def collect(stream):
    out, end = {"stdout": bytearray(), "stderr": bytearray(), "pty": bytearray()}, None
    for event in stream:
        check(end is None, f"{event} after the end")
        if "data" in event:
            (name, data), = event["data"].items()
            data = base64.b64decode(data, validate=True)
            check(0 < len(data) <= (16384 if name == "pty" else 32768), f"{len(data)} bytes of {name}")
            out[name] += data
        elif "end" in event:
            end = event["end"]
        else:
            equal(event, {"keepalive": {}})
    return bytes(out["stdout"] or out["pty"]), bytes(out["stderr"]), end, stream.end


def ended(code):
    end = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    return end if code == 0 else {**end, "error": f"exit status {code}"}


KILLED = {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}
TERMINATED = {"exitCode": -1, "exited": False, "status": "signal: terminated", "error": "signal: terminated"}


def of(pid):
    return {"process": {"pid": pid}}


def b64(data):
    return base64.b64encode(data).decode()
