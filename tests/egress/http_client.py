"""Reads HTTP answers as a program in a cell gets them, for tests of cordon-egress."""

from origin_server import Reader


class Response:
    def __init__(self, head, body, whole):
        lines = head.decode("latin-1").split("\r\n")
        self.line, self.body, self.whole = lines[0], body, whole
        self.status = int(self.line.split(" ")[1])
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        found = self.all(name)
        return found[0] if found else None


def read_response(reader, method="GET"):
    """One answer; None if the connection ended before its head did."""
    try:
        head = reader.until(b"\r\n\r\n")
    except OSError:
        return None
    if head is None:
        return None
    r = Response(head, b"", True)
    try:
        if method == "HEAD" or r.status < 200 or r.status in (204, 304):
            return r
        if r.get("Content-Length") is not None:
            r.body = reader.exactly(int(r.get("Content-Length")))
        elif r.get("Transfer-Encoding"):
            r.body = reader.chunks()
        else:
            r.body = reader.rest()
    except OSError:
        r.body = None
    r.whole = r.body is not None
    return r


def ask(sock, text, method="GET"):
    """Sends, and reads one answer."""
    sock.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
    return read_response(Reader(sock), method)
