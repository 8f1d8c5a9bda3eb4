"""model_tenants.py - several tenants of one server: each sees its own sessions, with keys that come and go, and nothing
of the others."""
import http.client
import random
import threading
import time

from harness import Server  # noqa: E402 (model.py has set the path)
from ledger import Ledger
from streams import Ended, Wire

REVOKED_S = 20  # for streams of a revoked key to end, also while programs are stopped


class View(Server):
    """The server as one tenant uses it. Only what needs a key differs."""

    def __init__(self, server, key):  # the server is started already
        self.whole, self.key = server, key

    def __getattr__(self, name):
        return getattr(self.whole, name)


class TenantLedger(Ledger):
    """The sessions of one tenant; the rest is shared with all."""

    def __init__(self, whole, view, name):
        super().__init__(view)
        self.whole, self.name = whole, name
        self.upgrades = True
        for shared in ("lock", "problems", "counts", "started", "stop"):
            setattr(self, shared, getattr(whole, shared))

    @property
    def generation(self):
        return self.whole.generation

    @generation.setter
    def generation(self, value):
        if "whole" in self.__dict__:
            self.whole.generation = value


class Tenant:
    """One tenant: an admin's key, which stays, and a ledger whose requests have it."""

    def __init__(self, server, whole, name, view):
        self.name = name
        made = server.want(201, "POST", "/v1/tenants", {"name": name, "max_sessions": 200, "create_rate": 1000, "burst": 1000})
        scopes = {"name": "model", "scopes": ["sessions", "admin"]}
        self.id, self.key = made["id"], server.want(201, "POST", f"/v1/tenants/{made['id']}/keys", scopes)["key"]
        self.view = View(server, self.key)
        self.ledger = TenantLedger(whole, view(server, self.key), name)
        self.values = {}  # of secrets, by name: every value that one ever had
        for number in range(3):
            value = f"{name}-{number}-" + random.Random(name).randbytes(12).hex()
            self.values[f"tok{number}"] = {value}
            self.view.want(201, "POST", "/v1/secrets", {"name": f"tok{number}", "value": value, "hosts": ["web.example"],
                                                        "ways": ["broker", "env", "file", "socket"]})


class Outsider(threading.Thread):
    """Asks with one tenant's key for another's sessions, and makes and revokes keys: what was revoked stays so, and ends
    what it had opened."""

    def __init__(self, tenants, seed):
        super().__init__(daemon=True)
        self.tenants, self.random, self.number = tenants, random.Random(f"{seed}/outsider"), 0
        self.ledger = tenants[0].ledger
        self.revoked = []

    def run(self):
        while not self.ledger.stop.wait(self.random.random() * 0.3):
            try:
                self.random.choice([self.trespass, self.trespass, self.list_all, self.key_life, self.still_revoked])()
            except Exception as e:  # a thread that dies would test nothing
                self.ledger.problem(f"outsider: {type(e).__name__}: {e}")

    def pair(self):
        mine, other = self.random.sample(self.tenants, 2)
        with other.ledger.lock:
            theirs = [s.id for s in other.ledger.sessions]
        return mine, other, (self.random.choice(theirs) if theirs else None)

    def trespass(self):
        mine, _, session = self.pair()
        if session is None:
            return
        base = f"/v1/sessions/{session}"
        method, path, body = self.random.choice([
            ("GET", base, None), ("DELETE", base, None), ("POST", base + "/pause", None), ("GET", base + "/diff", None),
            ("POST", base + "/executions?wait=true", {"command": "id"}), ("GET", base + "/files?path=/etc/passwd", None),
            ("PUT", base + "/files?path=/tmp/x", b"x"), ("PUT", base + "/network", {"version": 1, "rules": []}),
            ("GET", base + "/events", None), ("GET", base + "/executions", None), ("GET", f"/sandboxes/{session}", None),
            ("DELETE", f"/sandboxes/{session}", None), ("POST", f"/v2/sandboxes/{session}/connect", {"timeout": 60})])
        status, data = mine.ledger.ask("trespass", method, path, body)
        if status not in (0, 404, 429, 503):
            self.ledger.problem(f"{method} {path} with the key of {mine.name}: {status} {str(data)[:200]}")

    def list_all(self):
        mine, other, _ = self.pair()
        path = f"/v1/sessions?limit=1000&state={self.random.choice(['running', 'ended', 'running,paused'])}"
        status, data = mine.ledger.ask("list all", "GET", path)
        if status != 200:
            return
        rows = [row["id"] for row in data["sessions"]]
        with other.ledger.lock:
            foreign = {s.id for s in other.ledger.sessions} & set(rows)
        if foreign or len(rows) != len(set(rows)):
            self.ledger.problem(f"{path} of {mine.name}: {len(rows) - len(set(rows))} twice, foreign {foreign}")

    def key_life(self):
        """A key is made, used, revoked: then it opens nothing, and what it had opened ends."""
        tenant = self.random.choice(self.tenants)
        self.number += 1
        spec = {"name": f"k{self.number}", "scopes": [self.random.choice(["read", "sessions"])]}
        status, made = tenant.ledger.ask("make key", "POST", "/v1/keys", spec)
        if status != 201:
            return
        key, stream = made["key"], None
        status, _ = tenant.ledger.ask("use key", "GET", "/v1/sessions?limit=1", key=key)
        if status == 401:
            self.ledger.problem(f"key {made['id']} was made and is not known")
        try:
            stream = Wire(tenant.view, "/v1/events?follow=true", {"Accept": "text/event-stream"}, key=key, timeout=REVOKED_S)
        except (OSError, Ended, ValueError, IndexError):
            pass
        status, _ = tenant.ledger.ask("revoke", "DELETE", f"/v1/keys/{made['id']}")
        if status == 204:
            self.revoked.append((tenant, key))
            self.must_end(stream, made["id"])
        if stream is not None:
            stream.close()

    def must_end(self, stream, key):
        until = time.monotonic() + REVOKED_S
        try:
            while stream is not None and time.monotonic() < until:
                stream.more()
                stream.bytes = b""
            if stream is not None:
                self.ledger.problem(f"a stream of key {key} goes on {REVOKED_S} s after it was revoked")
        except TimeoutError:
            self.ledger.problem(f"a stream of key {key} is open {REVOKED_S} s after it was revoked")
        except (OSError, Ended, http.client.HTTPException):
            pass

    def still_revoked(self):
        if self.revoked:
            tenant, key = self.random.choice(self.revoked)
            status, _ = tenant.ledger.ask("revoked", "GET", "/v1/sessions?limit=1", key=key)
            if status not in (0, 401, 429, 503):
                self.ledger.problem(f"a revoked key of {tenant.name} gets {status}")
