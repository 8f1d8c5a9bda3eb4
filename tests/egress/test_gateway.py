#!/usr/bin/python3
"""HTTP through a real cordon-egress: decisions, smuggling, streaming, TLS, proxy, secrets."""

import contextlib
import hashlib
import os
import resource
import socket
import ssl
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import (PROXY, Egress, Net, Origin, Reader, Tap, answer, ask,
                            read_response)

WEB = "93.184.216.34"
OTHER = "93.184.216.35"
BIG = 48 << 20
PATTERN = bytes(range(256)) * 256

tap = Tap()


def get(path="/", host="web.example", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"


# ---- the servers of the world

SCRIPT = {}  # path: bytes to answer with as they are, or a function of the request


def big_answer(request):
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode()
    request.conn.sendall(head)
    for _ in range(BIG // len(PATTERN)):
        request.conn.sendall(PATTERN)
    return b""


def websocket(request):
    request.conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                         b"Connection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
    while True:
        data = request.reader.take(4096) or request.conn.recv(4096)
        if not data:
            return None
        request.conn.sendall(b"<" + data + b">")


def expecting(request):
    """Says what it thinks of the expectation, then reads."""
    request.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = request.reader.exactly(int(request.get("Content-Length")))
    return answer(body[::-1])


def web(request):
    path = request.line.split(" ")[1].split("?")[0]
    if path in SCRIPT:
        reply = SCRIPT[path]
        return reply(request) if callable(reply) else reply
    text = f"{request.line} {len(request.body)}".encode()
    if path == "/h":
        return answer(text)[:-len(text)]
    return answer(text)


# ---- tests

def test_basics(cell, origin):
    s = cell.connect("web.example", 80)
    r = ask(s, get("/a?b=c"))
    tap.same((r.status, r.body), (200, b"GET /a?b=c HTTP/1.1 0"), "a request is answered")
    r = ask(s, get("/second"))
    tap.same((r.status, origin.connections), (200, 1),
             "the next one goes over the same connections")
    r = ask(s, "HEAD /h HTTP/1.1\r\nHost: web.example\r\n\r\n", "HEAD")
    tap.same((r.status, r.get("Content-Length")), (200, "18"), "HEAD has a length and no body")
    r = ask(s, "POST /p HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5\r\n\r\nhello")
    tap.same(origin.requests[-1].body, b"hello", "a body with a length arrives")
    r = ask(s, "POST /p HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Trailer: 1\r\n\r\n")
    tap.same((r.status, origin.requests[-1].body), (200, b"abcdefg"), "a body in chunks arrives")
    tap.same(origin.requests[-1].get("X-Trailer"), None, "trailers do not become headers")
    SCRIPT["/204"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    SCRIPT["/304"] = b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n'
    tap.same(ask(s, get("/204")).status, 204, "204")
    r = ask(s, get("/304"))
    tap.same((r.status, r.get("Content-Length")), (304, "99"), "304")
    tap.same(ask(s, get("/after")).status, 200, "and the connection is still in step")
    SCRIPT["/close"] = lambda q: q.conn.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    r = ask(s, get("/close"))
    tap.same((r.get("Transfer-Encoding"), r.body), ("chunked", b"until the end"),
             "a body until the end becomes chunks")
    SCRIPT["/chunks"] = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                         b"5\r\nhello\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n")
    r = ask(s, get("/chunks"))
    tap.same((r.body, r.get("X-T")), (b"hello world", None), "chunks of the server arrive")
    s.close()
    s = cell.connect("web.example", 80)
    r = ask(s, "GET /chunks HTTP/1.0\r\n\r\n")
    tap.same((r.status, r.get("Transfer-Encoding"), r.body), (200, None, b"hello world"),
             "HTTP/1.0: without chunks, until the end")
    tap.same(origin.requests[-1].get("Host"), "web.example", "and the server is told the host")
    s.close()
    s = cell.connect("web.example", 80)
    ask(s, "GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    tap.same(ask(s, get("/y")).status, 200, "HTTP/1.0 with keep-alive is kept")
    s.close()
    r = cell.record(lambda r: r["kind"] == "request" and r.get("path") == "/a")
    tap.same((r["name"], r["port"], r["method"], r["query"], r["status"], r["verdict"],
              r["address"]), ("web.example", 80, "GET", "b=c", 200, "allow", WEB),
             "a request is on record")


def test_addresses(cell):
    found = cell.lookup("six.example", 28)
    s = cell.connect(found, 80)
    tap.same(ask(s, get("/", "six.example")).status, 200, "from IPv6 to a host with IPv6 only")
    s.close()
    s = cell.connect("198.18.77.77", 80)
    r = ask(s, get())
    tap.ok(r and r.status == 403 and b"stands for no name" in r.body,
           "an address that stands for no name is refused with words", r and r.body)
    s.close()
    s = cell.connect("inside.example", 80)
    r = ask(s, get("/", "inside.example"))
    tap.ok(r.status == 403 and b"10.1.2.3" in r.body,
           "a name with a private address is refused", r.body)
    s.close()
    s = cell.connect("gone.example", 80)
    r = ask(s, get("/", "gone.example"))
    tap.ok(r.status == 502 and r.get("X-Cordon-Failed"), "a name that does not exist is a 502",
           r.body)
    s.close()
    s = cell.connect("web.example", 81)
    r = ask(s, get("/", "web.example:81"))
    tap.ok(r.status == 502 and b"refused" in r.body, "nobody listens: a 502", r.body)
    s.close()


def test_decisions(cell, origin):
    before = len(origin.requests)
    s = cell.connect("rules.example", 80)
    r = ask(s, get("/open/x", "rules.example"))
    tap.same(r.status, 200, "a path that is allowed")
    r = ask(s, get("/shut", "rules.example"))
    tap.ok(r.status == 403 and r.get("X-Cordon-Denied"), "one that is not, on the same connection",
           r.headers)
    for path in ("/open/../shut", "/open/%2e%2e/shut", "/open/./../shut", "/%6fpen/../shut"):
        tap.same(ask(s, get(path, "rules.example")).status, 403, f"{path} is /shut")
    for path in ("/open/..%2fshut", "/open/%5c..%5cshut", "/open/%00", "/../../x"):
        r = ask(s, get(path, "rules.example"))
        tap.ok(r.status in (400, 403), f"{path} is refused", r.status)
        s.close()
        s = cell.connect("rules.example", 80)
    r = ask(s, get("/%6fpen/./%41?a=%41", "rules.example"))
    tap.same(origin.requests[-1].line, "GET /open/A?a=A HTTP/1.1",
             "what was judged is what is sent")
    r = ask(s, "DELETE /open/x HTTP/1.1\r\nHost: rules.example\r\n\r\n")
    tap.same(r.status, 403, "a method that is not allowed")
    r = ask(s, get("/shut", "rules.example", "Accept: application/json\r\n"))
    tap.ok(r.get("Content-Type") == "application/json" and b'"error":"denied"' in r.body,
           "JSON for who wants it", r.body)
    tap.same(len(origin.requests) - before, 2, "the server saw only what was allowed")
    s.close()
    r = cell.record(lambda r: r.get("path") == "/shut" and r["verdict"] == "deny")
    tap.ok(r and r["reason"], "a refusal is on record with its reason", r)


MALFORMED = {
    "two lengths": "POST / HTTP/1.1\r\nHost: web.example\r\nContent-Length: 4\r\n"
                   "Content-Length: 5\r\n\r\nabcde",
    "length and chunks": "POST / HTTP/1.1\r\nHost: web.example\r\nContent-Length: 4\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "a coding that is none": "POST / HTTP/1.1\r\nHost: web.example\r\n"
                             "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": "POST / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": "POST / HTTP/1.0\r\nHost: web.example\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": "GET / HTTP/1.1\r\nHost: web.example\r\nHost: evil.example\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "a URL of another host": "GET http://evil.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
    "a URL with a user": "GET http://web.example@evil.example/ HTTP/1.1\r\n"
                         "Host: web.example@evil.example\r\n\r\n",
    "lines that end with LF": "GET / HTTP/1.1\nHost: web.example\n\n",
    "one line that ends with LF": "GET / HTTP/1.1\r\nHost: web.example\nX: y\r\n\r\n",
    "a folded line": "GET / HTTP/1.1\r\nHost: web.example\r\nX-A: b\r\n c\r\n\r\n",
    "a space before the colon": "GET / HTTP/1.1\r\nHost: web.example\r\n"
                                "Transfer-Encoding : chunked\r\n\r\n",
    "a NUL": "GET / HTTP/1.1\r\nHost: web.example\r\nX: a\0b\r\n\r\n",
    "a CR in a value": "GET / HTTP/1.1\r\nHost: web.example\r\nX: a\rb\r\n\r\n",
    "another version": "GET / HTTP/1.2\r\nHost: web.example\r\n\r\n",
    "a header without a name": "GET / HTTP/1.1\r\nHost: web.example\r\n: x\r\n\r\n",
    "a sign before the length": "POST / HTTP/1.1\r\nHost: web.example\r\nContent-Length: +4\r\n\r\n"
                                "abcd",
    "a head of 70 KiB": "GET / HTTP/1.1\r\nHost: web.example\r\nX: " + "a" * 70000 + "\r\n\r\n",
    "a hundred headers": "GET / HTTP/1.1\r\nHost: web.example\r\n" + "X: y\r\n" * 100 + "\r\n",
    "a bad chunk": "POST / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "zz\r\nabc\r\n0\r\n\r\n",
    "a chunk's extension": "POST / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n"
                           "\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
    "a trailer that frames": "POST / HTTP/1.1\r\nHost: web.example\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 4\r\n\r\n",
    "a fragment": "GET /#x HTTP/1.1\r\nHost: web.example\r\n\r\n",
    "CONNECT where there is no proxy": "CONNECT web.example:443 HTTP/1.1\r\n"
                                       "Host: web.example\r\n\r\n",
}

MISDIRECTED = {
    "another host": get("/", "evil.example"),
    "another port": get("/", "web.example:8080"),
    "an address": get("/", WEB),
    "a URL of the other scheme": "GET https://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
}


def test_malformed(cell, origin):
    for name, text in {**MALFORMED, **MISDIRECTED}.items():
        before = len(origin.requests)
        s = cell.connect("web.example", 80)
        try:
            r = ask(s, text)
        except OSError:
            r = None
        rest = Reader(s).rest() if r else b""
        s.close()
        # What begins well may be sent on before it turns bad: then it must not arrive whole.
        tap.ok(r is not None and 400 <= r.status < 500 and rest == b"" and
               len(origin.requests) == before, f"refused: {name}",
               (r and r.line, rest, len(origin.requests) - before))
    s = cell.connect("web.example", 80)
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    tap.same(Reader(s).rest(), b"", "HTTP/2 without TLS is cut off")
    r = cell.record(lambda r: "HTTP/2 without TLS" in r.get("reason", ""))
    tap.ok(r, "and that is on record")


def test_headers(cell, origin):
    s = cell.connect("web.example", 80)
    r = ask(s, get("/hop", more="Connection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
                   "Proxy-Authorization: Basic eA==\r\nTE: trailers\r\nUpgrade: h2c\r\n"
                   "HTTP2-Settings: AAA\r\nX-Yours: 2\r\nX-Forwarded-For: 1.2.3.4\r\n"))
    seen = {n.lower(): v for n, v in origin.requests[-1].headers}
    tap.same(seen, {"host": "web.example", "x-yours": "2", "x-forwarded-for": "1.2.3.4"},
             "what is about one connection stays there, and nothing is added")
    SCRIPT["/hop2"] = answer(b"x", headers=("Connection: X-Mine", "X-Mine: 1", "Keep-Alive: 5",
                                            "Proxy-Authenticate: Basic", "X-Yours: 2",
                                            'Alt-Svc: h3=":443"', "Set-Cookie: a=b",
                                            "Set-Cookie: c=d"))
    r = ask(s, get("/hop2"))
    tap.same((r.get("X-Mine"), r.get("Keep-Alive"), r.get("Proxy-Authenticate"), r.get("X-Yours"),
              r.get("Alt-Svc"), r.all("Set-Cookie")), (None, None, None, "2", None, ["a=b", "c=d"]),
             "the same for answers")
    SCRIPT["/redirect"] = answer(b"", "302 Found", ("Location: http://evil.example/",))
    r = ask(s, get("/redirect"))
    tap.same((r.status, r.get("Location")), (302, "http://evil.example/"),
             "a redirect is the program's to follow")
    packed = b"\x1f\x8b" + os.urandom(5000)
    SCRIPT["/gzip"] = answer(packed, headers=("Content-Encoding: gzip",))
    tap.same(ask(s, get("/gzip", more="Accept-Encoding: gzip\r\n")).body, packed,
             "compressed bytes are passed as they are")
    s.close()


BAD_ANSWERS = {
    "lines that end with LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "a folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"
                         b"\r\n2\r\nok\r\n0\r\n\r\n",
    "a CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok",
    "a NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "a head of 70 KiB": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
    "a protocol nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n"
                                   b"Connection: Upgrade\r\n\r\n",
    "a status of no kind": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    "interim answers without end": b"HTTP/1.1 102 Processing\r\n\r\n" * 40,
}


def test_named_headers(egress, origin):
    """A header that Connection names is not sent on: no rule is kept by it."""
    cell = egress.cell({"rules": [{"host": "web.example", "headers": {"X-Mode": "read"}}]})
    s = cell.connect("web.example", 80)
    tap.same(ask(s, get("/mode", more="X-Mode: read\r\nConnection: keep-alive\r\n")).status, 200,
             "a request with the header that the rule wants")
    before = len(origin.requests)
    r = ask(s, get("/mode", more="X-Mode: read\r\nConnection: keep-alive, X-Mode\r\n"))
    tap.same((r.status, len(origin.requests)), (403, before), "not if the server would not see it")
    cell.detach()


def test_answers(cell, origin):
    for name, text in BAD_ANSWERS.items():
        SCRIPT["/bad"] = text
        s = cell.connect("web.example", 80)
        s.sendall(get("/bad").encode())
        reader = Reader(s)
        r = read_response(reader)
        while r and r.status < 200:
            r = read_response(reader)
        tap.ok(r and r.status == 502, f"a server's mistake is a 502: {name}", r and r.line)
        s.close()
    SCRIPT["/two"] = answer(b"one") + answer(b"smuggled")
    s = cell.connect("web.example", 80)
    first = ask(s, get("/two"))
    time.sleep(0.2)
    second = ask(s, get("/next"))
    tap.same((first.body, second.body), (b"one", b"GET /next HTTP/1.1 0"),
             "an answer nobody asked for answers nobody")
    SCRIPT["/hints"] = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer(b"final"))
    s.sendall(get("/hints").encode())
    reader = Reader(s)
    hints, final = read_response(reader), read_response(reader)
    tap.same((hints.status, hints.get("Link"), final.body), (103, "</a>", b"final"),
             "interim answers are passed on")
    SCRIPT["/short"] = lambda q: q.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
    r = ask(s, get("/short"))
    tap.ok(r is None or not r.whole, "an answer that ends early does not look whole", r and r.body)
    s.close()
    SCRIPT["/half"] = lambda q: q.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-")
    s = cell.connect("web.example", 80)
    r = ask(s, get("/half"))
    tap.same(r and r.status, 502, "half a head is a 502, at once")
    s.close()

    def reset_after(request):
        request.conn.sendall(answer(PATTERN * 4))
        time.sleep(0.3)
        request.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    SCRIPT["/reset"] = reset_after
    s = cell.connect("web.example", 80)
    s.sendall(get("/reset").encode())
    time.sleep(0.6)
    r = read_response(Reader(s))
    tap.ok(r and r.body == PATTERN * 4, "a reset behind a whole answer takes nothing from it")
    s.close()
    SCRIPT["/silent"] = lambda q: None
    s = cell.connect("web.example", 80)
    r = ask(s, get("/silent"))
    tap.same(r.status, 502, "no answer at all is a 502")
    s.close()


def test_stale(cell, origin):
    """A kept connection that the server closes at the moment it is used."""
    state = {"n": 0}

    def moody(request):
        state["n"] += 1
        return None if state["n"] == 2 else answer(b"fine")

    SCRIPT["/moody"] = moody
    s = cell.connect("stale.example", 80)
    ask(s, get("/moody", "stale.example"))
    r = ask(s, get("/moody", "stale.example"))
    tap.same((r.status, state["n"]), (200, 3), "a GET on a stale connection is tried once more")
    state["n"] = 1
    r = ask(s, "POST /moody HTTP/1.1\r\nHost: stale.example\r\nContent-Length: 1\r\n\r\nx")
    tap.same((r.status, state["n"]), (502, 2), "a POST is not: it may have been done")
    s.close()


def test_expect(cell, origin):
    SCRIPT["/expect"] = expecting
    s = cell.connect("expect.example", 80)
    s.sendall(b"PUT /expect HTTP/1.1\r\nHost: expect.example\r\nContent-Length: 3\r\n"
              b"Expect: 100-continue\r\n\r\n")
    reader = Reader(s)
    r = read_response(reader)
    tap.same(r and r.status, 100, "100-continue is the server's to say")
    s.sendall(b"abc")
    tap.same(read_response(reader).body, b"cba", "and then the body goes")
    SCRIPT["/no"] = answer(b"", "417 Expectation Failed")
    r = ask(s, "PUT /no HTTP/1.1\r\nHost: expect.example\r\nContent-Length: 3\r\n"
            "Expect: 100-continue\r\n\r\n")
    tap.same((r.status, r.get("Connection")), (417, "close"), "or not")
    s.close()


def test_pipelining(cell):
    s = cell.connect("rules.example", 80)
    host = "rules.example"
    s.sendall((get("/open/1", host) + get("/shut", host) + get("/open/2", host)).encode())
    reader = Reader(s)
    got = [read_response(reader) for _ in range(3)]
    tap.same([g and g.status for g in got], [200, 403, 200],
             "what is pipelined is decided one by one")
    s.sendall((get("/open/1", host) * 200).encode())
    tap.same({read_response(reader).status for _ in range(200)}, {200}, "200 at once")
    s.close()
    s = cell.connect(host, 80)
    s.sendall((get("/open/1", host) + get("/open/2", host)).encode())
    s.shutdown(socket.SHUT_WR)
    reader = Reader(s)
    tap.same([read_response(reader).status for _ in range(2)], [200, 200],
             "who has said all is still answered")
    s.close()


def test_large(cell, origin):
    want = hashlib.sha256(PATTERN * (BIG // len(PATTERN))).hexdigest()
    SCRIPT["/big"] = big_answer
    for name, s in (("plain", cell.connect("web.example", 80)),
                    ("terminated", cell.tls("look.example"))):
        host = "web.example" if name == "plain" else "look.example"
        r = ask(s, get("/big", host))
        tap.same(hashlib.sha256(r.body or b"").hexdigest(), want, f"48 MiB down, {name}")
        piece = PATTERN * 16
        s.sendall(f"POST /up HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
                  .encode())
        for _ in range(BIG // len(piece)):
            s.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        r = ask(s, "0\r\n\r\n")
        tap.ok(r.status == 200 and r.body.endswith(f" {BIG}".encode()),
               f"48 MiB up in chunks, {name}", r.body)
        s.close()
    s = cell.connect("web.example", 80)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    s.sendall(get("/big").encode())
    time.sleep(1)
    r = read_response(Reader(s))
    tap.same(hashlib.sha256(r.body or b"").hexdigest(), want, "48 MiB to who reads late")
    s.close()


def test_aborts(cell, origin):
    done = threading.Event()

    def endless(request):
        request.conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                request.conn.sendall(b"3\r\nabc\r\n")
                time.sleep(0.01)
        except OSError:
            done.set()
            raise

    SCRIPT["/endless"] = endless
    s = cell.connect("web.example", 80)
    s.sendall(get("/endless").encode())
    s.recv(100)
    s.close()
    tap.ok(done.wait(5), "a program that goes away takes the server's connection with it")

    def half(request):
        request.conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode())
        for _ in range(BIG // len(PATTERN) // 2):
            request.conn.sendall(PATTERN)
        raise OSError("it breaks off")

    SCRIPT["/half"] = half
    s = cell.connect("web.example", 80)
    s.sendall(get("/half").encode())
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(1 << 16):
            got += len(piece)
    tap.ok(BIG // 4 < got < BIG, "of a long answer that breaks off comes what there was", got)
    r = cell.record(lambda r: r.get("path") == "/half")
    tap.ok(r and r.get("reason"), "and the record says so", r)
    before = origin.broken
    s = cell.connect("web.example", 80)
    s.sendall(b"POST /part HTTP/1.1\r\nHost: web.example\r\nContent-Length: 100\r\n\r\nhalf")
    time.sleep(0.2)
    s.close()
    tap.ok(cell.record(lambda r: r.get("path") == "/part"), "half a request is on record")
    time.sleep(0.2)
    tap.same(origin.broken, before + 1, "and does not arrive as a whole one")


def test_slow(cell):
    """Bounded by time: runs beside the other tests."""
    silent, partial = cell.connect("web.example", 80), cell.connect("web.example", 80)
    partial.sendall(b"GE")
    begin, ends = time.monotonic(), []

    def wait(s):
        s.settimeout(30)
        try:
            s.recv(1)
        except OSError:
            pass
        ends.append(time.monotonic() - begin)

    waits = [threading.Thread(target=wait, args=(s,), daemon=True) for s in (silent, partial)]
    for w in waits:
        w.start()
    return waits, ends


def test_refused(cell):
    s = cell.connect("93.184.216.99", 80)
    r = ask(s, get("/", "93.184.216.99"))
    tap.ok(r.status == 403 and r.get("X-Cordon-Denied"), "HTTP to who is not allowed: 403", r.line)
    s.close()
    s = cell.connect("93.184.216.99", 443)
    try:
        ssl.create_default_context().wrap_socket(s, server_hostname="bad.example")
        alert = "none"
    except ssl.SSLError as e:
        alert = e.reason
    tap.same(alert, "TLSV1_ALERT_ACCESS_DENIED", "TLS: an alert that says so")
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
             "CERTIFICATE_VERIFY_FAILED", "who does not trust the node does not get through")
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
           "a cell that plays with its door holds up nobody else")


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
            "the door itself": "GET http://198.18.0.1:53/ HTTP/1.1\r\nHost: 198.18.0.1:53\r\n\r\n",
            "CONNECT to evil": "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "CONNECT without a port": "CONNECT web.example HTTP/1.1\r\nHost: web.example\r\n\r\n",
            "CONNECT to the door": "CONNECT 198.18.0.1:3128 HTTP/1.1\r\nHost: x\r\n\r\n",
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
           "records say that it was the proxy")


def test_websocket(cell):
    SCRIPT["/ws"] = websocket
    s = cell.connect("ws.example", 80)
    s.sendall(get("/ws", "ws.example", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
              .encode())
    reader = Reader(s)
    head = reader.until(b"\r\n\r\n")
    tap.ok(head and head.startswith(b"HTTP/1.1 101 ") and b"Upgrade: websocket\r\n" in head,
           "a WebSocket follows the rule that allowed its request", head)
    tap.same(reader.exactly(5), b"hello", "bytes right behind the head arrive")
    s.sendall(b"ping")
    tap.same(reader.exactly(6), b"<ping>", "and then both ways")
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
    ws.sendall(b"still")
    tap.same(reader.exactly(7), b"<still>", "cuts nothing")
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
    time.sleep(2.5)  # the others linger
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
            time.sleep(0.002)
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
    tap.ok(r and "placeholder" in r.get("reason", ""), "and says where it did not belong", r)
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
    """What one guest's connection was used for is nobody else's."""
    before = origin.connections
    for _ in range(2):
        cell = egress.cell(policy)
        s = cell.connect("web.example", 80)
        ask(s, get("/mine"))
        s.close()
    tap.same(origin.connections, before + 2, "kept connections are not shared between guests")


def main():
    program = os.environ.get("CORDON_EGRESS", "./cordon-egress")
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    net = Net()
    names = ("web", "rules", "look", "stale", "expect", "ws", "set")
    for name in names:
        net.name(f"{name}.example", WEB)
    net.name("six.example", "2606:4700::34")
    net.name("inside.example", "10.1.2.3")
    net.name("raw.example", WEB)
    net.name("wrongname.example", OTHER)
    net.name("selfsigned.example", "93.184.216.36")
    origin = Origin(net, WEB, 80, web)
    origin_tls = Origin(net, WEB, 443, web, tls=net.certificate("web.example"))
    # one server, many names
    others = {n: net.certificate(f"{n}.example") for n in ("look", "set")}

    def choose(sock, name, context):
        if name and name.split(".")[0] in others:
            sock.context = others[name.split(".")[0]]

    origin_tls.tls.sni_callback = choose
    Origin(net, "2606:4700::34", 80, web)
    Origin(net, "10.1.2.3", 80, web)
    Origin(net, OTHER, 443, web, tls=net.certificate("other.example"))
    Origin(net, "93.184.216.36", 443, web, tls=net.certificate("selfsigned.example", signed=False))

    def echo_bytes(conn):
        while True:
            data = conn.recv(65536)
            if not data:
                return
            conn.sendall(data)

    raw = Origin(net, WEB, 2222, None)
    raw.converse = echo_bytes
    expect = Origin(net, "93.184.216.37", 80, web, whole=False)
    net.name("expect.example", "93.184.216.37")
    net.name("stale.example", "93.184.216.38")
    Origin(net, "93.184.216.38", 80, web)

    policy = {"rules": [
        {"host": "web.example", "ports": [80, 81, 443]},
        {"host": "rules.example", "methods": ["GET", "POST"], "paths": ["/open/**"]},
        {"host": "look.example", "methods": ["GET", "POST"],
         "paths": ["/open/**", "/big", "/up"]},
        {"host": "wrongname.example", "tls": "terminate"},
        {"host": "selfsigned.example", "tls": "terminate"},
        {"host": "six.example"}, {"host": "inside.example"}, {"host": "gone.example"},
        {"host": "stale.example"}, {"host": "expect.example"},
        {"host": "ws.example", "paths": ["/ws"]},
        {"host": "raw.example", "ports": [2222], "protocol": "tcp"}]}
    egress = Egress(net, program)
    try:
        cell = egress.cell(policy)
        late = test_slow(cell)
        test_basics(cell, origin)
        test_addresses(cell)
        test_decisions(cell, origin)
        test_malformed(cell, origin)
        test_headers(cell, origin)
        test_named_headers(egress, origin)
        test_answers(cell, origin)
        test_stale(cell, origin)
        test_expect(cell, expect)
        test_pipelining(cell)
        test_large(cell, origin)
        test_aborts(cell, origin)
        test_refused(cell)
        test_raw(cell, raw)
        test_tls(cell, net)
        test_proxy(cell, origin, net)
        test_changes(egress, policy)
        test_limits(egress)
        test_secrets(egress, origin_tls)
        test_models(egress)
        test_guests(egress, origin, policy)
        test_hidden_name(cell, origin_tls)
        test_crowd(egress, policy)
        test_hostile_door(egress, policy)
        for w in late[0]:
            w.join()
        tap.ok(all(8 < t < 20 for t in late[1]), "who says nothing, or too little, is cut off",
               late[1])
        tap.ok(cell.record(lambda r: "too slow" in r.get("reason", "")), "and on record")
        cell.detach()
        time.sleep(0.3)
        tap.ok(egress.process.poll() is None, "it is still there")
    finally:
        ended = egress.close()
        tap.same(ended, 0, "and ends well with its channel")
        egress.log.seek(0)
        for line in egress.log.read().decode(errors="replace").splitlines():
            print("# " + line)
        net.close()
    return tap.done()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
