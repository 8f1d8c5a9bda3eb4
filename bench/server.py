"""The server's part of bench/run: a server of its own, measured by serverbench.

The server is started in the machine's own mount namespace, where it sees cgroups as it would in
service; the peers beside it run where crun can work (see bench/run). Limits that exist to keep
tenants apart are lifted, or the bench would measure them; everything else is the default.
"""
import ctypes
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import peers

CLONE_NEWNS = 0x20000
HELD = 1000
BURST = 100
LIVE = 5000
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
OUTPUT_BYTES = 1 << 30
FILE_BYTES = 256 << 20
USER = 64983  # cordond's: any id without privileges
SETTINGS = {"log_level": "warn", "user": USER, "node_max_sessions": 2 * LIVE,
            "tenant_max_sessions": 2 * LIVE, "node_max_memory": "64T", "tenant_max_storage": 0,
            "node_create_rate": 0, "tenant_create_rate": 0, "output_limit_max": "4G", "session_output_max": "4G",
            "pool_refill_per_second": 10000}
KINDS = ("SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu", "Shmem")
# From the requirement; times in milliseconds.
TARGETS = {"median": 4.0, "p99": 20.0, "crun": 0.25, "exec": (1.4, 0.3), "rate": 400,
           "session": 560, "daemon": 50}


class Server:
    """cordon serve of the build under test, in a folder of ours, until the block ends."""

    def __init__(self, build, folder, outside, settings=None, before=None):
        self.folder = folder / "server"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        if before:  # what must be there when it starts
            before()
        self.log = self.folder / "log"
        # As in service, where /run is in memory; some containers have it on disk.
        self.run_dir = pathlib.Path(tempfile.mkdtemp(prefix="cordon-bench-", dir="/dev/shm"))
        self.run_dir.chmod(0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self.command = [build / "cordon", "serve", "--state", self.folder / "state", "--run",
                   self.run_dir / "run", "--listen", self.address]
        self.command += [f"--{name.replace('_', '-')}={value}" for name, value in {**SETTINGS, **(settings or {})}.items()]
        self.outside = outside
        self.key_file = self.folder / "state" / "first.key"
        self.start()

    def start(self):
        libc = ctypes.CDLL(None, use_errno=True)

        def go_outside():
            if self.outside is not None and libc.setns(self.outside, CLONE_NEWNS):
                os._exit(126)

        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=go_outside)

    def __enter__(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            if self.key_file.exists() and self.ask("/readyz").startswith("HTTP/1.1 200"):
                return self
            time.sleep(0.02)
        self.__exit__()
        raise SystemExit(f"bench: the server does not start: {self.log.read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def ask(self, path):
        """The text of an answer that needs no key, or nothing."""
        host, port = self.address.split(":")
        try:
            with socket.create_connection((host, int(port)), 5) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n\r\n".encode())
                return b"".join(iter(lambda: s.recv(65536), b"")).decode(errors="replace")
        except OSError:
            return ""

    def pids(self, name):
        """Of children of the supervisor."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(c) for c in children.split() if pathlib.Path(f"/proc/{c}/comm").read_text().strip() == name]

    def pid(self, name):
        return next(iter(self.pids(name)), None)


def table(head, rows):
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w)
                        for i, (cell, w) in enumerate(zip(row, widths))))


class Part:
    """One run of the server's part: what bench/run calls a section."""

    def __init__(self, setup, server, judge):
        self.setup, self.server = setup, server
        self.judge = judge  # (text, limit, value, unit, least)

    def call(self, *arguments, **more):
        """The lines that serverbench printed, split at tabs; none (and said) if it failed."""
        done = subprocess.run([self.setup.build / "serverbench", self.server.address, self.server.key_file,
                               *map(str, arguments)], text=True, stdout=subprocess.PIPE, **more)
        if done.returncode:
            print(f"serverbench {arguments[0]} FAILED with {done.returncode}")
            self.setup.failed = True
        return [line.split("\t") for line in done.stdout.splitlines()]

    def turns(self, plan):
        """Latencies, interleaved with the peers."""
        rows = self.call("turns", self.setup.options.rounds, plan)
        figures = {name: (int(n), int(failed), *map(float, times)) for name, n, failed, *times in rows}
        plain = figures.get("fork+exec", (0,) * 5)[3]
        crun = figures.get("crun run", (0,) * 5)[3]
        shown = []
        for name, (n, failed, least, middle, worst) in figures.items():
            self.setup.failed |= failed > 0
            shown.append((name, n, "FAILED" if failed else "", f"{least:.0f}", f"{middle:.0f}", f"{worst:.0f}",
                          f"{middle / plain:.2f}" if plain else "", f"{middle / crun:.2f}" if crun else ""))
        table(("", "n", "", "min", "median", "p99", "x fork+exec", "x crun run"), shown)
        self.judge_turns(figures, plain, crun)

    def judge_turns(self, figures, plain, crun):
        full, inside = figures.get("create + run + result"), figures.get("exec in a session")
        self.judge("server: create + run + result, median", TARGETS["median"],
                   full and full[3] / 1000, " ms")
        self.judge("server: create + run + result, p99", TARGETS["p99"], full and full[4] / 1000, " ms")
        self.judge("server: create + run + result / crun run", TARGETS["crun"],
                   full[3] / crun if full and crun else None)
        times, extra = TARGETS["exec"]
        if inside and plain:
            self.judge(f"server: exec in a session ({times:g} x fork+exec + {extra:g} ms)",
                       round(times * plain / 1000 + extra, 2), inside[3] / 1000, " ms")

    def burst(self):
        rows = [row for _ in range(5) for row in self.call("burst", BURST)]
        table((f"{BURST} creates at once", "failed", "first ms", "median ms", "last ms"),
              [(f"run {i + 1}", row[1], *(f"{float(us) / 1000:.1f}" for us in row[2:]))
               for i, row in enumerate(rows)])
        failed = sum(int(row[1]) for row in rows) if len(rows) == 5 else None
        self.setup.failed |= bool(failed)
        self.judge(f"server: failures of 5 bursts of {BURST}", 0, failed)

    def rate(self):
        seconds = 2 if self.setup.options.rounds < 100 else 5
        taken = [row for _ in range(3) for clients in CLIENTS for row in self.call("rate", clients, seconds)]
        shown, best = [], None
        for clients in CLIENTS:
            mine = [row for row in taken if int(row[0]) == clients]
            if not mine:
                continue
            self.setup.failed |= any(int(row[2]) for row in mine)
            middle = statistics.median(float(row[3]) for row in mine)
            best = max(middle, best or 0)
            shown.append((clients, sum(int(row[1]) for row in mine), sum(int(row[2]) for row in mine),
                          f"{middle:.0f}", *(f"{statistics.median(float(row[i]) for row in mine) / 1000:.1f}"
                                             for i in (4, 5))))
        table(("clients", "cycles", "failed", "per second", "median ms", "p99 ms"), shown)
        self.judge("server: full cycles per second, sustained", TARGETS["rate"], best, least=True)

    def bulk(self):
        """Beside them a plain write to the same disk: on some machines fresh memory is slow."""
        path, begin = self.server.folder / "plain", time.monotonic()
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=64K", f"count={OUTPUT_BYTES >> 16}", "status=none"],
                       check=True)
        rows = [("dd to a file, no server", OUTPUT_BYTES, f"{time.monotonic() - begin:.3f}")]
        path.unlink()
        rows += self.call("output", OUTPUT_BYTES) + self.call("files", FILE_BYTES)
        table(("", "MiB", "seconds", "MiB/s"),
              [(name, int(size) >> 20, seconds, f"{(int(size) >> 20) / float(seconds):.0f}")
               for name, size, seconds in rows])

    def sanity(self):
        """The same calls by curl, once: a new process and connection for each."""
        curl = shutil.which("curl")
        if not curl:
            print("curl: not installed, left out")
            return
        key = f"X-API-Key: {self.server.key_file.read_text().strip()}"

        def ask(method, path, body=None):
            more = ["-H", "Content-Type: application/json", "-d", body] if body else []
            done = subprocess.run([curl, "-sS", "-X", method, "-H", key, "-w", "\n%{http_code} %{time_total}", *more,
                                   f"http://{self.server.address}{path}"], text=True, capture_output=True)
            text, _, last = done.stdout.rpartition("\n")
            code, seconds = last.split()
            return text, code, float(seconds) * 1e6

        text, *create = ask("POST", "/v1/sessions")
        name = re.search(r'"id":"([^"]+)"', text)
        path = f"/v1/sessions/{name.group(1) if name else '-'}"
        _, *run = ask("POST", f"{path}/executions?wait=true", f'{{"argv":["{peers.COMMAND}"]}}')
        _, *delete = ask("DELETE", path)
        print("curl: " + ", ".join(f"{what} {code} in {us:.0f} us"
                                   for what, (code, us) in (("create", create), ("run", run), ("delete", delete))))
        self.setup.failed |= (create[0], run[0], delete[0]) != ("201", "200", "204")

    # -- memory

    def memory(self):
        text = pathlib.Path("/proc/meminfo").read_text()
        now = {kind: int(re.search(rf"^{kind}:\s+(\d+)", text, re.M).group(1)) for kind in KINDS}
        now["PID 1"] = sum(pss(pid) for pid in processes("cordon-init"))
        now["keeper"] = sum(pss(pid) for pid in self.server.pids("cordon-keeper"))
        now["cordond"] = pss(self.server.pid("cordond"))
        return now

    def idle(self):
        print(memory_cgroup_cost())
        self.call("burst", BURST)  # both have seen work before
        time.sleep(1)
        before = self.memory()
        holder = subprocess.Popen([self.setup.build / "serverbench", self.server.address, self.server.key_file,
                                   "hold", str(HELD)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        total = daemon = None
        if holder.stdout.readline() == "made\n":
            time.sleep(1)
            after, daemon = self.memory(), rss(self.server.pid("cordond")) / 1024
            each = {kind: (after[kind] - before[kind]) / HELD for kind in after}
            total = sum(each.values())
            table(("KiB per idle session", ""), [(kind, f"{value:.1f}") for kind, value in each.items()]
                  + [("together", f"{total:.1f}")])
            print(f"cordond with {HELD} sessions: {daemon:.1f} MiB resident")
        holder.communicate()
        if holder.returncode:
            print(f"serverbench hold FAILED with {holder.returncode}")
            self.setup.failed = True
        self.judge(f"server: an idle session of {HELD}, kernel included", TARGETS["session"], total, " KiB")
        self.judge(f"server: cordond with {HELD} sessions", TARGETS["daemon"], daemon, " MiB")


    # -- how create behaves as sessions accumulate

    def live(self):
        """Prints the table, and gives it as Markdown for bench/measurements.md."""
        rounds = 10 if self.setup.options.rounds < 100 else 40
        rows = [(int(live), *map(float, times)) for live, _, *times in self.call("grow", LIVE, rounds)]
        if not rows:
            return ""
        table(("live sessions", "create median", "p99", "create + run median", "p99"),
              [(live, *(f"{us:.0f}" for us in times)) for live, *times in rows])
        first = statistics.median(row[1] for row in rows[:3])
        self.judge(f"server: create beside {rows[-1][0]} sessions / beside few", 1.5, rows[-1][1] / first)
        longest = max(row[3] for row in rows)
        lines = ["| live sessions | create, median | p99 | create + run, median | p99 | |", "|---|---|---|---|---|---|"]
        lines += [f"| {live} | {a:.0f} | {b:.0f} | {c:.0f} | {d:.0f} | `{'#' * max(1, round(30 * c / longest))}` |"
                  for live, a, b, c, d in rows]
        return "\n".join(lines) + "\n"


def kmalloc_bytes():
    rows = [line.split() for line in pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]]
    return sum(int(row[1]) * int(row[3]) for row in rows if row[0].startswith("kmalloc"))


def memory_cgroup_cost():
    """What an empty memory cgroup takes on this machine, as a sentence.

    Each holds a table that follows the largest number of file systems that the machine has had at one time since its boot. The kernel never
    makes it smaller, so it is a condition of what is measured: bench/vm-idle measures on a machine that was booted for it."""
    for place in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        folder, count = pathlib.Path(place) / "cordon-bench-empty", 50
        if not (pathlib.Path(place) / "cgroup.procs").exists():
            continue
        made = []
        try:
            before = kmalloc_bytes()
            for path in (folder, *(folder / str(n) for n in range(count))):
                path.mkdir()
                made.append(path)
            cost = (kmalloc_bytes() - before) / count / 1024
            return f"an empty memory cgroup of this machine takes {cost:.0f} KiB; each session has one"
        except OSError as why:
            return f"what an empty memory cgroup takes was not measured: {why}"
        finally:
            for path in reversed(made):
                path.rmdir()
    return "what an empty memory cgroup takes was not measured: no such cgroups"


def write_part(path, name, text):
    """Replaces the part of a document between two comments that name it."""
    begin, end = f"<!-- bench: {name} -->\n", f"<!-- end of {name} -->\n"
    whole = path.read_text()
    head, _, rest = whole.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise SystemExit(f"bench: {path} has no part {name}")
    path.write_text(head + begin + text + end + tail)


def processes(name):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def field(pid, file, word):
    try:
        found = re.search(rf"^{word}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/{file}").read_text(), re.M)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def pss(pid):
    return field(pid, "smaps_rollup", "Pss")


def rss(pid):
    return field(pid, "status", "VmRSS")
