"""mcp_in_cell.py - a client of MCP, run inside a cell by test_egress_mcp.py: both eras, plain answers and streams.

Prints one line of JSON for each step."""
import http.client
import json
import sys

HOST, PORT = sys.argv[1], int(sys.argv[2])
META = "io.modelcontextprotocol/"


def send(message, path="/mcp", **headers):
    """(connection, response) of one POST."""
    link = http.client.HTTPConnection(HOST, PORT, timeout=20)
    link.request("POST", path, json.dumps(message), {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers})
    return link, link.getresponse()


def modern(method, id=1, headers=None, meta=None, path="/mcp", **params):
    params["_meta"] = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}, **(meta or {})}
    more = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        more["Mcp-Name"] = params["name"]
    return send({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, path, **{**more, **(headers or {})})


def legacy(method, id=1, **params):
    return send({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, **{"MCP-Protocol-Version": "2025-11-25"})


def whole(answer):
    link, response = answer
    with link.sock or response:
        body = response.read()
    return response.status, json.loads(body) if body.startswith(b"{") else body.decode("utf-8", "replace")


def events(response):
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def say(step, value):
    print(json.dumps([step, value]), flush=True)


def main():
    say("discover", whole(modern("server/discover"))[1]["result"]["supportedVersions"])
    say("call", whole(modern("tools/call", name="echo", arguments={"text": "é😀\n" * 1000}))[1]["result"]["content"][0]["text"]
        == "é😀\n" * 1000)
    say("mismatch", whole(modern("tools/call", name="echo", headers={"Mcp-Name": "other"}))[1]["error"]["code"])
    _, response = modern("tools/call", name="test_tool_with_progress", meta={"progressToken": "t"})
    say("progress", [m.get("params", m.get("result"))["progress" if "params" in m else "resultType"] for m in events(response)])

    link, response = modern("subscriptions/listen", id=9, notifications={"toolsListChanged": True})
    heard = events(response)
    first = next(heard)["method"]
    whole(modern("tools/call", name="test_trigger_tool_change"))
    say("listen", [first, next(heard)["method"]])
    link.close()

    say("initialize", whole(legacy("initialize", protocolVersion="2025-06-18", capabilities={"sampling": {}},
                                   clientInfo={"name": "c", "version": "1"}))[1]["result"]["protocolVersion"])
    _, response = legacy("tools/call", id="s", name="test_sampling", arguments={"prompt": "p"})
    heard = events(response)
    question = next(heard)
    status, _ = whole(send({"jsonrpc": "2.0", "id": question["id"], "result": {
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}}))
    say("sampling", [question["method"], status, next(heard)["result"]["content"][0]["text"]])
    say("elsewhere", whole(modern("server/discover", path="/other"))[0])


main()
