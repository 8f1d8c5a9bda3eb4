#!/usr/bin/python3
"""Which request goes where: routing by header, host name, token and signature; the edge's errors; what cannot be
reached through it. Contract 2.4, 2.5, 9."""
import json
import os
import time
from urllib.parse import quote

from contract import NO_TOKEN, START, UNKNOWN, Raw, Sandbox, check, envelope, equal, has, not_found, run_tests, signature, wait_for

INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "inside.py")


def plain(server, method, path, headers, body=None):
    return server.request(method, path, body, headers, key=None)


def serve(box, port, headers=None):
    """inside.py of tests/sdk, in the sandbox."""
    with open(INSIDE, "rb") as f:
        box.write("/tmp/inside.py", f.read())
    s, _ = box.start(f"/usr/bin/python3 /tmp/inside.py {port}")
    s.close()
    ask = lambda: plain(box.server, "GET", "/up", {**box.headers(port, token=None), **(headers or {})})[0] == 200  # noqa: E731
    wait_for(ask, 10, "the server inside")


def test_by_header_and_by_host(server):
    box = Sandbox(server)
    equal(plain(server, "GET", "/health", box.headers(token=None))[0], 204)
    for host in (f"49983-{box.id}.localhost", f"49983-{box.id}.localhost:4983", f"49983-{box.id}.e2b.example.org", f"49983-{box.id}-client.x"):
        status, _, body = plain(server, "GET", "/health", {"Host": host})
        equal((status, body), (204, b""), host)
    equal(plain(server, "GET", "/health", {"Host": f"x.49983-{box.id}.localhost"})[0], 200, "only the left-most label counts")
    other = Sandbox(server)
    box.write("who", b"header")
    other.write("who", b"host")
    status, _, body = plain(server, "GET", "/files?path=who", {**box.headers(), "Host": other.host(49983)})
    equal((status, body), (200, b"header"), "headers win")


def test_bad_routing_is_400_text(server):
    box = Sandbox(server)
    good = box.headers(token=None)
    bad = [
        {"E2b-Sandbox-Id": box.id}, {"E2b-Sandbox-Port": "49983"}, {**good, "E2b-Sandbox-Id": "NOT!"}, {**good, "E2b-Sandbox-Id": ""},
        {**good, "E2b-Sandbox-Port": "x"}, {**good, "E2b-Sandbox-Port": "0"}, {**good, "E2b-Sandbox-Port": "65536"},
        {**good, "E2b-Sandbox-Port": "-1"}, {**good, "E2b-Sandbox-Port": "49983 "[:5] + "x"}, {"Host": f"99999-{box.id}.localhost"},
        {"Host": f"0-{box.id}.localhost"}, {"Host": f"99999999999999999999-{box.id}.localhost"},
    ]  # fmt: skip
    for headers in bad:
        status, got, body = plain(server, "GET", "/health", headers)
        equal(status, 400, f"{headers}: {body}")
        check(got["content-type"].startswith("text/plain"), f"{headers}: {got['content-type']}")


def test_unknown_killed_and_paused_are_502(server):
    equal(plain(server, "GET", "/health", {"E2b-Sandbox-Id": UNKNOWN, "E2b-Sandbox-Port": "49983"})[::2], (502, not_found(UNKNOWN)))
    equal(plain(server, "GET", "/", {"Host": f"3000-{UNKNOWN}.localhost"})[::2], (502, not_found(UNKNOWN)))
    box, paused = Sandbox(server), Sandbox(server)
    box.kill()
    server.want(204, "POST", f"/sandboxes/{paused.id}/pause")
    for dead in (box, paused):
        for port, method, path in ((49983, "GET", "/health"), (49983, "GET", "/files?path=x"), (49983, "POST", "/process.Process/List"), (3000, "GET", "/")):
            status, headers, body = plain(server, method, path, {**dead.headers(port), "Content-Type": "application/json"}, b"{}" if method == "POST" else None)
            equal((status, body), (502, not_found(dead.id)), f"{method} {path}")
            check(headers["content-type"].startswith("application/json"), headers["content-type"])
    sent = {**box.headers(), "Content-Type": "application/connect+json"}
    equal(plain(server, "POST", "/process.Process/Start", sent, envelope(START("true")))[0], 502, "a stream, too")


def test_closed_port(server):
    box = Sandbox(server)
    want = {"sandboxId": box.id, "message": "The sandbox is running but port is not open", "port": 4444, "code": 502}
    equal(plain(server, "GET", "/", {"Host": box.host(4444)})[::2], (502, want))
    equal(plain(server, "POST", "/x", box.headers(4444, token=None), b"body")[::2], (502, want))
    browser = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "Accept": "text/html", "Host": box.host(4444)}
    status, headers, body = plain(server, "GET", "/", browser)
    equal(status, 502)
    check(headers["content-type"].startswith("text/html") and b"<!doctype html" in body.lower(), f"{headers['content-type']} {body[:200]}")
    check(b"<script>" not in plain(server, "GET", "/<script>", browser)[2], "what was asked for is not in the page")


def test_traffic_token(server):
    box = Sandbox(server, network={"allowPublicTraffic": False})
    token = box.made["trafficAccessToken"]
    check(token and token != box.token, "a token of its own")
    serve(box, 3000, {"e2b-traffic-access-token": token})
    want = {"sandboxId": box.id, "message": "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing", "code": 403}
    equal(plain(server, "GET", "/", {"Host": box.host(3000)})[::2], (403, want))
    equal(plain(server, "GET", "/", {"Host": box.host(3000), "e2b-traffic-access-token": token[:-1]})[0], 403)
    equal(plain(server, "GET", "/", {"Host": box.host(3000), "E2B-Traffic-Access-Token": token})[0], 200)
    equal(plain(server, "GET", "/", {"Host": box.host(4444)})[0], 403, "closed ports are not told apart")
    equal(plain(server, "GET", "/health", box.headers(token=None))[0], 204, "envd has its own token")
    equal(server.want(200, "POST", f"/v2/sandboxes/{box.id}/connect", {})["trafficAccessToken"], token)


def test_hidden_paths_of_envd(server):
    box = Sandbox(server)
    for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"):
        for method in ("POST", "GET"):
            for headers in (box.headers(), {"Host": box.host(49983), "X-Access-Token": box.token}):
                status, _, body = plain(server, method, path, headers, b"{}" if method == "POST" else None)
                equal((status, body.get("code"), body.get("path")), (404, 404, path), f"{method} {path}: {body}")
                equal(set(body), {"message", "path", "code"}, path)
    serve(box, 3000)
    status, _, body = plain(server, "POST", "/init", box.headers(3000, token=None), b"{}")
    equal((status, body["path"]), (200, "/init"), "a server of the user may have such a path")


NATIVE = ["/v1/sessions", "/v1/node", "/v1/tenants", "/v1/keys", "/healthz", "/readyz", "/sandboxes", "/v2/sandboxes", "/templates", "/v2/templates",
          "/snapshots", "/volumes", "/secrets", "/teams", "/api-keys"]  # fmt: skip


def test_no_control_path_through_a_sandbox(server):
    """With every key there is: neither envd's address nor a port of the sandbox leads to the control plane."""
    box = Sandbox(server)
    serve(box, 3000)
    for path in NATIVE + ["/v2/../v2/sandboxes", "//v2/sandboxes", "/%76%32/sandboxes", "/sandboxes/" + box.id]:
        for headers in (box.headers(), {"Host": box.host(49983), "X-Access-Token": box.token}):
            status, _, body = plain(server, "GET", path, {**headers, "X-API-Key": server.key})
            check(status in (400, 404), f"envd {path}: {status} {body}")
            check(box.id not in str(body) or "sandboxId" not in str(body), f"envd {path}: {body}")
        for headers in (box.headers(3000), {"Host": box.host(3000)}):
            status, _, body = plain(server, "GET", path, {**headers, "X-API-Key": server.key})
            if status != 400:
                equal((status, body.get("method")), (200, "GET"), f"port 3000 {path}")
                equal(body["path"], path.replace("//", "/"), "it went inside as it is")  # python drops one of two slashes
    status, _, body = plain(server, "DELETE", f"/sandboxes/{box.id}", {**box.headers(), "X-API-Key": server.key})
    check(status in (404, 405), f"DELETE through envd: {status} {body}")
    status, _, body = plain(server, "POST", "/v2/sandboxes", {"Host": box.host(49983), "X-Access-Token": box.token, "X-API-Key": server.key, "Content-Type": "application/json"}, b'{"templateID":"base"}')
    check(status in (404, 405), f"create through envd: {status} {body}")
    equal(box.state(), "running")
    status, headers, body = plain(server, "GET", "/metrics", box.headers())
    equal(status, 200)
    check("mem_total" in body, "metrics of the sandbox, not of the server")


def test_no_envd_path_without_a_sandbox(server):
    box = Sandbox(server)
    for method, path in (("POST", "/process.Process/List"), ("POST", "/filesystem.Filesystem/Stat"), ("GET", "/envs"), ("GET", "/files?path=x"), ("POST", "/files?path=x")):
        status, _, body = plain(server, method, path, {"Content-Type": "application/json", "X-API-Key": server.key}, b"{}" if method == "POST" else None)
        check(status in (400, 401, 404), f"{method} {path}: {status} {body}")
    equal(box.state(), "running")


def test_by_token_alone(server):
    """SDKs of before 2026 and Novita's do not name the sandbox: its token does."""
    boxes = [Sandbox(server) for _ in range(3)]
    for i, box in enumerate(boxes):
        box.write("who", str(i).encode())
    for i, box in enumerate(boxes):
        equal(plain(server, "GET", "/files?path=who", {"X-Access-Token": box.token})[::2], (200, str(i).encode()))
        status, _, body = plain(server, "POST", "/filesystem.Filesystem/Stat", {"X-Access-Token": box.token, "Content-Type": "application/json"}, b'{"path":"who"}')
        equal((status, body["entry"]["size"]), (200, "1"))
    wrong = boxes[0].token[:-1] + ("0" if boxes[0].token[-1] != "0" else "1")
    check(plain(server, "GET", "/files?path=who", {"X-Access-Token": wrong})[0] in (401, 502), "a wrong token")
    boxes[1].kill()
    check(plain(server, "GET", "/files?path=who", {"X-Access-Token": boxes[1].token})[0] in (401, 502), "of a dead sandbox")


def test_by_signature_alone(server):
    boxes = [Sandbox(server) for _ in range(3)]
    for i, box in enumerate(boxes):
        box.write("who", str(i).encode())
    for i, box in enumerate(boxes):
        url = "/files?path=who&signature=" + quote(signature("who", "read", "", box.token), safe="")
        equal(plain(server, "GET", url, {})[::2], (200, str(i).encode()))
    status, _, body = plain(server, "GET", "/files?path=who&signature=v1_AAAA", {})
    check(status in (401, 502) and body["code"] == status, f"{status} {body}")


def test_novita(server):
    """Its SDK has host names only, other telemetry, and a bearer token beside the key."""
    headers = {"User-Agent": "novita-sandbox-sdk-js/2.1.1", "X-Novita-SDK-Name": "sdk_js", "X-Novita-SDK-Version": "2.1.1", "publisher": "Novita"}
    made = server.want(201, "POST", "/sandboxes", {"templateID": "base", "timeout": 60, "secure": True, "nodeID": "n1", "secrets": {}}, headers={**headers, "X-API-KEY": server.key})
    host = {"Host": f"49983-{made['sandboxID']}.sandbox.example.org", "X-Access-Token": made["envdAccessToken"], **headers}
    equal(plain(server, "GET", "/health", host)[0], 204)
    status, _, body = plain(server, "POST", "/files?path=f", {**host, "Content-Type": "application/octet-stream"}, b"x")
    equal(status, 200, str(body))
    status, _, body = plain(server, "POST", "/filesystem.Filesystem/ListDir", {**host, "Content-Type": "application/json"}, b'{"path":".","depth":1}')
    check("f" in [e["name"] for e in body["entries"]], str(body))
    code = plain(server, "GET", "/health", {"Host": f"49999-{made['sandboxID']}.sandbox.example.org"})
    equal((code[0], code[2]["port"]), (502, 49999))
    server.want(204, "DELETE", f"/sandboxes/{made['sandboxID']}")


def test_mask_and_forwarded_headers(server):
    box = Sandbox(server, network={"maskRequestHost": "app.example.org:${PORT}"})
    serve(box, 3000)
    _, _, seen = plain(server, "GET", "/", {"Host": box.host(3000), "X-Forwarded-For": "6.6.6.6", "Connection": "X-Drop", "X-Drop": "secret", "TE": "trailers"})
    equal(seen["headers"]["host"], "app.example.org:3000")
    equal(seen["headers"].get("x-forwarded-for"), "127.0.0.1", "not the client's own words")
    check("x-drop" not in seen["headers"] and "te" not in seen["headers"], f"hop-by-hop headers: {seen['headers']}")


def test_websocket_handshake(server):
    box = Sandbox(server)
    serve(box, 3000)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
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
    ask = {**box.headers(token=None), "Origin": "https://app.example.org", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-access-token,connect-protocol-version"}
    for path in ("/process.Process/Start", "/files?path=x", "/filesystem.Filesystem/Stat"):
        status, headers, _ = plain(server, "OPTIONS", path, ask)
        check(status in (200, 204), f"{path}: {status}")
        equal(headers.get("access-control-allow-origin"), "*", path)
        methods = {m.strip() for m in headers["access-control-allow-methods"].split(",")}
        check({"POST"} <= methods, f"methods {methods}")
        allowed = headers["access-control-allow-headers"].lower()
        check("*" in allowed or all(h in allowed for h in ("content-type", "x-access-token", "connect-protocol-version")), allowed)
        equal(headers.get("access-control-max-age"), "7200", path)
    status, headers, _ = plain(server, "POST", "/process.Process/List", {**box.headers(), "Origin": "https://a.example.org", "Content-Type": "application/json"}, b"{}")
    equal((status, headers.get("access-control-allow-origin")), (200, "*"))
    exposed = headers["access-control-expose-headers"].lower()
    for name in ("location", "cache-control", "x-content-type-options"):
        has(exposed, name, "exposed headers")
    status, headers, _ = plain(server, "GET", "/files?path=none", {**box.headers(), "Origin": "https://a.example.org"})
    equal((status, headers.get("access-control-allow-origin")), (404, "*"), "errors, too")


def test_envd_needs_its_token(server):
    box, other = Sandbox(server), Sandbox(server)
    for method, path in (("POST", "/process.Process/List"), ("POST", "/filesystem.Filesystem/Stat"), ("GET", "/metrics"), ("GET", "/envs"), ("POST", "/files/compose"), ("GET", "/nothing")):
        for token in (None, other.token, box.token[:-1], box.token + "x", server.key):
            status, headers, body = box.envd(method, path, b"{}" if method == "POST" else None, {"Content-Type": "application/json"}, token=token)
            equal((status, body), (401, NO_TOKEN), f"{method} {path} with {token}")
            check(headers["content-type"].startswith("application/json"), headers["content-type"])
    with box.stream("process.Process/Start", START("true"), {"X-Access-Token": other.token}) as s:
        equal((s.status, json.loads(s.body())), (401, NO_TOKEN))
    equal(box.envd("GET", "/health", token="wrong")[0], 204, "health asks for none")


def test_auto_resume_by_host(server):
    box = Sandbox(server, autoPause=True, autoResume={"enabled": True}, timeout=60)
    serve(box, 3000)
    server.want(204, "POST", f"/sandboxes/{box.id}/pause")
    equal(box.state(), "paused")
    began = time.monotonic()
    equal(plain(server, "GET", "/", {"Host": box.host(3000)})[0], 200)
    check(time.monotonic() - began < 5, "slowly")
    equal(box.state(), "running")


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
