"""gate_tools.py - what tests of the package gate share: packages of two ecosystems, sessions with a package policy, and
requests of curl in them, with a whole server and the fake registries in the small internet of tests/egress."""
import hashlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
from attack_tools import R, world  # noqa: E402
from checks import wait_for  # noqa: E402
from internet_client import make, policy, sh  # noqa: E402

for eco in ("npm", "pypi"):
    R.add(eco, "demo", "1.0.0", age="400d")
    R.add(eco, "demo", "2.0.0", age="3h")
    R.add(eco, "other", "1.0.0", age="400d")
    R.add(eco, "young", "1.0.0", age="1h")
NPM = "npm install --no-audit --no-fund --registry https://npm.example/ --prefix /tmp/n "
PIP = "/usr/bin/python3 -m pip install --no-cache-dir --disable-pip-version-check --target /tmp/p -i https://pypi.example/simple "
OTHERS = {"cargo": "crab", "go": "example.org/mod", "gem": "stone", "maven": "org.example:thing", "git": "team/repo",
          "oci": "team/image", "apt": "hello"}


def session(server, **packages):
    world()
    return make(server, policy(packages={"registries": R.entries("npm", "pypi"), **packages}))


def everywhere(server, **packages):
    world()
    add_others()
    names = ("npm", "pypi", "cargo", "go", "gem", "maven", "git", "oci", "apt")
    return make(server, policy(packages={"registries": R.entries(*names), "unknown_age": "allow", **packages}))


def add_others():
    for eco, name in OTHERS.items():
        if not [p for p in R.packages if (p.ecosystem, p.name) == (eco, name)]:
            R.add(eco, name, "v1.0.0" if eco == "go" else "1.0.0", age="400d")


def installed(server, s, manager, name):
    line = f"cat /tmp/n/node_modules/{name}/package.json" if manager == "npm" else f"ls -d /tmp/p/{name}-*"
    return sh(server, s, line, 0)["stdout"]


def file_url(manager, name, version):
    host = "https://npm.example" if manager == "npm" else "https://files.pypi.example"
    return host + R.path(manager, name, version)


def fetched(server, s, url, *options):
    """(status, reason phrase, SHA-256 of the body, exit code of curl)"""
    done = sh(server, s, f"rm -f /tmp/body; curl -sS -m 20 -D /tmp/head -o /tmp/body {' '.join(options)} '{url}'; echo $?; "
              "head -1 /tmp/head; sha256sum /tmp/body")
    lines = (done["stdout"] + "\n\n\n").splitlines()
    words = lines[1].split(" ", 2) if lines[1].startswith("HTTP/") else ["", "0", ""]
    return int(words[1]), words[2].strip() if len(words) > 2 else "", lines[2][:64], int(lines[0] or -1)


def start(server, s, url):
    """In the background: /tmp/code has curl's exit code and the status at the end."""
    sh(server, s, f"rm -f /tmp/code; (curl -sS -m 20 -o /tmp/late -w '%{{http_code}}' '{url}' > /tmp/status; "
       "echo $? $(cat /tmp/status) > /tmp/code) >/dev/null 2>&1 &")


def ended(server, s):
    return wait_for(lambda: sh(server, s, "cat /tmp/code")["stdout"].split(), 15, "the end of the request")


def data(manager, name, version):
    package = R.find(manager, name, version)
    if manager == "npm":
        return R.parts["npm"].data(package)
    return next(iter(R.parts["pypi"].files(package).values()))


def sha256(manager, name, version):
    return hashlib.sha256(data(manager, name, version)).hexdigest()
