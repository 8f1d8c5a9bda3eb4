"""steps_e2b.py - the same for E2B's interface: its control plane, what it does not have, and a sandbox's own port."""
import hashlib
import json
import os
import re
import struct

from client import Finding
from steps_base import same, step
from steps_state import drop_snapshots, drop_volume
from world import b64

P, F = "process.Process/", "filesystem.Filesystem/"


def start(command, **more):
    return {"process": {"cmd": "/bin/sh", "args": ["-c", command]}, **more}


def frames_of(answer):
    """(messages, end) of a stream; an answer that is whole must have an end frame."""
    data, messages, end = answer.data, [], None
    while len(data) >= 5:
        flags, n = struct.unpack(">BI", data[:5])
        if len(data) < 5 + n:
            break
        payload, data = json.loads(data[5 : 5 + n]), data[5 + n :]
        if flags == 2:
            end = payload
        else:
            messages.append(payload)
    if answer.whole and (end is None or data):
        raise Finding(f"{answer!r}: a good end without an end frame")
    return messages, end


def envelope(message, flags=0):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


STREAM = {"Content-Type": "application/connect+json"}


def started(w, command, **more):
    """A process that goes on: its pid."""
    link = w.rpc_link("POST", "/" + P + "Start", envelope(start(command, **more)), STREAM)
    try:
        while not (found := re.search(rb'"pid":(\d+)[^\d]', link.bytes)):
            link.more()
        return int(found[1])
    finally:
        link.close()


# --- the control plane ------------------------------------------------------------------------------


def is_sandbox(w, ident):
    return w.server.request("GET", f"/sandboxes/{ident}")[0]


@step
def sandbox_create(w):
    yield
    made = [w.ask("POST", path, {"templateID": "base", "timeout": 300}) for path in ("/v2/sandboxes", "/sandboxes")]
    yield
    for a in made:
        if w.good(a, 201):
            same(is_sandbox(w, a.json["sandboxID"]), 200, "the sandbox that was acknowledged")
            w.server.ids.add(a.json["sandboxID"])
            w.server.want(204, "DELETE", f"/sandboxes/{a.json['sandboxID']}")


@step
def sandbox_look(w):
    yield
    paths = ["/health", "/v2/sandboxes", "/sandboxes", f"/sandboxes/metrics?sandbox_ids={w.box}", f"/sandboxes/{w.box}"]
    paths += [f"/sandboxes/{w.box}/{x}" for x in ("metrics", "logs")] + [f"/v2/sandboxes/{w.box}/logs"]
    paths += ["/templates", "/v2/templates", "/templates/aliases/base", "/templates/base", "/snapshots", "/volumes", "/teams"]
    answers = [w.ask("GET", p) for p in paths]
    yield
    for a in answers:
        if a.what.startswith(("GET /health", "GET /v2/sandboxes", "GET /sandboxes")):
            w.good(a, 200, 204)


@step
def sandbox_change(w):
    yield
    one = f"/sandboxes/{w.box}"
    answers = [w.ask("POST", one + "/timeout", {"timeout": 3000}), w.ask("POST", one + "/refreshes", {"duration": 3000})]
    answers.append(w.ask("POST", f"/v2{one}/connect", {"timeout": 3600}))
    answers.append(w.ask("POST", one + "/connect", {"timeout": 3600}))
    answers.append(w.ask("PUT", one + "/network", {"denyOut": ["0.0.0.0/0"]}))
    yield
    for a in answers:
        w.good(a, 200, 201, 204)


@step
def template_builds(w):
    """To the start; the build itself fails at once, since its base does not exist."""
    yield
    made = w.ask("POST", "/v3/templates", {"name": w.fresh("e2b-build")})
    asked = [(w.ask("POST", "/templates/tags", {"target": "none", "tags": ["x"]}), (404,))]
    asked.append((w.ask("DELETE", "/templates/tags", {"name": "none", "tags": ["x"]}), (404,)))
    if made.status == 202 and made.whole:
        one = f"/templates/{made.json['templateID']}"
        build = f"{one}/builds/{made.json['buildID']}"
        link = w.ask("GET", f"{one}/files/{'0' * 64}")
        asked.append((link, (201,)))
        if link.status == 201 and link.whole:
            asked.append((w.ask("PUT", "/" + link.json["url"].split("/", 3)[3], b"x" * 100000), (200,)))
        asked.append((w.ask("POST", "/v2" + build, {"fromTemplate": "none", "steps": []}), (202,)))
        asked += [(w.ask("GET", build + "/status"), (200,)), (w.ask("GET", build + "/logs"), (200,))]
        asked += [(w.ask("GET", one + "/tags"), (200,)), (w.ask("PATCH", one, {"public": True}), (404,))]
        asked += [(w.ask("PATCH", "/v2" + one, {"public": True}), (404,)), (w.ask("DELETE", one), (204,))]
    yield
    for a, want in asked:
        w.good(a, *want)
    w.good(made, 202)


@step
def template_list(w):
    """A build that has not begun is never shown as one that is ready, and never left out."""
    made = w.server.want(202, "POST", "/v3/templates", {"name": w.fresh("e2b-listed")})["templateID"]
    yield
    lists = [w.ask("GET", path) for path in ("/templates", "/v2/templates")]
    one = w.ask("GET", f"/templates/{made}")
    yield
    for a in lists:
        if w.good(a, 200):
            same([t["buildStatus"] for t in a.json if t["templateID"] == made], ["waiting"], "the build in the list")
    if w.good(one, 200):
        same([b["status"] for b in one.json["builds"]], ["waiting"], "the builds of a template")
    w.server.want(204, "DELETE", f"/templates/{made}")


@step
def volumes_of_e2b(w):
    """The volume and its content; the token is asked for without faults, as every content request needs one."""
    name = w.fresh("e2b-vol")
    token = w.server.want(201, "POST", "/volumes", {"name": name})
    base, key = f"/volumecontent/{token['volumeID']}", {"Authorization": "Bearer " + token["token"]}
    yield
    other = w.fresh("e2b-vol")
    made = w.ask("POST", "/volumes", {"name": other})
    asked = [(w.ask("GET", "/volumes"), (200,)), (w.ask("GET", f"/volumes/{name}"), (200,))]
    asked.append((w.ask("POST", base + "/dir?path=/d", headers=key), (201,)))
    asked.append((w.ask("PUT", base + "/file?path=/d/f&force=true", b"x" * 100000, headers=key), (201,)))
    for path in ("/dir?path=/&depth=2", "/path?path=/d/f", "/file?path=/d/f"):
        asked.append((w.ask("GET", base + path, headers=key), (200, 404)))
    asked.append((w.ask("PATCH", base + "/path?path=/d", {"mode": 448}, headers=key), (200, 404)))
    asked.append((w.ask("DELETE", base + "/path?path=/d", headers=key), (204, 404)))
    yield
    for a, want in asked:
        w.good(a, *want)
    names = [v["name"] for v in w.server.want(200, "GET", "/volumes")]
    if w.good(made, 201):
        same(other in names, True, "the volume that was acknowledged is there")
    same(name in names, True, "the volume that was there before is there")
    w.server.want(204, "DELETE", f"/volumes/{name}")
    drop_volume(w, other)


@step
def sandbox_life(w):
    made = w.server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})["sandboxID"]
    w.server.ids.add(made)
    yield
    one = f"/sandboxes/{made}"
    paused = w.ask("POST", one + "/pause", {})
    resumed = w.ask("POST", one + "/resume", {"timeout": 300}) if paused.status == 204 else None
    gone = w.ask("DELETE", one)
    yield
    w.good(paused, 204)
    if resumed is not None:
        w.good(resumed, 201)
    if w.good(gone, 204):
        same(is_sandbox(w, made), 404, "a sandbox that is gone")
    w.server.request("DELETE", one)


@step
def sandbox_snapshots(w):
    made = w.server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, "metadata": {"faults": "box"}})
    w.server.ids.add(made["sandboxID"])
    yield
    one, asked = f"/sandboxes/{made['sandboxID']}", []
    asked += [(w.ask("POST", one + "/snapshots", {}), (201,)), (w.ask("GET", "/snapshots"), (200,))]
    asked += [(w.ask("POST", one + "/fork", {"count": 1}), (201,)), (w.ask("POST", "/v2" + one + "/fork", {}), (201,))]
    asked += [(w.ask("POST", one + "/clone", {"count": 1}), (200,)), (w.ask("POST", one + "/reset", {}), (200,))]
    yield
    for a, want in asked:
        w.good(a, *want)
    drop_snapshots(w, made["sandboxID"])
    for s in w.server.want(200, "GET", "/v1/sessions?metadata.faults=box&ended=false&state=running,paused,stopped,pausing,resuming,creating")["sessions"]:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")


@step
def what_is_not_there(w):
    """Every route of the table that answers without doing anything, and those the other steps have no use for."""
    skip = ("/sandboxes", "/v2/sandboxes", "/secrets", "/health")
    routes = [(m, p) for t, m, p in sorted(w.routes) if t == "e2b" and not p.startswith(skip)]
    yield
    for method, path in routes:
        for name in ("sandbox", "template", "build", "hash", "volume", "team", "key", "token"):
            path = path.replace("{" + name + "}", w.box if name == "sandbox" else "base")
        w.ask(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
    yield


@step
def e2b_secrets(w):
    name = w.fresh("E2B_SECRET_")
    yield
    made = w.ask("POST", "/secrets", {"name": name, "value": "a-value"})
    answers = [w.ask("GET", "/secrets")]
    if made.status == 201:
        answers += [w.ask("GET", f"/secrets/{name}"), w.ask("POST", f"/secrets/{name}", {"value": "b-value"})]
        answers += [w.ask("PUT", f"/secrets/{name}", {"value": "c-value"}), w.ask("DELETE", f"/secrets/{name}")]
    yield
    for a in answers:
        w.good(a, 200, 204)
    if w.good(made, 201):
        last = answers[-1]
        if last.whole and last.status in (200, 204):
            same(w.server.request("GET", f"/secrets/{name}")[0], 404, "a secret that is gone")
    w.server.request("DELETE", f"/secrets/{name}")


# --- a sandbox's own port ---------------------------------------------------------------------------


@step
def envd_plain(w):
    yield
    for path in ("/health", "/metrics", "/envs"):
        w.good(w.rpc_raw("GET", path), 200, 204)
    yield


@step
def envd_files(w):
    one, two, data = w.fresh("/tmp/e"), w.fresh("/tmp/e"), os.urandom(120 << 10)
    raw = {"Content-Type": "application/octet-stream"}
    form = {"Content-Type": "multipart/form-data; boundary=XYZ"}
    part = b'--XYZ\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + data + b"\r\n--XYZ--\r\n"
    yield
    got = w.rpc_raw("GET", "/files?path=/tmp/fixed")
    put = w.rpc_raw("POST", f"/files?path={one}", data, raw)
    posted = w.rpc_raw("POST", f"/files?path={two}", part, form)
    whole = w.fresh("/tmp/whole")
    joined = w.rpc_raw("POST", "/files/compose", {"source_paths": ["/tmp/fixed"], "destination": whole})
    yield
    if w.good(got, 200):
        same(hashlib.md5(got.data).digest(), hashlib.md5(w.text).digest(), "the file's bytes")
    for a, path in ((put, one), (posted, two)):
        if w.good(a, 200):
            back = w.server.request("GET", f"/v1/sessions/{w.box}/files?path={path}", raw=True)[2]
            same(hashlib.md5(back).digest(), hashlib.md5(data).digest(), path)
    if w.good(joined, 200):
        back = w.server.request("GET", f"/v1/sessions/{w.box}/files?path={whole}", raw=True)[2]
        same(hashlib.md5(back).digest(), hashlib.md5(w.text).digest(), "what was composed")
    elif not w.server.request("GET", f"/v1/sessions/{w.box}/files/stat?path=/tmp/fixed")[0] == 200:
        w.rpc_raw("POST", "/files?path=/tmp/fixed", w.text, raw)
    w.rpc_raw("POST", "/files?path=/tmp/fixed", w.text, raw)


@step
def filesystem(w):
    one, two = w.fresh("/tmp/d"), w.fresh("/tmp/d")
    yield
    made = w.rpc(F + "MakeDir", {"path": one})
    more = [w.rpc(F + "Stat", {"path": "/tmp/fixed"}), w.rpc(F + "ListDir", {"path": "/tmp"})]
    moved = w.rpc(F + "Move", {"source": one, "destination": two}) if made.status == 200 else None
    gone = w.rpc(F + "Remove", {"path": two}) if moved is not None and moved.status == 200 else None
    yield
    for a in more:
        w.good(a, 200)
    if w.good(made, 200) and moved is not None and w.good(moved, 200) and gone is not None and w.good(gone, 200):
        same(w.rpc(F + "Stat", {"path": two}).status, 404, "what was removed")


@step
def watchers(w):
    yield
    made = w.rpc(F + "CreateWatcher", {"path": "/tmp"})
    asked = []
    if made.status == 200 and made.whole:
        who = {"watcherId": made.json["watcherId"]}
        asked = [w.rpc(F + "GetWatcherEvents", who), w.rpc(F + "RemoveWatcher", who)]
    yield
    if w.good(made, 200):
        for a in asked:
            if not (a.whole and a.status == 404):  # its built-in ended, and the watcher with it
                w.good(a, 200)


@step
def watch_dir(w):
    name = w.fresh("n")
    yield
    link = w.rpc_link("POST", "/" + F + "WatchDir", envelope({"path": "/tmp"}), STREAM)
    w.control.disarm()
    if link.socket is not None:
        link.socket.settimeout(2.5)
        wrote = False
        try:
            while name.encode() not in link.bytes:
                if b'"start"' in link.bytes and not wrote:
                    wrote = True
                    w.rpc_raw("POST", f"/files?path=/tmp/{name}", b"x", {"Content-Type": "application/octet-stream"})
                if b'"error"' in link.bytes or link.bytes.endswith(b"0\r\n\r\n"):
                    break
                link.more()
        except TimeoutError:
            raise Finding(f"WatchDir: nothing comes, and the stream goes on: {link.bytes[:300]!r}") from None
        except (EOFError, OSError):
            pass
    link.close()
    yield


@step
def process_run(w):
    yield
    answer = w.rpc_raw("POST", "/" + P + "Start", envelope(start("seq 1 2000; exit 3")), STREAM)
    yield
    if not w.good(answer, 200):
        return
    messages, end = frames_of(answer)
    events = [next(iter(m["event"].items())) for m in messages]
    ended = [e for name, e in events if name == "end"]
    if end == {} and ended and ended[0].get("exitCode") == 3:
        import base64 as b

        out = b"".join(b.b64decode(e.get("stdout", "")) for name, e in events if name == "data")
        same(out, "".join(f"{i}\n" for i in range(1, 2001)).encode(), "the output of a process with a good end")


@step
def process_input(w):
    pid = started(w, "cat > /tmp/typed; md5sum < /tmp/typed", stdin=True)
    who = {"process": {"pid": pid}}
    yield
    listed = w.rpc(P + "List", {})
    typed = w.rpc(P + "SendInput", {**who, "input": {"stdin": b64(b"hello\n")}})
    frames = envelope({"start": who}) + envelope({"data": {"input": {"stdin": b64(b"more\n")}}})
    streamed = w.rpc_raw("POST", "/" + P + "StreamInput", frames, STREAM)
    closed = w.rpc(P + "CloseStdin", who)
    yield
    w.good(listed, 200)
    ok = [w.good(typed, 200), w.good(streamed, 200) and not frames_of(streamed)[1], w.good(closed, 200)]
    if all(ok):
        read = lambda: w.server.request("GET", f"/v1/sessions/{w.box}/files?path=/tmp/typed", raw=True)[2]  # noqa: E731
        if not w.settle(lambda: read() == b"hello\nmore\n", 8):
            raise Finding(f"acknowledged input is not there: {read()!r}")
    w.rpc(P + "SendSignal", {**who, "signal": "SIGNAL_SIGKILL"})


@step
def process_connect(w):
    pid = started(w, "while :; do sleep 0.1; done")
    who = {"process": {"pid": pid}}
    yield
    link = w.rpc_link("POST", "/" + P + "Connect", envelope(who), STREAM)
    killed = w.rpc(P + "SendSignal", {**who, "signal": "SIGNAL_SIGKILL"})
    if killed.status != 200:
        w.control.disarm()
        w.rpc(P + "SendSignal", {**who, "signal": "SIGNAL_SIGKILL"})
    answer = link.finish()
    yield
    w.good(killed, 200)
    if w.good(answer, 200):
        frames_of(answer)
    w.rpc(P + "SendSignal", {**who, "signal": "SIGNAL_SIGKILL"})


@step
def process_terminal(w):
    pid = started(w, "sleep 100", pty={"size": {"rows": 20, "cols": 30}})
    who = {"process": {"pid": pid}}
    yield
    answer = w.rpc(P + "Update", {**who, "pty": {"size": {"rows": 21, "cols": 31}}})
    yield
    w.good(answer, 200)
    w.rpc(P + "SendSignal", {**who, "signal": "SIGNAL_SIGKILL"})


@step
def port(w):
    """A request to a port where nothing listens: the proxy's refusal, whatever fails."""
    yield
    from client import Link

    answer = Link(w.server.address, "GET", "/", w.envd_headers(9999), None).finish()
    yield
    if answer.whole and answer.status == 200:
        raise Finding(f"{answer!r}: nothing listens there")
