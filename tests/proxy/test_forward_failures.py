#!/usr/bin/python3
"""The reverse proxy of src/lib/net between raw sockets, servers and clients that fail, stop or go away:
test_forward_failures.py FORWARD_SERVER [TEST]..."""
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from forward_common import (Front, GET, Head, MIB, OK, SWITCH, UPGRADE, Upstream, body_reader, cpu, echo, tls_front,
                            until_reset)
from wire import Reader, chunks, read_answer, run, settled, wait_until


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
                    time.sleep(0.01)  # a reset discards what the proxy has not read yet
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
    """Without a length only a reset shows that it is not whole."""
    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        time.sleep(0.1)  # a reset discards what the proxy has not read yet
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
        assert got.endswith(b"\r\n\r\nabc") and reset, "a close_notify would show that it is whole"


def a_reset_that_sending_sees_first():
    """The kernel reports a reset once: here to the call that sends the request, and not to the one that reads the answer."""
    def play(s, reader):
        Head(reader)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        time.sleep(0.4)  # until the proxy has read this, and waits to send more of the request
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with Front(play, send_buffer=4096) as front:
        front.upstream.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        with front.connect() as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n" + bytes(150000))
            got, _ = until_reset(s)
            assert b"3\r\nabc\r\n" in got and b"0\r\n\r\n" not in got, got


def no_server_listens():
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
        time.sleep(0.2)  # until the proxy has read the answer

    def reset(s, reader):  # closes with input unread
        Head(reader)
        s.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
        time.sleep(0.2)  # until the proxy has read the answer: a reset discards what it has not
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
                    pass  # the proxy has closed
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
            time.sleep(0.2)  # all together longer than answer_ms
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
        before = settled(lambda: cpu(front.pid), 0.3)
        time.sleep(1)  # the time that is measured
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


TESTS = [an_upstream_that_dies_at_every_stage, a_body_until_the_end_that_breaks, a_reset_that_sending_sees_first,
         no_server_listens, answers_before_the_body_was_read, times_out, a_slow_upload_is_no_slow_answer,
         a_client_that_goes_is_told_to_the_server, waiting_costs_no_time, disconnects_at_random]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
