#!/usr/bin/python3 -B
"""Goal: cordon-egress is there whenever the server is, as a user of its own, and goes with it.

    test_serve_egress.py CORDON [name ...]
"""
import os
import subprocess
import sys
import tempfile

import harness
from harness import USER, Server, check, comm, equal, has, run_tests, wait_for

KILLS = True


def status(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return next(line.split()[1:] for line in f if line.startswith(name + ":"))


def is_alive(pid):
    return comm(pid) == "cordon-egress" and status(pid, "State")[0] != "Z"


def joined(server):
    """How often cordond got a channel to it."""
    return server.log().count('msg="cordon-egress connected"')


def test_it_is_another_user_and_may_nothing(server):
    pid = server.pid("cordon-egress")
    wait_for(lambda: status(pid, "Seccomp") == ["2"], 10, "its confinement")
    equal(set(status(pid, "Uid")), {str(USER + 1)}, "its user")
    equal(set(status(pid, "Gid")), {str(USER + 1)}, "its group")
    equal(status(pid, "Groups"), [], "further groups")
    equal(status(pid, "NoNewPrivs"), ["1"])
    equal(status(pid, "CapEff"), ["0" * 16])
    with open(f"/proc/{pid}/environ", "rb") as f:
        equal(f.read(), b"", "its environment")
    for fd in os.listdir(f"/proc/{pid}/fd"):
        at = os.readlink(f"/proc/{pid}/fd/{fd}")
        check(int(fd) < 3 or not at.startswith("/"), f"it has {at} open")


def test_it_comes_back(server):
    before = joined(server)
    old = server.kill("cordon-egress")
    wait_for(lambda: server.pid("cordon-egress") not in (None, old), 10, "another one")
    wait_for(lambda: joined(server) > before, 10, "a new channel")


def test_it_outlives_cordond(server):
    before, pid = joined(server), server.pid("cordon-egress")
    old = server.kill("cordond")
    wait_for(lambda: server.pid("cordond") not in (None, old), 10, "another cordond")
    wait_for(lambda: joined(server) > before, 10, "a new channel")
    check(is_alive(pid), "it died with cordond")
    server.wait_ready()


def test_it_goes_with_the_supervisor():
    for how in ("kill", "terminate"):
        with Server(pool_size=0) as own:
            pid = own.pid("cordon-egress")
            getattr(own.process, how)()
            own.process.wait(20)
            wait_for(lambda pid=pid: not is_alive(pid), 10, f"its end after {how}")
            own.start()


def test_settings_that_cannot_be_are_said_at_once():
    def refused(*flags):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
            os.chmod(d, 0o755)  # the server's user enters it
            done = subprocess.run(
                [harness.PROGRAM, "serve", f"--state={d}/s", f"--run={d}/r", "--listen=127.0.0.1:0", *flags],
                capture_output=True, timeout=30, text=True,
            )
        equal((done.returncode, done.stdout), (1, ""), f"{flags}: {done.stderr}")
        return done.stderr

    has(refused(f"--user={USER}", "--egress-user=no-such-user"), "useradd --system no-such-user")
    has(refused(f"--user={USER}", "--egress-user=root"), "egress_user")
    has(refused(f"--user={USER}", f"--egress-user={USER}"), "egress_user")
    has(refused(f"--user={USER}", "--egress-ca=/nowhere.pem"), "egress_ca: /nowhere.pem")


def test_the_authority_is_for_root_only(server):
    path = "/var/cache/cordon/authority.pem"
    st = os.stat(path)
    equal((st.st_mode & 0o777, st.st_uid), (0o600, 0), path)
    with open(path, encoding="ascii") as f:
        text = f.read()
    has(text, "PRIVATE KEY")
    session = server.create(network={"version": 1, "rules": ["nothing.example"]})["id"]
    got = server.run(session, "cat /etc/ssl/certs/cordon.pem; grep -rl 'PRIVATE KEY' /etc/ssl/certs; true")["stdout"]
    cert = text[text.index("-----BEGIN CERTIFICATE"):]
    equal(got.strip(), cert.strip(), "what a cell sees of it")


def test_new_hosts_reach_it():
    """In a mount namespace of their own, which tap's isolate() made."""
    with tempfile.NamedTemporaryFile("w", dir="/var/tmp", suffix=".hosts") as f:
        os.chmod(f.name, 0o644)
        f.write("127.0.0.1 localhost\n")
        f.flush()
        subprocess.run(["mount", "--bind", f.name, "/etc/hosts"], check=True, timeout=20)
        try:
            with Server(pool_size=0) as own:
                session = own.create(network={"version": 1, "rules": ["late.example"]})["id"]
                ask = "curl -s -m 5 -o - -w ' %{http_code}' http://late.example/"
                has(own.run(session, ask)["stdout"], " 502", "before")
                f.write("127.0.0.1 late.example\n")
                f.flush()
                wait_for(lambda: "loopback" in own.run(session, ask)["stdout"], 20, "the use of the new hosts file", 0.5)
        finally:
            subprocess.run(["umount", "/etc/hosts"], check=True, timeout=20)


if __name__ == "__main__":
    sys.exit(run_tests(globals(), pool_size=0))
