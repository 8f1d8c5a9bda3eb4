#!/usr/bin/python3
"""What clients may hold of the server of src/lib/net, and whose connection is closed for another: test_bounds.py ECHO_SERVER."""
import os
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import Reader, Server, read_answer, run, wait_until

PROGRAM = sys.argv[1]
KEY = b"X-Key: yes\r\n"


def ask(path, extra=b""):
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + extra + b"\r\n"


def status_of(server, request):
    with server.connect() as s:
        s.sendall(request)
        return read_answer(Reader(s)).status


def unread(server, request):
    """A connection that does not read what it asked for."""
    s = server.connect(receive_buffer=2048)
    s.sendall(request)
    return s


def unread_answers_make_room():
    """Answers that wait to be read are no reason to refuse others, however long writing may take."""
    with Server(PROGRAM, connections_max=20, write_ms=60000, answer_ms=60000) as server:
        held = [unread(server, ask(b"/big?bytes=8000000") * 3) for _ in range(20)]
        for extra in (b"", KEY):
            wait_until(lambda: status_of(server, ask(b"/hello", extra)) == 200, 5)
        for s in held:
            s.close()


def keyed_ones_make_room_last():
    with Server(PROGRAM, connections_max=10, unkeyed_max=8) as server:
        keyed = [server.connect() for _ in range(2)]
        for s in keyed:
            s.sendall(ask(b"/hello", KEY))
            assert read_answer(Reader(s)).status == 200
        silent = [server.connect() for _ in range(20)]
        time.sleep(1.2)  # only a connection that has waited for a second is closed for another
        silent += [server.connect() for _ in range(8)]
        wait_until(lambda: status_of(server, ask(b"/hello")) == 200, 5)
        for s in keyed:
            s.sendall(ask(b"/hello", KEY))
            assert read_answer(Reader(s)).status == 200, "a connection with a key was ended for one without"
        for s in silent + keyed:
            s.close()


def connections_without_a_key_are_counted_by_address():
    with Server(PROGRAM, unkeyed_per_address=5) as server:
        with server.connect() as keyed:
            reader = Reader(keyed)
            keyed.sendall(ask(b"/hello", KEY))
            assert read_answer(reader).status == 200
            held = [server.connect() for _ in range(5)]
            for s in held:
                s.sendall(ask(b"/never"))
            with server.connect() as s:
                assert read_answer(Reader(s)).status == 503
            keyed.sendall(ask(b"/hello"))
            assert read_answer(reader).status == 200, "a client that has shown a key needs no room"
        for s in held:
            s.close()
        wait_until(lambda: server.get("/hello").status == 200, 5)


def an_answer_that_is_whole_has_its_time():
    """A client that takes a little now and then does not keep the answer for ever. A Unix socket's buffer is the
    same everywhere: a part of the answer stays in the server."""
    with tempfile.TemporaryDirectory() as folder:
        with Server(PROGRAM, f"unix:{folder}/s", write_ms=60000, answer_ms=500) as server, server.connect() as s:
            size = 64000 + s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            s.sendall(ask(b"/big?bytes=%d" % size))
            taken = 0
            end = time.monotonic() + 30
            while server.stats()["dropped"] == 0:
                assert time.monotonic() < end, "the answer still waits"
                taken += len(s.recv(10))
                time.sleep(0.05)  # a client that takes 10 bytes at a time, slowly
            while piece := s.recv(65536):
                taken += len(piece)
            assert taken < size, taken


def unfinished(server, size, extra=b""):
    s = server.connect()
    s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" % (size + 1, extra) + b"x" * size)
    return s


def bodies_are_counted():
    """On one account, and what is over goes back to it."""
    with Server(PROGRAM, bodies_one_max=1000000, bodies_all_max=4000000) as server:
        held = [unfinished(server, 200000) for _ in range(4)]
        wait_until(lambda: server.stats()["bodies"] == 4 * 200000)
        refused = unfinished(server, 300000)
        answer = read_answer(Reader(refused))
        assert answer.status == 429 and b"quota_bodies" in answer.body, answer.body
        assert answer.headers["retry-after"] == "1"
        with unfinished(server, 300000, KEY) as other:  # another account has room
            other.sendall(b"y")
            assert read_answer(Reader(other)).status == 200
        for s in held:
            s.sendall(b"y")
            assert read_answer(Reader(s)).status == 200
            s.close()
        refused.close()
        with unfinished(server, 900000) as s:
            s.sendall(b"y")
            assert read_answer(Reader(s)).status == 200, "the account was not given back"


def bodies_have_a_sum():
    with Server(PROGRAM, bodies_one_max=1000000, bodies_all_max=1000000) as server:
        held = [unfinished(server, 220000) for _ in range(3)]
        wait_until(lambda: server.stats()["bodies"] == 3 * 220000)
        with unfinished(server, 150000, KEY) as s:
            answer = read_answer(Reader(s))
            assert answer.status == 503 and b"unavailable" in answer.body, answer.body
        with unfinished(server, 50000, KEY) as s:  # an account that has little gets the last quarter
            s.sendall(b"y")
            assert read_answer(Reader(s)).status == 200
        for s in held:
            s.close()


def a_body_has_its_time():
    """Byte by byte it would never end."""
    with Server(PROGRAM, body_ms=500) as server, server.connect() as s:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        s.settimeout(0.1)
        for _ in range(200):
            s.sendall(b"x")
            try:
                assert s.recv(100, socket.MSG_PEEK)
                break
            except TimeoutError:
                continue
        s.settimeout(10)
        assert read_answer(Reader(s)).status == 408


def long_bodies_take_turns():
    """All are here before the first is worked on, which takes longer than a turn of jobs: the only body of one account
    is among the first, a few from the front, although it came last; a short one does not wait."""
    with Server(PROGRAM, body_ms=1500) as server:
        held = []
        for extra, n in [(KEY, 50000)] * 40 + [(b"X-Other: yes\r\n", 50000), (b"X-Other: yes\r\n", 10)]:
            s = server.connect()
            s.sendall(b"POST /work HTTP/1.1\r\nHost: x\r\n" + extra + b"Content-Length: %d\r\n\r\n" % n + b"x" * (n - 1))
            held.append(s)
        wait_until(lambda: server.stats()["bodies"] == sum(n - 1 for n in [50000] * 41 + [10]))
        os.kill(server.pid, signal.SIGSTOP)
        for s in held:
            s.sendall(b"x")
        os.kill(server.pid, signal.SIGCONT)
        answers = [read_answer(Reader(s)) for s in held]
        assert [a.status for a in answers] == [200] * 42, "a body that waits for its turn is not late"
        places = [int(a.body) for a in answers]
        assert sorted(places) == list(range(1, 43))
        assert places[-2] <= 10, f"number {places[-2]}"
        assert places[-1] <= 20, f"number {places[-1]} is short"
        for s in held:
            s.close()


def a_body_in_the_queue_may_lose_its_client():
    with Server(PROGRAM) as server:
        held = [server.connect() for _ in range(30)]
        os.kill(server.pid, signal.SIGSTOP)
        for s in held:
            s.sendall(b"POST /work HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50000)
        os.kill(server.pid, signal.SIGCONT)
        for s in held[:-1]:
            s.close()
        assert read_answer(Reader(held[-1])).status == 200
        held[-1].close()
        assert server.get("/hello").status == 200


def half_a_head_does_not_hold_up_the_end():
    with Server(PROGRAM, head_ms=60000) as server, server.connect() as s, server.connect() as last:
        s.sendall(b"GET /hello HTTP/1.1\r\n")
        server.round_trip()
        last.sendall(ask(b"/drain"))
        assert read_answer(Reader(last)).status == 200
        s.settimeout(20)
        assert Reader(s).at_end()
        server.process.terminate()
        server.process.wait()
        server.process.returncode = 0  # it listens no more, so it cannot be asked to quit


def retry_after_is_said_once():
    with Server(PROGRAM) as server:
        answer = server.ask(ask(b"/retry"))
        assert answer.status == 503 and answer.headers["retry-after"] == "7", answer.headers


sys.exit(run([unread_answers_make_room, keyed_ones_make_room_last, connections_without_a_key_are_counted_by_address,
     an_answer_that_is_whole_has_its_time, bodies_are_counted, bodies_have_a_sum, a_body_has_its_time,
     long_bodies_take_turns, a_body_in_the_queue_may_lose_its_client, half_a_head_does_not_hold_up_the_end,
     retry_after_is_said_once]))
