#!/usr/bin/python3
"""hostile.py - cordon-egress between hostile servers (origin.py) and hostile clients in cells (origin_clients.py), while
policies change, sessions are paused and deleted, and the programs are stopped and killed.

    hostile.py CORDON [--cordond FILE] [--egress FILE] [--seconds 30] [--seed N]

--cordond, --egress: other builds of the two, such as sanitized ones. Afterwards cordon-egress still serves, has no more
descriptors than before, and no sanitizer has a report."""
import argparse
import os
import random
import signal
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
from chaos import check_descriptors, descriptors, egress_processes  # noqa: E402
from harness import Failed, Server, check, note, wait_for  # noqa: E402
from model_watch import died  # noqa: E402
from net_clients import internet  # noqa: E402
from origin import PLAIN, SECURE, Origin  # noqa: E402
from tap import STAGE  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CELLS = 3
RAW = {"host": "raw.example", "ports": [PLAIN, SECURE]}
POLICIES = [
    {"version": 1, "rules": [RAW, {"host": "web.example"}]}, {"version": 1, "rules": [{**RAW, "paths": ["/1**"]}]},
    {"version": 1, "rules": [{**RAW, "methods": ["GET"]}]}, {"version": 1, "rules": [RAW], "limits": {"requests_per_minute": 100}},
    "deny",
]


class Hostile:
    def __init__(self, server, seed):
        self.server, self.random, self.seed = server, random.Random(seed), seed
        self.cells, self.counts, self.serial = [], {}, 0
        with open(os.path.join(HERE, "origin_clients.py")) as f:
            self.program = f.read()

    def ask(self, method, path, body=None):
        """The status; 0 if there was no answer, because something was killed."""
        try:
            return self.server.request(method, path, body, timeout=30)[:3:2]
        except TimeoutError:
            raise Failed(f"{method} {path}: no answer in 30 s") from None
        except (OSError, harness.http.client.HTTPException):
            return 0, None

    def add(self):
        status, made = self.ask("POST", "/v1/sessions", {"timeout": "1h", "network": POLICIES[0]})
        if status != 201:
            return
        self.server.ids.add(made["id"])
        self.serial += 1
        argv = ["/usr/bin/python3", "-c", self.program, f"{self.seed}/{self.serial}"]
        self.ask("POST", f"/v1/sessions/{made['id']}/executions", {"argv": argv})
        self.cells.append(made["id"])

    def change(self):
        self.ask("PUT", f"/v1/sessions/{self.random.choice(self.cells)}/network",
                 POLICIES[0] if self.random.random() < 0.6 else self.random.choice(POLICIES))

    def pause(self):
        cell = self.random.choice(self.cells)
        self.ask("POST", f"/v1/sessions/{cell}/pause")
        time.sleep(self.random.random() * 0.3)
        self.ask("POST", f"/v1/sessions/{cell}/resume")

    def delete(self):
        cell = self.cells.pop(self.random.randrange(len(self.cells)))
        self.ask("DELETE", f"/v1/sessions/{cell}")

    def any_pid(self, name):
        found = self.server.pids(name)
        return self.random.choice(found) if found else None

    def stop(self):
        pid = self.any_pid("cordon-egress")
        if pid:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.random.choice([0.05, 0.5, 2]))
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def kill(self):
        pid = self.any_pid(self.random.choice(["cordon-egress", "cordond"]))
        if pid:
            os.kill(pid, signal.SIGKILL)
        self.server.wait_ready(30)

    def run(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            while len(self.cells) < CELLS and time.monotonic() < until:
                self.add()
                time.sleep(0.05)
            what = self.random.choice([self.change] * 6 + [self.pause] * 3 + [self.delete, self.stop, self.kill])
            if self.cells:
                what()
                self.counts[what.__name__] = self.counts.get(what.__name__, 0) + 1
            time.sleep(self.random.random() * 0.4)
        self.server.wait_ready(30)

    def still_serves(self):
        """Also when a hundred broken answers came before."""
        made = self.server.create(network={"version": 1, "rules": [{"host": "web.example"}]})

        def reached():
            done = self.server.run(made["id"], "curl -sS -m 10 http://web.example/echo?after")
            return '"path"' in done["stdout"]

        wait_for(reached, 30, "an answer of web.example", step=0.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--cordond")
    parser.add_argument("--egress")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    internet.enter()
    if STAGE not in os.environ and "--seed" not in sys.argv:
        sys.argv += ["--seed", str(args.seed)]
    harness.isolate()
    internet.start()
    print(f"1..5\n# seed {args.seed}, {args.seconds:.0f} s, {egress_processes(args.seed)} processes of cordon-egress", flush=True)
    program = harness.reachable(os.path.abspath(args.cordon), {"cordond": args.cordond, "cordon-egress": args.egress})
    server = Server(program, pool_size=2, memory_default="128M", egress_ca=os.path.join(internet.FOLDER, "world.pem"),
                    egress_processes=egress_processes(args.seed))
    before = descriptors(server.pid("cordon-egress"))
    origin, hostile, bad, number = Origin(internet.NET, args.seed), Hostile(server, args.seed), 0, 0

    def step(name, function, *more):
        nonlocal bad, number
        number += 1
        verdict, why = harness.attempt(function, *more)
        bad += verdict != "ok"
        print(f"{verdict} {number} - {name}", flush=True)
        note(why or "")

    def no_reports():
        server.reports()
        check(not harness.REPORTS, "\n".join(harness.REPORTS))
        check(not died(server.log()), "ended by itself:\n" + "\n".join(died(server.log())[:20]))
        check(origin.served > 0 and origin.mutations > 0, "the origin was not asked")

    step("hostile servers and clients", hostile.run, args.seconds)
    note(f"summary: seed {args.seed}, {args.seconds:.0f} s, {origin.served} answers, {origin.mutations} of them mutated, {hostile.counts}")
    step("cordon-egress still serves", hostile.still_serves)
    server.delete_all()
    step("descriptors of cordon-egress are back", check_descriptors, server, "cordon-egress", before)
    step("no report of a sanitizer, no failed assertion, no program that ended by itself", no_reports)
    step("nothing is left", server.close)
    if bad:
        note(f"again: --seed {args.seed} --seconds {args.seconds:.0f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
