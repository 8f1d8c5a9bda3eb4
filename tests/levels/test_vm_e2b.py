#!/usr/bin/python3
"""Goal: E2B's routes at level microvm keep the memory of a sandbox, as those of the native interface do: pause and connect, pauses without
memory, pauses and resumes by themselves, snapshots and forks; and no value of a secret is in an image that it was not meant for.

    test_vm_e2b.py CORDON [name ...]"""
import os
import pathlib
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "conformance"))
sys.path.insert(0, os.path.join(HERE, "..", "server"))
sys.path.insert(0, os.path.join(HERE, "..", "shared"))
import guest_kernel  # noqa: E402
import harness  # noqa: E402
from contract import START, Sandbox, plain, refused  # noqa: E402
from harness import check, equal, run_tests, wait_for  # noqa: E402
from memory_image import files_have, layer_has, process_files_have  # noqa: E402
from tree import make_tree  # noqa: E402

COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/n; sleep 0.1; done"
LONG = 240  # seconds: of a request that starts a guest, on a loaded machine
LEVEL = {"cordon.level": "microvm"}


class Box(Sandbox):
    """A sandbox in a virtual machine. The template has no bash."""

    def __init__(self, server, template="vm", metadata=None, **spec):
        self.server, self.key = server, ""
        body = {"templateID": template, "timeout": 600, "metadata": {**LEVEL, **(metadata or {})}, **spec}
        self.adopt(server.want(201, "POST", "/v2/sandboxes", body, timeout=LONG))

    def adopt(self, made):
        self.made, self.id, self.token = made, made["sandboxID"], made["envdAccessToken"]
        self.server.ids.add(self.id)
        return self

    def sh(self, command):
        """Its output."""
        with self.stream("process.Process/Start", self.start_of(command)) as s:
            s.socket.settimeout(120)
            s.events()
            equal(s.end, {}, f"end of {command}")
            return s.data.decode()

    @staticmethod
    def start_of(command):
        return {**START(command), "process": {"cmd": "/bin/sh", "args": ["-c", command]}}

    def count(self):
        """Starts a program that counts, and gives its process id."""
        s = self.stream("process.Process/Start", self.start_of(COUNTER))
        s.socket.settimeout(120)
        pid = s.take()["event"]["start"]["pid"]
        s.close()
        wait_for(lambda: self.number() > 2, 60, "the counter", step=0.3)
        return pid

    def number(self):
        return int(self.sh("cat /tmp/n 2>/dev/null").strip() or 0)

    def counts_on(self):
        before = self.number()
        wait_for(lambda: self.number() > before, 60, "the counter goes on", step=0.3)
        return before

    def pids(self):
        return [p["pid"] for p in self.rpc("process.Process/List", {})["processes"]]

    def pause(self, **body):
        self.server.want(204, "POST", f"/sandboxes/{self.id}/pause", body, timeout=LONG)
        equal(self.state(), "paused")

    def connect(self, status=201, **body):
        return self.server.want(status, "POST", f"/v2/sandboxes/{self.id}/connect", {"timeout": 600, **body}, timeout=LONG)

    def paused_by_itself(self):
        wait_for(lambda: self.state() == "paused", 120, "the pause", step=0.3)
        wait_for(lambda: not self.server.cell_pids(self.id), 60, "the end of its processes")


def of(server, made):
    """A sandbox that a route has made."""
    box = Box.__new__(Box)
    box.server, box.key = server, ""
    return box.adopt(made)


def layers(server, kind):
    return [x["id"] for x in server.want(200, "GET", "/v1/layers")["layers"] if x["kind"] == kind]


def prepare(server):
    if "vm" not in {t["name"] for t in server.want(200, "GET", "/v1/templates")["templates"]}:
        make_tree(os.path.join(server.state, "templates", "vm"), "a vm")
        server.want(201, "POST", "/v1/templates", {"name": "vm", "root": {"kind": "layers", "layers": ["vm"]}})


def test_pause_and_connect_go_on_in_the_middle_of_a_program(server):
    prepare(server)
    box = Box(server)
    pid = box.count()
    box.pause()
    equal(server.cell_pids(box.id), [], "its memory is free")
    equal(len(layers(server, "pause")), 1, "its memory is a layer")
    refused(server, 409, "POST", f"/sandboxes/{box.id}/pause", {}, "already paused")
    box.connect()
    check(pid in box.pids(), "the program is another one")
    check(box.counts_on() > 2, "it begins again")
    wait_for(lambda: not layers(server, "pause"), 30, "the end of the image")
    # The same, without the memory.
    box.sh("echo kept > /tmp/kept; echo gone > /dev/shm/gone")
    boot = box.sh("cat /proc/sys/kernel/random/boot_id")
    box.pause(memory=False)
    box.connect()
    equal((box.sh("cat /tmp/kept; cat /dev/shm/gone 2>/dev/null"), box.pids()), ("kept\n", []), "files only")
    check(box.sh("cat /proc/sys/kernel/random/boot_id") != boot, "the same boot")
    # With its memory, and connected without.
    box.count()
    box.pause()
    box.connect(memory=False)
    equal((box.sh("cat /tmp/kept"), box.pids()), ("kept\n", []), "booted again")
    box.kill()


def test_a_sandbox_pauses_and_resumes_by_itself(server):
    prepare(server)
    box = Box(server, autoPause=True, autoResume={"enabled": True})
    pid = box.count()
    server.want(204, "POST", f"/sandboxes/{box.id}/timeout", {"timeout": 1})
    box.paused_by_itself()
    equal(len(layers(server, "pause")), 1, "with its memory")
    check(pid in box.pids(), "a request resumes it, and the program goes on")
    box.counts_on()
    box.kill()
    box = Box(server, autoPause=True, autoPauseMemory=False)
    box.count()
    box.sh("echo kept > /tmp/kept")
    server.want(204, "POST", f"/sandboxes/{box.id}/timeout", {"timeout": 1})
    box.paused_by_itself()
    equal(plain(server, "GET", "/health", box.headers())[0], 502, "traffic does not boot it")
    box.connect()
    equal((box.sh("cat /tmp/kept"), box.pids()), ("kept\n", []), "files only")
    box.kill()
    wait_for(lambda: not layers(server, "pause"), 30, "the end of the layers")


def test_sandboxes_of_a_snapshot_and_of_a_fork_go_on(server):
    prepare(server)
    box = Box(server, envVars={"OWN": "of-the-source"})
    pid = box.count()
    shot = server.want(201, "POST", f"/sandboxes/{box.id}/snapshots", {"name": "warm"}, timeout=LONG)["snapshotID"]
    child = Box(server, template=shot, envVars={"OWN": "of-the-child"})
    check(pid in child.pids(), "the program goes on in the child")
    child.counts_on()
    equal(child.sh("echo $OWN"), "of-the-child\n", "new programs have the child's environment")
    made = server.want(201, "POST", f"/v2/sandboxes/{box.id}/fork", {"count": 2}, timeout=LONG)
    forks = [of(server, m["sandbox"]) for m in made]
    for one in forks:
        check(pid in one.pids(), "the program goes on in the fork")
        one.counts_on()
    check(pid in box.pids(), "and in the source")
    ids = {one.sh("cat /dev/machine-id /proc/sys/kernel/random/boot_id; hostname 2>/dev/null") for one in (box, child, *forks)}
    equal(len(ids), 4, "each is another machine")
    cloned = server.want(200, "POST", f"/sandboxes/{box.id}/clone", {"count": 1}, timeout=LONG)
    forks.append(of(server, cloned["sandboxes"][0]))
    check(pid in forks[-1].pids(), "and in the clone")
    forks[0].pause()
    forks[0].connect()
    check(pid in forks[0].pids(), "a fork can be paused")
    child.sh("echo own > /tmp/own")
    server.want(200, "POST", f"/sandboxes/{child.id}/reset", {}, timeout=LONG)
    equal(child.sh("cat /tmp/own 2>/dev/null; echo $?"), "1\n", "a reset leads back to the snapshot")
    check(pid in child.pids(), "with its memory")
    for one in (box, child, *forks):
        one.kill()
    for name in ("warm", cloned["snapshotTemplateId"]):
        server.want(204, "DELETE", "/templates/" + name.replace("/", "%2F").replace(":", "%3A"))


def secret(server, name):
    value = f"value-{name}-" + os.urandom(12).hex()
    server.want(201, "POST", "/v1/secrets", {"name": name, "value": value, "hosts": ["api.example.org"]})
    return value


def test_no_image_has_a_value_that_it_was_not_meant_for(server):
    """Every way by which a value comes near a sandbox, and every image: which has it, and which is refused."""
    prepare(server)
    wait_for(lambda: not layers(server, "snapshot") + layers(server, "pause"), 60, "the end of the layers of other tests")
    values = {name: secret(server, name) for name in ("asenv", "asfile", "asbroker", "asexecution", "bye2b")}
    environment = "own-" + os.urandom(12).hex()
    box = Box(server, envVars={"OWN": environment}, network={"rules": {"api.example.org": [{"transform": {"headers": {"X-Key": "${e2b.secrets.bye2b}"}}}]}})
    native = server.create(template="vm", level="microvm", limits={"memory": "256M"}, network={"version": 1, "rules": [{"host": "api.example.org"}]},
                           secrets=[{"name": "asbroker", "as": "broker", "env": "BROKER"}], timeout="10m")["id"]
    placeholder = server.run(native, "echo $BROKER; sleep 1000 > /dev/null 2>&1 &")["stdout"].strip()
    check(placeholder.startswith("cordon_"), placeholder)
    box.sh("sleep 1000 > /dev/null 2>&1 &")  # a program with the environment of the sandbox
    server.want(201, "POST", f"/sandboxes/{box.id}/snapshots", {"name": "own"}, timeout=LONG)
    server.want(201, "POST", f"/v1/sessions/{native}/snapshots", {"name": "brokered"}, timeout=LONG)
    children = [of(server, server.want(201, "POST", f"/v2/sandboxes/{box.id}/fork", {}, timeout=LONG)[0]["sandbox"])]
    forked = server.want(201, "POST", f"/v1/sessions/{native}/fork", {"count": 1}, timeout=LONG)["sessions"][0]["id"]
    server.ids.add(forked)
    equal(server.run(forked, "echo $BROKER")["stdout"].strip(), placeholder, "a fork keeps placeholders, which are no values")
    box.pause()
    images = layers(server, "snapshot") + layers(server, "pause")
    equal(len(images), 3, "two snapshots and a pause")
    for name, value in values.items():
        check(not any(layer_has(server, image, value) for image in images), f"the value of {name} is in an image on disk")
        check(not any(process_files_have(pid, value) for pid in server.pids("cordond")), f"the value of {name} is in an image in memory")
    check(any(layer_has(server, image, environment) for image in images), "the search does not find what is there")
    # Values that the guest has: no image for others, and its own pause only.
    ways = [{"name": "asenv", "as": "env", "env": "ASENV"}, {"name": "asfile", "as": "file"}]
    holder = server.create(template="vm", level="microvm", limits={"memory": "256M"}, secrets=ways)["id"]
    executed = server.create(template="vm", level="microvm", limits={"memory": "256M"})["id"]
    server.spawn(holder, "cat /dev/shm/secrets/asfile > /tmp/copy; sleep 1000")
    equal(server.run(executed, "true", secrets=[{"name": "asexecution", "as": "env", "env": "ONE"}])["exit_code"], 0)
    for one in (holder, executed):
        for path, body in ((f"/v1/sessions/{one}/snapshots", {}), (f"/sandboxes/{one}/snapshots", {}), (f"/sandboxes/{one}/clone", {})):
            status, _, answer = server.request("POST", path, body, timeout=LONG)
            equal(status, 409, f"{path}: {answer}")
            check("secret" in str(answer), answer)
    for path in (f"/v1/sessions/{executed}/fork", f"/sandboxes/{executed}/fork"):
        equal(server.request("POST", path, {}, timeout=LONG)[0], 409, f"{path}: an execution's secret is not the fork's")
    server.want(200, "POST", f"/v1/sessions/{holder}/pause", timeout=LONG)
    (image,) = set(layers(server, "pause")) - set(images)
    check(layer_has(server, image, values["asfile"]), "the search does not find what is there")
    root = next(pathlib.Path(server.folder).glob(f"**/layers/{image}"))
    equal((os.stat(root).st_mode & 0o077, os.stat(root / "ram").st_mode & 0o077), (0, 0), "modes of the image")
    # Revoked while it sleeps: what it goes on with is not delivered any more.
    server.want(204, "DELETE", "/v1/secrets/asfile")
    server.want(204, "DELETE", "/v1/secrets/asenv")
    equal(server.run(holder, "ls /dev/shm/secrets/asfile 2>&1; echo \"[$ASENV]\"")["stdout"].splitlines()[-1], "[]", "the variable is gone")
    equal(server.run(holder, "test -e /dev/shm/secrets/asfile")["exit_code"], 1, "the file is gone")
    # Without memory nothing of it is kept but what a program has written.
    secret(server, "later")
    older = set(layers(server, "pause"))
    server.want(200, "POST", f"/v1/sessions/{executed}/pause", {"memory": False}, timeout=LONG)
    (image,) = set(layers(server, "pause")) - older
    check(not files_have(server, image, values["asexecution"]), "a value in the files of a pause")
    for one in (native, forked, holder, executed, box.id, *(c.id for c in children)):
        server.delete(one)
    for name in ("own", "brokered"):
        server.want(204, "DELETE", f"/v1/snapshots/{name}")


if __name__ == "__main__":
    os.environ.pop("CORDON_TEST_LEVEL", None)

    class WithKernel(harness.Server):
        def __init__(self, *args, **more):
            folder = more.pop("folder", None) or harness.tempfile.mkdtemp(prefix="cordon-vm-", dir="/var/tmp")
            os.mkdir(os.path.join(folder, "state"))
            guest_kernel.give(harness.ORIGINAL, pathlib.Path(folder) / "state")
            super().__init__(*args, folder=folder, **more)
            self.own_folder = True

    harness.Server = WithKernel
    run_tests(globals(), pool_size=0, pool_started_size=0, memory_default="256M")
