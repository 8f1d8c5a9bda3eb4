#!/usr/bin/python3 -B
"""Goal: new sessions have the machine's packages as they are, a few seconds after they changed, and sessions that run keep what they have.
The machine's /etc, list of packages and cache are copies in a mount namespace of this test, so that nothing of the machine changes.

    test_host_changes.py CORDON [name ...]
"""
import os
import shutil
import subprocess
import sys
import tempfile

from harness import check, equal, run_tests, stays, wait_for

STAGE = "CORDON_TEST_HOST_CHANGES"
DATABASE = "/var/lib/dpkg/status"


def own_machine():
    """Comes back in a mount namespace of our own, with copies of what the tests change."""
    if os.environ.get(STAGE) is None:
        folder = tempfile.mkdtemp(prefix="cordon-etc-", dir="/var/tmp")
        try:
            done = subprocess.run(["unshare", "--mount", "--propagation", "private", "--", sys.executable, "-B", *sys.argv],
                                  env={**os.environ, STAGE: folder}, check=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        sys.exit(done.returncode)
    folder = os.environ[STAGE]
    if os.path.exists(f"{folder}/etc"):  # the harness has started this program again
        return
    os.chmod(folder, 0o755)
    subprocess.run(["cp", "-a", "/etc", f"{folder}/etc"], check=True)
    os.makedirs(f"{folder}/cache")
    os.makedirs("/var/cache/cordon", exist_ok=True)
    shutil.copy2(DATABASE, f"{folder}/status")
    for source, at in ((f"{folder}/etc", "/etc"), (f"{folder}/cache", "/var/cache/cordon"), (f"{folder}/status", DATABASE)):
        subprocess.run(["mount", "--bind", source, at], check=True)


def version(server, name="host"):
    return server.want(200, "GET", f"/v1/templates/{name}")["version"]


def made(server):
    """Versions of "host" by the events."""
    events = server.want(200, "GET", "/v1/events?limit=1000")["events"]
    return [e["data"]["version"] for e in events if e["type"] == "template.added" and e["data"]["name"] == "host"]


def read(server, session, path):
    return server.run(session, f"cat {path} 2> /dev/null || echo none")["stdout"].strip()


def write(path, text):
    """As dpkg does: under another name, and renamed."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".dpkg-new", "w") as f:
        f.write(text)
    os.rename(path + ".dpkg-new", path)


def test_a_package_is_installed(server):
    """With a file in /etc that its programs need, deep in a folder that exists; then again, in place."""
    old = server.create()
    before = version(server)
    write("/etc/fonts/conf.d/99-installed.conf", "first\n")
    write("/etc/matplotlibrc", "backend: first\n")
    wait_for(lambda: version(server) > before, 30, "a new version of host")
    new = server.create()
    equal((read(server, new["id"], "/etc/matplotlibrc"), read(server, new["id"], "/etc/fonts/conf.d/99-installed.conf")), ("backend: first", "first"))
    check(new["template_id"] != old["template_id"], "the session has the version that it was made of")
    check(version(server) in made(server), "an event")
    check(read(server, old["id"], "/etc/matplotlibrc") != "backend: first", "a session that runs keeps what it has")
    equal(server.run(old["id"], "true")["exit_code"], 0, "and goes on")
    before = version(server)
    with open("/etc/fonts/conf.d/99-installed.conf", "w") as f:
        f.write("second\n")
    wait_for(lambda: version(server) > before, 30, "the next one")
    for _ in range(4):  # more than the pool has
        equal(read(server, server.create()["id"], "/etc/fonts/conf.d/99-installed.conf"), "second")
    equal(read(server, new["id"], "/etc/fonts/conf.d/99-installed.conf"), "first")


def test_a_package_without_settings(server):
    """Changes the list of packages only: cells that were made in advance may have started programs of before."""
    before = version(server)
    with open(DATABASE, "a") as f:
        f.write("\n")
    wait_for(lambda: version(server) > before, 30, "a new version")


def test_settings_make_none(server):
    """What sessions do not get is not looked at."""
    before = version(server)
    write("/etc/cordon-test-settings", "secret\n")
    stays(lambda: version(server) == before, 6, "the version")
    equal(read(server, server.create()["id"], "/etc/cordon-test-settings"), "none")


def test_sessions_are_made_meanwhile(server):
    """Whichever keeper is replaced, each request for a session succeeds, and each session has one state of the machine."""
    before = version(server)
    write("/etc/matplotlibrc", "backend: meanwhile\n")
    write("/etc/fonts/conf.d/99-installed.conf", "meanwhile\n")
    seen = set()

    def one():
        session = server.create()["id"]
        seen.add((read(server, session, "/etc/matplotlibrc").endswith("meanwhile"),
                  read(server, session, "/etc/fonts/conf.d/99-installed.conf") == "meanwhile"))
        server.delete(session)
        return version(server) > before

    wait_for(one, 40, "a new version")
    one()
    equal(seen <= {(False, False), (True, True)}, True, f"{seen}")
    check((True, True) in seen, f"{seen}")


if __name__ == "__main__":
    own_machine()
    run_tests(globals(), pool_size=2)
