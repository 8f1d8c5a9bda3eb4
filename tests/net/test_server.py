#!/usr/bin/python3
"""The HTTP server of src/net by raw sockets: test_server.py ECHO_SERVER."""
import json
import os
import random
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import (Reader, Server, Skip, is_sanitized, read_answer, read_head, run, wait_until, ws_frame, ws_open, ws_read)

PROGRAM = sys.argv[1]
HOST = b"Host: x\r\n"


def pattern(n):
    return (bytes(range(251)) * (n // 251 + 1))[:n]


# ---- what is malformed

# Requests whose length can be read in two ways. A second request follows each; a server that is deceived answers it, too.
SMUGGLING = {
    "length and chunked": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
    "two lengths": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", (400,)),
    "length with a plus": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\nhello", (400,)),
    "list of lengths": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 5\r\n\r\nhello", (400,)),
    "space before colon": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length : 5\r\n\r\nhello", (400,)),
    "folded line": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", (400,)),
    "xchunked": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", (400,)),
    "chunked, identity": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", (400,)),
    "bare LF": (b"GET /hello HTTP/1.1\nHost: x\n\n", (400,)),
    "bare CR": (b"GET /hello HTTP/1.1\r\n" + HOST + b"X: a\rTransfer-Encoding: chunked\r\n\r\n", (400,)),
    "NUL in a value": (b"GET /hello HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", (400,)),
    "no Host": (b"GET /hello HTTP/1.1\r\n\r\n", (400,)),
    "two Hosts": (b"GET /hello HTTP/1.1\r\n" + HOST + HOST + b"\r\n", (400,)),
    "control byte in target": (b"GET /he\x01llo HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "line begins with space": (b"GET /hello HTTP/1.1\r\n Host: x\r\n" + HOST + b"\r\n", (400,)),
    "HTTP/1.2": (b"GET /hello HTTP/1.2\r\n" + HOST + b"\r\n", (400, 505)),
    "LF in a chunk extension": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", (400,)),
}


def smuggling_table():
    assert len(SMUGGLING) == 17
    with Server(PROGRAM) as server:
        for name, (request, statuses) in SMUGGLING.items():
            with server.connect() as s:
                s.sendall(request + b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                reader = Reader(s)
                answer = read_answer(reader)
                assert answer.status in statuses, f"{name}: {answer.status}"
                assert answer.headers["connection"] == "close", name
                error = json.loads(answer.body)["error"]
                assert error["request_id"] == answer.headers["x-request-id"] and error["message"]
                assert error["code"] in ("invalid", "unsupported") and error["fault"] == "user" and error["session_id"] is None
                assert reader.at_end(), f"{name}: a second answer"


def byte_by_byte_is_the_same():
    with Server(PROGRAM) as server, server.connect() as s:
        for byte in b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            s.sendall(bytes([byte]))
        assert read_answer(Reader(s)).body == b"abcde"


# ---- requests and answers

def keep_alive_and_close():
    with Server(PROGRAM) as server:
        with server.connect() as s:
            reader = Reader(s)
            for _ in range(50):
                s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = read_answer(reader)
                assert answer.status == 200 and answer.body == b"hello\n" and "connection" not in answer.headers
                assert answer.headers["keep-alive"] == "timeout=55"  # less than it is: a request must not meet our close
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = read_answer(reader)
            assert answer.headers["connection"] == "close" and "keep-alive" not in answer.headers
            assert reader.at_end()
        with server.connect() as s:
            s.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
            reader = Reader(s)
            assert read_answer(reader).headers["connection"] == "close"
            assert reader.at_end()
        with server.connect() as s:
            s.sendall(b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
            reader = Reader(s)
            assert read_answer(reader).headers["connection"] == "keep-alive"
            assert read_answer(reader).body == b"hello\n"
        assert server.stats()["calls"] == 55


def request_ids_differ():
    with Server(PROGRAM) as server, server.connect() as s:
        reader, seen = Reader(s), set()
        for _ in range(20):
            s.sendall(b"GET /headers HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(reader)
            assert answer.headers["x-extra"] == "one"
            assert answer.headers["x-id"] == answer.headers["x-request-id"]
            host, port = s.getsockname()
            assert answer.headers["x-peer"] == f"{host}:{port}"
            seen.add(answer.headers["x-id"])
        assert len(seen) == 20 and all(len(i) == 20 and i.startswith("req_") for i in seen)


def date_header():
    with Server(PROGRAM) as server:
        for _ in range(2):
            stamp = server.get("/hello").headers["date"]
            there = time.mktime(time.strptime(stamp, "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
            assert abs(time.time() - there) <= 2, stamp
            time.sleep(1.1 - time.time() % 1)  # until another second has begun


def pipelining_of_100():
    with Server(PROGRAM) as server, server.connect() as s:
        request = b""
        for i in range(100):
            path = (b"/echo", b"/slow?ms=2", b"/stream?bytes=300")[i % 3]
            body = b"%d" % i if i % 3 == 0 else b""
            request += b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path, len(body), body)
        s.sendall(request)
        reader = Reader(s)
        for i in range(100):
            body = read_answer(reader).body
            assert body == (b"%d" % i, b"late\n", pattern(300))[i % 3], (i, body)


def bodies_of_both_framings():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = Reader(s)
        for n in (0, 1, 100, 8191, 8192, 8193, 65536, 1000000):
            body = pattern(n)
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + body)
            assert read_answer(reader).body == body, n
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, n, 7777):
                piece = body[at:at + 7777]
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\nTrailer: dropped\r\n\r\n")
            assert read_answer(reader).body == body, n


def a_body_longer_than_memory_allows_is_received():
    n, piece = 256 << 20, pattern(251 * 4096)
    with Server(PROGRAM) as server, server.connect(60) as s:
        s.sendall(b"POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n)
        left = n
        while left:
            s.sendall(piece[:left])
            left -= min(left, len(piece))
        assert read_answer(Reader(s)).body == b"%d\n" % n
        assert is_sanitized(PROGRAM) or server.stats()["rss"] < 16 << 20


def a_slow_handler_holds_the_client_back():
    body = pattern(1000000)
    with Server(PROGRAM, body_ms=300) as server:
        with server.connect() as s:
            s.sendall(b"POST /count-slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + body)
            assert read_answer(Reader(s)).body == b"1000000\n"
        with server.connect() as s:
            s.sendall(b"POST /count-slowly HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, 1000000, 12345):
                piece = body[at:at + 12345]
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\n\r\n")
            assert read_answer(Reader(s)).body == b"1000000\n"


def expect_continue():
    ask = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with Server(PROGRAM) as server:
        with server.connect() as s:
            reader = Reader(s)
            for _ in range(2):
                s.sendall(ask % b"/echo")
                assert reader.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                s.sendall(b"hello")
                assert read_answer(reader).body == b"hello"
            s.sendall(ask % b"/echo" + b"hello")  # did not wait
            answer = read_answer(reader)
            assert answer.status in (100, 200)
            if answer.status == 100:
                answer = read_answer(reader)
            assert answer.body == b"hello"
        with server.connect() as s:
            reader = Reader(s)
            s.sendall(ask % b"/unread")
            answer = read_answer(reader)
            assert answer.status == 403 and answer.headers["connection"] == "close"


def head_requests():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = Reader(s)
        for path in (b"/hello", b"/stream?bytes=5000", b"/length?bytes=5000"):
            s.sendall(b"HEAD %s HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            answer = read_answer(reader, "HEAD")
            assert answer.status == 200
            if path == b"/hello":
                assert answer.headers["content-length"] == "6"
            assert read_answer(reader).body == b"hello\n", path


def no_content():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = Reader(s)
        s.sendall(b"DELETE /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = read_answer(reader)
        assert answer.status == 204 and "content-length" not in answer.headers
        assert read_answer(reader).body == b"hello\n"


def streams_of_every_kind():
    with Server(PROGRAM) as server:
        with server.connect() as s:
            reader = Reader(s)
            for path in (b"/stream", b"/length", b"/big"):
                for n in (0, 1, 1000, 65536, 300000, 5000000):
                    s.sendall(b"GET %s?bytes=%d HTTP/1.1\r\nHost: x\r\n\r\n" % (path, n))
                    body = read_answer(reader).body
                    assert len(body) == n, (path, n, len(body))
                    assert body[:65536] == pattern(65536)[:n]
        with server.connect() as s:  # without chunks the end of the connection is the end of the body
            s.sendall(b"GET /stream?bytes=300000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            answer = read_answer(Reader(s))
            assert len(answer.body) == 300000 and answer.headers["connection"] == "close"
            assert "transfer-encoding" not in answer.headers
        with server.connect() as s:
            s.sendall(b"GET /ticks?n=5 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(Reader(s)).body == b"data: tick\n\n" * 5


def cut_answers_are_seen_to_be_cut():
    with Server(PROGRAM) as server:
        for path in ("/short", "/abort"):
            try:
                answer = server.get(path)
            except (EOFError, ConnectionResetError):
                continue
            raise AssertionError(f"{path}: {answer.status}, {len(answer.body)} bytes, as if whole")
        assert server.stats()["gone"] == 2


def cut_answers_end_by_fin():
    """An answer with framing is cut by FIN, not by a reset, also where input of the client is unread: what was sent
    arrives, and no last chunk."""
    with Server(PROGRAM) as server:
        for path, body in (("/abort", b"32\r\n" + pattern(50) + b"\r\n"), ("/short", pattern(50))):
            with server.connect() as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() + b"GET /unread HTTP/1.1\r\n" * 3)
                got = b""
                while piece := s.recv(65536):  # a reset would raise
                    got += piece
                assert got.endswith(b"\r\n\r\n" + body), (path, got[-100:])
        with server.connect() as s:  # without framing, a reset is what shows it
            s.sendall(b"GET /abort HTTP/1.0\r\n\r\n")
            try:
                while s.recv(65536):
                    pass
            except ConnectionResetError:
                return
            raise AssertionError("an answer without framing ended as if whole")


def unread_bodies():
    with Server(PROGRAM) as server:
        with server.connect() as s:  # short: the connection goes on
            reader = Reader(s)
            s.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + pattern(60000) +
                      b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(reader)
            assert answer.status == 403 and "connection" not in answer.headers
            assert read_answer(reader).body == b"hello\n"
        with server.connect() as s:  # long: it does not, and the answer arrives nevertheless
            s.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + pattern(60000))
            answer = read_answer(Reader(s))
            assert answer.status == 403 and answer.headers["connection"] == "close"
        with server.connect() as s:
            s.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                      b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            reader = Reader(s)
            assert read_answer(reader).headers["connection"] == "close"
            assert reader.at_end()


def handlers_words_for_a_bad_body():
    with Server(PROGRAM) as server:
        with server.connect() as s:
            s.sendall(b"POST /own-words HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")
            reader = Reader(s)
            answer = read_answer(reader)
            assert answer.status == 422 and answer.body == b"my own words\n"
            assert answer.headers["connection"] == "close" and reader.at_end()
        with server.connect() as s:  # no body at all: on_end comes
            s.sendall(b"POST /own-words HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert read_answer(Reader(s)).body == b"fine\n"


def an_answer_before_the_end_of_the_body():
    with Server(PROGRAM) as server:
        with server.connect() as s:  # the rest is short: the connection goes on
            s.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b"a" * 500)
            reader = Reader(s)
            assert read_answer(reader).body == b"early\n"
            s.sendall(b"a" * 500 + b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(reader).body == b"hello\n"
        with server.connect() as s:
            s.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + b"a" * 500)
            answer = read_answer(Reader(s))
            assert answer.body == b"early\n" and answer.headers["connection"] == "close"
        assert server.stats()["gone"] == 0


def pipelined_requests_and_a_half_close():
    with Server(PROGRAM) as server, server.connect() as s:
        s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        s.shutdown(socket.SHUT_WR)
        reader = Reader(s)
        for _ in range(50):
            assert read_answer(reader).body == b"hello\n"
        assert reader.at_end()


def connect_is_refused():
    with Server(PROGRAM) as server:
        answer = server.ask(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
        assert answer.status in (405, 501) and answer.headers["connection"] == "close"


def over_a_unix_socket():
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        with Server(PROGRAM, address) as server:
            assert server.get("/headers").headers["x-peer"] == "unix"
            assert os.stat(f"{folder}/s").st_mode & 0o777 == 0o600
            second = subprocess.run([PROGRAM, address], capture_output=True, text=True, timeout=10)
            assert second.returncode == 1 and "in use" in second.stderr, second.stderr
            assert server.get("/hello").status == 200
        with Server(PROGRAM, address) as server:  # the file was left behind, and is replaced
            assert server.get("/hello").status == 200


# ---- bounds

def too_large_bodies_are_413():
    with Server(PROGRAM) as server:
        for framing, body in ((b"Content-Length: 1048577", b""), (b"Content-Length: 99999999999", b"x" * 100000),
                              (b"Transfer-Encoding: chunked", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
                              (b"Transfer-Encoding: chunked", b"fffffffffffffff\r\n")):
            with server.connect() as s:
                s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
                try:
                    for _ in range(17 if body.startswith(b"10000") else 1):
                        s.sendall(body)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                answer = read_answer(Reader(s))
                assert answer.status == 413 and answer.headers["connection"] == "close", framing
        assert server.stats()["calls"] == 5


def too_long_heads_are_431():
    with Server(PROGRAM, head_max=4096) as server:
        for request in (b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5000, b"GET /" + b"a" * 5000,
                        b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 1000):
            answer = server.ask(request)
            assert answer.status == 431 and answer.headers["connection"] == "close"
        fits = b"GET /hello HTTP/1.1\r\nHost: x\r\nX: "
        fits += b"a" * (4096 - len(fits) - 4) + b"\r\n\r\n"
        assert server.ask(fits).status == 200
        assert server.ask(fits[:-4] + b"a\r\n\r\n").status == 431
        many = b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 70 + b"\r\n"
        assert server.ask(many).status == 431


def slow_heads_are_408():
    with Server(PROGRAM, head_ms=300) as server, server.connect() as s:
        began = time.monotonic()
        s.sendall(b"GET /hello HTTP/1.1\r\n")
        try:
            for _ in range(20):  # drop by drop does not help
                time.sleep(0.05)
                s.sendall(b"X: y\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert read_answer(Reader(s)).status == 408
        assert time.monotonic() - began < 3


def slow_bodies_are_408():
    with Server(PROGRAM, body_ms=300) as server:
        with server.connect() as s:
            s.sendall(b"POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
            for i in range(4):  # progress counts, in a body that is not kept
                time.sleep(0.15)
                s.sendall(bytes([i]))
            began = time.monotonic()
            answer = read_answer(Reader(s))
            assert answer.status == 408 and 0.2 < time.monotonic() - began < 2
        assert server.stats()["gone"] == 0


def idle_connections_are_closed():
    with Server(PROGRAM, idle_ms=300) as server, server.connect() as s, server.connect() as fresh:
        reader = Reader(s)
        s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        read_answer(reader)
        began = time.monotonic()
        assert reader.at_end() and 0.2 < time.monotonic() - began < 2
        assert Reader(fresh).at_end()


def readers_that_stop_are_dropped():
    with Server(PROGRAM, write_ms=400) as server:
        with server.connect() as s:
            s.sendall(b"GET /stream?bytes=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: server.stats()["gone"] == 1)


def a_slow_reader_costs_little():
    with Server(PROGRAM, write_ms=60000) as server:
        before = server.stats()["rss"]
        slow = [server.connect(receive_buffer=4096) for _ in range(20)]
        for s in slow:
            s.sendall(b"GET /stream?bytes=1073741824 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        worst = 0.0
        for _ in range(50):
            began = time.monotonic()
            assert server.get("/hello").status == 200
            worst = max(worst, time.monotonic() - began)
        grown = server.stats()["rss"] - before
        assert grown < 20 * 700 * 1024 + (4 << 20), f"{grown} bytes for 20 slow readers"
        assert worst < 0.5, f"others wait {worst} s"
        for s in slow:
            s.close()
        wait_until(lambda: server.stats()["gone"] == 20)


def too_many_connections_are_503():
    with Server(PROGRAM, connections_max=5) as server:
        held = [server.connect() for _ in range(5)]
        for s in held:  # each is known to the server now
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            read_answer(Reader(s))
        with server.connect() as s:
            assert read_answer(Reader(s)).status == 503
        for s in held:
            s.close()
        wait_until(lambda: server.get("/hello").status == 200)


def idle_connections_cost_little():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4200:
        raise Skip("fewer than 4200 descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server(PROGRAM) as server:
        server.get("/hello")
        before = server.stats()["rss"]
        held = [server.connect() for _ in range(2000)]
        for s in held:
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        for s in held:
            assert read_answer(Reader(s)).status == 200
        stats = server.stats()
        assert stats["connections"] == 2001
        each = (stats["rss"] - before) / 2000
        print(f"# {each:.0f} bytes for each idle connection")
        if not is_sanitized(PROGRAM):
            assert each < 4096, each
        for s in held:
            s.close()
        wait_until(lambda: server.stats()["connections"] == 1)


def without_descriptors_it_stays_calm():
    with Server(PROGRAM) as server:
        # Not before it starts: it would keep some for itself, and never come to the last.
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 64))
        held = []
        refused = 0
        for _ in range(100):
            s = server.connect()
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            held.append(s)
            if len(held) <= 50:
                assert read_answer(Reader(s)).status == 200
        time.sleep(0.5)
        for s in held[50:]:
            s.settimeout(0.01)
            try:
                refused += s.recv(1) == b""
            except ConnectionResetError:
                refused += 1
            except socket.timeout:
                pass
        assert refused >= 1, "nobody was told"
        held[0].sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")  # who has a connection is served
        assert read_answer(Reader(held[0])).status == 200
        before = cpu_ticks(server.pid)
        time.sleep(1)
        spent = cpu_ticks(server.pid) - before
        assert spent < 20, f"{spent} ticks of a second: it spins"
        for s in held:
            s.close()
        wait_until(lambda: answers(server))


def the_last_descriptors_are_not_for_connections():
    # The server keeps some of its descriptors for itself.
    wrapper = ("/bin/sh", "-c", 'ulimit -n 192; exec "$@"', "sh")
    with Server(PROGRAM, wrapper=wrapper) as server:
        held = [server.connect() for _ in range(40)]
        for s in held:
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(Reader(s)).status == 200
        held += [server.connect() for _ in range(120)]
        assert read_answer(Reader(held[-1])).status == 503
        for s in held:
            s.close()
        wait_until(lambda: answers(server))


def answers(server):
    try:
        return server.get("/hello").status == 200
    except (OSError, EOFError):
        return False


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


# ---- clients that go

def gone_clients_are_noticed():
    with Server(PROGRAM) as server:
        for path in (b"/never", b"/slow?ms=20000", b"/ticks?n=100000"):
            before = server.stats()["gone"]
            s = server.connect()
            s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            time.sleep(0.05)
            s.close()
            wait_until(lambda: server.stats()["gone"] == before + 1)
        s = server.connect()  # in the middle of a body
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhello")
        time.sleep(0.05)
        s.close()
        wait_until(lambda: server.stats()["gone"] == 4)
        s = server.connect()  # with the next request already sent
        s.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        time.sleep(0.05)
        s.close()
        wait_until(lambda: server.stats()["gone"] == 5)
        assert cpu_after(server) < 20


def cpu_after(server):
    before = cpu_ticks(server.pid)
    time.sleep(0.5)
    return cpu_ticks(server.pid) - before


def waiting_costs_no_time():
    """Pipelined input that nobody wants yet, and a peer that has closed half: no spinning."""
    with Server(PROGRAM) as server:
        s = server.connect()
        s.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 10000)
        t = server.connect()
        t.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        t.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        assert cpu_after(server) < 10
        s.close()
        t.close()


def a_half_closed_client_is_answered_at_once():
    with Server(PROGRAM) as server, server.connect() as s:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        s.shutdown(socket.SHUT_WR)
        assert read_answer(Reader(s)).body == b"hello"


REQUESTS = (b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"a" * 5000,
            b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" + b"a" * 3000,
            b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"a" * 100 + b"\r\n0\r\n\r\n",
            b"POST /count-slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 50200\r\n\r\n" + bytes(range(251)) * 200,
            b"GET /stream?bytes=1000000 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /big?bytes=1000000 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /slow?ms=5 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /ticks?n=3 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /abort HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + b"b" * 9000,
            b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + ws_frame(1, b"hi") + ws_frame(1, b"flood") + ws_frame(8))


def disconnects_at_every_phase():
    seed = random.randrange(1 << 32)
    print(f"# seed {seed}")
    rng = random.Random(seed)
    with Server(PROGRAM) as server:
        for i in range(800):
            s = server.connect()
            request = rng.choice(REQUESTS) + rng.choice(REQUESTS)
            s.sendall(request[:rng.randrange(len(request) + 1)])
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.004)
            if rng.random() < 0.4:
                s.settimeout(0.01)
                try:
                    s.recv(rng.choice((1, 100, 100000)))
                except (OSError, socket.timeout):
                    pass
            if rng.random() < 0.3:
                try:
                    s.shutdown(socket.SHUT_WR)
                except OSError:  # the server was faster: /abort resets
                    pass
            if rng.random() < 0.3:  # a reset
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        wait_until(lambda: server.stats()["connections"] == 1, 10)
        stats = server.stats()
        assert stats["calls"] == stats["answered"] + stats["gone"] + 1, stats
        assert stats["logged"] >= stats["calls"] - 1, stats


def drain():
    with Server(PROGRAM) as server:
        idle, working, asking = server.connect(), server.connect(), server.connect()
        working.sendall(b"GET /slow?ms=300 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.05)
        asking.sendall(b"GET /drain HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(asking)
        assert read_answer(reader).headers["connection"] == "close" and reader.at_end()
        assert Reader(idle).at_end()
        reader = Reader(working)
        answer = read_answer(reader)
        assert answer.body == b"late\n" and answer.headers["connection"] == "close" and reader.at_end()
        try:
            server.connect().close()
            raise AssertionError("it still listens")
        except ConnectionRefusedError:
            pass
        server.process.terminate()
        server.process.wait()
        server.process.returncode = 0  # it was ours to end: /quit cannot be asked any more


# ---- WebSocket

def ws_echo():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = ws_open(s)
        for n in (0, 1, 125, 126, 5000, 65535, 65536, 100000):
            s.sendall(ws_frame(2, pattern(n)))
            assert ws_read(reader) == (2, pattern(n)), n
        s.sendall(ws_frame(1, "größe".encode()))
        assert ws_read(reader) == (1, "größe".encode())
        s.sendall(ws_frame(8, struct.pack(">H", 1000) + b"bye"))
        assert ws_read(reader) == (8, struct.pack(">H", 1000))
        assert reader.at_end()
        wait_until(lambda: server.stats()["answered"] >= 2)
        assert server.stats()["gone"] == 0


def ws_fragments_and_pings():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = ws_open(s)
        text = "a€b".encode()
        s.sendall(ws_frame(1, text[:2], fin=False) + ws_frame(9, b"ping") + ws_frame(0, text[2:3], fin=False) +
                  ws_frame(10, b"unasked") + ws_frame(0, b"", fin=False) + ws_frame(0, text[3:]))
        assert ws_read(reader) == (10, b"ping")
        assert ws_read(reader) == (1, text)
        for byte in ws_frame(2, b"slowly") + ws_frame(9, b"x" * 125):
            s.sendall(bytes([byte]))
        assert ws_read(reader) == (2, b"slowly")
        assert ws_read(reader) == (10, b"x" * 125)


def ws_faults_have_their_codes():
    cases = {
        "not masked": (ws_frame(1, b"x", masked=False), 1002),
        "RSV bit": (ws_frame(1, b"x", rsv=0x40), 1002),
        "unknown opcode": (ws_frame(3, b"x"), 1002),
        "unknown control opcode": (ws_frame(11, b"x"), 1002),
        "long ping": (ws_frame(9, b"x" * 126), 1002),
        "ping in fragments": (ws_frame(9, b"x", fin=False), 1002),
        "continuation of nothing": (ws_frame(0, b"x"), 1002),
        "message inside a message": (ws_frame(1, b"x", fin=False) + ws_frame(1, b"y"), 1002),
        "length not minimal": (b"\x82\xfe\x00\x05" + b"\0\0\0\0hello", 1002),
        "length of 63 bits": (b"\x82\xff\x80" + b"\0" * 7 + b"\0\0\0\0", 1002),
        "too big": (ws_frame(2, b"x" * 100001)[:100], 1009),
        "too big in fragments": (ws_frame(2, b"x" * 60000, fin=False) + ws_frame(0, b"x" * 60000)[:100], 1009),
        "not UTF-8": (ws_frame(1, b"\xff\xfe"), 1007),
        "overlong UTF-8": (ws_frame(1, b"\xc0\x80"), 1007),
        "cut UTF-8": (ws_frame(1, b"a\xe2\x82"), 1007),
        "not UTF-8 in the first fragment": (ws_frame(1, b"\xed\xa0\x80", fin=False), 1007),
        "close with one byte": (ws_frame(8, b"\x03"), 1002),
        "close with 1005": (ws_frame(8, struct.pack(">H", 1005)), 1002),
        "close with 999": (ws_frame(8, struct.pack(">H", 999)), 1002),
        "close without UTF-8": (ws_frame(8, struct.pack(">H", 1000) + b"\xff"), None),
    }
    with Server(PROGRAM) as server:
        for name, (frames, code) in cases.items():
            with server.connect() as s:
                reader = ws_open(s)
                s.sendall(frames)
                opcode, payload = ws_read(reader)
                got, = struct.unpack(">H", payload[:2])
                assert opcode == 8 and got == (code or got) and got in (1002, 1007, 1009), (name, got)
                assert reader.at_end(), name
        wait_until(lambda: server.stats()["gone"] == len(cases))


def ws_closing():
    with Server(PROGRAM) as server:
        with server.connect() as s:  # by the server; its peer answers
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"close"))
            assert ws_read(reader) == (8, struct.pack(">H", 4001) + b"as you wish")
            s.sendall(ws_frame(1, b"not seen any more") + ws_frame(8, struct.pack(">H", 4001)))
            assert reader.at_end()
        with server.connect() as s:  # without a code
            reader = ws_open(s)
            s.sendall(ws_frame(8))
            assert ws_read(reader)[0] == 8 and reader.at_end()
        with server.connect() as s:  # its peer just goes
            ws_open(s)
        wait_until(lambda: server.stats()["gone"] == 1)
        assert server.stats()["answered"] >= 2


def ws_backpressure():
    with Server(PROGRAM) as server:
        with server.connect(receive_buffer=4096) as s:
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"flood"))  # 2,000 messages of 1,000 bytes
            time.sleep(0.3)
            s.sendall(ws_frame(9, b"p") * 100)
            got = pongs = 0
            while got < 2000 or pongs < 100:
                opcode, payload = ws_read(reader)
                if opcode == 10:
                    pongs += 1
                else:
                    assert opcode == 2 and payload == pattern(1000)
                    got += 1
        with server.connect() as s:  # a handler that takes nothing for a while
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"pause"))
            time.sleep(0.05)
            began = time.monotonic()
            s.sendall(ws_frame(1, b"x") * 3)
            assert [ws_read(reader) for _ in range(3)] == [(1, b"x")] * 3
            assert time.monotonic() - began > 0.1


def ws_needs_a_correct_handshake():
    with Server(PROGRAM) as server:
        head = b"GET /ws HTTP/1.1\r\nHost: x\r\n"
        for lines in (b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n",
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                      b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"):
            assert server.ask(head + lines + b"\r\n").status == 426


# ---- tunnels

TUNNEL = b"GET /tunnel HTTP/1.1\r\nHost: x\r\n\r\n"


def tunnel_echo(server):
    with server.connect() as s:
        s.sendall(TUNNEL + b"right behind")  # and no request, though it looks like none of one's business
        reader = Reader(s)
        status, headers = read_head(reader)
        assert status == 101 and headers["upgrade"] == "echo" and headers["connection"] == "Upgrade", headers
        assert not {"content-length", "transfer-encoding", "keep-alive"} & set(headers), headers
        assert reader.exactly(14) == b"hiright behind"
        for n in (1, 16384, 65536, 500000):
            s.sendall(pattern(n))
            assert reader.exactly(n) == pattern(n), n
        s.sendall(TUNNEL)  # bytes as any others
        assert reader.exactly(len(TUNNEL)) == TUNNEL
        return s, reader


def tunnels():
    with Server(PROGRAM, body_ms=300, idle_ms=300, head_ms=300) as server:
        tunnel_echo(server)
        with server.connect() as s:
            s.sendall(TUNNEL)
            reader = Reader(s)
            assert read_head(reader)[0] == 101 and reader.exactly(2) == b"hi"
            time.sleep(1)  # no timeout but that of writing
            s.sendall(b"still here?")
            assert reader.exactly(11) == b"still here?"
            s.shutdown(socket.SHUT_WR)
            assert reader.exactly(3) == b"bye" and reader.at_end()
        with server.connect() as s:
            s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1"))
            reader = Reader(s)
            assert read_head(reader)[0] == 101
            assert reader.exactly(9) == b"only this" and reader.at_end()
            s.sendall(b"x" * 500)  # our way is open still
            time.sleep(0.2)
            s.sendall(b"x" * 499)  # which a closed connection would have answered by a reset
            time.sleep(0.1)
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            wait_until(lambda: server.stats()["connections"] == 2)
            s.close()
            wait_until(lambda: server.stats()["connections"] == 1)
        with server.connect() as s:
            s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1") + b"x" * 1000)
            try:
                while s.recv(1000):
                    pass
            except ConnectionResetError:
                pass
            wait_until(lambda: server.stats()["connections"] == 1)
        for request in (b"POST /tunnel HTTP/1.1\r\nHost: x\r\n\r\n", TUNNEL):
            with server.connect() as s:  # gone in the middle
                s.sendall(request)
                assert read_head(Reader(s))[0] == 101
        wait_until(lambda: server.stats()["connections"] == 1)


def tunnel_backpressure():
    """An echo whose client does not read takes nothing more, keeps little, and is dropped after write_ms."""
    with Server(PROGRAM, write_ms=1500) as server, server.connect(receive_buffer=4096) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        before = server.stats()["rss"]
        s.sendall(TUNNEL)
        s.settimeout(0.5)
        sent = 0
        try:
            while True:
                sent += s.send(bytes(65536))
                assert sent < 30_000_000
        except socket.timeout:
            pass
        assert server.stats()["rss"] < before + 4_000_000 or is_sanitized(PROGRAM)
        s.settimeout(10)
        wait_until(lambda: server.stats()["connections"] == 1, 10)  # the one that asks
        try:
            s.sendall(bytes(65536))
            s.sendall(bytes(10_000_000))
            raise AssertionError("it was not dropped")
        except (ConnectionResetError, BrokenPipeError):
            pass


def tunnels_end_with_the_server():
    with Server(PROGRAM) as server, server.connect() as s, server.connect() as quiet:
        s.sendall(TUNNEL)
        reader = Reader(s)
        assert read_head(reader)[0] == 101 and reader.exactly(2) == b"hi"
        quiet.sendall(b"GET /drain HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(Reader(quiet)).status == 200
        assert reader.at_end()
        server.process.terminate()
        server.process.wait()
        server.process.returncode = 0  # it listens no more, so nobody can ask it to quit


# ---- TLS

def make_certificate(folder):
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-keyout", f"{folder}/key", "-out", f"{folder}/cert", "-days", "2", "-subj", "/CN=localhost",
                           "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True)
    if made.returncode != 0:
        raise Skip("no openssl to make a certificate")


def tls():
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(folder)
        context = ssl.create_default_context(cafile=f"{folder}/cert")
        with Server(PROGRAM, cert=f"{folder}/cert", key=f"{folder}/key", head_ms=500, body_ms=500) as server:
            server.get = lambda path: server.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            plain = server.connect
            server.connect = lambda *a, **k: context.wrap_socket(plain(*a, **k), server_hostname="localhost")
            with server.connect() as s:
                assert s.version() in ("TLSv1.2", "TLSv1.3")
                reader = Reader(s)
                for n in (0, 10, 16384, 16385, 900000):
                    s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + pattern(n))
                    assert read_answer(reader).body == pattern(n), n
                s.sendall(b"POST /count-slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" + pattern(500000))
                assert read_answer(reader).body == b"500000\n"
                s.sendall(b"GET /stream?bytes=20000000 HTTP/1.1\r\nHost: x\r\n\r\n")
                assert len(read_answer(reader).body) == 20000000
                s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 30)
                for _ in range(30):
                    assert read_answer(reader).body == b"hello\n"
            with server.connect() as s:
                reader = ws_open(s)
                s.sendall(ws_frame(2, pattern(90000)))
                assert ws_read(reader) == (2, pattern(90000))
            tunnel_echo(server)
            with server.connect() as s:
                s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1"))
                reader = Reader(s)
                assert read_head(reader)[0] == 101 and reader.exactly(9) == b"only this"
                assert s.recv(1) == b""  # a goodbye of TLS, and no more: the connection is there
                assert server.stats()["connections"] == 2
            assert server.ask(b"GET /hello HTTP/1.1\r\n\r\n").status == 400
            assert server.ask(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n").status == 408
            with plain() as s:  # no handshake: head_ms
                began = time.monotonic()
                assert Reader(s).at_end() and time.monotonic() - began < 3
            with plain() as s:  # no TLS at all
                s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                try:
                    assert b"hello" not in s.recv(1000)
                except ConnectionResetError:
                    pass
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")  # else it would not even try
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            try:
                old.wrap_socket(plain())
                raise AssertionError("TLS 1.1 was accepted")
            except ssl.SSLError as e:
                assert "ALERT" in e.reason, e  # the server's no
            for _ in range(100):  # handshakes cut at random
                s = plain()
                s.sendall(os.urandom(random.randrange(300)) if random.random() < 0.5 else b"\x16\x03\x01\x02\x00\x01")
                s.close()
            assert server.get("/hello").body == b"hello\n"


TESTS = [smuggling_table, byte_by_byte_is_the_same, keep_alive_and_close, request_ids_differ, date_header, pipelining_of_100,
         bodies_of_both_framings, a_body_longer_than_memory_allows_is_received, a_slow_handler_holds_the_client_back, expect_continue, head_requests,
         no_content, streams_of_every_kind, cut_answers_are_seen_to_be_cut, cut_answers_end_by_fin, unread_bodies, handlers_words_for_a_bad_body,
         an_answer_before_the_end_of_the_body, pipelined_requests_and_a_half_close,
         connect_is_refused, over_a_unix_socket, too_large_bodies_are_413, too_long_heads_are_431, slow_heads_are_408,
         slow_bodies_are_408, idle_connections_are_closed, readers_that_stop_are_dropped, a_slow_reader_costs_little,
         too_many_connections_are_503, idle_connections_cost_little, without_descriptors_it_stays_calm,
         the_last_descriptors_are_not_for_connections, gone_clients_are_noticed,
         waiting_costs_no_time, a_half_closed_client_is_answered_at_once, disconnects_at_every_phase, drain, ws_echo,
         ws_fragments_and_pings, ws_faults_have_their_codes, ws_closing, ws_backpressure, ws_needs_a_correct_handshake, tunnels,
         tunnel_backpressure, tunnels_end_with_the_server, tls]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
