"""state_layers.py - kinds of state_kills.py that are made of layers: captures, imports, pulls, builds, removals, collections."""
import hashlib
import itertools
import random

from fake_registry import Registry
from harness import check, equal, wait_for
from images import archive, member
from registry_images import Image, layer
from state_base import Kind, quoted

BUILDS = "/v1/builds"
LOOK = "cd /t && cat * | sha256sum | cut -c1-64"


def files(number, count=60, size=20000):
    """Names, contents, and what LOOK prints of them."""
    rand = random.Random(number)
    made = {f"t/f{i:03}": rand.randbytes(size) for i in range(count)}
    return made, hashlib.sha256(b"".join(made.values())).hexdigest() + "\n"


def busybox():
    """A root file system in which LOOK can run."""
    with open("/bin/busybox", "rb") as f:
        program = f.read()
    return {"bin/sh": program, **{"bin/" + n: program for n in ("cat", "sha256sum", "cut")}}


class Capture(Kind):
    """Snapshots, forks and pauses without memory of one session, which goes on."""

    seconds = 0.1

    def __init__(self, server):
        super().__init__(server)
        self.source = server.create(timeout="1h", limits={"disk": "64M"})["id"]
        server.run(self.source, "echo kept >~/kept; head -c 4M /dev/urandom >~/more; mkdir ~/d; (cd ~/d; seq 200 | xargs touch)")

    def one(self, kind, rand):
        path = f"/v1/sessions/{self.source}"
        if kind == "snapshot":
            self.ask("POST", path + "/snapshots", {})
        elif kind == "fork":
            self.ask("POST", path + "/fork", {"count": 2, "timeout": "5m"})
        elif kind == "cold":
            self.ask("POST", path + "/pause", {"memory": False})
        elif kind == "resume":
            self.ask("POST", path + "/resume")
        elif kind == "gc":
            self.ask("POST", "/v1/gc")
        else:
            status, found = self.ask("GET", "/v1/snapshots")
            if status == 200 and found["snapshots"]:
                self.ask("DELETE", "/v1/snapshots/" + quoted(rand.choice(found["snapshots"])["id"]))

    def work(self, rand):
        kinds = [rand.choice(["snapshot", "snapshot", "fork", "cold", "delete", "gc", "resume"]) for _ in range(rand.randint(1, 3))]
        return [lambda kind=kind: self.one(kind, rand) for kind in kinds]

    def look(self):
        self.wait_answers(self.source, "cat ~/kept", "kept\n")
        shots = self.server.want(200, "GET", "/v1/snapshots")["snapshots"]
        for shot in shots[:1]:
            made = self.made("/v1/sessions", {"template": shot["id"], "timeout": "5m"})["id"]
            self.wait_answers(made, "cat ~/kept; ls ~/d | wc -l", "kept\n200\n")
            self.whole += 1
        for s in self.sessions():  # forks of a request that got no answer have the file, too
            if s != self.source:
                wait_for(lambda s=s: self.answers(s, "cat ~/kept", "kept\n") or
                         self.ask("GET", f"/v1/sessions/{s}")[1]["state"] in ("ending", "ended"), 60, f"session {s}")
        self.end_sessions(but=(self.source,))

    def remove_all(self):
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            self.server.want(204, "DELETE", "/v1/snapshots/" + quoted(shot["id"]))
        self.end_sessions()


class Import(Kind):
    """A root file system becomes a template; a second upload of the name replaces it as a whole."""

    def __init__(self, server):
        super().__init__(server)
        self.number, self.sums, self.acknowledged = itertools.count(), [], ""

    def work(self, rand):
        made, want = files(next(self.number))
        data = archive(*[member(n, c, mode=0o755) for n, c in {**busybox(), **made}.items()])
        self.sums = [self.acknowledged, want]

        def send():
            status, _ = self.ask("POST", "/v1/templates?name=imported", data, headers={"Content-Type": "application/x-tar"}, raw=True)
            if status == 201:
                self.acknowledged = want
        return [send]

    def look(self):
        if self.ask("GET", "/v1/templates/imported")[0] == 404:
            equal(self.acknowledged, "", "an import that was acknowledged")
            self.absent += 1
            return
        made = self.made("/v1/sessions", {"template": "imported", "timeout": "2m"})["id"]
        wait_for(lambda: any(self.answers(made, LOOK, want) for want in {*self.sums, self.acknowledged}), 30, "files of one import")
        found = self.server.run(made, LOOK)["stdout"]
        check(found == self.acknowledged or found == self.sums[1], "neither the last import nor that before")
        self.acknowledged = found
        self.server.delete(made)
        self.whole += 1

    def remove_all(self):
        self.remove_templates()


class Pull(Kind):
    """An image of two layers of a registry on loopback."""

    def __init__(self, server):
        super().__init__(server)
        self.number, self.sum = itertools.count(), ""

    def work(self, rand):
        n = next(self.number)
        made, self.sum = files(1000 + n)
        self.name = f"pulled{n}"
        source = Registry(Image([layer(busybox()), layer(made)], {"Env": ["PATH=/bin"]}))
        body = {"reference": f"{source.host}/a/b:t", "name": self.name}

        def pull():
            self.ask("POST", "/v1/templates/pull", body, raw=True)
            source.close()
        return [pull]

    def look(self):
        self.template_is_whole(self.name, LOOK, self.sum)
        self.ask("DELETE", "/v1/templates/" + self.name)

    def remove_all(self):
        self.remove_templates()


class Build(Kind):
    """A build with an archive and two steps; the cache makes some of them short."""

    seconds = 0.9

    def __init__(self, server):
        super().__init__(server)
        self.number, self.id, self.sum = itertools.count(), None, ""
        self.tenant, self.key = server.tenant("builder")  # the cache goes with it

    def work(self, rand):
        n = next(self.number) // 2  # each second one finds steps in the cache
        made, self.sum = files(2000 + n, count=10)
        data = archive(*[member(name, content) for name, content in made.items()])
        steps = [{"type": "COPY", "args": ["t", "/t", "", ""], "filesHash": f"{n:064x}"},
                 {"type": "RUN", "args": [f"echo {n} >~/n"]}, {"type": "RUN", "args": [f"sleep 0.05; echo {n} >~/m"]}]
        self.id, self.n = None, n

        def build():
            status, asked = self.ask("POST", BUILDS, {"name": "built"})
            if status != 201:
                return
            self.id = asked["id"]
            if self.ask("PUT", f"{BUILDS}/{self.id}/files/{n:064x}", data, headers={"Content-Type": "application/x-tar"})[0] != 204:
                return
            self.ask("POST", f"{BUILDS}/{self.id}/start", {"fromTemplate": "base", "steps": steps})
        return [build]

    def look(self):
        if self.id is None:
            return

        def status():
            return self.want(200, "GET", f"{BUILDS}/{self.id}")["status"]
        wait_for(lambda: status() != "building", 60, "the build to end")
        if status() == "ready":
            self.template_is_whole("built", LOOK + "; cat ~/n ~/m", self.sum + f"{self.n}\n{self.n}\n")
        else:
            self.absent += 1
        wait_for(lambda: not self.sessions(), 30, "no session of a step")

    def remove_all(self):
        self.server.want(204, "DELETE", f"/v1/tenants/{self.tenant}")
        self.key = ""


class Delete(Kind):
    """Templates, snapshots, volumes and sessions with disks are removed: each is whole, or is gone with all of it."""

    seconds = 0.03

    def __init__(self, server):
        super().__init__(server)
        made, self.sum = files(3000, count=20)
        self.data = archive(*[member(n, c, mode=0o755) for n, c in {**busybox(), **made}.items()])

    def make(self):
        if self.ask("GET", "/v1/templates/doomed")[0] == 404:
            self.made("/v1/templates?name=doomed", self.data, headers={"Content-Type": "application/x-tar"})
        if self.ask("GET", "/v1/volumes/doomed")[0] == 404:
            self.made("/v1/volumes", {"name": "doomed", "size": "16M"})
        self.session = self.made("/v1/sessions", {"template": "doomed", "storage": "disk", "limits": {"disk": "64M"}, "timeout": "10m"})["id"]
        self.shot = self.made(f"/v1/sessions/{self.made('/v1/sessions', {'timeout': '10m'})['id']}/snapshots", {})["id"]

    def work(self, rand):
        self.make()
        paths = [f"/v1/sessions/{self.session}", "/v1/volumes/doomed", "/v1/snapshots/" + quoted(self.shot), "/v1/templates/doomed"]
        rand.shuffle(paths)

        def remove():
            for path in paths:
                self.ask("DELETE", path)
        return [remove, lambda: self.ask("POST", "/v1/gc")]

    def look(self):
        self.template_is_whole("doomed", LOOK, self.sum)
        if self.ask("GET", "/v1/snapshots/" + quoted(self.shot))[0] == 200:
            made = self.made("/v1/sessions", {"template": self.shot, "timeout": "2m"})["id"]
            self.wait_answers(made, "echo whole", "whole\n")
        if self.ask("GET", "/v1/volumes/doomed")[0] == 200:
            made = self.made("/v1/sessions", {"volumes": [{"name": "doomed", "path": "/v"}], "timeout": "2m"})["id"]
            self.wait_answers(made, "sudo touch /v/a && ls /v", "a\n")
        self.end_sessions()

    def remove_all(self):
        self.end_sessions()
        self.ask("DELETE", "/v1/volumes/doomed")
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            self.ask("DELETE", "/v1/snapshots/" + quoted(shot["id"]))
        self.remove_templates()


class Collect(Kind):
    """Layers lose their last use, and collections run, at the moment of the kill."""

    seconds = 0.05

    def __init__(self, server):
        super().__init__(server)
        self.kept = self.server.create(timeout="1h")["id"]
        server.run(self.kept, "echo kept >~/kept")
        self.shot = server.want(201, "POST", f"/v1/sessions/{self.kept}/snapshots", {"name": "kept"})["id"]

    def work(self, rand):
        made = [self.made(f"/v1/sessions/{self.kept}/snapshots", {})["id"] for _ in range(3)]

        def drop():
            for shot in made:
                self.ask("DELETE", "/v1/snapshots/" + quoted(shot))
        return [drop, lambda: [self.ask("POST", "/v1/gc") for _ in range(3)]]

    def look(self):
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            made = self.made("/v1/sessions", {"template": shot["id"], "timeout": "2m"})["id"]
            self.wait_answers(made, "cat ~/kept", "kept\n")
            if shot["id"] != self.shot:
                self.ask("DELETE", "/v1/snapshots/" + quoted(shot["id"]))
            self.whole += 1
        self.end_sessions(but=(self.kept,))
        check([s for s in self.server.want(200, "GET", "/v1/snapshots")["snapshots"] if s["id"] == self.shot], "the one that is kept")

    def remove_all(self):
        self.ask("DELETE", "/v1/snapshots/" + quoted(self.shot))
        self.end_sessions()


KINDS = {"capture": Capture, "build": Build, "pull": Pull, "import": Import, "delete": Delete, "gc": Collect}
