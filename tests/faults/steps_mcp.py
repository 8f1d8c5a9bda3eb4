"""steps_mcp.py - tools and resources of /mcp (steps_base.py). A result that is no failure is right; a failure says so."""
import json

from client import Finding
from steps_base import same, step

META = "io.modelcontextprotocol/"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def post(w, method, params, name=None):
    """The answer, and its result; None: it failed."""
    params = {**params, "_meta": {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}}
    headers = {**HEADERS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
    answer = w.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers)
    if not w.good(answer, 200):
        return None
    if answer.headers.get("content-type") == "text/event-stream":
        lines = [line[5:] for line in answer.data.split(b"\n") if line.startswith(b"data:")]
        return json.loads(lines[-1]).get("result") if lines else None
    return answer.json.get("result")


def call(w, tool, **arguments):
    result = post(w, "tools/call", {"name": tool, "arguments": arguments}, tool)
    if result is None:
        return None
    if result.get("isError"):
        if not result["content"][0]["text"]:
            raise Finding(f"{tool}: a failure without a reason")
        return None
    return result["structuredContent"]


@step
def mcp_run(w):
    yield
    got = call(w, "run", session_id=w.s, command="seq 1 9000; echo end >&2; exit 3", report_changes=True)
    yield
    if got is not None and not got["running"] and got["exit_code"] == 3 and not got.get("limit"):
        if got["stdout"] and not got["stdout"].startswith("1\n2\n"):
            raise Finding(f"another output: {got['stdout'][:100]!r}")


@step
def mcp_run_fresh(w):
    before = live(w)
    yield
    got = call(w, "run", command="echo here")
    yield
    if got is not None and got["exit_code"] == 0 and not got["truncated"]:
        same(got["stdout"], "here\n", "the output")
    if not w.settle(lambda: live(w) <= before):
        for i in live(w) - before:
            w.server.request("DELETE", f"/v1/sessions/{i}")
        raise Finding(f"a session for one call is left: {live(w) - before}")


def live(w):
    rows = w.server.want(200, "GET", "/v1/sessions?state=creating,running&limit=100")["sessions"]
    return {r["id"] for r in rows}


@step
def mcp_session(w):
    name = w.fresh("mcp")
    yield
    made = call(w, "create_session", timeout_s=3600, metadata={"step": name})
    if made is not None:
        call(w, "stop", session_id=made["session_id"])
    yield
    for s in w.server.want(200, "GET", f"/v1/sessions?metadata.step={name}")["sessions"]:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")


@step
def mcp_files(w):
    name = w.fresh("m")
    yield
    wrote = call(w, "write_file", session_id=w.s, path=name, text="one two\n")
    edited = call(w, "write_file", session_id=w.s, path=name, edits=[{"old": "one", "new": "1"}])
    read = call(w, "read_file", session_id=w.s, path=name)
    call(w, "list_files", session_id=w.s)
    call(w, "get_changes", session_id=w.s)
    yield
    if wrote and edited and read:
        same(read["text"], "1 two\n", "the file")


@step
def mcp_output(w):
    yield
    x = call(w, "run", session_id=w.s, command="echo text; exec sleep 100", background=True)
    if x is not None:
        got = call(w, "read_output", execution_id=x["execution_id"], wait_s=5)
        call(w, "stop", execution_id=x["execution_id"])
        if got is not None and got["text"] not in ("", "text\n"):
            raise Finding(f"another output: {got}")
    yield


@step
def mcp_views(w):
    yield
    call(w, "session_info", session_id=w.s)
    call(w, "session_info")
    call(w, "open_port", session_id=w.s, port=80)
    post(w, "tools/list", {})
    post(w, "resources/list", {})
    for rest in ("", "/files/home/user/fixed", "/changes"):
        post(w, "resources/read", {"uri": f"cordon://sessions/{w.s}{rest}"}, f"cordon://sessions/{w.s}{rest}")
    yield
