#!/usr/bin/python3
"""Goal: the verbs of cordon do with a real server what they promise, also while it is killed.

    test_client.py CORDON [name ...]

Starts `cordon serve` with folders of its own and talks to its Unix socket, in a pid namespace that ends
everything with the test. CORDON_TEST_SERVER_CMD, if set, is the server's command line instead, without the
settings. Needs root; with CORDON_MUST_WORK=1 a skip is a failure.
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import threading
import time
import traceback

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
import sanitizer  # noqa: E402

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, equal, wait_for  # noqa: E402

STAGE = "CORDON_CLIENT_TEST_STAGE"
CORDON = os.path.abspath(sys.argv[1])
USER = "64997"


class World:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cordon-client-")
        os.chmod(self.dir, 0o711)
        self.home = self.dir + "/home"
        os.mkdir(self.home)
        self.state, self.run = self.dir + "/state", self.dir + "/run"
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "CORDON_SERVER": f"unix:{self.run}/cordon.sock"}
        self.log = open(self.dir + "/log", "w+b")
        self.server = None

    def start(self):
        command = shlex.split(os.environ.get("CORDON_TEST_SERVER_CMD", "")) or [CORDON, "serve"]
        self.server = subprocess.Popen(
            [*command, "--user", USER, "--state-dir", self.state, "--run-dir", self.run, "--listen", "127.0.0.1:0"],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end and self.server.poll() is None:
            if os.path.exists(self.state + "/first.key"):
                with open(self.state + "/first.key") as f:
                    self.env["CORDON_API_KEY"] = f.read().strip()
                if subprocess.run([CORDON, "node"], env=self.env, capture_output=True, timeout=20).returncode == 0:
                    return
            time.sleep(0.05)  # between two looks
        raise RuntimeError("the server did not start: " + self.said())

    def said(self):
        with open(self.dir + "/log") as f:
            return f.read()[-3000:]

    def daemon(self):
        """The pid of the cordond that runs now."""
        with open(self.dir + "/log") as f:
            return int(re.findall(r'msg="program started" program=cordond pid=(\d+)', f.read())[-1])

    def kill_daemon(self):
        """Returns when another one has started."""
        before = self.daemon()
        os.kill(before, signal.SIGKILL)
        end = time.monotonic() + 20
        while self.daemon() == before:
            assert time.monotonic() < end and self.server.poll() is None, self.said()
            time.sleep(0.02)  # between two looks

    def __call__(self, *words, code=0, stdin=b"", env=None):
        run = subprocess.run([CORDON, *words], input=stdin, capture_output=True, timeout=60, cwd=self.home,
                             env=self.env if env is None else env)
        assert run.returncode == code, (words, run.returncode, run.stdout[-500:], run.stderr[-500:])
        return run

    def one(self, *words, **more):
        return self(*words, **more).stdout.decode().strip()

    def start_client(self, *words, **more):
        return subprocess.Popen([CORDON, *words], env=self.env, cwd=self.home, stdout=subprocess.PIPE, **more)

    def close(self):
        if self.server is not None and self.server.poll() is None:
            subprocess.run([CORDON, "rm", "--all"], env=self.env, capture_output=True, timeout=60)
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(30)
        with open(self.dir + "/log", errors="replace") as f:
            found = sanitizer.reports(f.read())
        shutil.rmtree(self.dir)
        assert not found, "\n".join(found)


def test_life_of_a_session(w):
    name = w.one("create", "--memory", "256M", "--metadata", "who=me", "--env", "A=1 2", "--timeout", "10m")
    lines = w("ls", "--metadata", "who=me").stdout.decode().splitlines()
    equal(len(lines), 2)
    assert re.fullmatch(f"{name} +running +[0-9]+s +[0-9]+m +host +container +memory +0 +who=me", lines[1]), lines
    equal(w.one("ls", "-q", "--metadata", "who=you"), "")
    equal(json.loads(w("ls", "--json").stdout)["sessions"][0]["limits"]["memory_bytes"], 256 << 20)
    equal(w.one("exec", name[:-3], "--", "sh", "-c", "echo $A"), "1 2")
    equal(w.one("timeout", name, "2h"), name)
    session = json.loads(w("timeout", "--json", name, "1h").stdout)
    equal((session["id"], session["timeout_ms"]), (name, 3600000))
    equal(w.one("rm", name), name)
    equal(w.one("rm", name), name)  # again
    wait_for(lambda: b"ended (deleted)" in w("ls", "-a").stdout, 20, "the end of the session", 0.1)
    assert re.search(rb"\((not_found|gone|conflict), request ", w("exec", name, "--", "true", code=125).stderr)
    assert b"not_found" in w("rm", "nosuchsession", code=3).stderr


def test_pause(w):
    name = w.one("create")
    p = w.start_client("exec", name, "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done")
    equal(p.stdout.readline(), b"1\n")
    pause = subprocess.run([CORDON, "pause", name], env=w.env, capture_output=True, timeout=30)
    if pause.returncode == 125 and b"(unsupported, " in pause.stderr:
        p.kill()
        raise Skip("cells cannot be paused here")
    equal(pause.returncode, 0)
    assert b"paused" in w("ls").stdout
    equal(p.poll(), None)
    w("resume", name)
    equal(p.stdout.read(), b"2\n3\n4\n5\n6\n7\n8\n")
    equal(p.wait(20), 0)


def test_exec(w):
    name = w.one("create")
    run = w("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    equal((run.stdout, run.stderr), (b"out\n", b"err\n"))
    equal(w("exec", name, "printf", r"\000\377").stdout, b"\0\xff")
    w("exec", name, "--", "/no/such", code=127)
    w("exec", name, "--", "/etc/passwd", code=126)
    w("exec", name, "--", "sh", "-c", "kill -9 $$", code=137)
    start = time.monotonic()
    assert b"timeout" in w("exec", "--timeout", "300ms", name, "--", "sleep", "30", code=124).stderr
    assert time.monotonic() - start < 10
    equal(w.one("exec", "-u", "root", "-w", "/tmp", "-e", "X=y", name, "--", "sh", "-c", "id -un; pwd; echo $X"), "root\n/tmp\ny")
    # What is left in the background does not keep us.
    equal(w("exec", name, "--", "sh", "-c", "sleep 30 & echo x").stdout, b"x\n")
    assert b"sleep" in w("ps", name).stdout


def test_exec_tells_limits_that_a_command_hides(w):
    """Also where another command runs, and may have hit them."""
    name, hidden = w.one("create", "--disk", "16M"), b"cordon: limit reached: disk, although the command ended with 0\n"
    fill = "head -c 40M /dev/zero > /tmp/f; sleep 0.5; rm /tmp/f; exit 0"
    equal(w("exec", name, "--", "sh", "-c", f"({fill}) 2> /dev/null").stderr, hidden)
    equal(w("exec", name, "--", "true").stderr, b"", "of one that hit none")
    w("exec", "--detach", name, "--", "sleep", "100")
    equal(w("exec", name, "--", "sh", "-c", f"({fill}) 2> /dev/null").stderr, hidden, "beside another")


def test_exec_forgives(w):
    """Options behind the session, and the last execution where none is named."""
    name = w.one("create")
    equal(w.one("exec", name, "-u", "root", "--cwd", "/tmp", "--", "sh", "-c", "id -un; pwd"), "root\n/tmp")
    equal(w.one("exec", name, "-e", "X=y", "sh", "-c", "echo $X"), "y")
    assert b"did you mean --timeout" in w("exec", name, "--timout", "5s", "--", "true", code=2).stderr
    assert b"limit reached: timeout" in w("exec", name, "--timeout", "300ms", "--", "sleep", "30", code=124).stderr
    time.sleep(0.01)  # "last" is by the millisecond
    w("exec", name, "--", "echo", "the last one")
    equal(w("logs", name).stdout, b"the last one\n")
    rows = w("ls", name).stdout.decode()
    assert "echo the last one" in rows, rows
    w("exec", "--record", "hash", name, "--", "echo", "hidden")
    assert "hidden" not in w("ls", name).stdout.decode()
    assert b"has run no command" in w("logs", w.one("create"), code=3).stderr


def test_detach_from_a_terminal(w):
    name = w.one("create")
    pid, fd = spawn(w, "exec", "-t", name, "--", "sh")
    read_until(fd, b"$ ")
    os.write(fd, b"\x1d")
    got = read_until(fd, b"cordon attach ")
    assert b"still running" in got, got
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    os.close(fd)
    pid, fd = spawn(w, "attach", name)
    os.write(fd, b"echo ag''ain; exit 3\r")
    read_until(fd, b"\nagain")
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 3)
    os.close(fd)


def test_what_the_server_says_for_people(w):
    name = w.one("create", "--memory", "256M", "--metadata", "label=demo")
    shown = w("inspect", name).stdout.decode()
    assert "limits.memory: 256M\n" in shown and "metadata.label: demo\n" in shown, shown
    limits = w("limits").stdout.decode()
    assert re.search(r"^used\.sessions: [1-9]", limits, re.M), limits
    rows = w("usage", "--since", "7d").stdout.decode().splitlines()
    assert rows[0].startswith("LABEL") and rows[-1].startswith("(all)"), rows
    assert "capacity.create_rate_millis" not in w("node").stdout.decode()
    tenants = w("tenant", "ls").stdout.decode()
    assert "default" in tenants and "RATE/1000" not in tenants, tenants
    assert b"tenant bob2: it exists already (conflict" in (w("tenant", "create", "bob2") and w("tenant", "create", "bob2", code=4)).stderr
    wrong = w("ls", env={**w.env, "CORDON_API_KEY": "e2b_" + "0" * 40}, code=4).stderr
    assert b"refuses the API key of CORDON_API_KEY" in wrong and b"unauthorized" in wrong, wrong


def test_one_form_for_what_does_not_exist(w):
    for words, kind in ((["pause", "nosuch"], "session"), (["inspect", "i000000000000000a"], "session"), (["logs", w.one("create"), "nosuch"], "execution"),
                        (["template", "show", "nosuch"], "template"), (["create", "--template", "nosuch"], "template"),
                        (["create", "--secret", "nosuch"], "secret"), (["secret", "show", "nosuch"], "secret"), (["volume", "show", "nosuch"], "volume"),
                        (["create", "--volume", "nosuch:/v"], "volume"), (["snapshot", "rm", "nosuch"], "snapshot"), (["tenant", "rm", "nosuch"], "tenant"),
                        (["tenant", "set", "No Such", "--name", "x"], "tenant"), (["key", "rm", "nosuch"], "key"),
                        (["key", "create", "--tenant", "nosuch"], "tenant")):
        name = next(n for n in ("nosuch", "i000000000000000a", "No Such") if any(n in word for word in words))
        said = w(*words, code=3).stderr.decode()
        assert re.fullmatch(rf"cordon: (\S+: )?no such {kind} '{name}' \(not_found, request \S+\)\n", said), (words, said)


def test_a_slow_server_is_told(w):
    """On a terminal only, once, and after a second."""
    def answer(listener, delay):
        link, _ = listener.accept()
        with link:
            link.recv(65536)
            time.sleep(delay)  # the server is slow: that is the test
            link.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{"a": 1}')

    def serve(delay):
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=answer, args=(listener, delay), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    for delay, told in ((0, 0), (2.2, 1)):
        pid, fd = spawn(w, "node", "--server", serve(delay))
        got = read_until(fd, b"a: 1")
        equal(got.count(b"waiting for the server"), told, got)
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(fd)
    equal(w("node", "--server", serve(1.5)).stderr, b"")


def test_exec_input(w):
    name = w.one("create")
    equal(w("exec", "-i", name, "--", "cat", stdin=b"a\nb").stdout, b"a\nb")
    big = os.urandom(4 << 20)
    equal(w("exec", "-i", name, "--", "cat", stdin=big).stdout == big, True)
    equal(w("exec", name, "--", "cat", stdin=b"x").stdout, b"")


def test_exec_survives_the_server(w):
    """cordond is killed three times meanwhile: no byte is missing and none comes twice."""
    name = w.one("create")
    p = w.start_client("exec", name, "--", "sh", "-c", "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); "
                       "[ $((i % 5)) = 0 ] && sleep 0.03; done; exit 6", stderr=subprocess.PIPE)
    for _ in range(3):
        time.sleep(0.4)  # some output between two kills
        w.kill_daemon()
    equal(p.communicate(timeout=60), (b"".join(b"%d\n" % i for i in range(500)), b""))
    equal(p.returncode, 6)


def test_logs_survive_the_server(w):
    name = w.one("create")
    execution = w.one("exec", "-d", name, "--", "sh", "-c", "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.03; done; "
                      "echo end >&2")
    p = w.start_client("logs", "-f", name, execution, stderr=subprocess.PIPE)
    time.sleep(0.5)  # some output before the kill
    w.kill_daemon()
    want = b"".join(b"%d\n" % i for i in range(60))
    equal(p.communicate(timeout=60), (want, b"end\n"))
    equal(p.returncode, 0)
    run = w("logs", name, execution[:-4])
    equal((run.stdout, run.stderr), (want, b"end\n"))
    equal(w.one("logs", "--stream", "stderr", name, execution), "end")
    run = w("attach", name, execution)
    equal((run.stdout, run.stderr), (want, b"end\n"))
    lines = w("ls", name).stdout.decode().splitlines()
    assert re.match(f"{execution} +exited", lines[1]), lines


def test_signals(w):
    name = w.one("create")
    for signo in (signal.SIGINT, signal.SIGTERM):
        p = w.start_client("exec", name, "--", "sh", "-c", "trap 'echo got; exit 9' INT TERM; echo ready; "
                           "while :; do sleep 0.05; done", stderr=subprocess.DEVNULL)
        equal(p.stdout.readline(), b"ready\n")
        p.send_signal(signo)
        equal(p.stdout.read(), b"got\n")
        equal(p.wait(20), 9)
    execution = w.one("exec", "-d", name, "--", "sleep", "77")
    w("kill", name, execution)
    assert re.search(f"{execution} +killed", w("ls", name).stdout.decode())


def read_until(fd, word, seconds=20):
    got, end = b"", time.monotonic() + seconds
    while word not in got and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                got += os.read(fd, 65536)
            except OSError:
                break
    assert word in got, got
    return got


def resize(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def spawn(w, *words):
    """The client with a terminal of its own, whose size is set before it runs."""
    pid, fd = pty.fork()
    if pid == 0:
        resize(0, 33, 77)
        os.execve(CORDON, [CORDON, *words], w.env)
    return pid, fd


def test_terminal(w):
    name = w.one("create")
    pid, fd = spawn(w, "exec", "-t", name, "--", "sh")
    read_until(fd, b"$ ")
    os.write(fd, b"tty; stty size; echo en''d\r")
    got = read_until(fd, b"\nend")
    assert b"/dev/pts/" in got and b"33 77" in got, got
    resize(fd, 44, 88)
    time.sleep(0.3)  # the size goes its own way; nothing shows its arrival
    os.write(fd, b"stty size; sleep 60\r")
    read_until(fd, b"44 88")
    time.sleep(0.3)  # `sleep` is in the foreground; nothing shows it
    os.write(fd, b"\x03")
    os.write(fd, b"exit 5\r")
    read_until(fd, b"exit 5")
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
    os.close(fd)


def test_attach_and_leave(w):
    name = w.one("create")
    first, fd = spawn(w, "exec", "-t", name, "--", "sh")
    read_until(fd, b"$ ")
    execution = json.loads(w("ls", "--json", name).stdout)["executions"][0]["id"]
    second, other = spawn(w, "attach", name, execution)
    read_until(other, b"$ ")
    os.write(other, b"echo bo''th\r")
    read_until(fd, b"\nboth")
    read_until(other, b"\nboth")
    os.write(other, b"\x1d")
    read_until(other, b"still running")
    equal(os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]), 0)
    os.write(fd, b"exit\r")
    equal(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]), 0)
    os.close(fd)
    os.close(other)


def test_run_on_server(w):
    before = w.one("ls", "-q", "--state", "running").split()
    run = w("run", "--server", "--memory", "256M", "--env", "A=b", "--", "sh", "-c", "cat; echo $A >&2; exit 5", stdin=b"in", code=5)
    equal((run.stdout, run.stderr), (b"in", b"b\n"))
    w("run", "--server", "--", "/no/such", code=127)
    w("run", "--server", "--timeout", "200ms", "--", "sleep", "9", code=124)
    w("run", "--server", "--memory", "64M", "--", "sh", "-c", "head -c 200m /dev/zero | tail -c 190m | wc -c; kill -9 $$", code=137)
    p = w.start_client("run", "--server", "--", "sh", "-c", "echo ready; sleep 60", stdin=subprocess.DEVNULL)
    equal(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGTERM)
    equal(p.wait(20), 128 + signal.SIGTERM)
    equal(w.one("ls", "-q", "--state", "running").split(), before)


def same(one, other):
    return subprocess.run(["diff", "-r", "--no-dereference", one, other], capture_output=True).stdout.decode()


def test_copy(w):
    name = w.one("create")
    data = os.urandom(20 << 20)
    with open(w.home + "/big", "wb") as f:
        f.write(data)
    os.chmod(w.home + "/big", 0o750)
    w("cp", "big", name + ":dir/new")  # the folder is made
    w("cp", "big", name + ":dir")
    equal(w.one("exec", name, "--", "stat", "-c", "%a %U %s", "dir/new", "dir/big"), "\n".join(2 * [f"750 user {20 << 20}"]))
    w("cp", name + ":dir/new", "back")
    with open(w.home + "/back", "rb") as f:
        equal(f.read() == data, True)
    w("cp", "-", name + ":/tmp/typed", stdin=b"typed")
    equal(w("cp", name + ":/tmp/typed", "-").stdout, b"typed")
    w("cp", "-", name + ":/tmp/empty")
    equal(w("cp", name + ":/tmp/empty", "-").stdout, b"")
    assert b"file_not_found" in w("cp", name + ":missing", ".", code=3).stderr
    assert b"denied" in w("cp", "big", name + ":/usr/new", code=4).stderr
    w("cp", "-u", "root", "big", name + ":/usr/new")


def blocks(path):
    return os.stat(path).st_blocks * 512


def test_copy_of_holes(w):
    """A file that takes no space in the session takes none here, and its size is looked at first."""
    name = w.one("create")
    w("exec", name, "--", "sh", "-c", "mkdir -p d; truncate -s 300M d/holes; printf end >> d/holes; truncate -s 5T huge")
    w("cp", name + ":d/holes", "holes")
    equal(os.path.getsize(w.home + "/holes"), (300 << 20) + 3)
    assert blocks(w.home + "/holes") < 1 << 20, blocks(w.home + "/holes")
    w("cp", name + ":d", "d")
    equal(os.path.getsize(w.home + "/d/holes"), (300 << 20) + 3)
    assert blocks(w.home + "/d/holes") < 1 << 20, blocks(w.home + "/d/holes")
    before = set(os.listdir(w.home))
    assert b"--max-size" in w("cp", name + ":huge", "huge", code=125).stderr
    assert b"--max-size" in w("cp", "--max-size", "1M", name + ":d/holes", "less", code=125).stderr
    assert b"--max-size" in w("cp", "--max-size", "1M", name + ":d", "-", code=125).stderr
    equal(set(os.listdir(w.home)), before)


def test_terminal_without_input(w):
    """The end of input is Ctrl-D for the program; SIGTERM ends the client though the shell ignores it."""
    name = w.one("create")
    w("exec", "-t", name, "--", "sh", "-c", "sleep 0.7; exec bash", code=0)  # which loses what came before
    p = subprocess.Popen([CORDON, "exec", "-t", name, "--", "bash", "-c", "trap '' TERM; echo up; sleep 1000"], env=w.env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"up" in p.stdout.readline()
    p.terminate()
    assert b"may still be running" in p.communicate(timeout=30)[1]
    equal(p.returncode, 125)


def writes_unnamed(pid):
    """The process has a file open that has no name."""
    with contextlib.suppress(OSError):
        return any("(deleted)" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def test_copy_that_is_ended(w):
    """Nothing of it is left in the folder, however the process ends."""
    name = w.one("create")
    w("exec", name, "--", "truncate", "-s", "8G", "zeros")
    before = set(os.listdir(w.home))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        p = subprocess.Popen([CORDON, "cp", name + ":zeros", "zeros"], env=w.env, cwd=w.home, stderr=subprocess.DEVNULL)
        wait_for(lambda: writes_unnamed(p.pid), 10, "the unfinished copy")
        p.send_signal(number)
        p.wait(20)
        equal(set(os.listdir(w.home)), before)


def test_copy_trees(w):
    name = w.one("create")
    top = w.home + "/tree"
    os.makedirs(top + "/a/b/empty")
    os.symlink("../x", top + "/a/link")
    long = "/a/" + "n" * 150 + "/" + "m" * 150
    os.makedirs(os.path.dirname(top + long))
    for path in ("/x", "/a/b/y z", long):
        with open(top + path, "w") as f:
            f.write(path * 100)
    w("cp", "tree", name + ":up")
    w("cp", name + ":up", "down")
    equal(same(top, w.home + "/down"), "")
    w("cp", "tree", name + ":up")  # into it
    w("exec", name, "--", "test", "-f", "up/tree/x")
    with open(w.home + "/archive.tar", "wb") as f:
        f.write(w("cp", name + ":up", "-").stdout)
    with tarfile.open(w.home + "/archive.tar") as archive:
        assert "a/b/y z" in archive.getnames()


def test_watch(w):
    name = w.one("create")
    p = w.start_client("watch", name)
    time.sleep(1)  # the client watches; it prints nothing before the first event
    w("exec", name, "--", "sh", "-c", "echo 1 > f; mkdir d; sleep 0.2; echo 2 > d/g; rm f")
    time.sleep(0.5)  # the last events arrive
    p.terminate()
    lines = p.stdout.read().decode().splitlines()
    for want in ("create f", "write f", "create d", "write d/g", "remove f"):
        assert want in lines, (want, lines)


def test_diff(w):
    name = w.one("create")
    w("exec", "-u", "root", name, "--", "sh", "-c", "echo x > /etc/new; rm /usr/bin/env")
    lines = w("diff", name).stdout.decode().splitlines()
    assert "A /etc/new" in lines and "D /usr/bin/env" in lines, lines


def test_events(w):
    name = w.one("create")
    p = w.start_client("events", "-f", name)
    time.sleep(0.3)  # the client follows
    w("exec", name, "--", "true")
    w("rm", name)
    time.sleep(0.5)  # the last events arrive
    p.terminate()
    lines = p.stdout.read().decode().splitlines()
    assert lines and all(name in line for line in lines), lines
    assert any("execution.ended" in line for line in lines), lines
    numbers = [int(line.split()[0]) for line in lines]
    equal(numbers, sorted(set(numbers)))
    equal(w("events", name).stdout.decode().splitlines(), lines)
    equal(w("events", "--after", str(numbers[0]), name).stdout.decode().splitlines(), lines[1:])


def test_keys_and_tenants(w):
    tenant = w.one("tenant", "create", "bob", "--max-sessions", "1")
    key = w.one("key", "create", "--tenant", tenant, "--scope", "sessions")
    assert re.fullmatch("e2b_[0-9a-f]{40}", key), key
    bob = {**w.env, "CORDON_API_KEY": key}
    mine = w.one("create")
    theirs = w.one("create", env=bob)
    assert b"(quota_sessions, " in w("create", env=bob, code=4).stderr
    equal(w.one("ls", "-q", env=bob), theirs)
    assert b"not_found" in w("exec", mine, "--", "true", env=bob, code=125).stderr
    w("tenant", "set", tenant, "--max-sessions", "2")
    w("create", env=bob)
    reader = w.one("key", "create", "--name", "reader", "--scope", "read")
    assert b"forbidden" in w("create", env={**w.env, "CORDON_API_KEY": reader}, code=4).stderr
    w("ls", env={**w.env, "CORDON_API_KEY": reader})
    row = next(line for line in w("key", "ls").stdout.decode().splitlines() if "reader" in line)
    assert "[" not in row and " read " in row, row  # a list as words, not as JSON
    assert re.search(r" [0-9]+[smhd] +- +(-|[0-9]+[smhd])$", row), row  # ages, as cordon ls has them
    rows = w("template", "ls").stdout.decode().splitlines()
    assert all(re.search(r" [0-9]+[smhd]$", line) for line in rows[1:]), rows
    both = w.one("key", "create", "--name", "both", "--scope", "read", "--scope", "admin")
    assert " read,admin " in w("key", "ls").stdout.decode() and both
    node = w("node").stdout.decode()
    assert "[" not in node and "{" not in node, node
    done = w("run", "--server", "--result", "-", "--", "echo", "hi").stdout.decode()
    assert done.startswith("hi\n{") and json.loads(done[3:])["exit_code"] == 0, done
    w("key", "rm", row.split()[0])
    assert b"unauthorized" in w("ls", env={**w.env, "CORDON_API_KEY": reader}, code=4).stderr
    w("tenant", "rm", tenant)
    assert b"unauthorized" in w("ls", env=bob, code=4).stderr


def test_completion_of_values(w):
    """After an option whose values are known, each shell offers these."""
    folder = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "completion"))
    with open(w.home + "/value", "w") as f:
        f.write("x" * 20)
    w("secret", "set", "offered", "--from-file", w.home + "/value")
    w("volume", "create", "kept")

    def shell(program, code, *words):
        env = {**w.env, "PATH": os.path.dirname(CORDON) + ":" + w.env["PATH"]}
        run = subprocess.run([program, *code, *words], env=env, capture_output=True, text=True, timeout=60, cwd=w.home)
        assert run.stderr == "", run.stderr
        return run.stdout.split()

    def offered(*words):
        code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cordon; printf "%s\\n" "${COMPREPLY[@]}"'
        return shell("bash", ["-c", code, "bash", folder + "/cordon.bash", CORDON], *words)

    equal(offered("create", "--level", ""), ["container", "gvisor", "microvm"])
    equal(offered("create", "--level", "g"), ["gvisor"])
    equal(offered("run", "--server", "--level", "mi"), ["microvm"])
    equal(offered("create", "--template", "hos"), ["host"])
    assert "pypi" in offered("create", "--policy", "py"), offered("create", "--policy", "py")
    equal(offered("create", "--volume", "ke"), ["kept:"])
    equal(offered("create", "--secret", "off"), ["offered"])
    assert "--level" in offered("create", "--l"), "options are offered as before"
    equal(offered("create", "--level", "=", "gv"), ["gvisor"])  # as bash splits --level=gv
    equal(offered("volume", "show", "ke"), ["kept"])
    session = w.one("create")
    assert session in offered("exec", session[:4]) and session + ":" in offered("cp", "value", session[:4]), offered("cp", "value", session[:4])
    execution = json.loads(w("exec", "--json", "-d", session, "--", "true").stdout)["id"]
    equal(offered("logs", session, execution[:5]), [execution])
    assert "true" in offered("exec", session, "--", "tru"), "programs behind --"
    assert "value" in offered("cp", "val"), "files of this machine"
    words = ["create", "--template", ""]
    if shutil.which("fish"):
        code = 'source $argv[1]; complete -C (string join " " -- cordon $argv[2..-1])'
        assert "host" in shell("fish", ["-c", code, folder + "/cordon.fish"], *words)
    if shutil.which("zsh"):
        code = ('_describe() { print -l "${(@P)2}" }; _files() { print files }; _command_names() {}; script=$1; shift; words=(cordon "$@"); '
                'CURRENT=$#words; source $script')
        assert any(row.startswith("host:") for row in shell("zsh", ["-f", "-c", code, "zsh", folder + "/_cordon"], *words))
        assert "files" in shell("zsh", ["-f", "-c", code, "zsh", folder + "/_cordon"], "create", "--mcp", "")


def test_top(w):
    name = w.one("create")
    w("exec", "-d", name, "--", "sh", "-c", "while :; do :; done")
    row = next(line for line in w("top", "--once").stdout.decode().splitlines() if line.startswith(name))
    assert float(row.split()[2]) > 1, row  # per cent of a CPU; an idle one has 0


def main():
    if os.geteuid() != 0:
        must = os.environ.get("CORDON_MUST_WORK") == "1"
        print("1..1\n" + ("not ok 1 - needs root" if must else "ok 1 - all # SKIP needs root"))
        return 1 if must else 0
    if STAGE not in os.environ:
        os.environ[STAGE] = "1"
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", "--",
                              "/usr/bin/python3", os.path.abspath(__file__), *sys.argv[1:]])
    tests = [(n[5:], f) for n, f in globals().items() if n.startswith("test_")]
    tests = [t for t in tests if not sys.argv[2:] or t[0] in sys.argv[2:]]
    print(f"1..{len(tests)}")
    failed = 0
    w = World()
    for i, (name, run) in enumerate(tests, 1):
        try:
            if w.server is None or w.server.poll() is not None:
                w.start()
            run(w)
            print(f"ok {i} - {name}")
        except Skip as e:
            must = os.environ.get("CORDON_MUST_WORK") == "1"
            failed += must
            print(f"not ok {i} - {name}: {e}" if must else f"ok {i} - {name} # SKIP {e}")
        except Exception:
            failed += 1
            print("".join("# " + line for line in traceback.format_exc().splitlines(True)))
            print(f"not ok {i} - {name}")
        sys.stdout.flush()
    w.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
