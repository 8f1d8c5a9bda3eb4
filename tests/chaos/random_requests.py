#!/usr/bin/python3
"""random_requests.py - clients of several tenants ask for anything at random: templates, builds, imports, pulls, snapshots,
forks, disks, volumes, networks with packages, secrets, executions. Requests and streams are cut, registries lie, tenants are
removed, and the server's programs are killed, stopped and told to read their settings again.

    random_requests.py CORDON [--seconds 60] [--seed N]

Nothing is expected of a single answer, but that none is a 500 (model.py compares answers with what is there). It looks for
reports of sanitizers, programs that end by themselves, a server that does not answer, and what is left when all tenants are
gone. Sanitized programs are used where they are beside CORDON (make sanitized)."""
import argparse
import gzip
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, *(os.path.join(HERE, "..", folder) for folder in ("server", "registry", "shared"))]
import harness  # noqa: E402
from fake_registry import Answer, Registry  # noqa: E402
from harness import Failed, Server, check, note, wait_for  # noqa: E402
from images import archive, member  # noqa: E402
from model_watch import died  # noqa: E402
from registry_images import Image, layer  # noqa: E402
from state_kills import left  # noqa: E402

CLIENTS, TENANTS = 6, 3
PATIENCE = 60  # seconds within which something of many things has to go
BUILDS = "/v1/builds"
TEMPLATES = ("b0", "b1", "b2", "snap", "imported", "pulled")
LOCKFILES = {"requirements.txt": "a==1.0\n", "yarn.lock": 'a@^1:\n  version "1.0"\n', "Cargo.lock": '[[package]]\nname = "a"\nversion = "1"\n', "go.sum": "\\\n" * 50,
             "package-lock.json": '{"lockfileVersion":3,"packages":{"node_modules/a":{"version":"1.0.0"}}}', "poetry.lock": "a" * 70000, "pnpm-lock.yaml": '"', "Gemfile.lock": ""}
DONE = (OSError, http.client.HTTPException, ValueError, EOFError)


class Lying(Registry):
    """Images of 1, 3 and 14 layers, often not whole."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.images = [Image([layer({"etc/": None, f"f{i}": self.dice.randbytes(self.dice.randrange(1, 200000)), "x/": None, f"x/{i}": b"y"}) for i in range(n)]) for n in (1, 3, 14)]
        super().__init__()

    def usual(self, target, headers):
        words = target.split("?")[0].split("/")
        if len(words) < 5 or words[2][:1] != "i":
            return Answer(404, {}, b"no")
        image, (kind, name) = self.images[int(words[2][1:]) % 3], words[-2:]
        if kind == "manifests":
            data, media = image.tag if name == "t" else image.documents.get(name, ("", b""))[::-1]
            a = Answer(200, {"Content-Type": media or "text/plain"}, data or b"no")
        else:
            a = Answer(200, {"Content-Type": "application/octet-stream"}, image.blobs.get(name, b""))
        what = self.dice.random()
        if what < 0.08:
            a.cut = self.dice.randrange(len(a.body) + 1)
        elif what < 0.14:
            a.drip = (max(1, len(a.body) // 5), 0.2)
        elif what < 0.18:
            return Answer(self.dice.choice((404, 500, 429, 403, 302)), {"Location": "/nowhere", "Retry-After": "1"}, b"no")
        elif what < 0.21:
            a.body = bytes(reversed(a.body))
        return a


class Tenant:
    def __init__(self, server, name):
        self.server = server
        self.id, self.key = server.tenant(name)
        self.admin = server.want(201, "POST", f"/v1/tenants/{self.id}/keys", {"name": "all", "scopes": ["sessions", "admin", "read"]})["key"]
        self.sessions, self.builds, self.volumes = [], [], []


class Client(threading.Thread):
    def __init__(self, all_of, number):
        super().__init__(daemon=True)
        self.all, self.server = all_of, all_of.server
        self.dice = random.Random(f"{all_of.seed}/{number}")

    # ---- requests

    def ask(self, method, path, body=None, key=None, **more):
        try:
            status, _, data = self.server.request(method, path, body, key=self.t.key if key is None else key, timeout=90, **more)
        except TimeoutError:
            self.all.problems.append(f"{method} {path}: no answer in 90 s")
            return 0, None
        except DONE:
            status, data = 0, None  # a program was killed
        self.all.count(status)
        if status == 500:
            self.all.problems.append(f"{method} {path} {str(body)[:200]}: 500 {str(data)[:300]}")
        return status, data

    def cut(self, method, path, data, key=None, after=None, kind="application/json"):
        """The client goes away after so many bytes of the body."""
        after = self.dice.randrange(len(data) + 1) if after is None else after
        try:
            with socket.create_connection(self.server.address, timeout=20) as s:
                s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key or self.t.key}\r\nContent-Type: {kind}\r\n"
                          f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:after])
                time.sleep(self.dice.random() * 0.5)
        except OSError:
            pass
        self.all.count("cut")

    def some(self):
        return self.dice.choice(self.t.sessions)

    # ---- sessions

    def network(self):
        dice = self.dice
        if dice.random() < 0.15:
            return dice.choice(("none", "deny", "internet", "pypi", "packages", ["pypi", "npm"]))
        made = {"version": 1, "rules": dice.choice((["x.example"], ["x.example", "10.0.0.0/8"], [], [{"host": "*.y.example", "limits": {"bytes_out": 1000}}],
                                                    [{"host": "a.example", "set_headers": {"X": "${secret.s%d}" % dice.randrange(4)}}]))}
        if dice.random() < 0.5:
            made["packages"] = {"registries": dice.choice((["npm"], ["maven", "go"], [{"ecosystem": "apt", "host": "apt.example"}],
                                                           ["pypi", {"ecosystem": "npm", "host": "n.example", "private": True}]))}
            for chance, name, values in ((0.3, "mode", ("open", "pinned", "offline", "offline-cache", "bad")), (0.3, "lockfiles", ([{"name": n, "text": t}] for n, t in LOCKFILES.items())),
                                         (0.2, "pins", ({f"npm:p{i}": ["1.0.0"] for i in range(n)} for n in (1, 100, 3000)))):
                if dice.random() < chance:
                    made["packages"][name] = dice.choice(list(values))
        if dice.random() < 0.1:
            made["proxy"] = {"address": "socks.example:1080", "password": "p"}
        return made

    def secrets(self):
        ways = {self.dice.randrange(4): self.dice.choice(("broker", "env", "file")) for _ in range(self.dice.randrange(4))}
        return [{"name": f"s{i}", "as": way, **({"env": f"S{i}"} if way != "file" else {})} for i, way in ways.items()]

    def create(self):
        dice = self.dice
        spec = {"timeout": "3m", "network": self.network(), "metadata": {"label": f"l{dice.randrange(5)}"}}
        if dice.random() < 0.5:
            spec["template"] = dice.choice(TEMPLATES)
        if dice.random() < 0.15:
            spec.update(storage="disk", limits={"disk": "64M"})
        if dice.random() < 0.2:
            spec["on_timeout"] = "pause_files"
        if dice.random() < 0.4:
            spec["secrets"] = self.secrets()
        status, made = self.ask("POST", "/v1/sessions", spec)
        if status == 201:
            self.t.sessions.append(made["id"])

    def delete(self):
        self.ask("DELETE", f"/v1/sessions/{self.t.sessions.pop(self.dice.randrange(len(self.t.sessions)))}")

    def execute(self):
        dice = self.dice
        command = dice.choice((f"mkdir -p d{dice.randrange(5)}; echo {dice.random()} >d{dice.randrange(5)}/f; rm -rf d{dice.randrange(5)}; head -c {dice.randrange(300000)} /dev/zero >z",
                               "true", "sleep 0.3", "getent hosts x.example", "env; echo $S1; cat /run/secrets/s1"))
        self.ask("POST", f"/v1/sessions/{self.some()}/executions{dice.choice(('', '?wait=true'))}", {"command": command, "secrets": self.secrets()})

    def capture(self):
        path, body = f"/v1/sessions/{self.some()}/snapshots", {"name": self.dice.choice(("snap", "snap:v1", "s2"))} if self.dice.random() < 0.7 else {}
        if self.dice.random() < 0.3:
            self.cut("POST", path, json.dumps(body).encode(), after=1 << 20)
        else:
            self.ask("POST", path, body)

    def fork(self):
        status, made = self.ask("POST", f"/v1/sessions/{self.some()}/fork", {"count": self.dice.randrange(1, 4)})
        if status == 201 and isinstance(made, dict):
            self.t.sessions += [s["id"] for s in made.get("sessions", ()) if isinstance(s, dict) and s.get("id")]

    def pause(self):
        path = f"/v1/sessions/{self.some()}"
        self.ask("POST", *self.dice.choice(((path + "/pause", {"memory": False}), (path + "/pause", {}), (path + "/resume", {}), (path + "/resume", {}), (path + "/reset", {}))))

    def change_network(self):
        self.ask("PUT", f"/v1/sessions/{self.some()}/network", self.network())

    def secret(self):
        dice, name = self.dice, f"s{self.dice.randrange(4)}"
        self.ask(*dice.choice((("PUT", f"/v1/secrets/{name}", {"value": "v" * dice.randint(1, 3000) + str(dice.random())}), ("DELETE", f"/v1/secrets/{name}"),
                               ("POST", "/v1/secrets", {"name": name, "value": f"value{dice.random()}", "hosts": ["a.example"], "ttl": dice.choice(("0", "2s"))}))), key=self.t.admin)

    def look(self):
        path = f"/v1/sessions/{self.some()}" if self.t.sessions else "/v1/sessions/none"
        self.ask("GET", self.dice.choice([path + end for end in ("", "/network", "/packages", "/network/log", "/events", "/metrics", "/executions", "/diff", "/processes", "/files/list?path=/")] +
                                         ["/v1/sessions", "/v1/events", "/v1/limits", "/v1/usage", "/v1/secrets", "/v1/templates", "/v1/snapshots", "/v1/layers", "/templates"]), key=self.t.admin)

    def stream(self):
        path = f"/v1/sessions/{self.some()}"
        self.cut("GET", self.dice.choice((path + "/events?follow=true", path + "/network/log?follow=true&after=0", "/v1/events?follow=true", path + "/files/watch?path=/tmp",
                                          path + "/files/tar?path=/usr/lib", path + "/diff")), b"")

    # ---- templates and volumes

    def step(self, digest):
        dice = self.dice
        return dice.choice(({"type": "RUN", "args": [f"echo {dice.random()} >f; exit {dice.random() > 0.9:d}"]}, {"type": "COPY", "args": ["app", f"/opt/a{dice.randrange(3)}"], "filesHash": digest},
                            {"type": "ENV", "args": ["A", str(dice.random())]}, {"type": "WORKDIR", "args": ["/srv/w"]}, {"type": "USER", "args": [dice.choice(("root", "user", "bob"))]}))

    def build(self):
        dice, digest = self.dice, f"{self.dice.randrange(4):064x}"
        status, made = self.ask("POST", BUILDS, {"name": dice.choice(TEMPLATES[:3]), **({"tags": [dice.choice(("v1", "v2"))]} if dice.random() < 0.5 else {})})
        if status != 201:
            return
        path = f"{BUILDS}/{made['id']}"
        if dice.random() < 0.5:
            data, put = gzip.compress(archive(member("app", dice.randbytes(dice.randrange(100000))))), f"{path}/files/{digest}"
            if dice.random() < 0.3:
                self.cut("PUT", put, data, kind="application/x-tar")
            else:
                self.ask("PUT", put, data, headers={"Content-Type": "application/x-tar"})
        recipe = dice.choice(({"fromTemplate": "base"}, {"fromTemplate": dice.choice(TEMPLATES)}, {"fromImage": f"{self.all.registry.host}/i{dice.randrange(3)}/x:t"}))
        if dice.random() < 0.2:
            recipe.update(startCmd="sleep 100", readyCmd="true")
        self.ask("POST", path + "/start", {"steps": [self.step(digest) for _ in range(dice.choice((0, 1, 2, 4, 17)))], **recipe})
        self.t.builds = [*self.t.builds[-20:], made["id"]]

    def end_build(self):
        if self.t.builds:
            self.ask(self.dice.choice(("DELETE", "GET")), f"{BUILDS}/{self.dice.choice(self.t.builds)}")

    def remove_template(self):
        self.ask("DELETE", "/templates/" + self.dice.choice((*TEMPLATES, "s2", "snap:v1")), key=self.t.admin)

    def tag(self):
        self.ask("POST", "/templates/tags", {"target": self.dice.choice(("b0", "b1:v1", "snap")), "tags": [self.dice.choice(("v1", "v2", "v3"))]})

    def bring(self):
        data, path = self.dice.choice(self.all.archives), "/v1/templates?name=imported"
        if self.dice.random() < 0.4:
            self.cut("POST", path, data, self.t.admin, kind="application/x-tar")
        else:
            self.ask("POST", path, data, key=self.t.admin, headers={"Content-Type": "application/x-tar"})

    def pull(self):
        body = {"reference": f"{self.all.registry.host}/i{self.dice.randrange(3)}/x:t", "name": "pulled"}
        if self.dice.random() < 0.3:
            self.cut("POST", "/v1/templates/pull", json.dumps(body).encode(), self.t.admin, after=1 << 20)
        else:
            self.ask("POST", "/v1/templates/pull", body, key=self.t.admin)

    def volume(self):
        status, made = self.ask("POST", "/volumes", {"name": f"v{self.dice.randrange(4)}"})
        if status == 201:
            self.t.volumes = [*self.t.volumes[-5:], made]
        if self.dice.random() < 0.3:
            self.ask("DELETE", f"/v1/volumes/v{self.dice.randrange(4)}", key=self.t.admin)

    def content(self):
        if not self.t.volumes:
            return
        v = self.dice.choice(self.t.volumes)
        path, headers = f"/volumecontent/{v['volumeID']}", {"Authorization": "Bearer " + v["token"]}
        method, more, data = self.dice.choice((("PUT", "/file?path=/a/%d&force=true" % self.dice.randrange(3), self.dice.randbytes(self.dice.randrange(300000))),
                                               ("GET", "/file?path=/a/1", None), ("GET", "/dir?path=/&depth=3", None), ("DELETE", "/path?path=/a", None)))
        self.ask(method, path + more, data, headers={**headers, "Content-Type": "application/octet-stream"})

    def renew_tenant(self):
        self.all.renew(self.t)

    # ---- all of it

    ALWAYS = {create: 10, look: 6, secret: 4, build: 8, end_build: 3, remove_template: 3, tag: 2, bring: 4, pull: 4, volume: 4, content: 5, renew_tenant: 1}
    WITH_SESSIONS = {delete: 5, execute: 14, capture: 5, fork: 4, pause: 6, change_network: 8, stream: 4}

    def run(self):
        always, more = ([f for f, n in table.items() for _ in range(n)] for table in (self.ALWAYS, self.WITH_SESSIONS))
        while not self.all.over.is_set():
            self.t = self.dice.choice(self.all.tenants)
            try:
                self.dice.choice(always + more if self.t.sessions else always)(self)
            except IndexError:
                pass  # another client took the last session


class Random:
    def __init__(self, server, seed):
        self.server, self.seed, self.dice = server, seed, random.Random(seed)
        self.registry = Lying(seed)
        self.problems, self.counts, self.strikes = [], {}, {}
        self.lock, self.over, self.number = threading.Lock(), threading.Event(), 0
        bytes_of = self.dice.randbytes
        self.archives = [archive(*[member(f"a{i}/f{k}", bytes_of(1000)) for k in range(n)]) for i, n in enumerate((1, 2, 13, 300))] + [b"no archive", gzip.compress(b"x" * 10000)]

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def tenant(self):
        with self.lock:
            self.number += 1
            number = self.number
        return wait_for(lambda: self.made(f"t{number}"), 60, "a tenant", step=0.2)

    def made(self, name):
        try:
            return Tenant(self.server, f"{name}-{time.monotonic_ns()}")
        except (*DONE, Failed):
            return None  # a program was killed

    def renew(self, t):
        """Removes a tenant with all that it has, while others use it."""
        with self.lock:
            if t not in self.tenants or len(self.tenants) < TENANTS:
                return
            self.tenants.remove(t)
        try:
            self.server.request("DELETE", f"/v1/tenants/{t.id}", timeout=90)
        except DONE:
            pass
        self.tenants.append(self.tenant())

    def strike(self):
        what = self.dice.choice(("cordon-storage", "cordon-pull", "cordon-cache", "cordon-notary", "cordon-egress", "keeper", "cordond", "stop", "settings", "none", "none"))
        self.strikes[what] = self.strikes.get(what, 0) + 1
        pid = self.server.pid(self.dice.choice(("cordon-storage", "cordon-egress", "cordond")) if what == "stop" else "supervisor" if what == "settings" else what)
        if what == "none" or pid is None:
            return
        try:
            os.kill(pid, {"stop": signal.SIGSTOP, "settings": signal.SIGHUP}.get(what, signal.SIGKILL))
            if what == "stop":
                time.sleep(self.dice.choice((0.05, 0.5, 2)))
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def run(self, seconds):
        self.tenants = [self.tenant() for _ in range(TENANTS)]
        clients = [Client(self, i) for i in range(CLIENTS)]
        for c in clients:
            c.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.problems:
            time.sleep(self.dice.uniform(1, 5))
            self.strike()
            self.server.wait_ready(60)
            check(not self.server.reports(), "a report of a sanitizer")
        self.over.set()
        for c in clients:
            c.join(120)
        check(not self.problems, "\n".join(self.problems[:5]))
        check(self.counts.get(201, 0) > 0, f"nothing was made: {self.counts}")

    def remove_all(self):
        server = self.server
        server.wait_ready(60)
        for t in server.want(200, "GET", "/v1/tenants")["tenants"]:
            if not t.get("operator"):
                server.request("DELETE", f"/v1/tenants/{t['id']}", timeout=90)

        wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 60, "the end of all sessions", step=0.5)
        found, asked = left(server), False
        while found:  # layers are removed one after the other: a thousand take a minute
            count, until = len(found), time.monotonic() + PATIENCE
            while found and len(found) >= count and time.monotonic() < until:
                time.sleep(0.5)
                found = left(server)
            if found and len(found) >= count:
                check(not asked, f"left: {found[:20]}")
                server.want(200, "POST", "/v1/gc", timeout=PATIENCE)
                asked, found = True, left(server)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    harness.isolate()
    print(f"1..4\n# seed {args.seed}, {args.seconds:.0f} s", flush=True)
    os.environ["CORDON_TEST_SANITIZED"] = "1"
    cordon = os.path.abspath(args.cordon)
    program = harness.reachable(cordon, harness.sanitized(cordon))
    server = Server(program, pool_size=2, node_create_rate=0, tenant_create_rate=0, snapshot_keep="1h", registries="*,127.0.0.1")
    whole, bad, number = Random(server, args.seed), 0, 0

    def step(name, function, *more):
        nonlocal bad, number
        number += 1
        verdict, why = harness.attempt(function, *more)
        bad += verdict != "ok"
        print(f"{verdict} {number} - {name}", flush=True)
        note(why or "")
        if verdict != "ok" and os.path.exists(server.folder):
            note("\n".join(server.log().splitlines()[-60:]))

    def no_reports():
        server.reports()
        check(not harness.REPORTS, "\n".join(harness.REPORTS))
        check(not died(server.log()), "ended by itself:\n" + "\n".join(died(server.log())[:20]))

    step("anything at random", whole.run, args.seconds)
    note(f"summary: seed {args.seed}, {args.seconds:.0f} s, {dict(sorted(whole.counts.items(), key=str))}, strikes {whole.strikes}")
    step("nothing of removed tenants is left", whole.remove_all)
    step("no report of a sanitizer, no program that ended by itself", no_reports)
    step("nothing is left of cells", server.close)
    if bad:
        note(f"again: --seed {args.seed} --seconds {args.seconds:.0f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
