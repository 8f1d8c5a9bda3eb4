#!/usr/bin/python3
"""test_server_files.py - files of a session over HTTP: whole and in parts, in and out, and who may."""
import hashlib
import io
import os
import re
import socket
import sys
import tarfile
import tempfile
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, has, run_tests, wait_for  # noqa: E402
from streams import Events  # noqa: E402
from level import LEVEL, differs  # noqa: E402

MIB = 1 << 20
SESSION = None


def session(server):
    global SESSION
    SESSION = SESSION or server.create(timeout="1h", limits={"disk": "128M"})["id"]
    return SESSION


def at(server, what="", s=None, **query):
    words = "&".join(f"{k}={quote(str(v), safe='/')}" for k, v in query.items())
    return f"/v1/sessions/{s or session(server)}/files{what}?{words}"


def sh(server, line, **spec):
    done = server.run(session(server), line, **spec)
    equal(done["exit_code"], 0, f"{line}: {done['stderr']}")
    return done["stdout"]


def test_write_and_read(server):
    entry = server.want(201, "PUT", at(server, path="notes/a.txt"), b"hello\n")
    equal((entry["name"], entry["path"], entry["type"]), ("a.txt", "/home/user/notes/a.txt", "file"))
    equal((entry["mode"], entry["owner"], entry["group"], entry["size"]), ("0644", "user", "user", 6))
    equal((entry["uid"], entry["gid"], entry["target"]), (1000, 1000, None))
    status, headers, body = server.request("GET", at(server, path="notes/a.txt"))
    equal((status, body, headers["content-length"], headers["x-cordon-mode"]), (200, b"hello\n", "6", "0644"))
    check(re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["last-modified"]), headers)
    server.want(200, "PUT", at(server, path="notes/a.txt"), b"")
    equal(server.want(200, "GET", at(server, path="/home/user/notes/a.txt")), b"", "an empty one")
    status, headers, body = server.request("HEAD", at(server, path="/etc/passwd"))
    equal((status, body), (200, b""))
    equal(int(headers["content-length"]), len(server.want(200, "GET", at(server, path="/etc/passwd"))))
    odd = "a b/☃ %?&#+\n'\"\\"
    server.want(201, "PUT", at(server, path="odd/" + odd), b"odd")
    equal(server.want(200, "GET", at(server, path="odd/" + odd)), b"odd", "an odd name")


def test_big_and_ranges(server):
    data = os.urandom(40 * MIB)
    server.want(201, "PUT", at(server, path="/tmp/big"), data)
    equal(sh(server, "sha256sum < /tmp/big").split()[0], hashlib.sha256(data).hexdigest(), "what arrived")
    check(server.want(200, "GET", at(server, path="/tmp/big")) == data, "what came back")
    size = len(data)
    for text, first, last in (
        ("bytes=0-0", 0, 0), ("bytes=5-1000004", 5, 1000004), (f"bytes={size - 3}-", size - 3, size - 1), ("bytes=-4", size - 4, size - 1),
        (f"bytes=100-{size * 2}", 100, size - 1),
    ):  # fmt: skip
        status, headers, body = server.request("GET", at(server, path="/tmp/big"), headers={"Range": text})
        equal((status, headers["content-range"]), (206, f"bytes {first}-{last}/{size}"), text)
        check(body == data[first : last + 1], f"bytes of {text}")
    equal(server.request("GET", at(server, path="/tmp/big"), headers={"Range": f"bytes={size}-"})[0], 416, "behind the end")
    equal(server.want(200, "GET", at(server, path="/tmp/big", offset=7, length=9)), data[7:16])
    equal(server.want(200, "GET", at(server, path="/tmp/big", offset=size - 2)), data[-2:])
    server.want(200, "PUT", at(server, path="/tmp/big", append="true"), b"tail")
    equal(server.want(200, "GET", at(server, path="/tmp/big", offset=size)), b"tail", "appended")
    server.want(204, "DELETE", at(server, path="/tmp/big"))


def test_chunked_upload(server):
    pieces = [os.urandom(70000) for _ in range(30)]
    got = server.request("PUT", at(server, path="/tmp/chunked"), io.BytesIO(b"".join(pieces)))
    equal((got[0], got[2]["size"]), (201, 2100000))
    equal(server.want(200, "GET", at(server, path="/tmp/chunked")), b"".join(pieces))


def test_modes_owners_users(server):
    server.want(201, "PUT", at(server, path="/tmp/m", mode="0751"), b"x")
    equal(sh(server, "stat -c '%a %U:%G' /tmp/m"), "751 user:user\n")
    server.want(201, "PUT", at(server, path="/root/r", user="root", mode="0600", owner="root"), b"secret")
    equal(server.run(session(server), "stat -c '%a %U:%G' /root/r", user="root")["stdout"], "600 root:root\n")
    server.want(201, "PUT", at(server, path="/srv/o", user="root", owner="user:nogroup"), b"x")
    equal(sh(server, "stat -c '%U:%G' /srv/o"), "user:nogroup\n")
    server.refused(403, "denied", "GET", at(server, path="/root/r"))
    server.refused(403, "denied", "PUT", at(server, path="/etc/x"), b"x")
    server.refused(403, "denied", "PUT", at(server, path="/tmp/y", owner="root"), b"x")
    server.refused(403, "denied", "DELETE", at(server, path="/etc/passwd"))
    equal(server.want(200, "GET", at(server, path="/root/r", user="root")), b"secret")
    equal(server.want(200, "GET", at(server, path="r", user="root")), b"secret", "relative to root's home")
    for bad in ("0999", "x", "07777777"):
        server.want(400, "PUT", at(server, path="/tmp/z", mode=bad), b"x")
    server.refused(400, "invalid", "GET", at(server, path="/etc/passwd", user="nobodyhere"), None, "user")


def test_errors(server):
    server.refused(404, "file_not_found", "GET", at(server, path="/none"))
    server.refused(404, "file_not_found", "GET", at(server, "/stat", path="/none"))
    server.refused(404, "file_not_found", "GET", at(server, "/list", path="/none"))
    missing = (403, "denied") if differs("removing a file that is not there") else (404, "file_not_found")
    server.refused(*missing, "DELETE", at(server, path="/none"))
    server.refused(404, "file_not_found", "DELETE", at(server, path="/tmp/none"))
    server.refused(409, "conflict", "GET", at(server, path="/etc"))
    server.refused(409, "conflict", "PUT", at(server, path="/tmp"), b"x")
    server.refused(409, "conflict", "PUT", at(server, path="/etc/passwd/x"), b"x")
    server.want(201, "PUT", at(server, path="/tmp/there", exclusive="true"), b"x")
    server.refused(409, "conflict", "PUT", at(server, path="/tmp/there", exclusive="true"), b"y")
    equal(server.want(200, "GET", at(server, path="/tmp/there")), b"x")
    for bad in ("", "a%00b", "x" * 300, "/" + "y/" * 3000):
        status, _, data = server.request("GET", f"/v1/sessions/{session(server)}/files?path={bad}")
        equal((status, data["error"]["code"]), (400, "invalid"), f"path {bad[:20]}")
    server.refused(400, "invalid", "GET", f"/v1/sessions/{session(server)}/files", None, "path")
    server.refused(400, "invalid", "GET", at(server, path="/etc/passwd", colour="red"), None, "colour")
    for special in ("/dev/zero", "/dev/random", "/proc/kmsg", "/tmp/fifo"):
        sh(server, "[ -p /tmp/fifo ] || mkfifo /tmp/fifo")
        status, _, data = server.request("GET", at(server, path=special), timeout=10)
        hidden = special.startswith("/proc/") and (status == 404 or (status, data) == (200, b""))  # or covered
        check(status in (400, 403, 409) or hidden, f"{special} is no file to read: {status}")


def test_atomic_replace(server):
    """A reader sees the old or the new, whole, while it is replaced again and again."""
    one, two = b"1" * MIB, b"2" * MIB
    server.want(201, "PUT", at(server, path="/tmp/atomic"), one)
    watcher = server.spawn(session(server), ["/usr/bin/python3", "-c",
        "import time\nend = time.monotonic() + 1.5\nn = set()\n"
        "while time.monotonic() < end or (len(n) < 2 and time.monotonic() < end + 30):\n"
        "    d = open('/tmp/atomic').read(); n.add((len(d), d[:1], d == d[:1] * len(d)))\n"
        "print(sorted(n))"])  # fmt: skip
    end = time.monotonic() + 60
    while server.execution(watcher)["ended_at"] is None and time.monotonic() < end:
        server.want(200, "PUT", at(server, path="/tmp/atomic"), two)
        server.want(200, "PUT", at(server, path="/tmp/atomic"), one)
    x = server.ended(watcher)
    out = server.want(200, "GET", f"/v1/sessions/{session(server)}/executions/{x['id']}/output?stream=stdout")
    equal(out, b"[(1048576, '1', True), (1048576, '2', True)]\n", "what a reader saw")


def test_aborted_upload(server):
    server.want(201, "PUT", at(server, path="/tmp/abort/old"), b"old")
    used = sh(server, "find / -xdev -newer /tmp/abort/old -type f 2>/dev/null | grep -v ^/proc | sort; ls -A /tmp/abort")
    for name in ("old", "new"):
        with socket.create_connection(server.address) as link:
            head = f"PUT {at(server, path='/tmp/abort/' + name)} HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\nContent-Length: 9000000\r\n\r\n"
            link.sendall(head.encode() + b"x" * 3000000)
            wait_for(lambda: len(server.programs(session(server))) > 1, 15, "the writer")
    wait_for(lambda: len(server.programs(session(server))) == 1, 15, "end of the writers")
    equal(sh(server, "cat /tmp/abort/old"), "old")
    now = sh(server, "find / -xdev -newer /tmp/abort/old -type f 2>/dev/null | grep -v ^/proc | sort; ls -A /tmp/abort")
    if differs("uploads that break off"):
        now = re.sub(r"(/tmp/abort/)?\.cordon-new-\w+\n", "", now)
    equal(now, used, "what an upload that broke off leaves")


def test_too_much(server):
    status, _, data = server.request("PUT", at(server, path="/tmp/over"), b"x" * (50 * MIB + 1))
    equal((status, data["error"]["code"]), (413, "too_large"), "over file_max")
    s = server.create(limits={"disk": "8M"})["id"]
    error = server.refused(507, "disk_full", "PUT", at(server, s=s, path="/tmp/full"), b"x" * (20 * MIB))
    equal(error["fault"], "user")
    server.refused(404, "file_not_found", "GET", at(server, "/stat", s=s, path="/tmp/full"))
    server.want(201, "PUT", at(server, s=s, path="/tmp/fits"), b"x" * (4 * MIB))
    server.delete(s)


def test_stat_links(server):
    sh(server, "mkdir -p /tmp/l && cd /tmp/l && echo x > f && ln -sf f link && ln -sf /none dead && ln -sf loop loop")
    link = server.want(200, "GET", at(server, "/stat", path="/tmp/l/link"))
    equal((link["type"], link["target"], link["mode"]), ("symlink", "f", "0777"))
    equal(server.want(200, "GET", at(server, "/stat", path="/tmp/l/link", follow="true"))["type"], "file")
    server.refused(404, "file_not_found", "GET", at(server, "/stat", path="/tmp/l/dead", follow="true"))
    equal(server.want(200, "GET", at(server, path="/tmp/l/link")), b"x\n", "reading follows")
    check(server.request("GET", at(server, path="/tmp/l/loop"))[0] in (400, 404, 409), "a loop")
    server.want(204, "DELETE", at(server, path="/tmp/l/link"))
    equal(sh(server, "cat /tmp/l/f"), "x\n", "removing a link leaves its target")
    kinds = {"/dev/null": "char", "/tmp/l": "directory", "/tmp/fifo": "fifo"}
    sh(server, "[ -p /tmp/fifo ] || mkfifo /tmp/fifo")
    for path, kind in kinds.items():
        equal(server.want(200, "GET", at(server, "/stat", path=path))["type"], kind, path)


def test_list_mkdir_move_remove(server):
    entry = server.want(201, "POST", at(server, "/mkdir"), {"path": "/tmp/d/e/f", "mode": "0750", "parents": True})
    equal((entry["type"], entry["mode"]), ("directory", "0750"))
    server.want(200, "POST", at(server, "/mkdir"), {"path": "/tmp/d/e/f", "parents": True})
    server.refused(409, "conflict", "POST", at(server, "/mkdir"), {"path": "/etc/passwd"})
    server.refused(404, "file_not_found", "POST", at(server, "/mkdir"), {"path": "/tmp/none/x", "parents": False})
    for name in ("a", "b", "e/c", "e/f/d"):
        server.want(201, "PUT", at(server, path=f"/tmp/d/{name}"), name.encode())

    def names(**query):
        got = server.want(200, "GET", at(server, "/list", path="/tmp/d", **query))
        return sorted(e["path"][len("/tmp/d/") :] for e in got["entries"]), got["truncated"]

    equal(names(), (["a", "b", "e"], False))
    equal(names(depth=2), (["a", "b", "e", "e/c", "e/f"], False))
    equal(names(depth=9), (["a", "b", "e", "e/c", "e/f", "e/f/d"], False))
    got = names(depth=9, limit=2)
    equal((len(got[0]), got[1]), (2, True))
    server.refused(409, "conflict", "GET", at(server, "/list", path="/tmp/d/a"))
    moved = server.want(200, "POST", at(server, "/move"), {"from": "/tmp/d/a", "to": "/tmp/d/e/moved"})
    equal((moved["path"], moved["size"]), ("/tmp/d/e/moved", 1))
    server.refused(404, "file_not_found", "POST", at(server, "/move"), {"from": "/tmp/d/a", "to": "/tmp/d/z"})
    server.refused(409, "conflict", "DELETE", at(server, path="/tmp/d"))
    server.want(204, "DELETE", at(server, path="/tmp/d", recursive="true"))
    server.refused(404, "file_not_found", "GET", at(server, "/stat", path="/tmp/d"))


def test_path_rules(server):
    s = server.create(rules={"writable": ["/home/user/draft"], "exportable": ["/home/user/out", "/etc"]})["id"]
    equal(s and server.get(s)["rules"], {"writable": ["/home/user/draft"], "exportable": ["/home/user/out", "/etc"]})
    # The directories that rules name are the session's own business to make.
    server.refused(403, "denied", "PUT", at(server, s=s, path="draft/a"), b"a")
    server.run(s, "mkdir draft")
    server.want(201, "PUT", at(server, s=s, path="draft/a"), b"a")
    for path in ("other", "/home/user/draftsman", "draft/../other", "/tmp/x", "/home/user/draft/../../user/x"):
        server.refused(403, "denied", "PUT", at(server, s=s, path=path), b"x")
    server.run(s, "mkdir out; echo o > out/o; ln -s /tmp draft/way; ln -s /home/user/draft/a out/way; echo s > /tmp/s")
    server.refused(403, "denied", "PUT", at(server, s=s, path="draft/way/x"), b"x")
    equal(server.want(200, "GET", at(server, s=s, path="out/o")), b"o\n")
    server.want(200, "GET", at(server, s=s, path="/etc/hostname"))
    for path in ("draft/a", "/tmp/s", "out/way", "out/../draft/a", "/etc/../tmp/s"):
        server.refused(403, "denied", "GET", at(server, s=s, path=path))
    server.refused(403, "denied", "GET", at(server, "/tar", s=s, path="draft"))
    server.refused(403, "denied", "DELETE", at(server, s=s, path="out/o"))
    server.refused(403, "denied", "POST", at(server, "/mkdir", s=s), {"path": "/home/user/new"})
    server.refused(403, "denied", "POST", at(server, "/move", s=s), {"from": "/home/user/draft/a", "to": "/home/user/out/a"})
    server.refused(403, "denied", "POST", at(server, "/move", s=s), {"from": "/home/user/out/o", "to": "/home/user/draft/o"})
    server.refused(403, "denied", "PUT", at(server, "/tar", s=s, path="out"), b"\0" * 1024)
    equal(server.run(s, "cat out/o; ls draft")["stdout"], "o\na\nway\n", "nothing has changed")
    server.delete(s)


def test_tar(server):
    sh(server, "mkdir -p /tmp/t/sub/deep && cd /tmp/t && echo one > a && head -c 3000000 /dev/urandom > sub/big && ln -s a link && ln a hard"
       " && chmod 750 sub/deep && : > sub/empty && touch -d 2020-01-01 a && sha256sum sub/big > sum")  # fmt: skip
    status, headers, data = server.request("GET", at(server, "/tar", path="/tmp/t"))
    equal((status, headers["content-type"]), (200, "application/x-tar"))
    archive = tarfile.open(fileobj=io.BytesIO(data))
    names = {m.name.strip("/").removeprefix("./").removeprefix("t/"): m for m in archive.getmembers()}
    for name in ("a", "link", "hard", "sum", "sub/big", "sub/deep", "sub/empty"):
        has(names, name, "members")
    check(names["link"].issym() and names["sub/deep"].isdir() and names["sub/big"].size == 3000000, names)
    equal(names["sub/deep"].mode & 0o777, 0o750)
    server.want(201, "POST", at(server, "/mkdir"), {"path": "/tmp/t2"})
    sums = server.want(200, "PUT", at(server, "/tar", path="/tmp/t2"), data)
    equal((sums["skipped"], sums["bytes"] >= 3000000), (0, True), f"{sums}")
    top = sh(server, "cd /tmp/t2; [ -d t ] && cd t; pwd").strip()
    equal(sh(server, f"cd {top} && sha256sum -c sum && diff -r /tmp/t . && readlink link && stat -c '%a' sub/deep; stat -c '%a %Y' a"),
          "sub/big: OK\na\n" + sh(server, "stat -c '%a' /tmp/t/sub/deep; stat -c '%a %Y' /tmp/t/a"))  # fmt: skip


def hostile_tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        def add(name, data=b"x", **more):
            m = tarfile.TarInfo(name)
            m.size = len(data) if more.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else 0
            for key, value in more.items():
                setattr(m, key, value)
            t.addfile(m, io.BytesIO(data))

        add("good")
        add("../up")
        add("/tmp/abs")
        add("a/../../up2")
        add("way", type=tarfile.SYMTYPE, linkname="/tmp/outside")
        add("way/in")
        add("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
        add("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")
        add("set", mode=0o4755)
    return out.getvalue()


def test_hostile_tar(server):
    sh(server, "mkdir -p /tmp/h /tmp/outside")
    server.request("PUT", at(server, "/tar", path="/tmp/h/x"), b"")
    server.request("PUT", at(server, "/tar", path="/tmp/h"), hostile_tar())
    sh(server, "cd /tmp; ! ls up up2 abs outside/in h/../up 2>/dev/null; ! test -c h/dev; ! test h/hard -ef /etc/passwd; ! test -u h/set || true")
    for junk in (b"junk" * 1000, hostile_tar()[:700]):
        status = server.request("PUT", at(server, "/tar", path="/tmp/h"), junk)[0]
        equal(status, 400, "what is no archive")


def test_watch(server):
    sh(server, "mkdir -p /tmp/watched/sub")
    seen, ready = [], threading.Event()

    def look():
        with Events(server, at(server, "/watch", path="/tmp/watched", recursive="true")) as events:
            for event in events:
                if event.name == "ready":
                    ready.set()
                    continue
                seen.append((event.name, event.data.get("path", ""), *([event.data["to"]] if "to" in event.data else [])))
                if event.data.get("path", "").endswith("stop"):
                    return

    thread = threading.Thread(target=look)
    thread.start()
    check(ready.wait(10), "ready does not come")
    sh(server, "cd /tmp/watched; echo x > f; chmod 600 f; mv f g; mkdir sub/new; sleep 0.2; echo y > sub/new/deep; rm g; touch stop")
    thread.join(15)
    check(not thread.is_alive(), f"not all is told: {seen}")
    kinds = set(seen)  # paths are relative to what is watched
    for want in (("create", "f"), ("write", "f"), ("chmod", "f"), ("create", "sub/new"), ("create", "sub/new/deep"), ("remove", "g")):
        has(kinds, want, "events")
    has(kinds, ("rename", "f", "g"), "events")
    if differs("watchers of files"):
        sh(server, "touch /tmp/watched/again")
    wait_for(lambda: len(server.programs(session(server))) == 1, 15, "end of the watcher")
    server.refused(404, "file_not_found", "GET", at(server, "/watch", path="/none"))


def test_diff(server):
    s = server.create()["id"]
    equal(server.diff(s), {"changes": [], "truncated": False}, "at the start")
    server.run(s, "echo new > /home/user/new; echo 127.0.0.1 x >> /etc/hosts; rm /etc/magic /etc/networks; chmod 700 /opt; mkdir /srv/d", user="root")
    got = server.diff(s)
    kinds = {c["path"]: c["kind"] for c in got["changes"]}
    for path, kind in (("/home/user/new", "added"), ("/etc/hosts", "changed"), ("/etc/networks", "deleted"), ("/srv/d", "added")):
        equal(kinds.get(path), kind, f"{path} in {kinds}")
    new = next(c for c in got["changes"] if c["path"] == "/home/user/new")
    equal((new["mode"], new["size"]), ("0644", 4))
    check(not any(p.startswith(("/proc", "/dev", "/sys")) for p in kinds), kinds)
    server.delete(s)


def test_stopped_session(server):
    s = server.create()["id"]
    server.delete(s)
    server.reaches(s, "ended")
    server.refused(410, "gone", "GET", at(server, s=s, path="/etc/passwd"))
    server.refused(410, "gone", "PUT", at(server, s=s, path="/tmp/x"), b"x")
    server.refused(410, "gone", "GET", f"/v1/sessions/{s}/diff")


def test_with_a_writable_mount():
    """Such a cell has a filter that refuses openat2, by which paths are opened elsewhere."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        source = f"{top}/source"
        os.mkdir(source)
        os.chown(source, 1000, 1000)
        with Server(pool_size=0, mount_roots=f"{source}:rw") as server:
            if differs("writable directories of the machine, volumes") or differs("mounts"):
                body = {"mounts": [{"source": source, "target": "/mnt", "mode": "rw"}]}
                server.refused(422, "unsupported", "POST", "/v1/sessions", body, "mounts", LEVEL)
                return
            s = server.create(mounts=[{"source": source, "target": "/mnt", "mode": "rw"}])["id"]
            for path in ("/tmp/a/b", "/mnt/a/b"):
                server.want(201, "PUT", at(server, s=s, path=path), b"hello\n")
                equal(server.want(200, "GET", at(server, s=s, path=path)), b"hello\n", path)
                names = [entry["name"] for entry in server.want(200, "GET", at(server, "/list", s=s, path=path[:-2]))["entries"]]
                equal(names, ["b"], path)
            server.run(s, "ln -s /proc/self/fd /tmp/fds; ln -s /tmp/a /tmp/link")
            equal(server.want(200, "GET", at(server, s=s, path="/tmp/link/b")), b"hello\n", "a link")
            got, _, data = server.request("GET", at(server, s=s, path="/tmp/fds/1"))
            check(got >= 400 and got != 500, f"a magic link: {got} {data!r}")
            with open(f"{source}/a/b", "rb") as f:
                equal(f.read(), b"hello\n", "on the machine")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1, file_max="50M")
