"""audit_log.py - audit logs as tests read, change and verify them."""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess

from harness import equal

VERIFY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "verify.py")
GOOD, TAMPERED, INCOMPLETE, UNREADABLE = range(4)


def checkpoint(server, query="", key="", status=200):
    """The checkpoint as an object."""
    got, _, data = server.request("GET", "/v1/audit/checkpoint?" + query, headers={"Accept": "application/json"}, key=key)
    equal(got, status, data)
    return data


def note(server, query="fresh=true", key=""):
    """The text of the checkpoint."""
    status, headers, data = server.request("GET", "/v1/audit/checkpoint?" + query, key=key)
    equal((status, headers["content-type"]), (200, "text/plain; charset=utf-8"), data)
    return data.decode()


def export(server, query="", key=""):
    status, headers, data = server.request("GET", "/v1/audit?proofs=true" + query, key=key)
    equal((status, headers.get("content-type")), (200, "application/x-ndjson"), data[:300])
    return data


def lines(data):
    return [json.loads(line) for line in data.decode().splitlines()]


def verify(data, *options):
    """The exit status and the words of the independent verifier."""
    done = subprocess.run([VERIFY, *options], input=data, capture_output=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode()


def verified(data, *options, want=GOOD):
    got, words = verify(data, *options)
    equal(got, want, words)
    return words


def path(server):
    return os.path.join(server.state, "cordon.db")


def copy(server, to):
    """The database of a server that does not run, as a backup has it."""
    os.makedirs(to, exist_ok=True)
    for end in ("", "-wal"):
        if os.path.exists(path(server) + end):
            shutil.copy2(path(server) + end, os.path.join(to, "cordon.db" + end))


def restore(server, backup):
    owner = os.stat(path(server))
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path(server) + end)
    for name in os.listdir(backup):
        shutil.copy2(os.path.join(backup, name), os.path.join(server.state, name))
        os.chown(os.path.join(server.state, name), owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def edited(server):
    """The database of a server that does not run, for one who may do everything with it."""
    owner = os.stat(path(server))
    db = sqlite3.connect(path(server), isolation_level=None)
    try:
        yield db
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
        for end in ("", "-wal", "-shm"):
            if os.path.exists(path(server) + end):
                os.chown(path(server) + end, owner.st_uid, owner.st_gid)
