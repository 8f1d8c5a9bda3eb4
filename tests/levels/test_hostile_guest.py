#!/usr/bin/python3
"""Goal: a guest whose kernel is hostile ends itself at most: the server, other sessions, the template's memory and the machine's
memory are as before, and it is told why it ended.

    test_hostile_guest.py CORDON EVIL [name ...]

The guest's first process is EVIL (guest_evil.c), which is given to a server in the place of its guest kernel's modules: it boots
the true agent and attacks when a program of the session asks it to. Each attack has a session of its own, a clone of the same
guest; another session of that template must go on all the time."""
import hashlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("server", "shared"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import engine  # noqa: E402
import guest_kernel  # noqa: E402
import harness  # noqa: E402
from checks import check, equal, named_tests, run_tap, wait_for  # noqa: E402
from tree import make_tree  # noqa: E402

CORDON, EVIL = (os.path.abspath(path) for path in sys.argv[1:3])
LIMITS = {"memory": "128M"}
COUNTER = "i=0; while true; do i=$((i+1)); echo $i; sleep 0.2; done"
MIB = 1 << 20
QEMU_COMPLAINS = "qemu-system-x86_64: (Looped|Cannot map|Guest says|Guest moved|Desc next|virtio: bogus|Invalid size)"
BOUND = 40 * MIB  # that cordond may take more
server, before = None, {}


def evil_kernel(state):
    """The guest kernel of the build, with the hostile program as its first."""
    good, bad = guest_kernel.state(CORDON) / "guest", pathlib.Path(state) / "guest"
    bad.mkdir(parents=True)
    os.link(good / "vmlinux", bad / "vmlinux") if good.stat().st_dev == bad.stat().st_dev else shutil.copy(good / "vmlinux", bad)
    agent = pathlib.Path(CORDON).parent / "cordon-init"
    more = {"agent": (0o100755, agent.read_bytes()), "init": (0o100755, pathlib.Path(EVIL).read_bytes())}
    modules = (good / "modules").read_bytes() + engine.archive(more)
    (bad / "modules").write_bytes(modules)
    manifest = re.sub(r"^modules .*", f"modules {hashlib.sha256(modules).hexdigest()}", (good / "manifest").read_text(), flags=re.M)
    (bad / "manifest").write_text(manifest)


def start():
    folder = tempfile.mkdtemp(prefix="cordon-evil-", dir="/var/tmp")
    evil_kernel(os.path.join(folder, "state"))
    s = harness.Server(CORDON, folder=folder, pool_started_size=0)
    make_tree(os.path.join(s.state, "templates", "vm"), "a vm")
    s.want(201, "POST", "/v1/templates", {"name": "vm", "root": {"kind": "layers", "layers": ["vm"]}})
    return s


def create():
    return server.create(template="vm", level="microvm", limits=LIMITS, timeout="1h")["id"]


def images():
    """{path: hash} of the memory of templates."""
    kept = [x["id"] for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == "memory"]
    found = {}
    for layer in kept:
        for path in pathlib.Path(server.state).glob(f"storage/layers/{layer}/*"):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def lines(execution):
    return int(server.execution(execution)["stdout_bytes"])


def prepare():
    """The canary: a session that counts; and how all is before the first attack."""
    if before:
        return
    before["canary"] = create()
    before["counting"] = server.spawn(before["canary"], COUNTER)
    wait_for(lambda: len(images()) >= 2, name="files of a memory image")  # written while the first session runs
    before["images"] = images()
    before["pids"] = {name: server.pid(name) for name in ("cordond", "cordon-storage", "cordon-keeper", "cordon-egress")}
    before["rss"] = harness.rss(before["pids"]["cordond"])


def attack(name):
    """A session whose guest attacks."""
    prepare()
    session = create()
    server.spawn(session, ["/bin/sh", "-c", "sleep 1000; true", f"attack={name}"])
    return session


def guest_log(session):
    return "\n".join(line for line in server.log().splitlines() if session in line and "msg=guest" in line)


def ended(session, reasons, *words):
    """It has ended for one of these reasons, and the log has what the guest said."""
    now = server.reaches(session, "ended", 90)
    check(now["reason"] in reasons, f"ended as {now['reason']} ({now['detail']}): {guest_log(session)}")
    for word in words:
        check(re.search(word, guest_log(session)), f"no {word} in the log: {guest_log(session)}")


def all_is_well():
    """Outside nothing has changed: programs, the canary, the image, memory; and another clone works."""
    equal({name: server.pid(name) for name in before["pids"]}, before["pids"], "the server's programs")
    at = lines(before["counting"])
    wait_for(lambda: lines(before["counting"]) > at, 60, "the canary to go on", step=0.1)
    equal(images(), before["images"], "the template's memory")
    now = harness.rss(before["pids"]["cordond"])
    check(now < before["rss"] + BOUND, f"cordond has {now // MIB} MiB instead of {before['rss'] // MIB}")
    more = create()
    equal(server.run(more, "echo up")["stdout"], "up\n", "another clone")
    server.delete(more)


def broken(name, *words):
    session = attack(name)
    ended(session, {"crashed"}, *words)
    all_is_well()


def test_bytes_that_are_no_frames():
    broken("garbage", "cordon-shim:")


def test_streams_that_are_not_there():
    broken("credit", "cordon-shim:")


def test_frames_again():
    broken("replay", "replay of [1-9]", "cordon-shim:")


def test_rings_of_the_console():
    session = attack("console")
    ended(session, {"guest_panicked", "engine_exited", "crashed"}, QEMU_COMPLAINS)
    all_is_well()


def test_rings_of_the_disk():
    session = attack("disk")
    ended(session, {"guest_panicked", "engine_exited", "crashed"}, QEMU_COMPLAINS)
    all_is_well()


def test_ports_of_the_processor():
    session = attack("ports")
    ended(session, {"guest_panicked", "engine_exited"}, "ports begins")  # and at its end, if it comes to that, a reset
    all_is_well()


def test_memory_that_changes_while_it_is_saved():
    session = attack("scribble")
    time.sleep(1)  # so that it writes; it does so until the end
    before_it = lines(before["counting"])
    for _ in range(2):
        made = server.want(201, "POST", f"/v1/sessions/{session}/fork", {"count": 1}, timeout=150)["sessions"][0]["id"]
        server.ids.add(made)
        equal(server.run(made, "echo up")["stdout"], "up\n", "a child")
        server.delete(made)
    server.want(200, "POST", f"/v1/sessions/{session}/pause", timeout=150)
    equal(server.run(session, "echo up")["stdout"], "up\n", "it goes on after a pause")
    check(lines(before["counting"]) > before_it, "the canary stands still")
    server.delete(session)
    all_is_well()


def test_a_guest_that_does_not_read():
    """Requests to it end in time, and it can be deleted."""
    session = attack("stall")
    answers = []

    def ask(what, body=None):
        answers.append((what, *server.request("POST", f"/v1/sessions/{session}/{what}", body, timeout=120)[::2]))

    wait_for(lambda: server.get(session)["guest"] == "unresponsive", 60, "the guest to be told as unresponsive", step=0.5)
    asked = [threading.Thread(target=ask, args=one) for one in (("pause",), ("executions?wait=true", {"command": "echo up", "timeout": "5s"}))]
    for one in asked:
        one.start()
    all_is_well()
    for one in asked:
        one.join(150)
    equal(len(answers), 2, f"answers: {answers}")
    server.delete(session)
    server.reaches(session, "ended", 60)


if __name__ == "__main__":
    if os.getuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    harness.PROGRAM = CORDON
    server = start()
    status = 1
    try:
        status = run_tap(named_tests(globals(), sys.argv[3:]))
        if status:
            print("\n".join(line for line in server.log().splitlines() if "msg=request " not in line)[-6000:], file=sys.stderr)
        server.close()
    finally:
        server.destroy()
        shutil.rmtree(server.folder, ignore_errors=True)
    sys.exit(status)
