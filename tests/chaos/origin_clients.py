"""origin_clients.py - runs in a cell: clients that use the one way out as no client should, all at once, without an end.

    origin_clients.py SEED"""
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time

NAME, PLAIN, SECURE, PROXY = "raw.example", 8000, 8001, ("198.18.0.1", 3128)
HEAD = b"GET /%d HTTP/1.1\r\nHost: raw.example:8000\r\n"
REQUESTS = [
    HEAD + b"\r\n", HEAD + b"Connection: close\r\n\r\n", (HEAD + b"\r\n") * 3, HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    HEAD.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    HEAD.replace(b"GET", b"POST") + b"Content-Length: 90000\r\n\r\n" + b"y" * 90000,
    HEAD.replace(b"GET", b"POST") + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: YWFhYWFhYWFhYWFhYWFhYQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" + b"\x81\x05hello",
    HEAD + b"X: " + b"z" * 100000 + b"\r\n\r\n", HEAD.replace(b"/%d", b"http://raw.example:8000/%d") + b"\r\n", HEAD.replace(b"GET", b"HEAD") + b"\r\n",
    b"CONNECT raw.example:8001 HTTP/1.1\r\nHost: raw.example:8001\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"SSH-2.0-x\r\n", b"\r\n" * 1000, b"",
]


def query(dice):
    name = dice.choice(["raw.example", "web.example", "no.example", "x" * 63 + ".example", "a." * 100 + "example"])
    wire = b"".join(bytes([len(p) & 63]) + p.encode() for p in name.split(".") if p) + b"\0"
    raw = struct.pack(">HHHHHH", dice.randrange(65536), 0x0100, 1, 0, 0, 0) + wire + struct.pack(">HH", dice.choice([1, 28, 15, 255]), 1)
    return raw if dice.random() < 0.6 else raw[: dice.randrange(len(raw))] + dice.randbytes(dice.randrange(30))


def connect(dice):
    where = dice.choice(["plain", "plain", "secure", "secure", "proxy", "web"])
    if where == "proxy":
        return socket.create_connection(PROXY, 5)
    conn = socket.create_connection((NAME, SECURE) if where == "secure" else (NAME, PLAIN) if where == "plain" else ("web.example", 80), 5)
    if where == "secure" and dice.random() < 0.8:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        conn = context.wrap_socket(conn, server_hostname=NAME)
    return conn


def once(dice):
    if dice.random() < 0.1:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(5):
                sock.sendto(query(dice), ("198.18.0.1", 53))
        return
    with connect(dice) as conn:
        conn.settimeout(dice.choice([0.1, 0.3, 1]))
        for _ in range(dice.randrange(1, 4)):
            text = dice.choice(REQUESTS).replace(b"%d", b"%d" % dice.randrange(1000))
            if dice.random() < 0.3 and text:
                at = dice.randrange(len(text))
                text = text[:at] + dice.randbytes(dice.randrange(4)) + text[at + 1 :]
            conn.sendall(text[: dice.randrange(len(text) + 1)] if dice.random() < 0.2 else text)
            left = dice.choice([0, 1, 100, 100000])
            while left > 0 and (piece := conn.recv(min(left, 65536))):
                left -= len(piece)
        if dice.random() < 0.3:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def work(seed):
    dice = random.Random(seed)
    while True:
        try:
            once(dice)
        except (OSError, ValueError):
            pass
        time.sleep(0.01)


for i in range(12):
    threading.Thread(target=work, args=(f"{sys.argv[1]}/{i}",), daemon=True).start()
while os.getppid():
    time.sleep(1)
