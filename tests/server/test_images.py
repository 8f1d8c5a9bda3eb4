#!/usr/bin/python3 -B
"""Goal: any image becomes a template, whole or not at all: OCI layouts, docker-archives, root file systems, with a
distribution in it or with one static program; sessions of it work as those of the host. Templates have tags and
owners, and no tenant sees what another has.

    test_images.py CORDON [name ...]
"""
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import tempfile
import threading
import time

import harness
from harness import check, equal, has, run_tests, wait_for
from images import Image, archive, directory, hard_link, member, symlink
from rows import number

KILLS = True
BUSYBOX = "/bin/busybox"


def busybox():
    with open(BUSYBOX, "rb") as f:
        return f.read()


def alpine_like():
    """Two layers: a root file system of busybox, and a change of it."""
    names = ["sh", "ls", "cat", "id", "pwd", "echo", "test", "sleep", "env", "whoami", "head"]
    first = archive(directory("bin"), member("bin/busybox", busybox(), mode=0o755),
                    *[symlink("bin/" + n, "busybox") for n in names], directory("etc"),
                    member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
                    member("etc/group", b"root:x:0:\nwheel:x:10:root\n"), member("etc/alpine-release", b"3.x\n"),
                    directory("tmp", mode=0o1777), member("gone", b"1"), directory("d"), member("d/old", b"old"))
    second = archive(member(".wh.gone"), member("d/.wh..wh..opq"), member("d/new", b"new"), hard_link("again", "etc/alpine-release"))
    return Image([first, second], {"Env": ["PATH=/bin", "LANG=C.UTF-8"], "WorkingDir": "/d", "User": "nobody",
                                   "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo offered"]})


def debian_like():
    """A root file system of the machine's own programs: bash, coreutils, their libraries."""
    members, seen = [], set()

    def add(path):
        path = os.path.normpath(path)
        if path in seen or path == "/":
            return
        seen.add(path)
        add(os.path.dirname(path))
        st = os.lstat(path)
        name = path.lstrip("/")
        if stat.S_ISLNK(st.st_mode):
            members.append(symlink(name, os.readlink(path)))
            add(os.path.join(os.path.dirname(path), os.readlink(path)))
        elif stat.S_ISDIR(st.st_mode):
            members.append(directory(name))
        else:
            members.append(member(name, open(path, "rb").read(), mode=stat.S_IMODE(st.st_mode)))

    for program in ("/bin/bash", "/bin/ls", "/bin/cat", "/usr/bin/id", "/usr/bin/whoami", "/usr/bin/env", "/bin/sh"):
        real = os.path.realpath(program)
        add(program if os.path.lexists("/" + program.split("/")[1]) else real)
        add(real)
        listed = subprocess.run(["ldd", real], stdout=subprocess.PIPE, check=False).stdout.decode()
        for word in listed.split():
            if word.startswith("/"):
                add(word)
                add(os.path.realpath(word))
    members += [directory("etc/skel"), member("etc/skel/.profile", b"# profile\n"), member("etc/shadow", b"root:*:1:0:99999:7:::\n"),
                member("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n"), member("etc/group", b"root:x:0:\nsudo:x:27:\n")]
    return archive(*members)


def upload(server, data, status=201, key="", kind="application/x-tar", **query):
    words = "&".join(f"{k}={v}" for k, v in query.items())
    got, _, body = server.request("POST", "/v1/templates?" + words, data, headers={"Content-Type": kind}, raw=True, key=key)
    equal(got, status, body)
    return json.loads(body)


def refused(server, status, code, part, data, **query):
    got = upload(server, data, status=status, **query)["error"]
    equal(got["code"], code, got["message"])
    has(got["message"], part)


def out(server, session, command, **more):
    done = server.run(session, command, **more)
    equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
    return done["stdout"]


def layers(server):
    return number(server, "SELECT count(*) FROM layer WHERE state = 0")


def folders(server):
    return sorted(os.listdir(os.path.join(server.state, "storage/layers")))


def gone(server, name):
    server.want(204, "DELETE", "/v1/templates/" + name)
    wait_for(lambda: folders(server) == [], seconds=20, name="layers to go")


def test_images_become_templates(server):
    image = alpine_like()
    for kind, data in (("oci-layout", image.layout_tar()), ("docker-archive", gzip.compress(image.docker_archive("a:1")))):
        got = upload(server, data, name="alp")
        equal((got["name"], got["owner"], got["root"]["kind"], got["tags"]), ("alp", None, "stack", ["default"]))
        equal((got["workdir"], got["user"]), ("/d", "nobody"))
        equal(got["env"], {"PATH": "/bin", "LANG": "C.UTF-8"})
        equal(got["offered_command"], ["/bin/sh", "-c", "echo offered"])
        equal(got["provenance"]["kind"], kind)
        has(got["provenance"]["digest"], "sha256:")
        check(got["bytes"] > 500000, got["bytes"])
        session = server.create(template="alp")["id"]
        equal(out(server, session, "whoami; pwd; echo $LANG; ls"), "nobody\n/d\nC.UTF-8\nnew\n")
        equal(out(server, session, "cat /again; test -e /gone || echo hidden"), "3.x\nhidden\n")
        equal(out(server, session, "id -u; echo $HOME; cat /etc/resolv.conf", user="user").splitlines()[:2], ["1000", "/home/user"])
        has(out(server, session, "cat /etc/resolv.conf"), "198.18.0.1")
        has(out(server, session, "cat /etc/ssl/certs/ca-certificates.crt"), "BEGIN CERTIFICATE")
        equal(out(server, session, "echo 1 >/tmp/x && cat /tmp/x"), "1\n")
        server.delete(session)
    equal(layers(server), 3, "the layers of the image are found again; what was arranged for it is new")
    gone(server, "alp")


def test_large_environments_break_no_list(server):
    """Public templates of one tenant are in the lists of all: pages end in time, and environments are shown one by one."""
    env = [f"V{i:04}=" + "x" * 8000 for i in range(30)]
    tenant, _ = server.tenant("wordy")
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin", "sessions"]})["key"]
    upload(server, Image([archive(member("etc/x", b"1"))], config={"Env": env}).layout_tar(), name="wordy", key=key)
    for i in range(12):
        server.want(201, "POST", "/v1/templates", {"name": f"wordy{i}", "from": "wordy"}, key=key)
        server.want(200, "PATCH", f"/v1/templates/wordy{i}", {"public": True}, key=key)
    for path in ("/v1/templates", "/templates", "/v2/templates"):
        for one in (key, ""):
            server.want(200, "GET", path, key=one)
    names, after = [], ""
    while True:
        page = server.want(200, "GET", f"/v1/templates?limit=5{after}")
        check(len(page["templates"]) <= 5 and all(t["env"] is None for t in page["templates"]), f"{len(page['templates'])} of 5")
        names += [t["name"] for t in page["templates"]]
        if page["next"] is None:
            break
        after = "&after=" + page["next"]
    equal(names, [t["name"] for t in server.want(200, "GET", "/v1/templates")["templates"]], "by pages and as a whole")
    equal(len(server.want(200, "GET", "/v1/templates/wordy3", key=key)["env"]), 30, "of one")
    server.refused(400, "invalid", "GET", "/v1/templates?after=tpl_none", None, "begin again")
    has(cli(server, "template", "ls"), "wordy11")
    server.want(204, "DELETE", "/v1/tenants/" + tenant)


def test_files_are_listed_as_sessions_see_them(server):
    upload(server, alpine_like().layout_tar(), name="files")

    def names(path):
        got = server.want(200, "GET", f"/v1/templates/files/files?path={path}")
        return [e["name"] for e in got["entries"]]

    equal(names("/d"), ["new"])
    check("gone" not in names("/") and "again" in names("/") and "proc" in names("/"), names("/"))
    check("passwd" in names("/etc/"), "etc")
    link = [e for e in server.want(200, "GET", "/v1/templates/files/files?path=/bin")["entries"] if e["name"] == "sh"]
    equal((link[0]["type"], link[0]["target"], link[0]["mode"]), ("symlink", "busybox", "0777"))
    server.refused(404, "not_found", "GET", "/v1/templates/files/files?path=/gone")
    server.refused(400, "invalid", "GET", "/v1/templates/files/files?path=/../etc")
    server.refused(422, "unsupported", "GET", "/v1/templates/host/files")
    equal(len(server.want(200, "GET", "/v1/templates/files/files?limit=2")["entries"]), 2)
    has(cli(server, "template", "files", "files", "/d"), "new")
    has(cli(server, "template", "files", "files"), "etc")
    gone(server, "files")


def test_a_program_alone_is_an_image(server):
    data = archive(member("busybox", busybox(), mode=0o755))
    upload(server, data, name="one", user="root")
    session = server.create(template="one")["id"]
    done = server.run(session, ["/busybox", "echo", "no shell"])
    equal((done["exit_code"], done["stdout"]), (0, "no shell\n"))
    equal(server.run(session, ["/busybox", "id", "-u"], user="user")["stdout"], "1000\n")
    server.delete(session)
    gone(server, "one")


def test_a_distribution_as_root_file_system(server):
    upload(server, gzip.compress(debian_like(), 1), name="deb", kind="application/gzip")
    session = server.create(template="deb")["id"]
    equal(out(server, session, "whoami; pwd; echo $SHELL; cat .profile").splitlines(),
          ["user", "/home/user", "/bin/bash", "# profile"])
    has(out(server, session, "cat /etc/group", user="root"), "sudo:x:27:user")
    server.delete(session)
    gone(server, "deb")


def test_a_chunked_body_and_tags(server):
    first, second = archive(member("v", b"1")), archive(member("v", b"2"))
    one = upload(server, first, name="t:v1")
    two = upload(server, second, name="t", tag="v2")
    equal((one["tags"], two["tags"], one["template_id"]), (["v1"], ["v2"], two["template_id"]))
    server.refused(404, "not_found", "GET", "/v1/templates/t")
    server.refused(404, "not_found", "POST", "/v1/templates/t/tags", {"tags": ["x"]})  # of which version?
    upload(server, second, name="t:gone")
    server.want(204, "DELETE", "/v1/templates/t/tags/gone")
    equal(server.want(200, "GET", "/v1/templates/t:v1")["id"], one["id"])
    got = server.want(200, "POST", "/v1/templates/t:v2/tags", {"tags": ["default", "stable"]})
    equal(sorted(got["tags"]), ["default", "stable", "v2"])
    equal(server.want(200, "GET", "/v1/templates/t")["id"], two["id"])
    equal(server.want(200, "GET", "/v1/templates/" + one["template_id"] + ":v1")["id"], one["id"])
    server.want(200, "POST", "/v1/templates/t:stable/tags", {"tags": ["v1"]})
    wait_for(lambda: layers(server) == 2, name="the first version to go")
    server.want(204, "DELETE", "/v1/templates/t/tags/stable")
    server.refused(404, "not_found", "DELETE", "/v1/templates/t/tags/stable")
    server.refused(400, "invalid", "DELETE", "/v1/templates/t/tags/default")
    for bad in ([], ["a b"], ["0b9bd1f4-1f57-4ab0-8eb5-b5be11d2c1d1"], [1]):
        server.refused(400, "invalid", "POST", "/v1/templates/t/tags", {"tags": bad})
    server.restart()
    equal(sorted(server.want(200, "GET", "/v1/templates/t")["tags"]), ["default", "v1", "v2"])
    gone(server, "t")
    for tag in ("v1", "v2"):
        upload(server, first, name="t:" + tag)
    gone(server, "t")  # all versions, also without the tag default


def test_tenants_own_templates(server):
    (one, one_key), (two, two_key) = server.tenant("image-one"), server.tenant("image-two")
    admin = {t: server.want(201, "POST", f"/v1/tenants/{t}/keys", {"scopes": ["admin", "sessions"]})["key"] for t in (one, two)}
    data = archive(member("busybox", busybox(), mode=0o755))
    equal(upload(server, data, status=403, key=one_key, name="mine")["error"]["code"], "forbidden")
    mine = upload(server, data, key=admin[one], name="mine", user="root")
    equal((mine["owner"], mine["public"]), (one, False))
    theirs = upload(server, data, key=admin[two], name="mine", user="root")
    check(theirs["id"] != mine["id"] and theirs["template_id"] != mine["template_id"], "one name, two templates")
    ids = {number(server, "SELECT count(*) FROM layer WHERE tenant = ?", t) for t in (one, two)}
    equal(ids, {2}, "layers of tenants are not shared")
    for name in (mine["template_id"], f"{one}/mine"):
        server.refused(404, "not_found", "GET", "/v1/templates/" + name.replace("/", "%2F"), key=two_key)
        server.refused(404, "not_found", "POST", "/v1/sessions", {"template": name}, key=two_key)
        server.refused(404, "not_found", "DELETE", "/v1/templates/" + name.replace("/", "%2F"), key=admin[two])
    session = server.create(key=one_key, template="mine")["id"]
    equal(server.run(session, ["/busybox", "echo", "x"], key=one_key)["stdout"], "x\n")
    server.delete(session, key=one_key)
    server.want(200, "PATCH", "/v1/templates/mine", {"public": True}, key=admin[one])
    session = server.create(key=two_key, template=mine["template_id"])["id"]
    server.delete(session, key=two_key)
    server.refused(403, "forbidden", "DELETE", "/v1/templates/" + mine["template_id"], key=admin[two])
    server.refused(403, "forbidden", "POST", "/v1/templates/" + mine["template_id"] + "/tags", {"tags": ["x"]}, key=admin[two])
    for t in (one, two):
        server.want(204, "DELETE", "/v1/templates/mine", key=admin[t])
    wait_for(lambda: folders(server) == [], name="layers to go")


def test_a_limit_to_templates_means_the_operators(server):
    data = archive(member("busybox", busybox(), mode=0o755))
    one, one_key = server.tenant("image-limited")
    other, _ = server.tenant("image-other")
    admin = {t: server.want(201, "POST", f"/v1/tenants/{t}/keys", {"scopes": ["admin", "sessions"]})["key"] for t in (one, other)}
    upload(server, data, name="lim")
    server.want(200, "PATCH", f"/v1/tenants/{one}", {"allow": {"templates": ["lim"]}})
    server.delete(server.create(key=one_key, template="lim")["id"], key=one_key)
    public = upload(server, data, key=admin[other], name="lim", public="true")
    server.refused(403, "forbidden", "POST", "/v1/sessions", {"template": public["template_id"]}, key=one_key)
    upload(server, data, key=admin[one], name="lim")
    server.refused(403, "forbidden", "POST", "/v1/sessions", {"template": "lim"}, key=one_key)
    server.want(200, "PATCH", f"/v1/tenants/{one}", {"allow": {}})
    narrow = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"], "allow": {"templates": ["lim"]}}, key=admin[one])["key"]
    server.delete(server.create(key=narrow, template="lim")["id"], key=narrow)
    server.refused(403, "forbidden", "POST", "/v1/sessions", {"template": public["template_id"]}, key=narrow)
    for t in (one, other):
        server.want(204, "DELETE", "/v1/templates/lim", key=admin[t])
    gone(server, "lim")


def test_what_is_refused_leaves_nothing(server):
    good = archive(member("a", b"1"))
    refused(server, 400, "invalid", "Invalid name", good, name="a%20b")
    refused(server, 409, "conflict", "taken", good, name="host")
    refused(server, 400, "invalid", "..", archive(member("../x", b"1")), name="x")
    refused(server, 400, "invalid", "end marker", good[:-1024], name="x")
    refused(server, 400, "invalid", "gzip", gzip.compress(good) + b"garbage behind it", name="x")
    image = alpine_like()
    image.blobs[image.manifest["layers"][0]["digest"]] = gzip.compress(archive(member("other", b"1")))
    check(upload(server, image.layout_tar(), status=400, name="x")["error"]["code"] == "invalid", "another layer")
    wrong = Image([archive(member("a", b"1"))])
    wrong.layers = [archive(member("b", b"2"))]
    refused(server, 400, "invalid", "digest", wrong.docker_archive(), name="x")
    server.refused(404, "not_found", "GET", "/v1/templates/x")
    wait_for(lambda: folders(server) == [], name="an empty folder")
    equal(layers(server), 0)


def family(pid):
    """A process and all below it."""
    try:
        below = open(f"/proc/{pid}/task/{pid}/children").read().split()
    except OSError:
        below = []
    return [pid] + [p for child in below for p in family(int(child))]


def storage_pid(server):
    """Of cordon-storage, when it has nothing to do: it has answered a request."""
    refused(server, 400, "invalid", "..", archive(member("../x", b"1")), name="x")
    return wait_for(lambda: server.pid("cordon-storage"), 30, "cordon-storage")


class Sender:
    """Sends the head of an import and then bytes, until the server takes no more for now."""

    def __init__(self, server, name, length, line=None):
        self.sock = socket.create_connection(server.address)
        head = f"{line or 'POST /v1/templates?name=' + name} HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\n" \
               f"Content-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"
        self.sock.sendall(head.encode())

    def send(self, data, seconds):
        """How many of the bytes were taken before nothing was taken for so long."""
        self.sock.settimeout(seconds)
        done = 0
        try:
            while done < len(data):
                done += self.sock.send(data[done:done + 262144])
        except socket.timeout:
            pass
        return done

    def status(self):
        self.sock.settimeout(60)
        return int(self.sock.makefile("rb").readline().split()[1])


def uploads(server):
    return os.listdir(os.path.join(server.state, "storage/uploads"))


def test_no_disk_holds_up_the_server(server):
    """While cordon-storage, which writes the archive, does nothing, the client waits and nobody else does."""
    data = archive(member("large", os.urandom(1 << 20) * 48))
    stopped = family(storage_pid(server))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        sender = Sender(server, "slow", len(data))
        sent = sender.send(data, 1)
        check(sent < len(data), "the archive was taken, and cordon-storage was stopped")
        for _ in range(20):
            equal(server.request("GET", "/healthz")[0], 200)
        session = server.create()["id"]
        equal(out(server, session, "echo 1"), "1\n")
        server.delete(session)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    equal(sender.send(data[sent:], 30), len(data) - sent)
    equal(sender.status(), 201)
    gone(server, "slow")


def test_nor_does_one_hold_up_uploads_of_builds(server):
    build = server.want(201, "POST", "/v1/builds", {"name": "uploaded"})["id"]
    folder, hash_ = os.path.join(server.state, "uploads"), "a" * 64
    data = os.urandom(1 << 20) * 48
    line = f"PUT /v1/builds/{build}/files/{hash_}"
    before = os.listdir(folder)
    stopped = family(storage_pid(server))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        sender = Sender(server, "", len(data), line)
        sent = sender.send(data, 1)
        check(sent < len(data), "the archive was taken, and cordon-storage was stopped")
        equal(server.request("GET", "/healthz")[0], 200)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    equal(sender.send(data[sent:], 30), len(data) - sent)
    equal(sender.status(), 204)
    digest = hashlib.sha256(data).hexdigest()
    equal(number(server, f"SELECT count(*) FROM build_upload WHERE digest = '{digest}' AND bytes = {len(data)}"), 1)
    after = os.listdir(folder)
    equal(len(after), len(before) + 1)
    # Half of one: the client goes, or cordon-storage is killed. What was there stays.
    Sender(server, "", len(data), line).send(data[:1 << 20], 30)
    wait_for(lambda: sorted(os.listdir(folder)) == sorted(after), name="the half to go")
    sender = Sender(server, "", len(data), line)
    sender.send(data[:1 << 20], 30)
    wait_for(lambda: any(os.stat(os.path.join(folder, n)).st_size == 1 << 20 for n in os.listdir(folder) if n not in after),
             name="a half on disk")
    server.restarted("cordon-storage")
    equal(sender.send(data[1 << 20:], 30), len(data) - (1 << 20))
    equal(sender.status(), 503)
    sender.sock.close()
    wait_for(lambda: sorted(os.listdir(folder)) == sorted(after), name="the half to go")


def test_half_an_archive_leaves_nothing(server):
    data = os.urandom(1 << 20) * 8
    storage = storage_pid(server)
    before = len(family(storage))
    sender = Sender(server, "half", 2 * len(data))
    equal(sender.send(data, 30), len(data))
    wait_for(lambda: len(family(storage)) > before, name="a process that writes the archive")
    sender.sock.close()
    wait_for(lambda: len(family(storage)) == before, name="it to end")
    equal(uploads(server), [])
    # The program that writes is killed: the client is told.
    sender = Sender(server, "half", 2 * len(data))
    equal(sender.send(data, 30), len(data))
    wait_for(lambda: len(family(storage)) > before, name="a process that writes the archive")
    server.restarted("cordon-storage")
    equal(sender.send(data, 30), len(data))
    equal(sender.status(), 503)
    wait_for(lambda: uploads(server) == [], name="nothing left")
    # As is the process for this request alone.
    storage = storage_pid(server)
    wait_for(lambda: len(family(storage)) == before, name="cordon-storage to be idle")
    sender = Sender(server, "half", 2 * len(data))
    equal(sender.send(data, 30), len(data))
    wait_for(lambda: len(family(storage)) > before, name="a process that writes the archive")
    os.kill(family(storage)[-1], signal.SIGKILL)
    equal(sender.send(data, 30), len(data))
    check(sender.status() in (500, 503), "an answer")
    server.refused(404, "not_found", "GET", "/v1/templates/half")
    equal(uploads(server), [])


def test_a_kill_at_any_time_leaves_all_or_nothing(server):
    data = archive(*[member(f"f{i}", os.urandom(20000)) for i in range(300)])
    for i, victim in enumerate(("cordond", "cordon-storage") * 3):
        done = []

        def send():
            try:
                done.append(server.request("POST", "/v1/templates?name=k", data, headers={"Content-Type": "application/x-tar"},
                                           raw=True)[0])
            except Exception:  # noqa: BLE001
                done.append(None)

        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(0.02 * i)  # the moment of the kill is the point of the test
        server.kill(victim)
        thread.join()
        server.wait_ready()
        wait_for(lambda: server.request("GET", "/readyz")[0] == 200, name="ready")
    wait_for(lambda: not any(n.startswith(".") for n in folders(server)), seconds=20, name="no leftovers")
    wait_for(lambda: len(folders(server)) == number(server, "SELECT count(*) FROM layer"), seconds=20, name="a row for each layer")
    there = server.request("GET", "/v1/templates/k")[0]
    if there == 200:
        session = server.create(template="k")["id"]
        server.delete(session)
        gone(server, "k")


def cli(server, *words, code=0, cwd=None, env=None):
    done = subprocess.run([server.program, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=cwd,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, **(env or {})})
    equal(done.returncode != 0, code != 0, f"{words}: {done.stderr.decode()}")
    return done.stdout.decode() + done.stderr.decode()


def test_by_the_command_line(server):
    image = alpine_like()
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "tree")
        os.makedirs(os.path.join(tree, "bin"))
        shutil.copy(BUSYBOX, os.path.join(tree, "bin/busybox"))
        os.link(os.path.join(tree, "bin/busybox"), os.path.join(tree, "bin/sh"))
        os.chown(os.path.join(tree, "bin"), 7, 8)
        image.write_layout(os.path.join(folder, "layout"))
        with open(os.path.join(folder, "Saved.tar.gz"), "wb") as f:
            f.write(gzip.compress(image.docker_archive()))
        equal(cli(server, "template", "import", tree), "tree\n")
        equal(cli(server, "template", "import", "--name", "lay:v1", "layout", cwd=folder), "lay:v1\n")
        equal(cli(server, "template", "import", "--tag", "v2", "Saved.tar.gz", cwd=folder), "saved:v2\n")
        has(cli(server, "template", "import", "--env", "A=b", tree, code=1), "--env")
        has(cli(server, "template", "import", "/dev/null", code=1), "not a tar archive")
        has(cli(server, "template", "import", "/etc/passwd", code=1), "not a tar archive")
        few = server.want(201, "POST", "/v1/keys", {"scopes": ["sessions"]})["key"]
        for words in (["debian", "trixie"], ["interpreter", "--science"]):  # before mmdebstrap runs, which is not found here
            said = cli(server, "template", *words, code=1, env={"CORDON_API_KEY": few, "PATH": "/nonexistent"})
            check("admin" in said and "mmdebstrap" not in said, said)
        said = cli(server, "template", "import", "/usr/share/doc", code=1, env={"CORDON_API_KEY": few})
        check("tar:" not in said, f"words of tar after a refusal: {said}")
        has(cli(server, "create", "--mcp", "/nosuch.json", code=1), "--mcp: unable to open /nosuch.json: No such file")
        has(cli(server, "create", "--template", "python:3.99", code=1), "`cordon template pull python:3.99` gets an image")
        has(cli(server, "template", "import", "nosuch", code=1), "no file nosuch here, so a directory of the server was meant: ")
    for words in (["create", "--template", "lay"], ["template", "show", "lay"]):
        has(cli(server, *words, code=1), "no such template 'lay'; there is lay:v1")
    has(cli(server, "template", "untag", "lay", code=1), "expected: cordon template untag NAME TAG\n")
    has(cli(server, "template", "frob", code=1), "there is no cordon template frob\n")
    equal(cli(server, "run", "--server", "--template", "lay:v1", "--", "/bin/sh", "-c", "pwd"), "/d\n")
    session = server.create(template="tree")["id"]
    equal(server.run(session, ["/bin/busybox", "stat", "-c", "%u:%g %h", "/bin", "/bin/sh"])["stdout"].split()[0], "7:8")
    server.delete(session)
    cli(server, "template", "tag", "lay:v1", "default")
    has(cli(server, "template", "ls"), "default,v1")
    cli(server, "template", "untag", "lay", "v1")
    has(cli(server, "template", "show", "lay"), image.manifest_digest)
    has(cli(server, "template", "tag", "lay:v1", "x", code=1), "no such template 'lay:v1'")
    for name in ("tree", "lay", "saved:v2"):
        cli(server, "template", "rm", name)
    wait_for(lambda: folders(server) == [], seconds=20, name="layers to go")


def test_debian_needs_its_program(server):
    """A program in the place of mmdebstrap: its archive is imported, its failure is told."""
    with tempfile.TemporaryDirectory() as folder:
        fake = os.path.join(folder, "mmdebstrap")
        data = os.path.join(folder, "data")
        with open(data, "wb") as f:
            f.write(debian_like())
        path = {"PATH": folder + ":/usr/bin:/bin"}
        has(cli(server, "template", "debian", "trixie", code=1, env={"PATH": folder}), "not installed")
        for script, code in ((f'echo "$@" >{folder}/words; cat {data}; trap "" HUP; kill -HUP 0', 0), (f"head -c 5000 {data}; exit 3", 1)):
            with open(fake, "w") as f:
                f.write("#!/bin/sh\n" + script + "\n")
            os.chmod(fake, 0o755)
            said = cli(server, "template", "debian", "--include", "git,curl", "trixie", code=code, env=path)
            has(said, "debian-trixie" if code == 0 else "has failed")
        has(open(os.path.join(folder, "words")).read(), "--include=ca-certificates,sudo,git,curl trixie -")
    equal(server.want(200, "GET", "/v1/templates/debian-trixie")["version"], 1)
    gone(server, "debian-trixie")


if __name__ == "__main__":
    run_tests(globals())
