#!/usr/bin/python3
"""Flows through a real cordon-egress: refusals, TLS, the proxy, changes, limits, secrets, other sessions."""

import contextlib
import os
import resource
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import PROXY
from http_client import ask, read_response
from origin_server import Reader, answer
from gateway_world import SCRIPT, WEB, get, main, tap
from ws_frames import WS_HEAD, frame, read_frame, websocket


def test_refused(cell):
    s = cell.connect("93.184.216.99", 80)
    r = ask(s, get("/", "93.184.216.99"))
    tap.ok(r.status == 403 and r.get("X-Cordon-Denied"), "HTTP to a host that is not allowed: 403", r.line)
    s.close()
    s = cell.connect("93.184.216.99", 443)
    try:
        ssl.create_default_context().wrap_socket(s, server_hostname="bad.example")
        alert = "none"
    except ssl.SSLError as e:
        alert = e.reason
    tap.same(alert, "TLSV1_ALERT_ACCESS_DENIED", "TLS: the alert access_denied")
    r = cell.record(lambda r: r["kind"] == "connect" and r.get("name") == "bad.example")
    tap.ok(r and r["verdict"] == "deny" and r["port"] == 443, "with its SNI on record", r)
    s = cell.connect("93.184.216.99", 22)
    s.sendall(b"SSH-2.0-x\r\n")
    try:
        got = s.recv(10)
    except ConnectionResetError:
        got = "reset"
    tap.same(got, "reset", "anything else is reset")
    s = cell.connect("web.example", 80)
    s.sendall(b"SSH-2.0-x\r\n")
    Reader(s).rest()
    r = cell.record(lambda r: "neither TLS nor HTTP" in r.get("reason", ""))
    tap.ok(r and r["name"] == "web.example", "neither TLS nor HTTP is refused where HTTP may go")


def test_raw(cell, origin):
    s = cell.connect("raw.example", 2222)
    s.sendall(b"anything\n")
    tap.same(s.recv(100), b"anything\n", "a rule with protocol tcp takes bytes of any kind")
    s.close()
    r = cell.record(lambda r: r["kind"] == "connect" and r.get("name") == "raw.example")
    tap.same((r["bytes_out"], r["bytes_in"], r["scheme"]), (9, 9, "tcp"), "and counts them")


def tls_error(make):
    try:
        make().close()
    except ssl.SSLError as e:
        return e.reason or str(e)
    except OSError as e:
        return type(e).__name__
    return None


def test_tls(cell, net):
    world = net.path("world.pem")
    s = cell.tls("web.example", trust=world)
    tap.same(ask(s, get("/pass")).status, 200, "passed on: the server's own certificate")
    s.close()
    r = cell.record(lambda r: r.get("tls") == "pass" and r.get("name") == "web.example")
    tap.ok(r and r["verdict"] == "allow" and r["bytes_in"] > 0, "on record at its end", r)
    s = cell.tls("look.example")
    r = ask(s, get("/open/1", "look.example"))
    tap.same(r.status, 200, "terminated: the node's certificate")
    tap.same(ask(s, get("/shut", "look.example")).status, 403, "and requests are judged")
    tap.ok(ask(s, get("/open/1", "web.example")).status == 403, "Host must agree in there, too")
    s.close()
    tap.same(tls_error(lambda: cell.tls("web.example", sni="evil.example")),
             "TLSV1_UNRECOGNIZED_NAME", "another SNI than the name is refused")
    tap.ok(cell.record(lambda r: r.get("reason") ==
                       "SNI evil.example differs from the name web.example"), "with words")
    context = ssl._create_unverified_context()
    tap.same(tls_error(lambda: context.wrap_socket(cell.connect("web.example", 443))),
             "TLSV1_UNRECOGNIZED_NAME", "no SNI is refused")
    alert = tls_error(lambda: cell.tls("look.example", alpn=["h2"])) or ""
    tap.ok("no application protocol" in alert, "HTTP/2 only, where requests are judged", alert)
    tap.same(tls_error(lambda: cell.tls("look.example", trust=world)),
             "CERTIFICATE_VERIFY_FAILED", "a program that does not trust the egress CA cannot connect")
    tap.ok(cell.record(lambda r: "does not trust" in r.get("reason", "")), "which is on record")
    for host in ("wrongname.example", "selfsigned.example"):
        s = cell.tls(host)
        r = ask(s, get("/open/1", host))
        tap.ok(r.status == 502 and b"certificate of " + host.encode() in r.body,
               f"a server whose certificate is not right: {host}", r.body)
        s.close()


def test_hidden_name(cell, origin_tls):
    """A ClientHello with encrypted_client_hello: what cannot be seen is not passed on."""
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    shake = ssl._create_unverified_context().wrap_bio(inside, outside,
                                                      server_hostname="web.example")
    try:
        shake.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = bytearray(outside.read())
    at = 9 + 34
    at += 1 + hello[at]
    at += 2 + struct.unpack_from("!H", hello, at)[0]
    at += 1 + hello[at]
    ech = struct.pack("!HH", 0xfe0d, 8) + b"\0" * 8
    struct.pack_into("!H", hello, at, struct.unpack_from("!H", hello, at)[0] + len(ech))
    struct.pack_into("!H", hello, 7, struct.unpack_from("!H", hello, 7)[0] + len(ech))
    struct.pack_into("!H", hello, 3, struct.unpack_from("!H", hello, 3)[0] + len(ech))
    before = origin_tls.connections
    s = cell.connect("web.example", 443)
    s.sendall(bytes(hello) + ech)
    got = s.recv(5)
    s.close()
    tap.ok(got[:1] == b"\x16" and origin_tls.connections == before,
           "a connection that could hide its name is terminated here", got)


def test_crowd(egress, policy):
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    cell = egress.cell(policy)
    where = cell.lookup("web.example")
    crowd = []
    for _ in range(1030):
        with contextlib.suppress(OSError):  # reset at once, or a moment later
            crowd.append(cell.connect(where, 80))
    tap.ok(cell.record(lambda r: "too many connections" in r.get("reason", "")),
           "1,030 connections are too many")
    tap.same(ask(crowd[0], get("/crowd")).status, 200, "and those that were there go on")
    tap.same(len([r for r in cell.records if "too many" in r.get("reason", "")]), 1,
             "which is said once")
    for s in crowd:
        s.close()


def test_hostile_door(egress, policy):
    """PID 1 of a cell has the listener, too, and makes it one that waits."""
    cell, other = egress.cell(policy), egress.cell(policy)
    cell.tcp.setblocking(True)
    s = cell.connect(cell.lookup("web.example"), 80)
    try:
        ask(s, get("/hostile"))
    except OSError:
        pass
    s.close()
    begin = time.monotonic()
    r = ask(other.connect("web.example", 80), get("/other"))
    tap.ok(r and r.status == 200 and time.monotonic() - begin < 2,
           "a cell that changes its listener does not delay other cells")


def test_pacing(egress, policy):
    """A default of the machine such as BBR would pace them with timers."""
    cell = egress.cell(policy)
    name = cell.tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    tap.same(name, b"reno", "congestion control of a cell's connections")


def test_proxy(cell, origin, net):
    s = cell.connect(*PROXY)
    r = ask(s, "GET http://web.example/p?q=1 HTTP/1.1\r\nHost: web.example\r\n"
            "Proxy-Connection: keep-alive\r\n\r\n")
    tap.same((r.status, origin.requests[-1].line), (200, "GET /p?q=1 HTTP/1.1"),
             "a URL through the proxy")
    tap.same(ask(s, "GET http://rules.example/open/2 HTTP/1.1\r\nHost: rules.example\r\n\r\n")
             .status, 200, "another host on the same connection")
    tap.same(ask(s, "GET http://rules.example/shut HTTP/1.1\r\nHost: rules.example\r\n\r\n")
             .status, 403, "by the same policy")
    r = ask(s, "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    tap.same(r.status, 403, "also about hosts")
    s.close()
    for name, text in {
            "https:// as a URL": "GET https://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
            "a path": get("/"),
            "a URL and another Host": "GET http://web.example/ HTTP/1.1\r\nHost: evil.example\r\n"
                                      "\r\n",
            "the listener itself": "GET http://198.18.0.1:53/ HTTP/1.1\r\nHost: 198.18.0.1:53\r\n\r\n",
            "CONNECT to evil": "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "CONNECT without a port": "CONNECT web.example HTTP/1.1\r\nHost: web.example\r\n\r\n",
            "CONNECT to the listener": "CONNECT 198.18.0.1:3128 HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT to an octal address": "CONNECT 0177.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT to a number": "CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT to loopback": "CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    }.items():
        s = cell.connect(*PROXY)
        r = ask(s, text)
        tap.ok(r and 400 <= r.status < 500, f"the proxy refuses {name}", r and r.line)
        s.close()
    s = cell.connect(*PROXY)
    s.sendall(b"CONNECT web.example:443 HTTP/1.1\r\nHost: web.example:443\r\n\r\n")
    head = s.recv(4096)
    tap.ok(head.startswith(b"HTTP/1.1 200 "), "CONNECT", head)
    t = cell.tls("web.example", sock=s, trust=net.path("world.pem"))
    tap.same(ask(t, get("/tunnel")).status, 200, "and TLS in it, passed on")
    t.close()
    s = cell.connect(*PROXY)
    r = ask(s, "CONNECT rules.example:80 HTTP/1.1\r\nHost: rules.example:80\r\n\r\n" +
            get("/shut", "rules.example"))
    tap.same(r and r.status, 200, "CONNECT with a request right behind it")
    s.close()
    s = cell.connect(*PROXY)
    s.sendall(("CONNECT rules.example:80 HTTP/1.1\r\nHost: rules.example:80\r\n\r\n" +
               get("/shut", "rules.example")).encode())
    reader = Reader(s)
    reader.until(b"\r\n\r\n")
    r = read_response(reader)
    tap.same(r and r.status, 403, "what is said in the tunnel is judged as anywhere")
    s.close()
    s = cell.connect(*PROXY)
    s.sendall(b"CONNECT web.example:443 HTTP/1.1\r\nHost: web.example:443\r\n\r\n")
    s.recv(4096)
    tap.same(tls_error(lambda: cell.tls("x", sni="evil.example", sock=s)),
             "TLSV1_UNRECOGNIZED_NAME", "and its SNI must be whom CONNECT named")
    tap.ok(cell.record(lambda r: r.get("proxied") and r.get("path") == "/p"),
           "records show that the proxy was used")


def test_websocket(cell):
    SCRIPT["/ws"] = websocket
    s = cell.connect("ws.example", 80)
    s.sendall(get("/ws", "ws.example", WS_HEAD).encode())
    reader = Reader(s)
    head = reader.until(b"\r\n\r\n")
    tap.ok(head and head.startswith(b"HTTP/1.1 101 ") and b"Upgrade: websocket\r\n" in head,
           "a WebSocket follows the rule that allowed its request", head)
    tap.same(read_frame(reader), (1, True, None, b"hello"), "frames right behind the head arrive")
    s.sendall(frame(b"ping", key=b"abcd"))
    tap.same(read_frame(reader), (1, True, None, b"<ping>"), "and then both ways")
    return s, reader


def test_changes(egress, policy):
    cell = egress.cell(policy)
    without = {**policy, "rules": [r for r in policy["rules"]
                                   if r["host"] not in ("raw.example", "ws.example",
                                                        "web.example")]}
    ws, reader = test_websocket(cell)
    raw = cell.connect("raw.example", 2222)
    raw.sendall(b"x")
    raw.recv(1)
    kept = cell.connect("rules.example", 80)
    ask(kept, get("/open/1", "rules.example"))
    http = cell.connect("web.example", 80)
    ask(http, get("/x"))
    tap.same(cell.change(policy), "", "the same policy again")
    ws.sendall(frame(b"still", key=b"abcd"))
    tap.same(read_frame(reader), (1, True, None, b"<still>"), "cuts nothing")
    tap.same(cell.change(without), "", "a stricter policy")
    tap.same(Reader(raw).rest(), b"", "cuts what was passed on")
    tap.same(reader.rest(), b"", "and the WebSocket")
    tap.same(ask(http, get("/y")).status, 403, "and judges the next request of a connection")
    tap.same(ask(kept, get("/open/1", "rules.example")).status, 200, "what it allows goes on")
    tap.ok(cell.record(lambda r: r["kind"] == "connect" and
                       "the policy changed" in r.get("reason", "")), "cuts are on record")
    tap.ok(cell.record(lambda r: r["kind"] == "request" and r.get("path") == "/ws" and
                       "the policy changed" in r.get("reason", "")), "of requests, too")
    tap.ok(cell.change({"rules": [{"host": 7}]}) != "", "a policy that cannot be read")
    with cell.inside():
        s = socket.socket()
    s.settimeout(2)
    try:
        s.connect((WEB, 80))
        s.sendall(get().encode())
        got = s.recv(100)
    except OSError:
        got = b""
    tap.same(got, b"", "leaves nothing open")


def test_limits(egress):
    cell = egress.cell({"limits": {"connections": 3}, "rules": [
        {"host": "web.example", "limits": {"requests_per_minute": 2, "body_bytes": 4}}]})
    s = cell.connect("web.example", 80)
    r = ask(s, "POST / HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5\r\n\r\n")
    tap.same(r.status, 413, "a body that is too large")
    s = cell.connect("web.example", 80)
    r = ask(s, "POST / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5\r\nabcde\r\n0\r\n\r\n")
    tap.same(r.status, 413, "also in chunks")
    s = cell.connect("web.example", 80)
    tap.same(ask(s, get()).status, 429, "too many requests in a minute")
    s.close()
    cell = egress.cell({"limits": {"connections": 2}, "rules": [{"host": "web.example"}]})
    kept = [cell.connect("web.example", 80) for _ in range(2)]
    for s in kept:
        ask(s, get())
    s = cell.connect("web.example", 80)
    try:
        r = ask(s, get())
    except OSError:
        r = None
    tap.same(r, None, "too many connections")
    tap.ok(cell.record(lambda r: "too many connections" in r.get("reason", "")), "on record")
    for s in kept:
        s.close()
    cell = egress.cell({"rules": [{"host": "web.example", "limits": {"bytes_in": 100000}}]})
    r = ask(cell.connect("web.example", 80), get("/big"))
    tap.ok(r is None or not r.whole, "too many bytes")


def test_secrets(egress, origin):
    value, placeholder = "s3cr3t-value-0123456789", "CORDON_PLACEHOLDER_abcdef"
    secrets = [{"name": "TOKEN", "value": value, "placeholder": placeholder,
                "hosts": ["look.example"], "methods": ["GET", "POST"], "paths": ["/open/**"],
                "in": ["header", "basic", "body:token"]}]
    rules = [{"host": "look.example", "paths": ["/open/**"], "secret": "TOKEN"},
             {"host": "set.example", "set_headers": {"X-Api-Key": "fixed"}},
             {"host": "web.example", "tls": "terminate"}]
    cell = egress.cell({"rules": rules}, secrets)

    def echo(request):
        return answer((request.get("Authorization") or "").encode() + b"|" + request.body,
                      headers=(f"X-Echo: {request.get('Authorization')}",))

    def echo_in_pieces(request):
        text = (request.get("Authorization") or "").encode()
        request.conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(len(text)):
            request.conn.sendall(b"1\r\n" + text[i:i + 1] + b"\r\n")
            time.sleep(0.002)  # so that most pieces arrive alone
        return b"0\r\n\r\n"

    SCRIPT["/open/echo"], SCRIPT["/open/pieces"] = echo, echo_in_pieces
    auth = f"Authorization: Bearer {placeholder}\r\n"
    s = cell.tls("look.example")
    r = ask(s, get("/open/echo", "look.example", auth + "Range: bytes=0-3\r\n"
                   "Accept-Encoding: gzip\r\n"))
    seen = origin.requests[-1]
    tap.same(seen.get("Authorization"), f"Bearer {value}", "the server gets the secret")
    tap.same((seen.get("Range"), seen.all("Accept-Encoding")), (None, ["identity"]),
             "and is asked for an answer that can be read")
    tap.ok(value.encode() not in r.body and value not in str(r.headers) and
           len(r.body) == len(value) + 8, "what it echoes is covered, length kept",
           (r.body, r.headers))
    r = ask(s, get("/open/pieces", "look.example", auth))
    tap.ok(r.whole and value.encode() not in r.body and r.body.endswith(b"*"),
           "also in chunks of one byte", r.body)
    body = '{"token": "%s"}' % placeholder
    r = ask(s, f"POST /open/echo HTTP/1.1\r\nHost: look.example\r\nContent-Type: application/json"
            f"\r\nContent-Length: {len(body)}\r\n\r\n{body}")
    tap.ok(value.encode() in origin.requests[-1].body and value.encode() not in r.body,
           "in a field of the body", (origin.requests[-1].body, r.body))
    SCRIPT["/open/gzip"] = answer(b"\x1f\x8b...", headers=("Content-Encoding: gzip",))
    r = ask(s, get("/open/gzip", "look.example", auth))
    tap.same(r.status, 502, "an answer that cannot be read is not passed on")
    s.close()
    s = cell.tls("web.example")
    ask(s, get("/elsewhere", more=auth))
    tap.same(origin.requests[-1].get("Authorization"), f"Bearer {placeholder}",
             "elsewhere the placeholder stays what it is")
    s.close()
    s = cell.tls("set.example")
    ask(s, get("/set", "set.example", "X-Api-Key: mine\r\n"))
    tap.same(origin.requests[-1].all("X-Api-Key"), ["fixed"], "a header that the policy sets")
    s.close()
    r = cell.record(lambda r: r.get("path") == "/open/echo")
    tap.same(r.get("secrets"), "TOKEN", "the record names the secret")
    r = cell.record(lambda r: r.get("path") == "/elsewhere")
    tap.ok(r and "placeholder" in r.get("reason", ""), "and its reason names the placeholder", r)
    tap.ok(value not in str(cell.records), "and never holds it")


def test_models(egress):
    reply = (b'{"id":"x","object":"chat.completion","model":"gpt-x","choices":[{"index":0,'
             b'"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],'
             b'"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}')
    SCRIPT["/v1/chat/completions"] = answer(reply, headers=("Content-Type: application/json",))
    cell = egress.cell({"rules": [{"host": "look.example", "class": "model"}]})
    s = cell.tls("look.example")
    body = '{"model":"gpt-x","messages":[{"role":"user","content":"q"}]}'
    r = ask(s, f"POST /v1/chat/completions HTTP/1.1\r\nHost: look.example\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
    tap.same(r.body, reply, "a model call passes")
    r = cell.record(lambda r: "model" in r)
    tap.ok(r and r["model"].get("input_tokens") == 11 and r["model"].get("output_tokens") == 7,
           "and its tokens are on record", r)
    s.close()


def test_guests(egress, origin, policy):
    """Connections to servers are never shared between sessions."""
    before = origin.connections
    for _ in range(2):
        cell = egress.cell(policy)
        s = cell.connect("web.example", 80)
        ask(s, get("/mine"))
        s.close()
    tap.same(origin.connections, before + 2, "kept connections are not shared between sessions")


def tests(w, egress, cell):
    test_refused(cell)
    test_raw(cell, w.raw)
    test_tls(cell, w.net)
    test_proxy(cell, w.origin, w.net)
    test_changes(egress, w.policy)
    test_limits(egress)
    test_secrets(egress, w.origin_tls)
    test_models(egress)
    test_guests(egress, w.origin, w.policy)
    test_hidden_name(cell, w.origin_tls)
    test_pacing(egress, w.policy)
    test_crowd(egress, w.policy)
    test_hostile_door(egress, w.policy)


if __name__ == "__main__":
    main(tests)
