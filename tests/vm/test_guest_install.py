#!/usr/bin/python3 -B
"""test_guest_install.py - `cordon guest`: Debian's kernel package becomes the files that guests are booted from.

The package of this machine's Debian is downloaded once. The form of the other Debian (zstd, modules packed with xz, all
below /usr) is made from the same kernel, and must give the same files."""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
import guest_kernel  # noqa: E402
from checks import check, equal, has, named_tests, run_tap  # noqa: E402

CORDON = str(pathlib.Path(sys.argv[1]).resolve())
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="guest-install-"))


def guest(*words, good=True):
    done = subprocess.run([CORDON, "guest", *map(str, words)], capture_output=True, text=True)
    equal(done.returncode == 0, good, f"cordon guest {words}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def manifest(state):
    return dict(line.split(" ", 1) for line in (state / "guest" / "manifest").read_text().splitlines())


def entries(archive):
    """Name, mode and content of each entry of one or more archives, in their order. Zeros may follow."""
    data, at, found = archive.read_bytes().rstrip(b"\0"), 0, []
    while at < len(data):
        fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        equal(data[at:at + 6], b"070701", f"magic at {at}")
        name = data[at + 110:at + 110 + fields[11] - 1].decode()
        at = (at + 110 + fields[11] + 3) & ~3
        if name != "TRAILER!!!":
            found.append((name, fields[1], data[at:at + fields[6]]))
        at = (at + fields[6] + 3) & ~3
    return found


def vmlinux(state):
    return (state / "guest" / "vmlinux").read_bytes()


def bz_image(payload):
    """The smallest bzImage with this payload: one sector of setup, and the header's few fields that matter."""
    head = bytearray(1024)
    head[0x1f1] = 1
    head[0x202:0x208] = b"HdrS" + struct.pack("<H", 0x20f)
    head[0x248:0x250] = struct.pack("<II", 0, len(payload) + 4)
    return bytes(head) + payload + struct.pack("<I", 0)


def package(name, kernel, modules, builtin=""):
    """A kernel package in the form of Debian 13."""
    tree = FOLDER / name
    folder = tree / "usr/lib/modules/9.9-test/kernel/some/where"
    folder.mkdir(parents=True)
    (tree / "DEBIAN").mkdir()
    (tree / "boot").mkdir()
    (tree / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n")
    (tree / "boot/vmlinuz-9.9-test").write_bytes(kernel)
    (folder.parent.parent.parent / "modules.builtin").write_text(builtin)
    for module, data in modules.items():
        packed = subprocess.run(["xz", "-0", "--check=crc32"], input=data, capture_output=True, check=True).stdout
        (folder / f"{module.replace('_', '-')}.ko.xz").write_bytes(packed)
    subprocess.run(["dpkg-deb", "-Znone", "-b", tree, FOLDER / f"{name}.deb"], check=True, stdout=subprocess.DEVNULL)
    return FOLDER / f"{name}.deb"


def modules_of(state):
    return {name.split("-", 1)[1][:-3]: data for name, mode, data in entries(state / "guest" / "modules") if name.endswith(".ko")}


def test_package_of_this_debian():
    state = guest_kernel.state(CORDON)
    shown = guest("--state-dir", state)
    has(shown, manifest(state)["kernel"], "the release")
    check(vmlinux(state).startswith(b"\x7fELF"), "vmlinux is an ELF file")
    names = list(modules_of(state))
    for name in ("virtio_mmio", "virtio_blk", "erofs", "overlay", "nft_tproxy"):
        check(name in names, f"{name} in {names}")
    for name, data in modules_of(state).items():  # each behind those that it depends on
        depends = data[data.index(b"\0depends=") + 9:].split(b"\0", 1)[0].decode().replace("-", "_")
        for other in filter(None, depends.split(",")):
            check(names.index(other) < names.index(name), f"{other} is loaded before {name}")


def test_package_of_the_other_debian():
    first, second = guest_kernel.state(CORDON), FOLDER / "state"
    packed = subprocess.run(["zstd", "-1", "-c"], input=vmlinux(first), capture_output=True, check=True).stdout
    guest("install", "--deb", package("other", bz_image(packed), modules_of(first)), "--state-dir", second)
    equal(manifest(second)["kernel"], "9.9-test", "release")
    equal(manifest(second)["vmlinux"], manifest(first)["vmlinux"], "the same kernel")
    equal(modules_of(second).keys() ^ modules_of(first).keys(), set(), "the same modules")
    equal([p.name for p in second.iterdir()], ["guest"], "nothing is left beside it")


def test_built_in_modules_are_left_out():
    first, second = guest_kernel.state(CORDON), FOLDER / "builtin"
    deb = package("builtin", vmlinux(first), {n: d for n, d in modules_of(first).items() if n != "virtio_console"},
                  "kernel/drivers/char/virtio-console.ko\n")
    guest("install", "--deb", deb, "--state-dir", second)
    check("virtio_console" not in modules_of(second), "it is part of the kernel")


def test_initramfs_has_this_init_first():
    state = guest_kernel.state(CORDON)
    guest("--state-dir", state, "--initramfs", FOLDER / "initramfs")
    found = {name: (mode, data) for name, mode, data in entries(FOLDER / "initramfs")}
    equal(found["init"], (0o100755, pathlib.Path(CORDON).with_name("cordon-init").read_bytes()), "cordon-init of this build")
    check(any(name.endswith("-erofs.ko") for name in found), "and the modules")


def test_failed_install_changes_nothing():
    state = FOLDER / "kept"
    shutil.copytree(guest_kernel.state(CORDON) / "guest", state / "guest")
    before = manifest(state)
    has(guest("install", "--deb", package("none", vmlinux(state), {}), "--state-dir", state, good=False), "no module virtio_mmio")
    has(guest("install", "--deb", package("bad", b"x" * 4096, {}), "--state-dir", state, good=False), "neither a bzImage nor")
    has(guest("install", "--deb", package("short", bz_image(b"ab")[:1025], {}), "--state-dir", state, good=False), "cut off")
    plain = vmlinux(state).replace(b"\x12\0\0\0Xen\0", b"\x13\0\0\0Xen\0")
    has(guest("install", "--deb", package("pvh", plain, {}), "--state-dir", state, good=False), "no PVH entry")
    has(guest("install", "--deb", FOLDER / "missing", "--state-dir", state, good=False), "missing")
    equal(manifest(state), before, "manifest")
    equal([p.name for p in state.iterdir()], ["guest"], "nothing is left beside it")


def test_interrupted_install_is_cleaned_up():
    state = FOLDER / "interrupted"
    (state / ".guest-new" / "out" / "rest").mkdir(parents=True)
    first = guest_kernel.state(CORDON)
    guest("install", "--deb", package("after", vmlinux(first), modules_of(first)), "--state-dir", state)
    equal([p.name for p in state.iterdir()], ["guest"], "the rest of the killed one is gone")


def test_damage_is_noticed():
    state = FOLDER / "damaged"
    shutil.copytree(guest_kernel.state(CORDON) / "guest", state / "guest")
    with open(state / "guest" / "modules", "r+b") as file:
        file.seek(5000)
        file.write(b"?")
    has(guest("--state-dir", state, "--initramfs", FOLDER / "unused", good=False), "modules is damaged")
    has(guest("--state-dir", FOLDER / "nowhere", good=False), "cordon level install microvm")


if __name__ == "__main__":
    try:
        code = run_tap(named_tests(globals(), sys.argv[2:]))
    finally:
        shutil.rmtree(FOLDER)
    sys.exit(code)
