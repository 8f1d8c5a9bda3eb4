#!/usr/bin/python3 -B
"""Goal: a session at level microvm that was paused to disk goes on in the middle of its program after an upgrade of Cordon and after a reboot of
the machine, with its secrets and its policy.

    test_vm_reboot.py CORDON [name ...]"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "server"))
sys.path.insert(0, os.path.join(HERE, "..", "shared"))
import guest_kernel  # noqa: E402
import harness  # noqa: E402
from harness import check, equal, has, processes_of, run_tests, wait_for  # noqa: E402
from tap import bind, unbind  # noqa: E402
from tree import make_tree  # noqa: E402

KILLS = True
LONG = 240  # seconds of a request that starts a guest, on a loaded machine
COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/n; echo line $i; sleep 0.1; done"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BOOTS = []  # files that are mounted there, one after the other


def prepare(server):
    if "vm" not in {t["name"] for t in server.want(200, "GET", "/v1/templates")["templates"]}:
        make_tree(os.path.join(server.state, "templates", "vm"), "a vm")
        server.want(201, "POST", "/v1/templates", {"name": "vm", "root": {"kind": "layers", "layers": ["vm"]}})


def create(server, **more):
    body = {"template": "vm", "level": "microvm", "limits": {"memory": "256M"}, **more}
    session = server.want(201, "POST", "/v1/sessions", body, timeout=LONG)["id"]
    server.ids.add(session)
    return session


def ask(server, session, command):
    spec = {"command": command}
    return server.want(200, "POST", f"/v1/sessions/{session}/executions?wait=true", spec, timeout=LONG)


def number(server, session):
    return int(ask(server, session, "cat /tmp/n 2>/dev/null")["stdout"].strip() or 0)


def counts_on(server, session):
    before = number(server, session)
    wait_for(lambda: number(server, session) > before, 120, "the counter goes on", step=0.3)
    return before


def begin(server, **more):
    """(session, execution) of one that counts."""
    session = create(server, **more)
    counting = server.spawn(session, COUNTER)
    wait_for(lambda: number(server, session) > 3, 120, "the counter", step=0.3)
    return session, counting


def pause(server, session):
    server.want(200, "POST", f"/v1/sessions/{session}/pause", timeout=LONG)
    equal(server.get(session)["state"], "paused")
    wait_for(lambda: not server.cell_pids(session), 60, "the end of its processes")


def goes_on(server, session, counting):
    check(counts_on(server, session) > 3, "the program begins again")
    equal(server.execution(counting)["state"], "running", "the execution")
    path = f"/v1/sessions/{session}/executions/{counting['id']}/output?stream=stdout"
    numbers = [int(line.split()[1]) for line in server.want(200, "GET", path, raw=True).decode().splitlines()]
    equal(numbers, list(range(1, len(numbers) + 1)), "no line is lost or comes twice")


def test_a_paused_session_outlives_an_upgrade(server):
    """The agent in its memory is of the version before."""
    prepare(server)
    session, counting = begin(server)
    pause(server, session)
    agent, daemon = os.path.join(os.path.dirname(harness.PROGRAM), "cordon-init"), server.pid("cordond")
    shutil.copy(agent, agent + ".new")
    with open(agent + ".new", "ab") as f:
        f.write(b"another version")
    os.rename(agent + ".new", agent)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.pid("cordond") not in (None, daemon), 60, "the next cordond")
    server.wait_ready(60)
    equal(server.get(session)["state"], "paused")
    goes_on(server, session, counting)
    fresh = create(server)  # the template's guest is booted again, with the new agent
    equal(ask(server, fresh, "echo up")["stdout"], "up\n")
    stale, new = images(server, "memory")  # of the template: one for each version
    equal((stale["stale"], new["stale"]), (["agent"], []))
    check(stale["origin"]["agent_digest"] != new["origin"]["agent_digest"], str(new["origin"]))
    pause(server, session)  # again, by the new version
    own, = [x for x in server.want(200, "GET", "/v1/layers")["layers"] if x["origin"].get("session") == session]
    equal((own["stale"], own["origin"]["agent_digest"]), (["agent"], stale["origin"]["agent_digest"]), "the agent is the one in its memory")
    goes_on(server, session, counting)
    for one in (session, fresh):
        server.delete(one)


def images(server, kind):
    return [x for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind]


def reboot(server):
    """All processes end without a word, what is in memory is gone, and the next server sees another boot."""
    server.note_cells()
    pids = [server.process.pid, *harness.children(server.process.pid), *processes_of(server.ids)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    server.process.wait()
    wait_for(lambda: not processes_of(server.ids) and not any(os.path.exists(f"/proc/{p}") for p in pids), 30, "the end of all processes")
    shutil.rmtree(server.run_dir)
    for path in sorted(harness.cgroups_of(server.ids), reverse=True):
        wait_for(lambda: harness.attempt(os.rmdir, path)[0] == "ok", 10, f"the end of {path}")
    with tempfile.NamedTemporaryFile("w", dir="/var/tmp") as f:
        f.write(f"{uuid.uuid4()}\n")
        f.flush()
        os.chmod(f.name, 0o444)
        if BOOTS:
            unbind(BOOT_ID)
        bind(f.name, BOOT_ID)  # in the mount namespace of this test
        BOOTS.append(f.name)
    server.start(ready=False)
    server.wait_ready(60)


def test_a_paused_session_outlives_a_reboot(server):
    prepare(server)
    value = "value-" + os.urandom(12).hex()
    server.want(201, "POST", "/v1/secrets", {"name": "deep", "value": value})
    network = {"version": 1, "rules": [{"host": "allowed.example.org"}]}
    server.want(201, "POST", "/v1/secrets", {"name": "held", "value": value, "hosts": ["allowed.example.org"]})
    secrets = [{"name": "deep", "as": "file"}, {"name": "deep", "as": "env", "env": "DEEP"}, {"name": "held", "as": "broker", "env": "HELD"}]
    session, counting = begin(server, secrets=secrets, network=network, metadata={"a": "b"}, timeout="1h")
    files, was_running = create(server), create(server)
    ask(server, files, "echo kept > /tmp/kept")
    before = server.get(session)
    machine, placeholder = (ask(server, session, what)["stdout"] for what in ("cat /dev/machine-id", "echo $HELD"))
    shown = server.want(200, "GET", f"/v1/sessions/{session}/network")
    pause(server, session)
    server.want(200, "POST", f"/v1/sessions/{files}/pause", {"memory": False}, timeout=LONG)
    reboot(server)
    ended = server.reaches(was_running, "ended", 60)
    equal(ended["reason"], "host_restart", "the server has seen a reboot")
    now = server.get(session)
    equal((now["state"], now["metadata"], now["limits"]), ("paused", before["metadata"], before["limits"]))
    goes_on(server, session, counting)
    equal(ask(server, session, "cat /dev/machine-id")["stdout"], machine, "the same machine")
    equal(ask(server, session, "cat /dev/shm/secrets/deep | wc -c; echo ${#DEEP}")["stdout"].split(), [str(len(value))] * 2, "its secrets")
    equal(ask(server, session, "echo $HELD")["stdout"], placeholder, "programs that go on have the placeholder that counts")
    equal(server.want(200, "GET", f"/v1/sessions/{session}/network"), shown, "its policy")
    has(ask(server, session, "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 20 192.0.2.1 80; true")["stdout"], "403", "the policy holds")
    equal(ask(server, files, "cat /tmp/kept")["stdout"], "kept\n", "one that was paused without its memory")
    # A value that is replaced while it sleeps, over another reboot.
    pause(server, session)
    server.want(200, "PUT", "/v1/secrets/deep", {"value": "short"})
    reboot(server)
    goes_on(server, session, counting)
    equal(ask(server, session, "cat /dev/shm/secrets/deep | wc -c; echo ${#DEEP}")["stdout"].split(), ["5", "5"], "the new value")
    for one in (session, files):
        server.delete(one)


if __name__ == "__main__":
    os.environ.pop("CORDON_TEST_LEVEL", None)

    class WithKernel(harness.Server):
        def __init__(self, *args, **more):
            folder = tempfile.mkdtemp(prefix="cordon-vm-", dir="/var/tmp")
            os.mkdir(os.path.join(folder, "state"))
            guest_kernel.give(harness.ORIGINAL, pathlib.Path(folder) / "state")
            super().__init__(*args, folder=folder, **more)
            self.own_folder = True

    harness.Server = WithKernel
    run_tests(globals(), pool_size=0, pool_started_size=0, memory_default="256M")
