#!/usr/bin/python3 -B
"""Goal: a backup made and restored by the commands of doc/operate.md has everything that the page says.

    test_backup.py CORDON [name ...]

The two tar commands are read from the page. Only the folders in them are others.
"""
import os
import re
import shutil
import subprocess
import tempfile

from harness import Server, check, equal, has, run_tests

KILLS = True
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../doc/operate.md")
SMALL = {"limits": {"disk": "64M"}}


def commands():
    """What makes a backup, and what restores it."""
    with open(PAGE, encoding="utf-8") as f:
        section = re.search(r"^## Backup and restore$(.*?)^## ", f.read(), re.M | re.S)[1]
    (made,), (restored,) = (re.findall(rf"^(?:[^`\n]*`)?(tar -C [^`\n]* -{flag}\w*f [^`\n]*)", section, re.M) for flag in ("c", "x"))
    return made, restored


def follow(line, folder, archive):
    line = line.replace("/var/lib", folder).replace("cordon-backup.tar", archive)
    line = re.sub(r"\bcordon cordon-notary$", "state state-notary", line)
    subprocess.run(["/bin/sh", "-c", line], check=True, timeout=120)


def fill(server):
    """One of each thing that the page names. Returns the sessions: persistent, in memory only."""
    kept, lost = server.create(persist=True, idle_timeout="1h", **SMALL)["id"], server.create(timeout="1h")["id"]
    server.run(kept, "echo kept >a; sync")
    server.run(lost, "echo shot >~/b; python3 -c 'import os; os.setxattr(os.path.expanduser(\"~/b\"), \"user.note\", b\"noted\")'")
    replaced = server.run(lost, "ls -A /etc/skel | wc -l; rm -r /etc/skel && mkdir /etc/skel && touch /etc/skel/new", user="root")
    check(replaced["exit_code"] == 0 and int(replaced["stdout"]) > 0, f"{replaced}")
    server.want(201, "POST", f"/v1/sessions/{lost}/snapshots", {"name": "shot"}, timeout=60)
    server.want(201, "POST", "/v1/volumes", {"name": "data"})
    with_volume = server.create(volumes=[{"name": "data", "path": "/v"}])["id"]
    server.run(with_volume, "echo data >/v/c; sync")
    server.delete(with_volume)
    server.want(201, "POST", "/v1/secrets", {"name": "token", "value": "s3cret-value-of-a-backup"})
    server.want(201, "POST", "/v1/tenants", {"name": "other"})
    key = server.want(201, "POST", "/v1/keys", {"name": "second", "scopes": ["sessions"]})["key"]
    return kept, lost, key


def test_a_backup_has_everything(_):
    made, restored = commands()
    with tempfile.TemporaryDirectory(prefix="cordon-backup-", dir="/var/tmp") as there:
        os.chmod(there, 0o755)
        archive = os.path.join(there, "archive.tar")
        server = Server()
        try:
            kept, lost, key = fill(server)
            program = server.spawn(lost, "sleep 1000")
            server.stop()
            follow(made, server.folder, archive)
            server.start()
            equal(server.execution(program)["state"], "running", "sessions continue while the server is stopped")
            server.delete(lost)
            server.delete(kept)
            server.close()
        finally:
            server.destroy()
        follow(restored, there, archive)
        server = Server(folder=there)
        try:
            equal(server.get(lost)["state"], "ended", "a session that lived in memory only")
            equal(server.run(kept, "cat a")["stdout"], "kept\n", "a persistent session")
            child = server.create(template="shot", volumes=[{"name": "data", "path": "/v"}],
                                  secrets=[{"name": "token", "as": "file", "path": "/run/secrets/token"}])["id"]
            equal(server.run(child, "cat ~/b /v/c /run/secrets/token")["stdout"].split("\n")[:2], ["shot", "data"])
            equal(server.run(child, "ls -A /etc/skel")["stdout"], "new\n", "a directory in place of one of the template")
            noted = "import os; print(os.getxattr(os.path.expanduser('~/b'), 'user.note'))"
            equal(server.run(child, ["python3", "-c", noted])["stdout"], "b'noted'\n", "an attribute of a file")
            equal(server.want(200, "GET", "/v1/sessions", key=key)["sessions"] != [], True, "a key")
            has(str(server.want(200, "GET", "/v1/tenants")), "other")
            for one in (child, kept):
                server.delete(one)
            server.want(204, "DELETE", "/v1/volumes/data")
            server.close()
        finally:
            server.destroy()
            shutil.rmtree(os.path.join(there, "state"), ignore_errors=True)


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
