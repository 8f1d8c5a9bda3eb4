"""lying_registry.py - registries of nine ecosystems (tests/packages/registry.py) that lie, wait, redirect and cut at random,
and a registry that is honest.

A lie never agrees with the digests of the metadata: a client whose policy refuses unverified files gets true files only."""
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "packages")]
import origin  # noqa: E402
import registry_answer as lies  # noqa: E402
from registry import KINDS, Package, Registry  # noqa: E402
from registry_answer import Answer  # noqa: E402
from registry_cargo import index_path  # noqa: E402

HONEST = "honest.example"
ELSEWHERE = "cdn.example"  # a host of no registry
NAMES, VERSIONS = 6, 4
LONG = 4000  # versions of a long document
AGES = ("40d", "9d", "1h", None)


def name_of(ecosystem, i):
    return {"go": f"example.org/m{i}", "maven": f"org.x{i}:lib", "git": f"team/r{i}", "oci": f"team/i{i}", "cargo": f"crate{i}"}.get(ecosystem, f"p{i}")


def version_of(ecosystem, i):
    return f"v1.0.{i}" if ecosystem == "go" else f"1.0.{i}"


def packages(seed):
    dice = random.Random(seed)
    for ecosystem in KINDS:
        for i in range(2 if ecosystem == "git" else NAMES):  # each version of a repository is a commit to make
            for v in range(1, VERSIONS + 1):
                yield Package(ecosystem, name_of(ecosystem, i), version_of(ecosystem, v), age=dice.choice(AGES), script=dice.random() < 0.2,
                              source=dice.random() < 0.3, pad=dice.choice((100, 3000, 70000)))


def long_document(q):
    """One that costs much to read, and is not read on by clients that are slow."""
    if q.ecosystem == "npm":
        name = q.path.strip("/")
        made = {f"1.0.{k}": {"dist": {"tarball": f"https://npm.example/{name}/-/{name}-1.0.{k}-{'a' * 200}.tgz"}} for k in range(LONG)}
        return json.dumps({"name": name, "dist-tags": {f"t{k}": f"1.0.{k}" for k in range(1000)} | {"latest": "1.0.1"}, "versions": made}).encode()
    if q.ecosystem == "go":
        return "".join(f"v1.0.{k}\n" for k in range(10 * LONG)).encode()
    return ("---\n" + "".join(f"1.0.{k} |checksum:{k:064x}\n" for k in range(LONG))).encode()


class Lying(Registry):
    def __init__(self, seed):
        super().__init__(*packages(seed))
        self.seed, self.served, self.lies = seed, 0, 0
        for p in self.packages:  # made before the clock runs
            if p.ecosystem == "git":
                self.parts["git"].commit(p)

    def hosts(self):
        return [*self.by_host, ELSEWHERE]

    def lie(self, dice):
        hosts = self.hosts()
        return dice.choice((
            lies.last_byte, lies.first_byte, lies.short, lies.cut, lies.long, lies.overrun, lies.gzip_lie, lies.partial, lies.bomb(8),
            lies.encoded(dice.choice(("br", "gzip, gzip", "x"))), lies.body(b"<html>no</html>", "text/html"), lies.body(b""),
            lies.status(dice.choice((204, 304, 404, 410, 429, 500, 503)), Retry_After="1"), lies.endless(count=50),
            lies.redirect(lambda q: f"https://{dice.choice(hosts)}{q.path}"), lies.redirect(lambda q: q.path + "x", 301),
            lies.redirect(dice.choice((f"http://{ELSEWHERE}/y", "/../..", "//evil/", "", "https://nowhere.example/", "\x01")), 307),
            lies.header(ETag='"same"', Last_Modified="yesterday", Content_Type=dice.choice(("text/plain", "", "a" * 300))),
        ))

    def answer(self, q):
        dice = random.Random(f"{self.seed}/{self.served}")
        self.served += 1
        if q.host == ELSEWHERE:
            return Answer(b"x" * dice.randrange(1, 50000))
        a = Answer(long_document(q)) if "long" in q.path else super().answer(q)
        if a.status == 304 or dice.random() < 0.55:
            return a
        self.lies += 1
        kind = dice.random()
        if kind < 0.2:
            a.wait = dice.random() * dice.choice((0.05, 0.5, 2))
        elif kind < 0.35:
            a.pace = dice.choice((50, 3000, 20000)), dice.random() * 0.05
            if len(a.body) > 200 * a.pace[0]:
                a.cut = 200 * a.pace[0]
        elif kind < 0.45:
            raw = origin.KINDS[dice.choice([name for name, data in origin.KINDS.items() if data is not None])]
            a.raw = origin.mutated(raw, dice) if dice.random() < 0.5 else raw
        elif a.body:
            a = self.lie(dice)(q, a)
        return a

    # ---- what clients ask for

    def files(self):
        """{(host, path): bytes} of all files whose digests the metadata says."""
        found = {}
        for p in self.packages:
            part = self.parts[p.ecosystem]
            if p.ecosystem == "pypi":
                found.update({(part.hosts["files"], part.path(p, name)): data for name, data in part.files(p).items()})
            elif p.ecosystem in ("npm", "gem", "go", "cargo"):
                host = part.hosts["files" if p.ecosystem == "cargo" else "index"]
                found[host, part.path(p)] = part.data(p)
        return found

    def documents(self):
        """(host, path) of all else: metadata, archives, images, and requests that no registry understands."""
        found = []
        for ecosystem, part in self.parts.items():
            host = part.hosts["index"]
            found += [(host, path) for path in ("/", "/x", "/-/npm/v1/keys", "/config.json", "/names", "/versions", "/v2/", "/dists/test/Release", "/dists/test/InRelease",
                                                "/dists/test/main/binary-amd64/Packages.gz", "/long1", "/info/long2", "/example.org/long/@v/list")]
            for p in self.packages:
                if p.ecosystem != ecosystem:
                    continue
                name = p.name.replace(".", "/").replace(":", "/") if ecosystem == "maven" else p.name
                found.append((host, f"/sumdb/sum.go.example/lookup/{p.name}@{p.version}" if ecosystem == "go" else part.path(p)))
                found += [(host, path) for path in {
                    "npm": (f"/{name}", f"/{name}/latest", f"/{name}/{p.version}"), "pypi": (f"/simple/{name}/", f"/simple/{name}", f"/pypi/{name}/json"),
                    "cargo": (index_path(name), f"/api/v1/crates/{name}"), "gem": (f"/info/{name}",), "oci": (f"/v2/{name}/tags/list", f"/v2/{name}/manifests/latest"),
                    "go": (f"/{name}/@v/list", f"/{name}/@latest", f"/{name}/@v/{p.version}.info", f"/{name}/@v/{p.version}.mod"),
                    "maven": (f"/{name}/maven-metadata.xml", f"/{name}/{p.version}/lib-{p.version}.jar.sha1", f"/{name}/{p.version}/lib-{p.version}.pom"),
                    "git": (f"/{name}.git/info/refs?service=git-upload-pack", f"/{name}/archive/refs/tags/{p.version}.tar.gz", f"/{name}.git/HEAD"),
                    "apt": (f"/pool/main/{name[0]}/{name}/{name}_9.9_all.deb",),
                }[ecosystem]]
        found += [(ELSEWHERE, path) for path in ("/a-1.0.tgz", "/b-1.0-py3-none-any.whl", "/v2/x/y/manifests/latest", "/x.git/info/refs?service=git-upload-pack", "/x")]
        return found


class Honest(Registry):
    """An npm registry of its own host, whose packages a client asks for all the time."""

    def __init__(self):
        super().__init__(*(Package("npm", "good", f"1.0.{i}", pad=3000) for i in range(50)))
        self.urls["npm"] = f"https://{HONEST}"

    def on(self, q):
        return self.handle(q, "npm")
