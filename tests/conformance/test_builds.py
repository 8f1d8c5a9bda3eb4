#!/usr/bin/python3
"""Builds of templates without an SDK: names, tags, uploads, recipes, status, logs, the cache, what tenants see."""
import contextlib
import gzip
import http.client
import io
import re
import sqlite3
import tarfile
import time
from urllib.parse import quote, urlsplit

from contract import Sandbox, check, equal, has, refused, run_tests, wait_for

HASH = "0123456789abcdef" * 4
UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
NO_BUILD = "00000000-0000-4000-8000-000000000000"


def ask(server, name, **more):
    status, _, data = server.request("POST", "/v3/templates", {"name": name, **more})
    equal(status, 202, f"asking for a build: {data}")
    check(UUID.match(data["buildID"]) and re.match(r"^[a-z0-9]{20}$", data["templateID"]), f"ids: {data}")
    return data


def start(server, build, recipe, status=202):
    got, headers, data = server.request("POST", f"/v2/templates/{build['templateID']}/builds/{build['buildID']}", recipe)
    equal(got, status, f"start: {data}")
    if got == 202:
        equal((data, headers.get("content-length")), (b"", "0"), "body of the answer")
    return data


def status_of(server, build, offset=0, more=""):
    got, _, data = server.request(
        "GET", f"/templates/{build['templateID']}/builds/{build['buildID']}/status?logsOffset={offset}{more}"
    )
    equal(got, 200, f"status: {data}")
    return data


def finish(server, build, want="ready", seconds=60):
    """Polls as clients do, to the end; the last status and all entries."""
    logs, end = [], time.monotonic() + seconds
    while True:
        data = status_of(server, build, len(logs))
        logs += data["logEntries"]
        if data["status"] in ("ready", "error") and not data["logEntries"]:
            break
        check(data["status"] != "waiting", "it waits although it was started")
        check(time.monotonic() < end, f"does not end: {data['status']}, {logs[-3:]}")
        time.sleep(0.05)  # clients ask again and again
    equal(data["status"], want, f"end of the build: {data.get('reason')} {[e['message'] for e in logs][-8:]}")
    return data, logs


def build(server, name, steps, want="ready", seconds=60, **more):
    b = ask(server, name, **{k: more.pop(k) for k in ("tags", "cpuCount", "memoryMB") if k in more})
    source = {} if "fromImage" in more else {"fromTemplate": more.pop("fromTemplate", "base")}
    start(server, b, {**source, "force": False, "steps": steps, **more})
    data, logs = finish(server, b, want, seconds)
    return b, data, logs


def RUN(command, *user, **more):
    return {"type": "RUN", "args": [command, *user], **more}


def archive(files, compress=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue()) if compress else out.getvalue()


def put(url, data, **headers):
    """To the URL and nothing else: no key."""
    parts = urlsplit(url)
    link = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    link.request("PUT", f"{parts.path}?{parts.query}", data, headers)
    got = link.getresponse()
    got.read()
    link.close()
    return got.status


def upload(server, b, data, name=HASH):
    status, _, link = server.request("GET", f"/templates/{b['templateID']}/files/{name}")
    equal(status, 201, f"link: {link}")
    equal(put(link["url"], data), 200, "upload")
    return link


def COPY(source, dest, owner="", mode="", name=HASH):
    return {"type": "COPY", "args": [source, dest, owner, mode], "filesHash": name, "forceUpload": False, "gzip": True}


def run(server, template, command, **more):
    box = Sandbox(server, templateID=template)
    try:
        return output(box, command, **more)
    finally:
        box.kill()


def output(box, command, **more):
    return box.run(command, **more)[1].decode()


def of_build(server, b):
    """The sessions of a build that run."""
    return [s for s in server.want(200, "GET", "/v1/sessions")["sessions"] if s["state"] == "running" and s["metadata"].get("cordon.build") == b["buildID"]]


# --- names


def test_names_and_tags(server):
    first = ask(server, "My-App:V1", tags=["v1", "Stable"])
    equal(first["tags"], ["v1", "stable"])
    equal(first["aliases"], ["my-app"])
    equal([n.split("/")[1] for n in first["names"]], ["my-app"])
    equal(first["public"], False)
    again = ask(server, "my-app")
    equal((again["templateID"], again["tags"]), (first["templateID"], ["default"]))
    check(again["buildID"] != first["buildID"], "the same build twice")
    equal(ask(server, "my-app:default")["tags"], ["default"])
    own = first["names"][0].split("/")[0]
    equal(ask(server, f"{own}/my-app")["templateID"], first["templateID"])
    for name in ("", " ", "a b", ":x", "x:", "x/y/z", "a.b", "x:" + NO_BUILD, "ä"):
        refused(server, 400, "POST", "/v3/templates", {"name": name}, "Invalid ")
    refused(server, 400, "POST", "/v3/templates", {"name": "another-team/x"}, "namespace")
    refused(server, 400, "POST", "/v3/templates", {"name": "x", "tags": ["a b"]}, "Invalid tag")
    refused(server, 400, "POST", "/v3/templates", {}, "name")
    for name in ("base", "code-interpreter-v1", "mcp-gateway", "host"):
        refused(server, 403, "POST", "/v3/templates", {"name": name})
    refused(server, 409, "POST", "/v3/templates", {"name": first["templateID"]})
    for size in ({"cpuCount": 3}, {"memoryMB": 100}, {"memoryMB": 513}, {"cpuCount": 0}, {"cpuCount": "2"}):
        refused(server, 400, "POST", "/v3/templates", {"name": "x", **size})


def test_a_newer_build_replaces_one_that_waits(server):
    old, other = ask(server, "wait"), ask(server, "wait:other")
    equal(status_of(server, old)["status"], "waiting")
    ask(server, "wait")
    data = status_of(server, old)
    equal(data["status"], "error")
    has(data["reason"]["message"], "superseded by a newer one", "reason")
    equal(status_of(server, other)["status"], "waiting", "another tag")
    start(server, old, {"fromTemplate": "base", "steps": []}, 400)


def test_bad_ids(server):
    b = ask(server, "ids")
    refused(server, 400, "GET", f"/templates/{b['templateID']}/builds/x/status", None, "build ID")
    refused(server, 404, "GET", f"/templates/{b['templateID']}/builds/{NO_BUILD}/status")
    refused(server, 404, "GET", f"/templates/none/builds/{b['buildID']}/status")
    refused(server, 400, "GET", f"/templates/{b['templateID']}/builds/{b['buildID']}/status?logsOffset=-1")
    refused(server, 400, "GET", f"/templates/{b['templateID']}/files/abc", None, "hash")
    refused(server, 404, "GET", f"/templates/none/files/{HASH}")
    for recipe in (
        {},
        {"fromImage": "a", "fromTemplate": "b"},
        {"fromTemplate": "base", "steps": [{"type": "CMD", "args": []}]},
        {"fromTemplate": "base", "steps": [RUN("")]},
        {"fromTemplate": "base", "steps": [{"type": "ENV", "args": ["a"]}]},
        {"fromTemplate": "base", "steps": [{"type": "COPY", "args": ["a", "b"]}]},
    ):
        start(server, b, recipe, 400)
    equal(status_of(server, b)["status"], "waiting", "after bad recipes")


# --- uploads


def test_uploads(server):
    b = ask(server, "up")
    status, _, link = server.request("GET", f"/templates/{b['templateID']}/files/{HASH}")
    equal((status, link["present"]), (201, False))
    url = link["url"]
    check(url.startswith(server.url), f"URL {url}")
    data = archive({"f": b"x"})
    for bad in (url.replace("token=", "token=0"), url.replace(HASH, HASH[::-1]), re.sub(r"expires=\d+", "expires=9999999999", url),
                url.replace(b["templateID"], "a" * 20), url.split("?")[0]):  # fmt: skip
        equal(put(bad, data), 403, f"PUT {bad}")
    equal(server.request("GET", f"/templates/{b['templateID']}/files/{HASH}")[2]["present"], False)
    equal(put(url, data), 200)
    equal(put(url, data), 200, "again")
    status, _, link = server.request("GET", f"/templates/{b['templateID']}/files/{HASH}")
    equal((status, link["present"], "url" in link), (201, True, True))
    other = ask(server, "up2")
    equal(server.request("GET", f"/templates/{other['templateID']}/files/{HASH}")[2]["present"], False, "of another template")


# --- failures


def test_failures(server):
    _, data, logs = build(server, "bad", [RUN("echo before"), RUN("echo out; echo err >&2; exit 7")], "error")
    equal(data["reason"]["message"], "failed to run command 'echo out; echo err >&2; exit 7': exit status 7")
    equal(data["reason"]["step"], "2")
    texts = [e["message"] for e in logs]
    check(any(t.endswith("[stdout]: out") for t in texts) and any(t.endswith("[stderr]: err") for t in texts), f"{texts}")
    equal(logs[-1]["level"], "error")
    check(all(re.match(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$", e["timestamp"]) for e in logs), "timestamps")
    _, data, _ = build(server, "bad", [RUN("whoami", "root123")], "error")
    equal(
        data["reason"]["message"],
        "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'",
    )
    equal(data["reason"]["step"], "1")
    _, data, _ = build(server, "bad", [], "error", fromTemplate="no-such-template")
    equal(data["reason"]["step"], "base")
    _, data, _ = build(server, "bad", [COPY("x", "y", name="f" * 64)], "error")
    equal(data["reason"]["step"], "1")
    _, data, _ = build(server, "bad", [], "error", startCmd="exit 3", readyCmd="sleep 30")
    equal((data["reason"]["message"], data["reason"]["step"]), ("start command failed: exit status 3", "finalize"))
    refused(server, 404, "GET", "/templates/aliases/" + quote("bad:none", safe=""))


def test_offsets_of_logs(server):
    b, _, logs = build(server, "logs", [RUN("seq 1 150")], "ready")
    whole = []
    while part := status_of(server, b, len(whole))["logEntries"]:
        check(len(part) <= 100, f"{len(part)} entries at once")
        whole += part
    equal(whole, logs)
    equal(len(status_of(server, b, 0, "&limit=5")["logEntries"]), 5)
    equal([e["message"] for e in status_of(server, b, 0, "&level=error")["logEntries"]], [])
    numbers = [e["message"].rsplit(" ", 1)[1] for e in whole if "[stdout]: " in e["message"]]
    equal(numbers, [str(i) for i in range(1, 151)], "output, in order")


# --- what a build makes


def test_steps(server):
    b = ask(server, "steps", tags=["v1"])
    upload(server, b, archive({"dir/a.txt": b"a", "dir/sub/b.txt": b"b"}))
    start(server, b, {
        "fromTemplate": "base",
        "steps": [
            {"type": "ENV", "args": ["A", "one", "B", "$A-two"]},
            RUN("id -un >who; pwd >where; echo $B >env; fallocate -l 1G big && rm big"),  # more than memory allows
            RUN("id -un >/root-was-here", "root"),
            {"type": "WORKDIR", "args": ["/srv/deep"]},
            COPY("dir/*", ".", "", "0755"),
            {"type": "USER", "args": ["builder"]},
            RUN("id -un >/tmp/builder; pwd >/tmp/where"),
        ],
    })  # fmt: skip
    finish(server, b)
    out = run(server, "steps:v1", "cat /home/user/who /home/user/where /home/user/env /root-was-here /tmp/builder /tmp/where; "
              "cd /srv/deep; stat -c '%n %a %U' a.txt sub/b.txt; id -un; echo $B; pwd; cat /.e2b")  # fmt: skip
    equal(out.splitlines()[:10], ["user", "/home/user", "one-two", "root", "builder", "/srv/deep", "a.txt 755 user",
                                  "sub/b.txt 755 user", "builder", "one-two"])  # fmt: skip
    has(out, f"TEMPLATE_ID={b['templateID']}", "/.e2b")
    equal(run(server, b["templateID"] + ":v1", "pwd").strip(), "/srv/deep", "directory of a new sandbox")
    refused(server, 404, "POST", "/v2/sandboxes", {"templateID": "steps"}, "not found")  # there is no tag default


def test_a_cached_step_does_not_run_again(server):
    step = RUN("date +%s%N >stamp; cat stamp")

    def stamp(name):
        return run(server, name, "cat stamp").strip()

    build(server, "cache1", [step])
    _, _, logs = build(server, "cache2", [step, {"type": "ENV", "args": ["X", "1"]}])
    check(any(e["message"].startswith("CACHED [builder 1/2] RUN date") for e in logs), [e["message"] for e in logs])
    equal(stamp("cache1"), stamp("cache2"))
    build(server, "cache3", [dict(step, force=True)])
    check(stamp("cache3") != stamp("cache1"), "a forced step was taken from the cache")
    build(server, "cache4", [step], force=True)
    check(stamp("cache4") != stamp("cache3"), "a forced build was taken from the cache")
    b = ask(server, "cache5")
    upload(server, b, archive({"f": b"one"}))
    start(server, b, {"fromTemplate": "base", "steps": [COPY("f", "/f")]})
    finish(server, b)
    c = ask(server, "cache5")
    upload(server, c, archive({"f": b"two"}))
    start(server, c, {"fromTemplate": "base", "steps": [COPY("f", "/f")]})
    finish(server, c)
    equal(run(server, "cache5", "cat /f"), "two", "another archive of the same hash")


def test_start_and_ready(server):
    # The shell has made the file before it becomes the program: ready is when the program is there.
    b, _, logs = build(server, "served", [], startCmd="touch /tmp/started; exec sleep 1000", readyCmd="pgrep -xf 'sleep 1000'")
    has([e["message"] for e in logs], "Template is ready", "log")
    equal(run(server, "served", "ls /tmp/started; pgrep -xf 'sleep 1000' | wc -l").split(), ["/tmp/started", "1"])
    build(server, "child", [RUN("touch kept")], fromTemplate="served")
    equal(run(server, "child", "ls kept /tmp/started").split(), ["/tmp/started", "kept"])


def test_many_steps(server):
    """More layers than a cell can have are folded, and what they removed stays removed."""
    steps = [RUN(f"echo {i} >f{i}; rm -f f{i - 2}") for i in range(24)]
    build(server, "folded", steps)
    equal(run(server, "folded", "ls -m f*").strip(), "f22, f23")
    equal(run(server, "folded", "cat f22 f23").split(), ["22", "23"])
    _, _, logs = build(server, "folded", [*steps, RUN("ls")])
    check(any(e["message"].startswith("CACHED [builder 24/25]") for e in logs), "not from the cache")


# --- tags, aliases, lists, deletion


def test_tags(server):
    b, _, _ = build(server, "tagged:v1", [RUN("echo 1 >n")])
    c, _, _ = build(server, "tagged", [RUN("echo 2 >n")])
    status, _, data = server.request("POST", "/templates/tags", {"target": "tagged:v1", "tags": ["Prod", "v1.0"]})
    equal((status, data), (201, {"buildID": b["buildID"], "tags": ["prod", "v1.0"]}))
    status, _, rows = server.request("GET", f"/templates/{b['templateID']}/tags")
    equal([(t["tag"], t["buildID"]) for t in rows],
          [("default", c["buildID"]), ("prod", b["buildID"]), ("v1", b["buildID"]), ("v1.0", b["buildID"])])  # fmt: skip
    equal([run(server, f"tagged{t}", "cat n").strip() for t in ("", ":prod", ":v1")], ["2", "1", "1"])
    for body in ({"target": "tagged:v1", "tags": []}, {"target": "tagged:v1"}, {"target": ":v1", "tags": ["x"]},
                 {"target": "tagged:", "tags": ["x"]}, {"target": "tagged:v1", "tags": [":"]}):  # fmt: skip
        refused(server, 400, "POST", "/templates/tags", body)
    refused(server, 404, "POST", "/templates/tags", {"target": "tagged:none", "tags": ["x"]},
            "Template 'tagged' with tag 'none' not found")  # fmt: skip
    refused(server, 404, "POST", "/templates/tags", {"target": "nothing", "tags": ["x"]})
    refused(server, 400, "DELETE", "/templates/tags", {"name": "tagged", "tags": ["default"]})
    refused(server, 400, "DELETE", "/templates/tags", {"name": "tagged:v1", "tags": ["prod"]})
    refused(server, 404, "DELETE", "/templates/tags", {"name": "tagged", "tags": ["none"]})
    equal(server.request("DELETE", "/templates/tags", {"name": "tagged", "tags": ["prod"]})[0], 204)
    refused(server, 404, "POST", "/v2/sandboxes", {"templateID": "tagged:prod"})
    for alias, want in (("tagged", 200), ("tagged:v1", 200), ("tagged:none", 404), ("nothing", 404), ("base", 200)):
        equal(server.request("GET", f"/templates/aliases/{quote(alias, safe='')}")[0], want, alias)


def test_lists_and_deletion(server):
    b, _, _ = build(server, "listed", [], cpuCount=1, memoryMB=256)
    ask(server, "listed")
    waiting = ask(server, "unbuilt")
    status, _, rows = server.request("GET", "/templates")
    found = {t["templateID"]: t for t in rows}
    one = found[b["templateID"]]
    equal((one["aliases"], one["cpuCount"], one["memoryMB"], one["buildCount"], one["buildStatus"], one["public"]),
          (["listed"], 1, 256, 2, "waiting", False))  # fmt: skip
    equal(found[waiting["templateID"]]["buildStatus"], "waiting")
    check("base" in found, "the server's own is missing")
    status, _, data = server.request("GET", f"/templates/{b['templateID']}")
    equal([x["status"] for x in data["builds"]], ["waiting", "ready"])
    equal(server.request("GET", "/templates/listed?limit=1")[2]["builds"][0]["status"], "waiting")
    equal(server.request("PATCH", "/v2/templates/listed", {"public": True})[0], 200)
    equal(server.request("GET", "/templates/aliases/listed")[2], {"templateID": b["templateID"], "public": True})
    equal(server.request("PATCH", f"/templates/{b['templateID']}", {"public": False})[2], None)
    box = Sandbox(server, templateID="listed")
    refused(server, 400, "DELETE", "/templates/listed", None, "sandboxes using it")
    box.kill()
    wait_for(lambda: server.request("DELETE", "/templates/listed")[0] == 204, 20)
    refused(server, 404, "DELETE", "/templates/listed")
    refused(server, 404, "GET", f"/templates/{b['templateID']}")
    check(ask(server, "listed")["templateID"] != b["templateID"], "the name still means the old template")
    refused(server, 403, "DELETE", "/templates/base")


def test_tenants_are_apart(server):
    mine = ask(server, "private")
    upload(server, mine, archive({"f": b"secret"}))
    start(server, mine, {"fromTemplate": "base", "steps": [COPY("f", "/f"), RUN("echo secret >g")]})
    finish(server, mine)
    key = server.tenant("other")[1]
    more = {"key": key}
    for method, path, body, want in (
        ("GET", f"/templates/{mine['templateID']}/builds/{mine['buildID']}/status", None, 404),
        ("GET", f"/templates/{mine['templateID']}/files/{HASH}", None, 403),
        ("GET", "/templates/aliases/" + mine["templateID"], None, 403),
        ("GET", f"/templates/{mine['templateID']}/tags", None, 403),
        ("POST", "/templates/tags", {"target": mine["templateID"], "tags": ["x"]}, 403),
        ("DELETE", f"/templates/{mine['templateID']}", None, 403),
        ("PATCH", f"/v2/templates/{mine['templateID']}", {"public": True}, 403),
        ("POST", "/v2/sandboxes", {"templateID": mine["templateID"]}, 404),
        ("POST", "/v2/sandboxes", {"templateID": mine["names"][0]}, 404),
    ):
        refused(server, want, method, path, body, **more)
    status, _, theirs = server.request("POST", "/v3/templates", {"name": "private"}, **more)
    equal(status, 202, "the same name in another namespace")
    check(theirs["templateID"] != mine["templateID"], "the id of another's template")
    equal(server.request("GET", f"/templates/{theirs['templateID']}/files/{HASH}", **more)[2]["present"], False)
    recipe = {"fromTemplate": "base", "steps": [RUN("echo secret >g")]}
    server.request("POST", f"/v2/templates/{theirs['templateID']}/builds/{theirs['buildID']}", recipe, **more)
    path = f"/templates/{theirs['templateID']}/builds/{theirs['buildID']}/status"
    wait_for(lambda: server.request("GET", path, **more)[2]["status"] == "ready", 30)
    logs = [e["message"] for e in server.request("GET", path, **more)[2]["logEntries"]]
    check(not any(m.startswith("CACHED [builder") for m in logs), f"a step of another tenant's cache: {logs}")


# --- ends


def test_cancelled_by_deletion(server):
    b = ask(server, "endless")
    start(server, b, {"fromTemplate": "base", "steps": [RUN("sleep 1000")]})
    try:
        wait_for(lambda: any("RUN sleep" in e["message"] for e in status_of(server, b)["logEntries"]), 20)
        [one] = wait_for(lambda: of_build(server, b), 20)
        check(one["id"] not in [s["sandboxID"] for s in server.request("GET", "/v2/sandboxes")[2]], "a step is no sandbox")
        equal(server.request("GET", f"/sandboxes/{one['id']}")[0], 404)
    finally:  # or it counts for the tests that follow
        equal(server.request("DELETE", f"/templates/{b['templateID']}")[0], 204)
    wait_for(lambda: not of_build(server, b), 20)
    refused(server, 404, "GET", f"/templates/{b['templateID']}/builds/{b['buildID']}/status")


def test_what_goes_with_a_template(server):
    """Whichever interface it is deleted by: its versions, its builds with their logs, and its uploads."""
    def kept(done, runs):
        with contextlib.closing(sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True)) as db:
            [[logs]] = db.execute("SELECT count(*) FROM build_log WHERE build IN (?, ?)", (done["buildID"], runs["buildID"]))
            [[uploads]] = db.execute("SELECT count(*) FROM build_upload WHERE template_id = ?", (done["templateID"],))
            return logs, uploads

    for name, path in (("gone-native", "/v1/templates/gone-native"), ("gone-e2b", "/templates/gone-e2b")):
        done, _, _ = build(server, name, [RUN("echo kept")])
        upload(server, done, archive({"f": b"x"}))
        runs = ask(server, name)
        start(server, runs, {"fromTemplate": "base", "steps": [RUN("sleep 1000")]})
        wait_for(lambda: of_build(server, runs), 20)
        check(all(kept(done, runs)), "neither logs nor uploads before it is deleted")
        equal(server.request("DELETE", path)[0], 204, path)
        wait_for(lambda: not of_build(server, runs), 20)
        for b in (done, runs):
            refused(server, 404, "GET", f"/templates/{b['templateID']}/builds/{b['buildID']}/status")
            refused(server, 404, "GET", f"/templates/{b['templateID']}/files/{HASH}")
        wait_for(lambda: kept(done, runs) == (0, 0), 20, "logs and uploads")
        equal(server.request("DELETE", path)[0], 404, "again")
    equal(server.request("DELETE", "/v1/templates/host")[0], 409, "the server's own")


def test_a_newer_start_ends_an_older_build(server):
    old = ask(server, "twice")
    start(server, old, {"fromTemplate": "base", "steps": [RUN("sleep 1000")]})
    new = ask(server, "twice")
    start(server, new, {"fromTemplate": "base", "steps": []})
    finish(server, new)
    data, _ = finish(server, old, "error")
    has(data["reason"]["message"], "superseded", "reason")


def test_the_free_disk_that_a_build_needs(server):
    refused(server, 507, "POST", "/v3/templates", {"name": "large", "minFreeDiskMb": 1 << 24}, "storage_reserve")
    refused(server, 400, "POST", "/v3/templates", {"name": "large", "minFreeDiskMb": -1}, "minFreeDiskMb")
    ask(server, "large", minFreeDiskMb=1)


def test_builds_are_bounded(server):
    running = [ask(server, f"many{i}") for i in range(2)]
    try:
        bounded(server, running)
    finally:
        for b in running:
            server.request("DELETE", f"/templates/{b['templateID']}")


def bounded(server, running):
    for b in running:
        start(server, b, {"fromTemplate": "base", "steps": [RUN("sleep 1000")]})
    third = ask(server, "many2")
    refused(server, 429, "POST", f"/v2/templates/{third['templateID']}/builds/{third['buildID']}",
            {"fromTemplate": "base", "steps": []}, "build_max")  # fmt: skip
    for b in running:
        equal(status_of(server, b)["status"], "building", "a refused start ends nothing")
    newer = ask(server, "many1")
    start(server, newer, {"fromTemplate": "base", "steps": []})
    finish(server, running[1], "error")  # the newer one takes its place
    finish(server, newer)


if __name__ == "__main__":
    run_tests(globals(), build_max=2)
