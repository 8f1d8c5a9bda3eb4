#!/usr/bin/python3
"""The reverse proxy of src/lib/net between raw sockets, bodies and back-pressure: test_forward_bodies.py FORWARD_SERVER [TEST]..."""
import hashlib
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from forward_common import Front, GET, Head, MIB, body_of, body_reader, keeps_little, noise, answers_with
from wire import Reader, chunks, read_answer, read_head, run, settled, wait_until


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


def both_ways_at_once():
    """A server that answers while it still reads, as much as it reads: neither side may wait for the end of the other."""
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
        with Front(answers_with(answer)) as front, front.connect() as s:
            reader = Reader(s)
            for _ in range(3):  # and the client's connection stays
                s.sendall(GET)
                assert read_answer(reader).body == body, answer
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert read_answer(reader).body == body
            reader.bytes = b""
            assert reader.at_end()
    with Front(answers_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) as front:
        answer = front.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert answer.body == b"abcde" and "transfer-encoding" not in answer.headers


def chunk_extensions_and_trailers():
    """Legal in an answer, and about one connection: the body is passed, they are not."""
    body = b"5;ext=1\r\nhello\r\n6 ;a=\"b\"\r\n world\r\n0;last\r\nX-Sum: 1\r\nETag: x\r\n\r\n"
    with Front(answers_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + body)) as front:
        with front.connect() as s:
            reader = Reader(s)
            for _ in range(3):
                s.sendall(GET)
                answer = read_answer(reader)
                assert answer.status == 200 and answer.body == b"hello world", answer.body
                assert "x-sum" not in answer.headers and "trailer" not in answer.headers
    with Front(answers_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n")) as front:
        with front.connect() as s:
            s.sendall(GET)
            try:
                data = b""
                while piece := s.recv(65536):
                    data += piece
            except OSError:
                pass
            assert b"hello" not in data and not data.endswith(b"0\r\n\r\n"), data


def events_come_at_once():
    delays = []

    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            event = b"data: %.6f\n\n" % time.monotonic()
            s.sendall(b"%x\r\n" % len(event) + event + b"\r\n")
            time.sleep(0.03)  # the next event comes when the last one was delivered
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


def a_slow_client_holds_the_server_back():
    sent = [0]

    def play(s, reader):
        Head(reader)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(64 * 16):
            s.sendall(bytes(65536))
            sent[0] += 65536
    with Front(play, write_ms=60000) as front, front.connect(60, receive_buffer=65536) as s:
        s.sendall(GET)
        held = settled(lambda: sent[0], 0.5)
        assert 0 < held < 24 * MIB, held  # the kernel's buffers are most of it
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
        assert go.wait(100)
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
            s.settimeout(60)
            s.sendall(part)
            for _ in range(64 - -(-sent // len(piece))):
                s.sendall(piece)
            if tail:
                s.sendall(b"0\r\n\r\n")
            assert read_answer(Reader(s)).headers["x-n"] == str(64 * MIB)


def memory_of_many_slow_clients():
    body = bytes(64 * MIB)  # one for all connections: copies would need gigabytes

    def play(s, reader):
        Head(reader)
        try:
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            s.sendall(body)
            assert False, "all of it was taken"
        except OSError:
            pass
    with Front(play, write_ms=60000) as front:
        clients = [front.connect(receive_buffer=4096) for _ in range(50)]
        for s in clients:
            s.sendall(GET)
        # 256 KiB of the server's buffer for each, and 64 KiB here, with what the allocator rounds up
        keeps_little(front, 50 * 1024 * 1024)
        for s in clients:
            s.close()
        wait_until(lambda: front.stats()["gone"] == 50)


TESTS = [large_bodies_both_ways, both_ways_at_once, bodies_without_length, chunk_extensions_and_trailers,
         events_come_at_once, a_head_without_body_yet_comes_at_once, a_slow_client_holds_the_server_back,
         a_slow_server_holds_the_client_back, memory_of_many_slow_clients]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
