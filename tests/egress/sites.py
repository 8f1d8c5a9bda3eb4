"""sites.py - the servers of the small internet: web, TLS (good and bad), git, model APIs, WebSocket, SOCKS5.

One listener for each port takes what comes to any address of the world; the path selects the behaviour
(ROUTES), the server name which certificate. Every request is remembered in net.hits."""
import contextlib
import gzip
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse

from origin_server import REQUEST_LINE, Reader, Request, STRAYS, answer
from ws_frames import websocket

GOOD_NAMES = ("web.example", "look.example", "api.example", "other.example", "git.example", "model.example",
              "registry.example", "store.example", "ws.example", "six.example", "alias.example", "evil.example",
              "bysni.example", "xn--bcher-kva.example", "toevil.example", "meta.example", "self.example",
              "mixed.example", "*.wild.example")
SECRET_HEADERS = ("Authorization", "X-Api-Key")
PIECE = bytes(range(256)) * 1024


def local(conn):
    return conn.getsockname()[0].removeprefix("::ffff:")


# ---- what paths do: functions of the request, giving bytes to send, or None to close


def echo(q):
    shown = {"method": q.method, "path": q.path, "host": q.get("Host"), "headers": q.headers, "address": q.address,
             "tls": q.sni is not None, "sni": q.sni, "length": len(q.body),
             "sha256": hashlib.sha256(q.body).hexdigest()}
    return answer(json.dumps(shown).encode(), headers=("Content-Type: application/json",))


def redirect(q):
    return answer(b"", q.query.get("code", "302") + " Found", (f"Location: {q.query['to']}",))


def echo_secret(q):
    """Everything of the request, everywhere: in headers, in a Location, in the body, and encoded."""
    text = " ".join(q.get(n) or "" for n in SECRET_HEADERS) + q.body.decode("latin-1")
    import base64
    forms = [text, base64.b64encode(text.encode()).decode(), urllib.parse.quote(text, safe="")]
    if q.query.get("as") == "error":
        return answer(" ".join(forms).encode(), "500 " + text.replace("\n", " ")[:200])
    return answer("\n".join(forms).encode(), "302 Found" if q.query.get("as") == "location" else "200 OK",
                  (f"X-Echo: {text}", f"Set-Cookie: a={forms[2]}",
                   f"Location: https://web.example/echo?stolen={forms[2]}"))


def huge(q):
    left = int(q.query.get("n", 1 << 30))
    q.conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
    while left:
        left -= q.conn.send(PIECE[:min(left, len(PIECE))])
    return b""


def drip(q):
    """A piece every 50 ms, until the client closes."""
    q.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(2400):
            q.conn.sendall(b"x" * 10)
            time.sleep(0.05)
    return None


def gzip_bomb(q):
    body = gzip.compress(b"\0" * (64 << 20), 6)
    return answer(body, headers=("Content-Encoding: gzip", "Content-Type: text/plain"))


def slow(q):
    time.sleep(float(q.query.get("s", 1)))
    return answer(b"late")


SCRIPTED = {
    "/split": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: stolen=1\r\nContent-Length: 2\r\n\r\nok",
    "/twoanswers": answer(b"one") + answer(b"smuggled"),
    "/twolengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "/bighead": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\nContent-Length: 2\r\n\r\nok",
    "/h2c": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "/altsvc": answer(b"ok", headers=('Alt-Svc: h3="evil.example:443"', "Server: s")),
}

OPENAI = {"id": "c1", "object": "chat.completion", "model": "gpt-small", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "four"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}
ANTHROPIC = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-small",
             "content": [{"type": "text", "text": "four"}], "stop_reason": "end_turn",
             "usage": {"input_tokens": 13, "output_tokens": 5}}
STREAMS = {
    "/v1/chat/completions": [
        (None, {"id": "c1", "object": "chat.completion.chunk", "model": "gpt-small",
                "choices": [{"index": 0, "delta": {"content": w}, "finish_reason": None}]}) for w in ("fo", "ur")
    ] + [(None, {"id": "c1", "object": "chat.completion.chunk", "model": "gpt-small", "choices": [],
                 "usage": {"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30}}), (None, "[DONE]")],
    "/v1/messages": [
        ("message_start", {"type": "message_start", "message": {**ANTHROPIC, "content": [], "stop_reason": None,
                                                                "usage": {"input_tokens": 23, "output_tokens": 1}}}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0,
                                 "delta": {"type": "text_delta", "text": "four"}}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                           "usage": {"output_tokens": 8}}),
        ("message_stop", {"type": "message_stop"})],
}


def model(q):
    asked = json.loads(q.body)
    whole = OPENAI if q.path.startswith("/v1/chat") else ANTHROPIC
    if not asked.get("stream"):
        return answer(json.dumps(whole).encode(), headers=("Content-Type: application/json",))
    q.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for name, data in STREAMS[q.path.split("?")[0]]:
        text = (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        q.conn.sendall(f"{len(text):x}\r\n{text}\r\n".encode())
        time.sleep(0.02)
    return b"0\r\n\r\n"


def git(q):
    """git http-backend, by CGI."""
    env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": os.path.join(q.net.dir, "repos"), "GIT_HTTP_EXPORT_ALL": "1",
           "PATH_INFO": q.path.split("?")[0].removeprefix("/git"), "QUERY_STRING": q.path.partition("?")[2],
           "REQUEST_METHOD": q.method, "CONTENT_TYPE": q.get("Content-Type") or "", "REMOTE_USER": "cell",
           "REMOTE_ADDR": "192.0.2.1", "CONTENT_LENGTH": str(len(q.body)), "HOME": q.net.dir}
    for name, variable in (("Content-Encoding", "HTTP_CONTENT_ENCODING"), ("Git-Protocol", "GIT_PROTOCOL")):
        if q.get(name):
            env[variable] = q.get(name)
    done = subprocess.run(["git", "http-backend"], input=q.body, env=env, stdout=subprocess.PIPE, check=True)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    status = next((line[8:] for line in lines if line.startswith("Status: ")), "200 OK")
    return answer(body, status, [line for line in lines if not line.startswith("Status: ")])


ROUTES = {"/echo": echo, "/redirect": redirect, "/secret": echo_secret, "/huge": huge, "/drip": drip,
          "/bomb": gzip_bomb, "/ws": websocket, "/slow": slow, "/v1/chat/completions": model, "/v1/messages": model,
          "/cut": lambda q: q.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc"),
          "/close": lambda q: q.conn.sendall(echo(q).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)),
          "/silent": lambda q: None}


def route(q):
    path = q.path.split("?")[0]
    if path in SCRIPTED:
        return SCRIPTED[path]
    if path.startswith("/git/"):
        return git(q)
    if path.startswith("/drip/"):
        return drip(q)
    return ROUTES.get(path, echo)(q)


class Sites:
    def __init__(self, net):
        self.net = net
        self.handlers = {}  # host: function of the request, in place of the routes
        self.contexts = {None: self.certificate("good", GOOD_NAMES)}
        for name, made in (("expired.example", {"expired": True}), ("wrongname.example", {"names": ["web.example"]}),
                           ("selfsigned.example", {"signed": False})):
            self.contexts[name] = self.certificate(name, made.pop("names", [name]), **made)
        self.make_repository()

    def certificate(self, base, names, expired=False, signed=True):
        at = self.net.path(base)
        ca = ["-CA", self.net.path("world.pem"), "-CAkey", self.net.path("world.key")] if signed else []
        self.net.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                         at + ".key", "-out", at + ".pem", "-days", "30", "-subj", "/CN=server", "-addext",
                         "subjectAltName=" + ",".join("DNS:" + n for n in names), "-addext",
                         "basicConstraints=critical,CA:FALSE", *([] if expired else ca))
        if expired:
            self.net.openssl("x509", "-in", at + ".pem", "-days", "-1", "-set_serial", "7", "-out", at + ".pem", *ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(at + ".pem", at + ".key")
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = self.choose
        return context

    def choose(self, sock, name, _):
        sock.sni = name or ""
        if name in self.contexts:
            sock.context = self.contexts[name]

    def make_repository(self):
        """/git/repo.git: one commit, may be pushed to."""
        script = """set -e; cd "$1"; export GIT_CONFIG_GLOBAL=/dev/null HOME=$1
            git init -q --bare -b main repos/repo.git; git -C repos/repo.git config http.receivepack true
            git init -q -b main work; cd work; echo hello > file; git add file
            git -c user.name=t -c user.email=t@t.example commit -q -m first; git push -q ../repos/repo.git main"""
        subprocess.run(["sh", "-c", script, "sh", self.net.dir], check=True, stdout=subprocess.DEVNULL)

    def pushed(self):
        """How many commits the repository has."""
        done = subprocess.run(["git", "--git-dir", self.net.path("repos/repo.git"), "rev-list", "--count", "main"],
                              check=True, stdout=subprocess.PIPE, text=True)
        return int(done.stdout)

    def start(self, ports):
        with self.net.inside(self.net.world):
            for port in ports:
                listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
                threading.Thread(target=self.accept, args=(listener, port), daemon=True).start()

    def accept(self, listener, port):
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=self.serve, args=(conn, port), daemon=True).start()

    def serve(self, conn, port):
        address = local(conn)
        self.net.connections.append((address, port))
        try:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn.settimeout(60)
            if port == 1080:
                self.socks(conn)
            elif port in (22, 2222, 853):
                self.bytes_back(conn)
            else:
                if port in (443, 8443):
                    conn = self.contexts[None].wrap_socket(conn, server_side=True)
                self.converse(conn, address, port)
        except (OSError, ValueError):
            pass
        finally:
            with contextlib.suppress(OSError):
                conn.close()

    @staticmethod
    def bytes_back(conn):
        while data := conn.recv(65536):
            conn.sendall(data)

    def converse(self, conn, address, port):
        reader = Reader(conn)
        while (head := reader.until(b"\r\n\r\n")) is not None:
            if not REQUEST_LINE.match(head):
                STRAYS.append(bytes(head[:200]))
                return
            q = Request(head, b"", conn)
            q.net, q.reader, q.address, q.sni = self.net, reader, address, getattr(conn, "sni", None)
            q.method, q.path = q.line.split(" ")[:2]
            q.query = dict(urllib.parse.parse_qsl(q.path.partition("?")[2]))
            if q.get("Expect"):
                conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if q.get("Content-Length"):
                q.body = reader.exactly(int(q.get("Content-Length")))
            elif q.get("Transfer-Encoding"):
                q.body = reader.chunks()
            if q.body is None:
                return
            self.net.hits.append({"address": address, "port": port, "sni": q.sni, "host": q.get("Host"),
                                  "method": q.method,
                                  "path": q.path, "headers": q.headers, "body": q.body})
            reply = self.handlers.get((q.get("Host") or "").split(":")[0], route)(q)
            if reply is None:
                return
            conn.sendall(reply)

    def socks(self, conn):
        """SOCKS5 with user and password; resolves names itself."""
        reader = Reader(conn)
        reader.exactly(reader.exactly(2)[1])
        conn.sendall(b"\5\2")
        user = reader.exactly(reader.exactly(2)[1]).decode()
        word = reader.exactly(reader.exactly(1)[0]).decode()
        conn.sendall(b"\1\0")
        kind = reader.exactly(4)[3]
        if kind == 3:
            name = reader.exactly(reader.exactly(1)[0]).decode("latin-1")
            address = self.net.zone.get(name, ("",))[0]
        else:
            name = address = socket.inet_ntop(*((socket.AF_INET, reader.exactly(4)) if kind == 1
                                                else (socket.AF_INET6, reader.exactly(16))))
        port = struct.unpack("!H", reader.exactly(2))[0]
        self.net.hits.append({"address": local(conn), "port": 1080, "sni": None, "host": name, "method": "SOCKS",
                              "path": f"{user}:{word}@{name}:{port}", "headers": [], "body": b""})
        there = socket.create_connection((address, port), 10)
        conn.sendall(b"\5\0\0\1" + bytes(6))
        threading.Thread(target=self.copy, args=(there, conn), daemon=True).start()
        self.copy(conn, there)

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
