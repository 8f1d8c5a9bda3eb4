#!/usr/bin/python3 -B
"""Goal: an image of a registry becomes a template, or nothing: its layers are verified, shared with others only if they
are public, and whatever dies meanwhile, neither half a template nor half a layer stays.

    test_pull.py CORDON [name ...]
"""
import http.client
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
import harness
from fake_registry import Answer, Registry, basic, token_wall
from harness import Server, check, equal, has, run_tests, wait_for
from registry_images import Image, digest, layer

KILLS = True
NOISE = random.Random(7).randbytes(3 << 20)
REGISTRIES = []


def busybox():
    with open("/bin/busybox", "rb") as f:
        return f.read()


def image(text=b"hello\n", more=()):
    """A system that runs: busybox, and layers above it."""
    base = layer({"bin/": None, "bin/busybox": busybox(), "bin/sh": busybox(), "bin/cat": busybox(),
                  "etc/": None, "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "tmp/": None})
    return Image([base, layer({"etc/hello": text, "etc/.wh.gone": b""}), *more],
                 {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/etc", "Cmd": ["/bin/sh"]})


def registry(made):
    found = Registry(made)
    REGISTRIES.append(found)
    return found


def events(server, body, key="", timeout=60):
    """The events of a pull: [(name, data)], or the error of an answer that is none."""
    status, headers, data = server.request("POST", "/v1/templates/pull", body, raw=True, key=key, timeout=timeout)
    if status != 200:
        return status, json.loads(data)["error"]
    got = []
    for block in data.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            got.append((lines["event"], json.loads(lines["data"])))
    return status, got


def pulled(server, body, key=""):
    status, got = events(server, body, key)
    equal(status, 200, f"status ({got})")
    equal(got[-1][0], "template", f"last event: {got[-1]}")
    return got


def database(server):
    return next(os.path.join(server.state, n) for n in os.listdir(server.state) if n.endswith(".db"))


def tenant(server, name):
    """A key of another tenant that may change templates."""
    made = server.want(201, "POST", "/v1/tenants", {"name": name})
    return server.want(201, "POST", f"/v1/tenants/{made['id']}/keys", {"name": "k", "scopes": ["admin", "sessions"]})["key"]


def layers(server):
    with sqlite3.connect(f"file:{database(server)}?mode=ro", uri=True) as db:
        return db.execute("SELECT id, tenant, kind, digest, state FROM layer ORDER BY created_ms, id").fetchall()


def folders(server):
    return sorted(os.listdir(os.path.join(server.state, "storage", "layers")))


def whole(server):
    """Every layer on disk has a row, every row its layer, and none is dying or half."""
    def look():
        rows = [row[0] for row in layers(server) if row[4] == 0]
        return sorted(rows) == folders(server) and all(row[4] == 0 for row in layers(server))
    wait_for(look, 30, f"rows and layers that fit: {layers(server)} {folders(server)}")


def test_an_image_becomes_a_template(server):
    source = registry(image())
    got = pulled(server, {"reference": f"{source.host}/a/b:t", "name": "first"})
    equal([name for name, _ in got if name != "progress"], ["image", "layer", "layer", "template"], "events")
    equal(got[0][1]["digest"], digest(source.image.manifest_bytes), "digest of the image")
    equal(got[-1][1]["name"], "first")
    session = server.create(template="first")
    done = server.run(session["id"], ["/bin/cat", "/etc/hello"])
    equal(done["stdout"], "hello\n", f"a file of the image: {done}")
    done = server.run(session["id"], ["/bin/busybox", "env"])
    has(done["stdout"], "FROM_IMAGE=yes", "environment")
    server.delete(session["id"])
    whole(server)


def test_a_digest_pin_and_a_lie(server):
    source = registry(image(b"pinned\n"))
    pin = digest(source.image.manifest_bytes)
    pulled(server, {"reference": f"{source.host}/a/b@{pin}", "name": "pinned"})
    source.answer = lambda target, headers: Answer(200, {}, b"{}") if pin in target else None
    status, error = events(server, {"reference": f"{source.host}/a/b@{pin}", "name": "lie"})
    equal((status, error["code"]), (400, "invalid"), str(error))
    has(error["message"], "digest")
    server.refused(404, "not_found", "GET", "/v1/templates/lie")


def test_errors_are_those_that_users_know(server):
    source = registry(image())
    unknown = {"errors": [{"code": "NAME_UNKNOWN"}]}
    rows = (
        (None, "x:none", 404, "not found: the image or tag does not exist in the registry"),
        (Answer(404, {}, json.dumps(unknown).encode()), "x:t", 404, "not found: verify the image name is correct"),
        (Answer(401, {}), "x:t", 403, "authentication required or insufficient permissions"),
        (Answer(200, {}, b"<html>"), "x:t", 400, "failed to pull image"),
    )
    for answer, path, status, text in rows:
        source.answer = lambda target, headers, answer=answer: answer
        got = events(server, {"reference": f"{source.host}/{path}"})
        equal(got[0], status, f"{path}: {got[1]}")
        has(got[1]["message"], text)
    for reference, status, text in (
            ("127.0.0.1/../x", 400, "reference"), ("10.9.8.7/x", 403, "private"), ("127.9.9.9:5000/x", 403, "setting registries"), ("169.254.169.254/x", 403, "metadata")):
        got = events(server, {"reference": reference})
        equal(got[0], status, f"{reference}: {got[1]}")
        has(got[1]["message"], text)
    seen = [e for e in server.want(200, "GET", "/v1/events?limit=1000")["events"] if e["type"] == "template.pull_failed"]
    check(any("private" in str(e["data"]) for e in seen), "a refused address is on record")


def test_a_lying_layer_leaves_nothing(server):
    made = image(b"lied\n", [layer({"noise": NOISE})])
    source = registry(made)
    before = folders(server)
    big = made.layers[2]
    answers = (
        Answer(200, {}, b"x" * len(made.blobs[big])),
        Answer(200, {}, made.blobs[made.layers[0]][:1000], length=False),
        Answer(404, {}),
    )
    for answer in answers:
        source.answer = lambda target, headers, answer=answer: answer if big in target else None
        status, got = events(server, {"reference": f"{source.host}/a/b:t", "name": "liar"})
        equal((status, got[-1][0]), (200, "error"), str(got[-1]))
        has(got[-1][1]["error"]["message"], "failed to pull image")
    server.refused(404, "not_found", "GET", "/v1/templates/liar")
    wait_for(lambda: folders(server) == before, 20, "nothing of it on disk")
    whole(server)


def test_public_layers_are_shared_and_private_ones_are_not(server):
    made = image(b"shared\n")
    source = registry(made)
    first, second = tenant(server, "first"), tenant(server, "second")
    pulled(server, {"reference": f"{source.host}/a/b:t", "name": "mine"}, first)
    before = layers(server)
    got = pulled(server, {"reference": f"{source.host}/a/b:t", "name": "mine"}, second)
    equal([data["shared"] for name, data in got if name == "layer"], [True, True], "layers of a public image")
    blobs = [t for t, _ in source.requests if "/blobs/" in t and digest(made.config) not in t]
    equal(len(blobs), len(set(blobs)), "each layer was fetched once")
    secret = image(b"private\n", [layer({"private": b"p" * 10000})])
    private = registry(secret)
    token_wall(private, {"ann": "pw"})
    body = {"reference": f"{private.host}/a/b:t", "name": "secret", "username": "ann", "password": "pw"}
    pulled(server, body, first)
    got = pulled(server, body, second)
    shared = [data["shared"] for name, data in got if name == "layer"]
    equal(shared[1:], [False, False], "layers of a private image are not those of another tenant")
    own = [row for row in layers(server) if row not in before and row[1]]
    check(len({row[1] for row in own}) == 2, f"each tenant has its own: {own}")
    status, _ = events(server, {"reference": f"{private.host}/a/b:t", "name": "x"}, second)
    equal(status, 403, "without credentials")
    whole(server)


def test_credentials_are_a_secret(server):
    source = registry(image(b"by secret\n"))
    password = "pw-" + os.urandom(12).hex()
    token_wall(source, {"ann": password})
    server.want(201, "POST", "/v1/secrets", {"name": "reg", "value": f"ann:{password}", "hosts": ["localhost"]})
    server.want(201, "POST", "/v1/secrets", {"name": "other", "value": f"ann:{password}", "hosts": ["x.example"]})
    reference = f"localhost:{source.port}/a/b:t"
    pulled(server, {"reference": reference, "name": "by-secret", "secret": "reg"})
    equal(events(server, {"reference": reference, "secret": "other"})[0], 403, "a secret of another host")
    equal(events(server, {"reference": reference, "secret": "none"})[0], 404, "no such secret")
    check(password not in server.log(), "no password in the log")
    check(basic("ann", password) not in server.log(), "nor its header")


def test_the_command(server):
    source = registry(image(b"by cli\n"))
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "PATH": os.environ["PATH"], "HOME": server.folder}
    done = subprocess.run([harness.PROGRAM, "template", "pull", "--name", "tool:v1", f"{source.host}/x/tool:t"],
                          env=env, capture_output=True, text=True, timeout=60)
    equal((done.returncode, done.stdout.strip()), (0, "tool:v1"), done.stderr)
    session = server.create(template=done.stdout.strip())
    equal(server.run(session["id"], ["/bin/cat", "/etc/hello"])["stdout"], "by cli\n", "a session of what it printed")
    server.delete(session["id"])
    has(done.stderr, "layer 2 of 2")
    done = subprocess.run([harness.PROGRAM, "template", "pull", f"{source.host}/x/tool:none"], env=env, capture_output=True,
                          text=True, timeout=60)
    check(done.returncode != 0, "an image that is not there")
    has(done.stderr, "not found")


def slow(made, seconds=20):
    """A registry whose last layer takes long."""
    source = registry(made)
    big = made.layers[-1]
    source.answer = lambda target, headers: (
        Answer(200, {}, made.blobs[big], drip=(32768, 0.05)) if big in target and not headers.get("range") else None)
    return source


def test_whatever_dies_leaves_nothing_half(server):
    for number, name in enumerate(("cordon-pull", "cordon-storage", "cordond")):
        made = image(b"killed %d\n" % number, [layer({"noise": NOISE[number:]})])
        source = slow(made)
        result = []

        def ask(source=source, name=name):
            try:
                result.append(events(server, {"reference": f"{source.host}/a/b:t", "name": f"of-{name}"}))
            except (OSError, http.client.HTTPException):
                result.append(("cut", None))
        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: any(made.layers[-1] in t for t, _ in source.requests), 30, "the last layer's request")
        server.restarted(name) if name == "cordond" else server.kill(name)
        thread.join(60)
        check(result and (result[0][0] == "cut" or result[0][1][-1][0] == "error"), f"{name}: {result}")
        server.wait_ready()
        server.refused(404, "not_found", "GET", f"/v1/templates/of-{name}")
        whole(server)
        source.answer = lambda target, headers: None
        wait_for(lambda: events(server, {"reference": f"{source.host}/a/b:t", "name": f"of-{name}"})[0] == 200, 30,
                 "the next pull works")
        whole(server)


def test_a_client_that_leaves_ends_the_pull(server):
    made = image(b"left\n", [layer({"noise": NOISE[100:]})])
    source = slow(made)
    link = server.link()
    link.request("POST", "/v1/templates/pull", json.dumps({"reference": f"{source.host}/a/b:t", "name": "left"}),
                 {"X-API-Key": server.key, "Content-Type": "application/json"})
    wait_for(lambda: any(made.layers[-1] in t for t, _ in source.requests), 30, "the last layer's request")
    link.close()
    wait_for(lambda: "cancelled" in server.log(), 20, "the end of the pull")
    server.refused(404, "not_found", "GET", "/v1/templates/left")
    whole(server)


def test_many_layers_become_one(server):
    more = [layer({f"srv/f{n}": b"%d\n" % n, **({f"srv/.wh.f{n - 1}": b""} if n % 2 else {})}) for n in range(16)]
    source = registry(image(b"folded\n", [layer({"srv/": None}), *more]))
    reference = f"{source.host}/a/b:t"
    pulled(server, {"reference": reference, "name": "many"})
    session = server.create(template="many")
    done = server.run(session["id"], ["/bin/busybox", "ls", "/srv"])
    equal(done["stdout"].split(), sorted(f"f{n}" for n in range(16) if n % 2), "what the layers show together")
    equal(server.run(session["id"], ["/bin/cat", "/etc/hello"])["stdout"], "folded\n", "a file of a lower layer")
    server.delete(session["id"])
    whole(server)
    asked = len(source.requests)
    got = pulled(server, {"reference": reference, "name": "many-again"})
    check(all(data["shared"] for name, data in got if name == "layer"), "the folded layer is found again")
    equal(len(source.requests), asked + 2, "manifest and configuration only")
    whole(server)


def test_a_shared_layer_that_goes_meanwhile_is_fetched(server):
    made = image(b"base of both\n")
    pulled(server, {"reference": f"{registry(made).host}/a/b:t", "name": "before"})
    both = Image([*made.tars, layer({"noise": NOISE[500:600500]})], {"Cmd": ["/bin/sh"]})
    source = slow(both)
    result = []
    thread = threading.Thread(
        target=lambda: result.append(events(server, {"reference": f"{source.host}/a/b:t", "name": "after"})))
    thread.start()
    wait_for(lambda: any(both.layers[-1] in t for t, _ in source.requests), 30, "the last layer's request")
    server.want(204, "DELETE", "/v1/templates/before")
    thread.join(60)
    equal(result[0][1][-1][0], "template", f"the pull: {result[0][1][-1]}")
    session = server.create(template="after")
    equal(server.run(session["id"], ["/bin/cat", "/etc/hello"])["stdout"], "base of both\n", "a file of the shared layer")
    server.delete(session["id"])
    whole(server)


def test_the_operator_decides_about_registries():
    source = registry(image())
    with Server(registries="reg.example") as strict:
        status, error = events(strict, {"reference": f"{source.host}/a/b:t"})
        equal(status, 403, str(error))
        has(error["message"], "registries")
    with Server(registries="*") as public:
        status, error = events(public, {"reference": f"{source.host}/a/b:t"})
        equal(status, 403, str(error))
        has(error["message"], "loopback")
    with Server(registries="docker.io", image_mirror=f"docker.io=http://{source.host}") as mirrored:
        pulled(mirrored, {"reference": "tool:t"})
        has(source.requests[-1][0], "/v2/library/tool/", "what the mirror was asked for")
        equal({h.get("authorization") for _, h in source.requests}, {None}, "credentials")


def serve_registry(folder):
    """Debian's registry on loopback: (process, host)."""
    port = harness.free_port()
    config = os.path.join(folder, "registry.yml")
    with open(config, "w", encoding="ascii") as f:
        f.write(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
                f"http: {{addr: '127.0.0.1:{port}'}}\n")
    process = subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)

    def answers():
        try:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            link.request("GET", "/v2/")
            return link.getresponse().status == 200
        except OSError:
            return False
    wait_for(answers, 20, "docker-registry")
    return process, f"127.0.0.1:{port}"


def skopeo(*words):
    done = subprocess.run(["skopeo", "--insecure-policy", *words], capture_output=True, text=True, timeout=120)
    equal(done.returncode, 0, f"skopeo {words}: {done.stderr}")
    return done.stdout


def test_a_real_registry(server):
    """What skopeo has pushed, in OCI's and in Docker's form, is what is pulled: by skopeo's own digest."""
    if not shutil.which("docker-registry") or not shutil.which("skopeo"):
        raise harness.Skip("docker-registry or skopeo is missing")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        made = image(b"real\n")
        made.write_layout(f"{folder}/oci")
        process, host = serve_registry(folder)
        try:
            for form in ("oci", "v2s2"):
                to = f"docker://{host}/deep/path/{form}:v1"
                skopeo("copy", "--dest-tls-verify=false", "--format", form, f"oci:{folder}/oci:t", to)
                told = json.loads(skopeo("inspect", "--tls-verify=false", to))
                got = pulled(server, {"reference": f"{host}/deep/path/{form}:v1"})
                equal(got[0][1]["digest"], told["Digest"], f"digest of {form}")
                equal(got[-1][1]["name"], form)
                equal(got[0][1]["layers"], len(told["Layers"]))
            status, error = events(server, {"reference": f"{host}/deep/path/none"})
            equal(status, 404, str(error))
        finally:
            process.terminate()
            process.wait(20)
    whole(server)


if __name__ == "__main__":
    run_tests(globals(), registries="*, 127.0.0.1, localhost")
