#!/usr/bin/python3
"""The HTTP server of src/lib/net by raw sockets, WebSockets, tunnels and TLS: test_server_upgrades.py ECHO_SERVER [TEST]..."""
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_common import PROGRAM, pattern
from wire import Reader, Server, Skip, is_sanitized, read_answer, read_head, run, wait_until, ws_frame, ws_open, ws_read


def ws_echo():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = ws_open(s)
        for n in (0, 1, 125, 126, 5000, 65535, 65536, 100000):
            s.sendall(ws_frame(2, pattern(n)))
            assert ws_read(reader) == (2, pattern(n)), n
        s.sendall(ws_frame(1, "größe".encode()))
        assert ws_read(reader) == (1, "größe".encode())
        s.sendall(ws_frame(8, struct.pack(">H", 1000) + b"bye"))
        assert ws_read(reader) == (8, struct.pack(">H", 1000))
        assert reader.at_end()
        wait_until(lambda: server.stats()["answered"] >= 2)
        assert server.stats()["gone"] == 0


def ws_fragments_and_pings():
    with Server(PROGRAM) as server, server.connect() as s:
        reader = ws_open(s)
        text = "a€b".encode()
        s.sendall(ws_frame(1, text[:2], fin=False) + ws_frame(9, b"ping") + ws_frame(0, text[2:3], fin=False) +
                  ws_frame(10, b"unasked") + ws_frame(0, b"", fin=False) + ws_frame(0, text[3:]))
        assert ws_read(reader) == (10, b"ping")
        assert ws_read(reader) == (1, text)
        for byte in ws_frame(2, b"slowly") + ws_frame(9, b"x" * 125):
            s.sendall(bytes([byte]))
        assert ws_read(reader) == (2, b"slowly")
        assert ws_read(reader) == (10, b"x" * 125)


def ws_faults_have_their_codes():
    cases = {
        "not masked": (ws_frame(1, b"x", masked=False), 1002),
        "RSV bit": (ws_frame(1, b"x", rsv=0x40), 1002),
        "unknown opcode": (ws_frame(3, b"x"), 1002),
        "unknown control opcode": (ws_frame(11, b"x"), 1002),
        "long ping": (ws_frame(9, b"x" * 126), 1002),
        "ping in fragments": (ws_frame(9, b"x", fin=False), 1002),
        "continuation of nothing": (ws_frame(0, b"x"), 1002),
        "message inside a message": (ws_frame(1, b"x", fin=False) + ws_frame(1, b"y"), 1002),
        "length not minimal": (b"\x82\xfe\x00\x05" + b"\0\0\0\0hello", 1002),
        "length of 63 bits": (b"\x82\xff\x80" + b"\0" * 7 + b"\0\0\0\0", 1002),
        "too big": (ws_frame(2, b"x" * 100001)[:100], 1009),
        "too big in fragments": (ws_frame(2, b"x" * 60000, fin=False) + ws_frame(0, b"x" * 60000)[:100], 1009),
        "not UTF-8": (ws_frame(1, b"\xff\xfe"), 1007),
        "overlong UTF-8": (ws_frame(1, b"\xc0\x80"), 1007),
        "cut UTF-8": (ws_frame(1, b"a\xe2\x82"), 1007),
        "not UTF-8 in the first fragment": (ws_frame(1, b"\xed\xa0\x80", fin=False), 1007),
        "close with one byte": (ws_frame(8, b"\x03"), 1002),
        "close with 1005": (ws_frame(8, struct.pack(">H", 1005)), 1002),
        "close with 999": (ws_frame(8, struct.pack(">H", 999)), 1002),
        "close without UTF-8": (ws_frame(8, struct.pack(">H", 1000) + b"\xff"), None),
    }
    with Server(PROGRAM) as server:
        for name, (frames, code) in cases.items():
            with server.connect() as s:
                reader = ws_open(s)
                s.sendall(frames)
                opcode, payload = ws_read(reader)
                got, = struct.unpack(">H", payload[:2])
                assert opcode == 8 and got == (code or got) and got in (1002, 1007, 1009), (name, got)
                assert reader.at_end(), name
        wait_until(lambda: server.stats()["gone"] == len(cases))


def ws_closing():
    with Server(PROGRAM) as server:
        with server.connect() as s:  # by the server; its peer answers
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"close"))
            assert ws_read(reader) == (8, struct.pack(">H", 4001) + b"as you wish")
            s.sendall(ws_frame(1, b"not seen any more") + ws_frame(8, struct.pack(">H", 4001)))
            assert reader.at_end()
        with server.connect() as s:  # without a code
            reader = ws_open(s)
            s.sendall(ws_frame(8))
            assert ws_read(reader)[0] == 8 and reader.at_end()
        with server.connect() as s:  # its peer just goes
            ws_open(s)
        wait_until(lambda: server.stats()["gone"] == 1)
        assert server.stats()["answered"] >= 2


def ws_backpressure():
    with Server(PROGRAM) as server:
        with server.connect(receive_buffer=4096) as s:
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"flood"))  # 2,000 messages of 1,000 bytes
            server.round_trip()  # the messages are sent, as far as there is room
            s.sendall(ws_frame(9, b"p") * 100)
            got = pongs = 0
            while got < 2000 or pongs < 100:
                opcode, payload = ws_read(reader)
                if opcode == 10:
                    pongs += 1
                else:
                    assert opcode == 2 and payload == pattern(1000)
                    got += 1
        with server.connect() as s:  # a handler that takes nothing for a while
            reader = ws_open(s)
            s.sendall(ws_frame(1, b"pause"))
            server.round_trip()
            began = time.monotonic()
            s.sendall(ws_frame(1, b"x") * 3)
            assert [ws_read(reader) for _ in range(3)] == [(1, b"x")] * 3
            assert time.monotonic() - began > 0.1


def ws_needs_a_correct_handshake():
    with Server(PROGRAM) as server:
        head = b"GET /ws HTTP/1.1\r\nHost: x\r\n"
        for lines in (b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n",
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                      b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"):
            assert server.ask(head + lines + b"\r\n").status == 426


TUNNEL = b"GET /tunnel HTTP/1.1\r\nHost: x\r\n\r\n"


def tunnel_echo(server):
    with server.connect() as s:
        s.sendall(TUNNEL + b"right behind")  # and no request, though it looks like none of one's business
        reader = Reader(s)
        status, headers = read_head(reader)
        assert status == 101 and headers["upgrade"] == "echo" and headers["connection"] == "Upgrade", headers
        assert not {"content-length", "transfer-encoding", "keep-alive"} & set(headers), headers
        assert reader.exactly(14) == b"hiright behind"
        for n in (1, 16384, 65536, 500000):
            s.sendall(pattern(n))
            assert reader.exactly(n) == pattern(n), n
        s.sendall(TUNNEL)  # bytes as any others
        assert reader.exactly(len(TUNNEL)) == TUNNEL
        return s, reader


def tunnels():
    with Server(PROGRAM, body_ms=300, idle_ms=300, head_ms=300) as server:
        tunnel_echo(server)
        with server.connect() as s:
            s.sendall(TUNNEL)
            reader = Reader(s)
            assert read_head(reader)[0] == 101 and reader.exactly(2) == b"hi"
            time.sleep(1)  # no timeout but that of writing
            s.sendall(b"still here?")
            assert reader.exactly(11) == b"still here?"
            s.shutdown(socket.SHUT_WR)
            assert reader.exactly(3) == b"bye" and reader.at_end()
        with server.connect() as s:
            s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1"))
            reader = Reader(s)
            assert read_head(reader)[0] == 101
            assert reader.exactly(9) == b"only this" and reader.at_end()
            s.sendall(b"x" * 500)  # our way is open still
            server.round_trip()
            s.sendall(b"x" * 499)  # which a closed connection would have answered by a reset
            server.round_trip()
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            wait_until(lambda: server.stats()["connections"] == 2)
            s.close()
            wait_until(lambda: server.stats()["connections"] == 1)
        with server.connect() as s:
            s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1") + b"x" * 1000)
            try:
                while s.recv(1000):
                    pass
            except ConnectionResetError:
                pass
            wait_until(lambda: server.stats()["connections"] == 1)
        for request in (b"POST /tunnel HTTP/1.1\r\nHost: x\r\n\r\n", TUNNEL):
            with server.connect() as s:  # gone in the middle
                s.sendall(request)
                assert read_head(Reader(s))[0] == 101
        wait_until(lambda: server.stats()["connections"] == 1)


def tunnel_backpressure():
    """An echo whose client does not read takes nothing more, keeps little, and is dropped after write_ms."""
    with Server(PROGRAM, write_ms=1500) as server, server.connect(receive_buffer=4096) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        before = server.stats()["rss"]
        s.sendall(TUNNEL)
        s.settimeout(0.5)
        sent = 0
        try:
            while True:
                sent += s.send(bytes(65536))
                assert sent < 30_000_000
        except socket.timeout:
            pass
        assert server.stats()["rss"] < before + 4_000_000 or is_sanitized(PROGRAM)
        s.settimeout(10)
        wait_until(lambda: server.stats()["connections"] == 1, 10)  # the one that asks
        try:
            s.sendall(bytes(65536))
            s.sendall(bytes(10_000_000))
            raise AssertionError("it was not dropped")
        except (ConnectionResetError, BrokenPipeError):
            pass


def tunnels_end_with_the_server():
    with Server(PROGRAM) as server, server.connect() as s, server.connect() as quiet:
        s.sendall(TUNNEL)
        reader = Reader(s)
        assert read_head(reader)[0] == 101 and reader.exactly(2) == b"hi"
        quiet.sendall(b"GET /drain HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(Reader(quiet)).status == 200
        assert reader.at_end()
        server.process.terminate()
        server.process.wait()
        server.process.returncode = 0  # it does not listen any more, so it cannot be asked to quit


def make_certificate(folder):
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-keyout", f"{folder}/key", "-out", f"{folder}/cert", "-days", "2", "-subj", "/CN=localhost",
                           "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True)
    if made.returncode != 0:
        raise Skip("no openssl to make a certificate")


def tls():
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(folder)
        context = ssl.create_default_context(cafile=f"{folder}/cert")
        with Server(PROGRAM, cert=f"{folder}/cert", key=f"{folder}/key", head_ms=500, body_ms=500) as server:
            server.get = lambda path: server.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            plain = server.connect
            server.connect = lambda *a, **k: context.wrap_socket(plain(*a, **k), server_hostname="localhost")
            with server.connect() as s:
                assert s.version() in ("TLSv1.2", "TLSv1.3")
                reader = Reader(s)
                for n in (0, 10, 16384, 16385, 900000):
                    s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + pattern(n))
                    assert read_answer(reader).body == pattern(n), n
                s.sendall(b"POST /count-slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" + pattern(500000))
                assert read_answer(reader).body == b"500000\n"
                s.sendall(b"GET /stream?bytes=20000000 HTTP/1.1\r\nHost: x\r\n\r\n")
                assert len(read_answer(reader).body) == 20000000
                s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 30)
                for _ in range(30):
                    assert read_answer(reader).body == b"hello\n"
            with server.connect() as s:
                reader = ws_open(s)
                s.sendall(ws_frame(2, pattern(90000)))
                assert ws_read(reader) == (2, pattern(90000))
            tunnel_echo(server)
            with server.connect() as s:
                s.sendall(TUNNEL.replace(b"/tunnel", b"/tunnel?shut=1"))
                reader = Reader(s)
                assert read_head(reader)[0] == 101 and reader.exactly(9) == b"only this"
                assert s.recv(1) == b""  # a goodbye of TLS, and no more: the connection is there
                assert server.stats()["connections"] == 2
            assert server.ask(b"GET /hello HTTP/1.1\r\n\r\n").status == 400
            assert server.ask(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n").status == 408
            with plain() as s:  # no handshake: head_ms
                began = time.monotonic()
                assert Reader(s).at_end() and time.monotonic() - began < 3
            with plain() as s:  # no TLS at all
                s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                try:
                    assert b"hello" not in s.recv(1000)
                except ConnectionResetError:
                    pass
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")  # else it would not even try
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            try:
                old.wrap_socket(plain())
                raise AssertionError("TLS 1.1 was accepted")
            except ssl.SSLError as e:
                assert "ALERT" in e.reason, e  # the server's no
            for _ in range(100):  # handshakes cut at random
                s = plain()
                s.sendall(os.urandom(random.randrange(300)) if random.random() < 0.5 else b"\x16\x03\x01\x02\x00\x01")
                s.close()
            assert server.get("/hello").body == b"hello\n"


TESTS = [ws_echo, ws_fragments_and_pings, ws_faults_have_their_codes, ws_closing, ws_backpressure,
         ws_needs_a_correct_handshake, tunnels, tunnel_backpressure, tunnels_end_with_the_server, tls]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 3 or t.__name__ in sys.argv[2:]]))
