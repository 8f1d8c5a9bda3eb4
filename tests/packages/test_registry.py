#!/usr/bin/python3 -B
"""Goal: the fake registries are what real clients take for real ones, without Cordon in between: so that a refusal in
another test is Cordon's, and not a broken registry's.

    test_registry.py [name ...]

On loopback. A client that is not on this machine is skipped."""
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import registry_answer as faults
from registry import Package, Registry
from checks import Failed, Skip, check, equal, has, named_tests, run_tap


def packages():
    both = [Package(eco, name, version, age=age, depends=depends) for eco, name, depends, versions in (
        ("pypi", "demo-pkg", {"helper": ">=1"}, ("1.0", "2.0")), ("npm", "demo", {"@ours/helper": "^1.0.0"}, ("1.0.0", "2.0.0")),
        ("cargo", "demo", {"helper": "1"}, ("1.0.0", "1.1.0")), ("go", "code.example/Demo", {}, ("v1.0.0", "v1.1.0")),
        ("apt", "demo", {"helper": ""}, ("1.0", "2.0")), ("git", "ours/demo", {}, ("v1", "v2")),
        ("gem", "demo", {}, ("1.0.0", "2.0.0")), ("maven", "org.example:demo", {}, ("1.0", "2.0")),
        ("oci", "ours/demo", {}, ("v1", "v2"))) for version, age in zip(versions, ("30d", "3h"))]
    return both + [Package("pypi", "helper", "1.5", source=True), Package("npm", "@ours/helper", "1.0.0", script=True),
                   Package("cargo", "helper", "1.0.0", script=True), Package("apt", "helper", "1:1.0")]


R = Registry(*packages())


def need(program):
    return shutil.which(program) or skip(f"{program} is not on this machine")


def skip(why):
    raise Skip(why)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


def run(where, *words, **env):
    done = subprocess.run(words, cwd=where, env={**os.environ, "HOME": where, **env}, capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {done.returncode} {done.stdout[-1500:]} {done.stderr[:1500]}")
    return done.stdout


def write(where, name, text):
    path = os.path.join(where, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(text, bytes) else "w") as f:
        f.write(text)


def test_pip():
    with folder() as at:
        run(at, sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--target",
            "there", "-i", R.url("pypi") + "/simple/", "demo-pkg")
        equal(run(at, sys.executable, "-c", "import demo_pkg; print(demo_pkg.VERSION)", PYTHONPATH="there"), "2.0\n")
        equal(sorted(os.listdir(os.path.join(at, "there")))[0], "demo_pkg", "the dependency is there, too")
        check(os.path.isdir(os.path.join(at, "there", "helper")), "the dependency")


def test_npm():
    need("npm")
    with folder() as at:
        write(at, "package.json", '{"name":"x","version":"1.0.0"}')
        run(at, "npm", "install", "--registry", R.url("npm"), "--no-fund", "demo@^1.0.0", "--cache", at + "/c")
        check(os.path.exists(at + "/node_modules/@ours/helper/script-ran"), "the script of a dependency ran")
        check(R.count("/-/npm/v1/security/*"), "an audit came")
        R.forget()
        run(at, "npm", "ci", "--registry", R.url("npm"), "--no-fund", "--no-audit", "--cache", at + "/d")
        equal(R.count("*.tgz"), 2, "tarballs of a lockfile")


def test_yarn():
    need("yarnpkg")
    if subprocess.run(["yarnpkg", "--version"], capture_output=True, check=False).returncode != 0:
        raise Skip("yarnpkg does not start with this machine's node")
    with folder() as at:
        write(at, "package.json", '{"name":"x","version":"1.0.0"}')
        run(at, "yarnpkg", "add", "--registry", R.url("npm"), "--cache-folder", at + "/c", "demo")
        has(run(at, "node", "-p", "require('demo')"), "2.0.0")


def test_cargo():
    need("cargo")
    with folder() as at:
        write(at, "Cargo.toml", '[package]\nname="x"\nversion="0.1.0"\nedition="2018"\n[dependencies]\ndemo = "1"\n')
        write(at, "src/main.rs", "fn main() {}\n")
        write(at, ".cargo/config.toml", '[source.crates-io]\nreplace-with = "fake"\n[source.fake]\n'
              f'registry = "sparse+{R.url("cargo")}/"\n')
        run(at, "cargo", "fetch", "-q", CARGO_HOME=at + "/home", RUSTUP_HOME=os.environ.get("RUSTUP_HOME", "/root/.rustup"))
        with open(at + "/Cargo.lock", encoding="ascii") as f:
            has(f.read(), hashlib.sha256(R.parts["cargo"].data(R.find("cargo", "demo", "1.1.0"))).hexdigest())


def test_go():
    need("go")
    with folder() as at:
        write(at, "go.mod", "module x\n\ngo 1.18\n")
        write(at, "x.go", 'package main\n\nimport d "code.example/Demo"\n\nfunc main() { println(d.Version) }\n')
        env = {"GOPROXY": R.url("go"), "GOSUMDB": R.parts["go"].sum_key(), "GOFLAGS": "-mod=mod -modcacherw", "GOPATH": at + "/p"}
        run(at, "go", "get", "code.example/Demo@latest", **env)
        with open(at + "/go.mod", encoding="ascii") as f:
            has(f.read(), "code.example/Demo v1.1.0")
        check(R.count("*/lookup/*"), "the checksum database was asked")


def test_apt():
    need("apt-get")
    key = R.parts["apt"].keyring()
    with folder() as at:
        for name in ("etc/apt.conf.d/x", "lists/partial/x", "cache/archives/partial/x", "status"):
            write(at, name, "")
        write(at, "key.gpg", key)
        how = f"signed-by={at}/key.gpg" if key else "trusted=yes"
        write(at, "sources.list", f"deb [{how}] {R.url('apt')} test main\n")
        words = ["apt-get", "-o", f"Dir::Etc={at}/etc", "-o", f"Dir::Etc::sourcelist={at}/sources.list", "-o",
                 f"Dir::Etc::sourceparts={at}/none", "-o", f"Dir::State::lists={at}/lists", "-o", f"Dir::State::status={at}/status",
                 "-o", f"Dir::Cache={at}/cache", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]
        run(at, *words, "-o", "APT::Update::Error-Mode=any", "update")
        run(at, *words, "-y", "--download-only", "install", "demo")
        equal(sorted(n for n in os.listdir(at + "/cache/archives") if n.endswith(".deb")),
              ["demo_2.0_all.deb", "helper_1%3a1.0_all.deb"])
        run(at, "dpkg-deb", "-x", at + "/cache/archives/demo_2.0_all.deb", at + "/x")


def test_git():
    need("git")
    with folder() as at:
        run(at, "git", "clone", "-q", R.url("git") + "/ours/demo.git", "x")
        equal(run(at + "/x", "git", "rev-parse", "HEAD").strip(), R.parts["git"].commit(R.find("git", "ours/demo", "v2")))
        run(at + "/x", "git", "checkout", "-q", "v1")


def test_bundler():
    need("bundle")
    with folder() as at:
        write(at, "Gemfile", f'source "{R.url("gem")}"\ngem "demo"\n')
        run(at, "bundle", "install", "--quiet", BUNDLE_PATH=at + "/b", BUNDLE_SILENCE_ROOT_WARNING="1")
        with open(at + "/Gemfile.lock", encoding="ascii") as f:
            has(f.read(), "demo (2.0.0)")


def test_maven_and_oci():
    for ecosystem, name, version in (("maven", "org.example:demo", "1.0"), ("oci", "ours/demo", "v1")):
        with urllib.request.urlopen(R.url(ecosystem) + R.path(ecosystem, name, version)) as f:
            check(len(f.read()) > 100, ecosystem)
    base = R.url("maven") + "/org/example/demo/"
    with urllib.request.urlopen(base + "1.0/demo-1.0.jar.sha1") as f, urllib.request.urlopen(base + "1.0/demo-1.0.jar") as jar:
        equal(f.read().decode(), hashlib.sha1(jar.read()).hexdigest())


def get(path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(R.url("npm") + path, headers=headers), timeout=10) as f:
            return f.status, f.read(), f.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read(), e.headers


def test_faults():
    path = R.path("npm", "demo", "1.0.0")
    _, good, headers = get(path)
    equal(get(path, **{"If-None-Match": headers["ETag"]})[0], 304, "revalidation")
    try:
        for fault, want in ((faults.last_byte, good[:-1] + bytes([good[-1] ^ 1])), (faults.short, good[:len(good) // 2]),
                            (faults.status(503), b"broken")):
            R.fault(path, fault, times=1)
            equal(get(path)[1], want)
        equal(get(path)[1], good, "each fault once")
        R.fault(path, faults.changing(None, faults.body(b"other")))
        equal([get(path)[1] for _ in range(3)], [good, b"other", b"other"], "changed between requests")
    finally:
        R.heal()
    R.add("npm", "private", "1.0.0", token="Bearer x")
    equal((get("/private")[0], get("/private", Authorization="Bearer x")[0]), (404, 200), "what one token sees")


def main():
    R.listen()
    code = run_tap(named_tests(globals(), sys.argv[1:]))
    R.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
