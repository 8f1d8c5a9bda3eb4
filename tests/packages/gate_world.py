"""gate_world.py - one cordon-egress, and a cordon-cache linked to it if a test wants one, in the small internet of
tests/egress/namespaces.py, with registries that answer what the test says. Needs root. Its user is a test program

    test_x.py CORDON_EGRESS CORDON_CACHE [name ...]

whose tests get a World each: `with world({"npm.example": handle}) as w`. Both programs must end well, without a report of
a sanitizer."""
import contextlib
import os
import shutil
import socket
import ssl
import struct
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared"), os.path.join(HERE, "..", "behaviour")]
from cache_channel import LINK, Cache  # noqa: E402
from checks import check, equal, named_tests, run_tap, wait_for  # noqa: E402
from egress_harness import Egress  # noqa: E402
from namespaces import Net  # noqa: E402
from origin_server import Origin, answer  # noqa: E402
import sanitizer  # noqa: E402

LINK_TO_CACHE = 7  # channel C: cordond hands a link over
PROGRAMS = {}
FIRST = 40  # 93.184.216.40 is the address of the first name


class World:
    def __init__(self, servers, cache):
        """servers: {name: handle}; handle(request) returns the answer (origin_server.py). Each has port 80 and 443."""
        self.net, self.seen, self.cache, self.folder, self.places = Net(), [], None, None, {}
        self.ended_caches = []  # reports of those before
        for number, (name, handle) in enumerate(servers.items()):
            self.places[name] = place = f"93.184.216.{FIRST + number}"
            self.net.name(name, place)
            for port, tls in ((80, None), (443, self.net.certificate(name))):
                Origin(self.net, place, port, self.noting(name, handle), tls=tls)
        self.egress = Egress(self.net, PROGRAMS["egress"])
        if cache:
            self.start_cache()

    def noting(self, name, handle):
        def on(request):
            self.seen.append((name, request.line.split(" ")[1]))
            return handle(request)
        return on

    def start_cache(self, **more):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="gate-cache-")
            os.chmod(self.folder, 0o755)
        self.cache = Cache(PROGRAMS["cache"], self.folder, **more)
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.cache.control.send(LINK, struct.pack("<I", 0), [its.fileno()])
        its.close()
        self.egress.send(LINK_TO_CACHE, "", "", [ours.fileno()])
        ours.close()

    def end_cache(self, kill=False):
        """What is wrong with its end."""
        code = self.cache.kill() if kill else self.cache.close()
        return sanitizer.reports("".join(self.cache.log)) + ([] if kill or code == 0 else [f"it ended with {code}"])

    def replace_cache(self, kill=False, **more):
        """By another one with the same files; more: of Cache."""
        self.ended_caches += self.end_cache(kill)
        self.start_cache(**more)

    def cell(self, packages, tenant="a", secrets=(), **policy):
        """packages: None, or the member of the policy."""
        return self.egress.cell(document(packages, **policy), secrets, tenant=tenant)

    def count(self, path):
        return sum(1 for _, at in self.seen if at == path)

    def log(self):
        with open(self.net.path("egress.log"), errors="replace") as f:
            return f.read()

    def close(self):
        ended = self.egress.close()
        found = []
        if self.cache is not None:
            found = self.ended_caches + self.end_cache()
            shutil.rmtree(self.folder)
        log = self.log()
        self.net.close()
        check(ended == 0, f"cordon-egress ended with {ended}; its log ends with\n{log[-3000:]}")
        check(found == [], f"cordon-cache: {found}")


def document(packages, **policy):
    return {"version": 1, **policy, **({} if packages is None else {"packages": packages})}


@contextlib.contextmanager
def world(servers, cache=False):
    w = World(servers, cache)
    try:
        yield w
    except BaseException:
        with contextlib.suppress(Exception):
            w.close()
        raise
    w.close()


def joined(chunks):
    body = b""
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        n = int(size or b"0", 16)
        body, chunks = body + rest[:n], rest[n + 2:]
    return body


class Reply:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        self.reason = words[2] if len(words) > 2 else ""
        self.headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines[1:])}
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = joined(self.body)

    def __repr__(self):
        return f"{self.status} {self.reason} {self.body[:100]!r}"


def start(cell, host, path, tls=False, headers="", timeout=30):
    """Sends a request, and returns the connection."""
    s = cell.connect(host, 443 if tls else 80, timeout)
    if tls:
        s = ssl.create_default_context(cafile=cell.egress.trusted).wrap_socket(s, server_hostname=host)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n".encode())
    return s


def finish(s):
    got = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while data := s.recv(65536):
            got += data
    s.close()
    return Reply(got)


def get(cell, host, path, tls=False, headers=""):
    return finish(start(cell, host, path, tls, headers))


def package_record(cell, fits, seconds=5):
    """The member `package` of the first record that fits."""
    return cell.record(lambda r: r.get("kind") == "package" and fits(r["package"]), seconds)["package"]


class Held:
    """Answers that wait until the test lets them go."""

    def __init__(self):
        self.go, self.lock = {}, threading.Lock()

    def event(self, path):
        with self.lock:
            return self.go.setdefault(path, threading.Event())

    def wait(self, path):
        self.event(path).wait(60)

    def drip(self, path, conn, data):
        """Send a byte now and then until the test lets the answer go, so that it does not stall. Return the rest."""
        while len(data) > 1 and not self.event(path).wait(0.2):
            conn.sendall(data[:1])
            data = data[1:]
        return data

    def release(self, *paths):
        for path in paths:
            self.event(path).set()

    def release_all(self):
        with self.lock:
            for event in self.go.values():
                event.set()


def settle(w):
    """Some turns of egress have passed."""
    for _ in range(10):
        check(w.egress.ping(), "cordon-egress answers")


def main(tests):
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    PROGRAMS.update(egress=sys.argv[1], cache=sys.argv[2])
    code = run_tap(named_tests(tests, sys.argv[3:]))
    sys.stdout.flush()
    os._exit(code)  # threads of servers may wait


__all__ = ["Held", "Reply", "World", "answer", "check", "document", "equal", "finish", "get", "main", "package_record", "settle",
           "start", "wait_for", "world"]
