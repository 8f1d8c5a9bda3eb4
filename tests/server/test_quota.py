#!/usr/bin/python3 -B
"""Goal: nobody gets more than the operator gave him, whoever is refused learns why and when to ask again,
and what one tenant does costs another little.

    test_quota.py CORDON [name ...]
"""
import itertools
import os
import statistics
import subprocess
import tempfile
import threading
import time

from burst import Burst, burst
from harness import Failed, Server, check, equal, has, note, run_tests, wait_for

numbers = itertools.count(1)


class Tenant:
    """Another tenant of the server, removed at the end of its block."""

    def __init__(self, server, **limits):
        self.server = server
        self.id, self.key = server.tenant(f"t{next(numbers)}", **limits)

    def create(self, **spec):
        return self.server.create(key=self.key, **spec)

    def ask(self, **spec):
        status, headers, body = self.server.request("POST", "/v1/sessions", spec, key=self.key)
        if status == 201:
            self.server.ids.add(body["id"])
        return status, headers, body

    def refused(self, code, *words, fault="user", **spec):
        """Refused with 429, code, when to ask again; gives the seconds."""
        status, headers, body = self.ask(**spec)
        equal(status, 429, f"status of a create beyond {code} ({body})")
        error = body["error"]
        equal((error["code"], error["fault"]), (code, fault), "code and fault")
        for word in words:
            has(error["message"], word, "message")
        check(headers.get("retry-after", "").isdigit() and int(headers["retry-after"]) >= 1, f"headers {headers}")
        return int(headers["retry-after"])

    def delete(self, session):
        self.server.delete(session["id"], key=self.key)

    def sessions(self, states="creating,running,pausing,paused,resuming,ending"):
        return self.server.want(200, "GET", f"/v1/sessions?limit=1000&state={states}", key=self.key)["sessions"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.want(204, "DELETE", f"/v1/tenants/{self.id}")


class Waiter(threading.Thread):
    """A create that may take long, as a client that waits for it."""

    def __init__(self, tenant, **spec):
        super().__init__(daemon=True)
        self.tenant, self.spec, self.answer, self.seconds = tenant, spec, None, 0.0
        self.start()

    def run(self):
        began = time.monotonic()
        self.answer = self.tenant.ask(**self.spec)
        self.seconds = time.monotonic() - began

    def result(self, seconds=20):
        self.join(seconds)
        if self.answer is None:
            raise Failed(f"no answer within {seconds} s")
        return self.answer

    def waits(self, seconds=0.3):
        self.join(seconds)
        check(self.answer is None, f"does not wait: {self.answer}")


def metric(server, name):
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


# -- one tenant's bounds


def test_sessions_of_a_tenant(server):
    with Tenant(server, max_sessions=2) as a:
        first, _ = a.create(), a.create()
        before = metric(server, 'cordon_refused_total{why="quota_sessions"}')
        a.refused("quota_sessions", "2 (max_sessions: end one, or have it raised; see `cordon limits`)")
        equal(metric(server, 'cordon_refused_total{why="quota_sessions"}'), before + 1, "refusals counted")
        equal(len(a.sessions()), 2, "sessions")
        a.delete(first)
        wait_for(lambda: a.ask()[0] == 201, 15, "room after a deletion")
        a.refused("quota_sessions")
        server.delete(server.create()["id"])  # another's bound is not ours


def test_a_changed_bound_counts_at_once(server):
    with Tenant(server, max_sessions=1) as a:
        a.create()
        a.refused("quota_sessions", "1")
        server.want(200, "PATCH", f"/v1/tenants/{a.id}", {"max_sessions": 2})
        a.create()
        a.refused("quota_sessions", "2")


def test_rate_of_a_tenant(server):
    with Tenant(server, create_rate=1, burst=3) as a:
        for _ in range(3):
            a.create()
        equal(a.refused("quota_rate"), 1, "Retry-After")
        time.sleep(1)  # the Retry-After of the answer
        a.create()


def test_a_slow_rate_is_kept_exactly(server):
    with Tenant(server, create_rate=0.5, burst=1) as a:
        began = time.monotonic()
        a.create()
        equal(a.refused("quota_rate"), 2, "Retry-After")
        made = 0
        while time.monotonic() - began < 4.5:  # asking often neither helps nor harms
            made += a.ask()[0] == 201
        equal(made, 2, "sessions in 4.5 s at one in two")


def test_memory_of_a_tenant(server):
    with Tenant(server, max_memory="1G") as a:
        one = a.create(limits={"memory": "600M"})
        a.refused("quota_memory", str(1 << 30), limits={"memory": "600M"})
        a.create(limits={"memory": "400M"})
        a.delete(one)
        wait_for(lambda: a.ask(limits={"memory": "600M"})[0] == 201, 15, "room after a deletion")


def test_a_trace_is_memory(server):
    """Its file takes 1 MiB."""
    with Tenant(server, max_memory="1G") as a:
        one = a.create(limits={"memory": "512M"}, trace="programs")
        a.refused("quota_memory", limits={"memory": "512M"})
        a.create(limits={"memory": "510M"})
        a.delete(one)
        wait_for(lambda: a.ask(limits={"memory": "513M"})[0] == 201, 15, "room after a deletion")


def test_storage_of_a_tenant(server):
    with Tenant(server, max_storage="600M") as a:
        a.create(limits={"disk": "500M"})
        a.refused("quota_storage", limits={"disk": "200M"})
        a.create(limits={"disk": "100M"})


def test_processes_of_a_tenant(server):
    with Tenant(server, max_pids=700) as a:
        first = a.create(limits={"pids": 400})
        a.refused("quota_pids", "700", limits={"pids": 301})
        a.create(limits={"pids": 300})
        a.delete(first)
        wait_for(lambda: a.ask(limits={"pids": 400})[0] == 201, 15, "the processes of one that has ended")


def test_bounds_hold_after_a_restart():
    with Server(pool_size=0) as server:
        with Tenant(server, max_sessions=2, max_memory="1G") as a:
            a.create(limits={"memory": "300M"})
            a.create(limits={"memory": "300M"})
            server.restart()
            a.refused("quota_sessions")
            server.want(200, "PATCH", f"/v1/tenants/{a.id}", {"max_sessions": 5})
            a.refused("quota_memory", limits={"memory": "500M"})
            a.create(limits={"memory": "300M"})


# -- the node's


def test_sessions_and_memory_of_the_node():
    with Server(pool_size=0, node_max_sessions=3, node_max_memory="1600M") as server:
        with Tenant(server) as a, Tenant(server) as b:
            made = [a.create(limits={"memory": "500M"}) for _ in range(3)]
            for tenant in (a, b):
                tenant.refused("capacity_sessions", "3", fault="platform")
            for session in made:
                a.delete(session)
            wait_for(lambda: not a.sessions(), 15, "the end of them")
            a.create(limits={"memory": "1G"})
            b.refused("capacity_memory", str(1600 << 20), fault="platform", limits={"memory": "700M"})
            b.create(limits={"memory": "500M"})


def test_a_machine_short_of_memory_lets_nobody_in():
    """Promises are not bounded by default; what the machine has left is. Here it is what a file says."""
    with tempfile.NamedTemporaryFile("w") as told:

        def tell(available):
            told.seek(0)
            told.write(f"MemTotal:       16000000 kB\nMemFree:        15000000 kB\nMemAvailable: {available:10d} kB\n")
            told.flush()

        tell(8000000)
        os.chmod(told.name, 0o644)  # as the real one
        subprocess.run(["mount", "--bind", told.name, "/proc/meminfo"], check=True)  # of our own namespace
        try:
            with Server(pool_size=0) as server, Tenant(server) as t:
                t.create(limits={"memory": "1G"})
                tell(900000)
                time.sleep(1.5)  # cordond reads the file once a second
                t.refused("capacity_memory", "short of memory", fault="platform")
                tell(8000000)
                wait_for(lambda: t.ask()[0] == 201, 15, "being let in again")
        finally:
            subprocess.run(["umount", "/proc/meminfo"], check=True)


def test_rate_of_the_node():
    with Server(pool_size=0, node_create_rate=2) as server:
        with Tenant(server) as a, Tenant(server) as b:
            a.create()
            b.create()
            equal(a.refused("capacity_rate", fault="platform"), 1, "Retry-After")
            b.refused("capacity_rate", fault="platform")
            time.sleep(0.6)  # one session at two a second
            b.create()


# -- waiting


def test_the_queue_lets_in_the_first_that_came(server):
    with Tenant(server, max_sessions=1, queue_length=2, queue_timeout="30s") as a:
        holder = a.create()
        first = Waiter(a, metadata={"who": "first"})
        first.waits()
        second = Waiter(a, metadata={"who": "second"})
        second.waits()
        a.refused("quota_queue", "2")
        equal(len(a.sessions()), 1, "sessions while others wait")
        a.delete(holder)
        status, _, made = first.result()
        equal((status, made["metadata"], made["state"]), (201, {"who": "first"}, "running"), "the first")
        second.waits()
        a.delete(made)
        status, _, made = second.result()
        equal((status, made["metadata"]), (201, {"who": "second"}), "the second")


def test_the_queue_has_a_deadline(server):
    with Tenant(server, max_sessions=1, queue_length=5, queue_timeout="700ms") as a:
        a.create()
        waiters = [Waiter(a) for _ in range(3)]
        for w in waiters:
            status, headers, body = w.result()
            equal((status, body["error"]["code"]), (429, "queue_timeout"), "after the deadline")
            check(headers.get("retry-after", "").isdigit(), f"headers {headers}")
            check(0.6 < w.seconds < 2.5, f"waited {w.seconds:.2f} s instead of 0.7 s")
        equal(len(a.sessions()), 1, "sessions")


def test_a_queue_at_a_rate_keeps_the_rate(server):
    with Tenant(server, create_rate=20, burst=1, queue_length=20, queue_timeout="10s") as a:
        began = time.monotonic()
        answers = burst(server, 15, key=a.key)
        took = time.monotonic() - began
        equal([x.status for x in answers], [201] * 15, "answers")
        check(0.65 < took < 9, f"15 at 20 a second took {took:.2f} s")


def test_who_gives_up_leaves_nothing(server):
    with Tenant(server, max_sessions=1, queue_length=3, queue_timeout="60s") as a:
        holder = a.create()
        for _ in range(3):  # each time the queue is full, and then empty again
            waiting = Burst(server, 3, key=a.key)
            wait_for(lambda: a.ask()[2]["error"]["code"] == "quota_queue", 15, "a full queue")
            waiting.give_up()
        last = Waiter(a, metadata={"who": "last"})
        wait_for(lambda: last.answer is None or last.answer[0] != 429, 15, "a place in the queue")
        last.waits()
        a.delete(holder)
        status, _, made = last.result(5)
        equal((status, made["metadata"]), (201, {"who": "last"}), "the one who stayed")
        time.sleep(0.3)  # nothing else may be created
        every = a.sessions("creating,running,pausing,paused,resuming,ending,ended,stopped")
        equal(sorted(s["id"] for s in every), sorted([holder["id"], made["id"]]), "all that ever was")


def test_a_removed_tenant_waits_no_more(server):
    with Tenant(server, max_sessions=1, queue_length=3, queue_timeout="60s") as a:
        a.create()
        waiters = [Waiter(a) for _ in range(3)]
        waiters[0].waits()
        server.want(204, "DELETE", f"/v1/tenants/{a.id}")
        for w in waiters:
            equal(w.result(5)[0], 403, "a request that waits when its tenant is removed")


# -- two tenants


def one_beside_a_crowd(server, crowds, lones):
    held = [crowds.create() for _ in range(4)]
    crowd = Burst(server, 30, key=crowds.key)
    time.sleep(0.3)  # all of the crowd are in the queue
    lone = Waiter(lones)
    lone.waits()
    for session in held[:2]:  # of the next two places one is his, though 30 came before him
        crowds.delete(session)
    equal(lone.result(5)[0], 201, "the other tenant")
    crowd.step(0.5)
    check(crowd.answers_left >= 28, f"{30 - crowd.answers_left} of the crowd got in for one place")
    crowd.give_up()
    for tenant in (crowds, lones):
        for session in tenant.sessions("creating,running"):
            tenant.delete(session)
    wait_for(lambda: not crowds.sessions() and not lones.sessions(), 10, "the end of all")


def test_a_free_place_goes_round():
    with Server(pool_size=0, node_max_sessions=4) as server:
        patient = {"queue_length": 50, "queue_timeout": "60s"}
        with Tenant(server, **patient) as a, Tenant(server, **patient) as b:
            one_beside_a_crowd(server, a, b)
            one_beside_a_crowd(server, b, a)


def timed(tenant, count, pause=0.02, between=lambda: None):
    """Seconds that each of these creates took; each session ends at once."""
    took = []
    for _ in range(count):
        began = time.monotonic()
        session = tenant.create()
        took.append(time.monotonic() - began)
        tenant.delete(session)
        between()
        time.sleep(pause)  # below the tenant's rate
    return took


def test_one_tenants_burst_is_not_the_others_problem(server):
    with Tenant(server) as b:
        alone = timed(b, 25)
        with Tenant(server, max_sessions=60, queue_length=40, queue_timeout="2s", create_rate=100, burst=30) as a:
            crowd = Burst(server, 200, key=a.key)
            beside = timed(b, 25, between=crowd.step)
            answers = crowd.answers(20)
            statuses = [x.status for x in answers]
            codes = {x.body["error"]["code"] for x in answers if x.status == 429}
            server.ids |= {x.body["id"] for x in answers if x.status == 201}
            note(
                f"alone: median {statistics.median(alone) * 1000:.1f} ms, worst {max(alone) * 1000:.1f} ms; "
                f"beside the burst: median {statistics.median(beside) * 1000:.1f} ms, "
                f"worst {max(beside) * 1000:.1f} ms; of the burst {statuses.count(201)} got in, the others {codes}"
            )
            equal(set(statuses), {201, 429}, "answers to the burst")
            check(30 <= statuses.count(201) <= 60, f"{statuses.count(201)} of 200 got in, with room for 60")
            check(codes <= {"quota_queue", "quota_rate", "quota_sessions", "queue_timeout"}, f"codes {codes}")
            check(all("retry-after" in x.headers for x in answers if x.status == 429), "when to ask again")
            check(max(beside) < max(alone) + 1.0, f"{max(beside):.2f} s beside the burst, {max(alone):.2f} s alone")
            check(
                statistics.median(beside) < 5 * statistics.median(alone) + 0.1,
                f"median {statistics.median(beside):.3f} s, alone {statistics.median(alone):.3f} s",
            )


if __name__ == "__main__":
    run_tests(globals(), pool_size=4, node_max_memory="500G")
