#!/usr/bin/python3 -B
"""Goal: a session's mounts are those that its request and its template name, each of them once, and no way up leads out
of them: "..", from every mount of every kind of session, ends at /. Looked at by a program in the session, and from
outside by the machine's root, whom no Landlock holds.

    test_mount_walk.py CORDON [name ...]
"""
import os
import shutil
import tempfile

from harness import check, equal, run_tests, wait_for
from images import Image, archive, directory, member, symlink
from level import LEVEL, differs

WRITABLE = ("/tmp", "/run", "/home/user")  # places of a session with a read-only root
SHARED = tempfile.mkdtemp(prefix="cordon-walk-", dir="/var/tmp")

# Run in the session: for each mount, the device and inode of each directory above it, by ".." and by name.
WALK = """
while read -r _ _ _ _ at _; do
	[ -d "$at" ] || at=${at%/*}
	up=$at name=$at
	while [ -n "$name" ] && [ "$name" != / ]; do
		up=$up/.. name=${name%/*}
		echo "$up $(stat -L -c %d:%i "$up") $(stat -L -c %d:%i "${name:-/}")"
	done
done < /proc/self/mountinfo
"""


class Mount:
    """A line of mountinfo."""

    def __init__(self, line):
        words = line.split()
        more = words[words.index("-") + 1 :]
        self.id, self.parent, self.at, self.options, self.kind, self.line = words[0], words[1], words[4], words[5].split(","), more[0], line.strip()


def mounts_of(text):
    return [Mount(line) for line in text.splitlines()]


def parents(at):
    """(path by "..", the same by name) for each directory above it."""
    up, name = at, at
    while name != "/":
        up, name = up + "/..", os.path.dirname(name)
        yield up, name


def identity(path):
    st = os.stat(path)
    return st.st_dev, st.st_ino


def walk_from_outside(pid, mounts):
    root = f"/proc/{pid}/root"
    for m in mounts:
        at = m.at if os.path.isdir(root + m.at) else os.path.dirname(m.at)
        for up, name in parents(at):
            equal(identity(root + up), identity(root + name), f"{up} seen from outside, {m.line}")


def expected(at, wanted):
    """A mount that every cell may have, or that was asked for."""
    if at in wanted or at in ("/", "/usr", "/opt/cordon", "/dev", "/dev/pts", "/dev/shm"):
        return True
    return at == "/proc" or at.startswith("/proc/")


def look_at_mounts(mounts, wanted):
    """One tree, with / as its root, nothing that was not asked for, no place covered twice, devices in /dev only. The cell around a virtual
    machine has a read-only root, and none of the session's files."""
    if LEVEL == "microvm":
        wanted = WRITABLE
    ids = {m.id for m in mounts}
    tops = [m.line for m in mounts if m.parent not in ids]
    equal(len(tops), 1, f"mounts without a parent: {tops}")
    for m in mounts:
        check(expected(m.at, wanted), f"unexpected: {m.line}")
        equal([other.line for other in mounts if other.at == m.at], [m.line], "mounts at one place")
        check("nodev" in m.options or m.at in ("/dev", "/dev/pts") or m.at.startswith("/dev/"), f"devices: {m.line}")
        check("nosuid" in m.options or m.kind == "overlay" or m.at == "/proc", f"set-id programs: {m.line}")
    for at in wanted:
        check(any(m.at == at for m in mounts), f"{at} is not mounted: {[m.at for m in mounts]}")


def walk(server, wanted=(), **spec):
    """Makes a session, walks in it and around it, and deletes it."""
    walk_in(server, server.create(**spec)["id"], wanted, spec)


def walk_in(server, session, wanted, spec):
    stat = server.run(session, "command -v stat || echo missing")["stdout"]
    check("missing" not in stat, f"no stat in {spec}")
    done = server.run(session, WALK)
    equal((done["exit_code"], done["stderr"]), (0, ""), f"{spec}")
    lines = done["stdout"].splitlines()
    check(len(lines) > 4, f"too few: {lines}")
    for line in lines:
        up, reached, named = line.split()
        equal(reached, named, f"{up} in a session of {spec}")
    pid = wait_for(lambda: next(iter(server.cell_pids(session)), None), 10, "PID 1")
    with open(f"/proc/{pid}/mountinfo") as f:
        mounts = mounts_of(f.read())
    look_at_mounts(mounts, wanted)
    walk_from_outside(pid, mounts)
    server.delete(session)


def volume(server, name):
    server.want(201, "POST", "/v1/volumes", {"name": name, "size": "32M"})
    return name


def test_a_plain_session(server):
    walk(server)


def test_a_locked_session(server):
    walk(server, profile="locked")


def test_a_read_only_session(server):
    walk(server, WRITABLE, root="read-only")


def test_a_session_on_a_disk(server):
    if differs("storage on disk"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"storage": "disk"}, "storage disk")
        return
    walk(server, storage="disk", limits={"disk": "64M"})


def test_a_session_with_volumes(server):
    """One, two, at the top and below, on memory and on a disk, in both profiles."""
    first, second = volume(server, "walk1"), volume(server, "walk2")
    one = [{"name": first, "path": "/mnt"}]
    two = one + [{"name": second, "path": "/home/user/deep/er", "mode": "ro"}]
    if differs("writable directories of the machine, volumes") or differs("mounts"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"volumes": one}, LEVEL)
    else:
        for spec in {}, {"storage": "disk", "limits": {"disk": "64M"}}, {"profile": "locked"}, {"root": "read-only"}:
            places = WRITABLE if "root" in spec else ()
            walk(server, ("/mnt", *places), volumes=one, **spec)
            walk(server, ("/mnt", "/home/user/deep/er", *places), volumes=two, **spec)
        server.refused(400, "invalid", "POST", "/v1/sessions", {"volumes": [{"name": first, "path": "/no-such"}], "root": "read-only"}, "/no-such", "read-only")
    for name in first, second:
        server.want(204, "DELETE", f"/v1/volumes/{name}")


def test_sessions_that_were_made_from_others(server):
    """Forks, and one that was stopped and is started by its use; their cells are made by other ways."""
    if differs("storage on disk") or differs("writable directories of the machine, volumes") or differs("mounts"):
        return
    volumes = [{"name": volume(server, "walk5"), "path": "/data"}]
    source = server.create(storage="disk", limits={"disk": "64M"}, volumes=volumes)["id"]
    for made in server.want(201, "POST", f"/v1/sessions/{source}/fork", {"count": 1})["sessions"]:
        server.ids.add(made["id"])
        walk_in(server, made["id"], ("/data",), "a fork")
    server.delete(source)
    kept = server.create(persist=True, limits={"disk": "64M"}, volumes=volumes)["id"]
    server.want(200, "POST", f"/v1/sessions/{kept}/pause", {"memory": False})
    walk_in(server, kept, ("/data",), "a session that was stopped")
    server.want(204, "DELETE", "/v1/volumes/walk5")


def test_a_sandbox_of_e2b_with_a_volume(server):
    name = volume(server, "walk4")
    spec = {"templateID": "base", "volumeMounts": [{"name": name, "path": "/mnt/data"}]}
    if not differs("writable directories of the machine, volumes") and not differs("mounts"):
        session = server.want(201, "POST", "/sandboxes", spec)["sandboxID"]
        server.ids.add(session)
        walk_in(server, session, ("/mnt/data",), spec)
    server.want(204, "DELETE", f"/v1/volumes/{name}")


def test_a_session_with_mounts(server):
    os.makedirs(f"{SHARED}/folder", exist_ok=True)
    os.chown(f"{SHARED}/folder", 1000, 1000)
    mounts = [{"source": f"{SHARED}/folder", "target": "/mnt/here", "mode": "rw"}, {"source": f"{SHARED}/folder", "target": "/top"}]
    if differs("mounts"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"mounts": mounts}, "mounts")
        return
    if differs("writable directories of the machine, volumes"):
        mounts = mounts[1:]
    walk(server, tuple(m["target"] for m in mounts), mounts=mounts)
    walk(server, tuple(m["target"] for m in mounts), mounts=mounts, storage="disk", limits={"disk": "64M"})


def test_a_session_of_a_snapshot(server):
    """A layered template."""
    session = server.create()["id"]
    server.run(session, "echo kept > /home/user/kept")
    made = server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "walked"})
    server.delete(session)
    walk(server, template=made["template"] if "template" in made else made["name"])
    server.want(204, "DELETE", "/v1/templates/walked")


def test_a_session_of_an_image(server):
    with open("/bin/busybox", "rb") as f:
        programs = f.read()
    names = ["sh", "ls", "cat", "stat", "echo", "head"]
    layer = archive(directory("bin"), member("bin/busybox", programs, mode=0o755), *[symlink("bin/" + n, "busybox") for n in names],
                    directory("etc"), member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"), directory("tmp", mode=0o1777))
    server.want(201, "POST", "/v1/templates?name=walkimage", Image([layer], {"Env": ["PATH=/bin"]}).layout_tar(), headers={"Content-Type": "application/x-tar"})
    name = volume(server, "walk3")
    walk(server, template="walkimage")
    if not differs("writable directories of the machine, volumes") and not differs("mounts"):
        walk(server, ("/data",), template="walkimage", volumes=[{"name": name, "path": "/data"}])
    server.want(204, "DELETE", f"/v1/volumes/{name}")
    server.want(204, "DELETE", "/v1/templates/walkimage")


if __name__ == "__main__":
    os.chmod(SHARED, 0o755)
    try:
        run_tests(globals(), pool_size=1, mount_roots=f"{SHARED}:rw")
    finally:
        shutil.rmtree(SHARED, ignore_errors=True)
