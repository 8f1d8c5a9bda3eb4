#!/usr/bin/python3 -B
"""Goal: every member of a request for a session is in force at each level with a guest, or the request is refused with
the level and the reason. One server, with sessions of both levels; a member is shown once at each.

    test_level_options.py CORDON [name ...]
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, wait_for  # noqa: E402
from mcp_client import Client  # noqa: E402
import guest_kernel  # noqa: E402
import runsc  # noqa: E402
import slim_root  # noqa: E402

LEVELS = ("gvisor", "microvm")
SERVER = (pathlib.Path(__file__).resolve().parents[1] / "gateway" / "stdio_server.py").read_text()  # of MCP
BOOT = 240  # seconds: the first session of a template boots a guest, under emulation and load
SHARED = None  # a directory that may be mounted


def setup(server):
    if not (pathlib.Path(server.state) / "templates" / "slim").exists():
        subprocess.run(["cp", "-a", slim_root.state(sys.argv[1]), f"{server.state}/templates/slim"], check=True)
        server.want(201, "POST", "/v1/templates", {"name": "slim", "root": {"layers": ["slim"]}})


def create(server, level, **more):
    setup(server)
    body = {"level": level, "template": "slim", **more}
    made = server.want(201, "POST", "/v1/sessions", body, timeout=BOOT)
    equal(made["level"], level)
    return made


def out(server, s, command, **more):
    done = server.run(s["id"], ["bash", "-c", command], **more)
    equal(done["exit_code"], 0, str(done))
    return done["stdout"]


def test_what_is_refused(server):
    server.want(201, "POST", "/v1/volumes", {"name": "v"})
    setup(server)
    everywhere = [({"volumes": [{"name": "v", "path": "/v"}]}, "volumes and writable mounts"),
                  ({"mounts": [{"source": SHARED, "target": "/mnt", "mode": "rw"}]}, "volumes and writable mounts")]
    of_machines = [({"volumes": [{"name": "v", "path": "/v"}]}, "mounts"),
                   ({"mounts": [{"source": SHARED, "target": "/mnt"}]}, "mounts"),
                   ({"storage": "disk"}, "storage disk"),
                   ({"persist": True}, "persist")]
    for level, cases in (("gvisor", everywhere), ("microvm", of_machines)):
        for body, what in cases:
            server.refused(422, "unsupported", "POST", "/v1/sessions", {"level": level, "template": "slim", **body}, what, f"level {level}")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"level": "microvm", "template": "slim", "limits": {"memory": "64M"}}, "memory", "microvm")
    server.want(204, "DELETE", "/v1/volumes/v")


LOCKED = "id -u; grep -E '^(CapBnd|Seccomp):' /proc/self/status; for d in /etc /usr /opt; do touch $d/x 2>/dev/null && echo $d; done; touch /tmp/a ~/b"


def test_locked_and_read_only(server):
    for level in LEVELS:
        s = create(server, level, profile="locked", root="read-only", keep_diff=True, env={"GIVEN": "x"}, metadata={"m": "1"})
        equal((s["profile"], s["root"], s["metadata"]), ("locked", "read-only", {"m": "1"}))
        equal(out(server, s, LOCKED).split(), ["1000", "CapBnd:", "0" * 16, "Seccomp:", "2"], level)
        equal(out(server, s, "echo $GIVEN"), "x\n")
        for body in ({"argv": ["true"], "user": "root"}, {"argv": ["true"], "user": "77"}):
            _, _, done = server.request("POST", f"/v1/sessions/{s['id']}/executions?wait=true", body)
            check(done.get("exit_code") != 0, f"{level}: a program of user {body['user']} ran: {done}")
        server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/home/user/put", body=b"text")
        equal(server.request("GET", f"/v1/sessions/{s['id']}/files?path=/home/user/put", raw=True)[2], b"text")
        paths = [c["path"] for c in server.want(200, "GET", f"/v1/sessions/{s['id']}/diff")["changes"]]
        check("/home/user/put" in paths and "/tmp/a" in paths, f"{level}: {paths}")
        server.delete(s["id"])
        wait_for(lambda: server.request("GET", f"/v1/sessions/{s['id']}/diff")[0] == 200, 30, "the kept diff")
        kept = server.want(200, "GET", f"/v1/sessions/{s['id']}/diff")["changes"]
        check("/home/user/put" in [c["path"] for c in kept], f"{level}: what is kept: {kept}")


def test_memory_keeps_its_profile(server):
    """Programs in the memory of a snapshot go on with what they have: its sessions have the same profile and root."""
    s = create(server, "microvm", profile="locked", root="read-only")
    snapshot = server.want(201, "POST", f"/v1/sessions/{s['id']}/snapshots", {"name": "kept"}, timeout=60)["id"]
    forked = server.want(201, "POST", f"/v1/sessions/{s['id']}/fork", {}, timeout=60)["sessions"][0]
    made = server.want(201, "POST", "/v1/sessions", {"template": snapshot}, timeout=60)
    for one in (forked, made):
        shown = server.get(one["id"])
        equal((shown["level"], shown["profile"], shown["root"]), ("microvm", "locked", "read-only"))
        equal(out(server, one, LOCKED).split()[:5], ["1000", "CapBnd:", "0" * 16, "Seccomp:", "2"])
    for body, what in (({"profile": "standard"}, "profile"), ({"level": "gvisor"}, "level")):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"template": snapshot, **body}, what, "memory")
    server.refused(422, "unsupported", "POST", "/v1/templates", {"name": "derived", "from": snapshot}, "memory")
    plain = create(server, "microvm")
    other = server.want(201, "POST", f"/v1/sessions/{plain['id']}/snapshots", {"name": "plain"}, timeout=60)["id"]
    for body, what in (({"profile": "locked"}, "profile"), ({"root": "read-only"}, "root")):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"template": other, **body}, what, "memory")
    server.want(200, "POST", f"/v1/sessions/{s['id']}/pause", {"memory": True}, timeout=60)
    equal(out(server, s, LOCKED).split()[:5], ["1000", "CapBnd:", "0" * 16, "Seccomp:", "2"], "after a pause with memory")
    for one in (s, forked, made, plain):
        server.delete(one["id"])


def test_rules_networks_and_secrets(server):
    server.want(201, "POST", "/v1/secrets", {"name": "s", "value": "value-of-s", "ways": ["env", "file"]})
    for level in LEVELS:
        s = create(server, level, network="none", rules={"writable": ["/home/user/out"], "exportable": ["/home/user/out"]},
                   secrets=[{"name": "s", "as": "env", "env": "S"}, {"name": "s", "as": "file"}])
        equal(out(server, s, "echo $S | wc -c; wc -c </dev/shm/secrets/s").split(), ["11", "10"], level)
        check(server.run(s["id"], ["curl", "-sS", "-m", "5", "http://example.org"])["exit_code"] != 0, f"{level}: there is a network")
        status = server.request("PUT", f"/v1/sessions/{s['id']}/files?path=/home/user/else", body=b"x")[0]
        equal(status, 403, f"{level}: rules")
        server.delete(s["id"])


def test_timeouts_pause_and_reset(server):
    for level in LEVELS:
        s = create(server, level, idle_timeout="2s", on_idle="pause_files", timeout="10m", on_timeout="pause")
        out(server, s, "echo kept >/home/user/kept")
        wait_for(lambda: server.get(s["id"])["state"] == "stopped", 60, f"{level}: a pause")
        server.want(200, "POST", f"/v1/sessions/{s['id']}/resume", timeout=60)
        equal(out(server, s, "cat /home/user/kept"), "kept\n", level)
        server.want(200, "POST", f"/v1/sessions/{s['id']}/reset", timeout=60)
        equal(out(server, s, "ls /home/user/kept 2>/dev/null || echo gone"), "gone\n", level)
        server.delete(s["id"])


def build(server, name, base, key=""):
    made = server.want(201, "POST", "/v1/builds", {"name": name}, key=key)["id"]
    steps = [{"type": "RUN", "args": ["cat /proc/version >/home/user/built"]}]
    server.want(202, "POST", f"/v1/builds/{made}/start", {"fromTemplate": base, "steps": steps}, key=key)
    return wait_for(lambda: (b := server.want(200, "GET", f"/v1/builds/{made}", key=key))["status"] in ("ready", "error") and b, BOOT, "a build")


def test_start_commands_and_builds(server):
    """A template that is derived or built at a level makes sessions of that level, and its commands and steps run there."""
    setup(server)
    for level in LEVELS:
        server.want(201, "POST", "/v1/templates", {"name": f"base-{level}", "from": "slim", "level": level,
                                                   "start_command": "cat /proc/version >/tmp/started", "ready_command": "test -s /tmp/started"})
        s = server.want(201, "POST", "/v1/sessions", {"template": f"base-{level}"}, timeout=BOOT)
        equal(s["level"], level)
        equal(out(server, s, "cat /tmp/started"), out(server, s, "cat /proc/version"), level)
        server.delete(s["id"])
        done = build(server, f"built-{level}", f"base-{level}")
        equal(done["status"], "ready", str(done))
        s = server.want(201, "POST", "/v1/sessions", {"template": f"built-{level}"}, timeout=BOOT)
        equal(s["level"], level, "of the built template")
        equal(out(server, s, "cat /home/user/built"), out(server, s, "cat /proc/version"), "where the step ran")
        server.delete(s["id"])


def denied(server, path, body, key):
    status, _, answer = server.request("POST", path, body, key=key)
    equal(status, 403, str(answer))
    has(str(answer), "allowed only gvisor")


def test_no_way_around_what_is_allowed(server):
    """A tenant that is allowed one level has no session of another: by request, template, build, snapshot or fork, of its
    own or as the server of a session."""
    setup(server)
    tenant = server.want(201, "POST", "/v1/tenants", {"name": "walled", "allow": {"levels": ["gvisor"]}})["id"]
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "k", "scopes": ["sessions", "admin"]})["key"]
    for body in ({}, {"template": "slim"}, {"level": "container"}, {"level": "microvm", "template": "slim"}):
        denied(server, "/v1/sessions", body, key)
    for metadata in ({}, {"cordon.level": "container"}):
        denied(server, "/v2/sandboxes", {"templateID": "slim", "metadata": metadata}, key)
    Client(server, key=key).fails("create_session", "allowed only gvisor")
    Client(server, key=key).fails("run", "allowed only gvisor", command="true")
    s = server.want(201, "POST", "/v1/sessions", {"template": "slim", "level": "gvisor",
                                                  "mcp": {"servers": {"m": {"command": ["python3", "-c", SERVER]}}}}, key=key, timeout=BOOT)
    servers = server.want(200, "GET", "/v1/sessions?state=running,creating", key=key)["sessions"]
    equal(sorted(one["level"] for one in servers), ["gvisor", "gvisor"], "the session and its server")
    snapshot = server.want(201, "POST", f"/v1/sessions/{s['id']}/snapshots", {"name": "w"}, key=key)["id"]
    denied(server, "/v1/sessions", {"template": snapshot, "level": "container"}, key)
    made = server.want(201, "POST", "/v1/sessions", {"template": snapshot}, key=key)
    forked = server.want(201, "POST", f"/v1/sessions/{made['id']}/fork", {}, key=key)["sessions"][0]
    equal([server.want(200, "GET", f"/v1/sessions/{one['id']}", key=key)["level"] for one in (made, forked)], ["gvisor"] * 2)
    has(build(server, "weak", "slim", key=key)["reason"], "allowed only gvisor")
    for one in server.want(200, "GET", "/v1/sessions?state=running", key=key)["sessions"]:
        server.want(204, "DELETE", f"/v1/sessions/{one['id']}", key=key)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="cordon-options-", dir="/var/tmp") as place:
        os.mkdir(f"{place}/state", 0o755)
        os.mkdir(f"{place}/shared")
        SHARED = f"{place}/shared"
        guest_kernel.give(sys.argv[1], f"{place}/state")
        run_tests(globals(), folder=place, runsc=runsc.find(sys.argv[1]), mount_roots=f"{SHARED}:rw", pool_size=0, pool_started_size=0,
                  memory_default="256M", disk_default="64M")
