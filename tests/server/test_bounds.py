#!/usr/bin/python3
"""What clients with and without a key can hold of a server, by black box: test_bounds.py CORDON.

Each of these is something that anyone who reaches the port, or one tenant, can open in numbers; the others must not
feel it."""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, rss, run_tests, wait_for


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
        time.sleep(1.5)
        for _ in range(5):
            wait_for(lambda: server.request("GET", "/healthz", key=None)[0] == 200, 5, "an answer without a key")
            wait_for(lambda: server.request("GET", "/v1/node")[0] == 200, 5, "an answer with a key")
        for s in held:
            s.close()


def unfinished(server, key, path="/v1/sessions", size=1 << 20):
    s = socket.create_connection(server.address)
    s.settimeout(20)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: {size}\r\n\r\n"
    s.sendall(head.encode())
    return s


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
        grown = rss(server.pid("cordond")) - before
        check(grown < 40 << 20, f"60 bodies of 1 MB take {grown >> 20} MB")
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


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
