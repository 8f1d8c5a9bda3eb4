#!/usr/bin/python3
"""chaos.py - kills the server's processes while clients use it, and compares what they were told with
what is there.

    chaos.py CORDON [--kills 60] [--seed N] [--workers 4] [--clients 3]

Workers use the native interface (ledger.py), clients that of E2B (e2b.py).

kill -9 of cordond, cordon-keeper, cordon-egress, a cell's PID 1, the supervisor (which is started again), or all three
programs at once, at random moments: often within milliseconds after a request was sent, sometimes while
the server still comes back from the last one. The seed is printed; the same one makes the same choices."""
import argparse
import os
import random
import signal
import sqlite3
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
import sanitizer  # noqa: E402
from harness import Failed, Server, check, comm, note, rss, wait_for  # noqa: E402
from e2b import Client  # noqa: E402
from e2b_box import Sandbox  # noqa: E402
from ledger import Ledger, Worker  # noqa: E402
from net_clients import NetWorker, Watch, internet  # noqa: E402
from tap import STAGE, namespaces  # noqa: E402

LIVE = ("running", "paused", "pausing", "resuming")
READY_S = 10  # for the server to come back
STUCK_S = 10  # for a session to get where it goes
MEMORY_MORE = 8 << 20
SANITIZED_MORE = 64 << 20  # freed memory that AddressSanitizer keeps
CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "unified")


class OwnCgroups:
    """Directories of our own in each hierarchy, so that every cgroup below is ours. Not with cgroup v2
    alone, where a server's cells are at the top: there only what has a known name is looked for."""

    def __init__(self):
        self.paths = []
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            return
        with open("/proc/self/cgroup") as f:
            lines = [line.rstrip("\n").split(":", 2) for line in f]
        for name in CONTROLLERS:
            own = next((p for n, c, p in lines if name in c.split(",") or (name == "unified" and n == "0")), None)
            path = f"/sys/fs/cgroup/{name}{own}/chaos-{os.getpid()}-{int(time.time())}"
            if own is None or not os.path.isdir(f"/sys/fs/cgroup/{name}"):
                continue
            os.mkdir(path)
            with open(path + "/cgroup.procs", "w") as f:
                f.write("0")
            self.paths.append(path)

    def cells(self):
        return [os.path.join(f, n) for p in self.paths for f, dirs, _ in os.walk(p) for n in dirs if n.startswith("cordon-")]

    def leave(self):
        for path in self.paths:
            with open(os.path.dirname(path) + "/cgroup.procs", "w") as f:
                f.write("0")
            for folder, _, _ in os.walk(path, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError as e:
                    note(f"{folder}: {e}")


def pid1(session_id):
    """PID 1 of a cell, as this process sees it."""
    for pid in harness.processes_of({session_id}):
        try:
            with open(f"/proc/{pid}/status") as f:
                if any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in f):
                    return pid
        except OSError:
            pass
    return None


def descriptors(pid):
    """How many are open. A reserve of descriptors is copies of one pipe's end, which count once."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass
    pipes = [to for to in found if to.startswith("pipe:")]
    return len(found) - len(pipes) + len(set(pipes))


class Chaos:
    def __init__(self, server, args):
        self.server, self.args = server, args
        self.random = random.Random(args.seed)
        self.ledger = Ledger(server)
        self.killed = {}
        self.longest = 0.0

    # -- killing

    def any_pid(self, name):
        """Of one of the processes of that program; None if there is none now."""
        found = self.server.pids(name)
        return self.random.choice(found) if found else None

    def kill_pid(self, pid):
        try:
            if pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_init(self):
        with self.ledger.lock:
            live = [s for s in self.ledger.sessions if not s.lost_allowed]
        if not live:
            return
        victim = self.random.choice(live)
        pid = pid1(victim.id)
        victim.killed = True
        self.kill_pid(pid)

    def kill_supervisor(self):
        self.server.process.kill()
        self.server.process.wait()
        time.sleep(self.random.choice([0, 0, 0.003, 0.05]))
        self.server.start(ready=False)

    def kill_all(self):
        pids = [p for name in ("cordond", "keeper", "cordon-egress") for p in self.server.pids(name)]
        self.server.process.kill()
        for pid in pids:
            self.kill_pid(pid)
        self.server.process.wait()
        self.server.start(ready=False)

    def kill(self):
        what = self.random.choices(
            ["cordond", "keeper", "cordon-egress", "init", "supervisor", "all"], [30, 20, 12, 12, 14, 12]
        )[0]
        if self.random.random() < 0.6:  # right after a request was sent
            self.ledger.started.clear()
            self.ledger.started.wait(0.5)
            time.sleep(self.random.random() * 0.005)
        else:
            time.sleep(self.random.random() * 0.3)
        self.killed[what] = self.killed.get(what, 0) + 1
        self.ledger.generation += 1
        if what == "init":
            self.kill_init()
        elif what == "supervisor":
            self.kill_supervisor()
        elif what == "all":
            self.kill_all()
        else:
            self.kill_pid(self.any_pid(what))
        self.ledger.generation += 1
        return what

    def run(self):
        workers = [Worker(self.ledger, i, self.args.seed) for i in range(self.args.workers)]
        workers += [Client(self.ledger, f"e{i}", self.args.seed) for i in range(self.args.clients)]
        workers += [NetWorker(self.ledger, f"n{i}", self.args.seed) for i in range(self.args.networkers)]
        workers.append(Watch(self.ledger))
        for w in workers:
            w.start()
        time.sleep(0.5 if self.args.kills else 10)  # without kills it is the clients that are tested
        for number in range(self.args.kills):
            what = self.kill()
            if self.random.random() < 0.2:
                continue  # the next one strikes while it comes back
            began = time.monotonic()
            self.server.wait_ready(READY_S)
            self.longest = max(self.longest, time.monotonic() - began)
            self.compare_sessions(f"after kill {number} ({what})")
            time.sleep(self.random.random() * 0.2)
        self.server.wait_ready(READY_S)
        time.sleep(0.5)
        self.ledger.stop.set()
        for w in workers:
            w.join(90)
            check(not w.is_alive(), "a worker hangs")
        note(f"killed {self.killed}, longest return {self.longest:.2f} s, sessions {len(self.ledger.sessions)}")
        note(" ".join(f"{k}={v}" for k, v in sorted(self.ledger.counts.items())))

    # -- comparing

    def list_sessions(self):
        found, after = {}, ""
        while after is not None:
            status, data = self.ledger.ask("list", "GET", f"/v1/sessions?limit=500&ended=any{after}")
            if status != 200:
                return None
            found.update((s["id"], s) for s in data["sessions"])
            after = None if data["next"] is None else f"&after={data['next']}"
        return found

    def compare_sessions(self, when):
        """Everything acknowledged is there, in a state that it may have."""
        with self.ledger.lock:
            known = [(s, s.lost_allowed, s.deleted) for s in self.ledger.sessions]
        found = self.list_sessions()
        if found is None:
            return
        for s, allowed, deleted in known:
            row = found.get(s.id)
            if row is None:
                self.ledger.problem(f"{when}: session {s.id} has no record")
            elif deleted == "done" and row["state"] not in ("ending", "ended"):
                self.ledger.problem(f"{when}: deleted session {s.id} is {row['state']}")
            elif not allowed and not s.lost_allowed and row["state"] not in LIVE:
                self.ledger.problem(f"{when}: session {s.id} is {row['state']} ({row['reason']})")

    def settle(self, s):
        """Where every session must get to by itself."""

        def there():
            row = self.server.get(s.id)
            good = ("ended",) if s.killed or s.ends or s.deleted == "done" else ("running", "paused", "stopped", "ended")
            return row if row["state"] in good else None

        row = wait_for(there, STUCK_S, f"end of {s.id} (killed {s.killed}, deleted {s.deleted!r})", step=0.05)
        reasons = ({"killed", "oom", "crashed"} if s.killed else set()) | (s.reasons if s.lost_allowed else set())
        if row["state"] == "ended" and row["reason"] not in reasons:
            raise Failed(f"session {s.id} ended as {row['reason']}, killed {s.killed}, deleted {s.deleted!r}, "
                         f"might end by itself {getattr(s, 'expiring', False)}: {row}")
        return row

    def check_execution(self, s, x, session_row):
        path = f"/v1/sessions/{s.id}/executions/{x.id}"
        whole = session_row["state"] != "ended"

        def over():
            row = self.server.want(200, "GET", path)
            return row if row["ended_at"] and (not whole or not row["output_open"]) else None

        row = wait_for(over, 60, f"end of {x.id} ({x.kind}) of {s.id}", step=0.05)
        for stream, want in (("stdout", x.out), ("stderr", x.err)):
            got = self.server.want(200, "GET", f"{path}/output?stream={stream}", raw=True)
            good = got == want if whole and x.code is not None else want.startswith(got)
            if not good:
                at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                raise Failed(
                    f"{x.id} ({x.kind}) of {s.id}: {stream} is {len(got)} bytes, want {len(want)}, differs at "
                    f"{at}: {got[at - 20:at + 60]!r}; {row}"
                )
        if whole and x.code is not None and (row["state"], row["exit_code"]) != (x.state, x.code):
            raise Failed(f"{x.id} ({x.kind}) of {s.id}: want exit {x.code}: {row}")

    def check_files(self, s):
        for path, may in s.files.items():
            status, _, data = self.server.request("GET", f"/v1/sessions/{s.id}/files?path={path}", raw=True)
            got = data if status == 200 else None
            if (status != 200 and status != 404) or got not in may:
                raise Failed(f"{path} of {s.id}: {status}, {len(data)} bytes, may be {[c and len(c) for c in may]}")

    def compare_all(self):
        for s in self.ledger.sessions:
            try:
                row = self.settle(s)
                if isinstance(s, Sandbox) and s.asleep == "yes" and not s.auto and not s.lost_allowed:
                    check(row["state"] == "paused", f"{s.id} was put to sleep and is {row['state']}")
                if row["state"] == "paused":
                    row = self.server.want(200, "POST", f"/v1/sessions/{s.id}/resume")
                for x in s.executions:
                    self.check_execution(s, x, row)
                if row["state"] != "ended":
                    self.check_files(s)
                    done = self.server.run(s.id, "echo alive")
                    check(done["stdout"] == "alive\n", f"{s.id} does not work: {done}")
                if isinstance(s, Sandbox):
                    s.finish(self.server, row)
            except Failed as e:
                self.ledger.problem(str(e))

    def end_all(self):
        for session_id, row in self.list_sessions().items():
            if row["state"] != "ended":
                self.server.delete(session_id)
        for session_id, row in self.list_sessions().items():
            if row["state"] != "ended":
                self.server.reaches(session_id, "ended", STUCK_S)


# --- what is there without a record -----------------------------------------------------------------


def rows(server, query):
    db = sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True)
    try:
        return {r[0] for r in db.execute(query)}
    finally:
        db.close()


def check_store(server):
    logs = {n[:-4] for n in os.listdir(server.state + "/output") if n != "removed"}
    removed = server.state + "/output/removed"  # logs whose space is freed in pieces
    wait_for(lambda: not os.listdir(removed), 20, "the end of removed logs")
    strays = logs - rows(server, "SELECT id FROM execution")
    check(not strays, f"logs without a record: {strays}")
    live = rows(server, "SELECT id FROM session WHERE ended_ms = 0")
    check(not live, f"sessions that never ended: {live}")
    live = rows(server, "SELECT id FROM execution WHERE ended_ms = 0")
    check(not live, f"executions that never ended: {live}")


def egress_processes(seed):
    """Half of the runs have two."""
    return 1 + seed % 2


def check_descriptors(server, name, before):
    """Of each of its processes."""

    def back():
        return all(abs(descriptors(p) - before) <= 4 for p in server.pids(name))

    try:
        wait_for(back, 10, f"descriptors of {name} back at {before}", step=0.2)
    except Failed as e:
        folder = f"/proc/{server.pid(name)}/fd"
        found = [os.readlink(f"{folder}/{n}") for n in os.listdir(folder)]
        raise Failed(f"{e}: {sorted(found)}") from None


def check_memory(server, before):
    """Idle again, it has what one that has just started has, and a little that malloc keeps (a sanitizer: more)."""
    now = rss(server.pid("cordond"))
    more = SANITIZED_MORE if sanitizer.is_sanitized(f"/proc/{server.pid('cordond')}/exe") else MEMORY_MORE
    note(f"memory of cordond: {before >> 10} KiB, then {now >> 10} KiB")
    check(now < before + more, "cordond keeps memory")


def check_gone(server, cgroups, spaces):
    wait_for(lambda: not cgroups.cells(), 10, f"end of cgroups {cgroups.cells()[:5]}")
    left = server.left()
    check(not left, "left behind:\n" + "\n".join(left[:40]))
    inits = [p for p in filter(str.isdigit, os.listdir("/proc")) if comm(p).startswith("cordon")]
    check(not inits, f"processes {[(p, comm(p)) for p in inits]}")
    more = namespaces() - spaces
    check(not more, f"namespaces {more}")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--networkers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--keep", action="store_true", help="leave the files of the server for a look")
    return parser.parse_args()


def main():
    args = parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    internet.enter()
    if STAGE not in os.environ and "--seed" not in sys.argv:
        sys.argv += ["--seed", str(args.seed)]
    harness.isolate()
    spaces = namespaces()
    cgroups = OwnCgroups()
    internet.start()
    print(f"1..8\n# seed {args.seed}, {args.kills} kills, {egress_processes(args.seed)} processes of cordon-egress", flush=True)
    program = harness.reachable(os.path.abspath(args.cordon))
    server = Server(program, pool_size=4, pool_max=8, memory_default="64M", disk_default="32M",
                    egress_processes=egress_processes(args.seed))
    wait_for(lambda: server.want(200, "GET", "/v1/node")["pool"]["ready"] >= 4, 10, "the pool")
    before, memory = descriptors(server.pid("cordond")), rss(server.pid("cordond"))
    egress = descriptors(server.pid("cordon-egress"))
    chaos, bad = Chaos(server, args), 0

    def step(number, name, function, *more):
        nonlocal bad
        began, had = time.monotonic(), len(chaos.ledger.problems)
        verdict, why = harness.attempt(function, *more)
        if verdict == "ok" and len(chaos.ledger.problems) > had:
            verdict, why = "not ok", "\n".join(chaos.ledger.problems[had:][:40])
        bad += verdict != "ok"
        print(f"{verdict} {number} - {name}", flush=True)
        note(f"{why}\n{time.monotonic() - began:.1f} s" if why else f"{time.monotonic() - began:.1f} s")

    step(1, f"{args.kills} kills under load", chaos.run)
    step(2, "nothing acknowledged is lost", chaos.compare_all)
    step(3, "every session can be deleted", chaos.end_all)
    step(4, "no log and no record is without the other", check_store, server)
    step(5, "descriptors of cordond are back", check_descriptors, server, "cordond", before)
    step(6, "descriptors of cordon-egress are back", check_descriptors, server, "cordon-egress", egress)
    step(7, "memory of cordond is back", check_memory, server, memory)
    server.note_cells()
    try:
        server.stop()
    except Failed as e:
        note(e)
    step(8, "no process, mount, cgroup, socket or namespace is left", check_gone, server, cgroups, spaces)
    if bad:
        note(f"replay: --seed {args.seed} --kills {args.kills}")
        note("\n".join(line for line in server.log().splitlines() if "level=warn" in line or "level=error" in line)[-4000:])
    if args.keep:
        server.own_folder = False
        note(f"files of the server: {server.folder}")
    server.destroy()
    cgroups.leave()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
