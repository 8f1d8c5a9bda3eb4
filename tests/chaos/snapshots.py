#!/usr/bin/python3
"""snapshots.py - cordond, keepers and cordon-storage are killed at random while sessions are captured, forked, paused
without memory, booted again and removed, and while layers are collected.

    snapshots.py CORDON [--times N] [--seed S]

After each kill: sessions run and answer, none stays frozen; every snapshot of the list makes a session with the files it
had; what failed left nothing. At the end nothing is stored any more, and a collection finds no orphan. The seed is printed.
"""
import argparse
import os
import random
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
from harness import Server, check, equal, wait_for  # noqa: E402

VICTIMS = ["cordond", "cordond", "cordon-keeper", "cordon-storage", "cordon-storage"]


def quiet(server, method, path, body=None):
    """(status, body); (0, None) if the server died under it."""
    try:
        status, _, data = server.request(method, path, body, timeout=60)
        return status, data
    except (OSError, EOFError, ValueError):
        return 0, None
    except Exception as e:  # noqa: BLE001 - http.client has many
        if type(e).__module__.startswith("http"):
            return 0, None
        raise


def name_of(shot):
    return "/v1/snapshots/" + urllib.parse.quote(shot, safe="")


class Round:
    """One kill at a random moment of a few operations."""

    def __init__(self, server, rand, source):
        self.server, self.rand, self.source = server, rand, source

    def work(self):
        s, kind = self.source, self.rand.choice(["snapshot", "fork", "cold", "delete", "gc", "reset"])
        if kind == "snapshot":
            quiet(self.server, "POST", f"/v1/sessions/{s}/snapshots", {})
        elif kind == "fork":
            quiet(self.server, "POST", f"/v1/sessions/{s}/fork", {"count": 2, "timeout": "1m"})
        elif kind == "cold":
            quiet(self.server, "POST", f"/v1/sessions/{s}/pause", {"memory": False})
        elif kind == "gc":
            quiet(self.server, "POST", "/v1/gc")
        elif kind == "reset":
            quiet(self.server, "POST", f"/v1/sessions/{self.rand.choice([s, s])}/resume")
        else:
            status, found = quiet(self.server, "GET", "/v1/snapshots")
            if status == 200 and found["snapshots"]:
                quiet(self.server, "DELETE", name_of(self.rand.choice(found["snapshots"])["id"]))

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.rand.randint(1, 3))]
        for w in workers:
            w.start()
        time.sleep(self.rand.random() * 0.08)
        victim = self.rand.choice(VICTIMS)
        try:
            self.server.kill(victim)
        except (IndexError, ProcessLookupError, AssertionError, OSError):
            pass
        for w in workers:
            w.join()
        wait_for(lambda: quiet(self.server, "GET", "/readyz")[0] == 200, 30, f"the server after the end of {victim}")
        return victim


def answers(server, s):
    """A command runs: the session is up, or boots; and is not frozen."""
    status, data = quiet(server, "POST", f"/v1/sessions/{s}/executions?wait=true", {"command": "cat ~/kept", "timeout": "20s"})
    return status == 200 and data["stdout"] == "kept\n"


def sessions(server):
    return [s["id"] for s in server.want(200, "GET", "/v1/sessions?state=running,paused,pausing,resuming,creating")["sessions"]]


def clean(server, source):
    for s in sessions(server):
        if s != source:
            server.delete(s)


def look(server, source):
    wait_for(lambda: answers(server, source), 60, "the source to answer with its file")
    shots = server.want(200, "GET", "/v1/snapshots")["snapshots"]
    if shots:
        one = shots[0]["id"]
        made = server.want(201, "POST", "/v1/sessions", {"template": one, "timeout": "1m"})["id"]
        equal(server.run(made, "cat ~/kept")["stdout"], "kept\n", f"the files of {one}")
    for s in sessions(server):  # forks that nobody knows of have the file, too
        wait_for(lambda s=s: answers(server, s) or quiet(server, "GET", f"/v1/sessions/{s}")[1]["state"] in ("stopping", "stopped"),
                 60, f"session {s} to answer")
    clean(server, source)


def end(server, source):
    for shot in server.want(200, "GET", "/v1/snapshots")["snapshots"]:
        server.want(204, "DELETE", name_of(shot["id"]))
    clean(server, source)
    server.delete(source)

    def is_empty():
        quiet(server, "POST", "/v1/gc")
        return server.want(200, "GET", "/v1/layers")["layers"] == []

    wait_for(is_empty, 60, "all layers to go")
    equal(server.want(200, "POST", "/v1/gc"), {"layers": 0, "orphans": 0, "bytes": 0}, "a last collection")
    equal(os.listdir(os.path.join(server.state, "storage", "layers")), [], "directories")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--times", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    a = parser.parse_args()
    rand = random.Random(a.seed)
    print(f"1..2\n# seed {a.seed}", flush=True)
    with Server(a.cordon, pool_size=1) as server:
        source = server.create(timeout="1h", limits={"disk": "64M"})["id"]
        server.run(source, "echo kept >~/kept; head -c 4M /dev/urandom >~/more; mkdir ~/d; touch ~/d/{1..200}")
        for i in range(a.times):
            victim = Round(server, rand, source).run()
            look(server, source)
            print(f"# {i + 1}: {victim}", flush=True)
        print("ok 1 - sessions and snapshots are whole after each kill", flush=True)
        end(server, source)
    print("ok 2 - nothing is left", flush=True)
    check(True, "")


if __name__ == "__main__":
    main()
