#!/usr/bin/python3
"""model.py - clients of several tenants use both interfaces at random while the server's programs are killed, stopped
and upgraded; what they were told is compared with what is there.

    model.py CORDON [--cordond FILE] [--egress FILE] [--seconds 60] [--seed N] [--tenants 2] [--strikes no]

--cordond, --egress: other builds of the two, such as sanitized ones. The seed is printed; the same one makes the same
choices, as far as the order of threads allows. The parts: model_native.py and e2b.py (clients), net_clients.py
(clients that use the network), model_tenants.py (tenants and keys), model_rude.py (clients that are slow or go away),
model_trouble.py (kills, stops, upgrades), model_watch.py (what is looked at all the time), ledger.py (what was told).
"""
import argparse
import os
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
import ledger  # noqa: E402

ledger.PATIENCE = 45  # sanitized programs on a busy machine

import chaos  # noqa: E402
import sanitizer  # noqa: E402
from chaos import OwnCgroups, check_descriptors, check_gone, check_store, descriptors, egress_processes  # noqa: E402
from e2b import Client  # noqa: E402
from harness import Failed, Server, check, note, rss, wait_for  # noqa: E402
from model_native import NativeClient  # noqa: E402
from model_rude import RudeView  # noqa: E402
from model_tenants import Outsider, Tenant  # noqa: E402
from model_trouble import Trouble  # noqa: E402
from model_watch import Health, died  # noqa: E402
from net_clients import NetWorker, Watch, internet  # noqa: E402
from tap import STAGE, namespaces  # noqa: E402

SANITIZED_MORE = 96 << 20  # of memory: what a sanitizer keeps for itself


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--cordond")
    parser.add_argument("--egress")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--tenants", type=int, default=2)
    parser.add_argument("--strikes", choices=["yes", "no"], default="yes")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--keep", action="store_true", help="leave the files of the server for a look")
    return parser.parse_args()


class Run:
    """One run: the server, its tenants, the steps and their verdicts."""

    def __init__(self, args):
        self.args, self.bad, self.number = args, 0, 0
        program = harness.reachable(os.path.abspath(args.cordon), {"cordond": args.cordond, "cordon-egress": args.egress})
        self.sanitized = sanitizer.is_sanitized(os.path.join(os.path.dirname(program), "cordond"))
        self.server = Server(program, pool_size=4, pool_max=8, memory_default="64M", disk_default="32M",
                             node_max_sessions=400, node_create_rate=0, tenant_create_rate=0,
                             egress_processes=egress_processes(args.seed))
        wait_for(lambda: self.server.want(200, "GET", "/v1/node")["pool"]["ready"] >= 4, 30, "the pool")
        self.before = {name: descriptors(self.server.pid(name)) for name in ("cordond", "cordon-egress")}
        self.memory = {name: rss(self.server.pid(name)) for name in ("cordond", "cordon-egress")}
        self.ledger = ledger.Ledger(self.server)
        self.tenants = [Tenant(self.server, self.ledger, f"t{i}", RudeView) for i in range(args.tenants)]
        self.trouble = Trouble(self.server, args, self.ledger, self.tenants)
        self.health = Health(self.ledger, self.trouble)

    def workers(self):
        made, seed = [self.health, Watch(self.ledger), Outsider(self.tenants, self.args.seed)], self.args.seed
        for tenant in self.tenants:
            made += [NativeClient(tenant, f"{tenant.name}n{i}", seed) for i in range(2)]
            made += [Client(tenant.ledger, f"{tenant.name}e", seed), NetWorker(tenant.ledger, f"{tenant.name}w", seed)]
        return made

    def step(self, name, function, *more):
        began, had = time.monotonic(), len(self.ledger.problems)
        self.number += 1
        verdict, why = harness.attempt(function, *more)
        if verdict == "ok" and len(self.ledger.problems) > had:
            verdict, why = "not ok", "\n".join(self.ledger.problems[had:][:40])
        self.bad += verdict != "ok"
        print(f"{verdict} {self.number} - {name}", flush=True)
        note(f"{why}\n{time.monotonic() - began:.1f} s" if why else f"{time.monotonic() - began:.1f} s")

    def use(self):
        workers, until = self.workers(), time.monotonic() + self.args.seconds
        try:
            if self.args.strikes == "yes":
                self.trouble.run(workers, until)
            else:
                for worker in workers:
                    worker.start()
                time.sleep(self.args.seconds)
        finally:
            self.ledger.stop.set()
            for tenant in self.tenants:
                tenant.ledger.server = tenant.view  # what is compared is asked for politely
            for worker in workers:
                worker.join(150)
                check(not worker.is_alive(), f"{type(worker).__name__} hangs")

    def no_reports(self):
        self.server.reports()
        check(not harness.REPORTS, "\n".join(harness.REPORTS))
        check(not died(self.server.log()), "ended by itself:\n" + "\n".join(died(self.server.log())[:20]))

    def memory_is_back(self):
        for name, before in self.memory.items():
            more = chaos.MEMORY_MORE + (SANITIZED_MORE if self.sanitized else 0)
            now = max(map(rss, self.server.pids(name)))
            note(f"memory of {name}: {before >> 10} KiB, then {now >> 10} KiB")
            check(now < before + more, f"{name} keeps memory")

    def summary(self):
        counts = self.ledger.counts
        requests = sum(n for name, n in counts.items() if name.rsplit(" ", 1)[-1].isdigit() or name.endswith("broken"))
        sessions = sum(len(t.ledger.sessions) for t in self.tenants)
        killed = {what: n for what, n in sorted(self.trouble.killed.items())}
        note(f"summary: seed {self.args.seed}, {self.args.seconds:.0f} s, {requests} requests, {sessions} sessions, "
             f"{sum(killed.values())} strikes {killed}, longest return {self.trouble.longest:.2f} s, {self.health.text()}")
        statuses = {}
        for name, n in counts.items():
            statuses[name.rsplit(" ", 1)[-1]] = statuses.get(name.rsplit(" ", 1)[-1], 0) + n
        note("answers: " + " ".join(f"{k}={v}" for k, v in sorted(statuses.items())))


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
    print(f"1..9\n# seed {args.seed}, {args.seconds:.0f} s, {egress_processes(args.seed)} processes of cordon-egress", flush=True)
    run = Run(args)
    server = run.server
    run.step(f"{args.seconds:.0f} s of use, kills, stops and upgrades", run.use)
    run.summary()
    run.step("nothing acknowledged is lost", run.trouble.compare_all)
    run.step("every session can be deleted", run.trouble.end_all)
    run.step("no log and no record is without the other", check_store, server)
    for name, before in run.before.items():
        run.step(f"descriptors of {name} are back", check_descriptors, server, name, before)
    run.step("memory is back", run.memory_is_back)
    server.note_cells()
    try:
        server.stop()
    except Failed as e:
        note(e)
    run.step("no report of a sanitizer, no failed assertion, no program that ended by itself", run.no_reports)
    run.step("no process, mount, cgroup, socket or namespace is left", check_gone, server, cgroups, spaces)
    if run.bad:
        note(f"again: --seed {args.seed} --seconds {args.seconds:.0f}")
        note("\n".join(line for line in server.log().splitlines() if "level=warn" in line or "level=error" in line)[-4000:])
    if args.keep:
        server.own_folder = False
        note(f"files of the server: {server.folder}")
    server.destroy()
    cgroups.leave()
    sys.exit(1 if run.bad else 0)


if __name__ == "__main__":
    main()
