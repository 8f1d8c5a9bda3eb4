#!/usr/bin/python3 -B
"""Goal: a server takes over everything that one of the version before has: its database, its folders, and its sessions while
their programs run. By a reload (SIGHUP, as doc/operate.md says) and by a stop and a start.

    test_takeover.py CORDON [name ...]

The version before is the commit BEFORE of this repository. It is built below the folder of CORDON once, which takes some
minutes. Not a part of make check: make check-upgrade. Runs in a network of its own, as tests/server/test_network_policy.py."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
sys.path[1:1] = [os.path.join(HERE, "..", folder) for folder in ("server", "conformance", "chaos")]
import harness  # noqa: E402
import test_network_policy as net  # noqa: E402
import upgrade  # noqa: E402
from contract import START, Sandbox  # noqa: E402
from harness import Server, Skip, check, equal, has, note, reachable, run_tests, wait_for  # noqa: E402

KILLS = True  # upgrades end programs
BEFORE = "1824e3ce"
PROGRAMS_BEFORE = [name for name in harness.PROGRAMS if name != "cordon-notary"]
SMALL = {"persist": True, "limits": {"disk": "64M"}}


# --- the version before


def programs_before():
    """The cordon of the version before, with its companions beside it."""
    folder = os.path.join(os.path.dirname(harness.ORIGINAL), "version-before", BEFORE)
    tree, build = os.path.join(folder, "tree"), os.path.join(folder, "build")
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", BEFORE + "^{commit}"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip(f"this is no clone with the commit {BEFORE}")
    if not os.path.exists(os.path.join(folder, "built")):
        os.makedirs(tree, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", BEFORE], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            if not os.path.exists(os.path.join(build, "build.ninja")):
                subprocess.run(["meson", "setup", build, tree], stdout=log, stderr=log, check=True)
            done = subprocess.run(["ninja", "-C", build, *PROGRAMS_BEFORE], stdout=log, stderr=log, check=False)
        equal(done.returncode, 0, f"the build of the version before, see {log.name}")
        with open(os.path.join(folder, "built"), "w", encoding="utf-8"):
            pass
    return reachable(os.path.join(build, "cordon"), names=PROGRAMS_BEFORE)


def install(folder):
    """The programs under test under the names of the others, as `make install` does."""
    for name in harness.PROGRAMS:
        shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), os.path.join(folder, "new"))
        os.rename(os.path.join(folder, "new"), os.path.join(folder, name))


def store_version(server):
    with sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def newest_version():
    with open(os.path.join(ROOT, "src/daemon/store/store.h"), encoding="utf-8") as f:
        return int(re.search(r"define STORE_VERSION (\d+)", f.read()).group(1))


def runs(server, path):
    """Does the server run this file?"""
    try:
        return os.path.samefile(f"/proc/{server.pid(os.path.basename(path))}/exe", path)
    except FileNotFoundError:
        return False  # it has ended


# --- what a server of the version before has: made there, looked at by the other


class Running:
    """A program that writes for some seconds, one that waits for input, one in the background with a terminal."""

    def __init__(self, server, stops):
        self.problems = []
        self.id = server.create(timeout="1h", metadata={"a": "b"}, env={"MINE": "yes"})["id"]
        server.run(self.id, "echo kept >~/kept")
        line = f"for i in $(seq {upgrade.LINES}); do echo line $i; sleep 0.03; done; exit 6"
        self.lines, self.input = server.spawn(self.id, line), server.spawn(self.id, "head -1; cat; exit 7", stdin_stream=True)
        self.terminal = server.spawn(self.id, "read x; echo got $x", tty={"rows": 10, "cols": 40})
        self.give(server, self.input, b"one\n")
        wait_for(lambda: server.execution(self.input)["stdout_bytes"] == 4, 15, "the first line of input")
        self.init = server.cell_pids(self.id)[0]
        self.follower = threading.Thread(target=upgrade.follow, args=(server, self.lines, self.problems, stops), daemon=True)
        self.follower.start()

    def give(self, server, x, data, more=""):
        server.want(200, "POST", f"/v1/sessions/{self.id}/executions/{x['id']}/input{more}", data)

    def look(self, server):
        now = server.get(self.id)
        equal((now["state"], now["metadata"]), ("running", {"a": "b"}))
        equal(server.cell_pids(self.id)[0], self.init, "PID 1")
        equal(server.run(self.id, "cat ~/kept; echo $MINE")["stdout"], "kept\nyes\n", "files and environment")
        self.give(server, self.input, b"two\n", "?eof=true")
        done = server.ended(self.input)
        equal((done["exit_code"], done["stdout_bytes"]), (7, 8), "a program that waits for input")
        self.give(server, self.terminal, b"word\n")
        equal(server.ended(self.terminal)["exit_code"], 0, "a program at a terminal")
        equal(server.ended(self.lines, 60)["exit_code"], 6, "a program that writes")
        self.follower.join(70)
        equal(self.problems, [], "what its follower saw")
        kinds = [e["type"] for e in server.want(200, "GET", f"/v1/sessions/{self.id}/events?limit=1000")["events"]]
        equal((kinds[0], kinds.count("session.created")), ("session.created", 1), "its events")


class Paused:
    """Frozen with a program, and without a cell."""

    def __init__(self, server):
        self.frozen, self.cold = (server.create(timeout="1h")["id"] for _ in range(2))
        for s in (self.frozen, self.cold):
            server.run(s, "echo kept >~/kept")
        self.program = server.spawn(self.frozen, "sleep 1; echo on")
        server.want(200, "POST", f"/v1/sessions/{self.frozen}/pause")
        server.want(200, "POST", f"/v1/sessions/{self.cold}/pause", {"memory": False})

    def look(self, server):
        equal(server.get(self.frozen)["state"], "paused")
        check(server.get(self.cold)["state"] in ("stopped", "paused"), "the one without a cell")
        for s in (self.frozen, self.cold):
            equal(server.run(s, "cat ~/kept")["stdout"], "kept\n", "files of what was paused")
        equal(server.ended(self.program)["stdout_bytes"], 3, "its program")


class Persistent:
    """With a disk: one at rest, one that runs."""

    def __init__(self, server):
        self.rests, self.runs = server.create(**SMALL, idle_timeout="1s")["id"], server.create(**SMALL, idle_timeout="1h")["id"]
        for s in (self.rests, self.runs):
            server.run(s, "echo kept >~/kept; sync")
        self.program = server.spawn(self.runs, "sleep 1000")
        server.rests(self.rests, 30)

    def look(self, server):
        equal(server.execution(self.program)["state"], "running")
        server.want(204, "DELETE", f"/v1/sessions/{self.runs}/executions/{self.program['id']}")
        for s in (self.rests, self.runs):
            equal(server.run(s, "cat ~/kept")["stdout"], "kept\n", "files of a persistent session")
            check(server.get(s)["persist"], "it is not persistent any more")


class Volume:
    def __init__(self, server):
        server.want(201, "POST", "/v1/volumes", {"name": "shelf"})
        self.id = server.create(timeout="1h", volumes=[{"name": "shelf", "path": "/mnt/shelf"}])["id"]
        server.run(self.id, "echo before >/mnt/shelf/file", user="root")

    def look(self, server):
        server.run(self.id, "echo after >>/mnt/shelf/file", user="root")
        other = server.create(volumes=[{"name": "shelf", "path": "/data"}])["id"]
        equal(server.run(other, "cat /data/file")["stdout"], "before\nafter\n", "a volume")
        equal(server.want(200, "GET", "/v1/volumes/shelf")["name"], "shelf")
        server.delete(other)


class Network:
    """A policy, secrets, and records of both."""

    def __init__(self, server):
        self.value = "v-before-0123456789abcdef"
        server.want(201, "POST", "/v1/secrets", {"name": "token", "value": self.value, "hosts": ["origin.test"]})
        self.session = server.create(timeout="1h", network=net.policy(net.rule(name="origin")), secrets=[
            {"name": "token", "as": "env", "env": "TOKEN"}, {"name": "token", "as": "broker", "env": "HOLDER"},
            {"name": "token", "as": "file"}])
        self.id = self.session["id"]
        self.try_both(server)
        self.holder = server.run(self.id, "echo $HOLDER")["stdout"]
        wait_for(lambda: server.get(self.id)["usage"]["network"]["requests"] >= 1, 15, "the count of requests")
        self.policy = server.want(200, "GET", f"/v1/sessions/{self.id}/network")["policy"]
        wait_for(lambda: len(net.records(server, self.session)) >= 2, 15, "records")
        self.records = len(net.records(server, self.session))

    def try_both(self, server):
        wait_for(lambda: net.reaches(server, self.session), 20, "an allowed host")
        check(not net.reaches(server, self.session, f"http://other.test:{net.PORT}/"), "a name that no rule has")
        done = server.run(self.id, "echo ${#TOKEN} $TOKEN; wc -c </run/secrets/token")
        equal(done["stdout"].split()[0], str(len(self.value)), "a secret in the environment")
        equal(done["stdout"].split()[-1], str(len(self.value)), "a secret as a file")
        check(self.value not in done["stdout"], "a secret is shown")

    def look(self, server):
        before = server.get(self.id)["usage"]["network"]["requests"]
        self.try_both(server)
        now = server.want(200, "GET", f"/v1/sessions/{self.id}/network")
        equal((now["state"], now["policy"]), ("open", self.policy))
        equal(server.run(self.id, "echo $HOLDER")["stdout"], self.holder, "a placeholder")
        wait_for(lambda: server.get(self.id)["usage"]["network"]["requests"] > before, 15, "the count goes on")
        wait_for(lambda: len(net.records(server, self.session)) > self.records, 15, "records of before and of now")
        self.value = "v-after-0123456789abcdef-more"
        server.want(200, "PUT", "/v1/secrets/token", {"value": self.value, "hosts": ["origin.test"]})
        self.try_both(server)
        net.put(server, self.session, net.policy(net.rule("none.test")))
        check(not net.reaches(server, self.session), "a policy of now has no effect")


class Templates:
    """A snapshot, a fork of its session, and a template that a build has made, with its start command."""

    def __init__(self, server):
        s = server.create(timeout="1h")["id"]
        server.run(s, "echo kept >~/kept")
        server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {"name": "shot"})
        self.fork = server.want(201, "POST", f"/v1/sessions/{s}/fork", {})["sessions"][0]["id"]
        server.ids.add(self.fork)
        with tempfile.TemporaryDirectory(prefix="cordon-build-") as folder:
            with open(f"{folder}/Dockerfile", "w", encoding="utf-8") as f:
                f.write('FROM e2bdev/base\nENV GREETING=hello\nUSER root\nRUN echo $GREETING >/srv/greeting\nCMD ["sleep", "876"]\n')
            done = subprocess.run([server.program, "template", "build", "--name", "built", folder], capture_output=True, text=True,
                                  env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}, check=False)
        equal(done.returncode, 0, done.stderr[-2000:])
        self.made = server.create(template="built", timeout="1h")["id"]

    def look(self, server):
        for s in (server.create(template="shot")["id"], self.fork):
            equal(server.run(s, "cat ~/kept")["stdout"], "kept\n", "a snapshot, and a fork")
        fresh = server.create(template="built")["id"]
        for s in (self.made, fresh):
            equal(server.run(s, "cat /srv/greeting; echo $GREETING; pgrep -xf 'sleep 876' | wc -l")["stdout"], "hello\nhello\n1\n")
        builds = server.want(200, "GET", "/v1/builds")["builds"]
        check(("built", "ready") in [(b["name"], b["status"]) for b in builds], f"the build: {builds}")
        server.want(201, "POST", f"/v1/sessions/{self.made}/snapshots", {"name": "later"})


class E2b:
    """A sandbox with a process and a file, and a paused one."""

    def __init__(self, server):
        self.box, self.paused = Sandbox(server, metadata={"who": "e2b"}), Sandbox(server)
        self.box.write("kept", b"of E2B")
        self.stream, self.pid = self.box.start("sleep 1000")
        self.paused.write("kept", b"of E2B")
        status, _, _ = server.request("POST", f"/sandboxes/{self.paused.id}/pause")
        equal(status, 204, "pause")

    def look(self, server):
        listed = self.box.rpc("process.Process/List", {})["processes"]
        check(self.pid in [p["pid"] for p in listed], f"its process: {listed}")
        for box in (self.box, self.paused):
            if box is self.paused:
                server.request("POST", f"/sandboxes/{box.id}/connect", {"timeout": 300})
            status, _, data = box.envd("GET", "/files?path=kept", raw=True)
            equal((status, data), (200, b"of E2B"), "a file, by the token of before")
        with self.box.stream("process.Process/Start", START("echo on")) as s:
            s.events()
            equal(s.data, b"on\n", "a new process")
        equal(server.want(200, "GET", f"/sandboxes/{self.box.id}")["metadata"], {"who": "e2b"})


class Tenant:
    """Another tenant with a limit, its key and its session; an execution that has ended; a session that has."""

    def __init__(self, server):
        self.tenant, self.key = server.tenant("other", max_sessions=1)
        self.id = server.create(key=self.key)["id"]
        self.done = server.run(self.id, "echo kept", key=self.key)
        self.over = server.create()["id"]
        self.last = server.run(self.over, "echo over; exit 3")
        server.delete(self.over)
        wait_for(lambda: server.get(self.over)["ended_at"], 20, "its end")  # in the words of then: stopped

    def look(self, server):
        server.refused(429, "quota_sessions", "POST", "/v1/sessions", {}, key=self.key)
        path = f"/v1/sessions/{self.id}/executions/{self.done['id']}/output?stream=stdout"
        equal(server.want(200, "GET", path, key=self.key, raw=True), b"kept\n", "output of before")
        server.want(404, "GET", f"/v1/sessions/{self.over}", key=self.key)
        now = server.get(self.over)
        equal((now["state"], now["reason"]), ("ended", "deleted"))
        equal(server.execution(self.last)["exit_code"], 3, "its execution")
        server.delete(self.id, key=self.key)
        wait_for(lambda: server.request("POST", "/v1/sessions", {}, key=self.key)[0] == 201, 15, "room for another session")


KINDS = (Paused, Persistent, Volume, Network, Templates, E2b, Tenant)


# --- the ways


def take_over(way, stops, deaths=False):
    program = programs_before()
    folder = os.path.dirname(program)
    with Server(program, pool_size=2, egress_policy=os.environ[NODE]) as server:
        said = len(server.log())
        before = store_version(server)
        check(before < newest_version(), "the version before has the same store")
        kinds = [Running(server, stops), *(kind(server) for kind in KINDS)]
        way(server, folder)
        equal(store_version(server), newest_version(), "version of the store")
        for name in ("cordond", "cordon-keeper", "cordon-egress", "cordon-storage"):
            wait_for(lambda name=name: runs(server, f"{folder}/{name}"), 20, f"{name} of the new files")
        problems = []
        for kind in kinds:
            verdict, why = harness.attempt(kind.look, server)
            note(f"{type(kind).__name__}: {verdict} {why}")
            problems += [f"{type(kind).__name__}: {why}"] if verdict != "ok" else []
        check(not problems, "\n".join(problems))
        bad = [line for line in server.log()[said:].splitlines() if "level=error" in line]
        equal([] if deaths else bad, [], "errors in the log")


def test_by_a_reload():
    def way(server, folder):
        upgrade.upgrade(server, folder, lambda: install(folder))

    take_over(way, stops=False)


def test_by_a_reload_after_deaths():
    """Programs die between the installation and the reload, cordond last: requests may wait then, and nothing is lost."""

    def way(server, folder):
        install(folder)
        for name in ("cordon-storage", "cordon-egress", "keeper", "cordond"):
            server.kill(name)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: store_version(server) == newest_version(), 60, "the new version")
        wait_for(lambda: upgrade.serving(server), 30, "the next cordond")
        server.wait_ready(30)

    take_over(way, stops=True, deaths=True)


def test_by_a_stop_and_a_start():
    def way(server, folder):
        server.stop()
        install(folder)
        server.start()

    take_over(way, stops=True)


def test_the_way_back_is_refused():
    """A server of the version before does not touch the database of this one."""
    program = programs_before()
    with Server(pool_size=0) as server:
        session = server.create()["id"]
        server.run(session, "echo kept >~/kept")
        server.stop()
        args = [program, "serve", "--state", server.state, "--run", server.run_dir, "--listen", server.settings["listen"],
                "--user", str(harness.USER)]
        done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode != 0, "a server of the version before starts")
        has(done.stdout + done.stderr, "it was made by a newer Cordon")
        server.start()
        equal(server.run(session, "cat ~/kept")["stdout"], "kept\n", "the session after it")


NODE = "CORDON_TEST_NODE_POLICY"


if __name__ == "__main__":
    if os.geteuid() == 0:
        net.own_network()
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir="/var/tmp") as node:
        json.dump(net.NODE, node)
        node.flush()
        os.chmod(node.name, 0o644)
        os.environ[NODE] = node.name
        run_tests(net.Late(globals()), pool_size=0)
