"""The network namespaces of tests with a real cordon-egress. Standard library only; needs root.

  world   servers of the test, at public looking addresses (and at private ones)
  node    cordon-egress itself, one cable away from the world

Both are made here and gone with the process. A socket belongs to the namespace its thread was in when it was
made, so everything happens in one process: `with net.inside(ns):` around what makes sockets or starts programs.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def run(*words, **options):
    subprocess.run(words, check=True, **options)


def own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Net:
    """The world and the node with a cable between them, and the names that the world's resolver knows."""

    def __init__(self):
        self.home = own_namespace()
        self.dir = tempfile.mkdtemp(prefix="cordon-egress-test.")
        self.world = self.namespace()
        self.node = self.namespace()
        self.hosts = {}
        self.asked = []
        with self.inside(self.node):
            run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
                f"/proc/{os.getpid()}/fd/{self.world}")
            run("ip", "addr", "add", "192.0.2.1/24", "dev", "cable")
            run("ip", "-6", "addr", "add", "2001:db8::1/64", "dev", "cable", "nodad")
            run("ip", "link", "set", "cable", "up")
            run("ip", "route", "add", "default", "via", "192.0.2.2")
            run("ip", "-6", "route", "add", "default", "via", "2001:db8::2")
        with self.inside(self.world):
            run("ip", "addr", "add", "192.0.2.2/24", "dev", "cable")
            run("ip", "-6", "addr", "add", "2001:db8::2/64", "dev", "cable", "nodad")
            run("ip", "link", "set", "cable", "up")
        self.create_ca()
        self.serve_names()

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def namespace(self):
        with self.inside(self.home):
            if LIBC.unshare(CLONE_NEWNET) < 0:
                raise OSError(ctypes.get_errno(), "unshare")
            run("ip", "link", "set", "lo", "up")
            return own_namespace()

    @contextlib.contextmanager
    def inside(self, ns):
        before = own_namespace()
        if LIBC.setns(ns, CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            LIBC.setns(before, CLONE_NEWNET)
            os.close(before)

    def address(self, address):
        """The world has this address from now on."""
        if ":" in address:
            words = ["ip", "-6", "addr", "replace", address + "/128", "dev", "lo", "nodad"]
        else:
            words = ["ip", "addr", "replace", address + "/32", "dev", "lo"]
        with self.inside(self.world):
            run(*words)

    def name(self, name, *addresses):
        """The world's resolver answers with these addresses; one may be a function, called for each query."""
        self.hosts[name] = addresses
        for a in addresses:
            if isinstance(a, str):
                self.address(a)

    # ---- the resolver of the world, which the node asks

    def serve_names(self):
        with self.inside(self.world):
            self.dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.dns.bind(("192.0.2.2", 53))
        threading.Thread(target=self.answer_names, daemon=True).start()

    def answer_names(self):
        while True:
            query, peer = self.dns.recvfrom(4096)
            answer = self.answer_name(query)
            if answer:
                self.dns.sendto(answer, peer)

    def answer_name(self, query):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind = struct.unpack_from("!H", query, at + 1)[0]
        name = ".".join(labels).lower()
        self.asked.append((name, kind))
        found = [a() if callable(a) else a for a in self.hosts.get(name, ())]
        found = [a for a in found if (":" in a) == (kind == 28)] if kind in (1, 28) else []
        rcode = 0 if name in self.hosts else 3
        head = query[:2] + struct.pack("!HHHHH", 0x8180 | rcode, 1, len(found), 0, 0)
        body = query[12:at + 5]
        for a in found:
            family = socket.AF_INET6 if kind == 28 else socket.AF_INET
            data = socket.inet_pton(family, a)
            body += struct.pack("!HHHIH", 0xC00C, kind, 1, 1, len(data)) + data
        return head + body

    # ---- certificates of the world

    def path(self, name):
        return os.path.join(self.dir, name)

    def openssl(self, *words):
        run("openssl", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def create_ca(self):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", self.path("world.key"), "-out", self.path("world.pem"),
                     "-days", "30", "-subj", "/CN=world", "-addext",
                     "basicConstraints=critical,CA:TRUE")

    def certificate(self, name, days=30, signed=True):
        """A context for a server of that name (or address)."""
        base = self.path(f"{name.replace(':', '_')}.{days}.{signed}")
        kind = "IP" if name.replace(".", "").isdigit() or ":" in name else "DNS"
        if not os.path.exists(base + ".pem"):
            ca = ["-CA", self.path("world.pem"), "-CAkey", self.path("world.key")] if signed else []
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                         "-nodes", "-keyout", base + ".key", "-out", base + ".pem", "-days",
                         str(days), "-subj", "/CN=server", "-addext",
                         f"subjectAltName={kind}:{name}", "-addext",
                         "basicConstraints=critical,CA:FALSE", *ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(base + ".pem", base + ".key")
        return context
