#!/usr/bin/python3 -B
"""Goal: a session can have a read-only root directory, by REST, by the command line and by E2B's metadata; /tmp, /run and the
home stay writable, and a cell of the pool is never used for it.

    test_read_only.py CORDON [name ...]
"""
import subprocess

from harness import equal, has, run_tests
from leveled import Leveled
from level import LEVEL, differs  # after harness, which knows where it is

PLACES = "for d in /etc /usr /opt /var/lib; do touch $d/x 2>/dev/null && echo $d; done; " \
    "for d in /tmp /run /dev/shm /home/user; do touch $d/x || exit 1; done; echo done"


def places(server, session_id):
    return server.run(session_id, PLACES, user="root")["stdout"].split()


def test_by_rest(server):
    session = server.create(root="read-only")
    equal(session["root"], "read-only")
    equal(places(server, session["id"]), ["done"])
    other = server.create()
    equal(other["root"], "writable")
    equal(places(server, other["id"]), ["/etc", "/usr", "/opt", "/var/lib", "done"])
    server.refused(400, "invalid", "POST", "/v1/sessions", {"root": "none"}, "root")


def test_by_the_command_line(server):
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"}
    done = subprocess.run([server.program, "create", "--read-only"], env=env, capture_output=True, timeout=40)
    session = done.stdout.decode().strip()
    equal(places(server, session), ["done"], done.stderr.decode())
    equal(server.get(session)["level"], LEVEL)


def test_by_metadata_of_e2b(server):
    body = {"templateID": "base", "metadata": {"cordon.root": "read-only"}}
    made = server.want(201, "POST", "/v2/sandboxes", body)
    equal(places(server, made["sandboxID"]), ["done"])
    equal(server.get(made["sandboxID"])["level"], LEVEL)
    for key, value in (("root", "none"), ("storage", "tape"), ("disk", "big"), ("persist", "maybe")):
        answer = server.want(400, "POST", "/v2/sandboxes", {"templateID": "base", "metadata": {f"cordon.{key}": value}})
        has(answer["message"], f"cordon.{key}")


def test_what_does_not_go_together(server):
    if differs("storage on disk"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"storage": "memory", "persist": True}, "persist", LEVEL)
    else:
        server.refused(400, "invalid", "POST", "/v1/sessions", {"storage": "memory", "persist": True}, "needs storage disk")
    for body, part in (({"keep": "1d"}, "only with persist"),
                       ({"limits": {"disk_read_bps": "1M"}}, "only with storage disk")):
        server.refused(400, "invalid", "POST", "/v1/sessions", body, part)


if __name__ == "__main__":
    run_tests(globals(), Leveled, pool_size=2)
