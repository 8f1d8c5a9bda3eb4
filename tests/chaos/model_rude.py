"""model_rude.py - a third of all requests come from clients that are slow, or that are gone at a random byte.

A client that is gone before its request is whole has changed nothing, and one that does not wait for its answer does
not know whether it has: the ledger counts both as requests without an answer. The second kind is used only where a
request that is carried out late does not contradict the ledger."""
import http.client
import json
import random
import re
import socket
import struct
import threading
import time

from model_tenants import View  # noqa: E402 (model.py has set the path)

GONE_SENDING, GONE_READING, SLOW = 0.10, 0.20, 0.34
LATE_IS_FINE = re.compile(r"/v1/sessions/[^/]+/executions(\?|$)|/v1/sessions$")


class Gone(ConnectionAbortedError):
    """The client went away."""


class RudeView(View):
    """A tenant's view whose requests are sometimes rude. Each thread has a random of its own, if it has one."""

    spare = random.Random(0)

    def request(self, method, path, body=None, headers=None, raw=False, key="", timeout=60):
        dice = getattr(threading.current_thread(), "random", self.spare)
        kind, multipart = dice.random(), "multipart" in str(headers)
        if kind >= SLOW or multipart:
            return super().request(method, path, body, headers, raw, key, timeout)
        text = self.text(method, path, body, headers, key)
        with socket.create_connection(self.address, timeout) as link:
            if kind < GONE_SENDING:
                link.sendall(text[: dice.randrange(len(text))])
                return self.leave(link, dice)
            if kind < GONE_READING and (method == "GET" or LATE_IS_FINE.match(path)):
                return self.leave_reading(link, text, dice)
            return self.slowly(link, method, text, raw, dice)

    def text(self, method, path, body, headers, key):
        """The whole request as bytes."""
        sent = {"Host": self.settings["listen"], **(headers or {})}
        if key is not None and not any(n.lower() in ("authorization", "x-api-key") for n in sent):
            sent["X-API-Key"] = key or self.key
        if hasattr(body, "read"):
            body = b"".join(iter(lambda: body.read(65536), b""))
        elif body is not None and not isinstance(body, (bytes, bytearray)):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if body is not None or method in ("POST", "PUT"):
            sent["Content-Length"] = str(len(body or b""))
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + bytes(body or b"")

    @staticmethod
    def leave(link, dice):
        if dice.random() < 0.5:  # with a reset
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif dice.random() < 0.3:  # half of the connection
            link.shutdown(socket.SHUT_WR)
            time.sleep(0.05)
        raise Gone("the client went away")

    def leave_reading(self, link, text, dice):
        link.sendall(text)
        wanted = dice.choice([0, 0, 1, 20, 200, 5000])
        link.settimeout(dice.random())
        try:
            while wanted > 0 and (piece := link.recv(wanted)):
                wanted -= len(piece)
        except TimeoutError:
            pass
        return self.leave(link, dice)

    @staticmethod
    def slowly(link, method, text, raw, dice):
        """The answer as request() gives it, of a client that takes about a second."""
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        at, pieces = 0, dice.randrange(2, 8)
        try:
            for _ in range(pieces):
                upto = min(len(text), at + len(text) // pieces + 1)
                link.sendall(text[at:upto])
                at = upto
                time.sleep(dice.random() * 0.1)
            link.sendall(text[at:])
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have answered before it had all
        answer = http.client.HTTPResponse(link, method=method)
        answer.begin()
        data, naps = b"", 10
        while piece := answer.read(8192):
            data += piece
            naps -= 1
            time.sleep(0.05 if naps > 0 else 0)
        if answer.length:
            raise http.client.IncompleteRead(data, answer.length)
        got = {name.lower(): value for name, value in answer.getheaders()}
        if not raw and got.get("content-type", "").startswith("application/json"):
            data = json.loads(data) if data else None
        return answer.status, got, data
