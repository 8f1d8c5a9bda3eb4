#!/usr/bin/python3
"""What clients with and without a key can hold of a server, by black box: test_bounds.py CORDON.

Each of these is something that anyone who reaches the port, or one tenant, can open in numbers; the others must not
feel it."""
import base64
import hashlib
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Server, Skip, check, equal, note, rss, run_tests, wait_for, wait_read
from streams import Attached, Events
from test_process_rpc import Box, Stream


def unread(server, text):
    """A connection that asks a lot and reads nothing, with small segments as on any WAN."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 500)
    s.connect(server.address)
    s.setblocking(False)
    try:
        s.send(text)
    except BlockingIOError:
        pass
    return s


def test_unread_answers_do_not_close_the_server():
    with Server(connections_max=100, pool_size=0) as server:
        asks = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 4000
        held = [unread(server, asks) for _ in range(110)]
        time.sleep(1.5)  # the answers that are not read fill all buffers on the way
        for _ in range(5):
            wait_for(lambda: server.request("GET", "/healthz", key=None)[0] == 200, 15, "an answer without a key")
            wait_for(lambda: server.request("GET", "/v1/node")[0] == 200, 15, "an answer with a key")
        for s in held:
            s.close()


def unfinished(server, key, path="/v1/sessions", size=1 << 20):
    s = socket.create_connection(server.address)
    s.settimeout(20)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: {size}\r\n\r\n"
    s.sendall(head.encode())
    return s


def fill(server, key, size):
    """Unfinished bodies of this size, one after the other, until one is refused: less than that is free then."""
    held = []
    for _ in range(100):
        held.append(unfinished(server, key, size=size + 1))
        try:
            held[-1].sendall(b" " * size)
            wait_read(held[-1])
        except (BrokenPipeError, ConnectionResetError):
            return held
        if select.select([held[-1]], [], [], 0.2)[0]:
            return held
    raise Failed("no body is refused")


def test_unfinished_bodies_have_a_bound():
    """Of one tenant, whose others are refused; another tenant has room."""
    with Server(tenant_bodies_max="8M", pool_size=0) as server:
        _, greedy = server.tenant("greedy")
        _, modest = server.tenant("modest")
        before = rss(server.pid("cordond"))
        held = [unfinished(server, greedy) for _ in range(60)]
        refused = 0
        for s in held:
            try:
                s.sendall(b" " * ((1 << 20) - 1))
            except (BrokenPipeError, ConnectionResetError):
                refused += 1
        check(refused < 60, "all were refused")
        wait_for(lambda: server.request("GET", "/v1/sessions", key=modest)[0] == 200, 10, "another tenant")
        made = server.want(201, "POST", "/v1/sessions", {"metadata": {"a": "x" * 1000}}, key=modest)
        counted = re.search(rb'cordon_request_bytes{of="bodies"} (\d+)', server.want(200, "GET", "/metrics", raw=True))
        check(1 << 20 < int(counted[1]) <= 9 << 20, f"{counted[1]} bytes in the metrics")
        grown = rss(server.pid("cordond")) - before
        check(grown < 40 << 20, f"60 bodies of 1 MB take {grown >> 20} MB")
        held += fill(server, greedy, 400000)
        server.refused(429, "quota_bodies", "POST", "/v1/sessions", {"metadata": {"a": "x" * 800000}}, key=greedy)
        server.want(204, "DELETE", f"/v1/sessions/{made['id']}", key=modest)
        for s in held:
            s.close()
        wait_for(lambda: server.request("POST", "/v1/sessions", {"x": "y" * 900000}, key=greedy)[0] == 400, 10, "room")


def test_only_some_bodies_are_long(server):
    session = server.create()["id"]
    long = {"from": "x" * 70000, "to": "y"}
    server.refused(413, "too_large", "POST", f"/v1/sessions/{session}/files/move", long)
    server.refused(413, "too_large", "POST", "/v1/keys", {"name": "x" * 70000, "scopes": ["read"]})
    server.want(200, "POST", f"/v1/sessions/{session}/executions?wait=true", {"argv": ["/bin/true", "x" * 70000]})


def test_metrics_are_the_operators(server):
    """They count the sessions of all tenants."""
    tenant, key = server.tenant("curious")
    server.refused(401, "unauthorized", "GET", "/metrics", key=None)
    server.refused(403, "forbidden", "GET", "/metrics", key=key)
    check(b"cordon_sessions" in server.want(200, "GET", "/metrics", raw=True), "the operator's")
    for setting, status in (("local", 200), ("open", 200), ("key", 401)):
        with Server(metrics=setting, pool_size=0) as other:
            equal(other.request("GET", "/metrics", key=None)[0], status, f"metrics={setting}")


def test_a_tenant_sees_its_own_sessions_in_the_node(server):
    _, key = server.tenant("lonely")
    server.create()
    seen = server.want(200, "GET", "/v1/node", key=key)
    equal((sum(seen["sessions"].values()), seen["pool"]), (0, None), "what is not its own")
    mine = server.create(key=key)["id"]
    equal(server.want(200, "GET", "/v1/node", key=key)["sessions"]["running"], 1, "its own")
    check(server.want(200, "GET", "/v1/node")["sessions"]["running"] >= 2, "all, for the operator")
    server.delete(mine, key=key)


def test_failures_do_not_fill_the_log():
    with Server(pool_size=0, storage_reserve=90) as server:
        disk = os.statvfs(server.state)
        if disk.f_bavail > disk.f_blocks * 0.89:
            raise Skip("the disk is nearly empty: nothing is refused for its reserve")
        began = time.monotonic()
        for _ in range(300):
            equal(server.request("POST", "/v1/volumes", {"name": "v"})[0], 507, "no room on the disk")
        time.sleep(1.1)  # the log allows so many lines a second
        server.request("POST", "/v1/volumes", {"name": "v"})
        failed = [line for line in server.log().splitlines() if "request failed" in line]
        allowed = 20 * (time.monotonic() - began + 2)
        check(len(failed) <= allowed, f"{len(failed)} lines of 301 requests, at most {allowed:.0f} may be")
        check(any("left_out=" in line and "left_out=0" not in line for line in failed), "how many were left out")


def test_requests_without_a_key_do_not_fill_the_log():
    with Server(pool_size=0) as server:
        began = time.monotonic()
        with socket.create_connection(server.address) as s:
            s.settimeout(20)
            s.sendall(b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
            got = b""
            while got.count(b"HTTP/1.1 401") < 2000:
                got = got + s.recv(1 << 16)
        time.sleep(1.1)  # the log allows so many lines a second
        server.request("GET", "/v1/nothing", key=None)
        wait_for(lambda: "left_out=1" in server.log(), 15, "how many were left out")
        lines = server.log().count("path=/v1/nothing")
        allowed = 20 * (time.monotonic() - began + 2)
        check(lines <= allowed, f"{lines} lines of 2001 requests, at most {allowed:.0f} may be")
        for i in range(40):
            server.request("GET", f"/v1/sessions?limit={i + 1}")
        wait_for(lambda: server.log().count("path=/v1/sessions ") == 40, 15, "lines of requests with a key")


def test_wide_and_deep_json_is_refused_before_it_is_parsed(server):
    session = server.create()["id"]
    for body in (
        {f"m{i}": 1 for i in range(70000)},
        {"metadata": {f"m{i}": "x" for i in range(60000)}},
        {"env": [[] for _ in range(200000)]},
    ):
        server.refused(400, "invalid", "POST", "/v1/sessions", body, "values")
    deep = b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
    server.refused(400, "invalid", "POST", "/v1/sessions", deep, "deep", headers={"Content-Type": "application/json"})
    wide = {"version": 1, "rules": [{"host": f"h{i}.example.com", "ports": [1, 2, 3]} for i in range(1000)]}
    server.refused(400, "invalid", "PUT", f"/v1/sessions/{session}/network", wide, "values")
    server.want(200, "POST", f"/v1/sessions/{session}/executions?wait=true", {"argv": ["/bin/true", *["x"] * 4000]})
    server.delete(session)


def test_long_bodies_take_turns(server):
    """Parsing one takes some milliseconds; clients that send many at a time do not hold others up by their sum."""
    body = json.dumps({"metadata": {f"m{i}": "x" * 60 for i in range(11000)}}).encode()
    ask = f"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\nContent-Length: {len(body)}\r\n\r\n"
    stop = threading.Event()

    def flood():
        with socket.create_connection(server.address) as s:
            s.settimeout(30)
            while not stop.is_set():
                s.sendall(ask.encode() + body)
                check(s.recv(1 << 16).startswith(b"HTTP/1.1 400"), "an answer")

    floods = [threading.Thread(target=flood, daemon=True) for _ in range(8)]
    for f in floods:
        f.start()
    waits = []
    for _ in range(40):
        began = time.monotonic()
        equal(server.request("GET", "/healthz", key=None)[0], 200)
        waits.append(time.monotonic() - began)
    stop.set()
    for f in floods:
        f.join(30)
    note(f"others wait {sorted(waits)[20] * 1000:.0f} ms, at most {max(waits) * 1000:.0f}")
    check(sorted(waits)[20] < 1, f"others wait {sorted(waits)[20]} s")


def almost(server, line, headers, body):
    """A request of which only the last byte is missing."""
    s = socket.create_connection(server.address)
    s.settimeout(60)
    head = "".join(f"{n}: {v}\r\n" for n, v in headers.items())
    s.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body[:-1])
    return s, body[-1:]


def end_at_once(server, requests):
    """The daemon finds the last bytes of all of them in one turn. The statuses, in the order of the requests."""
    wait_read(*(s for s, _ in requests))
    pid = server.pid("cordond")
    os.kill(pid, signal.SIGSTOP)
    for s, last in requests:
        s.sendall(last)
    os.kill(pid, signal.SIGCONT)
    statuses = [int(s.recv(1 << 16).split()[1]) for s, _ in requests]
    for s, _ in requests:
        s.close()
    return statuses


def turns_of(server):
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    return int(re.search(r"^cordon_loop_turn_seconds_count (\d+)", text, re.M)[1])


def test_long_bodies_of_tenants_take_turns(server):
    """One tenant's bodies wait for each other; another tenant's is next but one, however many there are."""
    _, greedy = server.tenant("greedy-bodies")
    _, modest = server.tenant("modest-bodies")
    mine = server.create(key=modest)["id"]
    wide = b'{"a":[' + b",".join([b'{"b":1}'] * 5900) + b"]}"
    long = json.dumps({"argv": ["/bin/true", "x" * 20000]}).encode()
    path = f"/v1/sessions/{mine}/executions"
    requests = [almost(server, "POST /v1/sessions", {"X-API-Key": greedy}, wide) for _ in range(40)]
    requests.append(almost(server, f"POST {path}", {"X-API-Key": modest}, long))
    old = len(server.log().splitlines())
    statuses = end_at_once(server, requests)
    equal((set(statuses[:-1]), statuses[-1] // 100), ({400}, 2))

    def handled():
        return [f"path={path} " in line for line in server.log().splitlines()[old:] if "path=/v1/sessions" in line]

    wait_for(lambda: len(handled()) >= 41, 15, "the log")
    order = handled()
    note(f"number {order.index(True) + 1} of {len(order)}")
    check(order.index(True) < 20, f"number {order.index(True) + 1} of {len(order)}")
    server.delete(mine, key=modest)


def test_long_messages_of_envd_take_turns(server):
    """Also those that need no token: each that is long has a turn of the loop for itself."""
    wide = b'{"a":[' + b",".join([b'{"b":1}'] * 5900) + b"]}"
    box = server.want(201, "POST", "/sandboxes", {"templateID": "base", "timeout": 300, "secure": False})["sandboxID"]
    headers = {"E2b-Sandbox-Id": box, "E2b-Sandbox-Port": "49983", "Content-Type": "application/json"}
    requests = [almost(server, "POST /filesystem.Filesystem/Stat", headers, wide) for _ in range(40)]
    before = turns_of(server)
    statuses = set(end_at_once(server, requests))
    check(statuses == {200}, f"{statuses}")
    note(f"{turns_of(server) - before} turns")
    check(turns_of(server) - before >= 40, f"40 messages were parsed in {turns_of(server) - before} turns")
    many = b'{"a":[' + b",".join([b'{"b":1}'] * 7000) + b"]}"
    status, _, got = server.request("POST", "/filesystem.Filesystem/Stat", many, headers=headers, key=None)
    check(status == 400 and "12000 values" in got["message"], f"{status} {got}")
    large = b'{"process":{"cmd":"/bin/true","args":["' + b"x" * (1 << 20) + b'"]}}'
    headers["Content-Type"] = "application/connect+json"
    got = server.request("POST", "/process.Process/Start", b"\0" + len(large).to_bytes(4, "big") + large,
                         headers=headers, key=None, raw=True)[2]
    check(b"resource_exhausted" in got, f"{got[:200]}")
    server.want(204, "DELETE", f"/sandboxes/{box}")


def sign(box, path):
    text = f"{path}:read::{box['envdAccessToken']}"
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_one_address_does_not_switch_signed_urls_off():
    """Signatures that do not name their sandbox are tried; those of one address have a budget of their own."""
    with Server(pool_size=8) as server:
        boxes = [server.want(201, "POST", "/v2/sandboxes", {"templateID": "base"}) for _ in range(12)]
        server.ids |= {b["sandboxID"] for b in boxes}
        good = f"/files?path=/etc/hostname&signature={quote(sign(boxes[5], '/etc/hostname'), safe='')}"
        equal(server.request("GET", good, key=None)[0], 200, "a good one")
        stop = threading.Event()
        seen = []

        def attack():
            with socket.create_connection(server.address, source_address=("127.0.0.2", 0)) as s:
                s.settimeout(5)
                while not stop.is_set():
                    s.sendall(b"GET /files?path=x&signature=v1_x HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                    got = b""
                    while got.count(b"HTTP/1.1 ") < 50:
                        got += s.recv(1 << 16)
                    seen.append(got.count(b"HTTP/1.1 429"))

        attackers = [threading.Thread(target=attack, daemon=True) for _ in range(2)]
        for a in attackers:
            a.start()
        wait_for(lambda: sum(seen) > 100, 20, "the attacker's refusals")
        answers = [server.request("GET", good, key=None)[0] for _ in range(40)]
        stop.set()
        for a in attackers:
            a.join(10)
        equal(set(answers), {200}, "signed URLs of another address")


def test_open_streams_of_a_tenant():
    """Every kind of stream counts for its tenant; beyond the bound each kind is refused in its own way, pages and other
    tenants are not, and a stream that ends leaves room for the next."""
    with Server(pool_size=2, tenant_max_streams=6) as server:
        box = Box(server)
        session = box.id
        x = server.spawn(session, "sleep 60")
        own = f"/v1/sessions/{session}"
        streams = [Events(server, f"{own}/executions/{x['id']}/events"), Attached(server, f"{own}/executions/{x['id']}/attach"),
                   Events(server, "/v1/events?follow=true"), Events(server, f"{own}/network/log?follow=true"),
                   Events(server, f"{own}/files/watch?path=/tmp"), box.start("sleep 60")]
        pid = streams[-1].pid()
        for path in (f"{own}/executions/{x['id']}/events", f"{own}/executions/{x['id']}/attach", "/v1/events?follow=true",
                     f"{own}/network/log?follow=true", f"{own}/timeline?follow=true", f"{own}/files/watch?path=/tmp"):
            socket_headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                              "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} if path.endswith("attach") else {}
            status, headers, body = server.request("GET", path, headers=socket_headers)
            equal((status, body["error"]["code"], headers.get("retry-after")), (429, "quota_streams", "1"), path)
        equal(Stream(box, "Connect", {"process": {"pid": pid}}).error()[0], "resource_exhausted", "Connect")
        equal(Stream(box, "Start", {"process": {"cmd": "true"}}).error()[0], "resource_exhausted", "Start")
        watcher = json.dumps({"path": "/tmp"}).encode()
        polled = lambda: server.request("POST", "/filesystem.Filesystem/CreateWatcher", watcher, key=None,
                                        headers=box.headers("application/json"))[0]
        equal(polled(), 429, "a polled watcher")
        server.want(200, "GET", "/v1/events")
        other = server.want(201, "POST", "/v1/tenants", {"name": "other"})
        key = server.want(201, "POST", f"/v1/tenants/{other['id']}/keys", {"scopes": ["read", "sessions"]})["key"]
        Events(server, "/v1/events?follow=true", key=key).close()
        streams.pop(2).close()
        wait_for(lambda: polled() == 200, 15, "room for another")
        equal(polled(), 429, "the polled watcher counts, too")
        streams.pop().close()
        wait_for(lambda: polled() == 200, 15, "room after a stream of E2B's")
        for stream in streams:
            stream.close()


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
