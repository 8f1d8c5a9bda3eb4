#!/usr/bin/python3 -B
"""Memory of cordond that requests cause: each test makes the most of one thing that waits there, and bounds how much
the process grows. The bounds are generous; without an account each of these took hundreds of MiB.

    test_request_memory.py CORDON [name ...]
"""
import base64
import concurrent.futures
import http.client
import json
import os
import re
import socket
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cells import rss  # noqa: E402
from harness import Server, check, equal, has, run_tests, wait_for  # noqa: E402
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


PICTURES = """
class Picture:
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n" + b"z" * 370000
for _ in range(4): display(Picture())
"""


def unread(server, m, headers):
    """A request of a client that takes its time: nothing of the answer is read, and the kernel keeps little of it."""
    host, port = server.settings["listen"].rsplit(":", 1)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # room for what is sent grows with it
    s.connect((host, int(port)))
    s.settimeout(120)
    link = http.client.HTTPConnection(host, int(port))
    link.sock = s
    link.request("POST", "/mcp", json.dumps(m), headers)
    return link


def test_answers_of_code_are_there_once(server):
    """An answer with pictures that is not read takes what it has to send, not also what it was made of."""
    n, s = 40, server.create(timeout="1h")["id"]
    c = Client(server, legacy=True)
    one = c.call("run", session_id=s, code=PICTURES)  # the kernel is there
    equal((one["exit_code"], len(one["results"])), (0, 4), f"{one}")
    before = rss(server.pid("cordond"))
    links = []
    for _ in range(n):
        m = c.message("tools/call", {"name": "run", "arguments": {"session_id": s, "code": PICTURES}})
        links.append(unread(server, m, c.headers(m, Accept="application/json")))
    wait_for(lambda: len([x for x in server.want(200, "GET", f"/v1/sessions/{s}/executions?limit=100")["executions"] if x["ended_at"]]) == n + 1, 120,
             "the end of all")
    wait_for(lambda: rss(server.pid("cordond")) - before > n * MIB, 30, "answers that wait")
    grown = rss(server.pid("cordond")) - before
    for link in links:
        m = json.loads(link.getresponse().read())
        pictures = [p for p in m["result"]["content"] if p["type"] == "image"]
        equal([len(base64.b64decode(p["data"])) for p in pictures], [370008] * 4, "all pictures")
        link.close()
    check(grown < n * 3 * MIB, f"{n} answers of 2 MB: {grown // MIB} MiB")
    server.delete(s)


def test_streams_that_are_not_read_are_counted(_):
    """Answers that became streams, because they took more than a second, wait at the tenant's cost."""
    with Server(tenant_bodies_max="16M", pool_size=2) as server:
        n, s = 40, server.create(timeout="1h")["id"]
        c = Client(server, legacy=True)
        equal(c.call("run", session_id=s, code=PICTURES)["exit_code"], 0)  # the kernel is there
        before = rss(server.pid("cordond"))
        links = []
        for i in range(n):
            code = "import time; time.sleep(8)\n" + PICTURES if i == 0 else PICTURES
            m = c.message("tools/call", {"name": "run", "arguments": {"session_id": s, "code": code}}, token=i)
            links.append(unread(server, m, c.headers(m)))
        wait_for(lambda: len([x for x in server.want(200, "GET", f"/v1/sessions/{s}/executions?limit=100")["executions"] if x["ended_at"]]) == n + 1, 120,
                 "the end of all")
        grown = rss(server.pid("cordond")) - before
        whole = refused = 0
        for link in links:
            answer = link.getresponse()
            if answer.getheader("Content-Type") == "application/json":  # it took less than a second
                link.close()
                continue
            last = json.loads([line for line in answer.read().split(b"\n") if line.startswith(b"data:")][-1][5:])
            if last["result"].get("isError"):
                check("tenant_bodies_max" in last["result"]["content"][0]["text"], f"{last}")
                refused += 1
            else:
                equal(len([p for p in last["result"]["content"] if p["type"] == "image"]), 4)
                whole += 1
            link.close()
        # Those that took less than a second are no streams: on a fast machine up to half of them.
        check(whole >= 4 and refused >= 8, f"{whole} whole, {refused} refused")
        check(grown < 60 * MIB, f"{n} answers of 2 MB: {grown // MIB} MiB")
        server.delete(s)


def held(server):
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    return int(float(re.search(r'^cordon_request_bytes\{of="bodies"\} (\S+)$', text, re.M)[1]))


def test_what_waits_for_a_gateway_is_counted(_):
    """Calls to a server that does not read wait in cordond also when their clients are gone."""
    with Server(tenant_bodies_max="2M", pool_size=2) as server:
        s = create(server, x={"command": ["python3", "-c", LARGE]})
        c = Endpoint(server, s)
        equal(len(c.text("x__go")[0]), 1000000)
        inner = [t["id"] for t in server.want(200, "GET", "/v1/sessions")["sessions"] if t["id"] != s and t["state"] == "running"][0]
        server.run(inner, "pkill -STOP mcp-gateway", user="root")
        empty = held(server)
        refused = 0
        for _ in range(8):
            try:
                said = c.open("tools/call", {"name": "x__go", "arguments": {"a": "z" * 900000}}, timeout=2).getresponse().read()
                refused += b"tenant_bodies_max" in said or b"request bodies" in said
            except TimeoutError:
                pass  # the client has waited long enough
        wait_for(lambda: held(server) - empty > 1000000, 20, "bytes that wait for the gateway")
        check(refused > 0 and held(server) - empty <= 2 * MIB, f"{refused} refused, {held(server) - empty} bytes wait")
        server.run(inner, "pkill -CONT mcp-gateway", user="root")
        wait_for(lambda: held(server) <= empty, 40, "nothing waits")
        equal(len(c.text("x__go")[0]), 1000000)
        server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
