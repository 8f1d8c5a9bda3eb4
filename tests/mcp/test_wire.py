#!/usr/bin/python3
"""test_wire.py - requests to the MCP fixture byte by byte: what the conformance suite does not send.

    test_wire.py FIXTURE [name ...]"""
import base64
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "net"))
from wire import Reader, Server, chunks, read_answer, read_head, run  # noqa: E402

PROGRAM = sys.argv[1]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


def meta(version=MODERN, **more):
    return {META + "protocolVersion": version, META + "clientCapabilities": {}, **more}


def modern(method="tools/call", name="test_simple_text", id=1, **params):
    params = {"_meta": meta(), **params}
    if name is not None:
        params["name"] = name
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def headers_of(message, **change):
    """Those that belong to a modern message; a value of None takes one away."""
    params = message.get("params", {})
    headers = {"Host": "localhost", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": MODERN, "Mcp-Method": message.get("method", "")}
    if "name" in params or "uri" in params:
        headers["Mcp-Name"] = params.get("name", params.get("uri"))
    headers.update({k.replace("_", "-"): v for k, v in change.items()})
    return {k: v for k, v in headers.items() if v is not None}


def head(headers, length, method="POST"):
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    return f"{method} /mcp HTTP/1.1\r\n{lines}Content-Length: {length}\r\n\r\n".encode()


def post(server, body, headers=None, method="POST"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = headers_of(body if isinstance(body, dict) else {}) if headers is None else headers
    answer = server.ask(head(headers, len(raw), method) + raw)
    try:
        answer.json = json.loads(answer.body)
    except ValueError:
        answer.json = None
    return answer


def code(answer):
    return (answer.status, (answer.json or {}).get("error", {}).get("code"))


LEGACY = {"Host": "localhost", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def legacy(method, id=1, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def headers_must_agree_with_the_body():
    call = modern()
    wide = modern(name="tést ✓")
    encoded = "=?base64?" + base64.b64encode("tést ✓".encode()).decode() + "?="
    table = [
        (call, {}, (200, None)),
        (call, {"MCP_Protocol_Version": None}, (400, -32020)),
        (call, {"MCP_Protocol_Version": "2025-11-25"}, (400, -32020)),
        (call, {"Mcp_Method": None}, (400, -32020)),
        (call, {"Mcp_Method": "tools/list"}, (400, -32020)),
        (call, {"Mcp_Method": "Tools/Call"}, (400, -32020)),
        (call, {"Mcp_Name": None}, (400, -32020)),
        (call, {"Mcp_Name": "test_image_content"}, (400, -32020)),
        (call, {"Mcp_Name": "=?base64?" + base64.b64encode(b"test_simple_text").decode() + "?="}, (200, None)),
        (call, {"Mcp_Name": "=?base64?dGVzdA?="}, (400, -32020)),
        (call, {"Mcp_Name": "=?base64?!!!!?="}, (400, -32020)),
        (wide, {"Mcp_Name": encoded}, (400, -32602)),  # it agrees, and there is no such tool
        (wide, {"Mcp_Name": "t?st"}, (400, -32020)),
        (modern(name="x" * 3000), {}, (400, -32602)),
        (modern("prompts/get", "test_simple_prompt"), {}, (200, None)),
        (modern("prompts/get", "test_simple_prompt"), {"Mcp_Name": "other"}, (400, -32020)),
        (modern("resources/read", None, uri="test://static-text"), {}, (200, None)),
        (modern("resources/read", None, uri="test://static-text"), {"Mcp_Name": "test://static-binary"}, (400, -32020)),
    ]
    with Server(PROGRAM) as server:
        for body, change, want in table:
            got = post(server, body, headers_of(body, **change))
            assert code(got) == want, (body, change, code(got), want)
            assert got.json["id"] == 1
        twice = head(headers_of(call), 0).replace(b"Mcp-Name", b"Mcp-Name: test_image_content\r\nMcp-Name")
        raw = json.dumps(call).encode()
        got = server.ask(twice.replace(b"Content-Length: 0", b"Content-Length: %d" % len(raw)) + raw)
        assert got.status == 400 and json.loads(got.body)["error"]["code"] == -32020


def legacy_headers_mean_nothing():
    """A legacy request is what its body says, whatever Mcp-Name claims."""
    with Server(PROGRAM) as server:
        for more in ({}, {"Mcp-Method": "tools/list", "Mcp-Name": "other"}, {"MCP-Protocol-Version": "2025-06-18"},
                     {"Mcp-Session-Id": "abc", "MCP-Protocol-Version": "2025-11-25"}):
            got = post(server, legacy("tools/call", name="test_simple_text"), {**LEGACY, **more})
            assert got.status == 200 and "resultType" not in got.json["result"], got.body
            assert got.json["result"]["content"][0]["text"].startswith("This is a simple"), got.body


def the_era_follows_from_the_request():
    initialize = legacy("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"})
    with Server(PROGRAM) as server:
        assert post(server, initialize, LEGACY).json["result"]["protocolVersion"] == "2025-06-18"
        initialize["params"]["protocolVersion"] = "1999-01-01"
        answer = post(server, initialize, LEGACY)
        assert answer.json["result"]["protocolVersion"] == "2025-11-25" and "mcp-session-id" not in answer.headers
        for version in ("2024-01-01", "garbage"):  # unknown: the versions that there are
            call = modern("server/discover", None)
            call["params"]["_meta"][META + "protocolVersion"] = version
            got = post(server, call, headers_of(call, MCP_Protocol_Version=version))
            assert code(got) == (400, -32022) and got.json["error"]["data"] == {"supported": [MODERN], "requested": version}
        assert code(post(server, legacy("tools/list"), {**LEGACY, "MCP-Protocol-Version": MODERN})) == (400, -32602)
        assert code(post(server, legacy("server/discover"), LEGACY)) == (200, -32601)
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/initialized", "no/such"):
            assert code(post(server, modern(method, None))) == (404, -32601), method
        assert code(post(server, legacy("no/such"), LEGACY)) == (200, -32601)
        assert post(server, legacy("ping"), LEGACY).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
        for note in ("notifications/initialized", "notifications/cancelled", "notifications/whatever"):
            got = post(server, {"jsonrpc": "2.0", "method": note, "params": {"requestId": 1}}, LEGACY)
            assert got.status == 202 and got.body == b""
        for method in ("GET", "DELETE"):
            got = post(server, b"", LEGACY, method)
            assert got.status == 405 and got.headers["allow"] == "POST"


def bad_envelopes_are_refused():
    call = json.dumps(modern())
    deep = 100_000
    table = [
        (b"", (400, -32700)), (b"{", (400, -32700)), (b"nonsense", (400, -32700)), (call[:-1].encode(), (400, -32700)),
        (call.encode() + b"x", (400, -32700)), (b"\xff\xfe" + call.encode(), (400, -32700)),
        (call.replace('"id"', '"id": 5, "id"').encode(), (400, -32700)),
        (call.replace('"name"', '"name": "a", "n\\u0061me"').encode(), (400, -32700)),
        (f"[{call}]".encode(), (400, -32600)), (b"[]", (400, -32600)), (b"1", (400, -32600)), (b"null", (400, -32600)),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', (400, -32600)), (b'{"id":1,"method":"ping"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 300 + b'","method":"ping"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', (400, -32600)), (b'{"jsonrpc":"2.0","id":1}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}', (400, -32602)),
        (b"[" * deep + b"]" * deep, (413, -32600)), (b'{"a":' * deep + b"1" + b"}" * deep, (413, -32600)),
        (b"[" + b"1," * 200_000 + b"1]", (413, -32600)),
    ]
    with Server(PROGRAM) as server:
        for raw, want in table:
            got = post(server, raw, {**LEGACY, "MCP-Protocol-Version": MODERN})
            assert code(got) == want, (raw[:80], code(got), want, got.body)
            assert got.json.get("id", "absent") in (1, "absent"), got.body  # never null, which the schema forbids
        assert post(server, modern()).status == 200


def meta_is_checked():
    table = [
        ({"_meta": 5}, -32602), ({}, -32602), ({"_meta": {}}, -32602),
        ({"_meta": {META + "protocolVersion": 7, META + "clientCapabilities": {}}}, -32602),
        ({"_meta": {META + "protocolVersion": MODERN}}, -32602),
        ({"_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": []}}, -32602),
        ({"_meta": {**meta(), META + "logLevel": "loud"}}, -32602), ({"_meta": {**meta(), META + "logLevel": 3}}, -32602),
        ({"_meta": {**meta(), "progressToken": {}}}, -32602), ({"_meta": {**meta(), "progressToken": 1.5}}, -32602),
        ({"_meta": meta(), "arguments": []}, -32602), ({"_meta": meta(), "arguments": "x"}, -32602),
        ({"_meta": meta(), "inputResponses": []}, -32602), ({"_meta": meta(), "requestState": 5}, -32602),
        ({"_meta": {**meta(), META + "clientInfo": "odd", "unknown/member": [1]}}, None),
        ({"_meta": {**meta(), META + "logLevel": "debug", "progressToken": "t", "traceparent": "00-a-b-01"}}, None),
    ]
    with Server(PROGRAM) as server:
        for params, want in table:
            message = {"jsonrpc": "2.0", "id": "é\u2028", "method": "tools/call", "params": {"name": "test_simple_text", **params}}
            got = post(server, message)
            assert code(got) == ((400, want) if want else (200, None)), (params, got.body)
            assert got.json["id"] == "é\u2028"


def strangers_pages_are_refused():
    table = [({}, 200), ({"Origin": "http://localhost:3000"}, 200), ({"Origin": "https://127.0.0.1"}, 200),
             ({"Origin": "http://[::1]:8080"}, 200), ({"Origin": "http://evil.example.com"}, 403),
             ({"Origin": "null"}, 403), ({"Origin": ""}, 403), ({"Origin": "http://localhost.evil.example"}, 403),
             ({"Origin": "http://localhost@evil.example"}, 403), ({"Origin": "http://localhost/x"}, 403),
             ({"Origin": "file://localhost"}, 403), ({"Host": "evil.example.com"}, 403),
             ({"Host": "127.0.0.1.evil.example:80"}, 403), ({"Host": "LOCALHOST:8080"}, 200), ({"Host": "[::1]:80"}, 200)]
    with Server(PROGRAM) as server:
        for change, want in table:
            got = post(server, modern(), {**headers_of(modern()), **change})
            assert got.status == want, (change, got.status, want)


def media_types_are_checked():
    table = [("Content-Type", "text/plain", 415), ("Content-Type", None, 415),
             ("Content-Type", "application/json; charset=utf-8", 200), ("Content-Type", "Application/JSON", 200),
             ("Accept", "text/html", 406), ("Accept", None, 200), ("Accept", "*/*", 200),
             ("Accept", "application/json;q=0.5,text/event-stream", 200)]
    with Server(PROGRAM) as server:
        for name, value, want in table:
            headers = {k: v for k, v in {**headers_of(modern()), name: value}.items() if v is not None}
            assert post(server, modern(), headers).status == want, (name, value)


def large_bodies_are_refused():
    """A length of 100 MB at once, by its head; chunks of it before they are kept; 1 MiB is the bound."""
    with Server(PROGRAM) as server:
        with server.connect() as s:
            s.sendall(head(headers_of(modern()), 100_000_000) + b"x" * 1000)
            assert read_answer(Reader(s)).status == 413
        with server.connect(30) as s:
            headers = head(headers_of(modern()), 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            s.sendall(headers)
            try:
                for _ in range(100):
                    s.sendall(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
            except OSError:
                pass
            try:
                assert read_answer(Reader(s)).status == 413
            except ConnectionResetError:
                pass  # the answer was lost with what was still being sent
        fits = json.dumps(modern("tools/call", "echo", arguments={"text": "x" * 1_000_000})).encode()
        assert len(fits) < 1 << 20
        assert post(server, fits, headers_of(modern("tools/call", "echo"))).json["result"]["content"][0]["text"] == "x" * 1_000_000
        with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        assert peak < 200_000, f"{peak} KiB"


def arguments_are_checked_by_the_schema():
    table = [({}, "text is required"), ({"text": 5}, "text must be of type string"),
             ({"text": "a", "more": 1}, "there is no argument more"), ({"text": "nul\0"}, "text must not have a NUL")]
    with Server(PROGRAM) as server:
        for arguments, want in table:
            result = post(server, modern(name="echo", arguments=arguments)).json["result"]
            assert result["isError"] is True and want in result["content"][0]["text"], result
        assert "isError" not in post(server, modern(name="echo", arguments={"text": "a"})).json["result"]
        assert code(post(server, modern(name="no_such_tool"))) == (400, -32602)


def text_comes_back_as_it_was():
    text = 'ANSI \x1b[31m, {"jsonrpc":"2.0","id":1,"result":{}}\n\ndata: x\r\n\u2028 "é😀\\'
    with Server(PROGRAM) as server:
        got = post(server, modern(name="echo", arguments={"text": text}))
        assert got.json["result"]["content"][0]["text"] == text and b"\n" not in got.body


def events(answer_chunks):
    """The messages of a stream, as they come; comments are left out."""
    text = b""
    for piece in answer_chunks:
        text += piece
        while b"\n\n" in text:
            event, text = text.split(b"\n\n", 1)
            data = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
            if data:
                yield json.loads(b"\n".join(data))


def stream(server, message):
    s = server.connect()
    raw = json.dumps(message).encode()
    s.sendall(head(headers_of(message), len(raw)) + raw)
    reader = Reader(s)
    status, headers = read_head(reader)
    assert status == 200 and headers["content-type"] == "text/event-stream" and headers["x-accel-buffering"] == "no"
    return s, events(chunks(reader))


def progress_only_if_asked():
    with Server(PROGRAM) as server:
        plain = post(server, modern(name="test_tool_with_progress"))
        assert plain.headers["content-type"] == "application/json"
        s, messages = stream(server, modern(name="test_tool_with_progress", id="p", _meta={**meta(), "progressToken": "t☺"}))
        with s:
            messages = list(messages)
        assert [m["params"]["progress"] for m in messages[:-1]] == [0, 50, 100]
        assert all(m["method"] == "notifications/progress" and m["params"]["progressToken"] == "t☺" for m in messages[:-1])
        assert messages[-1]["id"] == "p" and messages[-1]["result"]["resultType"] == "complete"


def listeners_get_what_they_asked_for():
    with Server(PROGRAM) as server:
        one, first = stream(server, modern("subscriptions/listen", None, id=11, notifications={
            "toolsListChanged": True, "resourceSubscriptions": ["test://watched-resource"], "odd": True}))
        two, second = stream(server, modern("subscriptions/listen", None, id="b", notifications={"promptsListChanged": True}))
        with one, two:
            ack = next(first)
            assert ack["method"] == "notifications/subscriptions/acknowledged"
            assert ack["params"] == {"_meta": {META + "subscriptionId": 11}, "notifications": {
                "toolsListChanged": True, "resourceSubscriptions": ["test://watched-resource"]}}
            assert next(second)["params"]["_meta"] == {META + "subscriptionId": "b"}
            for trigger in ("test_trigger_tool_change", "test_trigger_prompt_change"):
                assert post(server, modern(name=trigger)).status == 200
            assert next(first)["method"] == "notifications/tools/list_changed"
            change = next(second)
            assert change["method"] == "notifications/prompts/list_changed"
            assert change["params"]["_meta"] == {META + "subscriptionId": "b"}
        many = {"resourceSubscriptions": [f"test://{i}" for i in range(17)]}
        assert code(post(server, modern("subscriptions/listen", None, notifications=many))) == (400, -32602)
        assert code(post(server, modern("subscriptions/listen", None))) == (400, -32602)


def sealed_state_is_bound():
    """To its tool, its arguments and every bit of it."""
    def ask(server, **params):
        return post(server, modern(_meta=meta(**{META + "clientCapabilities": {"elicitation": {}}}), **params))

    tool, other = "test_input_required_result_request_state", "test_input_required_result_multiple_inputs"
    answers = {"confirm": {"action": "accept", "content": {"ok": True}}}
    with Server(PROGRAM) as server:
        result = ask(server, name=tool).json["result"]
        assert result["resultType"] == "input_required" and list(result["inputRequests"]) == ["confirm"]
        state = result["requestState"]
        good = ask(server, name=tool, requestState=state, inputResponses=answers)
        assert good.json["result"]["content"][0]["text"] == "state-ok"
        assert code(ask(server, name=other, requestState=state, inputResponses=answers)) == (400, -32602)
        box = base64.b64decode(state)
        for at in range(0, len(box), 7):
            changed = bytearray(box)
            changed[at] ^= 1
            bad = base64.b64encode(bytes(changed)).decode()
            assert code(ask(server, name=tool, requestState=bad, inputResponses=answers)) == (400, -32602), at
        for bad in ("", "x", state[:-4], state + "AAAA", "é" * 40, "A" * 100_000):
            assert code(ask(server, name=tool, requestState=bad, inputResponses=answers)) == (400, -32602), bad[:20]
    with Server(PROGRAM) as server:  # another key
        assert code(ask(server, name=tool, requestState=state, inputResponses=answers)) == (400, -32602)


def a_client_that_leaves_ends_its_call():
    """The fixture counts its open calls, and fails at its end if one is left."""
    with Server(PROGRAM) as server:
        for _ in range(50):
            s, messages = stream(server, modern("subscriptions/listen", None, notifications={"toolsListChanged": True}))
            next(messages)
            s.close()
        s, messages = stream(server, modern(name="test_tool_with_progress", _meta={**meta(), "progressToken": 1}))
        next(messages)
        s.close()
        time.sleep(0.2)  # the tool would go on for as long
        assert post(server, modern()).status == 200


def answers_of_strangers_are_refused():
    """A response to a question that nobody asked."""
    with Server(PROGRAM) as server:
        got = post(server, {"jsonrpc": "2.0", "id": "0" * 32, "result": {"action": "accept"}}, LEGACY)
        assert got.status == 404
        assert code(post(server, {"jsonrpc": "2.0", "id": 1, "result": {}},
                         {**LEGACY, "MCP-Protocol-Version": MODERN})) == (400, -32600)


TESTS = [headers_must_agree_with_the_body, legacy_headers_mean_nothing, the_era_follows_from_the_request,
         bad_envelopes_are_refused, meta_is_checked, strangers_pages_are_refused, media_types_are_checked,
         large_bodies_are_refused, arguments_are_checked_by_the_schema, text_comes_back_as_it_was, progress_only_if_asked,
         listeners_get_what_they_asked_for, sealed_state_is_bound, a_client_that_leaves_ends_its_call,
         answers_of_strangers_are_refused]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
