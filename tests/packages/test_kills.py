#!/usr/bin/python3 -B
"""Goal: cordon-cache, cordon-egress and cordond may be killed at any moment of a download: nothing half is kept, nothing
wrong is served, and the next session gets the file.

    test_kills.py CORDON [name ...]

Real programs in a small internet; a registry that sends slowly, so that the kill is in the middle."""
import json
import os

from attack_tools import ASK, PYTHON, R, TOOLS, internet, npm, session, world
import registry_answer as faults
from checks import check, equal, wait_for

KILLS = True
CACHE = "/v1/packages/cache"


def download(server, s, path):
    """Begins it in the session, and comes back when the registry is sending."""
    R.forget()
    program = f"{TOOLS}\n{ASK}\nshown(ask('npm.example', 'GET', {path!r}, '', '', 443, 'https')[::3])"
    x = server.spawn(s["id"], [PYTHON, "-c", program], user="root")
    wait_for(lambda: R.count(path), 20, "the request at the registry")
    return x


def in_the_middle(server, victim, name):
    """The victim dies while the file is on its way; then another session asks for the same file."""
    world()
    p = R.add("npm", name, "1.0.0", pad=400000)
    path, data = R.path("npm", name, "1.0.0"), R.parts["npm"].data(p).decode("latin-1")
    s = session(server, "npm")
    R.fault(path, faults.slow(20000, 0.1))
    try:
        x = download(server, s, path)
        server.restarted(victim)
        done = server.ended(x)
        if victim != "cordon-egress":  # which alone holds the connections
            text = server.request("GET", f"/v1/sessions/{s['id']}/executions/{done['id']}/output?stream=stdout", raw=True)[2].decode()
            equal(json.loads(text)[1], "", "the end of the download that was under way")
    finally:
        R.heal()
    # A session made while egress or the cache comes back waits for it, or gets the file without the cache.
    reply = npm(server, session(server, "npm"), path)
    check(reply.whole and reply.body == data, f"after the kill of {victim}: {reply.status} {len(reply.body)} {reply.end} {reply.reason}")
    wait_for(lambda: server.request("GET", CACHE)[0] == 200, 20, "the cache")
    equal(server.want(200, "POST", CACHE + "/verify")["damaged"], 0, "damaged objects")
    reply = npm(server, session(server, "npm"), path)
    check(reply.whole and reply.body == data, f"and again: {reply.status} {len(reply.body)} {reply.end}")


def left(server):
    """Files of the cache that are not done."""
    folder = server.state + "/packages"
    return [n for at, _, names in os.walk(folder) for n in names if os.path.relpath(at, folder).startswith("tmp")]


def test_cache(server):
    in_the_middle(server, "cordon-cache", "kill-cache")
    wait_for(lambda: not left(server), 20, "an end of the half file")


def test_egress(server):
    in_the_middle(server, "cordon-egress", "kill-egress")
    wait_for(lambda: not left(server), 20, "an end of the half file")


def test_cordond(server):
    in_the_middle(server, "cordond", "kill-cordond")
    wait_for(lambda: not left(server), 20, "an end of the half file")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
