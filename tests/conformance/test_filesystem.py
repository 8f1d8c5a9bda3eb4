#!/usr/bin/python3
"""filesystem.Filesystem, the polled watchers of the Python SDK included."""
import time

from contract import Sandbox, check, equal, parse_time, run_tests, wait_for

F = "filesystem.Filesystem/"
ENTRY = {
    "name",
    "type",
    "path",
    "size",
    "mode",
    "permissions",
    "owner",
    "group",
    "modifiedTime",
    "symlinkTarget",
    "metadata",
}


def stat(box, path, **more):
    return box.rpc(F + "Stat", {"path": path}, **more)["entry"]


def shell(box, command, **more):
    events, data = box.run(command, **more)
    equal(events[-1][1]["status"], "exit status 0", f"{command}: {data}")
    return data.decode()


def test_stat_of_a_file(server):
    box = Sandbox(server)
    box.write("dir/f", b"12345")
    entry = stat(box, "dir/f")
    check(set(entry) <= ENTRY, f"members {sorted(entry)}")
    check(abs(parse_time(entry.pop("modifiedTime")) - time.time()) < 10, "modifiedTime")
    entry.pop("metadata", None)
    want = {
        "name": "f",
        "type": "FILE_TYPE_FILE",
        "path": "/home/user/dir/f",
        "size": "5",
        "mode": 0o644,
        "permissions": "-rw-r--r--",
        "owner": "user",
        "group": "user",
    }
    equal(entry, want)
    for path, want in (
        ("~/dir/f", "/home/user/dir/f"),
        ("/home/user/dir/f", "/home/user/dir/f"),
        ("dir/../dir/./f", "/home/user/dir/f"),
        ("~", "/home/user"),
    ):
        equal(stat(box, path)["path"], want, path)
    equal(stat(box, ".", user="root")["path"], "/root")
    equal(stat(box, "")["path"], "/home/user", "an empty path is home")


def test_stat_of_every_kind(server):
    box = Sandbox(server)
    shell(
        box,
        "mkdir d; touch f; chmod 640 f; ln f hard; ln -s f link; ln -s d dlink; ln -s gone dangling; ln -s loop loop; mkfifo p; chmod 1777 d",
    )
    d = stat(box, "d")
    equal((d["type"], d["mode"] & 0o777, d["permissions"]), ("FILE_TYPE_DIRECTORY", 0o777, "dtrwxrwxrwx"))
    link = stat(box, "link")
    equal(
        (link["type"], link["mode"], link["permissions"], link["symlinkTarget"], link["size"]),
        ("FILE_TYPE_FILE", 0o640, "Lrwxrwxrwx", "/home/user/f", "1"),
    )
    equal(stat(box, "dlink")["type"], "FILE_TYPE_DIRECTORY")
    check("symlinkTarget" not in stat(box, "f"), "a file has no target")
    for name in ("dangling", "loop"):
        equal(stat(box, name).get("type", "FILE_TYPE_UNSPECIFIED"), "FILE_TYPE_UNSPECIFIED", name)
    pipe = stat(box, "p")
    equal((pipe.get("type", "FILE_TYPE_UNSPECIFIED"), pipe["permissions"][0]), ("FILE_TYPE_UNSPECIFIED", "p"))
    equal(stat(box, "/dev/null")["permissions"], "Dcrw-rw-rw-")
    root = stat(box, "/")
    equal((root["path"], root["type"], root["owner"]), ("/", "FILE_TYPE_DIRECTORY", "root"))
    shell(box, "chown 12345:54987 /home/user/f", user="root")
    odd = stat(box, "f")
    equal((odd["owner"], odd["group"]), ("12345", "54987"), "ids without a name")


def test_stat_errors(server):
    box = Sandbox(server)
    box.write("f")
    box.rpc_error("not_found", F + "Stat", {"path": "none"}, "file not found")
    status, _, data = box.call(F + "Stat", {"path": "f/below"})
    check(data["code"] in ("not_found", "invalid_argument"), f"{status} {data}")
    status, _, data = box.call(F + "Stat", {"path": "a\0b"})
    check(data["code"] in ("not_found", "invalid_argument"), f"{status} {data}")
    box.rpc_error("unauthenticated", F + "Stat", {"path": "f"}, "invalid username: 'nobody123'", user="nobody123")


def test_make_dir(server):
    box = Sandbox(server)
    made = box.rpc(F + "MakeDir", {"path": "a/b/c"})["entry"]
    equal(
        (made["path"], made["type"], made["owner"], made["group"], made["permissions"]),
        ("/home/user/a/b/c", "FILE_TYPE_DIRECTORY", "user", "user", "drwxr-xr-x"),
    )
    equal(stat(box, "a/b")["owner"], "user")
    got = box.rpc_error("already_exists", F + "MakeDir", {"path": "a/b"})
    check(got["message"].startswith("directory already exists: ") and got["message"].endswith("a/b"), got["message"])
    box.write("f")
    box.rpc_error("invalid_argument", F + "MakeDir", {"path": "f"})
    box.rpc_error("invalid_argument", F + "MakeDir", {"path": "f/g"})
    equal(box.rpc(F + "MakeDir", {"path": "r"}, user="root")["entry"]["owner"], "root")
    shell(box, "ln -s a link")
    box.rpc_error("already_exists", F + "MakeDir", {"path": "link"})


def test_move(server):
    box = Sandbox(server)
    box.write("f", b"text")
    moved = box.rpc(F + "Move", {"source": "f", "destination": "x/y/g"})["entry"]
    equal((moved["name"], moved["path"], moved["size"]), ("g", "/home/user/x/y/g", "4"))
    equal(stat(box, "x/y")["owner"], "user")
    box.rpc_error("not_found", F + "Stat", {"path": "f"})
    box.rpc_error("not_found", F + "Move", {"source": "f", "destination": "z"})
    box.write("old", b"1")
    box.rpc(F + "Move", {"source": "x/y/g", "destination": "old"})
    equal(stat(box, "old")["size"], "4", "replaced")
    box.rpc(F + "Move", {"source": "x", "destination": "moved"})
    equal(stat(box, "moved/y")["type"], "FILE_TYPE_DIRECTORY")
    shell(box, "mkdir full; touch full/f")
    status, _, data = box.call(F + "Move", {"source": "moved", "destination": "full"})
    check(status >= 400 or stat(box, "full/f"), f"a full directory is not replaced: {status} {data}")
    equal(stat(box, "full/f")["type"], "FILE_TYPE_FILE")
    status, _, data = box.call(F + "Move", {"source": "full", "destination": "full/inside"})
    check(status >= 400 and data["code"] != "unknown", f"into itself: {status} {data}")


def test_remove(server):
    box = Sandbox(server)
    box.write("d/e/f")
    box.write("keep")
    shell(box, "ln -s /home/user/keep d/link")
    equal(box.rpc(F + "Remove", {"path": "d"}), {})
    equal(box.rpc(F + "Remove", {"path": "d"}), {}, "missing is success")
    equal(stat(box, "keep")["type"], "FILE_TYPE_FILE", "links are not followed")
    shell(box, "ln -s keep l")
    box.rpc(F + "Remove", {"path": "l"})
    equal(stat(box, "keep")["name"], "keep")


def test_list_dir(server):
    box = Sandbox(server)
    for path in ("t/b/2", "t/b/1", "t/a/x/y", "t/c", "t/B", "t/ä", "t/a.txt"):
        box.write(path.replace("ä", "%C3%A4"))
    shell(box, "ln -s b t/link; ln -s ../t t/round")
    names = lambda **more: [
        e["path"][len("/home/user/t/") :] for e in box.rpc(F + "ListDir", {"path": "t", **more})["entries"]
    ]  # noqa: E731
    first = ["B", "a", "a.txt", "b", "c", "link", "round", "ä"]
    equal(names(), first, "depth absent")
    equal(names(depth=0), first, "depth 0 is 1")
    equal(names(depth=1), first)
    deep = ["B", "a", "a/x", "a/x/y", "a.txt", "b", "b/1", "b/2", "c", "link", "round", "ä"]
    equal(names(depth=5), deep, "children right after their directory, links not entered")
    entry = box.rpc(F + "ListDir", {"path": "t"})["entries"][3]
    equal((entry["name"], entry["type"], entry["permissions"]), ("b", "FILE_TYPE_DIRECTORY", "drwxr-xr-x"))
    equal([e["name"] for e in box.rpc(F + "ListDir", {"path": "t/b/"})["entries"]], ["1", "2"])
    box.rpc(F + "MakeDir", {"path": "empty"})
    equal(box.rpc(F + "ListDir", {"path": "empty"}).get("entries", []), [])
    box.rpc_error("not_found", F + "ListDir", {"path": "none"})
    box.rpc_error("invalid_argument", F + "ListDir", {"path": "t/c"})
    shell(box, "ln -s loop2 loop1; ln -s loop1 loop2")
    status, _, data = box.call(F + "ListDir", {"path": "loop1"})
    check(data["code"] in ("failed_precondition", "not_found"), f"a cycle: {status} {data}")


def watched(s):
    """(name, kind, entry) of the next event."""
    event = s.take()["filesystem"]
    return event["name"], event["type"].replace("EVENT_TYPE_", ""), event.get("entry")


def test_watch_dir(server):
    box = Sandbox(server)
    box.rpc(F + "MakeDir", {"path": "d/sub"})
    with box.stream(F + "WatchDir", {"path": "d", "includeEntry": True, "recursive": True}) as s:
        equal(s.take(), {"start": {}})
        shell(
            box,
            "echo x > d/f; chmod 600 d/f; mv d/f d/g; rm d/g; mkdir d/new; sleep 0.3; echo y > d/new/h; echo z > d/sub/i",
        )
        seen = []
        while ("sub/i", "WRITE") not in [e[:2] for e in seen]:
            seen.append(watched(s))
        kinds = [e[:2] for e in seen]
        order = [
            ("f", "CREATE"),
            ("f", "WRITE"),
            ("f", "CHMOD"),
            ("f", "RENAME"),
            ("g", "CREATE"),
            ("g", "REMOVE"),
            ("new", "CREATE"),
            ("new/h", "WRITE"),
            ("sub/i", "WRITE"),
        ]
        at = [kinds.index(e) if e in kinds else check(False, f"no {e} in {kinds}") for e in order]
        equal(at, sorted(at), f"order of {kinds}")
        for name, kind, entry in seen:
            check(kind in ("CREATE", "WRITE", "CHMOD") or entry is None, f"an entry of {name} {kind}")
        entry = next(e for n, k, e in reversed(seen) if (n, k) == ("sub/i", "WRITE"))
        equal((entry["name"], entry["path"], entry["type"]), ("i", "/home/user/d/sub/i", "FILE_TYPE_FILE"))
    with box.stream(F + "WatchDir", {"path": "d"}) as s:
        equal(s.take(), {"start": {}})
        shell(box, "touch d/sub/unseen d/seen")
        equal(watched(s), ("seen", "CREATE", None))


def test_polled_watchers(server):
    box = Sandbox(server)
    box.rpc(F + "MakeDir", {"path": "d/sub"})
    one = box.rpc(F + "CreateWatcher", {"path": "d"})["watcherId"]
    deep = box.rpc(F + "CreateWatcher", {"path": "d", "recursive": True, "includeEntry": True})["watcherId"]
    check(one != deep and isinstance(one, str), "ids")
    equal(box.rpc(F + "GetWatcherEvents", {"watcherId": one}).get("events", []), [])
    shell(box, "echo x > d/f; echo y > d/sub/g")
    seen = []

    def told(watcher, want):
        seen.extend(
            (e["name"], e["type"]) for e in box.rpc(F + "GetWatcherEvents", {"watcherId": watcher}).get("events", [])
        )
        return want in seen

    wait_for(lambda: told(one, ("f", "EVENT_TYPE_WRITE")), 15, "the event")
    check(("f", "EVENT_TYPE_CREATE") in seen and not any("/" in n for n, _ in seen), str(seen))
    equal(box.rpc(F + "GetWatcherEvents", {"watcherId": one}).get("events", []), [], "drained")
    wait_for(lambda: told(deep, ("sub/g", "EVENT_TYPE_WRITE")), 15, "the event below")
    equal(box.rpc(F + "RemoveWatcher", {"watcherId": one}), {})
    box.rpc_error("not_found", F + "GetWatcherEvents", {"watcherId": one})
    box.rpc_error("not_found", F + "RemoveWatcher", {"watcherId": one})
    box.rpc_error("not_found", F + "GetWatcherEvents", {"watcherId": "none"})
    other = Sandbox(server)
    other.rpc_error("not_found", F + "GetWatcherEvents", {"watcherId": deep})
    box.rpc_error("not_found", F + "CreateWatcher", {"path": "none"})
    box.rpc_error("invalid_argument", F + "CreateWatcher", {"path": "d/f"})


def test_watchers_are_bounded(server):
    box = Sandbox(server)
    made, refused = 0, None
    for _ in range(300):
        status, _, data = box.call(F + "CreateWatcher", {"path": "."})
        if status != 200:
            refused = data
            break
        made += 1
    check(made >= 16 and refused and refused["code"] == "resource_exhausted", f"{made} made, then {refused}")
    equal(box.run("echo alive")[1], b"alive\n")


if __name__ == "__main__":
    run_tests(globals(), pool_size=4)
