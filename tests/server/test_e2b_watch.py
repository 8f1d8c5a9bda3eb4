#!/usr/bin/python3
"""test_e2b_watch.py - E2B's watchers of directories, as streams and polled."""
import http.client
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sandbox_files import HOME, Sandbox, Watch, box  # noqa: E402
from harness import Failed, Server, check, equal, run_tests, wait_for  # noqa: E402
from level import differs  # noqa: E402


def test_watch(server):
    b = box(server)
    b.sh("mkdir -p w/sub")
    w = Watch(b, "w")
    equal(w.next(), (0, {"start": {}}), "first message")
    b.put("w/f", b"x")
    equal(w.until(("WRITE", "f")), [("CREATE", "f"), ("CHMOD", "f"), ("WRITE", "f")], "an upload, as by E2B's envd")
    b.put("w/f", b"y")
    equal(w.until(("WRITE", "f")), [("CHMOD", "f"), ("WRITE", "f")], "another")
    b.sh("chmod 600 w/f")
    equal(w.until(("CHMOD", "f"))[-1], ("CHMOD", "f"), "chmod")
    b.rpc("Move", {"source": "w/f", "destination": "w/g"})
    got = w.until(("CREATE", "g"))
    equal(got[-2:], [("RENAME", "f"), ("CREATE", "g")], "a rename")
    b.rpc("Remove", {"path": "w/g"})
    equal(w.until(("REMOVE", "g"))[-1], ("REMOVE", "g"), "remove")
    b.sh("touch w/sub/not-told; touch w/told")
    got = w.until(("CREATE", "told"))
    check(("CREATE", "sub/not-told") not in got and ("CREATE", "not-told") not in got, f"told of what is deeper: {got}")
    b.sh("rm -r w")
    while True:
        flags, m = w.next()
        if flags == 2:
            break
    equal(m, {}, "the end of a directory that is gone")
    equal(w.answer.read(), b"", "behind it")
    w.close()


def test_watch_recursive_with_entries(server):
    b = box(server)
    b.sh("mkdir -p wr/old")
    w = Watch(b, f"{HOME}/wr", recursive=True, includeEntry=True)
    equal(w.next(), (0, {"start": {}}), "first message")
    b.sh("mkdir -p wr/new/deep")
    w.until(("CREATE", "new"))
    time.sleep(0.2)  # the watcher adds the directories below; it has no event that says so
    metadata = b.put_with_metadata("wr/new/deep/f", b"12345", a="b")
    while (v := w.event())["name"] != "new/deep/f" or v["type"] != "EVENT_TYPE_WRITE":
        pass
    entry = v["entry"]
    equal((entry["path"], entry["size"], entry["owner"], entry["type"]), (f"{HOME}/wr/new/deep/f", "5", "user", "FILE_TYPE_FILE"), "entry")
    equal(entry.get("metadata"), metadata, "metadata of the entry")
    b.rpc("Remove", {"path": "wr/new/deep/f"})
    while (v := w.event())["type"] != "EVENT_TYPE_REMOVE":
        pass
    equal(v, {"name": "new/deep/f", "type": "EVENT_TYPE_REMOVE"}, "of what is gone")
    w.close()


def test_watch_refused(server):
    b = box(server)
    b.sh("touch wf")
    for path, code in ("none", "not_found"), ("wf", "invalid_argument"):
        w = Watch(b, path)
        flags, m = w.next()
        equal((flags, m["error"]["code"]), (2, code), f"WatchDir {path}")
        w.close()


def test_watch_ends(server):
    b = box(server)
    w = Watch(b, "/tmp", timeout=700, headers={"Keepalive-Ping-Interval": "1"})
    began = time.monotonic()
    equal(w.next(), (0, {"start": {}}), "first message")
    flags, m = w.next()
    equal((flags, m["error"]["code"]), (2, "deadline_exceeded"), "after the time")
    check(0.5 < time.monotonic() - began < 15, "the time")
    w = Watch(b, "/tmp", headers={"Keepalive-Ping-Interval": "1"})
    equal([w.next(), w.next()], [(0, {"start": {}}), (0, {"keepalive": {}})], "with a keepalive")
    w.close()


def test_watch_much(server):
    """A client that does not read holds nothing up, and gets everything, or learns that it did not."""
    b = box(server)
    b.sh("mkdir wm")
    w = Watch(b, "wm", includeEntry=True)
    equal(w.next(), (0, {"start": {}}), "first message")
    b.sh("cd wm; seq -f 'a-file-with-quite-a-long-name-so-that-there-is-something-to-send-%.0f' 1 3000 | xargs touch", timeout="60s")
    equal(b.get("/etc/hostname")[0]["accept-ranges"], "bytes", "others are served")
    made, flags = set(), 0
    while len(made) < 3000 and flags == 0:
        flags, m = w.next()
        if flags == 0 and m["filesystem"]["type"] == "EVENT_TYPE_CREATE":
            made.add(m["filesystem"]["name"])
    check(flags == 0 or m["error"]["code"] == "internal", f"{len(made)} told, then {m}")
    w.close()
    b.sh("rm -r wm")


def test_watch_dies_with_the_sandbox(server):
    b = Sandbox(server)
    w = Watch(b, "/tmp")
    w.next()
    server.delete(b.id)
    try:
        got = w.next()
        raise Failed(f"a last frame: {got}")
    except (ConnectionResetError, http.client.IncompleteRead, EOFError) as e:
        check(not isinstance(e, EOFError) or not w.answer.isclosed(), "a whole answer")
    equal(b.ask("POST", "/filesystem.Filesystem/Stat", b"{}", {"Content-Type": "application/json"})[0], 502, "afterwards")


def test_polled_watchers(server):
    b = box(server)
    b.sh("mkdir p")
    id = b.rpc("CreateWatcher", {"path": "p", "include_entry": True})["watcherId"]
    other = b.rpc("CreateWatcher", {"path": "p"})["watcherId"]
    check(id != other, "two ids")
    equal(b.rpc("GetWatcherEvents", {"watcherId": id}), {"events": []}, "nothing yet")
    b.put("p/f", b"abc")
    seen = []

    def ask():
        seen.extend(b.rpc("GetWatcherEvents", {"watcher_id": id})["events"])
        return any(v["type"] == "EVENT_TYPE_WRITE" for v in seen)

    wait_for(ask, 10, "the write")
    equal([(v["type"], v["name"], v["entry"]["size"]) for v in seen if v["type"] == "EVENT_TYPE_WRITE"], [("EVENT_TYPE_WRITE", "f", "3")], "events")
    equal(b.rpc("GetWatcherEvents", {"watcherId": id}), {"events": []}, "drained")
    equal(b.rpc("RemoveWatcher", {"watcherId": id}), {}, "RemoveWatcher")
    for name in "GetWatcherEvents", "RemoveWatcher":
        b.fails(name, {"watcherId": id}, 404, "not_found", f"watcher with id {id} not found")
    got = b.rpc("GetWatcherEvents", {"watcherId": other})["events"]
    check(got and all("entry" not in v for v in got), f"of the other one: {got}")
    b.fails("CreateWatcher", {"path": "none"}, 404, "not_found")
    b.fails("CreateWatcher", {"path": "/etc/passwd"}, 400, "invalid_argument")
    another = Sandbox(server)
    another.fails("GetWatcherEvents", {"watcherId": other}, 404, "not_found")
    server.delete(another.id)
    b.rpc("RemoveWatcher", {"watcherId": other})


def test_polled_watchers_are_bounded(server):
    b = Sandbox(server)
    b.sh("mkdir q")
    ids = [b.rpc("CreateWatcher", {"path": "q"})["watcherId"] for _ in range(64)]
    b.fails("CreateWatcher", {"path": "q"}, 429, "resource_exhausted", "64")
    for id in ids[1:]:
        b.rpc("RemoveWatcher", {"watcherId": id})
    for i in range(5):
        b.sh(f"cd q; seq -f 'n{i}-%.0f' 1 1000 | xargs touch; sleep 0.3")
    b.sh("touch q/last; sleep 0.5")
    events = b.rpc("GetWatcherEvents", {"watcherId": ids[0]})["events"]
    check(1000 < len(events) <= 4096, f"{len(events)} events")
    check("last" in [v["name"] for v in events], "the newest are kept")
    rest = [b.rpc("CreateWatcher", {"path": "q"})["watcherId"] for _ in range(3)]
    server.delete(b.id)
    equal(b.ask("POST", "/filesystem.Filesystem/GetWatcherEvents", json.dumps({"watcherId": rest[0]}).encode(), {"Content-Type": "application/json"})[0], 502, "with the sandbox")


def watched(server):
    """(watchers, bytes of events that wait in them), as /metrics has them."""
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    return tuple(int(re.search(rf"^{name} (\d+)$", text, re.M)[1]) for name in ("cordon_watchers", "cordon_watcher_event_bytes"))


def test_polled_watchers_whose_directory_is_gone(server):
    """Their built-ins have ended, so nothing but the end of the sandbox takes them away."""
    before = watched(server)
    for _ in range(3):
        b = Sandbox(server)
        b.sh("mkdir -p w/d1 w/d2")
        ids = [b.rpc("CreateWatcher", {"path": f"w/d{i}"})["watcherId"] for i in (1, 2)]
        b.sh("for i in 1 2; do (cd w/d$i; seq -f 'a-file-with-a-long-name-to-make-the-event-long-%.0f' 1 500 | xargs touch); done")
        wait_for(lambda: watched(server)[1] > before[1] + 10000, 10, "events")
        equal(watched(server)[0], before[0] + 2, "watchers")
        b.sh("rm -rf w")
        wait_for(lambda: len(server.programs(b.id)) == 1, 10, "end of the built-ins")
        check(watched(server)[1] > before[1], "events of a directory that is gone can still be fetched")
        check(b.rpc("GetWatcherEvents", {"watcherId": ids[0]})["events"], "events")
        server.delete(b.id)
        equal(watched(server), before, "watchers and bytes after the sandbox's end")


def test_polled_watchers_end_with_the_daemon():
    with Server(pool_size=1) as server:
        b = Sandbox(server)
        id = b.rpc("CreateWatcher", {"path": "/tmp"})["watcherId"]
        equal(len(server.programs(b.id)), 2, "programs of the session")
        server.restart()
        b.fails("GetWatcherEvents", {"watcherId": id}, 404, "not_found")
        if differs("watchers of files"):
            b.sh("touch /tmp/again")
        wait_for(lambda: len(server.programs(b.id)) == 1, 10, "end of the built-in")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
