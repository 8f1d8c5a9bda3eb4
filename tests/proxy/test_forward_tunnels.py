#!/usr/bin/python3
"""The reverse proxy of src/lib/net between raw sockets, upgrades and what follows them: test_forward_tunnels.py FORWARD_SERVER [TEST]..."""
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from forward_common import (Front, GET, Head, MIB, OK, SWITCH, UPGRADE, body_of, cpu, keeps_little, noise, answers_with,
                            tls_front, until_reset)
from wire import ACCEPT, KEY, Reader, read_answer, read_head, run, wait_until, ws_frame, ws_open, ws_read


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
            front.round_trip()
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
        time.sleep(1)  # a server that is slow on purpose
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
        front.round_trip()
        before = cpu(front.pid)
        time.sleep(0.5)  # the time that is measured
        assert cpu(front.pid) - before < 0.2, "it spins"
        wait_until(lambda: got == [total])
        wait_until(lambda: front.stats()["connections"] == 1)


def upgrades_that_are_refused():
    with Front(answers_with(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")) as front, front.connect() as s:
        reader = Reader(s)
        for _ in range(3):
            s.sendall(UPGRADE)
            answer = read_answer(reader)
            assert answer.status == 403 and answer.body == b"no"
    with Front(answers_with(SWITCH)) as front:  # without a request for it
        assert front.ask(GET).status == 502
    with Front(answers_with(b"HTTP/1.1 101 Sure\r\nConnection: upgrade\r\n\r\n")) as front:  # to what?
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
        time.sleep(0.2)  # a reset discards what the proxy has not read yet
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


TESTS = [websocket_tunnel, a_large_tunnel, half_closes_of_a_tunnel, the_last_bytes_of_a_closed_client_arrive,
         upgrades_that_are_refused, tunnels_that_break, closed_tunnels_end]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
