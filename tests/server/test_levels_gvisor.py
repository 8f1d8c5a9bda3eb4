#!/usr/bin/python3 -B
"""Goal: a session at level gvisor, made by a whole server: its programs see gVisor's kernel and not the machine's, its
guest is started in advance from its second session on, its limits are the session's own, and what happens to its
engine or its PID 1 is told, also after a restart of cordond.

    test_levels_gvisor.py CORDON [name ...]
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["CORDON_TEST_LEVEL"] = "gvisor"
from harness import Server, check, comm, equal, has, run_tests, wait_for  # noqa: E402
from tree import make_tree  # noqa: E402

KILLS = True  # of cordond
MIB = 1 << 20


def out(server, session, command, **more):
    done = server.run(session, command, **more)
    equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
    return done["stdout"]


def pool(server):
    return server.want(200, "GET", "/v1/node")["pool"]


def engine(server, session):
    """The process of the sentry, which runs the guest."""
    found = [p for p in server.cell_pids(session) if comm(p).startswith("runsc-sandbox") or comm(p) == "exe"]
    check(found, f"no engine among {[comm(p) for p in server.cell_pids(session)]}")
    return found[0]


def test_it_has_another_kernel(server):
    s = server.create()
    equal((s["level"], s["guest"], s["state"]), ("gvisor", "running", "running"))
    version = out(server, s["id"], "cat /proc/version")
    with open("/proc/version") as f:
        check(version != f.read(), f"the machine's kernel: {version}")
    has(out(server, s["id"], "dmesg"), "gVisor")
    equal(out(server, s["id"], "hostname").strip(), s["id"])
    server.delete(s["id"])


def test_the_next_one_is_there_already(server):
    server.delete(server.create()["id"])
    wait_for(lambda: pool(server)["ready"] > 0, 30, "a cell of the pool")
    before = pool(server)["hits"]
    a, b = server.create(), None
    equal(pool(server)["hits"], before + 1, "hits")
    wait_for(lambda: pool(server)["ready"] > 0, 30, "another cell of the pool")
    b = server.create()
    look = "cat /etc/machine-id; hostname; head -c 16 /dev/urandom | od -An -tx1"
    one, two = (out(server, s["id"], look).split("\n") for s in (a, b))
    check(not set(one[:3]) & set(two[:3]), f"the same in two sessions: {one} {two}")
    equal(one[1], a["id"])
    for s in (a, b):
        server.delete(s["id"])


def test_what_starts_at_once_is_not_mixed_up(server):
    """Programs that are being started share the memory of the guest's PID 1 until they run."""
    s = server.create()["id"]
    places, users, word = ("/tmp", "/etc", "/usr"), {"root": "0", "user": "1000"}, "x" * 3000
    started = []
    for i in range(24):
        line = f'echo "{i} $0 $OWN $PWD $(id -u)"'
        more = {"env": {"OWN": f"own-{i}"}, "cwd": places[i % 3], "user": list(users)[i % 2]}
        started.append(server.spawn(s, [f"missing-{i}", word] if i % 4 == 3 else ["sh", "-c", line, word], **more))
    for i, x in enumerate(started):
        done = server.ended(x)
        if i % 4 == 3:
            equal(done["exit_code"], 127, f"program {i}, which does not exist")
            continue
        text = server.request("GET", f"/v1/sessions/{s}/executions/{x['id']}/output?stream=stdout", raw=True)[2].decode()
        equal(text.split(), [str(i), word, f"own-{i}", places[i % 3], list(users.values())[i % 2]], f"program {i}")
    server.delete(s)


def test_limits_are_the_sessions_own(server):
    s = server.create(limits={"memory": "256M", "pids": 64})
    equal((s["limits"]["memory_bytes"], s["limits"]["pids"]), (256 * MIB, 64))
    x = server.run(s["id"], "for i in $(seq 100); do sleep 60 & done; echo end")
    has(x["stderr"], "fork", "more processes than the limit")
    equal(server.get(s["id"])["state"], "running", "after too many processes")
    server.delete(s["id"])


def test_its_snapshot_is_not_weaker(server):
    """The template is of level container; the level of a session made from the snapshot is not said."""
    s = server.create()
    snapshot = server.want(201, "POST", f"/v1/sessions/{s['id']}/snapshots", {})
    made = server.want(201, "POST", "/v1/sessions", {"template": snapshot["id"], "level": None})
    equal(made["level"], "gvisor")
    for one in (made, s):
        server.delete(one["id"])


def test_what_it_cannot_have_is_refused(server):
    volume = server.want(201, "POST", "/v1/volumes", {"name": "v"})
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"volumes": [{"name": "v", "path": "/v"}]}, "volumes", "gvisor")
    server.want(204, "DELETE", f"/v1/volumes/{volume['name']}")


def test_a_link_at_tmp_is_told(server):
    """runsc ends without a word if /tmp of its root is a link."""
    root = os.path.join(server.state, "templates", "linked")
    make_tree(root)
    os.rmdir(f"{root}/tmp")
    os.symlink("/var/tmp", f"{root}/tmp")
    server.want(201, "POST", "/v1/templates", {"name": "linked", "root": {"kind": "layers", "layers": ["linked"]}})
    _, _, answer = server.request("POST", "/v1/sessions", {"template": "linked"})
    has(str(answer), "gVisor needs a directory at /tmp")
    server.want(204, "DELETE", "/v1/templates/linked")


def test_too_much_memory_ends_it(server):
    s = server.create(limits={"memory": "64M"})
    server.spawn(s["id"], ["/usr/bin/python3", "-c", "x = b'x' * (300 << 20)"])
    equal(server.reaches(s["id"], "ended", 30)["reason"], "oom")


def test_the_end_of_its_engine_is_told(server):
    s = server.create()
    x = server.spawn(s["id"], "echo before; sleep 1000")
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 7, 15, "output")
    os.kill(engine(server, s["id"]), signal.SIGKILL)
    equal(server.reaches(s["id"], "ended")["reason"], "engine_exited")
    equal(server.execution(x)["state"], "killed")
    events = server.want(200, "GET", f"/v1/sessions/{s['id']}/events")["events"]
    equal([e["data"]["state"] for e in events if e["type"] == "session.guest"], ["engine exited"])


def test_a_program_does_not_outlive_its_timeout(server):
    """Root of a guest can stop its agent, which then ends no program: the guest is ended, and the record says running until then."""
    s = server.create()["id"]
    x = server.spawn(s, "kill -STOP 1; while true; do echo x; sleep 0.2; done", user="root", timeout="2s")
    gone = server.reaches(s, "ended", 60)
    equal(gone["reason"], "unresponsive")
    done = server.execution(x)
    equal((done["state"], done["limit"], done["exit_code"]), ("killed", "timeout", 124))
    check(done["stdout_bytes"] < 2 * 60 * 5, done)


def test_the_end_of_its_shim_is_told(server):
    s = server.create()["id"]
    pid = server.cell_pids(s)[0]
    equal(comm(pid), "cordon-shim")
    os.kill(pid, signal.SIGKILL)
    equal(server.reaches(s, "ended")["reason"], "killed")


def test_it_outlives_cordond_and_keepers(server):
    s = server.create()["id"]
    x = server.spawn(s, "echo before; sleep 1000")
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 7, 15, "output")
    server.restarted("cordond")
    wait_for(lambda: server.get(s)["state"] == "running", 15, "adoption")
    equal(server.get(s)["guest"], "running")
    equal(out(server, s, "echo again").strip(), "again")
    equal(server.execution(x)["state"], "running")
    server.restarted("keeper")
    equal(out(server, s, "echo more").strip(), "more")
    server.delete(s)


def test_guests_that_wait_count_for_their_tenant():
    """They are bounded by the tenant's quota, and end when its sessions need the room."""
    with Server(pool_size=0) as server:
        tenant = server.want(201, "POST", "/v1/tenants", {"name": "waits", "max_sessions": 2})["id"]
        key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["read", "sessions", "admin"]})["key"]
        for i in range(4):  # each template was used at this level
            one = server.create(key=key, level="container")["id"]
            server.want(201, "POST", f"/v1/sessions/{one}/snapshots", {"name": f"waits{i}"}, key=key)
            used = server.create(key=key, template=f"waits{i}", level="gvisor")["id"]
            for s in (one, used):
                server.delete(s, key=key)
                wait_for(lambda s=s: server.want(200, "GET", f"/v1/sessions/{s}", key=key)["state"] == "ended", 15, "its end")

        def waiting():
            """Cells with a guest, which are those of pools: no session has one."""
            server.note_cells()
            return sum(any(comm(p) == "cordon-shim" for p in server.cell_pids(i)) for i in server.ids)

        wait_for(lambda: waiting() > 0, 30, "guests that wait")
        for _ in range(20):
            check(waiting() <= 2, f"{waiting()} guests wait for a tenant that may have 2 sessions")
            time.sleep(0.2)  # nothing more comes
        for _ in range(2):
            server.create(key=key, level="container")
        wait_for(lambda: waiting() == 0, 10, "the end of guests whose room is taken")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)  # of level container: what is ready is of this level
