#!/usr/bin/python3 -B
"""Every way out of a session (doc/ways-out.md) with the value of a secret that the session was given: each row of the
document has a function here, and what the function sees is what the row says.

    test_ways_out.py CORDON [name ...]
"""
import base64
import io
import json
import os
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, has, run_tests, wait_for  # noqa: E402
from mcp_client import Client  # noqa: E402
from process_stream import Box  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "ways-out.md")
VALUE = "v4lue-of-a.secret-0123456789"
STARS = "*" * len(VALUE)
ELSEWHERE = {"mcp_server", "run_code", "network", "answers", "cache", "memory", "build", "port", "network_log"}  # or no bytes of this program's reach


class Bed:
    """A session that was given VALUE in a variable, and has files with it."""

    def __init__(self, server):
        self.server = server
        server.want(201, "POST", "/v1/secrets", {"name": "way", "value": VALUE, "ways": ["env"]})
        self.secrets = [{"name": "way", "as": "env", "env": "WAY"}]
        self.id = server.create(secrets=self.secrets, timeout="1h")["id"]
        self.path = f"/v1/sessions/{self.id}"
        self.read_key = server.want(201, "POST", "/v1/keys", {"scopes": ["read"]})["key"]
        self.run('mkdir a d; printf "a %s b" "$WAY" > a/f; printf "a %s b" "$WAY" > d/f; touch "d/n-$WAY"')

    def run(self, command, session="", **more):
        return self.server.run(session or self.id, command, **more)

    def close(self):
        self.server.delete(self.id)
        self.server.want(204, "DELETE", "/v1/secrets/way")


def way_output(b):
    got = b.run('echo "$WAY"; echo "$WAY" >&2')
    equal((got["stdout"], got["stderr"]), (STARS + "\n", STARS + "\n"))
    _, _, events = b.server.request("GET", f"{b.path}/executions/{got['id']}/output", raw=True)
    check(VALUE.encode() not in events and STARS.encode() in events, "the log")
    folder = os.path.join(b.server.state, "output")
    equal(subprocess.run(["grep", "-rlF", VALUE, folder], stdout=subprocess.PIPE, text=True, check=False).stdout, "", "on disk")


def way_terminal(b):
    x = b.server.spawn(b.id, 'echo "$WAY"', tty={"rows": 24, "cols": 80})
    b.server.ended(x)
    _, _, data = b.server.request("GET", f"{b.path}/executions/{x['id']}/output", raw=True)
    check(VALUE.encode() not in data and STARS.encode() in data, f"{data}")


def way_record(b):
    got = b.run(["/no/such/program", "x"])
    check(VALUE not in json.dumps(got), f"{got}")
    got = b.run(f"echo {VALUE}")
    check(VALUE not in got["stdout"] and VALUE not in json.dumps(b.server.want(200, "GET", f"{b.path}/executions/{got['id']}")), "the record")


def way_file(b):
    at = f"{b.path}/files?path=d/f"
    equal(b.server.want(200, "GET", at), f"a {VALUE} b".encode(), "a key that may run code")
    equal(b.server.want(200, "GET", at, key=b.read_key), f"a {STARS} b".encode())


def way_archive(b):
    for key, want in (("", VALUE), (b.read_key, STARS)):
        data = b.server.want(200, "GET", f"{b.path}/files/tar?path=a", key=key)
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            found = [t.extractfile(m).read() for m in t if m.name.endswith("f")]
        equal(found, [f"a {want} b".encode()])


def way_names(b):
    has(json.dumps(b.server.want(200, "GET", f"{b.path}/files/list?path=d")), VALUE, "a name as it is")


def way_diff(b):
    has(json.dumps(b.server.want(200, "GET", f"{b.path}/diff")), VALUE, "a name as it is")


def way_kept_diff(b):
    s = b.server.create(secrets=b.secrets, keep_diff=True)["id"]
    b.run('touch "name-$WAY" "coded-$(printf %s "$WAY" | base64)"', s)
    b.server.delete(s)
    b.server.reaches(s, "stopped", 40)
    text = json.dumps(b.server.want(200, "GET", f"/v1/sessions/{s}/diff"))
    check(STARS in text and VALUE not in text and base64.b64encode(VALUE.encode()).decode()[:30] not in text, text)


def way_file_error(b):
    status, _, data = b.server.request("GET", f"{b.path}/files?path=/no/{VALUE}")
    equal(status, 404)
    check(VALUE in json.dumps(data) or STARS in json.dumps(data) or "no" in json.dumps(data), f"{data}")


def way_mcp_run(b):
    c = Client(b.server)
    got = c.call("run", session_id=b.id, command='echo "$WAY"')
    equal(got["stdout"], STARS + "\n")
    check(VALUE not in json.dumps(c.call("read_output", execution_id=got["execution_id"])), "read_output")
    uri = f"cordon://sessions/{b.id}/executions/{got['execution_id']}/output"
    check(VALUE not in json.dumps(c.result("resources/read", {"uri": uri})), "the resource")


def way_mcp_file(b):
    c = Client(b.server)
    equal(c.call("read_file", session_id=b.id, path="d/f")["text"], f"a {STARS} b")
    for offset in (1, 3, 10):
        check(VALUE[10:] not in c.call("read_file", session_id=b.id, path="d/f", offset=offset)["text"], f"from {offset}")
    check(VALUE not in json.dumps(c.result("resources/read", {"uri": f"cordon://sessions/{b.id}/files/home/user/d/f"})), "the resource")


def way_mcp_names(b):
    c = Client(b.server)
    for got in (c.call("list_files", session_id=b.id, depth=4), c.call("get_changes", session_id=b.id),
                c.call("run", session_id=b.id, command='touch "d/m-$WAY" "x-$(printf %s "$WAY" | base64)"', report_changes=True)):
        text = json.dumps(got)
        check(VALUE not in text and base64.b64encode(VALUE.encode()).decode()[:30] not in text, text)


def way_process(b):
    box = Box.__new__(Box)  # E2B's clients connect to any session of the tenant
    box.server, box.id = b.server, b.id
    box.token = b.server.want(200, "POST", f"/v2/sandboxes/{b.id}/connect", {"timeout": 3600})["envdAccessToken"]
    out, err, _, _ = box.run('echo "$WAY"; echo "$WAY" >&2')
    equal((out, err), ((STARS + "\n").encode(), (STARS + "\n").encode()))


def refuse_capture(b, session, path, *parts):
    b.server.refused(409, "secrets_in_files", "POST", f"/v1/sessions/{session}{path}", {}, *parts)


def none_stored(b):
    wait_for(lambda: not b.server.want(200, "GET", "/v1/layers")["layers"], 60, "no layer stays")
    found = subprocess.run(["grep", "-rlF", VALUE, os.path.join(b.server.state, "storage")], stdout=subprocess.PIPE, text=True, check=False)
    equal(found.stdout, "", "nor a file with the value")


def way_snapshot(b):
    """In a content, also behind much else and across pieces; in a name; in the target of a link; in an attribute; encoded."""
    refuse_capture(b, b.id, "/snapshots", "/home/user/", "captured_secrets")
    hides = {"content": 'head -c 3000001 /dev/zero > z; printf "x%sx" "$WAY" >> z',
             "name": 'mkdir -p "q-$WAY"', "link": 'ln -s "/$WAY" l', "encoded": 'printf %s "$WAY" | base64 > e',
             "json": 'python3 -c "import json, os; open(\'j\', \'w\').write(json.dumps(json.dumps(os.environ[\'WAY\'] + chr(10))))"'}
    for what, command in hides.items():
        s = b.server.create(secrets=b.secrets)["id"]
        b.server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})  # before it has any
        made = b.run(command, s)
        equal(made["exit_code"], 0, f"{what}: {made}")
        status, _, data = b.server.request("POST", f"/v1/sessions/{s}/snapshots", {})
        equal((status, data["error"]["code"]), (409, "secrets_in_files"), f"{what}: {data}")
        check(VALUE not in json.dumps(data), f"{what}: {data}")
        equal(b.run("echo on", s)["stdout"], "on\n", "the session goes on")
        b.server.delete(s)
    for shot in b.server.want(200, "GET", "/v1/snapshots")["snapshots"]:
        b.server.want(204, "DELETE", "/v1/snapshots/" + shot["id"].replace(":", "%3A"))
    none_stored(b)


def way_fork(b):
    forked = b.server.want(201, "POST", f"{b.path}/fork", {"count": 1})["sessions"][0]["id"]  # has the secret of its source
    equal(b.run("cat d/f", forked)["stdout"], f"a {STARS} b", "masked in the fork")
    refuse_capture(b, forked, "/snapshots", "cannot be searched")  # what came from its source
    b.server.delete(forked)
    s = b.server.create()["id"]
    b.run('printf %s "$ONCE" > once', s, secrets=[{"name": "way", "as": "env", "env": "ONCE"}])
    refuse_capture(b, s, "/fork", "/home/user/once")
    refuse_capture(b, s, "/snapshots", "/home/user/once")
    b.server.delete(s)
    none_stored(b)


def way_pause(b):
    s = b.server.create(secrets=b.secrets)["id"]
    b.run('printf %s "$WAY" > f', s)
    b.server.want(200, "POST", f"/v1/sessions/{s}/pause", {"memory": False})
    equal(b.run("cat f", s)["stdout"], STARS, "after the pause")
    refuse_capture(b, s, "/snapshots", "cannot be searched")  # what the pause wrote down
    b.server.delete(s)
    s = b.server.create()["id"]
    b.run('printf %s "$ONCE" > once', s, secrets=[{"name": "way", "as": "env", "env": "ONCE"}])
    b.server.want(200, "POST", f"/v1/sessions/{s}/pause", {"memory": False})
    equal(b.run("echo on", s)["stdout"], "on\n", "resumed")
    refuse_capture(b, s, "/fork", "cannot be searched")
    b.server.delete(s)


def way_volume(b):
    has(open(DOCUMENT).read(), "`volume`", "documented as shared")


def way_events(b):
    b.run('echo "$WAY" >&2; exit 3')
    check(VALUE not in json.dumps(b.server.want(200, "GET", "/v1/events?limit=1000")), "events")


def way_log(b):
    check(VALUE not in b.server.log(), "the log of the server")


def test_every_row_has_a_function(server):
    rows = set(re.findall(r"^\| `(\w+)` \|", open(DOCUMENT).read(), re.M))
    ours = {n[4:] for n in globals() if n.startswith("way_")}
    equal((rows - ours - ELSEWHERE, ours - rows, ELSEWHERE - rows), (set(), set(), set()), "rows without a test, tests without a row")


def test_each_way(server):
    b, failed = Bed(server), []
    for name, way in [(n, f) for n, f in globals().items() if n.startswith("way_")]:
        try:
            way(b)
        except Exception as e:  # all rows are tried
            failed.append(f"{name[4:]}: {e}")
    b.close()
    check(not failed, "\n# ".join(failed))


def test_captures_can_be_allowed(_):
    with Server(captured_secrets="allow") as server:
        b = Bed(server)
        shot = server.want(201, "POST", f"{b.path}/snapshots", {})
        s = server.create(template=shot["id"])["id"]
        equal(b.run("stat -c %s d/f", s)["stdout"], f"{len(VALUE) + 4}\n")
        server.delete(s)
        b.close()


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
