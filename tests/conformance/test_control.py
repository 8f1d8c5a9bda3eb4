#!/usr/bin/python3
"""The rest of the control plane: each endpoint with each status that it may have."""
import http.client
import json
import time

from contract import (
    UNKNOWN,
    Sandbox,
    check,
    equal,
    near,
    no_sandbox,
    parse_time,
    refused,
    run_tests,
    seconds_left,
    wait_for,
)

REQUIRED = {"templateID", "sandboxID", "clientID", "envdVersion"}
LISTED = REQUIRED | {"startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state"}


def test_health_needs_no_key(server):
    equal(server.request("GET", "/health", key=None)[0], 200)


def test_keys_by_bearer_and_case(server):
    equal(server.request("GET", "/v2/sandboxes", headers={"x-api-key": server.key})[0], 200)
    equal(server.request("GET", "/v2/sandboxes", headers={"Authorization": f"Bearer {server.key}"})[0], 200)


def test_get(server):
    box = Sandbox(server, metadata={"a": "b"}, timeout=77)
    info = server.want(200, "GET", f"/sandboxes/{box.id}")
    check(LISTED <= set(info), f"missing: {LISTED - set(info)}")
    equal((info["sandboxID"], info["state"], info["metadata"]), (box.id, "running", {"a": "b"}))
    equal(info["clientID"], box.made["clientID"])
    near(parse_time(info["startedAt"]), time.time(), 5, "startedAt")
    near(parse_time(info["endAt"]) - parse_time(info["startedAt"]), 77, 1.5, "life")
    check(all(isinstance(info[n], int) and info[n] >= 1 for n in ("cpuCount", "memoryMB", "diskSizeMB")), str(info))
    equal(server.want(200, "GET", f"/sandboxes/{box.id}-{info['clientID']}")["sandboxID"], box.id, "a composite id")
    equal(server.want(404, "GET", f"/sandboxes/{UNKNOWN}"), no_sandbox(UNKNOWN))
    refused(server, 401, "GET", f"/sandboxes/{box.id}", key=None)
    for bad in ("UPPER", "with.dot", "a-b-c", "x%20y"):
        equal(refused(server, 400, "GET", f"/sandboxes/{bad}")["message"], "Invalid sandbox ID", bad)
    _, key = server.tenant("other")
    equal(server.want(404, "GET", f"/sandboxes/{box.id}", key=key), no_sandbox(box.id))


def test_delete(server):
    box = Sandbox(server)
    status, headers, data = server.request("DELETE", f"/sandboxes/{box.id}")
    equal((status, data), (204, b""))
    check("content-type" not in headers or not data, "a body in 204")
    equal(server.want(404, "DELETE", f"/sandboxes/{box.id}"), no_sandbox(box.id))
    equal(server.want(404, "GET", f"/sandboxes/{box.id}"), no_sandbox(box.id))
    paused = Sandbox(server)
    server.want(204, "POST", f"/sandboxes/{paused.id}/pause")
    paused.kill()
    refused(server, 400, "DELETE", "/sandboxes/NO", None)
    refused(server, 401, "DELETE", f"/sandboxes/{box.id}", None, key=None)


def test_connect(server):
    for path, needs in (("/v2/sandboxes/%s/connect", False), ("/sandboxes/%s/connect", True)):
        box = Sandbox(server, timeout=100)
        got = server.want(200, "POST", path % box.id, {"timeout": 10})
        equal({n: got[n] for n in REQUIRED}, {n: box.made[n] for n in REQUIRED})
        equal(got["envdAccessToken"], box.token)
        near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 100, 3, "not shortened")
        server.want(200, "POST", path % box.id, {"timeout": 200})
        near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 200, 3, "lengthened")
        server.want(204, "POST", f"/sandboxes/{box.id}/pause")
        resumed = server.want(201, "POST", path % box.id, {"timeout": 50, "memory": True})
        equal((resumed["sandboxID"], resumed["envdAccessToken"]), (box.id, box.token))
        equal(box.state(), "running")
        near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 50, 3, "from the resume on")
        for bad in ({"timeout": "x"}, {"timeout": -5}, {"timeout": 2 * 86400}):
            refused(server, 400, "POST", path % box.id, bad)
        if needs:
            refused(server, 400, "POST", path % box.id, {})
        else:
            server.want(200, "POST", path % box.id)
            server.want(200, "POST", path % box.id, {})
        refused(server, 401, "POST", path % box.id, {"timeout": 5}, key=None)
        refused(server, 400, "POST", path % "NO", {"timeout": 5})
        box.kill()
        equal(server.want(404, "POST", path % box.id, {"timeout": 5}), no_sandbox(box.id))


def test_resume(server):
    box = Sandbox(server)
    refused(server, 409, "POST", f"/sandboxes/{box.id}/resume", {})
    server.want(204, "POST", f"/sandboxes/{box.id}/pause")
    got = server.want(201, "POST", f"/sandboxes/{box.id}/resume", {"timeout": 40, "autoPause": False})
    equal((got["sandboxID"], got["envdAccessToken"]), (box.id, box.token))
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 40, 3, "time")
    server.want(204, "POST", f"/sandboxes/{box.id}/pause")
    server.want(201, "POST", f"/sandboxes/{box.id}/resume")
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 15, 3, "default time of a resume")
    equal(server.want(404, "POST", f"/sandboxes/{UNKNOWN}/resume", {}), no_sandbox(UNKNOWN))


def test_pause(server):
    box = Sandbox(server)
    equal(server.request("POST", f"/sandboxes/{box.id}/pause", {})[0], 204)
    equal(server.want(200, "GET", f"/sandboxes/{box.id}")["state"], "paused")
    got = refused(server, 409, "POST", f"/sandboxes/{box.id}/pause", {"memory": True})
    equal(got["message"], f"Error pausing sandbox - sandbox '{box.id}' is already paused")
    box.kill()
    equal(server.want(404, "POST", f"/sandboxes/{box.id}/pause"), no_sandbox(box.id))
    refused(server, 401, "POST", f"/sandboxes/{box.id}/pause", key=None)


def test_timeout(server):
    box = Sandbox(server, timeout=100)
    path = f"/sandboxes/{box.id}/timeout"
    server.want(204, "POST", path, {"timeout": 30})
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 30, 3, "shortened")
    server.want(204, "POST", path, {"timeout": 9 * 86400})
    info = server.want(200, "GET", f"/sandboxes/{box.id}")
    check(parse_time(info["endAt"]) - parse_time(info["startedAt"]) <= 86400 + 2, f"beyond the longest life: {info}")
    for bad in ({}, {"timeout": "5"}, {"timeout": None}, {"timeout": 1.5}, b"", b"[]"):
        refused(server, 400, "POST", path, bad, headers={"Content-Type": "application/json"})
    server.want(204, "POST", f"/sandboxes/{box.id}/pause")
    status, _, data = server.request("POST", path, {"timeout": 30})
    check(status in (404, 409) and data["code"] == status, f"paused: {status} {data}")
    equal(server.want(404, "POST", f"/sandboxes/{UNKNOWN}/timeout", {"timeout": 1}), no_sandbox(UNKNOWN))
    for timeout in (0, -3):
        now = Sandbox(server)
        server.want(204, "POST", f"/sandboxes/{now.id}/timeout", {"timeout": timeout})
        wait_for(lambda: server.request("GET", f"/sandboxes/{now.id}")[0] == 404, 15, "its end")


def test_refreshes(server):
    box = Sandbox(server, timeout=20)
    path = f"/sandboxes/{box.id}/refreshes"
    server.want(204, "POST", path, {"duration": 100})
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 100, 3, "lengthened")
    server.want(204, "POST", path, {"duration": 1})
    server.want(204, "POST", path, {})
    server.want(204, "POST", path)
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 100, 4, "not shortened")
    server.want(204, "POST", f"/sandboxes/{box.id}/timeout", {"timeout": 2})
    server.want(204, "POST", path, {"duration": 1})
    near(seconds_left(server.want(200, "GET", f"/sandboxes/{box.id}")), 15, 3, "at least 15 s")
    refused(server, 400, "POST", path, {"duration": "x"})
    equal(server.want(404, "POST", f"/sandboxes/{UNKNOWN}/refreshes", {}), no_sandbox(UNKNOWN))


def test_network(server):
    box = Sandbox(server, network={"allowOut": ["1.1.1.1"], "denyOut": ["0.0.0.0/0"]})
    path = f"/sandboxes/{box.id}/network"
    show = lambda: server.want(200, "GET", f"/sandboxes/{box.id}")["network"]  # noqa: E731
    equal((show()["allowOut"], show()["denyOut"]), (["1.1.1.1"], ["0.0.0.0/0"]))
    server.want(204, "PUT", path, {"denyOut": ["10.0.0.0/8", "::/0"]})
    equal((show().get("allowOut") or [], show()["denyOut"]), ([], ["10.0.0.0/8", "::/0"]))
    server.want(
        204, "PUT", path, {"egressProxy": {"address": "p.example.org:1080", "username": "u", "password": "secret"}}
    )
    equal(show()["egressProxy"], {"address": "p.example.org:1080", "username": "u"})
    check("secret" not in str(server.want(200, "GET", f"/sandboxes/{box.id}")), "the password is shown")
    server.want(
        204, "PUT", path, {"egressProxy": None, "rules": {"example.org": [{"transform": {"headers": {"A": "b"}}}]}}
    )
    equal(show()["rules"], {"example.org": [{"transform": {"headers": {"A": "b"}}}]})
    server.want(204, "PUT", path, {"allow_internet_access": False})
    equal(server.want(200, "GET", f"/sandboxes/{box.id}")["allowInternetAccess"], False)
    server.want(204, "PUT", path, {})
    for bad in (
        {"denyOut": ["example.org"]},
        {"allowOut": ["example.org"]},
        {"denyOut": "x"},
        {"denyOut": [1]},
        {"rules": []},
        b"[]",
        {"egressProxy": {}},
        {"allow_internet_access": 1},
        {"denyOut": ["1.2.3.4/33"]},
    ):
        refused(server, 400, "PUT", path, bad, headers={"Content-Type": "application/json"})
    equal(server.want(404, "PUT", f"/sandboxes/{UNKNOWN}/network", {}), no_sandbox(UNKNOWN))


METRIC = {
    "timestamp",
    "timestampUnix",
    "cpuCount",
    "cpuUsedPct",
    "memUsed",
    "memTotal",
    "memCache",
    "diskUsed",
    "diskTotal",
}


def test_metrics(server):
    box, other = Sandbox(server), Sandbox(server)
    path = f"/sandboxes/{box.id}/metrics"
    one = wait_for(lambda: server.want(200, "GET", path), 12, "a metric", 0.2)[-1]
    equal(set(one), METRIC)
    near(parse_time(one["timestamp"]), one["timestampUnix"], 1, "the two times")
    check(
        isinstance(one["timestampUnix"], int)
        and all(isinstance(one[n], int) for n in METRIC - {"timestamp", "cpuUsedPct"}),
        str(one),
    )
    now = int(time.time())
    check(server.want(200, "GET", f"{path}?start={now - 60}&end={now + 60}"), "none in the last minute")
    equal(server.want(200, "GET", f"{path}?start={now - 7200}&end={now - 3600}"), [])
    for bad in ("start=x", "end=-1x", "start=1.5"):
        refused(server, 400, "GET", f"{path}?{bad}")
    equal(server.want(404, "GET", f"/sandboxes/{UNKNOWN}/metrics"), no_sandbox(UNKNOWN))
    many = server.want(200, "GET", f"/sandboxes/metrics?sandbox_ids={box.id},{other.id},{UNKNOWN}")
    equal(list(many), ["sandboxes"])
    check(set(many["sandboxes"]) <= {box.id, other.id} and box.id in many["sandboxes"], str(many))
    equal(set(many["sandboxes"][box.id]), METRIC)
    refused(server, 401, "GET", f"/sandboxes/metrics?sandbox_ids={box.id}", key=None)


def test_logs(server):
    box = Sandbox(server)
    box.run("true")
    got = server.want(200, "GET", f"/sandboxes/{box.id}/logs")
    check({"logs", "logEntries"} == set(got) and got["logs"], f"logs {got}")
    for line in got["logs"]:
        equal(set(line), {"timestamp", "line"})
        parse_time(line["timestamp"])
        inner = json.loads(line["line"])
        check(isinstance(inner["level"], str) and isinstance(inner["logger"], str), line["line"])
    for entry in got["logEntries"]:
        equal(set(entry), {"timestamp", "level", "message", "fields"})
        check(entry["level"] in ("debug", "info", "warn", "error"), entry["level"])
    equal(server.want(200, "GET", f"/sandboxes/{box.id}/logs?start={int(time.time() * 1000) + 60000}")["logs"], [])
    equal(len(server.want(200, "GET", f"/sandboxes/{box.id}/logs?limit=1")["logs"]), 1)
    equal(server.want(404, "GET", f"/sandboxes/{UNKNOWN}/logs"), no_sandbox(UNKNOWN))
    path = f"/v2/sandboxes/{box.id}/logs"
    logs = server.want(200, "GET", path)["logs"]
    check(logs and all(set(e) == {"timestamp", "level", "message", "fields"} for e in logs), str(logs))
    times = [parse_time(e["timestamp"]) for e in server.want(200, "GET", path + "?direction=forward")["logs"]]
    equal(times, sorted(times))
    back = [parse_time(e["timestamp"]) for e in server.want(200, "GET", path + "?direction=backward")["logs"]]
    equal(back, sorted(back, reverse=True))
    equal(len(server.want(200, "GET", path + "?limit=1")["logs"]), 1)
    equal(server.want(200, "GET", path + "?search=no-such-words-anywhere")["logs"], [])
    check(all(e["level"] == "error" for e in server.want(200, "GET", path + "?level=error")["logs"]), "level")
    for bad in ("direction=up", "limit=1001", "limit=x", "cursor=x", "level=loud", "search=" + "x" * 257):
        refused(server, 400, "GET", f"{path}?{bad}")
    equal(server.want(404, "GET", f"/v2/sandboxes/{UNKNOWN}/logs"), no_sandbox(UNKNOWN))


def test_no_such_path_or_method(server):
    box = Sandbox(server)
    for method, path in (
        ("GET", f"/sandboxes/{box.id}/nothing"),
        ("GET", "/v2/nothing"),
        ("GET", "/v3/sandboxes"),
        ("POST", f"/v2/sandboxes/{box.id}/explode"),
        ("GET", "/v2/sandboxes/" + box.id + "/connect/more"),
        ("GET", "/sandboxes/"),
    ):
        status, _, data = server.request(method, path)
        check(status in (400, 404, 405) and data.get("code") == status, f"{method} {path}: {status} {data}")
    for method, path in (
        ("PUT", "/v2/sandboxes"),
        ("DELETE", "/sandboxes"),
        ("GET", f"/sandboxes/{box.id}/pause"),
        ("PATCH", f"/sandboxes/{box.id}"),
    ):
        status, _, data = server.request(method, path)
        check(status in (404, 405) and data.get("code") == status, f"{method} {path}: {status} {data}")


def test_a_success_without_body_has_no_body(server):
    """204 has neither body nor Content-Length other than 0; the connection is reused after it."""
    box = Sandbox(server)
    link = http.client.HTTPConnection(*server.address, timeout=10)
    for _ in range(3):
        link.request(
            "POST",
            f"/sandboxes/{box.id}/timeout",
            b'{"timeout":60}',
            {"X-API-Key": server.key, "Content-Type": "application/json"},
        )
        answer = link.getresponse()
        equal((answer.status, answer.read()), (204, b""))
        check(answer.getheader("Content-Length") in (None, "0"), "length of nothing")
        keep = answer.getheader("Keep-Alive") or ""
        check("timeout=" in keep and int(keep.split("timeout=")[1].split(",")[0]) > 4, f"Keep-Alive: {keep!r}")
    link.close()


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
