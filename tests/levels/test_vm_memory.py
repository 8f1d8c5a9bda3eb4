#!/usr/bin/python3
"""Goal: a session at level microvm is a clone of its template's guest, and its memory can leave the machine's memory and come back.

    test_vm_memory.py CORDON [name ...]"""
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
import harness  # noqa: E402
from checks import check, equal, has, named_tests, run_tap, wait_for  # noqa: E402
from tree import make_tree  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/n; echo line $i; sleep 0.1; done"
server = None


def start():
    """A server with a guest kernel and a small template."""
    folder = tempfile.mkdtemp(prefix="cordon-vm-", dir="/var/tmp")
    os.mkdir(os.path.join(folder, "state"))
    guest_kernel.give(PROGRAM, pathlib.Path(folder) / "state")
    s = harness.Server(PROGRAM, folder=folder)
    make_tree(os.path.join(s.state, "templates", "vm"), "a vm")
    s.want(201, "POST", "/v1/templates", {"name": "vm", "root": {"kind": "layers", "layers": ["vm"]}})
    return s


def until(what, name):
    """As wait_for(), for a slow guest: each question costs it a program."""
    return wait_for(what, seconds=60, step=0.2, name=name)


def create(**more):
    return server.create(template="vm", level="microvm", limits={"memory": "256M"}, **more)["id"]


def out(session, command, **more):
    done = server.run(session, command, **more)
    equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
    return done["stdout"]


def number(session):
    return int(out(session, "cat /tmp/n 2>/dev/null; true").strip() or 0)


def layers(kind):
    return [x for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind]


def pause(session):
    server.want(200, "POST", f"/v1/sessions/{session}/pause")
    equal(server.get(session)["state"], "paused")
    until(lambda: not server.cell_pids(session), name="the end of its processes")


def test_sessions_are_clones_of_one_guest():
    made = [create() for _ in range(2)]
    equal((len(layers("root")), len(layers("memory"))), (1, 1), "made once")
    has(out(made[0], "cat /etc/mark"), "a vm")
    out(made[0], "echo mine > /tmp/own")
    equal(server.run(made[1], "cat /tmp/own")["exit_code"], 1, "they share no file")
    ids = {out(s, "cat /proc/sys/kernel/random/boot_id /dev/machine-id; hostname 2>/dev/null; true") for s in made}
    equal(len(ids), 2, "each is another machine")
    check(out(made[0], "head -c 16 /dev/urandom | od -An -x 2>/dev/null || cat /proc/sys/kernel/random/uuid") !=
          out(made[1], "head -c 16 /dev/urandom | od -An -x 2>/dev/null || cat /proc/sys/kernel/random/uuid"), "random numbers")
    for session in made:
        server.delete(session)


def test_pause_frees_all_memory_and_programs_go_on():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    pause(session)
    check(len(layers("pause")) == 1, "its memory is a layer")
    at = int(server.execution(counting)["stdout_bytes"])
    again = until(lambda: number(session), name="a number")  # resumes it; the file is empty while it is written
    check(again > 3, again)
    until(lambda: number(session) > again, name="the counter after the pause")
    equal(server.execution(counting)["state"], "running", "the same execution")
    until(lambda: int(server.execution(counting)["stdout_bytes"]) > at, name="output after the pause")
    text = server.want(200, "GET", f"/v1/sessions/{session}/executions/{counting['id']}/output?stream=stdout", raw=True).decode()
    numbers = [int(line.split()[1]) for line in text.splitlines()]
    equal(numbers, list(range(1, len(numbers) + 1)), "no line is lost or comes twice")
    until(lambda: not layers("pause"), name="the end of the image")
    server.delete(session)


# Each line: when, and a random number of the kernel. No program is started for it.
DRAWS = "while true; do read t i < /proc/uptime; read u < /proc/sys/kernel/random/uuid; echo $t $u; done > /tmp/draws"


def test_copies_do_not_share_random_numbers():
    """What source and copies have in common was drawn before they were copied: no program of one goes on before it is reseeded."""
    source = create()
    server.spawn(source, DRAWS)
    until(lambda: int(out(source, "cat /tmp/draws 2>/dev/null | wc -l")) > 50, name="some numbers")
    children = [s["id"] for s in server.want(201, "POST", f"/v1/sessions/{source}/fork", {"count": 2}, timeout=150)["sessions"]]
    server.want(201, "POST", f"/v1/sessions/{source}/snapshots", {"name": "draws"}, timeout=150)
    children.append(server.create(template="draws", level="microvm")["id"])
    copies = {}
    for s in [source, *children]:
        before = int(out(s, "cat /tmp/draws 2>/dev/null | wc -l"))
        until(lambda s=s, before=before: int(out(s, "cat /tmp/draws 2>/dev/null | wc -l")) > before + 50, name="numbers after the copy")
        copies[s] = [tuple(line.split()) for line in out(s, "cat /tmp/draws").splitlines()[:-1]]
    for child in children:
        same = 0
        while copies[source][same] == copies[child][same]:
            same += 1
        check(same > 50, "the copy has the numbers of its source")
        both = {u for _, u in copies[source][same:]} & {u for _, u in copies[child][same:]}
        equal(both, set(), f"numbers that were drawn twice, of {len(copies[child]) - same}")
    last = [set(u for _, u in copies[c][-20:]) for c in children]
    equal(sum(map(len, last)), len(set().union(*last)), "copies among themselves")
    for s in copies:
        server.delete(s)
    server.want(204, "DELETE", "/v1/snapshots/draws")


def test_a_paused_session_outlives_the_server():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    pause(session)
    server.restart()
    equal(server.get(session)["state"], "paused")
    equal(len(layers("pause")), 1, "the image stays")
    before = number(session)
    until(lambda: number(session) > before, name="the counter after the restart")
    equal(server.execution(counting)["state"], "running")
    server.delete(session)
    until(lambda: not layers("pause"), name="the end of the image")


def test_a_pause_that_fails_leaves_it_running():
    session = create()
    server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    server.kill("cordon-storage", 19)  # SIGSTOP: the image is not written
    try:
        answers = []
        asked = threading.Thread(target=lambda: answers.append(server.request("POST", f"/v1/sessions/{session}/pause")))
        asked.start()
        wait_for(lambda: server.get(session)["state"] == "pausing", name="the pause")
    finally:
        for pid in server.pids("cordon-storage"):
            os.kill(pid, 9)
    asked.join(60)
    if answers[0][0] == 200:  # it had the image before the signal came
        number(session)
    else:
        check(answers[0][0] >= 409, answers)
    server.reaches(session, "running")
    before = number(session)
    until(lambda: number(session) > before, name="the counter goes on")
    pause(session)  # the next one is saved: nothing of the failure stays
    until(lambda: len(layers("pause")) == 1, name="its memory is a layer, and that of the failed pause is gone")
    server.delete(session)
    until(lambda: not layers("pause"), name="nothing left on disk")


def running(session):
    found = server.want(200, "GET", f"/v1/sessions/{session}/executions")["executions"]
    return [x for x in found if x["state"] == "running"]


def fork(session, count=1):
    made = server.want(201, "POST", f"/v1/sessions/{session}/fork", {"count": count}, timeout=120)["sessions"]
    children = [one["id"] for one in made]
    for child in children:
        server.ids.add(child)
    return children


def counts_on(session):
    """Returns the first number that was seen."""
    before = number(session)
    until(lambda: number(session) > before, name="the counter goes on")
    return before


def test_a_fork_goes_on_where_its_source_stands():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    children = fork(session, 2)
    for child in children:
        check(counts_on(child) > 3, "it begins again")
        found = running(child)
        equal([x["command_sha256"] for x in found], [counting["command_sha256"]], "the program is an execution of the child")
        check(found[0]["id"] != counting["id"], "with a record of its own")
        until(lambda: int(server.execution(found[0])["stdout_bytes"]) > 0, name="its output")
    ids = {out(s, "cat /proc/sys/kernel/random/boot_id /dev/machine-id") for s in (session, *children)}
    equal(len(ids), 3, "each is another machine")
    out(children[0], "echo mine > /tmp/own")
    for other in (children[1], session):
        equal(server.run(other, "cat /tmp/own")["exit_code"], 1, "they share no file")
    equal(server.execution(counting)["state"], "running", "the source goes on")
    server.delete(session)
    # A pause of a child is its own memory, not that of its source.
    at = number(children[0])
    pause(children[0])
    check(counts_on(children[0]) >= at, "it goes back")
    equal(out(children[0], "cat /tmp/own"), "mine\n")
    server.want(204, "POST", f"/v1/sessions/{children[1]}/executions/{running(children[1])[0]['id']}/signals", {"signal": "KILL"})
    until(lambda: not running(children[1]), name="the end of the program")
    for one in children:
        server.delete(one)


def promised():
    """Bytes of memory that the operator's sessions count for."""
    return server.want(200, "GET", "/v1/limits")["used"]["memory_bytes"]


def cell_memory(session):
    return server.want(200, "GET", f"/v1/sessions/{session}/metrics")["now"]["memory_bytes"]


def large(session, size):
    """Gives it that much memory of its own."""
    out(session, f"head -c {size} /dev/urandom > /tmp/large")


def keeps(session, size):
    equal(out(session, "wc -c < /tmp/large"), f"{size}\n")


def test_a_child_has_the_changes_of_its_source_as_its_own():
    """A source can be forked again and again, of any generation: its children map its image and have copies of what it has changed."""
    until(lambda: promised() == 0, name="the end of earlier sessions")
    size = 40_000_000
    session = create()
    large(session, size)
    one, before = promised(), cell_memory(session)
    children = [fork(session)[0] for _ in range(6)]
    children.append(fork(children[5])[0])
    check(cell_memory(session) < before + size // 2, f"changes are charged to the source: {before} bytes before, {cell_memory(session)} now")
    check(cell_memory(children[6]) > size, "they are not charged to the child")
    until(lambda: promised() == 8 * one, name="nothing to count but the sessions")
    server.delete(session)
    for child in (children[0], children[6]):
        keeps(child, size)
    pause(children[6])
    keeps(children[6], size)
    for gone in children:
        server.delete(gone)
    until(lambda: promised() == 0, name="all of it to be given back")


def test_copies_of_memory_count_for_their_users_and_not_for_the_source():
    """What children share counts once, until the last of them has gone."""
    until(lambda: promised() == 0, name="the end of earlier sessions")
    size = 110_000_000
    session = create()
    large(session, size)
    one, before = promised(), cell_memory(session)
    children = fork(session, 4)  # four copies of the changes would be more than one of the whole memory
    check(cell_memory(session) < before + size // 2, f"the copy is charged to the source: {before} bytes before, {cell_memory(session)} now")
    held = promised() - 5 * one
    check(size <= held < 2 * size, f"{held} bytes count for the copy")
    children.append(fork(children[0])[0])  # maps the same copy
    until(lambda: promised() == 6 * one + held, name="nothing more to count")
    server.restart()
    equal(promised(), 6 * one + held, "what the next daemon counts")
    for gone in children[:4]:
        server.delete(gone)
    until(lambda: promised() == 2 * one + held, name="the first users to go")
    keeps(children[4], size)
    server.delete(children[4])
    until(lambda: promised() == one, name="the last user's copy to be given back")
    children = fork(session)  # by a daemon that has not started its guest, and does not have its image
    check(promised() >= 2 * one + size, "a copy that one child uses")
    keeps(children[0], size)
    server.delete(children[0])
    until(lambda: promised() == one, name="that copy to be given back")
    pause(session)
    until(lambda: promised() == 0, name="the end of the cell")
    keeps(session, size)
    check(promised() >= one + size, "what was loaded for it counts")
    server.delete(session)
    until(lambda: promised() == 0, name="all of it to be given back")


def test_a_copy_that_does_not_fit_is_refused():
    tenant, key = server.tenant("small", max_memory="530M")
    session = server.create(key=key, template="vm", level="microvm", limits={"memory": "256M"})["id"]
    equal(server.run(session, "head -c 30000000 /dev/urandom > /tmp/large", key=key)["exit_code"], 0)
    server.refused(429, "quota_memory", "POST", f"/v1/sessions/{session}/fork", {"count": 1}, "copy of the session's memory", key=key)
    equal(server.run(session, "echo up", key=key)["stdout"], "up\n", "the source goes on")
    until(lambda: server.want(200, "GET", "/v1/limits", key=key)["used"]["memory_bytes"] == 256 << 20, name="the end of the child's cell")
    server.delete(session, key=key)
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def test_the_memory_of_a_snapshot_has_to_fit_before_it_is_loaded():
    tenant, key = server.tenant("loads", max_memory="300M")
    session = server.create(key=key, template="vm", level="microvm", limits={"memory": "256M"})["id"]
    equal(server.run(session, "head -c 60000000 /dev/urandom > /tmp/large", key=key)["exit_code"], 0)
    server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "heavy"}, key=key, timeout=120)
    server.delete(session, key=key)
    until(lambda: server.want(200, "GET", "/v1/limits", key=key)["used"]["memory_bytes"] == 0, name="the end of the source")
    server.refused(429, "quota_memory", "POST", "/v1/sessions", {"template": "heavy"}, "bytes of memory", key=key)
    equal(server.want(200, "GET", "/v1/limits", key=key)["used"]["memory_bytes"], 0, "after a session that was refused")
    server.want(204, "DELETE", "/v1/snapshots/heavy", key=key)
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def test_sessions_of_a_snapshot_go_on_with_its_memory():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    out(session, "echo kept > /tmp/kept")
    made = server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "warm"})
    counts_on(session)
    server.delete(session)
    child = server.create(template="warm")["id"]
    equal(server.get(child)["level"], "microvm")
    server.refused(422, "unsupported", "PATCH", "/v1/templates/warm", {"public": True}, "for its own tenant only")
    equal(out(child, "cat /tmp/kept"), "kept\n")
    counts_on(child)
    equal([x["command_sha256"] for x in running(child)], [counting["command_sha256"]])
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"template": "warm", "level": "container"}, "memory of a session")
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"template": "warm", "limits": {"memory": "512M"}}, "256 MiB")
    small = server.want(201, "POST", "/v1/keys", {"name": "small", "scopes": ["sessions"], "allow": {"memory": "128M"}})["key"]
    server.refused(422, "unsupported", "POST", "/v1/sessions", {"template": "warm"}, "256 MiB, not 128", key=small)
    server.want(204, "DELETE", f"/v1/snapshots/{made['id'].replace('/', '%2F').replace(':', '%3A')}")
    pause(child)
    counts_on(child)
    equal(out(child, "cat /tmp/kept"), "kept\n")
    server.delete(child)
    until(lambda: not layers("snapshot"), name="the end of the image")


def image_has(layer, text):
    """Is this text in the memory of that image?"""
    ram = next(pathlib.Path(server.folder).glob(f"**/layers/{layer}/ram"))
    with open(ram, "rb") as f:
        rest = b""
        while piece := f.read(1 << 20):
            if text.encode() in rest + piece:
                return True
            rest = piece[-len(text):]
    return False


def test_memory_with_values_of_secrets_stays_in_its_session():
    name, value = "deep", "value-" + os.urandom(12).hex()
    server.want(201, "POST", "/v1/secrets", {"name": name, "value": value})
    ways = [{"name": name, "as": "file"}, {"name": name, "as": "env", "env": "DEEP"}]
    session, other = create(secrets=ways), create()
    reads = "cat /dev/shm/secrets/deep > /tmp/copy; wc -c < /tmp/copy"
    equal(out(session, reads).strip(), str(len(value)))
    server.refused(409, "secrets_in_memory", "POST", f"/v1/sessions/{session}/snapshots", {"name": "leak"}, "secrets")
    child = fork(session)[0]  # has the same secrets
    equal(out(child, reads).strip(), str(len(value)))
    until(lambda: out(other, "echo up") == "up\n", name="the other session")
    equal(server.run(other, "true", secrets=[{"name": name, "as": "env", "env": "DEEP"}])["exit_code"], 0)
    server.refused(409, "secrets_in_memory", "POST", f"/v1/sessions/{other}/fork", {"count": 1}, "secrets")
    plain = create()
    out(plain, "echo up")
    for one, expected in ((session, True), (plain, False)):
        pause(one)
        found = [x["id"] for x in layers("pause")]
        equal(len(found), 1)
        equal(image_has(found[0], value), expected, "the value in the image")
        server.delete(one)
        until(lambda: not layers("pause"), name="the end of the image")
    for template in layers("memory"):
        check(not image_has(template["id"], value), "in the image of the template")
    for one in (child, other):
        server.delete(one)
    server.want(204, "DELETE", f"/v1/secrets/{name}")


def test_a_source_goes_on_when_the_server_dies():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    for what, body in (("fork", {"count": 2}), ("pause", None)):
        asked = threading.Thread(target=lambda: harness.attempt(server.request, "POST", f"/v1/sessions/{session}/{what}", body))
        asked.start()
        time.sleep(0.05)  # so that the request is under way; any moment of it must do
        server.kill("cordond")
        asked.join(60)
        server.wait_ready(60)
        at = counts_on(session)
        check(at > 3, "it begins again")
        equal(server.execution(counting)["state"], "running")
    until(lambda: not [x for x in server.want(200, "GET", "/v1/sessions")["sessions"]
                       if x["id"] != session and x["state"] not in ("stopped", "running")], name="the end of what was begun")
    for one in server.want(200, "GET", "/v1/sessions")["sessions"]:
        if one["state"] == "running":
            server.delete(one["id"])
    until(lambda: not layers("pause") and not layers("fork"), name="nothing left on disk")


def boot_of(session):
    return out(session, "cat /proc/sys/kernel/random/boot_id")


def pause_files(session):
    server.want(200, "POST", f"/v1/sessions/{session}/pause", {"memory": False}, timeout=120)
    equal(server.rests(session)["state"], "stopped")
    until(lambda: not server.cell_pids(session), name="the end of its processes")


def test_a_pause_without_memory_keeps_the_files():
    session = create()
    counting = server.spawn(session, COUNTER)
    until(lambda: number(session) > 3, name="the counter")
    out(session, "mkdir -p d/e; echo kept > d/e/f; ln d/e/f g; ln -s d/e h; echo shm > /dev/shm/gone; rm -r /etc/mark; chmod 750 d", user="root", cwd="/home/user")
    boot = boot_of(session)
    pause_files(session)
    equal((len(layers("pause")), len(layers("fork"))), (1, 0), "its files are a layer")
    check(server.ended(counting)["state"] != "running", "the program goes on")
    look = "cat d/e/f g h/f; stat -c '%a %u %h' d g; ls /dev/shm /etc/mark 2>&1; true"
    text = out(session, look, user="root", cwd="/home/user")  # boots it
    equal(text.splitlines()[:5], ["kept"] * 3 + ["750 0 3", "644 0 2"], text)
    has(text, "/etc/mark: No such file")
    check("gone" not in text, f"/dev/shm is kept: {text}")
    check(boot_of(session) != boot, "the same boot id")
    equal(running(session), [], "no program goes on")
    out(session, "echo more > /tmp/more")
    pause_files(session)  # a second layer of its own
    server.restart()
    equal(out(session, "cat /tmp/more; cat /home/user/g"), "more\nkept\n")
    server.spawn(session, COUNTER)
    counts_on(session)
    child = fork(session)[0]  # has the layers of its source below its memory
    pause(session)
    counts_on(session)
    for one in (child, session):
        pause_files(one)
        equal(out(one, "cat /tmp/more; cat /home/user/g"), "more\nkept\n")
        server.delete(one)
    until(lambda: not layers("pause"), name="the end of the layers")


def test_memory_that_was_saved_can_be_dropped():
    """A session that is paused with its memory is paused without it: it is woken, its files are read, and its memory is gone."""
    session = create()
    server.spawn(session, COUNTER)
    out(session, "echo kept > /tmp/kept")
    until(lambda: number(session) > 3, name="the counter")
    pause(session)
    pause_files(session)
    equal(out(session, "cat /tmp/kept"), "kept\n")
    equal(running(session), [])
    server.want(201, "POST", f"/v1/sessions/{session}/snapshots", {"name": "cooled"}, timeout=120)
    child = server.create(template="cooled")["id"]
    out(child, "echo own > /tmp/own")
    pause_files(child)  # not the memory of its snapshot
    equal(out(child, "cat /tmp/kept /tmp/own"), "kept\nown\n")
    server.want(200, "POST", f"/v1/sessions/{child}/reset", timeout=120)
    equal(out(child, "cat /tmp/kept; cat /tmp/own 2>/dev/null; true"), "kept\n", "back to the snapshot")
    for one in (child, session):
        server.delete(one)
    server.want(204, "DELETE", "/v1/snapshots/cooled")
    until(lambda: not layers("pause") and not layers("snapshot"), name="the end of the layers")


def test_a_reset_drops_saved_memory():
    session = create()
    out(session, "echo mine > /tmp/own")
    pause(session)
    server.want(200, "POST", f"/v1/sessions/{session}/reset", timeout=120)
    equal(server.run(session, "cat /tmp/own")["exit_code"], 1, "its files are dropped")
    server.delete(session)
    until(lambda: not layers("pause"), name="the end of the image")


def test_files_are_read_while_programs_stand_still():
    session = create()
    for i in range(3):
        server.spawn(session, f"while true; do echo x >> /tmp/{i}a; echo x >> /tmp/{i}b; done")
    until(lambda: server.run(session, "cat /tmp/0b")["exit_code"] == 0, name="the first files")
    changed = server.want(200, "GET", f"/v1/sessions/{session}/diff", raw=True).decode()
    has(changed, "/tmp/0a", "the list of changes")
    pause_files(session)
    for i in range(3):
        a, b = out(session, f"wc -l < /tmp/{i}a; wc -l < /tmp/{i}b").split()
        check(int(b) <= int(a) <= int(b) + 1, f"files of different moments: {a} and {b} lines")
    server.delete(session)


def test_a_server_that_dies_while_files_are_read_leaves_them_whole():
    session = create()
    out(session, "i=0; while [ $i -lt 50 ]; do head -c 500000 /dev/zero > /tmp/f$i; i=$((i+1)); done")
    server.spawn(session, COUNTER)
    for _ in range(2):
        asked = threading.Thread(target=lambda: harness.attempt(server.request, "POST", f"/v1/sessions/{session}/pause", {"memory": False}))
        asked.start()
        wait_for(lambda: server.get(session)["state"] in ("pausing", "stopped"), name="the pause")
        server.kill("cordond")
        asked.join(60)
        server.wait_ready(60)
        wait_for(lambda: server.get(session)["state"] in ("running", "stopped"), seconds=60, name="the end of the pause")
        equal(out(session, "ls /tmp | grep -c ^f"), "50\n")
    server.delete(session)
    until(lambda: not layers("pause"), name="nothing left on disk")


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
