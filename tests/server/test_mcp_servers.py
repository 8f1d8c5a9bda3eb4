#!/usr/bin/python3 -B
"""Goal: MCP servers of a session run in sessions of their own, joined at /mcp/{session}: each has its own files,
secrets and network, tools are allowed one by one, every call is on record and ends exactly once, whatever a server
does and whatever is killed.

    test_mcp_servers.py CORDON [name ...]
"""
import http.client
import json
import os
import secrets as random
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, stays, wait_for  # noqa: E402
import languages_root  # noqa: E402  (after harness, which knows where it is)
import level  # noqa: E402
from leveled import Leveled  # noqa: E402
import mcp_client  # noqa: E402

KILLS = True
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "..", "gateway", "stdio_server.py")) as f:
    SCRIPT = f.read()
STAGE = "CORDON_TEST_OWN_NETWORK"
ORIGIN, PORT = "10.99.0.1", 8000
NODE = {"version": 1, "private": ["10.99.0.0/16", ORIGIN]}


def mcp_server(*args, **more):
    return {"command": ["python3", "-c", SCRIPT, *args], **more}


def create(server, key="", **servers):
    return server.want(201, "POST", "/v1/sessions", {"mcp": {"servers": servers}}, key=key)["id"]


class Client(mcp_client.Client):
    """At the endpoint of one session."""

    def __init__(self, server, session, **more):
        super().__init__(server, **more)
        self.path = f"/mcp/{session}"

    def open(self, method, params=None, number=None, token=None, timeout=60, **headers):
        m = self.message(method, params, number, token)
        link = self.server.link(timeout)
        link.request("POST", self.path, json.dumps(m), self.headers(m, **headers))
        return link

    def tools(self):
        """Of all pages."""
        names, self.pages, cursor = [], 0, {}
        while cursor is not None:
            page = self.result("tools/list", cursor)
            names += [t["name"] for t in page["tools"]]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
            self.pages += 1
        return names

    def text(self, tool, **arguments):
        """(text, isError)"""
        got = self.result("tools/call", {"name": tool, "arguments": arguments})
        return got["content"][0]["text"], got.get("isError", False)


def shown(server, session, key=""):
    return {s["name"]: s for s in server.want(200, "GET", f"/v1/sessions/{session}/mcp", key=key)["servers"]}


def events(server, session, kind):
    found, after = [], 0
    while rows := server.want(200, "GET", f"/v1/sessions/{session}/events?limit=1000&after={after}")["events"]:
        found += [r["data"] for r in rows if r["type"] == kind]
        after = rows[-1]["seq"]
    return found


def live(server, key=""):
    rows = server.want(200, "GET", "/v1/sessions?limit=100", key=key)["sessions"]
    return {r["id"] for r in rows if r["state"] not in ("ending", "ended")}


def gone(server, *ids):
    wait_for(lambda: not live(server) & set(ids), 20, f"the end of {ids}")


# -- what it is for


def test_servers_are_joined(server):
    s = create(server, old=mcp_server("--name", "old", env={"COLOUR": "blue"}), new=mcp_server("--name", "new", "--era", "modern"))
    c = Client(server, s)
    names = c.tools()
    equal((len(names), "new__echo" in names, "old__write.file" in names), (24, True, True), str(names))
    equal(c.text("old__echo", text="hi"), ("old: hi", False))
    equal(c.text("new__add", a=1, b=2), ("3", False))
    equal(c.text("old__env", name="COLOUR")[0], "blue")
    equal(c.text("new__env", name="COLOUR")[0], "None")
    has(c.text("old__whoami")[0], "1000 ", "the ordinary user")
    legacy = Client(server, s, legacy=True)
    equal(legacy.post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})[0], 200)
    equal(legacy.text("new__echo", text=1)[0], "new: 1")
    status, _, messages = c.post("tools/call", {"name": "old__slow", "arguments": {"seconds": 0.5}}, token="t")
    equal((status, messages[0]["params"]["progressToken"], messages[-1]["result"]["content"][0]["text"]), (200, "t", "slept"))
    region = {"name": "old__region", "arguments": {"place": "here"}}  # x-mcp-header: Place
    for header, code in ((None, -32020), ("there", -32020), ("here", None)):
        equal(c.post("tools/call", region, Mcp_Param_Place=header)[2].get("error", {}).get("code"), code, str(header))
    for name in ("old__nothing", "none__echo", "echo", "old__a/b"):
        equal(c.post("tools/call", {"name": name}, Mcp_Name=name)[2]["error"]["code"], -32602, name)
    for name in ("new", "old"):
        has(c.text(f"{name}__ask")[0], "refused" if name == "old" else "does not pass on", "a server that asks")


def test_each_has_a_session_that_ends_with_it(server):
    before = live(server)
    s = create(server, a=mcp_server(), b=mcp_server())
    servers = shown(server, s)
    equal({n: v["state"] for n, v in servers.items()}, {"a": "ready", "b": "ready"})
    children = {v["session_id"] for v in servers.values()}
    equal(live(server) - before, {s, *children})
    for name, v in servers.items():
        child = server.get(v["session_id"])
        equal((child["mcp_server"], child["level"]), ({"session": s, "name": name}, level.LEVEL))
    check("mcp_server" not in server.get(s), "the session itself")
    server.delete(s)
    gone(server, s, *children)
    # one of them ends: the other goes on
    s = create(server, a=mcp_server("--name", "a"), b=mcp_server("--name", "b"))
    c, servers = Client(server, s), shown(server, s)
    server.delete(servers["a"]["session_id"])
    ended = lambda m: "error" in m or m["result"].get("isError")  # noqa: E731
    wait_for(lambda: ended(c.post("tools/call", {"name": "a__echo"})[2]), 10, "its end")
    wait_for(lambda: list(shown(server, s)) == ["b"], 10, "a list without it")
    equal(c.text("b__echo", text=1)[0], "b: 1")
    server.delete(s)
    gone(server, s, servers["b"]["session_id"])


def test_servers_end_with_a_session_that_died_while_nobody_looked(server):
    s = create(server, a=mcp_server())
    child, pid = shown(server, s)["a"]["session_id"], server.cell_pids(s)[0]
    server.kill("cordond")
    os.kill(pid, 9)
    server.restarted("cordond")
    server.wait_ready()
    gone(server, s, child)


def test_servers_that_wait_in_the_queue(server):
    """A server's session that gets no place in time ends the creation with that reason, and a session that is deleted
    takes along those of its servers that still wait."""
    _, key = server.tenant("queue", max_sessions=1, queue_length=5, queue_timeout="2s")
    servers = {"mcp": {"servers": {"a": mcp_server()}}}
    status, _, body = server.request("POST", "/v1/sessions", servers, key=key)
    equal((status, body["error"]["code"]), (429, "queue_timeout"), str(body))
    has(body["error"]["message"], "server a: ", "which")
    gone(server, *live(server, key))
    # one that is ready while another has lost its place
    _, key = server.tenant("queue2", max_sessions=2, queue_length=5, queue_timeout="2s")
    late = {"command": ["sh", "-c", 'sleep 4; exec "$@"', "sh", *mcp_server()["command"]]}
    status, _, body = server.request("POST", "/v1/sessions", {"mcp": {"servers": {"a": late, "b": mcp_server()}}}, key=key)
    equal((status, body["error"]["code"]), (429, "queue_timeout"), str(body))
    _, key = server.tenant("queue3", max_sessions=1, queue_length=5, queue_timeout="60s")
    link = server.link(60)
    link.request("POST", "/v1/sessions", json.dumps(servers), {"X-API-Key": key, "Content-Type": "application/json"})
    wait_for(lambda: live(server, key), 10, "the session")
    wait_for(lambda: len(shown(server, next(iter(live(server, key))), key)) == 1, 10, "its server in the queue")
    server.delete(next(iter(live(server, key))), key=key)
    equal(link.getresponse().status, 410)
    wait_for(lambda: not live(server, key), 20, "its end")
    once = server.create(key=key)["id"]  # the place is free, and nobody else waits for it
    equal(live(server, key), {once})
    server.delete(once, key=key)
    wait_for(lambda: not live(server, key), 20, "nothing but that")


def test_sessions_of_servers_are_not_forked_and_live_long_enough(server):
    s = server.want(201, "POST", "/v1/sessions", {"timeout": "90s", "mcp": {"servers": {"a": mcp_server(timeout="1s"), "b": mcp_server()}}})["id"]
    servers = {name: v["session_id"] for name, v in shown(server, s).items()}
    for child in servers.values():
        check(server.get(child)["expires_at"] >= server.get(s)["expires_at"], "the deadline of a server")
    forked = server.want(201, "POST", f"/v1/sessions/{servers['a']}/fork", {})
    equal((forked["sessions"], forked["errors"][0]["error"]["code"]), ([], "conflict"), str(forked))
    listed = server.want(200, "GET", "/v2/sandboxes")
    equal([b["sandboxID"] for b in listed if b["sandboxID"] in (s, *servers.values())], [s], "E2B's list")
    server.delete(s)
    gone(server, s, *servers.values())


def test_a_call_resumes_a_paused_server(server):
    s = create(server, a=mcp_server("--name", "a"))
    c, child = Client(server, s), shown(server, s)["a"]["session_id"]
    for body, state in (({}, "paused"), ({"memory": False}, "stopped")):
        server.want(200, "POST", f"/v1/sessions/{child}/pause", body)
        wait_for(lambda state=state: server.get(child)["state"] == state, 30, f"a server that is {state}")
        stays(lambda state=state: server.get(child)["state"] == state, 1.5, f"a server that is {state}")
        has(c.tools(), "a__echo")
        equal(server.get(child)["state"], state, "its tools are known")
        equal(c.text("a__echo", text=1), ("a: 1", False), str(body))
        equal(server.get(child)["state"], "running")
    server.delete(s)
    gone(server, s, child)


def test_a_call_waits_for_a_server_that_starts_again(server):
    """Its session runs again long before the server does."""
    slow = 'test ! -e ~/once || sleep 8; touch ~/once; exec "$@"'
    s = create(server, a={"command": ["sh", "-c", slow, "sh", *mcp_server("--name", "a")["command"]]})
    c, child = Client(server, s), shown(server, s)["a"]["session_id"]
    server.want(200, "POST", f"/v1/sessions/{child}/pause", {"memory": False})
    equal(c.text("a__echo", text=1), ("a: 1", False))
    equal(server.run(child, "test -e ~/once")["exit_code"], 0, "it was started before")
    server.delete(s)
    gone(server, s, child)


def test_a_server_that_starts_again_is_judged_by_its_new_tools(server):
    """The call was allowed by the definitions that the server had before the pause."""
    rug = 'test ! -e ~/once || touch /tmp/changed; touch ~/once; exec "$@"'
    s = create(server, a={"command": ["sh", "-c", rug, "sh", *mcp_server("--bad", "rug")["command"]], "pin": "strict"})
    c, child = Client(server, s), shown(server, s)["a"]["session_id"]
    equal(c.text("a__echo", text=1), ("test: 1", False))
    server.want(200, "POST", f"/v1/sessions/{child}/pause", {"memory": False})
    text, is_error = c.text("a__echo", text=2)
    check(is_error and "pin strict" in text, text)
    equal(c.text("a__add", a=1, b=2)[1], False, "a tool that has not changed")
    rows = [r for r in events(server, s, "mcp.call") if r["verdict"] == "deny"]
    equal([(r["tool"], r["rule"]) for r in rows], [("a__echo", "pin strict")])
    server.delete(s)
    gone(server, s, child)


def test_tools_are_allowed_one_by_one(server):
    s = create(server, a=mcp_server(tools={"deny": ["write*", "d*e"]}), b=mcp_server(tools={"allow": ["ec*", "add"], "deny": ["add"]}),
               c=mcp_server(tools={"allow": []}))
    c = Client(server, s)
    names = c.tools()
    equal(sorted(n for n in names if not n.startswith("a__")), ["b__echo"])
    check("a__echo" in names and "a__write.file" not in names and "a__die" not in names, str(names))
    for tool, rule in (("a__write.file", "deny write*"), ("a__die", "deny d*e"), ("b__add", "deny add"), ("b__env", "allow"),
                       ("c__echo", "allow")):
        text, is_error = c.text(tool, path="/tmp/x", text="x")
        check(is_error and rule in text and "policy" in text, f"{tool}: {text}")
    # by the body: a header that names another tool is refused before
    status, _, m = c.post("tools/call", {"name": "a__die"}, Mcp_Name="a__echo")
    equal((status, m["error"]["code"]), (400, -32020))
    equal(c.text("a__echo", text=1), ("test: 1", False))
    equal(c.text("b__echo", text=1), ("test: 1", False))
    child = shown(server, s)["a"]["session_id"]
    equal(server.run(child, "ls /tmp/x")["exit_code"], 2, "it was not called")
    rows = events(server, s, "mcp.call")
    equal([(r["server"], r["tool"], r["verdict"]) for r in rows][-2:], [("a", "a__echo", "allow"), ("b", "b__echo", "allow")])
    denied = [r for r in rows if r["verdict"] == "deny"]
    equal(len(denied), 5)
    equal((denied[0]["tool"], denied[0]["rule"], denied[0]["is_error"]), ("a__write.file", "deny write*", "true"), str(denied[0]))
    check(len(denied[0]["arguments"]) == 64 and denied[0]["arguments"] == denied[1]["arguments"], "the digest of the arguments")
    check(rows[-1]["arguments"] != denied[0]["arguments"] and int(rows[-1]["bytes"]) > 20 and rows[-1]["era"] == "2026-07-28", str(rows[-1]))


def test_secrets_of_one_are_not_in_the_cell_of_another(server):
    value = "v-" + random.token_hex(20)
    server.want(201, "POST", "/v1/secrets", {"name": "mcp.token", "value": value})
    s = create(server, a=mcp_server(secrets=[{"name": "mcp.token", "as": "env", "env": "TOKEN"}]), b=mcp_server())
    c = Client(server, s)
    text = c.text("a__env", name="TOKEN")[0]
    check(value not in text and "None" not in text, f"masked, not {text}")
    equal(c.text("b__env", name="TOKEN")[0], "None")
    found = json.loads(c.text("b__search", text=value[::-1])[0])
    equal(found, [], "in the cell of another server")
    children = [v["session_id"] for v in shown(server, s).values()]
    here = f"grep -rslF '{value[:20]}''{value[20:]}' /proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc /home /run /tmp || true"
    for other in (s, shown(server, s)["b"]["session_id"]):
        equal(server.run(other, here, user="root")["stdout"], "", f"in {other}")
    check(server.run(children[0], "true")["exit_code"] == 0, "it runs")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/mcp.token")


def test_each_has_its_own_network(server):
    rules = {"version": 1, "rules": [{"cidr": f"{ORIGIN}/32", "ports": [PORT]}]}
    s = create(server, open=mcp_server(network=rules), closed=mcp_server())
    c = Client(server, s)
    has(c.text("open__connect", host=ORIGIN, port=PORT)[0], "hello", "a server with a rule")
    text, is_error = c.text("closed__connect", host=ORIGIN, port=PORT)
    check("hello" not in text and (is_error or "403" in text), text)
    denied = server.want(200, "GET", f"/v1/sessions/{shown(server, s)['closed']['session_id']}/network/log")["records"]
    check(any(r["verdict"] == "deny" for r in denied), f"{denied}")


def test_definitions_are_pinned(server):
    s = create(server, warn=mcp_server("--bad", "rug"), strict=mcp_server("--bad", "rug", pin="strict"))
    c, servers = Client(server, s), shown(server, s)
    equal(c.tools(), ["strict__echo", "strict__add", "warn__echo", "warn__add"])
    for v in servers.values():
        server.run(v["session_id"], "touch /tmp/changed", user="root")
    wait_for(lambda: len(events(server, s, "mcp.tools_changed")) == 2, 15, "both events")
    for e in events(server, s, "mcp.tools_changed"):
        equal((e["tools"], e["verdict"]), ("echo", "deny" if e["server"] == "strict" else "allow"))
    equal(c.tools(), ["strict__add", "warn__echo", "warn__add"])
    has(json.dumps(c.result("tools/list")), "all your files", "the new description of the other")
    text, is_error = c.text("strict__echo", text=1)
    check(is_error and "pin strict" in text, text)
    equal(c.text("warn__echo", text=1)[0], "test: 1")
    equal(shown(server, s)["strict"]["tools"][0], {"name": "echo", "allowed": True, "rule": "default", "changed": True})
    # another daemon knows the first definitions, too
    server.kill("cordond")
    server.restarted("cordond")
    server.wait_ready()
    wait_for(lambda: {v["state"] for v in shown(server, s).values()} == {"ready"}, 20, "both servers again")
    equal(c.tools(), ["strict__add", "warn__echo", "warn__add"])
    check(c.text("strict__echo", text=1)[1], "it is still refused")


# -- attacks


def test_hostile_servers(server):
    wants = {"huge": "longer than 4 MiB", "garbage": "no result", "wrong-id": "right", "twice": "first", "flood": "after the flood",
             "half": "server half: ", "good": "good: good"}
    attack(server, wants, good=mcp_server("--name", "good"))
    wants = {"lines": "a\nb\u0000\u001b[31m\u2028", "noise": "test: noise", "good": "good: good"}
    attack(server, wants, good=mcp_server("--name", "good"), **{k: mcp_server("--bad", k) for k in ("bulky", "names", "many", "cursors", "silent")})


def attack(server, wants, **more):
    s = create(server, **more, **{k: mcp_server("--bad", k.replace("-", "_")) for k in wants if k not in more})
    c = Client(server, s)
    names = c.tools()
    if "names" in more:
        equal([n for n in names if n.startswith("names__")], ["names__ok.name", "names____x"])
        equal([sum(n.startswith(f"{k}__") for n in names) for k in ("many", "cursors", "bulky")], [1000, 64, 100])
        equal((c.pages, len(set(names))), (2, len(names)), "a long list has pages")
    got, threads = {}, []
    for k in wants:
        threads.append(threading.Thread(target=lambda k=k: got.setdefault(k, Client(server, s).text(f"{k}__echo", text=k)[0])))
        threads[-1].start()
    for t in threads:
        t.join(60)
    for k, want in wants.items():
        has(got[k], want, k)
    if "silent" in more:
        c.open("tools/call", {"name": "silent__echo"}).close()  # it ends with its client, and is on record
        wait_for(lambda: any(r["server"] == "silent" for r in events(server, s, "mcp.call")), 10, "its record")
    equal(len(events(server, s, "mcp.call")), len(wants) + ("silent" in more), "one record for each call")
    equal(c.text("good__echo", text=2)[0], "good: 2")
    server.delete(s)


def test_bad_requests_are_refused(server):
    before = live(server)
    bad = [({}, "servers"), ({"servers": {}}, "1 to 16"), ({"servers": {"a": {}}}, "command"), ({"servers": {"a": 7}}, "object"),
           ({"servers": {"a": {"comand": "true"}}}, "mcp.servers.a: comand: unknown member"),
           ({"servers": {"a": mcp_server(volumes=[{"name": "d", "target": "/data"}])}}, "mcp.servers.a: volumes[0].target: unknown member"),
           ({"servers": {"a__b": mcp_server()}}, "name"), ({"servers": {"a/b": mcp_server()}}, "name"),
           ({"servers": {"a": mcp_server(mcp={})}}, "mcp"), ({"servers": {"a": mcp_server(nonsense=1)}}, "nonsense"),
           ({"servers": {"a": mcp_server(tools={"alow": []})}}, "allow"), ({"servers": {"a": mcp_server(tools={"deny": ["a b"]})}}, "deny"),
           ({"servers": {"a": mcp_server(pin="no")}}, "pin"), ({"servers": {"a": {"command": [1]}}}, "command"),
           ({"servers": {"a": mcp_server()}, "more": 1}, "servers"), ({"servers": {f"s{i}": mcp_server() for i in range(17)}}, "1 to 16")]
    for mcp, word in bad:
        server.refused(400, "invalid", "POST", "/v1/sessions", {"mcp": mcp}, word)
    for broken in (mcp_server("--bad", "exit"), {"command": "/nowhere"}, mcp_server(template="nothing")):
        status, _, body = server.request("POST", "/v1/sessions", {"mcp": {"servers": {"good": mcp_server(), "bad": broken}}})
        check(status in (404, 409) and "server bad" in json.dumps(body), f"{status} {body}")
    wait_for(lambda: live(server) == before, 20, "nothing is left of them")
    plain = server.create()["id"]
    status, _, body = Client(server, plain).post("tools/list")
    equal((status, body["error"]["message"]), (404, f"session {plain} has no MCP servers"), "a session without servers")
    server.delete(plain)


def test_tenants_and_keys(server):
    tenant, key = server.tenant("other", max_sessions=2)
    s = create(server, a=mcp_server())
    other = Client(server, s, key=key)
    mine, nobody = other.post("tools/list"), Client(server, "i0000000000000000", key=key).post("tools/list")
    equal((mine[0], mine[2]["error"]["message"]), (404, nobody[2]["error"]["message"].replace("i0000000000000000", s)),
          "another tenant's, and nobody's")
    equal(nobody[0], 404)
    equal(Client(server, s, key="e2b_" + "0" * 40).post("tools/list")[0], 401)
    read = server.want(201, "POST", "/v1/keys", {"name": "r", "scopes": ["read"]})["key"]
    equal(Client(server, s, key=read).post("tools/list")[0], 403)
    equal(Client(server, s).post("tools/list", Origin="http://evil.example.com")[0], 403)
    status, _, body = server.request("GET", f"/v1/sessions/{s}/mcp", key=key)
    equal(status, 404)
    # sessions of servers count: three do not fit into two
    status, _, body = server.request("POST", "/v1/sessions", {"mcp": {"servers": {"a": mcp_server(), "b": mcp_server()}}}, key=key)
    check(status in (409, 429) and "server b" in json.dumps(body), f"{status} {body}")
    states = lambda: {r["state"] for r in server.want(200, "GET", "/v1/sessions?limit=100", key=key)["sessions"]}  # noqa: E731
    wait_for(lambda: states() == set(), 20, "nothing is left of it")
    t = create(server, key=key, a=mcp_server("--name", "theirs"))
    equal(Client(server, t, key=key).text("a__echo", text=1)[0], "theirs: 1")
    server.delete(t, key=key)


def test_kills_end_calls_and_nothing_else(server):
    s = create(server, a=mcp_server("--name", "a"), b=mcp_server("--name", "b"))
    c, servers = Client(server, s), shown(server, s)
    pid = c.text("a__pid")[0]
    link = c.open("tools/call", {"name": "a__slow", "arguments": {"seconds": 30}}, token=1)
    check(link.getresponse().status == 200, "it is under way")
    server.kill("cordond")
    server.restarted("cordond")
    server.wait_ready()
    link.close()
    wait_for(lambda: {v["state"] for v in shown(server, s).values()} == {"ready"}, 20, "both servers again")
    equal(c.text("a__pid")[0], pid, "the same process")
    equal(c.text("b__echo", text=1)[0], "b: 1")
    # a server that dies in a call is started again by the gateway in its cell
    text, is_error = c.text("a__die")
    check(is_error and "exit code 3" in text, text)
    wait_for(lambda: not (got := c.text("a__echo", text=1))[1] and got[0] == "a: 1", 20, "it again")
    # its cell is killed in a call: the call ends, the other server goes on
    link = c.open("tools/call", {"name": "a__slow", "arguments": {"seconds": 30}}, token=1)
    under_way = link.getresponse()  # its head comes with the first progress
    os.kill(server.cell_pids(servers["a"]["session_id"])[0], 9)
    last = mcp_client.events(under_way.read())[-1]
    check(last["result"]["isError"] and "server a" in last["result"]["content"][0]["text"], f"{last}")
    equal(c.text("b__echo", text=2)[0], "b: 2")
    wait_for(lambda: list(shown(server, s)) == ["b"], 10, "a list without it")
    server.delete(s)
    gone(server, s, servers["b"]["session_id"])


def test_every_call_ends_once_under_kills(server):
    """Servers, gateways in cells and cordond die while six clients call: each call has one outcome, each answer one record."""
    s = create(server, a=mcp_server("--name", "a"), b=mcp_server("--name", "b"))
    child = shown(server, s)["a"]["session_id"]
    outcomes, lock, stop = [], threading.Lock(), threading.Event()

    def call(n):
        c = Client(server, s)
        while not stop.is_set():
            tool = ("a__echo", "b__echo", "a__slow")[n % 3]
            n += 1
            try:
                status, _, m = c.post("tools/call", {"name": tool, "arguments": {"text": n, "seconds": 0.3}}, timeout=30)
                m = m[-1] if isinstance(m, list) else m
                good = status == 200 and ("result" in m) != ("error" in m) and m["id"] > 0
                outcome = "answer" if good else f"{status} {m}"
            except (OSError, http.client.HTTPException):
                outcome = "cut"
            with lock:
                outcomes.append(outcome)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    c = Client(server, s)
    for kill in ("server", "gateway", "cordond", "server"):
        at = len(outcomes)
        wait_for(lambda at=at: len(outcomes) > at + 6, 20, "calls between kills")
        if kill == "cordond":
            server.kill("cordond")
            server.restarted("cordond")
            server.wait_ready()
        else:
            name = "mcp-gateway" if kill == "gateway" else "python3"
            server.run(child, f"pkill -9 -x {name}", user="root")
    wait_for(lambda: c.text("a__echo", text="x") == ("a: x", False), 30, "the server again")
    stop.set()
    for t in threads:
        t.join(40)
        check(not t.is_alive(), "a call that does not end")
    kinds = {k: outcomes.count(k) for k in set(outcomes)}
    check(set(kinds) <= {"answer", "cut"} and kinds["answer"] > 20, f"{kinds}")
    check(kinds.get("cut", 0) <= 3 * len(threads), f"only the kill of cordond cuts answers: {kinds}")
    rows = len(events(server, s, "mcp.call"))
    check(kinds["answer"] <= rows, f"{kinds}, {rows} records")


def test_the_client_passes_servers_on(server):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"servers": {"a": mcp_server("--name", "cli")}}, f)
        f.flush()
        env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
        done = subprocess.run([server.program, "create", "--mcp", f.name], env=env, capture_output=True, text=True, check=False)
    equal(done.returncode, 0, done.stderr)
    s = done.stdout.split()[0]
    equal(Client(server, s).text("a__echo", text=1)[0], "cli: 1")
    equal({server.get(i)["level"] for i in (s, shown(server, s)["a"]["session_id"])}, {level.LEVEL})
    done = subprocess.run([server.program, "ls"], env=env, capture_output=True, text=True, check=True)
    has(done.stdout, f"(MCP server a of {s})")
    server.delete(s)


def own_network():
    """In a network namespace of its own, with an address that only a rule opens."""
    if os.geteuid() == 0 and os.environ.get(STAGE) is None:
        os.environ[STAGE] = "1"
        level.fetch(os.path.abspath(sys.argv[1]))  # while there is a network
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, "-B", *sys.argv])
    if os.environ.get(STAGE) == "1":
        os.environ[STAGE] = "2"
        for words in ("link set lo up", f"addr add {ORIGIN}/32 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)


def say_hello():
    listener = socket.create_server((ORIGIN, PORT))

    def serve():
        while True:
            link, _ = listener.accept()
            link.recv(1000)
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            link.close()

    threading.Thread(target=serve, daemon=True).start()


class Late(dict):
    """The test functions; the listener is started when they are asked for: threads do not survive fork()."""

    def items(self):
        say_hello()
        return super().items()


if __name__ == "__main__":
    level.ROOT = languages_root  # with compiled modules of Python: many servers start at once
    own_network()
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir="/var/tmp") as node:
        json.dump(NODE, node)
        node.flush()
        os.chmod(node.name, 0o644)
        run_tests(Late(globals()), Leveled, pool_size=2, egress_policy=node.name)
