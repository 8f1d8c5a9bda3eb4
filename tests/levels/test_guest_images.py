#!/usr/bin/python3
"""Goal: the images that guests of level microvm start from are made by the server's own rules, and no client and no
restart can spoil them for others.

    test_guest_images.py CORDON [name ...]"""
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
import harness  # noqa: E402
from checks import check, equal, has, named_tests, run_tap, wait_for  # noqa: E402
from tree import make_tree  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
BOOT = 240  # seconds, under emulation and load
GUEST_OF_TEMPLATE = 5  # store_layer.h
server = None


def start():
    folder = tempfile.mkdtemp(prefix="cordon-images-", dir="/var/tmp")
    os.mkdir(os.path.join(folder, "state"))
    guest_kernel.give(PROGRAM, pathlib.Path(folder) / "state")
    s = harness.Server(PROGRAM, folder=folder, pool_size=0, pool_started_size=0)
    make_tree(os.path.join(s.state, "templates", "vm"), "a vm")
    return s


def template(name):
    server.want(201, "POST", "/v1/templates", {"name": name, "root": {"kind": "layers", "layers": ["vm"]}})


def ask(name, memory=128, key="", **limits):
    return server.request("POST", "/v1/sessions", {"template": name, "level": "microvm", "limits": {"memory": f"{memory}M", **limits}},
                          timeout=BOOT, key=key)


def create(name, memory=128, **limits):
    status, _, body = ask(name, memory, **limits)
    equal(status, 201, str(body))
    return body["id"]


def remove(name, *sessions):
    for session in sessions:
        server.delete(session)
        server.reaches(session, "ended", 60)
    server.want(204, "DELETE", f"/v1/templates/{name}")


def layers(kind):
    return [x["id"] for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind]


def used(version):
    with sqlite3.connect(f"file:{server.state}/cordon.db?mode=ro", uri=True) as db:
        return [x for x, in db.execute("SELECT layer FROM layer_use WHERE owner_kind = ? AND owner = ? ORDER BY position",
                                       (GUEST_OF_TEMPLATE, version))]


def sessions(state, key=""):
    return [x["id"] for x in server.want(200, "GET", "/v1/sessions", key=key)["sessions"] if x["state"] == state]


def engines():
    """QEMU processes of this server's cells."""
    server.note_cells()
    return [pid for cell in server.ids for pid in server.cell_pids(cell) if harness.comm(pid).startswith("qemu-system")]


def later(function, *args, **more):
    answers = []

    def run():
        try:
            answers.append(function(*args, **more))
        except OSError as e:  # the server went away
            answers.append(e)
    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


def test_a_template_that_was_removed_and_registered_again():
    template("again")
    session = create("again")
    old = layers("root")
    remove("again", session)
    wait_for(lambda: not layers("root"), 60, name="the end of the image")
    template("again")
    session = create("again")
    check(layers("root") != old, "a new image")
    remove("again", session)
    wait_for(lambda: not layers("root"), 60, name="the end of the image")


def test_an_image_outlives_the_template_that_it_was_made_for():
    template("one")
    template("two")
    made = [create("one"), create("two")]
    equal(len(layers("root")), 1, "both have the same files")
    remove("one", made[0])
    wait_for(lambda: "template version deleted" in server.log().split("name=one")[-2][-80:], 60, name="the end of its version")
    server.delete(made[1])
    server.reaches(made[1], "ended", 60)
    equal(len(layers("root")), 1, "the other template uses it")
    remove("two", create("two"))


def command(*words):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    done = subprocess.run([server.program, *words], env=env, capture_output=True, text=True, timeout=60, check=False)
    equal((done.returncode, done.stderr), (0, ""), f"cordon {words}")
    return done.stdout


def origins(kind):
    return [(x["origin"], x["stale"]) for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind]


def test_images_say_what_they_were_made_of():
    """And what has changed since: here the template, of which a session of the old version lives on."""
    template("made")
    session = create("made")
    wait_for(lambda: layers("memory"), 60, name="the memory image on disk")
    (root, stale), = origins("root")
    equal((root["template"], root["base"], stale), ("made", "vm", []), str(root))
    (memory, stale), = origins("memory")
    equal((memory["template"], memory["root"], memory["memory"], stale), ("made", layers("root")[0], "128M", []), str(memory))
    manifest = dict(line.split(" ", 1) for line in pathlib.Path(server.state, "guest", "manifest").read_text().splitlines())
    equal((memory["kernel"], memory["package"], memory["kernel_digest"]), (manifest["kernel"], manifest["package"], "sha256:" + manifest["vmlinux"]))
    check(memory["accelerator"] in ("kvm", "tcg") and memory["engine"].startswith("qemu ") and memory["cordon"], str(memory))
    shown = command("layers")
    check(re.search(rf"^{layers('memory')[0]} .* made +{re.escape(manifest['kernel'])} +-$", shown, re.M), shown)
    make_tree(os.path.join(server.state, "templates", "vm2"), "another vm")
    server.want(201, "POST", "/v1/templates", {"name": "made", "root": {"kind": "layers", "layers": ["vm2"]}})
    equal(([x for _, x in origins("root")], [x for _, x in origins("memory")]), ([["template"]], [["template"]]))
    check(re.search(r" template$", command("layers"), re.M), "shown")
    remove("made", session)
    wait_for(lambda: not layers("root"), 60, name="the end of the image")


def test_memory_images_of_many_sizes_leave_the_root_image():
    template("sizes")
    session = create("sizes")
    server.delete(session)
    server.reaches(session, "ended", 60)
    wait_for(lambda: layers("memory"), 60, name="the memory image on disk")
    root = layers("root")
    server.stop()
    with sqlite3.connect(os.path.join(server.state, "cordon.db")) as db:  # as if eleven sizes had been used since
        owner, = db.execute("SELECT owner FROM layer_use WHERE layer = ?", (root[0],)).fetchone()
        row = db.execute("SELECT * FROM layer WHERE kind = 'memory'").fetchone()
        names = [c[1] for c in db.execute("PRAGMA table_info(layer)")]
        db.execute("DELETE FROM layer_use WHERE owner_kind = ? AND owner = ?", (GUEST_OF_TEMPLATE, owner))
        for i in range(11):
            new = dict(zip(names, row), id=f"lay_0000000000000000000{i:02}", digest=f"memory:{i}")
            db.execute(f"INSERT INTO layer ({','.join(new)}) VALUES ({','.join('?' * len(new))})", tuple(new.values()))
            db.execute("INSERT INTO layer_use (owner_kind, owner, position, layer) VALUES (?,?,?,?)", (GUEST_OF_TEMPLATE, owner, i, new["id"]))
        db.execute("INSERT INTO layer_use (owner_kind, owner, position, layer) VALUES (?,?,?,?)", (GUEST_OF_TEMPLATE, owner, 11, root[0]))
    db.close()
    server.start()
    session = create("sizes", 129)
    wait_for(lambda: used(owner)[-1] == "lay_000000000000000000006", 60, name="the end of the oldest")
    server.delete(session)
    server.reaches(session, "ended", 60)
    equal(layers("root"), root, "the root image stays")
    remove("sizes")


def test_a_session_whose_guest_did_not_start_ends_with_the_server():
    template("half")
    server.delete(create("half"))
    wait_for(lambda: not engines(), 60, name="no engine")
    thread, _ = later(ask, "half")

    def stop_it():
        for pid in engines():
            os.kill(pid, signal.SIGSTOP)
            return pid
        return None
    engine = wait_for(stop_it, BOOT, name="the engine", step=0.001)
    session = sessions("creating")
    if session:  # else it had started before the signal came
        server.restarted("cordond")
        thread.join(60)
        ended = server.reaches(session[0], "ended", 60)
        equal(ended["reason"], "crashed")
        has(str(ended), "guest was started")
        wait_for(lambda: not engines(), 60, name="the end of its engine")
    else:
        os.kill(engine, signal.SIGCONT)
        thread.join(60)
        server.delete_all()
    remove("half")


def test_the_first_session_does_not_set_the_limits_of_the_image():
    template("slow")
    made = server.log().count("memory image made")
    thread, _ = later(ask, "slow", 150, cpus=0.01, pids=8, nofile=16)
    wait_for(lambda: server.log().count("memory image made") > made, 90, name="the image, with the processor of the server's own")
    server.delete_all()
    thread.join(BOOT)
    remove("slow")


def test_few_guests_boot_for_images_and_none_without_a_session():
    template("many")
    before = server.log().count("waits for its turn")
    keys = [server.tenant(name)[1] for name in ("one", "two", "three")]
    asked = [later(ask, "many", 140 + i, key=key)[0] for i, key in enumerate([keys[0], *keys])]

    def stop_all():
        for pid in engines():
            os.kill(pid, signal.SIGSTOP)
        return len(engines()) >= 2 and server.log().count("waits for its turn") == before + 2
    wait_for(stop_all, 60, name="two that boot and two that wait")
    equal(len(engines()), 2, "guests that boot at a time")
    for key in keys:
        for session in sessions("creating", key):
            server.delete(session, key)
    for thread in asked:
        thread.join(60)
    wait_for(lambda: not engines(), 60, name="the end of the guests that no session waits for")
    remove("many", create("many", 140))


def test_the_image_of_a_build_counts_for_its_tenant():
    """The template is everyone's; what is built above it is in no quota but the builder's."""
    server.want(201, "POST", "/v1/templates", {"name": "shared", "level": "microvm", "root": {"kind": "layers", "layers": ["vm"]}})
    builder, key = server.tenant("builder")
    build = server.want(201, "POST", "/v1/builds", {"name": "built"}, key=key)
    steps = [{"type": "RUN", "args": [command, "root"]} for command in ("touch /made", "sleep 1000")]
    where = f"/v1/builds/{build['id']}"
    server.want(202, "POST", where + "/start", {"fromTemplate": "shared", "steps": steps}, key=key)

    def owners():
        return sorted(x["tenant"] or "" for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == "root")
    # (An image of the test before this one may be there for a moment.)
    wait_for(lambda: owners() == ["", builder], BOOT, name="the template's image, and that of the layers of the build")
    server.want(204, "DELETE", where, key=key)
    wait_for(lambda: owners() == [""], 60, name="the end of the build's image")
    remove("shared")
    wait_for(lambda: not layers("root"), 60, name="the end of the template's")


def tenant(name):
    made = server.want(201, "POST", "/v1/tenants", {"name": name})["id"]
    return made, server.want(201, "POST", f"/v1/tenants/{made}/keys", {"scopes": ["sessions", "admin"]})["key"]


def owners(kind):
    return sorted(x["tenant"] or "" for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind)


IDENTITY = "cat /proc/sys/kernel/hostname /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | od -An -tx1"


def test_two_tenants_with_one_template_and_with_one_stack():
    """Sessions of a template that all may use start from one root image and one memory image; nothing of a guest is in another's. Templates of
    their own, of the same layers, have root images of their own, and so memory images: no tenant reads an image of another."""
    template("common")
    two = [tenant("image-a"), tenant("image-b")]
    made = []
    for _, key in two:
        status, _, body = ask("common", key=key)
        equal(status, 201, str(body))
        made.append((body["id"], key))
    wait_for(lambda: owners("memory"), 60, name="the memory image on disk")
    equal((owners("root"), owners("memory")), ([""], [""]), "images of the template")
    for path in ("/secret", "/tmp/secret"):
        equal(server.run(made[0][0], f"echo of the first > {path}", key=made[0][1], user="root")["exit_code"], 0, path)
        equal(server.run(made[1][0], f"cat {path}", key=made[1][1], user="root")["exit_code"], 1, f"{path} in the other guest")
    seen = [server.run(s, IDENTITY, key=key)["stdout"].splitlines() for s, key in made]
    check(len(seen[0]) == 4 and not set(seen[0]) & set(seen[1]), f"identities: {seen}")
    for i, (_, key) in enumerate(two):
        server.want(201, "POST", "/v1/templates", {"name": "own", "from": "common"}, key=key)
        status, _, body = ask("own", key=key)
        equal(status, 201, str(body))
        made.append((body["id"], key))
    equal(owners("root"), sorted(["", *(ident for ident, _ in two)]), "root images of one stack")
    wait_for(lambda: len(owners("memory")) == 3, 60, name="memory images, one for each root image")
    for s, key in made:
        server.delete(s, key=key)
        server.reaches(s, "ended", 60, key=key)
    for ident, _ in two:
        server.want(204, "DELETE", f"/v1/tenants/{ident}")
    remove("common")
    wait_for(lambda: not layers("root") and not layers("memory"), 60, name="the end of all images")


def test_the_host_is_refused_at_once_where_it_has_no_room():
    """What the machine's files take is known when the server starts: a session does not wait for an image that cannot be made."""
    folder = tempfile.mkdtemp(prefix="cordon-host-", dir="/var/tmp")
    for name in ("state", "small"):
        os.mkdir(os.path.join(folder, name))
    guest_kernel.give(PROGRAM, pathlib.Path(folder) / "state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=700", "none", f"{folder}/small"], check=True)
    try:
        with harness.Server(PROGRAM, folder=folder, pool_size=0, guest_root_max="16M", storage_dir=f"{folder}/small") as own:
            has(own.log(), "the template host is large", "what the log says beforehand")
            status, _, body = own.request("POST", "/v1/sessions", {"level": "microvm"}, timeout=BOOT)
            equal((status, body["error"]["code"]), (507, "storage_full"), str(body))
            has(body["error"]["message"], "which are the template host, have ", "what has no room")
            equal(os.listdir(f"{folder}/small/layers"), [], "nothing was begun")
            subprocess.run(["umount", "-l", f"{folder}/small"], check=True)  # the end of the server looks for what is left
    except BaseException:
        subprocess.run(["umount", "-l", f"{folder}/small"], check=False)
        raise


def test_an_image_that_is_damaged_is_made_again():
    template("bad")
    session = create("bad", 160)
    server.delete(session)
    server.reaches(session, "ended", 60)
    wait_for(lambda: layers("memory"), 60, name="the image on disk")
    server.stop()
    damaged = 0
    for name in pathlib.Path(server.state).rglob("devices"):
        if (name.parent / "ram").exists():
            content = name.read_bytes()
            name.write_bytes(content[:200] + bytes(x ^ 255 for x in content[200:6000]) + content[6000:])
            damaged += 1
    check(damaged > 0, "an image was found")
    server.start()
    equal(ask("bad", 160)[0], 500, "a guest cannot be started from it")
    remove("bad", create("bad", 160))


if __name__ == "__main__":
    if os.getuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    harness.PROGRAM = PROGRAM
    server = start()
    status = 1
    try:
        status = run_tap(named_tests(globals(), sys.argv[2:]))
        server.close()
    except BaseException:
        print(server.log()[-4000:], file=sys.stderr)
        raise
    finally:
        server.destroy()
        shutil.rmtree(server.folder, ignore_errors=True)
    sys.exit(status)
