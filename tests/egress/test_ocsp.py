#!/usr/bin/python3
"""Stapled OCSP responses: a certificate that requires one ("must-staple", RFC 7633) is refused without a response that
verifies, and one that a response calls revoked is refused always. Each server is a real `openssl s_server`, with a
response made by `openssl ocsp`."""

import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Egress
from http_client import ask
from namespaces import Net
from tap_points import Tap
from checks import wait_for  # in ../shared, which origin_server.py adds to the path

tap = Tap()

# name, must-staple, the stapled response (None: none), what the program in the cell gets
SERVERS = (
    ("plain", False, None, 200),
    ("good", False, "good", 200),
    ("revoked", False, "revoked", 502),
    ("garbage", False, "garbage", 200),
    ("must", True, None, 502),
    ("must-good", True, "good", 200),
    ("must-revoked", True, "revoked", 502),
    ("must-garbage", True, "garbage", 502),
    ("must-foreign", True, "foreign", 502),
    ("must-other", True, "other", 502),
)


class Authority:
    """Certificates of the harness's world, and OCSP responses about them."""

    def __init__(self, net):
        self.net = net
        net.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    net.path("foreign.key"), "-out", net.path("foreign.pem"), "-days", "30", "-subj", "/CN=world")

    def certificate(self, name, must):
        more = ["-addext", "tlsfeature=status_request"] if must else []
        self.net.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                         self.net.path(name + ".key"), "-out", self.net.path(name + ".pem"), "-days", "30", "-subj",
                         "/CN=server", "-addext", f"subjectAltName=DNS:{name}.example", "-addext",
                         "basicConstraints=critical,CA:FALSE", *more, "-CA", self.net.path("world.pem"), "-CAkey",
                         self.net.path("world.key"))

    def serial(self, name):
        out = subprocess.run(["openssl", "x509", "-in", self.net.path(name + ".pem"), "-noout", "-serial"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return out.strip().split("=")[1]

    def response(self, name, kind):
        """A file with a response about this server's certificate."""
        path, index = self.net.path(name + ".ocsp"), self.net.path(name + ".index")
        if kind == "garbage":
            with open(path, "wb") as f:
                f.write(b"\x30\x03\x0a\x01\x00")
            return path
        about = "plain" if kind == "other" else name
        signer = "foreign" if kind == "foreign" else "world"
        with open(index, "w", encoding="ascii") as f:
            state = "R\t391231235959Z\t240101000000Z" if kind == "revoked" else "V\t391231235959Z\t"
            f.write(f"{state}\t{self.serial(about)}\tunknown\t/CN=server\n")
        request = self.net.path(name + ".request")
        self.net.openssl("ocsp", "-issuer", self.net.path("world.pem"), "-cert", self.net.path(about + ".pem"),
                         "-reqout", request, "-no_nonce")
        self.net.openssl("ocsp", "-index", index, "-CA", self.net.path("world.pem"), "-rsigner",
                         self.net.path(signer + ".pem"), "-rkey", self.net.path(signer + ".key"), "-reqin", request,
                         "-respout", path, "-ndays", "1")
        return path


def serve(net, name, address, response):
    words = ["openssl", "s_server", "-accept", f"{address}:443", "-cert", net.path(name + ".pem"), "-key",
             net.path(name + ".key"), "-www", "-quiet"]
    if response:
        words += ["-status_file", response]
    net.address(address)
    with net.inside(net.world):
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_listening(net, n):
    """Until so many servers of the world listen at port 443."""
    def listening():
        with net.inside(net.world):
            out = subprocess.run(["ss", "-Hltn", "sport", "=", ":443"], check=True, stdout=subprocess.PIPE, text=True).stdout
        return len(out.splitlines()) >= n

    return wait_for(listening, 30, "a server", 0.05)


def request(cell, host):
    with contextlib.closing(cell.tls(host)) as s:
        return ask(s, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")


def check(cell, name, want):
    host = name + ".example"
    r = request(cell, host)
    tap.ok(r and r.status == want, f"{name}: {want}", r and (r.line, (r.body or b"")[:120]))
    if want == 200 or not r or r.status != want:
        return
    word = b"revoked" if "revoked" in name else b"OCSP"
    tap.ok(word in (r.body or b""), f"{name}: the program reads why", r.body)
    record = cell.record(lambda x: x.get("name") == host and x["kind"] == "request")
    tap.ok(record and word.decode() in record.get("reason", ""), f"{name}: the record has the reason", record)


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    net = Net()
    authority, running = Authority(net), []
    for name, must, _, _ in SERVERS:
        authority.certificate(name, must)
    for i, (name, _, kind, _) in enumerate(SERVERS):
        address = f"93.184.216.{60 + i}"
        net.name(name + ".example", address)
        running.append(serve(net, name, address, kind and authority.response(name, kind)))
    tap.ok(wait_listening(net, len(SERVERS)), "all servers listen")
    egress = Egress(net, os.environ.get("CORDON_EGRESS", "./cordon-egress"))
    cell = egress.cell({"rules": [{"host": "*.example", "tls": "terminate"}]})
    try:
        for name, _, _, want in SERVERS:
            check(cell, name, want)
        cell.detach()
        tap.same(egress.close(), 0, "it ends well")
    finally:
        for server in running:
            server.kill()
            server.wait()
        net.close()
    return tap.done()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
