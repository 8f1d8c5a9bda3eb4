"""What the tests of the reverse proxy share. Each test has an upstream of its own, a server of which a function plays every
connection byte by byte, and the proxy in front of it."""
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from wire import Reader, Server, chunks, is_sanitized, read_head, settled

PROGRAM = sys.argv[1]
MIB = 1024 * 1024
GET = b"GET /x HTTP/1.1\r\nHost: here.example\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


class Upstream:
    """Calls play(sock, reader) for each connection. What play raises is raised again by close()."""

    def __init__(self, play, unix=None):
        self.play, self.faults, self.threads, self.connections = play, [], [], 0
        if unix:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(unix)
            self.address = f"unix:{unix}"
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.listener.listen(128)
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self.one, args=(s,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def one(self, s):
        s.settimeout(120)
        try:
            with s:
                self.play(s, Reader(s))
        except BaseException as fault:
            self.faults.append(fault)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the acceptor
        self.acceptor.join(20)
        self.listener.close()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "an upstream hangs"
        if self.faults:
            raise self.faults[0]


class Front(Server):
    """The proxy in front of an upstream that plays play."""

    def __init__(self, play, unix=None, **options):
        self.upstream = Upstream(play, unix)
        super().__init__(PROGRAM, upstream=self.upstream.address, **options)

    def __exit__(self, kind, value, trace):
        self.close()
        if kind is None:
            self.upstream.close()


class Head:
    """A request as the upstream sees it."""

    def __init__(self, reader):
        lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.line, self.lines = lines[0], lines[1:-2]
        self.pairs = [tuple(line.split(": ", 1)) for line in self.lines]
        self.headers = {}
        for name, value in self.pairs:
            self.headers.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name):
        values = self.headers.get(name, [])
        assert len(values) <= 1, f"{name}: {values}"
        return values[0] if values else None


def body_of(head, reader):
    if head["transfer-encoding"] == "chunked":
        assert head["content-length"] is None
        return b"".join(chunks(reader))
    return reader.exactly(int(head["content-length"] or 0))


def echo(s, reader):
    head = Head(reader)
    body = body_of(head, reader)
    s.sendall(b"HTTP/1.1 200 OK\r\nX-Line: %s\r\nContent-Length: %d\r\n\r\n" % (head.line.encode(), len(body)) + body)


def answers_with(answer):
    """An upstream that reads a head, sends this and closes."""
    def play(s, reader):
        Head(reader)
        s.sendall(answer)
    return play


def until_reset(s):
    """All that comes; True if it ended by a reset or other than by a clean end."""
    got = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return got, False
            got += piece
    except (ConnectionResetError, ssl.SSLError):
        return got, True


def body_reader(s):
    reader = Reader(s)
    read_head(reader)
    return reader


def keeps_little(front, limit):
    rss = settled(lambda: front.stats()["rss"], 0.5)
    assert rss < limit or is_sanitized(PROGRAM), rss


UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: thing/2\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Sure\r\nConnection: upgrade\r\nUpgrade: thing/2\r\n\r\n"


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


CERT = None


def tls_front(play, **options):
    global CERT
    if CERT is None:
        CERT = tempfile.TemporaryDirectory()
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                               "-keyout", f"{CERT.name}/key", "-out", f"{CERT.name}/cert", "-days", "2", "-subj", "/CN=localhost",
                               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True)
        assert made.returncode == 0, made.stderr
    front = Front(play, cert=f"{CERT.name}/cert", key=f"{CERT.name}/key", **options)
    context = ssl.create_default_context(cafile=f"{CERT.name}/cert")
    plain = front.connect
    front.connect = lambda *a, **k: context.wrap_socket(plain(*a, **k), server_hostname="localhost", suppress_ragged_eofs=False)
    return front
