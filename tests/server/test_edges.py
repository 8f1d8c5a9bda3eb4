#!/usr/bin/python3 -B
"""Goal: what a client or a registry may give is taken at its bound, and refused one beyond it, with a message that names
the bound; the server lives on. Best with sanitized daemons (CORDON_TEST_SANITIZED=1): an array that is one place too
short shows at the bound only. The bounds are those of doc/security/bounds.md.

    test_edges.py CORDON [name ...]
"""
import gzip
import json
import os
import socket
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
from fake_registry import Registry
from harness import check, equal, has, run_tests, wait_for
from images import Image, archive, directory, member, symlink
from registry_images import Image as RegistryImage

BUILDS = "/v1/builds"
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
    "network": ({"network": ",".join(["pypi"] * 12) + ",npm", "steps": []}, {"network": ",".join(["pypi"] * 13), "steps": []}),
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


def test_texts_of_a_template(server):
    """Its environment and its commands at their bounds, of bytes that have six characters each in JSON: it is shown, and changed."""
    upload(server, Image(layers(1)).docker_archive("a:1"), 201, "edge-texts-base")
    many, rest = "\x7f" * (65536 - 4), "\x7f" * (65536 - 8)
    steps = [step("ENV", f"V{i}", many) for i in range(3)] + [step("ENV", "V3", rest)]
    start, ready = [command + "\x7f" * (65536 - len(command)) for command in ("/bin/busybox sleep 1000 #", "true #")]
    recipe = {"fromTemplate": "edge-texts-base", "steps": steps, "startCmd": start, "readyCmd": ready}
    row = build(server, "edge-texts", json.dumps(recipe, ensure_ascii=False).encode())  # as they are: a body has bounds, too
    equal(row["status"], "ready", row["reason"])
    shown = server.want(200, "GET", "/v1/templates/edge-texts")
    equal((shown["env"]["V2"], shown["start_command"], shown["ready_command"]), (many, start, ready))
    equal(server.want(200, "PATCH", "/v1/templates/edge-texts", {"public": True})["env"]["V3"], rest)


def test_entries_of_a_log(server):
    row = build(server, "edge-log", {"fromTemplate": "base", "steps": [step("RUN", "seq 1 12000")]})
    equal(row["status"], "ready", row["reason"])
    last = server.want(200, "GET", f"{BUILDS}/{row['id']}?after=9999")["log"]
    equal([e["message"] for e in last[:1]], ["more output follows, which is not kept"])
    check(len(last) <= 17, f"{len(last)} entries behind the bound")


def test_bytes_of_a_log(server):
    """4 MiB, for each entry 64 bytes counted; then the log says that it ends, once."""
    row = build(server, "edge-bytes", {"fromTemplate": "base", "steps": [step("RUN", "head -c 5000000 /dev/zero | tr '\\0' x | fold -b -w 4000; echo; echo the end")]})
    equal(row["status"], "ready", row["reason"])
    seen = []
    while got := server.want(200, "GET", f"{BUILDS}/{row['id']}?after={len(seen)}")["log"]:
        seen += [e["message"] for e in got]
    kept = sum(len(m) + 64 for m in seen)
    check((4 << 20) - 4100 < kept <= (4 << 20) + 200, f"{kept} bytes are kept")
    equal([m for m in seen if "not kept" in m], ["more output follows, which is not kept"])


def test_lines_of_a_log(server):
    """A longer line is cut into pieces of 4,015 bytes."""
    row = build(server, "edge-line", {"fromTemplate": "base", "steps": [step("RUN", "for n in 4015 4016; do head -c $n /dev/zero | tr '\\0' x; echo; done")]})
    equal(row["status"], "ready", row["reason"])
    said = [e["message"].partition("[stdout]: ")[2] for e in server.want(200, "GET", f"{BUILDS}/{row['id']}")["log"]]
    equal([len(text) for text in said if text], [4015, 4015, 1], "one line as it is, and one in two pieces")


def test_output_of_a_step(server):
    """What is kept of the output of a command has a bound of its own, above that of a log: the step goes on."""
    for n in (8 << 20, (8 << 20) + 1):
        row = build(server, "edge-output", {"fromTemplate": "base", "steps": [step("RUN", f"head -c {n} /dev/zero; echo end > /tmp/end")]})
        equal(row["status"], "ready", row["reason"])


def test_size_of_a_build(server):
    """The server's own limits are as large as they can be: of CPUs that is less than a request may say."""
    asked(server, cpus=1000)
    has(asked(server, 400, cpus=1024)["error"]["message"], "limit of the server (1000)")
    has(asked(server, 400, cpus=1025)["error"]["message"], "from 1 to 1024")
    asked(server, memory=16777216 << 20)
    has(asked(server, 400, memory=(16777216 + 2) << 20)["error"]["message"], "Memory exceeds")


def test_body_with_lockfiles(server):
    start = b'{"network":{"packages":{"lockfiles":[{"name":"requirements.txt","text":"'
    end = b'"}]}}}'
    for more, want in ((0, 201), (1, 413)):
        text = b"#" * 60000 + b"\\n"
        text = (text * 100)[:(4 << 20) + more - len(start) - len(end) - 2] + b"\\n"
        body = start + text.replace(b"\\#", b"##") + end
        equal(len(body), (4 << 20) + more, "bytes of the body")
        got, _, data = server.request("POST", "/v1/sessions", body, raw=True)
        equal(got, want, data[:300])
        if got == 201:
            server.delete(json.loads(data)["id"])


def test_bytes_of_an_import(server):
    """The server believes a length before the bytes are there: it waits for as many, and refuses one more at once."""
    for more in (0, 1):
        with socket.create_connection(server.address, timeout=1.5) as s:
            s.sendall(f"POST /v1/templates?name=edge-import HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.key}\r\nContent-Type: application/x-tar\r\n"
                      f"Content-Length: {(20 << 30) + more}\r\n\r\n".encode())
            try:
                got = s.recv(4096)
            except TimeoutError:
                got = b""
        equal(got[:12], b"HTTP/1.1 413" if more else b"", f"{more} beyond")


def test_tags_of_a_pull(server):
    for n, want in ((16, "200"), (17, "400")):
        got, _, data = server.request("POST", "/v1/templates/pull", {"reference": "127.0.0.1:1/x:t", "name": "edge", "tags": [f"t{i}" for i in range(n)]}, raw=True)
        has(f"{data}", "tags" if n == 17 else "127.0.0.1")
        equal(got == 400 and b"tags" in data, n == 17, f"{n} tags: {got} {data[:200]}")


def test_files_of_a_template(server):
    """The list ends at its limit, and takes the time of what is in it: not of each name with each other."""
    names, times = 60000, []
    upload(server, gzip.compress(archive(directory("d"), *[member(f"d/{'a' * 60}{i:06}", b"") for i in range(names)]), 1), 201, "edge-files")
    where = "/v1/templates/edge-files/files?path=/d&limit="
    has(server.want(400, "GET", where + "4097")["error"]["message"], "4096")
    for _ in range(3):
        begun = time.monotonic()
        equal(len(server.want(200, "GET", where + "4096")["entries"]), 4096)
        times.append(time.monotonic() - begun)
    check(min(times) < 1, f"{min(times):.2f} s")


def test_a_list_that_is_too_long(server):
    """Names and links of the most bytes, which have six characters each in JSON: the list ends at 4 MiB, and says so."""
    names = [f"{i:04}" + "\x7f" * 251 for i in range(4096)]
    data = archive(directory("d"), *[symlink("d/" + name, "\x7f" * 511) for name in names])
    upload(server, gzip.compress(data, 1), 201, "edge-links")
    where = "/v1/templates/edge-links/files?path=/d&limit="
    some = server.want(200, "GET", where + "100")
    listed = [e["name"] for e in some["entries"]]
    check(len(listed) == 100 and listed == sorted(listed) and set(listed) < set(names) and some["truncated"], f"{len(listed)} names")
    raw = server.want(200, "GET", where + "4096", raw=True)
    got = json.loads(raw)
    check(4 << 20 <= len(raw) < (4 << 20) + 65536 and got["truncated"], f"{len(raw)} bytes")
    equal([e["name"] for e in got["entries"]], names[: len(got["entries"])])
    equal({e["target"] for e in got["entries"]}, {"\x7f" * 511})


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
    run_tests(globals(), build_networks="pypi,npm", registries="*, 127.0.0.1", cpus_max="1000", memory_max="32T")
