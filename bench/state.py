"""What is kept: snapshots, forks, disks of sessions, builds; a section of bench/run.

A server of its own with the default pool, and another one without, for sessions that are made from nothing. The floor of a
snapshot is `cp -a` of the same bytes to the same folder; that of a disk is the same dd on the storage folder. podman and buildah do
the same beside them where they can (containers.py).
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time

import containers
import server

SIZES = (1, 100, 1000)  # MiB changed
STARTS = 40
FORKS = 10
HELD = 1000
DISK_MIB = 1024
MIB = 1 << 20
COMMAND = ["/bin/echo", "ready"]
BIG = {"limits": {"memory": 4096 * MIB, "disk": 2048 * MIB}}
TARGETS = {"pooled": 1.1, "cold": 2.0, "disk": 0.8, "memory": 1.1}


class Client:
    def __init__(self, to):
        self.http = http.client.HTTPConnection(to.address, timeout=300)
        self.key = to.key_file.read_text().strip()

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        self.http.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text else None

    def create(self, **body):
        return self.ask("POST", "/v1/sessions", body)["id"]

    def run(self, name, *argv):
        done = self.ask("POST", f"/v1/sessions/{name}/executions?wait=true", {"argv": argv})
        if done["exit_code"] != 0:
            raise RuntimeError(f"{argv}: {done}")
        return done

    def remove(self, name):
        self.ask("DELETE", f"/v1/sessions/{name}")


class Part:
    def __init__(self, setup, judge, table):
        self.setup, self.judge, self.table = setup, judge, table
        self.peer = None  # containers.Store
        self.short = setup.options.rounds < 100

    def start_times(self, c, rounds, **body):
        """Milliseconds from the request to the first output."""
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            name = c.create(**body)
            c.run(name, *COMMAND)
            times.append((time.perf_counter() - begin) * 1e3)
            c.remove(name)
            time.sleep(0.02)
        return times

    # -- snapshots

    def snapshots(self, c, folder):
        rows, last = [], None
        for mib in SIZES[:2] if self.short else SIZES:
            name = c.create(**BIG)
            c.run(name, "/bin/sh", "-c", f"head -c {mib * MIB} /dev/urandom > /home/user/data")
            begin = time.perf_counter()
            last = c.ask("POST", f"/v1/sessions/{name}/snapshots", {})["id"]
            ms = (time.perf_counter() - begin) * 1e3
            c.remove(name)
            rows.append((mib, f"{ms:.1f}", f"{self.copy_ms(folder, mib):.1f}", f"{self.peer.commit_ms(mib):.1f}" if self.peer else "-"))
        self.table(("MiB changed", "snapshot ms", "cp -a and sync, ms", "buildah commit, not synced, ms"), rows)
        return last

    def copy_ms(self, folder, mib):
        source, target = pathlib.Path(f"/dev/shm/cordon-bench-{os.getpid()}"), folder / "copy"
        source.mkdir()
        try:
            subprocess.run(["sh", "-c", f"head -c {mib * MIB} /dev/urandom > {source}/data"], check=True)
            begin = time.perf_counter()
            subprocess.run(["cp", "-a", source, target], check=True)
            subprocess.run(["sync", "-f", target], check=True)
            return (time.perf_counter() - begin) * 1e3
        finally:
            shutil.rmtree(source)
            shutil.rmtree(target, ignore_errors=True)

    def small_snapshot(self, c):
        name = c.create()
        c.run(name, "/bin/sh", "-c", "echo kept > /home/user/kept")
        made = c.ask("POST", f"/v1/sessions/{name}/snapshots", {})["id"]
        c.remove(name)
        return made

    def starts(self, c, snapshot, what):
        rounds = 10 if self.short else STARTS
        self.start_times(c, 5, template=snapshot)  # its pool fills
        time.sleep(2)
        taken = {"host": [], "a snapshot": []}
        for _ in range(4):
            taken["host"] += self.start_times(c, rounds // 4 + 1)
            taken["a snapshot"] += self.start_times(c, rounds // 4 + 1, template=snapshot)
        if self.peer and what == "cold":
            taken["podman run, an image of busybox"] = [self.peer.start_ms() for _ in range(rounds // 2)]
        self.table((f"create to first output, {what}", "median ms", "max ms"),
                   [(kind, f"{statistics.median(t):.2f}", f"{max(t):.2f}") for kind, t in taken.items()])
        self.judge(f"state: from a snapshot / from host, {what}", TARGETS[what],
                   statistics.median(taken["a snapshot"]) / statistics.median(taken["host"]))

    def forks(self, c):
        times = []
        for _ in range(3):
            name = c.create()
            c.run(name, "/bin/sh", "-c", f"head -c {10 * MIB} /dev/urandom > /home/user/data")
            begin = time.perf_counter()
            made = c.ask("POST", f"/v1/sessions/{name}/fork", {"count": FORKS})
            times.append((time.perf_counter() - begin) * 1e3)
            for child in [name] + [session["id"] for session in made["sessions"]]:
                c.remove(child)
            if made["errors"]:
                raise RuntimeError(f"fork: {made['errors']}")
        print(f"fork of {FORKS}, 10 MiB changed: {statistics.median(times):.1f} ms (of {', '.join(f'{t:.0f}' for t in times)})\n")

    # -- disks

    def disk(self, c, folder):
        name = c.create(storage="disk", limits={"disk": 3 * DISK_MIB * MIB})
        inside = self.dd(lambda *argv: c.ask("POST", f"/v1/sessions/{name}/executions?wait=true", {"argv": argv})["stderr"],
                         "/home/user/data")
        c.remove(name)
        outside = self.dd(lambda *argv: subprocess.run(argv, capture_output=True, text=True).stderr, folder / "data")
        (folder / "data").unlink()
        self.table((f"dd of {DISK_MIB} MiB, MiB/s", "in a disk session", "on the storage folder"),
                   [(kind, f"{inside[kind]:.0f}", f"{outside[kind]:.0f}") for kind in inside])
        for kind in inside:
            self.judge(f"state: disk session / storage folder, {kind}", TARGETS["disk"], inside[kind] / outside[kind], least=True)

    def dd(self, call, path):
        speeds = {}
        for kind, argv in (("write and sync", ("dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={DISK_MIB}", "conv=fsync")),
                           ("read", ("dd", f"if={path}", "of=/dev/null", "bs=1M"))):
            if kind == "read":
                pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")
            text = call(*argv)
            found = re.search(r"copied, ([0-9.e-]+) s", text)
            if not found:
                raise RuntimeError(f"dd: {text!r}")
            speeds[kind] = DISK_MIB / float(found.group(1))
        return speeds

    # -- memory

    def memory(self, c, to, snapshot):
        each = {}
        for kind, body in (("host", {}), ("a snapshot", {"template": snapshot})):
            before, count = self.used(), 100 if self.short else HELD
            names = [c.create(**body) for _ in range(count)]
            time.sleep(2)
            each[kind] = (self.used() - before) / count
            for name in names:
                c.remove(name)
            time.sleep(5)
        self.table(("KiB per idle session", ""), [(kind, f"{kib:.0f}") for kind, kib in each.items()])
        self.judge("state: an idle session from a snapshot / from host", TARGETS["memory"], each["a snapshot"] / each["host"])

    # -- builds

    def builds(self, c):
        """Five steps that each write a file: run, and taken from the cache."""
        steps = [{"type": "RUN", "args": [f"head -c {MIB} /dev/urandom > data{i}"]} for i in range(5)]
        rows = []
        for kind in ("run", "from the cache"):
            times = []
            for i in range(3):
                begin = time.perf_counter()
                made = c.ask("POST", "/v1/builds", {"name": "bench"})["id"]
                recipe = {"fromTemplate": "base", "force": kind == "run", "steps": steps}
                c.ask("POST", f"/v1/builds/{made}/start", recipe)
                while (status := c.ask("GET", f"/v1/builds/{made}?after=10000")["status"]) == "building":
                    time.sleep(0.002)  # between two looks
                if status != "ready":
                    raise RuntimeError(f"build: {c.ask('GET', f'/v1/builds/{made}')}")
                times.append((time.perf_counter() - begin) * 1e3)
            peer = [self.peer.build_ms([f"head -c {MIB} /dev/urandom > /data{i}" for i in range(5)], kind == "run")
                    for _ in range(3)] if self.peer else None
            rows.append((kind, f"{statistics.median(times):.0f}", f"{statistics.median(peer):.0f}" if peer else "-"))
        self.table(("build of five steps", "ms", "buildah build, ms"), rows)

    @staticmethod
    def used():
        text = pathlib.Path("/proc/meminfo").read_text()
        return sum(int(re.search(rf"^{kind}:\s+(\d+)", text, re.M).group(1)) for kind in server.KINDS) \
            + sum(server.pss(pid) for pid in server.processes("cordon-init"))


def section(setup, judge, table, heading):
    part = Part(setup, judge, table)
    heading("state: snapshots, forks, disks, builds")
    if containers.missing() or not setup.root:
        print(f"podman and buildah are left out: {' '.join(containers.missing()) or 'needs root'}")
        measure(part, setup)
        return
    with containers.Store(setup.folder) as part.peer:
        measure(part, setup)


def measure(part, setup):
    with server.Server(setup.build, setup.folder, setup.outside) as to:
        c, folder = Client(to), to.folder / "state"
        part.snapshots(c, folder)
        small = part.small_snapshot(c)
        part.starts(c, small, "pooled")
        part.forks(c)
        part.disk(c, folder)
        part.builds(c)
        part.memory(c, to, small)
    with server.Server(setup.build, setup.folder, setup.outside, {"pool_size": 0, "pool_max": 0}) as to:
        c = Client(to)
        part.starts(c, part.small_snapshot(c), "cold")
