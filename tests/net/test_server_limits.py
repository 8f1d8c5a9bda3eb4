#!/usr/bin/python3
"""The HTTP server of src/lib/net by raw sockets, its bounds of size, time, memory and descriptors, and clients that go away:
test_server_limits.py ECHO_SERVER [TEST]..."""
import os
import random
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_common import PROGRAM
from wire import Reader, Server, Skip, is_sanitized, read_answer, run, wait_until, ws_frame


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
                time.sleep(0.05)  # a client that is slow on purpose
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
                time.sleep(0.15)  # less than body_ms
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
        for s in slow:
            s.recv(1)  # its answer has begun
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
        for _ in range(100):
            s = server.connect()
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            held.append(s)
            if len(held) <= 50:
                assert read_answer(Reader(s)).status == 200
        wait_until(lambda: any(is_refused(s) for s in held[50:]))
        held[0].sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")  # a client that has a connection is served
        assert read_answer(Reader(held[0])).status == 200
        before = cpu_ticks(server.pid)
        time.sleep(1)  # how much CPU time a second costs is what is measured
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


def is_refused(s):
    """Has the server closed the connection without an answer?"""
    s.settimeout(0.01)
    try:
        return s.recv(1, socket.MSG_PEEK) == b""
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def gone_clients_are_noticed():
    with Server(PROGRAM) as server:
        for path in (b"/never", b"/slow?ms=20000", b"/ticks?n=100000"):
            before = server.stats()["gone"]
            s = server.connect()
            s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            server.round_trip()
            s.close()
            wait_until(lambda: server.stats()["gone"] == before + 1)
        s = server.connect()  # in the middle of a body
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhello")
        server.round_trip()
        s.close()
        wait_until(lambda: server.stats()["gone"] == 4)
        s = server.connect()  # with the next request already sent
        s.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        server.round_trip()
        s.close()
        wait_until(lambda: server.stats()["gone"] == 5)
        assert cpu_after(server) < 20


def cpu_after(server):
    before = cpu_ticks(server.pid)
    time.sleep(0.5)  # the time that is measured
    return cpu_ticks(server.pid) - before


def waiting_costs_no_time():
    """Pipelined input that is not wanted yet, and a peer that has closed half: no spinning."""
    with Server(PROGRAM) as server:
        s = server.connect()
        s.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 10000)
        t = server.connect()
        t.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        t.shutdown(socket.SHUT_WR)
        server.round_trip()
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


def closing_connections_end_whatever_comes():
    """After its answer was cut, a connection is read until its client has seen the end, but not for ever."""
    with Server(PROGRAM) as server, server.connect() as s:
        s.sendall(b"GET /abort HTTP/1.1\r\nHost: x\r\n\r\n")
        while s.recv(65536):
            pass
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                s.sendall(b"x")
                time.sleep(0.2)  # a client that is slow on purpose
        except OSError:
            return
        raise AssertionError("held for a minute by a byte now and then")


def discarded_bodies_have_one_deadline():
    """The rest of a body that was not read is dropped, but a client that sends it byte by byte is not waited for."""
    with Server(PROGRAM, body_ms=500) as server, server.connect() as s:
        s.sendall(b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
        assert read_answer(Reader(s)).status == 200
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                s.sendall(b"x")
                time.sleep(0.1)
        except OSError:
            return
        raise AssertionError("held for a minute by a byte now and then")


def drain():
    with Server(PROGRAM) as server:
        idle, working, asking = server.connect(), server.connect(), server.connect()
        working.sendall(b"GET /slow?ms=300 HTTP/1.1\r\nHost: x\r\n\r\n")
        server.round_trip()
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


TESTS = [too_large_bodies_are_413, too_long_heads_are_431, slow_heads_are_408, slow_bodies_are_408,
         idle_connections_are_closed, readers_that_stop_are_dropped, a_slow_reader_costs_little,
         too_many_connections_are_503, idle_connections_cost_little, without_descriptors_it_stays_calm,
         the_last_descriptors_are_not_for_connections, gone_clients_are_noticed, waiting_costs_no_time,
         a_half_closed_client_is_answered_at_once, disconnects_at_every_phase,
         closing_connections_end_whatever_comes, discarded_bodies_have_one_deadline, drain]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
