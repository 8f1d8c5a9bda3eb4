#!/usr/bin/python3 -B
"""Goal: what a client or a registry may give is taken at its bound, and refused one beyond it, with a message that names
the bound; the server lives on. Best with sanitized daemons (CORDON_TEST_SANITIZED=1): an array that is one place too
short shows at the bound only. The bounds are those of doc/bounds.md.

    test_edges.py CORDON [name ...]
"""
import json
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
from fake_registry import Registry
from harness import check, equal, has, run_tests, wait_for
from images import Image, archive, directory, member, symlink
from registry_images import Image as RegistryImage

BUILDS = "/v1/templates/builds"
LAYERS_MAX = 127


def layers(n):
    """n layers: a system that runs in the lowest, a file in each."""
    with open("/bin/busybox", "rb") as f:
        tool = f.read()
    first = archive(directory("bin"), member("bin/busybox", tool, mode=0o755),
                    *[symlink("bin/" + name, "busybox") for name in ("sh", "cat", "mkdir", "chmod", "printf")],
                    directory("etc"), member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"), directory("tmp", mode=0o1777), member("f0", b"0"))
    return [first, *[archive(member(f"f{i}", b"%d" % i)) for i in range(1, n)]]


def upload(server, data, status, name):
    got, _, body = server.request("POST", f"/v1/templates?name={name}", data, headers={"Content-Type": "application/x-tar"}, raw=True)
    equal(got, status, body[:300])
    return json.loads(body)


def shows(server, template, n):
    session = server.create(template=template)["id"]
    equal(server.run(session, ["/bin/busybox", "cat", "/f0", f"/f{n - 1}"])["stdout"], f"0{n - 1}")
    server.delete(session)


def build(server, name, recipe):
    made = server.want(201, "POST", BUILDS, {"name": name})
    where = f"{BUILDS}/{made['id']}"
    server.want(202, "POST", where + "/start", recipe)
    return wait_for(lambda: (r := server.want(200, "GET", where))["status"] in ("ready", "error") and r, 120, "the build")


def test_layers_of_an_archive(server):
    image = Image(layers(LAYERS_MAX))
    for name, data in (("docker", image.docker_archive("a:1")), ("layout", image.layout_tar())):
        upload(server, data, 201, "most-" + name)
        shows(server, "most-" + name, LAYERS_MAX)
    more = Image(layers(LAYERS_MAX + 1))
    for name, data in (("docker", more.docker_archive("a:1")), ("layout", more.layout_tar())):
        has(upload(server, data, 400, "more-" + name)["error"]["message"], f"{LAYERS_MAX}")


def test_layers_of_a_registry(server):
    """As the base of a build: the key needs no more than scope sessions for it."""
    for n, want in ((LAYERS_MAX, "ready"), (LAYERS_MAX + 1, "error")):
        registry = Registry(RegistryImage(layers(n), {"Cmd": ["/bin/sh"]}))
        row = build(server, f"pulled-{n}", {"fromImage": f"{registry.host}/a/b:t", "steps": []})
        registry.close()
        equal(row["status"], want, row["reason"])
        if want == "error":
            has(row["reason"], f"{LAYERS_MAX}")
        else:
            shows(server, f"pulled-{n}", n)


# --- builds


def asked(server, status=201, **body):
    got, _, data = server.request("POST", BUILDS, {"name": "edge", **body})
    equal(got, status, f"{data}"[:300])
    return data


def test_tags_of_a_build(server):
    equal(len(asked(server, tags=[f"t{i}" for i in range(32)])["tags"]), 32)
    has(asked(server, 400, tags=[f"t{i}" for i in range(33)])["error"]["message"], "tags")


def test_builds_that_wait(server):
    """Each with a tag of its own: a build that waits ends when another of its tag is asked for."""
    id, key = server.tenant("edge-waiting")
    for i in range(64):
        server.want(201, "POST", BUILDS, {"name": f"waits:t{i}"}, key=key)
    has(server.want(429, "POST", BUILDS, {"name": "waits:one-more"}, key=key)["error"]["message"], "64 builds")


def starts(server, recipe):
    """(status, message) of a start; a build that starts ends at its base, which does not exist."""
    made = asked(server)
    got, _, data = server.request("POST", f"{BUILDS}/{made['id']}/start", {"fromTemplate": "no-such-base", **recipe})
    return got, data.get("error", {}).get("message", "")


def step(kind, *args, **more):
    return {"type": kind, "args": list(args), **more}


def pairs(n):
    return [x for i in range(n) for x in (f"V{i}", "x")]


RECIPES = {  # what: (at the bound, one beyond)
    "steps": ({"steps": [step("RUN", "true")] * 256}, {"steps": [step("RUN", "true")] * 257}),
    "arguments": ({"steps": [step("ENV", *pairs(128))]}, {"steps": [step("ENV", *pairs(128), "ONE")]}),
    "text": ({"steps": [step("RUN", "x" * 65536)]}, {"steps": [step("RUN", "x" * 65537)]}),
    "command": ({"steps": [], "startCmd": "x" * 65536}, {"steps": [], "startCmd": "x" * 65537}),
    "user": ({"steps": [step("USER", "u" * 63)]}, {"steps": [step("USER", "u" * 64)]}),
    "path": ({"steps": [step("WORKDIR", "/" + "p" * 4094)]}, {"steps": [step("WORKDIR", "/" + "p" * 4095)]}),
    "destination": ({"steps": [step("COPY", "a", "/" + "p" * 4094, filesHash="ab" * 32)]},
                    {"steps": [step("COPY", "a", "/" + "p" * 4095, filesHash="ab" * 32)]}),
    "hash": ({"steps": [step("COPY", "a", "b", filesHash="ab" * 32)]}, {"steps": [step("COPY", "a", "b", filesHash="ab" * 32 + "a")]}),
    "reference": ({"fromTemplate": "a" * 512, "steps": []}, {"fromTemplate": "a" * 513, "steps": []}),
}  # fmt: skip


def test_recipes(server):
    for what, (most, more) in RECIPES.items():
        equal(starts(server, most), (202, ""), what)
        got, said = starts(server, more)
        equal(got, 400, f"{what}: {said}")
        check(said, what)


def test_the_environment_of_a_build(server):
    """256 KiB: four values of 64 KiB with their names and NULs do not fit, with less they do."""
    def env(last):
        return [step("ENV", f"V{i}", "x" * (65536 - 4)) for i in range(3)] + [step("ENV", "V3", "x" * last)]

    upload(server, Image(layers(1)).docker_archive("a:1"), 201, "edge-empty")
    for last, want in ((65536 - 4, "ready"), (65536 - 3, "error")):
        row = build(server, "edge-env", {"fromTemplate": "edge-empty", "steps": env(last)})
        equal(row["status"], want, row["reason"])


def test_entries_of_a_log(server):
    row = build(server, "edge-log", {"fromTemplate": "base", "steps": [step("RUN", "seq 1 12000")]})
    equal(row["status"], "ready", row["reason"])
    last = server.want(200, "GET", f"{BUILDS}/{row['id']}?after=9999")["log"]
    equal([e["message"] for e in last[:1]], ["more output follows, which is not kept"])
    check(len(last) <= 17, f"{len(last)} entries behind the bound")


# --- sessions and executions


def test_sessions(server):
    env, metadata = {f"V{i}": "x" for i in range(256)}, {f"m{i}": "x" for i in range(64)}
    session = server.create(env=env, metadata=metadata)["id"]
    equal(server.run(session, "env | grep -c ^V")["stdout"], "256\n")
    server.delete(session)
    has(server.want(400, "POST", "/v1/sessions", {"env": {**env, "MORE": "x"}})["error"]["message"], "256")
    has(server.want(400, "POST", "/v1/sessions", {"metadata": {**metadata, "more": "x"}})["error"]["message"], "64")


def test_executions(server):
    session = server.create()["id"]
    where = f"/v1/sessions/{session}/executions"
    equal(server.run(session, ["/bin/sh", "-c", "echo $#", "sh"] + ["x"] * 4092)["stdout"], "4092\n")
    has(server.want(400, "POST", where, {"argv": ["/bin/true"] + ["x"] * 4096})["error"]["message"], "4096")
    env = {f"V{i}": "x" for i in range(256)}
    equal(server.run(session, "env | grep -c ^V", env=env)["stdout"], "256\n")
    has(server.want(400, "POST", where, {"command": "true", "env": {**env, "MORE": "x"}})["error"]["message"], "256")
    server.delete(session)


if __name__ == "__main__":
    run_tests(globals(), registries="*, 127.0.0.1")
