"""e2b.py - clients of E2B among those whose server is killed: sandboxes, streamed processes that are
joined again after a cut, transfers, sleep, time, watchers, ports, signed addresses."""
import base64
import http.client
import threading
import time
from urllib.parse import quote

from harness import Failed  # noqa: E402 (chaos.py has set the path)

from e2b_box import LONG, Cut, Process, Sandbox, Stream, WrongEnd
from e2b_files import BROKEN, FileClient


class Gone(Exception):
    """All have been killed since we looked."""


class Client(FileClient):
    def choices(self):
        often = [self.count, self.count, self.write, self.write, self.visit, self.read, self.health]
        often += [self.read_slowly, self.type_more, self.poll]
        return often + [self.create, self.late, self.stop_one, self.pause, self.wake, self.set_timeout, self.shorten,
                        self.info, self.listing, self.read_signed, self.write_signed, self.remove, self.kill, self.dead]

    # -- sandboxes

    def create(self):
        if len([s for s in self.mine if not s.lost_allowed]) >= 3:
            return self.kill() if self.random.random() < 0.5 else None
        short, auto = self.random.random() < 0.2, self.random.random() < 0.3
        spec = {"templateID": "base", "timeout": 8 if short else LONG, "metadata": {"worker": str(self.number)}}
        if auto:
            spec.update(autoPause=True, autoResume={"enabled": True})
        began = time.time()
        status, data = self.control("create", "POST", "/v2/sandboxes", spec)
        if status != 201:
            return self.unwanted()
        box = Sandbox(data, self, auto)
        box.expiring, box.ends_after = short and not auto, began + spec["timeout"]
        self.mine.append(box)
        with self.ledger.lock:
            self.ledger.sessions.append(box)
            self.server.ids.add(box.id)
        while short and not self.ledger.stop.is_set():  # what is given must be kept
            status = self.set_timeout(box)
            if status in (204, 404, 409):
                if status == 404 and time.time() < began + 8:
                    self.ledger.problem(f"{box.id} has ended too early")
                break
        return None

    def set_timeout(self, box=None):
        box, began = box or self.pick(), time.time()
        status, data = self.control("timeout", "POST", f"/sandboxes/{box.id}/timeout", {"timeout": LONG})
        if status == 204:
            box.expiring, box.ends_after = False, began + LONG
        elif status == 409 and box.asleep == "no" and not box.auto and not box.lost_allowed:
            self.ledger.problem(f"{box.id} takes no time: {data}")
        elif status == 404 and not box.lost_allowed:
            self.ledger.problem(f"{box.id}: {data}")
        return status

    def shorten(self):
        """It ends by itself, soon."""
        box = self.pick()
        if box.auto or self.random.random() < 0.5:
            return
        box.expiring = True
        status, _ = self.control("shorten", "POST", f"/sandboxes/{box.id}/timeout", {"timeout": 1})
        box.ends = status == 204

    def info(self):
        box = self.pick()
        mark = box.mark()
        status, data = self.control("info", "GET", f"/sandboxes/{box.id}")
        if status == 200:
            box.check_info(data)
            if box.mark() == mark and mark[1] != "maybe" and not box.auto:
                if data["state"] != ("paused" if mark[1] == "yes" else "running"):
                    raise Failed(f"{box.id} is {data['state']}, asleep {mark}")
        elif status not in BROKEN and not box.lost_allowed:
            raise Failed(f"{box.id}: {status} {data}")

    def listing(self):
        must = {s.id for s in self.mine if not s.lost_allowed}
        filter_ = quote(quote(f"worker={self.number}", safe="="), safe="")
        status, data = self.control("list", "GET", f"/v2/sandboxes?metadata={filter_}&limit=100")
        if status == 200:
            lost = must - {row["sandboxID"] for row in data} - {s.id for s in self.mine if s.lost_allowed}
            if lost or len(data) > 60:
                raise Failed(f"lists {len(data)}, without {lost}")

    def pause(self):
        box = self.pick()
        box.sleeps += 1
        before, box.asleep = box.asleep, "maybe"
        status, data = self.control("pause", "POST", f"/sandboxes/{box.id}/pause", {})
        if status == 204:
            box.asleep = "yes"
        elif status == 409 and before == "no":
            self.ledger.problem(f"{box.id} was awake: {data}")
        elif status == 404 and not box.lost_allowed:
            self.ledger.problem(f"{box.id}: {data}")

    def wake(self, box=None):
        asleep = [s for s in self.mine if not s.lost_allowed and s.asleep != "no"]
        box, began = box or (self.random.choice(asleep) if asleep else self.pick()), time.time()
        if box.asleep == "yes":
            box.asleep = "maybe"  # if there is no answer
        status, data = self.control("connect", "POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": LONG})
        if status in (200, 201):
            box.check_info(data)
            box.asleep, box.ends_after = "no", max(box.ends_after, began + LONG)
        elif status not in BROKEN and status != 409 and not box.lost_allowed:
            self.ledger.problem(f"{box.id} does not wake: {status} {data}")

    def pick(self):
        """One that lives; seldom one that may sleep."""
        box = super().pick()
        if box is None:
            raise Gone
        if box.asleep != "no" and not box.auto and self.random.random() < 0.7:
            self.wake(box)
        return box

    def wake_all(self):
        """Nobody: its followers do not wait, and what sleeps must still do so at the end."""

    def run_one(self, what):
        try:
            what()
        except Gone:
            pass

    def kill(self):
        box = self.pick()
        if self.random.random() < 0.5:
            return
        box.deleted = "asked"
        status, data = self.control("kill", "DELETE", f"/sandboxes/{box.id}")
        if status == 204:
            box.deleted = "done"
            self.dead(box)
        elif status == 404 and not box.killed and not box.expiring:
            self.ledger.problem(f"{box.id} was there: {data}")

    def dead(self, box=None):
        gone = [s for s in self.mine if s.deleted == "done"]
        box = box or (self.random.choice(gone) if gone else None)
        if box is not None:
            status, data = self.ledger.ask("e2b dead", "GET", "/health", headers=box.headers(), key=None, raw=True)
            if status not in (502, *BROKEN):
                self.ledger.problem(f"{box.id} was killed and is {status}")

    def health(self):
        self.envd("health", self.pick(), "GET", "/health", good=(204,))

    # -- processes

    def begin(self, p, timeout_ms=0):
        """Sends Start: the stream and its events after the first one, or (None, None)."""
        box, mark = p.box, p.box.mark()
        box.processes.append(p)
        self.ledger.started.set()
        try:
            stream = Stream(self.server, box, "Start", p.request(), timeout_ms)
        except (OSError, http.client.HTTPException) as e:
            self.broken("start", e)
            return None, None
        self.ledger.counts[f"e2b start {stream.status}"] += 1
        if stream.status != 200:
            if stream.status not in BROKEN:
                self.unexpected("start", box, mark, stream.status, stream.body)
            return None, None
        events = p.take(stream, True)
        try:
            event = next(events, None)
        except (Cut, TimeoutError) as e:
            self.broken("start", e)
            event = {}
        if event is None and ((stream.last or {}).get("error") or {}).get("code") == "unavailable":
            self.broken("start", stream.last)  # its PID 1 was killed
        elif event is None or (event and "start" not in event):
            self.ledger.problem(f"{p.marker} of {box.id} does not start: {event} {stream.last}")
        if not p.pid:
            stream.close()
            return None, None
        return stream, events

    def count(self):
        p = Process(self.pick(), self.marker(), "count", self.random.randrange(1, 60), self.random.choice([0, 0, 3]))
        stream, events = self.begin(p)
        if stream is None:
            return
        thread = threading.Thread(target=self.follow_all, args=(p, stream, events), daemon=True)
        thread.start()
        self.followers.append(thread)

    def follow_all(self, p, stream, events):
        try:
            self.follow(p, stream, events)
        except Exception as e:
            if not p.box.lost_allowed or isinstance(e, WrongEnd):
                self.ledger.problem(f"process {p.pid} ({p.marker}) of {p.box.id}: {type(e).__name__}: {e}")

    def follow(self, p, stream, events):
        """To its end, over as many connections as it takes."""
        box, until, generation, cut_at = p.box, time.monotonic() + 60, self.ledger.generation, time.monotonic()
        patience = self.random.choice([0.1, 0.5, 60, 60])  # some clients go away by themselves
        while time.monotonic() < until and not box.lost_allowed:
            if stream is not None:
                try:
                    for event in events:
                        if "end" in event:
                            cut_at = 0
                        elif time.monotonic() > cut_at + patience:
                            break
                        if self.ledger.stop.is_set() and box.asleep != "no":
                            return
                    if stream.last is not None:
                        return self.over(p, stream.last, cut_at == 0, generation)
                except Cut:
                    pass
                finally:
                    stream.close()
                patience = 60
            time.sleep(0.03)
            if self.ledger.stop.is_set() and box.asleep != "no":
                return None  # it is looked at when it is awake again
            stream, events = self.join_again(p)
        if not box.lost_allowed:
            self.ledger.problem(f"process {p.pid} ({p.marker}) of {box.id} never ends: line {p.seen} of {p.n}")
        return None

    def join_again(self, p):
        mark = p.box.mark()
        try:
            stream = Stream(self.server, p.box, "Connect", {"process": {"pid": p.pid}})
        except (OSError, http.client.HTTPException) as e:
            self.broken("join", e)
            return None, None
        self.ledger.counts[f"e2b join {stream.status}"] += 1
        if stream.status == 200:
            return stream, p.take(stream, False)
        if stream.status not in BROKEN:
            self.unexpected("join", p.box, mark, stream.status, stream.body)
        return None, None

    def over(self, p, last, ended, generation):
        """The last frame has come. Only who restarts forgets how a process ended."""
        if ended and "error" not in last:
            return
        code = last.get("error", {}).get("code")
        same = generation == self.ledger.generation and not generation % 2
        if code != "not_found" or (same and not self.ledger.upgrades):
            raise Failed(f"last frame {last}, end {ended}")
        while not self.ledger.stop.is_set():
            status, data = self.envd("ran", p.box, "GET", f"/files?path={p.path}", good=(200, 404))
            if status:
                if not p.signalled and not p.is_right(data.decode()):
                    raise Failed(f"not found, and has not ended: {data!r}")
                return

    def late(self):
        """Its time is over while nobody listens, or the server is dead."""
        stream, _ = self.begin(Process(self.pick(), self.marker(), "late"), self.random.choice([100, 1000]))
        if stream is not None:
            stream.close()

    def stop_one(self):
        box = self.pick()
        p = next((p for p in reversed(box.processes) if p.kind == "count" and p.pid), None)
        if p is not None and not p.signalled:
            p.signalled = True
            self.rpc("signal", box, "process.Process/SendSignal",
                     {"process": {"pid": p.pid}, "signal": "SIGNAL_SIGKILL"}, (200, 404))

    def type_more(self):
        box = self.pick()
        p = next((p for p in box.processes if p.kind == "typed" and p.pid), None)
        if p is None:
            stream, _ = self.begin(Process(box, self.marker(), "typed"))
            if stream is not None:
                stream.close()
            return
        p.sent += 1
        number, data = p.sent, base64.b64encode(f"{p.marker} {p.sent}\n".encode()).decode()
        message = {"process": {"pid": p.pid}, "input": {"stdin": data}}
        status, _ = self.rpc("type", box, "process.Process/SendInput", message)
        if status == 200:
            p.typed.add(number)

    # -- ports

    def visit(self):
        """A server inside: once it answers, it always does."""
        box = self.pick()
        if box.server is None:
            return self.serve(box)
        kind, n = self.random.choice("lc"), self.random.choice([1, 100, 30000])
        status, data = self.envd("visit", box, "GET", f"/{kind}{n}", port=box.server.n)
        if status and data != f"{box.server.marker}\n".encode() * n:
            self.ledger.problem(f"port of {box.id}: {len(data)} bytes, not {n} lines of {box.server.marker}")
        return None

    def serve(self, box):
        p = Process(box, self.marker(), "serve", 8000 + self.serial)
        stream, _ = self.begin(p)
        if stream is None:
            return
        stream.close()
        headers, until = box.headers(port=p.n), time.monotonic() + 10
        while time.monotonic() < until and box.asleep == "no" and not self.ledger.stop.is_set():
            status, _ = self.ledger.ask("e2b serve", "GET", "/l1", headers=headers, key=None, raw=True)
            if status == 200:
                box.server = p
                return
            if box.lost_allowed:
                return
            time.sleep(0.05)
