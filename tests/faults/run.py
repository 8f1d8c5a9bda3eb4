#!/usr/bin/python3
"""run.py - every call can fail. cordond of the fault build serves a script that uses every route; each call of
each kind that a step makes is made to fail once. Nothing dies or hangs, nothing that was acknowledged is lost, an answer
that is whole is right, and descriptors and memory return.

    run.py CORDON [--seconds N] [--seed N] [--all] [--only STEP ...] [--kinds KIND ...]
           [--recover SECONDS] [--random SECONDS]

Without --all a sample: --seconds of failures, chosen by the seed. "KIND:N" with --only repeats one failure."""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

import steps_api  # noqa: F401
import steps_base
import steps_e2b  # noqa: F401
import steps_files  # noqa: F401
import steps_mcp  # noqa: F401
import steps_state  # noqa: F401
from client import Finding
from control import ERRORS, KINDS, error_name
from world import World, harness, install, reports

STEPS = steps_base.STEPS
COUNTED = [k for k in KINDS]


def describe(step, kind, nth, error):
    return f"{step.__name__}: call {nth} of {kind} fails with {error_name(kind, error)}"


def count(w, step):
    """How many calls of each kind the step makes when none fails; and that it is right then."""
    run = step(w)
    next(run)
    w.control.count()
    next(run)
    w.control.disarm()
    calls = w.control.calls()
    next(run, None)
    w.look()
    return calls


def fail_once(w, step, kind, nth, error):
    """Returns whether the call came to be made."""
    run = step(w)
    next(run)
    w.control.arm(kind, nth, error)
    try:
        next(run)
        w.control.disarm()
        hit = w.control.failed() > 0
        next(run, None)
    finally:
        w.control.disarm()
        run.close()
    w.look()
    w.mend()
    return hit


class Report:
    """TAP, one line for each step and kind; findings in full."""

    def __init__(self):
        self.findings, self.lines, self.failures = [], 0, 0

    def found(self, what, why):
        self.findings.append(f"{what}: {why}")
        print(f"# FINDING {what}\n" + "\n".join("#   " + line for line in str(why).splitlines()), flush=True)

    def line(self, good, text):
        self.lines += 1
        print(f"{'ok' if good else 'not ok'} {self.lines} - {text}", flush=True)


def plan(counts, chooser, everything, kinds):
    """(step, kind, nth, error) of what is tried, in an order that gives each kind its share."""
    found = []
    for step in STEPS:
        for kind in kinds:
            for error in ERRORS[kind]:
                found += [(step, kind, nth, error) for nth in range(1, counts[step].get(kind, 0) + 1)]
    chooser.shuffle(found)
    if everything:
        return found
    first, rest, seen = [], [], set()
    for item in found:  # each pair of step and kind once, before any again
        (rest if item[:2] in seen else first).append(item)
        seen.add(item[:2])
    return first + rest


def at_rest(w):
    """(descriptors, allocated bytes) when nothing is under way, and the pool, which follows demand, is small again."""

    def is_small():
        pool = w.server.want(200, "GET", "/v1/node")["pool"]
        return pool["size"] == pool["ready"] == 1

    w.settle(is_small, 60)
    w.server.want(200, "GET", "/healthz", key=None)
    time.sleep(0.3)  # calls of the last request are over
    w.control.count()
    w.server.want(200, "GET", "/healthz", key=None)
    w.control.disarm()
    samples = []
    for _ in range(5):  # a connection of ours may still be closing
        time.sleep(0.1)  # between two looks
        samples.append(w.descriptors())
    return min(samples), w.control.allocated()


def clear(w):
    for session in w.server.want(200, "GET", "/v1/sessions?limit=1000&ended=false&state=creating,running,pausing,paused,resuming,stopped")["sessions"]:
        w.server.request("DELETE", f"/v1/sessions/{session['id']}")
    w.settle(lambda: not any(w.server.want(200, "GET", "/v1/node")["sessions"].values()))
    w.settle(lambda: w.server.want(200, "GET", "/readyz", key=None) is not None)


def one(w, report, item):
    step, kind, nth, error = item
    what = describe(*item)
    try:
        return fail_once(w, step, kind, nth, error)
    except Finding as e:
        report.found(what, e)
    except Exception as e:  # what is compared afterwards did not answer as it must
        report.found(what, f"{type(e).__name__}: {e}")
    w.control.disarm()
    try:
        w.revive()
    except Exception as e:
        report.found(what, f"the server does not come back: {e}")
        raise
    return True


def run_random(w, report, seed, seconds):
    """Four clients run all steps at once, while every kind of call fails now and then."""
    every = {k: (rate, ERRORS[k][0]) for k, rate in (
        ("epoll_add", 60), ("open", 40), ("write", 40), ("read", 60), ("pipe", 30), ("socketpair", 20), ("socket", 20),
        ("splice", 120), ("accept", 60), ("truncate", 20), ("dup", 40), ("step", 150))}  # fmt: skip
    print(f"# random failures: seed {seed}, {seconds} s", flush=True)
    end, lock, failed = time.monotonic() + seconds, threading.Lock(), [0, 0]

    def client(number):
        mine = random.Random(f"{seed}/{number}")
        while time.monotonic() < end and not report.findings:
            step = mine.choice(STEPS)
            run = step(w)
            try:
                for _ in run:
                    pass
            except Finding as e:
                if "no answer" in str(e) or "nothing more" in str(e):
                    report.found(f"random, seed {seed}, {step.__name__}", e)
            except Exception:
                pass  # it is compared while calls fail: only a hang or a death counts here
            with lock:
                failed[0] += 1

    w.control.disarm = lambda: None
    w.control.arm_random(seed, every)
    threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    del w.control.disarm
    made = w.control.failed()
    w.control.disarm()
    print(f"# {failed[0]} steps, {made} calls failed", flush=True)
    w.look()
    w.mend()


def recover_once(w, kind, nth, error):
    """cordond is killed; one call fails while the next one starts and takes over what runs. It may end and be started
    again, but nothing is lost."""
    x = w.server.spawn(w.s, "echo said; sleep 0.3; exit 7")
    w.settle(lambda: w.server.execution(x)["stdout_bytes"] > 0 or w.server.execution(x)["ended_at"])
    w.control.arm(kind, nth, error)
    w.server.kill("cordond")
    try:
        w.server.wait_ready(30)
    finally:
        w.control.disarm()
    w.daemon, w.std = w.server.pid("cordond"), w.standard()
    log = w.server.log()
    new, w.at = log[w.at :], len(log)
    if found := reports(new):
        raise Finding(found[0])
    if bad := [s for s in re.findall(r'msg="program ended" program=cordond pid=\d+ status=\d+ signal=(\d+)', new) if s not in ("0", "9")]:
        raise Finding(f"cordond died of signal {bad}")
    state = w.server.get(w.s)["state"]
    if state != "running":
        raise Finding(f"the session is {state}: {new[-1500:]}")
    row = w.server.ended(x)
    out = w.server.want(200, "GET", f"/v1/sessions/{w.s}/executions/{x['id']}/output?stream=stdout", raw=True)
    if row["state"] == "exited" and (row["exit_code"] != 7 or (out != b"said\n" and not row["output_truncated"])):
        raise Finding(f"the execution: {row['state']} {row['exit_code']} {out!r}")
    w.mend()


def run_recover(w, report, seed, seconds):
    """Failing calls of a start, chosen by the seed."""
    w.control.count()
    w.server.kill("cordond")
    w.server.wait_ready(30)
    time.sleep(0.3)  # the start goes on behind readiness
    w.control.disarm()
    calls = w.control.calls()
    print("# calls of a start: " + ", ".join(f"{k} {n}" for k, n in calls.items() if n), flush=True)
    items = [(k, n, e) for k in KINDS for n in range(1, calls[k] + 1) for e in ERRORS[k]]
    random.Random(seed).shuffle(items)
    end, tried = time.monotonic() + seconds, 0
    for kind, nth, error in items:
        if time.monotonic() > end:
            break
        tried += 1
        try:
            recover_once(w, kind, nth, error)
        except Exception as e:
            report.found(f"recovery: call {nth} of {kind} fails with {error_name(kind, error)}", f"{type(e).__name__}: {e}")
            w.control.disarm()
            w.revive()
    w.daemon, w.std, w.at = w.server.pid("cordond"), w.standard(), len(w.server.log())
    return f"{tried} of {len(items)} failing calls while cordond takes over"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon", help="of a build directory in which the target faults was built")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--all", action="store_true", help="every call of every kind, with every error")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--kinds", nargs="+", default=COUNTED)
    parser.add_argument("--recover", type=float, default=0, help="seconds of failures while a killed cordond starts again")
    parser.add_argument("--random", type=float, default=0, help="seconds of failures at random, four clients at once")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    build = os.path.dirname(os.path.abspath(args.cordon))
    if not os.path.exists(os.path.join(build, "tests", "faults", "fault-cordond")):
        print("1..0 # SKIP no fault build: ninja faults")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"# seed {seed}", flush=True)
    harness.isolate()
    folder = install(build)
    report, w = Report(), None
    global STEPS
    only = [name.split(":")[0] for name in args.only]
    STEPS = [s for s in STEPS if not only or s.__name__ in only]
    try:
        w = World(folder, seed)
        run(w, report, args, seed)
    finally:
        if w is not None:
            w.control.disarm()
            if report.findings:
                w.server.destroy()
            else:
                w.server.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if report.failures else 0)


def run(w, report, args, seed):
    counts = {}
    for step in STEPS:
        try:
            counts[step] = count(w, step)
        except Exception as e:
            counts[step] = {}
            report.found(f"{step.__name__} without failures", f"{type(e).__name__}: {e}")
            w.revive()
    total = {k: sum(c.get(k, 0) for c in counts.values()) for k in KINDS}
    print("# calls: " + ", ".join(f"{k} {n}" for k, n in total.items()), flush=True)
    missing = sorted(set(w.routes) - w.asked)
    good = not missing or bool(args.only)
    report.line(good, f"every route is used ({len(w.asked)} of {len(w.routes)})")
    if not good:
        report.failures += 1
        print("# not used: " + ", ".join(" ".join(r) for r in missing))
    clear(w)
    w.make()
    before = at_rest(w)
    items = plan(counts, random.Random(seed), args.all, args.kinds)
    for name in args.only:
        if ":" in name:
            step, kind, nth = name.split(":")
            items = [i for i in items if i[0].__name__ == step and i[1] == kind and i[2] == int(nth)]
    began, tried, hits = time.monotonic(), 0, 0
    for item in items:
        if time.monotonic() - began > args.seconds:
            break
        tried += 1
        hits += bool(one(w, report, item))
    seconds = time.monotonic() - began
    report.line(not report.findings, f"{hits} failing calls in {seconds:.0f} s, {tried} of {len(items)} tried")
    print("# answers: " + ", ".join(f"{s} {n}" for s, n in sorted(w.statuses.items())), flush=True)
    if args.recover:
        found = len(report.findings)
        text = run_recover(w, report, seed, args.recover)
        report.line(len(report.findings) == found, text)
        clear(w)
        w.make()
        before = at_rest(w)
    if args.random:
        found = len(report.findings)
        try:
            run_random(w, report, seed, args.random)
        except Exception as e:
            report.found("random", f"{type(e).__name__}: {e}")
            w.revive()
        report.line(len(report.findings) == found, "failures at random")
    clear(w)
    w.make()
    w.settle(lambda: at_rest(w)[0] <= before[0], 15)
    after = at_rest(w)
    same = after[0] <= before[0]
    report.line(same, f"descriptors: {before[0]} before, {after[0]} after")
    if not same:
        found = subprocess.run(["ls", "-l", f"/proc/{w.server.pid('cordond')}/fd"], capture_output=True, text=True)
        print("# " + found.stdout.replace("\n", "\n# "))
    kept = after[1] - before[1]
    enough = kept < (4 << 20) + 200 * tried  # SQLite keeps 2 MiB of pages, and tenants are kept
    report.line(enough, f"memory: {before[1] >> 10} KiB before, {after[1] >> 10} KiB after")
    report.failures += (not same) + (not enough) + len(report.findings)
    print(f"1..{report.lines}", flush=True)


if __name__ == "__main__":
    main()
