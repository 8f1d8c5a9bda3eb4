#!/usr/bin/python3 -B
"""Goal: whoever attacks state from the outside (templates, builds, uploads, pulled images), as another tenant or with a
key that may do little, sees nothing, changes nothing, fills nothing and brings nothing down.

    test_state_attacks.py CORDON [name ...]
"""
import io
import json
import os
import socket
import sys
import tarfile
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
from fake_registry import Registry
from harness import check, equal, has, run_tests, wait_for
from images import archive, member
from mcp_client import Client
from registry_images import Image, layer
from rows import database, number

BUILDS = "/v1/builds"
HASH = "ab" * 32


def tenant(server, name, **more):
    """(id, key of scope sessions, key of scopes sessions and admin)"""
    id, key = server.tenant(name, **more)
    return id, key, server.want(201, "POST", f"/v1/tenants/{id}/keys", {"scopes": ["admin", "sessions"]})["key"]


def build(server, name, steps, key="", want="ready", **recipe):
    made = server.want(201, "POST", BUILDS, {"name": name}, key=key)
    where = f"{BUILDS}/{made['id']}"
    server.want(202, "POST", where + "/start", {"fromTemplate": "base", "steps": steps, **recipe}, key=key)
    row = wait_for(lambda: (r := server.want(200, "GET", where, key=key))["status"] in ("ready", "error") and r, 60)
    equal(row["status"], want, f"{row}")
    return row


def run(command):
    return {"type": "RUN", "args": [command]}


def test_names_of_others_are_not_told(server):
    """A name that another tenant has is answered as one that nobody has."""
    _, _, one = tenant(server, "names-one")
    _, _, two = tenant(server, "names-two")
    build(server, "secret-project", [], key=one)
    server.want(201, "POST", BUILDS, {"name": "secret-waits"}, key=one)
    for name in ("secret-project", "secret-waits"):
        for method, path, body in (
            ("GET", "/templates/{}/tags", None), ("GET", "/templates/{}", None), ("GET", "/templates/aliases/{}", None),
            ("GET", "/templates/{}/files/" + HASH, None), ("DELETE", "/templates/{}", None), ("PATCH", "/v2/templates/{}", {"public": True}),
        ):  # fmt: skip
            status, _, answer = server.request(method, path.format(name), body, key=two)
            other, _, nobodys = server.request(method, path.format("x" * len(name)), body, key=two)
            equal((status, answer["message"].replace(name, "")), (other, nobodys["message"].replace("x" * len(name), "")), f"{method} {path} {name}")
        status, _, _ = server.request("POST", "/templates/tags", {"target": name, "tags": ["x"]}, key=two)
        equal(status, 404, f"tags of {name}")
    equal(server.request("DELETE", "/templates/base", key=two)[0], 403, "the operator's, which everybody sees")


def test_limited_keys_change_no_templates(server):
    """A key that may use a template by its name cannot make another one of that name."""
    _, sessions, admin = tenant(server, "limited")
    made = build(server, "tool", [], key=admin)
    narrow = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions", "admin"], "allow": {"templates": ["tool"]}}, key=admin)["key"]
    waiting = server.want(201, "POST", BUILDS, {"name": "tool"}, key=admin)
    for method, path, body in (
        ("POST", BUILDS, {"name": "tool"}), ("POST", "/v3/templates", {"name": "tool"}),
        ("POST", f"{BUILDS}/{waiting['id']}/start", {"fromTemplate": "tool"}),
        ("POST", f"/v2/templates/tool/builds/{waiting['id']}", {"fromTemplate": "tool"}),
        ("POST", "/templates/tags", {"target": "tool", "tags": ["x"]}), ("DELETE", "/templates/tags", {"name": "tool", "tags": ["x"]}),
        ("PATCH", "/templates/tool", {"public": True}), ("PATCH", "/v2/templates/tool", {"public": True}),
        ("DELETE", "/templates/tool", None), ("POST", "/v1/templates/pull", {"reference": "127.0.0.1/x"}),
        ("GET", f"/templates/{waiting['template_id']}/files/{HASH}", None), ("PUT", f"{BUILDS}/{waiting['id']}/files/{HASH}", b"x"),
        ("DELETE", f"{BUILDS}/{waiting['id']}", None),
    ):  # fmt: skip
        status, _, answer = server.request(method, path, body, key=narrow)
        equal(status, 403, f"{method} {path}: {answer}")
        has(json.dumps(answer), "limits of its own", f"{method} {path}")
    for path in ("/templates/tool", "/v2/templates/tool"):
        equal(server.request("PATCH", path, {"public": True}, key=sessions)[0], 403, "a key of scope sessions publishes")
    session = server.create(key=narrow, template="tool")["id"]
    for name in ("tool", "tool:v2"):
        server.refused(409, "conflict", "POST", f"/v1/sessions/{session}/snapshots", {"name": name}, key=narrow)
    server.want(409, "POST", f"/sandboxes/{session}/snapshots", {"name": "tool"}, key=sessions)
    server.delete(session, key=narrow)
    equal(server.want(200, "GET", "/v1/templates/tool", key=admin)["id"], made["version"], "the template")


def refused_over_mcp(server, client, session, admin, said):
    """Whatever a tool or resource shows or changes: the same as over REST."""
    x = server.want(200, "GET", f"/v1/sessions/{session}/executions", key=admin)["executions"][0]["id"]
    for tool, arguments in (
        ("run", {"command": "id"}), ("run", {"code": "1"}), ("list_files", {"path": "/"}), ("read_file", {"path": "/etc/passwd"}),
        ("write_file", {"path": "/usr/local/planted", "text": "x"}), ("get_changes", {}), ("read_output", {"execution_id": x}),
        ("open_port", {"port": 80}), ("session_info", {}), ("stop", {"execution_id": x}), ("stop", {}),
    ):  # fmt: skip
        if "execution_id" not in arguments:
            arguments["session_id"] = session
        client.fails(tool, said, **arguments)
    for what in ("", "/files/etc/passwd", f"/executions/{x}/output", "/changes"):
        status, _, answer = client.post("resources/read", {"uri": f"cordon://sessions/{session}{what}"})
        check("result" not in answer, f"{what}: {status} {answer}")
        has(answer["error"]["message"], said, what)


def test_limited_keys_stay_out_of_sessions_of_builds(server):
    """What is written in the session of a step becomes the team's template."""
    _, _, admin = tenant(server, "in-builds")
    narrow = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"], "allow": {"templates": ["base"]}}, key=admin)["key"]
    made = server.want(201, "POST", BUILDS, {"name": "theirs"}, key=admin)
    server.want(202, "POST", f"{BUILDS}/{made['id']}/start", {"fromTemplate": "base", "steps": [run("sleep 60")]}, key=admin)
    session = wait_for(lambda: next((s["id"] for s in server.want(200, "GET", "/v1/sessions", key=admin)["sessions"] if s["state"] == "running"), None), 30)
    where = f"/v1/sessions/{session}"
    for method, path, body in (
        ("GET", where, None), ("DELETE", where, None), ("POST", where + "/executions", {"command": "id"}), ("PUT", where + "/files?path=/x", b"x"),
        ("GET", where + "/files?path=/", None), ("POST", where + "/pause", None), ("POST", where + "/snapshots", {"name": "mine"}),
        ("GET", f"/sandboxes/{session}", None), ("POST", f"/sandboxes/{session}/pause", None),
    ):  # fmt: skip
        status, _, answer = server.request(method, path, body, key=narrow)
        equal(status, 403, f"{method} {path}: {answer}")
        said = answer["error"]["message"] if path.startswith("/v1") else answer["message"]
    for legacy in (False, True):
        refused_over_mcp(server, Client(server, narrow, legacy=legacy), session, admin, said)
    for port in (49983, 8000):
        status, _, answer = server.request("GET", "/health", headers={"Host": f"{port}-{session}.localhost"}, key=None)
        check(status >= 400, f"port {port} of a session of a build: {status} {answer}")
    equal(server.run(session, "echo in", key=admin)["stdout"], "in\n", "a key that may build")
    server.want(204, "DELETE", f"{BUILDS}/{made['id']}", key=admin)


def test_the_base_goes_while_a_build_runs(server):
    """A build that has folded its layers does not use the base any more, which may be deleted then; but it runs its
    start command."""
    command = "echo started-by-the-base; sleep 1000 # " + "s" * 200
    build(server, "gone-base", [], startCmd=command, readyCmd="true")
    made = server.want(201, "POST", BUILDS, {"name": "outlives"})
    where = f"{BUILDS}/{made['id']}"
    steps = [run(f"echo {i} >g{i}") for i in range(16)] + [run("echo here; while [ ! -e /tmp/go ]; do sleep 0.1; done")]
    server.want(202, "POST", where + "/start", {"fromTemplate": "gone-base", "steps": steps})
    wait_for(lambda: any("[stdout]: here" in e["message"] for e in server.want(200, "GET", where)["log"]), 60)
    server.want(204, "DELETE", "/templates/gone-base")
    wait_for(lambda: server.request("GET", "/v1/templates/gone-base")[0] == 404, 10)
    for i in range(8):  # what was freed is used again
        server.delete(server.create(metadata={"label": "x" * 200 + str(i)})["id"])
    session = next(s for s in server.want(200, "GET", "/v1/sessions?state=running")["sessions"] if s["metadata"].get("label") == "build")
    server.run(session["id"], ["touch", "/tmp/go"])
    row = wait_for(lambda: (r := server.want(200, "GET", where))["status"] in ("ready", "error") and r, 60)
    equal(row["status"], "ready", f"{row['reason']}")
    said = [e["message"] for e in row["log"] if e["message"].startswith("Running start command: ")]
    equal(said, ["Running start command: " + command])


def test_builds_end_while_others_wait_for_their_capture(server):
    """Two captures hold nearly all that the tenant may store, so that of a large step waits for them, and is refused as soon as one
    ends. Builds end one by one while that happens: by the removal of their template, and because newer ones take their tags."""
    disk = 4 << 30  # build_disk: what a capture reserves
    _, key, admin = tenant(server, "captures", max_stored=2 * disk + (40 << 20))
    work = {"x1": "many 8000", "x2": "many 8000", "w": "large 90", "c": "large 9"}
    script = ("many() { python3 -c \"import sys\nfor i in range($1): open(f'f{i}', 'w').write('x')\"; }; large() { head -c ${1}M /dev/urandom >f; };"
              " mkdir d; cd d; %s; touch /tmp/here; while [ ! -e /tmp/go ]; do sleep 0.02; done")  # fmt: skip
    cordond = server.pid("cordond")
    for turn, (how, delay) in enumerate((how, delay) for delay in (0, 0.2) for how in ("removed", "superseded")):
        name, builds = f"captures{turn}", {}
        for tag, what in work.items():
            made = server.want(201, "POST", BUILDS, {"name": f"{name}:{tag}"}, key=key)
            server.want(202, "POST", f"{BUILDS}/{made['id']}/start", {"fromTemplate": "base", "steps": [{**run(script % what), "force": True}]}, key=key)
            builds[tag] = made

        def sessions():
            listed = server.want(200, "GET", "/v1/sessions?state=running", key=key)["sessions"]
            found = {s["metadata"].get("cordon.build"): s["id"] for s in listed}
            return [found[b["id"]] for b in builds.values()] if all(b["id"] in found for b in builds.values()) else None

        x1, x2, w, c = wait_for(sessions, 60, "the sessions of all")
        for one in (x1, x2, w, c):
            wait_for(lambda: server.run(one, "ls /tmp/here", user="root", key=key)["exit_code"] == 0, 60, "the files of a step")
        for one in (x1, x2, c, w):
            server.spawn(one, "touch /tmp/go", user="root", key=key)
        time.sleep(delay)  # the captures are at another step when the builds end
        if how == "removed":
            remove(server, builds["w"]["template_id"], admin)
        else:
            for tag in ("x1", "x2", "c", "w"):
                server.want(201, "POST", BUILDS, {"name": f"{name}:{tag}"}, key=key)
            remove(server, builds["w"]["template_id"], admin)
        wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=running", key=key)["sessions"], 60, "the end of all")
    equal(server.pid("cordond"), cordond, "it was not started again")


def put(server, build_id, number, data=b"", key=""):
    status, _, answer = server.request("PUT", f"{BUILDS}/{build_id}/files/{number:064x}", data, key=key)
    return status, answer


def test_uploads_are_bounded_in_number(server):
    _, key, _ = tenant(server, "many-uploads")
    made = server.want(201, "POST", BUILDS, {"name": "many"}, key=key)
    folder = os.path.join(server.state, "uploads")
    before = len(os.listdir(folder))
    for i in range(1003):
        equal(put(server, made["id"], i, key=key)[0], 204)
    equal(len(os.listdir(folder)) - before, 1000, "files of empty uploads")
    server.restart()
    equal(len(os.listdir(folder)) - before, 1000, "the same after a restart")


def test_uploads_are_pushed_out_in_pieces(server):
    """A large archive that takes the place of a thousand small ones holds nobody up. tenant_uploads_max is 8M here, upload_max 4M."""
    id, key, admin = tenant(server, "pushes-out")
    made = server.want(201, "POST", BUILDS, {"name": "pushes"}, key=key)
    for i in range(900):
        equal(put(server, made["id"], i, b"x", key=key)[0], 204)
    for i in range(2):
        equal(put(server, made["id"], 1000 + i, bytes(4 << 20), key=key)[0], 204)
        before = number(server, f"SELECT count(*) FROM build_upload WHERE tenant = '{id}'")
        answers = server.want(200, "GET", "/readyz", key=None)
    check(before > 2, f"{before} are left when the answer comes: all were removed in one turn, {answers}")
    wait_for(lambda: number(server, f"SELECT sum(bytes) FROM build_upload WHERE tenant = '{id}'") <= 8 << 20, 60, "room")
    equal(number(server, f"SELECT count(*) FROM build_upload WHERE tenant = '{id}' AND hash >= '{1000:064x}'"), 2, "the new ones")
    remove(server, made["template_id"], admin)
    wait_for(lambda: number(server, f"SELECT count(*) FROM build_upload WHERE tenant = '{id}'") == 0, 20, "all to go")


def test_uploads_under_way_are_bounded(server):
    """What a tenant sends at a time counts before it is complete. tenant_uploads_max is 8M here, upload_max 4M."""
    _, key, _ = tenant(server, "wide-uploads")
    made = server.want(201, "POST", BUILDS, {"name": "wide"}, key=key)
    links, size = [], 3 << 20
    for i in range(5):
        link = socket.create_connection(server.address, timeout=30)
        link.sendall(f"PUT {BUILDS}/{made['id']}/files/{i:064x} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n"
                     f"Content-Length: {size}\r\n\r\n".encode() + bytes(size - 1))  # fmt: skip
        links.append(link)
    folder = os.path.join(server.state, "uploads")
    wait_for(lambda: written(folder) >= 7 << 20, 20)
    for link in links:
        link.sendall(b"x")
    answers = sorted(link.recv(4096).split(b"\r\n")[0].split(b" ")[1] for link in links)
    # A third one may come when the first is complete, and take its place.
    check(answers.count(b"204") <= 3 and b"429" in answers, f"{answers}")
    check(written(folder) <= 9 << 20, f"{written(folder)} bytes are kept")
    for link in links:
        link.close()
    equal(put(server, made["id"], 9, b"small", key=key)[0], 204, "the next one")


def written(folder):
    total = 0
    for name in os.listdir(folder):
        try:
            total += os.stat(os.path.join(folder, name)).st_size
        except FileNotFoundError:
            pass
    return total


def test_names_of_builds_are_bounded(server):
    """Builds that were asked for and cancelled, each of another name, leave a bounded number of rows."""
    _, key, _ = tenant(server, "many-names")
    kept = build(server, "kept", [], key=key)
    first = None
    for i in range(1030):
        made = server.want(201, "POST", BUILDS, {"name": f"n{i}"}, key=key)
        server.want(204, "DELETE", f"{BUILDS}/{made['id']}", key=key)
        first = first or made["id"]
    server.want(404, "GET", f"{BUILDS}/{first}", key=key)
    server.want(200, "GET", f"{BUILDS}/{made['id']}", key=key)
    equal(server.want(200, "GET", f"{BUILDS}/{kept['id']}", key=key)["status"], "ready", "one that made a version")


def busybox_image(*more):
    with open("/bin/busybox", "rb") as file:
        tools = {f"bin/{name}": file.read() for name in ("busybox",)}
    tools = {f"bin/{name}": tools["bin/busybox"] for name in ("sh", "cat", "mkdir", "chmod", "printf")}
    root = {"bin/": None, **tools, "etc/": None, "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "etc/group": b"root:x:0:\n", "tmp/": None}
    return Image([layer({**root, **dict(more)})], {"Env": ["PATH=/bin"]})


def test_public_images_count(server):
    """An image that is pulled without credentials is shared, but who pulls it pays for it."""
    id, _, admin = tenant(server, "puller")
    server.want(200, "PATCH", f"/v1/tenants/{id}", {"max_stored": 40 << 20})
    last = ""
    for i in range(4):
        found = Registry(busybox_image(("big", os.urandom(12 << 20))))
        status, _, answer = server.request("POST", "/v1/templates/pull", {"reference": f"127.0.0.1:{found.port}/t/x:t", "name": f"pulled{i}"}, key=admin)
        found.close()
        equal(status, 200)
        last = answer.decode()
        if "event: error" in last:
            break
    check("quota_stored" in last or "more than" in last, f"after {i} images: {last}")
    check(0 < i < 4, f"{i} images")


def test_images_of_the_operators_builds_are_its_own(server):
    """What a build pulled is not for all, even if it is the operator's build."""
    _, key, _ = tenant(server, "curious")
    found = Registry(busybox_image(("etc/private", b"secret of the operator")))
    made = server.want(201, "POST", BUILDS, {"name": "from-private"})
    server.want(202, "POST", f"{BUILDS}/{made['id']}/start", {"fromImage": f"127.0.0.1:{found.port}/team/private:t"})
    wait_for(lambda: server.want(200, "GET", f"{BUILDS}/{made['id']}")["status"] in ("ready", "error"), 60)
    found.close()
    names = [t["name"] for t in server.want(200, "GET", "/v1/templates")["templates"] if t["name"].startswith("image.")]
    equal(len(names), 1, "image of the build")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": names[0]}, key=key)
    equal([t["name"] for t in server.want(200, "GET", "/v1/templates", key=key)["templates"] if t["name"].startswith("image.")], [])


def test_an_archive_that_is_replaced_meanwhile(server):
    """The cache keeps the result of COPY under the digest of the archive that was unpacked."""
    def archive(text):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            info = tarfile.TarInfo("f")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        return out.getvalue()

    good, bad = archive(b"good"), archive(b"evil")
    copy = [{"type": "COPY", "args": ["f", "/f"], "filesHash": f"{7:064x}"}]
    _, key, _ = tenant(server, "raced", max_sessions=1, queue_length=4, queue_timeout="30s")
    held = server.create(key=key)["id"]  # the build waits for its session
    made = server.want(201, "POST", BUILDS, {"name": "raced"}, key=key)
    where = f"{BUILDS}/{made['id']}"
    equal(put(server, made["id"], 7, good, key=key)[0], 204)
    server.want(202, "POST", where + "/start", {"fromTemplate": "base", "steps": copy}, key=key)
    wait_for(lambda: any("[builder 1/1] COPY" in e["message"] for e in server.want(200, "GET", where, key=key)["log"]), 20)
    equal(put(server, made["id"], 7, bad, key=key)[0], 204)
    server.delete(held, key=key)
    wait_for(lambda: server.want(200, "GET", where, key=key)["status"] in ("ready", "error"), 60)
    equal(put(server, made["id"], 7, good, key=key)[0], 204)
    build(server, "raced", copy, key=key)
    session = server.create(template="raced", key=key)["id"]
    equal(server.run(session, ["cat", "/f"], key=key)["stdout"], "good")
    server.delete(session, key=key)


def cached(server, id):
    """Steps of a tenant in the cache."""
    return number(server, f"SELECT count(*) FROM build_cache WHERE tenant = '{id}'")


def remove(server, name, key):
    server.want(204, "DELETE", f"/templates/{name}", key=key)


def test_cached_steps_give_way(server):
    """They count for their tenant, which may want the room for something else, or all of it back."""
    id, _, key = tenant(server, "cached")
    server.want(200, "PATCH", f"/v1/tenants/{id}", {"max_stored": 30 << 20})
    for i in range(3):
        build(server, f"cached{i}", [run(f"head -c 9000000 /dev/urandom >~/{i}")], key=key)
    for i in range(3):
        remove(server, f"cached{i}", key)
    build(server, "cached3", [run("head -c 9000000 /dev/urandom >~/3")], key=key)
    remove(server, "cached3", key)
    check(cached(server, id) > 0, "some are left")
    server.want(204, "DELETE", BUILDS + "/cache", key=key)
    equal(cached(server, id), 0)
    wait_for(lambda: number(server, f"SELECT count(*) FROM layer WHERE tenant = '{id}'") == 0, 20, "the layers to go")


def test_env_takes_no_room_in_the_cache(server):
    """A row of the cache has the whole environment: ENV leaves none, and a step with a large one neither."""
    id, _, key = tenant(server, "env-cache")
    large = {"type": "ENV", "args": ["LARGE", "x" * 60000]}
    build(server, "env-small", [{"type": "ENV", "args": ["A", "1", "B", "$A$A"]}, run("true")], key=key)
    equal(cached(server, id), 1, "RUN only")
    build(server, "env-large", [large, run("true")], key=key)
    equal(cached(server, id), 1, "a step with a large environment")
    for name in ("env-small", "env-large"):
        remove(server, name, key)
    server.want(204, "DELETE", BUILDS + "/cache", key=key)


def test_pulls_at_once_share_a_quota(server):
    id, _, admin = tenant(server, "pullers")
    server.want(200, "PATCH", f"/v1/tenants/{id}", {"max_stored": 24 << 20})
    found = [Registry(busybox_image((f"big{i}", os.urandom(12 << 20)))) for i in range(4)]
    answers = []

    def pull(i):
        answers.append(server.request("POST", "/v1/templates/pull", {"reference": f"127.0.0.1:{found[i].port}/t/x:t", "name": f"at-once{i}"}, key=admin)[2])

    threads = [threading.Thread(target=pull, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    for r in found:
        r.close()
    done = [a for a in answers if b"event: template" in (a if isinstance(a, bytes) else b"")]
    check(len(done) <= 1, f"{len(done)} of 4 images of 14 MB in 24 MiB")
    check(all(b"tenant_max_stored" in a or a in done for a in map(lambda a: a if isinstance(a, bytes) else json.dumps(a).encode(), answers)), answers)


def test_uploads_that_wait_are_bounded(server):
    _, _, key = tenant(server, "waiting-uploads")
    made = server.want(201, "POST", BUILDS, {"name": "waiting-uploads"}, key=key)
    path, links, last = f"{BUILDS}/{made['id']}/files/", [], b""
    try:
        for i in range(257):
            link = socket.create_connection(server.address, timeout=20)
            links.append(link)
            link.sendall(f"PUT {path}{i:064x} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: 10\r\n\r\n".encode())
        last = links[-1].recv(4096)
    finally:
        for link in links:
            link.close()
    has(last.decode(), "429")
    has(last.decode(), "256 archives")


def slow_request(server, line, key):
    """A request with a body that has begun, and whose end does not come."""
    link = socket.create_connection(server.address, timeout=30)
    link.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: application/x-tar\r\nContent-Length: 1000\r\n\r\nx".encode())
    return link


def test_slow_tenants_keep_nobody_from_uploads(server):
    """Three tenants have all archives that are written at a time, and more that wait: another one's is written, too."""
    links, folder = [], os.path.join(server.state, "uploads")
    before = number(server, "SELECT count(*) FROM build_upload")
    wait_for(lambda: len(os.listdir(folder)) == before, 20, "what tests before have begun to go")
    try:
        for name in ("slow-one", "slow-two", "slow-three"):
            _, key, _ = tenant(server, name)
            made = server.want(201, "POST", BUILDS, {"name": name}, key=key)
            links += [slow_request(server, f"PUT {BUILDS}/{made['id']}/files/{i:064x}", key) for i in range(9)]
        wait_for(lambda: len(os.listdir(folder)) - before == 27, 20, "all to begin")
        _, key, _ = tenant(server, "quick-upload")
        made = server.want(201, "POST", BUILDS, {"name": "quick"}, key=key)
        # The time of one that sends nothing is over after 30 s.
        equal(server.request("PUT", f"{BUILDS}/{made['id']}/files/{1:064x}", b"quick", key=key, timeout=15)[0], 204)
    finally:
        for link in links:
            link.close()


def import_of(server, name, key):
    return server.request("POST", f"/v1/templates?name={name}", archive(member("f", b"1")), headers={"Content-Type": "application/x-tar"}, key=key)


def test_slow_tenants_keep_nobody_from_imports(server):
    links = []
    try:
        for i in range(4):
            _, _, key = tenant(server, f"slow-import{i}")
            links += [slow_request(server, f"POST /v1/templates?name=slow{k}", key) for k in range(2)]
            wait_for(lambda: import_of(server, "third", key)[0] == 429, 20, "both to begin")
        _, _, key = tenant(server, "quick-import")
        status, _, answer = import_of(server, "quick", key)
        equal(status, 201, f"{answer}")
    finally:
        for link in links:
            link.close()


def test_slow_tenants_keep_nobody_from_pulls(server):
    """Their registries do not answer."""
    gate, threads = threading.Event(), []
    slow, quick = (Registry(Image([layer({"f": name})], {})) for name in (b"slow", b"quick"))
    slow.answer = lambda target, headers: gate.wait(50) and None

    def pull(registry, name, key):
        return server.request("POST", "/v1/templates/pull", {"reference": f"127.0.0.1:{registry.port}/t/{name}:t", "name": name}, key=key)[2]

    try:
        for i in range(4):
            _, _, key = tenant(server, f"slow-pull{i}")
            threads += [threading.Thread(target=pull, args=(slow, f"slow{k}", key)) for k in range(4)]
        for t in threads:
            t.start()
        wait_for(lambda: len(slow.requests) >= 16, 20, "all to begin")
        has(f"{pull(quick, 'fifth', key)}", "too many images")
        _, _, key = tenant(server, "quick-pull")
        has(f"{pull(quick, 'quick', key)}", "event: template")
    finally:
        gate.set()
        for t in threads:
            t.join()
        slow.close()
        quick.close()


def test_old_logs_give_way(server):
    """All logs of a tenant have a bound: the oldest goes, in pieces, when one more build ends."""
    _, key, _ = tenant(server, "many-logs")
    rows = [build(server, f"logs{i}", [run(f"seq 1 100; exit {i}")], key=key, want="error" if i else "ready") for i in range(2)]
    entries = lambda row: number(server, f"SELECT count(*) FROM build_log WHERE build = '{row['id']}'")
    check(all(entries(row) > 100 for row in rows), f"{[entries(row) for row in rows]}")
    server.stop()
    with database(server, write=True) as db:
        db.execute("UPDATE build SET log_bytes = ? WHERE id = ?", (64 << 20, rows[0]["id"]))
    server.start()
    rows.append(build(server, "logs2", [run("seq 1 100; echo more")], key=key))
    wait_for(lambda: entries(rows[0]) == 0, 20, "the oldest log to go")
    check(all(entries(row) > 100 for row in rows[1:]), f"{[entries(row) for row in rows]}")
    got = server.want(200, "GET", f"{BUILDS}/{rows[0]['id']}", key=key)
    equal((got["status"], got["log"]), ("ready", []), "the build itself")


def fill_cache(server, first, tenants, n):
    """n steps more for each of these tenants, all of which were used later than `first`."""
    server.stop()
    with database(server, write=True) as db:
        db.execute("UPDATE build_cache SET used_ms = 1 WHERE tenant = ?", (first,))
        db.execute("BEGIN IMMEDIATE")
        for one in tenants:
            db.executemany("INSERT INTO build_cache (tenant, key, layer, bytes, used_ms, user, workdir, env) VALUES (?, ?, '', 512, 2, '', '', x'')",
                           [(one, f"{i:064x}") for i in range(n)])
        db.execute("COMMIT")
    server.start()


def test_steps_of_others_stay_in_the_cache(server):
    """A tenant with many cached steps pushes out its own, also if those of another were not used for longer."""
    quiet, _, quiet_key = tenant(server, "quiet-cache")
    busy, _, busy_key = tenant(server, "busy-cache")
    build(server, "quiet", [run("echo quiet >~/quiet")], key=quiet_key)
    fill_cache(server, quiet, [busy], 1000)
    build(server, "busy", [run("echo busy >~/busy")], key=busy_key)
    equal(cached(server, busy), 1000, "of one tenant")
    room = 10000 - number(server, "SELECT count(*) FROM build_cache")
    fill_cache(server, quiet, [f"ten_other{i}" for i in range(10)], room // 10)
    fill_cache(server, quiet, ["ten_last"], room % 10)
    build(server, "more", [run("echo more >~/more")], key=quiet_key)
    equal(number(server, "SELECT count(*) FROM build_cache"), 10000, "of all")
    equal(cached(server, quiet), 2)
    log = build(server, "again", [run("echo quiet >~/quiet")], key=quiet_key)["log"]
    check(any("CACHED" in e["message"] for e in log), f"{log}")


def test_a_log_of_control_characters_is_read(server):
    """Each is six characters of JSON: the answer has as many entries as fit, and the rest follows."""
    _, _, key = tenant(server, "control-log")
    row = build(server, "control-log", [run("head -c 3900000 /dev/zero | tr '\\0' '\\1' | fold -b -w 3900; echo; echo the end")], key=key)
    seen, messages = 0, []
    while True:
        got = server.want(200, "GET", f"{BUILDS}/{row['id']}?after={seen}", key=key)["log"]
        if not got:
            break
        seen += len(got)
        messages += [e["message"][-8:] for e in got]
    check(seen > 900 and any(m == " the end" for m in messages), f"{seen} entries, {messages[-3:]}")
    remove(server, "control-log", key)


def test_archives_and_logs_go_with_their_template(server):
    _, _, key = tenant(server, "archives-go")
    made = server.want(201, "POST", BUILDS, {"name": "archives-go"}, key=key)
    server.want(204, "PUT", f"{BUILDS}/{made['id']}/files/{HASH}", b"x" * 1000, key=key)
    server.want(202, "POST", f"{BUILDS}/{made['id']}/start", {"fromTemplate": "base", "steps": [run("seq 1 3000; exit 1")]}, key=key)
    wait_for(lambda: server.want(200, "GET", f"{BUILDS}/{made['id']}", key=key)["status"] == "error", 60)
    rows = lambda: (number(server, f"SELECT count(*) FROM build_log WHERE build = '{made['id']}'"),
                    number(server, f"SELECT count(*) FROM build_upload WHERE template_id = '{made['template_id']}'"), number(server, "SELECT count(*) FROM build_gone"))
    check(rows()[0] >= 3000 and rows()[1] == 1, f"{rows()}")
    files = len(os.listdir(os.path.join(server.state, "uploads")))
    remove(server, made["template_id"], key)
    wait_for(lambda: rows() == (0, 0, 0), 20, "logs and archives to go")
    equal(len(os.listdir(os.path.join(server.state, "uploads"))), files - 1)


if __name__ == "__main__":
    run_tests(globals(), registries="*, 127.0.0.1", tenant_uploads_max="8M", upload_max="4M")
