#!/usr/bin/python3 -B
"""Goal: a session with storage disk has a disk of its own in the storage folder, larger than its memory if it likes, with exact
limits of bytes and files; after its end, and after any program was killed, no image and no loop device is left.

    test_disk.py CORDON [name ...]
"""
import http.client
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time

from harness import check, equal, has, run_tests, wait_for

KILLS = True


def folder(server):
    return os.path.join(server.state, "storage", "disks")


def images(server):
    return sorted(os.listdir(folder(server)))


def loops(server):
    """Images that loop devices have."""
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8") as f:
                text = f.read().strip()
        except OSError:
            continue
        if text.startswith(folder(server)):
            found.append(os.path.basename(text))
    return sorted(found)


def gone(server, session_id):
    server.delete(session_id)
    server.reaches(session_id, "ended", 40)
    wait_for(lambda: not [n for n in images(server) + loops(server) if n.startswith(session_id)], 20, "no image and no loop device")


def test_larger_than_memory(server):
    session = server.create(storage="disk", limits={"disk": "1G", "memory": "64M"})
    equal((session["storage"], session["limits"]["disk_bytes"], session["persist"]), ("disk", 1 << 30, False))
    equal(loops(server), [session["id"] + ".img"])
    done = server.run(session["id"], "head -c 200M /dev/zero >big && sync && sha256sum <big && rm big && df -B1 --output=size . | tail -1")
    size = int(done["stdout"].split()[-1])
    check(0.9 * (1 << 30) < size <= 1 << 30, str(size))
    equal(server.run(session["id"], "id -u; touch a; stat -c %u:%g a")["stdout"].split(), ["1000", "1000:1000"])
    equal(server.run(session["id"], "df -T /dev/shm | tail -1 | awk '{print $2}'")["stdout"].split(), ["tmpfs"])
    gone(server, session["id"])


def test_limits_are_exact(server):
    session = server.create(storage="disk", limits={"disk": "64M", "inodes": 1024})
    done = server.run(session["id"], "head -c 100M /dev/zero >big; stat -c %s big; rm big; i=0; "
                      "while true >f$i; do i=$((i+1)); done 2>/dev/null; echo $i")
    has(done["stderr"], "No space left")
    size, files = [int(n) for n in done["stdout"].split()]
    check(50 << 20 < size < 64 << 20, f"{size} bytes")
    check(900 < files < 1024, f"{files} files")
    used = wait_for(lambda: server.get(session["id"])["usage"]["disk_bytes"], 20, "bytes used")
    check(0 < used <= 64 << 20, str(used))
    gone(server, session["id"])


def test_what_memory_cannot_have(server):
    server.refused(400, "invalid", "POST", "/v1/sessions", {"limits": {"disk": "900T"}}, "above the maximum", "--storage disk")


def test_what_is_refused(server):
    for body, part in (({"limits": {"disk": "1M"}}, "below the minimum"), ({"limits": {"disk": "900T"}}, "above the maximum of 100G (storage_disk_max)"),
                       ({"limits": {"inodes": 10}}, "inodes")):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"storage": "disk", **body}, part)
    equal(images(server), [])


def test_code_in_the_cell_reaches_no_image(server):
    one = server.create(storage="disk", limits={"disk": "64M"})
    other = server.create(storage="disk", limits={"disk": "64M"})
    server.run(other["id"], "echo secret-of-the-other >/home/user/a; sync")
    done = server.run(one["id"], "ls /dev | grep -c loop; for n in 0 1 2 3 4 5 6 7; do mknod /root/l$n b 7 $n && cat /root/l$n; done; "
                      "cat /proc/self/mountinfo; find / -xdev -name '*.img' -path '*disks*'", user="root")
    equal(done["stdout"].splitlines()[0], "0", "loop devices in /dev")
    for word in ("secret-of-the-other", other["id"], server.state, "/dev/loop"):
        check(word not in done["stdout"], f"{word} in {done['stdout']}")
    check("secret-of-the-other" not in server.run(one["id"], "cat /home/user/a 2>&1")["stdout"], "a file of its own")
    gone(server, one["id"])
    gone(server, other["id"])


def rates(server):
    """Does this machine have them?"""
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    told = subprocess.run([server.program, "doctor"], env=env, capture_output=True, timeout=60).stdout.decode()
    [line] = [line.split() for line in told.splitlines() if line.startswith("limit     disk rate")]
    return line[3] == "yes", told


def test_rates_are_kept_or_refused(server):
    """Never ignored: also not for a session that has them since the machine had cgroup v2."""
    has_rates, told = rates(server)
    body = {"storage": "disk", "limits": {"disk": "64M", "disk_write_bps": "1M"}}
    if has_rates:  # tests/vm/server measures them
        session = server.create(**body)
        equal(session["limits"]["disk_write_bps"], 1 << 20)
        gone(server, session["id"])
        return
    has(told, "no cgroup v2 with the io controller", "doctor")
    server.refused(422, "unsupported", "POST", "/v1/sessions", body, "need cgroup v2 with the io controller")
    kept = server.create(persist=True, limits={"disk": "64M"})["id"]
    server.want(200, "POST", f"/v1/sessions/{kept}/pause", {"memory": False})
    server.rests(kept)
    for value, status in ((1 << 20, 422), (0, 200)):
        server.stop()
        with sqlite3.connect(os.path.join(server.state, "cordon.db")) as db:
            db.execute("UPDATE session SET write_bps = ? WHERE id = ?", (value, kept))
        db.close()
        server.start()
        said = server.want(status, "POST", f"/v1/sessions/{kept}/resume")
        check(status == 200 or "need cgroup v2 with the io controller" in said["error"]["message"], str(said))
    gone(server, kept)


def test_by_the_command_line(server):
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
    done = subprocess.run([server.program, "create", "--storage", "disk", "--disk", "20G"], env=env, capture_output=True, timeout=40)
    name = done.stdout.decode().strip()
    equal(images(server), [name + ".img"], done.stderr.decode())
    info = os.stat(os.path.join(folder(server), name + ".img"))
    equal(info.st_size, 20 << 30)
    check(info.st_blocks * 512 < 64 << 20, f"{info.st_blocks} blocks")
    gone(server, name)


def test_diff_and_pause(server):
    session = server.create(storage="disk", limits={"disk": "64M"})
    server.run(session["id"], "echo x >new; rm /etc/magic", user="root", cwd="/root")
    changes = {c["path"]: c["kind"] for c in server.want(200, "GET", f"/v1/sessions/{session['id']}/diff")["changes"]}
    equal((changes["/root/new"], changes["/etc/magic"]), ("added", "deleted"))
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
    equal(server.run(session["id"], "cat /root/new", user="root")["stdout"], "x\n")
    gone(server, session["id"])


def test_killed_programs(server):
    """Of each program once, while disks are made, used and removed."""
    for name in ("cordon-storage", "cordon-keeper", "cordond", "cordon-storage"):
        used = server.create(storage="disk", limits={"disk": "64M"})
        server.run(used["id"], "echo kept >a; sync")
        ended = server.create(storage="disk", limits={"disk": "64M"})
        server.delete(ended["id"])
        server.kill(name)
        server.restarted(name) if name != "cordond" else server.wait_ready()
        equal(server.run(used["id"], "cat a")["stdout"], "kept\n", name)
        again = server.create(storage="disk", limits={"disk": "64M"})
        wait_for(lambda: images(server) == sorted(x["id"] + ".img" for x in (used, again)), 20, f"two images after {name}")
        gone(server, used["id"])
        gone(server, again["id"])


WRITER = """
import os
n = 0
while True:
    n += 1
    with open("log", "a") as f:
        f.write(f"{n}\\n")
        f.flush()
        os.fsync(f.fileno())
    print(n, flush=True)
"""


def test_nothing_that_was_synced_is_lost(server):
    """Programs and cells are killed at random moments while sessions write and while disks are made and removed."""
    seed = int.from_bytes(os.urandom(2), "big")
    print(f"# seed {seed}", flush=True)
    choose = random.Random(seed)
    session = server.create(storage="disk", persist=True, idle_timeout="1h", limits={"disk": "64M"})
    for _ in range(10):
        written = server.spawn(session["id"], ["python3", "-c", WRITER])
        others = [threading.Thread(target=attempt, args=(server,)) for _ in range(3)]
        for t in others:
            t.start()
        time.sleep(choose.uniform(0.05, 0.3))  # the moment of the kill is random; nothing depends on it
        name = choose.choice(["cordon-storage", "cordon-keeper", "cordond", "cell", "cell"])
        if name == "cell":
            os.kill(min(server.cell_pids(session["id"])), signal.SIGKILL)
            server.rests(session["id"])
        else:
            server.kill(name)
        for t in others:
            t.join()
        server.wait_ready()
        wait_for(lambda: server.get(session["id"])["state"] in ("running", "stopped"), 30, "it is there")
        out = server.want(200, "GET", f"/v1/sessions/{session['id']}/executions/{written['id']}/output?stream=stdout", raw=True)
        told = len(out.split())
        kept = server.run(session["id"], "pkill python3; touch log; wc -l <log; rm log")
        check(kept["stdout"], f"{name}: {kept}")
        kept = kept["stdout"].split()
        check(int(kept[0]) >= told - 1, f"{name}: {told} lines were synced, {kept[0]} are there")
    server.delete_all()
    wait_for(lambda: images(server) == [] and loops(server) == [], 40, "no image and no loop device")


def attempt(server):
    """Makes a disk and removes it; either may fail."""
    try:
        status, _, made = server.request("POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "64M"}})
        if status == 201:
            server.ids.add(made["id"])
            server.request("DELETE", f"/v1/sessions/{made['id']}")
    except (OSError, http.client.HTTPException):
        pass


def test_sessions_deleted_while_their_disk_is_made(server):
    """Its removal may come before there is anything to remove: then it follows."""
    before = set(images(server))
    made, ended = [], threading.Event()

    def delete():
        while not ended.is_set():
            for one in server.want(200, "GET", "/v1/sessions?state=creating")["sessions"]:
                server.request("DELETE", "/v1/sessions/" + one["id"])

    thread = threading.Thread(target=delete)
    thread.start()
    for _ in range(60):
        status, _, body = server.request("POST", "/v1/sessions", {"storage": "disk", "limits": {"disk": "8G"}})
        made.append(body.get("id") if status == 201 else None)
    ended.set()
    thread.join()
    for one in filter(None, made):
        server.request("DELETE", "/v1/sessions/" + one)
    check(None in made, "no session was deleted in time")
    wait_for(lambda: set(images(server)) <= before, 20, "all disks to be removed")


def test_images_of_no_session_are_removed(server):
    session = server.create(storage="disk", limits={"disk": "64M"})
    for name in ("iunknown000000000000.img", ".new-7"):
        with open(os.path.join(folder(server), name), "wb") as f:
            f.truncate(1 << 20)
    server.restart()
    wait_for(lambda: images(server) == [session["id"] + ".img"], 20, "only the image of the session")
    gone(server, session["id"])


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
