#!/usr/bin/python3
"""What the edge of the server does: its errors, its tokens, what it changes on the way."""
import json
import select
import socket
import time

from contract import (
    NO_TOKEN,
    START,
    UNKNOWN,
    Raw,
    Sandbox,
    check,
    envelope,
    equal,
    has,
    not_found,
    plain,
    run_tests,
    serve,
    short,
    wait_for,
)


def test_unknown_killed_and_paused_are_502(server):
    equal(
        plain(server, "GET", "/health", {"E2b-Sandbox-Id": UNKNOWN, "E2b-Sandbox-Port": "49983"})[::2],
        (502, not_found(UNKNOWN)),
    )
    equal(plain(server, "GET", "/", {"Host": f"3000-{UNKNOWN}.localhost"})[::2], (502, not_found(UNKNOWN)))
    box, paused = Sandbox(server), Sandbox(server)
    box.kill()
    server.want(204, "POST", f"/sandboxes/{paused.id}/pause")
    for dead in (box, paused):
        for port, method, path in (
            (49983, "GET", "/health"),
            (49983, "GET", "/files?path=x"),
            (49983, "POST", "/process.Process/List"),
            (3000, "GET", "/"),
        ):
            status, headers, body = plain(
                server,
                method,
                path,
                {**dead.headers(port), "Content-Type": "application/json"},
                b"{}" if method == "POST" else None,
            )
            equal((status, body), (502, not_found(dead.id)), f"{method} {path}")
            check(headers["content-type"].startswith("application/json"), headers["content-type"])
    sent = {**box.headers(), "Content-Type": "application/connect+json"}
    equal(plain(server, "POST", "/process.Process/Start", sent, envelope(START("true")))[0], 502, "a stream, too")


def test_closed_port(server):
    box = Sandbox(server)
    want = {"sandboxId": box.id, "message": "The sandbox is running but port is not open", "port": 4444, "code": 502}
    equal(plain(server, "GET", "/", {"Host": box.host(4444)})[::2], (502, want))
    equal(plain(server, "POST", "/x", box.headers(4444, token=None), b"body")[::2], (502, want))
    browser = {
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        "Accept": "text/html",
        "Host": box.host(4444),
    }
    status, headers, body = plain(server, "GET", "/", browser)
    equal(status, 502)
    check(
        headers["content-type"].startswith("text/html") and b"<!doctype html" in body.lower(),
        f"{headers['content-type']} {body[:200]}",
    )
    check(b"<script>" not in plain(server, "GET", "/<script>", browser)[2], "what was asked for is not in the page")


def test_traffic_token(server):
    box = Sandbox(server, network={"allowPublicTraffic": False})
    token = box.made["trafficAccessToken"]
    check(token and token != box.token, "a token of its own")
    serve(box, 3000, {"e2b-traffic-access-token": token})
    want = {
        "sandboxId": box.id,
        "message": "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
        "code": 403,
    }
    equal(plain(server, "GET", "/", {"Host": box.host(3000)})[::2], (403, want))
    equal(plain(server, "GET", "/", {"Host": box.host(3000), "e2b-traffic-access-token": token[:-1]})[0], 403)
    equal(plain(server, "GET", "/", {"Host": box.host(3000), "E2B-Traffic-Access-Token": token})[0], 200)
    equal(plain(server, "GET", "/", {"Host": box.host(4444)})[0], 403, "closed ports are not told apart")
    equal(plain(server, "GET", "/health", box.headers(token=None))[0], 204, "envd has its own token")
    equal(server.want(200, "POST", f"/v2/sandboxes/{box.id}/connect", {})["trafficAccessToken"], token)


ACCEPTS = """import socket
s = socket.create_server(("127.0.0.1", 7000), backlog=2000)
print("up", flush=True)
kept = [s.accept() for _ in range(2000)]
"""


def test_too_many_connections(server):
    """512 of one sandbox at a time; more are 429, and when others end there is room again."""
    box = Sandbox(server)
    box.write("accepts.py", ACCEPTS.encode())
    s, _ = box.start("/usr/bin/python3 accepts.py")
    equal(list(s.take()["event"]), ["data"], "the server inside is up")
    links = [socket.create_connection(server.address, 8) for _ in range(540)]
    try:
        for link in links:
            link.sendall(f"GET / HTTP/1.1\r\nHost: {box.host(7000)}\r\n\r\n".encode())
        answered = lambda: select.select(links, [], [], 0.1)[0]  # noqa: E731
        wait_for(lambda: len(answered()) >= 28, 10, "an answer to each that is too many")
        time.sleep(0.2)  # no further answer may come
        equal(len(answered()), 28, "the others wait for the server inside")
        for link in answered():
            answer = link.recv(65536)
            equal(answer.split()[1], b"429", short(answer))
            body = json.loads(answer.split(b"\r\n\r\n", 1)[1])
            equal(
                (body["sandboxId"], body["code"], set(body) - {"port"}), (box.id, 429, {"sandboxId", "message", "code"})
            )
        equal(box.envd("GET", "/health")[0], 204, "envd is not concerned")
        other = Sandbox(server)
        equal(plain(server, "GET", "/", {"Host": other.host(7000)})[0], 502, "nor is another sandbox")
    finally:
        for link in links:
            link.close()
        s.close()
    serve(box, 3000)  # returns when it has answered


def test_mask_and_forwarded_headers(server):
    box = Sandbox(server, network={"maskRequestHost": "app.example.org:${PORT}"})
    serve(box, 3000)
    _, _, seen = plain(
        server,
        "GET",
        "/",
        {
            "Host": box.host(3000),
            "X-Forwarded-For": "6.6.6.6",
            "Connection": "X-Drop",
            "X-Drop": "secret",
            "TE": "trailers",
        },
    )
    equal(seen["headers"]["host"], "app.example.org:3000")
    equal(seen["headers"].get("x-forwarded-for"), "127.0.0.1", "not the client's own words")
    check("x-drop" not in seen["headers"] and "te" not in seen["headers"], f"hop-by-hop headers: {seen['headers']}")


def test_websocket_handshake(server):
    box = Sandbox(server)
    serve(box, 3000)
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with Raw(server, "GET", "/ws", {**headers, "Host": box.host(3000)}) as ws:
        equal(ws.status, 101)
        equal(ws.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        equal(ws.headers["upgrade"].lower(), "websocket")
        equal(ws.exactly(9), b"\x81\x07welcome")
        ws.socket.sendall(b"\x81\x82\0\0\0\0hi")
        equal(ws.exactly(4), b"\x81\x02hi")
    with Raw(server, "GET", "/ws", {**headers, "Host": box.host(4444)}) as ws:
        equal(ws.status, 502)


def test_cors(server):
    box = Sandbox(server)
    ask = {
        **box.headers(token=None),
        "Origin": "https://app.example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-access-token,connect-protocol-version",
    }
    for path in ("/process.Process/Start", "/files?path=x", "/filesystem.Filesystem/Stat"):
        status, headers, _ = plain(server, "OPTIONS", path, ask)
        check(status in (200, 204), f"{path}: {status}")
        equal(headers.get("access-control-allow-origin"), "*", path)
        methods = {m.strip() for m in headers["access-control-allow-methods"].split(",")}
        check({"POST"} <= methods, f"methods {methods}")
        allowed = headers["access-control-allow-headers"].lower()
        check(
            "*" in allowed or all(h in allowed for h in ("content-type", "x-access-token", "connect-protocol-version")),
            allowed,
        )
        equal(headers.get("access-control-max-age"), "7200", path)
    status, headers, _ = plain(
        server,
        "POST",
        "/process.Process/List",
        {**box.headers(), "Origin": "https://a.example.org", "Content-Type": "application/json"},
        b"{}",
    )
    equal((status, headers.get("access-control-allow-origin")), (200, "*"))
    exposed = headers["access-control-expose-headers"].lower()
    for name in ("location", "cache-control", "x-content-type-options"):
        has(exposed, name, "exposed headers")
    status, headers, _ = plain(server, "GET", "/files?path=none", {**box.headers(), "Origin": "https://a.example.org"})
    equal((status, headers.get("access-control-allow-origin")), (404, "*"), "errors, too")


def test_envd_needs_its_token(server):
    box, other = Sandbox(server), Sandbox(server)
    for method, path in (
        ("POST", "/process.Process/List"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("GET", "/metrics"),
        ("GET", "/envs"),
        ("POST", "/files/compose"),
        ("GET", "/nothing"),
    ):
        for token in (None, other.token, box.token[:-1], box.token + "x", server.key):
            status, headers, body = box.envd(
                method, path, b"{}" if method == "POST" else None, {"Content-Type": "application/json"}, token=token
            )
            equal((status, body), (401, NO_TOKEN), f"{method} {path} with {token}")
            check(headers["content-type"].startswith("application/json"), headers["content-type"])
    with box.stream("process.Process/Start", START("true"), {"X-Access-Token": other.token}) as s:
        equal((s.status, json.loads(s.body())), (401, NO_TOKEN))
    equal(box.envd("GET", "/health", token="wrong")[0], 204, "health asks for none")


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
