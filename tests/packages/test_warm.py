#!/usr/bin/python3 -B
"""Goal: cordon packages cache warm fetches what a lockfile names, by the lockfile's own package manager, under the policy
that was given, and leaves no session behind.

    test_warm.py CORDON [name ...]

Real programs in a small internet, fake registries."""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

import package_files
from attack_tools import R, internet, policy, world
import harness  # of tests/server, which internet.py adds to the path
from checks import check, equal, has, note

NPM, PIP = {"npm_config_registry": "https://npm.example/"}, {"PIP_INDEX_URL": "https://pypi.example/simple/"}
GO = {"GOPROXY": "https://proxy.go.example", "GOSUMDB": "off", "GOFLAGS": "-modcacherw"}


def running(server):
    return {s["id"] for s in server.want(200, "GET", "/v1/sessions?state=running")["sessions"]}


def warm(server, files, name, env, code=0, **packages):
    """Runs it with these files; its output."""
    world()
    before = running(server)
    with tempfile.TemporaryDirectory() as at:
        for n, text in files.items():
            with open(os.path.join(at, n), "w", encoding="ascii") as f:
                f.write(text)
        with open(os.path.join(at, "policy.json"), "w", encoding="ascii") as f:
            json.dump(policy(packages={"registries": R.entries("npm", "pypi", "go", "cargo"), **packages}), f)
        words = [harness.PROGRAM, "packages", "cache", "warm", os.path.join(at, name), "--policy", os.path.join(at, "policy.json"),
                 "--server", server.url, "--key-file", server.state + "/first.key"]
        for k, v in env.items():
            words += ["--env", f"{k}={v}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    equal(done.returncode, code, f"exit ({done.stdout} {done.stderr})")
    equal(running(server) - before, set(), "sessions that are left")
    return done.stdout + done.stderr


def lock(*names):
    """package.json and its lockfile."""
    made = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {
        "": {"name": "x", "version": "1.0.0", "dependencies": {n: "1.0.0" for n in names}}}}
    for n in names:
        p = next((p for p in R.packages if p.name == n), None) or R.add("npm", n, "1.0.0", script=True, pad=2000)
        made["packages"]["node_modules/" + n] = {"version": "1.0.0", "resolved": "https://npm.example" + R.path("npm", n, "1.0.0"),
                                                 "integrity": R.parts["npm"].integrity(p), "hasInstallScript": True}
    return {"package.json": json.dumps(made["packages"][""]), "package-lock.json": json.dumps(made)}


def test_npm(server):
    files = lock("warm-a", "warm-b")
    has(warm(server, files, "package-lock.json", NPM), "2 packages of", "what it got")
    equal(R.count("/warm-?/-/*.tgz"), 2, "requests")


def test_pip_and_go(server):
    p = R.add("pypi", "warm", "1.0", pad=2000)
    digest = hashlib.sha256(R.parts["pypi"].files(p)[package_files.wheel_name(p)]).hexdigest()
    has(warm(server, {"requirements-dev.txt": f"warm==1.0 --hash=sha256:{digest}\n"}, "requirements-dev.txt", PIP), "1 packages of")
    p = R.add("go", "code.example/warm", "v1.0.0")
    whole, mod = package_files.go_sums(p)
    files = {"go.mod": "module x\n\ngo 1.18\n\nrequire code.example/warm v1.0.0\n",
             "go.sum": f"code.example/warm v1.0.0 {whole}\ncode.example/warm v1.0.0/go.mod {mod}\n"}
    has(warm(server, files, "go.sum", GO), "1 packages of")


def sri(p):
    return R.parts["npm"].integrity(p)


def others():
    """Of yarn, pnpm and cargo: (program in a cell, its lockfile, all files, variables)."""
    p = next((p for p in R.packages if p.name == "warm-d"), None) or R.add("npm", "warm-d", "1.0.0", pad=2000)
    url = "https://npm.example" + R.path("npm", "warm-d", "1.0.0")
    package = json.dumps({"name": "x", "version": "1.0.0", "dependencies": {"warm-d": "1.0.0"}})
    yarn = f'# yarn lockfile v1\n\n\nwarm-d@1.0.0:\n  version "1.0.0"\n  resolved "{url}"\n  integrity {sri(p)}\n'
    pnpm = ("lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n      warm-d:\n        specifier: 1.0.0\n        version: 1.0.0\n\n"
            f"packages:\n\n  warm-d@1.0.0:\n    resolution: {{integrity: {sri(p)}}}\n\nsnapshots:\n\n  warm-d@1.0.0: {{}}\n")
    cargo = R.add("cargo", "warm", "1.0.0")
    digest = hashlib.sha256(R.parts["cargo"].data(cargo)).hexdigest()
    yield "yarnpkg", "yarn.lock", {"package.json": package, "yarn.lock": yarn}, {"npm_config_registry": "https://npm.example/"}
    yield "pnpm", "pnpm-lock.yaml", {"pnpm-lock.yaml": pnpm}, NPM
    yield "cargo", "Cargo.lock", {
        "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2018"\n[dependencies]\nwarm = "1"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "warm"\nversion = "1.0.0"\n'
        f'source = "registry+https://github.com/rust-lang/crates.io-index"\nchecksum = "{digest}"\n\n'
        '[[package]]\nname = "x"\nversion = "0.1.0"\ndependencies = [\n "warm",\n]\n'}, {
        "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse", "CARGO_SOURCE_CRATES_IO_REPLACE_WITH": "fake",
        "CARGO_SOURCE_FAKE_REGISTRY": "sparse+https://index.cargo.example/"}


def is_usable(path):
    """yarnpkg does not start with every node, and cargo before 1.70 asks git for its index."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return done.returncode == 0 and (words[0] != "cargo" or tuple(int(n) for n in words[1].split(".")[:2]) >= (1, 70))


def test_others_or_what_is_missing(server):
    """A package manager that the cell does not have is named, with what to do."""
    tried = []
    for program, name, files, env in others():
        path = shutil.which(program, path="/usr/bin:/bin")
        if path is None:
            has(warm(server, files, name, env, code=125), f"the template has no package manager for {name} (--template)", program)
        elif is_usable(path):
            has(warm(server, files, name, env), "1 packages of", program)
            tried.append(program)
    note(f"in cells here: {' '.join(tried) or 'none of them'}")


def test_what_is_refused_is_shown(server):
    text = warm(server, lock("warm-a", "warm-c"), "package-lock.json", NPM, code=125, deny=["npm:warm-c"])
    has(text, "refused warm-c 1.0.0", "which one")
    has(text, "the package manager failed", "the end")
    check("\\n" not in text and "\nnpm " in text, f"lines of npm: {text}")


def test_no_lockfile(server):
    has(warm(server, {"x.txt": ""}, "x.txt", {}, code=125), "no lockfile that is known")
    check("package.json" in warm(server, {"package-lock.json": "{}"}, "package-lock.json", NPM, code=125), "what is missing")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
