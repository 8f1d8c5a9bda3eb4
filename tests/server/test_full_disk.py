#!/usr/bin/python3 -B
"""Goal: when the disk of the storage folder is really full, whatever needs it is refused with 507 or fails with a clear
error, what was acknowledged is there, nothing half is left, and all works again after space was freed. storage_reserve, which
refuses such requests before, is 0 here.

    test_full_disk.py CORDON [name ...]
"""
import contextlib
import gzip
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from harness import Server, check, equal, has, run_tests, wait_for
from images import Image, archive, member
from test_volumes import Content

KILLS = True
MIB = 1 << 20
BUILDS = "/v1/builds"


class Small(Server):
    """A server whose storage folder (where="storage"), or whose whole state folder, is a file system of its own."""

    def __init__(self, where, promised="64G", reserve=0):
        self.top = tempfile.mkdtemp(prefix="cordon-full-", dir="/var/tmp")
        self.disk = os.path.join(self.top, "disk")
        os.chmod(self.top, 0o755)
        os.mkdir(self.disk)
        with open(self.top + "/image", "wb") as f:
            f.truncate(400 * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-b", "4096", self.top + "/image"], check=True)
        subprocess.run(["mount", "-o", "loop", self.top + "/image", self.disk], check=True)
        os.chmod(self.disk, 0o755)
        folder, more = self.disk, {}
        if where == "storage":
            folder = os.path.join(self.top, "server")
            os.mkdir(folder)
            os.mkdir(self.disk + "/storage", 0o700)
            more["storage_dir"] = self.disk + "/storage"
        self.storage = more.get("storage_dir", os.path.join(folder, "state", "storage"))
        # what a tenant may be promised without settings ("0") is less than this small disk has
        super().__init__(folder=folder, storage_reserve=reserve, pool_size=1, tenant_max_storage=promised, tenant_max_volume_bytes=promised, **more)

    def left_now(self):
        return [line for line in super().left_now() if f" {self.disk} " not in line]

    def destroy(self):
        super().destroy()
        subprocess.run(["umount", "-l", self.disk], check=False)
        shutil.rmtree(self.top, ignore_errors=True)

    @contextlib.contextmanager
    def full(self):
        self.fill()
        try:
            yield
        finally:
            self.free()

    def fill(self):
        with open(self.disk + "/fill", "ab", buffering=0) as f:
            for size in (MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        f.write(b"\1" * size)

    def spend(self):
        """Takes the room that the store keeps for its journal: truncate(2) frees the blocks behind the end."""
        journal = os.path.join(self.state, "cordon.db-wal")
        os.truncate(journal, os.path.getsize(journal))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.state, "cordon.db-reserve"))
        self.fill()

    def room(self):
        found = os.statvfs(self.disk)
        return found.f_bavail * found.f_frsize

    def reserve(self, percent):
        found = os.statvfs(self.disk)
        return found.f_blocks * found.f_frsize * percent // 100

    def shrink(self, size):
        """Frees about so many bytes."""
        os.truncate(self.disk + "/fill", os.path.getsize(self.disk + "/fill") - size)

    def leave(self, size):
        """Fills it up to so many bytes."""
        with open(self.disk + "/fill", "ab") as f:
            os.posix_fallocate(f.fileno(), os.path.getsize(f.name), max(self.room() - size, 1))

    def free(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.disk + "/fill")

    def names(self, part):
        return sorted(os.listdir(os.path.join(self.storage, part)))

    def works(self, status, method, path, body=None, **more):
        """After space was freed; the first request may find numbers of before."""
        wait_for(lambda: self.request(method, path, body, **more)[0] == status, 10, f"{method} {path} to work again")


class Halves:
    """A request whose body comes in two parts."""

    def __init__(self, server, line, data, headers=""):
        self.data, self.sock = data, socket.create_connection(server.address)
        self.sock.settimeout(60)
        self.sock.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode())
        self.send(data[: len(data) // 2])

    def send(self, data):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is refused already
            self.sock.sendall(data)

    def end(self):
        """The status of the answer, and the whole of it."""
        self.send(self.data[len(self.data) // 2 :])
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := self.sock.recv(65536):
                got += piece
        self.sock.close()
        return int(got.split()[1]), got.decode(errors="replace")


def key_of(server):
    return f"X-API-Key: {server.key}\r\nContent-Type: application/x-tar\r\n"


def test_volumes():
    with Small("storage") as server:
        server.want(201, "POST", "/v1/volumes", {"name": "v", "size": "100M"})
        content = Content(server, "v")
        content.put("/a", b"old")
        half = Halves(server, f"PUT /volumecontent/{content.id}/file?path=/half", os.urandom(20 * MIB),
                      f"Authorization: Bearer {content.token}\r\n")
        with server.full():
            status, text = half.end()
            equal(status, 507, text[-300:])
            server.fill()  # what the half took
            for path in ("/a", "/b"):
                status, _, text = content.ask("PUT", "file", os.urandom(5 * MIB), path=path, force="true")
                equal(status, 507, text)
            equal(content.get("/a"), b"old", "what was there")
            server.refused(507, "storage_full", "POST", "/v1/volumes", {"name": "w"})
        equal(len(server.names("volumes")), 1)
        server.works(201, "POST", "/v1/volumes", {"name": "w"})
        wait_for(lambda: content.ask("PUT", "file", b"new", path="/a", force="true")[0] == 201, 20, "the volume to work again")
        equal(content.get("/a"), b"new")
        for path in ("/half", "/b"):
            equal(content.ask("GET", "file", path=path)[0], 404, path)
        box = server.create(volumes=[{"name": "v", "path": "/v"}])["id"]
        equal(server.run(box, "ls /v; cat /v/a; echo more >/v/c && sync")["stdout"], "a\nnew")


def test_disks():
    with Small("storage") as server:
        kept = server.create(storage="disk", persist=True, idle_timeout="1h", limits={"disk": "350M"})["id"]
        server.run(kept, "echo kept >a; sync")
        with server.full():
            done = server.run(kept, "head -c 300M /dev/zero | tr '\\0' x >big; sync; cat a")
            has(done["stdout"], "kept")
            server.refused(507, "storage_full", "POST", "/v1/sessions", {"storage": "disk"})
            server.refused(507, "storage_full", "POST", f"/v1/sessions/{kept}/fork", {})
            equal(server.get(kept)["state"], "running")
        server.works(200, "POST", f"/v1/sessions/{kept}/pause", {"memory": False})
        equal(server.run(kept, "cat a; rm -f big; echo more >b && sync && cat b")["stdout"], "kept\nmore\n", "after a rest")
        server.works(201, "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "64M"}})


def test_imports():
    with Small("storage") as server:
        data = archive(member("large", os.urandom(30 * MIB)))
        half = Halves(server, "POST /v1/templates?name=half", data, key_of(server))
        with server.full():
            status, text = half.end()
            equal(status, 507, text[-300:])
            server.fill()  # what the half took
            status, text = Halves(server, "POST /v1/templates?name=none", data, key_of(server)).end()
            equal(status, 507, text[-300:])
        for name in ("half", "none"):
            server.refused(404, "not_found", "GET", "/v1/templates/" + name)
        wait_for(lambda: server.names("layers") == [], 10, "no layer")
        server.works(201, "POST", "/v1/templates?name=half", data, headers={"Content-Type": "application/x-tar"})


def test_builds_and_snapshots():
    with Small("storage") as server:
        source = server.create()["id"]
        server.run(source, "head -c 20M /dev/urandom >data")
        build = server.want(201, "POST", BUILDS, {"name": "built"})["id"]
        steps = [{"type": "RUN", "args": ["head -c 20M /dev/urandom >~/data; touch /tmp/written; sleep 1.5"]}]
        server.want(202, "POST", f"{BUILDS}/{build}/start", {"fromTemplate": "base", "steps": steps})

        def log():
            return str(server.want(200, "GET", f"{BUILDS}/{build}"))
        wait_for(lambda: "RUN head" in log(), 20, "the step to run")
        with server.full():
            server.refused(507, "storage_full", "POST", f"/v1/sessions/{source}/snapshots", {})
            server.refused(507, "storage_full", "POST", f"/v1/sessions/{source}/pause", {"memory": False})
            row = wait_for(lambda: (r := server.want(200, "GET", f"{BUILDS}/{build}"))["status"] == "error" and r, 30, "the build to fail")
            check("room" in row["reason"] or "full" in row["reason"], f"reason: {row['reason']}")
        equal(server.run(source, "stat -c %s data")["stdout"], f"{20 * MIB}\n", "the session goes on")
        server.works(201, "POST", f"/v1/sessions/{source}/snapshots", {})
        server.refused(404, "not_found", "GET", "/v1/templates/built")
        again = server.want(201, "POST", BUILDS, {"name": "built"})["id"]
        server.want(202, "POST", f"{BUILDS}/{again}/start", {"fromTemplate": "base", "steps": steps})
        wait_for(lambda: server.want(200, "GET", f"{BUILDS}/{again}")["status"] == "ready", 30, "the build to work again")


def test_sessions_of_mcp_servers():
    """The session has room, those of its servers have not: the creation fails with 507 and nothing is left."""
    servers = {f"s{i:02}": {"command": "false", "env": {"X": "y" * 7000}} for i in range(16)}
    with Small("state") as server:
        late = 0
        for room in range(0, 1200, 24):
            server.fill()
            server.spend()
            server.shrink(room << 10)
            status, _, body = server.request("POST", "/v1/sessions", {"mcp": {"servers": servers}})
            server.shrink(4 * MIB)
            check(status in (507, 409), f"with {room} KiB: {status} {body}")
            late += status == 507 and "mcp: server" in body["error"]["message"]
            if status == 409:  # all were recorded, and the programs end at once
                break
            server.works(200, "GET", "/v1/node")
            wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=creating,running,ending")["sessions"], 20, "the end of all")
        check(late > 0, "no session of a server met the full disk")


def test_uploads_and_all_at_once():
    """Here the rows are on the full disk, too."""
    with Small("state") as server:
        build = server.want(201, "POST", BUILDS, {"name": "built"})["id"]
        volume = server.want(201, "POST", "/v1/volumes", {"name": "v", "size": "16M"})["id"]
        kept = server.create()["id"]
        data, name = archive(member("f", os.urandom(30 * MIB))), f"{BUILDS}/{build}/files/{64 * 'a'}"
        half = Halves(server, "PUT " + name, data, key_of(server))
        with server.full():
            status, text = half.end()
            equal(status, 507, text[-300:])
            server.fill()  # what the half took
            status, text = Halves(server, "PUT " + name, data, key_of(server)).end()
            equal(status, 507, text[-300:])
            for path, body in (("/v1/volumes", {"name": "w"}), ("/v1/sessions", {"storage": "disk"}),
                               (f"/v1/sessions/{kept}/snapshots", {}), (f"/v1/sessions/{kept}/fork", {})):
                server.refused(507, "storage_full", "POST", path, body)
            server.delete(server.create()["id"])  # the store has room of its own
            server.spend()
            for path, body in (("/v1/sessions", {}), (BUILDS, {"name": "other"})):
                server.refused(507, "storage_full", "POST", path, body)
            equal(server.request("GET", "/healthz", key=None)[0], 200)
        equal(os.listdir(os.path.join(server.state, "uploads")), [])
        equal(server.names("volumes"), [volume])
        server.works(204, "PUT", name, data, headers={"Content-Type": "application/x-tar"})
        server.works(201, "POST", "/v1/volumes", {"name": "w"})
        server.works(201, "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "64M"}})
        server.works(201, "POST", f"/v1/sessions/{kept}/snapshots", {})
        server.kill("cordond")
        server.wait_ready()
        equal(server.run(kept, "echo on")["stdout"], "on\n")


def test_a_tenant_fills_the_disk_of_the_store():
    """The settings promise it more than there is. Sessions without disks go on, of all tenants; a server that is killed starts again;
    the room is back when the session is deleted."""
    with Small("state") as server:
        other = server.create()["id"]
        full = server.create(storage="disk", limits={"disk": "2G"})["id"]
        server.run(full, "head -c 1500M /dev/urandom >big; sync; true")
        check(server.room() < 4 * MIB, f"room: {server.room()}")
        for _ in range(20):
            one = server.create()["id"]
            equal(server.run(one, "exit 3")["exit_code"], 3)  # its output would need room
            server.delete(one)
        equal(server.run(other, "exit 4")["exit_code"], 4)
        for _ in range(2):
            server.kill("cordond")
            server.wait_ready()
            equal(server.run(other, "exit 5")["exit_code"], 5)
        check(server.room() < 16 * MIB, f"room: {server.room()}")
        server.restart()
        server.spend()  # even without that
        server.request("DELETE", "/v1/sessions/" + full)
        wait_for(lambda: server.room() > 200 * MIB, 30, "the room of the deleted disk")
        server.works(201, "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "64M"}})
        wait_for(lambda: server.want(200, "GET", "/v1/sessions/" + full)["state"] == "ended", 20, "the record of its end")


# A program that writes steadily: so many MiB, ten of them a second.
GROWS = "import os, time\nf = open('big', 'ab')\nfor i in range(%d):\n    f.write(os.urandom(1 << 20)); f.flush(); os.fsync(f.fileno()); time.sleep(0.1)\n"


def test_disks_that_grow_into_the_reserve():
    """The reserve is touched. Sessions whose disks grow on are paused, and told so; those of others write into what is left. All go on
    when there is room."""
    with Small("state", reserve=25) as server:
        tenants = [server.tenant(f"room{i}") for i in range(2)]
        (_, greedy), (_, other) = tenants
        full = server.create(key=greedy, storage="disk", limits={"disk": "2G"})["id"]
        kept = server.create(key=other, storage="disk", limits={"disk": "64M"})["id"]
        server.run(kept, "head -c 20M /dev/urandom >mine; sync", key=other)
        server.fill()
        server.shrink(110 * MIB)  # 10 above the reserve of 100
        x = server.spawn(full, ["python3", "-c", GROWS % 100], key=greedy)
        wait_for(lambda: server.get(full, key=greedy)["state"] == "paused", 30, "a pause")
        room = server.room()
        check(40 * MIB < room < 100 * MIB, f"room: {room >> 20} MiB")
        # its own: nothing lets it run on
        for method, path, body in (("POST", "executions?wait=true", {"command": "true"}), ("POST", "resume", None)):
            server.refused(507, "storage_full", method, f"/v1/sessions/{full}/{path}", body, "storage_reserve", key=greedy)
        events = server.want(200, "GET", f"/v1/sessions/{full}/events", key=greedy)["events"]
        told = [e["data"] for e in events if e["type"] == "session.storage_full"]
        check(len(told) == 1 and told[0]["bytes"] >= 8 * MIB, f"{told}")
        # another tenant's: it writes a little, syncs, and is left alone
        for i in range(3):
            equal(server.run(kept, "head -c 1M /dev/urandom >>mine; sync; wc -c <mine", key=other)["stdout"], f"{(21 + i) * MIB}\n")
        server.delete(server.create(key=other)["id"], key=other)  # in memory
        equal((server.get(kept, key=other)["state"], server.get(full, key=greedy)["state"]), ("running", "paused"))
        server.free()
        wait_for(lambda: server.get(full, key=greedy)["state"] == "running", 20, "the session to go on")
        where = f"/v1/sessions/{full}/executions/{x['id']}"
        done = wait_for(lambda: (r := server.want(200, "GET", where, key=greedy))["state"] != "running" and r, 60, "the end of the program")
        equal((done["state"], done["exit_code"]), ("exited", 0), done)
        equal(server.run(full, "wc -c <big", key=greedy)["stdout"], f"{100 * MIB}\n")
        # a second time: its removal is the end of it
        server.fill()
        server.shrink(110 * MIB)
        server.spawn(full, ["python3", "-c", GROWS % 100], key=greedy)
        wait_for(lambda: server.get(full, key=greedy)["state"] == "paused", 30, "another pause")
        server.request("POST", f"/v1/sessions/{full}/pause", {"memory": False}, key=greedy)  # another cell would be no way around
        server.refused(507, "storage_full", "POST", f"/v1/sessions/{full}/executions?wait=true", {"command": "true"}, key=greedy)
        server.delete(full, key=greedy)
        wait_for(lambda: server.room() > 105 * MIB, 30, "the room of its disk")
        server.works(201, "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "64M"}}, key=other)


def storage_full(server, session, key):
    """The events about it, each with the bytes that it grew by."""
    events = server.want(200, "GET", f"/v1/sessions/{session}/events", key=key)["events"]
    return [e["data"] for e in events if e["type"] == "session.storage_full"]


def test_volumes_that_grow_into_the_reserve():
    """What disks do not take, volumes do not either: sessions that write to a growing volume are paused, one that only reads it is not.
    A restart forgets neither the pause nor that it ends when there is room; a session that its client has paused meanwhile stays so."""
    with Small("state", reserve=25) as server:
        tenants = [server.tenant(f"room{i}") for i in range(2)]
        (_, greedy), (_, other) = tenants
        server.want(201, "POST", "/v1/volumes", {"name": "big", "size": "1G"}, key=greedy)
        server.want(201, "POST", "/v1/volumes", {"name": "mine", "size": "64M"}, key=other)
        writes, too = [server.create(key=greedy, volumes=[{"name": "big", "path": "/v"}])["id"] for _ in range(2)]
        reads = server.create(key=greedy, volumes=[{"name": "big", "path": "/v", "mode": "ro"}])["id"]
        kept = server.create(key=other, volumes=[{"name": "mine", "path": "/v"}])["id"]
        server.fill()
        server.shrink(110 * MIB)  # 10 above the reserve of 100
        x = server.spawn(writes, ["python3", "-c", GROWS % 100], key=greedy, cwd="/v")
        for session in (writes, too):
            wait_for(lambda s=session: server.get(s, key=greedy)["state"] == "paused", 30, "a pause")
        check(server.room() > 40 * MIB, f"room: {server.room() >> 20} MiB")
        equal(server.run(kept, "head -c 1M /dev/urandom >/v/a; sync; wc -c </v/a", key=other)["stdout"], f"{MIB}\n")
        equal(server.run(reads, "test -s /v/big && echo yes", key=greedy)["stdout"], "yes\n")
        told = storage_full(server, writes, greedy)
        check(len(told) == 1 and told[0]["bytes"] >= 8 * MIB, f"{told}")
        for how in ("kill", "restart"):
            server.restarted("cordond") if how == "kill" else server.restart()
            for path, body in (("executions?wait=true", {"command": "true"}), ("resume", None)):
                server.refused(507, "storage_full", "POST", f"/v1/sessions/{writes}/{path}", body, "storage_reserve", key=greedy)
            equal([server.get(s, key=greedy)["state"] for s in (writes, too, reads)], ["paused", "paused", "running"], how)
        server.want(200, "POST", f"/v1/sessions/{too}/pause", key=greedy)
        room = server.room()
        server.free()
        where = f"/v1/sessions/{writes}/executions/{x['id']}"
        done = wait_for(lambda: (r := server.want(200, "GET", where, key=greedy))["ended_at"] and r, 60, "the end of the program")
        equal((done["state"], done["exit_code"]), ("exited", 0), done)
        equal(server.run(reads, "wc -c </v/big", key=greedy)["stdout"], f"{100 * MIB}\n")
        check(room > 40 * MIB, f"room after the restarts: {room >> 20} MiB")
        equal(server.get(too, key=greedy)["state"], "paused", "its client has paused it")
        equal(server.run(too, "echo on", key=greedy)["stdout"], "on\n")


def test_no_program_in_a_cell_is_asked():
    """PID 1 of one session says nothing any more, and its program writes on. The share of a tenant is one for all of its disks."""
    with Small("state", reserve=25) as server:
        boxes = [server.create(storage="disk", limits={"disk": "256M"})["id"] for _ in range(4)]
        server.fill()
        server.shrink(140 * MIB)
        server.spawn(boxes[0], ["python3", "-c", GROWS % 200])
        wait_for(lambda: server.run(boxes[0], "test -s big")["exit_code"] == 0, 20, "its first byte")
        silent = server.cell_pids(boxes[0])[0]
        os.kill(silent, signal.SIGSTOP)
        try:
            wait_for(lambda: server.get(boxes[0])["state"] == "paused", 30, "a pause")
        finally:
            os.kill(silent, signal.SIGCONT)
        check(server.room() > 50 * MIB, f"room: {server.room() >> 20} MiB")
        equal([server.get(box)["state"] for box in boxes[1:]], 3 * ["running"])
        server.delete(boxes[0])
        wait_for(lambda: server.room() > 125 * MIB, 20, "the room of its disk")
        server.leave(server.reserve(25) + 4 * MIB)
        for box in boxes[1:]:
            server.spawn(box, ["python3", "-c", GROWS % 7])  # less than a share
        wait_for(lambda: all(server.get(box)["state"] == "paused" for box in boxes[1:]), 30, "the pause of each")


def send(server, name, data):
    status, _, body = server.request("POST", "/v1/templates?name=" + name, data, headers={"Content-Type": "application/x-tar"})
    return name, status, body.get("error", {}).get("message")


@contextlib.contextmanager
def least_room(server):
    """The least room while the block runs, as the one element of a list."""
    least, ended = [server.room()], threading.Event()

    def look():
        while not ended.wait(0.01):
            least[0] = min(least[0], server.room())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield least
    finally:
        ended.set()
        thread.join()


def test_content_of_volumes_sees_the_reserve():
    """Each file alone has room when it is begun. They are written at the same time, into images below which the disk fills up later."""
    with Small("state", reserve=25) as server:
        for i in range(4):
            server.want(201, "POST", "/v1/volumes", {"name": f"v{i}", "size": "300M"})
        content = [Content(server, f"v{i}") for i in range(4)]
        server.leave(server.reserve(25) + 60 * MIB)
        with least_room(server) as least, ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda c: c.ask("PUT", "file", os.urandom(100 * MIB), path="/f")[0], content))
        equal(answers, 4 * [507])
        # each looks every 4 MiB, and brings 16 MiB to disk at a time
        check(least[0] > server.reserve(25) - 4 * 20 * MIB, f"room went down to {least[0] >> 20} MiB")
        server.free()
        wait_for(lambda: content[0].ask("PUT", "file", b"new", path="/f", force="true")[0] == 201, 20, "the volume to work again")
        equal(content[0].get("/f"), b"new")


def test_imports_see_the_reserve():
    """A small archive becomes large: neither the archive without its compression nor the layers take what is to stay free."""
    large = archive(*(member(f"f{i}", os.urandom(MIB) + bytes(29 * MIB)) for i in range(13)))
    packed = gzip.compress(large, 1)
    image = Image([large], compress=lambda data: gzip.compress(data, 1))
    with Small("state", reserve=25) as server:
        refused = []
        # two at a time: each alone is given the room above the reserve
        with least_room(server) as least:
            for name, data in (("root", packed), ("image", image.layout_tar()), ("plain", gzip.compress(image.docker_archive(), 1))):
                with ThreadPoolExecutor(2) as pool:
                    refused += pool.map(lambda k: send(server, f"{name}{k}", data), range(2))
        check(all(status in (429, 507) for _, status, _ in refused), f"answers: {refused}")
        # of 100: what two write between two looks, and the store writes, too
        check(least[0] > 60 * MIB, f"room went down to {least[0] >> 20} MiB")


def test_what_a_tenant_is_promised():
    """Without settings: half of the file system for disks, half for volumes."""
    with Small("storage", "0") as server:
        server.refused(429, "quota_storage", "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "220M"}}, "half")
        one = server.create(storage="disk", limits={"disk": "150M"})["id"]
        server.refused(429, "quota_storage", "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "100M"}}, "half")
        server.delete(one)
        server.works(201, "POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "100M"}})
        server.create(limits={"disk": "1G"})  # in memory
        server.refused(429, "quota_storage", "POST", "/v1/volumes", {"name": "v", "size": "220M"}, "half")
        server.want(201, "POST", "/v1/volumes", {"name": "v", "size": "100M"})


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
