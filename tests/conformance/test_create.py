#!/usr/bin/python3
"""POST /sandboxes and POST /v2/sandboxes: what is made, and everything that is refused."""
import socket
import struct
import time

from contract import Sandbox, Server, check, equal, near, refused, run_tests, seconds_left, wait_for

REQUIRED = {"templateID", "sandboxID", "clientID", "envdVersion"}


def test_create_v2(server):
    box = Sandbox(server)
    check(REQUIRED <= set(box.made), f"members {sorted(box.made)}")
    equal(box.made["templateID"], "base")
    check(all(isinstance(box.made[name], str) and box.made[name] for name in REQUIRED), "an empty member")
    check(box.token and len(box.token) >= 16, "v2 is always secure")
    check(box.made.get("trafficAccessToken") is None, "no traffic token unless asked for")
    equal(box.made["domain"], "localhost:%d" % server.address[1])
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 300, 3, "default time of v2")


def test_create_v1(server):
    box = Sandbox(server, "/sandboxes")
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 15, 3, "default time of v1")
    check(not box.token, "v1 without secure has no token")
    equal(box.envd("GET", "/files?path=/etc/hostname")[0], 200, "and needs none")
    box.kill()
    secure = Sandbox(server, "/sandboxes", secure=True, timeout=60, allow_internet_access=True)
    check(secure.token, "secure")
    equal(secure.envd("GET", "/files?path=/etc/hostname", token=None)[0], 401)
    refused(
        server,
        400,
        "POST",
        "/sandboxes",
        {"templateID": "base", "secure": False, "network": {"allowPublicTraffic": False}},
    )


def test_create_takes_what_sdks_send(server):
    """Unknown members, nulls, telemetry headers with underscores, chunks, pretty-printed text."""
    body = b'{\n  "templateID": "base",\n  "timeout": 60, "mcp": null, "from_the_future": {"a": [1]},\n  "envVars": {}\n}\n'
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "browser": "unknown",
        "lang": "js",
        "lang_version": "v20",
        "package_version": "2.51.0",
        "publisher": "e2b",
        "sdk_runtime": "node",
        "system": "Linux",
        "Sec-Fetch-Mode": "cors",
    }
    made = server.want(201, "POST", "/v2/sandboxes", iter_body(body), headers=headers)
    server.want(204, "DELETE", f"/sandboxes/{made['sandboxID']}")


class iter_body:
    """For http.client, which then sends chunks."""

    def __init__(self, data):
        self.parts = [data[:7], data[7:8], data[8:], b""]

    def read(self, _size=-1):
        return self.parts.pop(0) if self.parts else b""


def test_create_400(server):
    base = {"templateID": "base"}
    bad = [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"",
        {},
        {"templateID": 5},
        {"templateID": None},
        {**base, "timeout": "60"},
        {**base, "timeout": 1.5},
        {**base, "metadata": []},
        {**base, "metadata": {"a": 1}},
        {**base, "envVars": {"A": 1}},
        {**base, "envVars": "A=1"},
        {**base, "autoPause": "yes"},
        {**base, "autoResume": True},
        {**base, "autoResume": {"enabled": 1}},
        {**base, "autoPauseMemory": False},
        {**base, "autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}},
        {**base, "network": []},
        {**base, "network": {"allowOut": "1.1.1.1"}},
        {**base, "network": {"httpsPorts": ["x"]}},
        {**base, "allow_internet_access": "no"},
        {**base, "timeout": 2 * 86400},
        {**base, "envVars": {"A=B": "x"}},
        {**base, "envVars": {"A": "x\0y"}},
    ]
    for version in ("/v2/sandboxes", "/sandboxes"):
        for body in bad:
            refused(server, 400, "POST", version, body, headers={"Content-Type": "application/json"})
        for timeout in (0, -1):
            got = refused(server, 400, "POST", version, {**base, "timeout": timeout})
            equal(got["message"], "Timeout must be greater than 0")


def test_create_401_404_429(server):
    for version in ("/v2/sandboxes", "/sandboxes"):
        refused(server, 401, "POST", version, {"templateID": "base"}, key=None)
        refused(server, 401, "POST", version, {"templateID": "base"}, key="e2b_" + "0" * 40)
        refused(server, 404, "POST", version, {"templateID": "no-such-template"}, "no-such-template")
        refused(server, 404, "POST", version, {"templateID": "base:no-such-tag"})
    _, key = server.tenant("narrow", max_sessions=1)
    box = Sandbox(server, key=key)
    status, headers, data = server.request("POST", "/v2/sandboxes", {"templateID": "base"}, key=key)
    equal((status, data["code"]), (429, 429))
    check(headers.get("retry-after", "1").isdigit(), f"Retry-After {headers.get('retry-after')}")
    box.kill()


def test_create_on_a_full_node():
    with Server(pool_size=0, node_max_sessions=1) as server:
        box = Sandbox(server)
        status, _, data = server.request("POST", "/v2/sandboxes", {"templateID": "base"})
        check(status in (429, 503) and data["code"] == status, f"{status} {data}")
        box.kill()


def test_create_for_a_client_that_goes_away():
    """Nobody would know of such a sandbox: it is ended, not left to its timeout."""
    body = b'{"templateID":"base","timeout":300}'
    with Server(pool_size=0) as server:
        head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        for delay in (0, 0, 0.0005, 0.001, 0.002):
            with socket.create_connection(server.address, 5) as link:
                link.sendall(head.encode() + body)
                time.sleep(delay)  # the moment of the reset varies
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(lambda: server.want(200, "GET", "/v2/sandboxes") == [], 15, "the end of those that nobody has")
        equal(server.request("GET", "/health", key=None)[0], 200)


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
