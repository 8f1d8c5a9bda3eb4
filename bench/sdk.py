"""Time to interactive through E2B's own SDK: a section of bench/run.

The same script (sdk.mjs) runs against the server under test and against one that does nothing
(sdk_floor.mjs): the second is the client's own share. Beside them a bare `bash -l -c COMMAND`, the
program that the SDK asks for, without any sandbox and the machine's own profile. Public tables of
this figure are taken over the internet, between large machines; here client and server share one.
"""
import json
import os
import pathlib
import statistics
import subprocess
import time

import server

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 100
COMMANDS = ("echo ready", "node -v")
# From the requirement, in milliseconds.
TARGETS = {"echo, sequential, median beyond the client": 20.0, "burst, p95": 500.0}


def packages(build):
    """Where npm put the SDK; None (and said) if it cannot."""
    folder = build / "sdk"
    done = subprocess.run([HERE.parent / "tools" / "sdk-packages", folder])
    if done.returncode:
        print("skipped: the SDK could not be installed")
        return None
    return folder


def run_client(folder, url, key):
    env = dict(os.environ, E2B_API_KEY=key, E2B_API_URL=url, E2B_SANDBOX_URL=url)
    done = subprocess.run([folder / "bin" / "node", HERE / "sdk.mjs", folder, str(ROUNDS), *COMMANDS], env=env, text=True,
                          stdout=subprocess.PIPE, timeout=900)
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else None


def bare(command):
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        subprocess.run(["/bin/bash", "--noprofile", "-l", "-c", command], stdout=subprocess.DEVNULL, check=True)
        times.append((time.monotonic() - begin) * 1000)
    return times


def at(times, percent):
    return sorted(times)[-(-len(times) * percent // 100) - 1]


def row(name, times, tried=None):
    if not times:
        return (name, "0 %", "", "", "", "")
    return (name, f"{100 * len(times) / (tried or len(times)):.0f} %", f"{min(times):.1f}",
            f"{statistics.median(times):.1f}", f"{at(times, 95):.1f}", f"{at(times, 99):.1f}")


def section(setup, judge):
    folder = packages(setup.build)
    if folder is None:
        return
    with subprocess.Popen([folder / "bin" / "node", HERE / "sdk_floor.mjs"], stdout=subprocess.PIPE, text=True) as nothing:
        try:
            floor = run_client(folder, f"http://127.0.0.1:{nothing.stdout.readline().strip()}", "e2b_00")
        finally:
            nothing.terminate()
    with server.Server(setup.build, setup.folder, setup.outside) as running:
        ours = run_client(folder, f"http://{running.address}", running.key_file.read_text().strip())
    if floor is None or ours is None:
        print("the SDK's script FAILED")
        setup.failed = True
        return
    rows = []
    for mine, none in zip(ours, floor):
        name = f"{mine['command']}, {mine['how']}"
        rows.append(row(name, mine["ms"], mine["tried"]))
        if mine["how"] == "sequential":
            rows += [row("    of it Sandbox.create()", mine["create"]), row("    of it commands.run()", mine["run"])]
        rows.append(row("    server that does nothing", none["ms"], none["tried"]))
        for error in mine["errors"]:
            print(f"{name} FAILED: {error}")
    rows += [row(f"bash -l -c '{command}', no sandbox", bare(command)) for command in COMMANDS]
    server.table(("create to result; ms", "success", "min", "median", "p95", "p99"), rows)
    setup.failed |= any(len(mine["ms"]) < mine["tried"] for mine in ours)
    verdicts(ours, floor, judge)


def verdicts(ours, floor, judge):
    def pick(results, how):
        return next(one for one in results if one["how"] == how and one["command"] == COMMANDS[0])

    beyond = None
    if pick(ours, "sequential")["ms"] and pick(floor, "sequential")["ms"]:
        beyond = statistics.median(pick(ours, "sequential")["ms"]) - statistics.median(pick(floor, "sequential")["ms"])
    judge("SDK: create to result of echo, sequential, beyond the client's own",
          TARGETS["echo, sequential, median beyond the client"], beyond, " ms")
    burst = pick(ours, "burst")
    judge(f"SDK: failures in a burst of {ROUNDS}", 0, burst["tried"] - len(burst["ms"]))
    judge(f"SDK: burst of {ROUNDS}, p95", TARGETS["burst, p95"], at(burst["ms"], 95) if burst["ms"] else None, " ms")
