#!/usr/bin/python3
"""GET /v2/sandboxes and GET /sandboxes: filters, order, pages, headers."""
import base64
import time
from urllib.parse import quote

from contract import Sandbox, check, equal, refused, run_tests

LISTED = {
    "templateID",
    "sandboxID",
    "clientID",
    "startedAt",
    "endAt",
    "cpuCount",
    "memoryMB",
    "diskSizeMB",
    "state",
    "envdVersion",
}


def ask(server, key, query=""):
    status, headers, data = server.request("GET", "/v2/sandboxes" + ("?" + query if query else ""), key=key)
    equal(status, 200, f"{query}: {data}")
    return [s["sandboxID"] for s in data], headers


def crowd(server, name, n=5):
    _, key = server.tenant(name)
    boxes = []
    for i in range(n):
        boxes.append(Sandbox(server, key=key, metadata={"n": str(i)}))
        time.sleep(0.003)  # sessions of one millisecond have any order
    return key, boxes


def test_members(server):
    key, (box,) = crowd(server, "members", 1)
    (one,) = server.want(200, "GET", "/v2/sandboxes", key=key)
    check(LISTED <= set(one), f"missing {LISTED - set(one)}")
    check(set(one) <= LISTED | {"alias", "metadata", "volumeMounts"}, f"too many: {sorted(one)}")
    equal((one["sandboxID"], one["templateID"], one["state"], one["metadata"]), (box.id, "base", "running", {"n": "0"}))
    (old,) = server.want(200, "GET", "/sandboxes", key=key)
    check(LISTED <= set(old), f"v1: missing {LISTED - set(old)}")


def test_pages(server):
    key, boxes = crowd(server, "pages")
    newest = [b.id for b in reversed(boxes)]
    for order, want in (("", newest), ("desc", newest), ("asc", newest[::-1])):
        sort = f"&order={order}" if order else ""
        ids, headers = ask(server, key, "limit=100" + sort)
        equal(ids, want, order)
        check(not headers.get("x-next-token"), "a token after the last page")
        equal(headers["x-total-running"], "5")
        seen, token, pages = [], "", 0
        while True:
            ids, headers = ask(server, key, "limit=2" + sort + (f"&nextToken={quote(token)}" if token else ""))
            seen += ids
            pages += 1
            token = headers.get("x-next-token", "")
            if not token:
                break
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
            equal(raw.split("__")[1], ids[-1], "the token names the last of the page")
        equal((seen, pages), (want, 3), order)
    for bad in (
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=-1",
        "order=up",
        "nextToken=%21%21",
        "nextToken=YWJj",
        "state=dead",
        "startedAfter=yesterday",
    ):
        refused(server, 400, "GET", f"/v2/sandboxes?{bad}", key=key)
    refused(server, 401, "GET", "/v2/sandboxes", key=None)
    refused(server, 401, "GET", "/sandboxes", key="e2b_bad")


def test_state(server):
    key, boxes = crowd(server, "state", 3)
    server.want(204, "POST", f"/sandboxes/{boxes[1].id}/pause", key=key)
    equal(ask(server, key, "state=paused")[0], [boxes[1].id])
    equal(ask(server, key, "state=running")[0], [boxes[2].id, boxes[0].id])
    equal(ask(server, key, "state=running,paused")[0], [b.id for b in reversed(boxes)])
    equal(ask(server, key, "state=running%2Cpaused")[0], [b.id for b in reversed(boxes)], "an encoded comma")
    equal(ask(server, key)[0], [b.id for b in reversed(boxes)])
    equal(ask(server, key)[1]["x-total-running"], "2")
    equal(
        [s["sandboxID"] for s in server.want(200, "GET", "/sandboxes", key=key)],
        [boxes[2].id, boxes[0].id],
        "v1 shows those that run",
    )


def test_metadata_is_decoded_three_times(server):
    """What the SDKs really send: metadata=a%3Db%252520c for {a: "b c"}."""
    _, key = server.tenant("decoded")
    boxes = [
        Sandbox(server, key=key, metadata=m)
        for m in ({"a": "b c"}, {"a": "b%20c"}, {"a": "x", "k&=": "v&="}, {"a": "x"}, {"ü": "☃"})
    ]
    find = lambda text: sorted(ask(server, key, "metadata=" + text)[0])  # noqa: E731
    equal(find("a%3Db%252520c"), [boxes[0].id])
    pairs = lambda *kv: quote(
        "&".join(quote(quote(k, safe=""), safe="") + "=" + quote(quote(v, safe=""), safe="") for k, v in kv), safe=""
    )  # noqa: E731
    equal(find(pairs(("a", "b c"))), [boxes[0].id])
    equal(find(pairs(("a", "b%20c"))), [boxes[1].id])
    equal(find(pairs(("a", "x"))), sorted([boxes[2].id, boxes[3].id]))
    equal(find(pairs(("a", "x"), ("k&=", "v&="))), [boxes[2].id])
    equal(find(pairs(("ü", "☃"))), [boxes[4].id])
    equal(find(pairs(("a", "none"))), [])
    equal(
        [s["sandboxID"] for s in server.want(200, "GET", "/sandboxes?metadata=" + pairs(("a", "b c")), key=key)],
        [boxes[0].id],
        "v1",
    )
    for bad in ("novalue", "a%3D%25zz"):
        status, _, data = server.request("GET", "/v2/sandboxes?metadata=" + bad, key=key)
        check(status in (200, 400) and (status == 400 or data == []), f"{bad}: {status} {data}")


def test_template_and_time(server):
    key, boxes = crowd(server, "template", 3)
    every = [b.id for b in reversed(boxes)]
    equal(ask(server, key, "template=base")[0], every)
    equal(ask(server, key, "template=no-such")[0], [])
    refused(server, 400, "GET", "/v2/sandboxes?template=base:tag", key=key)
    started = server.want(200, "GET", f"/sandboxes/{boxes[1].id}", key=key)["startedAt"]
    equal(ask(server, key, "startedAfter=" + quote(started))[0], [boxes[2].id, boxes[1].id], "inclusive")
    equal(ask(server, key, "startedAfter=2999-01-01T00:00:00Z")[0], [])
    equal(ask(server, key, "startedAfter=2020-01-01T02:00:00%2B02:00")[0], every, "with an offset")


def test_templates(server):
    member = {
        "templateID",
        "buildID",
        "public",
        "names",
        "aliases",
        "cpuCount",
        "memoryMB",
        "diskSizeMB",
        "envdVersion",
        "createdAt",
        "updatedAt",
        "createdBy",
        "lastSpawnedAt",
        "spawnCount",
        "buildCount",
        "buildStatus",
    }
    for path in ("/templates", "/v2/templates"):
        templates = server.want(200, "GET", path)
        one = next(t for t in templates if t["templateID"] == "base")
        check(member <= set(one), f"{path}: missing {member - set(one)}")
        equal(one["buildStatus"], "ready")
        refused(server, 401, "GET", path, key=None)
    one = server.want(200, "GET", "/templates/base")
    want = {
        "templateID",
        "public",
        "names",
        "aliases",
        "createdAt",
        "updatedAt",
        "lastSpawnedAt",
        "spawnCount",
        "builds",
    }
    check(want <= set(one), f"missing {want - set(one)}")
    build = one["builds"][0]
    check({"buildID", "status", "createdAt", "updatedAt", "cpuCount", "memoryMB"} <= set(build), str(build))
    refused(server, 404, "GET", "/templates/no-such")
    for alias in ("base", "host"):
        got = server.want(200, "GET", f"/templates/aliases/{alias}")
        equal(set(got), {"templateID", "public"})
    refused(server, 404, "GET", "/templates/aliases/no-such")


if __name__ == "__main__":
    run_tests(globals(), pool_size=6)
