"""A real cordon-egress in a small internet (namespaces.py), and cells that use it. Standard library only; needs root.

A cell is a network namespace with lo only, in which every address is local, and listeners as the keeper makes them.

    net = Net()
    net.name("example.com", "93.184.216.34")
    origin = Origin(net, "93.184.216.34", 80, lambda request: answer(b"hello"))
    egress = Egress(net, program)
    cell = egress.cell({"rules": [{"host": "example.com"}]})
    with cell.connect("example.com", 80) as s: ...
    cell.record(lambda r: r["kind"] == "request")
"""

import contextlib
import fcntl
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from namespaces import run
from origin_server import Reader

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
import sanitizer  # noqa: E402

IP_TRANSPARENT = 19
IP_PKTINFO = 8
IPV6_RECVPKTINFO = 49

LISTEN_EGRESS = ("198.18.0.1", 53)
PROXY = ("198.18.0.1", 3128)

ATTACH, CHANGE, DETACH, SYNCED, PING = 1, 2, 3, 4, 5
TAKEN, RECORD, COUNTS, PONG = 64, 65, 66, 67

RULES = """
table inet egress {
  chain in {
    type filter hook prerouting priority mangle; policy accept;
    ip daddr != 127.0.0.0/8 meta l4proto tcp tproxy ip to :1 accept
    ip6 daddr != ::1 meta l4proto tcp tproxy ip6 to :1 accept
  }
}
"""


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
        self.received = threading.Condition()
        self.sending = threading.Lock()
        self.messages, self.pongs = 0, 0
        self.start_listening()

    @staticmethod
    def place(given):
        # to free ones: a program with many tests has used up the numbers below
        high = {to: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for to, fd in given.items()}
        os.closerange(3, 10)
        for to, fd in high.items():
            os.dup2(fd, to, inheritable=True)

    def close(self):
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)  # close() alone waits for the thread that reads it
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
        """Another channel, as of another cordond, which knows nothing of earlier messages."""
        with self.sending, self.received:
            old = self.channel
            old.shutdown(socket.SHUT_RDWR)
            self.channel, theirs = socket.socketpair()
            for cell in self.cells.values():
                cell.counts, cell.claims = {}, {}
        socket.send_fds(self.control, [b"C"], [theirs.fileno()])
        theirs.close()
        self.start_listening()

    def start_listening(self):
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

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
                self.take(kind, body[:40].rstrip(b"\0").decode(), body[40:].decode())
        except OSError:
            pass

    def take(self, kind, session, text):
        with self.received:
            self.messages += 1
            self.pongs += kind == PONG
            if kind == TAKEN:
                self.taken.setdefault(session, []).append(text)
            elif session in self.cells and kind == RECORD:
                self.cells[session].records.append(json.loads(text))
            elif session in self.cells and kind == COUNTS:
                self.cells[session].count(json.loads(text))
            self.received.notify_all()

    def send(self, kind, session, text="", fds=()):
        body = session.encode().ljust(40, b"\0") + text.encode()
        frame = struct.pack("<IHH", len(body), kind, 0) + body
        with self.sending:
            sent = socket.send_fds(self.channel, [frame], list(fds)) if fds else 0
            self.channel.sendall(frame[sent:])

    def ping(self):
        """True when egress has answered: then it has done everything that it was sent before."""
        before = self.pongs
        self.send(PING, "")
        return self.wait(lambda: self.pongs > before)

    def wait(self, found, seconds=5):
        """found() is called again after every message of egress, until it is true."""
        end = time.monotonic() + seconds
        with self.received:
            while True:
                got = found()
                if got:
                    return got
                if not self.received.wait(end - time.monotonic()) and time.monotonic() >= end:
                    return found()

    def cell(self, policy, secrets=(), mask=(), **more):
        """more: other members of the configuration, as tenant or used."""
        self.counter += 1
        return Cell(self, f"ses_{self.counter}", policy, secrets, mask, more)


def merged(policy):
    """A session's document as the merged one that egress gets. "private" is the node's."""
    whole = {"version": 1, "merged": True, "ceilings": {}, "limits": {}, **policy}
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
        why = self.configure(ATTACH, policy, secrets, mask, (self.tcp.fileno(), self.udp.fileno()))
        if why:
            raise ValueError(why)

    def inside(self):
        return self.net.inside(self.ns)

    def configure(self, kind, policy, secrets=(), mask=(), fds=()):
        """Returns why it is not in force; "" if it is."""
        before = len(self.egress.taken.get(self.id, ()))
        written = {"layers": ["", "", json.dumps(policy)]} if "packages" in policy else {"policy": merged(policy)}
        config = {**written, "secrets": list(secrets), "mask": list(mask), **self.more}
        self.egress.send(kind, self.id, json.dumps(config), fds)
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
        return self.configure(CHANGE, policy, secrets, mask)

    def detach(self):
        self.egress.send(DETACH, self.id)

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
        """Connected, with the handshake done; trusts the egress CA of the node, or the file given."""
        context = ssl.create_default_context(cafile=trust or self.egress.trusted)
        if alpn:
            context.set_alpn_protocols(alpn)
        return context.wrap_socket(sock or self.connect(where, port), server_hostname=sni or where)

    def record(self, fits, seconds=5):
        """Waits for a record that fits, and returns the first."""
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
