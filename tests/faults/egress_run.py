#!/usr/bin/python3
"""egress_run.py - every call of cordon-egress can fail. The fault build of it serves cells in a small network of
namespaces (tests/egress/egress_harness.py): names by UDP and TCP, plain HTTP, TLS that is looked into and TLS that is
passed on, the proxy, packages, orders. Each call that a step makes fails once. It does not die or hang, an answer that is whole is
right, the next request is served, and descriptors and memory return.

    egress_run.py CORDON [--seconds N] [--seed N] [--only STEP ...] [--kinds KIND ...]"""
import argparse
import contextlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "packages"), os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "server"), os.path.join(HERE, "..", "behaviour")]
import harness  # noqa: E402
from client import Finding  # noqa: E402
from control import ERRORS, KINDS, Control, error_name  # noqa: E402
from egress_harness import ATTACH, DETACH, Egress, LISTEN_EGRESS, PROXY  # noqa: E402
from http_client import read_response  # noqa: E402
from namespaces import Net  # noqa: E402
from origin_server import Origin, Reader, answer  # noqa: E402
from registry import Package, Registry  # noqa: E402
from sanitizer import reports  # noqa: E402

BIG = bytes(range(256)) * 1500
POLICY = {
    "rules": [
        {"host": "web.example"},
        {"host": "pass.example"},
        {"host": "api.example", "set_headers": {"X-Key": "${secret.key}"}},
    ]
}
SECRETS = [{"name": "key", "value": "sk-a-value-of-some-length", "placeholder": "cordon_" + "A" * 32, "hosts": ["api.example"]}]
STEPS = []


def step(function):
    STEPS.append(function)
    return function


def serve(request):
    if request.line.startswith("POST"):
        return answer(request.body[::-1])
    return answer(BIG)


class World:
    def __init__(self, folder):
        self.folder = folder
        self.control = Control(folder, "cordon-egress")
        self.net = net = Net()
        for name, address in (("web", "93.184.216.34"), ("api", "93.184.216.35"), ("pass", "93.184.216.36")):
            net.name(f"{name}.example", address)
        Origin(net, "93.184.216.34", 80, serve)
        Origin(net, "93.184.216.35", 443, serve, tls=net.certificate("api.example"))
        Origin(net, "93.184.216.36", 443, serve, tls=net.certificate("pass.example"))
        self.registry, self.packages = Registry().join(net, "93.184.216.37"), 0
        self.start()

    def start(self):
        self.egress = Egress(self.net, os.path.join(self.folder, "cordon-egress"))
        self.at = 0
        self.cell = self.egress.cell(POLICY, SECRETS)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.egress.process.pid}/fd"))

    def join_again(self):
        """As the supervisor and cordond do when the channel has failed and the process runs."""
        self.egress.renew()
        why = self.cell.configure(ATTACH, POLICY, SECRETS, fds=(self.cell.tcp.fileno(), self.cell.udp.fileno()))
        if why:
            raise Finding(f"not attached again: {why}")

    def last_words(self):
        with open(self.egress.log.name, errors="replace") as f:
            return f.read()[-1500:]

    def look(self):
        with open(self.egress.log.name, errors="replace") as f:
            log = f.read()
        new, self.at = log[self.at :], len(log)
        if found := reports(new):
            raise Finding(found[0])
        if "connection to cordond lost" in new:  # the call was one on channel C
            self.join_again()
        if self.egress.process.poll() is not None:
            raise Finding(f"cordon-egress ended with {self.egress.process.returncode}: {new[-1500:]}")


def get(host):
    return f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def judge(got, what, want=BIG):
    """An answer that is whole and good is right; everything else is a refusal, which is fine."""
    if got is not None and got.whole and got.status == 200 and got.body != want:
        raise Finding(f"{what}: 200 with {len(got.body)} bytes of {len(want)}")


def find(cell, host):
    """By UDP, so that a lost answer is asked for again."""
    for _ in range(3):
        try:
            return cell.lookup(host)
        except TimeoutError:
            pass
    raise Finding(f"{host}: no answer of the resolver, three times")


def to(cell, host, port=80, **tls):
    """What connects to it."""

    def connect():
        address = find(cell, host)
        if address is None:
            raise OSError("no such name")
        sock = cell.connect(address, port, 15)
        return cell.tls(host, sock=sock, **tls) if port == 443 else sock

    return connect


def ask(open_it, text):
    """None if there is no answer; one that does not come is a finding."""
    try:
        with open_it() as s:
            s.settimeout(15)
            s.sendall(text)
            return read_response(Reader(s))
    except TimeoutError:
        raise Finding("no answer in 15 s") from None
    except OSError:
        return None


@step
def plain(w):
    judge(ask(to(w.cell, "web.example"), get("web.example")), "plain HTTP")


@step
def post(w):
    body = BIG[:100000]
    head = f"POST /x HTTP/1.1\r\nHost: web.example\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    judge(ask(to(w.cell, "web.example"), head + body), "POST", body[::-1])


@step
def looked_into(w):
    judge(ask(to(w.cell, "api.example", 443), get("api.example")), "TLS that is looked into")


@step
def passed_on(w):
    trust = w.net.path("world.pem")
    judge(ask(to(w.cell, "pass.example", 443, trust=trust), get("pass.example")), "TLS that is passed on")


@step
def proxy(w):
    text = b"GET http://web.example/x HTTP/1.1\r\nHost: web.example\r\n\r\n"
    judge(ask(lambda: w.cell.connect(*PROXY), text), "the proxy")
    ask(lambda: w.cell.connect(*PROXY), b"CONNECT web.example:80 HTTP/1.1\r\nHost: web.example:80\r\n\r\n")


@step
def package(w):
    """In a session of its own: metadata that was not asked for before, and its file."""
    w.packages += 1
    name = f"p{w.packages}"
    w.registry.packages[:] = [Package("npm", name, "1.0.0", age="400d", pad=30000)]
    try:
        other = w.egress.cell({"version": 1, "rules": [], "packages": {"registries": w.registry.entries("npm"), "min_age": "7d"}})
    except (ValueError, OSError):
        w.control.disarm()
        w.egress.send(DETACH, f"ses_{w.egress.counter}")
        return
    path = w.registry.path("npm", name, "1.0.0")
    data = w.registry.parts["npm"].data(w.registry.packages[0])
    try:
        got = ask(to(other, "npm.example", 443), f"GET /{name} HTTP/1.1\r\nHost: npm.example\r\n\r\n".encode())
        if got is not None and got.whole and got.status == 200 and json.loads(got.body)["dist-tags"] != {"latest": "1.0.0"}:
            raise Finding(f"metadata: {got.body[:300]}")
        judge(ask(to(other, "npm.example", 443), f"GET {path} HTTP/1.1\r\nHost: npm.example\r\n\r\n".encode()), "a package", data)
    finally:
        w.control.disarm()
        other.detach()
        os.close(other.ns)
        other.tcp.close()
        other.udp.close()


@step
def names(w):
    """By TCP: one that was not asked for before."""
    name = f"n{w.control.calls()['send']}{random.random()}".replace(".", "") + ".web.example"
    query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0)
    query += b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + struct.pack("!HH", 1, 1)
    try:
        with w.cell.connect(*LISTEN_EGRESS) as s:
            s.settimeout(15)
            s.sendall(struct.pack("!H", len(query)) + query)
            s.recv(4096)
    except TimeoutError:
        raise Finding("a name asked for by TCP: no answer in 15 s") from None
    except OSError:
        pass


@step
def orders(w):
    """A refused order says why; one that is taken is in force."""
    w.cell.change(POLICY, SECRETS)
    try:
        other = w.egress.cell(POLICY)
    except (ValueError, OSError):
        with contextlib.suppress(OSError):  # the connection may be the thing that was lost: look() makes another one
            w.egress.send(DETACH, f"ses_{w.egress.counter}")  # as cordond does when it has no answer
        return
    finally:
        w.control.disarm()
    judge(ask(to(other, "web.example"), get("web.example")), "a new guest")
    other.detach()
    os.close(other.ns)
    other.tcp.close()
    other.udp.close()


def count(w, function):
    w.control.count()
    function(w)
    w.control.disarm()
    w.look()
    return w.control.calls()


def works(w):
    """The next one is served."""
    for _ in range(40):
        got = ask(to(w.cell, "web.example"), get("web.example"))
        if got is not None and got.whole and got.status == 200:
            return
        time.sleep(0.05)  # between two tries
    raise Finding(f"afterwards: {got and (got.status, got.whole, got.body)}")


def fail_once(w, function, kind, nth, error):
    w.control.arm(kind, nth, error)
    try:
        function(w)
    finally:
        w.control.disarm()
    w.look()
    works(w)
    return w.control.failed() > 0


def at_rest(w):
    """(descriptors, allocated bytes) without a guest: what is kept for one goes with it."""
    works(w)
    w.cell.detach()
    w.control.count()
    time.sleep(1)  # timers of the detached session have ended
    w.control.disarm()
    found = w.descriptors(), w.control.allocated()
    w.cell = w.egress.cell(POLICY, SECRETS)
    return found


def plan(counts, seed, kinds):
    found = [(f, k, n, e) for f, calls in counts.items() for k in kinds for e in ERRORS[k] for n in range(1, calls.get(k, 0) + 1)]
    random.Random(seed).shuffle(found)
    return found


def run(w, args, seed):
    wanted = [f for f in STEPS if not args.only or f.__name__ in args.only]
    for function in wanted:
        function(w)  # what is looked up or minted once
    counts = {f: count(w, f) for f in wanted}
    total = {k: sum(c[k] for c in counts.values()) for k in KINDS}
    print("# calls: " + ", ".join(f"{k} {n}" for k, n in total.items() if n), flush=True)
    before, findings, tried, began = at_rest(w), 0, 0, time.monotonic()
    items = plan(counts, seed, args.kinds)
    for item in items:
        if time.monotonic() - began > args.seconds:
            break
        tried += 1
        try:
            fail_once(w, *item)
        except Exception as e:
            findings += 1
            function, kind, nth, error = item
            print(f"# FINDING {function.__name__}: call {nth} of {kind} fails with {error_name(kind, error)}")
            print("\n".join("#   " + line for line in f"{type(e).__name__}: {e}\n{w.last_words()}".splitlines()), flush=True)
            if w.egress.process.poll() is not None:
                w.start()
                before = at_rest(w)
    seconds = time.monotonic() - began
    print(f"{'not ok' if findings else 'ok'} 1 - {tried} of {len(items)} failing calls in {seconds:.0f} s", flush=True)
    for _ in range(8):
        after = at_rest(w)
        if after[0] <= before[0]:
            break
    if after[0] > before[0]:
        fds = f"/proc/{w.egress.process.pid}/fd"
        print("# " + " ".join(sorted(os.readlink(os.path.join(fds, fd)) for fd in os.listdir(fds))))
    print(f"{'ok' if after[0] <= before[0] else 'not ok'} 2 - descriptors: {before[0]} before, {after[0]} after")
    kept = after[1] - before[1] < (1 << 20)
    print(f"{'ok' if kept else 'not ok'} 3 - memory: {before[1] >> 10} KiB before, {after[1] >> 10} KiB after")
    print("1..3", flush=True)
    return findings + (after[0] > before[0]) + (not kept)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon", help="of a build directory in which the target faults was built")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    args = parser.parse_args()
    program = os.path.join(os.path.dirname(os.path.abspath(args.cordon)), "tests", "faults", "fault-egress")
    missing = "needs root" if os.geteuid() != 0 else "" if os.path.exists(program) else "no fault build: make sanitized"
    if missing:
        print(f"1..0 # SKIP {missing}")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    harness.isolate()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"# seed {seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="cordon-faults-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    shutil.copy(program, os.path.join(folder, "cordon-egress"))
    w = None
    try:
        w = World(folder)
        bad = run(w, args, seed)
    finally:
        if w is not None:
            w.control.disarm()
            w.egress.close()
            w.net.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
