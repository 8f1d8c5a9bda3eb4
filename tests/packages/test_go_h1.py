#!/usr/bin/python3 -B
"""Goal: the hash of a module's zip is the one that go writes into go.sum, however the work is cut into slices; zips that
are not as go makes them, and bombs, are refused.

    test_go_h1.py H1_TOOL [name ...]
"""
import base64
import hashlib
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, check, equal, has, named_tests, run_tap  # noqa: E402

TOOL = ""


def make(files, **more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **more) as z:
        for name, content, method in files:
            z.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return out.getvalue()


def dirhash(files):
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content, _ in sorted(files))
    return "h1:" + base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()


def run(data, piece=None):
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        done = subprocess.run([TOOL, f.name] + ([str(piece)] if piece else []), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip() + done.stderr


def refused(data, why):
    for piece in (None, 1):
        code, text = run(data, piece)
        equal(code, 1, text)
        has(text, why)


def module(rng, name="code.example/demo@v1.0.0"):
    files = [(f"{name}/go.mod", b"module code.example/demo\n", zipfile.ZIP_DEFLATED)]
    for i in range(rng.randrange(1, 30)):
        content = rng.choice([b"", b"package demo\n" * rng.randrange(20000), rng.randbytes(rng.randrange(200000))])
        files.append((f"{name}/{rng.choice('aZ_-')}{i}/{rng.choice(['x.go', 'Y.go', 'a.b'])}", content,
                      rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))
    rng.shuffle(files)
    return files


def test_the_hash_is_the_same_in_slices_of_any_size():
    for seed in range(12):
        rng = random.Random(seed)
        files = module(rng)
        data = make(files)
        for piece in (None, 1, 5000, 100000):
            equal(run(data, piece), (0, dirhash(files)), f"seed {seed}, slices of {piece}")
    equal(run(make([])), (0, dirhash([])))


def test_go_computes_the_same():
    if not shutil.which("go"):
        raise Skip("no go")
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "proxy/code.example/demo/@v")
        os.makedirs(folder)
        env = dict(os.environ, GOPROXY="file://" + os.path.join(top, "proxy"), GONOSUMDB="*", GONOSUMCHECK="1", GOFLAGS="-mod=mod",
                   GOPATH=os.path.join(top, "path"), GOCACHE=os.path.join(top, "cache"), HOME=top, GOTOOLCHAIN="local", GOSUMDB="off")
        for seed in range(3):
            version = f"v1.0.{seed}"
            data = make(module(random.Random(100 + seed), f"code.example/demo@{version}"))
            for end, content in ((".zip", data), (".mod", b"module code.example/demo\n"), (".info", json.dumps({"Version": version}).encode())):
                with open(os.path.join(folder, version + end), "wb") as f:
                    f.write(content)
            done = subprocess.run(["go", "mod", "download", "-json", f"code.example/demo@{version}"], capture_output=True, text=True, env=env,
                                  cwd=top, timeout=60)
            equal(run(data), (0, json.loads(done.stdout).get("Sum")), done.stdout + done.stderr)
        subprocess.run(["chmod", "-R", "u+w", top], check=True)


def test_zips_that_are_refused():
    good = make([("m@v1.0.0/a", b"a" * 1000, zipfile.ZIP_DEFLATED), ("m@v1.0.0/b", b"b", zipfile.ZIP_STORED)])
    end = len(good) - 22
    directory = struct.unpack_from("<I", good, end + 16)[0]

    def changed(at, fmt, value):
        out = bytearray(good)
        struct.pack_into(fmt, out, at, value)
        return bytes(out)
    equal(run(good)[0], 0)
    refused(b"", "too short")
    refused(b"x" * 100, "no end of a directory")
    refused(good + b"x", "no end of a directory")
    refused(good[:-1], "no end of a directory")
    refused(changed(end + 20, "<H", 1), "no end of a directory")
    refused(changed(end + 10, "<H", 3), "elsewhere")
    refused(changed(end + 16, "<I", directory - 1), "elsewhere")
    refused(changed(directory, "<I", 7), "stored or deflated")
    refused(changed(directory + 8, "<H", 1), "stored or deflated")  # encrypted
    refused(changed(directory + 10, "<H", 12), "stored or deflated")  # bzip2
    refused(changed(directory + 24, "<I", 999), "too long")
    refused(changed(directory + 24, "<I", 1001), "another size")
    refused(changed(directory + 20, "<I", 2), "malformed")
    refused(changed(directory + 42, "<I", 1 << 31), "outside")
    refused(changed(directory + 42, "<I", directory - 30), "unlike")
    refused(changed(0, "<I", 0), "unlike")
    refused(changed(26, "<H", 0xfff0), "into the directory")
    refused(changed(directory + 28, "<H", 0), "empty")
    refused(make([("a", b"", 0), ("a", b"x", 0)]), "a name twice")
    refused(make([("a\nb", b"", 0)]), "a new line")


def test_bombs_are_refused():
    bomb = make([(f"m@v1.0.0/{i}", bytes(400 << 20), zipfile.ZIP_DEFLATED) for i in range(1)])
    check(len(bomb) < 1 << 20, "it is small")
    # the same content twice, by two entries of the directory
    end = len(bomb) - 22
    directory = struct.unpack_from("<I", bomb, end + 16)[0]
    entry = bomb[directory:end]
    twice = bomb[:directory] + entry + entry.replace(b"/0", b"/1")
    twice += struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 2, 2, 2 * len(entry), directory, 0)
    refused(twice, "more than 600 MiB")
    many = make([(f"f{i}", b"", 0) for i in range(60001)])
    refused(many, "more than 60000 files")


def main():
    global TOOL
    TOOL = sys.argv[1]
    return run_tap(named_tests(globals(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
