"""HTTP servers of the world (namespaces.py) that keep what they got, for tests of cordon-egress."""

import contextlib
import os
import re
import socket
import sys
import threading

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import reader  # noqa: E402


class Request:
    """A request as a server got it: the head, and the body without its framing."""

    def __init__(self, head, body, conn):
        self.head, self.body, self.conn = head, body, conn
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        found = self.all(name)
        return found[0] if found else None


def answer(body=b"", status="200 OK", headers=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Reader(reader.Reader):
    """As the shared one, but None for what ends too early, which clients and servers here do on purpose."""

    def until(self, mark):
        try:
            return super().until(mark)
        except EOFError:
            return None

    def exactly(self, n):
        try:
            return super().exactly(n)
        except EOFError:
            return None

    def rest(self):
        parts = [self.consume(len(self.bytes))]
        try:
            while self.more():
                parts.append(self.consume(len(self.bytes)))
        except OSError:
            pass
        return b"".join(parts)

    def chunks(self):
        body = []
        while True:
            line = self.until(b"\r\n")
            if line is None:
                return None
            n = int(line, 16)
            piece = self.exactly(n + 2)
            if piece is None or piece[-2:] != b"\r\n":
                return None
            if n == 0:
                return b"".join(body)
            body.append(piece[:-2])


# Bytes that servers got outside of any request: after a body, or in place of a request line.
STRAYS = []
REQUEST_LINE = re.compile(rb"[!-~]+ (/|\*)[!-~]* HTTP/1\.1\r\n")


class Origin:
    """A server of the world. handle(request) returns bytes to send, or None to close, or has done
    everything with request.conn itself and returns b""."""

    def __init__(self, net, address, port, handle, tls=None, whole=True):
        net.address(address)
        self.handle, self.tls, self.whole = handle, tls, whole
        self.requests, self.connections, self.broken = [], 0, 0
        with net.inside(net.world):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.listener = socket.socket(family)
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((address, port))
            self.listener.listen(128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def close(self):
        self.listener.close()

    def serve(self, conn):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
            self.converse(conn)
        except OSError:
            self.broken += 1
        finally:
            with contextlib.suppress(OSError):
                conn.close()

    @staticmethod
    def stray(what):
        """Tap.done() fails if there are any: egress sends whole requests, one after the other."""
        STRAYS.append(bytes(what[:200]))

    def converse(self, conn):
        reader = Reader(conn)
        while True:
            head = reader.until(b"\r\n\r\n")
            if head is None:
                return
            if not REQUEST_LINE.match(head):
                self.stray(head)
                return
            request = Request(head, b"", conn)
            request.reader = reader
            if self.whole:
                if request.get("Content-Length"):
                    request.body = reader.exactly(int(request.get("Content-Length")))
                elif request.get("Transfer-Encoding"):
                    request.body = reader.chunks()
                if request.body is None:
                    self.broken += 1
                    return
                if reader.bytes and not request.get("Upgrade"):
                    self.stray(reader.bytes)
            self.requests.append(request)
            reply = self.handle(request)
            if reply is None:
                return
            conn.sendall(reply)
