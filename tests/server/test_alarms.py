#!/usr/bin/python3 -B
"""Goal: what a session does that somebody should look at is an event of type alarm, with the severity and the action of
its rule, at most one of a kind in ten seconds; an action pauses or ends the session, and the operator's cannot be weakened.

    test_alarms.py CORDON [name ...]
"""
import os
import re
import tempfile
import time

from harness import check, equal, has, run_tests, wait_for
from leveled import Leveled as Server

KILLS = True
DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "traces.md")
ASK = "import socket, sys\nfor i in range({n}):\n    try: socket.getaddrinfo('{word}%d.example.net' % i, {port})\n    except OSError: pass\n"
CONNECT = "import socket\nfor i in range({n}):\n    try: \n        s = socket.create_connection(('h%d.example.net' % i, 80), 5); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); s.recv(1)\n    except OSError: pass\n"


def alarms(server, session, kind=None):
    events = server.want(200, "GET", f"/v1/sessions/{session['id']}/events?limit=1000")["events"]
    return [e["data"] for e in events if e["type"] == "alarm" and kind in (None, e["data"]["kind"])]


def first(server, session, kind, seconds=40):
    return wait_for(lambda: alarms(server, session, kind), seconds, f"an alarm {kind}")[0]


def ask(server, session, n, word="n", wait=True):
    command = ["python3", "-c", ASK.format(n=n, word=word, port=80)]
    return server.run(session["id"], command) if wait else server.spawn(session["id"], command)


def test_rules_are_checked_and_shown(server):
    equal(server.create()["alarms"], {})
    session = server.create(alarms={"fork_burst": {"threshold": 7, "action": "end"}, "memory_jump": {}})
    equal(session["alarms"], {"fork_burst": {"threshold": 7, "severity": "warning", "action": "end"},
                              "memory_jump": {"threshold": 75, "severity": "info", "action": "none"}})
    for bad, part in (({"fork": {}}, "fork"), ({"fork_burst": {"threshold": -1}}, "threshold"), ({"fork_burst": {"threshold": 1000001}}, "threshold"),
                      ({"fork_burst": {"severity": "loud"}}, "severity"), ({"fork_burst": {"action": "kill"}}, "action"),
                      ({"fork_burst": {"actions": "end"}}, "actions"), ({"fork_burst": 1}, "fork_burst"), ([], "alarms"), ("none", "alarms")):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"alarms": bad}, part)
    server.kill("cordond")
    server.wait_ready()
    equal(server.get(session["id"])["alarms"], session["alarms"], "after a restart")


def test_many_refused_names(server):
    session = server.create(alarms={"refused_names": {"threshold": 20, "severity": "critical"}})
    ask(server, session, 19)
    equal(alarms(server, session), [], "below the threshold")
    ask(server, session, 19)
    equal(alarms(server, session), [], "the same names again")
    ask(server, session, 40)
    told = first(server, session, "refused_names")
    equal((told["severity"], told["action"], told["threshold"], told["value"], told["raised"]), ("critical", "none", 20, 20, 1))
    has(told["last"], ".example.net")
    equal(len(alarms(server, session)), 1, "the others are counted")
    equal(server.get(session["id"])["state"], "running")


def test_data_in_names(server):
    """Names that are allowed count, too, if they are as long as those of a tunnel."""
    session = server.create(network={"rules": ["*.example.net"]}, alarms={"refused_names": {"threshold": 10}})
    ask(server, session, 30, "short")
    ask(server, session, 9, "d" * 45)
    equal(alarms(server, session), [])
    ask(server, session, 12, "d" * 45)
    first(server, session, "refused_names")


def test_an_alarm_ends_the_session(server):
    session = server.create(alarms={"refused_hosts": {"threshold": 5, "action": "end"}})
    server.spawn(session["id"], ["python3", "-c", CONNECT.format(n=40)])
    ended = server.reaches(session["id"], "ended", 40)
    equal(ended["reason"], "alarm")
    has(ended["detail"], "refused_hosts")
    equal(first(server, session, "refused_hosts")["action"], "end")


def test_an_alarm_pauses_the_session_until_somebody_resumes_it(server):
    session = server.create(alarms={"refused_names": {"threshold": 5, "action": "pause"}})
    ask(server, session, 6, wait=False)  # after the alarm too few are left for another one, which a new cordond would raise
    server.reaches(session["id"], "paused", 40)
    server.refused(409, "conflict", "POST", f"/v1/sessions/{session['id']}/executions?wait=true", {"command": "true"}, "paused by an alarm")
    server.kill("cordond")
    server.wait_ready()
    server.refused(409, "conflict", "POST", f"/v1/sessions/{session['id']}/executions?wait=true", {"command": "true"}, "paused by an alarm")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")
    equal(server.run(session["id"], "echo goes on")["stdout"], "goes on\n")


def test_processes_and_output(server):
    """All at once, since samples are five seconds apart, and alarms of a kind ten."""
    names = server.create(alarms={"refused_names": {"threshold": 20}})
    ask(server, names, 60)
    forks = server.create(alarms={"fork_burst": {"threshold": 50}})
    floods = server.create(alarms={"output_flood": {"threshold": 1 << 20}})
    quiet = server.create()
    server.run(quiet["id"], "sleep 0.1")
    time.sleep(6)  # a first sample of each, of an active session
    server.spawn(forks["id"], "for i in $(seq 80); do sleep 60 & done; wait")
    server.spawn(floods["id"], "head -c 4000000 /dev/zero; sleep 60")
    told = first(server, forks, "fork_burst")
    check(told["value"] >= 50 and int(told["processes"]) >= 80, str(told))
    check(first(server, floods, "output_flood")["value"] >= 4000000, "bytes of output")
    equal(alarms(server, quiet), [])
    later = wait_for(lambda: alarms(server, names)[1:], 40, "the number of those in between")[0]
    check(later["raised"] >= 30 and later["value"] > 40, str(later))


def test_the_operator_decides(server):
    """The setting `alarms` of this server ends sessions with package alarms and pauses those with many refused hosts."""
    session = server.create(alarms={"refused_hosts": {"threshold": 0}})
    server.spawn(session["id"], ["python3", "-c", CONNECT.format(n=60)])
    server.reaches(session["id"], "paused", 60)
    equal(first(server, session, "refused_hosts")["action"], "pause")
    equal(first(server, session, "refused_hosts")["threshold"], 32, "a client cannot raise it above the usual one")


def test_metrics(server):
    text = server.request("GET", "/metrics")[2]
    text = text if isinstance(text, str) else text.decode()
    check(re.search(r'cordon_alarms_total\{kind="fork_burst"\} [1-9]', text), "counted")


def test_alarms_of_a_policy(server):
    """The member `alarms` of network policies. The node's policy of this server names output_flood."""
    session = server.create(network={"extends": "deny", "alarms": {"refused_names": {"threshold": 5, "severity": "critical", "action": "pause"}}},
                            alarms={"refused_names": {"threshold": 50, "severity": "info"}})
    path = f"/v1/sessions/{session['id']}/network"
    shown = server.want(200, "GET", path + "?effective=true")
    equal(shown["policy"]["alarms"], {"refused_names": {"threshold": 5, "severity": "critical", "action": "pause"}})
    equal(shown["effective"]["alarms"], {**shown["policy"]["alarms"], "output_flood": {"threshold": 1000000, "severity": "warning", "action": "none"}})
    ask(server, session, 10, wait=False)
    server.reaches(session["id"], "paused", 40)
    told = first(server, session, "refused_names")
    equal((told["threshold"], told["severity"], told["action"]), (5, "critical", "pause"), "the session's own rule cannot make it looser")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"network": {"alarms": {"fork": {}}}}, "fork")


def test_a_policy_that_changes(server):
    """A change of a policy holds at once: for the session's, and for the tenant's in all its sessions."""
    ident, key = server.tenant("alarmed")
    session, other = server.create(key=key), server.create(network="none", key=key)
    ask_of = lambda n, word: server.run(session["id"], ["python3", "-c", ASK.format(n=n, word=word, port=80)], key=key)  # noqa: E731
    events = lambda s: [e["data"] for e in server.want(200, "GET", f"/v1/sessions/{s['id']}/events?limit=1000", key=key)["events"] if e["type"] == "alarm"]  # noqa: E731
    ask_of(10, "before")
    equal(events(session), [], "below the usual threshold")
    server.want(200, "PUT", f"/v1/sessions/{session['id']}/network", {"extends": ["deny"], "alarms": {"refused_names": {"threshold": 15}}}, key=key)
    ask_of(10, "after")
    told = wait_for(lambda: events(session), 40, "an alarm of the changed policy")[0]
    equal((told["kind"], told["threshold"], told["action"]), ("refused_names", 15, "none"))
    server.want(200, "PUT", f"/v1/tenants/{ident}/network", {"version": 1, "alarms": {"refused_names": {"threshold": 100, "action": "end"}, "output_flood": {"threshold": 100000}}})
    server.kill("cordond")
    server.wait_ready()
    shown = server.want(200, "GET", f"/v1/sessions/{session['id']}/network?effective=true", key=key)["effective"]["alarms"]
    equal(shown["refused_names"], {"threshold": 15, "severity": "warning", "action": "end"}, "of each member the strictest")
    time.sleep(6)  # the first sample of a session that this cordond adopted
    server.spawn(other["id"], "head -c 300000 /dev/zero; sleep 60", key=key)
    told = wait_for(lambda: events(other), 40, "an alarm of the tenant's policy, in a session without network")[0]
    equal((told["kind"], told["threshold"]), ("output_flood", 100000))
    ask_of(40, "end")
    wait_for(lambda: server.get(session["id"], key)["state"] == "ended", 40, "the end")
    equal(server.get(session["id"], key)["reason"], "alarm")


def test_none_keeps_its_alarms(server):
    """A session with a network gets "deny" for "none": the alarms of the document stay."""
    session = server.create(network="deny")
    server.want(200, "PUT", f"/v1/sessions/{session['id']}/network", {"extends": ["none"], "alarms": {"refused_names": {"threshold": 4, "action": "end"}}})
    shown = server.want(200, "GET", f"/v1/sessions/{session['id']}/network")
    equal((shown["name"], shown["policy"]["alarms"]["refused_names"]["threshold"]), ("deny", 4))
    ask(server, session, 8, wait=False)
    equal(server.reaches(session["id"], "ended", 40)["reason"], "alarm")


def test_the_page_has_every_kind(server):
    with open(DOC) as f:
        rows = re.findall(r"^\| `(\w+)` \| ([\d,]+)[^|]* \| (\w+) \|", f.read(), re.M)
    session = server.create(alarms={kind: {} for kind, _, _ in rows})
    equal({k: (v["threshold"], v["severity"]) for k, v in session["alarms"].items()},
          {kind: (int(n.replace(",", "")), severity) for kind, n, severity in rows})
    equal(len(rows), 9)


def test_the_client(server):
    import subprocess
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
    made = subprocess.run([server.program, "create", "--alarm", "escape_attempt=end"], env=env, capture_output=True, timeout=40)
    equal(made.returncode, 0, str(made))
    equal(server.get(made.stdout.decode().strip())["alarms"]["escape_attempt"]["action"], "end")
    made = subprocess.run([server.program, "create", "--alarm", "escape_attempt"], env=env, capture_output=True, timeout=40)
    has(made.stderr.decode(), "KIND=ACTION")


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".json") as node:
        node.write('{"alarms": {"output_flood": {"threshold": 1000000, "severity": "warning"}}}')
        node.flush()
        os.chmod(node.name, 0o644)
        run_tests(globals(), Server, pool_size=2, alarms="refused_hosts=pause,package=end", egress_policy=node.name)
