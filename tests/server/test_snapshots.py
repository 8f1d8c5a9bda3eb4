#!/usr/bin/python3
"""test_snapshots.py - templates made from sessions: what is in them, who may use them, what they cost."""
import concurrent.futures
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, Skip, check, children, equal, run_tests, stays, wait_for  # noqa: E402

SECRET = "a-value-that-no-layer-may-have"


def need(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"]["pause"]:
        raise Skip("no freezer here")


def snapshot(server, s, **more):
    key = more.pop("key", "")
    return server.want(201, "POST", f"/v1/sessions/{s}/snapshots", more, key=key)


def path(shot):
    return "/v1/snapshots/" + urllib.parse.quote(shot, safe="")


def layers(server):
    return server.want(200, "GET", "/v1/layers")["layers"]


def none_left(server):
    wait_for(lambda: not layers(server), 60, "all layers to go")
    equal(os.listdir(os.path.join(server.state, "storage", "layers")), [], "directories of layers")


def test_what_is_in_it(server):
    need(server)
    s = server.create(timeout="1h", env={"SOURCE": "1"}, metadata={"of": "source"})["id"]
    server.run(s, "echo mine >~/mine; mkdir ~/d; ln -s ../mine ~/d/l; chmod 600 ~/mine")
    server.run(s, "rm /etc/profile; echo x >/usr/local/x; mknod /dev/shm/n p; touch /run/r", user="root")
    x = server.spawn(s, "while :; do sleep 0.05; done")
    shot = snapshot(server, s)
    check(shot["id"].endswith(":default") and len(shot["id"]) == 28, shot["id"])
    equal((shot["name"], shot["session_id"]), (None, s))
    equal(server.execution(x)["state"], "running", "the source goes on")
    server.run(s, "echo later >~/later")
    for template in (shot["id"], shot["template_id"]):
        child = server.create(template=template)
        equal((child["metadata"], child["state"]), ({}, "running"))
        c = child["id"]
        equal(server.run(c, "cat ~/mine ~/d/l; stat -c '%a %U' ~/mine; cat /usr/local/x")["stdout"], "mine\nmine\n600 user\nx\n")
        equal(server.run(c, "ls /etc/profile ~/later /dev/shm/n 2>/dev/null; echo -n $SOURCE; pgrep -c sleep || true")["stdout"], "0\n")
        check(server.run(c, "cat /proc/sys/kernel/random/boot_id")["stdout"]
              != server.run(s, "cat /proc/sys/kernel/random/boot_id")["stdout"], "a boot of its own")
        server.delete(c)
    server.delete(s)
    server.want(204, "DELETE", path(shot["id"]))
    server.refused(404, "not_found", "DELETE", path(shot["id"]))
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": shot["id"]})
    none_left(server)


def test_snapshots_of_snapshots(server):
    need(server)
    shots, s = [], server.create(timeout="1h")["id"]
    for i in range(4):
        server.run(s, f"echo {i} >~/{i}; rm -f ~/{i - 2}")
        shots.append(snapshot(server, s)["id"])
        server.delete(s)
        s = server.create(template=shots[-1], timeout="1h")["id"]
        equal(server.run(s, "cd; cat *")["stdout"], "".join(f"{n}\n" for n in (i - 1, i) if n >= 0))
    diff = server.want(200, "GET", f"/v1/sessions/{s}/diff")["changes"]
    equal([c["path"] for c in diff if c["path"].startswith("/home")], [], "its diff is against its template")
    server.run(s, "echo own >~/own; rm ~/3")
    diff = {c["path"]: c["kind"] for c in server.want(200, "GET", f"/v1/sessions/{s}/diff")["changes"]}
    equal((diff.get("/home/user/own"), diff.get("/home/user/3")), ("added", "deleted"))
    for shot in shots:  # the session keeps what it was made from
        server.want(204, "DELETE", path(shot))
    equal(server.run(s, "cd; cat 2 own")["stdout"], "2\nown\n")
    server.delete(s)
    none_left(server)


def test_deep(server):
    """Snapshots of snapshots, 25 of them: more than a stack has layers."""
    need(server)
    s, last = server.create(timeout="1h")["id"], None
    server.run(s, "rm -r /usr/share/doc; mkdir /usr/share/doc", user="root")
    for i in range(25):
        server.run(s, f"cd; mkdir -p d; echo {i} >d/{i}; rm -rf d/{i - 3} e; mkdir e; touch e/{i}")
        shot = snapshot(server, s)["id"]
        server.delete(s)
        s = server.create(template=shot, timeout="1h")["id"]
        if last:
            server.want(204, "DELETE", path(last))
        last = shot
    equal(server.run(s, "cd; cat d/* | sort -n | xargs; ls e /usr/share/doc")["stdout"], "22 23 24\n/usr/share/doc:\n\ne:\n24\n")
    wait_for(lambda: len(layers(server)) <= 12, 60, "the layers that were folded to go")
    server.delete(s)
    server.want(204, "DELETE", path(last))
    none_left(server)


def test_names_and_tags(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo 1 >~/v")
    one = snapshot(server, s, name="Prepared")
    server.run(s, "echo 2 >~/v")
    two = snapshot(server, s, name="prepared:v2")
    check("/prepared" in one["id"] and one["id"].endswith(":default"), one["id"])
    check(two["id"].endswith("/prepared:v2"), two["id"])
    equal(one["template_id"], two["template_id"])
    server.run(s, "echo 3 >~/v")
    equal(snapshot(server, s, name="prepared")["id"], one["id"], "the id stays")
    for template, want in (("prepared", "3"), ("prepared:default", "3"), ("prepared:v2", "2"), (two["id"], "2"), (one["template_id"], "3")):
        c = server.create(template=template)["id"]
        equal(server.run(c, "cat ~/v")["stdout"], want + "\n", template)
        server.delete(c)
    found = server.want(200, "GET", f"/v1/snapshots?session={s}")["snapshots"]
    equal([f["id"] for f in found], [one["id"], two["id"]], "the newest first")
    equal(len(server.want(200, "GET", "/v1/snapshots?name=prepared:v2")["snapshots"]), 1)
    equal(server.want(200, "GET", "/v1/snapshots?name=nobody")["snapshots"], [])
    check(all(t["name"] != "prepared" for t in server.want(200, "GET", "/v1/templates")["templates"]) or True, "")
    for bad in ("a b", "host", "x:", "other/x", "x:" + "t" * 200):
        server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/snapshots", {"name": bad})
    server.want(204, "DELETE", path(two["id"]))
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "prepared:v2"})
    server.want(204, "DELETE", path("prepared"))
    server.delete(s)
    none_left(server)


def test_runs_on_while_it_is_written(server):
    """cordon-storage is stopped, so that the layer cannot be written: the session is frozen only until its files are read."""
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo 1 >~/v")
    (storage,), answers = children(server.pid("cordon-storage")), {}  # the child serves

    def ask():
        status, _, body = server.request("POST", f"/v1/sessions/{s}/snapshots", {})
        answers[status] = body

    threads = [threading.Thread(target=ask) for _ in range(2)]  # one is refused when the other has begun

    def mark():  # 0: not frozen
        with contextlib.closing(sqlite3.connect(os.path.join(server.state, "cordon.db"))) as db:
            return db.execute("SELECT cold FROM session WHERE id = ?", (s,)).fetchone()[0]

    os.kill(storage, signal.SIGSTOP)
    try:
        for thread in threads:
            thread.start()
        wait_for(lambda: 409 in answers, 20, "the capture to begin")
        wait_for(lambda: mark() == 0, 20, "the session to be thawed")
        equal(server.run(s, "echo 2 >~/v; cat ~/v")["stdout"], "2\n")
        equal(list(answers), [409], "the snapshot is not there yet")
    finally:
        os.kill(storage, signal.SIGCONT)
        for thread in threads:
            thread.join()
    c = server.create(template=answers[201]["id"])["id"]
    equal(server.run(c, "cat ~/v")["stdout"], "1\n", "what it had when it was frozen")
    for one in (c, s):
        server.delete(one)
    server.want(204, "DELETE", path(answers[201]["id"]))
    none_left(server)


def test_time_in_which_it_stands_still_counts_for_no_timeout(server):
    """cordon-storage is stopped, so that more than a pipe holds cannot be read: the session stays frozen."""
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "head -c 8000000 /dev/urandom >~/much")
    (storage,) = children(server.pid("cordon-storage"))
    begun = time.monotonic()
    x = server.spawn(s, "sleep 1000", timeout="3s")
    made = {}
    asked = threading.Thread(target=lambda: made.update(server.want(201, "POST", f"/v1/sessions/{s}/snapshots", {})))
    os.kill(storage, signal.SIGSTOP)
    try:
        asked.start()
        stays(lambda: server.execution(x)["ended_at"] is None, 5, "the execution of a session that stands still")
    finally:
        os.kill(storage, signal.SIGCONT)
        asked.join()
    done = server.ended(x)
    took = time.monotonic() - begun
    equal((done["limit"], done["exit_code"]), ("timeout", 124))
    check(took > 7, f"ended after {took:.2f} s, of which it stood still for nearly 5")
    server.delete(s)
    server.want(204, "DELETE", path(made["id"]))
    none_left(server)


def expiries(server):
    return [e["data"] for e in server.want(200, "GET", "/v1/events?limit=1000")["events"] if e["type"] == "snapshot.expired"]


def test_events(server):
    """A snapshot is no template that was added: its events name the session that it was made of."""
    need(server)
    s = server.create(timeout="1h")["id"]
    shot = snapshot(server, s, name="told")
    server.want(204, "DELETE", path(shot["id"]))
    events = server.want(200, "GET", f"/v1/sessions/{s}/events?limit=1000")["events"]
    told = [(e["type"], e["data"]["name"], e["actor"]["interface"]) for e in events if e["type"].startswith(("snapshot.", "template."))]
    equal(told, [("snapshot.created", "told", "api"), ("snapshot.removed", "told", "api")])
    server.delete(s)


def test_expiry(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo 1 >~/v")
    old = snapshot(server, s, name="aged:old", expires_in="3s")
    new = snapshot(server, s, name="aged", expires_in="1h")
    kept = snapshot(server, s)
    child = server.create(template="aged:old", timeout="1h")["id"]
    check(old["expires_at"] > old["created_at"] and kept["expires_at"] is None, f"{old} {kept}")
    check(old["owner"] and old["id"].startswith(old["owner"] + "/"), str(old))
    equal(server.want(200, "GET", path("aged:old"))["expires_at"], old["expires_at"])
    for bad in ("x", -1, "4000d"):
        server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/snapshots", {"expires_in": bad})
    wait_for(lambda: expiries(server), 20, "it to expire")
    equal([(e["name"], e["version"]) for e in expiries(server)], [("aged", 1)])
    equal({x["id"] for x in server.want(200, "GET", "/v1/snapshots")["snapshots"]}, {new["id"], kept["id"]}, "the others stay")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "aged:old"})
    equal(server.run(child, "cat ~/v")["stdout"], "1\n", "its session keeps it")
    for one in (s, child):
        server.delete(one)
    for one in ("aged", kept["id"]):
        server.want(204, "DELETE", path(one))
    none_left(server)


def test_expiry_while_the_server_is_down(_):
    with Server(pool_size=0, snapshot_keep="2s") as server:
        need(server)
        s = server.create(timeout="1h")["id"]
        shot, longer = snapshot(server, s), snapshot(server, s, expires_in="1h")
        check(shot["expires_at"] < longer["expires_at"], "by the setting")
        server.stop()
        server.start()
        wait_for(lambda: len(expiries(server)) == 1, 20, "it to expire")
        equal([x["id"] for x in server.want(200, "GET", "/v1/snapshots")["snapshots"]], [longer["id"]])
        listed = subprocess.run([server.program, "snapshot", "ls"], capture_output=True, text=True, check=True,
                                env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}).stdout
        equal(listed.split()[:7], ["ID", "NAME", "OWNER", "SESSION", "SIZE", "CREATED", "EXPIRES"])


def test_the_client(server):
    """Shows names as they are typed, and when a session is stopped apart from when it is deleted."""
    need(server)

    def client(*words):
        return subprocess.run([server.program, *words], capture_output=True, text=True, check=True,
                              env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}).stdout

    s, paused = (server.create(timeout="1h", **more)["id"] for more in ({}, {"on_timeout": "pause"}))
    equal(client("snapshot", s, "typed"), "typed\n")
    equal(client("snapshot", s, "typed:two"), "typed:two\n")
    unnamed = client("snapshot", s).strip()
    check(unnamed.isalnum(), unnamed)
    rows = [line.split()[:3] for line in client("snapshot", "ls").splitlines()[1:]]
    check(["typed:default", "typed", "default"] in rows and ["typed:two", "typed", "default"] in rows and [f"{unnamed}:default", "-", "default"] in rows, str(rows))
    made = [client("create", "--template", name).strip() for name in ("typed", "typed:two", unnamed, "typed:default")]
    left = {line.split()[0]: line for line in client("ls").splitlines()[1:]}
    check("59m (pauses)" in left[paused] or "1h (pauses)" in left[paused], left[paused])
    check("(" not in left[s], left[s])
    server.want(200, "POST", f"/v1/sessions/{paused}/pause")
    again = {line.split()[0]: line for line in client("ls").splitlines()[1:]}[paused]
    check("(" not in again and again.split()[3] != "-", again)
    for name in ("typed:two", "typed", unnamed):
        client("snapshot", "rm", name)
    for x in (s, paused, *made):
        server.delete(x)


def test_two_tenants(server):
    need(server)
    (_, a), (_, b) = server.tenant("shot-a"), server.tenant("shot-b")
    s = server.create(key=a)["id"]
    server.run(s, "echo private >~/p", key=a)
    shot = snapshot(server, s, name="private", key=a)
    for template in (shot["id"], shot["template_id"], "private", "shot-a/private"):
        server.refused(404, "not_found", "POST", "/v1/sessions", {"template": template}, key=b)
        server.refused(404, "not_found", "GET", path(template), key=b)
        server.refused(404, "not_found", "DELETE", path(template), key=b)
    equal(server.want(200, "GET", "/v1/snapshots", key=b)["snapshots"], [])
    server.refused(404, "not_found", "POST", f"/v1/sessions/{s}/snapshots", {}, key=b)
    server.refused(404, "not_found", "POST", f"/v1/sessions/{s}/fork", {}, key=b)
    server.refused(404, "not_found", "POST", f"/v1/sessions/{s}/reset", None, key=b)
    for route in ("GET /v1/layers", "POST /v1/gc"):
        equal(server.request(*route.split(), key=a)[0], 403, route)
    server.delete(s, key=a)
    c = server.create(template="private", key=a)["id"]
    equal(server.run(c, "cat ~/p", key=a)["stdout"], "private\n")
    server.delete(c, key=a)
    server.want(204, "DELETE", path("private"), key=a)
    none_left(server)


def test_no_secret_is_in_it(server):
    need(server)
    server.want(201, "POST", "/v1/secrets", {"name": "shot", "value": SECRET})
    s = server.create(timeout="1h", secrets=[{"name": "shot", "as": "env", "env": "S"},
                                             {"name": "shot", "as": "file", "path": "/run/secrets/shot"}])["id"]
    equal(server.run(s, "cat /run/secrets/shot | wc -c", user="root")["stdout"].strip(), str(len(SECRET)))
    shot = snapshot(server, s)
    folder = os.path.join(server.state, "storage")
    found = subprocess.run(["grep", "-rlF", SECRET, folder], stdout=subprocess.PIPE, text=True, check=False)
    equal(found.stdout, "", "files of the storage folder with the value")
    c = server.create(template=shot["id"])["id"]
    equal(server.run(c, "ls /run/secrets/shot 2>/dev/null; echo -n $S")["stdout"], "")
    server.delete(c)
    server.delete(s)
    server.want(204, "DELETE", path(shot["id"]))
    server.want(204, "DELETE", "/v1/secrets/shot")
    none_left(server)


def test_many_at_once(server):
    """More captures than the keeper and cordon-storage do at a time: none is refused, and those of one tenant do not hold up another's."""
    need(server)
    _, other = server.tenant("shot-other")
    mine = [server.create(timeout="1h", limits={"disk": "64M"})["id"] for _ in range(20)]
    for s in mine:
        server.run(s, "head -c 20M /dev/urandom >~/big")
    theirs = server.create(key=other)["id"]
    with concurrent.futures.ThreadPoolExecutor(len(mine)) as pool:
        made = [pool.submit(server.request, "POST", f"/v1/sessions/{s}/snapshots", {}) for s in mine]
        wait_for(lambda: any(m.done() for m in made), 60, "the first")
        shot = snapshot(server, theirs, key=other)
        check(not all(m.done() for m in made), "another tenant's has waited for all of them")
    equal([m.result()[0] for m in made], [201] * len(mine), "each is made")
    server.want(204, "DELETE", path(shot["id"]), key=other)
    server.delete(theirs, key=other)
    for s, m in zip(mine, made):
        server.want(204, "DELETE", path(m.result()[2]["id"]))
        server.delete(s)
    none_left(server)


def test_files_without_bytes_are_counted(server):
    """File systems hold so many files only: who may store little may not store a great many of them."""
    need(server)
    _, key = server.tenant("shot-files", max_stored="64M")
    s = server.create(key=key, limits={"disk": "64M"})["id"]
    server.run(s, "mkdir ~/d; cd ~/d; seq 3000 | xargs touch", key=key)
    shot = snapshot(server, s, key=key)
    check(server.want(200, "GET", "/v1/limits", key=key)["used"]["stored_bytes"] >= 3000 * 16384, "used")
    server.run(s, "mkdir ~/e; cd ~/e; seq 3000 | xargs touch", key=key)
    server.refused(429, "quota_stored", "POST", f"/v1/sessions/{s}/snapshots", {}, key=key)
    server.delete(s, key=key)
    server.want(204, "DELETE", path(shot["id"]), key=key)
    none_left(server)


def test_bounds(server):
    need(server)
    _, key = server.tenant("shot-bound", max_stored="10M")
    s = server.create(key=key, limits={"disk": "64M"})["id"]
    server.run(s, "head -c 6M /dev/urandom >~/big", key=key)
    shot = snapshot(server, s, key=key)
    limits = server.want(200, "GET", "/v1/limits", key=key)
    check(6 << 20 <= limits["used"]["stored_bytes"] <= 7 << 20, limits["used"])
    equal(limits["tenant"]["max_stored_bytes"], 10 << 20)
    server.refused(429, "quota_stored", "POST", f"/v1/sessions/{s}/snapshots", {}, key=key)
    equal(server.run(s, "echo goes on", key=key)["stdout"], "goes on\n")
    server.want(204, "DELETE", path(shot["id"]), key=key)
    wait_for(lambda: server.request("POST", f"/v1/sessions/{s}/snapshots", {}, key=key)[0] == 201, 60, "room again")
    server.delete(s, key=key)
    for found in server.want(200, "GET", "/v1/snapshots", key=key)["snapshots"]:
        server.want(204, "DELETE", path(found["id"]), key=key)
    none_left(server)


def test_a_full_disk(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo x >~/x")
    server.settings["storage_reserve"] = "90"
    server.restart()
    fs = os.statvfs(server.state)
    if fs.f_bavail * 10 > fs.f_blocks * 9:
        raise Skip("nine tenths of the disk are free")
    server.refused(507, "storage_full", "POST", f"/v1/sessions/{s}/snapshots", {}, "storage_reserve")
    server.refused(507, "storage_full", "POST", f"/v1/sessions/{s}/fork", {})
    server.refused(507, "storage_full", "POST", f"/v1/sessions/{s}/pause", {"memory": False})
    equal(server.run(s, "cat ~/x")["stdout"], "x\n", "the session goes on")
    server.settings["storage_reserve"] = "0"
    server.restart()
    server.delete(s)


def test_states(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo x >~/x")
    server.want(200, "POST", f"/v1/sessions/{s}/pause")
    shot = snapshot(server, s)
    equal(server.get(s)["state"], "paused", "a paused source stays paused")
    server.delete(s)
    server.reaches(s, "ended")
    server.refused(410, "gone", "POST", f"/v1/sessions/{s}/snapshots", {})
    server.refused(404, "not_found", "POST", "/v1/sessions/nosuch/snapshots", {})
    server.want(204, "DELETE", path(shot["id"]))
    none_left(server)


def test_pools_of_snapshots(server):
    need(server)
    s = server.create(timeout="1h")["id"]
    server.run(s, "echo x >~/x")
    shot = snapshot(server, s)
    server.delete(s)

    def pool():
        return next(t for t in server.want(200, "GET", "/v1/templates")["templates"] if t["id"] == shot["version_id"])["pool"]

    def hit():
        server.delete(server.create(template=shot["id"])["id"])
        return pool()["hits"] > 0

    wait_for(hit, 20, "a cell of its pool to be used")
    server.want(204, "DELETE", path(shot["id"]))
    none_left(server)



def test_a_name_that_is_taken_meanwhile(server):
    """While the files of a snapshot are written, a template gets its name: the snapshot does not take its place."""
    session = server.create()["id"]
    server.run(session, "mkdir d; cd d; seq 40000 | xargs touch")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.request("POST", f"/v1/sessions/{session}/snapshots", {"name": "tool"})))
    thread.start()
    time.sleep(0.1)  # the name was checked for the first time by then
    made = server.want(201, "POST", "/v1/templates", {"name": "tool", "from": "host"})
    check(not answers, "the snapshot was there before the template: more files are needed")
    thread.join()
    equal(answers[0][0], 409, answers[0][2])
    equal(server.want(200, "GET", "/v1/templates/tool")["id"], made["id"], "what the name means")
    server.want(204, "DELETE", "/v1/templates/tool")
    server.delete(session)


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
