"""inside.py PORT - what tests run inside a sandbox: an HTTP server that shows what reaches it, streams, and speaks
WebSocket."""
import base64
import hashlib
import json
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, data, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def chunked(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def any(self):
        path = self.path.partition("?")[0]
        if path == "/ws":
            return self.websocket()
        if path == "/sse":
            self.chunked("text/event-stream")
            for i in range(4):
                self.chunk(f"data: {i}\n\n".encode())
                time.sleep(0.25)  # a slow stream
            return self.chunk(b"")
        if path == "/cut":  # breaks off in the middle
            self.chunked("text/plain")
            self.chunk(b"half")
            self.close_connection = True
            return None
        if path == "/big":
            data = bytes(range(256)) * (1 << 16)
            return self.answer(200, data, ("Content-Type", "application/octet-stream"))
        if path.startswith("/status/"):
            return self.answer(
                int(path[8:]), b"as asked", ("X-Inside", "yes"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")
            )
        data = self.body()
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {n.lower(): v for n, v in self.headers.items()},
            "length": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return self.answer(200, json.dumps(seen).encode(), ("Content-Type", "application/json"))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = any

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.say(1, b"welcome")
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return
            kind, size = head[0] & 15, head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.rfile.read(8))[0]
            mask, data = self.rfile.read(4), self.rfile.read(size)
            long_mask = (mask * (size // 4 + 1))[:size]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(long_mask, "big")).to_bytes(size, "big")
            self.say(kind, data)
            if kind == 8:
                self.close_connection = True
                return

    def say(self, kind, data):
        size = len(data)
        head = bytes([128 | kind])
        if size < 126:
            head += bytes([size])
        elif size < 1 << 16:
            head += bytes([126]) + struct.pack(">H", size)
        else:
            head += bytes([127]) + struct.pack(">Q", size)
        self.wfile.write(head + data)
        self.wfile.flush()


ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
