#!/usr/bin/python3 -B
"""Goal: packages of tenant and session hold together in running sessions, from the first request after a change; mistakes and
documents that are too long are refused when they are set.

    test_layers.py CORDON [name ...]"""
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
from checks import has, wait_for  # noqa: E402
from harness import check, equal  # noqa: E402
from internet_client import policy  # noqa: E402
from registry import Registry  # noqa: E402

R = Registry()
for name in ("left", "right"):
    R.add("npm", name, "1.0.0", age="400d")
FILE = "https://npm.example/{0}/-/{0}-1.0.0.tgz"


def entries():
    if "npm.example" not in internet.NET.zone:
        R.join(internet.NET)
    return R.entries("npm")


def status_line(server, s, url, key):
    out = server.run(s["id"], f"curl -s -m 20 -D - -o /dev/null {url}", key=key)["stdout"]
    return out.split("\r\n")[0]


def test_layers_of_a_running_session(server):
    ident, key = server.tenant("layered")
    s = server.create(key=key, network=policy(packages={"registries": entries()}))
    layer, own = f"/v1/tenants/{ident}/network", f"/v1/sessions/{s['id']}/network"
    ask = lambda name: status_line(server, s, FILE.format(name), key)  # noqa: E731
    has(ask("left"), " 200")
    server.want(200, "PUT", layer, {"packages": {"deny": ["npm:left"]}})
    wait_for(lambda: "left 1.0.0 is denied by the policy of this tenant (packages.deny[0])" in ask("left"), 10, "the tenant's layer")
    has(ask("right"), " 200")
    shown = server.want(200, "PUT", own + "?effective=true", policy(packages={"registries": entries(), "deny": ["npm:right"], "advisories": "ignore"}), key=key)
    equal(sorted(shown["effective"]["packages"]), ["session", "tenant"], "layers of the effective document")
    has(ask("right"), "right 1.0.0 is denied by the policy of this session")
    has(ask("left"), "this tenant")
    # Below a layer with packages nothing goes unread.
    server.want(200, "PUT", own, policy({"host": "web.example", "tls": "pass"}, packages={"registries": entries()}), key=key)
    has(status_line(server, s, "https://web.example/", key), " 403")
    # A registry that the tenant does not list.
    server.want(200, "PUT", layer, {"packages": {"registries": ["pypi"]}})
    server.refused(400, "invalid", "PUT", own, policy(packages={"registries": entries()}), "is not among those of the tenant's", key=key)
    wait_for(lambda: " 200" not in ask("right"), 10, "the end of what the tenant no longer lists")
    server.want(200, "PUT", layer, {"version": 1})
    server.delete(s["id"], key=key)


def test_a_lockfile_at_create(server):
    right = R.parts["npm"].integrity(R.find("npm", "left", "1.0.0"))
    wrong = right[:20] + ("A" if right[20] != "A" else "B") + right[21:]
    for integrity, result in ((right, "downloaded"), (wrong, "hash_mismatch")):
        lock = {"lockfileVersion": 3, "packages": {"": {}, "node_modules/left": {"version": "1.0.0", "resolved": FILE.format("left"), "integrity": integrity}}}
        s = server.create(network=policy(packages={"registries": entries(), "mode": "pinned",
                                                   "lockfiles": [{"name": "package-lock.json", "text": json.dumps(lock)}]}))
        line = status_line(server, s, FILE.format("left"), server.key)
        check((" 200" in line) == (result == "downloaded"), line)
        has(status_line(server, s, FILE.format("right"), server.key), "right 1.0.0 is not pinned")
        rows = lambda: {r["name"]: r["result"] for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]}  # noqa: B023,E731
        wait_for(lambda: rows() == {"left": result, "right": "refused"}, 10, f"{result} on record")  # noqa: B023


def test_a_git_server_is_open_for_git_only(server):
    """The entry of a git server opens no pages of it; with a rule pages pass, and package files among them are judged."""
    entries()
    git = R.entries("git")
    s = server.create(network=policy(packages={"registries": git}))
    ask = lambda path: status_line(server, s, "https://code.example" + path, server.key)  # noqa: E731
    R.add("git", "team/repo", "1.0.0")
    has(ask("/team/repo/info/refs?service=git-upload-pack"), " 200")
    for path in ("/", "/team/repo/issues", "/raw/evil-1.0-py3-none-any.whl"):
        has(ask(path), " 403 this is no request for a package, and no rule allows it")
    before = R.count("/team/*")
    has(status_line(server, s, "-X POST -d secret https://code.example/team/gist", server.key), " 403 ")
    equal(R.count("/team/*"), before, "requests that came to the server")
    s = server.create(network=policy("code.example", packages={"registries": git, "deny": ["pypi:evil"]}))
    has(ask("/raw/evil-1.0-py3-none-any.whl"), "evil 1.0 is denied by the policy of this session")
    check(" 403 " not in ask("/about"), "a page that a rule allows")


def test_create_takes_a_lockfile(server):
    """cordon create --lockfile: the pins of the file, and nothing else."""
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "p.json"), "w", encoding="utf-8") as f:
            json.dump(policy(packages={"registries": entries()}), f)
        with open(os.path.join(place, "requirements.txt"), "w", encoding="utf-8") as f:
            f.write("demo==1.0\n")
        done = subprocess.run([server.program, "create", "--policy", os.path.join(place, "p.json"), "--lockfile", os.path.join(place, "requirements.txt")],
                              env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}, stdout=subprocess.PIPE, text=True,
                              timeout=60, check=True)
    s = done.stdout.split()[0]
    packages = server.want(200, "GET", f"/v1/sessions/{s}/network")["policy"]["packages"]
    equal((packages["mode"], packages["pins"]), ("pinned", {"pypi:demo": ["1.0"]}))
    has(status_line(server, {"id": s}, FILE.format("left"), server.key), "left 1.0.0 is not pinned")


def long_lockfile(size):
    """A package-lock.json as npm writes it, of at least this size. Returns its text and how many packages it has."""
    packages, n, have = {"": {"name": "project"}}, 0, 0
    while have < size:
        name, digest = f"some-package-{n}", base64.b64encode(hashlib.sha512(str(n).encode()).digest()).decode()
        entry = {"version": f"{n % 9}.{n % 7}.0", "resolved": f"https://npm.example/{name}/-/{name}-{n % 9}.{n % 7}.0.tgz", "integrity": f"sha512-{digest}",
                 "license": "MIT", "dependencies": {f"other-{k}": f"^{k}.0.0" for k in range(5)}, "engines": {"node": ">=18.0.0"},
                 "funding": {"url": "https://example.test/sponsors"}}
        packages["node_modules/" + name] = entry
        have += len(json.dumps(entry, indent=2)) + 80
        n += 1
    return json.dumps({"name": "project", "lockfileVersion": 3, "packages": packages}, indent=2), n


def test_a_long_lockfile(server):
    """Two megabytes of package-lock.json in a request to create or change a session, and by the command line."""
    text, n = long_lockfile(2 << 20)
    key = server.tenant("long")[1]
    network = policy(packages={"registries": entries(), "mode": "pinned", "pins": {"npm:left": ["1.0.0"]},
                               "lockfiles": [{"name": "package-lock.json", "text": text}]})
    s = server.create(key=key, network=network)
    path = f"/v1/sessions/{s['id']}/network"
    packages = server.want(200, "GET", path, key=key)["policy"]["packages"]
    equal((len(packages["pins"]), "lockfiles" in packages), (n + 1, False), "pins")
    has(status_line(server, s, FILE.format("right"), key), "right 1.0.0 is not pinned")
    has(status_line(server, s, FILE.format("left"), key), " 200 ")
    server.want(200, "PUT", path, "deny", key=key)
    wait_for(lambda: server.request("PUT", path, network, key=key)[0] == 200, 20, "the policy, within the rate of changes")
    equal(len(server.want(200, "GET", path, key=key)["policy"]["packages"]["pins"]), n + 1, "pins after a change")
    with tempfile.TemporaryDirectory() as place:
        for name, content in (("p.json", json.dumps(policy(packages={"registries": entries()}))), ("package-lock.json", text)):
            with open(os.path.join(place, name), "w", encoding="utf-8") as f:
                f.write(content)
        subprocess.run([server.program, "create", "--policy", os.path.join(place, "p.json"), "--lockfile", os.path.join(place, "package-lock.json")],
                       env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.tenant("long-by-cli")[1]}, stdout=subprocess.PIPE,
                       timeout=60, check=True)


def test_mistakes_are_refused(server):
    for packages, words in (
        ({"registries": ["cpan"]}, "packages.registries[0]: there is no registry 'cpan'"),
        ({"lockfiles": [{"name": "package-lock.json", "text": "{"}]}, "packages.lockfiles[0] (package-lock.json)"),
        ({"lockfiles": [{"name": "package-lock.json", "text": "{}", "more": 1}]}, "packages.lockfiles[0]"),
        ({"lockfiles": [{"name": "yarn.lock"}]}, "packages.lockfiles[0]"),
        ({"lockfiles": [{"name": "yarn.lock", "text": "\":\n"}]}, "yarn.lock: line 1: an entry without a range"),
        ({"lockfiles": [{"name": "Cargo.toml", "text": ""}]}, "the name of a lockfile"),
        ({"lockfiles": [{"name": "go.sum", "text": ""}] * 17}, "at most 16 files"),
        ({"lockfiles": {"npm:a": ["1 sha256:0"]}}, "packages.pins.npm:a"),
        ({"lockfiles": 1}, "must be a list"),
        ({"pins": {"npm:a": ["1 sha256:0"]}}, "packages.pins.npm:a"),
        ({"mode": "pinned", "min_age": "-1"}, "packages.min_age"),
    ):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"network": policy(packages=packages)}, words)
    s = server.create(network="deny")
    path = f"/v1/sessions/{s['id']}/network"
    pins = lambda n: policy(packages={"pins": {f"npm:p{i}": [f"1.0.0 sha256:{i:064x}"] for i in range(n)}})  # noqa: E731
    server.want(200, "PUT", path, pins(4500))
    wait_for(lambda: server.request("PUT", path, pins(10))[0] != 429, 10, "the rate of changes")
    server.refused(400, "invalid", "PUT", path, {"rules": [{"host": [f"h{i}.test" for i in range(250)]} for _ in range(13)], "packages": {}},
                   "without packages")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
