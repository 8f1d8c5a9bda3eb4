"""fake_registry.py - a registry on loopback that answers as a test tells it to.

Registry(image) serves the image as any repository, tag "t". A test changes `answer`, a function that gets the
request (target, headers as a dict with lower-case names) and returns None for the usual answer, or an Answer."""
import base64
import http.server
import ssl
import threading
import time
import urllib.parse


class Answer:
    """status, headers, body; cut: the connection is closed after so many bytes of the body; drip: (bytes, seconds)."""

    def __init__(self, status=200, headers=None, body=b"", cut=None, drip=None, length=True, raw=None):
        self.status, self.headers, self.body = status, headers or {}, body
        self.cut, self.drip, self.length, self.raw = cut, drip, length, raw


class Registry:
    def __init__(self, image=None, tls=None):
        self.image, self.requests, self.answer = image, [], lambda target, headers: None
        self.lock = threading.Lock()
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                headers = {k.lower(): v for k, v in self.headers.items()}
                with registry.lock:
                    registry.requests.append((self.path, headers))
                answer = registry.answer(self.path, headers) or registry.usual(self.path, headers)
                try:
                    registry.send(self, answer)
                except OSError:
                    pass
                self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def usual(self, target, headers):
        path = urllib.parse.urlsplit(target).path
        kind, name = path.split("/")[-2:] if path.startswith("/v2/") and path.count("/") > 3 else ("", "")
        if kind == "manifests":
            data, media = self.image.tag if name == "t" else self.image.documents.get(name, ("", None))[::-1]
            if data:
                return Answer(200, {"Content-Type": media}, data)
            return Answer(404, {}, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')
        data = self.image.blobs.get(name) if kind == "blobs" else None
        if data is None:
            return Answer(404, {}, b'{"errors":[{"code":"BLOB_UNKNOWN","message":"no"}]}')
        if headers.get("range"):
            at = int(headers["range"][len("bytes="):-1])
            return Answer(206, {"Content-Range": f"bytes {at}-{len(data) - 1}/{len(data)}"}, data[at:])
        return Answer(200, {"Content-Type": "application/octet-stream"}, data)

    @staticmethod
    def send(handler, answer):
        if answer.raw is not None:
            handler.wfile.write(answer.raw)
            return
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.length:
            handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        body = answer.body if answer.cut is None else answer.body[:answer.cut]
        if answer.drip is None:
            handler.wfile.write(body)
            return
        size, pause = answer.drip
        for at in range(0, len(body), size):
            handler.wfile.write(body[at:at + size])
            handler.wfile.flush()
            time.sleep(pause)  # the pace of a slow server


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def token_wall(registry, users, token="tok.en-1", realm=None, challenge=None):
    """Bearer tokens, as most registries want them: users = {name: password}, or None for anonymous ones."""
    def answer(target, headers):
        if target.startswith("/token"):
            want = [None] if users is None else [basic(*item) for item in users.items()]
            if headers.get("authorization") not in want:
                return Answer(401, {}, b'{"details":"incorrect username or password"}')
            return Answer(200, {"Content-Type": "application/json"}, b'{"token":"%s","expires_in":60}' % token.encode())
        if headers.get("authorization") == "Bearer " + token:
            return None
        where = realm or f"http://{registry.host}/token"
        return Answer(401, {"WWW-Authenticate": challenge or
                            f'Bearer realm="{where}",service="the registry",scope="repository:a/b:pull"'},
                      b'{"errors":[{"code":"UNAUTHORIZED"}]}')
    registry.answer = answer
