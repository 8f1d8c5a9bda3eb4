"""fake.py - enough of the API to test the client against: commands are run on this machine, files are in a
folder. It can be told to break connections, to answer with errors, and to say what would move a terminal.
Not a model of the server: tests/client/test_client.py runs against that one."""
import base64
import hashlib
import http.server
import io
import json
import os
import signal
import socket
import socketserver
import struct
import subprocess
import tarfile
import threading
import time
import urllib.parse

KEY = "e2b_" + "0123456789" * 4
DENIED = []  # of the executions, as a test sets it
EVIL = "evil\x1b[31m\x07\u009b\x7f"


class Execution:
    """One command; its output is a list of pieces in the order in which they came."""

    def __init__(self, spec, folder):
        self.log, self.changed, self.exit = [], threading.Condition(), None
        self.streams = 2
        self.spec = spec
        try:
            self.process = subprocess.Popen(spec["argv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, cwd=folder, start_new_session=True,
                                            env={**spec.get("env", {}), "PATH": os.environ["PATH"]})
        except FileNotFoundError:
            self.exit, self.streams = 127, 0
            return
        if not spec.get("stdin_stream"):
            self.process.stdin.close()
        for channel, stream in ((1, self.process.stdout), (2, self.process.stderr)):
            threading.Thread(target=self.read, args=(channel, stream), daemon=True).start()

    def read(self, channel, stream):
        while True:
            data = os.read(stream.fileno(), 8192)
            with self.changed:
                if data:
                    self.log.append((channel, data))
                else:
                    self.streams -= 1
                    if self.streams == 0:
                        code = self.process.wait()
                        self.exit = 128 - code if code < 0 else code
                self.changed.notify_all()
            if not data:
                return

    def wait(self, at):
        """The piece at this place, or None at the end."""
        with self.changed:
            self.changed.wait_for(lambda: at < len(self.log) or self.exit is not None)
            return self.log[at] if at < len(self.log) else None

    def shape(self, name, session):
        return {"id": name, "session_id": session, "state": "running" if self.exit is None else "exited",
                "command": " ".join(self.spec["argv"]) + EVIL, "tty": False, "exit_code": self.exit,
                "user": "user", "limit": None, "error": None, "denied": DENIED, "started_at": "2026-11-15T04:51:51.123Z",
                "wall_ms": 5, "output_open": False}


class Fake(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.sessions, self.executions, self.requests = folder, {}, {}, []
        self.failing = None    # (status, code) of every answer
        self.break_after = []  # pieces of output after which each next attach is broken off
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # connections that break are what this is for


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, value=None, kind="application/json", headers=()):
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, text in headers:
            self.send_header(name, text)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def fail(self, status, code, message):
        self.answer(status, {"error": {"code": code, "message": message, "fault": "user", "session_id": None,
                                       "request_id": "req_1" + EVIL}})

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while n := int(self.rfile.readline(), 16):
                data += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        parts = [urllib.parse.unquote(p) for p in url.path.strip("/").split("/")]
        if "ttach" in url.path and self.headers.get("Upgrade"):
            data = b""
        else:
            data = self.body()
        self.server.requests.append((self.command, url.path, self.query, data))
        if self.headers.get("Authorization") != "Bearer " + KEY:
            return self.fail(401, "unauthorized", "no")
        if self.server.failing is not None:
            return self.fail(*self.server.failing, "it fails")
        try:
            self.route(parts[1:], data)
        except KeyError:
            self.fail(404, "not_found", "no such thing " + EVIL)
        except FileNotFoundError:
            self.fail(404, "file_not_found", "no such file")

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def route(self, parts, data):
        server = self.server
        if parts == ["sessions"] and self.command == "POST":
            name = "ses_%016x" % (len(server.sessions) + 0x1a00)
            spec = json.loads(data)
            server.sessions[name] = {
                "id": name, "state": "running", "reason": None, "template": spec.get("template", "host"),
                "created_at": "2026-11-15T04:51:51.123Z", "expires_at": None, "ended_at": None, "executions_running": 0,
                "metadata": spec.get("metadata", {}), "limits": {"memory_bytes": 1 << 30, "pids": 9}}
            return self.answer(201, server.sessions[name])
        if parts == ["sessions"]:
            ended = {"true": True, "false": False}.get(self.query.get("ended"))
            return self.list([s for s in server.sessions.values() if s["state"] in self.query.get("state", s["state"]) and
                              ended in (None, s["ended_at"] is not None)])
        if parts == ["node"]:
            return self.answer(200, {"version": EVIL, "pool": {"size": 3, "ready": 2}})
        if parts == ["keys"]:
            return self.answer(201, {"id": "key_1", "key": "e2b_x", **json.loads(data)})
        session = server.sessions[parts[1]]
        rest = parts[2:]
        if not rest and self.command == "DELETE":
            session.update(state="ended", reason="deleted", ended_at="2026-11-15T04:51:59.123Z")
            return self.answer(204)
        if not rest or rest[0] in ("pause", "resume", "timeout"):
            paused = "stopped" if data and not json.loads(data).get("memory", True) else "paused"
            session["state"] = {"pause": paused}.get(rest[0] if rest else "", session["state"])
            return self.answer(200, session)
        if rest[0] == "metrics":
            return self.answer(200, {"now": {"cpu_ms": int(time.monotonic() * 500), "memory_bytes": 2048,
                                             "pids": 3, "disk_bytes": 0}})
        if rest == ["network", "log"]:
            return self.answer(200, {"records": [{"seq": 1, "time": EVIL, "kind": "request", "allowed": False, "name": EVIL, "path": "/" + EVIL,
                                                  "method": EVIL, "rule": EVIL + "\u202etxt", "reason": EVIL}], "next": None})
        if rest == ["diff"]:
            return self.answer(200, {"truncated": False, "changes": [
                {"kind": "added", "path": path, "mode": "0644", "size": 1} for path in
                ("/home/user/p", "/home/user/p/a.c", "/home/user/p/.git/x/y", "/home/user/pq", "/tmp/t.pyc", "/tmp/" + EVIL)]})
        if rest == ["fork"]:
            return self.answer(201, {"sessions": [{"id": EVIL}], "errors": []})
        if rest[0] == "files":
            return self.files(rest[1:], data)
        if rest[0] == "executions":
            return self.executions(parts[1], rest[1:], data)
        raise KeyError

    def list(self, items):
        """Two to a page."""
        at = int(self.query.get("after", 0))
        self.answer(200, {"sessions": items[at:at + 2], "next": str(at + 2) if at + 2 < len(items) else None})

    def executions(self, session, rest, data):
        server = self.server
        if not rest and self.command == "POST":
            name = "exe_%016x" % (len(server.executions) + 0xb00)
            server.executions[name] = Execution(json.loads(data), server.folder)
            return self.answer(202, server.executions[name].shape(name, session))
        if not rest:
            return self.answer(200, {"executions": [x.shape(n, session) for n, x in server.executions.items()],
                                     "next": None})
        x = server.executions[rest[0]]
        if len(rest) == 1:
            return self.answer(200, x.shape(rest[0], session))
        if rest[1] == "attach":
            return self.attach(rest[0], session, x)
        if rest[1] == "output":
            while x.wait(len(x.log)):
                pass
            want = {"stdout": (1,), "stderr": (2,), "result": ()}.get(self.query["stream"], (1, 2))
            return self.answer(200, b"".join(d for c, d in x.log if c in want), "application/octet-stream")
        if rest[1] == "events":
            return self.events(rest[0], session, x)
        raise KeyError

    # ---- streams

    def events(self, name, session, x):
        at = int(self.query.get("after", 0))
        limit = self.server.break_after.pop(0) if self.server.break_after else None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := x.wait(at):
            if limit == 0:
                self.close_connection = True
                return
            limit = None if limit is None else limit - 1
            at += 1
            try:
                value = {"offset": 0, "text": piece[1].decode()}
            except UnicodeDecodeError:
                value = {"offset": 0, "base64": base64.b64encode(piece[1]).decode()}
            self.event("stdout" if piece[0] == 1 else "stderr", at, value)
        self.event("exit", at, {"execution": x.shape(name, session)})
        self.close_connection = True

    def event(self, name, at, value):
        self.wfile.write(b": hello\nevent: %s\nid: %d\ndata: %s\n\n" % (name.encode(), at, json.dumps(value).encode()))
        self.wfile.flush()

    def attach(self, name, session, x):
        accept = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode())
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept.digest()).decode())
        self.end_headers()
        self.close_connection = True
        threading.Thread(target=self.hear, args=(x,), daemon=True).start()
        at = int(self.query.get("after", 0))
        limit = self.server.break_after.pop(0) if self.server.break_after else None
        self.text({"type": "start", "cursor": at})
        while piece := x.wait(at):
            if limit == 0:
                return self.connection.shutdown(socket.SHUT_RDWR)
            limit = None if limit is None else limit - 1
            at += 1
            self.frame(2, bytes([piece[0]]) + piece[1])
            if at % 3 == 0:
                self.text({"type": "note", "cursor": at})
        self.text({"type": "exit", "execution": x.shape(name, session), "cursor": at})
        self.frame(8, struct.pack(">H", 1000))
        self.connection.shutdown(socket.SHUT_RDWR)

    def text(self, value):
        self.frame(1, json.dumps(value).encode())

    def frame(self, kind, data):
        n = len(data)
        head = bytes([n]) if n < 126 else struct.pack(">BH", 126, n)
        self.wfile.write(bytes([0x80 | kind]) + head + data)
        self.wfile.flush()

    def hear(self, x):
        """What the client sends: input, orders."""
        while True:
            try:
                first = self.rfile.read(2)
            except (OSError, ValueError):
                return
            if len(first) < 2:
                return
            n = first[1] & 127
            if n == 126:
                n = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(n)))
            kind = first[0] & 15
            try:
                if kind == 2:
                    x.process.stdin.write(data)
                    x.process.stdin.flush()
                elif kind == 1:
                    self.obey(x, json.loads(data))
                elif kind == 8:
                    return
            except (OSError, ValueError, AttributeError):
                pass  # it has ended, or never began

    def obey(self, x, order):
        if order["type"] == "eof":
            x.process.stdin.close()
        elif order["type"] == "signal":
            os.killpg(x.process.pid, getattr(signal, "SIG" + order["signal"]))

    # ---- files

    def files(self, rest, data):
        if rest == ["mkdir"]:
            os.makedirs(os.path.join(self.server.folder, json.loads(data)["path"]), exist_ok=True)
            return self.answer(201, {})
        path = os.path.join(self.server.folder, self.query["path"])
        if rest == ["stat"]:
            return self.answer(200, {"type": "directory" if os.path.isdir(path) else "file",
                                     "size": os.stat(path).st_size})
        if rest == ["tar"] and self.command == "PUT":
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                archive.extractall(path)
            return self.answer(200, {"files": 1, "skipped": 0})
        if rest == ["tar"] and os.path.exists(path + "/evil.tar"):
            with open(path + "/evil.tar", "rb") as f:
                return self.answer(200, f.read(), "application/x-tar")
        if rest == ["tar"]:
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for name in sorted(os.listdir(path)):
                    archive.add(os.path.join(path, name), name)
            return self.answer(200, out.getvalue(), "application/x-tar")
        if self.command == "PUT":
            with open(path, "wb") as f:
                f.write(data)
            os.chmod(path, int(self.query.get("mode", "0644"), 8))
            return self.answer(201, {"path": path})
        with open(path, "rb") as f:
            return self.answer(200, f.read(), "application/octet-stream",
                               [("X-Cordon-Mode", "%04o" % (os.stat(path).st_mode & 0o7777))])
