#!/usr/bin/python3 -B
"""Goal: every event says on whose behalf it happened: the interface, the key and the request.

    test_actors.py CORDON [name ...]
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import harness  # noqa: E402
from contract import Sandbox  # noqa: E402
from harness import Skip, check, equal, run_tests, wait_for  # noqa: E402
from streams import Attached, Events  # noqa: E402

KILLS = True  # of cordond
SERVER = {"interface": "server", "key_id": None, "request_id": None}


def first_key(server):
    """The id of the key that requests are made with."""
    (key,) = [k for k in server.want(200, "GET", "/v1/keys")["keys"] if k["name"] == "first"]
    return key["id"]


def events(server, session=None, key=""):
    path = "/v1/events?limit=1000" if session is None else f"/v1/sessions/{session}/events"
    return server.want(200, "GET", path, key=key)["events"]


def by(server, interface, event, key_id=None):
    """The actor of an event is a request of this interface, with our key (or another)."""
    actor = event["actor"]
    equal((actor["interface"], actor["key_id"]), (interface, first_key(server) if key_id is None else key_id or None),
          event["type"])
    check(actor["request_id"], f"{event} has no request")
    return actor["request_id"]


def test_the_interface_of_the_api(server):
    status, headers, s = server.request("POST", "/v1/sessions", {})
    equal(status, 201)
    server.ids.add(s["id"])
    server.run(s["id"], "true")
    server.delete(s["id"])
    server.reaches(s["id"], "ended")
    found = events(server, s["id"])
    equal([e["type"] for e in found if e["type"] != "session.state"], ["session.created", "execution.started", "execution.ended"])
    requests = [by(server, "api", e) for e in found]
    equal(requests[0], headers["x-request-id"], "the request that made it")
    equal(len(set(requests)), 3, "one for each request")
    with Events(server, f"/v1/sessions/{s['id']}/events?follow=true", after=0) as stream:
        equal(stream.next().data, found[0], "the same event in a stream")


def test_keys_are_told_apart(server):
    made = server.want(201, "POST", "/v1/keys", {"name": "other", "scopes": ["sessions"]})
    s = server.create(key=made["key"])
    server.delete(s["id"])
    found = events(server, s["id"])
    by(server, "api", found[0], made["id"])
    by(server, "api", found[-1])


def test_the_command_line_client(server):
    client = os.path.join(os.path.dirname(harness.PROGRAM), "cordon-client")
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "CORDON_SERVER": server.url,
           "CORDON_API_KEY": server.key}
    made = subprocess.run([client, "create"], env=env, capture_output=True, text=True, check=False)
    equal(made.returncode, 0, made.stderr)
    s = made.stdout.split()[0]
    server.ids.add(s)
    by(server, "cli", events(server, s)[0])
    server.delete(s)


def test_e2b_with_a_key_and_with_a_token(server):
    box = Sandbox(server)
    box.run("true")
    found = events(server, box.id)
    by(server, "e2b", found[0])
    (ended,) = [e for e in found if e["type"] == "execution.ended"]
    equal(type(ended["data"]["exit_code"]), int, "a number is one")
    by(server, "e2b", ended, "")
    box.kill()
    by(server, "e2b", events(server, box.id)[-1])


def test_a_websocket_that_wakes_a_session(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")
    s = server.create()["id"]
    x = server.spawn(s, "sleep 60")
    server.want(200, "POST", f"/v1/sessions/{s}/pause")
    with Attached(server, f"/v1/sessions/{s}/executions/{x['id']}/attach"):
        server.reaches(s, "running")
    changes = [e for e in events(server, s) if e["type"] == "session.state"]
    equal([e["data"]["to"] for e in changes], ["pausing", "paused", "resuming", "running"])
    equal(by(server, "api", changes[0]), by(server, "api", changes[1]), "the end of what a request began")
    equal(by(server, "ws", changes[2]), by(server, "ws", changes[3]), "the end of what a request began")
    server.delete(s)


def test_what_the_server_does_itself(server):
    s = server.create(timeout="1s")["id"]
    server.reaches(s, "ended")
    changes = [e for e in events(server, s) if e["type"] == "session.state"]
    equal([e["actor"] for e in changes], [SERVER] * len(changes), "the end of its time")


def test_a_restart_between_start_and_end(server):
    s = server.create()["id"]
    x = server.spawn(s, "sleep 1")
    server.kill("cordond")
    server.wait_ready()
    wait_for(lambda: any(e["type"] == "execution.ended" for e in events(server, s)), 10, "the end of the execution")
    (ended,) = [e for e in events(server, s) if e["type"] == "execution.ended"]
    equal(ended["execution_id"], x["id"])
    by(server, "api", ended)
    server.delete(s)


def last(server, kind, **data):
    """The newest event of this type whose data has all of these."""
    found = [e for e in events(server) if e["type"] == kind and data.items() <= e["data"].items()]
    check(found, f"no {kind} with {data}")
    return found[-1]


def test_events_of_keys(server):
    made = server.want(201, "POST", "/v1/keys", {"name": "a\nb", "scopes": ["read", "admin"]})
    created = last(server, "key.created", key_id=made["id"])
    by(server, "api", created)
    equal((created["data"]["name"], created["data"]["scopes"]), ("a?b", "read admin"))
    check(made["key"] not in str(events(server)), "the text of a key in an event")
    server.want(204, "DELETE", f"/v1/keys/{made['id']}")
    server.want(204, "DELETE", f"/v1/keys/{made['id']}")
    by(server, "api", last(server, "key.revoked", key_id=made["id"]))
    equal(len([e for e in events(server) if e["type"] == "key.revoked" and e["data"]["key_id"] == made["id"]]), 1, "once")


def test_the_end_of_a_keys_time_is_an_event(server):
    made = server.want(201, "POST", "/v1/keys", {"name": "short", "scopes": ["read"], "expires_in": "1s"})
    gone = server.want(201, "POST", "/v1/keys", {"name": "gone", "scopes": ["read"], "expires_in": "1s"})
    server.want(204, "DELETE", f"/v1/keys/{gone['id']}")
    ends = lambda: [e for e in events(server) if e["type"] == "key.expired"]  # noqa: E731
    wait_for(lambda: any(e["data"]["key_id"] == made["id"] for e in ends()), 20, "its event")
    equal(last(server, "key.expired", key_id=made["id"])["actor"], SERVER)
    later = server.want(201, "POST", "/v1/keys", {"name": "later", "scopes": ["read"], "expires_in": "1s"})
    server.kill("cordond")
    server.wait_ready()
    wait_for(lambda: any(e["data"]["key_id"] == later["id"] for e in ends()), 20, "the event of one that ended meanwhile")
    equal(sorted(e["data"]["key_id"] for e in ends()), sorted([made["id"], later["id"]]), "each once, no revoked one")


def test_events_of_tenants(server):
    i, key = server.tenant("watched")
    by(server, "api", last(server, "tenant.created", tenant_id=i))
    by(server, "api", last(server, "key.created", tenant_id=i))
    server.want(200, "PATCH", f"/v1/tenants/{i}", {"max_sessions": 3, "burst": 2})
    server.want(200, "PATCH", f"/v1/tenants/{i}", {"max_sessions": 3})
    changed = [e for e in events(server) if e["type"] == "tenant.changed" and e["data"]["tenant_id"] == i]
    equal([e["data"]["changed"] for e in changed], ["max_sessions burst"], "what differs")
    by(server, "api", changed[0])
    server.want(200, "PUT", f"/v1/tenants/{i}/network", {"version": 1})
    by(server, "api", last(server, "tenant.network", tenant_id=i))
    own = [e["type"] for e in events(server, key=key)]
    equal(own, ["tenant.created", "key.created", "tenant.changed", "tenant.network"], "what the tenant reads")
    server.want(204, "DELETE", f"/v1/tenants/{i}")
    server.want(204, "DELETE", f"/v1/tenants/{i}")
    by(server, "api", last(server, "tenant.removed", tenant_id=i, name="watched"))


def test_events_of_a_tenant(server):
    server.want(201, "POST", "/v1/secrets", {"name": "S", "value": "valuevalue", "hosts": ["a.example"]})
    server.want(204, "DELETE", "/v1/secrets/S")
    for e in [e for e in events(server) if e["type"].startswith("secret.")]:
        by(server, "api", e)
    s = server.create(network="deny")["id"]
    server.want(200, "PUT", f"/v1/sessions/{s}/network", "deny")
    by(server, "api", [e for e in events(server, s) if e["type"] == "session.network"][-1])
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
