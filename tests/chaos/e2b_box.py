"""e2b_box.py - a sandbox and its processes as a client of E2B knows them: what it was told, and how
that is compared with what is there."""
import base64
import hashlib
import http.client
import json
import re
import struct
from datetime import datetime
from urllib.parse import quote

from harness import Failed, check, wait_for  # noqa: E402 (chaos.py has set the path)
from ledger import PATIENCE, Session

HOME = "/home/user"
ENVD = 49983
LONG = 3600  # seconds that most of them live
SERVER = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        kind, n = self.path[1], int(self.path[2:])
        line = (sys.argv[1] + chr(10)).encode()
        self.send_response(200)
        self.send_header(*(('Transfer-Encoding', 'chunked') if kind == 'c' else ('Content-Length', str(n * len(line)))))
        self.end_headers()
        while n > 0:
            piece = line * min(n, 4000)
            n -= 4000
            self.wfile.write(b'%x\\r\\n%s\\r\\n' % (len(piece), piece) if kind == 'c' else piece)
            time.sleep(0.01)
        if kind == 'c':
            self.wfile.write(b'0\\r\\n\\r\\n')
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[2])), Handler).serve_forever()
"""


class Cut(Exception):
    """A stream that ended without its last frame."""


class WrongEnd(Failed):
    """An end that the process did not have. If its sandbox dies, streams are cut off: an end would
    tell the client that all is well."""


class Stream:
    """The answer of a call that streams. Keepalives come every second, so that silence is a fault
    whatever the process does."""

    def __init__(self, server, box, method, message, timeout_ms=0):
        raw = json.dumps(message).encode()
        headers = box.headers({"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
        headers["Keepalive-Ping-Interval"] = "1"
        if timeout_ms:
            headers["Connect-Timeout-Ms"] = str(timeout_ms)
        self.link, self.answer, self.last = server.link(PATIENCE), None, None
        try:
            self.link.request("POST", f"/process.Process/{method}", b"\0" + struct.pack(">I", len(raw)) + raw, headers)
            self.answer = self.link.getresponse()
            self.status = self.answer.status
            self.body = b"" if self.status == 200 else self.answer.read()
        except BaseException:
            self.close()
            raise

    def read(self, n):
        try:
            got = self.answer.read(n)
        except TimeoutError:
            raise
        except (http.client.HTTPException, OSError) as e:
            raise Cut(repr(e)) from e
        if len(got) < n:
            raise Cut(f"{len(got)} of {n} bytes")
        return got

    def __iter__(self):
        """Events; when they end, last is the last frame."""
        while True:
            flags, n = struct.unpack(">BI", self.read(5))
            message = json.loads(self.read(n))
            if flags:
                check(flags == 2 and not self.answer.read(), f"something follows the last frame {message}")
                self.last = message
                return
            yield message["event"]

    def close(self):
        if self.answer is not None:
            self.answer.close()
        self.link.close()


class Process:
    """One that says how often it ran: a file has a line when it begins, and one at its end."""

    def __init__(self, box, marker, kind, n=0, code=0):
        self.box, self.marker, self.kind, self.n, self.code = box, marker, kind, n, code
        self.pid = 0  # until we were told
        self.seen = 0  # the last line
        self.signalled = False  # asked for
        self.sent, self.typed = 0, set()  # pieces of input: tried, acknowledged

    @property
    def path(self):
        return f"{HOME}/ran.{self.marker}"

    def request(self):
        begin, end = f"echo begin $$ >> {self.path}", f"echo end $$ >> {self.path}"
        middle = {
            "count": f"i=0; while [ $i -lt {self.n} ]; do i=$((i+1)); echo {self.marker} $i; sleep 0.03; done",
            "late": "sleep 600",
            "typed": f"cat > {HOME}/typed.{self.marker}",
            "serve": "",
        }[self.kind]
        line = f"{begin}; {middle}; {end}; exit {self.code}"
        args = ["-c", line]
        if self.kind == "serve":
            args = ["-c", f"{begin}; exec /usr/bin/python3 -c \"$0\" {self.marker} {self.n}", SERVER]
        return {"process": {"cmd": "/bin/sh", "args": args}, "stdin": self.kind == "typed", "tag": self.marker}

    def take(self, stream, first):
        """The events of one stream, checked: every line follows the one before it."""
        text, end, joined = b"", None, not first
        for event in stream:
            if "start" in event:
                if self.pid and event["start"]["pid"] != self.pid:
                    raise Failed(f"process {self.pid} is now {event}")
                self.pid = event["start"]["pid"]
            elif "data" in event:
                text += base64.b64decode(event["data"].get("stdout", ""))
                *lines, text = text.split(b"\n")
                for line in lines:
                    found = re.fullmatch(rb"%s (\d+)" % self.marker.encode(), line)
                    number = int(found[1]) if found else 0
                    # Who joins hears nothing of what was said before, not even the first half of a line.
                    if number != self.seen + 1 and not (joined and (not found or number > self.seen)):
                        raise Failed(f"line {line!r} after {self.seen}")
                    joined = joined and not found
                    self.seen = number or self.seen
            elif "end" in event:
                end = event["end"]
            yield event
        if end is not None and not self.signalled and self.kind == "count":
            if end.get("exitCode", 0) != self.code or not end.get("exited"):
                raise WrongEnd(f"ended as {end}, want {self.code}")
            if self.seen != self.n and not joined:
                raise Failed(f"ended after line {self.seen} of {self.n}")

    def is_right(self, text):
        """Of its file: it ran once, as the pid that we were told, to its end."""
        pid = str(self.pid) if self.pid else r"(\d+)"
        end = "" if self.kind in ("late", "serve") else rf"end {pid if self.pid else chr(92) + '1'}\n"
        if self.signalled:
            end = f"({end})?"
        return re.fullmatch(rf"begin {pid}\n{end}", text) is not None

    def check(self, server):
        def read():
            status, _, data = server.request("GET", f"/v1/sessions/{self.box.id}/files?path={self.path}", raw=True)
            return data.decode() if status == 200 else ""

        if not self.pid and not read():
            return  # nobody was told that it would
        if (self.signalled or self.kind == "late") and not read():
            return  # its end may come before its first line
        try:
            wait_for(lambda: self.is_right(read()), 15, "its end", step=0.1)
        except Failed as e:
            raise Failed(f"process {self.pid} ({self.kind} {self.marker}) of {self.box.id}: {e}: {read()!r}") from None
        if self.kind == "typed":
            path = f"/v1/sessions/{self.box.id}/files?path={HOME}/typed.{self.marker}"
            lines = server.want(200, "GET", path, raw=True).decode().split("\n")
            got = [int(line.rsplit(" ", 1)[1]) for line in lines[:-1]]
            good = got == sorted(set(got)) and self.typed <= set(got) and max([0, *got]) <= self.sent
            check(good, f"{self.marker} of {self.box.id} was typed {sorted(self.typed)}, got {got}")


class Sandbox(Session):
    def __init__(self, made, worker, auto):
        super().__init__(made["sandboxID"])
        self.token, self.worker, self.auto = made["envdAccessToken"], worker, auto
        self.reasons = {"deleted", "expired"}
        self.expiring = False  # it may end by itself
        self.ends_after = 0.0  # unix time that was acknowledged
        self.asleep, self.sleeps = "no", 0  # or "maybe" or "yes"; how often that was tried
        self.processes, self.server = [], None
        self.watch = None  # (id, folder, generation, names that it must tell of)

    @property
    def lost_allowed(self):
        return self.killed or self.deleted != "" or self.expiring

    def headers(self, more=None, port=ENVD):
        sent = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), **(more or {})}
        return {**sent, "X-Access-Token": self.token} if port == ENVD else sent

    def mark(self):
        return self.sleeps, self.asleep

    def was_up(self, mark):
        """Since the mark it must have answered."""
        awake = mark == (self.sleeps, "no") and self.asleep == "no"
        return (awake or self.auto) and not self.lost_allowed and not self.hangs()

    def was_asleep(self, mark):
        return mark == self.mark() and self.asleep == "yes" and not self.auto

    def signed(self, path, operation):
        raw = f"{path}:{operation}:user:{self.token}".encode()
        signature = "v1_" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
        return f"/files?path={quote(path, safe='')}&username=user&signature={quote(signature, safe='')}"

    def check_info(self, data):
        """Of GET, connect or create: who it is does not change."""
        if data.get("envdAccessToken") != self.token:
            raise Failed(f"{self.id}: token {data.get('envdAccessToken')}, was {self.token}")
        if "endAt" in data and not self.lost_allowed:
            end = datetime.fromisoformat(data["endAt"]).timestamp()
            if end < self.ends_after - 2:
                raise Failed(f"{self.id} ends at {data['endAt']}, {self.ends_after - end:.0f} s too early")

    # -- when nobody kills any more

    def finish(self, server, row):
        """Compares it with what it must be; row: of the session, resumed if it was paused."""
        path = f"/sandboxes/{self.id}"
        health = server.request("GET", "/health", key=None, headers=self.headers())[0]
        if row["state"] == "ended":
            status = server.request("POST", f"/v2{path}/connect", {})[0]
            check((health, status) == (502, 404), f"{self.id} has ended: health {health}, connect {status}")
            return
        check(health == 204, f"{self.id}: health {health}")
        self.check_info(server.want(200, "GET", path))
        self.check_info(server.want(200, "POST", f"/v2{path}/connect", {"timeout": LONG}))
        if self.server is not None:
            status, _, data = server.request("GET", "/l3", key=None, headers=self.headers(port=self.server.n), raw=True)
            want = f"{self.server.marker}\n".encode() * 3
            check((status, data) == (200, want), f"{self.id}: port {self.server.n}: {status} {data[:200]}")
        typed = [p for p in self.processes if p.kind == "typed"]
        for p in typed:
            body = {"process": {"tag": p.marker}}
            server.request("POST", "/process.Process/CloseStdin", body, key=None, headers=self.headers())
        for p in self.processes:
            p.check(server)
        self.check_list(server)

    def check_list(self, server):
        """Nothing runs but the server."""

        def left():
            body = server.want(200, "POST", "/process.Process/List", {}, key=None, headers=self.headers())
            return [p for p in body.get("processes", []) if "SERVER" not in str(p) and "http.server" not in str(p)]

        wait_for(lambda: not left(), 10, f"end of processes {left()} of {self.id}", step=0.1)
