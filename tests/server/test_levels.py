#!/usr/bin/python3 -B
"""Goal: a session has the isolation level that was asked for, by the request, its template, or not at all: a level
that the server cannot do, or that a tenant or a key may not have, is refused with the reason, whichever interface is
asked, and never replaced by another.

    test_levels.py CORDON [name ...]
"""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Server, check, equal, has, run_tests  # noqa: E402
from mcp_client import Client  # noqa: E402
from tree import make_tree  # noqa: E402

SETTINGS = {"levels": "container"}  # so that the others are refused on every machine
LEVELS = ("gvisor", "microvm")
WHY = "the setting `levels`"


def sessions(server):
    return [s["id"] for s in server.want(200, "GET", "/v1/sessions?state=running,creating")["sessions"]]


def test_the_node_says_why(server):
    levels = server.want(200, "GET", "/v1/node")["levels"]
    equal(sorted(levels), ["container", "gvisor", "microvm"])
    equal((levels["container"]["possible"], levels["container"]["why"]), (True, None))
    for name in LEVELS:
        check(not levels[name]["possible"], f"{name} is possible")
        has(levels[name]["why"], WHY)


def test_a_session_is_refused(server):
    before = sessions(server)
    for name in LEVELS:
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"level": name}, f"level {name}", WHY)
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"level": "vm"}, "level vm", "container, gvisor or microvm")
    equal(sessions(server), before, "sessions of refused requests")


def test_a_template_is_refused(server):
    make_tree(os.path.join(server.state, "templates", "leveled"))
    body = {"name": "leveled", "root": {"layers": ["leveled"]}}
    server.refused(422, "unsupported", "POST", "/v1/templates", {**body, "level": "gvisor"}, "level gvisor", WHY)
    server.refused(400, "invalid", "POST", "/v1/templates", {**body, "level": "vm"}, "level")
    made = server.want(201, "POST", "/v1/templates", {**body, "level": "container"})
    equal(made["level"], "container")
    server.refused(422, "unsupported", "POST", "/v1/templates", {"name": "derived", "from": "leveled", "level": "microvm"}, WHY)
    equal(server.want(201, "POST", "/v1/templates", {"name": "derived", "from": "leveled"})["level"], "container")


def test_e2b_is_refused(server):
    status, _, body = server.request("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"cordon.level": "gvisor"}})
    equal((status, body["code"]), (501, 501), body)
    has(body["message"], "level gvisor")
    check(not re.search("level=error .*status=501", server.log()), "a request that this server cannot do is no error of it")


def test_who_has_ended_a_session(server):
    killed, deleted = server.create()["id"], server.create()["id"]
    os.kill(server.cell_pids(killed)[0], signal.SIGKILL)
    server.delete(deleted)
    for session, fault in (killed, "platform"), (deleted, "user"):
        server.reaches(session, "ended", 30)
        status, _, body = server.request("POST", f"/v1/sessions/{session}/pause")
        equal((status, body["error"]["code"], body["error"]["fault"]), (410, "gone", fault), body)


def test_an_agent_is_refused(server):
    Client(server).fails("create_session", "level microvm", level="microvm")
    made = Client(server).call("create_session", level="container")
    equal(made["level"], "container")
    server.delete(made["session_id"])


def test_the_command_line_is_refused(server):
    env = {"PATH": "/usr/bin:/bin", "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nonexistent"}
    done = subprocess.run([server.program, "create", "--level", "gvisor"], env=env, capture_output=True, text=True, timeout=20)
    check(done.returncode != 0, f"it was created: {done.stdout}")
    has(done.stderr, "level gvisor")


def test_the_event_names_the_level(server):
    s = server.create()
    equal(server.want(200, "GET", f"/v1/sessions/{s['id']}")["level"], "container")
    events = server.want(200, "GET", f"/v1/sessions/{s['id']}/events")["events"]
    created = [e for e in events if e["type"] == "session.created"]
    equal([e["data"]["level"] for e in created], ["container"])
    server.delete(s["id"])


def test_a_wrong_setting(server):
    try:
        Server(levels="container,vm").close()
    except Failed as e:
        has(str(e), "levels: 'vm' is none of")
    else:
        raise Failed("the server started")


if __name__ == "__main__":
    run_tests(globals(), **SETTINGS)
