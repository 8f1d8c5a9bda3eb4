"""contract.py - an E2B client without an SDK: every byte as the test wants it.

    box = Sandbox(server, metadata={"a": "b"})          # POST /v2/sandboxes
    box.rpc("filesystem.Filesystem/Stat", {"path": "x"})   # the answer, which must be 200
    box.rpc_error("not_found", "filesystem.Filesystem/Stat", {"path": "none"})
    with box.stream("process.Process/Start", START("echo hi")) as s:
        for message in s: ...                              # until the end frame, which s.end then is
"""
import base64
import hashlib
import json
import os
import socket
import struct
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
from harness import Failed, check, equal, has, run_tests, short, wait_for  # noqa: E402,F401
from level import PATIENCE  # noqa: E402
from leveled import Leveled as Server  # noqa: E402
from reader import Reader  # noqa: E402

harness.Server = Server  # of run_tests()

UNKNOWN = "i0000000000000000"
INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "inside.py")
STATUS = {  # HTTP status of each code of the Connect protocol
    "canceled": 499, "unknown": 500, "invalid_argument": 400, "deadline_exceeded": 504, "not_found": 404,
    "already_exists": 409, "permission_denied": 403, "resource_exhausted": 429, "failed_precondition": 400,
    "aborted": 409, "out_of_range": 400, "unimplemented": 501, "internal": 500, "unavailable": 503,
    "data_loss": 500, "unauthenticated": 401,
}  # fmt: skip
NO_TOKEN = {
    "code": 401,
    "message": "unauthorized access, please provide a valid access token or method signing if supported",
}


def no_sandbox(sandbox_id):
    return {"code": 404, "message": f"Sandbox \"{sandbox_id}\" doesn't exist or you don't have access to it"}


def not_found(sandbox_id):
    """What the edge says."""
    return {"sandboxId": sandbox_id, "message": "The sandbox was not found", "code": 502}


def START(command, **more):
    return {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, "stdin": False, **more}


def near(got, want, within, what):
    check(abs(got - want) <= within, f"{what}: {got}, want {want} within {within}")


def refused(server, status, method, path, body=None, *parts, **more):
    """An error of the control plane: JSON with a code that is the status, and a message with these words."""
    got, headers, data = server.request(method, path, body, **more)
    what = f"{method} {path} {short(body)}"
    equal(got, status, f"status of {what}: {short(data)}")
    check(headers.get("content-type", "").startswith("application/json"), f"{what}: {headers.get('content-type')}")
    check(isinstance(data, dict) and set(data) <= {"code", "message", "error_code"}, f"{what}: {short(data)}")
    equal(data["code"], status, f"code of {what}")
    check(isinstance(data["message"], str) and data["message"], f"{what} has no message")
    for part in parts:
        has(data["message"], part, f"message of {what}")
    return data


def signature(path, operation, user, token, expires=None):
    """The signature of a file URL, as E2B's SDKs compute it."""
    raw = f"{path}:{operation}:{user}:{token}" + ("" if expires is None else f":{expires}")
    return "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")


def envelope(message, flags=0):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


class Broken(EOFError):
    """The connection ended without the last chunk of the answer."""


class Raw(Reader):
    """One request on a connection of its own, and its answer as it comes."""

    END = Broken

    def __init__(self, server, method, path, headers, body=b"", timeout=8):
        super().__init__(socket.create_connection(server.address, timeout * PATIENCE))
        sent = {"Host": "%s:%d" % server.address, **headers}
        if "Transfer-Encoding" not in sent and (body or method in ("POST", "PUT")):
            sent["Content-Length"] = len(body)
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in sent.items()) + "\r\n"
        self.socket.sendall(head.encode() + body)
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines[1:] if line)}

    def more(self):
        try:
            if super().more():
                return True
        except TimeoutError:
            raise Failed(f"nothing more comes within {self.socket.gettimeout()} s after {short(self.bytes)}") from None
        raise Broken()

    def body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join(iter(self.chunk, b""))
        return self.exactly(int(self.headers.get("content-length", 0)))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()


class Stream(Raw):
    """The frames of a streaming call. Iterating ends with the end frame, whose payload is `end`."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.frames, self.end, self.data = b"", None, b""
        self.left = int(self.headers.get("content-length", 0))  # of an answer that is whole at once

    def piece(self):
        """More of the answer; b"" at its end."""
        if self.headers.get("transfer-encoding") == "chunked":
            return self.chunk()
        taken, self.left = self.exactly(self.left), 0
        return taken

    def fill(self, n):
        while len(self.frames) < n:
            piece = self.piece()
            if not piece:
                raise Failed(f"the answer ends within a frame or without an end frame: {self.frames!r}")
            self.frames += piece

    def frame(self):
        """(flags, payload) of the next."""
        self.fill(5)
        flags, size = struct.unpack(">BI", self.frames[:5])
        self.fill(5 + size)
        payload, self.frames = self.frames[5 : 5 + size], self.frames[5 + size :]
        check(flags in (0, 2), f"flags {flags}")
        return flags, json.loads(payload)

    def take(self):
        """The next message, or None at the end."""
        flags, message = self.frame()
        if flags == 0:
            return message
        self.end = message
        equal(self.frames, b"", "bytes behind the end frame")
        equal(self.piece(), b"", "what follows the end frame is the last chunk")
        return None

    def __iter__(self):
        while (message := self.take()) is not None:
            yield message

    def events(self):
        """Of a process: the events, output put together in .data, keepalives left out."""
        found = []
        for message in self:
            equal(list(message), ["event"], "members of a message")
            (event,) = message["event"].items()
            if event[0] == "data":
                ((_, text),) = event[1].items()
                self.data += base64.b64decode(text, validate=True)
            elif event[0] != "keepalive":
                found.append(event)
        return found


class Sandbox:
    def __init__(self, server, path="/v2/sandboxes", key="", **spec):
        self.server, self.key = server, key
        self.made = server.want(201, "POST", path, {"templateID": "base", **spec}, key=key)
        self.id, self.token = self.made["sandboxID"], self.made.get("envdAccessToken")
        server.ids.add(self.id)

    def headers(self, port=49983, token="", user=None):
        found = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port)}
        if token is not None and (token or self.token):
            found["X-Access-Token"] = token or self.token
        if user is not None:
            found["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        return found

    def host(self, port):
        return f"{port}-{self.id}.localhost"

    def envd(self, method, path, body=None, headers=None, token="", raw=False, user=None):
        """(status, headers, body) of a request to envd; token None: none."""
        sent = {**self.headers(token=token, user=user), **(headers or {})}
        return self.server.request(method, path, body, sent, raw=raw, key=None)

    def call(self, name, message, user=None, headers=None, token=""):
        """(status, headers, answer) of a unary call."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = {"Content-Type": "application/json", "Connect-Protocol-Version": "1", **(headers or {})}
        return self.envd("POST", "/" + name, body, sent, user=user, token=token)

    def rpc(self, name, message, **more):
        status, headers, data = self.call(name, message, **more)
        check(status == 200, f"{name} {short(message)}: {status} {short(data)}")
        check(headers["content-type"].startswith("application/json"), f"{name}: {headers['content-type']}")
        return data

    def rpc_error(self, code, name, message, *parts, **more):
        status, headers, data = self.call(name, message, **more)
        check(
            isinstance(data, dict) and data.get("code") == code,
            f"{name} {short(message)}: {status} {short(data)}, want {code}",
        )
        equal(status, STATUS[code], f"status of {code}")
        check(headers["content-type"].startswith("application/json"), f"{name}: {headers['content-type']}")
        for part in parts:
            has(data["message"], part, f"message of {name}")
        return data

    def stream(self, name, message, headers=None, user=None, body=None):
        sent = {**self.headers(user=user), "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
        sent.update(headers or {})
        return Stream(self.server, "POST", "/" + name, sent, envelope(message) if body is None else body)

    def stream_error(self, code, name, message, *parts, **more):
        """HTTP 200 and nothing but an end frame with this error."""
        with self.stream(name, message, **more) as s:
            equal((s.status, s.headers["content-type"]), (200, "application/connect+json"), name)
            equal(list(s), [], f"messages of {name}")
            equal(s.end.get("error", {}).get("code"), code, f"{name} {short(message)}: {short(s.end)}")
            for part in parts:
                has(s.end["error"]["message"], part, f"message of {name}")
            return s.end["error"]

    def run(self, command, **more):
        """(events, output) of a command, from its start to its end."""
        with self.stream("process.Process/Start", START(command), **more) as s:
            events = s.events()
            equal(s.end, {}, f"end of {command}")
            return events, s.data

    def write(self, path, data=b"", **more):
        headers = {"Content-Type": "application/octet-stream"}
        status, _, got = self.envd("POST", f"/files?path={path}", data, headers, **more)
        equal(status, 200, f"write {path}: {short(got)}")
        return got

    def start(self, command, **more):
        """A command in the background: its stream, and its pid."""
        s = self.stream("process.Process/Start", START(command, **more))
        return s, s.take()["event"]["start"]["pid"]

    def kill(self):
        self.server.want(204, "DELETE", f"/sandboxes/{self.id}", key=self.key)

    def state(self):
        return self.server.want(200, "GET", f"/sandboxes/{self.id}", key=self.key)["state"]


def plain(server, method, path, headers, body=None):
    return server.request(method, path, body, headers, key=None)


def serve(box, port, headers=None):
    """inside.py of tests/sdk, in the sandbox."""
    with open(INSIDE, "rb") as f:
        box.write("/tmp/inside.py", f.read())
    s, _ = box.start(f"/usr/bin/python3 /tmp/inside.py {port}")
    s.close()
    ask = (
        lambda: plain(box.server, "GET", "/up", {**box.headers(port, token=None), **(headers or {})})[0] == 200
    )  # noqa: E731
    wait_for(ask, 10, "the server inside")


def seconds_left(info):
    """Of a sandbox, from now."""
    return parse_time(info["endAt"]) - time.time()


def parse_time(text):
    """Seconds of an RFC 3339 time in UTC."""
    from datetime import datetime, timezone

    check(text.endswith("Z") and "T" in text, f"{text} is no RFC 3339 time in UTC")
    whole, _, fraction = text[:-1].partition(".")
    check(len(fraction) <= 9 and (fraction.isdigit() or not fraction), f"fraction of {text}")
    return datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp() + float("0." + (fraction or "0"))
