#!/usr/bin/python3
"""The Connect protocol, byte by byte."""
import base64
import json
import socket
import time

from contract import PATIENCE, START, Broken, Sandbox, check, envelope, equal, run_tests, short, wait_for

PROCESS, FILES = "process.Process/", "filesystem.Filesystem/"
SOON_MS = 700 if PATIENCE == 1 else 6000  # a deadline behind the start of a shell


def test_frames_of_a_command(server):
    box = Sandbox(server)
    with box.stream(PROCESS + "Start", START("printf hi; exit 3")) as s:
        equal((s.status, s.headers["content-type"]), (200, "application/connect+json"))
        equal(s.headers.get("transfer-encoding"), "chunked")
        equal(s.headers.get("x-accel-buffering"), "no")
        check(
            "content-encoding" not in s.headers and "connect-content-encoding" not in s.headers, "nothing is compressed"
        )
        frames = []
        while True:
            flags, message = s.frame()
            frames.append((flags, message))
            if flags == 2:
                break
        equal(s.chunk(), b"", "the last chunk")
    (_, first), *data, (_, last), end = frames
    equal(list(first["event"]), ["start"])
    check(isinstance(first["event"]["start"]["pid"], int) and first["event"]["start"]["pid"] > 0, str(first))
    equal(b"".join(base64.b64decode(m["event"]["data"]["stdout"]) for _, m in data), b"hi")
    equal(
        last, {"event": {"end": {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}}}
    )
    equal(end, (2, {}))


def test_errors_of_streams_are_end_frames(server):
    box = Sandbox(server)
    equal(
        box.stream_error("unauthenticated", PROCESS + "Start", START("true"), user="root123")["message"],
        "invalid username: 'root123'",
    )
    nowhere = {"process": {"cmd": "/bin/true", "cwd": "/no/such"}}
    equal(box.stream_error("invalid_argument", PROCESS + "Start", nowhere)["message"], "cwd '/no/such' does not exist")
    box.stream_error("invalid_argument", PROCESS + "Start", {"process": {"cmd": "/no/such/program"}})
    equal(
        box.stream_error("not_found", PROCESS + "Connect", {"process": {"selector": None, "pid": 3999999}})["message"],
        "process with pid 3999999 not found",
    )
    box.stream_error("not_found", PROCESS + "Connect", {"process": {"tag": "no-such-tag"}})
    box.stream_error("not_found", FILES + "WatchDir", {"path": "none"})
    box.write("file")
    box.stream_error("invalid_argument", FILES + "WatchDir", {"path": "file"})
    box.stream_error("invalid_argument", PROCESS + "Start", {})
    box.stream_error("invalid_argument", PROCESS + "Start", {"process": {"cmd": 5}})
    box.stream_error("invalid_argument", PROCESS + "Start", {"process": {"cmd": "x", "args": "y"}})
    box.stream_error("unimplemented", PROCESS + "Connect", {})


def test_malformed_streams(server):
    """Bytes that are no envelope, or not one: an error, quickly, never a hang and never a process."""
    box = Sandbox(server)
    good = envelope(START("touch ran"))
    for name, body in {
        "nothing": b"",
        "half a head": good[:3],
        "half a message": good[:-1],
        "no JSON": envelope(b"{"),
        "an array": envelope(b"[]"),
        "two messages": good + good,
        "more than it says": good + b"x",
        "a length beyond all bounds": b"\0\xff\xff\xff\xff" + b"x" * 10,
        "compressed": b"\1" + good[1:],
        "an end frame": b"\2" + good[1:],
        "invalid UTF-8": envelope(b'{"process":{"cmd":"\xff"}}'),
        "very deep": envelope(b'{"process":' * 5000 + b"1" + b"}" * 5000),
    }.items():
        with box.stream(PROCESS + "Start", None, body=body) as s:
            if s.status == 200:
                equal(list(s), [], f"messages of {name}")
                check(
                    s.end.get("error", {}).get("code")
                    in ("invalid_argument", "unimplemented", "internal", "resource_exhausted"),
                    f"{name}: {s.end}",
                )
            else:
                check(400 <= s.status < 500, f"{name}: {s.status}")
    box.rpc_error("not_found", FILES + "Stat", {"path": "ran"})
    equal(box.run("echo alive")[1], b"alive\n")


def test_unary(server):
    box = Sandbox(server)
    status, headers, data = box.call(PROCESS + "List", {})
    equal((status, data), (200, {}) if data == {} else (200, {"processes": []}))
    check(headers["content-type"].startswith("application/json"), headers["content-type"])
    equal(box.rpc(FILES + "Remove", {"path": "none"}), {}, "an empty message")
    for bad in (b"{", b"[]", b'"x"', b"nul", b"{}{}"):
        status, _, data = box.call(FILES + "Stat", bad)
        check(status == 400 and data["code"] == "invalid_argument", f"{bad}: {status} {data}")
    box.rpc_error("invalid_argument", FILES + "Stat", {"path": 5})
    box.rpc_error("unauthenticated", FILES + "Stat", {"path": "x"}, "invalid username: 'root123'", user="root123")


def test_content_types_and_methods(server):
    box = Sandbox(server)
    for kind in ("text/plain", "application/proto", "application/connect+json", "application/grpc"):
        equal(box.call(FILES + "Stat", {"path": "/"}, headers={"Content-Type": kind})[0], 415, f"unary {kind}")
    for kind in ("application/json", "application/connect+proto", "text/plain"):
        with box.stream(PROCESS + "Start", START("true"), {"Content-Type": kind}) as s:
            equal(s.status, 415, f"stream {kind}")
    equal(box.call(FILES + "Stat", {"path": "/"}, headers={"Content-Type": "application/json; charset=utf-8"})[0], 200)
    equal(box.call(FILES + "Stat", {"path": "/"}, headers={"Content-Type": "Application/JSON"})[0], 200)
    for path in ("process.Process/Nothing", "filesystem.Filesystem/Chmod", "other.Service/Stat", "process.Process/"):
        equal(box.call(path, {})[0], 404, path)
    for method in ("GET", "PUT", "DELETE"):
        check(box.envd(method, "/filesystem.Filesystem/Stat")[0] in (404, 405), f"{method} of a call")


def test_what_python_sends(server):
    """Pretty-printed JSON, identity encodings named, snake_case, numbers for enums, strings for numbers, unknown fields."""
    box = Sandbox(server)
    pretty = json.dumps({"path": "/etc", "unknown_field": {"deep": [1, 2]}}, indent=2).encode()
    headers = {"Content-Encoding": "identity", "User-Agent": "e2b-python-sdk/2.34.0", "Connect-Timeout-Ms": "60000"}
    equal(box.rpc(FILES + "Stat", pretty, headers=headers)["entry"]["path"], "/etc")
    body = envelope(
        json.dumps(
            {**START("echo $A"), "process": {**START("echo $A")["process"], "envs": {"A": "b"}}}, indent=4
        ).encode()
    )
    with box.stream(
        PROCESS + "Start",
        None,
        {"Connect-Content-Encoding": "identity", "Connect-Accept-Encoding": "identity"},
        body=body,
    ) as s:
        equal(s.events()[-1][0], "end")
        equal(s.data, b"b\n")
    made = box.rpc(
        FILES + "CreateWatcher", {"path": ".", "include_entry": True, "allow_network_mounts": False, "recursive": False}
    )
    equal(box.rpc(FILES + "RemoveWatcher", {"watcher_id": made["watcherId"]}), {})
    equal(len(box.rpc(FILES + "ListDir", {"path": "/", "depth": "1"})["entries"]) > 5, True, "a number as text")
    s, pid = box.start("sleep 60")
    with s:
        equal(box.rpc(PROCESS + "SendSignal", {"process": {"pid": str(pid)}, "signal": 15}), {})
        ((_, end),) = s.events()
        equal((end["status"], end["exitCode"]), ("signal: terminated", -1))
    s, pid = box.start("sleep 60")
    with s:
        equal(box.rpc(PROCESS + "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}), {})
        equal(s.events()[-1][1]["status"], "signal: killed")


def test_what_newer_python_sends(server):
    """connectrpc: compact JSON without encodings, a deadline on every call, names of headers in lower case."""
    box = Sandbox(server)
    headers = {"accept-encoding": "", "user-agent": "connectrpc/0.11.0", "connect-timeout-ms": "60000"}
    equal(box.rpc(FILES + "Stat", {"path": "/etc"}, headers=headers)["entry"]["path"], "/etc")
    # A timeout below a millisecond is sent as one. Whether the call is faster or not, it ends as one or the other.
    status, _, data = box.call(FILES + "ListDir", {"path": "/usr", "depth": 3}, headers={**headers, "connect-timeout-ms": "1"})
    check(status == 200 or (status, data["code"]) == (504, "deadline_exceeded"), f"{status} {short(data)}")
    stream = {"keepalive-ping-interval": "50", "connect-timeout-ms": "60000"}
    with box.stream(PROCESS + "Start", START("echo out; echo err >&2; exit 3"), stream) as s:
        (kind, end) = s.events()[-1]
        equal((kind, end["exitCode"], end["status"]), ("end", 3, "exit status 3"))
    # The sync client watches by polling; a watcher that is gone is not_found.
    made = box.rpc(FILES + "CreateWatcher", {"path": "/tmp", "recursive": True}, headers=headers)["watcherId"]
    box.write("/tmp/seen", b"1")
    events = []

    def seen():
        events.extend(box.rpc(FILES + "GetWatcherEvents", {"watcherId": made}, headers=headers).get("events", []))
        return any(e["name"] == "seen" for e in events)

    wait_for(seen, 10 * PATIENCE, "the event")
    check(any(e["name"] == "seen" and e["type"] == "EVENT_TYPE_CREATE" for e in events), f"{events}")
    equal(box.rpc(FILES + "RemoveWatcher", {"watcherId": made}, headers=headers), {})
    box.rpc_error("not_found", FILES + "GetWatcherEvents", {"watcherId": made})
    box.kill()


def test_null_is_absent(server):
    box = Sandbox(server)
    message = {
        "process": {"cmd": "/bin/echo", "args": None, "envs": None, "cwd": None},
        "pty": None,
        "tag": None,
        "stdin": None,
    }
    with box.stream(PROCESS + "Start", message) as s:
        events = s.events()
        equal((events[-1][0], s.data), ("end", b"\n"))


def test_keepalives(server):
    box = Sandbox(server)
    began = time.monotonic()
    with box.stream(PROCESS + "Start", START("sleep 60"), {"Keepalive-Ping-Interval": "1"}) as s:
        pid = s.take()["event"]["start"]["pid"]
        for _ in range(2):
            equal(s.take(), {"event": {"keepalive": {}}})
        check(1.5 < time.monotonic() - began < 15, f"two keepalives in {time.monotonic() - began:.1f} s")
    with box.stream(PROCESS + "Connect", {"process": {"pid": pid}}, {"Keepalive-Ping-Interval": "1"}) as s:
        equal([s.take(), s.take()], [{"event": {"start": {"pid": pid}}}, {"event": {"keepalive": {}}}])
    with box.stream(FILES + "WatchDir", {"path": "."}, {"Keepalive-Ping-Interval": "1"}) as s:
        equal([s.take(), s.take()], [{"start": {}}, {"keepalive": {}}])


def test_deadlines(server):
    box = Sandbox(server)
    began = time.monotonic()
    with box.stream(PROCESS + "Start", START("echo $$ > pid; exec sleep 60"), {"Connect-Timeout-Ms": str(SOON_MS)}) as s:
        equal(s.events(), [("start", {"pid": int(read(box, "pid"))})])
        equal(s.end["error"]["code"], "deadline_exceeded")
    check(0.5 < time.monotonic() - began < 15 * PATIENCE, f"after {time.monotonic() - began:.1f} s")
    wait_for(
        lambda: box.call(FILES + "Stat", {"path": f"/proc/{read(box, 'pid')}"})[0] == 404, 4, "the end of the process"
    )
    s, pid = box.start("sleep 60")
    with box.stream(PROCESS + "Connect", {"process": {"pid": pid}}, {"Connect-Timeout-Ms": "500"}) as late:
        late.events()
        equal(late.end["error"]["code"], "deadline_exceeded")
    equal([p["pid"] for p in box.rpc(PROCESS + "List", {})["processes"]], [pid], "only the stream ended")
    s.close()
    with box.stream(FILES + "WatchDir", {"path": "."}, {"Connect-Timeout-Ms": "500"}) as s:
        equal(list(s), [{"start": {}}])
        equal(s.end["error"]["code"], "deadline_exceeded")
    for bad in ("x", "-5", "99999999999999999999"):
        with box.stream(PROCESS + "Start", START("true"), {"Connect-Timeout-Ms": bad}) as s:
            if s.status == 200:
                list(s)
                check(s.end == {} or s.end["error"]["code"] == "invalid_argument", f"{bad}: {s.end}")
            else:
                equal(s.status, 400, f"Connect-Timeout-Ms: {bad}")


def read(box, path):
    return wait_for(lambda: (a := box.envd("GET", "/files?path=" + path))[0] == 200 and a[2].strip().decode(), 5, path)


def test_killed_sandboxes_drop_their_streams(server):
    """No end frame, no last chunk; then 502."""
    for name, message in (
        (PROCESS + "Start", START("sleep 60")),
        (PROCESS + "Start", START("yes")),
        (FILES + "WatchDir", {"path": "."}),
    ):
        box = Sandbox(server)
        with box.stream(name, message) as s:
            s.take()
            box.kill()
            try:
                while True:
                    flags, got = s.frame()
                    check(flags == 0, f"an end frame: {got}")
            except Broken:
                pass
            except ConnectionResetError:
                pass
        equal(box.envd("GET", "/health")[0], 502)


def test_clients_that_leave_do_not_end_anything(server):
    box = Sandbox(server)
    s, pid = box.start("while :; do echo x; sleep 0.05; done")
    s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()
    time.sleep(0.3)  # cordond learns of the reset at a write
    equal([p["pid"] for p in box.rpc(PROCESS + "List", {}).get("processes", [])], [pid])
    with box.stream(PROCESS + "Connect", {"process": {"pid": pid}}) as again:
        equal(again.take(), {"event": {"start": {"pid": pid}}})
        equal(base64.b64decode(again.take()["event"]["data"]["stdout"])[:1], b"x")


def test_a_slow_reader_gets_everything(server):
    """And costs the server nothing: the command is done long before."""
    box = Sandbox(server)
    with box.stream(PROCESS + "Start", START("seq 1 400000; touch done")) as s:
        s.take()
        wait_for(lambda: box.call(FILES + "Stat", {"path": "done"})[0] == 200, 20, "the end of the command")
        s.events()
        equal(s.data, b"".join(b"%d\n" % i for i in range(1, 400001)))


def test_chunks_are_small(server):
    box = Sandbox(server)
    with box.stream(PROCESS + "Start", START("head -c 3000000 /dev/zero")) as s:
        sizes = [len(base64.b64decode(m["event"]["data"]["stdout"])) for m in s if "data" in m["event"]]
    equal(sum(sizes), 3000000)
    check(max(sizes) <= 32768, f"a chunk of {max(sizes)}")
    message = {
        "process": {"cmd": "/bin/sh", "args": ["-c", "stty raw -echo; head -c 500000 /dev/zero"]},
        "pty": {"size": {"cols": 80, "rows": 24}},
    }
    with box.stream(PROCESS + "Start", message) as s:
        sizes = [len(base64.b64decode(m["event"]["data"]["pty"])) for m in s if "data" in m["event"]]
    check(sum(sizes) >= 500000 and max(sizes) <= 16384, f"{sum(sizes)} in chunks of {max(sizes)} from a terminal")


def test_large_requests(server):
    box = Sandbox(server)
    text = "x" * 100000
    equal(box.run(f"v={text}; echo ${{#v}}")[1], b"100000\n")
    status, _, data = box.call(FILES + "Stat", {"path": "/" + "y" * 5000})
    check(status in (400, 404), f"a path of 5,000: {status} {short(data)}")
    s, pid = box.start("wc -c", stdin=True)
    with s:
        box.rpc(
            PROCESS + "SendInput",
            {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"z" * 3000000).decode()}},
        )
        box.rpc(PROCESS + "CloseStdin", {"process": {"pid": pid}})
        s.events()
        equal(s.data.strip(), b"3000000")


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
