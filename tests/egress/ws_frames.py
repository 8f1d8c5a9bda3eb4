"""WebSocket frames and handshakes, as clients and servers of tests speak them."""

import base64
import hashlib


def frame(payload, opcode=1, fin=True, key=None, rsv=0, length=None):
    """A WebSocket frame; key: masked with it, as a client's is. length: said instead of the shortest form."""
    n = len(payload)
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if length is not None:
        size = length
    elif n < 126:
        size = bytes([n])
    elif n < 65536:
        size = b"\x7e" + n.to_bytes(2, "big")
    else:
        size = b"\x7f" + n.to_bytes(8, "big")
    if key is None:
        return head + size + payload
    masked = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
    return head + bytes([size[0] | 0x80]) + size[1:] + key + masked


def read_frame(reader):
    """(opcode, fin, key or None, payload); None at the end."""
    try:
        head = reader.exactly(2)
        if head is None:
            return None
        n = head[1] & 0x7f
        if n >= 126:
            n = int.from_bytes(reader.exactly(2 if n == 126 else 8), "big")
        key = reader.exactly(4) if head[1] & 0x80 else None
        data = reader.exactly(n)
    except (OSError, TypeError):
        return None
    if key and data is not None:
        data = bytes(b ^ key[i % 4] for i, b in enumerate(data))
    return head[0] & 15, bool(head[0] & 0x80), key, data


WS_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
WS_HEAD = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WS_KEY}\r\n"


def switching(request, more=""):
    """The head with which a server agrees."""
    guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1((request.get("Sec-WebSocket-Key") + guid).encode()).digest()).decode()
    return (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n{more}\r\n").encode()


def websocket(request):
    """Says hello, and echoes messages in brackets."""
    request.conn.sendall(switching(request) + frame(b"hello"))
    while True:
        got = read_frame(request.reader)
        if got is None or got[3] is None:
            return None
        request.frames = getattr(request, "frames", []) + [got]
        request.conn.sendall(frame(b"<" + got[3] + b">", got[0], got[1]))
        if got[0] == 8:
            return None
