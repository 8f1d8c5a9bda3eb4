#!/usr/bin/python3 -B
"""Goal: templates are data. The operator imports a directory, changes and removes it while the server runs;
sessions keep the version that they were made from over removal, restart and kill -9; what is not a directory of
root's directly in template_dir is refused by the keeper.

    test_templates.py CORDON [name ...]
"""
import os
import shutil
import subprocess
import threading
import time

import harness
from harness import Server, check, equal, has, run_tests, wait_for
from rows import database, number
from tree import make_tree

KILLS = True


def directory(server, name):
    return os.path.join(server.state, "templates", name)


def add(server, name, tree=None, status=201, **more):
    body = {"name": name, "root": {"kind": "layers", "layers": [name if tree is None else tree]}, **more}
    return server.want(status, "POST", "/v1/templates", body)


def rows(server, name):
    """Versions that the operator sees."""
    return [t for t in server.want(200, "GET", "/v1/templates")["templates"] if t["name"] == name]


def out(server, session, command, **more):
    done = server.run(session, command, **more)
    equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
    return done["stdout"]


def cli(server, *words, code=0):
    done = subprocess.run([server.program, *words], capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    equal(done.returncode, code, f"{words}: {done.stderr.decode()}")
    return done.stdout.decode() + done.stderr.decode()


def test_the_host_is_a_row(server):
    (host,) = rows(server, "host")
    equal((host["current"], host["version"], host["owner"], host["level"]), (True, 1, None, "container"))
    equal(host["root"], {"kind": "host", "layers": []})
    equal(host["layers"][:2], ["/", "/usr"])
    session = server.create()
    equal((session["template"], session["level"]), ("host", "container"))
    equal(number(server, "SELECT count(*) FROM session WHERE id = ? AND template_id = ?", session["id"], host["id"]), 1)
    server.refused(409, "conflict", "DELETE", "/v1/templates/host", None, "part of the server")
    server.refused(404, "not_found", "DELETE", "/v1/templates/nosuch")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "nosuch"}, "nosuch")
    server.delete(session["id"])


def test_a_user_that_does_not_exist(server):
    """It is told when the template is added, not by the first command of a session."""
    make_tree(directory(server, "whose"))
    body = {"name": "whose", "root": {"kind": "layers", "layers": ["whose"]}}
    server.refused(400, "invalid", "POST", "/v1/templates", {**body, "user": "nobody_here"}, "nobody_here", "etc/passwd")
    equal(rows(server, "whose"), [], "added all the same")
    with open(os.path.join(directory(server, "whose"), "etc/passwd")) as f:
        kept = f.read()
    with open(os.path.join(directory(server, "whose"), "etc/passwd"), "w") as f:
        f.write("root:x:0:0::/:/bin/sh\n")
    server.refused(400, "invalid", "POST", "/v1/templates", body, "no user named 'user'")
    add(server, "whose", user="root")
    with open(os.path.join(directory(server, "whose"), "etc/passwd"), "w") as f:
        f.write(kept)
    server.want(204, "DELETE", "/v1/templates/whose")


def test_import_and_use(server):
    make_tree(directory(server, "tiny"))
    got = add(server, "tiny", env={"WHO": "tree", "BOTH": "template"}, workdir="/etc")
    equal((got["version"], got["current"], got["sessions"]), (1, True, 0))
    equal(got["root"], {"kind": "layers", "layers": ["tiny"]})
    for _ in range(2):
        session = server.create(template="tiny", env={"BOTH": "session"})["id"]
        equal(out(server, session, "cat mark; pwd; echo $WHO $BOTH; id -u"), "tiny/etc\ntree session\n1000\n")
        equal(server.run(session, "test -e /usr/bin/python3 || test -e /usr/lib")["exit_code"], 1, "nothing of the machine's /usr")
        equal(out(server, session, "echo x >/tmp/new && pwd", cwd="/tmp", user="root"), "/tmp\n")
        changed = server.want(200, "GET", f"/v1/sessions/{session}/diff")["changes"]
        check(any(c["path"] == "/tmp/new" for c in changed), f"not in the diff: {changed}")
        server.delete(session)
    check(not os.path.exists(os.path.join(directory(server, "tiny"), "tmp/new")), "the tree was written to")
    equal(out(server, (s := server.create()["id"]), "test -e /usr/bin/env && echo host"), "host\n")
    server.delete(s)


def test_the_pool_is_per_template(server):
    """Demand makes cells of this template ready; those of the default are untouched."""
    make_tree(directory(server, "warm"))
    add(server, "warm")

    def warm():
        session = server.create(template="warm")["id"]
        equal(out(server, session, "cat /etc/mark"), "tiny")
        server.delete(session)
        return rows(server, "warm")[0]["pool"]["hits"] > 0

    host = rows(server, "host")[0]["pool"]["hits"]
    wait_for(warm, 20, "a session of it from its pool")
    equal(rows(server, "host")[0]["pool"]["hits"], host, "hits of the host's")
    server.want(204, "DELETE", "/v1/templates/warm")
    wait_for(lambda: not rows(server, "warm"), 10, "the end of its version")


def test_by_e2b(server):
    key = {"X-API-Key": server.key}
    box = server.want(201, "POST", "/v2/sandboxes", {"templateID": "TINY", "timeout": 60}, headers=key)
    server.ids.add(box["sandboxID"])
    equal((box["templateID"], box["alias"]), ("tiny", "tiny"))
    equal(out(server, box["sandboxID"], "cat /etc/mark"), "tiny")
    listed = {t["templateID"]: t for t in server.want(200, "GET", "/templates", headers=key)}
    check({"base", "tiny"} <= set(listed), f"listed: {list(listed)}")
    equal(server.want(200, "GET", "/templates/aliases/tiny", headers=key), {"templateID": "tiny", "public": True})
    found = server.want(200, "GET", "/v2/sandboxes?template=tiny", headers=key)
    equal([b["sandboxID"] for b in found], [box["sandboxID"]])
    base = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}, headers=key)
    equal(server.get(base["sandboxID"])["template"], "host")
    server.refused(404, "not_found", "GET", "/v1/templates/base")
    for b in (box, base):
        server.ids.add(b["sandboxID"])
        server.delete(b["sandboxID"])


def test_by_the_command_line(server):
    tree = make_tree(directory(server, "cli-tree"), "by cli")
    equal(cli(server, "template", "import", "--name", "cli", "--user", "root", "--env", "A=b", tree).strip(), "cli")
    has(cli(server, "template", "ls"), "cli ")
    has(cli(server, "template", "show", "cli"), '"cli-tree"')
    session = cli(server, "create", "--template", "cli").strip()
    server.ids.add(session)
    equal(cli(server, "exec", session, "--", "sh", "-c", "cat /etc/mark; echo $A; id -u"), "by clib\n0\n")
    cli(server, "template", "rm", "cli")
    has(cli(server, "template", "show", "cli", code=3), "no such template 'cli'")
    cli(server, "rm", session)


def test_a_new_version_is_for_new_sessions(server):
    make_tree(directory(server, "v1"), "one")
    make_tree(directory(server, "v2"), "two")
    add(server, "changing", "v1")
    old = server.create(template="changing")["id"]
    equal(add(server, "changing", "v2")["version"], 2)
    new = server.create(template="changing")["id"]
    equal((out(server, old, "cat /etc/mark"), out(server, new, "cat /etc/mark")), ("one", "two"))
    equal([(t["version"], t["current"], t["sessions"]) for t in rows(server, "changing")], [(1, False, 1), (2, True, 1)])
    server.delete(old)
    wait_for(lambda: [t["version"] for t in rows(server, "changing")] == [2], 10, "the end of the first version")
    server.delete(new)


def test_removed_while_in_use(server):
    make_tree(directory(server, "going"), "going")
    add(server, "going")
    session = server.create(template="going")["id"]
    server.want(204, "DELETE", "/v1/templates/going")
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "going"})
    server.refused(404, "not_found", "GET", "/v1/templates/going")
    (left,) = rows(server, "going")
    equal((left["current"], left["sessions"]), (False, 1))
    for restart in (None, server.restart, lambda: server.kill("cordond")):
        if restart is not None:
            restart()
            server.wait_ready()
        equal(out(server, session, "cat /etc/mark; touch /tmp/y"), "going")
        changed = server.want(200, "GET", f"/v1/sessions/{session}/diff")["changes"]
        check(any(c["path"] == "/tmp/y" for c in changed), "the diff needs the version")
        equal(len(rows(server, "going")), 1, "kept for the session")
    server.delete(session)
    wait_for(lambda: not rows(server, "going"), 10, "its end")
    equal(number(server, "SELECT count(*) FROM template WHERE name = 'going'"), 0)


def test_restart_and_kill_keep_templates(server):
    make_tree(directory(server, "kept"), "kept")
    add(server, "kept", user="root")
    server.kill("cordond")  # the row was answered for
    server.wait_ready()
    session = server.create(template="kept")["id"]
    equal(out(server, session, "cat /etc/mark; id -u"), "kept0\n")
    server.restart()
    equal(out(server, session, "id -u"), "0\n")
    server.delete(session)


def test_sessions_without_a_version(server):
    """Those that a server made before templates were rows."""
    session = server.create()["id"]
    server.run(session, "touch /tmp/z")
    server.stop()
    with database(server, write=True) as db:
        db.execute("UPDATE session SET template_id = '' WHERE id = ?", (session,))
        db.execute("DELETE FROM template WHERE name = 'host'")
    server.start()
    (host,) = rows(server, "host")
    equal((host["current"], host["sessions"]), (True, 1))
    changed = server.want(200, "GET", f"/v1/sessions/{session}/diff")["changes"]
    check(any(c["path"] == "/tmp/z" for c in changed), f"not in the diff: {changed}")
    server.delete(session)


def test_killed_between_row_and_use(server):
    """cordond dies while sessions of a template are made and the template is replaced: sessions run from their
    version, or are not there; the template is whole."""
    make_tree(directory(server, "race"), "race")
    add(server, "race")

    def make():
        try:
            server.request("POST", "/v1/sessions", {"template": "race"}, timeout=20)
            server.request("POST", "/v1/templates", {"name": "race", "root": {"kind": "layers", "layers": ["race"]}}, timeout=20)
        except (OSError, harness.http.client.HTTPException):
            pass

    for turn in range(6):
        makers = [threading.Thread(target=make) for _ in range(3)]
        for m in makers:
            m.start()
        time.sleep(0.002 * turn)  # the moment of the kill varies
        server.kill("cordond")
        for m in makers:
            m.join()
        server.wait_ready()
    current = [t for t in rows(server, "race") if t["current"]]
    equal(len(current), 1)
    live = [s for s in server.want(200, "GET", "/v1/sessions?state=running&limit=100")["sessions"] if s["template"] == "race"]
    for s in live:
        server.ids.add(s["id"])
        equal(out(server, s["id"], "cat /etc/mark"), "race")
        server.delete(s["id"])
    wait_for(lambda: [t["current"] for t in rows(server, "race")] == [True], 10, "the end of old versions")


def test_what_cannot_be_imported(server):
    base = os.path.join(server.state, "templates")
    good = make_tree(os.path.join(base, "good"))
    os.symlink("good", os.path.join(base, "link"))
    os.symlink("/", os.path.join(base, "slash"))
    make_tree(os.path.join(base, "writable"), mode=0o777)
    make_tree(os.path.join(base, "group"), mode=0o775)
    make_tree(os.path.join(base, "theirs"))
    os.chown(os.path.join(base, "theirs"), harness.USER, harness.USER)
    os.mknod(os.path.join(base, "device"), 0o600 | 0o020000, os.makedev(1, 3))
    os.mkfifo(os.path.join(base, "fifo"))
    with open(os.path.join(base, "file"), "w") as f:
        f.write("x")
    os.mkdir(os.path.join(base, "empty"))  # nowhere to put /proc
    outside = make_tree(os.path.join(server.folder, "outside"))
    for tree, status, part in (
        ("link", 403, "link"), ("slash", 403, "link"), ("writable", 403, "no other user"), ("group", 403, "no other user"),
        ("theirs", 403, "no other user"), ("device", 403, "no other user"), ("fifo", 403, "no other user"),
        ("file", 403, "no other user"), ("nosuch", 404, "there is no directory nosuch in"), ("..", 400, "directly below"), (".", 400, "directly below"),
        ("../templates/good", 400, "directly below"), ("good/etc", 400, "directly below"), ("good/../good", 400, "directly below"),
        ("/etc", 400, "directly below"), (outside, 400, "directly below"), (base, 400, "directly below"),
        (f"{good}/..", 400, "directly below"), ("", 400, "directly below"), (".hidden", 400, "directly below"),
    ):
        got = add(server, "bad", tree, status)
        has(got["error"]["message"], part, tree)
    server.refused(404, "not_found", "POST", "/v1/templates", {"name": "bad", "root": {"kind": "layers", "layers": ["empty"]}},
                   "the directory empty has no /", "which a cell needs: make it")
    for body in ({}, {"name": "x"}, {"name": "x", "root": {}}, {"name": "x", "root": {"kind": "host"}}, {"name": "x", "root": {"layers": [1]}},
                 {"name": "x", "root": {"layers": ["a\nb"]}}):
        server.refused(400, "invalid", "POST", "/v1/templates", body)
    for name in ("", "A", "a/b", "..", "-x", "x" * 64, "a b", "\u00e4"):
        server.refused(400, "invalid", "POST", "/v1/templates", {"name": name, "root": {"layers": ["good"]}})
    for name in ("host", "base", "code-interpreter-v1", "mcp-gateway"):
        server.refused(409, "conflict", "POST", "/v1/templates", {"name": name, "root": {"layers": ["good"]}}, "taken")
    server.refused(422, "unsupported", "POST", "/v1/templates", {"name": "x", "root": {"layers": ["good", "good"]}}, "more than one")
    server.refused(403, "forbidden", "POST", "/v1/templates",
                   {"name": "x", "root": {"layers": ["good"]}, "mounts": [{"source": "/etc", "target": "/mnt"}]}, "root")
    equal(rows(server, "bad") + rows(server, "x"), [])
    add(server, "good", good + "/")  # by its path, as the command line sends it
    server.want(204, "DELETE", "/v1/templates/good")


def test_a_tree_that_changes_is_refused(server):
    """The keeper looks at it for every cell, not only at the import."""
    tree = make_tree(directory(server, "turns"))
    add(server, "turns")

    def refused(part):
        error = server.want(403, "POST", "/v1/sessions", {"template": "turns", "limits": {"pids": 33}})["error"]
        has(error["message"], part)

    os.chmod(tree, 0o777)
    refused("no other user")
    os.chmod(tree, 0o755)
    os.rename(tree, tree + "-moved")
    os.symlink("/", tree)
    refused("link")
    os.unlink(tree)
    os.rename(tree + "-moved", tree)
    server.delete(server.create(template="turns", limits={"pids": 33})["id"])
    server.want(204, "DELETE", "/v1/templates/turns")


def test_hostile_contents(server):
    """Devices of a tree open nothing, and its set-user-id programs give the cell's root at most."""
    tree = make_tree(directory(server, "hostile"))
    os.mknod(os.path.join(tree, "zero"), 0o666 | 0o020000, os.makedev(1, 5))
    os.chmod(os.path.join(tree, "zero"), 0o666)
    os.mkdir(os.path.join(tree, "suid"), 0o755)
    shutil.copy("/bin/busybox", os.path.join(tree, "suid/busybox"))
    os.chmod(os.path.join(tree, "suid/busybox"), 0o4755)
    os.symlink("/../../../etc/shadow", os.path.join(tree, "shadow"))
    add(server, "hostile")
    session = server.create(template="hostile")["id"]
    done = server.run(session, "cat /zero")
    check(done["exit_code"] != 0 and "denied" in done["stderr"].lower(), f"a device was opened: {done}")
    done = server.run(session, "cat /shadow", user="root")
    check(done["exit_code"] != 0 and "root:" not in done["stdout"], "a link led out of the cell")
    server.spawn(session, "/suid/busybox sleep 1000")

    def sleeper():
        for pid in server.cell_pids(session):
            try:
                with open(f"/proc/{pid}/status") as f:
                    fields = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields["Name"].strip() == "busybox":
                return [int(n) for n in fields["Uid"].split()]
        return None

    uids = wait_for(sleeper, 10, "the set-user-id program")
    check(all(uid >= 65536 for uid in uids), f"its ids on the machine: {uids}")
    server.delete(session)
    server.want(204, "DELETE", "/v1/templates/hostile")


def test_two_tenants(server):
    (one, one_key), (two, two_key) = server.tenant("template-one"), server.tenant("template-two")
    admin = server.want(201, "POST", f"/v1/tenants/{one}/keys", {"scopes": ["admin", "sessions"]})["key"]
    body = {"name": "mine", "root": {"layers": ["tiny"]}}
    server.refused(403, "forbidden", "POST", "/v1/templates", body, key=admin)
    server.refused(403, "forbidden", "DELETE", "/v1/templates/tiny", key=admin)
    server.refused(403, "forbidden", "DELETE", "/v1/templates/tiny", key=one_key)
    for key in (one_key, two_key):
        session = server.create(key=key, template="tiny")["id"]
        server.delete(session, key=key)
        equal(server.want(200, "GET", "/v1/templates/tiny", key=key)["sessions"], None)
    # A row of a tenant's own, as a later version of the server may have them.
    server.stop()
    with database(server, write=True) as db:
        for tenant, name in ((one, "private"), (two, "tiny")):
            db.execute("INSERT INTO template (id, tenant, name, version, current, kind, level, created_ms, layers, mounts,"
                       " env, user, workdir, start_command, ready_command) SELECT ?, ?, ?, 1, 1, kind, level, created_ms,"
                       " layers, mounts, env, user, workdir, start_command, ready_command FROM template"
                       " WHERE name = 'kept' AND current = 1",
                       (f"tpl_{name}{tenant}"[:30], tenant, name))
    server.start()
    for key, names in ((one_key, {"private", "tiny"}), (two_key, {"tiny"})):
        listed = {t["name"] for t in server.want(200, "GET", "/v1/templates", key=key)["templates"]}
        equal(listed & {"private", "tiny"}, names)
    session = server.create(key=one_key, template="private")["id"]
    server.delete(session, key=one_key)
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "private"}, key=two_key)
    server.refused(404, "not_found", "GET", "/v1/templates/private", key=two_key)
    server.refused(404, "not_found", "POST", "/v1/sessions", {"template": "private"})
    for key, mark in ((one_key, "tiny"), (two_key, "kept")):
        session = server.create(key=key, template="tiny")["id"]
        done = server.run(session, "cat /etc/mark", key=key)
        equal(done["stdout"], mark, "its own comes first")
        server.delete(session, key=key)
    server.want(204, "DELETE", f"/v1/tenants/{two}")
    wait_for(lambda: [t["owner"] for t in rows(server, "tiny")] == [None], 10, "the end of a removed tenant's template")
    server.refused(403, "forbidden", "POST", "/v1/sessions", {"template": "tiny"}, "template tiny",
                   key=server.want(201, "POST", f"/v1/tenants/{one}/keys", {"scopes": ["sessions"], "allow": {"templates": ["host"]}})["key"])


def test_template_dir_is_roots_alone():
    """A server does not start with a directory that others could change or look into."""
    with Server() as server:
        base = os.path.join(server.state, "templates")
        equal((os.stat(base).st_uid, os.stat(base).st_mode & 0o777), (0, 0o700))

        def starts():
            server.start(ready=False)
            try:
                server.process.wait(15)
                return False
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
                return True

        server.stop()
        for spoil, mend in ((lambda: os.chmod(base, 0o755), lambda: os.chmod(base, 0o700)),
                            (lambda: os.chown(base, harness.USER, 0), lambda: os.chown(base, 0, 0))):
            spoil()
            check(not starts(), "it started")
            has(server.log(), "template_dir")
            mend()
        os.rename(base, base + "-away")
        os.symlink(base + "-away", base)
        check(not starts(), "it started with a link")
        os.unlink(base)
        os.rename(base + "-away", base)
        server.start()


def test_the_default_can_be_any_template():
    with Server(pool_size=2) as server:
        make_tree(directory(server, "tiny"), "default")
        add(server, "tiny")
        server.stop()
        server.settings["template"] = "tiny"
        server.start()
        session = server.create()
        equal(session["template"], "tiny")
        equal(out(server, session["id"], "cat /etc/mark"), "default")
        wait_for(lambda: server.want(200, "GET", "/v1/node")["pool"]["ready"] == 2, 10, "its pool")
        server.refused(409, "conflict", "DELETE", "/v1/templates/tiny", None, "name none")
        equal(server.create(template="host")["template"], "host")
        server.stop()
        server.settings["template"] = "nosuch"
        server.start(ready=False)
        equal(server.process.wait(20) != 0, True, "it started without its template")
        has(server.log(), "no template 'nosuch'")
        server.settings["template"] = "host"
        server.start()


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
