#!/usr/bin/python3 -B
"""Goal: `make down` ends what `make up` started, and no other server; with PURGE=1 nothing of it is left.

    test_up_down.py CORDON [name ...]
"""
import os
import subprocess
import tempfile

import harness
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
        check(not os.path.exists(f"{d}/state") and not os.path.exists(f"{d}/run"), "its folders are left")
        equal(down("1"), f"no server with the folder {d}/state runs\n", "again")
        words[3] = f"--listen={server.url.split('//')[1]}"  # the other one has it
        failed = subprocess.run([f"{TOOLS}/up", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        check(failed.returncode != 0 and "in use" in failed.stderr, f"{failed.stdout}{failed.stderr}")
        equal([n for n in os.listdir(d) if n != "log"], [], "folders of a server that did not start")
    equal(server.run(other, "echo on")["stdout"], "on\n", "another server")


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
