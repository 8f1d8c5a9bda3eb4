#!/usr/bin/python3 -B
"""Goal: under a package policy an install gets what the policy allows and nothing else, and whoever runs it reads why.

    test_gate.py CORDON [name ...]

A whole server, cells with npm, pip and curl, and fake registries in the small internet of tests/egress."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
import registry_answer  # noqa: E402
from harness import check, equal  # noqa: E402
from internet_client import curl, make, policy, recorded, sh  # noqa: E402
from registry import Registry  # noqa: E402
from checks import has  # noqa: E402

R = Registry()
for eco in ("npm", "pypi"):
    R.add(eco, "demo", "1.0.0", age="400d")
    R.add(eco, "demo", "2.0.0", age="3h")
    R.add(eco, "other", "1.0.0", age="400d")
    R.add(eco, "young", "1.0.0", age="1h")
NPM = "npm install --no-audit --no-fund --registry https://npm.example/ --prefix /tmp/n "
PIP = "/usr/bin/python3 -m pip install --no-cache-dir --disable-pip-version-check --target /tmp/p -i https://pypi.example/simple "


def world():
    """The registries are in the world since the first call."""
    if "npm.example" not in internet.NET.zone:
        R.join(internet.NET)
    return R


def session(server, **packages):
    world()
    return make(server, policy(packages={"registries": R.entries("npm", "pypi"), **packages}))


def installed(server, s, manager, name):
    line = f"cat /tmp/n/node_modules/{name}/package.json" if manager == "npm" else f"ls -d /tmp/p/{name}-*"
    return sh(server, s, line, 0)["stdout"]


def test_npm_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, NPM + "demo", 0)
    equal(json.loads(installed(server, s, "npm", "demo"))["version"], "1.0.0", "the version")


def test_pip_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, PIP + "demo", 0)
    has(installed(server, s, "pip", "demo"), "demo-1.0.0")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
