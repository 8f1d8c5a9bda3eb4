"""Packages: `npm ci` of 200 packages and `pip install` of 20 wheels, a section of bench/run.

packages_world.py does the work, in namespaces of its own, against registries made for it: without Cordon, without Cordon
from a registry whose answers come 20 ms later, through Cordon with an empty cache, and from its cache; beside verdaccio
(npm), which is fetched into build/verdaccio, and squid. One file of 500 MB, with the memory of the processes. And what
recognising and judging one request costs (packagebench).
"""
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CLONE_NEWNS = 0x20000
ROUNDS = 5
# From the requirement: ratios; MiB that a process may grow by while a file of 500 MB passes.
TARGETS = {"delayed": 1.0, "verdaccio": 1.0, "memory": 32, "judge": 20.0}
# A tag that one of its dependencies asks for is not on every mirror.
VERDACCIO = {"private": True, "dependencies": {"verdaccio": "^6.0.0"}, "overrides": {"node-fetch": "2.6.7"}}


def verdaccio(build):
    """Where npm put it; None (and said) if it cannot."""
    folder = build / "verdaccio"
    if not (folder / "node_modules/verdaccio/bin/verdaccio").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text(json.dumps(VERDACCIO))
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"], cwd=folder)
        if done.returncode:
            print("verdaccio could not be installed")
            return None
    return folder


def measure(setup, rounds, peer):
    command = [sys.executable, "-B", HERE / "packages_world.py", setup.build, "--rounds", rounds, *(["--verdaccio", peer] if peer else [])]
    libc = ctypes.CDLL(None, use_errno=True)

    def go_outside():
        if setup.outside is not None and libc.setns(setup.outside, CLONE_NEWNS):
            os._exit(126)
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, timeout=1800, preexec_fn=go_outside)
    if done.returncode:
        setup.failed = True
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def times(rows, what):
    """{who: seconds}, and what could not be measured is said."""
    found = {}
    for kind, who, figures in rows:
        if kind != what:
            continue
        if isinstance(figures, str):
            print(f"{what}, {who}: {figures}")
        elif figures:
            found[who] = figures
    return found


def judging(setup, judge):
    """packagebench's lines as they are; the slowest is judged."""
    done = subprocess.run([setup.build / "packagebench"], text=True, capture_output=True)
    print(done.stdout, end="")
    costs = [float(line.split()[-2]) for line in done.stdout.splitlines() if line.endswith(" us")]
    judge("one request with 10,000 names and pins, us", TARGETS["judge"], max(costs, default=None))


def ratio(found, who, other):
    if who not in found or other not in found:
        return None
    return min(found[who]) / min(found[other])


def section(setup, judge, table, heading):
    heading("packages: npm ci of 200 packages, pip install of 20 wheels, a file of 500 MB; seconds")
    judging(setup, judge)
    missing = [name for name in ("npm", "pip3", "nft", "ip") if not shutil.which(name) and not shutil.which(name, path="/usr/sbin:/sbin")]
    if missing or not setup.root:
        print(f"skipped: needs root, {' '.join(missing)}")
        return
    rows = measure(setup, 2 if setup.options.rounds < 100 else ROUNDS, verdaccio(setup.build))
    found = {what: times(rows, what) for what in ("npm", "pip", "500 MB", "memory")}
    table(("what", "who", "minimum", "median"), [(what, who, f"{min(taken):.2f}", f"{statistics.median(taken):.2f}")
                                               for what in ("npm", "pip", "500 MB") for who, taken in found[what].items()])
    table(("process, while 500 MB pass", "KiB before", "KiB at most"), [(who, *figures) for who, figures in found["memory"].items()])
    for what in ("npm", "pip"):
        judge(f"{what} from the cache / direct, answers 20 ms later", TARGETS["delayed"],
              ratio(found[what], "cordon, from the cache", "direct, answers 20 ms later"))
    judge("npm from the cache / verdaccio from its cache", TARGETS["verdaccio"],
          ratio(found["npm"], "cordon, from the cache", "verdaccio, from its cache"))
    grown = [(most - before) / 1024 for before, most in found["memory"].values()]
    judge("MiB that a process grows by while 500 MB pass", TARGETS["memory"], max(grown, default=None))
