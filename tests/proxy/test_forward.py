#!/usr/bin/python3
"""The reverse proxy of src/proxy between raw sockets: test_forward.py FORWARD_SERVER [TEST]...

Each test has an upstream of its own, a server of which a function plays every connection byte by byte."""
import hashlib
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from wire import (ACCEPT, KEY, Reader, Server, chunks, is_sanitized, read_answer, read_head, run, wait_until, ws_frame, ws_open,
                  ws_read)

PROGRAM = sys.argv[1]
MIB = 1024 * 1024
GET = b"GET /x HTTP/1.1\r\nHost: here.example\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


class Upstream:
    """Plays play(sock, reader) for each connection. What goes wrong in there is raised at the end."""

    def __init__(self, play, unix=None):
        self.play, self.faults, self.threads, self.connections = play, [], [], 0
        if unix:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(unix)
            self.address = f"unix:{unix}"
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.listener.listen(128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self.one, args=(s,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def one(self, s):
        s.settimeout(20)
        try:
            with s:
                self.play(s, Reader(s))
        except BaseException as fault:
            self.faults.append(fault)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR) if self.listener.family == socket.AF_INET else None
        self.listener.close()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "an upstream hangs"
        if self.faults:
            raise self.faults[0]


class Front(Server):
    """The proxy in front of an upstream that plays play."""

    def __init__(self, play, unix=None, **options):
        self.upstream = Upstream(play, unix)
        super().__init__(PROGRAM, upstream=self.upstream.address, **options)

    def __exit__(self, kind, value, trace):
        self.close()
        if kind is None:
            self.upstream.close()


class Head:
    """A request as the upstream sees it."""

    def __init__(self, reader):
        lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.line, self.lines = lines[0], lines[1:-2]
        self.pairs = [tuple(line.split(": ", 1)) for line in self.lines]
        self.headers = {}
        for name, value in self.pairs:
            self.headers.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name):
        values = self.headers.get(name, [])
        assert len(values) <= 1, f"{name}: {values}"
        return values[0] if values else None


def body_of(head, reader):
    if head["transfer-encoding"] == "chunked":
        assert head["content-length"] is None
        return b"".join(chunks(reader))
    return reader.exactly(int(head["content-length"] or 0))


def echo(s, reader):
    head = Head(reader)
    body = body_of(head, reader)
    s.sendall(b"HTTP/1.1 200 OK\r\nX-Line: %s\r\nContent-Length: %d\r\n\r\n" % (head.line.encode(), len(body)) + body)


def says(answer):
    """An upstream that reads a head, says something and closes."""
    def play(s, reader):
        Head(reader)
        s.sendall(answer)
    return play


def until_reset(s):
    """All that comes; True if it ended by a reset or other than by a clean end."""
    got = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return got, False
            got += piece
    except (ConnectionResetError, ssl.SSLError):
        return got, True


# ---- heads

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
        with Front(says(answer % words)) as front, front.connect() as s:
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
    with Front(says(hints * 10 + OK)) as front:
        assert front.ask(GET).body == b"ok"
    with Front(says(hints * 1000)) as front:
        assert front.ask(GET).status == 502


def expect_continue():
    with Front(echo) as front, front.connect() as s:
        reader = Reader(s)
        for framing, body in ((b"Content-Length: 5\r\n", b"hello"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")):
            s.sendall(b"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + framing + b"\r\n")
            assert reader.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(body)
            assert read_answer(reader).body == b"hello"


# ---- bodies

def large_bodies_both_ways():
    data = noise(50 * MIB)

    def play(s, reader):
        head = Head(reader)
        got = body_of(head, reader)
        digest = hashlib.sha256(got).hexdigest().encode()
        if head["x-reply"] == "length":
            s.sendall(b"HTTP/1.1 200 OK\r\nX-Digest: %s\r\nContent-Length: %d\r\n\r\n" % (digest, len(data)))
            s.sendall(data)
        elif head["x-reply"] == "chunked":
            s.sendall(b"HTTP/1.1 200 OK\r\nX-Digest: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % digest)
            at, rng = 0, random.Random(2)
            while at < len(data):
                n = min(len(data) - at, rng.randrange(1, 300000))
                s.sendall(b"%X\r\n" % n + data[at:at + n] + b"\r\n")
                at += n
            s.sendall(b"0\r\nX-Trailer: dropped\r\n\r\n")
        else:
            s.sendall(b"HTTP/1.0 200 OK\r\nX-Digest: %s\r\n\r\n" % digest)
            s.sendall(data)
    digest = hashlib.sha256(data).hexdigest()
    with Front(play) as front, front.connect(60) as s:
        for reply in ("length", "chunked", "close"):
            reader = Reader(s)
            s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nX-Reply: %s\r\nContent-Length: %d\r\n\r\n" % (reply.encode(), len(data)))
            s.sendall(data)
            answer = read_answer(reader)
            assert answer.headers["x-digest"] == digest, reply
            assert hashlib.sha256(answer.body).hexdigest() == digest, reply
            assert "x-trailer" not in answer.headers and answer.headers.get("connection") != "close"
        s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nX-Reply: chunked\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(data), 333333):
            piece = data[at:at + 333333]
            s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        s.sendall(b"0\r\nX: y\r\n\r\n")
        answer = read_answer(Reader(s))
        assert answer.headers["x-digest"] == digest and hashlib.sha256(answer.body).hexdigest() == digest


def body_reader(s):
    reader = Reader(s)
    read_head(reader)
    return reader


def both_ways_at_once():
    """A server that answers while it still reads, as much as it reads: nobody may wait for the end of anything."""
    def play(s, reader):
        head = Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in chunks(reader):
            s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        s.sendall(b"0\r\n\r\n")
    with Front(play) as front, front.connect() as s:
        s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        reader = Reader(s)
        assert read_head(reader)[0] == 200
        for i in range(100):
            s.sendall(b"3\r\n%03d\r\n" % i)
            assert reader.until(b"\r\n") == b"3\r\n" and reader.exactly(5) == b"%03d\r\n" % i
        s.sendall(b"0\r\n\r\n")
        assert reader.exactly(5) == b"0\r\n\r\n"


def bodies_without_length():
    cases = {b"HTTP/1.1 200 OK\r\n\r\nuntil the end": b"until the end", b"HTTP/1.0 200 OK\r\n\r\n": b"",
             b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": b""}
    for answer, body in cases.items():
        with Front(says(answer)) as front, front.connect() as s:
            reader = Reader(s)
            for _ in range(3):  # and the client's connection stays
                s.sendall(GET)
                assert read_answer(reader).body == body, answer
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert read_answer(reader).body == body
            reader.bytes = b""
            assert reader.at_end()
    with Front(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) as front:
        answer = front.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert answer.body == b"abcde" and "transfer-encoding" not in answer.headers


def chunk_extensions_and_trailers():
    """Legal in an answer, and about one connection: the body is passed, they are not."""
    body = b"5;ext=1\r\nhello\r\n6 ;a=\"b\"\r\n world\r\n0;last\r\nX-Sum: 1\r\nETag: x\r\n\r\n"
    with Front(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + body)) as front:
        with front.connect() as s:
            reader = Reader(s)
            for _ in range(3):
                s.sendall(GET)
                answer = read_answer(reader)
                assert answer.status == 200 and answer.body == b"hello world", answer.body
                assert "x-sum" not in answer.headers and "trailer" not in answer.headers
    with Front(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n")) as front:
        with front.connect() as s:
            s.sendall(GET)
            try:
                data = b""
                while piece := s.recv(65536):
                    data += piece
            except OSError:
                pass
            assert b"hello" not in data and not data.endswith(b"0\r\n\r\n"), data


def head_204_304():
    with Front(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1234567890123\r\nX-A: b\r\n\r\n")) as front, front.connect() as s:
        reader = Reader(s)
        for _ in range(2):
            s.sendall(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_answer(reader, "HEAD")
            assert answer.status == 200 and answer.headers["content-length"] == "1234567890123" and answer.headers["x-a"] == "b"
    with Front(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) as front, front.connect() as s:
        reader = Reader(s)
        s.sendall(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        for _ in range(2):
            assert "content-length" not in read_answer(reader, "HEAD").headers
    for status in (204, 304):
        for more in (b"", b"ETag: x\r\n") + ((b"Content-Length: 77\r\n",) if status == 304 else ()):
            with Front(says(b"HTTP/1.1 %d x\r\n%s\r\nTRAILING RUBBISH" % (status, more))) as front, front.connect() as s:
                reader = Reader(s)
                for _ in range(2):
                    s.sendall(GET)
                    answer = read_answer(reader)
                    assert answer.status == status
                    assert not {"content-length", "transfer-encoding"} & set(answer.headers), answer.headers
    with Front(says(b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\nhello")) as front:
        assert front.ask(GET).status == 502


def events_come_at_once():
    delays = []

    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            event = b"data: %.6f\n\n" % time.monotonic()
            s.sendall(b"%x\r\n" % len(event) + event + b"\r\n")
            time.sleep(0.03)
        s.sendall(b"0\r\n\r\n")
    with Front(play) as front, front.connect() as s:
        s.sendall(GET)
        reader = Reader(s)
        assert read_head(reader)[1]["content-type"] == "text/event-stream"
        for piece in chunks(reader):
            delays.append(time.monotonic() - float(piece[6:].strip()))
    assert len(delays) == 20 and sorted(delays)[10] < 0.05 and max(delays) < 1, delays


def a_head_without_body_yet_comes_at_once():
    go = threading.Event()

    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        assert go.wait(10)
        s.sendall(b"later")
    with Front(play) as front, front.connect() as s:
        s.sendall(GET)
        reader = Reader(s)
        assert read_head(reader)[0] == 200
        go.set()
        assert b"".join(chunks(reader)) == b"later"


def byte_by_byte_is_the_same():
    def play(s, reader):
        assert body_of(Head(reader), reader) == b"abcde"
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n":
            s.sendall(bytes([byte]))
            time.sleep(0.0005)
    with Front(play) as front, front.connect() as s:
        for byte in b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            s.sendall(bytes([byte]))
        assert read_answer(Reader(s)).body == b"abcde"


# ---- slow ones

def keeps_little(front, limit):
    rss = front.stats()["rss"]
    assert rss < limit or is_sanitized(PROGRAM), rss


def a_slow_client_holds_the_server_back():
    sent = [0]

    def play(s, reader):
        Head(reader)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(64 * 16):
            s.sendall(bytes(65536))
            sent[0] += 65536
    with Front(play, write_ms=60000) as front, front.connect(30, receive_buffer=65536) as s:
        s.sendall(GET)
        time.sleep(1)
        held = sent[0]
        time.sleep(0.5)
        assert sent[0] == held and held < 24 * MIB, held  # the kernel's buffers are most of it
        keeps_little(front, 16 * MIB)
        total = sum(len(piece) for piece in chunks(body_reader(s)))
        assert total == 64 * MIB, total


def receive_buffer_max():
    with open("/proc/sys/net/ipv4/tcp_rmem") as f:
        return min(int(f.read().split()[2]), 32 * MIB)


def a_slow_server_holds_the_client_back():
    go = threading.Event()

    def play(s, reader):
        head = Head(reader)
        assert go.wait(20)
        n = len(body_of(head, reader))
        s.sendall(b"HTTP/1.1 200 OK\r\nX-N: %d\r\nContent-Length: 0\r\n\r\n" % n)
    for framing, head, tail in ((b"Content-Length: %d" % (64 * MIB), b"", b""), (b"Transfer-Encoding: chunked", b"100000\r\n", b"\r\n")):
        go.clear()
        with Front(play) as front, front.connect() as s:
            front.upstream.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
            s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
            s.settimeout(1)
            sent, piece, part = 0, head + bytes(MIB) + tail, b""
            try:
                while True:
                    part = part or piece
                    n = s.send(part)
                    part, sent = part[n:], sent + n
            except socket.timeout:
                pass
            assert sent < 24 * MIB + receive_buffer_max(), sent  # of the kernel, between client and proxy
            keeps_little(front, 16 * MIB)
            go.set()
            s.settimeout(20)
            s.sendall(part)
            for _ in range(64 - -(-sent // len(piece))):
                s.sendall(piece)
            if tail:
                s.sendall(b"0\r\n\r\n")
            assert read_answer(Reader(s)).headers["x-n"] == str(64 * MIB)


def memory_of_many_slow_clients():
    def play(s, reader):
        Head(reader)
        try:
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB) + bytes(64 * MIB))
            assert False, "all of it was taken"
        except OSError:
            pass
    with Front(play, write_ms=60000) as front:
        clients = [front.connect(receive_buffer=4096) for _ in range(50)]
        for s in clients:
            s.sendall(GET)
        time.sleep(1.5)
        # 256 KiB of the server's buffer for each, and 64 KiB here, with what the allocator rounds up
        keeps_little(front, 50 * 1024 * 1024)
        for s in clients:
            s.close()
        wait_until(lambda: front.stats()["gone"] == 50)


# ---- tunnels

def ws_play(s, reader):
    head = Head(reader)
    assert head["connection"] == "Upgrade" and head["upgrade"] == "websocket", head.lines
    assert head["sec-websocket-key"] == KEY and head["sec-websocket-version"] == "13"
    hello = ws_frame(1, b"hello", masked=False)  # right behind the head, in one packet
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Accept: %s\r\nX-More: 1\r\n\r\n" % ACCEPT.encode() + hello)
    while True:
        try:
            piece = reader.bytes or s.recv(65536)
        except OSError:
            return
        reader.bytes = b""
        if not piece:
            return
        s.sendall(piece)


def websocket_tunnel():
    for make in (Front, tls_front):
        with make(ws_play) as front:
            with front.connect() as s:
                reader = ws_open(s, "/any?x=y")
                assert ws_read(reader) == (1, b"hello")
                for n in (0, 1, 125, 126, 65535, 65536, 300000):
                    frame = ws_frame(2, noise(n))
                    s.sendall(frame)
                    assert reader.exactly(len(frame)) == frame, n
            with front.connect() as s:  # the first frame right behind the request
                frame = ws_frame(1, b"early bird")
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                          b"Sec-WebSocket-Key: %s\r\n\r\n" % KEY.encode() + frame)
                reader = Reader(s)
                status, headers = read_head(reader)
                assert status == 101 and headers["x-more"] == "1" and headers["connection"] == "Upgrade", headers
                assert not {"content-length", "transfer-encoding", "keep-alive"} & set(headers), headers
                assert ws_read(reader) == (1, b"hello") and reader.exactly(len(frame)) == frame


UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: thing/2\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Sure\r\nConnection: upgrade\r\nUpgrade: thing/2\r\n\r\n"


def a_large_tunnel():
    data = noise(20 * MIB)

    def play(s, reader):
        Head(reader)
        s.sendall(SWITCH)
        while piece := s.recv(65536):
            s.sendall(piece)
    for make in (Front, tls_front):
        with make(play) as front, front.connect() as s:
            s.sendall(UPGRADE)
            reader = Reader(s)
            assert read_head(reader)[0] == 101
            writer = threading.Thread(target=lambda: s.sendall(data), daemon=True)
            if make is Front:  # Python's TLS sockets are not for two threads
                writer.start()
                assert reader.exactly(len(data)) == data
                writer.join()
            else:
                for at in range(0, len(data) // 4, 100000):
                    s.sendall(data[at:at + 100000])
                    assert reader.exactly(len(data[at:at + 100000])) == data[at:at + 100000]
            keeps_little(front, 24 * MIB)


def half_closes_of_a_tunnel():
    def late(s, reader):  # the client is through first; the server answers then
        Head(reader)
        s.sendall(SWITCH)
        got = reader.bytes
        while piece := s.recv(65536):
            got += piece
        s.sendall(b"%d bytes" % len(got))

    def early(s, reader):  # the server is
        Head(reader)
        s.sendall(SWITCH + b"bye")
        s.shutdown(socket.SHUT_WR)
        got = reader.bytes
        while piece := s.recv(65536):
            got += piece
        assert got == noise(3 * MIB), len(got)
    with Front(late) as front, front.connect() as s:
        s.sendall(UPGRADE + noise(3 * MIB))
        s.shutdown(socket.SHUT_WR)
        reader = Reader(s)
        try:
            assert read_head(reader)[0] == 101
        except EOFError:
            pass  # a client that closes before it was answered counts as gone
    with Front(late) as front, front.connect() as s:
        s.sendall(UPGRADE)
        reader = Reader(s)
        assert read_head(reader)[0] == 101
        s.sendall(noise(3 * MIB))
        s.shutdown(socket.SHUT_WR)
        assert until_reset(s) == (b"3145728 bytes", False)
        wait_until(lambda: front.stats()["answered"] >= 2)
    for make in (Front, tls_front):
        with make(early) as front, front.connect() as s:
            s.sendall(UPGRADE)
            reader = Reader(s)
            assert read_head(reader)[0] == 101
            assert reader.exactly(3) == b"bye"
            assert s.recv(1) == b""
            time.sleep(0.1)
            data = noise(3 * MIB)
            if make is Front:
                s.sendall(data)
                s.close()
            else:  # Python gives TLS up as a whole at the end it reads; so no more than the end is tested
                s.close()
                front.upstream.threads[0].join(10)
                assert isinstance(front.upstream.faults.pop(), AssertionError)
            wait_until(lambda: front.stats()["connections"] == 1)


def the_last_bytes_of_a_closed_client_arrive():
    """The server has ended its side and is slow; the client sends a lot and closes: both sides are closed, and the rest of
    it waits in the socket's buffer."""
    got = []

    def play(s, reader):
        Head(reader)
        s.sendall(SWITCH)
        s.shutdown(socket.SHUT_WR)
        time.sleep(1)
        n = len(reader.bytes)
        while piece := s.recv(65536):
            n += len(piece)
        got.append(n)
    total = 190 * 1024  # more than the proxy and its upstream hold, less than with the client's socket
    with Front(play, send_buffer=4096) as front, front.connect() as s:
        front.upstream.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        s.sendall(UPGRADE)
        assert read_head(Reader(s))[0] == 101
        assert s.recv(1) == b""
        s.sendall(bytes(total))
        s.close()
        time.sleep(0.2)
        before = cpu(front.pid)
        time.sleep(0.5)
        assert cpu(front.pid) - before < 0.2, "it spins"
        wait_until(lambda: got == [total])
        wait_until(lambda: front.stats()["connections"] == 1)


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def upgrades_that_are_refused():
    with Front(says(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")) as front, front.connect() as s:
        reader = Reader(s)
        for _ in range(3):
            s.sendall(UPGRADE)
            answer = read_answer(reader)
            assert answer.status == 403 and answer.body == b"no"
    with Front(says(SWITCH)) as front:  # nobody asked
        assert front.ask(GET).status == 502
    with Front(says(b"HTTP/1.1 101 Sure\r\nConnection: upgrade\r\n\r\n")) as front:  # to what?
        assert front.ask(UPGRADE).status == 502

    def play(s, reader):  # with a body it is an ordinary request
        head = Head(reader)
        assert head["upgrade"] is None and head["connection"] == "close"
        assert body_of(head, reader) == b"abc"
        s.sendall(OK)
    with Front(play) as front:
        assert front.ask(UPGRADE.replace(b"GET", b"POST")[:-2] + b"Content-Length: 3\r\n\r\nabc").body == b"ok"


def tunnels_that_break():
    def play(s, reader):
        Head(reader)
        s.sendall(SWITCH + b"abc")
        time.sleep(0.2)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with Front(play) as front, front.connect() as s:  # a reset is passed on
        s.sendall(UPGRADE)
        reader = Reader(s)
        assert read_head(reader)[0] == 101
        got, reset = until_reset(s)
        assert reader.bytes + got == b"abc" and reset
    ended = threading.Event()

    def wait(s, reader):
        Head(reader)
        s.sendall(SWITCH)
        try:
            assert s.recv(10) == b""
        except ConnectionResetError:
            pass
        ended.set()
    with Front(wait) as front:
        s = front.connect()
        s.sendall(UPGRADE)
        assert read_head(Reader(s))[0] == 101
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
        assert ended.wait(5)


def closed_tunnels_end():
    """Both sides closed at once, in any order: nothing is left behind."""
    def play(s, reader):
        Head(reader)
        s.sendall(SWITCH + b"x")
    with Front(play) as front:
        for _ in range(50):
            with front.connect() as s:
                s.sendall(UPGRADE)
                reader = Reader(s)
                read_head(reader)
                assert reader.exactly(1) == b"x" and reader.at_end()
        wait_until(lambda: front.stats()["connections"] == 1)
        assert front.stats()["gone"] + front.stats()["answered"] >= 50


# ---- what breaks

def an_upstream_that_dies_at_every_stage():
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: a\r\n%s\r\n\r\n%s"
    for framing, body in ((b"Content-Length: 10", b"0123456789"), (b"Transfer-Encoding: chunked", b"5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n")):
        whole = answer % (framing, body)
        start = len(whole) - len(body)
        for reset in (False, True):
            cuts = iter(range(len(whole) + 1))
            now = [0]

            def play(s, reader):
                Head(reader)
                s.sendall(whole[:now[0]])
                if reset:
                    time.sleep(0.01)
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            with Front(play) as front:
                for now[0] in cuts:
                    with front.connect() as s:
                        s.sendall(GET)
                        reader = Reader(s)
                        if now[0] < start:
                            assert read_answer(reader).status == 502, now
                            s.sendall(GET)  # the client's connection is as good as before
                            assert read_answer(reader).status == 502
                            continue
                        if now[0] == len(whole):
                            assert read_answer(reader).body == b"0123456789"
                            continue
                        try:
                            read_answer(reader)
                            raise AssertionError(f"whole, though cut at {now[0]}")
                        except (EOFError, ConnectionResetError):
                            pass
                        except ValueError:
                            pass  # half a line of a chunk: our reader sees it as that


def a_body_until_the_end_that_breaks():
    """Without length only a reset tells that it is not whole."""
    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        time.sleep(0.1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with Front(play) as front:
        with front.connect() as s:
            s.sendall(GET)
            got, _ = until_reset(s)
            assert b"3\r\nabc\r\n" in got and b"0\r\n\r\n" not in got, got
        with front.connect() as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            got, reset = until_reset(s)
            assert got.endswith(b"\r\n\r\nabc") and reset
    with tls_front(play) as front, front.connect() as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        got, reset = until_reset(s)
        assert got.endswith(b"\r\n\r\nabc") and reset, "a goodbye of TLS says that it is whole"


def a_reset_that_sending_sees_first():
    """The kernel tells of a reset once: to who sends the request, here, and not to who reads the answer's end."""
    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        time.sleep(0.4)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with Front(play, send_buffer=4096) as front:
        front.upstream.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        with front.connect() as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n" + bytes(150000))
            got, _ = until_reset(s)
            assert b"3\r\nabc\r\n" in got and b"0\r\n\r\n" not in got, got


def nobody_listens():
    with Front(echo) as front:
        front.upstream.listener.shutdown(socket.SHUT_RDWR)
        front.upstream.listener.close()
        answer = front.ask(GET)
        assert answer.status == 502 and answer.headers["x-failed"] == "yes"
        front.upstream = Upstream(echo)


def answers_before_the_body_was_read():
    def refuse(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
        s.shutdown(socket.SHUT_WR)
        time.sleep(0.2)

    def reset(s, reader):  # closes with input unread
        Head(reader)
        s.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
        time.sleep(0.2)
    for play in (refuse, reset):
        for framing in (b"Content-Length: 50000000", b"Transfer-Encoding: chunked"):
            with Front(play) as front, front.connect() as s:
                s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
                answer = read_answer(Reader(s))
                assert answer.status == 413 and answer.body == b"no" and answer.headers["connection"] == "close"
            with Front(play) as front, front.connect() as s:  # and while much is being sent
                s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
                try:
                    for _ in range(300):
                        s.sendall(bytes(100000))
                except OSError:
                    pass  # it has been told enough
    with Front(refuse) as front, front.connect() as s:  # little of it left: the connection is used again
        reader = Reader(s)
        for _ in range(3):
            s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            assert read_answer(reader).status == 413
            s.sendall(bytes(1000))


def times_out():
    go = threading.Event()

    def play(s, reader):
        head = Head(reader)
        if head.line.startswith("GET /body"):
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        if head.line.startswith("GET /drip"):
            s.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                while not go.wait(0.05):
                    s.sendall(b"x")
            except OSError:
                return
        go.wait(10)
    with Front(play, answer_ms=300, still_ms=600) as front:
        for path in (b"/", b"/drip"):
            began = time.monotonic()
            answer = front.ask(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            assert answer.status == 504 and 0.25 < time.monotonic() - began < 3, path
        with front.connect() as s:
            began = time.monotonic()
            s.sendall(b"GET /body HTTP/1.1\r\nHost: x\r\n\r\n")
            got, reset = until_reset(s)  # two of five bytes: the length shows that it was cut
            assert got.endswith(b"\r\n\r\nab") and not reset and 0.5 < time.monotonic() - began < 3
        go.set()


def a_slow_upload_is_no_slow_answer():
    with Front(echo, answer_ms=300) as front, front.connect() as s:
        s.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n")
        for byte in b"abcdef":
            time.sleep(0.2)
            s.sendall(bytes([byte]))
        assert read_answer(Reader(s)).body == b"abcdef"


def a_client_that_goes_is_told_to_the_server():
    ended = threading.Event()

    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        try:
            s.recv(1)
        except ConnectionResetError:
            pass
        ended.set()
    for leave in ("before", "amid", "upload"):
        ended.clear()
        with Front(play) as front:
            s = front.connect()
            if leave == "upload":
                s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                s.sendall(GET)
            if leave == "amid":
                Reader(s).until(b"abc")
            s.close()
            assert ended.wait(5), leave
            wait_until(lambda: front.stats()["gone"] == 1)


# ---- smuggling

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
        with Front(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)) as front, front.connect() as s:
            s.sendall(GET + GET)
            got, _ = until_reset(s)
            assert b"0\r\n\r\n" not in got and got.count(b"HTTP/1.1") <= 1, got
    # What comes behind an answer is not the next one's.
    with Front(says(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")) as front, front.connect() as s:
        reader = Reader(s)
        s.sendall(GET * 5)
        for _ in range(5):
            assert read_answer(reader).body == b"ok"
    # The largest head that is allowed goes through.
    big = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%02d: %s\r\n" % (i, b"y" * 500) for i in range(62)) + b"Content-Length: 2\r\n\r\nok"
    with Front(says(big)) as front:
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
    """Both sides: a Unix socket tells of an end by other events."""
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


def waiting_costs_no_time():
    go = threading.Event()

    def play(s, reader):
        if Head(reader).line.startswith("GET /flood"):
            try:
                s.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(4 * MIB))
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            return
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        go.wait(10)
    with Front(play) as front:
        idle, stuck = front.connect(), front.connect(receive_buffer=4096)
        idle.sendall(GET)
        stuck.sendall(GET.replace(b"/x", b"/flood"))  # the server is through and gone, the client does not read
        time.sleep(0.5)
        before = cpu(front.pid)
        time.sleep(1)
        assert cpu(front.pid) - before < 0.1, "it spins"
        reader = body_reader(stuck)
        assert sum(len(p) for p in chunks(reader)) == 4 * MIB
        idle.close()
        stuck.close()
        go.set()


def disconnects_at_random():
    """For the sanitizers: either side goes at any time."""
    rng = random.Random(7)

    def play(s, reader):
        mine = random.Random(rng.random())
        try:
            Head(reader)
            whole = mine.choice([OK, SWITCH + bytes(1000), b"HTTP/1.1 200 OK\r\n\r\n" + bytes(300000),
                                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + bytes(1024) + b"\r\n") * 100])
            s.sendall(whole[:mine.randrange(len(whole) + 1)])
            if mine.random() < 0.3:
                s.recv(1000)
            if mine.random() < 0.3:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        except (OSError, EOFError):
            pass
    with Front(play) as front:
        for i in range(400):
            request = rng.choice([GET, UPGRADE + bytes(100), b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + bytes(300000),
                                  b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + bytes(1024) + b"\r\n") * 200])
            with front.connect() as s:
                try:
                    s.sendall(request[:rng.randrange(len(request) + 1)])
                    if rng.random() < 0.5:
                        s.settimeout(rng.random() * 0.02)
                        s.recv(rng.randrange(1, 100000))
                    if rng.random() < 0.3:
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                except OSError:
                    pass
        wait_until(lambda: front.stats()["connections"] == 1, 15)


# ---- TLS

CERT = None


def tls_front(play, **options):
    global CERT
    if CERT is None:
        CERT = tempfile.TemporaryDirectory()
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                               "-keyout", f"{CERT.name}/key", "-out", f"{CERT.name}/cert", "-days", "2", "-subj", "/CN=localhost",
                               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True)
        assert made.returncode == 0, made.stderr
    front = Front(play, cert=f"{CERT.name}/cert", key=f"{CERT.name}/key", **options)
    context = ssl.create_default_context(cafile=f"{CERT.name}/cert")
    plain = front.connect
    front.connect = lambda *a, **k: context.wrap_socket(plain(*a, **k), server_hostname="localhost", suppress_ragged_eofs=False)
    return front


TESTS = [what_the_server_sees, what_the_client_sees, the_scheme_is_told_over_tls, interim_answers_are_dropped, expect_continue,
         large_bodies_both_ways, both_ways_at_once, bodies_without_length, chunk_extensions_and_trailers, head_204_304, events_come_at_once,
         a_head_without_body_yet_comes_at_once, byte_by_byte_is_the_same, a_slow_client_holds_the_server_back,
         a_slow_server_holds_the_client_back, memory_of_many_slow_clients, websocket_tunnel, a_large_tunnel,
         half_closes_of_a_tunnel, the_last_bytes_of_a_closed_client_arrive, upgrades_that_are_refused, tunnels_that_break,
         closed_tunnels_end, an_upstream_that_dies_at_every_stage, a_body_until_the_end_that_breaks,
         a_reset_that_sending_sees_first, nobody_listens,
         answers_before_the_body_was_read, times_out, a_slow_upload_is_no_slow_answer,
         a_client_that_goes_is_told_to_the_server, smuggling_by_the_client, smuggling_by_the_server, pipelined_requests,
         keep_alive_across_all_kinds, over_unix_sockets, waiting_costs_no_time, disconnects_at_random]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
