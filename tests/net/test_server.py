#!/usr/bin/python3
"""The HTTP server of src/lib/net by raw sockets, requests and answers: test_server.py ECHO_SERVER [TEST]..."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_common import PROGRAM, pattern
from wire import Reader, Server, is_sanitized, read_answer, run

HOST = b"Host: x\r\n"
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


def handlers_that_answer_twice():
    """A handler that answers out of order loses its own answer at most: an answer that was whole arrives, one that had
    begun is seen to be cut, and the server goes on."""
    with Server(PROGRAM) as server:
        for how in range(6):
            answer = server.get(f"/misuse?how={how}")
            assert (answer.status, answer.body) == (200, b"whole\n") and "x-bad" not in answer.headers, (how, answer.body)
        for how in range(6, 11):
            try:
                answer = server.get(f"/misuse?how={how}")
            except (EOFError, ConnectionResetError):
                continue
            assert how == 10 and answer.body == b"abc", (how, answer.body)
        assert server.get("/hello").status == 200


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


TESTS = [smuggling_table, byte_by_byte_is_the_same, keep_alive_and_close, request_ids_differ, date_header,
         pipelining_of_100, bodies_of_both_framings, a_body_longer_than_memory_allows_is_received,
         a_slow_handler_holds_the_client_back, expect_continue, head_requests, no_content, streams_of_every_kind,
         cut_answers_are_seen_to_be_cut, handlers_that_answer_twice, cut_answers_end_by_fin, unread_bodies, handlers_words_for_a_bad_body,
         an_answer_before_the_end_of_the_body, pipelined_requests_and_a_half_close, connect_is_refused,
         over_a_unix_socket]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
