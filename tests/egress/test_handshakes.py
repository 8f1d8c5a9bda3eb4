#!/usr/bin/python3
"""TLS handshakes in turns: programs that begin many and finish none keep no other session from its own."""

import contextlib
import os
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Egress, PROXY
from http_client import ask, read_response
from namespaces import Net
from origin_server import Origin, Reader, answer
from tap_points import Tap
from checks import wait_for  # in ../shared, which origin_server.py adds to the path

tap = Tap()


def hello(name):
    """The bytes of a ClientHello for that name."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    conn = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        conn.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Flood:
    """CONNECT and a ClientHello for a new name in one piece, as fast as it goes, never finished."""

    def __init__(self, cell, number):
        self.cell, self.number, self.count, self.stop = cell, number, 0, False
        self.template = hello("a00000000.t.example")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        held = []
        while not self.stop:
            name = f"{chr(97 + self.number)}{self.count:08d}.t.example".encode()
            try:
                s = self.cell.connect(*PROXY, timeout=2)
                s.sendall(b"CONNECT " + name + b":443 HTTP/1.1\r\nHost: x\r\n\r\n" +
                          self.template.replace(b"a00000000.t.example", name))
                held.append(s)
                self.count += 1
            except OSError:
                pass
            if len(held) > 100:
                held.pop(0).close()


def served(cell, n):
    """How many of n new connections with TLS got their answer."""
    good = 0
    for _ in range(n):
        try:
            s = cell.tls("look.example")
            good += ask(s, "GET / HTTP/1.1\r\nHost: look.example\r\n\r\n").status == 200
            s.close()
        except OSError:
            pass
    return good


def test_flood(egress):
    quiet = egress.cell({"rules": [{"host": "look.example", "paths": ["/**"]}]})
    flooding = [egress.cell({"rules": [{"host": "*.t.example", "tls": "terminate"}]}) for _ in range(4)]
    floods = [Flood(c, i) for i, c in enumerate(flooding)]
    wait_for(lambda: min(f.count for f in floods) >= 70, 20, "the flood", 0.05)
    # The rate of certificates for new names is used up by now, in all four.
    before = sum(f.count for f in floods)
    tap.same(served(quiet, 20), 20, "another session has its handshakes, while four begin all they can")
    tap.ok(sum(f.count for f in floods) > before, "and they did meanwhile")
    for f in floods:
        f.stop = True
    for f in floods:
        f.thread.join()
    for c in flooding:
        c.detach()


def test_rate(egress):
    """Certificates for new names: 64 at once, then 20 a second; names that have one are not held back."""
    cell = egress.cell({"rules": [{"host": "*.r.example", "tls": "terminate"},
                                  {"host": "look.example", "paths": ["/**"]}]})
    served(cell, 1)
    waiting, template = [], hello("n000.r.example")
    for i in range(110):
        name = f"n{i:03d}.r.example".encode()
        s = cell.connect(*PROXY)
        s.sendall(b"CONNECT " + name + b":443 HTTP/1.1\r\nHost: x\r\n\r\n")
        waiting.append((s, template.replace(b"n000.r.example", name)))
    for s, _ in waiting:
        s.recv(4096)
    begin = time.monotonic()
    for s, first in waiting:
        with contextlib.suppress(OSError):  # a machine that is too slow for this lets some go
            s.sendall(first)
    got = 0
    for s, _ in waiting:
        s.settimeout(9)
        try:
            got += s.recv(1) == b"\x16"
        except OSError:
            pass
    took = time.monotonic() - begin
    tap.ok(got >= 64 and (got < 110 or took > 1.5), "110 new names are not served in a second and a half", (got, took))
    for s, _ in waiting:
        s.close()
    tap.same(served(cell, 3), 3, "and a name that has its certificate is served at once")


def test_many_servers(egress):
    """Handshakes with servers take turns, too, and all of them come to their end."""
    cell = egress.cell({"rules": [{"host": "look.example", "paths": ["/**"]}]})
    crowd = [cell.tls("look.example") for _ in range(60)]
    for s in crowd:
        s.sendall(b"GET / HTTP/1.1\r\nHost: look.example\r\n\r\n")
    tap.same([read_response(Reader(s)).status for s in crowd], [200] * 60, "60 requests at once, each with its handshake")
    for s in crowd:
        s.close()


def test_delay(egress):
    """No part of a handshake or an answer waits for an acknowledgement that is late by design (40 ms)."""
    cell = egress.cell({"rules": [{"host": "look.example", "paths": ["/**"]}]})
    took = []
    for _ in range(20):
        begin = time.monotonic()
        served(cell, 1)
        took.append(time.monotonic() - begin)
    tap.ok(min(took) < 0.03, "the fastest of 20 new connections takes less than 30 ms", took)


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    net = Net()
    net.name("look.example", "93.184.216.34")
    Origin(net, "93.184.216.34", 443, lambda q: answer(b"x"), tls=net.certificate("look.example"))
    egress = Egress(net, os.environ.get("CORDON_EGRESS", "./cordon-egress"))
    try:
        test_delay(egress)
        test_many_servers(egress)
        test_rate(egress)
        test_flood(egress)
        tap.ok(egress.process.poll() is None, "it is still there")
    finally:
        tap.same(egress.close(), 0, "and ends well with its channel")
        net.close()
    return tap.done()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
