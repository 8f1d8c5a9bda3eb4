"""The levels beside each other: sessions in containers, in gVisor and in virtual machines; a section of bench/run.

A server of its own with a small root as template (tests/shared/slim_root.py), so that all levels run the same programs; one
with pools, and one without. QEMU by itself (tests/levels/engine.py) is what virtual machines are measured against: its boot,
and a clone up to its first answer. Levels that this machine cannot do are left out, with the reason.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import server
import state

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "tests" / "shared"), str(HERE.parent / "tests" / "levels")]
import guest_kernel  # noqa: E402
import runsc  # noqa: E402
import slim_root  # noqa: E402

MIB = 1 << 20
LIMITS = {"memory_default": "256M", "disk_default": "64M"}  # of the server: pools have cells with its defaults only
IDLE = 20
BULK_MIB = 64
ROUNDS = 10
TARGETS = {"gvisor cold": 250, "gvisor pooled": 40, "microvm pooled": 80, "clone": 70, "private": 30, "stream": 200}


def figures(times):
    return f"{min(times):.1f}", f"{statistics.median(times):.1f}"


class Level:
    """Measurements of one level with one server."""

    def __init__(self, client, name):
        self.c, self.name, self.body = client, name, {"level": name, "template": "slim"}

    def starts(self, rounds, rest=0.2):
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            session = self.c.create(**self.body)
            self.c.run(session, "/bin/echo", "ready")
            times.append((time.perf_counter() - begin) * 1e3)
            self.c.remove(session)
            time.sleep(rest)
        return times

    def execs(self, session, *argv):
        self.c.run(session, *argv)
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            self.c.run(session, *argv)
            times.append((time.perf_counter() - begin) * 1e3)
        return times

    def stream(self, session):
        """MB/s of output, as the client gets it."""
        begin = time.perf_counter()
        self.c.run(session, "/bin/sh", "-c", f"head -c {BULK_MIB * MIB} /dev/zero")
        return BULK_MIB * MIB / 1e6 / (time.perf_counter() - begin)


def memory_of_idle(level):
    """MiB for each idle session: private memory of all processes of its cell."""
    before = {name: set(server.processes(name)) for name in ENGINES}
    sessions = [level.c.create(**level.body) for _ in range(IDLE)]
    for session in sessions:
        level.c.run(session, "/bin/true")
    time.sleep(3)
    total = 0
    for name in ENGINES:
        for pid in set(server.processes(name)) - before[name]:
            total += sum(server.field(pid, "smaps_rollup", word) for word in ("Private_Dirty", "Private_Clean"))
    for session in sessions:
        level.c.remove(session)
    return total / 1024 / IDLE


ENGINES = ("cordon-init", "cordon-shim", "qemu-system-x86", "exe", "runsc", "runsc-sandbox", "runsc-gofer")


def prepare(to, build, c):
    subprocess.run(["cp", "-a", slim_root.state(build / "cordon"), to.folder / "state" / "templates" / "slim"], check=True)
    c.ask("POST", "/v1/templates", {"name": "slim", "root": {"layers": ["slim"]}})
    return [name for name, level in c.ask("GET", "/v1/node")["levels"].items() if level["possible"]]


class Guests(server.Server):
    """A server that finds the guest kernel and runsc."""

    def __init__(self, setup, settings):
        place = setup.folder / "server" / "state"
        super().__init__(setup.build, setup.folder, setup.outside, {**LIMITS, **settings, "runsc": runsc.find(setup.build / "cordon")},
                         before=lambda: (place.mkdir(), guest_kernel.give(setup.build / "cordon", place)))


def plain_qemu(setup, judge, table):
    import engine
    driver, probe = (setup.build / "tests" / "levels" / name for name in ("engine_driver", "guest_probe"))
    kernel, initrd = engine.boot_files(setup.build / "cordon", probe)
    begin = time.perf_counter()
    with engine.Engine(driver, mib=256, kernel=kernel, initrd=initrd) as guest:
        guest.started().line()
        boot = (time.perf_counter() - begin) * 1e3
        guest.order("stop")
        begin = time.perf_counter()
        ram, devices = guest.order("snapshot")
        copy = (time.perf_counter() - begin) * 1e3
    restored, answered = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        with engine.Engine(driver, mib=256, ram=ram, devices=devices) as guest:
            guest.started()
            restored.append((time.perf_counter() - begin) * 1e3)
            guest.order("go_on")
            guest.ask("count")
            answered.append((time.perf_counter() - begin) * 1e3)
    table(("QEMU by itself, 256 MiB", "min ms", "median ms"),
          [("boot to the first answer", f"{boot:.0f}", "-"), ("snapshot", f"{copy:.0f}", "-"), ("clone restored", *figures(restored)),
           ("clone to the first answer", *figures(answered))])
    judge("levels: clone to first answer, ms", TARGETS["clone"], min(answered))


def measure_pooled(setup, judge, table):
    starts, rest = [], []
    with Guests(setup, {}) as to:
        c = state.Client(to)
        for name in prepare(to, setup.build, c):
            level = Level(c, name)
            level.starts(2)  # its images are made, its pool fills
            time.sleep(5)
            pooled = level.starts(ROUNDS, rest=1.5)  # the pool is full again
            session = c.create(**level.body)
            speed = max(level.stream(session) for _ in range(3))
            rest.append((name, *figures(level.execs(session, "/bin/true")), *figures(level.execs(session, "python3", "-c", "0")), f"{speed:.0f}"))
            c.remove(session)
            private = memory_of_idle(level)
            starts.append((name, *figures(pooled), f"{private:.1f}"))
            if f"{name} pooled" in TARGETS:
                judge(f"levels: create and run, {name} pooled, ms", TARGETS[f"{name} pooled"], min(pooled))
            if name == "microvm":
                judge("levels: private memory of an idle clone, MiB", TARGETS["private"], private)
                judge("levels: output of a guest, MB/s", TARGETS["stream"], speed, least=True)
    table(("create to first output, pooled", "min ms", "median ms", f"private MiB each, {IDLE} idle"), starts)
    table(("exec in a session", "true: min ms", "median ms", "python3: min ms", "median ms", "output MB/s"), rest)


def measure_cold(setup, judge, table):
    rows = []
    with Guests(setup, {"pool_size": 0, "pool_max": 0}) as to:
        c = state.Client(to)
        for name in prepare(to, setup.build, c):
            level = Level(c, name)
            first, = level.starts(1)
            cold = level.starts(ROUNDS)
            rows.append((name, f"{first:.0f}", *figures(cold)))
            if f"{name} cold" in TARGETS:
                judge(f"levels: create and run, {name} cold, ms", TARGETS[f"{name} cold"], min(cold))
    table(("create to first output, no pool", "first of its template, ms", "min ms", "median ms"), rows)


def section(setup, judge, table, heading):
    heading("levels: container, gVisor, virtual machine")
    if not shutil.which("qemu-system-x86_64") or not os.path.exists(setup.build / "tests" / "levels" / "engine_driver"):
        print("QEMU by itself is left out: no qemu-system-x86_64, or tests/levels is not built")
    else:
        plain_qemu(setup, judge, table)
    measure_cold(setup, judge, table)
    measure_pooled(setup, judge, table)
