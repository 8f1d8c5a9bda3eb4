#!/usr/bin/python3
"""level_kills.py - programs of cells and of the server are killed at random moments of the life of sessions at levels gvisor and microvm.

    level_kills.py CORDON [--times N] [--seed S] [KIND ...]

Each kind of work (level_work.py) is interrupted N times by the end of: the shim, the engine (the sandbox of runsc, its gofer, the runsc
that waits; QEMU), cordond, the keepers, cordon-storage, or all of the server at once. On the same server a session of each level
lives, whose program counts on. After each kill: the requests have one answer each, unless cordond was the victim; the session can be used,
or has ended for the true reason, which is that its own cell was killed; nothing of other sessions is lost; and when all is deleted
no process, cgroup, socket, mount, id range, layer or quota is left. The seed is printed."""
import argparse
import contextlib
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "server"))
import harness  # noqa: E402
import guest_kernel  # noqa: E402
import runsc  # noqa: E402
from harness import Failed, Server, cgroups_of, check, children, comm, equal, note, processes_of, wait_for  # noqa: E402
from level_work import COLD, KINDS, PATIENCE, Work  # noqa: E402
from tree import make_tree  # noqa: E402

CELL = {"gvisor": {"shim": "killed", "runsc-sandbox": "engine_exited", "runsc-gofer": "engine_exited", "runsc": "engine_exited"},
        "microvm": {"shim": "killed", "qemu-system-x86_64": "engine_exited"}}
OF_SERVER = ("cordond", "cordon-keeper", "cordon-storage", "all")
COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/n; sleep 0.2; done"
CLEAR = {"gone", "unavailable", "internal", "conflict", "not_found"}  # codes of an error that a kill makes


def named(pid):
    """What a process of a cell is: the name it was started by; a process that gVisor runs programs in has none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            first = f.read().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""
    return "shim" if comm(pid) == "cordon-shim" else os.path.basename(first)


def id_ranges(server):
    """Locks on ranges of ids (src/cell/keeper/ids.c) that programs of the server hold; those in use are held by cells alone."""
    found = []
    for pid in (server.process.pid, *children(server.process.pid)):
        with contextlib.suppress(OSError):
            found += [to for n in os.listdir(f"/proc/{pid}/fd") if "/ids.d/" in (to := os.readlink(f"/proc/{pid}/fd/{n}"))]
    return found


class Kills:
    def __init__(self, server, rand):
        self.server, self.rand, self.counts, self.answers = server, rand, {}, {}
        self.work = Work(server)
        self.others = {level: self.other(level) for level in ("container", "gvisor", "microvm")}
        self.settled = self.facts()

    # -- sessions that live on

    def other(self, level):
        session = self.work.create({"level": level, "template": "small", "timeout": "10h", **COLD})
        self.server.spawn(session, COUNTER)
        return [session, self.counts_on(session, 0)]

    def counts_on(self, session, least):
        def number():
            done = self.work.send("POST", f"/v1/sessions/{session}/executions?wait=true", {"command": "cat /tmp/n", "timeout": "60s"})
            text = done.data["stdout"].strip() if done.status == 200 else ""
            return int(text) if text and int(text) > least else None

        return wait_for(number, PATIENCE, f"{session} to count on from {least}; it is {self.work.send('GET', '/v1/sessions/' + session)}")

    # -- killing

    def pids_of(self, victim, work):
        """Processes of that name in the cell of the work's session; without one, in any cell that is not the others'."""
        cells = {n[:-5] for n in os.listdir(os.path.join(self.server.run_dir, "cells")) if n.endswith(".sock")}
        cells = {work.session} if work.session else cells - {o[0] for o in self.others.values()}
        return [(pid, cell) for pid, cell in processes_of(cells).items() if named(pid) == victim]

    def kill(self, victim, work):
        """The ids of the cells that were hit."""
        if victim not in OF_SERVER:
            found = self.pids_of(victim, work)
            hit = [self.rand.choice(found)] if found else []
        elif victim == "all":
            hit = [(pid, None) for pid in (self.server.process.pid, *children(self.server.process.pid))]
        else:
            hit = [(pid, None) for pid in self.server.pids(victim)]
        for pid, _ in hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim == "all":
            self.server.process.wait()
            self.server.start(ready=False)
        return {cell for _, cell in hit if cell}

    def once(self, kind):
        work, answers = kind(self.server), []
        work.begin()
        victim = self.rand.choice([*CELL[work.body["level"]], *OF_SERVER])
        worker = threading.Thread(target=lambda: answers.extend(work.run()), daemon=True)
        at = self.rand.random() * work.seconds
        worker.start()
        time.sleep(at)  # the moment of the kill is the point of the test
        hit = self.kill(victim, work)
        worker.join(3 * PATIENCE)
        check(not worker.is_alive(), "a request does not end")
        self.server.wait_ready(60)
        try:
            self.judge(work, victim, hit, answers)
        except Failed as e:
            raise Failed(f"{victim} killed after {at:.3f} s, hit {hit or 'the server' if victim in OF_SERVER else hit}, answers "
                         f"{[str(a) for a in answers]}: {e}") from None
        word = victim if hit or victim in OF_SERVER else "none yet"
        self.counts[word] = self.counts.get(word, 0) + 1

    # -- judging

    def judge(self, work, victim, hit, answers):
        for a in answers:
            check(a.status is not None or victim in ("cordond", "all") or (isinstance(a.data, str) and "IncompleteRead" in a.data and hit),
                  "a request has no answer")
            check(a.status != 0, f"a request is not answered within {PATIENCE} s")
            check(a.status is None or a.status < 400 or hit or victim in OF_SERVER, "a request failed although nothing was killed")
            self.answers[a.word()] = self.answers.get(a.word(), 0) + 1
            if a.status is not None and a.status >= 400:
                check(isinstance(a.data, dict) and a.data["error"]["code"] in CLEAR and a.data["error"]["message"], f"not a clear answer: {a}")
        if not work.own and answers[0].status == 201:
            work.session = answers[0].data["id"]
            self.server.ids.add(work.session)
        alive = self.fate(work.session, victim, hit, {"deleted"} if work.deletes else set()) if work.session else True
        work.look(answers, alive)
        for level, other in self.others.items():
            equal(self.server.get(other[0])["state"], "running", f"the session at level {level} that was not touched")
        for session in self.live():
            self.end(session, victim, hit)
        if work.session:
            self.server.reaches(work.session, "ended", 60)
        self.nothing_is_left()

    def live(self):
        mine = {o[0] for o in self.others.values()}
        return [s["id"] for s in self.server.want(200, "GET", "/v1/sessions?ended=false&limit=100")["sessions"] if s["id"] not in mine]

    def fate(self, session, victim, hit, also=frozenset()):
        """Whether it lives, and can be used; else it has ended, and that is true."""
        def settled():
            now = self.server.get(session)
            return now if now["ended_at"] or (session not in hit and now["state"] in ("running", "paused")) else None

        now = wait_for(settled, 60, f"{session} to be anything: {self.work.send('GET', '/v1/sessions/' + session)}")
        if now["ended_at"] is None:
            wait_for(lambda: self.work.is_usable(session) or self.server.get(session)["ended_at"], PATIENCE, f"use of {session}")
            now = self.server.get(session)
        if now["ended_at"]:
            true = {reason for names in CELL.values() for name, reason in names.items() if name == victim} if session in hit else set()
            check(now["reason"] in true | also, f"{session} has ended: {now['reason']} ({now['detail']})")
        return now["ended_at"] is None

    def end(self, session, victim, hit):
        """One whose request was not answered, or a child: it works, or ends by itself."""
        self.server.ids.add(session)

        def settled():
            now = self.server.get(session)
            return now if now["state"] in ("running", "paused", "stopped", "ended") else None

        wait_for(settled, PATIENCE, f"{session} to be anything")
        if self.server.get(session)["ended_at"] is None and self.fate(session, victim, hit):
            self.server.delete(session)
        self.server.reaches(session, "ended", 60)

    def facts(self):
        """What must be the same when nothing but the others is there."""
        used = self.server.want(200, "GET", "/v1/limits")["used"]
        layers = [x["kind"] for x in self.server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] not in ("root", "memory")]
        return {"layers": sorted(layers), **{name: used[name] for name in ("sessions", "memory_bytes", "pids")}}

    def nothing_is_left(self):
        self.server.note_cells()

        def left():
            cells = {n[:-5] for n in os.listdir(os.path.join(self.server.run_dir, "cells")) if n.endswith(".sock")}
            ended = {i for i in self.server.ids - {o[0] for o in self.others.values()} if i not in cells or i in known}
            found = [f"process {pid} ({comm(pid)}) of {i}" for pid, i in processes_of(ended).items()]
            found += [f"cgroup {path}" for path in cgroups_of(ended)]
            found += [f"socket of {i}" for i in cells & ended]
            with open("/proc/self/mountinfo", encoding="utf-8") as f:
                found += [f"mount {line.strip()}" for line in f if any(i in line for i in ended)]
            found += [f"id range {name}" for name in id_ranges(self.server)]
            now = self.facts()
            return found + [f"{name}: {now[name]} instead of {was}" for name, was in self.settled.items() if now[name] != was]

        known = {s["id"] for s in self.server.want(200, "GET", "/v1/sessions?limit=1000&ended=any")["sessions"]}
        end = time.monotonic() + 60
        while found := left():
            check(time.monotonic() < end, f"left: {found[:10]}")
            time.sleep(0.1)

    def finish(self):
        for level, other in self.others.items():
            other[1] = self.counts_on(*other)

    def give_up(self):
        """After a failure: the next kind begins with nothing of this one."""
        self.server.wait_ready(60)
        for session in self.live():
            self.work.send("DELETE", f"/v1/sessions/{session}")
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            self.work.send("DELETE", "/v1/snapshots/" + shot["id"].replace(":", "%3A"))


def start(program, folder):
    os.mkdir(os.path.join(folder, "state"))
    guest_kernel.give(program, pathlib.Path(folder) / "state")
    server = Server(harness.reachable(program), folder=folder, pool_size=0, pool_started_size=1, memory_default="128M", disk_default="64M",
                    runsc=runsc.find(program))
    make_tree(os.path.join(server.state, "templates", "small"))
    server.want(201, "POST", "/v1/templates", {"name": "small", "root": {"kind": "layers", "layers": ["small"]}})
    return server


def run(kills, name, times):
    for _ in range(times):
        kills.once(KINDS[name])
    kills.finish()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=" ".join(KINDS))
    args = parser.parse_intermixed_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    names, bad = args.kinds or list(KINDS), 0
    if "--seed" not in sys.argv:
        sys.argv += ["--seed", str(args.seed)]
    harness.isolate()
    print(f"1..{len(names) + 1}\n# seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="cordon-kills-", dir="/var/tmp") as folder:
        server = start(os.path.abspath(args.cordon), folder)
        try:
            kills = Kills(server, None)
            for number, name in enumerate(names, 1):
                began, at, kills.counts, kills.answers = time.monotonic(), len(server.log()), {}, {}
                kills.rand = random.Random(f"{args.seed} {name}")
                verdict, why = harness.attempt(run, kills, name, args.times)
                bad += verdict != "ok"
                print(f"{verdict} {number} - {name}", flush=True)
                killed, answers = (", ".join(f"{n} {what}" for what, n in sorted(x.items())) for x in (kills.counts, kills.answers))
                note(f"killed: {killed}; answers: {answers}; {time.monotonic() - began:.0f} s")
                if verdict != "ok":
                    note(why)
                    note("\n".join(line for line in server.log()[at:].splitlines() if "msg=request " not in line)[-8000:])
                    kills.give_up()
            verdict, why = harness.attempt(server.close)
            print(f"{verdict} {len(names) + 1} - nothing is left", flush=True)
            note(why)
            return int(bad > 0 or verdict != "ok")
        finally:
            server.destroy()


if __name__ == "__main__":
    sys.exit(main())
