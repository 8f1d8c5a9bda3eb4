#!/usr/bin/python3 -B
"""cordon run --level microvm: each command has a virtual machine of its own, which boots for it.

The program runs itself again in a network namespace with one origin at a public address, and a hosts file with its name."""
import fcntl
import json
import os
import pathlib
import pty
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
import slim_root  # noqa: E402
from checks import Skip, check, equal, has, named_tests, run_tap, wait_for  # noqa: E402

CORDON = os.path.abspath(sys.argv[1])
ORIGIN = "93.184.215.14"
INSIDE = "CORDON_TEST_INSIDE"
PATIENCE = 180


def command(*argv, options=()):
    return [CORDON, "run", "--level", "microvm", "--state-dir", str(guest_kernel.state(CORDON)), "--template", str(slim_root.state(CORDON)),
            "--memory", "256M", *options, "--", *argv]


def run(*argv, options=(), stdin=""):
    with tempfile.NamedTemporaryFile("r") as result:
        done = subprocess.run(command(*argv, options=[*options, "--result", result.name]), input=stdin, capture_output=True, text=True,
                              timeout=PATIENCE)
        return done, json.loads(result.read() or "{}")


FACTS = """
echo "kernel $(uname -r)"; echo "user $(id -u) $(id -un)"; echo "host $(hostname)"
echo "memory $(awk '/MemTotal/ {print $2}' /proc/meminfo)"; echo "cpus $(nproc)"
echo "input $(cat)"; echo on stderr >&2
echo x > /home/user/file && echo "wrote $(cat /home/user/file)"
python3 - <<'P'
import os, signal
n = 0
try:
    while n < 100:
        if os.fork() == 0:
            signal.pause()
        n += 1
except OSError as e:
    print("processes", n < 40, e.errno)
try:
    with open("/home/user/big", "wb") as f:
        while True:
            f.write(bytes(1 << 20))
            f.flush()
except OSError as e:
    print("disk", e.errno)
P
exit 7
"""


def test_a_command_has_a_machine_of_its_own():
    done, result = run("bash", "-c", FACTS, options=["--pids", "40", "--disk", "16M", "--hostname", "guest", "--cpus", "2"], stdin="some text")
    equal(done.returncode, 7, f"its exit code; stderr: {done.stderr}")
    facts = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    check(facts["kernel"] != os.uname().release and "cloud" in facts["kernel"], f"its kernel: {facts['kernel']}")
    equal((facts["user"], facts["host"], facts["input"], facts["wrote"]), ("1000 user", "guest", "some text", "x"), "what it has")
    equal((facts["processes"], facts["disk"]), ("True 11", "28"), "its limits")
    check(150000 < int(facts["memory"]) < 256 * 1024, f"its memory: {facts['memory']} KiB")
    equal(facts["cpus"], str(min(2, os.cpu_count())), "its processors")
    equal(done.stderr, "on stderr\ncordon: limit reached: pids, disk\n", "its stderr, and the limits that it tried")
    equal((result["level"], result["exit_code"], result["state"]), ("microvm", 7, "exited"), "the result")


def test_locked_and_read_only():
    script = "id -u; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; touch /tmp/a ~/b /etc/c"
    done, _ = run("sh", "-c", script, options=["--profile", "locked", "--read-only"])
    equal(done.stdout.split(), ["1000", "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"], done.stderr)
    has(done.stderr, "/etc/c': Read-only file system")
    check("/tmp" not in done.stderr and "/home" not in done.stderr, done.stderr)


def test_what_changed_is_listed():
    """By the guest, also what a program leaves behind that the command started; in the profile locked as in the other."""
    for options, path in ((["--user", "root"], "/opt/new"), (["--profile", "locked"], "/home/user/new")):
        done, _ = run("sh", "-c", f"(sleep 1000 &); echo text > {path}; echo own output; exit 3", options=["--diff", *options])
        equal((done.returncode, done.stdout, done.stderr), (3, f"own output\nadded    -rw-r--r--          5 {path}\n", ""), str(options))


def test_a_command_that_takes_too_much_memory():
    done, result = run("python3", "-c", "x = []\nwhile True: x.append(bytearray(b'x' * (4 << 20)))")
    equal((done.returncode, result["limit"]), (137, "memory"), f"its end; stderr: {done.stderr}")


def test_a_terminal():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    said = b""
    with subprocess.Popen(command("bash", "-c", "tty; stty size; read line; echo got $line", options=["--tty"]), stdin=slave, stdout=slave,
                          stderr=slave, start_new_session=True) as process:
        os.close(slave)

        def read():
            nonlocal said
            try:
                said += os.read(master, 4096)
            except OSError:
                said += b"(end)"
            return b"33 99\r\n" in said or b"(end)" in said
        wait_for(read, PATIENCE, "the size")
        os.write(master, b"typed\n")
        wait_for(lambda: read() and b"got typed\r\n" in said or b"(end)" in said, PATIENCE, "the answer")
        equal(process.wait(PATIENCE), 0, "its exit code")
    text = said.decode().replace("\r", "")
    for part in ("/dev/pts/0\n", "33 99\n", "got typed\n"):
        has(text, part, "the terminal")


# Binds before the address is there: IP_FREEBIND.
SERVER = f"""
import http.server, socket
class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the origin\\n" * 1000)
class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IP, 15, 1)
        self.socket.bind(self.server_address)
server = Server(("{ORIGIN}", 80), Origin)
print("listens", flush=True)
server.serve_forever()
"""


def start_origin():
    """A server in a network namespace of its own, behind a pair of interfaces."""
    process = subprocess.Popen(["unshare", "-n", sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    equal(process.stdout.readline(), "listens\n", "the origin")
    there = f"nsenter -t {process.pid} -n ip"
    subprocess.run(f"ip link add near type veth peer name far netns {process.pid} && ip addr add 93.184.215.1/24 dev near && ip link set near up && "
                   f"{there} link set lo up && {there} addr add {ORIGIN}/24 dev far && {there} link set far up", shell=True, check=True)
    return process


def test_the_network_is_what_was_allowed():
    server = start_origin()
    asks = ("curl -sS -m 60 http://origin.example/ | sha256sum; curl -s -m 60 -o /dev/null -w '%{http_code}\\n' http://other.example/; "
            "curl -s -m 60 http://93.184.215.14:8080/")
    with tempfile.NamedTemporaryFile("r") as log:
        done, _ = run("bash", "-c", asks, options=["--allow", "origin.example", "--net-log", log.name])
        records = [json.loads(line) for line in log]
    server.kill()
    server.wait()
    lines = done.stdout.split("\n")
    want = subprocess.run("yes 'from the origin' | head -1000 | sha256sum", shell=True, capture_output=True, text=True).stdout.strip()
    equal(lines[0], want, f"the page; stderr: {done.stderr}")
    check(lines[1] in ("403", "000"), f"a name that is not allowed: {lines}")
    has(lines[2], "is not allowed", "an address that is not allowed")
    has(json.dumps(records), "origin.example", "the records")


def engine_of(process):
    """The QEMU below a cordon run."""
    def find():
        tree = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                tree[int(entry.name)] = (int(stat[1]), (entry / "comm").read_text().strip())
            except (OSError, IndexError):
                continue
        for pid, (parent, name) in tree.items():
            above = pid
            while above in tree and above != process.pid:
                above = tree[above][0]
            if name.startswith("qemu-system") and above == process.pid:
                return pid
        return None
    return wait_for(find, PATIENCE, "QEMU")


def test_an_engine_that_is_killed_is_told():
    with subprocess.Popen(command("bash", "-c", "echo runs; exec sleep 1000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        equal(process.stdout.readline(), "runs\n", "the command")
        os.kill(engine_of(process), signal.SIGKILL)
        equal(process.wait(PATIENCE), 125, "the exit code")
        has(process.stderr.read(), "engine exited", "the reason")


def test_what_cannot_be_done_is_refused():
    for option, why in ((["--profile", "locked", "--user", "root"], "--user root"), (["--memory", "64M"], "at least 128M"),
                        (["--mount", "/tmp:/mnt"], "--mount"), (["--template", "/etc/passwd"], "erofs"), (["--template", "/nowhere"], "/nowhere"),
                        (["--state-dir", "/nowhere"], "cordon level install microvm")):
        done, result = run("true", options=option)
        equal((done.returncode, done.stdout), (125, ""), f"{option}: {done.stderr}")
        has(done.stderr, why, str(option))


def test_a_machine_whose_image_has_no_room_is_told_at_once():
    """Without an image of the machine's files, and without room for one: nothing is begun."""
    words = " ".join(map(shlex.quote, [CORDON, "run", "--level", "microvm", "--state-dir", str(guest_kernel.state(CORDON)), "--", "true"]))
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mkdir -p /var/cache/cordon && mount -t tmpfs -o size=8m,mode=700 none /var/cache/cordon && {words}"],
                          capture_output=True, text=True, timeout=PATIENCE)
    equal((done.returncode, done.stdout), (125, ""), done.stderr)
    has(done.stderr, "there is no room for that in the cache directory", "the reason")


def test_who_waits_for_an_image_is_told():
    """On a terminal, before it is made: of gigabytes it takes minutes."""
    words = " ".join(map(shlex.quote, [CORDON, "run", "--level", "microvm", "--state-dir", str(guest_kernel.state(CORDON)), "--", "true"]))
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("unshare", ["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c",
                              f"mkdir -p /var/cache/cordon && mount -t tmpfs -o size=90%,mode=700 none /var/cache/cordon && mount -t proc proc /proc && {words}"])
    said = b""
    try:
        while b"making the root image of this machine, " not in said:
            said += os.read(fd, 4096)
    except OSError:
        pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    has(said.decode(), "making the root image of this machine, ", "told")


def enter():
    """Runs this program again where the origin has its address."""
    guest_kernel.state(CORDON)  # downloaded now: there is no network there
    hosts = tempfile.NamedTemporaryFile("w")
    hosts.write(f"{ORIGIN} origin.example\n{ORIGIN} other.example\n127.0.0.1 localhost\n")
    hosts.flush()
    script = f"ip link set lo up && mount --bind {hosts.name} /etc/hosts && exec \"$@\""
    return subprocess.call(["unshare", "-n", "-m", "sh", "-c", script, "sh", sys.executable, "-B", *sys.argv], env={**os.environ, INSIDE: "1"})


if __name__ == "__main__":
    if not shutil.which("qemu-system-x86_64"):
        sys.exit(run_tap([("all", lambda: (_ for _ in ()).throw(Skip("there is no qemu-system-x86_64")))]))
    sys.exit(run_tap(named_tests(globals(), sys.argv[2:])) if INSIDE in os.environ else enter())
