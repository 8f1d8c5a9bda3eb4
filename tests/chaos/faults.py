#!/usr/bin/python3
"""faults.py - the server where something is missing or wrong: a full disk, a database that another process
holds, no descriptors, a clock that jumps, a machine that was restarted.

    faults.py CORDON --clock FALSE_CLOCK.so [--only NAME ...]"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import audit_log  # noqa: E402
import harness  # noqa: E402
from harness import Server, Skip, check, equal, has, note, wait_for  # noqa: E402

ARGS = None
QUICK_S = 6.0  # an answer that waits for no other program, on a busy machine


def quickly(server, what="it"):
    """The server answers others at once."""
    began = time.monotonic()
    equal(server.request("GET", "/healthz", key=None, timeout=10)[0], 200, f"healthz while {what}")
    check(time.monotonic() - began < QUICK_S, f"healthz took {time.monotonic() - began:.1f} s while {what}")


def rows(server, query):
    db = sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


# --- the state folder ---------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk():
    """A folder in which "state" is a file system of its own, in our mount namespace only."""
    folder = tempfile.mkdtemp(prefix="cordon-full-", dir="/var/tmp")
    os.mkdir(folder + "/state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=0711", "small", folder + "/state"], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder + "/state"], check=True)
        shutil.rmtree(folder, ignore_errors=True)


class OnSmallDisk(Server):
    def left_now(self):
        return [line for line in super().left_now() if " - tmpfs small " not in line]


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"\0" * 4096)
        except OSError:
            pass


def test_full_disk():
    """Nothing new begins, what is there goes on and can be ended, and nothing is forgotten."""
    with small_disk() as folder:
        with OnSmallDisk(folder=folder, pool_size=2) as server:
            kept, ended = server.create(), server.create()
            slow = server.spawn(kept["id"], "sleep 1; exit 7")
            fill(server.state + "/fill")
            server.refused(507, "storage_full", "POST", "/v1/sessions", {})
            status, _, data = server.request("POST", f"/v1/sessions/{kept['id']}/executions", {"command": "true"})
            equal((status, data["error"]["code"]), (507, "storage_full"), "an execution on a full disk")
            server.delete(ended["id"])
            wait_for(lambda: not server.cell_pids(ended["id"]), 10, "the end of the cell")
            done = server.ended(slow)
            equal(done["exit_code"], 7, "the outcome, from memory")
            equal(rows(server, f"SELECT ended_ms FROM execution WHERE id = '{slow['id']}'"), [(0,)], "written anyway?")
            quickly(server, "the disk is full")
            os.unlink(server.state + "/fill")
            wait_for(
                lambda: rows(server, f"SELECT exit_code FROM execution WHERE id = '{slow['id']}' AND ended_ms > 0"),
                20,
                "the outcome in the store",
            )
            server.reaches(ended["id"], "ended")
            equal(server.run(kept["id"], "echo on")["stdout"], "on\n", "afterwards")
            server.kill("cordond")
            server.wait_ready()
            equal(server.execution(slow)["exit_code"], 7, "the outcome, from the store")
            equal(server.get(ended["id"])["reason"], "deleted", "reason")
            server.create()


def test_full_disk_and_many_ends():
    """The ends of several sessions are one transaction; one that fails loses none of them."""
    with small_disk() as folder:
        with OnSmallDisk(folder=folder, pool_size=0) as server:
            ids = [server.create()["id"] for _ in range(12)]
            fill(server.state + "/fill")
            with ThreadPoolExecutor(6) as pool:
                list(pool.map(server.delete, ids))
            wait_for(lambda: not any(server.cell_pids(s) for s in ids), 10, "the end of the cells")
            # the end of a cell is seen here before cordond has tried to write it
            wait_for(lambda: "ends of sessions are written one by one" in server.log(), 20, "the transaction to fail")
            os.unlink(server.state + "/fill")
            for s in ids:
                server.reaches(s, "ended")
            wait_for(lambda: rows(server, "SELECT count(*) FROM session WHERE ended_ms = 0") == [(0,)], 15, "their rows")
            server.kill("cordond")
            server.wait_ready()
            equal({server.get(s)["reason"] for s in ids}, {"deleted"}, "reasons, from the store")


def standard(server):
    """What descriptors 0, 1 and 2 of cordond are."""
    return [os.readlink(f"/proc/{server.pid('cordond')}/fd/{fd}") for fd in range(3)]


def test_full_disk_keeps_streams_apart():
    """A record that cannot be written closes no descriptor of another request: no byte of one tenant's stream comes
    out of another's connection, however many executions fail, and the daemon lives."""
    with small_disk() as folder:
        with OnSmallDisk(folder=folder, pool_size=0) as server:
            daemon, before = server.pid("cordond"), standard(server)
            (_, a), (_, b) = server.tenant("a"), server.tenant("b")
            mine, other = server.create(key=a)["id"], server.create(key=b)["id"]
            server.run(other, "mkdir w", key=b)
            server.spawn(other, "while sleep 0.2; do i=$((i+1)); echo > w/OF-TENANT-B-$i; done", key=b)
            fill(server.state + "/fill")

            def execute():
                return server.request("POST", f"/v1/sessions/{mine}/executions", {"command": "true"}, key=a)[0]

            equal(execute(), 507, "an execution on a full disk")
            watch = socket.create_connection(server.address)
            watch.settimeout(10)
            watch.sendall(
                f"GET /v1/sessions/{other}/files/watch?path=w HTTP/1.1\r\nHost: x\r\nX-API-Key: {b}\r\n\r\n".encode()
            )
            has(watch.recv(4096).decode(), " 200 ", "the watch")
            equal(execute(), 507, "another")
            bare = [socket.create_connection(server.address) for _ in range(4)]
            seen = b""
            while seen.count(b"OF-TENANT-B-") < 5:
                part = watch.recv(4096)
                check(part, "the watch has ended")
                seen += part
                equal(execute(), 507, "an execution beside the watch")
            for link in bare:
                link.setblocking(False)
                try:
                    got = link.recv(4096)
                    check(False, f"a connection that sent nothing received {got!r}")
                except BlockingIOError:
                    pass
                link.close()
            watch.close()
            equal(standard(server), before, "descriptors 0, 1 and 2")
            equal(server.pid("cordond"), daemon, "the daemon")
            os.unlink(server.state + "/fill")
            wait_for(lambda: execute() == 202, 15, "an execution afterwards")
            equal(standard(server), before, "descriptors 0, 1 and 2 afterwards")


def test_full_disk_answers():
    """Every request that must write is refused with 507, what must not goes on, deletes work and are shown by lists."""
    with small_disk() as folder:
        with OnSmallDisk(folder=folder, pool_size=0) as server:
            s, gone = server.create(timeout="1h")["id"], server.create(timeout="1h")["id"]
            box = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base"})["sandboxID"]
            server.ids.add(box)
            key = server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": ["read"]})
            server.want(201, "POST", "/v1/secrets", {"name": "old", "value": "some-value"})
            tenant = server.want(201, "POST", "/v1/tenants", {"name": "t"})["id"]
            server.want(201, "PUT", f"/v1/sessions/{s}/files?path=f", b"before")
            fill(server.state + "/fill")
            one = f"/v1/sessions/{s}"
            for method, path, body in (
                ("POST", "/v1/sessions", {}),
                ("POST", f"{one}/executions?wait=true", {"command": "true"}),
                ("POST", f"{one}/timeout", {"timeout": "50m"}),
                ("POST", f"{one}/pause", None),
                ("PUT", f"{one}/network", {"version": 1, "rules": [{"host": "a.example.com"}]}),
                ("POST", "/v1/keys", {"name": "n", "scopes": ["read"]}),
                ("POST", "/v1/secrets", {"name": "new", "value": "another-value"}),
                ("PUT", "/v1/secrets/old", {"value": "another-value"}),
                ("POST", "/v1/tenants", {"name": "u"}),
                ("PATCH", f"/v1/tenants/{tenant}", {"max_sessions": 3}),
                ("PUT", f"/v1/tenants/{tenant}/network", {"version": 1}),
                ("POST", f"/v1/tenants/{tenant}/keys", {"name": "k", "scopes": ["read"]}),
                ("POST", "/v2/sandboxes", {"templateID": "base"}),
                ("POST", f"/sandboxes/{box}/timeout", {"timeout": 100}),
                ("POST", "/secrets", {"name": "E2B_NEW", "value": "another-value"}),
            ):
                status, _, data = server.request(method, path, body)
                equal(status, 507, f"{method} {path}: {data}")
            # what needs no record goes on, and what was refused has changed nothing
            server.want(200, "PUT", f"{one}/files?path=f", b"after")
            equal(server.want(200, "GET", f"{one}/files?path=f", raw=True), b"after", "a file in the session")
            for session in (s, gone, box):
                equal(server.get(session)["state"], "running", "a session")
            equal(server.request("GET", "/v1/sessions", key=key["key"])[0], 200, "the key")
            server.delete(gone)
            server.want(204, "DELETE", f"/sandboxes/{box}")
            wait_for(lambda: not server.cell_pids(gone) and not server.cell_pids(box), 10, "the end of the cells")
            for path in ("/v1/sessions?state=running", "/v1/sessions"):
                shown = {r["id"]: r["state"] for r in server.want(200, "GET", path)["sessions"]}
                equal(shown.get(s), "running", f"the one that runs, in {path}")
                check("running" not in (shown.get(gone), shown.get(box)), f"deleted, and running in {path}: {shown}")
            listed = [b["sandboxID"] for b in server.want(200, "GET", "/v2/sandboxes?state=running")]
            check(box not in listed, "deleted, and a running sandbox")
            equal(standard(server)[0], "/dev/null", "descriptor 0")
            os.unlink(server.state + "/fill")
            for session in (gone, box):
                equal(server.reaches(session, "ended")["reason"], "deleted", "reason")
            equal([t["name"] for t in server.want(200, "GET", "/v1/tenants")["tenants"] if t["name"] == "u"], [], "refused")
            equal([x["name"] for x in server.want(200, "GET", "/v1/secrets")["secrets"]], ["old"], "secrets")
            wait_for(lambda: server.request("POST", f"{one}/timeout", {"timeout": "50m"})[0] == 200, 15, "room again")
            for session in (gone, box):
                query = f"SELECT 1 FROM session WHERE id = '{session}' AND ended_ms > 0"
                wait_for(lambda: rows(server, query), 15, "the end of the session in the store")
            server.kill("cordond")
            server.wait_ready()
            equal(server.get(gone)["reason"], "deleted", "reason in the store")


def test_full_disk_at_a_kill():
    """An outcome that could not be written is PID 1's to keep until it can."""
    with small_disk() as folder:
        with OnSmallDisk(folder=folder, pool_size=0) as server:
            session = server.create()
            slow = server.spawn(session["id"], "echo said; sleep 1; exit 9")
            time.sleep(0.3)
            fill(server.state + "/fill")
            equal(server.ended(slow)["exit_code"], 9, "outcome")
            server.kill("cordond")
            time.sleep(0.5)
            os.unlink(server.state + "/fill")
            server.wait_ready()
            equal(server.ended(slow)["exit_code"], 9, "outcome after the kill")
            path = f"/v1/sessions/{session['id']}/executions/{slow['id']}/output?stream=stdout"
            equal(server.want(200, "GET", path), b"said\n", "output")


def test_database_held_by_another():
    with Server(pool_size=2) as server:
        session, ended = server.create(), server.create()
        slow = server.spawn(session["id"], "sleep 0.5; exit 5")
        other = sqlite3.connect(server.state + "/cordon.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE meta SET value = value")
        server.refused(503, "unavailable", "POST", "/v1/sessions", {})
        server.get(session["id"])
        server.delete(ended["id"])
        equal(server.ended(slow)["exit_code"], 5, "the outcome meanwhile")
        quickly(server, "the database is held")
        time.sleep(1.5)
        other.execute("ROLLBACK")
        other.close()
        server.reaches(ended["id"], "ended")
        wait_for(
            lambda: rows(server, f"SELECT exit_code FROM execution WHERE id = '{slow['id']}' AND ended_ms > 0"),
            20,
            "the outcome in the store",
        )
        server.create()


def test_restarted_machine():
    """The run folder is gone, the store is there."""
    with Server(pool_size=2) as server:
        one, two = server.create(), server.create()
        done = server.run(one["id"], "echo hello; exit 3")
        running = server.spawn(two["id"], "echo half; sleep 100")
        wait_for(lambda: server.execution(running)["stdout_bytes"], 15, "output")
        server.note_cells()
        pids = [server.pid("cordond"), *server.pids("keeper")]
        server.process.kill()
        server.process.wait()
        for pid in [*pids, *harness.processes_of(server.ids)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not harness.processes_of(server.ids), 15, "the end of all")
        for path in harness.cgroups_of(server.ids):
            os.rmdir(path)
        shutil.rmtree(server.run_dir)
        db = sqlite3.connect(server.state + "/cordon.db")
        db.execute("UPDATE session SET boot_id = 'another'")
        db.commit()
        db.close()
        server.start()
        for session in (one, two):
            now = server.get(session["id"])
            equal((now["state"], now["reason"]), ("ended", "host_restart"), "session")
        equal(server.execution(done)["exit_code"], 3, "exit code")
        lost = server.execution(running)
        equal((lost["state"], bool(lost["ended_at"])), ("killed", True), "what was running")
        for x, text in ((done, b"hello\n"), (running, b"half\n")):
            path = f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output?stream=stdout"
            equal(server.want(200, "GET", path), text, "output")
        server.create()


# --- descriptors, clock -------------------------------------------------------------------------------


class Short(Server):
    """A server that may have few descriptors, and cannot help it."""

    def start(self, ready=True):
        tool = os.path.join(self.folder, "few")
        with open(tool, "w") as f:
            f.write("#!/bin/sh\nexec prlimit --nofile=300:300 setpriv --bounding-set=-sys_resource ")
            f.write(f'{self.program} "$@"\n')
        os.chmod(tool, 0o755)
        program, self.program = self.program, tool
        super().start(ready=False)
        self.program = program
        if ready:
            self.wait_ready()


def test_out_of_descriptors():
    if not shutil.which("setpriv"):
        raise Skip("no setpriv")
    with Short(pool_size=2, memory_default="32M", disk_default="16M") as server:
        kept, daemon = server.create(), server.pid("cordond")
        with open(f"/proc/{daemon}/limits") as f:
            has(f.read(), "Max open files            300", "limit of cordond")
        held, refused = [], 0
        for _ in range(400):
            status, _, data = server.request("POST", "/v1/sessions", {})
            if status != 201:
                equal((status, data["error"]["code"]), (503, "unavailable"), f"the refusal ({data})")
                has(data["error"]["message"], "descriptors", "message")
                refused += 1
                break
            held.append(data["id"])
            server.ids.add(data["id"])
        check(refused and len(held) > 10, f"{len(held)} sessions, then {refused} refusals")
        links = [socket.create_connection(server.address) for _ in range(150)]
        time.sleep(0.3)
        for _ in range(30):  # whatever the answer is, nobody dies of it
            try:
                server.request("POST", f"/v1/sessions/{kept['id']}/executions?wait=true", {"command": "true"})
                server.request("PUT", f"/v1/sessions/{kept['id']}/files?path=x", b"y")
            except (OSError, harness.http.client.HTTPException):
                pass
        for link in links:
            link.close()
        time.sleep(0.3)
        equal(server.get(kept["id"])["state"], "running", "the first session")
        for session_id in held:
            equal(server.get(session_id)["state"], "running", f"session {session_id}")
        for session_id in held:
            server.delete(session_id)
        for session_id in held:
            server.reaches(session_id, "ended")
        equal(server.run(kept["id"], "echo on")["stdout"], "on\n", "afterwards")
        equal(server.pid("cordond"), daemon, "the pid of cordond")
        server.create()


def test_clock_jumps():
    """A clock that is set ends nothing, and what was to end still does."""
    folder = tempfile.mkdtemp(prefix="cordon-clock-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    for name in harness.PROGRAMS:
        shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), folder)
    os.mkdir(folder + "/real")
    os.rename(folder + "/cordond", folder + "/real/cordond")
    shutil.copy(ARGS.clock, folder + "/clock.so")
    jump = folder + "/jump"
    with open(jump, "wb") as f:
        f.write(bytes(4096))
    with open(folder + "/cordond", "w") as f:
        f.write(f"#!/bin/sh\nLD_PRELOAD={folder}/clock.so FALSE_CLOCK={jump} exec {folder}/real/cordond \"$@\"\n")
    os.chmod(folder + "/cordond", 0o755)

    def set_clock(seconds):
        with open(jump, "r+b") as f:
            f.write(struct.pack("<q", seconds * 1000))

    try:
        with Server(folder + "/cordon", pool_size=2, tenant_audit_max=200000) as server:
            hour = server.create(timeout="1h")
            paused = server.create(timeout="1h")
            server.want(200, "POST", f"/v1/sessions/{paused['id']}/pause")
            long = server.spawn(hour["id"], "sleep 3; exit 4", timeout="20s")
            for seconds in (86400, -86400, 7200, 0):
                set_clock(seconds)
                short = server.create(timeout="2s")
                time.sleep(1.2)
                equal(server.get(hour["id"])["state"], "running", f"after {seconds} s")
                equal(server.get(paused["id"])["state"], "paused", f"after {seconds} s")
                equal(server.reaches(short["id"], "ended", 6)["reason"], "expired", "the short one")
            has(server.log(), "the wall clock was set", "log")
            equal(server.ended(long)["exit_code"], 4, "an execution meanwhile")
            server.want(200, "POST", f"/v1/sessions/{paused['id']}/resume")
            equal(server.run(paused["id"], "echo on")["stdout"], "on\n", "afterwards")
            # The audit log has times that run backwards, and all is verified. None is taken for old.
            said = json.loads(audit_log.verified(audit_log.export(server), "--key", audit_log.checkpoint(server)["vkey"]))
            check(said["backwards"] >= 2 and said["pruned"] == 0, said)
            for seconds in (0, 400 * 86400):
                set_clock(seconds)
                for _ in range(450):
                    server.want(200, "GET", "/v1/audit?limit=1")
                audit_log.checkpoint(server, "fresh=true")
            gone = lambda: server.want(200, "GET", "/v1/audit?type=audit.pruned&limit=100")["records"]  # noqa: E731
            wait_for(gone, 60, "records beyond the bound are deleted")
            equal({r["record"]["data"]["why"] for r in gone()}, {"tenant_audit_max"}, "why they were deleted")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(names):
    """Runs the functions test_* of a program."""
    global ARGS
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--evil", default="", help="a PID 1 that was taken over")
    parser.add_argument("--clock", default="", help="a library with a clock that can be set")
    parser.add_argument("--only", nargs="+", default=[], help="names of tests")
    ARGS = parser.parse_args()
    must = os.environ.get("CORDON_MUST_WORK") == "1"
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if must else 0)
    harness.isolate()
    harness.PROGRAM = harness.reachable(os.path.abspath(ARGS.cordon))
    ARGS.evil, ARGS.clock = os.path.abspath(ARGS.evil), os.path.abspath(ARGS.clock)
    tests = [f for n, f in names.items() if n.startswith("test_")]
    tests = [f for f in tests if not ARGS.only or f.__name__[5:] in ARGS.only]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for number, function in enumerate(tests, 1):
        began = time.monotonic()
        verdict, why = harness.attempt(function)
        skip = verdict not in ("ok", "not ok")
        good = verdict == "ok" or (skip and not must)
        bad += not good
        name = function.__name__[5:].replace("_", " ")
        print(f"{'ok' if good else 'not ok'} {number} - {name}" + (f" # SKIP {verdict}" if skip and good else ""))
        note(f"{why}\n{time.monotonic() - began:.1f} s" if why else f"{time.monotonic() - began:.1f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(globals())
