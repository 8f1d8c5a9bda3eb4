"""tap.py - what every behaviour test needs: TAP, a way to run cordon, and a look at what is left.

A test program is a file of functions named test_*. Each runs once, in order; it passes if it returns,
is skipped if it raises Skip, and fails otherwise. It also fails if anything of a cell is still there
five seconds after it: that is checked after every test, so none has to ask for it.

To see that nothing is left on a machine where other cells come and go, the program runs itself again
as process 2 of a pid namespace and a mount namespace of its own (process 1 only reaps): whatever is
in /proc then is ours. Everything dies with the namespace, however the test ends.

    test_x.py CORDON_BINARY [--seed N] [name ...]

With CORDON_MUST_WORK=1 a skip is a failure. With CORDON_TEST_LEVEL=gvisor or microvm every command runs at that level; where a
level differs (doc/levels.md), the test says what is expected there: level.differs().
"""
import argparse
import atexit
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
import level  # noqa: E402
import runsc  # noqa: E402
import sanitizer  # noqa: E402
import slim_root  # noqa: E402
from checks import Failed, Skip, check, equal, has, note, short, wait_for  # noqa: E402,F401
from level import LEVEL  # noqa: E402

PROGRAM = ""  # the binary under test: a copy
BUILT = ""  # where it was built
SEED = None  # to replay a random test
STAGE = "CORDON_TEST_STAGE"
TIMEOUT = 60 * level.PATIENCE  # of any one command; a test that hits it has found a hang
LEFT_WAIT = 5.0
HELPERS = set()  # processes of the test itself
RANGE = (0x70000000, 0xB0000000)  # ids that cells of a privileged keeper get
KEYS = {
    "id": str,
    "state": str,
    "exit_code": int,
    "signal": (int, type(None)),
    "limit": (str, type(None)),
    "limits_hit": list,
    "error": (dict, type(None)),
    "started_at": str,
    "wall_ms": int,
    "cpu_ms": int,
    "memory_peak_bytes": int,
    "pids_peak": (int, type(None)),
    "disk_bytes": int,
    "output_bytes": int,
    "output_truncated": bool,
    "level": str,
    "profile": str,
    "restrictions": dict,
    "network": (dict, type(None)),
}
LIMITS = {None, "timeout", "memory", "pids", "disk", "inodes", "output", "cpu"}


class Done:
    """How a run of cordon ended."""

    def __init__(self, rc, out, err, result=None):
        self.rc, self.out, self.err, self.result = rc, out, err, result

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def errors(self):
        return self.err.decode("utf-8", "replace")

    def exits(self, code):
        """Ended with this code; returns itself, so that calls chain."""
        if self.rc != code:
            raise Failed(
                f"exit code {self.rc}, want {code}; stdout {short(self.out)}, "
                f"stderr {short(self.err)}, result {short(self.result)}"
            )
        return self

    def refused(self, *parts, code=125):
        """Cordon's own error, in one line that names what is wrong."""
        self.exits(code)
        lines = self.errors.splitlines()
        check(len(lines) == 1 and lines[0].startswith("cordon: "), f"not one message: {short(self.err)}")
        for part in parts:
            has(lines[0], part, "the message")
        return self

    def misused(self, *parts):
        """The same for a command line that is wrong in itself: nothing was tried."""
        return self.refused(*parts, code=2)

    def limit(self, name):
        equal(self.result["limit"], name, "limit")
        return self


def as_list(command):
    return ["sh", "-c", command] if isinstance(command, str) else list(command)


def level_options(options):
    if LEVEL == "container" or "--level" in options:
        return []
    if LEVEL == "gvisor":
        return ["--level", LEVEL, "--runsc", engine()]
    # Less memory than usual, as the guest's kernel clears all of it; an option of the test comes later and counts.
    more = ["--memory", "256M", *([] if "--template" in options else ["--template", str(slim_root.state(BUILT))])]
    return ["--level", LEVEL, "--state-dir", str(guest_kernel.state(BUILT)), *more]


def engine():
    """A copy of runsc that other users can reach."""
    return os.path.join(os.path.dirname(PROGRAM), "runsc")


def start(*options, cmd, **popen):
    """Starts `cordon run`; a command that is one string goes to sh."""
    popen.setdefault("stdin", subprocess.DEVNULL)
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([PROGRAM, "run", *level_options(options), *options, "--", *as_list(cmd)], **popen)


def finish(process, data=None, timeout=TIMEOUT):
    try:
        out, err = process.communicate(data, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=TIMEOUT)
        raise Failed(f"hangs: no end after {timeout} s") from None
    for report in sanitizer.reports((err or b"").decode("utf-8", "replace")):
        raise Failed(report)
    return Done(process.returncode, out or b"", err or b"")


def run(*options, cmd, data=None, timeout=TIMEOUT, result=False, **popen):
    """`cordon run options -- cmd`, with data as its input; result: reads what --result wrote."""
    if data is not None:
        popen["stdin"] = subprocess.PIPE
    if not result:
        return finish(start(*options, cmd=cmd, **popen), data, timeout)
    with tempfile.TemporaryDirectory() as folder:
        if popen.get("user") is not None:
            os.chown(folder, popen["user"], popen["user"])
        path = os.path.join(folder, "result.json")
        done = finish(start("--result", path, *options, cmd=cmd, **popen), data, timeout)
        done.result = read_result(path, done.rc)
        return done


def python(code, *options, **more):
    return run(*options, cmd=["/usr/bin/python3", "-c", code], **more)


def rounds(n):
    """How often a command is repeated: less often where each boots a machine."""
    return max(2, n // 20) if LEVEL == "microvm" else n


def plain(*words):
    """cordon with these words, whatever verb they begin with; `run` at the level of the suite."""
    if words[:1] == ("run",):
        words = ("run", *level_options(words), *words[1:])
    p = subprocess.run([PROGRAM, *words], capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    return Done(p.returncode, p.stdout, p.stderr)


def environment(d):
    """The variables that `env -0` printed, each once."""
    words = d.exits(0).out.split(b"\0")[:-1]
    names = [w.partition(b"=")[0].decode() for w in words]
    equal(len(names), len(set(names)), f"a name twice: {names}")
    return {n: w.partition(b"=")[2].decode() for n, w in zip(names, words)}


@contextlib.contextmanager
def folder(owner=0, mode=0o755):
    """A directory to mount, with a file in it, owned by an ordinary user."""
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        inner = os.path.join(outer, "src")
        os.mkdir(inner)
        os.chmod(inner, mode)
        with open(os.path.join(inner, "file"), "w") as f:
            f.write("content\n")
        for path in (inner, f.name):
            os.chown(path, owner, owner)
        yield inner


def read_result(path, rc=None):
    """The result file, checked for form: one JSON object in one line, all keys, right types."""
    with open(path, "rb") as f:
        raw = f.read()
    check(raw.endswith(b"}\n") and raw.count(b"\n") == 1, f"--result is not one line: {short(raw)}")
    r = json.loads(raw.decode("utf-8"))
    equal(list(r), list(KEYS), "keys of --result")
    for key, kind in KEYS.items():
        check(
            isinstance(r[key], kind) and (kind is not int or not isinstance(r[key], bool)),
            f"--result: {key} is {r[key]!r}",
        )
    check(r["state"] in ("exited", "killed", "failed"), f"state {r['state']}")
    check(r["limit"] in LIMITS, f"limit {r['limit']}")
    equal(r["limits_hit"][:1], [r["limit"]] if r["limit"] else [], "limits_hit begins with limit")
    check(set(r["limits_hit"]) <= LIMITS, f"limits_hit {r['limits_hit']}")
    if r["error"] is not None:
        equal(sorted(r["error"]), ["code", "fault", "message"], "keys of error")
        check(r["error"]["fault"] in ("user", "platform"), f"fault {r['error']['fault']}")
        check(r["error"]["message"], "error without message")
    if rc is not None:
        equal(r["exit_code"], rc, "exit_code in --result and of the process")
    return r


# --- what is left -----------------------------------------------------------------------------------


def processes():
    """{pid: (parent, name)} of this pid namespace, without its process 1, ourselves and our own helpers."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in (1, os.getpid(), *HELPERS):
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as f:
                head, _, tail = f.read().rpartition(b")")
        except OSError:
            continue
        found[int(entry)] = (int(tail.split()[1]), head.partition(b"(")[2].decode("utf-8", "replace"))
    return found


def children(pid):
    return [p for p, (parent, _) in processes().items() if parent == pid]


def namespaces():
    """All namespaces that a process of ours is in."""
    found = set()
    for pid in [os.getpid(), *processes()]:
        try:
            for name in os.listdir(f"/proc/{pid}/ns"):
                found.add(os.readlink(f"/proc/{pid}/ns/{name}"))
        except OSError:
            pass
    return found


def cgroup_dirs():
    """Directories of cells that no keeper holds. A living keeper keeps a lock on each of its own, so
    the cells of others on this machine are not counted."""
    found = []
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        for name in [n for n in names if n.startswith("cordon-")]:
            names.remove(name)
            path = os.path.join(folder, name)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.fstat(fd).st_mode & stat.S_ISVTX:  # else a server's, which has it in its books
                    found.append(path)
            except OSError:
                pass
            finally:
                os.close(fd)
    return found


def mount_lines():
    with open("/proc/self/mountinfo") as f:
        return {line for line in f if "cordon" in line}


def listing(path):
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


BASE = {}


def remember_base():
    BASE["mounts"] = mount_lines()
    BASE["namespaces"] = namespaces()
    BASE["new"] = {n for n in listing("/var/cache/cordon/roots") if n.startswith("new-")}
    # Of programs that were killed as a whole before, in a cgroup that `cordon` here does not look into.
    BASE["cgroups"] = set(cgroup_dirs())


def left_now(swept=True):
    """swept: a cordon has started since, so what only the next one can remove must be gone, too."""
    left = [f"process {pid} ({name}), child of {parent}" for pid, (parent, name) in processes().items()]
    left += [f"mount {line.strip()}" for line in mount_lines() - BASE["mounts"]]
    left += [f"namespace {name}" for name in namespaces() - BASE["namespaces"]]
    left += [f"/run/cordon/{name}" for name in listing("/run/cordon") if name not in ("ids", "ids.d")]
    if swept:
        left += [
            f"/var/cache/cordon/roots/{name}"
            for name in listing("/var/cache/cordon/roots")
            if name.startswith("new-") and name not in BASE["new"]
        ]
        left += [f"cgroup {path}" for path in cgroup_dirs() if path not in BASE["cgroups"]]
    return left


def left(wait=LEFT_WAIT, swept=True):
    """What of any cell of ours is still there after waiting for it to go; best nothing."""
    end = time.monotonic() + wait
    while True:
        found = left_now(swept)
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.005)  # between two looks


def clear():
    """So that one leak is reported once: ends what the last test left."""
    for pid in processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        subprocess.run(
            [PROGRAM, "run", "--", "true"],
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pass
    for pid in processes():
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


# --- running the tests ------------------------------------------------------------------------------


def reachable(program):
    """A copy, with its companions, that other users can reach: a clone may well be in /root."""
    folder = tempfile.mkdtemp(prefix="cordon-test-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    images = ["cordon-storage"] if LEVEL == "microvm" else []  # makes a root image of the template
    for name in ("cordon", "cordon-keeper", "cordon-init", "cordon-shim", "cordon-egress", *images):
        path = os.path.join(os.path.dirname(program), name)
        if name != "cordon-shim" or os.path.exists(path):
            shutil.copy(path, folder)
    return os.path.join(folder, "cordon")


def isolate():
    """Returns as process 2 of a pid namespace of our own."""
    if os.geteuid() != 0:
        return
    if os.environ.pop(STAGE, None) is None:
        os.environ[STAGE] = "1"
        os.execvp(
            "unshare",
            ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", "--", sys.executable, *sys.argv],
        )
    pid = os.fork()
    if pid == 0:
        return
    while True:
        who, status = os.wait()
        if who == pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def bind(source, target):
    """Mounts a directory over another, in our own mount namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), None, 4096, None) < 0:
        raise OSError(ctypes.get_errno(), f"bind {target}: {errno.errorcode[ctypes.get_errno()]}")


def unbind(target):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(target.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), f"unbind {target}")


@contextlib.contextmanager
def over(path, text=None):
    """Something of our own in place of a file (text) or a directory (empty), seen by us alone."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outer:
        source = os.path.join(outer, "it")
        if text is None:
            os.makedirs(path, mode=0o700, exist_ok=True)
            os.mkdir(source, 0o700)
        else:
            with open(source, "w") as f:
                f.write(text)
            os.chmod(source, 0o644)
        bind(source, path)
        saved, BASE["mounts"] = BASE["mounts"], mount_lines()
        try:
            yield source
        finally:
            unbind(path)
            BASE["mounts"] = saved


def run_one(function):
    """(verdict, diagnostics): verdict is "ok", "not ok" or a reason to skip."""
    if os.geteuid() != 0:
        return "needs root", ""
    try:
        function()
        verdict, why = "ok", ""
    except Skip as e:
        verdict, why = str(e), ""
    except Failed as e:
        frame = traceback.extract_tb(e.__traceback__)
        line = next((f.lineno for f in reversed(frame) if not f.filename.endswith(("tap.py", "checks.py"))), 0)
        verdict, why = "not ok", f"line {line}: {e}"
    except Exception:
        verdict, why = "not ok", traceback.format_exc()
    found = left()
    if found:
        clear()
        return "not ok", "\n".join([why, f"left {LEFT_WAIT:.0f} s later:", *found]).strip()
    return verdict, why


def parse_args():
    global BUILT, PROGRAM, SEED
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("--seed", type=int)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    BUILT = os.path.abspath(args.cordon)
    PROGRAM, SEED = reachable(BUILT), args.seed
    if LEVEL == "gvisor":
        shutil.copy(runsc.find(BUILT), engine())
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"Bail out! {PROGRAM} cannot be executed")
    return args.names


def main(module, begin=None):
    """begin: makes what all tests of the module share, and is no part of what they leave behind."""
    isolate()  # starts the program anew: what is made before would be left behind
    names = parse_args()
    if begin is not None:
        with contextlib.suppress(Skip):  # each test says so, too
            begin()
    tests = [f for name, f in module.items() if name.startswith("test_") and callable(f)]
    unknown = set(names) - {f.__name__ for f in tests} - {f.__name__[5:] for f in tests}
    if unknown or not tests:
        sys.exit(f"Bail out! no test {' '.join(sorted(unknown))}")
    if names:
        tests = [f for f in tests if f.__name__ in names or f.__name__[5:] in names]
    remember_base()
    must = os.environ.get("CORDON_MUST_WORK") == "1"
    bad, began = 0, time.monotonic()
    print(f"1..{len(tests)}")
    for number, function in enumerate(tests, 1):
        since = time.monotonic()
        verdict, why = run_one(function)
        why = "\n".join(line for line in (level.met(), why) if line)
        took = time.monotonic() - since
        name = function.__name__[5:].replace("_", " ")
        skip = verdict not in ("ok", "not ok")
        good = verdict == "ok" or (skip and not must)
        bad += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}" + (f" # SKIP {verdict}" if skip and good else ""))
        if skip and not good:
            note(f"CORDON_MUST_WORK is set, but: {verdict}")
        if why:
            note(why)
        if took > 3:
            note(f"took {took:.1f} s")
        sys.stdout.flush()
    note(f"{len(tests) - bad} of {len(tests)} passed or skipped in {time.monotonic() - began:.1f} s")
    sys.exit(1 if bad else 0)
