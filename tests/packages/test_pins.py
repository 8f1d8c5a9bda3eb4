#!/usr/bin/python3 -B
"""Goal: `cordon packages pins` reads lockfiles as the tools mean them.

    test_pins.py CORDON-CLIENT

lock/ has the lockfiles that npm, yarn and pnpm of several versions wrote for one project: all have the same pins, which
are read here with another reader, too. Cargo.lock and go.sum are written by cargo and go themselves, from a registry on
loopback."""
import hashlib
import json
import os
import subprocess
import sys

from registry import Package, Registry
from checks import Failed, equal, has, named_tests, run_tap
from test_registry import folder, need, run, write

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
R = Registry(Package("cargo", "demo", "1.1.0", depends={"help_er": "1"}), Package("cargo", "help_er", "1.0.0"),
             Package("go", "code.example/Demo", "v1.1.0"))


def pins(path):
    done = subprocess.run([CLIENT, "packages", "pins", path], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise Failed(f"{path}: {done.returncode} {done.stderr}")
    return {name: sorted(versions) for name, versions in json.loads(done.stdout)["pins"].items()}


def lock(name):
    return os.path.join(HERE, "lock", name)


def by_another_reader():
    want = {}
    with open(lock("npm3/package-lock.json"), encoding="ascii") as f:
        packages = json.load(f)["packages"]
    for place, entry in packages.items():
        if place:
            name = entry.get("name", place.rpartition("node_modules/")[2])
            want.setdefault("npm:" + name, set()).add(f"{entry['version']} {entry['integrity']}")
    return {name: sorted(versions) for name, versions in want.items()}


def test_one_project_of_seven_tools():
    want = by_another_reader()
    equal(len(want), 8, "names in the lockfile")
    for name in ("npm1/package-lock.json", "npm2/package-lock.json", "npm3/package-lock.json", "yarn1/yarn.lock",
                 "pnpm7/pnpm-lock.yaml", "pnpm8/pnpm-lock.yaml", "pnpm10/pnpm-lock.yaml"):
        equal(pins(lock(name)), want, name)
    versions = {name: sorted(v.split()[0] for v in list_) for name, list_ in want.items()}
    equal(pins(lock("yarn4/yarn.lock")), versions, "yarn of today: versions only")


def test_cargo_writes():
    need("cargo")
    with folder() as at:
        write(at, "Cargo.toml", '[package]\nname="x"\nversion="0.1.0"\nedition="2018"\n[dependencies]\ndemo = "1"\n')
        write(at, "src/main.rs", "fn main() {}\n")
        write(at, ".cargo/config.toml", '[source.crates-io]\nreplace-with = "fake"\n[source.fake]\n'
              f'registry = "sparse+{R.url("cargo")}/"\n')
        run(at, "cargo", "generate-lockfile", "-q", CARGO_HOME=at + "/home",
            RUSTUP_HOME=os.environ.get("RUSTUP_HOME", "/root/.rustup"))
        digest = {name: hashlib.sha256(R.parts["cargo"].data(R.find("cargo", name, version))).hexdigest()
                  for name, version in (("demo", "1.1.0"), ("help_er", "1.0.0"))}
        equal(pins(at + "/Cargo.lock"), {"cargo:demo": ["1.1.0 sha256:" + digest["demo"]],
                                         "cargo:help-er": ["1.0.0 sha256:" + digest["help_er"]]})


def test_go_writes():
    need("go")
    with folder() as at:
        write(at, "go.mod", "module x\n\ngo 1.18\n")
        write(at, "x.go", 'package main\n\nimport d "code.example/Demo"\n\nfunc main() { println(d.Version) }\n')
        run(at, "go", "get", "code.example/Demo@latest", GOPROXY=R.url("go"), GOSUMDB=R.parts["go"].sum_key(),
            GOFLAGS="-mod=mod -modcacherw", GOPATH=at + "/p")
        with open(at + "/go.sum", encoding="ascii") as f:
            want = sorted(" ".join(line.split()[1:]) for line in f)
        equal(len(want), 2, "lines of go.sum")
        equal(pins(at + "/go.sum"), {"go:code.example/Demo": want})


def test_mistakes_name_the_line():
    with folder() as at:
        write(at, "requirements.txt", "demo==1.0\nother>=2\n")
        done = subprocess.run([CLIENT, "packages", "pins", at + "/requirements.txt"], capture_output=True, text=True,
                              timeout=20, check=False)
        equal((done.returncode != 0, done.stdout), (True, ""))
        has(done.stderr, "requirements.txt: line 2: only an exact version")


def main():
    R.listen()
    code = run_tap(named_tests(globals(), sys.argv[2:]))
    R.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
