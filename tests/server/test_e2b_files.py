#!/usr/bin/python3
"""test_e2b_files.py - the files of a sandbox as E2B's clients reach them: the filesystem service, and
/files. Raw HTTP, so that also what no SDK sends is sent."""
import gzip
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import sys
import threading
import time
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Server, check, equal, has, rss, run_tests, wait_for, wait_read  # noqa: E402

MIB = 1 << 20
HOME = "/home/user"
SANDBOX = None


class Sandbox:
    def __init__(self, server):
        self.server = server
        made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})
        self.id, self.token = made["sandboxID"], made["envdAccessToken"]
        server.ids.add(self.id)

    def headers(self, more=None):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token, **(more or {})}

    def ask(self, method, path, body=None, headers=None, raw=True):
        return self.server.request(method, path, body, self.headers(headers), raw=raw, key=None)

    def rpc(self, name, message, status=200, user=None):
        """The answer of a unary call, or (with another status) its error."""
        headers = {"Content-Type": "application/json", "Connect-Protocol-Version": "1"}
        if user is not None:
            import base64

            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        got, _, data = self.ask("POST", f"/filesystem.Filesystem/{name}", json.dumps(message).encode(), headers)
        equal(got, status, f"status of {name} {message}: {data[:300]}")
        return json.loads(data)

    def fails(self, name, message, status, code, *parts, user=None):
        error = self.rpc(name, message, status, user)
        equal(error["code"], code, f"code of {name} {message}")
        for part in parts:
            has(error["message"], part, f"message of {name}")

    def put(self, path, data, status=200, headers=None, **query):
        got, _, answer = self.ask(
            "POST", files(path=path, **query), data, {"Content-Type": "application/octet-stream", **(headers or {})}
        )
        equal(got, status, f"status of an upload to {path}: {answer[:300]}")
        return json.loads(answer)

    def get(self, path, status=200, headers=None, method="GET", **query):
        got, heads, data = self.ask(method, files(path=path, **query), None, headers)
        equal(got, status, f"status of {path}: {data[:300]}")
        return heads, data

    def form(self, parts, status=200, headers=None, boundary="XBOUNDX", end=True, **query):
        body = b""
        for head, data in parts:
            body += f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"
        body += f"--{boundary}--\r\n".encode() if end else b""
        kind = f"multipart/form-data; boundary={boundary}"
        got, _, answer = self.ask("POST", files(**query), body, {"Content-Type": kind, **(headers or {})})
        equal(got, status, f"status of a form: {answer[:300]}")
        return json.loads(answer)

    def sh(self, line, **spec):
        done = self.server.run(self.id, line, **spec)
        equal(done["exit_code"], 0, f"{line}: {done['stderr']}")
        return done["stdout"]


def files(**query):
    return "/files?" + "&".join(f"{k}={quote(str(v), safe='')}" for k, v in query.items() if v is not None)


def box(server):
    global SANDBOX
    SANDBOX = SANDBOX or Sandbox(server)
    return SANDBOX


# --- the filesystem service ----------------------------------------------------------------------------


def test_stat(server):
    b = box(server)
    b.sh("printf hello > s.txt; chmod 640 s.txt; touch -d '2024-01-02T03:04:05.678901234Z' s.txt; ln -s s.txt s.lnk; ln -s nowhere s.bad")
    want = {
        "name": "s.txt",
        "type": "FILE_TYPE_FILE",
        "path": f"{HOME}/s.txt",
        "size": "5",
        "mode": 0o640,
        "permissions": "-rw-r-----",
        "owner": "user",
        "group": "user",
        "modifiedTime": "2024-01-02T03:04:05.678901234Z",
    }
    for path in ("s.txt", "~/s.txt", f"{HOME}/s.txt", f"{HOME}/../user//./s.txt"):
        equal(b.rpc("Stat", {"path": path}), {"entry": want}, f"Stat {path}")
    link = b.rpc("Stat", {"path": "s.lnk"})["entry"]
    equal(
        (link["name"], link["path"], link["type"], link["mode"], link["permissions"], link["symlinkTarget"], link["size"]),
        ("s.lnk", f"{HOME}/s.lnk", "FILE_TYPE_FILE", 0o640, "Lrwxrwxrwx", f"{HOME}/s.txt", "5"),
        "of a link",
    )
    link = b.rpc("Stat", {"path": "s.bad"})["entry"]
    equal(link["type"], "FILE_TYPE_UNSPECIFIED", "type of a dangling link")
    equal(b.rpc("Stat", {"path": "/tmp"})["entry"]["permissions"], "dtrwxrwxrwx", "of /tmp")
    equal(b.rpc("Stat", {"path": "/dev/null"})["entry"]["permissions"], "Dcrw-rw-rw-", "of /dev/null")
    equal(b.rpc("Stat", {"path": "/"})["entry"]["name"], "/", "name of the root")
    equal(b.rpc("Stat", {"path": "/etc/passwd"})["entry"]["owner"], "root", "owner")
    b.fails("Stat", {"path": "/no/such"}, 404, "not_found", "/no/such")
    b.fails("Stat", {"path": "s.txt/x"}, 400, "invalid_argument")
    b.fails("Stat", {"path": "s.txt"}, 401, "unauthenticated", "invalid username: 'nobody123'", user="nobody123")
    b.fails("Stat", {"path": 7}, 400, "invalid_argument", "path")


def test_the_user_asked_for(server):
    b = box(server)
    equal(b.rpc("MakeDir", {"path": "of-root/deep"}, user="root")["entry"]["path"], "/root/of-root/deep", "home of root")
    made = b.rpc("Stat", {"path": "/root/of-root"})["entry"]
    equal((made["owner"], made["permissions"]), ("root", "drwxr-xr-x"), "of a directory of root's")
    made = b.rpc("MakeDir", {"path": "/opt/for/user"})["entry"]
    equal((made["owner"], made["group"]), ("user", "user"), "made by root for the user")
    equal(b.rpc("Stat", {"path": "/opt/for"})["entry"]["owner"], "user", "and what is above it")
    b.put("/root/of-root/x", b"x", username="root")
    equal(b.rpc("Stat", {"path": "/root/of-root/x"})["entry"]["owner"], "root", "a file of root's")
    equal(b.get("of-root/x", username="root")[1], b"x", "read relative to root's home")


def test_make_dir(server):
    b = box(server)
    entry = b.rpc("MakeDir", {"path": "m/a/b"})["entry"]
    equal((entry["path"], entry["type"], entry["mode"]), (f"{HOME}/m/a/b", "FILE_TYPE_DIRECTORY", 0o755), "made")
    b.fails("MakeDir", {"path": "m/a/b"}, 409, "already_exists", "directory already exists")
    b.sh("touch m/f")
    b.fails("MakeDir", {"path": "m/f"}, 400, "invalid_argument")
    b.fails("MakeDir", {"path": "m/f/g"}, 400, "invalid_argument")
    b.fails("MakeDir", {"path": "/proc/x"}, 404, "not_found")


def test_move(server):
    b = box(server)
    b.put("mv/a", b"content", headers={"X-Metadata-K": "v"})
    entry = b.rpc("Move", {"source": "mv/a", "destination": "mv/new/deep/b"})["entry"]
    equal((entry["path"], entry["name"], entry.get("metadata")), (f"{HOME}/mv/new/deep/b", "b", {"k": "v"}), "moved")
    equal(b.get("mv/new/deep/b")[1], b"content", "moved content")
    equal(b.rpc("Stat", {"path": "mv/new"})["entry"]["owner"], "user", "owner of what was made")
    b.put("mv/c", b"other")
    b.rpc("Move", {"source": "mv/new/deep/b", "destination": "mv/c"})
    equal(b.get("mv/c")[1], b"content", "replaced")
    b.fails("Move", {"source": "mv/none", "destination": "mv/x"}, 404, "not_found", "mv/none")


def test_list(server):
    b = box(server)
    b.sh("mkdir -p l/b/in l/a l/a.d && touch l/b/in/z l/b/in.x l/a/1 l/a.d/2 l/a-x l/z 'l/new\nline' && ln -s b l/s")
    names = lambda depth: [e["path"][len(f"{HOME}/l/") :] for e in b.rpc("ListDir", {"path": "l", "depth": depth})["entries"]]
    one = ["a", "a-x", "a.d", "b", "new\nline", "s", "z"]
    equal(names(0), one, "depth 0")
    equal(names(1), one, "depth 1")
    equal(
        names(3),
        ["a", "a/1", "a-x", "a.d", "a.d/2", "b", "b/in", "b/in/z", "b/in.x", "new\nline", "s", "z"],
        "depth 3",
    )
    equal(names(4000000000), names(3), "depth 4000000000")
    entries = {e["name"]: e for e in b.rpc("ListDir", {"path": "l"})["entries"]}
    equal((entries["s"]["symlinkTarget"], entries["s"]["type"]), (f"{HOME}/l/b", "FILE_TYPE_DIRECTORY"), "a link")
    equal([e["path"] for e in b.rpc("ListDir", {"path": "l/s"})["entries"]], [f"{HOME}/l/s/in", f"{HOME}/l/s/in.x"], "over a link")
    equal(b.rpc("ListDir", {"path": "l/a.d/../a"})["entries"][0]["path"], f"{HOME}/l/a/1", "cleaned")
    equal("/etc" in [e["path"] for e in b.rpc("ListDir", {"path": "/"})["entries"]], True, "of the root")
    b.sh("mkdir l/empty")
    equal(b.rpc("ListDir", {"path": "l/empty"}), {"entries": []}, "an empty one")
    b.fails("ListDir", {"path": "l/z"}, 400, "invalid_argument", "not a directory")
    b.fails("ListDir", {"path": "none"}, 404, "not_found", "none")
    b.sh("ln -s loop1 loop2; ln -s loop2 loop1")
    b.fails("ListDir", {"path": "loop1"}, 400, "failed_precondition")
    b.fails("ListDir", {"path": "l", "depth": -1}, 400, "invalid_argument", "depth")


def test_a_long_list(server):
    b = box(server)
    b.sh("mkdir long && cd long && seq -f 'file-with-a-name-%.0f' 1 20000 | xargs touch")
    began = time.monotonic()
    entries = b.rpc("ListDir", {"path": "long"})["entries"]
    equal(len(entries), 20000, "entries")
    equal([e["name"] for e in entries], sorted(e["name"] for e in entries), "order")
    check(time.monotonic() - began < 10, "slow")
    b.sh("cd long && seq 20001 110000 | xargs touch")
    b.fails("ListDir", {"path": "long"}, 429, "resource_exhausted", "entries")
    b.sh("rm -r long")


def test_remove(server):
    b = box(server)
    b.sh("mkdir -p r/a/b && touch r/a/b/c && chmod 0 r/a/b")
    equal(b.rpc("Remove", {"path": "r"}), {}, "Remove")
    b.fails("Stat", {"path": "r"}, 404, "not_found")
    equal(b.rpc("Remove", {"path": "r"}), {}, "what is not there")


# --- watching ------------------------------------------------------------------------------------------


class Watch:
    """A WatchDir stream: messages as they come."""

    def __init__(self, b, path, timeout=None, headers=None, **more):
        self.socket = socket.create_connection(b.server.address, timeout=20)
        body = json.dumps({"path": path, **more}).encode()
        body = b"\0" + struct.pack(">I", len(body)) + body
        heads = b.headers({"Content-Type": "application/connect+json", "Host": "x", "Content-Length": str(len(body)), **(headers or {})})
        if timeout:
            heads["Connect-Timeout-Ms"] = str(timeout)
        lines = "".join(f"{k}: {v}\r\n" for k, v in heads.items())
        self.socket.sendall(f"POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\n{lines}\r\n".encode() + body)
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        equal(self.answer.status, 200, f"status of WatchDir {path}")
        equal(self.answer.getheader("content-type"), "application/connect+json", "type")

    def next(self):
        """(flags, message)."""
        head = self.answer.read(5)
        if len(head) < 5:
            raise EOFError
        flags, n = struct.unpack(">BI", head)
        return flags, json.loads(self.answer.read(n))

    def event(self):
        while True:
            flags, m = self.next()
            equal(flags, 0, f"flags of {m}")
            if "filesystem" in m:
                return m["filesystem"]

    def until(self, want, seconds=10):
        """The events up to one of this (type, name), each as (type, name)."""
        got, end = [], time.monotonic() + seconds
        while not got or got[-1] != want:
            v = self.event()
            got.append((v["type"][len("EVENT_TYPE_") :], v["name"]))
            check(time.monotonic() < end, f"{want} does not come: {got}")
        return got

    def close(self):
        self.answer.close()  # it holds the connection, too
        self.socket.close()


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
    b.put("wr/new/deep/f", b"12345", headers={"X-Metadata-A": "b"})
    while (v := w.event())["name"] != "new/deep/f" or v["type"] != "EVENT_TYPE_WRITE":
        pass
    entry = v["entry"]
    equal((entry["path"], entry["size"], entry["owner"], entry["type"]), (f"{HOME}/wr/new/deep/f", "5", "user", "FILE_TYPE_FILE"), "entry")
    equal(entry.get("metadata"), {"a": "b"}, "metadata of the entry")
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
    check(0.5 < time.monotonic() - began < 3, "the time")
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
        wait_for(lambda: len(server.cell_pids(b.id)) == 1, 10, "end of the built-ins")
        check(watched(server)[1] > before[1], "events of a directory that is gone can still be fetched")
        check(b.rpc("GetWatcherEvents", {"watcherId": ids[0]})["events"], "events")
        server.delete(b.id)
        equal(watched(server), before, "watchers and bytes after the sandbox's end")


def test_polled_watchers_end_with_the_daemon():
    with Server(pool_size=1) as server:
        b = Sandbox(server)
        id = b.rpc("CreateWatcher", {"path": "/tmp"})["watcherId"]
        equal(len(server.cell_pids(b.id)), 2, "processes in the cell")
        server.restart()
        b.fails("GetWatcherEvents", {"watcherId": id}, 404, "not_found")
        wait_for(lambda: len(server.cell_pids(b.id)) == 1, 10, "end of the built-in")


def test_many_lists_at_a_time(server):
    """They are large, and what is kept of them is bounded: some may be refused, others are served."""
    b = box(server)
    b.sh("mkdir lists && cd lists && seq -f 'a-file-with-a-rather-long-name-to-make-the-answer-long-%.0f' 1 20000 | xargs touch")
    got = []

    def ask():
        got.append(b.ask("POST", "/filesystem.Filesystem/ListDir", b'{"path":"lists"}', {"Content-Type": "application/json"})[0])

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for t in threads:
        t.start()
    equal(b.get("/etc/hostname")[0]["accept-ranges"], "bytes", "others are served")
    for t in threads:
        t.join()
    check(set(got) <= {200, 429} and 200 in got, f"statuses {sorted(set(got))}")
    size = rss(server.pid("cordond"))
    print(f"# {got.count(200)} of 40 lists; cordond has {size >> 20} MiB")
    equal(len(b.rpc("ListDir", {"path": "lists"})["entries"]), 20000, "afterwards")
    b.sh("rm -r lists")


# --- downloads -----------------------------------------------------------------------------------------


def test_read(server):
    b = box(server)
    b.put("d/a b.txt", b"0123456789")
    heads, data = b.get("d/a b.txt")
    equal(data, b"0123456789", "content")
    equal(heads["content-disposition"], 'inline; filename="a b.txt"', "disposition")
    equal(heads["content-type"], "text/plain; charset=utf-8", "type")
    equal((heads["vary"], heads["accept-ranges"], heads["content-length"]), ("Accept-Encoding", "bytes", "10"), "headers")
    b.put("d/\u20ac.bin", b"x")
    heads, _ = b.get("d/\u20ac.bin")
    equal(heads["content-disposition"], "inline; filename=\"___.bin\"; filename*=UTF-8''%E2%82%AC.bin", "disposition")
    equal(heads["content-type"], "application/octet-stream", "type")
    b.put("d/empty", b"")
    heads, data = b.get("d/empty")
    equal((heads["content-length"], data), ("0", b""), "an empty file")
    check(b"MemTotal" in b.get("/proc/meminfo")[1], "a file of /proc")
    check(b.get("/proc/self/status")[1].startswith(b"Name:"), "another")
    b.put("d/page.html", b"<script>")
    equal(b.get("d/page.html")[0]["content-security-policy"], "sandbox", "a page")


def test_read_refused(server):
    b = box(server)
    error = lambda path, status, **more: json.loads(b.get(path, status, **more)[1])
    equal(error("/no/such", 404), {"code": 404, "message": "path '/no/such' does not exist"}, "no file")
    equal(error(HOME, 400), {"code": 400, "message": f"path '{HOME}' is a directory"}, "a directory")
    has(error("x", 401, username="nobody123")["message"], "error looking up user 'nobody123'", "an unknown user")
    error("", 400)
    error("/etc/passwd", 406, headers={"Accept-Encoding": "gzip, identity;q=0"})
    b.get("/etc/passwd", 200, headers={"Accept-Encoding": "gzip, deflate, br"})
    b.sh("mkfifo fifo")
    check(error("fifo", 400)["code"] == 400, "a pipe")


def test_ranges(server):
    b = box(server)
    data = os.urandom(100000)
    b.put("range", data)
    for header, want in (
        ("bytes=0-0", data[:1]),
        ("bytes=10-19", data[10:20]),
        ("bytes=99990-", data[99990:]),
        ("bytes=99990-200000", data[99990:]),
        ("bytes=-10", data[-10:]),
        ("bytes=-200000", data),
    ):
        heads, got = b.get("range", 206, headers={"Range": header})
        equal(got, want, f"Range: {header}")
        first = data.find(want)
        equal(heads["content-range"], f"bytes {first}-{first + len(want) - 1}/100000", f"Content-Range of {header}")
    for header in "bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6":
        equal(b.get("range", 200, headers={"Range": header})[1], data, f"Range: {header}")
    heads, _ = b.get("range", 416, headers={"Range": "bytes=100000-"})
    equal(heads["content-range"], "bytes */100000", "beyond the end")
    b.put("range0", b"")
    equal(b.get("range0", 200, headers={"Range": "bytes=0-"})[1], b"", "of nothing")


def test_conditions(server):
    b = box(server)
    b.put("cond", b"0123456789")
    heads, _ = b.get("cond")
    changed = heads["last-modified"]
    before = formatdate(parsedate_to_datetime(changed).timestamp() - 10, usegmt=True)
    heads, data = b.get("cond", 304, headers={"If-Modified-Since": changed})
    equal((data, heads["last-modified"]), (b"", changed), "304")
    b.get("cond", 200, headers={"If-Modified-Since": before})
    b.get("cond", 412, headers={"If-Unmodified-Since": before})
    b.get("cond", 304, headers={"If-None-Match": "*"})
    equal(b.get("cond", 206, headers={"If-Range": changed, "Range": "bytes=2-3"})[1], b"23", "If-Range, the same")
    equal(b.get("cond", 200, headers={"If-Range": before, "Range": "bytes=2-3"})[1], b"0123456789", "If-Range, another")
    heads, data = b.get("cond", 200, method="HEAD")
    equal((data, heads["content-length"], heads["last-modified"]), (b"", "10", changed), "HEAD")
    equal(b.get("cond", 206, method="HEAD", headers={"Range": "bytes=-3"})[0]["content-length"], "3", "HEAD of a range")
    b.get("none", 404, method="HEAD")


# --- uploads -------------------------------------------------------------------------------------------


def test_write(server):
    b = box(server)
    equal(b.put("u/new/x.txt", b"hello"), [{"path": f"{HOME}/u/new/x.txt", "name": "x.txt", "type": "file"}], "answer")
    entry = b.rpc("Stat", {"path": "u/new/x.txt"})["entry"]
    equal((entry["permissions"], entry["owner"], entry["group"]), ("-rw-r--r--", "user", "user"), "a new file")
    equal(b.rpc("Stat", {"path": "u"})["entry"]["permissions"], "drwxr-xr-x", "a new directory")
    b.sh("chmod 755 u/new/x.txt")
    b.put("u/new/x.txt", b"")
    equal(b.get("u/new/x.txt")[1], b"", "empty now")
    equal(b.rpc("Stat", {"path": "u/new/x.txt"})["entry"]["permissions"], "-rwxr-xr-x", "its mode is kept")
    has(b.put("u/new", b"x", 400)["message"], "is a directory", "onto a directory")
    has(b.put("u/new/x.txt/y", b"x", 400)["message"], "not a directory", "below a file")
    has(b.put("x", b"x", 401, username="nobody123")["message"], "nobody123", "an unknown user")
    equal(b.put("", b"x", 400)["code"], 400, "no path")
    for kind in "text/plain", "application/json", "multipart/form-data", "multipart/mixed; boundary=x":
        b.put("x", b"x", 400, headers={"Content-Type": kind})
    b.fails("Stat", {"path": "x"}, 404, "not_found")


def test_write_packed(server):
    b = box(server)
    data = b"".join(b"line %d\n" % i for i in range(200000))
    packed = {"Content-Encoding": "gzip"}
    b.put("z", gzip.compress(data), headers=packed)
    equal(b.get("z")[1], data, "content")
    b.put("z", gzip.compress(b"a") + gzip.compress(b"b"), headers=packed)
    equal(b.get("z")[1], b"ab", "of two members")
    b.put("z", gzip.compress(data)[:-5], 400, headers=packed)
    b.put("z", b"this is not gzip", 400, headers=packed)
    b.put("z", gzip.compress(data)[:1000] + b"garbage", 400, headers=packed)
    equal(b.get("z")[1], b"ab", "unchanged")
    b.put("z", b"x", 400, headers={"Content-Encoding": "br"})
    b.form([('name="file"; filename="z"', b"x")], 400, headers=packed)


def test_metadata(server):
    b = box(server)
    meta = {"X-Metadata-Author": "me", "X-METADATA-Two": "a=b c"}
    want = {"author": "me", "two": "a=b c"}
    equal(b.put("meta", b"x", headers=meta), [{"path": f"{HOME}/meta", "name": "meta", "type": "file", "metadata": want}], "answer")
    equal(b.rpc("Stat", {"path": "meta"})["entry"]["metadata"], want, "of Stat")
    b.put("meta", b"x", headers={"X-Metadata-Three": "3"})
    equal(b.rpc("Stat", {"path": "meta"})["entry"]["metadata"], {"three": "3"}, "replaced")
    b.put("meta", b"x")
    check("metadata" not in b.rpc("Stat", {"path": "meta"})["entry"], "cleared")
    both = b.form([('name="file"; filename="m1"', b"1"), ('name="file"; filename="m2"', b"2")], headers={"X-Metadata-A": "b"})
    equal([e["metadata"] for e in both], [{"a": "b"}] * 2, "of a form")
    for bad in {"X-Metadata-": "x"}, {"X-Metadata-A": "caf\u00e9".encode()}, {"X-Metadata-" + "k" * 247: "x"}, {"X-Metadata-A": "v" * 4096}:
        b.put("meta", b"x", 400, headers=bad)


def test_forms(server):
    b = box(server)
    answer = b.form([('name="file"; filename="/tmp/f/one.txt"', b"1"), ('name="note"', b"no file"), ('name="file"; filename="f/two"', b"\r\n--XBOUND\r\n")])
    equal(
        answer,
        [
            {"path": "/tmp/f/one.txt", "name": "one.txt", "type": "file"},
            {"path": f"{HOME}/f/two", "name": "two", "type": "file"},
        ],
        "answer",
    )
    equal((b.get("/tmp/f/one.txt")[1], b.get("f/two")[1]), (b"1", b"\r\n--XBOUND\r\n"), "contents")
    equal(b.form([('name="file"; filename="ignored"', b"p")], path="f/by path")[0]["path"], f"{HOME}/f/by path", "by path")
    equal(b.form([('name="file"', b"plain")], path="f/plain")[0]["name"], "plain", "without a filename")
    equal(b.form([('name="file"; filename="q%22u%0D%0Ao\\\\te"', b"q")])[0]["name"], 'q"u\r\no\\te', "escapes")
    equal(b.form([]), [], "an empty form")
    has(b.form([('name="file"', b"x")], 400)["message"], "filename", "neither name nor path")
    has(b.form([('name="file"; filename="f/d"', b"first"), ('name="file"; filename="f/d"', b"second")], 400)["message"], "same path", "one path twice")
    equal(b.get("f/d")[1], b"first", "the first one stays")
    has(b.form([('name="file"; filename="f/e"', b"1"), ('name="file"; filename="~/f/e"', b"2")], 400)["message"], "same path", "twice, spelt differently")
    b.form([('name="file"', b"1"), ('name="file"', b"2")], 400, path="f/g")
    b.form([('name="file"; filename="f/h"', b"1")], 400, end=False)
    b.fails("Stat", {"path": "f/h"}, 404, "not_found")
    b.form([('name="file"; filename="f/h"', b"1"), ("nonsense", b"")], 400)
    equal(b.get("f/h")[1], b"1", "what was complete stays")
    answer = b.form([('name="file"; filename="f/i"', b"1"), ('name="file"; filename="/tmp"', b"x" * MIB), ('name="file"; filename="f/j"', b"1")], 400)
    has(answer["message"], "/tmp", "which one failed")
    b.fails("Stat", {"path": "f/j"}, 404, "not_found")


def test_many_in_a_form(server):
    b = box(server)
    parts = [(f'name="file"; filename="many/{i}"', os.urandom(i * 7)) for i in range(300)]
    equal(len(b.form(parts)), 300, "files")
    for i in 0, 1, 150, 299:
        equal(b.get(f"many/{i}")[1], parts[i][1], f"file {i}")


def chunked(b, path, kind, pieces):
    """Sends pieces as chunks, with pauses as the caller makes them; the socket, for the answer."""
    s = socket.create_connection(b.server.address, timeout=20)
    lines = "".join(f"{k}: {v}\r\n" for k, v in b.headers({"Content-Type": kind, "Transfer-Encoding": "chunked", "Host": "x"}).items())
    s.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode())
    for piece in pieces:
        s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    return s


def answer_of(s):
    answer = http.client.HTTPResponse(s)
    answer.begin()
    data = answer.read()
    s.close()
    return answer.status, json.loads(data)


def test_chunked_forms(server):
    """A boundary cut in every place."""
    b = box(server)
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="ch"\r\n\r\n\r\n--\r\n--b--\r\n'
    for size in 1, 2, 3, 5, 8:
        s = chunked(b, "/files", "multipart/form-data; boundary=b", [body[i : i + size] for i in range(0, len(body), size)])
        s.sendall(b"0\r\n\r\n")
        equal(answer_of(s)[0], 200, f"pieces of {size}")
        equal(b.get("ch")[1], b"\r\n--", f"pieces of {size}")


def test_an_upload_that_breaks_off(server):
    b = box(server)
    b.put("broken", b"before")
    for kind, piece in (
        ("application/octet-stream", b"x" * 100000),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="file"; filename="broken"\r\n\r\n' + b"x" * 100000),
    ):
        s = chunked(b, files(path="broken"), kind, [piece])
        wait_read(s)
        s.close()
        wait_for(lambda: b.sh("ls -A | grep -c -i 'broken.' || true").strip() == "0", 10, "the removal of the unfinished file")
        equal(b.get("broken")[1], b"before", f"after a broken {kind}")
    equal(b.sh("ls -A | grep -c -i 'broken.' || true").strip(), "0", "files left behind")


def test_full_disk(server):
    b = Sandbox(server)
    disk = int(server.get(b.id)["limits"]["disk_bytes"])
    b.sh(f"head -c {disk - 8 * MIB} /dev/zero > fill", timeout="60s")
    answer = b.put("big", b"x" * (16 * MIB), 507)
    equal(answer, {"code": 507, "message": "not enough disk space available"}, "answer")
    b.fails("Stat", {"path": "big"}, 404, "not_found")
    b.form([('name="file"; filename="small"', b"s"), ('name="file"; filename="big"', b"x" * (16 * MIB))], 507)
    equal(b.get("small")[1], b"s", "what came before")
    server.delete(b.id)


def test_compose(server):
    b = box(server)
    for i in range(3):
        b.put(f"c/{i}", b"%d;" % i)
    got, _, data = b.ask(
        "POST",
        "/files/compose",
        json.dumps({"source_paths": ["c/0", "c/1", "c/2"], "destination": "c/new/all"}).encode(),
        {"Content-Type": "application/json"},
    )
    equal((got, json.loads(data)), (200, {"path": f"{HOME}/c/new/all", "name": "all", "type": "file"}), "answer")
    equal(b.get("c/new/all")[1], b"0;1;2;", "content")
    equal([e["name"] for e in b.rpc("ListDir", {"path": "c"})["entries"]], ["new"], "the sources are gone")
    for body, status in (
        ({"source_paths": ["c/none"], "destination": "c/x"}, 404),
        ({"source_paths": [], "destination": "c/x"}, 400),
        ({"source_paths": ["c/new/all"]}, 400),
        ({"source_paths": ["a"] * 101, "destination": "c/x"}, 400),
        ({"source_paths": [7], "destination": "c/x"}, 400),
        ({"source_paths": ["a"], "destination": "c/x", "username": "nobody123"}, 401),
    ):
        got, _, data = b.ask("POST", "/files/compose", json.dumps(body).encode(), {"Content-Type": "application/json"})
        equal(got, status, f"{body}: {data}")


# --- size and death ------------------------------------------------------------------------------------


def test_large_files(server):
    b = box(server)
    data = os.urandom(MIB) * 64
    want = hashlib.sha256(data).hexdigest()
    for how in "octets", "form":
        began = time.monotonic()
        if how == "octets":
            b.put("large", data)
        else:
            b.form([('name="file"; filename="large"', data)])
        up = time.monotonic() - began
        began = time.monotonic()
        got = b.get("large")[1]
        down = time.monotonic() - began
        equal(hashlib.sha256(got).hexdigest(), want, "content")
        print(f"# 64 MiB as {how}: up {64 / up:.0f} MiB/s, down {64 / down:.0f} MiB/s")
        check(up < 6 and down < 6, f"up {up:.1f} s, down {down:.1f} s")
    b.sh("rm large")


def test_too_large(server):
    b = box(server)
    s = chunked(b, files(path="huge"), "application/octet-stream", [])
    s.close()
    limit = 2 * MIB * 1024 * 1024
    link = server.link()
    link.putrequest("POST", files(path="huge"))
    for k, v in b.headers({"Content-Type": "application/octet-stream", "Content-Length": str(limit)}).items():
        link.putheader(k, v)
    link.endheaders()
    answer = link.getresponse()
    equal((answer.status, json.loads(answer.read())["code"]), (413, 413), "2 TiB")
    link.close()


def test_death_while_a_file_is_read(server):
    b = Sandbox(server)
    b.sh("head -c 100000000 /dev/zero > f")
    link = server.link(timeout=20)
    link.request("GET", files(path="f"), headers=b.headers())
    answer = link.getresponse()
    answer.read(1000)
    server.delete(b.id)
    try:
        rest = answer.read()
        raise Failed(f"{len(rest)} bytes, as if that were all")
    except (ConnectionResetError, http.client.IncompleteRead):
        pass
    equal(b.ask("GET", files(path="f"))[0], 502, "afterwards")


def test_death_while_a_file_is_written(server):
    b = Sandbox(server)
    s = chunked(b, files(path="f"), "application/octet-stream", [b"x" * 1000])
    wait_read(s)
    server.delete(b.id)
    s.sendall(b"0\r\n\r\n")
    try:
        status, _ = answer_of(s)
        equal(status, 502, "answer")
    except (ConnectionResetError, http.client.RemoteDisconnected):
        pass


def test_clients_that_vanish(server):
    """In the middle of everything: nothing stays behind in the sandbox."""
    b = box(server)
    b.put("v", b"x" * 4 * MIB)
    for _ in range(10):
        w = Watch(b, "/tmp")
        w.next()
        w.close()
        link = server.link()
        link.request("GET", files(path="v"), headers=b.headers())
        link.sock.close()
        chunked(b, files(path="v2"), "application/octet-stream", [b"x" * 100]).close()
    wait_for(lambda: len(server.cell_pids(b.id)) == 1, 10, "end of all built-ins")


# --- servers without root --------------------------------------------------------------------------------


def of_a_user(mode):
    import test_rootless_server as rootless

    rootless.plain.possible(mode)
    with rootless.plain.account(mode) as who, rootless.UserServer(who, pool_size=1) as server:
        b = Sandbox(server)
        equal(b.put("d/x", b"hello"), [{"path": f"{HOME}/d/x", "name": "x", "type": "file"}], "upload")
        equal(b.get("~/d/x")[1], b"hello", "download")
        entry = b.rpc("Stat", {"path": "d/x"}, user="user")["entry"]
        equal((entry["owner"], entry["permissions"], entry["size"]), ("user", "-rw-r--r--", "5"), "entry")
        b.fails("Stat", {"path": "d/x"}, 401, "unauthenticated", user="nobody123")
        equal(b.rpc("MakeDir", {"path": "e/f"})["entry"]["owner"], "user", "MakeDir")
        w = Watch(b, "d")
        equal(w.next(), (0, {"start": {}}), "first message")
        b.put("d/y", b"y")
        w.until(("WRITE", "y"))
        w.close()
        b.rpc("Move", {"source": "d/x", "destination": "d/z"})
        b.rpc("Remove", {"path": "e"})
        equal([e["name"] for e in b.rpc("ListDir", {"path": "d"})["entries"]], ["y", "z"], "ListDir")


def test_a_users_server_with_one_id():
    of_a_user("single")


def test_a_users_server_with_a_range():
    of_a_user("mapped")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
