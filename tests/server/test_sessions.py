#!/usr/bin/python3
"""test_sessions.py - sessions from their creation to their records: specs, lists, states, reasons, pool."""
import itertools
import os
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Server, check, comm, equal, has, run_tests, stays, wait_for  # noqa: E402
from level import LEVEL, TEMPLATE, differs, instead  # noqa: E402

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
MEMBERS = (
    "id state reason detail template template_id created_by profile level guest created_at started_at ended_at expires_at timeout_ms "
    "idle_timeout_ms on_timeout on_idle limits storage root persist keep_ms kept_until metadata mounts volumes ports rules network secrets usage redact trace watch_reads traceparent alarms refused_calls kept_diff executions_running"
).split()


def test_defaults(server):
    s = server.create()
    equal(sorted(s), sorted(MEMBERS), "members of a session")
    equal((s["state"], s["reason"], s["template"], s["profile"]), ("running", None, TEMPLATE, "standard"))
    equal((s["level"], s["on_timeout"], s["on_idle"]), (LEVEL, "kill", "kill"))
    equal(s["guest"], None if LEVEL == "container" else "running")
    equal((s["timeout_ms"], s["idle_timeout_ms"]), (300000, 0))
    equal(
        s["limits"],
        {"memory_bytes": 512 << 20, "cpu_millis": 1000, "pids": 512, "disk_bytes": 256 << 20, "inodes": 131072, "nofile": 16384,
         "disk_read_bps": 0, "disk_write_bps": 0},
    )
    check(re.fullmatch(r"[a-z0-9]{1,39}", s["id"]), s["id"])
    for name in ("created_at", "started_at", "expires_at"):
        check(TIME.fullmatch(s[name]), f"{name}: {s[name]}")
    equal(s["ended_at"], None)
    got = server.get(s["id"])
    equal({k: got[k] for k in got if k != "usage"}, {k: s[k] for k in s if k != "usage"}, "GET and POST")


def test_limits_are_set(server):
    s = server.create(limits={"memory": "128M", "cpus": 0.5, "pids": 40, "disk": "8M", "inodes": 1000, "nofile": 77})
    equal(
        s["limits"],
        {"memory_bytes": 128 << 20, "cpu_millis": 500, "pids": 40, "disk_bytes": 8 << 20, "inodes": 1000, "nofile": 77,
         "disk_read_bps": 0, "disk_write_bps": 0},
    )
    done = server.run(s["id"], "ulimit -n; head -c 16M /dev/zero > /tmp/x; echo $?; ls /tmp/x && stat -c %s /tmp/x")
    lines = done["stdout"].split()
    equal(lines[:2], ["77", "1"], "open files, writing 16 MiB to 8 MiB")
    check(int(lines[3]) <= 8 << 20, lines)
    if differs("least memory"):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"limits": {"memory": 64 << 20}}, "64M is below the minimum of 128M")
    else:
        equal(server.create(limits={"memory": 64 << 20})["limits"]["memory_bytes"], 64 << 20)


def test_limits_in_errors_have_units(server):
    for limits, part in (({"memory": "64T"}, "memory: 64T is above the maximum of 8G (memory_max)"), ({"memory": "1"}, "memory: 1 is below the minimum of 4M"),
                         ({"disk": "64T"}, "disk: 64T is above the maximum of 8G for storage memory (disk_max)"),
                         ({"cpus": 1000.5}, "cpus: 1000.500 is above the maximum of "), ({"cpus": 1000.5}, " (cpus_max)"),
                         ({"pids": 4000000}, "pids: 4000000 is above the maximum of 8192 (pids_max)"),
                         ({"nofile": 4000000}, "nofile: 4000000 is above the maximum of "), ({"nofile": 4000000}, " (nofile_max)"),
                         ({"inodes": 9000000}, "inodes: 9000000 is above the maximum of 4194304 (inodes_max)")):
        said = server.refused(400, "invalid", "POST", "/v1/sessions", {"limits": limits}, part)["message"]
        check(not re.search(r"[0-9]{8,}", said), f"a number without a unit: {said}")


def test_its_host_name_resolves(server):
    session = server.create(network="deny")["id"]
    code = "import socket; print(socket.gethostname(), sorted({a[4][0] for a in socket.getaddrinfo(socket.gethostname(), 80)}))"
    equal(server.run(session, "python3 -c '" + code + "'")["stdout"], f"{session} ['127.0.0.1', '::1']\n")
    check(server.run(session, "getent hosts " + session[:-1])["exit_code"] != 0, "another name does not")
    server.delete(session)


def test_env_metadata(server):
    s = server.create(env={"COLOR": "blue ☃", "EMPTY": ""}, metadata={"owner": "ann", "ключ": "значение"})
    equal(s["metadata"], {"owner": "ann", "ключ": "значение"})
    done = server.run(s["id"], 'echo "[$COLOR][${EMPTY-unset}]"')
    equal(done["stdout"], "[blue ☃][]\n")


BAD = [
    ({"limits": {"memory": "1"}}, "memory"),
    ({"limits": {"memory": "64T"}}, "memory"),
    ({"limits": {"memory": "12Q"}}, "memory"),
    ({"limits": {"memory": -1}}, "memory"),
    ({"limits": {"memory": 1.5e300}}, "memory"),
    ({"limits": {"cpus": 0.001}}, "cpus"),
    ({"limits": {"cpus": "many"}}, "cpus"),
    ({"limits": {"pids": 1}}, "pids"),
    ({"limits": {"pids": 4000000000}}, "pids"),
    ({"limits": {"disk": 1}}, "disk"),
    ({"limits": {"inodes": 1}}, "inodes"),
    ({"limits": {"nofile": 1}}, "nofile"),
    ({"limits": {"speed": 1}}, "speed"),
    ({"limits": []}, "limits"),
    ({"template": 5}, "template"),
    ({"profile": "open"}, "profile"),
    ({"env": {"A=B": "c"}}, "env"),
    ({"env": {"A": 5}}, "env"),
    ({"env": {"": "x"}}, "env"),
    ({"env": "A=B"}, "env"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": {"a": {"b": "c"}}}, "metadata"),
    ({"mounts": [{"source": "etc", "target": "/mnt"}]}, "mounts"),
    ({"mounts": [{"source": "/etc", "target": "mnt", "mode": "ro"}]}, "mounts"),
    ({"mounts": [{"source": "/etc", "target": "/mnt", "mode": "xx"}]}, "mode"),
    ({"mounts": {}}, "mounts"),
    ({"timeout": "soon"}, "timeout"),
    ({"timeout": -5}, "timeout"),
    ({"timeout": "8d"}, "timeout"),
    ({"idle_timeout": "x"}, "idle_timeout"),
    ({"on_timeout": "sleep"}, "on_timeout"),
    ({"on_idle": 1}, "on_idle"),
    ({"rules": {"writable": ["home"]}}, "writable"),
    ({"rules": {"writable": "/home"}}, "writable"),
    ({"rules": {"readable": []}}, "readable"),
    ({"colour": "red"}, "colour"),
]


def test_bad_specs(server):
    def sessions():
        return server.want(200, "GET", "/v1/node")["sessions"]

    wait_for(lambda: sessions()["ending"] == 0, 15, "the end of those of the other tests")
    before = sessions()
    wrong = []
    for spec, name in BAD:
        try:
            error = server.refused(400, "invalid", "POST", "/v1/sessions", spec, name)
            equal((error["fault"], error["session_id"]), ("user", None), f"of {spec}")
        except Failed as e:
            wrong.append(str(e))
    check(not wrong, "\n".join(wrong))
    equal(sessions(), before, "sessions of refused requests")


def test_bad_bodies(server):
    for body in (b"", b"{", b"[]", b'"x"', b'{"env":{"A":"1","A":"2"}}', b'{"metadata":{"a":"\xff"}}', b"{} {}", b"null"):
        status = server.request("POST", "/v1/sessions", body, headers={"Content-Type": "application/json"})[0]
        equal(status, 201 if body == b"" else 400, f"{body}")
    server.refused(400, "invalid", "POST", "/v1/sessions", b"[" * 100000)
    status, headers, data = server.request("POST", "/v1/sessions", b'{"metadata":{"a":"' + b"x" * (2 << 20) + b'"}}')
    equal((status, data["error"]["code"]), (413, "too_large"))
    has(headers, "x-request-id", "headers")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "nonesuch"}, "nonesuch")
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"level": "nosuch"}, "level")
    mounts = {"mounts": [{"source": "/etc", "target": "/mnt"}]}
    if differs("mounts"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", mounts, "mounts: not possible at level microvm")
    else:
        server.refused(403, "forbidden", "POST", "/v1/sessions", mounts, "mount", "/etc")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"env": {"A": "x\0y"}})
    # A maximum names its setting.
    server.refused(400, "invalid", "POST", "/v1/sessions", {"timeout": "99d"}, "timeout", "session_timeout_max")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"network": {"allow": ["x"]}}, "network: unknown member 'allow'")
    server.refused(400, "invalid", "POST", "/v1/sessions", {"memory": 1}, "memory: unknown member; did you mean limits.memory?")
    server.refused(400, "invalid", "GET", "/v1/sessions?stat=running", None, "parameter stat: unknown; did you mean state?")


def test_no_key(server):
    for headers in ({}, {"X-API-Key": "e2b_" + "0" * 40}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eA=="}):
        server.refused(401, "unauthorized", "GET", "/v1/sessions", headers=headers, key=None)
    server.want(200, "GET", "/v1/sessions", headers={"Authorization": f"Bearer {server.key}"}, key=None)
    read = server.want(201, "POST", "/v1/keys", {"name": "r", "scopes": ["read"]})["key"]
    server.refused(403, "forbidden", "POST", "/v1/sessions", {}, key=read)
    server.want(200, "GET", "/v1/sessions", key=read)


def pages(server, query, key=""):
    got, after = [], None
    while True:
        page = server.want(200, "GET", f"/v1/sessions?{query}" + (f"&after={after}" if after else ""), key=key)
        got.append([s["id"] for s in page["sessions"]])
        after = page["next"]
        if after is None:
            return got


def test_lists(server):
    tenant, key = server.tenant("lists")
    ids = []
    for i in range(7):
        ids.append(server.create(key=key, metadata={"n": str(i), "odd": str(i % 2)})["id"])
        time.sleep(0.002)  # sessions of one millisecond have any order, always the same
    equal(pages(server, "limit=3", key), [ids[6:3:-1], ids[3:0:-1], ids[:1]], "newest first, in threes")
    equal(pages(server, "limit=3&order=asc", key), [ids[:3], ids[3:6], ids[6:]], "oldest first")
    equal(pages(server, "limit=7", key)[0], ids[::-1], "a page that is just full")
    equal(pages(server, "metadata.odd=1&order=asc", key), [ids[1::2]], "by metadata")
    equal(pages(server, "metadata.odd=1&metadata.n=3", key), [[ids[3]]], "by two")
    equal(pages(server, "metadata[odd]=1&metadata%5Bn%5D=3", key), [[ids[3]]], "in OpenAPI's form")
    equal(pages(server, "metadata.odd=2", key), [[]])
    equal(pages(server, f"template={TEMPLATE}&order=asc", key), [ids])
    equal(pages(server, "template=other", key), [[]])
    server.delete(ids[2], key)
    server.reaches(ids[2], "ended", key=key)
    equal(pages(server, "state=ended", key), [[ids[2]]])
    equal(pages(server, "state=ended&ended=false", key), [[]])
    equal(pages(server, "state=stopped", key), [[]], "one that has ended does not rest")
    equal(pages(server, "order=asc", key), [ids[:2] + ids[3:]], "without those that have ended, unless they are asked for")
    equal(pages(server, "ended=any&order=asc", key), [ids])
    equal(pages(server, "state=ended,running&order=asc", key), [ids])
    equal(pages(server, "state=running,paused&order=asc", key), [ids[:2] + ids[3:]])
    equal(pages(server, "ended=false&order=asc", key), [ids[:2] + ids[3:]])
    equal(pages(server, "ended=true", key), [[ids[2]]])
    for query in ("limit=0", "limit=x", "state=dead", "ended=maybe", "order=up", "after=%00", "colour=red", "metadata=a", "metadata[a=b", "&".join(f"metadata[k{i}]=v" for i in range(9))):
        server.refused(400, "invalid", "GET", f"/v1/sessions?{query}", key=key)
    # Paging while sessions come: the next page starts where the last ended.
    first = server.want(200, "GET", "/v1/sessions?limit=3&ended=any", key=key)
    new = server.create(key=key)["id"]
    rest = server.want(200, "GET", f"/v1/sessions?limit=100&ended=any&after={first['next']}", key=key)
    both = [s["id"] for s in first["sessions"] + rest["sessions"]]
    check(len(set(both)) == 7 and new not in both, f"pages {both}")
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def test_get_and_delete(server):
    s = server.create()["id"]
    server.delete(s)
    server.delete(s)
    ended = server.reaches(s, "ended")
    equal((ended["reason"], ended["executions_running"]), ("deleted", 0))
    check(TIME.fullmatch(ended["ended_at"]), ended["ended_at"])
    server.delete(s)
    error = server.refused(410, "gone", "POST", f"/v1/sessions/{s}/executions", {"command": "true"}, "deleted")
    equal(error["session_id"], s)
    for odd in ("iaaaaaaaaaaaaaaaa", "x", "..", "%2e%2e", "i" * 300, "i%00"):
        for method in ("GET", "DELETE"):
            status, _, data = server.request(method, f"/v1/sessions/{odd}")
            equal((status, data["error"]["code"]), (404, "not_found"), f"{method} {odd}")


def test_other_tenants_see_nothing(server):
    tenant, key = server.tenant("other")
    mine = server.create()["id"]
    x = server.run(mine, "true")["id"]
    for method, path, body in (
        ("GET", "", None), ("DELETE", "", None), ("POST", "/pause", None), ("POST", "/resume", None),
        ("POST", "/timeout", {"timeout": 5}), ("POST", "/executions", {"command": "true"}), ("GET", "/executions", None),
        ("GET", f"/executions/{x}", None), ("GET", f"/executions/{x}/output", None), ("GET", f"/executions/{x}/events", None),
        ("GET", "/files?path=/etc/hostname", None), ("PUT", "/files?path=/tmp/a", b"x"), ("GET", "/diff", None),
        ("GET", "/metrics", None), ("GET", "/events", None), ("GET", "/processes", None), ("GET", "/files/list?path=/", None),
    ):  # fmt: skip
        theirs = server.request(method, f"/v1/sessions/{mine}{path}", body, key=key)
        none = server.request(method, f"/v1/sessions/iaaaaaaaaaaaaaaaa{path}", body, key=key)
        equal(theirs[0], 404, f"{method} {path}")
        for got in (theirs, none):
            got[2]["error"].pop("request_id")
        equal(
            str(theirs[2]).replace(mine, "ID"), str(none[2]).replace("iaaaaaaaaaaaaaaaa", "ID"), f"{method} {path}, with none"
        )
    equal(server.want(200, "GET", "/v1/sessions", key=key)["sessions"], [])
    events = server.want(200, "GET", "/v1/events", key=key)["events"]
    check(not any(e["session_id"] or mine in str(e) for e in events), f"events of another tenant: {events}")
    equal(server.get(mine)["state"], "running")
    server.refused(403, "forbidden", "GET", "/v1/tenants", key=key)
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")
    server.refused(401, "unauthorized", "GET", "/v1/sessions", key=key)


def test_reason_expired(server):
    s = server.create(timeout="1s")
    x = server.spawn(s["id"], "sleep 100")
    begun = time.monotonic()
    ended = server.reaches(s["id"], "ended", 8)
    equal(ended["reason"], "expired")
    check(0.7 < time.monotonic() - begun < 10, "it lived about a second")
    x = server.execution(x)
    equal((x["state"], x["limit"] or x["error"]["code"]), ("killed", "killed"), "its execution")


def test_reason_idle(server):
    s = server.create(idle_timeout="700ms")
    equal(s["idle_timeout_ms"], 700)
    server.run(s["id"], "sleep 1.2")  # an execution is no idleness
    equal(server.get(s["id"])["state"], "running")
    ended = server.reaches(s["id"], "ended", 6)
    equal(ended["reason"], "expired")
    has(ended["detail"], "idle")


def out_of_memory_ends_it(server):
    """Of gVisor the engine may be killed; in a virtual machine only programs are, whatever they do."""
    s = server.create(limits={"memory": "128M"})
    hog = ["/usr/bin/python3", "-c", "x = b'x' * (400 << 20)"]
    if LEVEL == "gvisor":
        server.spawn(s["id"], hog)
        equal(server.reaches(s["id"], "ended", 30)["reason"], "oom")
        return
    many = [server.spawn(s["id"], hog, user="root") for _ in range(3)]
    for x in many:
        done = server.ended(x, 60)
        equal((done["limit"], done["signal"]), ("memory", 9))
    equal((server.get(s["id"])["state"], server.get(s["id"])["guest"]), ("running", "running"))
    equal(server.run(s["id"], "echo well")["stdout"], "well\n")


@instead("memory", out_of_memory_ends_it)
def test_reason_oom(server):
    s = server.create(limits={"memory": "32M"})
    x = server.run(s["id"], ["/usr/bin/python3", "-c", "x = b'x' * (100 << 20)"])
    equal((x["limit"], x["signal"]), ("memory", 9))
    equal(server.get(s["id"])["state"], "running", "a program out of memory is not its session's end")
    # What kills the cell itself: its memory is all gone, and its PID 1 is killed with the rest.
    server.spawn(s["id"], ["/usr/bin/python3", "-c", "import os, time; time.sleep(0.5); os.fork(); x = b'x' * (100 << 20)"])
    pid = server.cell_pids(s["id"])[0]
    # Not before the program has a memory of its own, or it would be set for both.
    wait_for(lambda: "python3" in map(comm, server.cell_pids(s["id"])), 15, "the program")
    with open(f"/proc/{pid}/oom_score_adj", "w") as f:
        f.write("1000")
    ended = server.reaches(s["id"], "ended")
    equal(ended["reason"], "oom")


def test_reason_killed(server):
    s = server.create()
    x = server.spawn(s["id"], "echo before; sleep 1000")
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 7, 15, "output")
    pid = server.cell_pids(s["id"])[0]
    equal(comm(pid), "cordon-init" if LEVEL == "container" else "cordon-shim")
    os.kill(pid, signal.SIGKILL)
    ended = server.reaches(s["id"], "ended")
    equal(ended["reason"], "killed")
    got = server.execution(x)
    equal((got["state"], got["stdout_bytes"]), ("killed", 7))
    output = server.want(200, "GET", f"/v1/sessions/{s['id']}/executions/{x['id']}/output?stream=stdout")
    equal(output, b"before\n", "output of a killed cell")
    server.refused(410, "gone", "POST", f"/v1/sessions/{s['id']}/executions", {"command": "true"}, "killed")


def test_timeout_extension(server):
    s = server.create(timeout="1s")["id"]
    later = server.want(200, "POST", f"/v1/sessions/{s}/timeout", {"timeout": "1h"})
    equal(later["timeout_ms"], 3600000)
    stays(lambda: server.get(s)["state"] == "running", 1.5, "the session after its first deadline")
    server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/timeout", {"timeout": "100d"}, "timeout")
    server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/timeout", {}, "timeout")
    server.want(200, "POST", f"/v1/sessions/{s}/timeout", {"timeout": "500ms"})
    equal(server.reaches(s, "ended")["reason"], "expired")


LOOK = (
    "hostname; cat /etc/machine-id; cat /proc/sys/kernel/random/boot_id; cat /proc/sys/kernel/random/uuid; "
    "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'"
)
SAME = (
    "cd /; id; pwd; env | grep -v ^HOSTNAME= | sort; ls -la --time-style=+ /tmp /home /home/user /root 2>&1; ulimit -a; mount | wc -l; "
    "ps axo comm; ls /proc/self/fd; cat /proc/self/oom_score_adj /proc/1/oom_score_adj; cat /proc/self/cgroup | sed 's/cordon-[a-z0-9]*//'; "
    "df --output=size,itotal /tmp; stat -c %a%U / /tmp /etc/hostname /etc/machine-id; cat /proc/net/dev | cut -d: -f1; "
    "grep -E 'Cap|NoNew|Seccomp' /proc/self/status; head -1 /etc/hosts"
)


def pool(server):
    return server.want(200, "GET", "/v1/node")["pool"]


def test_pool_and_identity(server):
    if LEVEL != "container":
        server.delete(server.create()["id"])  # the pool of started cells begins with the first session
    wait_for(lambda: pool(server)["ready"] >= 2, 10, "a filled pool")
    before = pool(server)
    hit = server.create()
    miss = server.create(limits={"pids": 511})
    after = pool(server)
    equal(after["hits"] - before["hits"], 1, "hits")
    equal(after["misses"] - before["misses"], 1, "misses")
    a, b = (server.run(s["id"], LOOK)["stdout"].split("\n") for s in (hit, miss))
    for name, mine, other in zip(("hostname", "machine-id", "boot_id", "uuid", "random"), a, b):
        check(mine and other, name)
        check(mine != other, f"{name} is the same in two sessions: {mine}")
    with open("/etc/machine-id") as f:
        host = f.read().strip()
    check(host not in (a[1], b[1]) and re.fullmatch("[0-9a-f]{32}", a[1]), f"machine-id {a[1]}")
    check(hit["id"] in a[0] or a[0] != os.uname().nodename, f"hostname {a[0]}")
    one, two = (
        server.run(s["id"], SAME)["stdout"].replace(look[0], "NAME").replace("511", "512") for s, look in ((hit, a), (miss, b))
    )
    # The limit of locks has no effect: it is the mark of a tree of programs, and of the pool a guest has run one before.
    differing = [pair for pair in itertools.zip_longest(one.split("\n"), two.split("\n")) if pair[0] != pair[1] and not pair[0].startswith("locks ")]
    equal(differing, [], "what can be seen in a cell of the pool and in a fresh one")


def test_many_at_once(server):
    made, errors = [], []

    def one():
        try:
            s = server.create()
            equal(server.run(s["id"], "echo $((6 * 7))")["stdout"], "42\n")
            made.append(s["id"])
        except Exception as e:
            errors.append(repr(e))

    threads = [threading.Thread(target=one) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not errors, errors[:3])
    equal(len(set(made)), 24, "ids")
    for s in made:
        server.delete(s)
    for s in made:
        server.reaches(s, "ended")



def test_ids_with_the_name_of_a_node():
    """The longest ids there can be: nothing on the way assumes a length or a first letter."""
    with Server(node_name="x9876543210abcdefghijk", pool_size=2) as server:
        ids = [server.create()["id"] for _ in range(4)]  # from the pool, and beyond it
        for i in ids:
            check(i.startswith("ix9876543210abcdefghijk") and len(i) == 39, i)
            equal(server.run(i, "hostname; cat /etc/machine-id | wc -c")["stdout"], f"{i}\n33\n")
        equal(sorted(s["id"] for s in server.want(200, "GET", "/v1/sessions")["sessions"]), sorted(ids))
        first = server.want(200, "GET", "/v1/sessions?limit=2")
        rest = server.want(200, "GET", f"/v1/sessions?limit=2&after={first['next']}")
        equal(len({s["id"] for s in first["sessions"] + rest["sessions"]}), 4, "over two pages")
        status, _, _ = server.request("GET", "/health", headers={"Host": f"49983-{ids[0]}.localhost"}, raw=True)
        equal(status, 204, "by host name")
        server.kill("cordond")
        server.wait_ready()
        for i in ids:
            equal(server.run(i, "echo again")["stdout"], "again\n")
            server.delete(i)
        server.refused(404, "not_found", "GET", "/v1/sessions/" + "a" * 40)


def test_change(server):
    """Metadata, times and actions change together or not at all, are there after a restart, and are told as an event."""
    s = server.create(metadata={"a": "1"}, timeout="10m")
    where = f"/v1/sessions/{s['id']}"
    got = server.want(200, "PATCH", where, {"metadata": {"b": "2"}, "timeout": "20m", "idle_timeout": "5m", "on_timeout": "pause_files"})
    equal((got["metadata"], got["timeout_ms"], got["idle_timeout_ms"], got["on_timeout"], got["on_idle"]),
          ({"b": "2"}, 1200000, 300000, "pause_files", s["on_idle"]))
    check(got["expires_at"] > s["expires_at"], "counted from now")
    equal([r["id"] for r in server.want(200, "GET", "/v1/sessions?metadata[b]=2")["sessions"]], [s["id"]])
    equal(server.want(200, "GET", "/v1/sessions?metadata[a]=1")["sessions"], [])
    for body, part in (({}, "needed"), ({"metadata": {"c": 3}}, "metadata"), ({"limits": {"memory": "1G"}}, "snapshot or fork"),
                       ({"network": "pypi"}, "PUT /v1/sessions"), ({"env": {"A": "1"}}, "env: cannot be changed"), ({"nonsense": 1}, "nonsense"),
                       ({"metadata": {"d": "4"}, "on_idle": "sleep"}, "on_idle"), ({"metadata": {"d": "4"}, "timeout": "9999h"}, "timeout: at most"),
                       ({"metadata": {f"m{i}": "x" for i in range(65)}}, "at most 64")):
        server.refused(400, "invalid", "PATCH", where, body, part)
    server.refused(404, "not_found", "PATCH", "/v1/sessions/inone", {"timeout": 60})
    server.restart()
    now = server.get(s["id"])
    equal((now["metadata"], now["timeout_ms"], now["idle_timeout_ms"], now["on_timeout"]), ({"b": "2"}, 1200000, 300000, "pause_files"))
    events = [e["data"] for e in server.want(200, "GET", where + "/events")["events"] if e["type"] == "session.changed"]
    equal(events, [{"members": "metadata timeout idle_timeout on_timeout"}])
    server.delete(s["id"])
    server.refused(410, "gone", "PATCH", where, {"timeout": 60})


if __name__ == "__main__":
    run_tests(globals(), pool_size=4, session_timeout_max="7d")
