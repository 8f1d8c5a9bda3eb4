#!/usr/bin/python3
"""test_conformance.py - the official conformance suite of MCP against the fixture, both revisions.

    test_conformance.py FIXTURE PACKAGES [name ...]

PACKAGES is where tools/sdk-packages puts the npm packages; they are installed here if they are not there. Every scenario
that a revision requires must pass, with at least one check; what else does not pass is listed in not-passed, and must not
pass, or the list is stale."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "net"))
from wire import Server, note, run  # noqa: E402

PROGRAM, PACKAGES = sys.argv[1:3]
SUITE = os.path.join(PACKAGES, "node_modules/@modelcontextprotocol/conformance/dist/index.js")


def install():
    tool = os.path.join(HERE, "..", "..", "tools", "sdk-packages")
    subprocess.run([tool, PACKAGES, os.path.join(HERE, "package.json"), "22"], check=True, timeout=900)


def suite(url, *options):
    """The scenarios that were run, as {name: (passed, failed)}; and all that it printed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.join(PACKAGES, "bin/node"), SUITE, "server", "--url", url, "-o", folder, *options],
                              capture_output=True, text=True, timeout=240, check=False)
    text = done.stdout + done.stderr
    rows = re.findall(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", text, re.M)
    return {name: (int(good), int(bad)) for name, good, bad in rows}, text


def expected(revision):
    with open(os.path.join(HERE, "not-passed"), encoding="utf-8") as f:
        rows = [line.split(None, 3) for line in f if line.strip() and not line.startswith("#")]
    return {name: how for r, name, how, _ in rows if r == revision}


def required(revision):
    """The names below "server:" in the suite's own list."""
    path = os.path.join(os.path.dirname(SUITE), "..", "requirements", revision + ".yaml")
    with open(path, encoding="utf-8") as f:
        part = re.search(r"^server:\n((?:\s*(?:- .*|#.*)?\n)+)", f.read(), re.M)[1]
    return re.findall(r"^\s*- ([\w-]+)", part, re.M)


def verdict(good, bad):
    return "fails" if bad else "passes" if good else "skipped"


def conforms(revision, at_least):
    install()
    with Server(PROGRAM) as server:
        results, text = suite(f"http://{server.address}/mcp", "--requirements", revision)
    want = expected(revision)
    wrong = [f"{name}: {verdict(*got)}, {got[0]} passed, {got[1]} failed; want {want.get(name, 'passes')}"
             for name, got in results.items() if verdict(*got) != want.get(name, "passes")]
    wrong += [f"{name}: was not run" for name in {*required(revision), *want} if name not in results]
    wrong += [f"{name}: is required, and listed as failing" for name in required(revision) if want.get(name) == "fails"]
    if wrong or len(required(revision)) < at_least:
        note(text[-6000:])
    assert not wrong, wrong
    assert len(required(revision)) >= at_least
    note(f"{len(results)} scenarios, {sum(good for good, _ in results.values())} checks passed")


def revision_2026_07_28():
    conforms("2026-07-28", 37)


def revision_2025_11_25():
    conforms("2025-11-25", 30)


TESTS = [revision_2026_07_28, revision_2025_11_25]

if __name__ == "__main__":
    sys.exit(run([t for t in TESTS if len(sys.argv) < 4 or t.__name__ in sys.argv[3:]]))
