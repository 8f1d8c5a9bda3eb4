"""wire.py - the tests' own end of the wire: raw sockets, so that the server sees exactly these bytes."""
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
from checks import Skip, note, settled, wait_for  # noqa: E402,F401
from reader import Reader  # noqa: E402,F401
from sanitizer import is_sanitized  # noqa: E402,F401


class Server:
    """One echo_server, ended and checked by close()."""

    def __init__(self, program, address="127.0.0.1:0", wrapper=(), **options):
        args = [*wrapper, program, address, *(f"{k}={v}" for k, v in options.items())]
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"no server: {self.process.stderr.read()}")
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def connect(self, timeout=10, receive_buffer=0):
        if self.address.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            target = self.address[5:]
        else:
            s = socket.socket()
            host, port = self.address.rsplit(":", 1)
            target = (host, int(port))
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(target)
        return s

    def ask(self, request, timeout=10):
        """Sends bytes; gives all that comes until the server closes, or has answered and is silent."""
        with self.connect(timeout) as s:
            s.sendall(request)
            return read_answer(Reader(s))

    def get(self, path):
        return self.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    def round_trip(self):
        """Asks for something and reads the answer: then the server has also read what was sent to it before."""
        assert self.get("/stats").status == 200

    def stats(self):
        import json
        return json.loads(self.get("/stats").body)

    def close(self):
        """A clean end: also the place where sanitizers speak."""
        if self.process.poll() is None:
            try:
                self.get("/quit")
            except OSError:
                self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        if self.process.returncode != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}: {said[-3000:]}")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


def read_head(reader):
    lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
    match = re.fullmatch(r"HTTP/1\.1 (\d{3}) ?(.*)", lines[0])
    assert match, lines[0]
    headers = {}
    for line in lines[1:-2]:
        name, value = line.split(": ", 1)
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value
    return int(match[1]), headers


def read_answer(reader, method="GET"):
    status, headers = read_head(reader)
    assert not ("content-length" in headers and "transfer-encoding" in headers)
    if method == "HEAD" or status in (204, 304) or status < 200:
        return Answer(status, headers, b"")
    if "content-length" in headers:
        return Answer(status, headers, reader.exactly(int(headers["content-length"])))
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, b"".join(chunks(reader)))
    while reader.more():
        pass
    return Answer(status, headers, reader.bytes)


def chunks(reader):
    while True:
        size = int(reader.until(b"\r\n")[:-2], 16)
        piece = reader.exactly(size)
        assert reader.exactly(2) == b"\r\n"
        if size == 0:
            return
        yield piece


# ---- WebSocket

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def ws_open(sock, path="/ws"):
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                 f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n".encode())
    reader = Reader(sock)
    status, headers = read_head(reader)
    assert status == 101, status
    assert headers["sec-websocket-accept"] == ACCEPT, headers
    assert headers["upgrade"] == "websocket" and headers["connection"] == "Upgrade", headers
    assert "content-length" not in headers
    return reader


def ws_frame(opcode, payload=b"", fin=True, masked=True, rsv=0):
    head = bytes([(0x80 if fin else 0) | rsv | opcode])
    n = len(payload)
    bit = 0x80 if masked else 0
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", n)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(payload))


def ws_read(reader):
    """(opcode, payload) of the next frame."""
    first, second = reader.exactly(2)
    assert first & 0x80 and not second & 0x80, "a server's frames: whole here, and not masked"
    n = second & 127
    if n == 126:
        n, = struct.unpack(">H", reader.exactly(2))
    elif n == 127:
        n, = struct.unpack(">Q", reader.exactly(8))
    return first & 15, reader.exactly(n)


# ---- TAP

def run(tests):
    """Each test is a function; its name, with spaces, is what is reported. Raise Skip(why) to skip."""
    failed = 0
    print(f"1..{len(tests)}")
    for i, test in enumerate(tests, 1):
        name, began = test.__name__.replace("_", " "), time.monotonic()
        try:
            test()
            print(f"ok {i} - {name}")
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}")
        except BaseException:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("#", line)
            print(f"not ok {i} - {name}")
        note(f"{time.monotonic() - began:.2f} s")
    return 1 if failed else 0


def wait_until(condition, seconds=20.0):
    wait_for(condition, seconds, "what the test waits for")
