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
BUILDS = "/v1/templates/builds"


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

    def shrink(self, size):
        """Frees about so many bytes."""
        os.truncate(self.disk + "/fill", os.path.getsize(self.disk + "/fill") - size)

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
            wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=creating,running,stopping")["sessions"], 20, "the end of all")
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
        wait_for(lambda: server.want(200, "GET", "/v1/sessions/" + full)["state"] == "stopped", 20, "the record of its end")


def send(server, name, data):
    status, _, body = server.request("POST", "/v1/templates?name=" + name, data, headers={"Content-Type": "application/x-tar"})
    return name, status, body.get("error", {}).get("message")


def test_imports_see_the_reserve():
    """A small archive becomes large: neither the archive without its compression nor the layers take what is to stay free."""
    large = archive(*(member(f"f{i}", os.urandom(MIB) + bytes(29 * MIB)) for i in range(13)))
    packed = gzip.compress(large, 1)
    image = Image([large], compress=lambda data: gzip.compress(data, 1))
    with Small("state", reserve=25) as server:
        least, ended, refused = [server.room()], threading.Event(), []

        def look():
            while not ended.wait(0.01):
                least[0] = min(least[0], server.room())
        thread = threading.Thread(target=look)
        thread.start()
        # two at a time: each alone is given the room above the reserve
        for name, data in (("root", packed), ("image", image.layout_tar()), ("plain", gzip.compress(image.docker_archive(), 1))):
            with ThreadPoolExecutor(2) as pool:
                refused += pool.map(lambda k: send(server, f"{name}{k}", data), range(2))
        ended.set()
        thread.join()
        check(all(status in (429, 507) for _, status, _ in refused), f"answers: {refused}")
        # of 100: two steps of 16 MiB may be under way, and the store writes, too
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
