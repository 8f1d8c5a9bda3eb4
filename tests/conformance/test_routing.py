#!/usr/bin/python3
"""Which request goes where: by header, host name, token and signature; and what cannot be reached that way."""
import time
from urllib.parse import quote

from contract import Sandbox, check, equal, plain, run_tests, serve, signature


def test_by_header_and_by_host(server):
    box = Sandbox(server)
    equal(plain(server, "GET", "/health", box.headers(token=None))[0], 204)
    for host in (
        f"49983-{box.id}.localhost",
        f"49983-{box.id}.localhost:4983",
        f"49983-{box.id}.e2b.example.org",
        f"49983-{box.id}-client.x",
    ):
        status, _, body = plain(server, "GET", "/health", {"Host": host})
        equal((status, body), (204, b""), host)
    equal(
        plain(server, "GET", "/health", {"Host": f"x.49983-{box.id}.localhost"})[0],
        200,
        "only the left-most label counts",
    )
    other = Sandbox(server)
    box.write("who", b"header")
    other.write("who", b"host")
    status, _, body = plain(server, "GET", "/files?path=who", {**box.headers(), "Host": other.host(49983)})
    equal((status, body), (200, b"header"), "headers win")


def test_bad_routing_is_400(server):
    """In the shape of the other errors of ports, for browsers as a page."""
    box = Sandbox(server)
    good = box.headers(token=None)
    bad = [
        {"E2b-Sandbox-Id": box.id},
        {"E2b-Sandbox-Port": "49983"},
        {**good, "E2b-Sandbox-Id": "NOT!"},
        {**good, "E2b-Sandbox-Id": ""},
        {**good, "E2b-Sandbox-Port": "x"},
        {**good, "E2b-Sandbox-Port": "0"},
        {**good, "E2b-Sandbox-Port": "65536"},
        {**good, "E2b-Sandbox-Port": "-1"},
        {**good, "E2b-Sandbox-Port": "49983 "[:5] + "x"},
        {"Host": f"99999-{box.id}.localhost"},
        {"Host": f"0-{box.id}.localhost"},
        {"Host": f"99999999999999999999-{box.id}.localhost"},
    ]
    for headers in bad:
        status, got, body = plain(server, "GET", "/health", headers)
        equal(status, 400, f"{headers}: {body}")
        equal((got["content-type"], body["code"], sorted(body)), ("application/json; charset=utf-8", 400, ["code", "message"]), f"{headers}")
        check("x-request-id" in got, f"{headers}: {got}")
        status, got, body = plain(server, "GET", "/health", {**headers, "User-Agent": "Mozilla/5.0"})
        equal((status, got["content-type"]), (400, "text/html; charset=utf-8"), f"{headers}")
        check(b"<h1>" in body and b"<code>" not in body, f"{headers}: {body}")


def test_by_token_alone(server):
    """SDKs of before 2026 and Novita's do not name the sandbox: its token does."""
    boxes = [Sandbox(server) for _ in range(3)]
    for i, box in enumerate(boxes):
        box.write("who", str(i).encode())
    for i, box in enumerate(boxes):
        equal(plain(server, "GET", "/files?path=who", {"X-Access-Token": box.token})[::2], (200, str(i).encode()))
        status, _, body = plain(
            server,
            "POST",
            "/filesystem.Filesystem/Stat",
            {"X-Access-Token": box.token, "Content-Type": "application/json"},
            b'{"path":"who"}',
        )
        equal((status, body["entry"]["size"]), (200, "1"))
    wrong = boxes[0].token[:-1] + ("0" if boxes[0].token[-1] != "0" else "1")
    check(plain(server, "GET", "/files?path=who", {"X-Access-Token": wrong})[0] in (401, 502), "a wrong token")
    boxes[1].kill()
    check(
        plain(server, "GET", "/files?path=who", {"X-Access-Token": boxes[1].token})[0] in (401, 502),
        "of a dead sandbox",
    )


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
    headers = {
        "User-Agent": "novita-sandbox-sdk-js/2.1.1",
        "X-Novita-SDK-Name": "sdk_js",
        "X-Novita-SDK-Version": "2.1.1",
        "publisher": "Novita",
    }
    made = server.want(
        201,
        "POST",
        "/sandboxes",
        {"templateID": "base", "timeout": 60, "secure": True, "nodeID": "n1", "secrets": {}},
        headers={**headers, "X-API-KEY": server.key},
    )
    host = {
        "Host": f"49983-{made['sandboxID']}.sandbox.example.org",
        "X-Access-Token": made["envdAccessToken"],
        **headers,
    }
    equal(plain(server, "GET", "/health", host)[0], 204)
    status, _, body = plain(server, "POST", "/files?path=f", {**host, "Content-Type": "application/octet-stream"}, b"x")
    equal(status, 200, str(body))
    status, _, body = plain(
        server,
        "POST",
        "/filesystem.Filesystem/ListDir",
        {**host, "Content-Type": "application/json"},
        b'{"path":".","depth":1}',
    )
    check("f" in [e["name"] for e in body["entries"]], str(body))
    code = plain(server, "GET", "/health", {"Host": f"49999-{made['sandboxID']}.sandbox.example.org"})
    equal((code[0], code[2]["port"]), (502, 49999))
    server.want(204, "DELETE", f"/sandboxes/{made['sandboxID']}")


NATIVE = [
    "/v1/sessions",
    "/v1/node",
    "/v1/tenants",
    "/v1/keys",
    "/healthz",
    "/readyz",
    "/sandboxes",
    "/v2/sandboxes",
    "/templates",
    "/v2/templates",
    "/snapshots",
    "/volumes",
    "/secrets",
    "/teams",
    "/api-keys",
]


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
                equal(
                    body["path"], path.replace("//", "/"), "it went inside as it is"
                )  # python drops one of two slashes
    status, _, body = plain(server, "DELETE", f"/sandboxes/{box.id}", {**box.headers(), "X-API-Key": server.key})
    check(status in (404, 405), f"DELETE through envd: {status} {body}")
    status, _, body = plain(
        server,
        "POST",
        "/v2/sandboxes",
        {
            "Host": box.host(49983),
            "X-Access-Token": box.token,
            "X-API-Key": server.key,
            "Content-Type": "application/json",
        },
        b'{"templateID":"base"}',
    )
    check(status in (404, 405), f"create through envd: {status} {body}")
    equal(box.state(), "running")
    status, headers, body = plain(server, "GET", "/metrics", box.headers())
    equal(status, 200)
    check("mem_total" in body, "metrics of the sandbox, not of the server")


def test_no_envd_path_without_a_sandbox(server):
    box = Sandbox(server)
    for method, path in (
        ("POST", "/process.Process/List"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("GET", "/envs"),
        ("GET", "/files?path=x"),
        ("POST", "/files?path=x"),
    ):
        status, _, body = plain(
            server,
            method,
            path,
            {"Content-Type": "application/json", "X-API-Key": server.key},
            b"{}" if method == "POST" else None,
        )
        check(status in (400, 401, 404), f"{method} {path}: {status} {body}")
    equal(box.state(), "running")


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
