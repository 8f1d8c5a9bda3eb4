"""registry.py - fake package registries of every ecosystem, from one table of packages.

    r = Registry(Package("npm", "left", "1.0.0", age="30d"), Package("npm", "left", "2.0.0", age="1h"),
                 Package("pypi", "demo", "1.0", depends={"other": ">=1"}))
    r.fault("/left/-/*.tgz", registry_answer.last_byte)      # a registry that lies; see registry_answer.py
    r.count("/left/-/*")                                     # requests that came so far
    r.path("npm", "left", "1.0.0")                           # of the file

Where it is reached:

    r.listen()                    on loopback, one port for each ecosystem, without TLS: r.url("npm")
    r.join(internet.NET)          in the small internet of tests/egress/internet.py: https://npm.example, http://deb.example
    r.join(net)                   in the namespaces of tests/egress/namespaces.py, the same names
    r.entries("npm", "pypi")      as the registries of a policy, of the names above

The files are real (package_files.py): pip, npm, cargo, go, git, apt, bundler and mvn install them."""
import fnmatch
import hashlib
import os
import socket
import sys
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
from origin_server import Origin, Reader, Request  # noqa: E402
from registry_answer import Answer  # noqa: E402
from registry_apt import Apt  # noqa: E402
from registry_cargo import Cargo  # noqa: E402
from registry_go import Go  # noqa: E402
from registry_npm import Npm  # noqa: E402
from registry_other import Gem, Git, Maven, Oci  # noqa: E402
from registry_python import Pypi  # noqa: E402

KINDS = {"pypi": Pypi, "npm": Npm, "cargo": Cargo, "go": Go, "apt": Apt, "git": Git, "gem": Gem, "maven": Maven, "oci": Oci}
ADDRESS = "93.184.216.35"  # where the names of a world lead; sites.py serves it, too
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Package:
    """One version of one package.

    age: how long ago it was released ("3h", "30d", None: the registry does not say). script: it has code that runs when
    it is installed. source: pypi also has an sdist; wheel=False: only that. pad: bytes of its content. depends: {name:
    range}. yanked, tag: as the registry says. digest: what the metadata claims in place of the truth. url: where the
    metadata says that the file is. token: it exists only for requests with this Authorization header."""

    def __init__(self, ecosystem, name, version, age="30d", **more):
        self.ecosystem, self.name, self.version = ecosystem, name, version
        self.released = None if age is None else time.time() - float(age[:-1]) * UNITS[age[-1]]
        self.script = self.source = self.yanked = False
        self.wheel = self.core_metadata = True
        self.pad, self.depends = 0, {}
        self.tag = self.digest = self.url = self.token = None
        self.kept = {}
        for name_, value in more.items():
            if name_ not in self.__dict__:
                raise TypeError(f"a package has no {name_}")
            setattr(self, name_, value)

    def time(self, form):
        return time.strftime(form, time.gmtime(self.released or 0))

    def made(self, what, make):
        if what not in self.kept:
            self.kept[what] = make()
        return self.kept[what]


class Registry:
    """validators: it sends ETag and knows If-None-Match. short_forms, pubtime: as registries differ. wait: seconds before
    each answer, as of a registry far away."""

    def __init__(self, *packages):
        self.packages, self.faults, self.requests = list(packages), [], []
        self.validators = self.short_forms = self.pubtime = True
        self.wait, self.urls, self.lock, self.making = 0, {}, threading.Lock(), threading.Lock()
        self.parts = {name: kind(self) for name, kind in KINDS.items()}
        self.by_host = {host: name for name, part in self.parts.items() for host in part.hosts.values()}

    # ---- what tests do with it

    def add(self, *args, **more):
        self.packages.append(Package(*args, **more))
        return self.packages[-1]

    def find(self, ecosystem, name, version):
        return next(p for p in self.packages if (p.ecosystem, p.name, p.version) == (ecosystem, name, version))

    def path(self, ecosystem, name, version):
        """Of its file, on its host."""
        return self.parts[ecosystem].path(self.find(ecosystem, name, version))

    def fault(self, pattern, fault, times=1 << 30):
        """On answers to paths that fit (as of a shell); the one that was added last is the first to be asked."""
        self.faults.insert(0, [pattern, fault, times])

    def heal(self):
        self.faults.clear()

    def seen(self, pattern="*", **members):
        with self.lock:
            return [q for q in self.requests if fnmatch.fnmatchcase(q.path, pattern) and
                    all(getattr(q, k) == v for k, v in members.items())]

    def count(self, pattern="*", **members):
        return len(self.seen(pattern, **members))

    def forget(self):
        with self.lock:
            self.requests.clear()

    def close(self):
        for part in self.parts.values():
            if hasattr(part, "close"):
                part.close()

    # ---- what ecosystems ask of it

    def visible(self, ecosystem, q):
        given = q.get("Authorization")
        return [p for p in self.packages if p.ecosystem == ecosystem and p.token in (None, given)]

    def versions(self, ecosystem, name, q, normal=str):
        return [p for p in self.visible(ecosystem, q) if normal(p.name) == normal(name)]

    def url(self, ecosystem, role="index"):
        part = self.parts[ecosystem]
        if ecosystem in self.urls:
            return self.urls[ecosystem]
        return f"http{'' if hasattr(part, 'plain') and part.plain is True else 's'}://{part.hosts[role]}"

    def entries(self, *ecosystems, **more):
        """Registries as a policy names them."""
        made = []
        for name in ecosystems:
            hosts = list(self.parts[name].hosts.values())
            made.append({"ecosystem": name, "host": hosts[0], **({"files": hosts[1:]} if hosts[1:] else {}),
                         **({"sumdb": hosts[1]} if name == "go" else {}), **more})
        return made

    # ---- requests

    def answer(self, q):
        """The Answer to a request (Request of origin_server.py, with method, path, query and ecosystem)."""
        with self.making:  # packages are made when they are first asked for
            a = self.parts[q.ecosystem].answer(q)
        if self.validators and a.status == 200 and q.method in ("GET", "HEAD") and q.ecosystem != "git":
            a.headers["ETag"] = f'"{hashlib.md5(a.body).hexdigest()}"'  # bundler compares it with the body
            if q.get("If-None-Match") == a.headers["ETag"]:
                a = Answer(b"", 304, headers={"ETag": a.headers["ETag"]})
        a.wait = self.wait
        for entry in self.faults:
            if entry[2] > 0 and fnmatch.fnmatchcase(q.path, entry[0]):
                entry[2] -= 1
                return entry[1](q, a)
        return a

    def handle(self, q, ecosystem=None):
        """For servers of tests/egress: answers on q.conn; b"" goes on with the connection, None closes it."""
        target = urllib.parse.urlsplit("//x" + q.line.split(" ")[1])
        q.method, q.path, q.query = q.line.split(" ")[0], target.path.replace("%21", "!"), target.query
        q.host = (q.get("Host") or "").split(":")[0]
        q.ecosystem = ecosystem or self.by_host.get(q.host)
        with self.lock:
            self.requests.append(q)
        a = self.answer(q) if q.ecosystem else Answer(b"no such host", 421, "text/plain")
        return b"" if a.send(q.conn, q.method) else None

    # ---- where it is reached

    def listen(self, *ecosystems, address="127.0.0.1"):
        """On loopback; ecosystems: those alone."""
        for name in ecosystems or KINDS:
            listener = socket.create_server((address, 0), backlog=256)
            self.urls[name] = f"http://{address}:{listener.getsockname()[1]}"
            threading.Thread(target=self.accept, args=(listener, name), daemon=True).start()
        return self

    def accept(self, listener, ecosystem):
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=self.serve, args=(conn, ecosystem), daemon=True).start()

    def serve(self, conn, ecosystem):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = Reader(conn)
        with conn:
            try:
                while (head := reader.until(b"\r\n\r\n")) is not None:
                    q = Request(head, b"", conn)
                    if q.get("Content-Length"):
                        q.body = reader.exactly(int(q.get("Content-Length")))
                    elif q.get("Transfer-Encoding"):
                        q.body = reader.chunks()
                    if q.body is None or self.handle(q, ecosystem) is None:
                        return
            except OSError:
                pass

    def join(self, net, address=ADDRESS):
        """In a world of tests/egress: an Internet, or a Net. One address; TLS with the world's authority."""
        if hasattr(net, "sites"):
            for host in self.by_host:
                net.zone[host] = (address,)
                net.sites.handlers[host] = self.handle
            context = net.sites.certificate("registry", list(self.by_host))
            net.sites.contexts.update({host: context for host in self.by_host})
            return self
        for host in self.by_host:
            net.name(host, address)
        contexts = {host: net.certificate(host) for host in self.by_host}
        tls = next(iter(contexts.values()))
        tls.sni_callback = lambda sock, name, _: setattr(sock, "context", contexts.get(name, tls))
        self.origins = Origin(net, address, 80, self.handle), Origin(net, address, 443, self.handle, tls=tls)
        return self
