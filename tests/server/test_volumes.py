#!/usr/bin/python3 -B
"""Goal: a volume is what its tenant made and nothing else: it outlives sessions, servers and kills, is seen live by all
that mount it, and nothing in it leads out of it or keeps the server from answering.

    test_volumes.py CORDON [name ...]
"""
import glob
import os
import re
import signal
import socket
import subprocess
import threading
import time

import rows
from harness import Server, check, equal, has, run_tests, wait_for

KILLS = True  # some tests kill cordond and cordon-storage


def make(server, name, status=201, key="", **more):
    return server.want(status, "POST", "/v1/volumes", {"name": name, **more}, key=key)


def drop(server, name, status=204, key=""):
    server.want(status, "DELETE", f"/v1/volumes/{name}", key=key)


def session(server, *volumes, key="", **more):
    """Of NAME:/path or NAME:/path:ro."""
    parts = [v.split(":") for v in volumes]
    return server.create(key=key, volumes=[
        {"name": p[0], "path": p[1], **({"mode": p[2]} if len(p) > 2 else {})} for p in parts], **more)["id"]


def sh(server, session_id, line, **more):
    done = server.run(session_id, ["/bin/sh", "-c", line], **more)
    return (done["stdout"] + done["stderr"]).strip()


class Content:
    """The content of a volume, by E2B's requests."""

    def __init__(self, server, name, key=""):
        self.server = server
        got = server.want(200, "GET", f"/volumes/{name}", key=key)
        self.id, self.token = got["volumeID"], got["token"]

    def ask(self, method, what, body=None, token=None, headers=None, timeout=60, **query):
        text = "&".join(f"{k}={v}" for k, v in query.items())
        return self.server.request(
            method, f"/volumecontent/{self.id}/{what}?{text}", body, raw=True, timeout=timeout, key=None,
            headers={"Authorization": f"Bearer {token or self.token}", **(headers or {})})

    def put(self, path, data, **query):
        status, _, body = self.ask("PUT", "file", data, path=path, **query,
                                   headers={"Content-Type": "application/octet-stream"})
        equal(status, 201, body)

    def get(self, path):
        status, _, body = self.ask("GET", "file", path=path)
        equal(status, 200, body)
        return body


def folder(server):
    return os.path.join(server.folder, "state", "storage", "volumes")


def loops(server):
    """Images of this server that a loop device has."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path) as f:
                found.append(f.read().strip())
        except OSError:
            pass  # it was freed meanwhile
    return [name for name in found if name.startswith(folder(server))]


def staged(server, volume_id):
    """What is in the directory new of an image that is not mounted."""
    wait_for(lambda: loops(server) == [], 15, "no image is mounted")
    done = subprocess.run(["debugfs", "-R", "ls -p /new", os.path.join(folder(server), volume_id, "image")],
                          capture_output=True, text=True, timeout=20, check=True)
    return [line.split("/")[5] for line in done.stdout.split() if line.split("/")[5] not in (".", "..")]


def left(server):
    return sorted(os.listdir(folder(server)))


# --- made, shown, removed


def test_made_listed_shown_removed(server):
    made = make(server, "work", size="64M", expires_in="1h")
    check(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made["id"]), made)
    equal((made["name"], made["size"], made["sessions"]), ("work", 64 << 20, 0))
    check(made["expires_at"] is not None, "no time")
    make(server, "other")
    equal([v["name"] for v in server.want(200, "GET", "/v1/volumes")["volumes"]], ["other", "work"])
    page = server.want(200, "GET", "/v1/volumes?limit=1")
    equal(([v["name"] for v in page["volumes"]], page["next"]), (["other"], "other"))
    equal([v["name"] for v in server.want(200, "GET", "/v1/volumes?after=other")["volumes"]], ["work"])
    shown = server.want(200, "GET", "/v1/volumes/work")
    equal((shown["id"], shown["usage"]["bytes"] < 16 << 20), (made["id"], True))
    equal(server.want(200, "GET", f"/v1/volumes/{made['id']}")["name"], "work")
    server.refused(409, "conflict", "POST", "/v1/volumes", {"name": "work"}, "already exists")
    for bad in ({}, {"name": ""}, {"name": "a b"}, {"name": "../x"}, {"name": "x" * 64}, {"name": "n", "size": 1},
                {"name": "n", "size": "1000T"}, {"name": "n", "more": 1}):
        server.refused(400, "invalid", "POST", "/v1/volumes", bad)
    for name in ("work", "other"):
        drop(server, name)
        server.refused(404, "not_found", "GET", f"/v1/volumes/{name}")
        server.refused(404, "not_found", "DELETE", f"/v1/volumes/{name}")
    wait_for(lambda: left(server) == [], 15, "the folder is empty")


def test_quota(_):
    with Server(tenant_max_volumes=2, tenant_max_volume_bytes="100M", volume_size_default="10M") as server:
        make(server, "a")
        server.refused(429, "quota_storage", "POST", "/v1/volumes", {"name": "b", "size": "95M"},
                       "tenant_max_volume_bytes")
        make(server, "b")
        server.refused(429, "quota_volumes", "POST", "/v1/volumes", {"name": "c"}, "tenant_max_volumes")
        drop(server, "a")
        wait_for(lambda: len(left(server)) == 1, 15, "removed")
        # the volume counts until its row is gone, too
        wait_for(lambda: server.request("POST", "/v1/volumes", {"name": "c"})[0] == 201, 15, "room for another one")


def test_reserve(_):
    with Server(storage_reserve=90) as server:
        server.want(200, "GET", "/v1/volumes")
        free = os.statvfs(folder(server))
        if free.f_bavail * 10 >= free.f_blocks * 9:
            return  # the machine's disk is nearly empty
        server.refused(507, "storage_full", "POST", "/v1/volumes", {"name": "a"}, "storage_reserve")
        equal(left(server), [])


def test_expires(_):
    with Server() as server:
        make(server, "brief", expires_in="1s")
        make(server, "used", expires_in="1s")
        box = session(server, "used:/v")
        wait_for(lambda: [v["name"] for v in server.want(200, "GET", "/v1/volumes")["volumes"]] == ["used"], 30, "gone")
        equal(sh(server, box, "echo hi > /v/x && cat /v/x"), "hi")
        server.delete(box)
        wait_for(lambda: left(server) == [], 30, "gone when its session has ended")
        has(str(server.want(200, "GET", "/v1/events")), "volume.deleted")


# --- in sessions


def test_outlives_sessions_and_is_shared_live(server):
    make(server, "shared")
    a, b = session(server, "shared:/v"), session(server, "shared:/data/in")
    equal(sh(server, a, "id -u; echo one > /v/f; mkdir /v/d; stat -c '%u:%g %a' /v/f /v/d"),
          "1000\n1000:1000 644\n1000:1000 755")
    equal(sh(server, b, "cat /data/in/f; echo two >> /data/in/f"), "one")
    equal(sh(server, a, "cat /v/f"), "one\ntwo")
    # owners are those of the cell, whichever cell looks
    equal(sh(server, a, "sudo sh -c 'echo r > /v/root; chmod 600 /v/root'; stat -c %u /v/root"), "0")
    equal(sh(server, b, "stat -c %u /data/in/root; cat /data/in/root 2>&1 | grep -o 'Permission denied'"),
          "0\nPermission denied")
    content = Content(server, "shared")
    equal(content.get("/f"), b"one\ntwo\n")
    content.put("/from-outside", b"hello")
    equal(sh(server, a, "cat /v/from-outside; stat -c '%u:%g %a' /v/from-outside"), "hello1000:1000 644")
    shown = server.get(a)
    equal([(v["name"], v["path"], v["mode"]) for v in shown["volumes"]], [("shared", "/v", "rw")])
    equal(shown["mounts"], [])
    equal(server.want(200, "GET", "/v1/volumes/shared")["sessions"], 2)
    server.refused(409, "conflict", "DELETE", "/v1/volumes/shared", None, "2 sessions")
    for one in (a, b):
        server.delete(one)
        server.reaches(one, "ended")
    c = session(server, "shared:/v")
    equal(sh(server, c, "cat /v/f"), "one\ntwo")
    server.refused(409, "conflict", "DELETE", "/v1/volumes/shared", None, "1 session mounts it")
    server.delete(c)  # its cell ends meanwhile
    drop(server, "shared")
    server.reaches(c, "ended")


def test_read_only_and_flags(server):
    make(server, "ro")
    box = session(server, "ro:/r:ro", "ro:/w")
    equal(sh(server, box, "echo x > /w/f; cat /r/f; echo y > /r/g"), "x\n/bin/sh: 1: cannot create /r/g: Read-only file system")
    has(sh(server, box, "grep ' /r ' /proc/self/mounts"), "ro,nosuid,nodev")
    has(sh(server, box, "grep ' /w ' /proc/self/mounts"), "rw,nosuid,nodev")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"volumes": [{"name": "none", "path": "/v"}]}, "none")
    for bad in ({"name": "ro"}, {"path": "/v"}, {"name": "ro", "path": "v"}, {"name": "ro", "path": "/a/../b"},
                {"name": "ro", "path": "/"}, {"name": "ro", "path": "/v", "mode": "x"}):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"volumes": [bad]})
    server.refused(400, "invalid", "POST", "/v1/sessions", {"mounts": [{"source": "volume:x:y", "target": "/v"}]})
    server.delete(box)


def test_forks_snapshots_and_cold_sessions(server):
    """A fork mounts what its source mounts; a snapshot has nothing of it; a session that was cold has it again."""
    make(server, "kept")
    box = session(server, "kept:/v")
    sh(server, box, "echo in-volume > /v/x; echo own > /home/user/y")
    fork = server.want(201, "POST", f"/v1/sessions/{box}/fork", {"count": 1})["sessions"][0]["id"]
    server.ids.add(fork)
    equal(sh(server, fork, "cat /v/x /home/user/y; echo by-fork > /v/z"), "in-volume\nown")
    equal(sh(server, box, "cat /v/z"), "by-fork")
    equal(server.want(200, "GET", "/v1/volumes/kept")["sessions"], 2)
    server.want(201, "POST", f"/v1/sessions/{box}/snapshots", {"name": "without-volume"})
    child = server.create(template="without-volume")
    equal((child["volumes"], sh(server, child["id"], "ls -A /v; cat /home/user/y")), ([], "own"))
    server.want(200, "POST", f"/v1/sessions/{box}/pause", {"memory": False})
    server.refused(409, "conflict", "DELETE", "/v1/volumes/kept")  # it will need it again
    equal(sh(server, box, "cat /v/x /home/user/y"), "in-volume\nown")
    for one in (box, fork, child["id"]):
        server.delete(one)
        server.reaches(one, "ended")
    drop(server, "kept")


def test_watchers_see_changes(server):
    make(server, "watched")
    a, b = session(server, "watched:/v"), session(server, "watched:/v")
    content = Content(server, "watched")
    with socket.create_connection(server.address, 30) as link:
        link.sendall(f"GET /v1/sessions/{a}/files/watch?path=/v HTTP/1.1\r\nHost: x\r\n"
                     f"Authorization: Bearer {server.key}\r\n\r\n".encode())
        seen = b""

        def until(word):
            nonlocal seen
            while word not in seen:
                more = link.recv(65536)
                check(more, f"ended before {word}: {seen}")
                seen += more

        until(b"ready")
        sh(server, b, "echo x > /v/by-cell")
        until(b"by-cell")
        content.put("/by-content", b"x")
        until(b"by-content")
    for one in (a, b):
        server.delete(one)


def test_tenants_do_not_see_each_other(server):
    other = server.tenant("volumes-other")[1]
    make(server, "mine")
    make(server, "mine", key=other)
    mine, theirs = Content(server, "mine"), Content(server, "mine", key=other)
    check(mine.id != theirs.id, "one volume for two tenants")
    mine.put("/secret", b"42")
    equal(theirs.ask("GET", "file", path="/secret")[0], 404)
    equal(server.request("GET", f"/v1/volumes/{mine.id}", key=other)[0], 404)
    equal(server.request("DELETE", f"/v1/volumes/{mine.id}", key=other)[0], 404)
    equal(server.request("POST", "/v1/sessions", {"volumes": [{"name": mine.id, "path": "/v"}]}, key=other)[0], 404)
    theirs.id, kept = mine.id, theirs.id  # a token is worth nothing for another volume
    equal(theirs.ask("GET", "file", path="/secret")[0], 401)
    theirs.id = kept
    box = session(server, "mine:/v", key=other)
    equal(sh(server, box, "ls -A /v", key=other), "")
    server.delete(box, key=other)
    equal(mine.get("/secret"), b"42")


def test_full(server):
    """A volume has the size that was asked for, for every writer."""
    made = make(server, "small", size="16M")
    equal((made["kind"], made["size_enforced"]), ("image", True))
    content = Content(server, "small")
    content.put("/kept", b"k")
    status, _, body = content.ask("PUT", "file", b"x" * (20 << 20), path="/big")
    equal(status, 507, body)
    has(body.decode(), "No space left")
    equal(content.ask("GET", "path", path="/big")[0], 404)
    box = session(server, "small:/v")
    has(sh(server, box, "head -c 20000000 /dev/zero > /v/full"), "No space left on device")
    equal(content.get("/kept"), b"k")
    equal(content.ask("PUT", "file", b"x" * 100000, path="/more")[0], 507)
    sh(server, box, "rm /v/full")
    content.put("/more", b"x" * 100000)
    check(server.want(200, "GET", "/v1/volumes/small")["usage"]["bytes"] <= 17 << 20, "more than its size")
    server.delete(box)
    server.reaches(box, "ended")
    wait_for(lambda: loops(server) == [], 15, "its loop device is free")


# --- hostile contents


def test_hostile_contents(server):
    """Links, pipes, sockets, deep trees: nothing leads out, nothing hangs."""
    make(server, "hostile")
    box = session(server, "hostile:/v")
    content = Content(server, "hostile")
    sh(server, box, "cd /v; ln -s /etc/passwd abs; ln -s ../../../../../../etc/passwd rel; ln -s / top; mkfifo pipe; "
                    "ln -s pipe to-pipe; ln -s loop loop; mkdir d; echo in > d/f; ln -s /d/f inside; ln -s /../new staging; "
                    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    for path in ("abs", "rel", "top/etc/passwd", "staging/x", "staging"):
        equal(content.ask("GET", "file", path="/" + path)[0], 404, path)
    equal(content.get("/inside"), b"in\n")
    equal(content.get("/top/d/f"), b"in\n")
    for path in ("pipe", "to-pipe", "sock", "loop"):
        equal(content.ask("GET", "file", path="/" + path, timeout=10)[0], 400, path)
        check(content.ask("PATCH", "path", b'{"mode":511}', path="/" + path, timeout=10,
                          headers={"Content-Type": "application/json"})[0] == 400, path)
    equal(content.ask("PUT", "file", b"x", path="/abs/y", force="true")[0], 404)  # the link leads nowhere
    content.put("/abs", b"mine", force="true")  # replaces the link, not its target
    equal(sh(server, box, "cat /v/abs; test -L /v/abs || echo file"), "minefile")
    equal(content.ask("PUT", "file", b"x", path="/top/z", force="true")[0], 201)
    equal(sh(server, box, "cat /v/z"), "x")
    # deeper than any path, wider than any stack
    sh(server, box, "cd /v; python3 -c 'import os; [(os.mkdir(n), os.chdir(n)) for n in [\"deep\"] + 3000 * [\"d\"]]'")
    status, _, body = content.ask("GET", "dir", path="/deep", depth=10)
    equal((status, body.count(b'"directory"')), (200, 10))
    equal(content.ask("GET", "dir", path="/", depth=11)[0], 400)
    equal(content.ask("DELETE", "path", path="/deep")[0], 204)
    equal(content.ask("GET", "path", path="/deep")[0], 404)
    server.want(200, "GET", "/v1/volumes/hostile")
    server.delete(box)
    server.reaches(box, "ended")
    equal(staged(server, content.id), [])
    drop(server, "hostile")


def test_cut_off_writes_leave_nothing(server):
    make(server, "cut")
    content = Content(server, "cut")
    content.put("/old", b"old")
    with socket.create_connection(server.address, 30) as link:
        link.sendall(f"PUT /volumecontent/{content.id}/file?path=/old&force=true HTTP/1.1\r\nHost: x\r\n"
                  f"Authorization: Bearer {content.token}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"n" * 300000)
        wait_for(lambda: loops(server), 15, "the volume is mounted for the write")
    equal(staged(server, content.id), [])
    equal(content.get("/old"), b"old")
    equal(content.ask("PUT", "file", b"x", path="/a/b")[0], 404)
    equal(content.ask("PUT", "file", b"x", path="/old")[0], 409)


# --- kills


def slow_write(server, content, path):
    """Begins a write and leaves it open."""
    link = socket.create_connection(server.address, 30)
    link.sendall(f"PUT /volumecontent/{content.id}/file?path={path}&force=true HTTP/1.1\r\nHost: x\r\n"
              f"Authorization: Bearer {content.token}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"n" * 200000)
    return link


def test_operations_at_a_time(server):
    """16 of a tenant, 64 of all: then a tenant that has none may begin one more."""
    keys = [server.tenant(f"slow-{n}")[1] for n in range(5)]
    contents = []
    for key in keys:
        make(server, "slow", key=key, size="32M")
        contents.append(Content(server, "slow", key))
    links = [slow_write(server, c, f"/f{n}") for c in contents[:4] for n in range(16)]
    busy = lambda c: c.ask("GET", "path", path="/", timeout=20)[0] == 429  # noqa: E731
    wait_for(lambda: all(busy(c) for c in contents[:4]), 30, "four tenants have as many as they may")
    last = contents[4]
    check(not busy(last), "one that has none begins one")
    links.append(slow_write(server, last, "/f"))
    wait_for(lambda: busy(last), 30, "and no second one, while there are 64 of others")
    for link in links:
        link.close()
    for key in keys:
        wait_for(lambda key=key: server.request("DELETE", "/v1/volumes/slow", key=key)[0] in (200, 204), 30, "the volume is removed")


def test_kills_leave_nothing_half(_):
    """cordond, cordon-storage and a keeper are killed while volumes are made, written, mounted, removed."""
    with Server() as server:
        make(server, "v")
        content = Content(server, "v")
        content.put("/f", b"first")
        box = session(server, "v:/v")
        for name in ("cordond", "cordon-storage", "cordon-keeper"):
            links = [slow_write(server, content, p) for p in ("/f", "/new-one")]
            stop = threading.Event()

            def churn():
                n = 0
                while not stop.is_set():
                    n += 1
                    try:
                        server.request("POST", "/v1/volumes", {"name": f"t{n}"})
                        server.request("DELETE", f"/v1/volumes/t{n}")
                    except OSError:
                        time.sleep(0.05)  # the server is starting

            thread = threading.Thread(target=churn)
            thread.start()
            time.sleep(0.3)  # so that the kill comes in the middle
            server.restarted(name)
            stop.set()
            thread.join()
            for link in links:
                link.close()
            server.wait_ready()
            equal(content.get("/f"), b"first", name)
            equal(content.ask("GET", "file", path="/new-one")[0], 404, name)
            equal(sh(server, box, "cat /v/f"), "first", name)
            content.put("/after", name.encode(), force="true")
            equal(sh(server, box, "cat /v/after"), name)
        for v in server.want(200, "GET", "/v1/volumes")["volumes"]:
            if v["name"] != "v":
                drop(server, v["name"])
        wait_for(lambda: left(server) == [content.id], 30, f"only one volume is left: {left(server)}")
        server.restart()
        equal(Content(server, "v").get("/f"), b"first")
        equal(sh(server, box, "cat /v/f"), "first")
        server.delete(box)
        server.reaches(box, "ended")
        equal(staged(server, content.id), [])


def test_command(server):
    """cordon volume, and --volume of cordon create."""

    def run(*args, code=0):
        env = dict(os.environ, CORDON_SERVER=server.url, CORDON_API_KEY=server.key)
        done = subprocess.run([server.program, *args], env=env, capture_output=True, text=True, timeout=60)
        equal(done.returncode, code, f"{args}: {done.stderr}")
        return done.stdout

    equal(run("volume", "create", "cli", "--size", "16M"), "cli\n")
    equal([line.split()[:2] for line in run("volume", "ls").splitlines() if line.startswith("cli ")], [["cli", "16M"]])
    has(run("volume", "show", "cli"), "16777216")
    box = run("create", "--volume", "cli:/v", "--volume", "cli:/r:ro").strip()
    equal(sh(server, box, "echo hi > /v/x; cat /r/x; touch /r/y 2>&1 | grep -o Read-only"), "hi\nRead-only")
    run("volume", "rm", "cli", code=4)
    for wrong in ("cli", "cli:/v:r0", "cli:/v:"):  # not a writable mount at /v:r0
        run("create", "--volume", wrong, code=2)
    server.delete(box)
    server.reaches(box, "ended")
    run("volume", "rm", "cli")



def test_a_tenant_removed_while_its_volume_is_made(server):
    """The volume is there after the tenant's were removed: it goes, too."""
    tenant, key = server.tenant("leaving")
    folder = os.path.join(server.state, "storage", "volumes")
    server.want(201, "POST", "/v1/volumes", {"name": "first", "size": "16M"}, key=key)  # it works: an earlier test may have killed it
    server.want(204, "DELETE", "/v1/volumes/first", key=key)
    wait_for(lambda: rows.number(server, "SELECT count(*) FROM volume WHERE name = 'first'") == 0, 20, "the first to go")
    before = set(os.listdir(folder))
    storage = wait_for(lambda: server.pid("cordon-storage"), 30, "cordon-storage")
    os.kill(storage, signal.SIGSTOP)
    try:
        thread = threading.Thread(target=lambda: server.request("POST", "/v1/volumes", {"name": "v", "size": "16M"}, key=key))
        thread.start()
        wait_for(lambda: rows.number(server, "SELECT count(*) FROM volume WHERE name = 'v' AND state = 0") == 1, 20, "the volume to be begun")
        server.want(204, "DELETE", "/v1/tenants/" + tenant)
        time.sleep(0.3)  # its volumes are removed, and this one is not there yet
    finally:
        os.kill(storage, signal.SIGCONT)
    thread.join()
    wait_for(lambda: rows.number(server, "SELECT count(*) FROM volume WHERE name = 'v'") == 0, 20, "its row to go")
    wait_for(lambda: set(os.listdir(folder)) <= before, 20, "its folder to go")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
