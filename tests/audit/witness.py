"""witness.py - a witness as C2SP's tlog-witness has it, small but whole: it verifies the log's signature and the consistency
proof from what it saw last, remembers, and cosigns with the time."""
import http.server
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "notary"), os.path.join(HERE, "..", "..", "examples")]
from audit_world import Signer, verify  # noqa: E402
from notary_channel import node  # noqa: E402


def consistent(old, size, old_root, root, proof):
    """RFC 9162, 2.1.4.2."""
    if old == 0 or old == size:
        return not proof and (old == 0 or old_root == root)
    if old & (old - 1) == 0:
        proof = [old_root, *proof]
    if not proof:
        return False
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    first, second = proof[0], proof[0]
    for part in proof[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            first, second = node(part, first), node(part, second)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            second = node(second, part)
        at, last = at >> 1, last >> 1
    return (first, second, last) == (old_root, root, 0)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.failed = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.shutdown()
        self.server_close()
        assert kind is not None or not self.failed, self.failed

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):  # a client may end at any moment
            self.failed.append(error)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="text/plain; charset=utf-8"):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


class Witness(Server):
    def __init__(self, name, logs):
        self.signer, self.seen, self.asked, self.lock = Signer(name, 4), {}, [], threading.Lock()
        self.logs = {origin: verify.Key(key) for origin, key in logs.items()}
        witness = self

        class H(Handler):
            def do_POST(self):
                self.answer(*witness.on_post(self.path, self.body().decode()))
        super().__init__(H)

    def on_post(self, path, text):
        if path != "/add-checkpoint":
            return 404, "no such path\n"
        head, _, note = text.partition("\n\n")
        lines = head.split("\n")
        try:
            old = int(lines[0].removeprefix("old "))
            proof = [verify.decode(line) for line in lines[1:]]
            note = verify.Note(note)
        except ValueError as e:
            return 400, f"{e}\n"
        with self.lock:
            return self.judge(old, proof, note)

    def judge(self, old, proof, note):
        self.asked.append((old, note.size))
        if note.origin not in self.logs:
            return 404, "an unknown log\n"
        if note.signed_by(self.logs[note.origin]) is not True:
            return 403, "not signed by the log\n"
        if old > note.size:
            return 400, "the old size is larger\n"
        size, root = self.seen.get(note.origin, (0, b""))
        if old != size:
            return 409, f"{size}\n", "text/x.tlog.size"
        if size == note.size and root != note.root:
            return 409, f"{size}\n", "text/x.tlog.size"
        if not consistent(old, note.size, root, note.root, proof):
            return 422, "the proof does not hold\n"
        self.seen[note.origin] = note.size, note.root
        return 200, self.signer.line(note.text, int(time.time()))
