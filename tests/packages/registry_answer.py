"""registry_answer.py - what a fake registry answers, and how a test makes it lie (faults).

A fault is a function of (request, Answer) that returns an Answer; Registry.fault(pattern, fault) puts it on paths.

    registry.fault("/simple/demo/", redirect("https://evil.example/"))
    registry.fault("*.tgz", last_byte, times=1)
"""
import gzip
import time


class Answer:
    """pace: (bytes, seconds) sends so many at a time; cut: closes after so many bytes of the body; raw: these bytes and
    nothing else; stream: an iterator of pieces in place of the body; length: what Content-Length claims."""

    def __init__(self, body=b"", status=200, kind="application/octet-stream", headers=None, reason="Answer"):
        self.body, self.status, self.reason = body, status, reason
        self.headers = {"Content-Type": kind, **(headers or {})}
        self.pace = self.cut = self.raw = self.stream = self.length = None
        self.wait = 0

    def head(self, method):
        length = self.length if self.length is not None else len(self.body)
        lines = [f"HTTP/1.1 {self.status} {'OK' if self.status == 200 else self.reason}"]
        if self.status != 304 and self.stream is None:
            lines.append(f"Content-Length: {length}")
        elif self.stream is not None:
            lines.append("Connection: close")
        lines += [f"{name}: {value}" for name, value in self.headers.items() if value is not None]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def send(self, conn, method="GET"):
        """True: the connection may be used again."""
        if self.wait:
            time.sleep(self.wait)  # the delay of a server far away
        if self.raw is not None:
            conn.sendall(self.raw)
            return False
        body = b"" if method == "HEAD" or self.status == 304 else self.body
        if self.pace is None and self.cut is None and self.stream is None:
            conn.sendall(self.head(method) + body)
            return self.length is None
        conn.sendall(self.head(method))
        pieces = self.stream if self.stream is not None else [body if self.cut is None else body[:self.cut]]
        for piece in pieces:
            size, pause = self.pace or (len(piece) or 1, 0)
            for at in range(0, len(piece), size):
                conn.sendall(piece[at:at + size])
                time.sleep(pause)  # the pace of a slow server
        return self.cut is None and self.stream is None


def last_byte(_, a):
    """The right length, and one wrong byte at the end."""
    a.body = a.body[:-1] + bytes([a.body[-1] ^ 1])
    return a


def first_byte(_, a):
    a.body = bytes([a.body[0] ^ 1]) + a.body[1:]
    return a


def short(_, a):
    """A whole answer with fewer bytes."""
    a.body = a.body[:len(a.body) // 2]
    return a


def cut(_, a):
    """The connection ends in the middle."""
    a.cut = len(a.body) // 2
    return a


def long(_, a):
    """More bytes than the metadata says, framed as such."""
    a.body += b"more" * 100
    return a


def overrun(_, a):
    """More bytes than Content-Length says."""
    a.length = len(a.body)
    a.body += b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    return a


def body(data, kind=None):
    """Other bytes."""
    def fault(_, a):
        a.body, a.status = data, 200
        if kind:
            a.headers["Content-Type"] = kind
        return a
    return fault


def status(code, text=b"broken", **headers):
    def fault(_, a):
        return Answer(text, code, "text/plain", {k.replace("_", "-"): v for k, v in headers.items()})
    return fault


def header(**more):
    """The same answer with these headers (_ for -)."""
    def fault(_, a):
        a.headers.update({k.replace("_", "-"): v for k, v in more.items()})
        return a
    return fault


def redirect(to, code=302):
    return lambda q, a: Answer(b"", code, headers={"Location": to(q) if callable(to) else to})


def slow(size=1000, pause=0.05):
    def fault(_, a):
        a.pace = size, pause
        return a
    return fault


def delay(seconds):
    def fault(_, a):
        a.wait = seconds
        return a
    return fault


def silent(_, a):
    """No answer for a minute."""
    a.wait, a.raw = 60, b""
    return a


def bomb(megabytes=1024):
    """A small body that gzip makes large, whatever the client accepts."""
    def fault(_, a):
        a.body = gzip.compress(b" " * (1 << 20), 9, mtime=0) * megabytes  # members of gzip may follow each other
        a.headers["Content-Encoding"] = "gzip"
        return a
    return fault


def gzip_lie(_, a):
    """Says gzip, is not."""
    a.headers["Content-Encoding"] = "gzip"
    return a


def encoded(name):
    """An encoding that nobody asked for."""
    return header(Content_Encoding=name)


def partial(_, a):
    """206 as if it were the whole."""
    half = len(a.body) // 2
    return Answer(a.body[:half], 206, headers={"Content-Range": f"bytes 0-{half - 1}/{len(a.body)}"})


def endless(first=b"", piece=b" " * 65536, count=1 << 14):
    """A body that goes on (count pieces, 1 GiB) and has no length."""
    def fault(_, a):
        a.stream = (piece if n else first + piece for n in range(count))
        return a
    return fault


def changing(*faults):
    """Each request gets the next one; None: as it is. The last stays."""
    seen = []

    def fault(q, a):
        one = faults[min(len(seen), len(faults) - 1)]
        seen.append(q)
        return one(q, a) if one else a
    return fault
