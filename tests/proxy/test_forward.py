#!/usr/bin/python3
"""The reverse proxy of src/lib/net between raw sockets, heads and framing: test_forward.py FORWARD_SERVER [TEST]..."""
import os
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from forward_common import (Front, GET, Head, MIB, OK, SWITCH, UPGRADE, body_of, echo, noise, answers_with, tls_front,
                            until_reset)
from wire import Reader, read_answer, read_head, run, wait_until


def what_the_server_sees():
    seen = []

    def play(s, reader):
        seen.append(Head(reader))
        s.sendall(OK)
    with Front(play) as front:
        with front.connect() as s:
            s.sendall(b"GET /a/%2e/b?q=1&r=%20 HTTP/1.1\r\nHost: 80-abc.example:99\r\nX-One: 1\r\nx-one: 2\r\nCookie: a=b\r\n"
                      b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: evil\r\nX-Forwarded-Port: 1\r\n"
                      b"Forwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-SECRET: s\r\nAuthorization: t\r\n"
                      b"Connection: keep-alive, X-Mine\r\nX-Mine: gone\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X\r\n"
                      b"Proxy-Authorization: p\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nEmpty:\r\nAccept-Encoding: gzip\r\n\r\n")
            assert read_answer(Reader(s)).body == b"ok"
        head = seen[0]
        assert head.line == "GET /a/%2e/b?q=1&r=%20 HTTP/1.1", head.line
        assert head.pairs == [("Host", "80-abc.example:99"), ("X-One", "1"), ("x-one", "2"), ("Cookie", "a=b"), ("Empty", ""),
                              ("Accept-Encoding", "gzip"), ("X-Forwarded-For", "127.0.0.1"),
                              ("X-Forwarded-Host", "80-abc.example:99"), ("X-Forwarded-Proto", "http"),
                              ("Connection", "close")], head.pairs
        assert front.ask(b"GET http://h.example/p?q HTTP/1.1\r\nHost: h.example\r\n\r\n").status == 200
        assert seen[1].line == "GET /p?q HTTP/1.1" and seen[1]["host"] == "h.example"
        assert front.ask(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").status == 200
        assert seen[2].line == "OPTIONS * HTTP/1.1"
        assert front.ask(b"PROPFIND /x HTTP/1.0\r\n\r\n").status == 200
        assert seen[3].line == "PROPFIND /x HTTP/1.1" and seen[3]["host"] == "localhost"
    with Front(play, host="masked:8080", target="/other?y") as front:
        assert front.ask(GET).status == 200
        assert seen[4].line == "GET /other?y HTTP/1.1" and seen[4]["host"] == "masked:8080"
        assert seen[4]["x-forwarded-host"] == "here.example"


def what_the_client_sees():
    answer = (b"HTTP/1.1 %s\r\nSet-Cookie: a=1\r\nSET-COOKIE: b=2\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nX-Request-Id: mine\r\n"
              b"Content-Type: text/html; charset=x\r\nContent-Length: 3\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 7\r\n"
              b"Trailer: X\r\nUpgrade: y\r\nProxy-Authenticate: z\r\nX-Bytes: \xc3\xa9\r\nServer: s\r\nX-Empty:\r\n\r\nabcMORE")
    for status, words in ((200, b"200 OK"), (299, b"299 Odd"), (404, b"404 Not At All"), (418, b"418 Teapot"), (599, b"599")):
        with Front(answers_with(answer % words)) as front, front.connect() as s:
            s.sendall(GET)
            lines = Reader(s).until(b"\r\n\r\nabc").decode("latin-1").split("\r\n")
            assert lines[0].startswith(f"HTTP/1.1 {status} "), lines[0]
            headers = lines[1:-2]
            for want in ("Set-Cookie: a=1", "SET-COOKIE: b=2", "Date: Tue, 15 Nov 1994 08:12:31 GMT", "X-Request-Id: mine",
                         "Content-Type: text/html; charset=x", "Content-Length: 3", "X-Bytes: \xc3\xa9", "Server: s", "X-Empty: ",
                         "Keep-Alive: timeout=55"):
                assert headers.count(want) == 1, (want, headers)
            assert len(headers) == 10, headers
            s.settimeout(0.3)
            try:
                assert False, s.recv(10)  # nothing of MORE, and the connection stays
            except socket.timeout:
                pass


def the_scheme_is_told_over_tls():
    with tls_front(lambda s, r: s.sendall(OK[:-2] + (b"ok" if Head(r)["x-forwarded-proto"] == "https" else b"no"))) as front:
        assert front.ask(GET).body == b"ok"


def interim_answers_are_dropped():
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    with Front(answers_with(hints * 10 + OK)) as front:
        assert front.ask(GET).body == b"ok"
    with Front(answers_with(hints * 1000)) as front:
        assert front.ask(GET).status == 502


def bounds_of_answers():
    """As many answers of 1xx, and as long a head, as there may be, and one more."""
    hint, head = b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: "
    for more, status in ((0, 200), (1, 502)):
        with Front(answers_with(hint * (64 + more) + OK)) as front:
            assert front.ask(GET).status == status
        with Front(answers_with(head + b"x" * ((32 << 10) - len(head) - 4 + more) + b"\r\n\r\nok")) as front:
            assert front.ask(GET).status == status


def expect_continue():
    with Front(echo) as front, front.connect() as s:
        reader = Reader(s)
        for framing, body in ((b"Content-Length: 5\r\n", b"hello"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")):
            s.sendall(b"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + framing + b"\r\n")
            assert reader.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(body)
            assert read_answer(reader).body == b"hello"


def head_204_304():
    with Front(answers_with(b"HTTP/1.1 200 OK\r\nContent-Length: 1234567890123\r\nX-A: b\r\n\r\n")) as front, front.connect() as s:
        reader = Reader(s)
        for _ in range(2):
            s.sendall(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(reader, "HEAD")
            assert answer.status == 200 and answer.headers["content-length"] == "1234567890123" and answer.headers["x-a"] == "b"
    with Front(answers_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) as front, front.connect() as s:
        reader = Reader(s)
        s.sendall(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        for _ in range(2):
            assert "content-length" not in read_answer(reader, "HEAD").headers
    for status in (204, 304):
        for more in (b"", b"ETag: x\r\n") + ((b"Content-Length: 77\r\n",) if status == 304 else ()):
            with Front(answers_with(b"HTTP/1.1 %d x\r\n%s\r\nTRAILING RUBBISH" % (status, more))) as front, front.connect() as s:
                reader = Reader(s)
                for _ in range(2):
                    s.sendall(GET)
                    answer = read_answer(reader)
                    assert answer.status == status
                    assert not {"content-length", "transfer-encoding"} & set(answer.headers), answer.headers
    with Front(answers_with(b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\nhello")) as front:
        assert front.ask(GET).status == 502


def byte_by_byte_is_the_same():
    def play(s, reader):
        assert body_of(Head(reader), reader) == b"abcde"
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n":
            s.sendall(bytes([byte]))
            time.sleep(0.0005)  # so that most bytes arrive alone
    with Front(play) as front, front.connect() as s:
        for byte in b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            s.sendall(bytes([byte]))
        assert read_answer(Reader(s)).body == b"abcde"


def smuggling_by_the_client():
    """Nothing that is ambiguous reaches the server; what does reach it is one request, with one framing."""
    head = b"POST /x HTTP/1.1\r\nHost: x\r\n"
    bad = {
        "two lengths": head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "two equal lengths": head + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "length and chunked": head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "xchunked": head + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "a bare LF": head + b"X: a\nContent-Length: 5\r\n\r\nhello",
        "a bare CR": head + b"X: a\rContent-Length: 5\r\n\r\nhello",
        "a NUL": head + b"X: a\0b\r\n\r\n",
        "1,000 headers": head + b"".join(b"X-%d: y\r\n" % i for i in range(1000)) + b"\r\n",
        "a giant head": head + b"X: " + b"y" * 100000 + b"\r\n\r\n",
    }
    with Front(echo) as front:
        for name, request in bad.items():
            with front.connect() as s:
                s.sendall(request + GET)
                reader = Reader(s)
                answer = read_answer(reader)
                assert answer.status in (400, 431), f"{name}: {answer.status}"
                assert reader.at_end(), name
        assert front.upstream.connections == 0
    heads = []

    def play(s, reader):
        heads.append(Head(reader))
        rest = reader.bytes
        try:
            while piece := s.recv(65536):
                rest += piece
        except OSError:
            pass
        assert b"0\r\n\r\n" not in rest and b"evil" not in rest, rest
    with Front(play) as front:  # a bad chunk: the server gets what was good, and no end
        for chunk in (b"5\r\nhelloX", b"5;ext=1\r\nhello\r\n0\r\n\r\n", b"5\nhello", b"-1\r\n", b"0\r\nContent-Length: 3\r\n\r\n",
                      b"ffffffffffffffff\r\n", b"5\r\nhello\r\n0\r\nevil\r\n\r\n"):
            with front.connect() as s:
                s.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
                reader = Reader(s)
                answer = read_answer(reader)
                assert answer.status == 400 and reader.at_end(), chunk
        wait_until(lambda: len(heads) == 7)
        # Headers that the Connection header names do not take the framing with them.
    with Front(echo) as front:
        answer = front.ask(head + b"Connection: content-length, host, x-forwarded-for\r\nContent-Length: 5\r\n\r\nhello")
        assert answer.body == b"hello"
        answer = front.ask(head + b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert answer.body == b"hello"


def smuggling_by_the_server():
    bad = {
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "a coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        "a bare LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "a LF in a value": b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok",
        "a CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok",
        "a NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
        "a folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        "no colon": b"HTTP/1.1 200 OK\r\nevil\r\n\r\nok",
        "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "another version": b"HTTP/2.0 200 OK\r\n\r\n",
        "no such status": b"HTTP/1.1 999 OK\r\n\r\n",
        "status 0": b"HTTP/1.1 000 OK\r\n\r\n",
        "1,000 headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(1000)) + b"\r\nok",
        "65 headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 65 + b"\r\nok",
        "a giant head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000000,
        "a giant whole head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40000 + b"\r\n\r\n",
        "nothing": b"", "rubbish": noise(100000),
    }
    for name, text in bad.items():
        def play(s, reader):
            Head(reader)
            try:
                s.sendall(text)
            except OSError:
                pass
        with Front(play) as front, front.connect() as s:
            reader = Reader(s)
            for _ in range(2):
                s.sendall(GET)
                answer = read_answer(reader)
                assert answer.status == 502 and answer.headers["x-failed"] == "yes", f"{name}: {answer.status}"
                assert b"evil" not in answer.body and "set-cookie" not in answer.headers and "x" not in answer.headers
    for body in (b"5\r\nhelloX", b"5;x\ny\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n", b"zz\r\n", b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
                 b"10000000000000000\r\n"):
        with Front(answers_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)) as front, front.connect() as s:
            s.sendall(GET + GET)
            got, _ = until_reset(s)
            assert b"0\r\n\r\n" not in got and got.count(b"HTTP/1.1") <= 1, got
    # What comes behind an answer is not the next one's.
    with Front(answers_with(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")) as front, front.connect() as s:
        reader = Reader(s)
        s.sendall(GET * 5)
        for _ in range(5):
            assert read_answer(reader).body == b"ok"
    # The largest head that is allowed goes through.
    big = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%02d: %s\r\n" % (i, b"y" * 500) for i in range(62)) + b"Content-Length: 2\r\n\r\nok"
    with Front(answers_with(big)) as front:
        answer = front.ask(GET)
        assert answer.body == b"ok" and answer.headers["x-61"] == "y" * 500


def pipelined_requests():
    with Front(echo) as front, front.connect() as s:
        reader = Reader(s)
        s.sendall(b"".join(b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n%03d" % (i, i) for i in range(50)))
        for i in range(50):
            answer = read_answer(reader)
            assert answer.body == b"%03d" % i and answer.headers["x-line"] == f"POST /{i} HTTP/1.1"
        assert front.upstream.connections == 50


def keep_alive_across_all_kinds():
    kinds = [OK, b"HTTP/1.0 200 OK\r\n\r\nok", b"HTTP/1.1 204 No\r\n\r\n", b"rubbish\r\n\r\n",
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"", b"HTTP/1.1 304 x\r\n\r\n"]
    turn = [0]

    def play(s, reader):
        Head(reader)
        s.sendall(kinds[turn[0] % len(kinds)])
    with Front(play) as front, front.connect() as s:
        reader = Reader(s)
        for turn[0] in range(5 * len(kinds)):
            s.sendall(GET)
            answer = read_answer(reader)
            assert answer.status == [200, 200, 204, 502, 200, 502, 304][turn[0] % len(kinds)]
            assert answer.body == b"ok" or answer.status != 200
            assert answer.headers["keep-alive"] == "timeout=55" and "connection" not in answer.headers


def over_unix_sockets():
    """Both sides: a Unix socket reports an end by other events."""
    with tempfile.TemporaryDirectory() as folder:
        with Front(echo, unix=f"{folder}/up", address=f"unix:{folder}/front") as front, front.connect() as s:
            reader = Reader(s)
            data = noise(MIB)
            for _ in range(3):
                s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
                assert read_answer(reader).body == data

        def play(s, reader):
            assert Head(reader)["x-forwarded-for"] is None
            s.sendall(SWITCH)
            got = reader.bytes
            while piece := s.recv(65536):
                got += piece
            assert got == data
            s.sendall(b"all of it")
        with Front(play, unix=f"{folder}/up2", address=f"unix:{folder}/front2") as front, front.connect() as s:
            s.sendall(UPGRADE)
            assert read_head(Reader(s))[0] == 101
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            assert until_reset(s) == (b"all of it", False)


TESTS = [what_the_server_sees, what_the_client_sees, the_scheme_is_told_over_tls, interim_answers_are_dropped, bounds_of_answers,
         expect_continue, head_204_304, byte_by_byte_is_the_same, smuggling_by_the_client, smuggling_by_the_server,
         pipelined_requests, keep_alive_across_all_kinds, over_unix_sockets]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
