"""internet_client.py - sessions in the small internet, and what is done in them."""
import json
import os

import internet
import level
from harness import Failed, equal, wait_for

TRUST = "/tmp/world.pem"  # in a cell: the world's authority, for TLS that is passed on
PYTHON = "/usr/bin/python3"

with open(os.path.join(internet.HERE, "cell_tools.py"), encoding="ascii") as f:
    TOOLS = f.read()

# Most attacks start from this: one host in the clear and passed on, one whose requests are looked at.
POLICY = {"version": 1, "rules": [
    {"name": "web", "host": "web.example"},
    {"name": "look", "host": "look.example", "methods": ["GET", "POST"], "paths": ["/open/**", "/echo"]},
    {"name": "sub", "host": "*.wild.example"},
]}


def policy(*rules, **more):
    return {"version": 1, "rules": list(rules), **more}


def make(server, network=None, **more):
    """A session that trusts the world's CA where it is configured to."""
    more.setdefault("timeout", f"{600 * level.PATIENCE}s")  # a session that many tests share: longer than their program may take
    s = server.create(network=POLICY if network is None else network, **more)
    with open(os.path.join(internet.FOLDER, "world.pem"), encoding="ascii") as f:
        sh(server, s, f"cat > {TRUST} <<'E'\n{f.read()}\nE\nchmod 644 {TRUST}", user="root")
    return s


SHARED = {}


def shared(server):
    """The session of POLICY that tests share which change nothing."""
    if SHARED.get("server") is not server:
        SHARED.update(server=server, session=make(server))
    return SHARED["session"]


def sh(server, s, line, code=None, **more):
    done = server.run(s["id"], line, **more)
    if code is not None:
        equal(done["exit_code"], code, f"exit of {line} ({done['stdout'][-300:]!r} {done['stderr'][-600:]!r})")
    return done


def probe(server, s, expression, user="root", before=""):
    """The value of a Python expression inside the cell, with cell_tools.py at hand."""
    done = server.run(s["id"], [PYTHON, "-c", f"{TOOLS}\n{before}\nshown({expression})"], user=user)
    try:
        return json.loads(done["stdout"].splitlines()[-1])
    except (IndexError, ValueError):
        said = done["stdout"][-500:] + done["stderr"][-1500:]
        raise Failed(f"{expression}: exit {done['exit_code']} {said}") from None


def both(server, s, expression, **more):
    """The same as root of the cell and as its ordinary user."""
    return [probe(server, s, expression, user=user, **more) for user in ("root", "user")]


def curl(server, s, url, *options, seconds=10 * level.PATIENCE, **more):
    """(exit code, status, output and errors)"""
    words = ["curl", "-sS", "-m", str(seconds), "-w", "\n%{http_code}", *options, url]
    done = server.run(s["id"], words, **more)
    text, _, status = done["stdout"].rpartition("\n")
    return done["exit_code"], int(status or 0), text + done["stderr"]


def records(server, s, **query):
    words = "&".join(f"{k}={v}" for k, v in {"limit": 1000, **query}.items())
    return server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?{words}")["records"]


def recorded(server, s, fits, seconds=5, name="the record", **query):
    """The records that fit, waited for."""
    return wait_for(lambda: [r for r in records(server, s, **query) if fits(r)], seconds, name)


def put(server, s, what):
    return server.want(200, "PUT", f"/v1/sessions/{s['id']}/network", what)
