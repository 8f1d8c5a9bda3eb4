"""A small internet around a real cordon-egress, for tests. Standard library only; needs root.

Three kinds of network namespace, all made here and gone with the process:

  world   servers of the test, at public looking addresses (and at private ones)
  node    cordon-egress itself, one cable away from the world
  cell    one for each session: lo only, every address is local, listeners as the keeper makes them

A socket belongs to the namespace its thread was in when it was made, so everything here happens in
one process: `with net.inside(ns):` around what makes sockets or starts programs.

    net = Net()
    net.name("example.com", "93.184.216.34")
    origin = Origin(net, "93.184.216.34", 80, lambda request: answer(b"hello"))
    egress = Egress(net, program)
    cell = egress.cell({"rules": [{"host": "example.com"}]})
    with cell.connect("example.com", 80) as s: ...
    cell.record(lambda r: r["kind"] == "request")
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
import sanitizer  # noqa: E402

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import reader  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
IP_TRANSPARENT = 19
IP_PKTINFO = 8
IPV6_RECVPKTINFO = 49

LISTEN_EGRESS = ("198.18.0.1", 53)
PROXY = ("198.18.0.1", 3128)

ATTACH, CHANGE, DETACH, SYNCED = 1, 2, 3, 4
TAKEN, RECORD, COUNTS = 64, 65, 66

RULES = """
table inet door {
  chain in {
    type filter hook prerouting priority mangle; policy accept;
    ip daddr != 127.0.0.0/8 meta l4proto tcp tproxy ip to :1 accept
    ip6 daddr != ::1 meta l4proto tcp tproxy ip6 to :1 accept
  }
}
"""


def run(*words, **options):
    subprocess.run(words, check=True, **options)


def own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Net:
    """The world and the node, with a cable between them, and who is called what."""

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
        self.authority()
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
        """The world's resolver says so; addresses may be a function that says it each time."""
        self.hosts[name] = addresses
        for a in addresses:
            if isinstance(a, str):
                self.address(a)

    # ---- names, as the node's resolver hears them

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

    def authority(self):
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


# ---- servers

class Request:
    """What a server got: the head as it came, and the body in its framing, taken off."""

    def __init__(self, head, body, conn):
        self.head, self.body, self.conn = head, body, conn
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        found = self.all(name)
        return found[0] if found else None


def answer(body=b"", status="200 OK", headers=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Reader(reader.Reader):
    """As the shared one, but None for what ends too early: clients and servers here are expected to do that."""

    def until(self, mark):
        try:
            return super().until(mark)
        except EOFError:
            return None

    def exactly(self, n):
        try:
            return super().exactly(n)
        except EOFError:
            return None

    def rest(self):
        parts = [self.consume(len(self.bytes))]
        try:
            while self.more():
                parts.append(self.consume(len(self.bytes)))
        except OSError:
            pass
        return b"".join(parts)

    def chunks(self):
        body = []
        while True:
            line = self.until(b"\r\n")
            if line is None:
                return None
            n = int(line, 16)
            piece = self.exactly(n + 2)
            if piece is None or piece[-2:] != b"\r\n":
                return None
            if n == 0:
                return b"".join(body)
            body.append(piece[:-2])


STRAYS = []  # what servers got that belongs to no request: bytes behind a body, no request line
REQUEST_LINE = re.compile(rb"[!-~]+ (/|\*)[!-~]* HTTP/1\.1\r\n")


class Origin:
    """A server of the world. handle(request) returns bytes to send, or None to close, or has done
    everything with request.conn itself and returns b""."""

    def __init__(self, net, address, port, handle, tls=None, whole=True):
        net.address(address)
        self.handle, self.tls, self.whole = handle, tls, whole
        self.requests, self.connections, self.broken = [], 0, 0
        with net.inside(net.world):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.listener = socket.socket(family)
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((address, port))
            self.listener.listen(128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def close(self):
        self.listener.close()

    def serve(self, conn):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
            self.converse(conn)
        except OSError:
            self.broken += 1
        finally:
            with contextlib.suppress(OSError):
                conn.close()

    @staticmethod
    def stray(what):
        """Kept, and Tap.done() fails by it: egress sends whole requests, one after the other."""
        STRAYS.append(bytes(what[:200]))

    def converse(self, conn):
        reader = Reader(conn)
        while True:
            head = reader.until(b"\r\n\r\n")
            if head is None:
                return
            if not REQUEST_LINE.match(head):
                self.stray(head)
                return
            request = Request(head, b"", conn)
            request.reader = reader
            if self.whole:
                if request.get("Content-Length"):
                    request.body = reader.exactly(int(request.get("Content-Length")))
                elif request.get("Transfer-Encoding"):
                    request.body = reader.chunks()
                if request.body is None:
                    self.broken += 1
                    return
                if reader.bytes and not request.get("Upgrade"):
                    self.stray(reader.bytes)
            self.requests.append(request)
            reply = self.handle(request)
            if reply is None:
                return
            conn.sendall(reply)


# ---- egress

def memory_file(text):
    fd = os.memfd_create("given")
    os.write(fd, text.encode())
    os.lseek(fd, 0, 0)
    return fd


class Egress:
    """cordon-egress, and channel C as cordond speaks it. without: descriptors that it does not get."""

    def __init__(self, net, program, resolv="nameserver 192.0.2.2\n", hosts="", extra=(), without=()):
        self.net = net
        self.control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pem = subprocess.run([program, "--create-ca"], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        begin = self.pem.index("-----BEGIN CERTIFICATE")
        self.certificate = self.pem[begin:self.pem.index("-----END CERTIFICATE") + 26]
        self.trusted = net.path("node.pem")
        with open(self.trusted, "w", encoding="ascii") as f:
            f.write(self.certificate)
        self.channel, theirs = socket.socketpair()
        with open(net.path("world.pem"), encoding="ascii") as f:
            bundle = f.read()
        given = {3: its.fileno(), 4: theirs.fileno(), 5: memory_file(resolv), 6: memory_file(hosts),
                 7: memory_file(bundle), 8: memory_file(self.pem), 9: memory_file("")}
        placed = {to: fd for to, fd in given.items() if to not in without}
        self.log = open(net.path("egress.log"), "w+b")
        with net.inside(net.node):
            self.process = subprocess.Popen(
                [*extra, program], close_fds=False, stderr=self.log, stdin=subprocess.DEVNULL,
                preexec_fn=lambda: self.place(placed))
        theirs.close()
        its.close()
        for fd in list(given.values())[2:]:
            os.close(fd)
        self.cells, self.taken, self.counter = {}, {}, 0
        self.heard = threading.Condition()
        self.sending = threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    @staticmethod
    def place(given):
        high = {to: os.dup2(fd, 200 + to, inheritable=False) for to, fd in given.items()}
        os.closerange(3, 10)
        for to, fd in high.items():
            os.dup2(fd, to, inheritable=True)

    def close(self):
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)  # close() alone waits for who reads it
        self.channel.close()
        self.control.close()
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "did not end with its channel"
        with open(self.log.name, errors="replace") as f:
            found = sanitizer.reports(f.read())
        return "\n".join(found) or code

    def renew(self):
        """Another channel, as of another cordond, which knows nothing of what was said before."""
        with self.sending, self.heard:
            old = self.channel
            old.shutdown(socket.SHUT_RDWR)
            self.channel, theirs = socket.socketpair()
            for cell in self.cells.values():
                cell.counts, cell.claims = {}, {}
        socket.send_fds(self.control, [b"C"], [theirs.fileno()])
        theirs.close()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        reader = Reader(self.channel)
        try:
            while True:
                head = reader.exactly(8)
                if head is None:
                    break
                length, kind, _ = struct.unpack("<IHH", head)
                body = reader.exactly(length)
                if body is None:
                    break
                self.hear(kind, body[:40].rstrip(b"\0").decode(), body[40:].decode())
        except OSError:
            pass

    def hear(self, kind, who, text):
        with self.heard:
            if kind == TAKEN:
                self.taken.setdefault(who, []).append(text)
            elif who in self.cells and kind == RECORD:
                self.cells[who].records.append(json.loads(text))
            elif who in self.cells and kind == COUNTS:
                self.cells[who].count(json.loads(text))
            self.heard.notify_all()

    def say(self, kind, who, text="", fds=()):
        body = who.encode().ljust(40, b"\0") + text.encode()
        frame = struct.pack("<IHH", len(body), kind, 0) + body
        with self.sending:
            sent = socket.send_fds(self.channel, [frame], list(fds)) if fds else 0
            self.channel.sendall(frame[sent:])

    def wait(self, found, seconds=5):
        """found() is asked whenever something was heard."""
        end = time.monotonic() + seconds
        with self.heard:
            while True:
                got = found()
                if got:
                    return got
                if not self.heard.wait(end - time.monotonic()) and time.monotonic() >= end:
                    return found()

    def cell(self, policy, secrets=(), mask=(), **more):
        """more: other members of the order, as tenant or used."""
        self.counter += 1
        return Cell(self, f"ses_{self.counter}", policy, secrets, mask, more)


def merged(policy):
    """A session's document as the merged one that egress gets. "private" is the node's."""
    whole = {"version": 1, "merged": True, "door": True, "ceilings": {}, "limits": {}, **policy}
    if whole.get("default") == "allow":
        whole.setdefault("default_layer", "session")
    whole["rules"] = [{"layer": "session", **r} for r in policy.get("rules", ())]
    return whole


class Cell:
    """A session: its namespace, its listeners, and what a program in it can do."""

    def __init__(self, egress, name, policy, secrets, mask, more=None):
        self.egress, self.net, self.id = egress, egress.net, name
        self.records, self.counts, self.claims, self.more = [], {}, {}, more or {}
        self.ns = self.net.namespace()
        egress.cells[name] = self
        with self.inside():
            run("ip", "route", "add", "local", "default", "dev", "lo")
            run("ip", "-6", "route", "add", "local", "default", "dev", "lo")
            run("nft", "-f", "-", input=RULES.encode())
            self.tcp = socket.socket(socket.AF_INET6)
            self.tcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.tcp.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
            self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.tcp.bind(("::", 1))
            self.tcp.listen(1024)
            self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.udp.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
            self.udp.setsockopt(socket.SOL_IP, IP_PKTINFO, 1)
            self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.udp.bind(("::", 53))
            self.tcp.setblocking(False)
            self.udp.setblocking(False)
        why = self.order(ATTACH, policy, secrets, mask, (self.tcp.fileno(), self.udp.fileno()))
        if why:
            raise ValueError(why)

    def inside(self):
        return self.net.inside(self.ns)

    def order(self, kind, policy, secrets=(), mask=(), fds=()):
        """Returns why it is not in force; "" if it is."""
        before = len(self.egress.taken.get(self.id, ()))
        order = {"policy": merged(policy), "secrets": list(secrets), "mask": list(mask), **self.more}
        self.egress.say(kind, self.id, json.dumps(order), fds)
        if not self.egress.wait(lambda: len(self.egress.taken.get(self.id, ())) > before):
            return "no answer"
        return self.egress.taken[self.id][-1]

    def count(self, counts):
        self.counts = counts
        self.claims.update({r["rule"]: r for r in counts.get("rules", ())})

    def used(self):
        """What cordond would give back to the next egress."""
        return {**self.counts, "rules": list(self.claims.values())}

    def change(self, policy, secrets=(), mask=()):
        return self.order(CHANGE, policy, secrets, mask)

    def detach(self):
        self.egress.say(DETACH, self.id)

    # ---- what programs in it do

    def lookup(self, name, kind=1):
        """The address the resolver gives; None: there is no such name."""
        with self.inside():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5)
        query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0)
        query += b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"
        query += struct.pack("!HH", kind, 1)
        s.sendto(query, LISTEN_EGRESS)
        got = s.recv(4096)
        s.close()
        if struct.unpack_from("!H", got, 6)[0] == 0:
            return None
        family, n = (socket.AF_INET6, 16) if kind == 28 else (socket.AF_INET, 4)
        at = len(query) + 12
        return socket.inet_ntop(family, got[at:at + n])

    def connect(self, where, port, timeout=10):
        """where: a name, which is looked up, or an address."""
        if not where.replace(".", "").isdigit() and ":" not in where:
            found = self.lookup(where)
            if found is None:
                raise OSError(f"{where} does not exist")
            where = found
        with self.inside():
            s = socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET)
        s.settimeout(timeout)
        s.connect((where, port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def tls(self, where, port=443, sni=None, alpn=None, trust=None, sock=None):
        """Connected and shaken; trusts the node's authority, or the file given."""
        context = ssl.create_default_context(cafile=trust or self.egress.trusted)
        if alpn:
            context.set_alpn_protocols(alpn)
        return context.wrap_socket(sock or self.connect(where, port), server_hostname=sni or where)

    def record(self, fits, seconds=5):
        """The first record that fits, waited for."""
        return self.egress.wait(lambda: next((r for r in self.records if fits(r)), None), seconds)

    def run(self, *words, **options):
        """A program inside the cell's network (and the machine's files but for resolv.conf)."""
        conf = self.net.path("resolv.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(f"nameserver {LISTEN_EGRESS[0]}\n")
        mount = f'mount --bind {conf} /etc/resolv.conf && exec "$@"'
        with self.inside():
            return subprocess.run(["unshare", "-m", "sh", "-c", mount, "sh", *words], check=False,
                                  **options)


class Response:
    def __init__(self, head, body, whole):
        lines = head.decode("latin-1").split("\r\n")
        self.line, self.body, self.whole = lines[0], body, whole
        self.status = int(self.line.split(" ")[1])
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        found = self.all(name)
        return found[0] if found else None


def read_response(reader, method="GET"):
    """One answer; None if the connection ended before its head did."""
    try:
        head = reader.until(b"\r\n\r\n")
    except OSError:
        return None
    if head is None:
        return None
    r = Response(head, b"", True)
    try:
        if method == "HEAD" or r.status < 200 or r.status in (204, 304):
            return r
        if r.get("Content-Length") is not None:
            r.body = reader.exactly(int(r.get("Content-Length")))
        elif r.get("Transfer-Encoding"):
            r.body = reader.chunks()
        else:
            r.body = reader.rest()
    except OSError:
        r.body = None
    r.whole = r.body is not None
    return r


def ask(sock, text, method="GET"):
    """Sends, and reads one answer."""
    sock.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
    return read_response(Reader(sock), method)


# ---- results

class Tap:
    """TAP: each check is one point."""

    def __init__(self):
        self.n, self.failed = 0, 0

    def ok(self, good, name, detail=""):
        self.n += 1
        if not good:
            self.failed += 1
        print(f"{'ok' if good else 'not ok'} {self.n} - {name}", flush=True)
        if not good and detail != "":
            print(f"# {detail!r}", flush=True)

    def same(self, got, want, name):
        self.ok(got == want, name, f"got {got!r}, wanted {want!r}")

    def done(self):
        self.same(STRAYS, [], "no server got bytes behind a body, or anything but requests")
        print(f"1..{self.n}", flush=True)
        return 1 if self.failed else 0
