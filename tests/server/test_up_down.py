#!/usr/bin/python3 -B
"""Goal: `make down` ends what `make up` started, and no other server; with PURGE=1 nothing of it is left.

    test_up_down.py CORDON [name ...]
"""
import os
import pty
import subprocess
import tempfile
import textwrap

import harness
import tap
from harness import check, equal, free_port, has, run_tests, wait_for

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")


def test_up_and_down(server):
    """server: another one on the same machine, which goes on."""
    other = server.create()["id"]
    build = os.path.dirname(os.path.abspath(harness.PROGRAM))
    with tempfile.TemporaryDirectory(prefix="cordon-up-", dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        words = [build, f"--state={d}/state", f"--run={d}/run", f"--listen=127.0.0.1:{free_port()}", f"--user={harness.USER}",
                 "--pool-size=1"]
        url = "http://" + words[3].split("=")[1]

        def down(purge=""):
            done = subprocess.run([f"{TOOLS}/down", *words], env={**os.environ, "PURGE": purge}, capture_output=True, text=True,
                                  timeout=60)
            equal(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        def cells():
            return set(os.listdir(f"{d}/run/cells"))

        for purge in ("", "1"):
            with open(f"{d}/log", "w+") as log:
                up = subprocess.Popen([f"{TOOLS}/up", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                wait_for(lambda: "Cordon is up." in open(f"{d}/log").read(), 40, "the server")
            with open(f"{d}/state/first.key") as f:
                env = {**os.environ, "CORDON_SERVER": url, "CORDON_API_KEY": f.read().strip()}
            made = subprocess.run([harness.PROGRAM, "create"], env=env, capture_output=True, text=True, check=True).stdout.strip()
            said = down(purge)
            has(said, "the server has ended", "what it says")
            wait_for(lambda: up.poll() is not None, 10, "the end of make up")
            if not purge:
                check(f"{made}.sock" in cells(), "the session has ended with the server")
        check(not any(os.path.exists(f"{d}/{name}") for name in ("state", "state-notary", "run")), f"folders are left: {os.listdir(d)}")
        equal(down("1"), f"no server with the folder {d}/state runs\n", "again")
        words[3] = f"--listen={server.url.split('//')[1]}"  # the other one has it
        failed = subprocess.run([f"{TOOLS}/up", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        check(failed.returncode != 0 and "in use" in failed.stderr, f"{failed.stdout}{failed.stderr}")
        equal([n for n in os.listdir(d) if n != "log"], [], "folders of a server that did not start")
    equal(server.run(other, "echo on")["stdout"], "on\n", "another server")


def test_up_in_the_background(server):
    """The box, the prompt again, a log; nothing holds the terminal. What a server that cannot start says is shown."""
    build = os.path.dirname(os.path.abspath(harness.PROGRAM))
    with tempfile.TemporaryDirectory(prefix="cordon-up-", dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        words = [build, f"--state={d}/state", f"--run={d}/run", f"--listen=127.0.0.1:{free_port()}", f"--user={harness.USER}", "--pool-size=0"]

        def tool(name, *more, **env):
            return subprocess.run([f"{TOOLS}/{name}", *words, *more], env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60)

        up = tool("up", DETACH="1")  # returns, although its pipes would be held open by a child that kept them
        equal(up.returncode, 0, up.stdout + up.stderr)
        has(up.stdout, "Cordon is up.")
        has(up.stdout, f"The server runs in the background. Its log is {d}/state.log.")
        if "cordon level install" in up.stdout:
            has(up.stdout, f"make up ARGS='{' '.join(words[1:])}' DETACH=1\n", "the same server again")
        # The one line that brings a user of E2B to its open network.
        has(up.stdout, "E2B's are open. For that default: make up ARGS='--network-default internet'")
        check("Ctrl-C" not in up.stdout and "level=" not in up.stdout + up.stderr, up.stdout + up.stderr)
        equal(os.stat(f"{d}/state.log").st_mode & 0o777, 0o600)
        has(open(f"{d}/state.log").read(), "level=info")
        check("answers at" in tool("up", DETACH="1").stderr, "a second one")
        equal(tool("down", PURGE="1").returncode, 0)
        equal([n for n in os.listdir(d) if n != "log"], [], "what is left")
        words[3] = f"--listen={server.url.split('//')[1]}"
        failed = tool("up", DETACH="1")
        check(failed.returncode != 0 and "in use" in failed.stderr, failed.stderr)
        equal(os.listdir(d), [], "what a server that did not start leaves")


def test_the_end_of_the_terminal(server):
    """Closing the terminal of make up ends the server, and Ctrl-C does; sessions continue. The box has the levels."""
    build = os.path.dirname(os.path.abspath(harness.PROGRAM))
    with tempfile.TemporaryDirectory(prefix="cordon-up-", dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        words = [f"--state={d}/state", f"--run={d}/run", f"--listen=127.0.0.1:{free_port()}", f"--user={harness.USER}", "--pool-size=0"]

        def servers():
            words_of = {p: open(f"/proc/{p}/cmdline", "rb").read().split(b"\0") for p in tap.processes() if os.path.exists(f"/proc/{p}")}
            return [p for p, argv in words_of.items() if argv[1:2] == [b"serve"] and f"--state={d}/state".encode() in argv]

        made = None
        for way in ("close", "ctrl-c"):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(f"{TOOLS}/up", ["up", build, *words], {**os.environ, "CORDON_UP_LIST": f"{d}/list"})
            said = b""
            while b"Its log follows:" not in said:
                said += os.read(terminal, 4096)
            text = said.decode().replace("\r\n", "\n")
            levels = subprocess.run([harness.PROGRAM, "level", "--state-dir", f"{d}/state"], capture_output=True, text=True, check=True).stdout
            has(text, "Levels (doc/levels.md):\n" + textwrap.indent(levels, "  "))
            equal("level install gvisor|microvm --state-dir" in text, "cordon level install" in levels, "the command for other levels")
            if "cordon level install" in levels:
                has(text, f"--state-dir {d}/state && make down ARGS='{' '.join(words)}' && make up ARGS='{' '.join(words)}'\n", "the same server again")
            equal(len(servers()), 1, "servers")
            env = {**os.environ, "CORDON_SERVER": "http://" + words[2].split("=")[1], "CORDON_API_KEY": open(f"{d}/state/first.key").read().strip()}
            if made is None:
                made = subprocess.run([harness.PROGRAM, "create"], env=env, capture_output=True, text=True, check=True).stdout.strip()
            equal(subprocess.run([harness.PROGRAM, "exec", made, "--", "echo", "on"], env=env, capture_output=True, text=True).stdout, "on\n", "the session")
            if way == "ctrl-c":
                os.write(terminal, b"\x03")
                wait_for(lambda: not servers(), 20, "the end of the server after Ctrl-C")
            os.close(terminal)
            wait_for(lambda: not servers(), 20, f"the end of the server: {way}")
            os.waitpid(pid, 0)
        env = {**os.environ, "PURGE": "1", "CORDON_UP_LIST": f"{d}/list"}
        equal(subprocess.run([f"{TOOLS}/down", build, *words], env=env, capture_output=True, timeout=60).returncode, 0)


def test_users_stay_while_another_server_may_use_them(server):
    build = os.path.dirname(os.path.abspath(harness.PROGRAM))
    user = f"cordon-t{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="cordon-up-", dir="/var/tmp") as d:
        listed, other = f"{d}/list", f"{d}/other"
        os.mkdir(other)
        words = [build, f"--state={d}/state", f"--run={d}/run", f"--listen=127.0.0.1:{free_port()}", f"--user={harness.USER}"]

        def purge():
            done = subprocess.run([f"{TOOLS}/down", *words], env={**os.environ, "PURGE": "1", "CORDON_UP_LIST": listed},
                                  capture_output=True, text=True, timeout=60)
            equal(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        def exists():
            return subprocess.run(["getent", "passwd", user], capture_output=True, check=False).returncode == 0

        subprocess.run(["useradd", "--system", "--no-create-home", user], check=True, capture_output=True)
        try:
            with open(listed, "w") as f:
                f.write(f"user {user}\nserver {d}/state\nserver {other}\n")
            has(purge(), f"the system users stay: {other} uses them")
            check(exists(), "the users of a stopped server are gone")
            equal(open(listed).read(), f"user {user}\nserver {other}\n", "the list")
            os.rmdir(other)
            has(purge(), f"removed the user {user}")
            check(not exists() and not os.path.exists(listed), "the user, or the list, is left")
        finally:
            if exists():
                subprocess.run(["userdel", user], check=True)


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
