#!/usr/bin/python3 -B
"""Goal: kill -9 of any program of the server, under load: cells fail closed, nothing gets out that the policy
refuses, ever; sessions go on, the network comes back by itself, and policies are what they were.

    test_egress_kills.py CORDON [name ...]

Two sessions make requests as fast as they can, one over connections it keeps, one with new ones; a third attacks:
addresses and names that its policy refuses, without pause. Runs in a small internet of its own (internet.py)."""
import contextlib
import json
import os
import signal
import time

import internet
from harness import check, equal, note, wait_for
from internet import EVIL, EVIL6, INTERNAL, METADATA
from internet_client import POLICY, TOOLS, curl, make, policy, put, records

KILLS = True  # tests here kill programs of the server
READY_S = 15

LOAD = """
import sys
def load(keep):
    n, bad, s = 0, 0, None
    while True:
        try:
            if s is None or not keep:
                s = connect('web.example', 80, 5)
            s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')
            text = everything(s)
            good = text.startswith('HTTP/1.1 200 ') and '"host": "web.example"' in text
        except OSError:
            good = False
        if good:
            n += 1
        else:
            s, bad = None, bad + 1
            time.sleep(0.02)
        with open('/tmp/count', 'w') as f:
            f.write(f'{n} {bad}')
load(KEEP)
"""

ATTACK = f"""
def attack():
    n, won = 0, 0
    while True:
        for where, port, text in (
                ('{EVIL}', 80, b'GET /echo HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n'),
                ('{METADATA}', 80, b'GET /latest HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'),
                ('{EVIL6}', 443, hello(b'evil.example')), ('{INTERNAL}', 22, b'SSH-2.0-x\\r\\n'),
                ('198.18.0.1', 3128, b'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')):
            try:
                s = socket.socket(socket.AF_INET6 if ':' in where else socket.AF_INET)
                s.settimeout(0.5)
                s.connect((where, port))
                s.sendall(text)
                got = s.recv(4096)
                won += got[:1] == b'\\x16' or b' 200 ' in got[:20] or b'SSH' in got
            except OSError:
                pass
            n += 1
        for name in ('evil.example', 'x' * 30 + '.evil.example'):
            a = dns(name, seconds=0.2)
            won += isinstance(a, list) and a[1] > 0
        udp('{EVIL}', 443, seconds=0.05)
        with open('/tmp/count', 'w') as f:
            f.write(f'{{n}} {{won}}')
attack()
"""


class Crowd:
    """The three sessions, and how far they are."""

    def __init__(self, server):
        self.server = server
        self.sessions = {"kept": make(server, policy({"host": "web.example"})),
                         "new": make(server, policy({"host": "web.example"})),
                         "attack": make(server, {**POLICY, "refused_names": "nxdomain"})}
        for name, code in (("kept", LOAD.replace("KEEP", "True")), ("new", LOAD.replace("KEEP", "False")),
                           ("attack", ATTACK)):
            server.spawn(self.sessions[name]["id"], ["/usr/bin/python3", "-c", TOOLS + code], user="root")
        for name in self.sessions:
            wait_for(lambda n=name: self.count(n)[0] > 0, 15, f"work of {name}")

    def count(self, name):
        """(done, failed or won)"""
        try:
            text = self.server.run(self.sessions[name]["id"], "cat /tmp/count")["stdout"]
        except (OSError, KeyError):
            return 0, 0
        words = text.split()
        return (int(words[0]), int(words[1])) if len(words) == 2 else (0, 0)

    def goes_on(self, why):
        """All of them get further, and the attacks still fail."""
        before = {n: self.count(n)[0] for n in self.sessions}
        for name in self.sessions:
            wait_for(lambda n=name: self.count(n)[0] > before[n] + 3, READY_S, f"work of {name} {why}", step=0.1)
        equal(self.count("attack")[1], 0, f"attacks that won {why}")
        for s in self.sessions.values():
            equal(self.server.get(s["id"])["state"], "running", f"state {why}")

    def policies_intact(self, why):
        s = self.sessions["kept"]
        wait_for(lambda: self.server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", READY_S,
                 f"network access {why}")
        equal(curl(self.server, s, "http://web.example/echo")[1], 200, f"what is allowed {why}")
        code, status, _ = curl(self.server, s, "http://look.example/echo")
        check(status == 403, f"what is not, {why}: {code} {status}")
        equal(curl(self.server, s, f"http://{EVIL}/")[1], 403, f"an address {why}")
        equal(self.server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["policy"]["rules"],
              [{"host": "web.example"}], f"the policy {why}")

    def end(self):
        for s in self.sessions.values():
            self.server.delete(s["id"])


def revived(server, name, old):
    wait_for(lambda: server.pid(name) not in (None, old), READY_S, f"another {name}")
    wait_ready(server)


def wait_ready(server):
    time.sleep(0.05)  # until the death is noticed: before, the server may still report that it is ready
    server.wait_ready(READY_S)


def kill_often(server, name, times=3):
    crowd = Crowd(server)
    for n in range(times):
        time.sleep(0.3 * n)  # at different times after the last start
        old = server.kill(name)
        revived(server, name, old)
        crowd.goes_on(f"after {name} was killed {n + 1} times")
        internet.NET.check_canaries()
    crowd.policies_intact(f"after {name} was killed")
    fresh = make(server, POLICY)
    equal(curl(server, fresh, "http://web.example/echo")[1], 200, "a new session")
    note(f"{ {n: crowd.count(n) for n in crowd.sessions} }")
    crowd.end()


def test_egress_killed(server):
    kill_often(server, "cordon-egress", 4)


def test_cordond_killed(server):
    kill_often(server, "cordond")


def test_keeper_killed(server):
    kill_often(server, "keeper")


def test_supervisor_killed(server):
    crowd = Crowd(server)
    for n in range(2):
        server.process.kill()
        server.process.wait()
        server.start()
        wait_for(lambda: server.pid("cordon-egress"), READY_S, "an egress of the new supervisor")
        crowd.goes_on(f"after the supervisor was killed {n + 1} times")
    crowd.policies_intact("after the supervisor was killed")
    crowd.end()


def test_everything_killed(server):
    crowd = Crowd(server)
    pids = [server.pid(n) for n in ("cordond", "keeper", "cordon-egress")]
    server.process.kill()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # they end with their supervisor
            os.kill(pid, signal.SIGKILL)
    server.process.wait()
    time.sleep(0.5)  # the attack goes on while no egress is running
    internet.NET.check_canaries()
    server.start()
    crowd.goes_on("after everything was killed")
    crowd.policies_intact("after everything was killed")
    crowd.end()


def test_egress_away(server):
    """While egress is not running nothing gets out, not even what is allowed; and programs see that soon."""
    s = make(server, POLICY)
    old = server.kill("cordon-egress", signal.SIGSTOP)
    try:
        internet.NET.mark()
        began = time.monotonic()
        code, status, _ = curl(server, s, "http://web.example/echo", seconds=3)
        check(code != 0 and status == 0, f"without a gateway: {code} {status}")
        check(time.monotonic() - began < 5, "takes long")
        equal((internet.NET.hits, internet.NET.asked), ([], []), "what got out")
        os.kill(old, signal.SIGKILL)
        revived(server, "cordon-egress", old)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(old, signal.SIGCONT)
    wait_for(lambda: curl(server, s, "http://web.example/echo")[1] == 200, READY_S, "the network")
    server.delete(s["id"])


def test_killed_while_a_policy_changes(server):
    """A change that was acknowledged holds, whichever process dies after it."""
    s = make(server, POLICY)
    for n, name in enumerate(("cordon-egress", "cordond", "cordon-egress", "cordond")):
        allowed = n % 2 == 1
        put(server, s, POLICY if allowed else "deny")
        old = server.kill(name)
        revived(server, name, old)
        wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", READY_S,
                 "network access")
        before = len(internet.NET.hits)
        if allowed:
            wait_for(lambda: curl(server, s, "http://web.example/echo")[1] == 200, READY_S,
                     f"what is allowed after {name}")
        else:
            for _ in range(10):
                check(curl(server, s, "http://web.example/echo")[1] != 200, f"denied, acknowledged, "
                      f"and reached after {name} died")
            equal(len(internet.NET.hits), before, "hits")
    server.delete(s["id"])


def test_records_survive(server):
    """What was recorded before cordond died is there, once; what happens meanwhile waits."""
    s = make(server, POLICY)
    for n in range(5):
        equal(curl(server, s, f"http://web.example/before/{n}")[1], 200)
    wait_for(lambda: len(records(server, s, kind="request")) >= 5, 5, "records")
    x = server.spawn(s["id"], "sleep 0.3; for i in 0 1 2 3 4; "
                     "do curl -sS -m 5 -o /dev/null http://web.example/while/$i; done")
    old = server.kill("cordond")
    revived(server, "cordond", old)
    server.ended(x)
    wait_for(lambda: len([r for r in records(server, s, kind="request") if r["path"].startswith("/while/")]) >= 5, 10,
             "records that waited")
    paths = sorted(r["path"] for r in records(server, s, kind="request"))
    equal(paths, sorted([f"/before/{n}" for n in range(5)] + [f"/while/{n}" for n in range(5)]),
          f"each once: {json.dumps(paths)}")
    server.delete(s["id"])


def send(server, s, size):
    """The status of a request with so many bytes."""
    return curl(server, s, "http://web.example/echo", "--data-binary", f"@/tmp/{size}", "-H", "Expect:")[1]


def network(server, s):
    return server.want(200, "GET", f"/v1/sessions/{s['id']}")["usage"]["network"]


def kill_in_turn(server):
    """Yields what was killed: one program, or several at a time."""
    for names in (("cordon-egress",), ("cordond",), ("cordon-egress", "cordond")):
        time.sleep(0.5)  # cordond stores counts a moment after it got them
        old = {n: server.kill(n) for n in names}
        for n in names:
            revived(server, n, old[n])
        yield " and ".join(names)


def test_limits_go_on(server):
    """Limits "in total" and what usage shows, of a session and of a rule, whichever process dies."""
    web = {"name": "web", "host": "web.example"}
    of_rule = policy({**web, "limits": {"bytes_out": 60000}})
    sessions = [make(server, policy(web, limits={"bytes_out": 60000})), make(server, of_rule),
                make(server, policy(web))]
    for s in sessions:
        server.run(s["id"], "head -c 20000 /dev/zero > /tmp/20000; head -c 10000 /dev/zero > /tmp/10000")
        equal([send(server, s, 20000) for _ in range(2)], [200, 200], "two fit")
    for killed in kill_in_turn(server):
        for s in sessions:
            wait_for(lambda s=s: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open",
                     READY_S, "network access")
            sent = network(server, s)["bytes_out"]
            check(40000 < sent < 90000, f"usage after {killed} died: {sent}")
            if killed == "cordon-egress":
                equal(send(server, s, 10000), 200, f"what is left after {killed} died")
    for s in sessions[:2]:
        equal(send(server, s, 20000), 403, "more than is left")
        equal(send(server, s, 20000), 403, "and nothing is left then")
    put(server, sessions[1], of_rule)
    equal(send(server, sessions[1], 10000), 403, "the same policy again")
    equal(send(server, sessions[2], 20000), 200, "without a limit it goes on")
    for s in sessions:
        server.delete(s["id"])
        sent = network(server, s)["bytes_out"]
        check(50000 < sent <= (90000 if s is sessions[2] else 60000), f"usage of one that has ended: {sent}")


def open_again(server, sessions):
    for s in sessions:
        wait_for(lambda s=s: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", READY_S,
                 "network access")


def test_limits_hold_if_one_dies_after_the_other(server):
    """cordond dies before it has stored the last counts, then egress dies: what was used stays used."""
    web = {"name": "web", "host": "web.example"}
    for n in range(2):
        sessions = [make(server, policy(web, limits={"bytes_out": 60000})),
                    make(server, policy({**web, "limits": {"bytes_out": 60000}}))]
        for s in sessions:
            server.run(s["id"], "head -c 20000 /dev/zero > /tmp/20000")
            equal(send(server, s, 20000), 200, "one fits")
            server.spawn(s["id"], "sleep 0.7; curl -sS -m 5 -o /dev/null -H Expect: --data-binary @/tmp/20000 "
                         f"http://web.example/late/{n}")
        wait_for(lambda n=n: len(internet.NET.hit(f"/late/{n}")) == 2, 10, "what is sent last", step=0.01)
        time.sleep(0.1)  # counts are on their way, and perhaps not stored yet
        old = server.kill("cordond")
        revived(server, "cordond", old)
        open_again(server, sessions)
        time.sleep(1)  # egress sends its counts again, and cordond stores them
        old = server.kill("cordon-egress")
        revived(server, "cordon-egress", old)
        open_again(server, sessions)
        for s in sessions:
            equal(send(server, s, 20000), 403, "more than is left")
            server.delete(s["id"])


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
