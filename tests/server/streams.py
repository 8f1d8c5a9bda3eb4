"""streams.py - small clients for what does not end with one answer: server-sent events and WebSocket.

    with Events(server, f"/v1/sessions/{s}/executions/{x}/events") as events:
        for event in events:            # ends when the server ends the stream
            event.name, event.id, event.data

    with Attached(server, path) as ws:
        ws.send(b"typed\\n"); ws.say(type="eof"); kind, payload = ws.take()
"""
import base64
import json
import os
import socket
import struct
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import PATIENCE  # noqa: E402
from reader import Reader  # noqa: E402


class Ended(EOFError):
    """The server closed the connection."""


class Wire(Reader):
    """A connection on which one request was sent; reads what comes back."""

    END = Ended

    def __init__(self, server, path, headers, key="", receive_buffer=0, timeout=15, method="GET"):
        super().__init__(socket.socket())
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout * PATIENCE)
        self.socket.connect(server.address)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {server.address[0]}:{server.address[1]}"]
        lines += [f"X-API-Key: {key or server.key}", *(f"{n}: {v}" for n, v in headers.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in head[1:] if line)}

    def more(self):
        if not super().more():
            raise Ended()
        return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()


class Event:
    def __init__(self, name, cursor, data):
        self.name, self.id, self.data = name, cursor, data

    def __repr__(self):
        return f"{self.name}#{self.id}{self.data}"

    @property
    def output(self):
        """The bytes of an event stdout or stderr."""
        if "base64" in self.data:
            return base64.b64decode(self.data["base64"])
        return self.data["text"].encode()


class Events(Wire):
    """A stream of server-sent events; comments are counted, not shown."""

    def __init__(self, server, path, after=None, last_event_id=None, **more):
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        if after is not None:
            path += ("&" if "?" in path else "?") + f"after={after}"
        super().__init__(server, path, headers, **more)
        assert self.status == 200, f"{path}: {self.status}"
        assert self.headers["content-type"].startswith("text/event-stream"), self.headers
        self.text, self.comments, self.over, self.patience = b"", 0, False, more.get("timeout", 15)

    def block(self):
        """The lines of one event, or None at the end of the stream."""
        while b"\n\n" not in self.text:
            if self.over:
                assert not self.text, f"half an event at the end: {self.text[:200]!r}"
                return None
            try:
                piece = self.chunk()
            except Ended:
                raise Ended("the stream broke off: no last chunk") from None
            self.over = not piece
            self.text += piece
        block, _, self.text = self.text.partition(b"\n\n")
        return block.decode("utf-8").split("\n")

    def next(self):
        """The next event, or None at the end. Comments keep the connection, not our patience."""
        end = time.monotonic() + self.patience
        while (lines := self.block()) is not None:
            fields, data = {}, []
            for line in lines:
                name, _, value = line.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if name == "data":
                    data.append(value)
                elif name:
                    fields[name] = value
                else:
                    self.comments += 1
            if not data and time.monotonic() > end:
                raise TimeoutError("no event, only comments")
            if data:
                return Event(fields.get("event", "message"), fields.get("id"), json.loads("\n".join(data)))
        return None

    def wanted(self, name):
        """Skips to the next event of this name."""
        while (event := self.next()) is not None:
            if event.name == name:
                return event
        raise Ended(f"no event {name}")

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event


class Attached(Wire):
    """A WebSocket to an execution."""

    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

    def __init__(self, server, path, after=None, **more):
        if after is not None:
            path += ("&" if "?" in path else "?") + f"after={after}"
        super().__init__(
            server,
            path,
            {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            },
            **more,
        )
        assert self.status == 101, f"{path}: {self.status}"
        self.streams = {1: b"", 2: b""}
        self.said = []  # text frames
        self.code = None  # of the close frame

    def frame(self, opcode, payload):
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += struct.pack(">BH", 0x80 | 126, size)
        else:
            head += struct.pack(">BQ", 0x80 | 127, size)
        key = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        self.socket.sendall(head + mask + masked)

    def send(self, data):
        """Typed bytes."""
        self.frame(self.BINARY, data)

    def say(self, **message):
        self.frame(self.TEXT, json.dumps(message).encode())

    def take(self):
        """(opcode, payload) of the next message; pings are answered, and kept from the caller."""
        whole, kind = b"", None
        while True:
            first, second = self.exactly(2)
            size = second & 127
            assert not second & 128, "a server does not mask"
            if size == 126:
                size = struct.unpack(">H", self.exactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.exactly(8))[0]
            data, opcode = self.exactly(size), first & 15
            if opcode == self.PING:
                self.frame(self.PONG, data)
                continue
            if opcode >= 8:
                return opcode, data
            whole += data
            kind = opcode or kind
            if first & 0x80:
                return kind, whole

    def step(self):
        """Takes one message into streams or said; False when the server closes."""
        try:
            kind, data = self.take()
        except (Ended, ConnectionResetError):
            return False
        if kind == self.CLOSE:
            self.code = struct.unpack(">H", data[:2])[0] if data else None
            self.frame(self.CLOSE, data)
            return False
        if kind == self.BINARY:
            self.streams[data[0]] += data[1:]
        elif kind == self.TEXT:
            self.said.append(json.loads(data))
        return True

    def until_output(self, part, stream=1, seconds=15):
        """Reads until the stream has these bytes."""
        end = time.monotonic() + seconds
        while part not in self.streams[stream]:
            assert self.step(), f"closed before {part!r}; has {self.streams[stream][-300:]!r}, said {self.said}"
            assert time.monotonic() < end, f"no {part!r} in {self.streams[stream][-300:]!r}"
        return self.streams[stream]

    def until_end(self):
        """Reads until the server closes; the data of exit."""
        while self.step():
            pass
        return next((m for m in self.said if m["type"] == "exit"), None)
