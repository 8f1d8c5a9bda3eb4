"""net_clients.py - clients whose sessions use the network, in the small internet of tests/egress: what a policy that
was acknowledged refuses is never reached, not while anything dies and comes back; what it allows is reached again
soon."""
import os
import sys
import threading
import time

from ledger import Worker

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "egress"))
import internet  # noqa: E402

AGAIN_S = 20  # for the network to come back
OPEN = {"version": 1, "rules": [{"host": "web.example"}]}
POLICIES = {"open": OPEN, "shut": "deny",
            "path": {"version": 1, "rules": [{"host": "web.example", "paths": ["/chaos/**"]}]}}
CURL = "curl -sS -m 5 -o - "
BAD = (f"http://{internet.EVIL}/echo", f"http://{internet.METADATA}/latest", f"http://[{internet.EVIL6}]/echo",
       "http://evil.example/echo",
       f"-k https://{internet.EVIL}/echo", f"-x http://198.18.0.1:3128 http://{internet.INTERNAL}/echo",
       "http://look.example/echo")


class NetWorker(Worker):
    def choices(self):
        often = [self.reach] * 4 + [self.attack] * 3 + [self.change] * 3
        return often + [self.create, self.spawn, self.pause, self.delete]

    def spec(self):
        return {**super().spec(), "network": OPEN}

    def create(self):
        before = len(self.mine)
        super().create()
        for s in self.mine[before:]:  # it attacks all the time, whatever is dying
            urls = " ".join(f"{CURL} {url} >> /tmp/won;" for url in BAD)
            self.ask("POST", f"/v1/sessions/{s.id}/executions", {"command": f"while :; do {urls} sleep 0.05; "
                    f"done 2>/dev/null"}, s)

    def known(self, s):
        """Policies that may be in force, by name."""
        if not hasattr(s, "policies"):
            s.policies, s.changed = {"open"}, time.monotonic()
        return s.policies

    def change(self):
        s, name = self.pick(), self.random.choice(sorted(POLICIES))
        self.known(s).add(name)
        status, _ = self.ask("PUT", f"/v1/sessions/{s.id}/network", POLICIES[name], s)
        if status == 200:
            s.policies = {name}

    def say(self, s, line):
        """What a shell line in the session printed; None if nobody can say."""
        status, data = self.ask("POST", f"/v1/sessions/{s.id}/executions?wait=true", {"command": line}, s)
        return data["stdout"] if status == 200 and not s.lost_allowed and data["state"] == "exited" else None

    def reach(self):
        """Allowed: it is reached, at the latest when all is back. Refused: it is not, at any time."""
        s, marker, until = self.pick(), self.marker(), time.monotonic() + AGAIN_S
        may = set(self.known(s))
        while not s.lost_allowed and not self.ledger.stop.is_set():
            out = self.say(s, CURL + f"http://web.example/chaos/{marker}")
            if out is None:
                return
            reached = f'"path": "/chaos/{marker}"' in out
            self.ledger.counts["reached" if reached else "not reached"] += 1
            if reached and may == {"shut"}:
                self.ledger.problem(f"{s.id}: reached what its policy refuses: {out[:200]}")
            if reached or "shut" in may:
                return
            if time.monotonic() > until:
                self.ledger.problem(f"{s.id}: not reached for {AGAIN_S} s though {may} allows it: {out[:200]}")
                return
            time.sleep(0.1)

    def attack(self):
        s = self.pick()
        out = self.say(s, "cat /tmp/won; " + "; ".join(CURL + url for url in self.random.sample(BAD, 2)) + "; true")
        if out and '"sha256"' in out:
            self.ledger.problem(f"{s.id}: reached what no policy allows: {out[:300]}")
        self.ledger.counts["attacks"] += out is not None


class Watch(threading.Thread):
    """Looks at the canaries all the time, so that a stray packet has a time."""

    def __init__(self, ledger):
        super().__init__(daemon=True)
        self.ledger = ledger

    def run(self):
        while not self.ledger.stop.wait(1.0):
            self.look()
        self.look()

    def look(self):
        try:
            internet.NET.check_canaries()
        except internet.Failed as e:
            self.ledger.problem(str(e))
        internet.NET.hits.clear()
        internet.NET.connections.clear()
