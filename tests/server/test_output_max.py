#!/usr/bin/python3
"""test_output_max.py - the logs of one session stay within session_output_max: which of them go, which stay,
what their readers are told, and that neither a restart nor a crash makes the count forget anything."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, has, run_tests, wait_for  # noqa: E402
from level import LEVEL  # noqa: E402
from streams import Events, Wire  # noqa: E402
from test_process_rpc import Box, collect, ended  # noqa: E402

KILLS = True
MB = 1000000
MAX = 16 << 20
SLACK = 64 * 40  # the marks of cuts are written even if there is no room for them


def path_of(x):
    return f"/v1/sessions/{x['session_id']}/executions/{x['id']}"


def log_of(server, x):
    return os.path.join(server.state, "output", x["id"] + ".log")


def kept(server, x):
    """Bytes in its log; 0 if it has none."""
    try:
        return os.stat(log_of(server, x)).st_size
    except FileNotFoundError:
        return 0


def all_of(server, session):
    """Every execution of a session, oldest first."""
    got, after = [], ""
    while True:
        page = server.want(200, "GET", f"/v1/sessions/{session}/executions?order=asc&limit=1000{after}")
        got += page["executions"]
        if not page["next"]:
            return got
        after = f"&after={page['next']}"


def total(server, session):
    return sum(kept(server, x) for x in all_of(server, session))


def say(server, session, megabytes, **spec):
    """Runs one that says this much, in its own letter; the last byte is another."""
    spec.setdefault("output_limit", "64M")
    return server.run(session, f"head -c {megabytes * MB - 1} /dev/zero | tr '\\0' x; echo", **spec)


def output(server, x):
    """(bytes, total, truncated) of its stdout."""
    status, headers, data = server.request("GET", path_of(x) + "/output?stream=stdout", raw=True)
    equal(status, 200)
    return len(data), int(headers["x-cordon-total"]), headers["x-cordon-truncated"]


def told(server, x, after=""):
    """What its events tell: names, bytes, and the reason of a cut."""
    names, size, reason = [], 0, None
    with Events(server, path_of(x) + "/events" + after) as events:
        for event in events:
            if not names or names[-1] != event.name:
                names.append(event.name)
            if event.name == "stdout":
                size += len(event.data["text"])
            if event.name == "cut":
                reason = event.data["reason"]
    return names, size, reason


def is_whole(server, x, megabytes):
    equal(output(server, x), (megabytes * MB, megabytes * MB, "false"), x["id"])
    equal(server.execution(x)["output_truncated"], False, x["id"])


def is_gone(server, x, megabytes):
    equal(kept(server, x), 0, "its file")
    now = server.execution(x)
    equal((now["output_truncated"], now["stdout_bytes"], now["state"]), (True, megabytes * MB, "exited"), x["id"])
    equal(output(server, x), (0, megabytes * MB, "true"), x["id"])
    equal(told(server, x), (["start", "cut", "exit"], 0, "session"), x["id"])


def test_those_that_ended_first_go(server):
    s = server.create(timeout="1h")["id"]
    late = server.spawn(s, f"head -c {3 * MB} /dev/zero; read line", stdin_stream=True, output_limit="64M")
    wait_for(lambda: server.execution(late)["stdout_bytes"] == 3 * MB, 10, "what it says first")
    old = [say(server, s, 3) for _ in range(4)]
    for x in old:
        is_whole(server, x, 3)  # 15 MB fit
    server.want(200, "POST", path_of(late) + "/input?eof=true", b"")
    server.ended(late)
    new = say(server, s, 4)
    is_gone(server, old[0], 3)
    for x in old[1:] + [late]:  # began first, but ended last
        is_whole(server, x, 3)
    is_whole(server, new, 4)
    equal(told(server, old[1])[1:], (3 * MB, None))
    big = say(server, s, 6)  # needs two to go, not one
    is_gone(server, old[1], 3)
    is_gone(server, old[2], 3)
    is_whole(server, old[3], 3)
    is_whole(server, big, 6)
    check(total(server, s) <= MAX, total(server, s))


def test_a_reader_that_comes_back_is_told(server):
    s = server.create(timeout="1h")["id"]
    x = say(server, s, 10)
    with Events(server, path_of(x) + "/events") as events:
        for event in events:
            if event.name == "stdout":
                break
    say(server, s, 12)
    is_gone(server, x, 10)
    equal(told(server, x, f"?after={event.id}"), (["cut", "exit"], 0, "session"))


def test_too_much_for_all(server):
    """When nothing is left to go, what grows is cut; other sessions do not matter."""
    s, other = server.create(timeout="1h")["id"], server.create(timeout="1h")["id"]
    before, theirs = say(server, s, 2), say(server, other, 12)
    x = say(server, s, 40)
    equal((x["state"], x["exit_code"], x["limit"], x["output_truncated"]), ("exited", 0, "output", True))
    size, said, cut = output(server, x)
    equal((said, cut), (40 * MB, "true"))
    check(MAX - (1 << 20) < size < MAX, size)
    check(kept(server, x) <= MAX + SLACK, kept(server, x))
    equal(told(server, x), (["start", "stdout", "cut", "exit"], size, "session"))
    is_gone(server, before, 2)
    is_whole(server, theirs, 12)
    again = say(server, s, 3)
    is_whole(server, again, 3)
    is_gone(server, x, 40)


def on_disk(server):
    folder = os.path.join(server.state, "output")
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name != "removed")


def test_too_much_for_a_tenant(_):
    """All sessions of a tenant share tenant_max_output, ended ones until their retention is over; another tenant does
    not. A restart counts the same."""
    retention = "1s" if LEVEL == "container" else "10s"  # longer than from one session to the output of the next
    with Server(pool_size=1, tenant_max_output="6M", retention=retention) as server:
        _, key = server.tenant("other")
        first = server.create(timeout="1h")["id"]
        is_whole(server, say(server, first, 4), 4)
        server.want(204, "DELETE", f"/v1/sessions/{first}")
        second = server.create(timeout="1h")["id"]
        server.kill("cordond")
        server.wait_ready()
        check(say(server, second, 4)["output_truncated"], "both fit")
        check(on_disk(server) <= (6 << 20) + SLACK, f"{on_disk(server)} bytes of output are kept")
        wait_for(lambda: on_disk(server) < 3 * MB, 20, "retention of the ended session's output")
        is_whole(server, say(server, second, 3), 3)  # there is room again
        theirs = server.create(timeout="1h", key=key)["id"]
        done = server.run(theirs, f"head -c {5 * MB} /dev/zero", key=key)
        equal((done["stdout_bytes"], done["output_truncated"]), (5 * MB, False), "another tenant's output")


def test_own_limit_first(server):
    """What would not be kept anyway drives nothing out."""
    s = server.create(timeout="1h")["id"]
    before = say(server, s, 12)
    x = say(server, s, 40, output_limit=MB)
    equal(output(server, x), (MB, 40 * MB, "true"))
    equal(told(server, x)[2], "limit")
    is_whole(server, before, 12)


def test_running_ones_stay(server):
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, f"head -c {12 * MB} /dev/zero; sleep 60", output_limit="64M")
    wait_for(lambda: server.execution(x)["stdout_bytes"] == 12 * MB, 10, "what it says")
    y = say(server, s, 8)
    check(y["output_truncated"] and 0 < output(server, y)[0] <= MAX - 12 * MB, output(server, y))
    equal(told(server, y)[2], "session")
    equal(output(server, x), (12 * MB, 12 * MB, "false"))
    z = server.run(s, "echo hello")
    equal(z["stdout"], "hello\n", "an older, ended one goes for it")
    is_gone(server, y, 8)
    # One that keeps its output open has ended, and does not count as such.
    w = server.run(s, f"head -c {2 * MB} /dev/zero; sleep 60 &", output_limit="64M")
    equal((w["state"], w["output_open"]), ("exited", True))
    v = say(server, s, 8)
    equal(output(server, w), (2 * MB, 2 * MB, "false"))
    check(v["output_truncated"], v)
    check(total(server, s) <= MAX + SLACK, total(server, s))


def test_what_is_read_stays(server):
    s = server.create(timeout="1h")["id"]
    x = say(server, s, 12)
    with Wire(server, path_of(x) + "/output", {}, receive_buffer=4096) as slow:
        equal(slow.status, 200)
        y = say(server, s, 8)
        check(y["output_truncated"] and output(server, y)[0] <= MAX - 12 * MB, output(server, y))
        check(total(server, s) <= MAX + SLACK, total(server, s))
        size = 0
        while piece := slow.chunk():
            size += len(piece)
        equal(size, 12 * MB, "the slow one has all of it")
    z = say(server, s, 8)
    is_gone(server, x, 12)
    is_whole(server, z, 8)


def test_restart(server):
    s = server.create(timeout="1h")["id"]
    x = say(server, s, 12)
    live = server.spawn(s, f"head -c {2 * MB} /dev/zero; read line", stdin_stream=True, output_limit="64M")
    wait_for(lambda: server.execution(live)["stdout_bytes"] == 2 * MB, 10, "what it says")
    server.restart()
    is_whole(server, x, 12)
    wait_for(lambda: server.get(s)["executions_running"] == 1, 10, "the running one")
    y = say(server, s, 8)
    is_gone(server, x, 12)
    is_whole(server, y, 8)
    server.kill("cordond")
    wait_for(lambda: server.pid("cordond"), 10, "cordond")
    server.wait_ready()
    is_gone(server, x, 12)
    z = say(server, s, 40)  # the one that runs still has its share
    check(kept(server, z) + 2 * MB <= MAX + SLACK, kept(server, z))
    is_gone(server, y, 8)
    equal(output(server, live), (2 * MB, 2 * MB, "false"))
    check(total(server, s) <= MAX + SLACK, total(server, s))


def test_less_after_a_restart(_):
    with Server(pool_size=1, session_output_max="16M") as server:
        s = server.create(timeout="1h")["id"]
        old = [say(server, s, 3) for _ in range(5)]
        server.settings["session_output_max"] = "4M"
        server.restart()
        is_whole(server, old[0], 3)  # nothing happens before something grows
        x = say(server, s, 2)
        for y in old:
            is_gone(server, y, 3)
        is_whole(server, x, 2)


def test_died_before_the_row(server):
    """As if killed when the file was removed, and its row not written: readers know, the next one to
    need room sets it right."""
    s = server.create(timeout="1h")["id"]
    x, y = say(server, s, 6), say(server, s, 6)
    os.unlink(log_of(server, x))
    server.restart()
    equal(server.execution(x)["output_truncated"], False, "the row does not know yet")
    equal(output(server, x), (0, 6 * MB, "true"))
    equal(told(server, x), (["start", "cut", "exit"], 0, "session"))
    z = say(server, s, 8)
    is_gone(server, x, 6)
    is_whole(server, y, 6)  # it was not for nothing
    is_whole(server, z, 8)


def test_many_small_ones(_):
    """More than go in one turn of the loop: nothing of the new one is lost meanwhile."""
    with Server(pool_size=1, session_output_max="1M") as server:
        s = server.create(timeout="1h")["id"]

        def several(n):
            for _ in range(n):
                equal(server.run(s, "head -c 3000 /dev/zero")["stdout_bytes"], 3000)

        threads = [threading.Thread(target=several, args=(90,)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        gone = sum(x["output_truncated"] for x in all_of(server, s))
        check(0 < gone < 30, f"{gone} of 360 gone")
        x = say(server, s, 1)
        is_whole(server, x, 1)
        equal(sum(not y["output_truncated"] for y in all_of(server, s) if y["id"] != x["id"]) <= 16, True)
        check(total(server, s) <= (1 << 20) + SLACK, total(server, s))


def test_killed_at_any_time(server):
    """Whatever it was doing: the sum holds, and nothing that is not there is said to be."""
    s = server.create(timeout="1h")["id"]
    stop = threading.Event()

    def talk():
        while not stop.is_set():
            try:
                say(server, s, 3)
            except Exception:  # the daemon is being killed
                time.sleep(0.05)  # between two looks

    threads = [threading.Thread(target=talk) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(8):
        time.sleep(random.uniform(0.2, 0.6))  # the moment of the kill varies
        pid = server.kill("cordond")
        wait_for(lambda pid=pid: server.pid("cordond") not in (None, pid), 10, "cordond")
        server.wait_ready()
    stop.set()
    for t in threads:
        t.join()
    wait_for(lambda: server.get(s)["executions_running"] == 0, 20, "the end of all")
    x = say(server, s, 8)
    is_whole(server, x, 8)
    check(total(server, s) <= MAX + SLACK, total(server, s))
    ended_ones = all_of(server, s)
    check(len(ended_ones) > 12, f"{len(ended_ones)} executions")
    for y in ended_ones:
        size, said, cut = output(server, y)
        check(cut == "true" or size == said, f"{y['id']}: {size} of {said}, truncated {cut}")


def removed(server):
    return os.listdir(os.path.join(server.state, "output", "removed"))


def test_killed_while_a_large_log_goes(_):
    """Its space is freed in steps: the next daemon goes on, the row is true, and there is room."""
    with Server(pool_size=1, session_output_max="160M", tenant_max_output="160M", retention="1s") as server:
        s = server.create(timeout="1h")["id"]
        x = say(server, s, 150, output_limit="256M")
        is_whole(server, x, 150)
        y = server.spawn(s, f"head -c {20 * MB} /dev/zero; read line", stdin_stream=True, output_limit="64M")
        wait_for(lambda: removed(server) or not kept(server, x), 10, "the removal of the first log")
        pid = server.kill("cordond")
        wait_for(lambda: server.pid("cordond") not in (None, pid), 10, "cordond")
        server.wait_ready()
        wait_for(lambda: not removed(server), 10, "the end of what the killed one left")
        equal(output(server, x), (0, 150 * MB, "true"))
        wait_for(lambda: server.execution(y)["stdout_bytes"] == 20 * MB, 10, "what the other says")
        equal(output(server, y), (20 * MB, 20 * MB, "false"))
        is_whole(server, say(server, s, 130, output_limit="256M"), 130)
        is_gone(server, x, 150)
        server.stop()
        left = os.path.join(server.state, "output", "removed", x["id"] + ".log")
        with open(left, "wb") as f:
            f.truncate(40 * MB)
        os.chown(left, *(getattr(os.stat(os.path.dirname(left)), n) for n in ("st_uid", "st_gid")))
        server.start()
        wait_for(lambda: not removed(server), 10, "the end of a log that was half removed")
        server.delete(s)
        wait_for(lambda: on_disk(server) == 0 and not removed(server), 20, "the logs of an ended session")


def test_e2b(server):
    box = Box(server)
    out, _, end, _ = box.run(f"head -c {6 * MB} /dev/zero")
    equal((len(out), end), (6 * MB, ended(0)))
    out, _, end, _ = box.run(f"head -c {12 * MB} /dev/zero")
    equal((len(out), end), (12 * MB, ended(0)), "the first one has made room")
    first, second = all_of(server, box.id)
    equal((kept(server, first), kept(server, second) > 12 * MB), (0, True))
    stream = box.start(f"head -c {24 * MB} /dev/zero; sleep 60")
    pid = stream.pid()
    out, _, end, last = collect(stream)
    equal((end, last["error"]["code"]), (None, "resource_exhausted"))
    has(last["error"]["message"], "session_output_max")
    check(MAX - (1 << 20) < len(out) < MAX, len(out))
    equal(box.pids(), [pid], "it goes on")
    out, _, end, last = box.run("echo hello")
    equal((end, last["error"]["code"]), (None, "resource_exhausted"), "there is no room while that one runs")
    has(last["error"]["message"], "session_output_max")
    box.ok("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    wait_for(lambda: box.pids() == [], 10, "its end")
    equal(box.run("echo hello")[:3], (b"hello\n", b"", ended(0)))
    check(total(server, box.id) <= MAX + SLACK, total(server, box.id))


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, session_output_max=MAX)
