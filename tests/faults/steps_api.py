"""steps_api.py - routes of the native interface about the server, sessions and executions (steps_base.py)."""
import base64
import hashlib
import os
import struct

from client import Finding
from steps_base import same, step

# --- the server -------------------------------------------------------------------------------------


@step
def plain(w):
    yield
    for path in ("/", "/openapi.yaml", "/healthz", "/readyz", "/metrics", "/v1/node", "/v1/templates", "/v1/limits", "/v1/usage", "/v1/usage?by=session", "/v1/usage?by=tenant", "/v1/usage?key=test"):
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
def create_once(w):
    """A create with a key, whatever fails: a repetition answers with the one session, or makes the first."""
    name = w.fresh("s")
    spec, once = {"timeout": "1h", "metadata": {"step": name}}, {"Idempotency-Key": name}
    yield
    first = w.ask("POST", "/v1/sessions", spec, headers=once)
    yield
    again = w.server.want(201, "POST", "/v1/sessions", spec, headers=once)
    if first.status == 201 and first.whole:
        same(again["id"], first.json["id"], "the session of the first request")
    gone = w.settle(lambda: len(w.server.want(200, "GET", f"/v1/sessions?metadata.step={name}&state=creating,running")["sessions"]) == 1)
    if not gone:
        raise Finding("a repetition left two sessions, or none")
    w.server.request("DELETE", f"/v1/sessions/{again['id']}")


ECHO = """import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "e", "version": "1"}}
        r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]} if m["method"] == "tools/list" else r
        r = {"content": [{"type": "text", "text": "said"}]} if m["method"] == "tools/call" else r
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


@step
def create_with_mcp_server(w):
    """Its session, that of the server, and a call; all are gone at the end, whatever failed."""
    name = w.fresh("s")
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "metadata": {"step": name},
                                            "mcp": {"servers": {"e": {"command": ["python3", "-c", ECHO]}}}})
    call = None
    if answer.whole and answer.status == 201:
        call = w.ask("POST", f"/mcp/{answer.json['id']}", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "e__echo"}},
                     {"Accept": "application/json, text/event-stream"})
        w.ask("GET", f"/v1/sessions/{answer.json['id']}/mcp")
    yield
    if w.good(answer, 201) and w.good(call, 200) and not call.json["result"].get("isError"):
        same(call.json["result"]["content"][0]["text"], "said", "the answer of the tool")
    rows = w.server.want(200, "GET", "/v1/sessions?state=creating,running&limit=100")["sessions"]
    ours = {s["id"] for s in rows if s["metadata"].get("step") == name}
    for s in ours:
        w.server.request("DELETE", f"/v1/sessions/{s}")
    left = lambda: [s["id"] for s in w.server.want(200, "GET", "/v1/sessions?state=creating,running&limit=100")["sessions"]  # noqa: E731
                    if "mcp_server" in s or s["id"] in ours]
    if not w.settle(lambda: not left()):
        raise Finding(f"sessions are left: {left()}")


@step
def create_without_pool(w):
    """With its own limits it is made by the keeper."""
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "limits": {"memory": "48M"}})
    yield
    if w.good(answer, 201):
        same(w.server.get(answer.json["id"])["state"], "running", "state")
        w.server.delete(answer.json["id"])
        w.server.reaches(answer.json["id"], "ended")


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
        w.server.reaches(s["id"], "ended", 40)
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
def create_watched(w):
    """A session whose watched files have no record is none that was acknowledged."""
    yield
    answer = w.ask("POST", "/v1/sessions", {"timeout": "1h", "network": "none", "watch_reads": ["/etc/hostname"]})
    yield
    if w.good(answer, 201):
        session = answer.json["id"]
        if w.server.get(session)["state"] == "running":
            same(w.server.run(session, "cat /etc/hostname")["exit_code"], 0, "a watched file")
            path = f"/v1/audit?session={session}&type=file.watched"
            if not w.settle(lambda: w.server.request("GET", path)[2]["records"]):
                raise Finding("no record of a watched file")
        w.server.delete(session)


@step
def show(w):
    yield
    answers = [w.ask("GET", "/v1/sessions?limit=100&state=running"), w.in_session("GET", ""), w.in_session("GET", "/metrics"),
               w.in_session("GET", "/resources"), w.in_session("GET", "/timeline")]
    answers += [w.in_session("GET", "/events"), w.in_session("GET", "/network"), w.in_session("GET", "/network/log"),
                w.in_session("GET", "/packages"), w.in_session("POST", "/ports", {"port": 8000})]
    trace = w.in_session("GET", "/trace")
    yield
    w.good(trace, 409)  # the session is not traced
    for a in answers:
        w.good(a, 200)
    if answers[0].whole and answers[0].status == 200:
        same(w.s in [s["id"] for s in answers[0].json["sessions"]], True, "the session in the list")


@step
def close_port(w):
    w.server.request("POST", f"/v1/sessions/{w.s}/ports", {"port": 8000})
    yield
    answer = w.in_session("DELETE", "/ports/8000")
    yield
    if w.good(answer, 204):
        # another step may have left one open, of which it had no answer
        same([p for p in w.server.get(w.s)["ports"] if p["port"] == 8000], [], "open ports")


@step
def change(w):
    name = w.fresh("m")
    yield
    answer = w.in_session("PATCH", "", {"metadata": {"step": name}, "timeout": "50m"})
    yield
    shown = w.server.get(w.s)
    if w.good(answer, 200):
        same((shown["metadata"], shown["timeout_ms"]), ({"step": name}, 3000000), "what was acknowledged")
    elif answer.status != 0 and answer.whole and shown["metadata"] == {"step": name}:
        raise Finding(f"refused with {answer!r}, and it is changed")
    w.server.request("POST", f"/v1/sessions/{w.s}/timeout", {"timeout": "1h"})


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
    w.server.reaches(session, "ended")


@step
def delete(w):
    session = w.server.create(timeout="1h")["id"]
    x = w.server.spawn(session, "sleep 1000")
    yield
    answer = w.ask("DELETE", f"/v1/sessions/{session}")
    yield
    if w.good(answer, 204):
        same(w.server.reaches(session, "ended")["reason"], "deleted", "reason")
        rows = w.server.want(200, "GET", "/v1/sessions?limit=1000&state=running,creating,paused")["sessions"]
        same(session in [r["id"] for r in rows], False, "in the list of those that run")
        same(bool(w.server.ended(x)["ended_at"]), True, "its execution has ended")
    w.server.request("DELETE", f"/v1/sessions/{session}")
    w.server.reaches(session, "ended")


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
def execute_code(w):
    """The interpreter runs from the first time on; what fails then concerns this execution."""
    yield
    answer = w.in_session("POST", "/executions?wait=true", {"code": "print(7)\n6*7", "timeout": "60s"})
    shown = w.in_session("GET", f"/executions/{answer.json['id']}") if answer.status == 200 and answer.whole else None
    yield
    if not w.good(answer, 200):
        return
    x = answer.json
    if x["exit_code"] == 0 and not x["output_truncated"]:
        same((x["stdout"], [r["text"] for r in x["results"]], x["code_error"]), ("7\n", ["42"], None), "the answer")
        if w.good(shown, 200):
            same(shown.json["results"], x["results"], "the results again")


@step
def execute_and_ask(w):
    yield
    answer = w.in_session("POST", "/executions", {"command": SAY})
    seen = []
    if answer.status == 202 and answer.whole:
        path = f"/executions/{answer.json['id']}"
        seen = [w.in_session("GET", path + "/events")]
        seen += [w.in_session("GET", p) for p in (path, "/executions?limit=10", path + "/output?stream=stdout", path + "/cast")]
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
    own = w.server.execution(x)["pid"]
    yield
    listed = w.in_session("GET", "/processes")
    killed = None
    if listed.status == 200 and listed.whole:
        pids = [p["pid"] for p in listed.json["processes"] if p["pid"] == own]
        killed = w.in_session("DELETE", f"/processes/{pids[0]}") if pids else None
        if not pids:
            raise Finding(f"processes without the one that runs: {listed!r}")
    yield
    if w.good(listed, 200) and w.good(killed, 204):
        w.server.ended(x)
    w.server.request("DELETE", f"/v1/sessions/{w.s}/executions/{x['id']}")
    w.server.ended(x)


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


# --- evidence ---------------------------------------------------------------------------------------


@step
def audit_log(w):
    w.server.request("GET", "/v1/audit/checkpoint?fresh=true")
    yield
    answers = [w.ask("GET", path) for path in ("/v1/audit?limit=5", "/v1/audit?limit=5&type=session.created", "/v1/audit/checkpoint",
                                               "/v1/audit/checkpoint?fresh=true", "/v1/audit/rotate", "/v1/audit/tile/0/000.p/1")]
    yield
    for a in answers:
        w.good(a, 200)


@step
def audit_changes(w):
    yield
    erased = w.ask("POST", "/v1/audit/erase", {"on_behalf": "nobody@example.com"})
    pruned = w.ask("POST", "/v1/audit/prune", {"before": 0})
    cosigned = w.ask("POST", "/v1/audit/cosignature", {})
    yield
    w.good(erased, 200)
    w.good(pruned, 200, 400)
    w.good(cosigned, 400, 415)


@step
def audit_key(w):
    yield
    rotated = w.ask("POST", "/v1/audit/rotate", {})
    yield
    w.good(rotated, 202, 409)  # 409: both keys sign still


@step
def reports(w):
    yield
    answers = [w.ask("GET", "/v1/report"), w.in_session("GET", "/report"), w.ask("GET", "/v1/network/log?limit=5")]
    yield
    for a in answers:
        w.good(a, 200)
