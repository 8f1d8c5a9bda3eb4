#!/usr/bin/python3 -B
"""test_kill.py - SIGKILL to cordon, its keeper or both, at random moments: nothing may remain.

The seed is printed; --seed N replays the same choices (moments are the machine's own).
"""
import os
import pty
import random
import shutil
import signal
import subprocess
import tempfile
import time

import tap
from tap import check, equal, finish, has, note, run, start

ROUNDS = 200
VICTIMS = ("caller", "keeper", "both")
# Runs until killed, with a child, a grandchild in a session of its own, and files.
BUSY = "(setsid sleep 1000 &); sleep 1000 & head -c 100000 /dev/zero > f; echo ready; while :; do sleep 0.01; done"


def keeper_of(cordon, wait=5.0):
    """Its pid, as soon as there is one; None if cordon ends first."""
    end = time.monotonic() + wait
    while time.monotonic() < end:
        try:
            with open(f"/proc/{cordon}/task/{cordon}/children") as f:
                children = f.read().split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        if children:
            return int(children[0])
        try:
            with open(f"/proc/{cordon}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    return None
        except FileNotFoundError:
            return None
    return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def options_of(rng, source):
    """Ways to be made that have moments of their own in which to be killed."""
    options = []
    if rng.random() < 0.4:
        options += ["--mount", f"{source}:/data:rw", "--mount", f"{source}:/more"]
    if rng.random() < 0.2:
        options += ["--profile", "locked"]
    if rng.random() < 0.2:
        options += ["--tty"]
    if rng.random() < 0.2:
        options += ["--read-only"]
    return options


def one_round(rng, number, source, cache):
    victim = VICTIMS[number % 3]
    moment = rng.choice(["start", "start", "start", "running", "end"])
    options = options_of(rng, source)
    command = BUSY
    if moment == "end":
        # Ends by itself: killed while the changes are read or the cell is taken down.
        options.append("--diff")
        command = "mkdir d; for i in 1 2 3 4 5 6 7 8 9; do mkdir d/$i; echo > d/$i/f; done; (sleep 1000 &); echo ready"
    cold = rng.random() < 0.05
    if cold:
        for name in os.listdir(cache):
            shutil.rmtree(os.path.join(cache, name))
    what = f"round {number}: {victim} at {moment}, {' '.join(options)}{' cold' if cold else ''}"
    p = start(*options, cmd=command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    keeper = keeper_of(p.pid) if victim != "caller" else None
    if moment != "start":
        p.stdout.readline()
    time.sleep(rng.uniform(0, 0.015 if moment == "start" else 0.004))  # the moment of the kill varies
    both = [p.pid, keeper] if victim == "both" else [keeper if victim == "keeper" else p.pid]
    rng.shuffle(both)
    for pid in both:
        if pid is not None:
            kill(pid)
    try:
        rc = p.wait(timeout=20)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
        return f"{what}: cordon hangs", moment
    finally:
        p.stdout.close()
    if victim == "keeper" and keeper is not None and rc not in (125, 0, 137):
        return f"{what}: cordon ended with {rc}", moment
    # With cordon and its keeper both gone nobody is there to remove the empty cgroup, and with cordon gone nobody to
    # remove a template half made: the next one does. Everything else must go by itself.
    found = tap.left(swept=victim == "keeper" or (victim == "caller" and not cold))
    if not found:
        run(cmd=["true"]).exits(0)
        found = tap.left()
    return (f"{what}: left {'; '.join(found)}" if found else None), moment


def test_two_hundred_kills_at_random_moments():
    seed = tap.SEED if tap.SEED is not None else random.SystemRandom().randrange(1 << 32)
    note(f"seed {seed}")
    bad, moments = [], {}
    with tempfile.TemporaryDirectory() as source, tap.over("/var/cache/cordon") as cache:
        os.chmod(source, 0o755)
        run(cmd=["true"]).exits(0)  # makes the template
        for number in range(ROUNDS):
            wrong, moment = one_round(random.Random(seed * ROUNDS + number), number, source, cache)
            moments[moment] = moments.get(moment, 0) + 1
            if wrong:
                bad.append(wrong)
                tap.clear()
            if len(bad) == 8:
                break
        names = tap.listing("/var/cache/cordon/roots")
        run(cmd=["true"]).exits(0)
        check([n for n in names if not n.startswith(("host-", "new-"))] == [], f"in the cache: {names}")
    note(f"moments: {moments}")
    check(not bad, f"{len(bad)} rounds left something (seed {seed}):\n" + "\n".join(bad))


def test_a_keeper_killed_while_it_mounts():
    """Each mount has a helper process for a moment; with eight of them the moment is often hit."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as source:
        os.chmod(source, 0o755)
        options = [word for i in range(8) for word in ("--mount", f"{source}:/m{i}:rw")]
        for number in range(100):
            p = start(*options, cmd=["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            keeper = keeper_of(p.pid)
            time.sleep(rng.uniform(0.001, 0.012))  # the moment of the kill varies
            kill(keeper)
            try:
                p.wait(timeout=10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                check(False, f"round {number}: cordon hangs; there are: {tap.processes()}")
            equal(tap.left(), [], f"round {number}: left")


def test_a_killed_keeper_is_told():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        p = start("--result", path, cmd=BUSY)
        equal(p.stdout.readline(), b"ready\n")
        kill(keeper_of(p.pid))
        d = finish(p).exits(125)
        has(d.errors, "cordon: ")
        r = tap.read_result(path, 125)
        equal((r["state"], r["error"]["fault"]), ("failed", "platform"))


def test_a_killed_pid_1_is_told():
    """The out-of-memory killer of the machine may take it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        p = start("--result", path, cmd=BUSY)
        equal(p.stdout.readline(), b"ready\n")
        for pid in tap.children(keeper_of(p.pid)):
            kill(pid)
        d = finish(p).exits(125)
        has(d.errors, "cordon: ")
        equal(tap.read_result(path, 125)["error"]["fault"], "platform")


def test_a_template_being_made_when_killed():
    """What a killed maker leaves half made is never used, and is removed by the next one."""
    with tap.over("/var/cache/cordon") as cache:
        for i in range(8):
            for name in os.listdir(cache):
                shutil.rmtree(os.path.join(cache, name))
            p = start(cmd=["true"])
            time.sleep(i * 0.004)  # the moment of the kill varies
            p.kill()
            p.communicate(timeout=20)
            equal(run(cmd=["cat", "/etc/hostname"]).exits(0).text, "cordon\n")
            names = os.listdir(os.path.join(cache, "roots"))
            check(len(names) == 1 and names[0].startswith("host-"), f"left in the cache after round {i}: {names}")


def test_terminals_of_a_killed_caller():
    """Its own terminal closes: the kernel hangs up, the cell goes."""
    for i in range(5):
        master, slave = pty.openpty()
        p = start("--tty", cmd=BUSY, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        os.read(master, 100)
        os.close(master)
        if i % 2:
            p.send_signal(signal.SIGHUP)
        time.sleep(0.05)  # the hangup may come first
        p.kill()
        p.wait(timeout=20)
        equal(tap.left(), [], "left")


if __name__ == "__main__":
    tap.main(globals())
