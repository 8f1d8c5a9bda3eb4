"""ledger.py - what clients were told, and the clients that write it down.

A worker is one client with sessions of its own. Whatever the server acknowledged is in its ledger: a
session by its 201, an execution by its 202 or 200, a file's content by its 200 or 201, an end by its
204. A request that broke off may have worked or not, and the ledger says so. Everything that a program
prints is known beforehand, so that a missing or doubled byte shows."""
import base64
import collections
import hashlib
import http.client
import os
import random
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
from streams import Ended, Events  # noqa: E402

PATIENCE = 20  # seconds that any one request may take, whatever is being killed


class Execution:
    def __init__(self, session, body, kind, out, err, code):
        self.id, self.session, self.kind = body["id"], session, kind
        self.out, self.err, self.code = out, err, code
        self.state = "failed" if kind == "missing" else "exited"


class Session:
    def __init__(self, session_id):
        self.id = session_id
        self.deleted = ""  # "", "asked" (nobody knows) or "done"
        self.killed = False  # its PID 1, by us
        self.ends = False  # by itself, and was told so
        self.reasons = {"deleted"}  # that it may have when it was not killed
        self.files = {}  # path: contents that it may have
        self.executions = []
        self.hung_until = 0.0  # monotonic: its PID 1 was stopped by us, and it may be slow

    def hangs(self):
        return time.monotonic() < self.hung_until

    @property
    def lost_allowed(self):
        return self.killed or self.deleted != ""


class Ledger:
    """Shared by all workers; problems are what must not be."""

    def __init__(self, server):
        self.server = server
        self.sessions, self.lock = [], threading.Lock()
        self.problems, self.counts = [], collections.Counter()
        self.started = threading.Event()  # an operation has just begun
        self.stop = threading.Event()
        self.upgrades = False  # the server may restart at any time, long after it was told to
        self.generation = 0  # of the server's processes; odd while one of them is being killed

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
        print("# PROBLEM", text, flush=True)

    def ask(self, name, method, path, body=None, **more):
        """(status, body), or (0, why) if there was no answer."""
        self.started.set()
        began = time.monotonic()
        try:
            status, _, data = self.server.request(method, path, body, timeout=PATIENCE, **more)
        except TimeoutError:
            self.problem(f"{method} {path}: no answer within {PATIENCE} s")
            status, data = 0, "timeout"
        except (OSError, http.client.HTTPException, ValueError) as e:
            status, data = 0, repr(e)
        took = time.monotonic() - began
        if took > 8:
            print(f"# slow: {method} {path}: {took:.1f} s, status {status}", flush=True)
        self.counts[f"{name} {status or 'broken'}"] += 1
        if status == 503:
            time.sleep(0.02)
        if status == 500:
            self.problem(f"{method} {path}: 500 {data}")
        return status, data


def program(random_, marker):
    """(kind, request, stdout, stderr, exit code): what it will say is known."""
    kind = random_.choice(["fast", "fast", "slow", "slow", "binary", "tty", "behind", "silent", "both", "missing"])
    if kind == "missing":
        return kind, {"argv": ["/no/such/program"]}, b"", b"", 127
    code = random_.choice([0, 0, 0, 1, 7, 255])
    n = random_.randrange(1, 60)
    if kind == "fast":
        n *= random_.choice([1, 100, 2000])
        line = f"i=0; while [ $i -lt {n} ]; do echo {marker} $i; i=$((i+1)); done; exit {code}"
        if n > 1000:
            line = f"seq -f '{marker} %.0f' 0 {n - 1}; exit {code}"
        return kind, {"command": line}, "".join(f"{marker} {i}\n" for i in range(n)).encode(), b"", code
    if kind == "slow":
        line = f"for i in $(seq {n}); do echo {marker} $i; sleep 0.0{random_.randrange(1, 6)}; done; exit {code}"
        return kind, {"command": line}, "".join(f"{marker} {i}\n" for i in range(1, n + 1)).encode(), b"", code
    if kind == "both":
        line = f"for i in $(seq {n}); do echo o{i_(marker)} $i; echo e{i_(marker)} $i >&2; sleep 0.01; done; exit {code}"
        out = "".join(f"o{i_(marker)} {i}\n" for i in range(1, n + 1)).encode()
        return kind, {"command": line}, out, out.replace(b"o", b"e"), code
    if kind == "tty":
        line = f"for i in $(seq {n}); do echo {marker} $i; sleep 0.01; done; exit {code}"
        out = "".join(f"{marker} {i}\r\n" for i in range(1, n + 1)).encode()
        return kind, {"command": line, "tty": {"rows": 24, "cols": 80}}, out, b"", code
    if kind == "behind":  # a child goes on when the program has ended
        line = f"(for i in $(seq {n}); do echo {marker} $i; sleep 0.02; done) & exit {code}"
        return kind, {"command": line}, "".join(f"{marker} {i}\n" for i in range(1, n + 1)).encode(), b"", code
    if kind == "binary":
        seed = hashlib.sha256(marker.encode()).digest() * (n * 16)
        text = base64.b64encode(seed[:32]).decode()
        line = f"printf %s {text} | base64 -d > /tmp/{marker}; for i in $(seq {n * 16}); do cat /tmp/{marker}; done; exit {code}"
        return kind, {"command": line}, seed, b"", code
    return kind, {"argv": ["/bin/sh", "-c", f"exit {code}"]}, b"", b"", code


def i_(marker):
    return marker.replace("o", "0").replace("e", "3")


class Worker(threading.Thread):
    def __init__(self, ledger, number, seed):
        super().__init__(daemon=True)
        self.ledger, self.server = ledger, ledger.server
        self.random = random.Random(f"{seed}/{number}")
        self.number, self.serial = number, 0
        self.mine, self.followers = [], []

    def choices(self):
        often = [self.wait, self.wait, self.spawn, self.spawn, self.spawn, self.follow, self.write, self.write]
        return often + [self.create, self.read, self.pause, self.resume, self.delete, self.kill_one]

    def run_one(self, what):
        what()

    def run(self):
        choices = self.choices()
        while not self.ledger.stop.is_set():
            live = [s for s in self.mine if not s.lost_allowed]
            try:
                self.run_one(self.create if len(live) < 2 else self.random.choice(choices))
            except Exception as e:  # a worker that dies would test nothing
                self.ledger.problem(f"worker {self.number}: {type(e).__name__}: {e}")
            time.sleep(self.random.choice([0, 0, 0.002, 0.01, 0.03]))
        self.wake_all()
        for thread in self.followers:
            thread.join(60)
            if thread.is_alive():
                self.ledger.problem("a follower of events does not come to an end")

    def wake_all(self):
        """Or followers would wait for what sleeps."""
        for s in self.mine:
            if not s.lost_allowed:
                self.resume(s)

    def ask(self, method, path, body=None, session=None, **more):
        status, data = self.ledger.ask(sys._getframe(1).f_code.co_name, method, path, body, **more)
        if session and status in (404, 410) and not session.lost_allowed:
            code = data["error"]["code"] if isinstance(data, dict) else data
            if code in ("not_found", "gone"):
                self.ledger.problem(f"{method} {path}: acknowledged session is {status}: {data}")
        return status, data

    def pick(self):
        live = [s for s in self.mine if not s.lost_allowed]
        return self.random.choice(live) if live else None

    def marker(self):
        self.serial += 1
        return f"w{self.number}x{self.serial}"

    def spec(self):
        spec = {"timeout": "1h", "metadata": {"worker": str(self.number)}}
        if self.random.random() < 0.3:
            spec["limits"] = {"memory": "200M"}  # not from the pool
        return spec

    def create(self):
        if len([s for s in self.mine if not s.lost_allowed]) >= 4:
            return self.delete()
        status, data = self.ask("POST", "/v1/sessions", self.spec())
        if status == 201:
            s = Session(data["id"])
            self.mine.append(s)
            with self.ledger.lock:
                self.ledger.sessions.append(s)
                self.server.ids.add(s.id)
        elif status in (0, 429):
            self.unwanted()

    def unwanted(self):
        """Ends those that were made and never acknowledged."""
        status, data = self.ask("GET", f"/v1/sessions?metadata.worker={self.number}&state=running&limit=100")
        for row in data["sessions"] if status == 200 else []:
            if row["id"] not in {s.id for s in self.mine}:
                self.ask("DELETE", f"/v1/sessions/{row['id']}")

    def wait(self):
        s = self.pick()
        kind, spec, out, err, code = program(self.random, self.marker())
        status, data = self.ask("POST", f"/v1/sessions/{s.id}/executions?wait=true&encoding=base64", spec, s)
        if status != 200:
            return
        x = Execution(s, data, kind, out, err, code)
        s.executions.append(x)
        if s.lost_allowed:
            return
        if (data["exit_code"], data["state"]) != (code, x.state):
            self.ledger.problem(f"{x.id} of {s.id} ({kind}): {data['exit_code']} {data['state']}, want {code}: {data}")
        got = base64.b64decode(data["stdout_base64"])
        if kind != "behind" and not data["inline_truncated"] and got != out:
            self.ledger.problem(f"{x.id} ({kind}): waited for {len(out)} bytes, got {len(got)}")

    def spawn(self):
        s = self.pick()
        kind, spec, out, err, code = program(self.random, self.marker())
        status, data = self.ask("POST", f"/v1/sessions/{s.id}/executions", spec, s)
        if status != 202:
            return None
        x = Execution(s, data, kind, out, err, code)
        s.executions.append(x)
        return x

    def follow(self):
        x = self.spawn()
        if x is not None:
            thread = threading.Thread(target=self.read_events, args=(x,), daemon=True)
            thread.start()
            self.followers.append(thread)

    def read_events(self, x):
        """Every byte once, over as many connections as it takes."""
        path, after, seen = f"/v1/sessions/{x.session.id}/executions/{x.id}/events", None, b""
        offset, ended, over, until = 0, False, False, time.monotonic() + 50
        while not over and time.monotonic() < until:
            try:
                with Events(self.server, path, after=after, timeout=20) as events:
                    for event in events:
                        after = event.id or after
                        if event.name == "stdout":
                            if event.data["offset"] != offset:
                                self.ledger.problem(f"{x.id}: event at {event.data['offset']}, want {offset}")
                                return
                            seen += event.output
                            offset += len(event.output)
                        ended = event.data["execution"] if event.name == "exit" else ended
                    over = True
            except (OSError, AssertionError, Ended, ValueError, IndexError):
                time.sleep(0.05)
        if x.session.lost_allowed or x.code is None:
            if not x.out.startswith(seen):
                self.ledger.problem(f"{x.id} ({x.kind}): events gave what was never said")
        elif not ended or seen != x.out:
            self.ledger.problem(f"{x.id} ({x.kind}): events gave {len(seen)} of {len(x.out)} bytes, ended {ended}")

    def write(self):
        s = self.pick()
        path = f"/home/user/f{self.random.randrange(4)}"
        content = (self.marker() + "\n").encode() * self.random.choice([1, 10, 20000])
        before = s.files.get(path, {None})
        s.files[path] = before | {content}
        status, _ = self.ask("PUT", f"/v1/sessions/{s.id}/files?path={path}", content, s)
        if status in (200, 201):
            s.files[path] = {content}

    def read(self):
        s = self.pick()
        if not s.files:
            return
        path, may = self.random.choice(sorted(s.files.items(), key=lambda i: i[0]))
        status, data = self.ask("GET", f"/v1/sessions/{s.id}/files?path={path}", None, s, raw=True)
        if status == 200 and data not in may:
            self.ledger.problem(f"{path} of {s.id}: {len(data)} bytes that nobody wrote")

    def pause(self):
        self.ask("POST", f"/v1/sessions/{(s := self.pick()).id}/pause", None, s)

    def resume(self, s=None):
        s = s or self.pick()
        self.ask("POST", f"/v1/sessions/{s.id}/resume", None, s)

    def kill_one(self):
        s = self.pick()
        running = [x for x in s.executions[-3:] if x.kind == "slow"]
        if running and self.random.random() < 0.3:
            x = running[-1]
            x.code = None  # killed, or ended before
            self.ask("DELETE", f"/v1/sessions/{s.id}/executions/{x.id}", None, s)

    def delete(self):
        s = self.pick()
        s.deleted = "asked"
        status, _ = self.ask("DELETE", f"/v1/sessions/{s.id}", None, s)
        if status == 204:
            s.deleted = "done"
