#!/usr/bin/python3
"""The resolver and the connector of cordon-egress against name servers that lie.

Goal: a connection is only ever made to an address that may be reached, whatever names point to and
the servers that answer for them. A network namespace with outbound_probe in it is joined by a cable to a
second one, which has public addresses, private ones and a metadata service, all of them reachable
by the kernel's opinion: every connection there is noted, and those to what may not be reached must
be none at the end.

usage: test_outbound.py OUTBOUND_PROBE
"""
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

DNS, SECOND, SILENT, CLOSED, PROXY = "11.0.0.53", "11.0.0.54", "11.0.0.55", "11.0.0.56", "11.0.0.20"
GOOD, OTHER, HOLE, OWN = "11.0.0.10", "11.0.0.11", "11.7.0.1", "11.0.0.1"
GOOD6, HOLE6 = "2600:1234::10", "2600:7::1"
PRIVATE, METADATA = "10.9.9.9", "169.254.169.254"
A, CNAME, SOA, AAAA = 1, 5, 6, 28


# ---- the other side: name servers, servers, a proxy

def labels(name):
    return b"".join(bytes([len(x)]) + x.encode() for x in name.split(".") if x) + b"\0"


def record(name, kind, ttl, data):
    return labels(name) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def address(name, text, ttl=60):
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return record(name, AAAA if ":" in text else A, ttl, socket.inet_pton(family, text))


def alias(name, target, ttl=60):
    return record(name, CNAME, ttl, labels(target))


NO = record("test", SOA, 60, labels("ns.test") + labels("x.test") + struct.pack(">5I", 1, 1, 1, 1, 60))

PLAIN = {
    "ok.test": [GOOD], "v6only.test": [GOOD6], "both.test": [GOOD, GOOD6], "cached.test": [GOOD],
    "private.test": [PRIVATE], "mapped.test": ["::ffff:" + METADATA], "mapped10.test": ["::ffff:" + PRIVATE],
    "nat64.test": ["64:ff9b::a09:909"], "mixed.test": [PRIVATE, METADATA, GOOD], "lo.test": ["127.0.0.1", "::1"],
    "zero.test": ["0.0.0.0"], "self.test": [OWN], "he.test": [HOLE6, GOOD], "hole.test": [HOLE],
    "many.test": [PRIVATE] * 15 + [GOOD] * 30, "proxy.test": [PROXY], "metadata.test": [METADATA],
    "slow.test": [GOOD], "noaaaa.test": [GOOD], "tc.test": [GOOD], "wrong.test": [GOOD], "respelt.test": [GOOD],
    "second.test": [GOOD], "limit.test": [GOOD], "first.test": [GOOD], "again.test": [GOOD], "huge.test": [GOOD],
}


class Other:
    def __init__(self):
        self.hits, self.queries, self.proxied, self.asked = [], [], [], {}

    def answers(self, name, kind):
        """rcode, answers, authority."""
        n = self.asked[name, kind] = self.asked.get((name, kind), 0) + 1
        if name == "rebind.test":
            return (0, [address(name, GOOD if n == 1 else PRIVATE, 0)], []) if kind == A else (0, [], [NO])
        if name == "ttl0.test":
            return (0, [address(name, GOOD, 0)], []) if kind == A else (0, [], [NO])
        if name == "alias-private.test":
            found = [address("db.internal", PRIVATE)] if kind == A else []
            return 0, [alias(name, "db.internal")] + found, [] if found else [NO]
        if name == "alias.test":
            found = [address("ok.test", GOOD)] if kind == A else []
            return 0, [alias(name, "ok.test")] + found, [] if found else [NO]
        if name == "alias-alone.test":
            return 0, [alias(name, "ok.test")], []
        if name == "alias-circle.test":
            return 0, [alias(name, "alias-circle2.test")], []
        if name == "alias-circle2.test":
            return 0, [alias(name, "alias-circle.test")], []
        if name == "planted.test":
            return 0, [address("ok.test", OTHER), address(name, GOOD)] if kind == A else [], []
        if name.endswith(".limit.test"):
            return (0, [address(name, GOOD)], []) if kind == A else (0, [], [NO])
        if name not in PLAIN:
            return 3, [], [NO]
        found = [x for x in PLAIN[name] if (":" in x) == (kind == AAAA)]
        return 0, [address(name, x) for x in found], [] if found else [NO]

    def reply(self, query, force=None, flags=0):
        end = 12
        while query[end]:
            end += query[end] + 1
        end += 5
        name = ".".join(self.parts(query)).lower()
        kind = struct.unpack(">H", query[end - 4:end - 2])[0]
        rcode, found, authority = self.answers(name, kind)
        if force is not None:
            rcode, found, authority = 0, [address(name, force)] if kind == A else [], []
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | flags | rcode, 1, len(found), len(authority), 0)
        return head + query[12:end] + b"".join(found + authority), name, kind

    @staticmethod
    def parts(query):
        at = 12
        while query[at]:
            yield query[at + 1:at + 1 + query[at]].decode()
            at += query[at] + 1

    def serve_udp(self, sock, where):
        liar = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        liar.bind((OTHER, 53))
        while True:
            query, peer = sock.recvfrom(4096)
            text, name, kind = self.reply(query)
            self.queries.append([where, "udp", name, kind, peer[1], query[0] << 8 | query[1],
                                 ".".join(self.parts(query))])
            delay = 0
            if name == "noaaaa.test" and kind == AAAA:
                continue
            if name == "second.test" and where == DNS:
                text = text[:3] + bytes([text[3] & 0xF0 | 2]) + text[4:]
            if name == "tc.test" or name == "huge.test":
                text = text[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + query[12:]
            if name == "respelt.test":
                text = self.reply(query[:12] + query[12:].lower(), force=OTHER)[0]
            if name == "wrong.test":
                lie = self.reply(query, force=OTHER)[0]
                question = query[:12] + labels("wrOng.tesx") + query[-4:]
                sock.sendto(bytes([lie[0] ^ 1]) + lie[1:], peer)
                sock.sendto(self.reply(question, force=OTHER)[0], peer)
                sock.sendto(lie[:2] + b"\1" + lie[3:], peer)
                sock.sendto(lie[:-3], peer)
                sock.sendto(b"", peer)
                liar.sendto(lie, peer)
                delay = 0.3
            if name == "slow.test" or name.endswith("limit.test"):
                delay = 0.7
            threading.Timer(delay, sock.sendto, (text, peer)).start() if delay else sock.sendto(text, peer)

    def serve_dns_tcp(self, sock):
        while True:
            conn, _ = sock.accept()
            try:
                n = struct.unpack(">H", conn.recv(2, socket.MSG_WAITALL))[0]
                text, name, kind = self.reply(conn.recv(n, socket.MSG_WAITALL))
                self.queries.append(["", "tcp", name, kind, 0, 0, ""])
                if name == "huge.test":
                    text = text[:6] + b"\xff\xff" + text[8:] + b"\0" * 60000
                text = struct.pack(">H", len(text)) + text
                conn.sendall(text[:1])
                conn.sendall(text[1:])
            except (OSError, struct.error):
                pass
            conn.close()

    def serve_tcp(self, sock):
        while True:
            conn, _ = sock.accept()
            where = conn.getsockname()[0].replace("::ffff:", "")
            self.hits.append(where)
            conn.sendall(where.encode())
            conn.close()

    def serve_proxy(self, sock):
        while True:
            conn, _ = sock.accept()
            try:
                self.socks(conn)
            except (OSError, IndexError):
                pass
            conn.close()

    def socks(self, conn):
        take = lambda n: conn.recv(n, socket.MSG_WAITALL)
        methods = take(take(2)[1])
        user = ""
        if 2 in methods:
            conn.sendall(b"\5\2")
            user = take(take(2)[1]).decode()
            good = take(take(1)[0]) == b"right"
            conn.sendall(b"\1\0" if good else b"\1\1")
            if not good:
                return
        else:
            conn.sendall(b"\5\0")
        kind = take(4)[3]
        name = take(take(1)[0]).decode() if kind == 3 else take(4 if kind == 1 else 16).hex()
        port = struct.unpack(">H", take(2))[0]
        self.proxied.append([user, name, port])
        if port == 81:
            conn.sendall(b"\5\5\0\1\0\0\0\0\0\0")
        else:
            conn.sendall(b"\5\0\0\1\1\2\3\4\0\1through the proxy")

    def thread(self, target, *args):
        threading.Thread(target=target, args=args, daemon=True).start()

    def run(self):
        for name in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            with open("/proc/sys/" + name, "w") as f:
                f.write("0")
        for where in (DNS, SECOND, SILENT):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((where, 53))
            if where == SILENT:
                self.silent = sock
            elif where == DNS:
                self.thread(self.serve_udp, sock, where)
            else:
                self.thread(self.serve_second, sock)
        tcp = socket.create_server((DNS, 53))
        self.thread(self.serve_dns_tcp, tcp)
        self.thread(self.serve_tcp, socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True))
        self.thread(self.serve_proxy, socket.create_server((PROXY, 1080)))
        self.thread(self.serve_proxy, socket.create_server((PRIVATE, 1080)))
        print("ready", flush=True)
        for _ in sys.stdin:
            state = {"hits": self.hits, "queries": self.queries, "proxied": self.proxied}
            # Before it is told: then the next test begins.
            self.hits, self.queries, self.proxied, self.asked = [], [], [], {}
            print(json.dumps(state), flush=True)

    def serve_second(self, sock):
        while True:
            query, peer = sock.recvfrom(4096)
            text, name, kind = self.reply(query)
            self.queries.append([SECOND, "udp", name, kind, peer[1], 0, ""])
            sock.sendto(text, peer)


# ---- this side

class World:
    def __init__(self, probe):
        self.probe = probe
        self.other = subprocess.Popen(["unshare", "-n", sys.executable, __file__, "--other"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The new namespace is there when it is not ours any more.
        path, mine = f"/proc/{self.other.pid}/ns/net", os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 10
        while os.readlink(path) == mine:
            if time.monotonic() > deadline:
                raise SystemExit("no second namespace")
            time.sleep(0.01)
        there = ["nsenter", "-t", str(self.other.pid), "-n", "ip"]
        self.ip("link set lo up")
        self.ip(f"link add c0 type veth peer name s0 netns {self.other.pid}")
        for line in (f"addr add {OWN}/24 dev c0", "addr add 2600:1234::1/64 dev c0 nodad", "link set c0 up"):
            self.ip(line)
        for where in (DNS, SECOND, SILENT, CLOSED, PROXY, GOOD, OTHER):
            self.ip(f"addr add {where}/24 dev s0", there)
        for line in (f"addr add {PRIVATE}/24 dev s0", f"addr add {METADATA}/32 dev s0",
                     "addr add 2600:1234::53/64 dev s0 nodad", f"addr add {GOOD6}/64 dev s0 nodad",
                     "link set s0 up", "link set lo up", "route add default via " + OWN,
                     "-6 route add default via 2600:1234::1"):
            self.ip(line, there)
        self.ip("route add default via " + DNS)
        self.ip("-6 route add default via 2600:1234::53")
        self.other.stdin.write("\n")
        self.other.stdin.flush()
        if self.other.stdout.readline() != "ready\n":
            raise SystemExit("the other side does not start")

    @staticmethod
    def ip(line, how=("ip",)):
        subprocess.run([*how, *line.split()], check=True, timeout=20)

    def state(self):
        self.other.stdin.write("\n")
        self.other.stdin.flush()
        return json.loads(self.other.stdout.readline())

    def connect(self, *targets, policy=None, conf=f"nameserver {DNS}\noptions timeout:1 attempts:2", hosts=""):
        done = subprocess.run([self.probe, json.dumps({"version": 1, **(policy or {})}), conf, hosts, *targets], text=True,
                              stdout=subprocess.PIPE, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"probe ended with {done.returncode}")
        keys = ("result", "ip", "sys", "ms", "text", "said")
        return [dict(zip(keys, line.split("\t"))) for line in done.stdout.splitlines()]

    def one(self, target, **options):
        results = self.connect(target, **options)
        check(len(results) == 1, results)
        return results[0]


def check(condition, what=None):
    if not condition:
        raise AssertionError(what)


def reaches(r, ip):
    check(r["result"] == "connected" and r["ip"] == ip and r["said"] == ip, r)


def denied(r, *words):
    check(r["result"] == "denied", r)
    for word in words:
        check(word in r["text"], r)


TESTS = []


def test(name):
    return lambda fn: TESTS.append((name, fn)) or fn


@test("a name is found and connected to")
def _(w):
    reaches(w.one("ok.test:80"), GOOD)
    queries = w.state()["queries"]
    check(sorted(q[3] for q in queries) == [A, AAAA], queries)


@test("a host with IPv6 only, and IPv6 first")
def _(w):
    reaches(w.one("v6only.test:80"), GOOD6)
    reaches(w.one("both.test:80"), GOOD6)


@test("an address alone")
def _(w):
    reaches(w.one(f"@{GOOD}:80"), GOOD)


@test("no such name")
def _(w):
    for r in w.connect("nx.test:80", "nx.test:80"):
        check(r["result"] == "not_found", r)
    check(len(w.state()["queries"]) == 2, "it was asked for again")


@test("no server listens there")
def _(w):
    r = w.one("ok.test:81")
    check(r["result"] == "system" and int(r["sys"]) == 111, r)


@test("private addresses are refused, however they come")
def _(w):
    denied(w.one("private.test:80"), "private.test resolves to 10.9.9.9, a private address; the operator can allow it: \"private\" in egress_policy, then a reload (doc/policy.md#networks-of-your-own)")
    denied(w.one("metadata.test:80"), METADATA, "metadata")
    denied(w.one("mapped.test:80"), METADATA)
    denied(w.one("mapped10.test:80"), PRIVATE)
    denied(w.one("nat64.test:80"))
    denied(w.one("lo.test:80"), "loopback")
    denied(w.one("zero.test:80"), "unspecified")
    denied(w.one("alias-private.test:80"), PRIVATE)
    denied(w.one(f"@{PRIVATE}:80"), "10.9.9.9 is a private address")
    denied(w.one(f"@{METADATA}:80"))
    denied(w.one("localhost:80"), "loopback")
    denied(w.one("file.test:80", hosts=f"{PRIVATE} file.test"), PRIVATE)


@test("those among others are left out")
def _(w):
    reaches(w.one("mixed.test:80"), GOOD)
    reaches(w.one("many.test:80"), GOOD)


@test("unless the operator named them")
def _(w):
    reaches(w.one("private.test:80", policy={"private": ["10.9.9.0/24"]}), PRIVATE)
    check(w.state()["hits"] == [PRIVATE], "the canary does not sing")
    denied(w.one("metadata.test:80", policy={"private": ["10.9.9.0/24"]}))


@test("a name that points elsewhere the second time")
def _(w):
    first, second = w.connect("rebind.test:80", "rebind.test:80")
    reaches(first, GOOD)
    denied(second, PRIVATE)


@test("an address of the node itself")
def _(w):
    with socket.create_server((OWN, 80)) as server:
        denied(w.one("self.test:80"), OWN, "this node itself")
        denied(w.one(f"@{OWN}:80"), "this node itself")
        denied(w.one("self.test:80", policy={"private": ["11.0.0.0/24"]}), "this node itself")
        check(not select.select([server], [], [], 0.2)[0], "it was connected to")
        check(w.one("self.test:80", policy={"private": [OWN]})["result"] == "connected", "though the operator named it")


@test("TTL: 60 is kept, 0 is not")
def _(w):
    for r in w.connect("cached.test:80", "cached.test:80", "ttl0.test:80", "ttl0.test:80"):
        reaches(r, GOOD)
    asked = [q[2] for q in w.state()["queries"]]
    check(asked.count("cached.test") == 2 and asked.count("ttl0.test") == 4, asked)


@test("aliases")
def _(w):
    reaches(w.one("alias.test:80"), GOOD)
    reaches(w.one("alias-alone.test:80"), GOOD)
    check("ok.test" in [q[2] for q in w.state()["queries"]], "the alias was not asked for")
    r = w.one("alias-circle.test:80")
    check(r["result"] in ("not_found", "system"), r)


@test("what was not asked for does not count")
def _(w):
    first, second = w.connect("planted.test:80", "ok.test:80")
    reaches(first, GOOD)
    reaches(second, GOOD)


@test("answers that do not match are ignored")
def _(w):
    r = w.one("wrong.test:80")
    reaches(r, GOOD)
    check(int(r["ms"]) >= 250, r)


@test("an answer in another case is asked for again over TCP")
def _(w):
    reaches(w.one("respelt.test:80"), GOOD)
    check("tcp" in [q[1] for q in w.state()["queries"]], "no TCP")


@test("ports, ids and spelling are random")
def _(w):
    for _ in range(6):
        w.one("nx.test:80")
    queries = w.state()["queries"]
    for field in (4, 5, 6):
        check(len({q[field] for q in queries}) > len(queries) // 2, queries)


@test("truncated, then TCP")
def _(w):
    reaches(w.one("tc.test:80"), GOOD)
    kinds = [q[1] for q in w.state()["queries"]]
    check(kinds.count("udp") == 2 and kinds.count("tcp") == 2, kinds)


@test("more than we take over TCP")
def _(w):
    r = w.one("huge.test:80")
    check(r["result"] == "system", r)


@test("a server fails, the next one answers")
def _(w):
    reaches(w.one("second.test:80", conf=f"nameserver {DNS}\nnameserver {SECOND}\n"), GOOD)
    check({q[0] for q in w.state()["queries"]} == {DNS, SECOND}, "one server only")


@test("a server is silent, the next one answers, and is asked first then")
def _(w):
    conf = f"nameserver {SILENT}\nnameserver {SECOND}\noptions timeout:1\n"
    first, second = w.connect("first.test:80", "again.test:80", conf=conf)
    reaches(first, GOOD)
    reaches(second, GOOD)
    check(900 <= int(first["ms"]) < 2500 and int(second["ms"]) < 900, [first, second])


@test("no server there, the next one at once")
def _(w):
    r = w.one("ok.test:80", conf=f"nameserver {CLOSED}\nnameserver {DNS}\noptions timeout:5\n")
    reaches(r, GOOD)
    check(int(r["ms"]) < 2000, r)


@test("no name server answers")
def _(w):
    r = w.one("ok.test:80", conf=f"nameserver {SILENT}\noptions timeout:1 attempts:2\n")
    check(r["result"] == "system" and int(r["sys"]) == 110 and "no name server" in r["text"], r)


@test("a slow answer")
def _(w):
    r = w.one("slow.test:80")
    reaches(r, GOOD)
    check(int(r["ms"]) >= 650, r)


@test("AAAA never comes, A is enough")
def _(w):
    r = w.one("noaaaa.test:80", conf=f"nameserver {DNS}\noptions timeout:5")
    reaches(r, GOOD)
    check(int(r["ms"]) < 1500, r)


@test("IPv6 leads nowhere, IPv4 is tried soon")
def _(w):
    r = w.one("he.test:80")
    reaches(r, GOOD)
    check(200 <= int(r["ms"]) < 2000, r)


@test("a black hole ends after 10 s")
def _(w):
    r = w.one("hole.test:80")
    check(r["result"] == "system" and int(r["sys"]) == 110 and 9000 <= int(r["ms"]) < 15000, r)


@test("the hosts file comes first")
def _(w):
    reaches(w.one("nx.test:80", hosts=f"{GOOD} nx.test\n"), GOOD)
    check(w.state()["queries"] == [], "it was asked for")


@test("many connections to one name at once: asked once, and none is refused")
def _(w):
    results = w.connect("80*limit.test:80")
    check(len(results) == 80, results)
    for r in results:
        reaches(r, GOOD)
    check(len(w.state()["queries"]) == 2, "asked more than once")


@test("many names at once: more than 32 wait for their turn")
def _(w):
    results = w.connect("40*#.limit.test:80")
    check(len(results) == 40, results)
    for r in results:
        reaches(r, GOOD)
    asked = {q[2] for q in w.state()["queries"] if q[2].endswith(".limit.test")}
    check(len(asked) == 40, f"{len(asked)} names were asked for: {sorted(asked)}")


@test("through a SOCKS5 proxy, by name")
def _(w):
    policy = {"proxy": {"address": "proxy.test:1080", "username": "me", "password": "right"}}
    r = w.one("private.test:80", policy=policy)
    check(r["result"] == "connected" and r["ip"] == PROXY and r["said"] == "through the proxy", r)
    state = w.state()
    check(state["proxied"] == [["me", "private.test", 80]], state)
    check({q[2] for q in state["queries"]} == {"proxy.test"}, "the name itself was looked up here")


@test("the proxy refuses")
def _(w):
    policy = {"proxy": {"address": f"{PROXY}:1080", "username": "me", "password": "wrong"}}
    r = w.one("ok.test:80", policy=policy)
    check(r["result"] == "system" and "user and password" in r["text"], r)
    r = w.one("ok.test:81", policy={"proxy": {"address": f"{PROXY}:1080"}})
    check(r["result"] == "system" and int(r["sys"]) == 111, r)


@test("the proxy is no way around the rules for addresses")
def _(w):
    denied(w.one("ok.test:80", policy={"proxy": {"address": f"{PRIVATE}:1080"}}), PRIVATE)
    denied(w.one(f"@{METADATA}:80", policy={"proxy": {"address": f"{PROXY}:1080"}}), METADATA)
    check(w.state()["proxied"] == [], "the proxy was asked")


@test("a proxy that a layer above denies by its address is not connected to, its own rules do not count")
def _(w):
    def policy(address, layer):
        deny = {"cidr": f"{PROXY}/32", "ports": "any", "action": "deny", "layer": layer}
        return {"version": 1, "merged": True, "rules": [deny], "default": "allow", "default_layer": "session",
                "proxy": {"address": address, "username": "me", "password": "right", "layer": "session"}}
    denied(w.one("ok.test:80", policy=policy("proxy.test:1080", "tenant")), PROXY)
    check(w.state()["proxied"] == [], "the proxy was asked")
    for address in ("proxy.test:1080", f"{PROXY}:1080"):
        r = w.one("ok.test:80", policy=policy(address, "session"))
        check(r["result"] == "connected" and r["ip"] == PROXY, r)


def main():
    if sys.argv[1:] == ["--other"]:
        sys.stdin.readline()
        Other().run()
        return 0
    if sys.argv[1] != "--inside":
        how = ["-n"] if os.geteuid() == 0 else ["-rn"]
        os.execvp("unshare", ["unshare", *how, sys.executable, __file__, "--inside", sys.argv[1]])
    w = World(sys.argv[2])
    bad, hits = 0, []
    print(f"1..{len(TESTS) + 1}", flush=True)
    for i, (name, fn) in enumerate(TESTS, 1):
        try:
            fn(w)
            print(f"ok {i} - {name}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            bad += 1
            print(f"# {e}\nnot ok {i} - {name}", flush=True)
        hits += w.state()["hits"]
    forbidden = [x for x in hits if x in (PRIVATE, METADATA, OTHER)]
    bad += bool(forbidden)
    print(f"# {len(hits)} connections\n{'not ' if forbidden or not hits else ''}ok {len(TESTS) + 1} - "
          "nothing was reached that may not be")
    w.other.stdin.close()
    w.other.wait(10)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
