"""model_native.py - clients of the native interface that use every route of sessions, executions and files. Each knows
what it wrote and what its programs will say; a request without an answer leaves both possibilities in the ledger."""
import hashlib
import io
import tarfile
import threading
import time
from urllib.parse import quote

from ledger import Execution, Worker  # noqa: E402 (model.py has set the path)
from streams import Attached, Ended, Events

HOME = "/home/user"
WATCH_S = 20  # for a change to be told
CUT = (OSError, Ended, AssertionError, ValueError, IndexError)
POLICIES = ["deny", {"version": 1, "rules": [{"host": "web.example"}]}, {"version": 1, "rules": [{"host": "*.example", "paths": ["/a/**"]}]}]


class NativeClient(Worker):
    def __init__(self, tenant, number, seed):
        super().__init__(tenant.ledger, number, seed)
        self.tenant = tenant

    def choices(self):
        often = [self.type_input, self.attach, self.signal, self.tar_in, self.tar_out, self.move, self.lists]
        return super().choices() + often + [
            self.remove, self.stat_and_list, self.watch, self.diff, self.look, self.policy, self.events, self.set_timeout,
            self.secret_is_there, self.rotate, self.leave_open]

    def run_one(self, what):
        """There may be none to use: all were killed, or none can be made."""
        if what in (self.create, self.unwanted) or self.pick() is not None:
            what()

    # -- sessions

    def spec(self):
        spec = super().spec()
        if self.random.random() < 0.15:
            name = self.random.choice(sorted(self.tenant.values))
            way = self.random.choice([{"as": "env", "env": "TOKEN"}, {"as": "file"}, {"as": "broker", "env": "TOKEN"},
                                      {"as": "socket", "program": "/usr/bin/env"}])
            spec["secrets"] = [{"name": name, **way}]
        elif self.random.random() < 0.05:  # these cannot be delivered
            spec["secrets"] = [{"name": "tok0", "as": "file", "owner": self.random.choice(["nosuch", "root"])}]
            spec["profile"] = self.random.choice(["standard", "locked"])
        return spec

    def create(self):
        before = len(self.mine)
        asked = {}

        def spec():
            asked.update(NativeClient.spec(self))
            return asked

        self.spec = spec
        super().create()
        for s in self.mine[before:]:
            s.secret = next(iter(asked.get("secrets", [])), None)

    def policy(self):
        s = self.pick()
        self.ask("PUT", f"/v1/sessions/{s.id}/network", self.random.choice(POLICIES), s)
        self.ask("GET", f"/v1/sessions/{s.id}/network", None, s)
        self.ask("GET", f"/v1/sessions/{s.id}/network/log?limit=5", None, s)

    def set_timeout(self):
        s = self.pick()
        self.ask("POST", f"/v1/sessions/{s.id}/timeout", {"timeout": "1h"}, s)

    def lists(self):
        """Page by page: none twice, none of mine left out."""
        must = {s.id for s in self.mine if not s.lost_allowed}
        path, seen = f"/v1/sessions?ended=any&metadata.worker={self.number}&limit={self.random.choice([1, 3, 100])}", []
        after = ""
        for _ in range(200):
            status, data = self.ask("GET", path + after)
            if status != 200:
                return
            seen += [row["id"] for row in data["sessions"]]
            if data["next"] is None:
                break
            after = f"&after={quote(data['next'])}"
        else:
            return
        lost = must - set(seen) - {s.id for s in self.mine if s.lost_allowed}
        if lost or len(seen) != len(set(seen)):
            self.ledger.problem(f"{path}: {len(seen)} rows, {len(set(seen))} different, without {lost}")

    def events(self):
        s = self.pick()
        status, data = self.ask("GET", f"/v1/sessions/{s.id}/events?limit=100", None, s)
        numbers = [e["seq"] for e in data["events"]] if status == 200 else []
        if numbers != sorted(set(numbers)):
            self.ledger.problem(f"events of {s.id} are numbered {numbers}")

    def look(self):
        s = self.pick()
        path = self.random.choice(["/processes", "/metrics", "/executions?limit=5", "/executions?state=running"])
        self.ask("GET", f"/v1/sessions/{s.id}{path}", None, s)
        self.ask("GET", self.random.choice(["/v1/node", "/v1/keys", "/v1/secrets", "/v1/events?limit=20", "/v1/templates", "/metrics"]))

    # -- secrets

    def secret_is_there(self):
        """A program sees the value; what it prints is masked, so it prints the hash."""
        held = [s for s in self.mine if not s.lost_allowed and (getattr(s, "secret", None) or {}).get("as") == "env"]
        if not held:
            return
        s = self.random.choice(held)
        line = 'printf %s "$TOKEN" | sha256sum; printf "%s\\n" "$TOKEN"'
        status, data = self.ask("POST", f"/v1/sessions/{s.id}/executions?wait=true", {"command": line}, s)
        if status != 200 or data["state"] != "exited" or s.lost_allowed:
            return
        values = self.tenant.values[s.secret["name"]]
        if data["stdout"].split()[0] not in {hashlib.sha256(v.encode()).hexdigest() for v in values}:
            self.ledger.problem(f"{s.id}: TOKEN is no value of {s.secret['name']}: {data['stdout'][:200]}")
        if any(v in data["stdout"] for v in values):
            self.ledger.problem(f"{s.id}: a value of {s.secret['name']} is not masked")

    def rotate(self):
        if self.random.random() < 0.3:
            name = self.random.choice(sorted(self.tenant.values))
            value = f"{self.tenant.name}-{self.marker()}-" + self.random.randbytes(12).hex()
            self.tenant.values[name] = self.tenant.values[name] | {value}
            self.ask("PUT", f"/v1/secrets/{name}", {"value": value})

    # -- executions

    def conversation(self, kind, spec, code=None):
        """An execution whose output is not known yet, and which may have to be ended at last."""
        s = self.pick()
        status, data = self.ask("POST", f"/v1/sessions/{s.id}/executions", spec, s)
        if status != 202:
            return None
        x = Execution(s, data, kind, b"", b"", code)
        x.open = True
        s.executions.append(x)
        return x

    def path(self, x, more=""):
        return f"/v1/sessions/{x.session.id}/executions/{x.id}{more}"

    def end(self, x):
        status, _ = self.ask("DELETE", self.path(x))
        x.open = status != 204

    def type_input(self):
        x = self.conversation("typed", {"argv": ["/bin/cat"], "stdin_stream": True})
        if x is None:
            return
        for left in reversed(range(self.random.randrange(1, 5))):
            piece = (self.marker() + "\n").encode() * self.random.choice([1, 50, 30000])
            x.out += piece
            status, data = self.ask("POST", self.path(x, "/input" + ("" if left else "?eof=true")), piece, x.session)
            if status != 200 or data["accepted"] != len(piece):
                return self.end(x)
        x.code, x.open = 0, False
        return None

    def attach(self):
        """Types over a WebSocket, and hears it; some go away in the middle."""
        x = self.conversation("attached", {"argv": ["/bin/cat"], "stdin_stream": True})
        if x is None:
            return
        leave = self.random.random() < 0.3
        try:
            with Attached(self.server, self.path(x, "/attach"), timeout=25) as ws:
                for _ in range(self.random.randrange(1, 6)):
                    piece = (self.marker() + "\n").encode() * self.random.choice([1, 20, 3000])
                    x.out += piece
                    ws.send(piece)
                    if self.random.random() < 0.5:
                        ws.until_output(piece, seconds=25)
                if leave:
                    return self.end(x)
                ws.say(type="eof")
                ended = ws.until_end()
        except CUT:
            return self.end(x)
        if ended is None:
            return self.end(x)
        x.code, x.open = 0, False
        if ws.streams[1] != x.out:
            self.ledger.problem(f"{x.id}: typed {len(x.out)} bytes, heard {len(ws.streams[1])}")
        return None

    def signal(self):
        x = self.conversation("signalled", {"command": "trap 'echo got' USR1; echo ready; while :; do sleep 0.02; done"})
        if x is None:
            return
        x.out = b"ready\n" + b"got\n" * 3
        for _ in range(3):
            self.ask("POST", self.path(x, "/signals"), {"signal": "USR1"}, x.session)
        x.err = b"User defined signal 1\n" * 3  # of sleep
        self.end(x)

    def leave_open(self):
        """Streams that nobody reads, closed by the client much later or by the server's end."""
        s = self.pick()
        path = self.random.choice([f"/v1/sessions/{s.id}/files/watch?path={HOME}&recursive=true",
                                   "/v1/events?follow=true", f"/v1/sessions/{s.id}/events?follow=true"])

        def hold():
            try:
                with Events(self.server, path, receive_buffer=4096, timeout=10):
                    self.ledger.stop.wait(self.random.random() * 5)
            except CUT:
                pass

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        self.followers.append(thread)

    # -- files

    def tar_in(self):
        s = self.pick()
        new = {f"t{i}": (self.marker() + "\n").encode() * self.random.choice([1, 10, 3000]) for i in range(self.random.randrange(1, 4))}
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, content in new.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
        for name, content in new.items():
            s.files[f"{HOME}/{name}"] = s.files.get(f"{HOME}/{name}", {None}) | {content}
        status, _ = self.ask("PUT", f"/v1/sessions/{s.id}/files/tar?path={HOME}", raw.getvalue(), s)
        if status == 200:
            s.files.update({f"{HOME}/{name}": {content} for name, content in new.items()})

    def tar_out(self):
        s = self.pick()
        known = dict(s.files)
        status, data = self.ask("GET", f"/v1/sessions/{s.id}/files/tar?path={HOME}", None, s, raw=True)
        if status != 200 or s.lost_allowed:
            return
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                got = {f"{HOME}/{m.name.strip('/').split('/')[-1]}": tar.extractfile(m).read() for m in tar if m.isfile()}
        except tarfile.TarError as e:
            self.ledger.problem(f"{s.id}: an archive of {len(data)} bytes that was answered whole: {e}")
            return
        for path, may in known.items():
            if got.get(path) not in may:
                self.ledger.problem(f"{path} in the archive of {s.id}: {str(got.get(path))[:60]}")

    def move(self):
        s = self.pick()
        if not s.files:
            return
        old, new = self.random.choice(sorted(s.files)), f"{HOME}/m{self.random.randrange(3)}"
        if old == new:
            return
        may, there = s.files[old], s.files.get(new, {None})
        s.files[old], s.files[new] = may | {None}, there | (may - {None})
        status, _ = self.ask("POST", f"/v1/sessions/{s.id}/files/move", {"from": old, "to": new}, s)
        if status == 200:
            s.files[old], s.files[new] = {None}, may - {None}
        elif status == 404:
            s.files[old], s.files[new] = may, there
            if None not in may and not s.lost_allowed:
                self.ledger.problem(f"{old} of {s.id} was written and cannot be moved")

    def remove(self):
        s = self.pick()
        if s.files:
            path = self.random.choice(sorted(s.files))
            s.files[path] = s.files[path] | {None}
            if self.ask("DELETE", f"/v1/sessions/{s.id}/files?path={path}", None, s)[0] == 204:
                s.files[path] = {None}

    def stat_and_list(self):
        s = self.pick()
        known = {path for path, may in s.files.items() if None not in may}
        self.ask("POST", f"/v1/sessions/{s.id}/files/mkdir", {"path": f"{HOME}/d{self.random.randrange(2)}"}, s)
        status, data = self.ask("GET", f"/v1/sessions/{s.id}/files/list?path={HOME}", None, s)
        if status == 200 and not s.lost_allowed:
            missing = known - {f"{HOME}/{entry['name']}" for entry in data["entries"]}
            if missing:
                self.ledger.problem(f"the list of {s.id} has no {missing}")

    def diff(self):
        s = self.pick()
        known = {path for path, may in s.files.items() if None not in may}
        status, data = self.ask("GET", f"/v1/sessions/{s.id}/diff", None, s)
        if status == 200 and not s.lost_allowed and not data["truncated"]:
            missing = known - {change["path"] for change in data["changes"]}
            if missing:
                self.ledger.problem(f"the changes of {s.id} have no {missing}")

    def watch(self):
        """What is written while a watcher listens is told, unless something was killed or stopped meanwhile."""
        s, name, generation = self.pick(), f"w{self.random.randrange(3)}", self.ledger.generation
        try:
            with Events(self.server, f"/v1/sessions/{s.id}/files/watch?path={HOME}", timeout=WATCH_S) as events:
                events.wanted("ready")
                path, content = f"{HOME}/{name}", (self.marker() + "\n").encode()
                s.files[path] = s.files.get(path, {None}) | {content}
                status, _ = self.ask("PUT", f"/v1/sessions/{s.id}/files?path={path}", content, s)
                if status not in (200, 201):
                    return
                s.files[path] = {content}
                while events.next().data.get("path") != name:
                    pass
        except TimeoutError:
            if generation == self.ledger.generation and not generation % 2 and not s.lost_allowed and not s.hangs():
                self.ledger.problem(f"a watcher of {s.id} was not told of {name}")
        except (AttributeError, *CUT):
            pass  # cut, or the end of the stream
