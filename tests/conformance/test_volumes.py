#!/usr/bin/python3
"""Volumes: each endpoint of the control plane and of the content API with each status that it may have."""
import json
import re
import time

from contract import Sandbox, check, equal, near, parse_time, refused, run_tests
from level import LEVEL, differs

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
STAT = {"name", "type", "path", "size", "mode", "uid", "gid", "atime", "mtime", "ctime"}


def make(server, name):
    return server.want(201, "POST", "/volumes", {"name": name})


def ask(server, volume, method, what, body=None, token=None, headers=None, **query):
    """(status, body), of a request for its content."""
    text = "&".join(f"{k}={v}" for k, v in query.items())
    sent = {} if token == "" else {"Authorization": "Bearer " + (token or volume["token"])}
    if isinstance(body, dict):
        body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    status, got, data = server.request(method, f"/volumecontent/{volume['volumeID']}/{what}?{text}", body,
                                       headers={**sent, **(headers or {})}, raw=True, key=None)
    if got.get("content-type", "").startswith("application/json") and data:
        data = json.loads(data)
    if status >= 400:
        equal((data["code"], sorted(data)), (str(status), ["code", "message"]), f"{method} {what} {query}")
    return status, data


def put(server, volume, path, data=b"", **query):
    status, entry = ask(server, volume, "PUT", "file", data, path=path, **query)
    equal(status, 201, entry)
    return entry


def output(box, command):
    return box.run(command)[1].decode()


def no_volumes():
    """Whether sessions of this level have none."""
    return differs("writable directories of the machine, volumes") or differs("mounts")


# --- the control plane


def test_create_list_get_delete(server):
    made = make(server, "vol_A-1")
    equal(set(made), {"volumeID", "name", "token"})
    check(re.fullmatch(UUID, made["volumeID"]), made["volumeID"])
    equal(server.want(200, "GET", "/volumes"), [{"volumeID": made["volumeID"], "name": "vol_A-1"}])
    got = server.want(200, "GET", f"/volumes/{made['volumeID']}")
    equal((got["volumeID"], got["name"]), (made["volumeID"], "vol_A-1"))
    equal(ask(server, got, "GET", "path", path="/")[0], 200, "a fresh token")
    refused(server, 400, "POST", "/volumes", {"name": "vol_A-1"}, "Volume with name 'vol_A-1' already exists")
    for body in ({}, {"name": ""}, {"name": "a b"}, {"name": "a/b"}, {"name": 1}, {"name": "ü"}):
        refused(server, 400, "POST", "/volumes", body)
    for which in ("nobody", "6f1c1d1e-0000-4000-8000-000000000000", "%2e%2e"):
        refused(server, 404, "GET", f"/volumes/{which}")
        refused(server, 404, "DELETE", f"/volumes/{which}")
    equal(server.request("DELETE", f"/volumes/{made['volumeID']}")[0], 204)
    refused(server, 404, "GET", f"/volumes/{made['volumeID']}")
    equal(server.want(200, "GET", "/volumes"), [])
    equal(ask(server, got, "GET", "path", path="/")[0], 401, "the token of a volume that is gone")
    refused(server, 401, "GET", "/volumes", key=None)


def test_tokens(server):
    a, b = make(server, "a"), make(server, "b")
    name, key, until, code = a["token"].split(".")
    other = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"]})["id"]
    for token in ("", "x", b["token"], a["token"][:-1], a["token"] + "0", server.key, f"{name}.{key}.{int(until) + 1}.{code}",
                  f"{name}.{other}.{until}.{code}", f"{name}.{until}.{code}", f"{name}..{until}.{code}", "...", f"{name}.{99 * 'k'}.."):
        equal(ask(server, a, "GET", "path", token=token, path="/")[0], 401, token)
    equal(ask(server, a, "GET", "path", path="/")[0], 200)
    check(code not in server.log(), "a token is in the log")


# --- the content


def test_stat(server):
    v = make(server, "stat")
    status, root = ask(server, v, "GET", "path", path="/")
    equal((status, root["name"], root["type"], root["path"]), (200, "/", "directory", "/"))
    entry = put(server, v, "/f", b"12345")
    equal(set(entry), STAT)
    equal((entry["name"], entry["type"], entry["path"], entry["size"]), ("f", "file", "/f", 5))
    equal((entry["uid"], entry["gid"], entry["mode"]), (1000, 1000, 0o644))
    for name in ("atime", "mtime", "ctime"):
        near(parse_time(entry[name]), time.time(), 30, name)
    for path in ("/f", "f", "//f/", "/./f", "/x/../f", "/../../f"):
        equal(ask(server, v, "GET", "path", path=path)[1]["path"], "/f", path)
    equal(ask(server, v, "GET", "path", path="/none")[0], 404)
    equal(ask(server, v, "GET", "path", path="/f/x")[0], 400, "through a file")
    equal(ask(server, v, "GET", "path", path="")[0], 400)
    equal(ask(server, v, "GET", "path")[0], 400)
    equal(ask(server, v, "GET", "path", path="/" + 300 * "n")[0], 400)
    if no_volumes():
        refused(server, 501, "POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "stat", "path": "/v"}]}, f"level {LEVEL}")
        return
    box = Sandbox(server, volumeMounts=[{"name": "stat", "path": "/v"}])
    box.run("ln -s f /v/link; mkfifo /v/pipe")
    link = ask(server, v, "GET", "path", path="/link")[1]
    equal((link["type"], link["target"], set(link)), ("symlink", "f", STAT | {"target"}))
    equal(ask(server, v, "GET", "path", path="/pipe")[1]["type"], "unknown")
    box.kill()


def test_make_dir(server):
    v = make(server, "dirs")
    status, entry = ask(server, v, "POST", "dir", path="/d")
    equal((status, entry["type"], entry["mode"], entry["uid"]), (201, "directory", 0o755, 1000))
    equal(ask(server, v, "POST", "dir", path="/d")[0], 409)
    equal(ask(server, v, "POST", "dir", path="/a/b/c")[0], 404)
    status, entry = ask(server, v, "POST", "dir", path="/a/b/c", force="true", mode=0o700, uid=0, gid=7)
    equal((status, entry["path"], entry["mode"], entry["uid"], entry["gid"]), (201, "/a/b/c", 0o700, 0, 7))
    status, entry = ask(server, v, "POST", "dir", path="/a/b/c", force="true", mode=0o777)
    equal((status, entry["mode"]), (201, 0o700), "what exists is not changed")
    put(server, v, "/f")
    equal(ask(server, v, "POST", "dir", path="/f", force="true")[0], 409)
    equal(ask(server, v, "POST", "dir", path="/f/x", force="true")[0], 400)
    equal(ask(server, v, "POST", "dir", path="/", force="true")[0], 201)
    equal(ask(server, v, "POST", "dir", path="/")[0], 409)
    for bad in ({"mode": "rwx"}, {"mode": 99999}, {"uid": -1}, {"gid": 65536}, {"force": "perhaps"}):
        equal(ask(server, v, "POST", "dir", path="/x", **bad)[0], 400, bad)


def test_list(server):
    v = make(server, "list")
    equal(ask(server, v, "GET", "dir", path="/"), (200, []))
    for path in ("/a/x/1", "/a/y", "/b"):
        put(server, v, path, force="true")
    names = lambda **q: sorted(e["path"] for e in ask(server, v, "GET", "dir", **q)[1])  # noqa: E731
    equal(names(path="/"), ["/a", "/b"])
    equal(names(path="/", depth=2), ["/a", "/a/x", "/a/y", "/b"])
    equal(names(path="/", depth=10), ["/a", "/a/x", "/a/x/1", "/a/y", "/b"])
    equal(names(path="/a/"), ["/a/x", "/a/y"])
    order = [e["path"] for e in ask(server, v, "GET", "dir", path="/", depth=10)[1]]
    check(order.index("/a/x/1") == order.index("/a/x") + 1, f"each directory is followed by its children: {order}")
    for depth in (0, 11, "x"):
        equal(ask(server, v, "GET", "dir", path="/", depth=depth)[0], 400, depth)
    equal(ask(server, v, "GET", "dir", path="/none")[0], 404)
    check(ask(server, v, "GET", "dir", path="/b")[0] in (400, 404), "a file")


def test_read_and_write(server):
    v = make(server, "files")
    data = bytes(range(256)) * 8192
    entry = put(server, v, "/f", data, mode=0o600, uid=5, gid=6)
    equal((entry["size"], entry["mode"], entry["uid"], entry["gid"]), (len(data), 0o600, 5, 6))
    equal(ask(server, v, "GET", "file", path="/f"), (200, data))
    equal(ask(server, v, "PUT", "file", b"x", path="/f")[0], 409)
    equal(ask(server, v, "GET", "file", path="/f")[1], data, "unchanged")
    equal(put(server, v, "/f", b"new", force="true")["size"], 3)
    put(server, v, "/empty")
    status, headers, body = server.request("GET", f"/volumecontent/{v['volumeID']}/file?path=/empty", key=None,
                                           headers={"Authorization": "Bearer " + v["token"]}, raw=True)
    equal((status, headers["content-length"], body), (200, "0", b""))
    equal(ask(server, v, "PUT", "file", b"x", path="/p/q")[0], 404)
    equal(put(server, v, "/p/q", b"x", force="true")["path"], "/p/q")
    equal(ask(server, v, "PUT", "file", b"x", path="/p", force="true")[0], 409)
    equal(ask(server, v, "PUT", "file", b"x", path="/", force="true")[0], 409)
    equal(ask(server, v, "PUT", "file", b"x", path="/f/x", force="true")[0], 400)
    for path in ("/none", "/p", "/"):
        equal(ask(server, v, "GET", "file", path=path)[0], 404, path)
    chunked = (b"a" * 70000 for _ in range(30))  # without a length
    link = server.link()
    link.request("PUT", f"/volumecontent/{v['volumeID']}/file?path=/chunked", chunked,
                 {"Authorization": "Bearer " + v["token"], "Content-Type": "application/octet-stream"}, encode_chunked=True)
    answer = link.getresponse()
    equal((answer.status, json.loads(answer.read())["size"]), (201, 30 * 70000))
    link.close()


def test_content_is_on_record(server):
    v = make(server, "recorded")
    put(server, v, "/secret-name", b"x")
    ask(server, v, "GET", "file", path="/secret-name")
    ask(server, v, "GET", "dir", path="/")
    ask(server, v, "DELETE", "path", path="/secret-name")
    ask(server, v, "GET", "file", path="/secret-name", token="wrong")
    log = server.want(200, "GET", "/v1/audit?limit=1000&type=volume.content")["records"]
    mine = [(r["record"]["data"]["op"], r["side"]["path"]["value"], r["record"]["actor"]["interface"], r["record"]["actor"]["key"] != "")
            for r in log if r["record"]["data"]["volume"] == v["volumeID"]]
    equal(mine, [(op, "/secret-name", "e2b", True) for op in ("write", "read", "remove")])


def test_change(server):
    v = make(server, "change")
    put(server, v, "/f")
    status, entry = ask(server, v, "PATCH", "path", {"mode": 0o640}, path="/f")
    equal((status, entry["mode"], entry["uid"], entry["gid"]), (200, 0o640, 1000, 1000))
    status, entry = ask(server, v, "PATCH", "path", {"uid": 0}, path="/f")
    equal((status, entry["mode"], entry["uid"], entry["gid"]), (200, 0o640, 0, 1000))
    equal(ask(server, v, "PATCH", "path", {}, path="/f")[1]["uid"], 0)
    equal(ask(server, v, "PATCH", "path", {"mode": 0o700}, path="/none")[0], 404)
    for bad in ({"mode": "0644"}, {"mode": 1 << 20}, {"uid": 70000}):
        equal(ask(server, v, "PATCH", "path", bad, path="/f")[0], 400, bad)


def test_remove(server):
    v = make(server, "remove")
    for path in ("/d/e/f", "/g"):
        put(server, v, path, force="true")
    equal(ask(server, v, "DELETE", "path", path="/g"), (204, b""))
    equal(ask(server, v, "DELETE", "path", path="/g")[0], 404)
    equal(ask(server, v, "DELETE", "path", path="/d"), (204, b""))
    equal(ask(server, v, "GET", "dir", path="/"), (200, []))
    check(ask(server, v, "DELETE", "path", path="/")[0] in (400, 404), "the root")


# --- in sandboxes


def test_mounts(server):
    v = make(server, "mounted")
    put(server, v, "/f", b"from the API")
    mounts = [{"name": "mounted", "path": "/data"}]
    if no_volumes():
        for path in ("/sandboxes", "/v2/sandboxes"):
            refused(server, 501, "POST", path, {"templateID": "base", "volumeMounts": mounts}, f"level {LEVEL}")
        equal(server.want(200, "GET", "/v2/sandboxes"), [])
        equal(ask(server, v, "GET", "file", path="/f"), (200, b"from the API"), "the volume is as it was")
        equal(server.request("DELETE", f"/volumes/{v['volumeID']}")[0], 204)
        equal(Sandbox(server, volumeMounts=[]).kill(), None)
        return
    a, b = Sandbox(server, volumeMounts=mounts), Sandbox(server, volumeMounts=mounts)
    equal(server.want(200, "GET", f"/sandboxes/{a.id}")["volumeMounts"], mounts)
    equal([x["volumeMounts"] for x in server.want(200, "GET", "/v2/sandboxes") if x["sandboxID"] == b.id], [mounts])
    equal(output(a, "cat /data/f; echo by a > /data/g"), "from the API")
    equal(output(b, "cat /data/g"), "by a\n")
    equal(ask(server, v, "GET", "file", path="/g"), (200, b"by a\n"))
    refused(server, 409, "DELETE", f"/volumes/{v['volumeID']}")
    for box in (a, b):
        box.kill()
    equal(Sandbox(server, volumeMounts=[]).kill(), None)


def test_refused_mounts(server):
    """All that is wrong is said at once."""
    make(server, "good")
    problems = server.want(400, "POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [
        {"name": "x", "path": "/a"}, {"name": "good", "path": "rel"}, {"name": "good", "path": "/a/../b"},
        {"name": "good", "path": "/ok"}, {"name": "good", "path": "/ok"}, {"name": "good", "path": "/"}]})["message"].split("\n\t- ")
    equal(problems[:2], ["invalid mounts:", "volume mount #0: volume 'x' not found"])
    equal(len(problems), 6, problems)
    check("#1" in problems[2] and "absolute" in problems[2], problems)
    equal(problems[3], "volume mount #2: path must not contain any '.' or '..' components")
    check("#4" in problems[4] and "#5" in problems[5], problems)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
