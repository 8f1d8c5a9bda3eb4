"""internet.py - a small internet for tests of the real programs: a node, one cable, and a world.

The test itself, the server it starts and the cells of it are in the node's network (namespaces of our
own, made by enter(), gone with the process). The world is another one: a resolver, servers at public
looking addresses (sites.py), and canaries: addresses that must never be reached. Whatever arrives
there, or anywhere else where no server stands, is remembered by the packet filter of the world, not
by a server: also what is neither TCP nor answered.

    if __name__ == "__main__":
        internet.enter()
        internet.run_tests(globals(), pool_size=2)

`internet.NET` is the world then: NET.hits, NET.asked, NET.zone; and after each test the canaries are
looked at. A test program may have a function control(server), called behind each test: it shows that what
is allowed works, so that "refused" did not mean "broken". Standard library only; needs root.
"""
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "server"), os.path.join(HERE, "..", "behaviour")]
import harness  # noqa: E402
import level  # noqa: E402
from namespaces import Net, own_namespace, run  # noqa: E402
from origin_server import STRAYS  # noqa: E402
from harness import Failed, check  # noqa: E402,F401
from tap import bind  # noqa: E402

STAGE = "SMALL_INTERNET"
FOLDER = "/mnt"  # a tmpfs of our own mount namespace: nothing to remove, however the test ends
PORTS = (80, 443, 8080, 8443, 22, 853, 2222, 1080)

NODE_PUBLIC = "93.184.217.1"  # the node has a public address, too
WEB, OTHER, GIT, SPARE = "93.184.216.34", "93.184.216.35", "93.184.216.36", "93.184.216.37"
WEB6, ONLY6 = "2606:2800:220:1::34", "2606:2800:220:1::6"
GOOD = (WEB, OTHER, GIT, SPARE, WEB6, ONLY6)
EVIL, EVIL6 = "93.184.216.66", "2606:2800:220:666::1"  # public; no policy of these tests allows it
METADATA, METADATA6, METADATA_ALI = "169.254.169.254", "fd00:ec2::254", "100.100.100.200"
INTERNAL, INTERNAL6 = "10.0.0.5", "fd12:3456:789a::5"
CANARIES = (EVIL, EVIL6, METADATA, METADATA6, METADATA_ALI, INTERNAL, INTERNAL6, "192.168.1.1", "172.16.0.1")

ZONE = {
    "web.example": (WEB, WEB6), "look.example": (WEB, WEB6), "api.example": (WEB,), "other.example": (OTHER,),
    "git.example": (GIT,), "model.example": (OTHER,), "registry.example": (OTHER,), "store.example": (OTHER,),
    "ws.example": (WEB,), "six.example": (ONLY6,), "socks.example": (SPARE,), "raw.example": (SPARE,),
    "expired.example": (SPARE,), "wrongname.example": (SPARE,), "selfsigned.example": (SPARE,),
    "bysni.example": (SPARE,), "one.wild.example": (SPARE,), "two.one.wild.example": (SPARE,),
    "xn--bcher-kva.example": (WEB,), "slow.example": (WEB,), "cut.example": (WEB,), "garbage.example": (WEB,),
    "alias.example": ("web.example",), "mixed.example": (INTERNAL, WEB),
    "evil.example": (EVIL, EVIL6), "web.example.evil.example": (EVIL,), "evilweb.example": (EVIL,),
    "toevil.example": ("evil.example",), "tointernal.example": ("internal.corp.example",),
    "internal.corp.example": (INTERNAL,), "meta.example": (METADATA,), "meta6.example": (METADATA6,),
    "mapped.example": ("::ffff:169.254.169.254",), "nat64.example": ("64:ff9b::a9fe:a9fe",),
    "linklocal.example": ("fe80::1",), "cgnat.example": (METADATA_ALI,), "loop.example": ("127.0.0.1", "::1"),
    "zero.example": ("0.0.0.0", "::"), "self.example": (NODE_PUBLIC,), "multi.example": ("224.0.0.1",),
    "metadata.google.internal": (METADATA,), "host.docker.internal": (INTERNAL,),
}


class Names:
    """The world's resolver. zone: {name: addresses, or one name (CNAME), or a function of the type and
    the how-manieth time it is asked}; odd: {name: "silent" | "slow" | "garbage" | "cut"}."""

    def __init__(self):
        self.zone, self.odd, self.asked, self.times = dict(ZONE), {}, [], {}
        self.odd.update({"slow.example": "slow", "cut.example": "cut", "garbage.example": "garbage"})

    def found(self, name, kind):
        """[(owner, type, data)], following names."""
        got, owner = [], name
        for _ in range(8):
            values = self.zone.get(owner, ())
            if callable(values):
                self.times[owner, kind] = self.times.get((owner, kind), 0) + 1
                values = values(kind, self.times[owner, kind])
            other = [v for v in values if not re.fullmatch(r"[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*", v)]
            if not other:
                return got + [(owner, kind, v) for v in values if kind in (1, 28) and (":" in v) == (kind == 28)]
            got.append((owner, 5, other[0]))
            owner = other[0]
        return got

    def answer(self, query, over):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        kind, name = struct.unpack_from("!H", query, at + 1)[0], ".".join(labels).lower()
        self.asked.append((name, kind, over))
        odd = self.odd.get(name)
        if odd == "silent":
            return None
        if odd == "slow":
            time.sleep(0.5)
        question = query[12:at + 5]
        if odd == "cut" and over == "udp":
            return query[:2] + struct.pack("!HHHHH", 0x8380, 1, 0, 0, 0) + question
        if odd == "garbage":
            return query[:2] + os.urandom(60)
        found = self.found(name, kind)
        body = b"".join(self.record(*r) for r in found)
        head = struct.pack("!HHHHH", 0x8180 | (0 if name in self.zone else 3), 1, len(found), 0, 0)
        return query[:2] + head + question + body

    @staticmethod
    def record(owner, kind, value):
        def name(text):
            return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"

        data = name(value) if kind == 5 else socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, value)
        return name(owner) + struct.pack("!HHIH", kind, 1, 0, len(data)) + data  # TTL 0: nothing is cached

    def serve_udp(self, sock):
        while True:
            query, peer = sock.recvfrom(4096)
            threading.Thread(target=self.say_udp, args=(sock, query, peer), daemon=True).start()

    def say_udp(self, sock, query, peer):
        reply = self.answer(query, "udp")
        if reply:
            sock.sendto(reply, peer)

    def serve_tcp(self, listener):
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=self.say_tcp, args=(conn,), daemon=True).start()

    def say_tcp(self, conn):
        with conn:
            head = conn.recv(2, socket.MSG_WAITALL)
            while len(head) == 2:
                reply = self.answer(conn.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL), "tcp")
                if not reply:
                    return
                conn.sendall(struct.pack("!H", len(reply)) + reply)
                head = conn.recv(2, socket.MSG_WAITALL)


RULES = """
table inet canary {
  set good4 { type ipv4_addr; elements = { %(good4)s } }
  set good6 { type ipv6_addr; elements = { %(good6)s } }
  set stray4 { type ipv4_addr . inet_proto . inet_service; size 4096; flags dynamic; }
  set stray6 { type ipv6_addr . inet_proto . inet_service; size 4096; flags dynamic; }
  chain in {
    type filter hook prerouting priority raw; policy accept;
    iifname != "cable" accept
    ip daddr 192.0.2.2 meta l4proto { tcp, udp } th dport 53 accept
    ip daddr 192.0.2.2 icmp type destination-unreachable accept  # an answer to a program that was killed meanwhile
    ip daddr @good4 meta l4proto tcp accept
    ip6 daddr @good6 meta l4proto tcp accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report } accept
    meta nfproto ipv4 update @stray4 { ip daddr . meta l4proto . th dport }
    meta nfproto ipv6 update @stray6 { ip6 daddr . meta l4proto . th dport }
  }
}
"""


class Internet(Net, Names):
    """The world, seen from the node; what came to its servers, its resolver and its canaries."""

    def __init__(self):
        Names.__init__(self)
        self.home = self.node = own_namespace()
        self.dir, self.world = FOLDER, self.namespace()
        self.hits, self.connections, self.loops = [], [], []
        self.cable()
        self.watch_packets()
        self.listen_dns()
        self.listen_loops()
        from sites import Sites  # its certificates need the folder
        self.sites = Sites(self)
        self.sites.start(PORTS)

    def cable(self):
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
            f"/proc/{os.getpid()}/fd/{self.world}")
        for end, other, ns in (("1", "2", self.node), ("2", "1", self.world)):
            with self.inside(ns):
                run("ip", "addr", "add", f"192.0.2.{end}/24", "dev", "cable")
                run("ip", "-6", "addr", "add", f"2001:db8::{end}/64", "dev", "cable", "nodad")
                run("ip", "link", "set", "cable", "up")
                run("ip", "route", "add", "default", "via", f"192.0.2.{other}")
                run("ip", "-6", "route", "add", "default", "via", f"2001:db8::{other}")
        run("ip", "addr", "add", NODE_PUBLIC + "/32", "dev", "lo")
        for address in GOOD + CANARIES:
            self.address(address)

    def watch_packets(self):
        sets = {"good4": ", ".join(a for a in GOOD if ":" not in a), "good6": ", ".join(a for a in GOOD if ":" in a)}
        with self.inside(self.world):
            run("nft", "-f", "-", input=(RULES % sets).encode())

    def strays(self):
        """Packets that came where none may come: ["ADDRESS . PROTOCOL . PORT"]."""
        with self.inside(self.world):
            text = "".join(subprocess.run(["nft", "list", "set", "inet", "canary", name], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout for name in ("stray4", "stray6"))
            found = re.findall(r"[0-9a-f:.]+ \. [a-z0-9-]+ \. [a-z0-9-]+", text)
            if found:
                run("nft", "flush", "set", "inet", "canary", "stray4")
                run("nft", "flush", "set", "inet", "canary", "stray6")
        return found

    def listen_dns(self):
        with self.inside(self.world):
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            tcp = socket.create_server(("192.0.2.2", 53))
            udp.bind(("192.0.2.2", 53))
            for target, sock in ((self.serve_udp, udp), (self.serve_tcp, tcp)):
                threading.Thread(target=target, args=(sock,), daemon=True).start()

    def listen_loops(self):
        """Services of the node itself, at all its addresses: none of a cell's business either."""
        for port in (80, 443, 8088, 3128, 53):
            listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
            threading.Thread(target=self.serve_loop, args=(listener,), daemon=True).start()

    def serve_loop(self, listener):
        while True:
            conn, _ = listener.accept()
            with conn:
                self.loops.append(conn.getsockname()[:2])

    def mark(self):
        """Forgets what came so far."""
        del self.hits[:], self.asked[:], self.connections[:], self.loops[:]
        self.strays()

    def check_canaries(self):
        """Nothing came where nothing may come. Fails, and forgets, so that the next test has a chance."""
        bad = [f"a packet to {s}" for s in self.strays()]
        bad += [f"a connection to the node's {a}" for a in self.loops]
        bad += [f"a request to {h['address']} {h['host']}{h['path']}" for h in self.hits if h["address"] in CANARIES]
        del self.loops[:]
        if bad:
            raise Failed("CANARY: " + "; ".join(sorted(set(bad))))

    def hit(self, path, seconds=0.0, **members):
        """The requests for this path that servers of the world saw."""
        end = time.monotonic() + seconds
        while True:
            found = [h for h in self.hits if h["path"].split("?")[0] == path and
                     all(h[k] == v for k, v in members.items())]
            if found or time.monotonic() >= end:
                return found
            time.sleep(0.01)


NET = None  # the world, when tests run


def enter():
    """Comes back in network and mount namespaces of our own, with the world's resolver."""
    if os.geteuid() != 0 or os.environ.get(STAGE) == "2":
        return
    if os.environ.get(STAGE) is None:
        os.environ[STAGE] = "1"
        level.fetch(os.path.abspath(sys.argv[1]))  # while there is a network
        os.execvp("unshare", ["unshare", "--net", "--mount", "--", sys.executable, "-B", *sys.argv])
    os.environ[STAGE] = "2"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", FOLDER)
    run("ip", "link", "set", "lo", "up")
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as f:
        f.write("0")
    for path, text in (("/etc/resolv.conf", "nameserver 192.0.2.2\noptions timeout:2 attempts:2\n"),
                       ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")):
        source = os.path.join(FOLDER, os.path.basename(path))
        with open(source, "w", encoding="ascii") as f:
            f.write(text)
        bind(source, path)
    Net.dir = FOLDER
    Net.create_ca(Net.__new__(Net))


def start():
    """The world begins. Threads do it: not before the last fork of this process."""
    global NET
    if NET is None:
        NET = Internet()


class Late(dict):
    """The test functions, each with a look at the canaries behind it. The world is started when they are
    asked for: that is behind the last fork, which threads do not survive."""

    def items(self):
        start()
        control = self.get("control")
        return [(n, self.guarded(f, control) if n.startswith("test_") and callable(f) else f) for n,
                f in super().items()]

    @staticmethod
    def guarded(function, control):
        def guarded_test(server):
            NET.mark()
            try:
                function(server)
            finally:
                NET.check_canaries()
                strays, STRAYS[:] = STRAYS[:], []
            check(not strays, f"a server got what is no request: {strays}")
            if control:
                control(server)

        return guarded_test


def run_tests(names, **settings):
    level.IMPORTED = True
    settings.setdefault("egress_ca", os.path.join(FOLDER, "world.pem"))
    harness.run_tests(Late(names), **settings)
