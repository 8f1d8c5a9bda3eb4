#!/usr/bin/python3 -B
"""Goal: a kill of cordond or cordon-notary at any moment leaves audit logs without gaps, doubles, or checkpoints of records that are not there: while
records are appended, signed, pruned and erased. A full disk, and a clock that jumps, do not either.

    test_audit_kills.py CORDON [name ...]
"""
import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

from audit_log import checkpoint, edited, export, lines, verified
from harness import Server, check, equal, run_tests, wait_for

KILLS = True  # of cordond and cordon-notary
SECONDS = float(os.environ.get("AUDIT_KILL_SECONDS", "6"))


class Load:
    """Requests that make records, until it is stopped. Failures are those of a server that is down."""

    def __init__(self, server, *requests):
        self.server, self.ended, self.done = server, False, 0
        self.threads = [threading.Thread(target=self.run, args=(r,)) for r in requests]
        for t in self.threads:
            t.start()

    def run(self, request):
        for i in itertools.count():
            if self.ended:
                return
            try:
                status = request(self.server, i)
                check(status is None or status < 500 or status in (503, 504), f"status {status}")
                self.done += 1
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # the server is being started again

    def stop(self):
        self.ended = True
        for t in self.threads:
            t.join()


def sessions(server, i):
    status, _, made = server.request("POST", "/v1/sessions", {}, headers={"X-Cordon-Actor": f"person-{i % 3}"})
    if status == 201:
        server.ids.add(made["id"])
        server.request("DELETE", f"/v1/sessions/{made['id']}")
    return status


def reads(server, i):
    return server.request("GET", "/v1/audit?limit=1")[0]


def prunes(server, i):
    return server.request("POST", "/v1/audit/prune", {"keep": "0s"})[0]


def erases(server, i):
    return server.request("POST", "/v1/audit/erase", {"on_behalf": f"person-{i % 3}"})[0]


def fresh(server, i):
    return server.request("GET", "/v1/audit/checkpoint?fresh=true")[0]


def is_whole(server, before):
    """No gap, no double, no alarm, and everything verified by the key that it began with."""
    wait_for(lambda: server.request("GET", "/v1/audit/checkpoint?fresh=true")[0] == 200, 60, "a checkpoint")
    now = checkpoint(server)
    equal((now["epoch"], now["vkey"], now["alarm"]), (1, before["vkey"], None))
    check(now["size"] >= before["size"], "it has less than before")
    data = export(server)
    verified(data, "--key", before["vkey"])
    numbers = [x["index"] for x in lines(data) if "leaf" in x]
    equal(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "numbers")
    for x in lines(export(server, "&tenant=node")):
        check("alarm" not in x.get("leaf", ""), x)
    return now


def test_kills(server):
    """Of both programs, at random moments, under load of every kind."""
    before = checkpoint(server, "fresh=true")
    load = Load(server, sessions, reads, reads, prunes, erases, fresh)
    rng, end, kills = random.Random(7), time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < end:
            time.sleep(rng.random() * 0.6)  # work between two kills
            name = rng.choice(("cordond", "cordond", "cordon-notary"))
            pid = server.pid(name)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                kills += 1
            wait_for(lambda: server.pid(name) not in (None, pid), 20, f"another {name}")
    finally:
        load.stop()
    server.wait_ready(30)
    now = is_whole(server, before)
    check(kills > 3 and now["size"] > before["size"], f"{kills} kills, {load.done} requests")


def rotates(server, i):
    time.sleep(0.1)  # a rotation has to end before the next one
    return server.request("POST", "/v1/audit/rotate")[0]


def test_kills_of_rotations():
    """New keys all the time, beside records and erasures: the first key is enough to verify both logs."""
    with Server(audit_checkpoint="200ms") as own:
        own.wait_ready()
        first = checkpoint(own, "fresh=true")["vkey"]
        load = Load(own, sessions, rotates, erases, fresh)
        rng, end, kills = random.Random(11), time.monotonic() + SECONDS, 0
        try:
            while time.monotonic() < end:
                time.sleep(rng.random() * 0.5)  # work between two kills
                name = rng.choice(("cordond", "cordon-notary"))
                pid = own.pid(name)
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
                wait_for(lambda: own.pid(name) not in (None, pid), 20, f"another {name}")
        finally:
            load.stop()
        own.wait_ready(30)
        wait_for(lambda: own.want(200, "GET", "/v1/audit/rotate")["former_vkey"] is None, 60, "the former key is destroyed")
        for query in ("", "&tenant=node"):
            wait_for(lambda q=query: own.request("GET", "/v1/audit/checkpoint?fresh=true" + q)[0] == 200, 60, "a checkpoint")
            data = export(own, query)
            verified(data, "--key", first)
            exported = lines(data)
            equal(exported[0]["vkey"], first, query)
            named = [json.loads(x["leaf"])["data"] for x in exported if '"type":"audit.key"' in x.get("leaf", "")]
            equal([n["former"] for n in named], [first] + [n["vkey"] for n in named[:-1]], "each key names the next one")
            check(kills > 3 and len(named) > 2, f"{kills} kills, {len(named)} new keys")


def test_the_whole_server_ends_at_once(server):
    """As by a power cut, but for what the kernel has: each side may be ahead of the other by one answer."""
    before = checkpoint(server, "fresh=true")
    for _ in range(3):
        load = Load(server, sessions, reads, fresh)
        time.sleep(0.5)  # work that is in progress when they end
        for name in ("cordond", "cordon-notary"):
            pid = server.pid(name)
            if pid:
                os.kill(pid, signal.SIGKILL)
        load.stop()
        server.wait_ready(30)
        before = is_whole(server, before)


def test_a_clock_that_jumps(server):
    """Times run backwards, numbers do not. (The records of the past have later times, as after a jump back.)"""
    before = checkpoint(server, "fresh=true")
    server.stop()
    with edited(server) as db:
        db.execute("UPDATE audit SET time_ms = time_ms + 86400000")  # what retention looks at
    server.start()
    reads(server, 0)
    is_whole(server, before)


def test_a_full_disk():
    """Nothing is done without its record: what cannot be recorded is refused, and there is no gap afterwards."""
    with SmallServer(audit_checkpoint="200ms") as own:
        before = checkpoint(own, "fresh=true")
        with open(os.path.join(own.state, "ballast"), "wb") as f:
            try:
                while True:
                    f.write(b"x" * 65536)
                    f.flush()
            except OSError:
                pass
        seen = set()
        for i in range(3000):
            status, _, _ = own.request("GET", "/v1/audit?limit=1")
            seen.add(status)
            if status != 200:
                break
        os.unlink(os.path.join(own.state, "ballast"))
        check(seen <= {200, 507, 503, 500} and len(seen) > 1, seen)
        wait_for(lambda: own.request("GET", "/v1/audit?limit=1")[0] == 200, 20, "room again")
        is_whole(own, before)


class SmallServer(Server):
    """Its state is on a file system of 64 MiB."""

    def __init__(self, **settings):
        self.outer = tempfile.mkdtemp(prefix="cordon-small-", dir="/var/tmp")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "small", self.outer], check=True)
        super().__init__(folder=self.outer, **settings)

    def left_now(self):
        return [line for line in super().left_now() if f" {self.outer} " not in line]

    def destroy(self):
        super().destroy()
        subprocess.run(["umount", "-l", self.outer], check=False)
        os.rmdir(self.outer)


if __name__ == "__main__":
    run_tests(globals(), audit_checkpoint="200ms")
