#!/usr/bin/python3 -B
"""Goal: the real package managers fetch from the real registries, by `cordon run` with a policy that lets them read,
and cannot publish.

    test_egress_registries.py CORDON [name ...]

Which registries, this machine's own configuration says (npm config, apt's sources): nothing is known here. Where
they are a mirror at an address that is not public, that very address is opened. Skipped where one is not reachable."""
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "behaviour"))
import tap  # noqa: E402
from tap import Skip, check, has, run  # noqa: E402

READ = ["GET", "HEAD"]


def configured(*words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as e:
        raise Skip(f"{words[0]}: {e}") from None
    return done.stdout.strip()


def reachable(url):
    """Its addresses; skips if this machine itself gets no answer from there."""
    parts = urllib.parse.urlsplit(url)
    try:
        with urllib.request.urlopen(url, timeout=10):
            pass
        return {a[4][0] for a in socket.getaddrinfo(parts.hostname, parts.port or parts.scheme,
                type=socket.SOCK_STREAM)}
    except (OSError, ValueError) as e:
        raise Skip(f"what this machine is configured to use does not answer: {e}") from None


def options(folder, url, addresses, methods=None):
    """Of cordon run: this host, for reading (or as said), and what of its addresses needs to be opened."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = os.path.join(folder, "policy.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"version": 1,
                   "rules": [{"host": parts.hostname, "ports": [port], "methods": methods or READ,
                   "class": "packages"}]}, f)
    words = ["--policy", path, "--net-log", os.path.join(folder, "log")]
    for a in addresses:
        if not ipaddress.ip_address(a).is_global:
            words += ["--allow-private", a]
    return words


def records(folder):
    with open(os.path.join(folder, "log"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def fetched(folder, end):
    """A request for something whose name ends so was allowed, and is on record."""
    good = [r for r in records(folder) if (r["kind"], r["verdict"], r.get("class")) == ("request", "allow", "packages")]
    check([r for r in good if r["path"].endswith(end)], f"{end} is on record: {good}")


def test_npm(*_):
    if shutil.which("npm") is None:
        raise Skip("npm is not on this machine")
    registry = configured("npm", "config", "get", "registry").splitlines()[-1].rstrip("/") + "/"
    addresses = reachable(registry + "is-number")
    npm = f"cd /tmp && npm --registry={registry} --no-update-notifier --cache /tmp/cache --fetch-retries=0 "
    with tempfile.TemporaryDirectory() as folder:
        done = run(*options(folder, registry, addresses), cmd=npm + "install --no-audit --no-fund is-number@7.0.0 && "
                   "ls node_modules/is-number", timeout=90).exits(0)
        has(done.text, "package.json")
        fetched(folder, ".tgz")
        make = "mkdir p && cd p && echo '{\"name\":\"cordon-test-never\",\"version\":\"1.0.0\"}' > package.json && "
        token = f"--{registry.partition(':')[2]}:_authToken=none"
        done = run(*options(folder, registry, addresses), cmd=npm.replace("&& npm", "&& " + make + "npm") + f"publish "
                   f"{token}", timeout=90)
        check(done.rc != 0, "npm publish")
        refused = [r for r in records(folder) if r.get("method") == "PUT"]
        check(refused and all(r["verdict"] == "deny" for r in refused), f"npm publish: {records(folder)}")
        done = run("--allow", "nothing.example", cmd=npm + "view is-number version", timeout=90)
        check(done.rc != 0, "a registry that no rule allows")


def test_apt(*_):
    if shutil.which("apt-get") is None:
        raise Skip("apt-get is not on this machine")
    lines = configured("apt-get", "indextargets", "--format",
                       "$(IDENTIFIER)|$(SITE)|$(RELEASE)|$(COMPONENT)").splitlines()
    targets = [line.split("|")[1:] for line in lines if line.startswith("Packages|http")]
    if not targets:
        raise Skip("apt has no sources by HTTP")
    site, release, component = min(targets,
                                   key=lambda t: ("security" not in t[1], "updates" not in t[1]))  # the small ones
    addresses = reachable(f"{site}/dists/{release}/InRelease")
    apt = ("mkdir -p /tmp/a/etc/apt.conf.d /tmp/a/lists/partial /tmp/a/cache/archives/partial && touch /tmp/a/empty && "
           "cd /tmp/a && "
           f"echo 'deb {site} {release} {component}' > sources.list && apt-get -o Dir::Etc=/tmp/a/etc -o "
           f"Dir::Etc::sourcelist=/tmp/a/sources.list -o Dir::Etc::sourceparts=/tmp/a/etc "
           "-o Dir::State::lists=/tmp/a/lists -o Dir::State::status=/tmp/a/empty -o Dir::Cache=/tmp/a/cache -o "
           "APT::Sandbox::User=root "
           "-o Dir::Etc::trustedparts=/usr/share/keyrings -o Acquire::Languages=none -o Acquire::Retries=0 ")
    with tempfile.TemporaryDirectory() as folder:
        done = run("--user", "root", *options(folder, site, addresses), cmd=apt + "-o APT::Update::Error-Mode=any "
                   "update && ls /tmp/a/lists", timeout=120).exits(0)
        has(done.text, "InRelease")
        fetched(folder, "/InRelease")
        done = run("--user", "root", "--allow", "nothing.example", cmd=apt + "-o APT::Update::Error-Mode=any update",
                   timeout=60)
        check(done.rc != 0, "sources that no rule allows")


if __name__ == "__main__":
    tap.main(globals())
