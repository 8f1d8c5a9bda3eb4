#!/usr/bin/python3 -B
"""test_many.py - fifty cells at once: each is its own, all are right, nothing is left."""
import concurrent.futures
import os
import subprocess

import tap
from tap import RANGE, check, equal, finish, has, run, start

COUNT = 50


def pid1_of(cordon):
    """The cell's PID 1: the child of the keeper, which is the child of cordon."""
    found = [p for keeper in tap.children(cordon) for p in tap.children(keeper)]
    check(len(found) == 1, f"below cordon {cordon}: {found}")
    return found[0]


def test_fifty_cells_have_ids_of_their_own():
    cells = [
        start("--hostname", f"cell-{i}", cmd="echo ready $(hostname); cat; exit 7", stdin=subprocess.PIPE)
        for i in range(COUNT)
    ]
    try:
        for i, p in enumerate(cells):
            equal(p.stdout.readline(), f"ready cell-{i}\n".encode())
        uids, gids, spaces = [], [], {}
        for p in cells:
            pid = pid1_of(p.pid)
            for name, into in (("uid_map", uids), ("gid_map", gids)):
                with open(f"/proc/{pid}/{name}") as f:
                    inside, outside, count = map(int, f.read().split())
                equal((inside, count), (0, 65536), name)
                check(RANGE[0] <= outside <= RANGE[1] - 65536 and outside % 65536 == 0, f"{name}: {outside:#x}")
                into.append(outside)
            for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
                spaces.setdefault(name, set()).add(os.readlink(f"/proc/{pid}/ns/{name}"))
        equal((len(set(uids)), len(set(gids))), (COUNT, COUNT), "different ranges")
        for name, seen in spaces.items():
            equal(len(seen | {os.readlink(f"/proc/self/ns/{name}")}), COUNT + 1, f"{name} namespaces, ours too")
    finally:
        ends = [finish(p, f"data {i}\n".encode() * 1000) for i, p in enumerate(cells)]
    for i, d in enumerate(ends):
        d.exits(7)
        check(d.text == f"data {i}\n" * 1000, f"cell {i} gave back something else")


CROWD = """
import fcntl, os, resource, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "none", "/run/cordon"], check=True)
os.mkdir("/run/cordon/ids.d")
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open(f"/run/cordon/ids.d/{i}", os.O_RDWR | os.O_CREAT, 0o600) for i in range(4094)]
for fd in held:
    fcntl.flock(fd, fcntl.LOCK_EX)
print(subprocess.run([sys.argv[1], "run", "--", "sh", "-c", "cat /proc/self/uid_map; id -u; echo > f && stat -c %u f"],
                     check=True, capture_output=True, text=True).stdout)
"""


def test_more_cells_than_ranges_below_two_to_the_31():
    """All of those are held, in a /run of its own: the next cell gets one above, and works as any other."""
    os.makedirs("/run/cordon", mode=0o755, exist_ok=True)
    done = subprocess.run(["unshare", "--mount", "python3", "-c", CROWD, tap.PROGRAM], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""), "a cell beside 4094 others")
    inside, outside, count, uid, owner = map(int, done.stdout.split())
    equal((inside, count, uid), (0, 65536, owner), "its ids")
    check(0x80000000 <= outside < RANGE[1], f"{outside:#x}")


def test_fifty_different_ends_at_once():
    def one(i):
        kind = i % 5
        if kind == 0:
            run(cmd=f"echo {i}; exit {i}").exits(i)
        elif kind == 1:
            equal(len(run(cmd=["head", "-c", "1000000", "/dev/zero"]).exits(0).out), 1000000)
        elif kind == 2:
            run("--timeout", "300ms", cmd=["sleep", "1000"], result=True).exits(124).limit("timeout")
        elif kind == 3:
            has(run("--diff", cmd=f"echo > f{i}; sleep 1000 & exit 0").exits(0).text, f"/home/user/f{i}\n")
        else:
            run("--memory", "32M", cmd=["python3", "-c", "x = bytearray(1 << 28)"], result=True).exits(137).limit(
                "memory"
            )
        return i

    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        equal(sorted(pool.map(one, range(COUNT))), list(range(COUNT)))


def test_fifty_cells_without_a_template_yet():
    """All find that it is missing and make it; one wins, none fails, no half-made one stays."""
    with tap.over("/var/cache/cordon") as cache:
        cells = [start(cmd=["cat", "/etc/hostname"]) for _ in range(COUNT)]
        for p in cells:
            equal(finish(p).exits(0).text, "cordon\n")
        names = os.listdir(os.path.join(cache, "roots"))
        check(len(names) == 1 and names[0].startswith("host-"), f"left in the cache: {names}")


if __name__ == "__main__":
    tap.main(globals())
