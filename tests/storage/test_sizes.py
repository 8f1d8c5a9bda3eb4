#!/usr/bin/python3
"""Goal: cordon-storage says what the images of disks and volumes really take, and of nothing else.

    test_sizes.py CORDON_STORAGE [name ...]"""
import os
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import OPS, Storage  # noqa: E402
from checks import check, equal  # noqa: E402
from storage_tests import run  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
SIZE = struct.Struct("<Q72s")
MIB = 1 << 20


class World(Storage):
    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
        shutil.rmtree(self.folder)

    def sizes(self):
        with tempfile.TemporaryFile() as f:
            self.ask(OPS.index("SIZES"), b"", [f.fileno()])
            f.seek(0)
            rows = [SIZE.unpack(row) for row in iter(lambda: f.read(SIZE.size), b"")]
        found = {name.split(b"\0")[0].decode(): size for size, name in rows}
        equal(len(found), len(rows), "each once")
        return found

    def image(self, path, written):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "r+b" if os.path.exists(path) else "wb") as f:
            f.truncate(1 << 40)
            f.write(os.urandom(written))
            f.flush()
            os.fsync(f.fileno())
        return os.stat(path).st_blocks * 512


def what_images_take():
    with World(PROGRAM) as w:
        equal(w.sizes(), {})
        volume, directory = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
        want = {"iabc": w.image("disks/iabc.img", 3 * MIB), volume: w.image(f"volumes/{volume}/image", 5 * MIB), "iempty": w.image("disks/iempty.img", 0)}
        w.image("disks/.new-7", MIB)  # being made
        w.image("volumes/.gone-8/image", MIB)
        w.image(f"volumes/{directory}/data/f", MIB)  # it has no image
        w.image("disks/other", MIB)
        equal(w.sizes(), want)
        check(want["iabc"] >= 3 * MIB and want[volume] >= 5 * MIB and want["iempty"] < MIB, f"{want}")
        want["iabc"] = w.image("disks/iabc.img", 9 * MIB)
        equal(w.sizes(), want, "it has grown")


def more_than_a_buffer():
    with World(PROGRAM) as w:
        for i in range(700):
            w.image(f"disks/i{i}.img", 0)
        equal(sorted(w.sizes()), sorted(f"i{i}" for i in range(700)))


if __name__ == "__main__":
    sys.exit(run([what_images_take, more_than_a_buffer], sys.argv[2:]))
