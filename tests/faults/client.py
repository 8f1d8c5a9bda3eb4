"""client.py - one request on a connection of its own, and an answer that is whole, or cut, or none. An answer that does
not come to an end in time is a finding, whatever was made to fail."""
import json
import socket

PATIENCE = 25.0


class Finding(Exception):
    """What must not happen."""


class Answer:
    def __init__(self, what):
        self.what, self.status, self.headers, self.data, self.whole = what, 0, {}, b"", False

    @property
    def json(self):
        return json.loads(self.data)

    def __repr__(self):
        return f"{self.what}: {self.status}{'' if self.whole else ' (cut)'} {self.data[:200]!r}"


class Link:
    """Reads an answer as it comes; what is missing at the end of the connection is told."""

    def __init__(self, address, method, path, headers, body, patience=PATIENCE):
        self.answer = Answer(f"{method} {path.split('?')[0]}")
        self.bytes, self.socket = b"", None
        self.patience = patience
        sent = {"Host": "%s:%d" % address, "Connection": "close", **headers}
        if body is not None and "Transfer-Encoding" not in sent:
            sent["Content-Length"] = str(len(body))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in sent.items()) + "\r\n"
        try:
            self.socket = socket.create_connection(address, patience)
            try:
                self.socket.sendall(head.encode() + (body or b""))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before it had all
            self.read_head()
        except TimeoutError:
            raise Finding(f"{self.answer.what}: no answer in {patience:.0f} s") from None
        except (OSError, EOFError):
            self.close()

    def more(self):
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise EOFError
        self.bytes += piece

    def until(self, mark):
        while (at := self.bytes.find(mark)) < 0:
            self.more()
        taken, self.bytes = self.bytes[: at + len(mark)], self.bytes[at + len(mark) :]
        return taken

    def exactly(self, n):
        while len(self.bytes) < n:
            self.more()
        taken, self.bytes = self.bytes[:n], self.bytes[n:]
        return taken

    def read_head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.answer.headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines[1:] if line)}
        self.answer.status = int(lines[0].split()[1])

    def chunk(self):
        size = int(self.until(b"\r\n").split(b";")[0], 16)
        data = self.exactly(size)
        self.exactly(2)
        return data

    def read_body(self):
        a = self.answer
        if a.headers.get("transfer-encoding") == "chunked":
            while piece := self.chunk():
                a.data += piece
        elif "content-length" in a.headers:
            want = int(a.headers["content-length"])
            while len(self.bytes) < want:
                self.more()
            a.data = self.exactly(want)
        elif a.status not in (101, 204, 304):
            raise Finding(f"{a.what}: an answer without an end: {a.headers}")
        a.whole = True

    def finish(self):
        """The answer, to its end."""
        if self.socket is None:
            return self.answer
        try:
            self.read_body()
        except TimeoutError:
            raise Finding(f"{self.answer!r}: nothing more in {self.patience:.0f} s") from None
        except (OSError, EOFError):
            self.answer.data += self.bytes if not self.answer.data else b""
        self.close()
        if self.answer.whole and self.answer.headers.get("content-type", "").startswith("application/json"):
            try:
                json.loads(self.answer.data or b"null")
            except ValueError:
                raise Finding(f"{self.answer!r}: broken JSON") from None
        return self.answer

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None
