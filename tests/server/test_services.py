#!/usr/bin/python3 -B
"""Goal: start commands as services. In cells of the pool they run in advance, and a session that gets such a cell
has the program as an execution of its own; one that ends is started again if its template says so; an interpreter
gets the session's environment at its input; kill -9 of the daemon loses, doubles or leaks nothing.

    test_services.py CORDON [name ...]
"""
import json
import os
import threading
import time

import harness
from harness import Server, check, equal, has, run_tests, wait_for
from checks import stays  # after harness, which knows where it is
from level import TEMPLATE
from rows import database

KILLS = True
SMALL_POOL = {"pool_size": 0, "pool_started_size": 1}

# Two seconds until it is ready, then what it says is in a file.
SLOW = "echo began; sleep 2; echo up >/tmp/up; exec sleep 1000"
# Writes what comes to its input into a file.
READER = "touch /tmp/up; exec cat >/tmp/in"


def template(server, name, start, ready="[ -f /tmp/up ]", status=201, **more):
    body = {"name": name, "from": TEMPLATE, "start_command": start, "ready_command": ready, **more}
    return server.want(status, "POST", "/v1/templates", body)


def pool(server, name):
    (found,) = [t for t in server.want(200, "GET", "/v1/templates")["templates"] if t["name"] == name and t["current"]]
    return found["pool"]


def warm(server, name):
    """The first session is made as any other; then a cell with the program waits."""
    first = server.create(template=name)
    wait_for(lambda: pool(server, name)["ready"] > 0, 20, "a cell of the pool")
    return first["id"]


def executions(server, session_id):
    return server.want(200, "GET", f"/v1/sessions/{session_id}/executions?order=asc")["executions"]


def service(server, session_id):
    """The newest start of the start command."""
    found = [x for x in executions(server, session_id) if x["background"]]
    return found[-1] if found else None


def output(server, x):
    _, _, body = server.request("GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output", raw=True)
    return body.decode()


LOOP = "while :; do sleep 0.5; done # of-a-tenant"


def tenant_template(server, key, name):
    """Tenants make templates by builds."""
    build = server.want(201, "POST", "/v1/builds", {"name": name}, key=key)["id"]
    server.want(202, "POST", f"/v1/builds/{build}/start",
                {"fromTemplate": "base" if TEMPLATE == "host" else TEMPLATE, "steps": [], "startCmd": LOOP, "readyCmd": "true"}, key=key)
    wait_for(lambda: server.want(200, "GET", f"/v1/builds/{build}", key=key)["status"] == "ready", 60,
             "the build")


def use(server, name, key):
    """The session of a build may end a moment after it."""
    made = wait_for(lambda: (lambda a: a[2] if a[0] == 201 else None)(
        server.request("POST", "/v1/sessions", {"template": name}, key=key)), 10, "a session")
    server.delete(made["id"], key=key)


def cells(server):
    """Those of the pools, while there are no sessions."""
    return sum(name.endswith(".sock") for name in os.listdir(f"{server.run_dir}/cells"))


def tenants_cells(server):
    """Those but for a guest that waits since builds had sessions of the operator's template with a level."""
    return cells(server) - pool(server, TEMPLATE)["size"]


def settle(server, n, name, count=cells):
    """Cells that end and cells that are made may overlap for a moment."""
    def same():
        for _ in range(15):
            if count(server) != n:
                return False
            time.sleep(0.1)  # it must stay so for a while
        return True
    wait_for(same, 20, name, step=0.1)


def test_cells_in_advance_are_within_the_tenants_quota(_server):
    with Server(pool_size=0, pool_started_size=1, pool_max=2) as server:
        tenant = server.want(201, "POST", "/v1/tenants", {"name": "small"})["id"]
        key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "t", "scopes": ["sessions"]})["key"]
        names = ["one", "two", "three"]
        for name in names:
            tenant_template(server, key, name)
        server.want(200, "PATCH", f"/v1/tenants/{tenant}", {"max_sessions": 1})
        for name in names:
            use(server, name, key)
        settle(server, 1, "one cell, as its quota has room for one session", tenants_cells)
        wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=running", key=key)["sessions"], 10, "none")
        session = server.want(201, "POST", "/v1/sessions", {"template": "three"}, key=key)["id"]
        settle(server, 1, "the cell of the session alone", tenants_cells)
        server.delete(session, key=key)

        # With room for many, they still leave it to the operator's templates.
        server.want(200, "PATCH", f"/v1/tenants/{tenant}", {"max_sessions": 50})
        for name in names:
            use(server, name, key)
        settle(server, 2, "all that the pools may have")
        template(server, "public", LOOP, "true")
        server.delete(server.create(template="public")["id"])
        wait_for(lambda: pool(server, "public")["ready"] == 1, 15, "a cell of the operator's template")
        settle(server, 2, "no more cells than pool_max")


def test_an_interpreter_that_does_not_read_its_environment(_server):
    with Server(**SMALL_POOL) as server:
        template(server, "deaf", "touch /tmp/up; exec sleep 1000", interpreter=True)
        server.delete(warm(server, "deaf"))
        env = {f"V{i}": "\x01" * 42000 for i in range(4)}  # more than pipes and the stream to a guest hold: JSON has six bytes for each
        status, _, answer = server.request("POST", "/v1/sessions", {"template": "deaf", "env": env}, timeout=40)
        check(status >= 400, f"status {status}")
        has(json.dumps(answer), "environment")


def test_a_slow_start_is_answered_at_once(_server):
    with Server(**SMALL_POOL) as server:
        made = template(server, "slow", SLOW)
        equal((made["start_restart"], made["interpreter"], made["root"]["kind"]), (False, False, "stack"))
        stays(lambda: pool(server, "slow")["size"] == 0, 1.2, "no cell before the first use")
        first = warm(server, "slow")
        began = time.monotonic()
        session = server.create(template="slow")["id"]
        check(time.monotonic() - began < 1.8, "it waited for the start command")
        equal(pool(server, "slow")["hits"], 1)
        (x,) = executions(server, session)
        equal((x["state"], x["background"], x["command"]), ("running", True, SLOW))
        check(x["pid"] > 0, "no process")
        has(output(server, x), "began", "what it wrote before there was a session")
        equal(server.run(session, "cat /tmp/up; pgrep -fc 'sleep 100[0]'")["stdout"].split(), ["up", "1"])
        other = server.create(template="slow", env={"A": "1"})["id"]
        equal(pool(server, "slow")["hits"], 1, "its program could not have the environment")
        server.want(204, "DELETE", f"/v1/sessions/{session}/executions/{x['id']}")
        equal(server.execution(x)["state"], "killed")
        for each in (first, session, other):
            server.delete(each)


def test_killed_with_cells_in_the_pool(_server):
    """The cell of the pool ends with its program, that of the session goes on with its own."""
    with Server(**SMALL_POOL) as server:
        template(server, "slow", SLOW)
        warm(server, "slow")
        session = server.create(template="slow")["id"]
        (x,) = executions(server, session)
        server.kill("cordond")
        server.wait_ready()
        wait_for(lambda: server.execution(x)["state"] == "running", 15, "what PID 1 tells of it")
        equal(server.execution(x)["pid"], x["pid"])
        has(output(server, x), "began")
        server.want(204, "DELETE", f"/v1/sessions/{session}/executions/{x['id']}")
        equal(server.run(session, "pgrep -fc 'sleep 100[0]' || true")["stdout"].strip(), "0")


def test_killed_while_cells_start(_server):
    """At any moment: between the cell and its program, the program and its readiness, the claim and the row."""
    with Server(**SMALL_POOL) as server:
        template(server, "quick", "echo began; touch /tmp/up; exec sleep 1000")
        for n in range(6):
            made = server.create(template="quick")["id"]
            time.sleep(0.04 * n)  # another moment each time
            server.kill("cordond")
            server.wait_ready()
            wait_for(lambda: server.get(made)["state"] == "running", 10, "the session")
            (x,) = [x for x in executions(server, made) if x["background"]]
            wait_for(lambda: server.execution(x)["state"] == "running", 10, f"its program, after {n}")
            equal(server.run(made, "pgrep -fc 'sleep 100[0]'")["stdout"].strip(), "1")
            server.delete(made)


def test_a_start_that_fails(_server):
    """The pool gives up for a while, says why, and a client gets the error of its own start."""
    with Server(**SMALL_POOL) as server:
        template(server, "bad", "echo no; exit 3", "sleep 0.2; false")
        for _ in range(2):
            server.refused(409, "conflict", "POST", "/v1/sessions", {"template": "bad"}, "start command failed", "3")
        wait_for(lambda: "what runs in advance failed" in server.log(), 10, "the reason in the log")
        line = [t for t in server.log().splitlines() if "what runs in advance failed" in t][0]
        has(line, "exit status 3")
        time.sleep(1.5)  # in which it could try again many times
        lines = [t for t in server.log().splitlines() if "what runs in advance failed" in t]
        check(len(lines) <= 3, f"no rest between tries: {len(lines)}")
        equal(pool(server, "bad")["ready"], 0)


def test_one_that_ends_is_started_again(_server):
    with Server(**SMALL_POOL) as server:
        template(server, "again", "echo $$ >>/tmp/up; exec sleep 1000", start_restart=True)
        warm(server, "again")
        for session in (server.create(template="again")["id"], server.create(template="again", env={"A": "1"})["id"]):
            first = service(server, session)
            server.run(session, "kill -9 $(tail -1 /tmp/up)", user="root")
            wait_for(lambda: len(executions(server, session)) and service(server, session)["id"] != first["id"], 10, "the next")
            equal(server.execution(first)["state"], "killed")
            wait_for(lambda: service(server, session)["state"] == "running", 10)
            equal(len(server.run(session, "cat /tmp/up")["stdout"].split()), 2)
            # After a restart of the daemon, too; also if it ended meanwhile.
            second = service(server, session)
            server.kill("cordond")
            server.wait_ready()
            server.run(session, "kill -9 $(tail -1 /tmp/up)", user="root")
            wait_for(lambda: service(server, session)["id"] != second["id"], 10, "the third")
            server.delete(session)


def test_the_environment_at_its_input(_server):
    with Server(**SMALL_POOL) as server:
        template(server, "reads", READER, interpreter=True)
        first = warm(server, "reads")
        equal(json.loads(server.run(first, "cat /tmp/in")["stdout"]), {"env": {}}, "of the one that was not in the pool")
        env = {"A": "it's \"quoted\"\n", "LONG": "x" * 100000, "U": "ü"}
        session = server.create(template="reads", env=env)["id"]
        equal(pool(server, "reads")["hits"], 1)
        read = "cat /tmp/in"
        wait_for(lambda: server.run(session, read)["stdout"].endswith("}}\n"), 10, "the whole line")
        equal(json.loads(server.run(session, read)["stdout"]), {"env": env})
        # Cold: another cell, the command again, and the environment again.
        server.want(200, "POST", f"/v1/sessions/{session}/pause", {"memory": False})
        equal(len([x for x in executions(server, session) if x["state"] == "running"]), 0)
        wait_for(lambda: server.run(session, read)["stdout"].endswith("}}\n"), 10, "the line again")
        equal(len([x for x in executions(server, session) if x["state"] == "running"]), 1, "started once")
        # An idle interpreter keeps no session alive.
        idle = server.create(template="reads", idle_timeout="1s")["id"]
        wait_for(lambda: server.get(idle)["state"] == "ended", 10, "its end")
        for each in (first, session):
            server.delete(each)


def test_killed_before_the_environment_is_written(_server):
    """The next daemon sends it again, as a whole line."""
    with Server(**SMALL_POOL) as server:
        template(server, "late", "touch /tmp/up; until [ -f /tmp/go ]; do sleep 0.05; done; exec cat >/tmp/in", interpreter=True)
        first = warm(server, "late")
        env = {"LONG": "x" * 100000, "LAST": "1"}
        waiting = threading.Thread(target=harness.attempt, args=(lambda: server.create(template="late", env=env),))
        waiting.start()
        (made,) = wait_for(lambda: [s for s in server.want(200, "GET", "/v1/sessions")["sessions"] if s["id"] != first],
                           10, "the session, whose creation is not answered")
        session = made["id"]
        wait_for(lambda: service(server, session) is not None, 10)
        server.kill("cordond")
        server.wait_ready()
        waiting.join()
        server.run(session, "touch /tmp/go", user="root")
        lines = wait_for(lambda: [t for t in server.run(session, "cat /tmp/in")["stdout"].split("\n") if t.endswith("}}")], 10)
        equal(json.loads(lines[-1]), {"env": env})
        stays(lambda: server.run(session, "grep -c 'LAST' /tmp/in")["stdout"].strip() == "1", 0.3, "sent once")
        server.kill("cordond")
        server.wait_ready()
        equal(server.run(session, "grep -c 'LAST' /tmp/in")["stdout"].strip(), "1", "and not by the one after")
        for each in (first, session):
            server.delete(each)


def test_forks_snapshots_and_resets(server):
    """Each begins with the start command, with the environment of its session."""
    template(server, "forked", READER, interpreter=True, start_restart=True)
    session = server.create(template="forked", env={"A": "1"})["id"]

    def begun(each):
        wait_for(lambda: server.run(each, "cat /tmp/in")["stdout"] == '{"env":{"A":"1"}}\n', 10, "its environment")
        equal(server.run(each, "pgrep -c cat")["stdout"].strip(), "1")
        equal(len([x for x in executions(server, each) if x["state"] == "running"]), 1)

    begun(session)
    (child,) = server.want(201, "POST", f"/v1/sessions/{session}/fork", {"count": 1})["sessions"]
    server.ids.add(child["id"])
    begun(child["id"])
    server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "forked-shot"})
    row = server.want(200, "GET", "/v1/templates/forked-shot")
    equal((row["interpreter"], row["start_restart"]), (True, True))
    other = server.create(template="forked-shot", env={"A": "1"})["id"]
    begun(other)
    server.want(200, "POST", f"/v1/sessions/{session}/reset")
    begun(session)
    server.want(200, "POST", f"/v1/sessions/{session}/pause", {})
    server.want(200, "POST", f"/v1/sessions/{session}/resume", {})
    begun(session)
    for each in (session, child["id"], other):
        server.delete(each)
    server.want(204, "DELETE", "/v1/snapshots/forked-shot")
    server.want(204, "DELETE", "/v1/templates/forked")


def test_many_bytes_before_there_is_a_session(_server):
    """Nobody reads them, and the program goes on."""
    with Server(**SMALL_POOL) as server:
        template(server, "loud", "head -c 3000000 /dev/zero | tr '\\0' x; echo end; touch /tmp/up; exec sleep 1000")
        warm(server, "loud")
        session = server.create(template="loud")["id"]
        equal(pool(server, "loud")["hits"], 1)
        (x,) = executions(server, session)
        text = wait_for(lambda: output(server, x), 10, "its output")
        check(text.endswith("xend\n") and len(text) < 70000, f"{len(text)} bytes: {text[-20:]}")
        server.delete(session)


def test_the_interpreter_is_a_template(server):
    (row,) = [t for t in server.want(200, "GET", "/v1/templates")["templates"] if t["name"] == "code-interpreter-v1"]
    equal((row["root"]["kind"], row["start_restart"], row["interpreter"], row["owner"]), ("host", True, True, None))
    equal(row["pool"]["size"], 0, "nothing runs before it is used")
    server.refused(409, "conflict", "DELETE", "/v1/templates/code-interpreter-v1", None, "part of the server")
    server.refused(409, "conflict", "POST", "/v1/templates", {"name": "code-interpreter-v1", "from": "host"}, "taken")
    server.refused(404, "not_found", "POST", "/v1/templates", {"name": "x", "from": "nosuch"}, "nosuch")
    server.refused(400, "invalid", "POST", "/v1/templates", {"name": "x", "from": "host", "interpreter": True}, "start_command")
    with database(server) as db:
        equal(db.execute("SELECT count(*) FROM template WHERE name = 'code-interpreter-v1'").fetchone(), (1,))


if __name__ == "__main__":
    run_tests(globals())
