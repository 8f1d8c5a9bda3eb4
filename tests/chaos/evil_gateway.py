#!/usr/bin/python3
"""evil_gateway.py - in the cell of an MCP server, as root: takes the place of mcp-gateway, whose token it has, and sends
messages at random (in_cells.py)."""
import hashlib
import json
import os
import random
import secrets
import socket
import time

LINK, VALUE = os.environ["CORDON_MCP_LINK_TOKEN"], os.environ.get("TOKEN", "no secret in this program")
DICE = random.Random(f"{open('/tmp/seed').read()}/{os.getpid()}")


def proof(who, nonce):
    return hashlib.sha256(nonce + who + LINK.encode() + nonce).hexdigest().encode()


def value(depth=0):
    kind = DICE.randrange(12)
    if kind < 2:
        return VALUE
    if kind < 5:
        return DICE.choice(("x" * DICE.choice((1, 100, 20000)), 0, 1, -1, 1e10, True, False, None, "\U0001f600\\\"\n\u2028"))
    if depth == 4:
        return "t"
    if kind < 9:
        return {DICE.choice(("a", "content", "text", "type", "isError", "_meta", "resultType", "x" + VALUE, "name")): value(depth + 1) for _ in range(DICE.randrange(4))}
    return [value(depth + 1) for _ in range(DICE.randrange(4))]


def tool(number):
    made = {"name": DICE.choice(("go", "go", f"t{number}", "a b", "x" * 130, VALUE, "go.x")), "description": DICE.choice((VALUE, "d" * DICE.choice((1, 3000)), "uses " + VALUE)),
            "inputSchema": DICE.choice(({"type": "object"}, {"type": "object", "properties": {"p": {"type": "string", "x-mcp-header": "P"}}}, [], "x", {"type": "object", "x": value()}))}
    if DICE.random() < 0.3:
        made[DICE.choice(("title", "annotations", "extra"))] = value()
    return made


def listed(number):
    found = {"tools": [tool(i) for i in range(DICE.choice((1, 2, 5, 50)))]}
    if DICE.random() < 0.7:
        found["tools"].insert(0, {"name": "go", "inputSchema": {"type": "object"}})
    if DICE.random() < 0.2:
        found["nextCursor"] = DICE.choice(("a", "b" * 5000, VALUE, '"\\'))
    return {"id": number, "result": DICE.choice([found] * 8 + [[], None, {"tools": {}}])}


def called(m):
    number, token, out = m["id"], m.get("params", {}).get("_meta", {}).get("progressToken"), []
    if token is not None:
        out += [{"method": "notifications/progress", "params": {"progressToken": token, "progress": DICE.choice((1, 2.5, "x", -1)), "total": DICE.choice((None, 5))}} for _ in range(DICE.randrange(4))]
        if DICE.random() < 0.3:
            out.append(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1e999,"total":1e999}}' % json.dumps(token).encode())
    text = {"content": [{"type": "text", "text": value()}], "isError": DICE.choice((True, False, VALUE)), "x": value()}
    return out + DICE.choice((
        [{"id": number, "result": text}], [{"id": number, "result": text}], [{"id": number, "result": text}],
        [{"id": number, "error": {"code": DICE.choice((-1, -32602, 1e99, "x")), "message": DICE.choice((VALUE, "\u00e9" * 3000, VALUE * 400, 5))}}],
        [{"id": number, "result": {"content": [{"type": "text", "text": (VALUE + " ") * DICE.choice((1000, 40000))}]}}],
        [{"id": number, "result": {"resultType": DICE.choice(("input_required", "complete", 5))}}], [{"id": number, "result": {"content": []}}] * 3,
        [b'{"id":%d,"result":{"a":%s}}' % (number, b"[" * DICE.choice((10, 63, 70)) + b"]" * DICE.choice((10, 63, 70)))],
        [b'{"id":%d,"result":{"x":"%s"}}' % (number, b"y" * DICE.choice((1000, 1100000, 1200000)))], []))


def answers(m):
    number, method = m["id"], m["method"]
    if method == "server/discover":
        out = [{"id": number, "result": {"supportedVersions": DICE.choice([["2026-07-28"]] * 6 + [[], ["x"], "2026-07-28"]), "capabilities": DICE.choice([{"tools": {}}] * 6 + [{}, [], {"tools": 1}])}}]
    elif method == "initialize":
        out = [{"id": number, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}} if DICE.random() < 0.8 else {"id": number, "error": {"code": 1, "message": VALUE * 30}}]
    else:
        out = [listed(number)] if method == "tools/list" else called(m)
    if DICE.random() < 0.2:
        out.append({"method": "notifications/tools/list_changed"})
    if DICE.random() < 0.1:
        out.append({"id": DICE.choice((1, number + 1, 999, "x", None)), "method": "sampling/createMessage", "params": {}})
    if DICE.random() < 0.1:
        out.append(DICE.choice((b"garbage", b"{", b"\0\xff", b"[]", b"{}", b'{"id":0}', b'"x"', b'{"id":18446744073709551616,"result":{}}')))
    return b"".join((o if isinstance(o, bytes) else json.dumps({"jsonrpc": "2.0", **o}, ensure_ascii=DICE.random() < 0.5).encode("utf-8", "surrogatepass")) + b"\n" for o in out)


def serve(conn):
    lines = conn.makefile("rb")
    conn.sendall(proof(b"g", lines.readline().strip()) + b" " + secrets.token_hex(32).encode() + b"\n")
    lines.readline()
    if DICE.random() < 0.03:
        return
    for line in lines:
        m = json.loads(line)
        if "id" not in m:
            continue
        data, at = answers(m), 0
        while at < len(data):
            size = DICE.choice((1, 10, 1000, 65536)) if len(data) < 5000 else DICE.choice((65536, 1 << 20))
            conn.sendall(data[at : at + size])
            at += size
        if DICE.random() < 0.03:
            time.sleep(0.3)
        if DICE.random() < 0.02:
            return
        if DICE.random() < 0.004:
            os._exit(1)


def main():
    listener = socket.create_server(("127.0.0.1", 50006), backlog=8)
    while True:
        conn, _ = listener.accept()
        try:
            serve(conn)
        except (OSError, ValueError):
            pass
        conn.close()


main()
