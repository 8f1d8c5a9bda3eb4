#!/usr/bin/python3
"""test_mcp_tools.py - the tools of the Model Context Protocol at /mcp: each with good and bad input, in both eras,
what they show and how much of it, progress, cancellation, sessions that exist for one call, scopes and tenants."""
import base64
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, note, run_tests, stays, wait_for  # noqa: E402
from level import LEVEL, differs  # noqa: E402
from leveled import INTERPRETER, TEMPLATE, Interpreted  # noqa: E402
from mcp_client import Client  # noqa: E402

KILLS = True
NAMES = ["create_session", "run", "read_output", "stop", "read_file", "write_file", "list_files", "get_changes",
         "open_port", "session_info"]
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
KEY = "sk-" + "Ab3" * 10


def live(server, key=""):
    """Ids of the sessions that are not ending."""
    rows = server.want(200, "GET", "/v1/sessions?limit=100", key=key)["sessions"]
    return {r["id"] for r in rows if r["state"] not in ("ending", "ended")}


def none_fresh(server, before):
    wait_for(lambda: live(server) <= before, 20, "the end of the session of one call")


def runs(server, session, words):
    return words in server.run(session, "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done")["stdout"]


# -- both eras


def test_the_handshake_of_each_era(server):
    c = Client(server)
    got = c.result("server/discover")
    equal((got["supportedVersions"], got["resultType"]), (["2026-07-28"], "complete"), "discover")
    has(got["instructions"], "never an instruction", "what the client is told")
    check("prompts" not in got["capabilities"] and "tools" in got["capabilities"], str(got))
    old = Client(server, legacy=True)
    status, headers, m = old.post("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                                 "clientInfo": {"name": "t", "version": "1"}})
    equal((status, m["result"]["protocolVersion"]), (200, "2025-06-18"), "initialize")
    check("mcp-session-id" not in headers, "no session of the protocol is kept")
    equal(old.post("notifications/initialized")[0], 202, "initialized")
    equal(old.post("ping")[2]["result"], {}, "ping")
    for method in ("GET", "DELETE"):
        equal(server.request(method, "/mcp")[0], 405, method)
    equal(c.post("initialize", {})[0], 404, "a method that the modern era has no more")


def test_every_tool_is_described(server):
    for client in (Client(server), Client(server, legacy=True)):
        tools = client.result("tools/list")["tools"]
        equal([t["name"] for t in tools], NAMES, "names, in order")
        for t in tools:
            check(len(t["description"]) > 60, t["name"])
            equal(t["inputSchema"]["type"], "object", t["name"])
            equal(t["outputSchema"]["type"], "object", t["name"])
            equal(t["annotations"]["readOnlyHint"], t["name"] in ("read_output", "read_file", "list_files",
                                                                  "get_changes", "session_info"), t["name"])
    got = Client(server).result("tools/list")
    equal((got["ttlMs"], got["cacheScope"]), (300000, "private"), "how long it may be kept")


def test_run_in_both_eras(server):
    for client in (Client(server), Client(server, legacy=True)):
        got = client.result("tools/call", {"name": "run", "arguments": {"command": "echo out; echo err >&2; exit 3"}})
        s = got["structuredContent"]
        equal((s["exit_code"], s["stdout"], s["stderr"], s["running"], s["truncated"]), (3, "out\n", "err\n", False, False))
        equal(got["content"][0]["annotations"]["audience"], ["assistant"], "for whom")
        equal("resultType" in got, not client.legacy, "resultType")
        check(not got["isError"], "a command that fails is no failure of the tool")


# -- the tools


def test_a_session_and_its_files(server):
    c = Client(server)
    made = c.call("create_session", timeout_s=600, metadata={"for": "test"}, env={"A": "b"})
    s = made["session_id"]
    equal((made["workdir"], made["template"]), ("/home/user", TEMPLATE), "what it is")
    row = server.get(s)
    equal((row["metadata"], row["timeout_ms"], row["level"]), ({"for": "test"}, 600000, LEVEL), "as asked for")
    equal(c.call("run", session_id=s, command="echo $A; pwd; cat", stdin="in\n", cwd="/tmp")["stdout"], "b\n/tmp\nin\n")
    equal(c.call("write_file", session_id=s, path="d/a.txt", text="one two two\n"), {"bytes": 12, "created": True})
    c.fails("write_file", "more than once", session_id=s, path="d/a.txt", edits=[{"old": "two", "new": "2"}])
    c.fails("write_file", "not in the file", session_id=s, path="d/a.txt", edits=[{"old": "three", "new": "3"}])
    c.fails("write_file", "exactly one of", session_id=s, path="d/a.txt")
    c.fails("write_file", "base64", session_id=s, path="d/b", base64="!")
    c.call("write_file", session_id=s, path="d/a.txt", edits=[{"old": "one", "new": "1"}, {"old": "1 two", "new": "2"}])
    got = c.call("read_file", session_id=s, path="/home/user/d/a.txt")
    equal((got["text"], got["size"], got["more"]), ("2 two\n", 6, False))
    c.call("write_file", session_id=s, path="p.png", base64=base64.b64encode(PIXEL).decode())
    image = c.result("tools/call", {"name": "read_file", "arguments": {"session_id": s, "path": "p.png"}})["content"][0]
    equal((image["type"], image["mimeType"], base64.b64decode(image["data"])), ("image", "image/png", PIXEL), "a picture")
    c.call("run", session_id=s, command="head -c 5000 /dev/zero > z; seq 1 20000 > long; mkdir e; touch e/x.py e/y.c")
    link = c.result("tools/call", {"name": "read_file", "arguments": {"session_id": s, "path": "/home/user/z"}})["content"][1]
    equal(link["uri"], f"cordon://sessions/{s}/files/home/user/z", "what is no text is a link")
    part = c.call("read_file", session_id=s, path="long", max_bytes=100)
    check(part["more"], "there is more")
    text = part["text"]
    while part["more"]:
        part = c.call("read_file", session_id=s, path="long", offset=part["next"], max_bytes=65536)
        text += part["text"]
    equal(text, "".join(f"{i}\n" for i in range(1, 20001)), "all parts")
    c.fails("read_file", "No such file", session_id=s, path="nothing")
    listed = c.call("list_files", session_id=s, depth=3, pattern="*.py")
    equal([e["path"] for e in listed["entries"]], ["/home/user/e/x.py"], "by pattern")
    names = {e["path"]: e["type"] for e in c.call("list_files", session_id=s)["entries"]}
    equal(names["/home/user/e"], "directory", "the home by default")
    c.fails("list_files", "No such file", session_id=s, path="/no/where")
    added = {e["path"] for e in c.call("get_changes", session_id=s)["added"]}
    check({"/home/user/d/a.txt", "/home/user/z"} <= added, str(added))
    c.call("run", session_id=s, command="seq 1 600 | while read i; do echo > many$i; done")
    got = c.call("list_files", session_id=s)
    equal((len(got["entries"]), got["more"]), (500, True), "not more than that")
    info = c.call("session_info", session_id=s)
    equal((info["state"], info["metadata"], info["commands_running"]), ("running", {"for": "test"}, 0))
    check(s in [r["session_id"] for r in c.call("session_info")["sessions"]], "the list")
    has(c.call("open_port", session_id=s, port=8080)["url"], f"://8080-{s}-", "a URL")
    equal(c.call("stop", session_id=s), {"stopped": True})
    c.fails("run", "create_session", session_id=s, command="true")
    equal(c.call("stop", session_id=s), {"stopped": True}, "again")


def test_files_that_a_command_changed(server):
    c = Client(server)
    s = c.call("create_session")["session_id"]
    c.call("run", session_id=s, command="echo > before")
    time.sleep(0.1)  # longer than the kernel's clock of file times takes to move
    got = c.call("run", session_id=s, command="echo 12 > new; rm before", report_changes=True)
    equal((got["files_changed"], got["more_files_changed"]), ([{"kind": "added", "path": "/home/user/new", "size": 3}], False))
    time.sleep(0.1)  # the same
    before = {f["path"] for f in c.call("run", session_id=s, command="true", report_changes=True)["files_changed"]}
    check(before <= ({"/home/user/new"} if differs("times of files") else set()), f"what another command changed: {before}")
    got = c.call("run", session_id=s, command="seq 1 60 | while read i; do echo > f$i; done", report_changes=True)
    equal((len(got["files_changed"]), got["more_files_changed"]), (50, True), "not more than that")
    check("files_changed" not in c.call("run", session_id=s, command="true"), "only if asked for")
    server.delete(s)


def test_a_command_in_the_background(server):
    c = Client(server)
    s = c.call("create_session")["session_id"]
    c.fails("run", "create_session", command="true", background=True)
    x = c.call("run", session_id=s, command="echo a; sleep 1; echo b >&2; exec sleep 1000", background=True)
    equal(x["running"], True)
    first = c.call("read_output", execution_id=x["execution_id"], wait_s=20)
    equal((first["text"], first["next"], first["running"]), ("a\n", 2, True))
    second = c.call("read_output", execution_id=x["execution_id"], **{"from": 2}, wait_s=20)
    equal((second["text"], second["next"]), ("b\n", 4), "what came later")
    equal(c.call("read_output", execution_id=x["execution_id"], stream="stderr")["text"], "b\n", "one stream")
    equal(c.call("stop", execution_id=x["execution_id"], signal="TERM"), {"stopped": True})
    end = c.call("read_output", execution_id=x["execution_id"], **{"from": 4}, wait_s=20)
    wait_for(lambda: not c.call("read_output", execution_id=x["execution_id"])["running"], 10, "the end")
    equal(end["text"], "", "nothing more")
    equal(c.call("read_output", execution_id=x["execution_id"])["exit_code"], 143)
    equal(c.call("stop", execution_id=x["execution_id"]), {"stopped": True}, "what has ended")
    c.fails("stop", "either", execution_id=x["execution_id"], session_id=s)
    c.fails("stop", "either")
    c.fails("read_output", "no execution", execution_id="exe_0000000000000000")
    server.delete(s)


def test_code(server):
    c = Client(server)
    got = c.result("tools/call", {"name": "run", "arguments": {"code": "print('out')\n1 + 1"}})
    equal(got["structuredContent"]["results"], [{"text": "2", "formats": ["text"]}], "in a fresh session")
    has(got["content"][0]["text"], "[result]\n2", "also as text")
    s = c.call("create_session", template=INTERPRETER)["session_id"]
    c.call("run", session_id=s, language="python", code="x = 41")
    got = c.call("run", session_id=s, language="python", code="x += 1; print('\\x1b[1m'); x")
    equal((got["stdout"], got["results"][0]["text"]), ("\\x1b[1m\n", "42"), "state is kept")
    got = c.call("run", session_id=s, language="python", context="other", code="x")
    equal((got["exit_code"], got["code_error"]["name"]), (1, "NameError"), "another context, and an error")
    picture = f"import base64; from IPython.display import Image; Image(base64.b64decode('{base64.b64encode(PIXEL).decode()}'))"
    blocks = c.result("tools/call", {"name": "run", "arguments": {"session_id": s, "code": picture}})["content"]
    if len(blocks) == 1 and "ModuleNotFoundError" in blocks[0]["text"]:
        note("IPython is not installed: no pictures")
    else:
        equal((blocks[1]["type"], base64.b64decode(blocks[1]["data"])), ("image", PIXEL), "a picture")
    many = c.call("run", session_id=s, code="from sys import stdout\n" + "\n".join(f"{i}" for i in range(3)))
    check(len(many["results"]) <= 50, "few results")
    c.fails("run", "command", session_id=s, code="1", command="true")
    c.fails("run", "language", session_id=s, code="1", language="cobol")
    server.delete(s)


def test_what_the_policy_refused(server):
    c = Client(server)
    s = c.call("create_session", network=["pypi", "files.example"])["session_id"]
    equal(c.call("session_info", session_id=s)["network"], "pypi+custom", "a preset and a host")
    got = c.call("run", session_id=s, command="getent hosts refused.example; getent hosts other.example; sleep 0.2; true")
    equal(sorted(d["name"] for d in got["denied"]), ["other.example", "refused.example"])
    has(got["denied"][0]["reason"], "not allowed", "why")
    equal(c.call("run", session_id=s, command="true")["denied"], [], "only what came while it ran")
    c.fails("create_session", "network", network=["no-such-preset"])
    server.delete(s)


# -- what is shown


def test_packages_of_a_session(server):
    c = Client(server)
    lock = {"name": "requirements.txt", "text": "demo==1.0\n"}
    s = c.call("create_session", packages={"registries": ["npm", "pypi"], "mode": "pinned", "min_age": "7d", "lockfiles": [lock]})["session_id"]
    document = server.want(200, "GET", f"/v1/sessions/{s}/network")["policy"]["packages"]
    equal((document["min_age"], document["pins"]), ("7d", {"pypi:demo": ["1.0"]}), "packages, with a lockfile as pins")
    c.fails("create_session", "packages.registries[0]: there is no registry 'cpan'", packages={"registries": ["cpan"]})
    c.fails("create_session", "mode", packages={"mode": "shut"})
    server.delete(s)


def test_rate_of_lockfiles(server):
    """Reading them costs time, also if the session is refused: the calls of a tenant have the rate of its other requests."""
    _, key = server.tenant("mcp-locks")
    c, texts = Client(server, key=key), []
    wrong = {"name": "requirements.txt", "text": "".join(f"a{i}==1.0\n" for i in range(9000)) + "-r wrong"}
    while len(texts) < 60 and not (texts and "bytes of policies" in texts[-1]):
        texts.append(c.fails("create_session", packages={"registries": ["pypi"], "lockfiles": [wrong]}))
    check(1 < len(texts) < 60, f"{len(texts)} calls, the last one said {texts[-1]}")
    check(all("line 9001" in t for t in texts[:-1]), f"{texts[0]}")
    check(server.request("POST", "/v1/sessions", {"network": {"version": 1, "packages": {"lockfiles": [wrong]}}}, key=key)[0] == 429, "REST")
    Client(server).fails("create_session", "line 9001", packages={"registries": ["pypi"], "lockfiles": [wrong]})
    equal(live(server, key), set(), "sessions of calls that failed")


def test_output_has_a_bound_and_no_control_characters(server):
    c = Client(server)
    s = c.call("create_session")["session_id"]
    got = c.call("run", session_id=s, command="seq 1 1000000; seq 1 10 >&2")
    check(len(got["stdout"]) <= 16384 + 100, str(len(got["stdout"])))
    check(got["stdout"].startswith("1\n2\n") and got["stdout"].endswith("\n1000000\n") and got["truncated"], "both ends")
    has(got["stdout"], "bytes left out", "what is between")
    equal(got["stderr"], "".join(f"{i}\n" for i in range(1, 11)), "the other is whole")
    rest = c.call("read_output", execution_id=got["execution_id"], stream="stdout", **{"from": 16384}, max_bytes=64)
    equal((len(rest["text"]), rest["next"]), (64, 16448), "the middle can be read")
    got = c.call("run", session_id=s, command=r"printf '\033[2J\007a\302\205\342\200\256b\377\000\r\n\tc'")["stdout"]
    equal(got, "\\x1b[2J\\x07a\\u0085\\u202eb\\xff\\x00\n\tc", "shown")
    got = c.call("run", session_id=s, command="head -c 100000 /dev/zero")
    check(len(got["stdout"]) <= 16384 + 100, str(len(got["stdout"])))
    got = c.call("run", session_id=s, command="awk 'BEGIN { while (i++ < 9000) printf \"\\303\\251\" }'")["stdout"]
    check(set(got.split("\n[")[0]) == {"é"} and "\ufffd" not in got, "no character is cut")
    c.call("run", session_id=s, command=r"touch \"$(printf 'x\033]0;y\nz')\"")
    has(str(c.call("list_files", session_id=s)["entries"]), "\\\\x1b]0;y", "names")
    server.delete(s)


def test_names_are_masked(server):
    value = "v4lue-0f-the-secret"
    server.want(201, "POST", "/v1/secrets", {"name": "names", "value": value, "ways": ["env"]})
    s = server.create(secrets=[{"name": "names", "as": "env", "env": "TOK"}])["id"]
    c = Client(server)
    got = c.call("run", session_id=s, command='mkdir "/tmp/d-$TOK"; echo > "/tmp/d-$TOK/f-$TOK"; ln -s "/tmp/d-$TOK" /tmp/l', report_changes=True)
    stars = "*" * len(value)
    has({f["path"] for f in got["files_changed"]}, f"/tmp/d-{stars}/f-{stars}")
    listed = c.call("list_files", session_id=s, path="/tmp/l")
    equal((listed["path"], [e["path"] for e in listed["entries"]]), (f"/tmp/d-{stars}", [f"/tmp/d-{stars}/f-{stars}"]))
    has({f["path"] for f in c.call("get_changes", session_id=s)["added"]}, f"/tmp/d-{stars}/f-{stars}")
    for call in (("list_files", {"path": "/tmp"}), ("read_file", {"path": f"/tmp/d-{value}/f-{value}"})):
        check(value not in json.dumps(c.call(call[0], session_id=s, **call[1])), f"{call}")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/names")


def test_secrets_are_masked(server):
    c = Client(server)
    s = c.call("create_session")["session_id"]
    got = c.call("run", session_id=s, command=f"echo {KEY}; echo {KEY} > f; seq 1 10000 >> f; echo {KEY} >> f; touch {KEY}")
    equal(got["stdout"], "*" * 33 + "\n", "output")
    for offset in (0, 1, 20, 48900, 48905, 48920):
        check("Ab3" not in c.call("read_file", session_id=s, path="f", offset=offset)["text"], f"a file from {offset}")
    got = c.result("resources/read", {"uri": f"cordon://sessions/{s}/files/home/user/f"})["contents"][0]["text"]
    check("Ab3" not in got, "a resource")
    check("Ab3" not in str(c.call("list_files", session_id=s)), "names")
    check("Ab3" not in str(c.call("get_changes", session_id=s)), "changes")
    server.delete(s)


def test_progress(server):
    for client in (Client(server), Client(server, legacy=True)):
        s = client.call("create_session")["session_id"]
        call = {"name": "run", "arguments": {"session_id": s, "command": "i=0; while [ $i -lt 25 ]; do i=$((i+1)); "
                                             "echo line $i; sleep 0.1; done"}}
        began = time.monotonic()
        _, headers, messages = client.post("tools/call", call, token="tok", number="id-1")
        seconds = time.monotonic() - began
        equal((headers["content-type"], headers["x-accel-buffering"]), ("text/event-stream", "no"), "a stream")
        shown = [m["params"] for m in messages[:-1]]
        check(1 <= len(shown) <= seconds + 1.5, f"{len(shown)} in {seconds} seconds")
        check(all(p["progressToken"] == "tok" for p in shown), str(shown))
        check(shown[-1]["message"].startswith("line "), str(shown))
        values = [p["progress"] for p in shown]
        equal(values, sorted(set(values)), "grows")
        equal((messages[-1]["id"], messages[-1]["result"]["structuredContent"]["exit_code"]), ("id-1", 0), "the result")
        equal(client.post("tools/call", {"name": "session_info", "arguments": {}}, token="t")[1]["content-type"],
              "application/json", "a short call needs no stream")
        server.delete(s)


def test_a_long_call_becomes_a_stream(server):
    """Without a token, too: what says nothing for minutes is dropped by proxies."""
    c = Client(server)
    status, headers, m = c.post("tools/call", {"name": "run", "arguments": {"command": "sleep 5.5; echo end"}})
    equal((status, headers["content-type"], len(m)), (200, "text/event-stream", 1), "a stream")
    equal(m[0]["result"]["structuredContent"]["stdout"], "end\n")


# -- the end of calls


def test_a_client_that_is_gone_ends_its_command_only(server):
    c = Client(server)
    s = c.call("create_session")["session_id"]
    keep = c.call("run", session_id=s, command="exec sleep 3333", background=True)
    link = c.open("tools/call", {"name": "run", "arguments": {"session_id": s, "command": "sleep 4444 & sleep 5555"}})
    wait_for(lambda: runs(server, s, "sleep 5555"), 10, "the command")
    link.close()
    wait_for(lambda: not runs(server, s, "sleep 5555") and not runs(server, s, "sleep 4444"), 10, "its end")
    check(runs(server, s, "sleep 3333"), "what another call started goes on")
    equal(server.get(s)["state"], "running", "the session")
    c.call("stop", execution_id=keep["execution_id"])
    server.delete(s)


def test_cancelling_in_the_legacy_era(server):
    c = Client(server, legacy=True, session="a")
    s = c.call("create_session")["session_id"]
    call = {"name": "run", "arguments": {"session_id": s, "command": "sleep 6666"}}
    link = c.open("tools/call", call, number="q1")
    wait_for(lambda: runs(server, s, "sleep 6666"), 10, "the command")
    other = Client(server, legacy=True, session="b")
    equal(other.post("notifications/cancelled", {"requestId": "q1"})[0], 202, "another client's id")
    equal(c.post("notifications/cancelled", {"requestId": "q2"})[0], 202, "another id")
    stays(lambda: runs(server, s, "sleep 6666"), 0.5, "not cancelled")
    equal(c.post("notifications/cancelled", {"requestId": "q1"})[0], 202)
    wait_for(lambda: not runs(server, s, "sleep 6666"), 10, "its end")
    answer = link.getresponse()
    equal((answer.status, answer.read()), (202, b""), "no result follows")
    link.close()
    link = c.open("tools/call", call, number="q3")
    wait_for(lambda: runs(server, s, "sleep 6666"), 10, "the command")
    link.close()
    stays(lambda: runs(server, s, "sleep 6666"), 0.5, "a connection that ends is no cancellation")
    server.delete(s)


def test_a_session_for_one_call_ends_with_it(server):
    c = Client(server)
    before = live(server)
    equal(c.call("run", command="exit 9")["exit_code"], 9)
    none_fresh(server, before)
    equal(c.call("run", command="sleep 100", timeout_s=1)["limit"], "timeout")
    none_fresh(server, before)
    for client in (c, Client(server, legacy=True)):
        link = client.open("tools/call", {"name": "run", "arguments": {"command": "exec sleep 7777"}})
        wait_for(lambda: live(server) - before, 10, "a session")
        link.close()
        none_fresh(server, before)


def test_a_session_for_one_call_ends_if_the_server_dies(server):
    c = Client(server)
    before = live(server)
    link = c.open("tools/call", {"name": "run", "arguments": {"command": "exec sleep 8888"}})
    wait_for(lambda: live(server) - before, 10, "a session")
    fresh = (live(server) - before).pop()
    wait_for(lambda: server.get(fresh)["executions_running"] == 1, 10, "its command")
    server.kill("cordond", signal.SIGKILL)
    link.close()
    server.wait_ready()
    none_fresh(server, before)


# -- keys


def test_scopes(server):
    keys = {scope: server.want(201, "POST", "/v1/keys", {"name": scope, "scopes": [scope]})["key"]
            for scope in ("read", "sessions", "admin")}
    c = Client(server)
    s = c.call("create_session")["session_id"]
    c.call("write_file", session_id=s, path="f", text="x")
    reader = Client(server, key=keys["read"])
    equal([t["name"] for t in reader.result("tools/list")["tools"]],
          ["read_output", "read_file", "list_files", "get_changes", "session_info"], "what it sees")
    equal(reader.call("read_file", session_id=s, path="f")["text"], "x")
    status, headers, m = reader.post("tools/call", {"name": "run", "arguments": {"command": "true"}})
    equal((status, headers["www-authenticate"]), (403, 'Bearer error="insufficient_scope", scope="sessions"'))
    has(m["error"]["message"], "scope sessions", "why")
    check(Client(server, key=keys["sessions"]).call("run", command="true")["exit_code"] == 0, "a key for sessions")
    status, headers, _ = Client(server, key=keys["admin"]).post("tools/list")
    equal((status, headers["www-authenticate"]), (403, 'Bearer error="insufficient_scope", scope="read"'))
    for sent in ({"Authorization": None}, {"Authorization": "Bearer e2b_" + "0" * 40}):
        status, headers, m = c.post("tools/list", **sent)
        equal((status, headers["www-authenticate"]), (401, 'Bearer scope="sessions"'))
        check("id" not in m or m["id"] is None or m["id"], str(m))
    equal(c.post("tools/list", Authorization=None, X_API_Key=server.key)[0], 200, "the other header")
    server.delete(s)


def test_another_tenant(server):
    """Its sessions are as unknown as those that never were."""
    c = Client(server)
    s = c.call("create_session")["session_id"]
    x = c.call("run", session_id=s, command="echo mine")["execution_id"]
    _, key = server.tenant("mcp-other")
    them = Client(server, key=key)
    unknown = s[:-1] + ("a" if s[-1] != "a" else "b")
    for tool, more in (("run", {"command": "true"}), ("stop", {}), ("read_file", {"path": "f"}), ("list_files", {}),
                       ("write_file", {"path": "f", "text": ""}), ("get_changes", {}), ("open_port", {"port": 1}),
                       ("session_info", {})):
        theirs = them.fails(tool, session_id=s, **more)
        equal(theirs.replace(s, "ID"), them.fails(tool, session_id=unknown, **more).replace(unknown, "ID"), tool)
    equal(them.fails("read_output", execution_id=x), them.fails("read_output", execution_id="exe_0000000000000000"))
    equal(them.fails("stop", execution_id=x), them.fails("stop", execution_id="exe_0000000000000000"))
    for uri in (f"cordon://sessions/{s}", f"cordon://sessions/{s}/files/etc/passwd", f"cordon://sessions/{s}/changes",
                f"cordon://sessions/{s}/executions/{x}/output", "cordon://sessions/", "file:///etc/passwd",
                f"cordon://sessions/{s}/files/%00"):
        status, _, m = them.post("resources/read", {"uri": uri})
        equal((m["error"]["code"], m["error"]["data"]["uri"]), (-32602, uri), uri)
    equal(them.result("resources/list")["resources"], [], "nothing of ours")
    equal(them.call("session_info")["sessions"], [], "nor there")
    server.delete(s)


def test_resources(server):
    for c in (Client(server), Client(server, legacy=True)):
        s = c.call("create_session")["session_id"]
        x = c.call("run", session_id=s, command="echo text; printf 'a b' > 'a b'; printf '\\0\\1' > bin")["execution_id"]
        base = f"cordon://sessions/{s}"
        check(base in [r["uri"] for r in c.result("resources/list")["resources"]], "the list")
        equal(len(c.result("resources/templates/list")["resourceTemplates"]), 4)

        def read(uri):
            return c.result("resources/read", {"uri": uri})["contents"][0]

        equal(json.loads(read(base)["text"])["state"], "running", "a session")
        equal(read(base + "/files/home/user/a%20b")["text"], "a b", "a file")
        equal(base64.b64decode(read(base + "/files/home/user/bin")["blob"]), b"\0\1", "a binary file")
        equal(read(f"{base}/executions/{x}/output")["text"], "text\n", "output")
        check({"path": "/home/user/bin", "size": 2} in json.loads(read(base + "/changes")["text"])["added"], "changes")
        status, _, m = c.post("resources/read", {"uri": base + "/files/nothing"})
        equal((m["error"]["code"], m["error"]["data"]["uri"]), (-32602, base + "/files/nothing"))
        server.delete(s)


def test_a_client_that_listens_is_told_about_sessions(server):
    c = Client(server)
    link = c.open("subscriptions/listen", {"notifications": {"resourcesListChanged": True, "toolsListChanged": True}},
                  number="l1", timeout=20)
    stream = link.getresponse()

    def message():
        while True:
            line = stream.fp.readline()
            if line.startswith(b"data:"):
                return json.loads(line[5:])

    m = message()
    equal((m["method"], m["params"]["notifications"]),
          ("notifications/subscriptions/acknowledged", {"resourcesListChanged": True}), "what is honoured")
    s = c.call("create_session")["session_id"]
    m = message()
    equal(m["method"], "notifications/resources/list_changed", "a session")
    equal(m["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l1", "of which stream")
    server.run(s, "true")
    server.delete(s)
    equal(message()["method"], "notifications/resources/list_changed", "its end, and nothing for the command")
    link.close()


def test_a_repository_that_is_not_cloned(server):
    """What git clones over the network is in tests/egress/test_egress_clients.py."""
    c = Client(server)
    before = live(server)
    for url in ("http://a.example/r", "https://u:p@a.example/r", "https://a.example", "https://a.example/", "/tmp/r",
                "https://a.example/r/", "https://a.example/../r", "https://a.example/-r", "https://a.example//r",
                "https://a.example/.git", "https://a.example/r?x=1", "https://a.example/r;id", "https://a.example/r\nx",
                "https://-a.example/r", "https://a.example:x/r", "https://a.example/%2e%2e", "ext::sh -c id", "--help",
                "https://a.example/" + "n" * 101, "https://a.example/" + "a/" * 600 + "r", ""):
        c.fails("create_session", "repository.url", repository={"url": url})
    for ref in ("-x", "--upload-pack=id", "a b", "a..b", "$(id)", "r" * 256, ""):
        c.fails("create_session", "repository.ref", repository={"url": "https://a.example/r", "ref": ref})
    c.fails("create_session", "repository", repository={"ref": "main"})
    c.fails("create_session", "repository", repository="https://a.example/r")
    url = "https://refused.example/some/tool.git"
    c.fails("create_session", "exit code 128", "refused.example: ", "not allowed", "network must allow refused.example",
            "The session was ended", network=["files.example"], repository={"url": url})
    c.fails("create_session", "exit code 128", "network must allow refused.example", repository={"url": url})
    c.fails("create_session", "no program git", "The session was ended", env={"PATH": "/nowhere"}, repository={"url": url})
    equal(live(server) - before, set(), "no session is left")


def test_advice_names_what_was_asked(server):
    c = Client(server)
    text = c.fails("create_session", "no such template 'nosuch'. Leave it out", template="nosuch")
    check("session_info" not in text, text)
    c.fails("create_session", "there is no preset 'nosuch'; there are none, deny, internet, pypi", network="nosuch")
    c.fails("create_session", "there is no argument netwrk", netwrk="pypi")
    status, _, m = c.post("tools/call", {"name": "nosuch", "arguments": {}})
    equal((status, m["error"]["message"]), (400, "there is no tool nosuch: see tools/list"))



if __name__ == "__main__":
    run_tests(globals(), Interpreted, pool_size=2, node_max_memory="500G", redact_patterns="sk-[A-Za-z0-9]{20,64}")
