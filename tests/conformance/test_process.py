#!/usr/bin/python3
"""process.Process: start, connect, input, signals, list, resize."""
import base64
import re
import time

from contract import START, Sandbox, check, equal, run_tests, short, wait_for

P = "process.Process/"
NO_PID = "process with pid 3999999 not found"


def ended(box, command, **more):
    """(the end event, output)"""
    events, data = box.run(command, **more)
    equal([e[0] for e in events], ["start", "end"], command)
    return events[1][1], data


def processes(box):
    return box.rpc(P + "List", {}).get("processes", [])


def text(data):
    return base64.b64encode(data).decode()


def test_how_processes_end(server):
    box = Sandbox(server)
    ok, _ = ended(box, "true")
    equal((ok.get("exitCode", 0), ok["exited"], ok["status"]), (0, True, "exit status 0"))
    check("error" not in ok, f"an error of a success: {ok}")
    equal(
        ended(box, "exit 255")[0],
        {"exitCode": 255, "exited": True, "status": "exit status 255", "error": "exit status 255"},
    )
    for number, word in ((9, "killed"), (15, "terminated")):
        end, _ = ended(box, f"kill -{number} $$")
        equal(
            (end["exitCode"], end.get("exited", False), end["status"], end["error"]),
            (-1, False, f"signal: {word}", f"signal: {word}"),
        )


def test_environment(server):
    box = Sandbox(server, envVars={"A": "sandbox", "B": "sandbox", "HOME": "/elsewhere"})
    message = {"process": {"cmd": "/usr/bin/env", "envs": {"B": "call"}}}
    with box.stream(P + "Start", message) as s:
        s.events()
    env = dict(line.split("=", 1) for line in s.data.decode().splitlines())
    equal(
        (env["A"], env["B"], env["HOME"], env["USER"], env["LOGNAME"]),
        ("sandbox", "call", "/elsewhere", "user", "user"),
    )
    equal((env["E2B_SANDBOX"], env["E2B_SANDBOX_ID"]), ("true", box.id))
    check(env["E2B_TEMPLATE_ID"], "E2B_TEMPLATE_ID")
    check("/usr/bin" in env["PATH"].split(":"), env["PATH"])
    equal(box.envd("GET", "/envs")[2].get("A"), "sandbox")


def test_users_and_directories(server):
    box = Sandbox(server)
    equal(ended(box, "id -un; pwd")[1], b"user\n/home/user\n")
    equal(ended(box, "id -un; pwd", user="root")[1], b"root\n/root\n")
    equal(ended(box, "id -un; pwd", user="user")[1], b"user\n/home/user\n")
    box.rpc("filesystem.Filesystem/MakeDir", {"path": "sub"})
    for cwd, want in (
        ("/tmp", "/tmp"),
        ("~", "/home/user"),
        ("~/sub", "/home/user/sub"),
        ("sub", "/home/user/sub"),
        ("", "/home/user"),
    ):
        with box.stream(P + "Start", {"process": {"cmd": "/bin/pwd", "cwd": cwd}}) as s:
            s.events()
            equal(s.data.decode().strip(), want, f"cwd {cwd!r}")
    for header in ("Basic !!", "Basic dXNlcg==", "Bearer x"):  # the second has no colon
        with box.stream(P + "Start", START("id -un"), {"Authorization": header}) as s:
            check(s.status in (200, 400, 401), f"{header}: {s.status}")


def test_list_and_tags(server):
    box = Sandbox(server)
    equal(processes(box), [])
    message = {"process": {"cmd": "/bin/sleep", "args": ["60"], "envs": {"K": "v"}, "cwd": "/tmp"}, "tag": "mine"}
    s = box.stream(P + "Start", message)
    pid = s.take()["event"]["start"]["pid"]
    equal(
        processes(box),
        [
            {
                "config": {"cmd": "/bin/sleep", "args": ["60"], "envs": {"K": "v"}, "cwd": "/tmp"},
                "pid": pid,
                "tag": "mine",
            }
        ],
    )
    with box.stream(P + "Connect", {"process": {"tag": "mine"}}) as c:
        equal(c.take(), {"event": {"start": {"pid": pid}}})
        box.rpc(P + "SendSignal", {"process": {"tag": "mine"}, "signal": "SIGNAL_SIGTERM"})
        ((kind, end),) = c.events()
        equal((kind, end["status"]), ("end", "signal: terminated"))
    ((kind, end),) = s.events()
    equal((kind, end["error"]), ("end", "signal: terminated"))
    s.close()
    equal(processes(box), [])
    box.rpc_error("not_found", P + "SendSignal", {"process": {"tag": "mine"}, "signal": 9})


def test_no_other_process_can_be_touched(server):
    """Only what this service has started: not PID 1, not the child of a command."""
    box = Sandbox(server)
    s, pid = box.start("sleep 61 & echo $!; wait")
    child = int(base64.b64decode(s.take()["event"]["data"]["stdout"]))
    for other in (1, child, 0, 4294967295):
        box.rpc_error("not_found", P + "SendSignal", {"process": {"pid": other}, "signal": 9})
        box.stream_error("not_found", P + "Connect", {"process": {"pid": other}})
    box.rpc(P + "SendSignal", {"process": {"pid": pid}, "signal": 9})
    s.close()


def test_signals(server):
    box = Sandbox(server)
    s, pid = box.start("trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    with s:
        equal(base64.b64decode(s.take()["event"]["data"]["stdout"]), b"up\n")
        for bad in ("SIGNAL_UNSPECIFIED", 0, 2, 1, "SIGNAL_SIGINT"):
            status, _, data = box.call(P + "SendSignal", {"process": {"pid": pid}, "signal": bad})
            check(
                data["code"] in ("unimplemented", "invalid_argument") and status in (501, 400),
                f"{bad}: {status} {data}",
            )
        equal(box.call(P + "SendSignal", {"process": {"pid": pid}, "signal": 2})[2]["code"], "unimplemented")
        equal(box.rpc(P + "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"}), {})
        end = s.events()[-1][1]
        equal((end["exitCode"], end["exited"]), (5, True), "it may end as it likes")
    box.rpc_error("not_found", P + "SendSignal", {"process": {"pid": 3999999}, "signal": 9}, NO_PID)
    box.rpc_error("not_found", P + "SendSignal", {"process": {"pid": pid}, "signal": 9})


def test_input(server):
    box = Sandbox(server)
    s, pid = box.start("cat", stdin=True)
    who = {"process": {"pid": pid}}
    with s:
        for data in (b"one ", b"", b"two\n"):
            equal(box.rpc(P + "SendInput", {**who, "input": {"stdin": text(data)}}), {})
        got = b""
        while got != b"one two\n":
            got += base64.b64decode(s.take()["event"]["data"]["stdout"])
        box.rpc_error("internal", P + "SendInput", {**who, "input": {"pty": text(b"x")}})
        box.rpc_error("invalid_argument", P + "SendInput", {**who, "input": {"stdin": "not base64!"}})
        box.rpc_error("invalid_argument", P + "SendInput", {**who, "input": {"stdin": 5}})
        equal(box.rpc(P + "CloseStdin", who), {})
        equal(s.events()[-1][1]["status"], "exit status 0")
    for name, message in (
        ("SendInput", {"input": {"stdin": ""}}),
        ("CloseStdin", {}),
        ("Update", {"pty": {"size": {"cols": 1, "rows": 1}}}),
    ):
        box.rpc_error("not_found", P + name, {"process": {"pid": 3999999}, **message}, NO_PID)
        status, _, data = box.call(P + name, message)
        check(
            data.get("code") in ("invalid_argument", "not_found", "unimplemented"), f"{name} of nobody: {status} {data}"
        )


def test_stdin_is_a_pipe_unless_refused(server):
    box = Sandbox(server)
    message = {"process": {"cmd": "/bin/cat"}}
    with box.stream(P + "Start", message) as s:  # stdin absent
        pid = s.take()["event"]["start"]["pid"]
        box.rpc(P + "SendInput", {"process": {"pid": pid}, "input": {"stdin": text(b"x")}})
        box.rpc(P + "CloseStdin", {"process": {"pid": pid}})
        s.events()
        equal(s.data, b"x")
    s, pid = box.start("readlink /proc/self/fd/0; sleep 60")
    with s:
        equal(base64.b64decode(s.take()["event"]["data"]["stdout"]), b"/dev/null\n")
        box.rpc_error(
            "internal",
            P + "SendInput",
            {"process": {"pid": pid}, "input": {"stdin": text(b"x")}},
            "stdin not enabled or closed",
        )


def test_terminal(server):
    box = Sandbox(server)
    message = {
        "process": {"cmd": "/bin/bash", "args": ["-i", "-l"], "envs": {"TERM": "xterm-256color"}},
        "pty": {"size": {"cols": 77, "rows": 33}},
    }
    with box.stream(P + "Start", message) as s:
        pid = s.take()["event"]["start"]["pid"]
        who = {"process": {"pid": pid}}
        screen = b""

        def shows(pattern):
            nonlocal screen
            end = time.monotonic() + 8
            while not re.search(pattern, screen):
                check(time.monotonic() < end, f"no {pattern} in {short(screen)}")
                screen += base64.b64decode(s.take()["event"]["data"]["pty"])

        box.rpc(P + "SendInput", {**who, "input": {"pty": text(b"stty size\n")}})
        shows(rb"33 77\r\n")
        equal(box.rpc(P + "Update", {**who, "pty": {"size": {"cols": 100, "rows": 44}}}), {})
        box.rpc(P + "SendInput", {**who, "input": {"pty": text(b"stty size\n")}})
        shows(rb"44 100\r\n")
        box.rpc_error("internal", P + "SendInput", {**who, "input": {"stdin": text(b"x")}})
        for bad in ({"cols": -1, "rows": 1}, {"cols": 1 << 40, "rows": 1}, {"cols": "x", "rows": 1}):
            box.rpc_error("invalid_argument", P + "Update", {**who, "pty": {"size": bad}})
        box.rpc(P + "SendInput", {**who, "input": {"pty": text(b"exit 3\n")}})
        equal(s.events()[-1][1]["exitCode"], 3)
    plain, pid = box.start("sleep 60")
    status, _, data = box.call(P + "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 1, "rows": 1}}})
    check(status >= 400 and data["code"] in ("internal", "failed_precondition", "invalid_argument"), f"{status} {data}")
    plain.close()


def test_listeners(server):
    box = Sandbox(server)
    s, pid = box.start("read x; echo one; read x; echo two; exit 4", stdin=True)
    go = lambda: box.rpc(P + "SendInput", {"process": {"pid": pid}, "input": {"stdin": text(b"\n")}})  # noqa: E731
    others = [box.stream(P + "Connect", {"process": {"pid": pid}}) for _ in range(3)]
    for other in others:
        equal(other.take(), {"event": {"start": {"pid": pid}}})
    go()
    for one in (s, *others):
        equal(base64.b64decode(one.take()["event"]["data"]["stdout"]), b"one\n")
    late = box.stream(P + "Connect", {"process": {"pid": pid}})
    equal(late.take(), {"event": {"start": {"pid": pid}}})
    go()
    for one in (s, late, *others):
        ((kind, end),) = one.events()
        equal((kind, end["exitCode"], one.data), ("end", 4, b"two\n"), "no replay")
        one.close()
    with box.stream(P + "Connect", {"process": {"pid": pid}}) as after:
        equal([(k, e.get("exitCode")) for k, e in after.events()], [("start", None), ("end", 4)], "remembered for 30 s")
        equal(after.end, {})
    equal(processes(box), [])


def test_a_killed_process_ends_its_stream_though_children_hold_it(server):
    box = Sandbox(server)
    s, pid = box.start("(trap '' HUP TERM; sleep 62) & echo up; wait")
    with s:
        s.take()
        began = time.monotonic()
        box.rpc(P + "SendSignal", {"process": {"pid": pid}, "signal": 9})
        equal(s.events()[-1][1]["status"], "signal: killed")
        check(time.monotonic() - began < 8, "late")


def test_many_processes(server):
    box = Sandbox(server)
    streams = [box.start(f"sleep 60; echo {i}") for i in range(30)]
    equal(sorted(p["pid"] for p in processes(box)), sorted(pid for _, pid in streams))
    for s, pid in streams:
        box.rpc(P + "SendSignal", {"process": {"pid": pid}, "signal": 9})
    for s, _ in streams:
        equal(s.events()[-1][0], "end")
        s.close()
    wait_for(lambda: not processes(box), 15, "an empty list")


def test_stream_input(server):
    """No SDK uses it: either it works, or it says that it does not; it never hangs."""
    from contract import envelope

    box = Sandbox(server)
    s, pid = box.start("cat", stdin=True)
    body = (
        envelope({"start": {"process": {"pid": pid}}})
        + envelope({"data": {"input": {"stdin": text(b"streamed")}}})
        + envelope({"keepalive": {}})
    )
    with s, box.stream(P + "StreamInput", None, body=body) as up:
        if up.status == 200:
            list(up)
        if up.status == 200 and up.end == {}:
            box.rpc(P + "CloseStdin", {"process": {"pid": pid}})
            s.events()
            equal(s.data, b"streamed")
        else:
            check(up.status in (404, 501) or up.end["error"]["code"] == "unimplemented", f"{up.status} {up.end}")


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
