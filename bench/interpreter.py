"""Code in kernels: a section of bench/run.

runCode('1+1') in sessions of the pool of code-interpreter-v1, raw over HTTP and through E2B's SDK (interpreter.mjs), beside
`python3 -c` and ipykernel driven by jupyter_client (jupyter_peer.py), which run on the machine itself, in no sandbox. Memory is PSS:
of all processes of a cell of the pool, PID 1 and server included; and of ipykernel's process, without and with the one that drives it.
"""
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import time

import sdk
import server

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
TEMPLATE = "code-interpreter-v1"
PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()"
REST = 1.5  # seconds in which the pool is filled
# From the requirement: milliseconds, and shares of ipykernel's.
TARGETS = {"first": 30.0, "warm": 5.0, "context": 50.0, "start": 0.1, "memory": 0.5}


class Client:
    """E2B's interface, on one connection."""

    def __init__(self, to):
        self.http = http.client.HTTPConnection(to.address, timeout=120)
        self.key = to.key_file.read_text().strip()

    def ask(self, method, path, body=None, sandbox=None):
        headers = {"X-API-Key": self.key, "Content-Type": "application/json"}
        if sandbox is not None:
            headers |= {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49999"}
        begin = time.perf_counter()
        self.http.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return (time.perf_counter() - begin) * 1e3, text

    def create(self):
        ms, text = self.ask("POST", "/sandboxes", {"templateID": TEMPLATE, "timeout": 300})
        return ms, json.loads(text)["sandboxID"]

    def execute(self, sandbox, code):
        return self.ask("POST", "/execute", {"code": code}, sandbox)

    def remove(self, sandbox):
        self.ask("DELETE", f"/sandboxes/{sandbox}")


def raw(c, rounds):
    times = {"create": [], "first": [], "warm": [], "context": [], "plot": []}
    c.remove(c.create()[1])  # from its first use on the template has a pool
    for _ in range(rounds):
        time.sleep(REST)
        ms, sandbox = c.create()
        times["create"].append(ms)
        ms, text = c.execute(sandbox, "1+1")
        if b'"text":"2"' not in text:
            raise RuntimeError(f"1+1: {text!r}")
        times["first"].append(ms)
        times["warm"] += [c.execute(sandbox, "1+1")[0] for _ in range(20)]
        times["context"].append(c.ask("POST", "/contexts", {}, sandbox)[0])
        ms, text = c.execute(sandbox, PLOT)
        if b'"png"' in text:
            times["plot"].append(ms)
        c.remove(sandbox)
    return times


def memory():
    """KiB of each cell that has an interpreter and no work: the smallest is one of the pool."""
    spaces, cells = {}, []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            spaces.setdefault(os.readlink(process / "ns/pid"), []).append((int(process.name), (process / "comm").read_text().strip()))
        except OSError:
            continue
    for inside in spaces.values():
        if any(name == "cordon-init" for _, name in inside) and any(name.startswith("cordon-interp") for _, name in inside):
            cells.append(sum(server.pss(pid) for pid, _ in inside))
    return cells


def plain_python(rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([PYTHON, "-c", "print(1+1)"], stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def jupyter(rounds):
    try:
        done = subprocess.run([PYTHON, HERE / "jupyter_peer.py", str(rounds), "20"], capture_output=True, text=True, timeout=600,
                              env={"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"})
        return json.loads(done.stdout.splitlines()[0])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired):
        print("skipped: ipykernel (apt-get install python3-ipykernel python3-jupyter-client)")
        return None


def through_sdk(setup, to, rounds):
    folder = sdk.packages(setup.build)
    if folder is None:
        return None
    url = f"http://{to.address}"
    env = dict(os.environ, E2B_API_KEY=to.key_file.read_text().strip(), E2B_API_URL=url, E2B_SANDBOX_URL=url)
    done = subprocess.run([folder / "bin" / "node", HERE / "interpreter.mjs", folder, str(rounds)], env=env, text=True,
                          stdout=subprocess.PIPE, timeout=900)
    if done.returncode:
        raise RuntimeError("the SDK's script failed")
    return json.loads(done.stdout)


def row(name, times):
    return (name, f"{statistics.median(times):.2f}", f"{max(times):.2f}") if times else (name, "-", "-")


def show(table, ours, client, python, peer):
    names = (("create", "create a session"), ("first", "its first 1+1"), ("warm", "1+1 again"), ("context", "a new context"), ("plot", "its first plot"))
    rows = [row(f"{text}, raw", ours[key]) for key, text in names]
    if client is not None:
        rows += [row(f"{text}, SDK", client[key]) for key, text in names]
    rows.append(row("python3 -c 'print(1+1)', no sandbox", python))
    if peer is not None:
        rows += [row("ipykernel: start to the first 1+1", peer["first"]), row("ipykernel: 1+1 again", peer["warm"]),
                 row("ipykernel: its first plot", peer["plot"])]
    table(("milliseconds", "median", "max"), rows)


def section(setup, judge, table, heading):
    heading("interpreter: code in kernels that keep their state")
    rounds = 5 if setup.options.rounds < 100 else 20
    with server.Server(setup.build, setup.folder, setup.outside) as to:
        c = Client(to)
        ours = raw(c, rounds)
        time.sleep(4 * REST)
        cells = memory()
        client = through_sdk(setup, to, rounds)
    python, peer = plain_python(rounds), jupyter(max(3, rounds // 4))
    show(table, ours, client, python, peer)
    both = min(peer["kib"]) + min(peer["driver_kib"]) if peer else None
    table(("MiB of memory", ""), [("a session of the pool, all processes", f"{min(cells) / 1024:.1f}" if cells else "-"),
                                  ("ipykernel, its own process", f"{min(peer['kib']) / 1024:.1f}" if peer else "-"),
                                  ("ipykernel and the process that drives it", f"{both / 1024:.1f}" if peer else "-")])
    first = [a + b for a, b in zip(ours["create"], ours["first"])]
    judge("interpreter: first result after the answer of create, raw", TARGETS["first"], statistics.median(ours["first"]), " ms")
    judge("interpreter: warm, raw", TARGETS["warm"], statistics.median(ours["warm"]), " ms")
    judge("interpreter: a new context, raw", TARGETS["context"], statistics.median(ours["context"]), " ms")
    if peer is not None:
        judge("interpreter: create and first result / ipykernel's start and first result", TARGETS["start"],
              statistics.median(first) / statistics.median(peer["first"]))
    if peer is not None and cells:
        judge("interpreter: memory of a pooled session / ipykernel and its driver", TARGETS["memory"], min(cells) / both)
