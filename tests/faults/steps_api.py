"""steps_api.py - every route of the native interface, with what must hold when a call behind it fails.

A step is a generator: what it does before the first yield is made ready without failing calls, between the two yields
one call fails, and behind the second it is compared with what is there. What was acknowledged must be there; an answer
that is whole must be right."""
import base64
import hashlib
import io
import json
import os
import struct
import sys
import tarfile
import time

from client import Finding

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from tree import make_tree  # noqa: E402

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
from fake_registry import Registry  # noqa: E402
from registry_images import Image, layer  # noqa: E402

STEPS = []


def step(function):
    STEPS.append(function)
    return function


def same(got, want, what):
    if got != want:
        raise Finding(f"{what}: {str(got)[:300]}, want {str(want)[:300]}")


# --- the server -------------------------------------------------------------------------------------


@step
def plain(w):
    yield
    for path in ("/", "/healthz", "/readyz", "/metrics", "/v1/node", "/v1/templates", "/v1/limits", "/v1/usage"):
        w.good(w.ask("GET", path), 200)
    yield


@step
def events_of_all(w):
    yield
    answer = w.ask("GET", "/v1/events?limit=5")
    yield
    if w.good(answer, 200) and len(answer.json["events"]) > 5:
        raise Finding("more events than asked for")


# --- sessions ---------------------------------------------------------------------------------------


@step
def create(w):
    name = w.fresh("s")
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "metadata": {"step": name}, "env": {"A": "b"}})
    yield
    found = w.server.want(200, "GET", f"/v1/sessions?metadata.step={name}&state=creating,running")["sessions"]
    if w.good(answer, 201):
        same([s["id"] for s in found], [answer.json["id"]], "the session that was acknowledged")
        same(w.server.run(found[0]["id"], "echo $A")["stdout"], "b\n", "in the new session")
    elif found and answer.status != 0 and answer.whole:
        gone = w.settle(lambda: not w.server.want(200, "GET", f"/v1/sessions?metadata.step={name}&state=running")["sessions"])
        if not gone:
            raise Finding(f"refused with {answer!r}, and it is there: {found}")
    for s in found:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")


@step
def create_without_pool(w):
    """With its own limits it is made by the keeper."""
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "limits": {"memory": "48M"}})
    yield
    if w.good(answer, 201):
        same(w.server.get(answer.json["id"])["state"], "running", "state")
        w.server.delete(answer.json["id"])
        w.server.reaches(answer.json["id"], "stopped")


@step
def create_with_disk(w):
    """A disk is made, put to rest, used again and removed."""
    name = w.fresh("disk")
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "storage": "disk", "limits": {"disk": "32M"}, "metadata": {"step": name}})
    if answer.status == 201:
        path = f"/v1/sessions/{answer.json['id']}"
        w.ask("POST", path + "/executions?wait=true", {"command": "echo kept >a; sync"})
        w.ask("POST", path + "/pause", {"memory": False})
        w.ask("POST", path + "/resume")
    yield
    found = w.server.want(200, "GET", f"/v1/sessions?metadata.step={name}")["sessions"]
    if w.good(answer, 201):
        same([s["id"] for s in found], [answer.json["id"]], "the session that was acknowledged")
    for s in found:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")
        w.server.reaches(s["id"], "stopped", 40)
    folder = os.path.join(w.server.state, "storage", "disks")
    if not w.settle(lambda: not os.listdir(folder)):
        raise Finding(f"disks are left: {os.listdir(folder)}")


@step
def create_with_secret(w):
    w.server.request("POST", "/v1/secrets", {"name": "brought", "value": "hunter2SECRETVALUE"})
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "secrets": [{"name": "brought", "as": "file"}]})
    yield
    if w.good(answer, 201):
        session = answer.json["id"]
        if w.server.get(session)["state"] == "running":
            same(w.server.run(session, "wc -c < /run/secrets/brought; true")["exit_code"], 0, "the secret's file")
        w.server.delete(session)


@step
def show(w):
    yield
    answers = [w.ask("GET", "/v1/sessions?limit=100&state=running"), w.in_session("GET", ""), w.in_session("GET", "/metrics")]
    answers += [w.in_session("GET", "/events"), w.in_session("GET", "/network"), w.in_session("GET", "/network/log")]
    yield
    for a in answers:
        w.good(a, 200)
    if answers[0].whole and answers[0].status == 200:
        same(w.s in [s["id"] for s in answers[0].json["sessions"]], True, "the session in the list")


@step
def timeout(w):
    yield
    answer = w.in_session("POST", "/timeout", {"timeout": "50m"})
    yield
    now = w.server.get(w.s)
    if w.good(answer, 200):
        same(now["expires_at"], answer.json["expires_at"], "expires_at")
    w.server.request("POST", f"/v1/sessions/{w.s}/timeout", {"timeout": "1h"})


@step
def pause_and_resume(w):
    session = w.server.create(timeout="1h")["id"]
    yield
    paused = w.ask("POST", f"/v1/sessions/{session}/pause")
    resumed = w.ask("POST", f"/v1/sessions/{session}/resume") if paused.status == 200 else None
    yield
    if w.good(paused, 200) and w.good(resumed, 200):
        same(w.server.run(session, "echo on")["stdout"], "on\n", "after resume")
    w.server.delete(session)
    w.server.reaches(session, "stopped")


@step
def delete(w):
    session = w.server.create(timeout="1h")["id"]
    x = w.server.spawn(session, "sleep 1000")
    yield
    answer = w.ask("DELETE", f"/v1/sessions/{session}")
    yield
    if w.good(answer, 204):
        same(w.server.reaches(session, "stopped")["reason"], "deleted", "reason")
        rows = w.server.want(200, "GET", "/v1/sessions?limit=1000&state=running,creating,paused")["sessions"]
        same(session in [r["id"] for r in rows], False, "in the list of those that run")
        same(bool(w.server.ended(x)["ended_at"]), True, "its execution has ended")
    w.server.request("DELETE", f"/v1/sessions/{session}")
    w.server.reaches(session, "stopped")


@step
def network_of_session(w):
    yield
    answer = w.in_session("PUT", "/network", {"version": 1, "rules": [{"host": "a.example.com"}]})
    yield
    if w.good(answer, 200):
        same("a.example.com" in str(w.server.want(200, "GET", f"/v1/sessions/{w.s}/network")), True, "the policy")
    w.server.request("PUT", f"/v1/sessions/{w.s}/network", "deny")


@step
def difference(w):
    yield
    answer = w.in_session("GET", "/diff")
    yield
    if w.good(answer, 200):
        same(b"fixed" in answer.data and b"tree/40" in answer.data, True, "the list of changes")


# --- executions -------------------------------------------------------------------------------------

TEXT = "".join(f"line {i}\n" for i in range(3000))
SAY = "seq -f 'line %g' 0 2999; echo end >&2; exit 3"


def check_output(w, x, out, err):
    """What of it was kept is right, and what was not is told."""
    row = w.server.ended(x)
    got = [
        w.server.want(200, "GET", f"/v1/sessions/{w.s}/executions/{x['id']}/output?stream={s}", raw=True)
        for s in ("stdout", "stderr")
    ]
    if row["state"] != "exited":
        return  # the failure ended it, and the record says so
    same(row["exit_code"], 3, "exit code")
    for have, want in zip(got, (out, err)):
        if have != want.encode() and not (row["output_truncated"] and want.encode().startswith(have)):
            raise Finding(f"output of {row}: {len(have)} bytes {have[:60]!r}, want {len(want)}")


@step
def execute(w):
    yield
    answer = w.in_session("POST", "/executions?wait=true", {"command": SAY, "timeout": "60s"})
    yield
    if w.good(answer, 200):
        x = answer.json
        if x["state"] == "exited" and not x["output_truncated"]:
            same((x["exit_code"], x["stdout"], x["stderr"]), (3, TEXT, "end\n"), "the answer")
        check_output(w, x, TEXT, "end\n")


@step
def execute_and_ask(w):
    yield
    answer = w.in_session("POST", "/executions", {"command": SAY})
    seen = []
    if answer.status == 202 and answer.whole:
        path = f"/executions/{answer.json['id']}"
        seen = [w.in_session("GET", path + "/events")]
        seen += [w.in_session("GET", p) for p in (path, "/executions?limit=10", path + "/output?stream=stdout")]
    yield
    if not w.good(answer, 202):
        return
    for a in seen:
        w.good(a, 200)
    check_output(w, answer.json, TEXT, "end\n")


@step
def input_to_execution(w):
    sent = os.urandom(200 << 10)
    yield
    started = w.in_session("POST", "/executions", {"command": "cat > typed; md5sum < typed", "stdin_stream": True})
    first = second = None
    if started.status == 202 and started.whole:
        path = f"/executions/{started.json['id']}"
        first = w.in_session("POST", path + "/input", sent)
        second = w.in_session("POST", path + "/input?eof=true", b"end") if first.status == 200 else None
    yield
    if not w.good(started, 202):
        return
    if w.good(first, 200) and second is not None and w.good(second, 200):
        row = w.server.ended(started.json)
        if row["state"] == "exited":
            got = w.server.want(200, "GET", f"/v1/sessions/{w.s}/files?path=typed", raw=True)
            same(hashlib.md5(got).digest(), hashlib.md5(sent + b"end").digest(), "what was typed")
        return
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{started.json['id']}")
    w.server.ended(started.json)


@step
def signal_execution(w):
    x = w.server.spawn(w.s, "trap 'exit 9' TERM; while :; do sleep 0.05; done")
    w.settle(lambda: w.server.execution(x)["state"] == "running")
    yield
    answer = w.in_session("POST", f"/executions/{x['id']}/signals", {"signal": "TERM"})
    yield
    w.good(answer, 200, 202, 204)
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


@step
def terminal(w):
    x = w.server.spawn(w.s, "read line; stty size", tty={"rows": 20, "cols": 30})
    w.settle(lambda: w.server.execution(x)["state"] == "running")
    yield
    answer = w.in_session("POST", f"/executions/{x['id']}/resize", {"rows": 33, "cols": 77})
    typed = w.in_session("POST", f"/executions/{x['id']}/input", b"go\n")
    yield
    if w.good(answer, 200, 204) and w.good(typed, 200):
        row = w.server.ended(x)
        out = w.server.want(200, "GET", f"/v1/sessions/{w.s}/executions/{x['id']}/output?stream=stdout", raw=True)
        same(b"33 77" in out or row["state"] != "exited" or row["output_truncated"], True, f"size of the terminal {out}")
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


@step
def kill_execution(w):
    x = w.server.spawn(w.s, "sleep 1000 & sleep 1000")
    yield
    answer = w.in_session("DELETE", f"/executions/{x['id']}")
    yield
    if w.good(answer, 200, 202, 204):
        w.server.ended(x)
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


@step
def attach(w):
    x = w.server.spawn(w.s, "cat", stdin_stream=True)
    w.settle(lambda: w.server.execution(x)["state"] == "running")
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers["Sec-WebSocket-Key"] = base64.b64encode(bytes(16)).decode()
    yield
    link = w.link("GET", f"/v1/sessions/{w.s}/executions/{x['id']}/attach", headers=headers)
    status = link.answer.status
    if status == 101:
        mask = bytes(4)
        frames = b"\x82" + struct.pack(">B", 0x80 | 5) + mask + b"typed"
        eof = b'{"type":"eof"}'
        frames += b"\x81" + struct.pack(">B", 0x80 | len(eof)) + mask + eof
        link.socket.sendall(frames)
        try:
            while True:
                link.more()
        except TimeoutError:
            raise Finding("attach: no end") from None
        except (EOFError, OSError):
            pass
    got = link.bytes
    link.close()
    yield
    row = w.server.execution(x)
    if status == 101 and row["ended_at"] and row["state"] == "exited" and not row["output_truncated"]:
        if b'"type":"exit' in got and b"typed" not in got and b'"type":"error"' not in got:
            raise Finding(f"attach: an end without the output: {got!r}")
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


@step
def processes(w):
    x = w.server.spawn(w.s, ["/bin/sleep", "1000"])
    w.settle(lambda: w.server.execution(x)["state"] == "running")
    yield
    listed = w.in_session("GET", "/processes")
    killed = None
    if listed.status == 200 and listed.whole:
        pids = [p["pid"] for p in listed.json["processes"] if "sleep" in str(p)]
        killed = w.in_session("DELETE", f"/processes/{pids[0]}") if pids else None
        if not pids:
            raise Finding(f"processes without the one that runs: {listed!r}")
    yield
    if w.good(listed, 200) and w.good(killed, 204):
        w.server.ended(x)
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


# --- files ------------------------------------------------------------------------------------------


def stat_of(w, path):
    status, _, data = w.server.request("GET", f"/v1/sessions/{w.s}/files/stat?path={path}")
    return data if status == 200 else None


def read_back(w, path):
    status, _, data = w.server.request("GET", f"/v1/sessions/{w.s}/files?path={path}", raw=True)
    return data if status == 200 else None


@step
def put_file(w):
    name, data = w.fresh(), os.urandom(150 << 10)
    yield
    answer = w.in_session("PUT", f"/files?path={name}", data)
    yield
    got = read_back(w, name)
    if w.good(answer, 200, 201, 204):
        same(hashlib.md5(got or b"").digest(), hashlib.md5(data).digest(), f"{name}, which was acknowledged")
    elif got not in (None, data):
        raise Finding(f"{answer!r}: {name} is neither whole nor absent: {len(got)} bytes")


@step
def get_file(w):
    yield
    answer, part = w.in_session("GET", "/files?path=fixed"), w.in_session("GET", "/files?path=fixed", headers={"Range": "bytes=10-99"})
    yield
    if w.good(answer, 200):
        same(hashlib.md5(answer.data).digest(), hashlib.md5(w.text).digest(), "the file's bytes")
    if w.good(part, 206):
        same(part.data, w.text[10:100], "the range")


@step
def look_at_files(w):
    yield
    answers = [w.in_session("GET", "/files/stat?path=fixed"), w.in_session("GET", "/files/list?path=tree")]
    yield
    if w.good(answers[0], 200):
        same(answers[0].json["size"], len(w.text), "size")
    if w.good(answers[1], 200):
        same(len(answers[1].json["entries"]), 40, "entries")


@step
def change_files(w):
    one, two = w.fresh("d"), w.fresh("d")
    yield
    made = w.in_session("POST", "/files/mkdir", {"path": one})
    moved = w.in_session("POST", "/files/move", {"from": one, "to": two}) if made.status in (200, 201, 204) else None
    gone = w.in_session("DELETE", f"/files?path={two}") if moved is not None and moved.status in (200, 204) else None
    yield
    if not w.good(made, 200, 201, 204):
        return
    if not w.good(moved, 200, 204):
        same(bool(stat_of(w, one)) or bool(stat_of(w, two)), True, "it is in one of two places")
        return
    if w.good(gone, 204):
        same((stat_of(w, one), stat_of(w, two)), (None, None), "it is gone")


@step
def get_tar(w):
    yield
    answer = w.in_session("GET", "/files/tar?path=tree")
    yield
    if w.good(answer, 200):
        try:
            with tarfile.open(fileobj=io.BytesIO(answer.data)) as t:
                files = [m for m in t.getmembers() if m.isfile()]
                sizes = {m.size for m in files}
        except tarfile.TarError as e:
            raise Finding(f"{answer.what}: a broken archive with a good end: {e}, {len(answer.data)} bytes") from None
        same((len(files), sizes), (40, {9000}), "files in the archive")
        same(answer.data[-1024:], bytes(1024), "the end of the archive")


@step
def put_tar(w):
    name = w.fresh("t")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as t:
        for i in range(20):
            info = tarfile.TarInfo(f"{name}/{i}")
            info.size = 5000
            t.addfile(info, io.BytesIO(w.text[:5000]))
    yield
    answer = w.in_session("PUT", "/files/tar?path=.", packed.getvalue(), {"Content-Type": "application/x-tar"})
    yield
    if w.good(answer, 200, 201, 204):
        for i in range(20):
            same(read_back(w, f"{name}/{i}"), w.text[:5000], f"{name}/{i}")


@step
def watch_files(w):
    name = w.fresh("w")
    yield
    link = w.link("GET", f"/v1/sessions/{w.s}/files/watch?path=.", patience=2.5)
    if link.answer.status == 200:
        w.control.disarm()
        put = w.in_session("PUT", f"/files?path={name}", b"x")
        try:
            while name.encode() not in link.bytes:
                link.more()
        except TimeoutError:
            if put.status in (200, 201, 204):
                raise Finding("watch: the event does not come, and the stream goes on") from None
        except (EOFError, OSError):
            pass
    elif link.answer.status != 0:
        w.good(link.finish(), 200)
    link.close()
    yield


# --- keys, secrets, tenants -------------------------------------------------------------------------


def drop_volume(w, name):
    """Also if the answer of its creation was lost, and it is made meanwhile."""
    for _ in range(20):
        if w.server.request("DELETE", f"/v1/volumes/{name}")[0] == 204:
            return
        time.sleep(0.02)  # most often there is none


@step
def volumes(w):
    yield
    name = w.fresh("vol")
    made = w.ask("POST", "/v1/volumes", {"name": name, "size": "16M"})
    asked = [(w.ask("GET", "/v1/volumes"), (200,)), (w.ask("GET", f"/v1/volumes/{name}"), (200, 404))]
    gone = w.ask("DELETE", f"/v1/volumes/{name}")
    yield
    for a, want in asked:
        w.good(a, *want)
    if w.good(made, 201) and w.good(gone, 204):
        same(w.server.request("GET", f"/v1/volumes/{name}")[0], 404, "the volume that was deleted")
    drop_volume(w, name)



@step
def keys(w):
    name = w.fresh("k")
    yield
    made = w.ask("POST", "/v1/keys", {"name": name, "scopes": ["read"]})
    listed = w.ask("GET", "/v1/keys")
    gone = w.ask("DELETE", f"/v1/keys/{made.json['id']}") if made.status == 201 and made.whole else None
    yield
    w.good(listed, 200)
    if w.good(made, 201):
        status = w.server.request("GET", "/v1/sessions", key=made.json["key"])[0]
        if w.good(gone, 204):
            same(status, 401, "what a key may that is gone")
        elif gone.whole:
            same(status, 200, "what the key may")
        w.server.request("DELETE", f"/v1/keys/{made.json['id']}")


@step
def secrets(w):
    name = w.fresh("secret")
    yield
    made = w.ask("POST", "/v1/secrets", {"name": name, "value": "first-value"})
    looked = [w.ask("GET", "/v1/secrets")]
    changed = gone = None
    if made.status == 201:
        looked.append(w.ask("GET", f"/v1/secrets/{name}"))
        changed = w.ask("PUT", f"/v1/secrets/{name}", {"value": "second-value"})
        gone = w.ask("DELETE", f"/v1/secrets/{name}") if changed.status == 200 else None
    yield
    for a in looked:
        w.good(a, 200)
    status, _, now = w.server.request("GET", f"/v1/secrets/{name}")
    if w.good(made, 201):
        if changed is not None and w.good(changed, 200) and gone is not None and w.good(gone, 204):
            same(status, 404, "a secret that is gone")
        elif gone is None or gone.whole and gone.status != 204:
            same(status, 200, "a secret that was acknowledged")
    w.server.request("DELETE", f"/v1/secrets/{name}")


@step
def tenants(w):
    name = w.fresh("tenant")
    yield
    made = w.ask("POST", "/v1/tenants", {"name": name})
    asked = [(w.ask("GET", "/v1/tenants"), (200,))]
    if made.status == 201 and made.whole:
        path = f"/v1/tenants/{made.json['id']}"
        asked += [(w.ask("GET", path), (200,)), (w.ask("PATCH", path, {"max_sessions": 3}), (200,))]
        asked += [(w.ask("GET", path + "/network"), (200,)), (w.ask("PUT", path + "/network", {"version": 1}), (200,))]
        asked.append((w.ask("POST", path + "/keys", {"name": "k", "scopes": ["sessions"]}), (201,)))
        asked.append((w.ask("DELETE", path), (204,)))
    yield
    for a, want in asked:
        w.good(a, *want)
    if w.good(made, 201):
        patched, last = asked[2][0], asked[-1][0]
        status, _, now = w.server.request("GET", f"/v1/tenants/{made.json['id']}")
        if last.whole and last.status == 204:
            same(status, 404, "a tenant that is gone")
        elif last.whole and patched.whole and patched.status == 200:
            same(now["max_sessions"], 3, "max_sessions")
        w.server.request("DELETE", f"/v1/tenants/{made.json['id']}")


@step
def templates(w):
    name, tree = w.fresh("template"), os.path.join(w.server.state, "templates", "faults")
    if not os.path.exists(tree):
        make_tree(tree)
    yield
    made = w.ask("POST", "/v1/templates", {"name": name, "root": {"kind": "layers", "layers": ["faults"]}})
    shown = gone = None
    if made.status == 201 and made.whole:
        shown = w.ask("GET", f"/v1/templates/{name}")
        gone = w.ask("DELETE", f"/v1/templates/{name}")
    yield
    status = w.server.request("GET", f"/v1/templates/{name}")[0]
    if w.good(made, 201):
        w.good(shown, 200)
        if w.good(gone, 204):
            same(status, 404, "a template that is gone")
        elif gone.whole:
            same(status, 200, "a template that was acknowledged")
    w.server.request("DELETE", f"/v1/templates/{name}")


@step
def template_rows(w):
    """Tags, files and who may use it. The files of a directory of template_dir are not listed: 422."""
    name, tree = w.fresh("tagged"), os.path.join(w.server.state, "templates", "faults")
    if not os.path.exists(tree):
        make_tree(tree)
    w.server.want(201, "POST", "/v1/templates", {"name": name, "root": {"kind": "layers", "layers": ["faults"]}})
    at = f"/v1/templates/{name}"
    yield
    w.ask("GET", f"{at}/files")
    changed = w.ask("PATCH", at, {"public": True})
    tagged = w.ask("POST", f"{at}/tags", {"tags": ["v1"]})
    untagged = w.ask("DELETE", f"{at}/tags/v1")
    yield
    w.good(changed, 200)
    status = w.server.request("GET", f"{at}:v1")[0]
    if w.good(tagged, 200) and w.good(untagged, 204):
        same(status, 404, "a tag that is gone")
    w.server.request("DELETE", at)


REGISTRY = []  # of pull(): one for the whole run


@step
def pull(w):
    if not REGISTRY:
        REGISTRY.append(Registry(Image([layer({"proc/": None, "dev/": None, "a": b"a" * 100000}), layer({"b": b"b"})])))
    name = w.fresh("pulled")
    reference = f"{REGISTRY[0].host}/x/y:t"
    yield
    made = w.ask("POST", "/v1/templates/pull", {"reference": reference, "name": name})
    yield
    status = w.server.request("GET", f"/v1/templates/{name}")[0]
    if w.good(made, 200) and b"event: template" in made.data:
        same(status, 200, "a template that was acknowledged")
    elif made.whole:
        same(status, 404, "a template that was refused")
    if status == 200:
        w.server.want(204, "DELETE", f"/v1/templates/{name}")


@step
def builds(w):
    """To the start; the build itself fails at once, since its base does not exist."""
    where, asked = "/v1/templates/builds", []
    yield
    made = w.ask("POST", where, {"name": w.fresh("build")})
    asked.append((w.ask("GET", where), (200,)))
    if made.status == 201 and made.whole:
        one = f"{where}/{made.json['id']}"
        asked.append((w.ask("PUT", f"{one}/files/{'0' * 64}", b"x" * 100000), (204,)))
        asked.append((w.ask("POST", one + "/start", {"fromTemplate": "none", "steps": []}), (202,)))
        asked.append((w.ask("GET", one), (200,)))
        asked.append((w.ask("DELETE", one), (204, 409)))
    yield
    for a, want in asked:
        w.good(a, *want)
    w.good(made, 201)


def drop_snapshots(w, source):
    """Also those of requests whose answer was lost."""
    for found in w.server.want(200, "GET", f"/v1/snapshots?session={source}")["snapshots"]:
        w.server.want(204, "DELETE", "/v1/snapshots/" + found["id"].replace("/", "%2F").replace(":", "%3A"))


@step
def snapshots(w):
    source = w.server.create(timeout="1h", metadata={"faults": "source"})["id"]
    yield
    one, asked = f"/v1/sessions/{source}", []
    made = w.ask("POST", one + "/snapshots", {})
    asked.append((w.ask("POST", "/v1/snapshots", {"session": source}), (201,)))
    if made.status == 201 and made.whole:
        shot = "/v1/snapshots/" + made.json["id"].replace(":", "%3A")
        asked += [(w.ask("GET", shot), (200,)), (w.ask("DELETE", shot), (204,))]
    asked.append((w.ask("GET", "/v1/snapshots"), (200,)))
    asked.append((w.ask("POST", one + "/fork", {"timeout": "1m"}), (201,)))
    asked.append((w.ask("POST", one + "/pause", {"memory": False}), (200,)))
    asked.append((w.ask("POST", one + "/reset"), (200,)))
    asked += [(w.ask("GET", "/v1/layers"), (200,)), (w.ask("POST", "/v1/gc"), (200,))]
    yield
    w.good(made, 201)
    for a, want in asked:
        w.good(a, *want)
    drop_snapshots(w, source)
    for s in w.server.want(200, "GET", "/v1/sessions?metadata.faults=source&state=running,paused,pausing,resuming,creating")["sessions"]:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")


@step
def events_stream(w):
    yield
    link = w.link("GET", f"/v1/sessions/{w.s}/events?follow=true", patience=1.0)
    try:
        if link.answer.status == 200:
            link.more()
    except (TimeoutError, EOFError, OSError):
        pass
    link.close()
    log = w.link("GET", f"/v1/sessions/{w.s}/network/log?follow=true", patience=1.0)
    log.close()
    yield


def names():
    return [f.__name__ for f in STEPS]


__all__ = ["STEPS", "json", "names"]
