"""sandbox_files.py - a sandbox and its files as E2B's clients reach them, by raw HTTP: what no SDK sends can be sent, too."""
import base64
import http.client
import json
import os
import re
import socket
import struct
import sys
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has  # noqa: E402
from level import differs  # noqa: E402

MIB = 1 << 20
HOME = "/home/user"
SANDBOX = None


class Sandbox:
    def __init__(self, server):
        self.server = server
        made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})
        self.id, self.token = made["sandboxID"], made["envdAccessToken"]
        server.ids.add(self.id)

    def headers(self, more=None):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token, **(more or {})}

    def ask(self, method, path, body=None, headers=None, raw=True):
        return self.server.request(method, path, body, self.headers(headers), raw=raw, key=None)

    def rpc(self, name, message, status=200, user=None):
        """The answer of a unary call, or (with another status) its error."""
        headers = {"Content-Type": "application/json", "Connect-Protocol-Version": "1"}
        if user is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        got, _, data = self.ask("POST", f"/filesystem.Filesystem/{name}", json.dumps(message).encode(), headers)
        equal(got, status, f"status of {name} {message}: {data[:300]}")
        return json.loads(data)

    def fails(self, name, message, status, code, *parts, user=None):
        error = self.rpc(name, message, status, user)
        equal(error["code"], code, f"code of {name} {message}")
        for part in parts:
            has(error["message"], part, f"message of {name}")

    def put(self, path, data, status=200, headers=None, **query):
        got, _, answer = self.ask(
            "POST", files(path=path, **query), data, {"Content-Type": "application/octet-stream", **(headers or {})}
        )
        equal(got, status, f"status of an upload to {path}: {answer[:300]}")
        return json.loads(answer)

    def put_with_metadata(self, path, data, **metadata):
        """An upload with metadata, which are given back; None where the session's kernel keeps none, and refuses it."""
        headers = {f"X-Metadata-{name}": value for name, value in metadata.items()}
        if differs("extended attributes") and not self.keeps_attributes():
            refused = self.put(path, data, 400, headers)
            has(refused["message"], "this kernel cannot keep file metadata")
            self.put(path, data)
            return None
        self.put(path, data, headers=headers)
        return metadata

    def keeps_attributes(self):
        """tmpfs has those of users since Linux 6.6; gVisor says that it is 4.4."""
        return tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", self.sh("uname -r")).groups()) >= (6, 6)

    def get(self, path, status=200, headers=None, method="GET", **query):
        got, heads, data = self.ask(method, files(path=path, **query), None, headers)
        equal(got, status, f"status of {path}: {data[:300]}")
        return heads, data

    def form(self, parts, status=200, headers=None, boundary="XBOUNDX", end=True, **query):
        body = b""
        for head, data in parts:
            body += f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"
        body += f"--{boundary}--\r\n".encode() if end else b""
        kind = f"multipart/form-data; boundary={boundary}"
        got, _, answer = self.ask("POST", files(**query), body, {"Content-Type": kind, **(headers or {})})
        equal(got, status, f"status of a form: {answer[:300]}")
        return json.loads(answer)

    def sh(self, line, **spec):
        done = self.server.run(self.id, line, **spec)
        equal(done["exit_code"], 0, f"{line}: {done['stderr']}")
        return done["stdout"]


def files(**query):
    return "/files?" + "&".join(f"{k}={quote(str(v), safe='')}" for k, v in query.items() if v is not None)


def box(server):
    global SANDBOX
    SANDBOX = SANDBOX or Sandbox(server)
    return SANDBOX


class Watch:
    """A WatchDir stream: messages as they come."""

    def __init__(self, b, path, timeout=None, headers=None, **more):
        self.socket = socket.create_connection(b.server.address, timeout=20)
        body = json.dumps({"path": path, **more}).encode()
        body = b"\0" + struct.pack(">I", len(body)) + body
        heads = b.headers({"Content-Type": "application/connect+json", "Host": "x", "Content-Length": str(len(body)), **(headers or {})})
        if timeout:
            heads["Connect-Timeout-Ms"] = str(timeout)
        lines = "".join(f"{k}: {v}\r\n" for k, v in heads.items())
        self.socket.sendall(f"POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\n{lines}\r\n".encode() + body)
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        equal(self.answer.status, 200, f"status of WatchDir {path}")
        equal(self.answer.getheader("content-type"), "application/connect+json", "type")

    def next(self):
        """(flags, message)."""
        head = self.answer.read(5)
        if len(head) < 5:
            raise EOFError
        flags, n = struct.unpack(">BI", head)
        return flags, json.loads(self.answer.read(n))

    def event(self):
        while True:
            flags, m = self.next()
            equal(flags, 0, f"flags of {m}")
            if "filesystem" in m:
                return m["filesystem"]

    def until(self, want, seconds=10):
        """The events up to one of this (type, name), each as (type, name)."""
        got, end = [], time.monotonic() + seconds
        while not got or got[-1] != want:
            v = self.event()
            got.append((v["type"][len("EVENT_TYPE_") :], v["name"]))
            check(time.monotonic() < end, f"{want} does not come: {got}")
        return got

    def close(self):
        self.answer.close()  # it holds the connection, too
        self.socket.close()


def chunked(b, path, kind, pieces):
    """Sends pieces as chunks, with pauses as the caller makes them; the socket, for the answer."""
    s = socket.create_connection(b.server.address, timeout=20)
    lines = "".join(f"{k}: {v}\r\n" for k, v in b.headers({"Content-Type": kind, "Transfer-Encoding": "chunked", "Host": "x"}).items())
    s.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode())
    for piece in pieces:
        s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    return s


def answer_of(s):
    answer = http.client.HTTPResponse(s)
    answer.begin()
    data = answer.read()
    s.close()
    return answer.status, json.loads(data)
