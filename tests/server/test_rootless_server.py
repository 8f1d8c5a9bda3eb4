#!/usr/bin/python3 -B
"""Goal: the whole server works for an ordinary user, with one id and with a range of subordinate ids: what it
can do it does as for root, and what it cannot it refuses and says why.

    test_rootless_server.py CORDON [name ...]
"""
import contextlib
import os
import signal
import stat
import subprocess
import tempfile

import harness
import tap
import test_rootless as plain
from harness import Server, check, comm, equal, has, run_tests, wait_for
from images import Image, archive, member, symlink
from tree import BUSYBOX, make_tree

tap.BASE.setdefault("mounts", set())
MIB = 1 << 20
MOUNT = ["python3", "-c", "import ctypes; ctypes.CDLL(None, use_errno=True).mount(b'a', b'/', b'tmpfs', 0, None); print(ctypes.get_errno())"]
MODES = {"one_id": "single", "a_range": "mapped"}


class UserServer(Server):
    """Started by the user, in his home."""

    def __init__(self, who, bare=False, **settings):
        self.who, self.bare = who, bare
        os.makedirs(os.path.join(who.home, "server"), exist_ok=True)
        super().__init__(folder=os.path.join(who.home, "server"), uid=plain.UID, **{"best_effort": "yes", **settings})

    def start(self, ready=True):
        args = [self.program, "serve"]
        if self.bare:
            self.state = os.path.join(self.who.home, ".local/state/cordon")
            self.run_dir = os.path.join(self.state, "run")
        else:
            args += ["--state", self.state, "--run", self.run_dir]
        args += [f"--{name.replace('_', '-')}={value}" for name, value in self.settings.items()]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.who.more
            )
        if ready:
            self.wait_ready()

    def his_processes(self):
        """In our pid namespace all of the user's are ours."""
        found = []
        for pid in tap.processes():
            with contextlib.suppress(OSError):
                if ids_of(pid) & allowed(self.who):
                    found.append(pid)
        return found

    def left_now(self):
        left = [line for line in super().left_now() if f" / {self.folder} " not in line]  # a test's own disk
        return left + [f"process {pid} ({comm(pid)})" for pid in self.his_processes()]

    def destroy(self):
        super().destroy()
        for pid in self.his_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ids_of(pid):
    with open(f"/proc/{pid}/status") as f:
        line = next(line for line in f if line.startswith("Uid:"))
    return set(map(int, line.split()[1:]))


def allowed(who):
    return {plain.UID} | (set(range(plain.FIRST, plain.FIRST + 65536)) if who.mapped else set())


def descendants(pid, name=None):
    """All below a process; cells of a server stay its own while it lives."""
    found, all_of_them = [pid], tap.processes()
    for at in found:
        found += [p for p, (parent, _) in all_of_them.items() if parent == at]
    return [p for p in found if name is None or comm(p) == name]


def both(test):
    """One test of each mode out of a function that takes a Who."""

    def make(name, mode):
        def function():
            plain.possible(mode)
            with plain.account(mode) as who:
                test(who)

        globals()[f"test_{test.__name__}_with_{name}"] = function

    for name, mode in MODES.items():
        make(name, mode)
    return test


@both
def make_up_and_down(who):
    """His home has no folder for state yet. make down finds the server, and with PURGE nothing of it is left."""
    build, tools = os.path.dirname(os.path.abspath(harness.PROGRAM)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
    listen = f"127.0.0.1:{harness.free_port()}"
    more = {**who.more, "env": {**who.more.get("env", os.environ), "DETACH": "1", "PURGE": "1"}}

    def run(*words):
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **more)

    def his():
        found = []
        for pid in tap.processes():
            with contextlib.suppress(OSError):
                if ids_of(pid) & allowed(who):
                    found.append(pid)
        return found

    before, words = set(his()), (build, f"--listen={listen}", "--best-effort", "--pool-size=0")
    try:
        up = run(f"{tools}/up", *words)
        equal(up.returncode, 0, up.stdout + up.stderr)
        has(up.stdout, "Cordon is up.")
        state = os.path.join(who.home, ".local/state/cordon")
        made = run(harness.PROGRAM, "create", "--server", f"http://{listen}", "--key-file", f"{state}/first.key")
        equal(made.returncode, 0, made.stderr)
        down = run(f"{tools}/down", *words)
        equal((down.returncode, down.stderr), (0, ""), down.stdout)
        has(down.stdout, "the server has ended")
        equal(os.listdir(os.path.dirname(state)), [], "files")
        wait_for(lambda: not set(his()) - before, 20, f"the end of {[comm(p) for p in set(his()) - before]}")
    finally:
        for pid in set(his()) - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@both
def a_session(who):
    with UserServer(who, pool_size=2) as server:
        node = server.want(200, "GET", "/v1/node")
        equal(node["rootless"], True, "rootless")
        wait_for(lambda: "storage ready" in server.log(), 10, "cordon-storage")
        session = server.create(metadata={"a": "b"}, env={"A": "b"})
        equal(session["state"], "running", "state")
        s = session["id"]
        done = server.run(s, "id -u; id -un; pwd; hostname; echo $A; echo err >&2; exit 3")
        equal(done["stdout"], f"1000\nuser\n/home/user\n{s}\nb\n", "stdout")
        equal((done["stderr"], done["exit_code"]), ("err\n", 3), "stderr and exit code")
        done = server.run(s, "id -u; touch /etc/x && echo wrote", user="root")
        if who.mapped:
            equal(done["stdout"], "0\nwrote\n", "as root")
        else:  # there is one id, and it is the other user's
            equal((done["state"], done["exit_code"]), ("failed", 126), "as root")
            has(done["error"]["message"], "root", "why not")
        equal(server.run(s, "cat", stdin="typed")["stdout"], "typed", "stdin")
        data = os.urandom(300000)
        server.want(201, "PUT", f"/v1/sessions/{s}/files?path=dir/f&mode=0640", data)
        equal(server.want(200, "GET", f"/v1/sessions/{s}/files?path=dir/f"), data, "the file")
        entry = server.want(200, "GET", f"/v1/sessions/{s}/files/stat?path=dir/f")
        equal((entry["mode"], entry["size"], entry["owner"]), ("0640", 300000, "user"), "entry")
        changes = server.want(200, "GET", f"/v1/sessions/{s}/diff")["changes"]
        check(any(c["path"].endswith("/dir/f") and c["kind"] == "added" for c in changes), f"diff: {changes[:20]}")
        sleeper = server.spawn(s, "setsid sleep 1000 & sleep 1000")
        wait_for(lambda: server.execution(sleeper)["state"] == "running", 15, "a running execution")
        server.want(204, "DELETE", f"/v1/sessions/{s}/executions/{sleeper['id']}")
        names = [p["command"] for p in server.want(200, "GET", f"/v1/sessions/{s}/processes")["processes"]]
        check(not any("sleep" in n for n in names), f"left of a killed tree: {names}")
        equal(server.run(s, "sleep 60", timeout="200ms")["limit"], "timeout", "limit")
        server.delete(s)
        server.delete(s)
        equal(server.get(s)["reason"], "deleted", "reason")


@both
def an_imported_template(who):
    """Its directory must be the user's, whom the keeper sees as root."""
    with UserServer(who, pool_size=0) as server:
        where = os.path.join(server.state, "templates")
        equal((os.stat(where).st_uid, stat.S_IMODE(os.stat(where).st_mode)), (plain.UID, 0o700), "template_dir")
        for name in ("his", "roots"):
            make_tree(os.path.join(where, name), name)
        subprocess.run(["chown", "-R", f"{plain.UID}:{plain.UID}", os.path.join(where, "his")], check=True)
        server.want(201, "POST", "/v1/templates", {"name": "his", "root": {"layers": ["his"]}})
        s = server.create(template="his")["id"]
        equal(server.run(s, "cat /etc/mark; id -u; touch /tmp/x && echo wrote")["stdout"], "his1000\nwrote\n", "stdout")
        error = server.want(403, "POST", "/v1/templates", {"name": "roots", "root": {"layers": ["roots"]}})["error"]
        has(error["message"], "no other user", "another user's")


@both
def an_imported_image(who):
    with open(BUSYBOX, "rb") as f:
        program = f.read()
    data = archive(member("bin/busybox", program, mode=0o755), symlink("bin/sh", "busybox"), member("d/a", b"1", uid=7, gid=8))
    with UserServer(who) as server:
        status, _, body = server.request("POST", "/v1/templates?name=img", Image([data, archive(member("d/.wh.a"), member("d/b", b"2"))]).layout_tar(),
                                         headers={"Content-Type": "application/x-tar"})
        equal(status, 201, body)
        s = server.create(template="img")["id"]
        done = server.run(s, "/bin/busybox ls /d; /bin/busybox id -u; /bin/busybox touch x && echo wrote", user="user")
        equal(done["stdout"], "b\n1000\nwrote\n", done["stderr"])


@both
def volumes_are_directories(who):
    """There is no loop device for a user: the size is not enforced, and the server says so."""
    with UserServer(who, pool_size=0) as server:
        made = server.want(201, "POST", "/v1/volumes", {"name": "v"})
        equal((made["kind"], made["size_enforced"]), ("directory", False), "kind")
        a, b = (server.create(volumes=[{"name": "v", "path": "/v"}])["id"] for _ in "ab")
        equal(server.run(a, "echo one > /v/f && cat /v/f")["stdout"], "one\n", "a")
        equal(server.run(b, "cat /v/f; stat -c %u /v/f")["stdout"], "one\n1000\n", "b")
        token = server.want(200, "GET", "/volumes/v")["token"]
        status, _, body = server.request("PUT", f"/volumecontent/{made['id']}/file?path=/c", b"content", key=None,
                                         headers={"Authorization": "Bearer " + token})
        equal((status, body["uid"]), (201, 1000), "written")
        equal(server.run(b, "cat /v/c; stat -c %u /v/c")["stdout"], "content1000\n", "its owner in the cell")
        for s in (a, b):
            server.delete(s)


@contextlib.contextmanager
def small_disk(who, mib):
    """His server's folder is a file system of its own."""
    folder = os.path.join(who.home, "server")
    os.mkdir(folder)
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as image:
        image.truncate(mib * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image.name], check=True)
        subprocess.run(["mount", "-o", "loop", image.name, folder], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@both
def volumes_that_grow_into_the_reserve(who):
    """Without an image they are measured by a walk. The session that writes is paused, or is ended where nothing can be frozen; another
    tenant's writes on."""
    with small_disk(who, 400) as folder, UserServer(who, pool_size=0, storage_reserve=25) as server:
        with open(folder + "/fill", "wb") as f:
            found = os.statvfs(folder)
            os.posix_fallocate(f.fileno(), 0, found.f_bavail * found.f_frsize - found.f_blocks * found.f_frsize // 4 - 20 * MIB)
        keys = [server.tenant(f"room{i}")[1] for i in range(2)]
        for key in keys:
            server.want(201, "POST", "/v1/volumes", {"name": "v", "size": "8M"}, key=key)
        greedy, other = (server.create(key=key, volumes=[{"name": "v", "path": "/v"}])["id"] for key in keys)
        server.spawn(greedy, "i=0; while [ $i -lt 90 ]; do head -c 1M /dev/urandom > /v/$i || exit 1; i=$((i+1)); sleep 0.2; done", key=keys[0])
        state = wait_for(lambda: (s := server.get(greedy, key=keys[0]))["state"] in ("paused", "ended") and s, 60, "its pause or its end")
        found = os.statvfs(folder)
        check(found.f_bavail * found.f_frsize > 50 * MIB, f"room: {found.f_bavail * found.f_frsize >> 20} MiB")
        equal(server.run(other, "head -c 1M /dev/urandom >/v/a; wc -c </v/a", key=keys[1])["stdout"], f"{MIB}\n")
        if state["state"] == "ended":
            equal(state["reason"], "storage_full")
        else:
            server.refused(507, "storage_full", "POST", f"/v1/sessions/{greedy}/resume", None, "storage_reserve", key=keys[0])
        events = server.want(200, "GET", f"/v1/sessions/{greedy}/events", key=keys[0])["events"]
        check("session.storage_full" in [e["type"] for e in events], f"{events}")
        server.delete(greedy, key=keys[0])
        wait_for(lambda: server.request("DELETE", "/v1/volumes/v", key=keys[0])[0] in (204, 404), 20, "the removal of the volume")
        again = wait_for(lambda: server.request("POST", "/v1/volumes", {"name": "w", "size": "8M"}, key=keys[1])[0] == 201, 20, "room again")
        check(again, "room")
        server.delete(other, key=keys[1])


@both
def what_cannot_be_limited_is_refused(who):
    with UserServer(who, pool_size=0) as server:
        session = server.create()
        can = {name for name in ("memory_bytes", "cpu_millis", "pids") if session["limits"][name]}
        for name, member in (("memory", "memory_bytes"), ("cpus", "cpu_millis"), ("pids", "pids")):
            wish = {"memory": "100M", "cpus": 1, "pids": 50}[name]
            if member in can:
                continue  # this machine delegates it
            server.refused(422, "unsupported", "POST", "/v1/sessions", {"limits": {name: wish}}, name)
        if not can:
            error = server.refused(422, "unsupported", "POST", "/v1/sessions", {"limits": {"memory": "100M"}})
            has(error["message"].lower(), "cgroup", "why not")
        status, _, body = server.request("POST", f"/v1/sessions/{session['id']}/pause")
        if status != 200:
            equal((status, body["error"]["code"]), (422, "unsupported"), "pause")
            server.refused(422, "unsupported", "POST", "/v1/sessions", {"on_timeout": "pause"})
        # what needs no cgroup holds for everybody
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"storage": "disk"}, "only root may use")
        small = server.create(limits={"disk": "1M", "nofile": 64})["id"]
        equal(server.run(small, "head -c 3M /dev/zero > f")["limit"], "disk", "limit")
        equal(server.run(small, "ulimit -n")["stdout"], "64\n", "nofile")


@both
def sessions_outlive_everything(who):
    with UserServer(who, pool_size=1) as server:
        s = server.create()["id"]
        server.run(s, "echo kept > kept")
        equal(server.run(s, MOUNT)["stdout"], "1\n", "EPERM")
        ticks = server.spawn(s, "i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); sleep 0.02; done")
        wait_for(lambda: server.execution(ticks)["stdout_bytes"] > 0, 10, "the first output")
        server.restart()
        equal(server.get(s)["state"], "running", "after a restart")
        server.restarted("cordond")
        equal(server.run(s, "cat kept")["stdout"], "kept\n", "after the death of cordond")
        old = server.kill("keeper", signal.SIGKILL)
        wait_for(lambda: server.pid("keeper") not in (None, old), 10, "another keeper")
        server.wait_ready()
        other = server.create()["id"]
        equal(server.run(other, "echo hi")["stdout"], "hi\n", "a session of the next keeper")
        equal(server.run(s, "cat kept")["stdout"], "kept\n", "after the death of the keeper")
        done = server.ended(ticks)
        equal(done["exit_code"], 0, "the execution that was running all the time")
        out = server.want(200, "GET", f"/v1/sessions/{s}/executions/{ticks['id']}/output?stream=stdout")
        equal(out.decode().split(), [str(i) for i in range(300)], "its output")
        server.process.kill()  # the supervisor, and with it the others; not the cells
        server.process.wait()
        wait_for(lambda: not {comm(p) for p in server.his_processes()} & {"cordond", "cordon-keeper"}, 10, "their end")
        server.start()
        for session in (s, other):
            equal(server.get(session)["state"], "running", "after the death of all")
            equal(server.run(session, "echo hi")["stdout"], "hi\n", "and it works")
            equal(server.run(session, MOUNT)["stdout"], "1\n", "EPERM")
            equal(server.get(session)["refused_calls"], {"mount": 2 if session == s else 1}, "its watcher outlives everything, too")
            server.delete(session)
        wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 10, "the end of all")


@both
def programs_are_traced(who):
    with UserServer(who, pool_size=0) as server:
        s = server.create(trace="programs")["id"]
        equal(server.run(s, "cd /tmp; /bin/echo hi; /bin/false")["exit_code"], 1)
        got = server.want(200, "GET", f"/v1/sessions/{s}/trace")["entries"]
        told = [(e["source"], e["argv"], e["cwd"], e["uid"]) for e in got if e["kind"] == "exec"]
        check(("exact", ["/bin/echo", "hi"], "/tmp", 1000) in told, str(told))
        check([e for e in got if e["kind"] == "exit" and e["exit_code"] == 1], str(got))


@both
def files_are_watched(who):
    with UserServer(who, pool_size=0) as server:
        s = server.create(watch_reads=["/tmp/private/**"])["id"]
        line = "mkdir -m 700 /tmp/private; echo a > /tmp/private/one; ln -s private /tmp/soft; exec cat /tmp/soft/one"
        equal(server.run(s, line)["stdout"], "a\n")

        def found():
            page = server.want(200, "GET", f"/v1/audit?session={s}&type=file.watched")["records"]
            return [(r["record"]["data"]["access"], r["side"]["path"]["value"]) for r in page if r.get("side")]
        wait_for(lambda: {("write", "/tmp/private/one"), ("read", "/tmp/private/one")} <= set(found()), 20, f"records in {found()}")


@both
def nobody_is_more_than_the_user(who):
    with UserServer(who, pool_size=1) as server:
        s = server.create()["id"]
        for user in ("user", "root") if who.mapped else ("user",):
            server.spawn(s, "sleep 1000", user=user)
        wait_for(lambda: len(descendants(server.process.pid, "sleep")) == (2 if who.mapped else 1), 15, "programs")
        for pid in descendants(server.process.pid):
            check(ids_of(pid) <= allowed(who), f"{comm(pid)} is {ids_of(pid)}")
        with open(f"/proc/{server.pid('cordond')}/status") as f:
            now = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        equal((now["NoNewPrivs"], now["Seccomp"], int(now["CapEff"], 16)), ("1", "2", 0), "cordond")
        st = os.stat(os.path.join(server.state, "first.key"))
        equal((stat.S_IMODE(st.st_mode), st.st_uid), (0o600, plain.UID), "first.key")


def test_without_any_setting_it_is_in_his_home():
    plain.possible("single")
    with plain.account("single") as who:
        with UserServer(who, bare=True, pool_size=0) as server:
            server.run(server.create()["id"], "true")
            check(os.path.exists(os.path.join(who.home, ".local/state/cordon/first.key")), "state in his home")
            wait_for(lambda: server.request("GET", "/v1/audit/checkpoint?fresh=true")[0] == 200, 20, "a checkpoint of the audit log")
            check(os.path.exists(os.path.join(who.home, ".local/state/cordon/notary/keys")), "its keys in his home")
            check("could move the folder" not in server.log(), "a warning, where all is one user's")
            done = subprocess.run(
                [server.program, "ls", "--json"],
                env={**who.more["env"], "CORDON_SERVER": server.url},
                **{k: v for k, v in who.more.items() if k != "env"},
                capture_output=True,
                timeout=20,
            )
            equal(done.returncode, 0, f"cordon ls finds his key: {done.stderr.decode()}")


KILLS = True

if __name__ == "__main__":
    assert harness.Server is Server
    run_tests(globals(), pool_size=0)
