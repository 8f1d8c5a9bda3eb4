#!/usr/bin/python3
"""What is judged is what is sent: framing, headers that rename a request, parameters that servers read
differently, WebSocket frames, certificates, secrets that are taken away."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import ask, read_response
from origin_server import Origin, Reader, answer
from gateway_world import SCRIPT, get, main, tap
from ws_frames import WS_HEAD, frame, read_frame, switching, websocket

VALUE, PLACEHOLDER = "s3cr3t-value-0123456789", "CORDON_PLACEHOLDER_abcdef"


def token(host="look.example", **more):
    return {"name": "TOKEN", "value": VALUE, "placeholder": PLACEHOLDER, "hosts": [host],
            "in": ["header", "body:token"], **more}


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def test_collected(egress, origin):
    """A chunked body that a secret is put into goes on with a length, and ends there."""
    cell = egress.cell({"rules": [{"host": "look.example", "secret": "TOKEN"}]}, [token()])
    body = b'{"token": "%s"}' % PLACEHOLDER.encode()
    head = (b"POST /%s HTTP/1.1\r\nHost: look.example\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    s = cell.tls("look.example")
    reader = Reader(s)
    for name, pieces in (("one", [body]), ("two", [body[:5], body[5:]]), ("none", [])):
        s.sendall(head % name.encode() + chunked(*pieces))
        r = read_response(reader)
        seen = origin.requests[-1]
        tap.same((r.status, seen.line.split(" ")[1], seen.get("Transfer-Encoding"),
                  seen.body.replace(VALUE.encode(), PLACEHOLDER.encode())),
                 (200, f"/{name}", None, b"".join(pieces)), f"a chunked body with a secret: {name}")
        s.sendall(get("/behind", "look.example").encode())
        r = read_response(reader)
        tap.same((r.status, origin.requests[-1].line), (200, "GET /behind HTTP/1.1"),
                 "and the next request of the connection gets its own answer")
    large = b'{"x": "' + b"y" * (1 << 20) + b'"}'
    s.sendall(head % b"large" + chunked(large[:70000], large[70000:]))
    r = read_response(reader)
    tap.same((r.status, origin.requests[-1].body == large), (200, True),
             "a body that is too long to be collected goes on in chunks")
    tap.same(ask(s, get("/behind", "look.example")).status, 200, "and ends as one")
    s.close()


def test_methods(egress, origin):
    """A standard method in another case is refused, whatever the rules say. Conditions that cannot be compared in
    bounded work decide against the request."""
    cell = egress.cell({"rules": [{"host": "look.example", "methods": ["DELETE"], "action": "deny"},
                                  {"host": "look.example", "query": {"z": "q"}, "action": "deny"},
                                  {"host": "look.example"}]})
    n = len(origin.requests)
    for method in ("post", "dElEtE", "head", "get"):
        s = cell.tls("look.example")
        tap.same(ask(s, get("/", "look.example").replace("GET", method)).status, 400, f"{method} is refused")
        s.close()
    s = cell.tls("look.example")
    tap.same(ask(s, get("/?" + "a&" * 256, "look.example")).status, 200, "256 parameters are compared")
    r = ask(s, get("/?" + "a&" * 257, "look.example"))
    tap.ok(r.status == 403 and b"more than 256 parameters" in r.body, f"one more is refused: {r.status} {r.body!r}")
    tap.same(len(origin.requests), n + 1, "and none of them reaches the server")
    s.close()


def test_certificates(egress, net):
    """A common name is no name of a server."""
    net.name("cn.example", "93.184.216.40")
    base = net.path("cn")
    net.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", base + ".key", "-out", base + ".pem", "-days", "30", "-subj",
                "/CN=cn.example", "-addext", "basicConstraints=critical,CA:FALSE", "-CA",
                net.path("world.pem"), "-CAkey", net.path("world.key"))
    context = net.certificate("web.example")
    context.load_cert_chain(base + ".pem", base + ".key")
    Origin(net, "93.184.216.40", 443, lambda q: answer(b"x"), tls=context)
    cell = egress.cell({"rules": [{"host": "cn.example", "tls": "terminate"}]})
    s = cell.tls("cn.example")
    r = ask(s, get("/", "cn.example"))
    tap.ok(r.status == 502 and b"certificate of cn.example does not verify" in r.body,
           "a certificate with a common name only is refused", r.body)
    s.close()


RENAMING = {
    "X-HTTP-Method-Override": "DELETE", "X-HTTP-Method": "DELETE", "X-Method-Override": "DELETE",
    "X-Original-Method": "DELETE", "X-Original-URL": "/admin", "X-Rewrite-URL": "/admin",
    "X-Original-Host": "evil.example", "X-Host": "evil.example", "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Server": "evil.example", "X-Forwarded-Prefix": "/admin", "X-Forwarded-Proto": "http",
    "X-Forwarded-Path": "/admin", "Forwarded": "host=evil.example", "Transfer_Encoding": "chunked",
    "X_Role": "admin", "Content_Length": "5",
}


def test_renaming_headers(egress, origin):
    cell = egress.cell({"rules": [
        {"host": "rules.example", "methods": ["GET"], "paths": ["/open/**"]},
        {"host": "look.example", "headers": {"X-Forwarded-Proto": "https"}}, {"host": "web.example"}]})
    more = "".join(f"{n}: {v}\r\n" for n, v in RENAMING.items())
    s = cell.connect("rules.example", 80)
    tap.same(ask(s, get("/open/1", "rules.example", more + "X-Plain: 1\r\n")).status, 200,
             "a request with headers that rename it")
    tap.same({n for n, _ in origin.requests[-1].headers}, {"Host", "X-Plain"},
             "goes on without them where a rule looks at requests")
    s.close()
    s = cell.connect("web.example", 80)
    ask(s, get("/x", more=more))
    tap.same(set(RENAMING) - {n for n, _ in origin.requests[-1].headers}, set(),
             "and with them where none does")
    s.close()
    s = cell.connect("look.example", 80)
    ask(s, get("/x", "look.example", "X-Forwarded-Proto: https\r\nX-Host: x\r\n"))
    tap.same({n for n, _ in origin.requests[-1].headers}, {"Host", "X-Forwarded-Proto"},
             "but for one that the rule itself compares")
    s.close()


# what a rule {"query": {"mode": "read"}} must not allow, and one that denies "mode": "write" must not miss
OTHER_READINGS = ["x=1;mode=write&mode=read", "mode[]=write&mode=read", "%20mode=write&mode=read",
                  "+mode=write&mode=read", "Mode=write&mode=read", "mode=read&MODE%5B%5D=write",
                  "mode=read;mode=write", "mode=read&mode=write", "mode%20=write&mode=read"]


def test_parameters(egress):
    allows = egress.cell({"rules": [{"host": "web.example", "query": {"mode": "read"}}]})
    denies = egress.cell({"rules": [
        {"host": "web.example", "query": {"mode": "write"}, "action": "deny"},
        {"host": "web.example", "headers": {"X-Role": "admin"}, "action": "deny"},
        {"host": "web.example", "paths": ["/admin", "/admin/**"], "action": "deny"},
        {"host": "web.example", "methods": ["DELETE"], "action": "deny"}, {"host": "web.example"}]})
    with allows.connect("web.example", 80) as a, denies.connect("web.example", 80) as d:
        for query in OTHER_READINGS:
            got = [ask(s, get(f"/?{query}")).status for s in (a, d)]
            tap.same(got, [403, 403], f"?{query}")
        for query, want in (("mode=read", [200, 200]), ("mode=read&x=%3B", [200, 200]),
                            ("mode=READ", [403, 200]), ("Mode=read", [403, 200]),
                            ("modes=write&mode=read", [200, 200])):
            tap.same([ask(s, get(f"/?{query}")).status for s in (a, d)], want, f"?{query}")
        for header, want in (("X-Role: admin", 403), ("X_Role: admin", 403), ("x-ROLE: user, admin", 403),
                             ("X-Role: user,admin,x", 403), ("X-Role: administrator", 200),
                             ("X-Role: user", 200)):
            tap.same(ask(d, get("/", more=header + "\r\n")).status, want, header)
        for path, want in (("/admin", 403), ("/Admin", 403), ("/admin.", 403), ("/admin%20", 403),
                           ("/ADMIN./x", 403), ("/admin;v=1/x", 403), ("/admins", 200), ("/x/admin", 200)):
            tap.same(ask(d, get(path)).status, want, path)
        for query, want in (("_method=DELETE", 403), ("_METHOD=delete", 403), ("_method=PUT", 200)):
            tap.same(ask(d, get(f"/?{query}")).status, want, f"?{query}")
    cell = egress.cell({"rules": [{"host": "web.example", "methods": ["GET", "POST"]}]})
    with cell.connect("web.example", 80) as s:
        tap.same([ask(s, get(f"/?_method={m}")).status for m in ("POST", "get", "DELETE", "")],
                 [200, 200, 403, 403], "a method in the query must be one of the rule's, too")


def open_websocket(cell, more="", path="/ws", host="ws.example"):
    s = cell.connect(host, 80)
    s.sendall(get(path, host, WS_HEAD + more).encode())
    reader = Reader(s)
    return s, reader, read_response(reader)


BAD_FROM_CLIENT = {
    "a request": b"DELETE /admin HTTP/1.1\r\nHost: ws.example\r\n\r\n",
    "a frame that is not masked": frame(b"x"),
    "reserved bits": frame(b"x", key=b"abcd", rsv=4),
    "an unknown opcode": frame(b"x", opcode=3, key=b"abcd"),
    "a ping in fragments": frame(b"x", opcode=9, fin=False, key=b"abcd"),
    "a length that is not the shortest": frame(b"x", key=b"abcd", length=b"\x7e\x00\x01"),
    "a fragment of nothing": frame(b"x", opcode=0, key=b"abcd"),
    "bytes behind Close": frame(b"", opcode=8, key=b"abcd") + b"GET / HTTP/1.1\r\n\r\n",
}


def test_frames(egress, origin):
    """After 101 only frames pass, in both directions."""
    SCRIPT["/ws"] = websocket
    policy = {"rules": [{"host": "ws.example", "paths": ["/ws"]}]}
    cell = egress.cell(policy)
    s, reader, r = open_websocket(cell, "Sec-WebSocket-Extensions: permessage-deflate\r\n")
    seen = origin.requests[-1]
    tap.same((r.status, read_frame(reader)), (101, (1, True, None, b"hello")), "a WebSocket")
    tap.same(seen.get("Sec-WebSocket-Extensions"), None, "is asked for without extensions")
    message = os.urandom(70000)
    s.sendall(frame(message[:100], 2, False, b"abcd") + frame(b"p", 9, key=b"efgh") +
              frame(message[100:], 0, True, b"\0\0\0\0"))
    got = [read_frame(reader) for _ in range(3)]
    tap.same(got, [(2, False, None, b"<" + message[:100] + b">"), (9, True, None, b"<p>"),
                   (0, True, None, b"<" + message[100:] + b">")], "fragments, a ping between them, a long one")
    tap.ok(all(f[2] not in (b"abcd", b"efgh", b"\0\0\0\0") for f in seen.frames),
           "the server sees other masking keys than the program chose", [f[2] for f in seen.frames])
    s.sendall(frame(b"\x03\xe8", 8, key=b"abcd"))
    tap.same(read_frame(reader)[0], 8, "and Close")
    s.close()
    r = cell.record(lambda r: r.get("frames_out") == 4)
    tap.ok(r and r["frames_in"] == 5 and r["bytes_out"] > 70000, "frames and bytes are on record", r)
    for name, data in BAD_FROM_CLIENT.items():
        cell = egress.cell(policy)
        s, reader, r = open_websocket(cell)
        read_frame(reader)
        before = len(origin.requests)
        s.sendall(data)
        reader.rest()
        s.close()
        seen = getattr(origin.requests[-1], "frames", [])
        tap.ok(len(origin.requests) == before and all(f[0] == 8 for f in seen) and
               cell.record(lambda r: r.get("path") == "/ws" and "malformed WebSocket frame" in r.get("reason", "")),
               f"cut, with a record: {name}", (seen, cell.records))
        cell.detach()
    cell = egress.cell(policy)
    s, reader, r = open_websocket(cell)
    s.sendall(frame(b"x", key=b"abcd")[:3])
    s.shutdown(1)
    tap.ok(cell.record(lambda r: "malformed WebSocket frame" in r.get("reason", "")), "half a head at the end")
    s.close()


def responses(request):
    """OpenAI's Responses over a WebSocket: each message gets the events of one response."""
    request.conn.sendall(switching(request))
    done = {"type": "response.completed", "response": {"model": "gpt-small", "usage": {
        "input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 7}}}
    while True:
        got = read_frame(request.reader)
        if got is None or got[0] == 8:
            return None
        for event in ({"type": "response.output_text.delta", "delta": "four"}, done):
            text = json.dumps(event).encode()
            request.conn.sendall(frame(text[:9], fin=False) + frame(text[9:], 0))


def test_model_calls_in_frames(egress):
    """The record of a WebSocket to a model API has the tokens of all its calls."""
    SCRIPT["/v1/responses"] = responses
    cell = egress.cell({"rules": [{"host": "ws.example", "paths": ["/v1/responses"], "class": "model", "prompts": True}]})
    s, reader, r = open_websocket(cell, path="/v1/responses")
    tap.same(r.status, 101, "a WebSocket to a model API")
    for text in ('{"type": "response.create", "model": "gpt-small", "input": "two and two?"}', '{"type": "response.create", "input": "again"}'):
        s.sendall(frame(text.encode(), key=b"abcd"))
        for _ in range(4):
            read_frame(reader)
    s.sendall(frame(b"\x03\xe8", 8, key=b"abcd"))
    s.close()
    r = cell.record(lambda r: r.get("path") == "/v1/responses") or {}
    m = r.get("model") or {}
    tap.same([m.get(k) for k in ("provider", "model", "input_tokens", "output_tokens", "cached_tokens", "prompt", "completion")],
             ["openai", "gpt-small", 22, 14, 8, "two and two?\nagain\n", "fourfour"], "is on record with its tokens")


def gemini(prompt, thoughts, candidates, text="", stop=None):
    """One answer of Gemini, or one of the pieces of a stream: each counts the tokens from the beginning."""
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **({"finishReason": stop} if stop else {})}],
                       "usageMetadata": {"promptTokenCount": prompt, "thoughtsTokenCount": thoughts, "candidatesTokenCount": candidates,
                                         "cachedContentTokenCount": 4, "totalTokenCount": prompt + thoughts + candidates},
                       "modelVersion": "gemini-2.5-pro-001"})


PIECES = [gemini(10, 5, 0), gemini(10, 30, 1, "fo"), gemini(10, 30, 2, "ur", "STOP")]
GEMINI = {  # what is appended to the model: the body and its type
    ":generateContent": (gemini(10, 30, 2, "four", "STOP"), "application/json"),
    ":streamGenerateContent": ("[" + ",\r\n".join(PIECES) + "]", "application/json"),
    ":streamGenerateContent?alt=sse": ("".join(f"data: {p}\r\n\r\n" for p in PIECES), "text/event-stream"),
}


def test_model_calls_of_gemini(egress):
    """The records of calls to Gemini, whole, as a list and as events, have the tokens that the answers name (thoughts among them), and their version of the model."""
    cell = egress.cell({"rules": [{"host": "look.example", "paths": ["/v1beta/models/*:*"], "class": "model", "prompts": True}]})
    s = cell.tls("look.example")
    reader = Reader(s)
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "two and two?"}]}]})
    for verb, (text, kind) in GEMINI.items():
        path = "/v1beta/models/gemini-2.5-pro" + verb
        halves = (text[:len(text) // 2].encode(), text[len(text) // 2:].encode())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        SCRIPT[path.partition("?")[0]] = head + chunked(*halves)
        before = len(cell.records)
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: look.example\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        got = read_response(reader)
        tap.same((got.status, got.body), (200, text.encode()), f"{verb}: the answer, unchanged")
        r = egress.wait(lambda n=before: next((r for r in cell.records[n:] if r["kind"] == "request"), None)) or {}
        m = r.get("model") or {}
        tap.same([m.get(k) for k in ("provider", "operation", "model", "stream", "input_tokens", "output_tokens", "cached_tokens", "stop", "prompt", "completion")],
                 ["google", "chat", "gemini-2.5-pro-001", "stream" in verb, 10, 32, 4, "STOP", "user: two and two?\n", "four"], f"{verb}: on record with its tokens")
        tap.same(r.get("class"), "model", f"{verb}: its class")
    s.close()
    cell.detach()


def test_bad_servers(egress):
    """Servers that answer 101 but do not accept the WebSocket."""
    cell = egress.cell({"rules": [{"host": "ws.example"}]})
    heads = {
        "a wrong Sec-WebSocket-Accept": lambda q: b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                                  b"Sec-WebSocket-Accept: wrong\r\n\r\n",
        "none": lambda q: b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "an extension": lambda q: switching(q, "Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        "a protocol that was not offered": lambda q: switching(q, "Sec-WebSocket-Protocol: mqtt\r\n"),
        "another protocol": lambda q: switching(q).replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    }
    for name, head in heads.items():
        SCRIPT["/bad"] = head
        s, _, r = open_websocket(cell, "Sec-WebSocket-Protocol: chat, superchat\r\n", "/bad")
        tap.same(r and r.status, 502, f"a server that answers 101 with {name}")
        s.close()
    SCRIPT["/bad"] = lambda q: switching(q, "Sec-WebSocket-Protocol: superchat\r\n") + frame(b"x")
    s, reader, r = open_websocket(cell, "Sec-WebSocket-Protocol: chat, superchat\r\n", "/bad")
    tap.same((r.status, r.get("Sec-WebSocket-Protocol"), read_frame(reader)[3]), (101, "superchat", b"x"),
             "one that was offered is fine")
    s.close()
    for name, data in {"masked": frame(b"x", key=b"abcd"), "HTTP": answer(b"x"), "RSV": frame(b"x", rsv=1)}.items():
        SCRIPT["/bad"] = lambda q, data=data: switching(q) + frame(b"good") + data
        s, reader, r = open_websocket(cell, path="/bad")
        got = reader.rest()
        tap.ok(got in (b"", frame(b"good")) and
               cell.record(lambda r: "server sent a malformed WebSocket frame" in r.get("reason", "")),
               f"a server's frames: cut at {name}", got)
        cell.records.clear()
        s.close()


def test_websocket_word(egress):
    """The policy decides whether requests may become WebSockets."""
    SCRIPT["/ws"] = websocket
    rule = {"host": "ws.example", "paths": ["/ws"]}

    def status(rules, **more):
        cell = egress.cell({"rules": rules, **more})
        s, _, r = open_websocket(cell)
        s.close()
        cell.detach()
        return r.status

    def ceiling(*rules):
        return {"ceilings": {"node": list(rules)}}

    tap.same([status([rule]), status([{**rule, "websocket": True}]), status([{**rule, "websocket": False}])],
             [101, 101, 403], "the rule's word; without one it may")
    tap.same(status([rule], **ceiling({"host": "ws.example"})), 101, "below a ceiling that names hosts")
    tap.same(status([rule], **ceiling(rule)), 403, "not below one that looks at requests")
    tap.same(status([{**rule, "websocket": True}], **ceiling(rule)), 403, "also if the rule allows it")
    tap.same(status([rule], **ceiling({**rule, "websocket": True})), 101, "unless the ceiling allows it")
    tap.same(status([rule], **ceiling({"host": "ws.example", "websocket": False})), 403, "or not")
    cell = egress.cell({"rules": [rule], **ceiling(rule)})
    with cell.connect("ws.example", 80) as s:
        tap.same(ask(s, get("/ws", "ws.example", WS_HEAD)).status, 403, "refused")
        SCRIPT["/ws"] = answer(b"x")
        tap.same(ask(s, get("/ws", "ws.example")).status, 200, "and other requests go on")


def open_ended(request):
    """An answer in chunks that goes on until the other side has enough."""
    request.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        request.conn.sendall(b"9\r\ndata: x\n\n\r\n")
        time.sleep(0.02)  # an event stream, slow on purpose


def slow_upload(request):
    """Reads a body that comes in pieces, and never ends it."""
    while request.reader.more():
        request.got = getattr(request, "got", 0) + 1
    return None


class Streams:
    """One of each kind, over TLS that is looked into, each with the secret in a header."""

    def __init__(self, cell, auth):
        self.cell = cell
        self.ws = cell.tls("look.example")
        self.ws.sendall(get("/ws", "look.example", WS_HEAD + auth).encode())
        self.ws_reader = Reader(self.ws)
        self.opened = read_response(self.ws_reader).status, read_frame(self.ws_reader)[3]
        self.sse = cell.tls("look.example")
        self.sse.sendall(get("/sse", "look.example", auth).encode())
        self.sse_reader = Reader(self.sse)
        self.sse_reader.until(b"\r\n\r\n")
        self.up = cell.tls("look.example")
        self.up.sendall(f"POST /up HTTP/1.1\r\nHost: look.example\r\n{auth}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode())

    def open(self):
        """Which of them still work."""
        return {"websocket": self.echoes(), "events": self.streams(), "upload": self.uploads()}

    def echoes(self):
        try:
            self.ws.sendall(frame(b"ping", key=b"abcd"))
            got = read_frame(self.ws_reader)
        except OSError:
            return False
        return got is not None and got[3] == b"<ping>"

    def streams(self):
        self.sse.settimeout(5)
        try:
            self.sse_reader.bytes = b""
            for _ in range(20):  # what was on its way is read first
                if self.sse_reader.exactly(16) is None:
                    return False
        except OSError:
            return False
        return True

    def uploads(self):
        try:
            for _ in range(5):
                self.up.sendall(b"1\r\nx\r\n")
                time.sleep(0.05)  # an upload, slow on purpose
        except OSError:
            return False
        return True

    def close(self):
        for s in (self.ws, self.sse, self.up):
            s.close()


ALL_OPEN = {"websocket": True, "events": True, "upload": True}
ALL_CUT = {"websocket": False, "events": False, "upload": False}
OTHER = {"name": "OTHER", "value": "another-value-987654321", "placeholder": "CORDON_PLACEHOLDER_other1",
         "hosts": ["look.example"], "in": ["header"]}


def test_revocation(egress):
    """What was authenticated with a secret ends with it."""
    SCRIPT.update({"/ws": websocket, "/sse": open_ended, "/up": slow_upload})
    policy = {"rules": [{"host": "look.example"}, {"host": "web.example"}]}
    auth = f"Authorization: Bearer {PLACEHOLDER}\r\n"
    changes = {
        "removed": [OTHER],
        "replaced": [token(value="a-new-value-0123456789"), OTHER],
        "bound to another host": [token("web.example"), OTHER],
        "bound to another path": [token(paths=["/nothing"]), OTHER],
        "expired": [token(expires_ms=1), OTHER],
    }
    for name, secrets in changes.items():
        cell = egress.cell(policy, [token(), OTHER])
        mine = Streams(cell, auth)
        others = Streams(cell, f"Authorization: Bearer {OTHER['placeholder']}\r\n")
        none = Streams(cell, "")
        passed = cell.tls("web.example", trust=egress.net.path("world.pem"))
        tap.same((mine.opened, mine.open()), ((101, b"hello"), ALL_OPEN), "streams with a secret")
        tap.same(cell.change(policy, [token(), OTHER]), "", "the same order again")
        tap.same(mine.open(), ALL_OPEN, "cuts none")
        tap.same(cell.change(policy, secrets), "", f"the secret is {name}")
        tap.same(mine.open(), ALL_CUT, "which cuts all that were sent with it")
        tap.same((others.open(), none.open(), ask(passed, get("/x")).status), (ALL_OPEN, ALL_OPEN, 200),
                 "and nothing else")
        tap.ok(cell.record(lambda r: r.get("path") == "/ws" and "a secret in the request was removed" in r.get("reason", "")),
               "with a record")
        for s in (mine, others, none, passed):
            s.close()
        cell.detach()


def test_denied_addresses(egress, net):
    """A name one of whose addresses is denied is denied, also where it has others."""
    net.name("dual.example", "93.184.216.50", "2606:4700::50")
    net.name("six2.example", "2606:4700::50")
    for address in ("93.184.216.50", "2606:4700::50"):
        Origin(net, address, 80, lambda q: answer(b"x"))
    denied = {"cidr": "93.184.216.0/24", "action": "deny", "name": "a block"}

    def status(name, *rules):
        cell = egress.cell({"default": "allow", "rules": list(rules)})
        with cell.connect(name, 80) as s:
            r = ask(s, get("/", name))
        cell.detach()
        return r.status, b"a block" in r.body

    tap.same(status("dual.example", denied), (403, True), "by its IPv4 address, though it has IPv6")
    tap.same(status("six2.example", denied), (200, False), "not one that has none of them")
    tap.same(status("dual.example"), (200, False), "nor without the rule")
    tap.same(status("dual.example", {"host": "dual.example", "ports": "any"}, denied), (200, False),
             "nor one that a rule before it allows")


def tests(w, egress, _cell):
    test_denied_addresses(egress, w.net)
    test_revocation(egress)
    test_renaming_headers(egress, w.origin)
    test_parameters(egress)
    test_frames(egress, w.origin)
    test_model_calls_in_frames(egress)
    test_model_calls_of_gemini(egress)
    test_bad_servers(egress)
    test_websocket_word(egress)
    test_collected(egress, w.origin_tls)
    test_methods(egress, w.origin_tls)
    test_certificates(egress, w.net)


if __name__ == "__main__":
    main(tests)
