#!/usr/bin/python3
"""HTTP through a real cordon-egress: decisions, smuggling, framing, streaming."""

import contextlib
import hashlib
import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import ask, read_response
from origin_server import Reader, answer
from checks import wait_for  # in ../shared, which origin_server.py adds to the path
from gateway_world import BIG, PATTERN, SCRIPT, WEB, expecting, get, main, tap


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
    tap.same(origin.requests[-1].get("Host"), "web.example", "and the server gets the host")
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
    tap.ok(r and r.status == 403 and b"no host name has this address" in r.body,
           "a synthetic address without a name is refused with the reason", r and r.body)
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
    tap.ok(r.status == 502 and b"refused" in r.body, "no server listens: a 502", r.body)
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
           "JSON for a client that accepts it", r.body)
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
    "a protocol that was not asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n"
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
    time.sleep(0.2)  # until the second answer has arrived at egress, which shows nothing of it
    second = ask(s, get("/next"))
    tap.same((first.body, second.body), (b"one", b"GET /next HTTP/1.1 0"),
             "an answer without a request is not delivered")
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
        time.sleep(0.3)  # a reset discards what egress has not read yet
        request.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    SCRIPT["/reset"] = reset_after
    s = cell.connect("web.example", 80)
    s.sendall(get("/reset").encode())
    time.sleep(0.6)  # the program reads after the reset
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
    tap.same(r and r.status, 100, "100 Continue comes from the server")
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
             "a program that has closed its sending side is still answered")
    s.close()


def test_large(cell, origin):
    want = hashlib.sha256(PATTERN * (BIG // len(PATTERN))).hexdigest()
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
    time.sleep(1)  # a program that reads late
    r = read_response(Reader(s))
    tap.same(hashlib.sha256(r.body or b"").hexdigest(), want, "48 MiB to a program that reads late")
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
    before, connections = origin.broken, origin.connections
    s = cell.connect("web.example", 80)
    s.sendall(b"POST /part HTTP/1.1\r\nHost: web.example\r\nContent-Length: 100\r\n\r\nhalf")
    wait_for(lambda: origin.connections > connections)
    s.close()
    tap.ok(cell.record(lambda r: r.get("path") == "/part"), "half a request is on record")
    wait_for(lambda: origin.broken > before)
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


def tests(w, egress, cell):
    late = test_slow(cell)
    test_basics(cell, w.origin)
    test_addresses(cell)
    test_decisions(cell, w.origin)
    test_malformed(cell, w.origin)
    test_headers(cell, w.origin)
    test_named_headers(egress, w.origin)
    test_answers(cell, w.origin)
    test_stale(cell, w.origin)
    test_expect(cell, w.expect)
    test_pipelining(cell)
    test_large(cell, w.origin)
    test_aborts(cell, w.origin)
    for t in late[0]:
        t.join()
    tap.ok(all(8 < t < 20 for t in late[1]), "a program that sends nothing, or too little, is cut off", late[1])
    tap.ok(cell.record(lambda r: "too slow" in r.get("reason", "")), "and on record")


if __name__ == "__main__":
    main(tests)
