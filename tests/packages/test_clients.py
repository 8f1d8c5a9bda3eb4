#!/usr/bin/python3 -B
"""Goal: real package clients, unconfigured but for the registry's name, live with a package policy: an install works
where it is allowed, takes the older version where the newest is too young or denied, and is refused with the reason in
the client's own output, with a lockfile and without.

    test_clients.py CORDON [name ...]

The table of doc/packages.md is what these tests check. Each client has the same life (life()); what differs is how
it says no. Clients: see cell_clients.py."""
import atexit
import hashlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import cell_clients as clients  # noqa: E402
import internet  # noqa: E402
import package_files  # noqa: E402
from checks import check, equal, has  # noqa: E402
from internet_client import make, policy  # noqa: E402
from registry import Registry  # noqa: E402

NAMES = {"pypi": "demo", "npm": "demo", "cargo": "demo", "go": "code.example/Demo", "git": "ours/demo", "apt": "demo", "gem": "demo",
         "maven": "org.example:demo"}
OTHER = {"go": "code.example/Other", "git": "ours/other", "maven": "org.example:other"}
VERSIONS = {"pypi": ("1.0", "2.0"), "npm": ("1.0.0", "2.0.0"), "cargo": ("1.0.0", "1.1.0"), "go": ("v1.0.0", "v1.1.0"),
            "git": ("v1", "v2"), "apt": ("1.0", "2.0"), "gem": ("1.0.0", "2.0.0"), "maven": ("1.0", "2.0")}
R = Registry()
for eco, name_ in NAMES.items():
    R.add(eco, name_, VERSIONS[eco][0], age="400d")
    R.add(eco, name_, VERSIONS[eco][1], age="3h")
    R.add(eco, OTHER.get(eco, "other"), VERSIONS[eco][0], age="400d")

YOUNG = "is 3 h old, this session wants 7 days"
DENIED = "is denied by the policy of this session"
UNPINNED = "is not pinned; this session installs pinned packages only"
OFF = "packages are off in this session; the template must have them"


SEEN = "was first seen 0 s ago, this session wants 7 days"
BERRY_EXACT = "No candidates found"
BUN_EXACT = 'No version matching "2.0.0" found'


def said(done):
    return " ".join((done["stdout"] + done["stderr"]).split())


class Life:
    """Sessions of one client."""

    def __init__(self, server, kind):
        self.server, self.kind, self.eco = server, kind, kind.eco
        self.name, (self.old, self.new) = NAMES[kind.eco], VERSIONS[kind.eco]
        self.other = OTHER.get(kind.eco, "other")
        if "npm.example" not in internet.NET.zone:
            R.join(internet.NET)

    def client(self, **packages):
        s = make(self.server, policy(packages={"registries": R.entries(self.eco, **(
            {"unknown_age": "allow"} if self.eco in ("go", "apt", "git", "gem", "maven") else {})), **packages}))
        if self.kind is clients.Go:
            return clients.Go(self.server, s, R.parts["go"].sum_key())
        if self.kind is clients.Apt:
            return clients.Apt(self.server, s, R.parts["apt"].keyring())
        return self.kind(self.server, s)

    def never_seen(self):
        """Of registries without times the node's first sight counts: a registry of its own name has none."""
        entries = R.entries(self.eco, unknown_age="deny")
        for e in entries:
            e["private"] = True  # kept for the tenant, apart from what other sessions have seen
        return self.client(registries=entries, min_age="7d")

    def works(self, done, c, version, what):
        equal(done["exit_code"], 0, f"{what}: {said(done)[-800:]}")
        equal(c.has(self.name), version, what)

    def fails(self, done, words, what):
        check(done["exit_code"] != 0, f"{what}: it went well: {said(done)[-400:]}")
        has(said(done), words, what)

    def newest(self):
        """Without limits; the lockfile of it."""
        c = self.client()
        self.works(c.install(self.name), c, self.new, "open: the newest")
        return c.files() if hasattr(c, "files") else {}

    def too_young(self, exact, locked, files):
        """exact, locked: what the client says of the version by name, and of it in a lockfile."""
        c = self.client(min_age="7d")
        self.fails(c.install(self.name, self.new), exact, "the newest, by its version, is too young")
        self.works(c.install(self.name), c, self.old, "the older one is taken")
        self.fails(c.locked(files), locked, "the newest, locked, is too young")

    def denied(self):
        c = self.client(deny=[f"{self.eco}:{self.name}@{self.new}"])
        self.works(c.install(self.name), c, self.old, "the newest is denied: the older one is taken")
        return c.files() if hasattr(c, "files") else {}

    def pinned(self, lockfile, files, words=UNPINNED):
        c = self.client(mode="pinned", lockfiles=[{"name": lockfile, "text": files[lockfile]}])
        self.works(c.locked(files), c, self.old, "what is pinned is installed")
        self.fails(c.install(self.other), words, "what is not pinned is refused")

    def offline(self, words=OFF):
        c = self.client(mode="offline")
        self.fails(c.install(self.name), words, "offline")


def requirements(version):
    part = R.parts["pypi"]
    p = R.find("pypi", "demo", version)
    return {"requirements.txt": f"demo=={version} " + " ".join(
        f"--hash=sha256:{hashlib.sha256(data).hexdigest()}" for data in part.files(p).values()) + "\n"}


def test_pip(server):
    life = Life(server, clients.Pip)
    life.newest()
    life.too_young(YOUNG, YOUNG, requirements(life.new))
    life.denied()
    life.pinned("requirements.txt", requirements(life.old))
    life.offline()


def test_poetry(server):
    life = Life(server, clients.Poetry)
    life.too_young(YOUNG, YOUNG, life.newest())
    life.pinned("poetry.lock", life.denied())
    life.offline()


def test_npm(server):
    life = Life(server, clients.Npm)
    life.too_young("No matching version found for demo@2.0.0", "403 demo 2.0.0 " + YOUNG, life.newest())
    life.pinned("package-lock.json", life.denied())
    life.offline()


def test_yarn(server):
    life = Life(server, clients.Yarn)
    # of a refused file, yarn 1 shows the status alone
    life.too_young('Couldn\'t find any versions for "demo" that matches "2.0.0"', "403", life.newest())
    life.pinned("yarn.lock", life.denied())
    life.offline()


def test_pnpm(server):
    life = Life(server, clients.Pnpm)
    life.too_young("No matching version found for demo@2.0.0", "demo 2.0.0 " + YOUNG, life.newest())
    life.pinned("pnpm-lock.yaml", life.denied())
    life.offline()


def test_yarn_berry(server):
    life = Life(server, clients.Berry)
    life.too_young(BERRY_EXACT, YOUNG, life.newest())
    life.pinned("yarn.lock", life.denied())
    life.offline()


def test_bun(server):
    life = Life(server, clients.Bun)
    life.too_young(BUN_EXACT, "403", life.newest())
    life.denied()
    c = life.client(mode="pinned", pins={"npm:demo": ["1.0.0"]})
    life.works(c.install(life.name, life.old), c, life.old, "what is pinned is installed")
    life.fails(c.install(life.other), "403", "what is not pinned is refused")
    life.offline("403")


def test_cargo(server):
    life = Life(server, clients.Cargo)
    life.too_young("version 1.1.0 is yanked", "demo 1.1.0 " + YOUNG, life.newest())
    life.pinned("Cargo.lock", life.denied())
    life.offline()


def test_go(server):
    life = Life(server, clients.Go)
    life.too_young(YOUNG, YOUNG, life.newest())
    life.pinned("go.sum", life.denied())
    life.offline()


def test_git(server):
    """No versions are hidden: a repository is allowed or not."""
    life = Life(server, clients.Git)
    life.newest()
    c = life.client(deny=["git:OURS/demo"])
    life.fails(c.install("ours/demo"), "remote: ours/demo " + DENIED, "a denied repository")
    life.fails(c.install("Ours/Demo"), DENIED, "the same in capitals")
    life.works(c.install("ours/other"), c, "v1", "another")
    c = life.client(mode="pinned", pins={})
    life.fails(c.install("ours/demo"), UNPINNED, "nothing is pinned")
    life.offline()


def test_apt(server):
    """The index is signed, so nothing is hidden in it: the file is refused."""
    life = Life(server, clients.Apt)
    c = life.client(deny=["apt:demo@2.0"])
    equal(c.update()["exit_code"], 0, "the index is passed")
    life.fails(c.install("demo"), "403 demo 2.0 " + DENIED, "a denied version")
    life.works(c.install("demo", "1.0"), c, "1.0", "another version, by name")
    c = life.client(mode="pinned", pins={})
    c.update()
    life.fails(c.install("demo"), UNPINNED, "nothing is pinned")
    life.fails(life.client(mode="offline").update(), OFF, "offline")
    c = life.never_seen()
    c.update()
    life.fails(c.install("demo"), "403 demo 2.0 " + SEEN, "a version that was not seen before")


def test_bundler(server):
    """Its documents are passed as they are, since it checks their digests: the file is refused."""
    life = Life(server, clients.Bundler)
    life.newest()
    c = life.client(deny=["gem:demo@2.0.0"])
    life.fails(c.install("demo"), DENIED, "a denied version")
    life.works(c.install("demo", "1.0.0"), c, "1.0.0", "another version, by name")
    life.pinned("Gemfile.lock", c.files())
    life.fails(life.never_seen().install("demo"), SEEN, "a version that was not seen before")
    life.offline()


def test_maven(server):
    """Likewise; the jar of an extension is what Maven needs without plugins of its own."""
    life = Life(server, clients.Maven)
    c = life.client(deny=["maven:org.example:demo@2.0"])
    life.works(c.install(life.name, life.old), c, life.old, "a version that is not denied")
    life.fails(c.install(life.name, life.new), DENIED, "a denied version")
    life.fails(life.never_seen().install(life.name, life.old), SEEN, "a version that was not seen before")
    jar = package_files.jar(R.find("maven", life.name, life.old))
    c = life.client(mode="pinned", pins={f"maven:{life.name}": [f"{life.old} sha256:{hashlib.sha256(jar).hexdigest()}"]})
    life.works(c.install(life.name, life.old), c, life.old, "what is pinned is installed")
    life.fails(c.install(life.other, life.old), UNPINNED, "what is not pinned is refused")
    life.fails(life.client(mode="offline").install(life.name, life.old), OFF, "offline")


if __name__ == "__main__":
    clients.fetch()
    internet.enter()
    atexit.register(clients.forget)
    internet.run_tests(globals(), pool_size=2)
