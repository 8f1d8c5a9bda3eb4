#!/usr/bin/python3 -B
"""Goal: cordon-pull talks to registries, so one day it is taken over. Then it can refuse images, but what a digest names
stays what it is, nothing half is kept, and cordond goes on.

    test_hostile_pull.py CORDON [name ...]

A program that stands in for cordon-pull answers each pull as a test has written down for it.
"""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry"))
import harness
from harness import Server, check, equal, has, run_tests, wait_for
from pull_channel import BLOB_DONE, DOCUMENT, FAILED, PROGRESS, string
from registry_images import Image, digest, layer

KILLS = True  # channels are given up, and programs started again
INDEX, MANIFEST, CONFIG = b"\0", b"\1", b"\2"

FAKE = r"""#!/usr/bin/python3 -I
import json, os, socket, struct, sys
here = os.path.dirname(os.path.abspath(sys.argv[0]))
channel, data, waiting = socket.socket(fileno=4), b"", []

def say(kind, pull, blob, body):
    body = struct.pack("<II", pull, blob) + body
    channel.sendall(struct.pack("<IHH", len(body), kind, 0) + body)

while True:
    got, fds, _, _ = socket.recv_fds(channel, 1 << 20, 64)
    if not got:
        sys.exit(0)
    data += got
    waiting += fds
    while len(data) >= 8:
        size, kind, _ = struct.unpack("<IHH", data[:8])
        if len(data) < 8 + size:
            break
        body, data = data[8:8 + size], data[8 + size:]
        pull, blob = struct.unpack("<II", body[:8])
        with open(os.path.join(here, "script.json")) as f:
            script = json.load(f)
        if kind == 1:
            for what, number, text in script["start"]:
                say(what, pull, number, bytes.fromhex(text))
            channel.sendall(bytes.fromhex(script.get("raw", "")))
        elif kind == 2:
            fd = waiting.pop(0)
            try:
                os.write(fd, bytes.fromhex(script["blobs"][(blob - 1) % 127]))
            except OSError:
                pass
            os.close(fd)
            say(66, pull, blob, b"")
        elif kind == 4:
            say(68, 0, 0, b"")
"""


def image():
    return Image([layer({"proc/": None, "a": b"a\n"}), layer({"b": b"b\n"})])


class Bed:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="cordon-hostile-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)
        for name in harness.PROGRAMS:
            if name != "cordon-pull":
                shutil.copy(os.path.join(os.path.dirname(os.path.abspath(harness.PROGRAM)), name), self.folder)
        with open(f"{self.folder}/cordon-pull", "w", encoding="ascii") as f:
            f.write(FAKE)
        os.chmod(f"{self.folder}/cordon-pull", 0o755)
        self.says([])
        self.server = Server(program=f"{self.folder}/cordon")

    def says(self, start, blobs=(), raw=b""):
        rows = [(kind, blob, body.hex()) for kind, blob, body in start]
        with open(f"{self.folder}/next.json", "w", encoding="ascii") as f:
            json.dump({"start": rows, "blobs": [b.hex() for b in blobs], "raw": raw.hex()}, f)
        os.chmod(f"{self.folder}/next.json", 0o644)
        os.rename(f"{self.folder}/next.json", f"{self.folder}/script.json")

    def pull(self, reference="reg.example/a/b:t"):
        """("template" or an error's code, its message)."""
        status, _, data = self.server.request("POST", "/v1/templates/pull", {"reference": reference, "name": "x"}, raw=True)
        if status != 200:
            error = json.loads(data)["error"]
            return error["code"], error["message"]
        blocks = [dict(line.split(": ", 1) for line in b.splitlines() if ": " in line) for b in data.decode().split("\n\n")]
        last = [b for b in blocks if "event" in b][-1]
        if last["event"] == "template":
            return "template", ""
        error = json.loads(last["data"])["error"]
        return error["code"], error["message"]

    def refuses(self, *parts, reference="reg.example/a/b:t"):
        code, message = self.pull(reference)
        check(code != "template", f"made although {parts}")
        for part in parts:
            has(message, part)
        self.server.refused(404, "not_found", "GET", "/v1/templates/x")

    def clean(self):
        layers = os.path.join(self.server.state, "storage", "layers")
        wait_for(lambda: os.listdir(layers) == [], 20, "nothing on disk")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def documents(made):
    return [(DOCUMENT, 0, MANIFEST + made.manifest_bytes), (DOCUMENT, 0, CONFIG + made.config)]


def test_what_a_digest_names_cannot_be_forged():
    made, other = image(), Image([layer({"evil": b"e\n"})])
    blobs = [made.blobs[name] for name in made.layers]
    manifest, config = documents(made)
    with Bed() as bed:
        bed.says(documents(other), [other.blobs[other.layers[0]]])
        bed.refuses("digest", reference=f"reg.example/a/b@{digest(made.manifest_bytes)}")
        bed.says([manifest, (DOCUMENT, 0, CONFIG + other.config)], blobs)
        bed.refuses("another size")
        bed.says([manifest, (DOCUMENT, 0, CONFIG + made.config.replace(b"amd64", b"arm64").replace(b"linux", b"linuy"))], blobs)
        bed.refuses("")
        bed.says([manifest, config], [blobs[0], other.blobs[other.layers[0]]])
        bed.refuses("failed to pull image")
        bed.says([manifest, config], [blobs[0], b""])
        bed.refuses("failed to pull image")
        bed.clean()
        bed.says([manifest, config], blobs)
        equal(bed.pull(f"reg.example/a/b@{digest(made.manifest_bytes)}"), ("template", ""), "an honest one")


def test_documents_come_in_order_and_once():
    made = image()
    blobs = [made.blobs[name] for name in made.layers]
    manifest, config = documents(made)
    made.index()
    index = (DOCUMENT, 0, INDEX + made.tag[0])
    with Bed() as bed:
        for rows in ([config], [manifest, manifest], [manifest, index], [index, index, index, manifest, config],
                     [(DOCUMENT, 0, INDEX + b"{}")], [(DOCUMENT, 0, MANIFEST + b"[" * 100000)]):
            bed.says(rows, blobs)
            bed.refuses("failed to pull image")
        bed.says([(BLOB_DONE, 1, b""), (PROGRESS, 9, b"\0" * 8), manifest, (BLOB_DONE, 77, b""), config, (BLOB_DONE, 99, b"")],
                 blobs)
        equal(bed.pull(), ("template", ""), "what was not asked for is passed over")


def test_nonsense_costs_a_channel_and_nothing_else():
    made = image()
    with Bed() as bed:
        for raw in (b"\xff" * 32, b"\x08\0\0\0\x63\0\0\0" + b"\1\0\0\0\0\0\0\0", b"\x08\0\0\0\x01\0\0\0" + b"\1\0\0\0\0\0\0\0"):
            bed.says([], raw=raw)
            old = bed.server.pid("cordon-pull")
            bed.refuses("cordon-pull exited")
            wait_for(lambda: bed.server.pid("cordon-pull") not in (None, old), 20, "another cordon-pull")
        bed.says([(FAILED, 0, b"\x07" + string("X") + string("line\nbreak\x1b[31m"))])
        code, message = bed.pull()
        check("\n" not in message and "\x1b" not in message, f"control bytes: {message!r}")
        bed.says(documents(made), [made.blobs[name] for name in made.layers])
        wait_for(lambda: bed.pull() == ("template", ""), 20, "the next one works")


if __name__ == "__main__":
    run_tests(globals())
