#!/usr/bin/python3
"""test_mcp_attacks.py - attacks on /mcp: pages of other sites, requests that lie about themselves, documents made to
cost much, clients that are slow or many, and names that are none."""
import http.client
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, rss, run_tests, wait_for  # noqa: E402
from mcp_client import META, VERSION, Client  # noqa: E402

STREAMS = 8


def raw(server, head, body=b"", seconds=20):
    """The first bytes of the answer to a request that is sent as it is."""
    host, port = server.settings["listen"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=seconds) as s:
        s.sendall(head.encode() + b"\r\n\r\n")
        try:
            s.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            return s.recv(65536)
        except ConnectionResetError:
            return b""


def test_pages_of_other_sites(server):
    c = Client(server)
    host = server.settings["listen"]
    for origin in ("https://evil.example.com", "null", "http://localhost.evil.example", f"http://evil@{host}",
                   "http://127.0.0.1.evil.example", "file://", ""):
        equal(c.post("tools/list", Origin=origin)[0], 403, f"Origin: {origin}")
    for name in ("evil.example.com", "evil.example.com:80", "localhost.evil.example"):
        equal(c.post("tools/list", Host=name)[0], 403, f"Host: {name}")
        equal(c.post("tools/list", Host=name, Origin=f"http://{name}")[0], 403, f"both {name}")
    port = host.rsplit(":", 1)[1]
    for origin in (f"http://localhost:{port}", f"http://127.0.0.1:{port}", f"http://[::1]:{port}"):
        equal(c.post("tools/list", Origin=origin)[0], 200, f"Origin: {origin}")
    for name in ("localhost", f"localhost:{port}", "127.0.0.1", f"api.localhost:{port}"):
        equal(c.post("tools/list", Host=name)[0], 200, f"Host: {name}")
    equal(c.post("tools/list", Origin="https://evil.example.com", Authorization=None)[0], 403, "before any key")


def test_headers_that_differ_from_the_body(server):
    c = Client(server)
    call = {"name": "run", "arguments": {"command": "true"}}
    for wrong in ({"Mcp_Name": "session_info"}, {"Mcp_Method": "tools/list"}, {"Mcp_Name": None}, {"Mcp_Method": None},
                  {"MCP_Protocol_Version": "2025-11-25"}, {"Mcp_Name": "=?base64?c2Vzc2lvbl9pbmZv?="}):
        status, _, m = c.post("tools/call", call, **wrong)
        equal((status, m["error"]["code"]), (400, -32020), str(wrong))
    status, _, m = c.post("tools/call", call, Mcp_Name="=?base64?cnVu?=")
    equal((status, m["result"]["structuredContent"]["exit_code"]), (200, 0), "a coded name")
    equal(c.post("tools/list", MCP_Protocol_Version="2099-01-01")[2]["error"]["code"] in (-32020, -32022), True)


def test_names_that_are_no_tools(server):
    c = Client(server)
    for name in ("", "run/../run", "run.", "a/b", "run\0", "RUN", "é", "x" * 129, "__proto__", "run%00"):
        m = c.message("tools/call", {"name": name, "arguments": {}})
        link = c.open("tools/call", {"name": name, "arguments": {}}, Mcp_Name=coded(name))
        answer = link.getresponse()
        m = json.loads(answer.read())
        link.close()
        check(m["error"]["code"] in (-32602, -32020), f"{name!r}: {m}")
    status, _, m = c.post("tools/call", {"name": "run"})
    check(m["result"]["isError"], "no arguments at all")
    for arguments, word in (({"command": 1}, "command"), ({"command": "true", "nonsense": 1}, "nonsense"),
                            ({"command": ""}, "command"), ({"command": "true", "timeout_s": 0}, "timeout_s"),
                            ({"command": "a\0b"}, "NUL"), ({"command": "true", "env": {"A": 1}}, "env"),
                            ({"command": "true", "session_id": "../x"}, "session"), ({}, "command")):
        c.fails("run", word, **arguments)
    status, _, m = c.post("tools/call", {"name": "run", "arguments": []})
    equal(m["error"]["code"], -32602, "arguments that are no object")


def coded(name):
    import base64
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="


def test_documents_that_cost_much(server):
    pid = server.pid("cordond")
    before = rss(pid)
    head = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\nMcp-Method: tools/list\r\n")
    for nested in (b"[" * 100000, b'{"a":' * 100000):
        answer = raw(server, head + f"Content-Length: {len(nested)}", nested)
        check(answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413"), f"{answer[:200]!r}")
    big = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"command":"' + b"x" * (100 << 20)
    answer = raw(server, head + f"Content-Length: {len(big)}", big)
    check(answer.startswith(b"HTTP/1.1 413"), f"{answer[:200]!r}")
    many = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":[' + b"0," * 400000 + b"0]}}"
    answer = raw(server, head + f"Content-Length: {len(many)}", many)
    check(answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413"), f"{answer[:200]!r}")
    twice = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"ping","params":{}}'
    answer = raw(server, head + f"Content-Length: {len(twice)}", twice)
    check(answer.startswith(b"HTTP/1.1 400"), f"a member that is there twice: {answer[:200]!r}")
    check(rss(pid) < before + (64 << 20), f"{before} -> {rss(pid)}")


def values(n):
    """A message of n values: five of JSON-RPC, its metadata with two and an empty object, which counts as having one, a list, and zeros."""
    meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta, "x": [0] * (n - 10)}}).encode()


def test_values_of_a_message(server):
    """A turn parses a message: 12,000 values are read, one more is refused before it is parsed."""
    c = Client(server)
    for n, status in ((12000, 200), (12001, 413)):
        body = values(n)
        link = http.client.HTTPConnection(*server.address, timeout=20)
        link.request("POST", "/mcp", body, c.headers(json.loads(body)))
        answer = link.getresponse()
        data = answer.read()
        equal(answer.status, status, f"{n} values: {data[:300]}")
        check(status == 200 or b"more than 12000 values" in data, f"{data[:300]}")
        link.close()


def test_a_slow_body(server):
    host, port = server.settings["listen"].rsplit(":", 1)
    head = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000\r\n\r\n{")
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(head.encode())
        began = time.monotonic()
        check(s.recv(65536).startswith(b"HTTP/1.1 408"), "it is not waited for")
        check(time.monotonic() - began < 15, "for ever")
    equal(Client(server).post("tools/list")[0], 200, "others")


def test_many_open_streams(server):
    """Each counts as a stream of its tenant; the others of the tenant are refused, other tenants are not."""
    _, key = server.tenant("mcp-streams")
    us, them = Client(server, key=key), Client(server)
    links, first = [], []
    for i in range(STREAMS + 3):
        link = us.open("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, number=f"s{i}", timeout=5)
        answer = link.getresponse()
        links.append((link, answer))
        if answer.status == 200:
            first.append(answer.fp.readline() + answer.fp.readline())
    equal(sorted(a.status for _, a in links), [200] * STREAMS + [429] * 3, "as many as it may have")
    check(all(b"acknowledged" in f or b"data" in f for f in first), str(first[:2]))
    equal(us.post("tools/list")[0], 200, "what is no stream")
    link = them.open("subscriptions/listen", {"notifications": {}}, timeout=5)
    equal(link.getresponse().status, 200, "another tenant")
    link.close()
    for link, _ in links:
        link.close()
    wait_for(lambda: listens(us), 10, "room again")


def listens(client):
    link = client.open("subscriptions/listen", {"notifications": {}}, timeout=5)
    status = link.getresponse().status
    link.close()
    return status == 200


def test_a_key_that_is_revoked_ends_its_calls(server):
    made = server.want(201, "POST", "/v1/keys", {"name": "short", "scopes": ["sessions"]})
    c = Client(server, key=made["key"])
    link = c.open("tools/call", {"name": "run", "arguments": {"command": "exec sleep 1000"}})
    wait_for(lambda: server.want(200, "GET", "/v1/sessions?state=running")["sessions"], 10, "a session")
    server.want(204, "DELETE", f"/v1/keys/{made['id']}")
    equal(link.getresponse().status, 401, "its call")
    link.close()
    wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=running")["sessions"], 20, "the end of its session")


def test_a_stream_ends_with_a_refusal(server):
    """A call waits for a session that it does not get: its answer is a stream by then, which has no Retry-After."""
    _, key = server.tenant("waits", max_sessions=1, queue_length=5, queue_timeout="2s")
    c = Client(server, key)
    c.call("create_session")
    status, headers, messages = c.post("tools/call", {"name": "create_session", "arguments": {}}, token="t")
    equal((status, headers["content-type"].split(";")[0]), (200, "text/event-stream"))
    check(messages[-1]["result"]["isError"], str(messages))
    equal(server.request("GET", "/v1/node")[0], 200, "the server lives")


def test_every_kind_of_answer_that_fails_late(server):
    """Requests wait for a session that turns out to have no place: those of MCP are streams by then. Each ends with the
    failure, and the server lives."""
    _, key = server.tenant("late", max_sessions=1, queue_length=5, queue_timeout="3s")
    pid = server.pid("cordond")
    with ThreadPoolExecutor(24) as pool:
        body = {"mcp": {"servers": {"a": {"command": "sleep 100"}}}}
        made = pool.submit(server.request, "POST", "/v1/sessions", body, key=key)
        rows = lambda: server.want(200, "GET", "/v1/sessions", key=key)["sessions"]  # noqa: E731
        wait_for(rows, 10, "the session")
        s = rows()[0]["id"]
        tools = {"run": {"command": "true"}, "read_file": {"path": "/etc/hostname"}, "write_file": {"path": "/tmp/x", "text": "x"},
                 "list_files": {"path": "/"}, "get_changes": {}, "open_port": {"port": 80}}
        calls = {n: pool.submit(Client(server, key).post, "tools/call", {"name": n, "arguments": {"session_id": s, **a}}, token="t")
                 for n, a in tools.items()}
        calls["create_session"] = pool.submit(Client(server, key).post, "tools/call", {"name": "create_session", "arguments": {}}, token="t")
        calls["fresh run"] = pool.submit(Client(server, key).post, "tools/call", {"name": "run", "arguments": {"command": "true"}}, token="t")
        read = {u: pool.submit(Client(server, key).post, "resources/read", {"uri": f"cordon://sessions/{s}{u}"}, token="t")
                for u in ("/files/etc/hostname", "/changes")}
        other = [pool.submit(server.request, *r, key=key) for r in (
            ("POST", f"/v1/sessions/{s}/executions?wait=true", {"command": "true"}), ("GET", f"/v1/sessions/{s}/files/content?path=/etc/hostname"),
            ("GET", f"/v1/sessions/{s}/files/archive?path=/etc"), ("POST", f"/v1/sessions/{s}/executions", {"command": "true"}))]
        equal(made.result()[0], 429)
        for name, call in calls.items():
            status, headers, m = call.result()
            equal(status, 200, name)
            if name in ("run", "read_file", "write_file", "list_files"):
                equal(headers["content-type"].split(";")[0], "text/event-stream", name)
                check(m[-1]["result"]["isError"], f"{name}: {m}")
        for uri, call in read.items():
            check(call.result()[0] in (200, 400, 404), f"{uri}: {call.result()}")
        for answer in other:
            check(answer.result()[0] in (200, 404, 409, 410, 429), str(answer.result()))
    equal(server.pid("cordond"), pid, "the server lives")
    check("out of order" not in server.log(), "a handler answered twice")


def test_state_that_was_made_up(server):
    """No tool asks for input; what a client brings along is ignored or refused, and never an error of the server."""
    c = Client(server)
    for more in ({"requestState": "x" * 1000, "inputResponses": {"a": {}}}, {"requestState": 1}, {"inputResponses": []}):
        status, _, m = c.post("tools/call", {"name": "session_info", "arguments": {}, **more})
        check(status < 500 and ("result" in m or m["error"]["code"] == -32602), f"{more}: {status} {m}")
    m = c.message("tools/list")
    m["params"]["_meta"][META + "protocolVersion"] = {"a": 1}
    status, _, got = server.request("POST", "/mcp", m, c.headers(m))
    equal(status, 400, str(got))


def turns_over(server, seconds):
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    all_of_them, within = (int(float(line.split()[1])) for line in sorted(
        line for line in text.splitlines() if line.startswith("cordon_loop_turn_seconds_bucket")
        and ('le="+Inf"' in line or f'le="{seconds:.9f}"' in line)))
    return all_of_them - within


def test_long_paths_hold_up_nobody(server):
    """Lists of files are masked in pieces of the tenant's share, and have a bound in bytes: 500 files in a folder whose own
    path is nearly as long as one may be were masked in one turn for each of 32 clients."""
    server.want(201, "POST", "/v1/secrets", {"name": "long-paths", "value": "the-value-of-a-secret", "ways": ["env"]})
    s = server.create(secrets=[{"name": "long-paths", "as": "env", "env": "A"}])["id"]
    folder = "/".join(["k" * 250] * 15)
    done = server.run(s, f"cd && n={'k' * 250} && for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do mkdir $n && cd $n || exit 1; done; "
                      "i=0; while [ $i -lt 600 ]; do : > file-$i; i=$((i + 1)); done")
    equal(done["exit_code"], 0, done["stderr"])
    c = Client(server)
    before = turns_over(server, 0.25)
    with ThreadPoolExecutor(32) as pool:
        lists = list(pool.map(lambda _: c.call("list_files", session_id=s, path=folder), range(32)))
    equal(turns_over(server, 0.25), before, "turns of more than a quarter of a second")
    for got in lists:
        sizes = [len(e["path"]) for e in got["entries"]]
        check(got["more"] and 0 < sum(sizes) <= 256 << 10, f"{len(sizes)} paths of {sum(sizes)} bytes, more: {got['more']}")
    got = c.call("get_changes", session_id=s)
    sizes = [len(e["path"]) for e in got["added"]]
    check(got["more"] and 0 < sum(sizes) <= 256 << 10, f"{len(sizes)} paths of {sum(sizes)} bytes, more: {got['more']}")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, node_max_memory="500G", body_timeout="1s", tenant_max_streams=STREAMS)
