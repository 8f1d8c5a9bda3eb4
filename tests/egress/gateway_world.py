"""What the gateway's tests share: the servers of a small world, a policy for it, and one cordon-egress."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Egress
from namespaces import Net
from origin_server import Origin, answer
from tap_points import Tap

WEB = "93.184.216.34"
OTHER = "93.184.216.35"
BIG = 48 << 20
PATTERN = bytes(range(256)) * 256

tap = Tap()


def get(path="/", host="web.example", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"


# ---- the servers of the world

SCRIPT = {}  # path: bytes to answer with as they are, or a function of the request


def big_answer(request):
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode()
    request.conn.sendall(head)
    for _ in range(BIG // len(PATTERN)):
        request.conn.sendall(PATTERN)
    return b""


SCRIPT["/big"] = big_answer


def expecting(request):
    """Answers the expectation, then reads."""
    request.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = request.reader.exactly(int(request.get("Content-Length")))
    return answer(body[::-1])


def web(request):
    path = request.line.split(" ")[1].split("?")[0]
    if path in SCRIPT:
        reply = SCRIPT[path]
        return reply(request) if callable(reply) else reply
    text = f"{request.line} {len(request.body)}".encode()
    if path == "/h":
        return answer(text)[:-len(text)]
    return answer(text)


class World:
    def __init__(self):
        self.net = net = Net()
        names = ("web", "rules", "look", "stale", "expect", "ws", "set")
        for name in names:
            net.name(f"{name}.example", WEB)
        net.name("six.example", "2606:4700::34")
        net.name("inside.example", "10.1.2.3")
        net.name("raw.example", WEB)
        net.name("wrongname.example", OTHER)
        net.name("selfsigned.example", "93.184.216.36")
        self.origin = Origin(net, WEB, 80, web)
        self.origin_tls = origin_tls = Origin(net, WEB, 443, web, tls=net.certificate("web.example"))
        # one server, many names
        others = {n: net.certificate(f"{n}.example") for n in ("look", "set")}

        def choose(sock, name, context):
            if name and name.split(".")[0] in others:
                sock.context = others[name.split(".")[0]]

        origin_tls.tls.sni_callback = choose
        Origin(net, "2606:4700::34", 80, web)
        Origin(net, "10.1.2.3", 80, web)
        Origin(net, OTHER, 443, web, tls=net.certificate("other.example"))
        Origin(net, "93.184.216.36", 443, web, tls=net.certificate("selfsigned.example", signed=False))

        def echo_bytes(conn):
            while True:
                data = conn.recv(65536)
                if not data:
                    return
                conn.sendall(data)

        self.raw = raw = Origin(net, WEB, 2222, None)
        raw.converse = echo_bytes
        self.expect = Origin(net, "93.184.216.37", 80, web, whole=False)
        net.name("expect.example", "93.184.216.37")
        net.name("stale.example", "93.184.216.38")
        Origin(net, "93.184.216.38", 80, web)

        self.policy = {"rules": [
            {"host": "web.example", "ports": [80, 81, 443]},
            {"host": "rules.example", "methods": ["GET", "POST"], "paths": ["/open/**"]},
            {"host": "look.example", "methods": ["GET", "POST"],
             "paths": ["/open/**", "/big", "/up"]},
            {"host": "wrongname.example", "tls": "terminate"},
            {"host": "selfsigned.example", "tls": "terminate"},
            {"host": "six.example"}, {"host": "inside.example"}, {"host": "gone.example"},
            {"host": "stale.example"}, {"host": "expect.example"},
            {"host": "ws.example", "paths": ["/ws"]},
            {"host": "raw.example", "ports": [2222], "protocol": "tcp"}]}


def run(tests):
    """tests: a function of the world, its egress and a cell."""
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    w = World()
    egress = Egress(w.net, os.environ.get("CORDON_EGRESS", "./cordon-egress"))
    try:
        cell = egress.cell(w.policy)
        tests(w, egress, cell)
        cell.detach()
        tap.ok(egress.ping(), "egress still answers")
    finally:
        ended = egress.close()
        tap.same(ended, 0, "and exits with 0 when its channel closes")
        egress.log.seek(0)
        for line in egress.log.read().decode(errors="replace").splitlines():
            print("# " + line)
        w.net.close()
    return tap.done()


def main(tests):
    code = run(tests)
    sys.stdout.flush()
    os._exit(code)
