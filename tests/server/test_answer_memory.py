#!/usr/bin/python3 -B
"""Goal: the longest answers there are, asked for by many clients at once that do not read them, take a bounded amount of
cordond's memory: while they are collected (tenant_bodies_max) and while they wait to be read (128 MiB of a tenant).

    test_answer_memory.py CORDON [name ...]
"""
import concurrent.futures
import http.client
import json
import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cells import rss  # noqa: E402
from harness import check, equal, has, note, run_tests, wait_for  # noqa: E402
from sandbox_files import Sandbox  # noqa: E402
from test_request_memory import MIB, Peak  # noqa: E402
from test_volumes import Content  # noqa: E402

UNREAD_MIB = 128  # conn_account.c: answers of a tenant that wait to be read
BODIES_MIB = 64  # tenant_bodies_max
SLACK_MIB = 48  # what the allocator keeps, the sessions themselves, one answer that is being written


def ask(server, method, path, body=None, headers=None):
    """A request of a client that reads nothing: the kernel keeps little of the answer."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # room for what is sent grows with it
    s.connect(server.address)
    link = http.client.HTTPConnection(*server.address)
    link.sock = s
    link.request(method, path, None if body is None else json.dumps(body), {"X-API-Key": server.key, **(headers or {})})
    return s


def begun(s, seconds=90):
    """The first bytes of its answer; they stay. "": the server has given the answer up."""
    s.settimeout(seconds)
    try:
        return s.recv(64, socket.MSG_PEEK)
    except ConnectionError:
        return b""


def answers(links):
    """{status: how many}; 0: given up. Returns when each of them has begun or ended."""
    with concurrent.futures.ThreadPoolExecutor(len(links)) as pool:
        firsts = list(pool.map(begun, links))
    counts = {}
    for first in firsts:
        status = int(first.split(b" ")[1]) if first else 0
        counts[status] = counts.get(status, 0) + 1
    return counts


def read_whole(s):
    """A whole answer; its length is announced."""
    s.settimeout(60)
    got = b""
    while b"\r\n\r\n" not in got or len(got) < got.index(b"\r\n\r\n") + 4 + int(re.search(rb"Content-Length: (\d+)", got)[1]):
        data = s.recv(1 << 20)
        check(data, f"the answer ends after {len(got)} bytes")
        got += data
    return got


def most(server, n, size_mib, asks, bound_mib, wanted=(200, 0)):
    """n answers of size_mib each, which are not read; bounds the growth of cordond, and gives the statuses."""
    pid = server.pid("cordond")
    with Peak(pid) as peak:
        links = asks(n)
        counts = answers(links)
        time.sleep(0.5)  # the last ones are complete
    note(f"{n} answers of {size_mib} MiB: {counts}, {peak.most // MIB} MiB")
    for s in links:
        s.close()
    check(set(counts) <= set(wanted) and counts.get(wanted[0], 0) > 0, f"{counts}")
    check(n * size_mib > 1.7 * bound_mib, f"the answers of {n} clients would have had room")
    check(peak.most < bound_mib * MIB, f"{n} answers of {size_mib} MiB, {counts}: {peak.most // MIB} MiB")
    equal(server.request("GET", "/v1/node")[0], 200)
    wait_for(lambda: rss(pid) - peak.before < SLACK_MIB * MIB, 20, "the memory to be free again")
    return counts


# Both streams, of bytes that have six characters each in JSON.
BOTH = "head -c 1048576 /dev/zero | tr '\\0' '\\1' | tee /dev/stderr"


def test_output_of_executions_that_are_waited_for(server):
    s = server.create(timeout="1h")["id"]
    path = f"/v1/sessions/{s}/executions?wait=true"
    whole = server.want(200, "POST", path, {"command": BOTH})
    equal([len(whole["stdout"]), len(whole["stderr"]), whole["inline_truncated"]], [1 << 20, 1 << 20, False])
    most(server, 60, 12, lambda n: [ask(server, "POST", path, {"command": BOTH}) for _ in range(n)], UNREAD_MIB + SLACK_MIB)
    server.delete(s)


# Names that have six characters for each byte, in directories and as files.
FILES = r"""
import os, sys
folder, n = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
for i in range(n):
    os.close(os.open(f"{folder}/{i:06}" + "\x7f" * 245, os.O_CREAT | os.O_WRONLY))
"""


def with_files(server, n, folder="/home/user", **spec):
    s = server.create(timeout="1h", **spec)["id"]
    made = server.run(s, ["python3", "-c", FILES, folder + "/d", str(n)])
    equal(made["exit_code"], 0, made["stderr"])
    return s


def test_changes_of_sessions(server):
    """Four of a tenant are collected at a time."""
    s = with_files(server, 12000)
    path = f"/v1/sessions/{s}/diff"
    whole = server.want(200, "GET", path)
    check(whole["truncated"] and len(whole["changes"]) > 9000, f"{len(whole['changes'])} changes")

    def asks(n):
        links = []
        while len(links) < n:
            four = [ask(server, "GET", path) for _ in range(4)]
            check(set(answers(four)) <= {200, 0}, "four at a time")
            links += four
        return links

    most(server, 40, 15, asks, UNREAD_MIB + BODIES_MIB + SLACK_MIB)
    server.delete(s)


def test_changes_of_sessions_that_have_ended(server):
    s = with_files(server, 12000, keep_diff=True)
    server.delete(s)
    server.reaches(s, "ended")
    path = f"/v1/sessions/{s}/diff"
    check(len(server.want(200, "GET", path, raw=True)) > 15 * MIB, "a shorter list")
    most(server, 40, 15, lambda n: [ask(server, "GET", path) for _ in range(n)], UNREAD_MIB + SLACK_MIB)


def collected(server, n, size_mib, asks):
    """All collect at once: there is a bound before the answers are complete, too. Some are refused, and say why."""
    counts = most(server, n, size_mib, asks, UNREAD_MIB + BODIES_MIB + SLACK_MIB, (200, 0, 429))
    check(counts.get(429, 0) > 0, f"{counts}: none was refused")


def test_lists_of_files(server):
    s = with_files(server, 12000)
    path = f"/v1/sessions/{s}/files/list?path=/home/user/d&limit=10000"
    whole = server.want(200, "GET", path)
    check(whole["truncated"] and len(whole["entries"]) > 4000, f"{len(whole['entries'])} entries")
    collected(server, 60, 15, lambda n: [ask(server, "GET", path) for _ in range(n)])
    server.delete(s)


def test_lists_of_directories_of_sandboxes(server):
    b = Sandbox(server)
    made = server.run(b.id, ["python3", "-c", FILES, "/home/user/d", "4500"])
    equal(made["exit_code"], 0, made["stderr"])
    where, headers = "/filesystem.Filesystem/ListDir", {**b.headers(), "Content-Type": "application/json", "Connect-Protocol-Version": "1"}
    equal(len(b.rpc("ListDir", {"path": "d"})["entries"]), 4500)
    collected(server, 60, 14, lambda n: [ask(server, "POST", where, {"path": "d"}, headers) for _ in range(n)])
    server.delete(b.id)


def test_lists_of_volumes(server):
    server.want(201, "POST", "/v1/volumes", {"name": "long"})
    s = with_files(server, 4700, "/v", volumes=[{"name": "long", "path": "/v"}])
    content = Content(server, "long")
    status, _, body = content.ask("GET", "dir", path="/d")
    equal((status, len(json.loads(body))), (200, 4700))
    path, headers = f"/volumecontent/{content.id}/dir?path=/d", {"Authorization": f"Bearer {content.token}"}
    collected(server, 32, 14, lambda n: [ask(server, "GET", path, None, headers) for _ in range(n)])
    equal(server.run(s, ["python3", "-c", FILES, "/v/d", "6000"])["exit_code"], 0)
    status, _, body = content.ask("GET", "dir", path="/d")
    equal(status, 400, body[:300])
    has(body.decode(), "too many entries for one answer")
    server.delete(s)
    server.want(204, "DELETE", "/v1/volumes/long")


def unread(server):
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    return int(float(re.search(r'^cordon_request_bytes\{of="unread"\} (\S+)$', text, re.M)[1]))


def test_sessions_of_forks(server):
    """Each session with the longest metadata: an answer that is not read is counted, and takes its length."""
    s = server.create(timeout="1h", metadata={"m": "x" * 16000})["id"]
    n, pid = 100, server.pid("cordond")
    with Peak(pid) as peak:
        links = []
        for _ in range(2):  # one at a time
            links.append(ask(server, "POST", f"/v1/sessions/{s}/fork", {"count": n, "timeout": "1h"}))
            equal(answers(links[-1:]), {201: 1})
        there = wait_for(lambda: (now := unread(server)) > n * 16000 and now, 10, "answers that wait to be read")
    check(peak.most < there + SLACK_MIB * MIB, f"answers of {there // MIB} MiB: {peak.most // MIB} MiB")
    for link in links:
        made = json.loads(read_whole(link).split(b"\r\n\r\n", 1)[1])
        equal((len(made["sessions"]), made["errors"]), (n, []))
        link.close()
        for one in made["sessions"]:
            server.delete(one["id"])
    wait_for(lambda: unread(server) < 100000, 10, "nothing waits")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, tenant_create_rate=0)
