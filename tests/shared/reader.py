"""reader.py - buffered reading from a socket, for tests that look at the bytes of HTTP themselves."""


class Reader:
    """Reads by mark or by length. END is raised when the peer has closed before that."""

    END = EOFError
    PIECE = 1 << 18

    def __init__(self, sock):
        self.socket, self.bytes = sock, b""

    def more(self):
        """Reads what is there; False at the end."""
        piece = self.socket.recv(self.PIECE)
        self.bytes += piece
        return bool(piece)

    def consume(self, n):
        taken, self.bytes = self.bytes[:n], self.bytes[n:]
        return taken

    def until(self, mark):
        seen = 0
        while (at := self.bytes.find(mark, max(0, seen - len(mark)))) < 0:
            seen = len(self.bytes)
            if not self.more():
                raise self.END(f"the end, after {self.bytes[:200]!r}")
        return self.consume(at + len(mark))

    def exactly(self, n):
        if len(self.bytes) < n:  # long bodies: not one copy of all of it for each piece
            parts, have = [self.bytes], len(self.bytes)
            while have < n:
                self.bytes = b""
                if not self.more():
                    self.bytes = b"".join(parts)
                    raise self.END(f"the end, {n - have} bytes too early")
                parts.append(self.bytes)
                have += len(self.bytes)
            self.bytes = b"".join(parts)
        return self.consume(n)

    def chunk(self):
        """One piece of a chunked body; b"" is its end."""
        data = self.exactly(int(self.until(b"\r\n").split(b";")[0], 16))
        if self.exactly(2) != b"\r\n":
            raise ValueError("a chunk does not end with CRLF")
        return data

    def at_end(self):
        """The peer has closed and nothing is left."""
        if self.bytes:
            return False
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
