#!/usr/bin/python3
"""guest_steps.py - each step of a pause, a resume, a snapshot, a fork and a create at level microvm is interrupted by the end of
each program that takes part.

    guest_steps.py CORDON SHIM [--all] [--seed S] [WORK:STATE:VICTIM ...]

SHIM is a cordon-shim with its symbols. A step is a state of the guest (guest_held.py), or STORAGE: cordon-storage is stopped while
it writes or copies the memory. Victims: the shim, the engine, cordond, the keepers, cordon-storage, or all of the server at once.
After each: the request has one answer, unless cordond was the victim; the session runs on, or is paused and goes on, or has
ended for the true reason if its own cell was the victim; a snapshot is usable or absent; children run or are not there; and no
process, image, copy of memory or quota is left. Without --all: one victim for each step, by the seed."""
import argparse
import contextlib
import http.client
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "server"))
import harness  # noqa: E402
import guest_kernel  # noqa: E402
from guest_held import Held, Symbols, pid_in  # noqa: E402
from harness import Failed, check, cgroups_of, children, comm, equal, processes_of, wait_for  # noqa: E402
from state_base import quoted  # noqa: E402
from tree import make_tree  # noqa: E402

COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/n; sleep 0.1; done"
RUNS = ("QUIESCING", "STOPPING", "SAVING")
STARTS = ("STARTING", "GOING_ON", "GREETING")
WORK = {  # the states of the guest that is worked on; those of a new one have a small letter in front
    "pause": (*RUNS, "STORAGE"),
    "snapshot": (*RUNS, "GOING_ON", "STORAGE"),
    "fork": (*RUNS, "GOING_ON", *("n" + s for s in STARTS)),  # of one child, whose engine is started at once
    "forks": ("SAVING", "STORAGE", "nSTARTING"),
    "resume": STARTS,
    "create": tuple("n" + s for s in STARTS),
}
CELL = {"shim": "killed", "engine": "engine_exited"}  # victims in a cell, and how a session is told to have ended
VICTIMS = (*CELL, "cordond", "keeper", "storage", "all")
LIMITS = {"memory": "256M"}  # not the default: no cell of a pool fits
PATIENCE = 100


class Request(threading.Thread):
    """One request and its answer; None: the server died under it."""

    def __init__(self, server, path, body=None):
        super().__init__(daemon=True)
        self.server, self.path, self.body, self.answer = server, path, body, None
        self.start()

    def run(self):
        try:
            status, _, data = self.server.request("POST", self.path, self.body, timeout=PATIENCE)
            self.answer = (status, data)
        except TimeoutError:
            self.answer = (0, "no answer")
        except (OSError, http.client.HTTPException, ValueError):
            pass


def is_clone(qemu):
    """Does this QEMU go on from a memory image?"""
    try:
        with open(f"/proc/{qemu}/cmdline", "rb") as f:
            return b"-incoming" in f.read().split(b"\0")
    except OSError:
        return False  # there is none, or it has ended


class Steps:
    def __init__(self, server, symbols):
        self.server, self.symbols = server, symbols
        self.session, self.least = None, 0
        self.delete(self.create())  # the template's guest is booted
        self.promised = self.memory()
        self.copies = self.memory_files()

    # -- what is there

    def ask(self, method, path, body=None):
        try:
            return self.server.request(method, path, body, timeout=PATIENCE)[::2]
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def memory(self):
        return self.server.want(200, "GET", "/v1/limits")["used"]["memory_bytes"]

    def memory_files(self):
        """Memory files that cordond has open: images and copies of them."""
        found, folder = 0, f"/proc/{self.server.pid('cordond')}/fd"
        for name in os.listdir(folder):
            try:
                found += "memfd:" in os.readlink(f"{folder}/{name}")
            except OSError:
                pass
        return found

    def layers(self):
        return [x["kind"] for x in self.server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] not in ("root", "memory")]

    def live(self):
        return [s["id"] for s in self.server.want(200, "GET", "/v1/sessions?ended=false&limit=100")["sessions"]]

    # -- sessions

    def create(self):
        made = wait_for(lambda: self.ask("POST", "/v1/sessions", {"template": "vm", "level": "microvm", "limits": LIMITS}), PATIENCE, "a session")
        equal(made[0], 201, f"create: {made[1]}")
        self.server.ids.add(made[1]["id"])
        return made[1]["id"]

    def delete(self, session):
        self.server.delete(session)
        self.server.reaches(session, "ended", 30)

    def number(self, session):
        status, done = self.ask("POST", f"/v1/sessions/{session}/executions?wait=true", {"command": "cat /tmp/n", "timeout": "30s"})
        text = done["stdout"].strip() if status == 200 and done["exit_code"] == 0 else ""
        return int(text) if text else None  # else it is being written

    def counts_on(self, session, least):
        """The program in its memory goes on, and not from an earlier time."""
        seen = []

        def goes():
            now = self.number(session)
            if now is not None:
                check(now >= least, f"{session} went back from {least} to {now}")
                seen.append(now)
            return seen and seen[-1] > seen[0]

        wait_for(goes, PATIENCE, f"{session} to go on; its state: {self.ask('GET', '/v1/sessions/' + session)[1]}", step=0.1)
        return seen[-1]

    def source(self):
        """A session in which a program counts; that of the last step, if it lives."""
        if self.session is None:
            self.session, self.least = self.create(), 1
            self.server.spawn(self.session, COUNTER)
            self.least = self.counts_on(self.session, 1)
        return self.session

    # -- one step

    def begin(self, work, children=1):
        """Sends the request."""
        path = f"/v1/sessions/{self.session}/"
        if work == "create":
            return Request(self.server, "/v1/sessions", {"template": "vm", "level": "microvm", "limits": LIMITS})
        if work.startswith("fork"):
            return Request(self.server, path + "fork", {"count": children if work == "fork" else 2 * children})
        return Request(self.server, path + {"snapshot": "snapshots"}.get(work, work), {"snapshot": {}}.get(work))

    def new_cell(self, before):
        """The id of a cell that was not there, of a session: not of the boot that its memory image is made by."""
        folder = os.path.join(self.server.run_dir, "cells")
        return wait_for(lambda: next((n[:-5] for n in os.listdir(folder) if n[:-5] not in before and is_clone(pid_in(n[:-5], "qemu"))), None), 60,
                        "a new cell", step=0.001)

    def hold_storage(self):
        """cordon-storage has the memory, and does not go on."""
        storage = self.server.pid("cordon-storage")
        os.kill(storage, signal.SIGSTOP)
        return storage

    def reach(self, work, state):
        """(the request, the guest that is held)"""
        cells = {n[:-5] for n in os.listdir(os.path.join(self.server.run_dir, "cells")) if n.endswith(".sock")}
        if state == "STORAGE":
            if work == "forks":  # so much that children share a copy
                large = f"cd /tmp && head -c 1000000 /dev/urandom > a && cat {'a ' * 10} > b && cat {'b ' * 11} > large && rm a b"
                equal(self.server.run(self.session, large)["exit_code"], 0)
            guest = Held(self.session, self.symbols)
            self.hold_storage()
            asked = self.begin(work, 2)
            guest.step_to("SAVING")
            guest.step_to("STOPPED" if work == "pause" else "RUNNING")
            return asked, guest
        if work == "resume":
            self.server.want(200, "POST", f"/v1/sessions/{self.session}/pause", timeout=PATIENCE)
            wait_for(lambda: not processes_of({self.session}), 30, "the end of its cell")
        if work == "resume" or state[0] == "n":
            asked = self.begin(work)
            guest = Held(self.session if work == "resume" else self.new_cell(cells), self.symbols)
        else:
            guest = Held(self.session, self.symbols)
            asked = self.begin(work)
        guest.step_to(state.lstrip("n"))
        return asked, guest

    def kill(self, victim, guest):
        if victim in CELL:
            os.kill(guest.shim if victim == "shim" else guest.qemu, signal.SIGKILL)
            return
        name = {"keeper": "cordon-keeper", "storage": "cordon-storage"}.get(victim, victim)
        pids = self.server.pids(name) if victim != "all" else [self.server.process.pid, *children(self.server.process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ends with the one before
                os.kill(pid, signal.SIGKILL)
        if victim == "all":
            self.server.process.wait()
            self.server.start(ready=False)

    def step(self, work, state, victim):
        self.source()
        asked, guest = self.reach(work, state)
        storage = self.server.pid("cordon-storage") if state == "STORAGE" else None
        self.kill(victim, guest)
        guest.go_on()
        if storage is not None and victim not in ("storage", "all"):
            os.kill(storage, signal.SIGCONT)
        asked.join(PATIENCE + 5)
        check(not asked.is_alive(), "the request does not end")
        self.server.wait_ready(60)
        check(asked.answer is not None or victim in ("cordond", "all"), "the request has no answer")
        check(asked.answer is None or asked.answer[0] != 0, f"the request is not answered within {PATIENCE} s")
        check(asked.answer is None or asked.answer[0] != 500 or victim in CELL, f"an internal error: {asked.answer}")
        self.judge(work, state, victim, asked.answer)
        self.nothing_is_left()
        return asked.answer

    def judge(self, work, state, victim, answer):
        """The session that was worked on, and what was made."""
        ended = victim in CELL and work != "resume" and state[0] != "n"
        if ended:
            def over():
                now = self.server.get(self.session)
                return now if now["ended_at"] or now["state"] == "paused" else None

            now = wait_for(over, 60, f"the end of {self.session}")
            if now["state"] == "paused":  # it was done before
                equal((work, answer[0]), ("pause", 200), "a pause that worked")
                ended = False
            else:
                equal(now["reason"], CELL[victim], "why the session has ended")
                check(answer[0] >= 400 or work != "pause", f"a pause of a session that has ended: {answer}")
        if not ended:
            self.least = self.counts_on(self.session, self.least)
        for other in self.live():
            if other != self.session:
                self.judge_other(work, other)
        for shot in self.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
            made = wait_for(lambda shot=shot: self.ask("POST", "/v1/sessions", {"template": shot["id"]}), PATIENCE, "a child")
            equal(made[0], 201, f"a session of a snapshot: {made[1]}")
            self.counts_on(made[1]["id"], 1)
            self.delete(made[1]["id"])
            self.server.want(204, "DELETE", "/v1/snapshots/" + quoted(shot["id"]))
        if work in ("fork", "forks", "snapshot") and ended and state in RUNS:
            check(answer[0] >= 400, f"a {work} of a guest that had ended: {answer}")
        if ended:
            self.session = None

    def judge_other(self, work, other):
        """A child, or a session whose request was never answered: it works, or ends by itself."""
        def settled():
            now = self.server.get(other)
            return now if now["state"] in ("running", "paused", "stopped", "ended") else None

        now = wait_for(settled, PATIENCE, f"{other} to be anything")
        if now["ended_at"] is None:
            if work.startswith("fork"):
                self.counts_on(other, 1)
            else:
                wait_for(lambda: self.ask("POST", f"/v1/sessions/{other}/executions?wait=true", {"command": "echo up"})[0] == 200, PATIENCE, "use of it")
            self.delete(other)

    def nothing_is_left(self):
        def left():
            found = [f"layer {kind}" for kind in self.layers()]
            live = self.live()
            if live != [s for s in (self.session,) if s]:
                found.append(f"sessions {live}")
            self.server.note_cells()
            gone = self.server.ids - set(live)
            found += [f"process {pid} ({comm(pid)}) of {i}" for pid, i in processes_of(gone).items()]
            found += [f"cgroup {path}" for path in cgroups_of(gone)]
            found += [f"socket {n}" for n in os.listdir(os.path.join(self.server.run_dir, "cells")) if n[:-5] not in live]
            if self.session is None:
                memory, copies = self.memory(), self.memory_files()
                found += [f"{memory} bytes of memory count"] if memory != self.promised else []
                found += [f"{copies} memory files instead of {self.copies}"] if copies > self.copies else []
            return found

        end = time.monotonic() + 60
        while found := left():
            check(time.monotonic() < end, f"left: {found[:10]}")
            time.sleep(0.1)

    def give_up(self):
        """After a failure: the next step begins with nothing."""
        for pid in self.server.pids("cordon-storage"):
            os.kill(pid, signal.SIGCONT)
        for session in self.live():
            for pid in processes_of({session}):
                os.kill(pid, signal.SIGCONT)
            self.ask("DELETE", f"/v1/sessions/{session}")
        self.session = None

    def finish(self):
        if self.session is not None:
            self.delete(self.session)
            self.session = None
        self.nothing_is_left()


def start(program, shim, folder):
    os.mkdir(os.path.join(folder, "state"))
    guest_kernel.give(program, pathlib.Path(folder) / "state")
    copy = harness.reachable(program, {"cordon-shim": shim})
    server = harness.Server(copy, folder=folder, pool_size=0)
    make_tree(os.path.join(server.state, "templates", "vm"), "a vm")
    server.want(201, "POST", "/v1/templates", {"name": "vm", "root": {"kind": "layers", "layers": ["vm"]}})
    return server


def chosen(args, rand):
    if args.steps:
        return [tuple(text.split(":")) for text in args.steps]
    every = [(work, state) for work, states in WORK.items() for state in states]
    if args.all:
        return [(*one, victim) for one in every for victim in VICTIMS]
    victims = list(VICTIMS) * (len(every) // len(VICTIMS) + 1)
    rand.shuffle(victims)
    picked = [(*one, victim) for one, victim in zip(every, victims)]
    rand.shuffle(picked)
    return sorted(picked[:args.times])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("shim")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("steps", nargs="*", metavar="WORK:STATE:VICTIM")
    args = parser.parse_intermixed_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    harness.isolate()
    wanted = chosen(args, random.Random(args.seed))
    print(f"1..{len(wanted) + 2}\n# seed {args.seed}", flush=True)
    folder, bad, server = tempfile.mkdtemp(prefix="cordon-steps-", dir="/var/tmp"), 0, None
    try:
        server = start(os.path.abspath(args.cordon), os.path.abspath(args.shim), folder)
        steps, number = Steps(server, Symbols(os.path.abspath(args.shim))), 0
        for number, one in enumerate([*wanted, ("finish",)], 1):
            began, at, answers = time.monotonic(), len(server.log()), []
            work = (lambda: steps.finish()) if one == ("finish",) else (lambda one=one: answers.append(steps.step(*one)))
            verdict, why = harness.attempt(work)
            print(f"{verdict} {number} - {':'.join(one)}\n# {time.monotonic() - began:.1f} s, {harness.short(answers)}", flush=True)
            if verdict != "ok":
                bad += 1
                harness.note(why)
                harness.note("\n".join(line for line in server.log()[at:].splitlines() if "msg=request " not in line)[-6000:])
                steps.give_up()
        verdict, why = harness.attempt(server.close)
        print(f"{verdict} {number + 1} - nothing is left", flush=True)
        harness.note(why)
        return int(bad > 0 or verdict != "ok")
    finally:
        if server is not None:
            server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
