#!/usr/bin/python3
"""Goal: cordon-egress asks a cell which program made a connection, takes a right answer, waits for none, and a cell that
answers wrongly harms only its own records."""

import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gateway_world import get, main, tap
from http_client import read_response
from origin_server import Reader

ATTACH_OWNERS = 6
FOUND, GONE, TOO_MANY, UNREADABLE, UNSUPPORTED = range(5)
QUESTION = "<Q16s16sHHI"


class Owners:
    """The cell's end of the socket for questions."""

    def __init__(self, cell, policy):
        self.cell, self.policy, self.sock = cell, policy, None
        self.again()

    def again(self):
        if self.sock:
            self.sock.close()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fds = (self.cell.tcp.fileno(), self.cell.udp.fileno(), theirs.fileno())
        why = self.cell.configure(ATTACH_OWNERS, self.policy, fds=fds)
        theirs.close()
        self.sock.settimeout(5)
        if why:
            raise ValueError(why)

    def question(self):
        return struct.unpack(QUESTION, self.sock.recv(100))

    def answer(self, number, mark=0, result=FOUND, zero=0):
        self.sock.send(struct.pack("<QQII", number, mark, result, zero))


def begin(cell, path):
    s = cell.connect("web.example", 80)
    s.sendall(get(path).encode())
    return s


def finish(s):
    r = read_response(Reader(s))
    s.close()
    return r.status


def record(cell, path):
    r = cell.record(lambda r: r.get("path") == path) or {}
    return r.get("mark", r.get("execution_unknown"))


def test_answers(cell, owners):
    s = begin(cell, "/right")
    number, source, to, source_port, to_port, zero = owners.question()
    mine, its = s.getsockname(), s.getpeername()
    mapped = b"\0" * 10 + b"\xff\xff"
    tap.same((source, source_port), (mapped + socket.inet_aton(mine[0]), mine[1]), "the question has the program's end")
    tap.same((to, to_port, zero), (mapped + socket.inet_aton(its[0]), its[1], 0), "and the other one")
    owners.answer(number, 77)
    tap.same((finish(s), record(cell, "/right")), (200, 77), "an answer with a mark")
    for result, word in ((GONE, "gone"), (TOO_MANY, "too_many"), (UNREADABLE, "unreadable"), (UNSUPPORTED, "unsupported")):
        s = begin(cell, f"/{word}")
        owners.answer(owners.question()[0], 0, result)
        tap.same((finish(s), record(cell, f"/{word}")), (200, word), f"answered: {word}")
    a = begin(cell, "/a")
    first = owners.question()[0]
    b = begin(cell, "/b")
    owners.answer(owners.question()[0], 2)
    owners.answer(first, 1)
    tap.same((finish(a), finish(b), record(cell, "/a"), record(cell, "/b")), (200, 200, 1, 2), "in another order")


def test_another_program_at_the_same_port(cell, owners):
    """The connection was reset, so its port may be another program's when the cell is looked at."""
    s = cell.connect("raw.example", 2222)
    number = owners.question()[0]
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    owners.answer(number, 55)
    r = cell.record(lambda r: r.get("name") == "raw.example" and r["kind"] == "connect") or {}
    tap.same(r.get("execution_unknown"), "gone", "an answer for a connection that was reset does not count")


def test_no_answer(cell, owners):
    s = begin(cell, "/late")
    number = owners.question()[0]
    tap.same((finish(s), record(cell, "/late")), (200, "late"), "without an answer a connection goes on")
    for i in range(5):
        tap.same((finish(begin(cell, f"/next{i}")), record(cell, f"/next{i}")), (200, "late"), "and the next does not wait")
    owners.answer(number, 3)
    cell.egress.ping()
    tap.same(record(cell, "/late"), "late", "an answer that comes too late does not count")

    def named(path):
        s = begin(cell, path)
        owners.answer(owners.question()[0], 9)
        return finish(s) == 200 and record(cell, path) == 9
    tap.ok(any(named(f"/awake{i}") for i in range(5)), "a cell that answers again is waited for again")


def hostile(owners):
    n = owners.question()[0]
    yield "a short one", lambda: owners.sock.send(struct.pack("<QQI", n, 1, 0))
    yield "a long one", lambda: owners.sock.send(struct.pack("<QQIII", n, 1, 0, 0, 0))
    yield "a very long one", lambda: owners.sock.send(b"x" * 60000)
    yield "an empty one", lambda: owners.sock.send(b"")
    yield "an unknown result", lambda: owners.answer(n, 0, 5)
    yield "a result that only egress gives", lambda: owners.answer(n, 0, 99)
    yield "found without a mark", lambda: owners.answer(n, 0)
    yield "a mark without being found", lambda: owners.answer(n, 1, GONE)
    yield "a mark of 64 bits", lambda: owners.answer(n, 1 << 63)
    yield "a padding", lambda: owners.answer(n, 1, FOUND, 1)
    with socket.socket() as tcp:
        bytes_ = struct.pack("<QQII", n, 1, 0, 0)
        yield "descriptors", lambda: socket.send_fds(owners.sock, [bytes_], [tcp.fileno()] * 100)
    yield "an end", lambda: owners.sock.shutdown(socket.SHUT_RDWR)


def test_hostile(cell, owners, other):
    for i in range(12):
        s = begin(cell, f"/hostile{i}")
        for at, (name, do) in enumerate(hostile(owners)):
            if at == i:
                do()
                break
        tap.same((finish(s), record(cell, f"/hostile{i}")), (200, None), f"{name}: the connection goes on, nothing is named")
        tap.same(finish(begin(other, "/other")), 200, "and other cells are served")
        owners.again()
    s = begin(cell, "/after")
    owners.answer(owners.question()[0], 4)
    tap.same((finish(s), record(cell, "/after")), (200, 4), "afterwards answers count again")


def test_flood(cell, owners, other):
    """A cell that sends as fast as it can, and does not read."""
    s = begin(cell, "/flood")
    end = time.monotonic() + 1
    owners.sock.setblocking(False)
    sent = 0
    while time.monotonic() < end:
        try:
            owners.answer(1 << 50, 1)
            sent += 1
        except BlockingIOError:
            pass
    tap.ok(finish(s) == 200 and sent > 1000, f"{sent} answers to nothing", sent)
    tap.same(finish(begin(other, "/other")), 200, "hold nobody up")
    owners.again()
    held = [cell.connect("93.184.216.99", 81) for _ in range(200)]
    tap.same(finish(begin(other, "/other2")), 200, "nor do 200 questions that nobody reads")
    for c in held:
        c.close()


def tests(w, egress, cell):
    owners = Owners(egress.cell(w.policy), w.policy)
    other = egress.cell(w.policy)
    test_answers(owners.cell, owners)
    test_another_program_at_the_same_port(owners.cell, owners)
    test_no_answer(owners.cell, owners)
    test_hostile(owners.cell, owners, other)
    test_flood(owners.cell, owners, other)
    tap.ok(egress.process.poll() is None, "cordon-egress lives")
    tap.ok("mark" not in str(cell.records), "a session without such a socket has no marks")


if __name__ == "__main__":
    main(tests)
