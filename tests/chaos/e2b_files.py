"""e2b_files.py - how clients of E2B ask, and the part of them that moves files and watches folders. A
file is whole or unchanged, whatever dies meanwhile; what was acknowledged is there."""
import gzip
import json
import time

from harness import Failed  # noqa: E402 (chaos.py has set the path)
from ledger import PATIENCE, Worker  # noqa: E402
from streams import Ended, Wire

from e2b_box import HOME

BROKEN = (0, 503)  # no answer, or "try again"
RAW = {"Content-Type": "application/octet-stream"}
FORM = {"Content-Type": "multipart/form-data; boundary=XYZ"}
PART = b'--XYZ\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n'


class Slowly:
    """A body that takes its time."""

    def __init__(self, data, random_):
        self.left, self.step = data, max(1, len(data) // random_.choice([1, 5, 50]))

    def read(self, _):
        piece, self.left = self.left[: self.step], self.left[self.step :]
        if self.left:
            time.sleep(0.02)
        return piece


class FileClient(Worker):
    # -- asking

    def control(self, name, method, path, body=None):
        return self.ledger.ask("e2b " + name, method, path, body)

    def envd(self, name, box, method, path, body=None, headers=None, good=(200,), port=None, bare=False):
        """(status, body as bytes) from inside a sandbox; status 0 unless it is a good one. Whatever it
        must not be is a problem."""
        mark = box.mark()
        sent = dict(headers or {}) if bare else box.headers(headers, **({"port": port} if port else {}))
        status, data = self.ledger.ask("e2b " + name, method, path, body, headers=sent, key=None, raw=True)
        if status in good and box.was_asleep(mark):
            self.ledger.problem(f"e2b {name} of {box.id}: {status}, but it is asleep")
        if status in good or status in BROKEN:
            return (status if status in good else 0), data
        self.unexpected(name, box, mark, status, data)
        return 0, data

    def unexpected(self, name, box, mark, status, data):
        # 401: a signature names nobody any more; 409: it falls asleep.
        if not (status in (401, 502, 409) and not box.was_up(mark)):
            self.ledger.problem(f"e2b {name} of {box.id} ({box.mark()}): {status} {data[:300]}")

    def rpc(self, name, box, method, message, good=(200,)):
        status, data = self.envd(name, box, "POST", "/" + method, json.dumps(message).encode(),
                                 {"Content-Type": "application/json"}, good)
        return status, json.loads(data) if status else None

    def broken(self, name, e):
        self.ledger.counts[f"e2b {name} broken"] += 1
        if isinstance(e, TimeoutError):
            self.ledger.problem(f"e2b {name}: nothing for {PATIENCE} s")

    # -- files

    def names(self):
        return [f"{HOME}/e{i}" for i in self.random.sample(range(4), self.random.choice([1, 1, 2]))]

    def write(self, signed=False):
        box, names = self.pick(), self.names()
        new = {name: (self.marker() + "\n").encode() * self.random.choice([1, 10, 50000, 300000]) for name in names}
        form = len(new) > 1 and not signed
        if form:
            body, headers, path = b"".join(PART % (n.encode(), d) for n, d in new.items()), dict(FORM), "/files"
            body += b"--XYZ--\r\n"
        else:
            new = {names[0]: new[names[0]]}
            body, headers, path = new[names[0]], dict(RAW), f"/files?path={names[0]}&username=user"
        if not form and self.random.random() < 0.3:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        if self.random.random() < 0.5:
            headers["Content-Length"] = str(len(body))  # else it is chunked
        before = {name: box.files.get(name, {None}) for name in new}
        for name, data in new.items():
            box.files[name] = before[name] | {data}
        if signed:
            path = box.signed(names[0], "write")
        status, _ = self.envd("write", box, "POST", path, Slowly(body, self.random), headers, bare=signed)
        if status == 200:
            box.files.update({name: {data} for name, data in new.items()})

    def write_signed(self):
        self.write(signed=True)

    def remove(self):
        box, name = self.pick(), self.names()[0]
        box.files[name] = box.files.get(name, {None}) | {None}
        if self.rpc("remove", box, "filesystem.Filesystem/Remove", {"path": name})[0]:
            box.files[name] = {None}

    def one_file(self):
        box = self.pick()
        name = self.random.choice(sorted(box.files)) if box.files else None
        return box, name, box.files.get(name)

    def got(self, box, name, may, status, data):
        if status and (data if status == 200 else None) not in may:
            self.ledger.problem(f"{name} of {box.id}: {status}, {len(data)} bytes that nobody wrote: {data[:60]}")

    def read(self):
        box, name, may = self.one_file()
        if name is not None:
            self.got(box, name, may, *self.envd("read", box, "GET", f"/files?path={name}", good=(200, 404)))

    def read_signed(self):
        box, name, may = self.one_file()
        if name is not None:
            path = box.signed(name, "read")
            self.got(box, name, may, *self.envd("signed", box, "GET", path, good=(200, 404), bare=True))

    def read_slowly(self):
        """So slowly that it is cut off: then it must be seen."""
        box, name, may = self.one_file()
        if name is None:
            return
        data = b""
        self.ledger.started.set()
        try:
            with Wire(self.server, f"/files?path={name}", box.headers(), receive_buffer=4096, timeout=PATIENCE) as wire:
                left = int(wire.headers["content-length"]) if wire.status == 200 else 0
                while len(data) < left:
                    data += wire.exactly(min(65536, left - len(data)))
                    time.sleep(0.005)
                self.ledger.counts[f"e2b slowly {wire.status}"] += 1
        except (OSError, Ended) as e:
            return self.broken("slowly", e)
        if wire.status in (200, 404):
            self.got(box, name, may, wire.status, data)
        return None

    # -- watchers

    def poll(self):
        """What was written since is told, unless a restart has forgotten the watcher."""
        box = self.pick()
        if box.watch is None:
            self.new_watcher(box)
        if box.watch is None:
            return
        watch, folder, generation, names = box.watch
        name = self.marker()
        status, _ = self.envd("watched", box, "POST", f"/files?path={folder}/{name}", b"x", RAW)
        names += [(name, time.monotonic(), box.mark())] if status else []
        status, data = self.rpc("poll", box, "filesystem.Filesystem/GetWatcherEvents", {"watcherId": watch}, (200, 404))
        if status == 404:
            box.watch = None
            if generation == self.ledger.generation and not generation % 2 and not box.lost_allowed:
                raise Failed(f"watcher {watch} of {box.id}: {data}, and nothing was restarted")
        elif status == 200:
            told = {event["name"] for event in data.get("events", [])}
            names = [n for n in names if n[0] not in told and n[2] == box.mark()]  # asleep it needs longer
            box.watch = (watch, folder, generation, names)
            if names and names[0][1] < time.monotonic() - 5 and not box.lost_allowed:
                raise Failed(f"watcher {watch} of {box.id} does not tell of {names}")
        else:
            box.watch = None  # an answer that nobody heard has taken them

    def new_watcher(self, box):
        folder, generation = f"{HOME}/watch.{self.marker()}", self.ledger.generation
        if self.rpc("folder", box, "filesystem.Filesystem/MakeDir", {"path": folder}, (200, 409))[0]:
            status, data = self.rpc("watcher", box, "filesystem.Filesystem/CreateWatcher", {"path": folder})
            box.watch = (data["watcherId"], folder, generation, []) if status else None
