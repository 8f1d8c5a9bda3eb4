"""model_trouble.py - what happens to the server while clients use it: kills, stops, upgrades.

    kill -9   cordond, the keeper, cordon-egress, PID 1 of a cell, the supervisor, all at once
    SIGSTOP   the keeper, cordon-egress, PID 1 of a cell, for 0.05 to 7 seconds
    SIGHUP    the supervisor: the programs are started again in place"""
import os
import signal
import time

from chaos import READY_S, Chaos, pid1  # noqa: E402 (model.py has set the path)

HANG_MORE_S = 20  # that a session may be slow after its PID 1 was stopped
WEIGHTS = {"cordond": 18, "keeper": 14, "cordon-egress": 12, "init": 8, "supervisor": 5, "all": 5,
           "stop keeper": 12, "stop cordon-egress": 10, "stop init": 10, "upgrade": 6}


class Trouble(Chaos):
    """chaos: one for each tenant, whose sessions are compared with the tenant's own key."""

    def __init__(self, server, args, whole, tenants):
        super().__init__(server, args)
        self.ledger, self.tenants = whole, tenants
        self.last = []  # what was done last, and when
        self.chaos = []
        for tenant in tenants:
            one = Chaos(tenant.view, args)
            one.ledger = tenant.ledger
            self.chaos.append(one)

    def any_session(self):
        with self.ledger.lock:
            live = [s for t in self.tenants for s in t.ledger.sessions if not s.lost_allowed]
        return self.random.choice(live) if live else None

    def kill_init(self):
        victim = self.any_session()
        if victim is not None:
            pid = pid1(victim.id)
            victim.killed = True
            self.kill_pid(pid)

    def stop(self, what):
        """For a while. A session whose PID 1 stands still may answer late, or that it does not."""
        seconds, victim = self.random.choice([0.05, 0.3, 1, 2, 4, 7]), None
        if what == "init":
            victim = self.any_session()
            pid = pid1(victim.id) if victim else None
        else:
            pid = self.any_pid(what)
        if pid is None:
            return
        if victim is not None:
            victim.hung_until = time.monotonic() + seconds + HANG_MORE_S
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
        except ProcessLookupError:
            return
        finally:
            self.wake(pid)

    @staticmethod
    def wake(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def strike(self):
        what = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if self.random.random() < 0.6:  # right after a request was sent
            self.ledger.started.clear()
            self.ledger.started.wait(0.5)
            time.sleep(self.random.random() * 0.005)
        self.killed[what] = self.killed.get(what, 0) + 1
        self.last = [*self.last[-2:], f"{what} {time.strftime('%H:%M:%S', time.gmtime())}"]
        self.ledger.generation += 1
        if what == "init":
            self.kill_init()
        elif what == "supervisor":
            self.kill_supervisor()
        elif what == "all":
            self.kill_all()
        elif what == "upgrade":
            self.server.process.send_signal(signal.SIGHUP)
        elif what.startswith("stop "):
            self.stop(what[5:])
        else:
            self.kill_pid(self.any_pid(what))
        self.ledger.generation += 1
        return what

    def run(self, workers, until):
        for worker in workers:
            worker.start()
        number = 0
        while time.monotonic() < until:
            time.sleep(self.random.choice([0.05, 0.5, 1.5]))
            what = self.strike()
            number += 1
            if self.random.random() < 0.2:
                continue  # the next one strikes while it comes back
            began = time.monotonic()
            self.server.wait_ready(READY_S * 3)
            self.longest = max(self.longest, time.monotonic() - began)
            if number % 5 == 0:
                self.compare_sessions(f"after strike {number} ({what})")
        self.server.wait_ready(READY_S * 3)

    def compare_sessions(self, when):
        for one in self.chaos:
            one.compare_sessions(when)

    def compare_all(self):
        for one in self.chaos:
            self.end_open(one)
            one.compare_all()

    @staticmethod
    def end_open(one):
        """Conversations that were cut: their programs wait for input."""
        for s in one.ledger.sessions:
            for x in s.executions:
                if getattr(x, "open", False):
                    one.server.request("DELETE", f"/v1/sessions/{s.id}/executions/{x.id}")

    def end_all(self):
        for one in self.chaos:
            one.end_all()
