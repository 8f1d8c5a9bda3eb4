"""state_disks.py - kinds of state_kills.py that are images on loop devices: disks of sessions, and volumes."""
import hashlib
import itertools

from harness import check, equal, wait_for
from state_base import Kind, quoted

SMALL = {"storage": "disk", "limits": {"disk": "64M"}, "timeout": "1h"}


class Disk(Kind):
    """A persistent session is cloned (fork, snapshot), put to rest and woken; others with disks come and go."""

    seconds = 0.15

    def __init__(self, server):
        super().__init__(server)
        self.source = server.create(persist=True, idle_timeout="1h", **SMALL)["id"]
        server.run(self.source, "head -c 3M /dev/urandom >~/data; mkdir ~/d; (cd ~/d; seq 100 | xargs touch); sync")
        self.sum = server.run(self.source, "sha256sum <~/data")["stdout"]

    def one(self, kind):
        path = f"/v1/sessions/{self.source}"
        if kind == "fork":
            self.ask("POST", path + "/fork", {"count": 2, "timeout": "10m"})
        elif kind == "snapshot":
            self.ask("POST", path + "/snapshots", {})
        elif kind == "rest":
            self.ask("POST", path + "/pause", {"memory": False})
        elif kind == "wake":
            self.ask("POST", path + "/resume")
        else:
            status, made = self.ask("POST", "/v1/sessions", SMALL)
            if status == 201:
                self.ask("DELETE", f"/v1/sessions/{made['id']}")

    def work(self, rand):
        kinds = [rand.choice(["fork", "fork", "snapshot", "rest", "wake", "make", "make"]) for _ in range(rand.randint(1, 3))]
        return [lambda kind=kind: self.one(kind) for kind in kinds]

    def look(self):
        self.wait_answers(self.source, "sha256sum <~/data", self.sum)
        shots = self.server.want(200, "GET", "/v1/snapshots")["snapshots"]
        for shot in shots[:1]:
            made = self.made("/v1/sessions", {"template": shot["id"], **SMALL})["id"]
            self.wait_answers(made, "sha256sum <~/data", self.sum)
        for shot in shots:
            self.ask("DELETE", "/v1/snapshots/" + quoted(shot["id"]))
        for s in self.sessions():
            if s != self.source and (self.ask("GET", f"/v1/sessions/{s}")[1] or {}).get("forked_from"):
                self.wait_answers(s, "sha256sum <~/data", self.sum)
        self.whole += len(shots[:1])
        self.end_sessions(but=(self.source,))

    def remove_all(self):
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            self.ask("DELETE", "/v1/snapshots/" + quoted(shot["id"]))
        self.end_sessions()


class Volume(Kind):
    """Files of a volume are written, replaced and removed by the content API while a session has it mounted; other volumes
    are made and removed. A file is as before or as after, never anything else."""

    seconds = 0.15

    def __init__(self, server):
        super().__init__(server)
        self.id = server.want(201, "POST", "/volumes", {"name": "kept"})["volumeID"]
        self.token = server.want(200, "GET", "/volumes/kept")["token"]
        self.box = server.create(volumes=[{"name": "kept", "path": "/v"}], timeout="1h")["id"]
        self.number = itertools.count()
        self.files = {}  # path: the contents that it may have, None if it may be absent
        equal(self.write("/stays", b"stays"), 201)

    def content(self, method, what, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/octet-stream"}
        status, data = self.ask(method, f"/volumecontent/{self.id}/{what}?path={path}&force=true", body, headers=headers, raw=True, key=None)
        return status, data

    def write(self, path, data):
        return self.content("PUT", "file", path, data)[0]

    def change(self, path, rand):
        n = next(self.number)
        data = hashlib.sha256(str(n).encode()).digest() * (1 << rand.randint(0, 15))
        before = self.files.get(path, {None})
        self.files[path] = before | {data}
        if self.write(path, data) == 201:
            self.files[path] = {data}

    def drop(self, path):
        self.files[path] = self.files.get(path, {None}) | {None}
        if self.content("DELETE", "path", path)[0] in (200, 204):
            self.files[path] = {None}

    def churn(self, name):
        self.ask("POST", "/v1/volumes", {"name": name, "size": "16M"})
        self.ask("DELETE", f"/v1/volumes/{name}")

    def work(self, rand):
        paths = rand.sample(["/a", "/b", "/dir/c"], 2)
        jobs = [lambda: self.change(paths[0], rand), lambda: self.churn(f"t{next(self.number)}")]
        jobs.append((lambda: self.drop(paths[1])) if rand.random() < 0.3 else (lambda: self.change(paths[1], rand)))
        return jobs

    def look(self):
        self.wait_answers(self.box, "cat /v/stays", "stays")
        for path, may in self.files.items():
            status, data = wait_for(lambda path=path: (got := self.content("GET", "file", path))[0] in (200, 404) and got, 30, "an answer")
            found = data if status == 200 else None
            check(found in may, f"{path}: {status}, {len(data or b'')} bytes, none of {len(may)} that it may have")
            want = "" if found is None else hashlib.sha256(found).hexdigest()
            self.wait_answers(self.box, f"test -e /v{path} && sha256sum </v{path} | cut -c1-64 | tr -d '\\n'", want)
            self.files[path] = {found}
            self.whole, self.absent = self.whole + (found is not None), self.absent + (found is None)
        for v in self.server.want(200, "GET", "/v1/volumes")["volumes"]:
            if v["name"] != "kept":
                self.ask("DELETE", f"/v1/volumes/{v['name']}")

    def remove_all(self):
        self.end_sessions()
        wait_for(lambda: self.ask("DELETE", "/v1/volumes/kept")[0] in (204, 404), 30, "the volume to go")


KINDS = {"disk": Disk, "volume": Volume}
