#!/usr/bin/python3
"""What hostile cells and servers do to cordon-egress itself, by means outside of the protocols:
bytes that change after they were looked at, options of a shared socket, floods without content."""

import base64
import contextlib
import ctypes
import gzip
import mmap
import os
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Egress
from http_client import ask
from namespaces import Net
from origin_server import Origin, answer
from tap_points import Tap
from checks import settled  # in ../shared, which origin_server.py adds to the path

import memory  # in ../behaviour, which egress_harness.py adds to the path

WEB = "93.184.216.34"
SO_PEEK_OFF = 42
UPDATES = 60000

tap = Tap()


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def client_hello(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    shake = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        shake.do_handshake()
    return out.read()


class Listener(Origin):
    """A server that only keeps the first bytes it gets."""

    def serve(self, conn):
        with contextlib.suppress(OSError):
            conn.settimeout(5)
            self.first = conn.recv(65536)
        conn.close()


class Echo(Origin):
    def serve(self, conn):
        with contextlib.suppress(OSError):
            while data := conn.recv(4096):
                conn.sendall(data)
        conn.close()


def wait_for(found, seconds=5):
    """As checks.wait_for(), but returns what is false at the end: some tests expect that nothing comes."""
    end = time.monotonic() + seconds
    while not found() and time.monotonic() < end:
        time.sleep(0.01)
    return found()


def cpu_seconds(egress):
    with open(f"/proc/{egress.process.pid}/stat", encoding="ascii") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident(egress):
    with open(f"/proc/{egress.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


# ---- what was judged is what is sent

def test_spliced_page(cell, server):
    """The socket refers to the page: a write to the page changes what is read from the socket next."""
    libc = ctypes.CDLL(None, use_errno=True)
    good, bad = client_hello("pass.example"), client_hello("evil.example")
    s = cell.connect("pass.example", 443)
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[:len(good)] = good
    r, w = os.pipe()
    vector = Vector(ctypes.addressof(ctypes.c_char.from_buffer(page)), len(good))
    given = libc.vmsplice(w, ctypes.byref(vector), 1, 0)
    os.splice(r, s.fileno(), given)
    # Egress has judged the bytes when it looks the name up, which is slow.
    wait_for(lambda: ("pass.example", 1) in cell.net.asked)
    page[:len(bad)] = bad
    wait_for(lambda: server.first)
    tap.ok(server.first and b"pass.example" in server.first and b"evil" not in server.first,
           "a ClientHello that changes after it was looked at goes on as it was", server.first)
    s.close()
    os.close(r)
    os.close(w)


def test_peek_offset(cell, server):
    good, bad = client_hello("pass.example"), client_hello("evil.example")
    server.first = None
    cell.tcp.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, len(bad))
    s = cell.connect("pass.example", 443)
    s.sendall(bad + good)
    wait_for(lambda: server.first, 2)
    tap.ok(not server.first or server.first.startswith(good),
           "a look that PID 1 has begin elsewhere is what is sent", server.first)
    s.close()
    cell.tcp.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, -1)


# ---- one session does not delay the others

def key_updates(sock, name, n, last):
    """A handshake; then n messages that hold no data, and a request, all of it made beforehand."""
    lib = ctypes.CDLL("libssl.so.3")
    crypto = ctypes.CDLL("libcrypto.so.3")
    for f in (lib.TLS_client_method, lib.SSL_CTX_new, lib.SSL_new, crypto.BIO_s_mem,
              crypto.BIO_new):
        f.restype = ctypes.c_void_p
    crypto.BIO_ctrl.restype = ctypes.c_long
    context = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
    conn = ctypes.c_void_p(lib.SSL_new(context))
    lib.SSL_ctrl(conn, 55, 0, name.encode())  # SSL_set_tlsext_host_name
    lib.SSL_set_fd(conn, sock.fileno())
    if lib.SSL_connect(conn) != 1:
        return None
    kind = ctypes.c_void_p(crypto.BIO_s_mem())
    into, out = (ctypes.c_void_p(crypto.BIO_new(kind)) for _ in range(2))
    lib.SSL_set_bio(conn, into, out)
    for _ in range(n):
        if lib.SSL_key_update(conn, 0) != 1 or lib.SSL_do_handshake(conn) != 1:
            return None
    lib.SSL_write(conn, last, len(last))
    at = ctypes.c_void_p()
    length = crypto.BIO_ctrl(out, 3, 0, ctypes.byref(at))  # BIO_get_mem_data
    return ctypes.string_at(at, length)


def test_key_updates(egress, other):
    cell = egress.cell({"rules": [{"host": "web.example", "tls": "terminate"}]})
    s = cell.connect("web.example", 443)
    s.settimeout(None)
    flood = key_updates(s, "web.example", UPDATES, b"GET /x HTTP/1.0\r\n\r\n")
    tap.ok(flood and len(flood) > UPDATES * 20, "a flood of TLS messages without data is made")
    took = {}

    def send():
        began = time.monotonic()
        with contextlib.suppress(OSError):
            s.sendall(flood)
            while s.recv(4096):  # its own tickets, then the answer, then the end
                pass
        took["flood"] = time.monotonic() - began

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.1)  # the flood is being read meanwhile
    began = time.monotonic()
    with other.connect("web.example", 80, timeout=60) as o:
        r = ask(o, "GET / HTTP/1.1\r\nHost: web.example\r\n\r\n")
    took["other"] = time.monotonic() - began
    thread.join(60)
    tap.ok(r and r.status == 200 and "flood" in took and took["other"] < took["flood"] / 3,
           "others are served while it is read", took)
    s.close()
    cell.detach()


def test_connection_list(egress):
    cell = egress.cell({"rules": [{"host": "web.example", "paths": ["/**"]}]})
    request = (b"GET / HTTP/1.1\r\nHost: web.example\r\n"
               + b"".join(b"X%d: y\r\n" % i for i in range(60))
               + b"Connection: " + b"x," * 28000 + b"x\r\n\r\n")
    before = cpu_seconds(egress)
    with cell.connect("web.example", 80) as s:
        done = [ask(s, request).status for _ in range(40)]
    spent = cpu_seconds(egress) - before
    tap.ok(done == [200] * 40 and spent < 0.3, "a list of 28,000 headers is not read for each one",
           spent)
    cell.detach()


def test_mask_drip(egress):
    """A server that has a secret answers with how it begins, a byte at a time."""
    cell = egress.cell({"rules": [{"host": "drip.example", "paths": ["/**"]}]},
                       [{"name": "S", "value": DRIP, "hosts": ["drip.example"]}])
    before = cpu_seconds(egress)
    with cell.tls("drip.example") as s:
        s.settimeout(60)
        r = ask(s, "GET / HTTP/1.1\r\nHost: drip.example\r\n\r\n")
    spent = cpu_seconds(egress) - before
    got = len(r.body or b"")
    tap.ok(got == len(DRIPPED) and spent < 0.5, "what is held back is not looked at for each byte",
           (got, spent))
    cell.detach()


def test_dead_listener(egress):
    cell = egress.cell({"rules": [{"host": "web.example"}]})
    cell.tcp.shutdown(socket.SHUT_RDWR)
    egress.ping()
    before = cpu_seconds(egress)
    time.sleep(1)  # the time that is measured
    tap.ok(cpu_seconds(egress) - before < 0.2, "a listener that PID 1 has shut is not polled for ever")


def test_interim_pile(egress):
    cell = egress.cell({"rules": [{"host": "early.example", "paths": ["/**"]}]})
    before, socks = resident(egress), []
    where = cell.lookup("early.example")
    for _ in range(40):
        s = cell.connect(where, 80)
        s.sendall(b"GET / HTTP/1.1\r\nHost: early.example\r\n\r\n")
        socks.append(s)
    grown = (settled(lambda: resident(egress), 0.5) - before) >> 20
    tap.ok(grown < 25, "interim answers that are not read do not pile up", f"{grown} MiB")
    got = b""
    while b"200 OK" not in got and (data := socks[0].recv(1 << 16)):
        got += data
    tap.ok(got.count(b"HTTP/1.1 103") == 16, "and come when they are read")
    for s in socks:
        s.close()
    cell.detach()


# ---- policies that change

def test_denied_address(egress):
    rules = [{"host": "web.example"}, {"host": "web.example", "ports": [2222], "protocol": "tcp"},
             {"host": "web.example", "ports": [8080], "paths": ["/**"]}]
    cell = egress.cell({"rules": rules})
    raw, seen = cell.connect("web.example", 2222), cell.connect("web.example", 8080)
    raw.sendall(b"a")
    raw.recv(1)
    seen.sendall(b"GET /slow HTTP/1.1\r\nHost: web.example:8080\r\n\r\n")
    seen.recv(4096)
    deny = {"cidr": WEB + "/32", "action": "deny", "reason": "not there"}
    tap.same(cell.change({"rules": [deny, *rules]}), "", "an address is denied now")
    for sock, what in ((raw, "a tunnel"), (seen, "an answer")):
        sock.settimeout(5)
        cut = False
        try:
            sock.sendall(b"b")
            while sock.recv(4096):
                pass
        except ConnectionError:
            cut = True
        except OSError:
            pass
        tap.ok(cut, f"and {what} by a name that leads there is cut")
        sock.close()
    cell.detach()


# ---- secrets

def is_in_memory(egress, *needles):
    return any(needle in data for _, data in memory.pieces(egress.process.pid) for needle in needles)


def test_nothing_left(egress):
    secret, placeholder = "an-other-Secret-9876543210-xyz", "cordon_" + "fedcba9876543210" * 2
    needles = secret.encode(), base64.b64encode(b"user:" + secret.encode())[8:36]
    rule = {"host": "web.example", "secret": ["S"], "set_headers": {"X-Set": "v ${secret.S}"}}
    cell = egress.cell({"rules": [rule]},
                       [{"name": "S", "value": secret, "placeholder": placeholder,
                         "hosts": ["web.example"], "in": ["header", "basic", "body:key"]}])
    body = f'{{"key": "{placeholder}"}}'
    basic = base64.b64encode(f"user:{placeholder}".encode()).decode()
    with cell.tls("web.example") as s:
        r = ask(s, f"POST /store HTTP/1.1\r\nHost: web.example\r\nX-Key: {placeholder}\r\n"
                f"Authorization: Basic {basic}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}")
        tap.same((r.status, STORED[-1:]), (200, [secret]), "a secret was put in, in every way")
        tap.ok(is_in_memory(egress, *needles), "it is found in memory while it is in use")
        tap.same(cell.change({"rules": [{"host": "web.example", "tls": "terminate"}]}), "",
                 "it is taken away")
        tap.ok(not is_in_memory(egress, *needles), "and nothing of it is left in memory")
    cell.detach()


# ---- secrets that a server has stored

def test_stored_secret(egress):
    secret, placeholder = "s3cr3t-value-abcdef-0123456789", "cordon_" + "0123456789abcdef" * 2
    cell = egress.cell({"rules": [{"host": "web.example", "tls": "terminate"}]},
                       [{"name": "S", "value": secret, "placeholder": placeholder,
                         "hosts": ["web.example"]}])
    plain = cell.connect("web.example", 80)
    with cell.tls("web.example") as s:
        r = ask(s, f"GET /store HTTP/1.1\r\nHost: web.example\r\nX-Key: {placeholder}\r\n\r\n")
        tap.same((r.status, STORED[-1:]), (200, [secret]), "a server has stored a secret")
        for sock, how in ((s, "TLS"), (plain, "plain HTTP")):
            r = ask(sock, "GET /get HTTP/1.1\r\nHost: web.example\r\nAccept-Encoding: gzip\r\n\r\n")
            text = gzip.decompress(r.body) if r.get("Content-Encoding") else r.body
            tap.ok(secret.encode() not in text, f"it does not come back compressed, over {how}",
                   text)
            got = b""
            for at in range(0, 36, 4):
                got += ask(sock, "GET /get HTTP/1.1\r\nHost: web.example\r\n"
                           f"Range: bytes={at}-{at + 3}\r\n\r\n").body
            tap.ok(secret.encode() not in got, f"nor in pieces, over {how}", got)
    plain.close()
    cell.detach()


STORED = []


def web(request):
    path = request.line.split(" ")[1]
    if path == "/slow":
        request.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
        with contextlib.suppress(OSError):
            request.conn.recv(1)
        return None
    if path == "/store":
        STORED.append(request.get("X-Key"))
        return answer(b"stored")
    if path != "/get":
        return answer(b"hi")
    body = b"value=" + STORED[-1].encode()
    if request.get("Range"):
        first, last = (int(n) for n in request.get("Range").split("=")[1].split("-"))
        return answer(body[first:last + 1], "206 Partial Content")
    if "gzip" in (request.get("Accept-Encoding") or ""):
        return answer(gzip.compress(body), headers=["Content-Encoding: gzip"])
    return answer(body)


DRIP = "".join(chr(97 + i * i // 7 % 26) for i in range(2300))
DRIPPED = DRIP[:-1].encode() * 20


def drip(request):
    return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"".join(b"1\r\n%c\r\n" % c for c in DRIPPED) + b"0\r\n\r\n")


def early(request):
    for _ in range(16):
        request.conn.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: " + b"a" * 60000 + b"\r\n\r\n")
    return answer(b"late")


def slow_address():
    time.sleep(0.2)
    return WEB


def test_absent_descriptor(net):
    """Further CA certificates may be absent: the number of their descriptor is then the lowest free one, and egress's own
    epoll descriptor gets it."""
    egress = Egress(net, os.environ.get("CORDON_EGRESS", "./cordon-egress"), without=(9,))
    try:
        cell = egress.cell({"rules": [{"host": "web.example"}]})
        with cell.connect("web.example", 80) as s:
            r = ask(s, "GET / HTTP/1.1\r\nHost: web.example\r\n\r\n")
        tap.ok(r and r.status == 200, "egress serves without further authorities", r and r.line)
        cell.detach()
    except (OSError, ValueError) as e:
        tap.ok(False, "egress serves without further authorities", e)
    tap.same(egress.close(), 0, "and ends well")


def main():
    net = Net()
    net.name("web.example", WEB)
    net.name("pass.example", slow_address)
    net.name("early.example", "93.184.216.41")
    for port in (80, 8080):
        Origin(net, WEB, port, web)
    Origin(net, "93.184.216.41", 80, early)
    net.name("drip.example", "93.184.216.42")
    Origin(net, "93.184.216.42", 443, drip, tls=net.certificate("drip.example"))
    Echo(net, WEB, 2222, None)
    test_absent_descriptor(net)
    egress = Egress(net, os.environ.get("CORDON_EGRESS", "./cordon-egress"))
    other = egress.cell({"rules": [{"host": "web.example"}, {"host": "pass.example"}]})
    server = Listener(net, WEB, 443, None)
    server.first = None
    test_spliced_page(other, server)
    test_peek_offset(other, server)
    server.close()
    test_key_updates(egress, other)
    test_connection_list(egress)
    test_mask_drip(egress)
    test_dead_listener(egress)
    test_interim_pile(egress)
    test_denied_address(egress)
    Origin(net, WEB, 443, web, tls=net.certificate("web.example"))
    test_stored_secret(egress)
    test_nothing_left(egress)
    tap.same(egress.close(), 0, "it ends well")
    net.close()
    return tap.done()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
