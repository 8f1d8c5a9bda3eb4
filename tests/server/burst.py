"""burst.py - many requests at the same moment from one thread, so that what is measured is the server and
not the interpreter: all connections are opened and all requests are sent before the first answer is read.

    for answer in burst(server, 200, key=key):
        answer.status, answer.body, answer.seconds (from the sending to the last byte)
"""
import json
import selectors
import socket
import time


class Answer:
    def __init__(self, number):
        self.number, self.bytes, self.status, self.headers, self.body = number, b"", 0, {}, None
        self.began = self.seconds = 0.0

    def take(self, piece):
        """True when it is whole."""
        self.bytes += piece
        head, mark, rest = self.bytes.partition(b"\r\n\r\n")
        if not mark:
            return False
        lines = head.decode("latin-1").split("\r\n")
        self.headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines[1:])}
        if len(rest) < int(self.headers.get("content-length", 0)):
            return False
        self.status = int(lines[0].split()[1])
        self.body = json.loads(rest) if rest else None
        self.seconds = time.monotonic() - self.began
        return True


class Burst:
    """Sends when made; answers() reads them all. method, path and body may be lists of equal length."""

    def __init__(self, server, count, key="", method="POST", path="/v1/sessions", body=None):
        self.poll, self.answers_left, self.all = selectors.DefaultSelector(), 0, []
        sockets = []
        for _ in range(count):
            s = socket.socket()
            s.settimeout(10)
            s.connect(server.address)
            sockets.append(s)
        for number, s in enumerate(sockets):
            pick = lambda v: v[number] if isinstance(v, list) else v  # noqa: E731, B023
            data = json.dumps(pick(body) or {}).encode()
            head = (
                f"{pick(method)} {pick(path)} HTTP/1.1\r\nHost: test\r\nX-API-Key: {key or server.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            answer = Answer(number)
            answer.began = time.monotonic()
            s.sendall(head.encode() + data)
            s.setblocking(False)
            self.poll.register(s, selectors.EVENT_READ, answer)
            self.all.append(answer)
        self.answers_left = count

    def step(self, timeout=0.0):
        """Reads what has come."""
        for key, _ in self.poll.select(timeout):
            piece = key.fileobj.recv(65536)
            if key.data.take(piece) or not piece:
                self.poll.unregister(key.fileobj)
                key.fileobj.close()
                self.answers_left -= 1

    def answers(self, seconds=60):
        """Those without an answer by then have status 0."""
        end = time.monotonic() + seconds
        while self.answers_left and time.monotonic() < end:
            self.step(0.1)
        self.give_up()
        return self.all

    def give_up(self):
        """Closes what has no answer yet."""
        for key in list(self.poll.get_map().values()):
            self.poll.unregister(key.fileobj)
            key.fileobj.close()
        self.answers_left = 0


def burst(server, count, seconds=60, **more):
    answers = Burst(server, count, **more).answers(seconds)
    server.ids |= {a.body["id"] for a in answers if a.status == 201}
    return answers
