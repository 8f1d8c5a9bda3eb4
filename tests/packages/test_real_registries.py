#!/usr/bin/python3 -B
"""Goal: what holds for fake registries holds for real ones: npm and apt install in sessions from the registries that this
machine is configured with.

    test_real_registries.py CORDON [name ...]

The addresses are those of npm's and apt's configuration. Without such a configuration, or where the registry does not
answer this machine itself, tests are skipped."""
import calendar
import glob
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "server"), os.path.join(HERE, "..", "behaviour"), os.path.join(HERE, "..", "shared")]
import harness  # noqa: E402
from checks import Skip, check, equal, has, wait_for  # noqa: E402

EXAMPLE = os.path.join(HERE, "..", "..", "examples", "packages")
PROJECT = "left-pad"  # small, without dependencies, its last release is of years ago


def machine(*words):
    """What a program of this machine prints, without Cordon."""
    if shutil.which(words[0]) is None:
        raise Skip(f"{words[0]} is not on this machine")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    if done.returncode != 0:
        raise Skip(f"{' '.join(words)} does not work on this machine")
    return done.stdout.strip()


def npm_registry():
    return machine("npm", "config", "get", "registry")


def apt_source():
    """(URI, suite, component, keyring) of the first source of the distribution that apt is configured with."""
    keyrings = [path for name in ("debian", "ubuntu") for path in glob.glob(f"/usr/share/keyrings/{name}-archive-keyring.gpg")]
    lines = machine("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages").splitlines()
    if not lines or not keyrings:
        raise Skip("apt is not configured with a source of a distribution whose keyring is there")
    return *lines[0].split("|"), keyrings[0]


def entry(ecosystem, url, **more):
    parts = urllib.parse.urlsplit(url)
    return {"ecosystem": ecosystem, "host": parts.netloc, **({"path": parts.path} if parts.path not in ("", "/") else {}), **more}


def private_addresses(*urls):
    """Addresses of the registries that are no public ones: a mirror of the machine's own network."""
    found = set()
    for url in urls:
        try:
            for *_, address in socket.getaddrinfo(urllib.parse.urlsplit(url).hostname, 443, proto=socket.IPPROTO_TCP):
                if not ipaddress.ip_address(address[0]).is_global:
                    found.add(address[0])
        except OSError:
            pass
    return sorted(found)


def configured():
    """Registries that there are; each test says what it lacks."""
    urls = []
    for ask in (npm_registry, lambda: apt_source()[0]):
        try:
            urls.append(ask())
        except Skip:
            pass
    return urls


def session(server, registry, **packages):
    return server.create(network={"version": 1, "rules": [], "packages": {"registries": [registry], **packages}})


def sh(server, s, line, **more):
    done = server.run(s["id"], line, **more)
    return done["exit_code"], " ".join((done["stdout"] + done["stderr"]).split())


def npm(server, s, words):
    return sh(server, s, f"mkdir -p /tmp/n && cd /tmp/n && npm {words} --no-audit --no-fund --fetch-retries 0 --registry {npm_registry()}")


def numbers(version):
    return [int(n) for n in version.split(".")]


def older_and_newer():
    """Two releases that follow each other, and the days between whose releases lie; a mirror's times are its own."""
    times = json.loads(machine("npm", "view", PROJECT, "time", "--json"))
    when = {v: calendar.timegm(time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S")) for v, t in times.items() if re.fullmatch(r"[0-9.]+", v)}
    versions = sorted(when, key=numbers)
    for old, new in zip(versions, versions[1:]):
        if when[new] - when[old] > 4 * 86400:
            return old, new, int((time.time() - (when[old] + when[new]) / 2) / 86400)
    raise Skip(f"{PROJECT} has no two releases that are days apart")


def has_version(server, s, version):
    has(sh(server, s, f"cat /tmp/n/node_modules/{PROJECT}/package.json")[1], f'"version": "{version}"')


def test_npm(server):
    old, new, days = older_and_newer()
    both, registry = f"'{PROJECT}@>={old} <={new}'", entry("npm", npm_registry())
    s = session(server, registry)
    equal(npm(server, s, "install " + both)[0], 0, "open")
    has_version(server, s, new)
    lock = server.run(s["id"], "cat /tmp/n/package-lock.json")["stdout"]
    for more in ({"min_age": f"{days}d"}, {"deny": [f"npm:{PROJECT}@{new}"]}):
        s = session(server, registry, **more)
        equal(npm(server, s, "install " + both)[0], 0, f"{more}")
        has_version(server, s, old)
    s = session(server, registry, mode="pinned", lockfiles=[{"name": "package-lock.json", "text": lock}])
    equal(npm(server, s, f"install {PROJECT}@{new}")[0], 0, "what is pinned")
    code, said = npm(server, s, "install is-number")
    check(code != 0, "what is not pinned came")
    has(said, "is-number is not pinned; this session installs pinned packages only")


def test_example(server):
    """examples/packages, where npm's own registry is the one that policies know by name."""
    policy = [harness.PROGRAM, "policy", "explain", "--policy", os.path.join(EXAMPLE, "policy.json"), "--package", "npm:is-number"]
    known = subprocess.run(policy, capture_output=True, text=True, timeout=60, check=False).stdout
    if urllib.parse.urlsplit(npm_registry()).hostname not in known:
        raise Skip("npm is configured with another registry")
    done = subprocess.run([os.path.join(EXAMPLE, "install.sh"), harness.PROGRAM], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    equal(done.returncode, 0, done.stdout + done.stderr)
    for text in ("refused by session packages.deny[0]", "downloaded", "left-pad is denied by the policy of this session", '"pkg:npm/is-number@'):
        has(done.stdout, text)


def test_apt(server):
    uri, suite, component, key = apt_source()
    registry = entry("apt", uri, unknown_age="allow")
    words = ("apt-get -o Dir::Etc=/tmp/apt/etc -o Dir::Etc::sourcelist=/tmp/apt/sources.list -o Dir::Etc::sourceparts=/tmp/apt/none "
             "-o Dir::State::lists=/tmp/apt/lists -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache "
             "-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=0 ")
    s = session(server, registry, deny=["apt:hello-traditional"])
    sh(server, s, "mkdir -p /tmp/apt/etc/apt.conf.d /tmp/apt/lists/partial /tmp/apt/cache/archives/partial && touch /tmp/apt/status && "
       f"echo 'deb [signed-by={key}] {uri} {suite} {component}' > /tmp/apt/sources.list", user="root")
    code, said = sh(server, s, words + "-o APT::Update::Error-Mode=any update", user="root")
    equal(code, 0, said[-600:])
    code, said = sh(server, s, f"cd /tmp/apt && {words} download hello", user="root")
    equal(code, 0, said[-600:])
    row = wait_for(lambda: [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"] if r["name"] == "hello"],
                   10, "the row of hello")[0]
    equal(row["verified"], True, "its digest is that of the archive's index")
    code, said = sh(server, s, f"cd /tmp/apt && {words} download hello-traditional", user="root")
    check(code != 0, "a denied package came")
    has(said, "is denied by the policy of this session")


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".json") as node:
        json.dump({"version": 1, "private": private_addresses(*configured())}, node)
        node.flush()
        os.chmod(node.name, 0o644)
        harness.run_tests(globals(), pool_size=2, egress_policy=node.name)
