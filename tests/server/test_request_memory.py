#!/usr/bin/python3 -B
"""Memory of cordond that requests cause: each test makes the most of one thing that waits there, and bounds how much
the process grows. The bounds are generous; without an account each of these took hundreds of MiB.

    test_request_memory.py CORDON [name ...]
"""
import concurrent.futures
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cells import rss  # noqa: E402
from harness import check, equal, has, run_tests  # noqa: E402
from mcp_client import Client  # noqa: E402
from test_mcp_servers import Client as Endpoint, create  # noqa: E402

MIB = 1 << 20
VALUE = "v4lue-0f-the-secret"
# A server of the older protocol with one tool, whose result has nearly 1 MiB.
LARGE = r"""
import json, sys
def send(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n"); sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    n, what = m["id"], m["method"]
    if what == "initialize": send({"id": n, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}})
    elif what == "tools/list": send({"id": n, "result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}})
    elif what == "tools/call": send({"id": n, "result": {"content": [{"type": "text", "text": "z" * 1000000}]}})
    else: send({"id": n, "error": {"code": -32601, "message": "no"}})
"""


class Peak:
    """The most memory that the process has while the block runs, beyond what it had before."""

    def __init__(self, pid):
        self.pid, self.stop, self.most = pid, threading.Event(), 0

    def __enter__(self):
        self.before = rss(self.pid)
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.stop.wait(0.02):
            self.most = max(self.most, rss(self.pid) - self.before)

    def __exit__(self, *why):
        self.stop.set()
        self.thread.join()


def secret(server, name):
    server.want(201, "POST", "/v1/secrets", {"name": name, "value": VALUE, "ways": ["env"]})
    return [{"name": name, "as": "env", "env": "TOKEN"}]


def ask_at_once(n, ask):
    """The results of n calls of ask(i), which all run at once."""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(ask, range(n)))


def test_results_of_mcp_servers_wait_at_their_servers(server):
    secrets = secret(server, "results")
    s = create(server, **{f"a{i}": {"command": ["python3", "-c", LARGE], "secrets": secrets} for i in range(3)})
    c = Endpoint(server, s)
    with Peak(server.pid("cordond")) as peak:
        texts = ask_at_once(240, lambda i: c.text(f"a{i % 3}__go")[0])
    equal(({len(t) for t in texts}, [t for t in texts if len(t) < 1000]), ({1000000}, []), "every call has its result")
    check(peak.most < 160 * MIB, f"240 results of 1 MB: {peak.most // MIB} MiB")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/results")


def test_files_for_mcp_are_counted(server):
    s = server.create(secrets=secret(server, "files"))["id"]
    server.run(s, 'head -c 1000000 /dev/zero | tr "\\0" x > /tmp/f; printf %s "$TOKEN" >> /tmp/f')
    c = Client(server)
    with Peak(server.pid("cordond")) as peak:
        got = ask_at_once(300, lambda i: c.post("resources/read", {"uri": f"cordon://sessions/{s}/files/tmp/f"})[2])
    texts = [m["result"]["contents"][0]["text"] for m in got if "result" in m]
    refused = {m["error"]["message"] for m in got if "error" in m}
    check(len(texts) > 20 and all(t == "x" * 1000000 + "*" * len(VALUE) for t in texts), f"{len(texts)} were read, and masked")
    check(all("tenant_bodies_max" in why or "request bodies" in why or "temporarily unavailable" in why for why in refused), f"{refused}")
    check(peak.most < 140 * MIB, f"300 files of 1 MB, {len(texts)} read: {peak.most // MIB} MiB")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/files")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
