#!/usr/bin/python3
"""state_kills.py - programs of the server are killed at random moments while state is made, used and removed.

    state_kills.py CORDON [--times N] [--seed S] [KIND ...]

Each kind (state_layers.py, state_disks.py) is killed N times: cordond, a keeper, cordon-storage, cordon-pull, or all of
them at once with the supervisor. After each kill what is there is whole and what was acknowledged is there; at the end of a
kind everything is removed, no file, row, image or loop device is left, and a collection finds no orphan. The seed is printed.
"""
import argparse
import http.client
import os
import random
import signal
import sqlite3
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("server", "registry"):
    sys.path.insert(1, os.path.join(HERE, "..", folder))
import harness  # noqa: E402
import state_disks  # noqa: E402
import state_layers  # noqa: E402
from harness import Failed, Server, children, equal, wait_for  # noqa: E402

KINDS = {**state_layers.KINDS, **state_disks.KINDS}
VICTIMS = ("cordond",) * 4 + ("cordon-storage",) * 4 + ("cordon-keeper", "cordon-pull", "all")


def kill(server, victim):
    if victim != "all":
        pid = server.pid(victim)
        if pid is not None:  # it is just being started again
            os.kill(pid, signal.SIGKILL)
        return
    pids = [server.process.pid, *children(server.process.pid)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    server.process.wait()
    server.start(ready=False)


def attempt(work):
    """Runs one operation; the server may die under it."""
    try:
        work()
    except (OSError, http.client.HTTPException, EOFError, ValueError):
        pass


def kill_once(server, kind, rand):
    workers = [threading.Thread(target=attempt, args=(work,)) for work in kind.work(rand)]
    for w in workers:
        w.start()
    time.sleep(rand.random() * kind.seconds)  # the moment of the kill is the point of the test
    victim = rand.choice(VICTIMS)
    kill(server, victim)
    for w in workers:
        w.join(120)
    wait_for(lambda: kind.ask("GET", "/readyz")[0] == 200, 40, f"the server after the end of {victim}")
    kind.look()
    return victim


def rows(server, text):
    with sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True) as db:
        found = sorted(row[0] for row in db.execute(text))
    db.close()
    return found


def loops(server):
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8") as f:
                found.append(f.read().strip())
        except OSError:
            pass
    return [name for name in found if name.startswith(server.state)]


def left(server):
    """What is on disk, in rows and on loop devices although nothing uses it."""
    folder = os.path.join(server.state, "storage")
    found = [f"{part}/{name}" for part in ("layers", "disks", "volumes") for name in os.listdir(os.path.join(folder, part))]
    found += ["uploads/" + name for name in os.listdir(os.path.join(server.state, "uploads"))
              if name not in rows(server, "SELECT file FROM build_upload")]
    return found + loops(server) + ["row of " + name for name in rows(server, "SELECT id FROM layer")]


def run_kind(server, name, times, rand):
    kind, killed = KINDS[name](server), {}
    for _ in range(times):
        victim = kill_once(server, kind, rand)
        killed[victim] = killed.get(victim, 0) + 1
    kind.remove_all()

    def is_empty():
        kind.ask("POST", "/v1/gc")
        return left(server) == []

    try:
        wait_for(is_empty, 60, "all to go")
    except Failed as e:
        raise Failed(f"{e}: left: {left(server)[:20]}") from None
    equal(server.want(200, "POST", "/v1/gc"), {"layers": 0, "orphans": 0, "bytes": 0}, "a last collection")
    return " ".join(f"{n} {v}" for v, n in sorted(killed.items())) + kind.summary()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=" ".join(KINDS))
    a = parser.parse_intermixed_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    names = a.kinds or list(KINDS)
    harness.isolate()
    print(f"1..{len(names) + 1}\n# seed {a.seed}", flush=True)
    with Server(harness.reachable(os.path.abspath(a.cordon)), pool_size=1, registries="*, 127.0.0.1", snapshot_keep="1h") as server:
        for i, name in enumerate(names):
            began = time.monotonic()
            try:
                killed = run_kind(server, name, a.times, random.Random(f"{a.seed} {name}"))
            except BaseException:
                print(f"not ok {i + 1} - {name}", flush=True)
                print("".join(f"# {line}\n" for line in server.log()[-8000:].splitlines()), flush=True)
                raise
            print(f"ok {i + 1} - {name}\n# {a.times} kills: {killed}; {time.monotonic() - began:.0f} s", flush=True)
    print(f"ok {len(names) + 1} - nothing is left", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
