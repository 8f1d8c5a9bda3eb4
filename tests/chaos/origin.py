"""origin.py - a server on the internet that answers as servers must not: each connection gets one of the kinds below,
often with bytes changed, dropped, doubled or inserted at random, in pieces of random size, over plain TCP or TLS.

It stands at raw.example, ports 8000 (plain) and 8001 (TLS), in the small internet of tests/egress."""
import random
import socket
import struct
import threading
import time

PLAIN, SECURE = 8000, 8001
OK = b"HTTP/1.1 200 OK\r\n"
BIG = b"x" * 70000


def chunked(*pieces, end=b"0\r\n\r\n", extension=b""):
    return b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in pieces) + end


KINDS = {
    "good": OK + b"Content-Length: 5\r\n\r\nhello",
    "good chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hello", BIG),
    "extension and trailer": OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hello", extension=b";a=1", end=b"0\r\nX: y\r\n\r\n"),
    "too short": OK + b"Content-Length: 100\r\n\r\nhello",
    "too long": OK + b"Content-Length: 5\r\n\r\nhello" + BIG,
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nhello12",
    "length and chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"hello"),
    "huge chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
    "negative length": OK + b"Content-Length: -1\r\n\r\nhello",
    "no end of chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hello", end=b""),
    "no head": b"\r\n\r\n" + BIG,
    "old": b"HTTP/1.0 200 OK\r\n\r\n" + BIG,
    "status": b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
    "interim": b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" * 50 + OK + b"Content-Length: 2\r\n\r\nok",
    "endless interim": b"HTTP/1.1 100 Continue\r\n\r\n" * 20000,
    "unasked upgrade": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n" + BIG,
    "many headers": OK + b"".join(b"X-%d: y\r\n" % i for i in range(20000)) + b"Content-Length: 0\r\n\r\n",
    "long header": OK + b"X: " + b"y" * 300000 + b"\r\nContent-Length: 0\r\n\r\n",
    "nul": OK + b"X: a\0b\r\nContent-Length: 1\r\n\r\nx",
    "folded": OK + b"X: a\r\n b\r\nContent-Length: 1\r\n\r\nx",
    "no body": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
    "two answers": (OK + b"Content-Length: 1\r\n\r\nx") * 3,
    "gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + b"\x1f\x8b" + b"\xff" * 18,
    "not http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "not tls": b"\x15\x03\x03\x00\x02\x02\x28",
    "nothing": b"",
    "reset": None,
}


def mutated(data, dice):
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(data) + 1) if dice.random() < 0.3 else dice.randrange(min(len(data), 200) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            data = data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[at + dice.randrange(1, 20) :]
        elif kind == 2:
            data = data[:at] + data[at : at + 30] + data[at:]
        else:
            data = data[:at] + dice.choice([b"\r\n", b"\n", b"\0", b":", b" ", b"0", b"\xff", b"\r"]) + data[at:]
    return data


class Origin:
    def __init__(self, net, seed):
        self.random, self.served, self.mutations = random.Random(f"{seed}/origin"), 0, 0
        self.context = net.sites.certificate("hostile", ["raw.example"])
        with net.inside(net.world):
            for port in (PLAIN, SECURE):
                listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
                threading.Thread(target=self.accept, args=(listener, port), daemon=True).start()

    def accept(self, listener, port):
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=self.serve, args=(conn, port, random.Random(self.random.random())), daemon=True).start()

    def serve(self, conn, port, dice):
        try:
            conn.settimeout(2)
            if port == SECURE and dice.random() < 0.9:
                conn = self.context.wrap_socket(conn, server_side=True)
            while dice.random() < 0.9:
                if dice.random() < 0.95:
                    self.take(conn)
                if not self.answer(conn, dice):
                    return
        except (OSError, ValueError):
            pass
        finally:
            try:
                conn.close()
            except OSError:
                pass

    @staticmethod
    def take(conn):
        """A request's head, and what came with it."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = conn.recv(65536)
            if not piece:
                raise OSError("gone")
            data += piece

    def answer(self, conn, dice):
        """False: the connection is over."""
        self.served += 1
        data = dice.choice(list(KINDS.values()))
        if data is None:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if dice.random() < 0.6:
            self.mutations += 1
            data = mutated(data, dice)
        if dice.random() < 0.2:
            data = data[: dice.randrange(len(data) + 1)]
        step = dice.choice([1 << 20, 1 << 20, 1000, 7])
        for at in range(0, len(data), step):
            conn.sendall(data[at : at + step])
            if step < 1 << 20 and at < 2000:
                time.sleep(0.001)
        return dice.random() < 0.5

