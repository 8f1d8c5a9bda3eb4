#!/usr/bin/python3
"""upgrade.py - a new cordond takes over under load: SIGHUP to the supervisor, with other program files put
in place by rename. No connection is refused, no request fails, no session ends, no byte is lost.

    upgrade.py CORDON [--upgrades 4]"""
import argparse
import functools
import http.client
import os
import shutil
import signal
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
from harness import Server, check, equal, note, wait_for  # noqa: E402
from streams import Ended, Events  # noqa: E402

LINES = 400


class Load:
    def __init__(self, server):
        self.server, self.stop = server, threading.Event()
        self.asked, self.problems, self.slowest = 0, [], 0.0
        self.lock = threading.Lock()

    def ask(self, method, path, body=None, want=200):
        began = time.monotonic()
        try:
            status, _, data = self.server.request(method, path, body, timeout=20)
        except (OSError, http.client.HTTPException) as e:
            status, data = 0, repr(e)
        with self.lock:
            self.asked += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            if status != want:
                self.problems.append(f"{method} {path}: {status} {data}")
        return data if status == want else None

    def cycle(self):
        """Create, run, look, delete: each over a connection of its own."""
        while not self.stop.is_set():
            session = self.ask("POST", "/v1/sessions", {}, 201)
            if session is None:
                continue
            with self.lock:
                self.server.ids.add(session["id"])
            path = f"/v1/sessions/{session['id']}"
            done = self.ask("POST", path + "/executions?wait=true", {"command": "echo here; exit 3"})
            if done and (done["stdout"], done["exit_code"]) != ("here\n", 3):
                self.problems.append(f"{path}: {done}")
            self.ask("GET", path)
            self.ask("DELETE", path, None, 204)


def follow(server, x, problems, stops=False):
    """All lines of it, once, over as many connections as it takes. stops: for a while there is no server."""
    path, after, seen, over = f"/v1/sessions/{x['session_id']}/executions/{x['id']}/events", None, b"", False
    until = time.monotonic() + 60
    while not over and time.monotonic() < until:
        try:
            with Events(server, path, after=after) as events:
                for event in events:
                    after = event.id or after
                    seen += event.output if event.name == "stdout" else b""
                over = True
        except ConnectionRefusedError as e:
            problems += [] if stops else [f"a follower: {e!r}"]
            time.sleep(0.01)
        except (OSError, Ended, AssertionError, ValueError):
            time.sleep(0.01)
    if seen != "".join(f"line {i}\n" for i in range(1, LINES + 1)).encode():
        problems.append(f"{x['id']}: {len(seen)} bytes, over {over}")


def replace(folder, number):
    """Other files under the same names; bytes behind the end of a program mean nothing to it."""
    for name in harness.PROGRAMS:
        new = os.path.join(folder, "new." + name)
        shutil.copy(os.path.join(folder, name), new)
        with open(new, "ab") as f:
            f.write(b"%d" % number)
        os.rename(new, os.path.join(folder, name))


def serving(server):
    """The cordond that serves, not one that is only asked something before it; None if there is none."""
    pid = server.pid("cordond")
    try:
        with open(f"/proc/{pid}/status") as f:
            uid = next(line.split()[1] for line in f if line.startswith("Uid:"))
    except OSError:
        return None
    return pid if int(uid) == harness.USER else None


def upgrade(server, folder, put):
    """put: has other files in place."""
    before = serving(server)
    put()
    os.kill(server.process.pid, signal.SIGHUP)
    now = wait_for(lambda: (p := serving(server)) and p != before and p, 15, "a new cordond")
    wait_for(lambda: os.path.exists(f"/proc/{now}/exe") and harness.comm(now) == "cordond", 15, "its program")
    for name, pid in (("cordond", now), ("cordon", server.process.pid)):
        equal(os.stat(f"/proc/{pid}/exe").st_ino, os.stat(os.path.join(folder, name)).st_ino, f"file of {name}")
    server.wait_ready()


def run(server, folder, upgrades):
    load, problems = Load(server), []
    kept = [server.create(timeout="1h") for _ in range(3)]
    paused = server.create(timeout="1h")
    server.want(200, "POST", f"/v1/sessions/{paused['id']}/pause")
    pids = {s["id"]: server.cell_pids(s["id"])[0] for s in kept}
    line = f"for i in $(seq {LINES}); do echo line $i; sleep 0.03; done; exit 6"
    running = [server.spawn(s["id"], line) for s in kept]
    threads = [threading.Thread(target=load.cycle) for _ in range(3)]
    threads += [threading.Thread(target=follow, args=(server, x, problems)) for x in running]
    for thread in threads:
        thread.start()
    try:
        for number in range(upgrades):
            time.sleep(1)
            upgrade(server, folder, functools.partial(replace, folder, number))
    finally:
        time.sleep(0.5)
        load.stop.set()
        for thread in threads:
            thread.join(70)
    note(f"{upgrades} upgrades, {load.asked} requests, slowest {load.slowest:.2f} s")
    problems += load.problems
    check(not problems, "\n".join(problems[:20]))
    for x in running:
        equal(server.ended(x)["exit_code"], 6, "exit code")
    for s in kept:
        equal(server.get(s["id"])["state"], "running", "state")
        equal(server.cell_pids(s["id"])[0], pids[s["id"]], "PID 1")
    equal(server.get(paused["id"])["state"], "paused", "state")
    equal(server.run(paused["id"], "echo on")["stdout"], "on\n", "what was paused")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--upgrades", type=int, default=4)
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    harness.isolate()
    program = harness.reachable(os.path.abspath(args.cordon))
    print("1..2", flush=True)
    server = Server(program, pool_size=4, memory_default="64M", disk_default="32M", egress_processes=2)
    verdict, why = harness.attempt(run, server, os.path.dirname(program), args.upgrades)
    print(f"{verdict} 1 - upgrades under load")
    note(why or "")
    if verdict != "ok":
        note("\n".join(line for line in server.log().splitlines() if "msg=request" not in line)[-3000:])
    left, why = harness.attempt(server.close)
    print(f"{left} 2 - nothing is left")
    note(why or "")
    sys.exit(0 if (verdict, left) == ("ok", "ok") else 1)


if __name__ == "__main__":
    main()
