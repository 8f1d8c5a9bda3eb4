"""harness.py - a whole server for a test: started in a folder of its own, asked over HTTP, and at its
end searched for anything that it left behind.

    with Server(program, pool_size=4) as server:
        session = server.create(metadata={"a": "b"})
        done = server.run(session["id"], "echo hi")
        status, headers, body = server.request("GET", "/v1/node")

Every setting of doc/configuration.md is a keyword. Leaving the block deletes all sessions, stops the
server, and fails if a process, a cgroup, a mount or a socket of one of its cells is still there. A report of a
sanitizer in a server's log fails the test that ran, however the server ended.

A test program is a file of functions test_*(server); `run_tests(globals(), pool_size=4)` runs them in
order against one server. Needs root.
"""
import argparse
import atexit
import http.client
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import level  # noqa: E402
import sanitizer  # noqa: E402
from cells import cgroups_of, children, comm, free_port, processes_of, rss  # noqa: E402,F401
from checks import Failed, Skip, check, equal, has, note, short, stays, wait_for, wait_read  # noqa: E402,F401
from tap import isolate  # noqa: E402

PROGRAM = ""  # the cordon under test, set by run_tests()
ORIGINAL = ""  # where it was built: what tests download is kept beside it
PROGRAMS = ("cordon", "cordon-keeper", "cordon-init", "cordon-shim", "cordond", "cordon-client", "cordon-egress", "cordon-storage",
            "cordon-pull", "cordon-cache", "cordon-notary", "cordon-interpreter", "mcp-gateway")
USER = 64983  # cordond's; nobody needs to know it
LEFT_WAIT = 10.0
REPORTS = []  # of sanitizers, from the logs of all servers of this program


def checks(pid):
    """It is a cordond that only looks at settings for the supervisor, which then starts the one."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return b"--check-network" in f.read()
    except OSError:
        return True


class Server:
    """A server. program: its cordon; folder: where its files are (a new one, removed at the end, if
    not given); uid: the ordinary user that starts it (root if not given); settings: as in the file."""

    def __init__(self, program=None, folder=None, uid=None, **settings):
        self.program = os.path.abspath(program or PROGRAM)
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="cordon-server-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)
        if uid is not None:
            os.chown(self.folder, uid, uid)
        self.uid, self.settings = uid, dict(settings)
        if uid is None:
            self.settings.setdefault("user", USER)
        self.settings.setdefault("egress_processes", 1)  # for tests that kill it; others ask for more
        self.settings.setdefault("memory_default", "512M")  # the same on every machine
        self.settings.setdefault("disk_default", "256M")
        self.settings.setdefault("listen", f"127.0.0.1:{free_port()}")
        self.state, self.run_dir = os.path.join(self.folder, "state"), os.path.join(self.folder, "run")
        if uid is None:
            self.settings.update(level.settings(ORIGINAL or self.program, self.state))
        self.process, self.ids, self.key = None, set(), ""
        self.searched = 0  # bytes of the log in which reports were looked for
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise

    # -- the processes

    def start(self, ready=True):
        args = [self.program, "serve", "--state", self.state, "--run", self.run_dir]
        args += [f"--{name.replace('_', '-')}={value}" for name, value in self.settings.items()]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.uid)
        if ready:
            self.wait_ready()
            if self.uid is None:
                level.prepare(ORIGINAL or self.program, self)

    def wait_ready(self, seconds=15):
        def ask():
            if self.process.poll() is not None:
                raise Failed(f"the server ended with {self.process.returncode}: {self.log()[-2000:]}")
            try:
                return self.request("GET", "/readyz", key=None)[0] == 200
            except (OSError, http.client.HTTPException):
                return False

        try:
            wait_for(ask, seconds, "readyz")
        except Failed as e:
            raise Failed(f"{e}: {self.log()[-3000:]}") from None
        if not self.key:
            with open(os.path.join(self.state, "first.key")) as f:
                self.key = f.read().strip()

    def pid(self, name):
        """Of "supervisor", "cordond" or a "cordon-keeper" ("keeper"); None if there is none now."""
        return next(iter(self.pids(name)), None)

    def pids(self, name):
        """Of all that run now: there are several keepers."""
        if name == "supervisor":
            return [self.process.pid]
        name = "cordon-keeper" if name == "keeper" else name
        return [p for p in children(self.process.pid) if comm(p) == name and not checks(p)]

    def kill(self, name, number=signal.SIGKILL):
        """Sends a signal to one of them, and gives the pid that it had."""
        def one():
            pid = self.pid(name)
            try:
                return pid and (os.kill(pid, number), pid)[1]
            except ProcessLookupError:  # it has ended by itself since
                return None

        return wait_for(one, 10, name)

    def restarted(self, name):
        """Kills one of them, and returns when another has its place and the server is ready."""
        old = self.kill(name)
        wait_for(lambda: self.pid(name) not in (None, old), 15, f"another {name}")
        self.wait_ready()

    def stop(self):
        """As an operator does; sessions go on."""
        self.note_cells()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"the server does not stop: {self.log()[-2000:]}") from None

    def restart(self):
        self.stop()
        self.start()

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()

    def reports(self):
        """Reports of sanitizers since the last call, which are kept in REPORTS, too."""
        try:
            text = self.log()
        except FileNotFoundError:
            return []
        found, self.searched = sanitizer.reports(text[self.searched :]), len(text)
        REPORTS.extend(found)
        return found

    # -- requests

    @property
    def address(self):
        host, port = self.settings["listen"].rsplit(":", 1)
        return host, int(port)

    @property
    def url(self):
        return "http://" + self.settings["listen"]

    def link(self, timeout=60):
        """A connection to it; for those that are not plain TCP to replace."""
        return http.client.HTTPConnection(*self.address, timeout=timeout * level.PATIENCE)

    def request(self, method, path, body=None, headers=None, raw=False, key="", timeout=60):
        """(status, headers by lower-case name, body). A body that is not bytes is sent as JSON, and a
        JSON answer is parsed unless raw. key: another than the server's first; None: no key at all."""
        sent = dict(headers or {})
        if self.uid is None:
            body = level.with_level(method, path, body)
        if key is not None and not any(n.lower() in ("authorization", "x-api-key") for n in sent):
            sent["X-API-Key"] = key or self.key
        if body is not None and not isinstance(body, (bytes, bytearray)) and not hasattr(body, "read"):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        link = self.link(timeout)
        try:
            try:
                link.request(method, path, body, sent)
            except (BrokenPipeError, ConnectionResetError):
                if link.sock is None:
                    raise
                # else it has answered before it had all
            answer = link.getresponse()
            data = answer.read()
        finally:
            link.close()
        got = {name.lower(): value for name, value in answer.getheaders()}
        if not raw and got.get("content-type", "").startswith("application/json"):
            data = json.loads(data) if data else None
        return answer.status, got, data

    def want(self, status, method, path, body=None, **more):
        """The body of an answer that must have this status."""
        got, _, data = self.request(method, path, body, **more)
        if got != status:
            raise Failed(f"{method} {path} {short(body)}: {got}, want {status}: {short(data)}")
        return data

    def refused(self, status, code, method, path, body=None, *parts, **more):
        """The error of an answer that must have this status and code, and these words in its message."""
        data = self.want(status, method, path, body, **more)
        check(isinstance(data, dict) and list(data) == ["error"], f"no error: {short(data)}")
        error = data["error"]
        equal(sorted(error), ["code", "fault", "message", "request_id", "session_id"], "members of error")
        equal(error["code"], code, f"code of {method} {path} {short(body)} ({error['message']})")
        check(error["fault"] in ("user", "platform"), f"fault {error['fault']!r}")
        for part in parts:
            has(error["message"], part, f"message of {method} {path}")
        return error

    def create(self, key="", **spec):
        session = self.want(201, "POST", "/v1/sessions", spec, key=key)
        self.ids.add(session["id"])
        return session

    def get(self, session_id, key=""):
        return self.want(200, "GET", f"/v1/sessions/{session_id}", key=key)

    def delete(self, session_id, key=""):
        self.want(204, "DELETE", f"/v1/sessions/{session_id}", key=key)

    def run(self, session_id, command, key="", **spec):
        """Runs a shell line (or an argv) to its end: the execution, with stdout and stderr."""
        spec["command" if isinstance(command, str) else "argv"] = command
        return self.want(200, "POST", f"/v1/sessions/{session_id}/executions?wait=true", spec, key=key)

    def spawn(self, session_id, command, key="", **spec):
        """Starts one: the execution."""
        spec["command" if isinstance(command, str) else "argv"] = command
        return self.want(202, "POST", f"/v1/sessions/{session_id}/executions", spec, key=key)

    def execution(self, x):
        """How it is now."""
        return self.want(200, "GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}")

    def ended(self, x, seconds=20):
        """How it is when it has ended."""
        return wait_for(lambda: (now := self.execution(x))["ended_at"] and now, seconds, f"end of {x['id']}")

    def reaches(self, session_id, state, seconds=15, key=""):
        """The session when it is in this state."""

        def ask():
            now = self.get(session_id, key)
            return now if now["state"] == state else None

        return wait_for(ask, seconds, f"state {state} of {session_id}")

    def rests(self, session_id, seconds=15):
        """The session when it is stopped: its next use starts it."""

        def ask():
            now = self.get(session_id)
            return now if now["state"] == "stopped" and now["ended_at"] is None else None

        return wait_for(ask, seconds, f"rest of {session_id}")

    def diff(self, session_id):
        """What has changed in its files."""
        return self.want(200, "GET", f"/v1/sessions/{session_id}/diff")

    def tenant(self, name, **limits):
        """Another tenant's id, and a key of it for everything about sessions."""
        made = self.want(201, "POST", "/v1/tenants", {"name": name, **limits})
        key = self.want(201, "POST", f"/v1/tenants/{made['id']}/keys", {"name": "test", "scopes": ["sessions"]})
        return made["id"], key["key"]

    # -- cells

    def cell_pids(self, session_id):
        """Of the cell's processes, as this process sees them; its PID 1 first."""
        pids = sorted(processes_of({session_id}))
        return sorted(pids, key=lambda pid: comm(pid) != ("cordon-init" if level.LEVEL == "container" else "cordon-shim"))

    def programs(self, session_id):
        """Processes of the session, PID 1 included: with a guest as its PID 1 lists them, else as the machine does."""
        if level.LEVEL == "container":
            return self.cell_pids(session_id)
        return [p["pid"] for p in self.want(200, "GET", f"/v1/sessions/{session_id}/processes")["processes"]]

    def note_cells(self):
        """Remembers which cells are ours, to look for them when all should be gone."""
        try:
            self.ids |= {n[:-5] for n in os.listdir(os.path.join(self.run_dir, "cells")) if n.endswith(".sock")}
        except FileNotFoundError:
            pass
        self.ids |= set(re.findall(r"session_id=(i[a-z0-9]{16,})\b", self.log()))

    # -- the end

    def delete_all(self):
        """Every tenant's sessions; returns when their cells are gone."""
        for session in self.want(200, "GET", "/v1/sessions?limit=1000&ended=false")["sessions"]:
            self.want(204, "DELETE", f"/v1/sessions/{session['id']}")
        for tenant in self.want(200, "GET", "/v1/tenants")["tenants"]:
            if not tenant.get("operator"):
                self.request("DELETE", f"/v1/tenants/{tenant['id']}")
        wait_for(lambda: not any(self.want(200, "GET", "/v1/node")["sessions"].values()), 20, "end of all sessions")

    def left_now(self):
        left = [f"process {pid} ({comm(pid)}) of cell {i}" for pid, i in processes_of(self.ids).items()]
        left += [f"cgroup {path}" for path in cgroups_of(self.ids)]
        with open("/proc/self/mountinfo") as f:
            left += [f"mount {line.strip()}" for line in f if self.folder in line or any(i in line for i in self.ids)]
        try:
            left += [f"socket {n}" for n in os.listdir(os.path.join(self.run_dir, "cells"))]
        except FileNotFoundError:
            pass
        return left

    def left(self, seconds=LEFT_WAIT):
        """What is still there of any cell, after waiting for it to go; best nothing."""
        end = time.monotonic() + seconds
        while (found := self.left_now()) and time.monotonic() < end:
            time.sleep(0.05)  # between two looks
        return found

    def close(self):
        """Deletes, stops, looks."""
        try:
            if self.process.poll() is None:
                self.note_cells()
                self.delete_all()
                self.stop()
            found = self.left()
            if found:
                raise Failed("left behind:\n" + "\n".join(found[:40]))
            if self.reports():
                raise Failed("\n".join(REPORTS))
        finally:
            self.destroy()

    def destroy(self):
        """Whatever state it is in: nothing of it stays."""
        if self.process.poll() is None:
            self.note_cells()
            pids = children(self.process.pid)
            self.process.kill()
            self.process.wait()
            for pid in pids:
                if comm(pid) in ("cordond", "cordon-keeper"):
                    os.kill(pid, signal.SIGKILL)
        for pid in processes_of(self.ids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.reports()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
        else:
            self.destroy()


# --- running the tests ------------------------------------------------------------------------------


def reachable(program, instead=None, names=PROGRAMS):
    """A copy, with its companions, that other users can reach: a clone may well be in /root.
    instead: {name: file} of programs that are copied from elsewhere. names: another version has others."""
    folder = tempfile.mkdtemp(prefix="cordon-test-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    for name in names:
        source = (instead or {}).get(name) or os.path.join(os.path.dirname(program), name)
        shutil.copy(source, os.path.join(folder, name))
    os.symlink(os.path.realpath(os.path.join(os.path.dirname(program), "kernels")), os.path.join(folder, "kernels"))
    return os.path.join(folder, "cordon")


def sanitized(program):
    """{name: file} of the sanitized programs beside this one (make sanitized), if CORDON_TEST_SANITIZED=1 asks for them."""
    if os.environ.get("CORDON_TEST_SANITIZED") != "1":
        return {}
    files = {name: os.path.join(os.path.dirname(program), name + ".sanitized") for name in PROGRAMS}
    files = {name: file for name, file in files.items() if os.path.exists(file)}
    if "cordond" not in files:
        sys.exit("Bail out! there is no cordond.sanitized: make sanitized")
    return files


def attempt(function, *args):
    """(verdict, why): verdict is "ok", "not ok", or a reason to skip."""
    try:
        function(*args)
        return "ok", ""
    except Skip as e:
        return str(e), ""
    except Failed as e:
        helpers = ("harness.py", "tap.py", "checks.py")
        frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.endswith(helpers)]
        return "not ok", f"line {frames[-1].lineno if frames else 0}: {e}"
    except Exception:
        return "not ok", traceback.format_exc()


def run_tests(names, kind=None, **settings):
    """The test functions of a program, by black box, and last: is anything left? Those that take no
    server get none. With CORDON_MUST_WORK=1 a skip is a failure. kind: the class of the server,
    Server if not given."""
    global PROGRAM, ORIGINAL
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("names", nargs="*", help="run only these")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    isolate()
    ORIGINAL = os.path.abspath(args.cordon)
    PROGRAM = reachable(ORIGINAL, sanitized(ORIGINAL))
    tests = [(n, f) for n, f in names.items() if n.startswith("test_") and inspect.isfunction(f)]
    unknown = set(args.names) - {n for n, _ in tests} - {n[5:] for n, _ in tests}
    if unknown:
        sys.exit(f"Bail out! no test {' '.join(sorted(unknown))}")
    tests = [(n, f) for n, f in tests if not args.names or n[5:] in args.names or n in args.names]
    print(f"1..{len(tests) + 1}", flush=True)
    kind = kind or Server  # which a program may have replaced
    server, bad, number = kind(**settings), 0, 0

    def report(name, verdict, why, began):
        nonlocal bad, number
        number += 1
        if REPORTS:
            verdict, why = "not ok", f"{why}\n" + "\n".join(REPORTS)
            REPORTS.clear()
        skipped = verdict not in ("ok", "not ok")
        if skipped and os.environ.get("CORDON_MUST_WORK") == "1":
            verdict, why, skipped = "not ok", f"skipped: {verdict}", False
        bad += verdict == "not ok"
        print(f"{'ok' if skipped else verdict} {number} - {name}" + (f" # SKIP {verdict}" if skipped else ""))
        note(f"{why}\n{time.monotonic() - began:.2f} s" if why else f"{time.monotonic() - began:.2f} s")

    for name, function in tests:
        began, at = time.monotonic(), len(server.log())
        takes = inspect.signature(function).parameters
        verdict, why = attempt(function, *([server] if takes else []))
        why = "\n".join(line for line in (level.met(), why) if line)
        server.reports()
        if verdict == "not ok":
            lines = [line for line in server.log()[at:].splitlines() if "msg=request " not in line]
            why += "\nlog of the server:\n" + "\n".join(lines[-20:])
        report(name[5:], verdict, why, began)
        if server.process.poll() is not None:
            note("the server is gone")
            server.destroy()
            server = kind(**settings)
    began = time.monotonic()
    restarts = re.findall(r'.*level=(?:warn|error) msg="?(?:died|program ended).*', server.log())
    verdict, why = attempt(server.close)
    if verdict == "ok" and restarts and not names.get("KILLS"):
        verdict, why = "not ok", "a program of the server died:\n" + "\n".join(restarts)
    report("nothing is left", verdict, why, began)
    sys.exit(1 if bad else 0)
