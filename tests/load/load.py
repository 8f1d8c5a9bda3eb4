#!/usr/bin/python3
"""load.py - many at once and many in a row: memory and descriptors of the daemon return to where they were.

    load.py CORDON [--sessions 1000] [--executions 200] [--cycles 10000]     (--short: 100, 50, 500)

What is measured is printed; it fails if something does not come back, within a tolerance, or if an idle
session or the daemon has more than the design allows."""
import argparse
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
import sanitizer  # noqa: E402
from harness import Server, check, equal, note, rss, wait_for  # noqa: E402

MIB = 1 << 20
DAEMON_MAX = 50 * MIB  # with 1,000 sessions
FILLING = 1500  # cycles: their rows take 8 KiB each, and the database keeps a cache of 8 MiB
RSS_SLACK = 12 * MIB  # the database keeps a cache of 8, an allocator a little
SANITIZED_MORE = 64 * MIB  # freed memory that AddressSanitizer keeps
FDS_SLACK = 4


class Link:
    """One connection, kept."""

    def __init__(self, server):
        self.server = server
        self.link = http.client.HTTPConnection(*server.address, timeout=60)

    def ask(self, want, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": self.server.key, "Content-Type": "application/json"}
        self.link.request(method, path, data, headers)
        answer = self.link.getresponse()
        text = answer.read()
        if answer.status != want:
            raise harness.Failed(f"{method} {path}: {answer.status} {text[:300]!r}, want {want}")
        return json.loads(text) if text else None


def numbers(server):
    pid = server.pid("cordond")
    return rss(pid), len(os.listdir(f"/proc/{pid}/fd"))


def memory_of_cells(server, ids):
    """Bytes charged to the cells' cgroups, on average; None where that is not counted."""
    total, n = 0, 0
    for path in harness.cgroups_of(set(ids)):
        for name in ("memory.usage_in_bytes", "memory.current"):
            if os.path.exists(f"{path}/{name}"):
                with open(f"{path}/{name}") as f:
                    total, n = total + int(f.read()), n + 1
    return total // n if n else None


def in_threads(n, work):
    problems = []

    def one(number):
        try:
            work(number)
        except Exception as e:
            problems.append(f"{type(e).__name__}: {e}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    check(not problems, "\n".join(problems[:10]))


def settled(server, before, what, slack=RSS_SLACK):
    """Back to where it was."""
    wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 60, "the end of all sessions")

    if sanitizer.is_sanitized(f"/proc/{server.pid('cordond')}/exe"):
        slack += SANITIZED_MORE

    def back():
        now = numbers(server)
        return now if now[0] <= before[0] + slack and now[1] <= before[1] + FDS_SLACK else None

    try:
        now = wait_for(back, 15, what, step=0.2)
    except harness.Failed:
        now = numbers(server)
        note(f"{what}: memory {before[0] / MIB:.1f} -> {now[0] / MIB:.1f} MiB, descriptors {before[1]} -> {now[1]}")
        raise
    note(f"{what}: memory {before[0] / MIB:.1f} -> {now[0] / MIB:.1f} MiB, descriptors {before[1]} -> {now[1]}")


def idle_sessions(server, count):
    before, ids, lock, began = numbers(server), [], threading.Lock(), time.monotonic()

    def make(number):
        link = Link(server)
        for _ in range(count // 8 + (number < count % 8)):
            made = link.ask(201, "POST", "/v1/sessions", {"timeout": "1h"})
            with lock:
                ids.append(made["id"])

    in_threads(8, make)
    took = time.monotonic() - began
    equal(len(set(ids)), count, "sessions")
    with server.lock:
        server.ids |= set(ids)
    time.sleep(1)  # the last creates settle
    memory, fds = numbers(server)
    each = memory_of_cells(server, ids[:100])
    note(f"{count} idle sessions in {took:.1f} s ({count / took:.0f}/s): daemon {memory / MIB:.1f} MiB "
         f"({(memory - before[0]) / count / 1024:.1f} KiB each), {(fds - before[1]) / count:.1f} descriptors each, "
         f"cgroup of one {each and each >> 10} KiB")
    check(memory < DAEMON_MAX, f"the daemon has {memory / MIB:.1f} MiB")
    for session_id in (ids[0], ids[-1], ids[count // 2]):
        equal(server.run(session_id, "echo on")["stdout"], "on\n", "one of them")
    began = time.monotonic()

    def end(number):
        link = Link(server)
        for session_id in ids[number::8]:
            link.ask(204, "DELETE", f"/v1/sessions/{session_id}")

    in_threads(8, end)
    note(f"deleted in {time.monotonic() - began:.1f} s")
    settled(server, before, f"{count} idle sessions")


def executions_at_once(server, count):
    """Each prints 256 KiB in lines; all run at the same time."""
    before, sessions = numbers(server), []
    for _ in range(max(1, count // 40)):
        sessions.append(server.create(timeout="1h", limits={"memory": "512M"})["id"])
    line, want = "sleep 0.5; seq -f 'number %.0f' 1 18000; sleep 0.5; exit 2", None
    began, started = time.monotonic(), []
    lock = threading.Lock()

    def start(number):
        link = Link(server)
        for i in range(number, count, 8):
            session = sessions[i % len(sessions)]
            x = link.ask(202, "POST", f"/v1/sessions/{session}/executions", {"command": line})
            with lock:
                started.append(x)

    in_threads(8, start)
    want = "".join(f"number {i}\n" for i in range(1, 18001)).encode()
    peak = numbers(server)
    for x in started:
        peak = tuple(map(max, peak, numbers(server)))
        equal(server.ended(x, 60)["exit_code"], 2, "exit code")
    check(peak[1] > before[1] + count, f"only {peak[1]} descriptors: they did not run at the same time")
    for x in started:
        path = f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output?stream=stdout"
        check(server.want(200, "GET", path, raw=True) == want, f"output of {x['id']}")
    note(f"{count} executions with {len(want) >> 10} KiB each in {time.monotonic() - began:.1f} s, "
         f"daemon {peak[0] / MIB:.1f} MiB and {peak[1]} descriptors meanwhile")
    for session in sessions:
        server.delete(session)
    settled(server, before, f"{count} executions")


def cycles(server, count):
    """In two parts: the first fills what is meant to be kept, the second must add nothing."""
    before, first = numbers(server), max(count // 2, FILLING)
    half(server, first)
    settled(server, before, f"{first} cycles")
    before = numbers(server)[0], before[1]  # the pool may just be short of some cells, with their descriptors
    half(server, count - count // 2)
    settled(server, before, f"{count - count // 2} more", 2 * MIB)


def half(server, count):
    began = time.monotonic()

    def work(number):
        link = Link(server)
        for _ in range(count // 8 + (number < count % 8)):
            session = link.ask(201, "POST", "/v1/sessions", {})["id"]
            path = f"/v1/sessions/{session}"
            done = link.ask(200, "POST", path + "/executions?wait=true", {"argv": ["/bin/echo", "x"]})
            equal(done["stdout"], "x\n", "output")
            link.ask(204, "DELETE", path)

    in_threads(8, work)
    took = time.monotonic() - began
    note(f"{count} cycles in {took:.1f} s, {count / took:.0f}/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--sessions", type=int)
    parser.add_argument("--executions", type=int)
    parser.add_argument("--cycles", type=int)
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    sizes = (100, 50, 500) if args.short else (1000, 200, 10000)
    sizes = [given or usual for given, usual in zip((args.sessions, args.executions, args.cycles), sizes)]
    harness.isolate()
    print("1..4", flush=True)
    server = Server(
        harness.reachable(os.path.abspath(args.cordon)),
        pool_size=8, pool_max=8, memory_default="16M", disk_default="8M", node_max_sessions=2000, tenant_max_sessions=2000,
        node_create_rate=0, tenant_create_rate=0, node_max_memory="64G", tenant_max_memory="64G", log_level="warn",
    )  # fmt: skip
    server.lock = threading.Lock()
    server.run(server.create()["id"], "true")
    server.delete_all()
    time.sleep(3)  # the pool is as it will be
    bad = 0
    for number, (function, size) in enumerate(zip((idle_sessions, executions_at_once, cycles), sizes), 1):
        verdict, why = harness.attempt(function, server, size)
        bad += verdict != "ok"
        print(f"{verdict} {number} - {function.__name__.replace('_', ' ')}: {size}", flush=True)
        if why:
            note(why + "\n" + server.log()[-1500:])
    verdict, why = harness.attempt(server.close)
    bad += verdict != "ok"
    print(f"{verdict} 4 - nothing is left")
    note(why or "")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
