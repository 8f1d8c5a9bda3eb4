#!/usr/bin/env python3
"""Limits: of bytes to the byte, over connections, policies and the death of egress; of connections and
descriptors; what sessions of one tenant leave to others. Compared is what servers and programs got."""

import contextlib
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cell_tools import hello
from egress_harness import Egress, PROXY
from http_client import ask
from namespaces import Net
from origin_server import Origin, Reader, answer
from tap_points import Tap
from checks import settled  # in ../shared, which origin_server.py adds to the path

tap = Tap()
AT = "93.184.216.34"
LIMIT = 300_000
CROWD = 40


class Sink(Origin):
    """Counts what it gets, and sends as long as it may, if it should."""

    def __init__(self, net, address, port, sends=False):
        self.got, self.lock, self.sends = 0, threading.Lock(), sends
        super().__init__(net, address, port, None)

    def converse(self, conn):
        if self.sends:
            threading.Thread(target=self.pour, args=(conn,), daemon=True).start()
        while True:
            data = conn.recv(65536)
            if not data:
                return
            with self.lock:
                self.got += len(data)

    @staticmethod
    def pour(conn):
        with contextlib.suppress(OSError):
            while True:
                conn.sendall(b"\xf1" * 65536)


class WebSink(Sink):
    """The same for HTTP: counts every byte of the requests, answers each at once, and for ever."""

    def converse(self, conn):
        if self.sends:
            head = Reader(conn).until(b"\r\n\r\n")
            if head:
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
                self.pour(conn)
            return
        super().converse(conn)


def crowd(work, n=CROWD):
    """Runs all at once; returns the sum of their results."""
    sums = []

    def one():
        try:
            sums.append(work())
        except OSError:
            pass

    threads = [threading.Thread(target=one) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    return sum(sums)


def push(connect, first):
    """Sends as much as it can, for what it is worth."""
    def work():
        with contextlib.suppress(OSError):
            s = connect()
            s.settimeout(5)
            s.sendall(first)
            for _ in range(8):
                s.sendall(b"z" * 32768)
            s.shutdown(socket.SHUT_WR)
            s.recv(1000)
        return 0
    return work


def pull(connect, first):
    def work():
        got = 0
        s = connect()
        s.settimeout(5)
        try:
            s.sendall(first)
            while True:
                data = s.recv(65536)
                if not data:
                    return got
                got += data.count(b"\xf1")  # not the answers of egress itself
        except OSError:
            return got
    return work


CHUNKED = (b"POST /up HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nc\r\n" * 40)
WHOLE = b"POST /up HTTP/1.1\r\nHost: %s\r\nContent-Length: 262144\r\n\r\n"


def chunks(host):
    return CHUNKED % host + (b"400\r\n" + b"c" * 1024 + b"\r\n") * 100


def test_bytes(net, egress):
    ways = {"pass": (443, hello(b"pass.example"), {}), "tcp": (2222, b"first", {"protocol": "tcp"}),
            "http": (80, WHOLE % b"http.example", {}), "chunks": (80, chunks(b"chunks.example"), {})}
    for i, (way, (port, first, more)) in enumerate(ways.items()):
        host = f"{way}.example"
        at = f"93.184.217.{i + 1}"
        net.name(host, at)
        sink = (WebSink if port == 80 else Sink)(net, at, port)
        for where in ("session", "rule"):
            sink.got = 0
            limits = {"limits": {"bytes_out": LIMIT}}
            rule = {"host": host, "ports": [port], **more, **(limits if where == "rule" else {})}
            cell = egress.cell({"rules": [rule], **(limits if where == "session" else {})})
            address = cell.lookup(host)
            crowd(push(lambda: cell.connect(address, port), first))
            crowd(push(lambda: cell.connect(address, port), first))
            got = settled(lambda: sink.got)
            tap.ok(LIMIT // 4 < got <= LIMIT, f"{way}, of the {where}: {got} of {LIMIT} bytes went out")
            tap.ok(cell.record(lambda r: "limit of bytes is reached" in r.get("reason", "")), "on record")
            cell.detach()


def test_bytes_in(net, egress):
    ways = {"pass": (443, hello(b"passin.example"), {}), "tcp": (2222, b"first", {"protocol": "tcp"}),
            "http": (80, b"GET / HTTP/1.1\r\nHost: httpin.example\r\n\r\n", {})}
    for i, (way, (port, first, more)) in enumerate(ways.items()):
        host = f"{way}in.example"
        at = f"93.184.218.{i + 1}"
        net.name(host, at)
        (WebSink if port == 80 else Sink)(net, at, port, sends=True)
        cell = egress.cell({"rules": [{"host": host, "ports": [port], **more}], "limits": {"bytes_in": LIMIT}})
        address = cell.lookup(host)
        got = crowd(pull(lambda: cell.connect(address, port), first))
        tap.ok(0 < got <= LIMIT, f"{way}: {got} of {LIMIT} bytes came in")
        cell.detach()


def post(cell, host, size):
    s = cell.connect(host, 80)
    r = ask(s, f"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n" + "x" * size)
    s.close()
    return r.status if r else None


def test_goes_on(net, egress, again):
    """Counts go on over policies, and over another egress."""
    net.name("count.example", AT)
    Origin(net, AT, 80, lambda q: answer(b"ok"))
    policy = {"rules": [{"name": "one", "host": "count.example", "limits": {"bytes_out": 60_000}}]}
    cell = egress.cell(policy)
    tap.same([post(cell, "count.example", 20_000) for _ in range(3)], [200, 200, 403], "two fit")
    cell.change(policy)
    tap.same(post(cell, "count.example", 20_000), 403, "the same policy again gives nothing back")
    other = {"rules": [{"name": "two", "host": "count.example"}]}
    cell.change(other)
    tap.same(post(cell, "count.example", 20_000), 200, "by another rule it goes")
    cell.change(policy)
    tap.same(post(cell, "count.example", 20_000), 403, "and not when the first is back")

    session = {"rules": [{"host": "count.example"}], "limits": {"bytes_out": 60_000}}
    cells = [egress.cell(p) for p in (policy, session)]
    for c in cells:
        tap.same([post(c, "count.example", 20_000) for _ in range(2)], [200, 200], "two fit")
    egress.process.kill()
    egress.process.wait()
    egress.listener.join(5)  # the last messages of the channel are read
    for c, p in zip(cells, (policy, session)):
        c = again.cell(p, used=c.used())
        tap.same([post(c, "count.example", 15_000), post(c, "count.example", 20_000)], [200, 403],
                 "after a kill: what is left, and no more")
        tap.ok(again.wait(lambda c=c: c.counts.get("bytes_out", 0) > 55_000), "totals go on, too")


def test_told_again(net, egress):
    """Nothing moves any more: another cordond gets the counts all the same, also of sessions that it learns of later."""
    net.name("again.example", AT)
    policies = [{"rules": [{"name": "one", "host": "again.example", "limits": {"bytes_out": 60_000}}]},
                {"rules": [{"host": "again.example"}], "limits": {"bytes_out": 60_000}}]
    cells = [egress.cell(p) for p in policies]

    def knows():
        return (cells[0].claims.get("one", {}).get("claimed_out", 0) > 20_000 and
                all(c.counts.get("claimed_out", 0) > 20_000 and c.counts["requests"] == 1 for c in cells))

    for c in cells:
        tap.same(post(c, "again.example", 20_000), 200, "one fits")
    tap.ok(egress.wait(knows), "counts are sent")
    settled(lambda: egress.messages, 0.5)
    egress.renew()
    tap.ok(egress.wait(knows), "and sent again, to another cordond")
    settled(lambda: egress.messages, 0.5)
    with egress.received:  # as if it had not known the sessions yet
        for c in cells:
            c.counts, c.claims = {}, {}
    for c, p in zip(cells, policies):
        tap.same(c.change(p), "", "its first configuration")
    tap.ok(egress.wait(knows), "and after the first configuration")
    for c in cells:
        c.detach()


def kept(cell, host, n):
    """How many of n connections to the proxy, all kept, are answered 200."""
    socks, good = [], 0
    for _ in range(n):
        s = cell.connect(*PROXY)
        socks.append(s)
        r = ask(s, f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
        good += r is not None and r.status == 200
    return good, socks


def test_connections(net, egress):
    net.name("few.example", AT)
    net.name("many.example", AT)
    cell = egress.cell({"rules": [{"host": "few.example", "limits": {"connections": 5}}, {"host": "many.example"}]})
    good, socks = kept(cell, "few.example", 12)
    tap.same(good, 5, "a rule's connections, by the proxy's absolute form")
    r = ask(socks[11], "GET http://many.example/ HTTP/1.1\r\nHost: many.example\r\n\r\n")
    tap.same(r.status, 200, "other rules are not concerned")
    r = ask(socks[0], "GET http://many.example/ HTTP/1.1\r\nHost: many.example\r\n\r\n")
    tap.same(r.status, 200, "one of the five goes elsewhere")
    r = ask(socks[11], "GET http://few.example/ HTTP/1.1\r\nHost: few.example\r\n\r\n")
    tap.same(r.status, 200, "and leaves its place to another")
    paths = egress.cell({"rules": [{"host": "few.example", "paths": ["/a"]},
                                   {"host": "few.example", "paths": ["/b"], "limits": {"connections": 2}}]})
    socks = [paths.connect("few.example", 80) for _ in range(4)]
    got = [ask(s, "GET /b HTTP/1.1\r\nHost: few.example\r\n\r\n").status for s in socks]
    tap.same(sorted(got), [200, 200, 429, 429], "and where the path decides which rule it is")


def test_own_port(egress):
    cell = egress.cell({"rules": [{"host": "few.example"}]})
    for at in ("127.0.0.1", "127.9.9.9", "::1"):
        with contextlib.suppress(OSError):
            s = cell.connect(at, 1)
            s.sendall(b"GET /secret-path HTTP/1.1\r\nHost: x\r\n\r\n")
            got = s.recv(1000)
            tap.same(got, b"", f"nothing is said at {at} port 1")
    with contextlib.suppress(OSError):
        ask(cell.connect("10.9.9.9", 1), "GET /mark HTTP/1.1\r\nHost: x\r\n\r\n")
    tap.ok(cell.record(lambda r: r.get("address") == "10.9.9.9"), "another address at that port is recorded")
    tap.same([r for r in cell.records if str(r.get("address")).startswith(("127.", "::1"))], [],
             "the listener's own is not")


def test_descriptors(net, program):
    """A tenant that opens all it can leaves descriptors for orders and for others."""
    egress = Egress(net, program, extra=("prlimit", "--nofile=2400:2400"))
    policy = {"rules": [{"host": "hold.example", "ports": [2222], "protocol": "tcp"}, {"host": "few.example"}]}
    net.name("hold.example", "93.184.219.1")
    Sink(net, "93.184.219.1", 2222, sends=True)
    greedy = [egress.cell(policy, tenant="ten_a") for _ in range(4)]
    socks = []
    for cell in greedy:
        address = cell.lookup("hold.example")
        for _ in range(200):
            try:
                socks.append(cell.connect(address, 2222))
            except OSError:
                break
    tap.ok(egress.wait(lambda: any("too many connections for this node" in r.get("reason", "")
                                   for c in greedy for r in c.records), 10), "a tenant's share is bounded")
    others = [egress.cell(policy, tenant=f"ten_{i}") for i in range(20)]
    tap.same(len(others), 20, "twenty more sessions are attached")
    got = [ask(c.connect("few.example", 80), "GET / HTTP/1.1\r\nHost: few.example\r\n\r\n") for c in others]
    tap.same([r.status if r else None for r in got], [200] * 20, "and each is served")
    tap.same(egress.process.poll(), None, "egress is there")
    for s in socks:
        s.close()
    tap.same(egress.close(), 0, "and ends well")


def test_no_descriptors(net, program):
    """Without any, an order is refused, and the channel goes on."""
    egress = Egress(net, program, extra=("prlimit", "--nofile=128:128"))
    cells, refused = [egress.cell({"rules": [{"host": "few.example"}]})], ""
    try:
        while len(cells) < 100:
            cells.append(egress.cell({"rules": [{"host": "few.example"}]}))
    except ValueError as e:
        refused = str(e)
    tap.ok("no descriptors left" in refused, f"after {len(cells)} sessions an order is refused", refused)
    tap.same(egress.process.poll(), None, "the channel goes on")
    for cell in cells[10:]:
        cell.detach()
    r = ask(cells[0].connect("few.example", 80), "GET / HTTP/1.1\r\nHost: few.example\r\n\r\n")
    tap.same(r.status if r else None, 200, "a connection that was there is served")
    tap.ok(egress.cell({"rules": []}), "and others can be attached again")
    tap.same(egress.close(), 0, "and it ends well")


def ask_silent(cell, n, stop):
    """As many names as it can that are never answered."""
    for i in range(n):
        def one(i=i):
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    with cell.connect(*PROXY) as s:
                        name = f"{cell.id.replace('_', '')}-{i}-{time.monotonic_ns()}.silent.example"
                        ask(s, f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n")
        threading.Thread(target=one, daemon=True).start()


def test_lookups(net, program):
    """Sessions of one tenant whose names are not answered do not stop the lookups of another, nor of each other."""
    egress = Egress(net, program)
    answer_name = net.answer_name
    net.answer_name = lambda q: None if b"\x06silent" in q else answer_name(q)
    for i in range(40):
        net.name(f"n{i}.other.example", AT)
    policy = {"rules": [{"host": "*.silent.example"}, {"host": "*.other.example"}]}
    stop = threading.Event()
    for _ in range(10):
        ask_silent(egress.cell(policy, tenant="ten_a"), 36, stop)
    settled(lambda: len(net.asked), 0.5)
    for what, tenant, first in (("another tenant", "ten_b", 0), ("another session of the same", "ten_a", 20)):
        cell = egress.cell(policy, tenant=tenant)
        got = []
        for i in range(first, first + 10):
            name = f"n{i}.other.example"
            r = ask(cell.connect(*PROXY), f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n")
            got.append(r.status if r else None)
        tap.same(got, [200] * 10, f"names of {what} are answered")
    stop.set()
    egress.process.kill()
    net.answer_name = answer_name


def test_memory(net, egress):
    """Requests that wait, with all that they hold, are bounded for a session; others go on."""
    net.name("wait.example", "93.184.219.2")
    go_on = threading.Event()
    Origin(net, "93.184.219.2", 80, lambda q: go_on.wait(60) and answer(b"late"))
    policy = {"rules": [{"host": "wait.example"}, {"host": "few.example"}]}
    cell, other = egress.cell(policy, tenant="ten_m"), egress.cell(policy, tenant="ten_n")
    address = cell.lookup("wait.example")
    long = b"".join(b"X-%d: %s\r\n" % (i, b"h" * 4000) for i in range(15))
    socks = [cell.connect(address, 80) for _ in range(240)]
    for s in socks:
        s.sendall(b"GET / HTTP/1.1\r\nHost: wait.example\r\n" + long + b"\r\n")
    tap.ok(cell.record(lambda r: r.get("status") == 503 and "too much memory" in r.get("reason", "")),
           "requests that hold too much memory are refused")
    r = ask(other.connect("few.example", 80), "GET / HTTP/1.1\r\nHost: few.example\r\n\r\n")
    tap.same(r.status if r else None, 200, "another session is served")
    go_on.set()
    good = 0
    for s in socks:
        s.settimeout(5)
        with contextlib.suppress(OSError):
            good += b" 200 " in s.recv(1000)[:20]
        s.close()
    tap.ok(60 <= good < 240, f"{good} of 240 were answered")
    r = ask(cell.connect("few.example", 80), "GET / HTTP/1.1\r\nHost: few.example\r\n\r\n")
    tap.same(r.status if r else None, 200, "and all memory comes back")


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    program = os.environ.get("CORDON_EGRESS", "./cordon-egress")
    net = Net()
    egress = [Egress(net, program) for _ in range(2)]
    try:
        test_bytes(net, egress[0])
        test_bytes_in(net, egress[0])
        test_goes_on(net, *egress)
        test_told_again(net, egress[1])
        test_connections(net, egress[1])
        test_own_port(egress[1])
        test_memory(net, egress[1])
        test_descriptors(net, program)
        test_no_descriptors(net, program)
        test_lookups(net, program)
        tap.same(egress[1].close(), 0, "egress ends well")
        for e in egress:
            e.log.seek(0)
            for line in e.log.read().decode(errors="replace").splitlines():
                print("# " + line)
    finally:
        egress[0].process.kill()
        net.close()
    return tap.done()


if __name__ == "__main__":
    CODE = main()
    sys.stdout.flush()
    os._exit(CODE)
