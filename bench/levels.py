"""The levels beside each other: sessions in containers, in gVisor and in virtual machines; a section of bench/run.

Two servers of its own with a small root as template (tests/shared/slim_root.py), so that all levels run the same programs: one
with pools, and one without. QEMU by itself (tests/levels/engine.py) is what virtual machines are measured against: its boot,
and a clone up to its first answer; `runsc run` by itself is what gVisor is measured against. Levels that this machine cannot do are
left out. What all rows have in common: "first output" is the answer of an execution of `/bin/echo`, and every time is that of a client.
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
BULK_MIB = 256  # so that the start of the program that writes it does not count
FILE_MIB = 24  # twice that has room on the disk while a file is replaced
ROUNDS = 10
SPEED_ROUNDS = 5
# Milliseconds, MiB, MB/s.
TARGETS = {"gvisor cold": 250, "gvisor pooled": 40, "microvm pooled": 80, "clone": 70, "fork": 150, "private": 30, "stream": 200}
WRITER = f"import os\nb = b'x' * (1 << 20)\nfor _ in range({BULK_MIB}): os.write(1, b)"


def figures(times):
    return f"{min(times):.1f}", f"{statistics.median(times):.1f}"


def timed(work, *arguments):
    """Milliseconds, and what it gave."""
    begin = time.perf_counter()
    given = work(*arguments)
    return (time.perf_counter() - begin) * 1e3, given


def judge_times(judge, text, limit, times):
    judge(f"levels: {text}, minimum, ms", limit, min(times))
    judge(f"levels: {text}, median, ms", limit, statistics.median(times))


class Level:
    """Measurements of one level with one server."""

    def __init__(self, client, name):
        self.c, self.name, self.body = client, name, {"level": name, "template": "slim"}

    def first_output(self, **body):
        session = self.c.create(**(body or self.body))
        self.c.run(session, "/bin/echo", "ready")
        return session

    def starts(self, rounds, rest=0.2, **body):
        times = []
        for _ in range(rounds):
            ms, session = timed(lambda: self.first_output(**body))
            times.append(ms)
            self.c.remove(session)
            time.sleep(rest)
        return times

    def execs(self, session, *argv):
        self.c.run(session, *argv)
        return [timed(self.c.run, session, *argv)[0] for _ in range(ROUNDS)]

    def live(self):
        """A session with a program that goes on."""
        session = self.c.create(**self.body)
        self.c.ask("POST", f"/v1/sessions/{session}/executions", {"argv": ["/bin/sleep", "1000"]})
        self.c.run(session, "/bin/true")
        return session

    def forks(self):
        """Until the fork is answered, and until its first output."""
        session, made, told = self.live(), [], []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            child = self.c.ask("POST", f"/v1/sessions/{session}/fork", {"count": 1})["sessions"][0]["id"]
            made.append((time.perf_counter() - begin) * 1e3)
            self.c.run(child, "/bin/echo", "ready")
            told.append((time.perf_counter() - begin) * 1e3)
            self.c.remove(child)
            time.sleep(0.2)
        self.c.remove(session)
        return made, told

    def pauses(self):
        """Until it is paused, and from the request to go on until the next output."""
        session, paused, resumed = self.live(), [], []
        for _ in range(ROUNDS):
            paused.append(timed(self.c.ask, "POST", f"/v1/sessions/{session}/pause", {})[0])
            time.sleep(0.5)
            begin = time.perf_counter()
            self.c.ask("POST", f"/v1/sessions/{session}/resume", {})
            self.c.run(session, "/bin/echo", "ready")
            resumed.append((time.perf_counter() - begin) * 1e3)
        self.c.remove(session)
        return paused, resumed

    def from_snapshot(self):
        """Sessions of a snapshot of a live one; at level microvm with its memory."""
        session = self.live()
        snapshot = self.c.ask("POST", f"/v1/sessions/{session}/snapshots", {})["id"]
        self.c.remove(session)
        self.starts(2, template=snapshot, level=self.name)
        return self.starts(ROUNDS, rest=1, template=snapshot, level=self.name)

    def speeds(self, work, mib):
        """MB/s: the best, and the median."""
        taken = [mib * MIB / 1e3 / timed(work)[0] for _ in range(SPEED_ROUNDS)]
        return f"{max(taken):.0f}", f"{statistics.median(taken):.0f}"

    def output(self, session):
        return self.speeds(lambda: self.c.run(session, "python3", "-c", WRITER), BULK_MIB)

    def files(self, session):
        path, data = f"/v1/sessions/{session}/files?path=/tmp/bulk", os.urandom(FILE_MIB * MIB)

        def down():
            if self.c.bytes("GET", path) != data:
                raise RuntimeError(f"{self.name}: a file came back changed")

        return (*self.speeds(lambda: self.c.bytes("PUT", path, data), FILE_MIB), *self.speeds(down, FILE_MIB))


class Bytes(state.Client):
    """A client that also moves files."""

    def bytes(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/octet-stream"}
        self.http.request(method, path, body, headers)
        answer = self.http.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data


def processes_of(to):
    """All processes below a server's own: other servers may be at work."""
    children = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
        except OSError:
            continue  # it has ended
    found, left = set(), [to.process.pid]
    while left:
        more = children.get(left.pop(), [])
        found.update(more)
        left += more
    return found


def memory_of_idle(level, to, *program):
    """MiB for each idle session, which has run that program, if any: private memory of all processes of its cell."""
    before = processes_of(to)
    sessions = [level.c.create(**level.body) for _ in range(IDLE)]
    for session in sessions if program else []:
        level.c.run(session, *program)
    time.sleep(3)
    total = 0
    for pid in processes_of(to) - before:
        total += sum(server.field(pid, "smaps_rollup", word) for word in ("Private_Dirty", "Private_Clean"))
    for session in sessions:
        level.c.remove(session)
    return total / 1024 / IDLE


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
        copy, (ram, devices) = timed(guest.order, "snapshot")
    restored, answered = [], []
    for _ in range(2 * ROUNDS):
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
    judge_times(judge, "clone to first answer", TARGETS["clone"], answered)


def plain_runsc(setup, table):
    """The bundle of bench/run, with the platform that Cordon uses."""
    path, bundle = runsc.find(setup.build / "cordon"), setup.folder / "full"
    if not path or not (bundle / "config.json").exists():
        print("runsc by itself is left out: there is none, or no bundle")
        return

    def run(number):
        subprocess.run([path, "--root", setup.folder / "state" / "runsc-levels", "--platform=systrap", "--network=none", "run", "--bundle", bundle,
                        f"cordon-bench-{os.getpid()}-level-{number}"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    table(("runsc run by itself", "min ms", "median ms"), [("/bin/true", *figures([timed(run, number)[0] for number in range(ROUNDS)]))])


def measure_pooled(setup, judge, table):
    starts, execs, states, moved = [], [], [], []
    with Guests(setup, {}) as to:
        c = Bytes(to)
        for name in prepare(to, setup.build, c):
            level = Level(c, name)
            level.starts(2)  # its images are made, its pool fills
            time.sleep(5)
            pooled = level.starts(ROUNDS, rest=1.5)  # the pool is full again
            session = c.create(**level.body)
            execs.append((name, *figures(level.execs(session, "/bin/true")), *figures(level.execs(session, "python3", "-c", "0"))))
            output = level.output(session)
            moved.append((name, *output, *level.files(session)))
            c.remove(session)
            forked, told = level.forks()
            paused, resumed = level.pauses()
            states.append((name, *figures(level.from_snapshot()), *figures(forked), *figures(told), *figures(paused), *figures(resumed)))
            private = memory_of_idle(level, to, "/bin/true")
            starts.append((name, *figures(pooled), f"{private:.1f}"))
            if f"{name} pooled" in TARGETS:
                judge_times(judge, f"create and run, {name} pooled", TARGETS[f"{name} pooled"], pooled)
            if name == "microvm":
                judge_times(judge, "fork of a live session, microvm", TARGETS["fork"], forked)
                judge("levels: private memory of a clone after a program, MiB", TARGETS["private"], private)
                judge("levels: output of a guest, best, MB/s", TARGETS["stream"], float(output[0]), least=True)
                judge("levels: output of a guest, median, MB/s", TARGETS["stream"], float(output[1]), least=True)
    table(("create to first output, pooled", "min ms", "median ms", f"private MiB each, {IDLE} after a program"), starts)
    table(("exec in a session", "true: min ms", "median ms", "python3: min ms", "median ms"), execs)
    table(("of a live session", "from a snapshot: min ms", "median", "fork: min ms", "median", "fork to output: min", "median", "pause: min ms", "median",
           "resume to output: min", "median"), states)
    table((f"MB/s, {BULK_MIB} MiB of output, files of {FILE_MIB} MiB", "output: best", "median", "file up: best", "median", "file down: best", "median"), moved)


def measure_cold(setup, judge, table):
    rows = []
    with Guests(setup, {"pool_size": 0, "pool_max": 0}) as to:
        c = Bytes(to)
        for name in prepare(to, setup.build, c):
            level = Level(c, name)
            first, = level.starts(1)
            cold = level.starts(ROUNDS)
            private = memory_of_idle(level, to)
            rows.append((name, f"{first:.0f}", *figures(cold), f"{private:.1f}"))
            if f"{name} cold" in TARGETS:
                judge_times(judge, f"create and run, {name} cold", TARGETS[f"{name} cold"], cold)
            if name == "microvm":
                judge("levels: private memory of an idle clone, MiB", TARGETS["private"], private)
    table(("create to first output, no pool", "first of its template, ms", "min ms", "median ms", f"private MiB each, {IDLE} that ran nothing"), rows)


def guests(setup, judge, table, heading):
    """Virtual machines alone: what programs, forks and output cost in them, by KVM where the machine's is good, else emulated."""
    heading("guests: virtual machines")
    with Guests(setup, {}) as to:
        c = Bytes(to)
        if "microvm" not in prepare(to, setup.build, c):
            raise RuntimeError(f"this machine has no virtual machines: {c.ask('GET', '/v1/node')['levels']['microvm']}")
        level = Level(c, "microvm")
        level.starts(2)
        session = c.create(**level.body)
        execs = level.execs(session, "/bin/true")
        output = level.output(session)
        c.remove(session)
        forked, told = level.forks()
        note = c.ask("GET", "/v1/node")["levels"]["microvm"]["note"]
    table((note or "microvm", "min ms", "median ms"),
          [("exec of /bin/true", *figures(execs)), ("fork of a live session", *figures(forked)), ("fork to the child's first output", *figures(told))])
    table((f"MB/s, {BULK_MIB} MiB", "best", "median"), [("output", *output)])
    judge_times(judge, "fork of a live session, microvm", TARGETS["fork"], forked)
    judge("levels: output of a guest, best, MB/s", TARGETS["stream"], float(output[0]), least=True)


def section(setup, judge, table, heading):
    heading("levels: container, gVisor, virtual machine")
    if not shutil.which("qemu-system-x86_64") or not os.path.exists(setup.build / "tests" / "levels" / "engine_driver"):
        print("QEMU by itself is left out: no qemu-system-x86_64, or tests/levels is not built")
    else:
        plain_qemu(setup, judge, table)
    plain_runsc(setup, table)
    measure_cold(setup, judge, table)
    measure_pooled(setup, judge, table)
