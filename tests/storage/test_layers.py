#!/usr/bin/python3
"""Goal: cordon-storage makes whole layers of images or none, in its jail, and arranges any image for sessions.

    test_layers.py CORDON_STORAGE [name ...]"""
import fcntl
import gzip
import json
import os
import pathlib
import shutil
import stat
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import ARRANGE, BOTTOM, FOLD, REMOVE, ROOTFS, UNPACK, VOLUME_REMOVE, Storage, ids  # noqa: E402
from checks import check, equal, has, wait_for  # noqa: E402
from images import ARCH, Image, archive, digest, directory, hard_link, member, symlink  # noqa: E402
from storage_tests import refused, run  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
CERT = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


class World(Storage):
    def __init__(self, bases=()):
        super().__init__(PROGRAM, authority=("1a2b3c4d.0\n" + CERT).encode(), bases=bases)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
        shutil.rmtree(self.folder)


def layers_are_whole_or_not_there():
    with World() as w:
        data = archive(directory("d", uid=5, gid=6), member("d/f", b"1", mode=0o4711, uid=5, gid=65535))
        got = w.unpack("lay_a", gzip.compress(data), digest=digest(data))
        equal(got["sha256"], digest(data)[7:])
        check(got["bytes"] == 8192 and got["entries"] == 2, got)
        st = os.stat(w.path("lay_a", "d/f"))
        equal((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)), (5, 65535, 0o4711))
        top = os.stat(os.path.join(w.folder, "layers/lay_a"))
        equal((top.st_uid, stat.S_IMODE(top.st_mode)), (0, 0o700), "the directory around it")
        refused(lambda: w.unpack("lay_b", data, digest=digest(b"other")), "digest")
        refused(lambda: w.unpack("lay_b", archive(member("../x", b"1"))), "..")
        refused(lambda: w.unpack("lay_b", archive(member("x", b"1" * 9000)), size=4096), "bytes of files")
        refused(lambda: w.unpack("lay_b", data, lower=["lay_missing"]), "not there")
        refused(lambda: w.unpack("lay_a", data), "there is a layer")
        equal(w.names(), ["lay_a"])
        w.unpack("lay_c", archive(hard_link("g", "d/f"), member(".wh.d")), lower=["lay_a"])
        equal(w.read("lay_c", "g"), "1", "a link into a lower layer")
        w.remove("lay_a")
        equal(w.names(), ["lay_c"])


def many(folder, n):
    return archive(directory(folder), *(member(f"{folder}/{i}", b"") for i in range(n)))


def what_is_made_of_a_layer_that_goes_is_refused():
    """A layer whose last use ends is removed while another one is made of it: the new one has all of its files, or is not made."""
    with World() as w:
        w.unpack("lay_low", archive(directory("etc"), member("etc/rules", b"1"), directory("z"), member("z/z", b"1")))
        w.unpack("lay_high", many("a", 20000), entries=100000)
        w.send(FOLD, struct.pack("<IIII72s256s", BOTTOM, 2, 0, 0, b"lay_new", b"") + ids(["lay_low", "lay_high"]))
        folding, layers = w.job, pathlib.Path(w.folder, "layers")
        wait_for(lambda: list(layers.glob(".new-*/0/a")), 20, "the fold to be in the upper layer")
        w.send(REMOVE, b"lay_low".ljust(72, b"\0"))
        answers = {a["job"]: a for a in (w.receive(), w.receive())}
        if answers[folding]["code"] == 0:
            equal(sorted(os.listdir(w.path("lay_new"))), ["a", "etc", "z"], "the layer that was made")
            equal(os.listdir(w.path("lay_new", "etc")), ["rules"])
        else:
            has(answers[folding]["msg"], "lay_low is not there any more")
            equal(w.names(), ["lay_high"])


def a_kill_leaves_nothing():
    with World() as w:
        read, write = os.pipe()
        w.send(UNPACK, w.unpack_request("lay_a"), [read])
        os.close(read)
        os.write(write, archive(directory("d"), member("d/f", b"1" * 10000))[:9000])
        wait_for(lambda: any(n.startswith(".new-") for n in w.names()), name="the new directory")
        w.kill()
        os.close(write)
        w.start()
        wait_for(lambda: w.names() == [], name="an empty folder")
        w.unpack("lay_a", archive(member("f", b"1")))
        equal(w.names(), ["lay_a"])


def a_late_removal_of_a_volume_is_completed():
    """The process is killed at its deadline; what it has left is removed without a restart."""
    volume = "0b1f6a3c-7d52-4c1e-9a55-2f4f9d6f3e10"
    with World() as w:
        folder = os.path.join(w.folder, "volumes")
        data = os.path.join(folder, volume, "data")
        os.makedirs(data)
        for i in range(20000):
            os.close(os.open(f"{data}/{i}", os.O_CREAT | os.O_WRONLY))
        deadline_ms = 5
        while volume in os.listdir(folder):  # not even begun before the deadline: a loaded machine
            w.send(VOLUME_REMOVE, struct.pack("<72sIIQ", volume.encode(), 0, 0, 0), deadline_ms=deadline_ms)
            got = w.receive()
            deadline_ms *= 2
        if got["code"] != 0:
            has(got["msg"], "deadline")
        wait_for(lambda: os.listdir(folder) == [], name="an empty folder")


def debian_like_images_are_arranged():
    passwd = "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/sh"
    with World() as w:
        w.unpack("lay_a", archive(
            member("etc/passwd", passwd.encode()), member("etc/group", b"root:x:0:\nsudo:x:27:\nnode:x:1000:\n"),
            member("etc/shadow", b"root:*:1:0:99999:7:::\n", mode=0o640, gid=42), symlink("bin", "usr/bin"),
            member("usr/bin/bash", b"x"), member("usr/bin/sudo", b"x"), member("etc/skel/.bashrc", b"rc"),
            member("etc/sudoers", b"@includedir /etc/sudoers.d\n", mode=0o440), symlink("etc/resolv.conf", "../run/x"),
            member("etc/ssl/certs/ca-certificates.crt", b"bundle"), symlink("proc", "/etc"), symlink("var/run", "/run")))
        w.arrange("lay_t", ["lay_a"])
        has(w.read("lay_t", "etc/passwd"), passwd + "\nuser:x:1001:1001:user:/home/user:/bin/bash\n")
        has(w.read("lay_t", "etc/group"), "sudo:x:27:user\n")
        has(w.read("lay_t", "etc/group"), "user:x:1001:\n")
        has(w.read("lay_t", "etc/shadow"), "user:*:")
        st = os.stat(w.path("lay_t", "etc/shadow"))
        equal((stat.S_IMODE(st.st_mode), st.st_gid), (0o640, 42))
        equal(w.read("lay_t", "home/user/.bashrc"), "rc")
        equal(os.stat(w.path("lay_t", "home/user")).st_uid, 1001)
        equal(w.read("lay_t", "etc/sudoers.d/cordon"), "Defaults !fqdn\nuser ALL=(ALL:ALL) NOPASSWD: ALL\n")
        has(w.read("lay_t", "etc/resolv.conf"), "nameserver 198.18.0.1")
        equal(w.read("lay_t", "etc/ssl/certs/ca-certificates.crt"), "bundle\n" + CERT)
        equal(os.readlink(w.path("lay_t", "etc/ssl/certs/1a2b3c4d.0")), "cordon.pem")
        check(stat.S_ISDIR(os.lstat(w.path("lay_t", "proc")).st_mode), "proc was a link")


def images_with_many_users_are_arranged():
    """One pass over passwd, whatever its ids are; more than 1 MiB of it is refused."""
    lines = b"".join(b"::%d\n" % i for i in range(1000, 59000))
    many = b"\n" * ((1 << 20) - len(lines)) + lines
    with World() as w:
        w.unpack("lay_a", archive(member("etc/passwd", many), member("etc/group", many)))
        w.send(ARRANGE, struct.pack("<II72s72s", 1, 0, b"lay_t", b"host") + ids(["lay_a"]), deadline_ms=20000)
        w.answer()
        has(w.read("lay_t", "etc/passwd"), "user:x:59000:59000:")
        for name in ("passwd", "group"):
            for more in (b"\n", b"\n" * (8 << 20)):
                w.unpack("lay_b", archive(member("etc/" + name, many + more)))
                refused(lambda: w.arrange("lay_u", ["lay_b"]), f"/etc/{name} of the image is larger than")  # noqa: B023
                w.remove("lay_b")


def images_with_one_program_are_arranged():
    with World() as w:
        w.unpack("lay_a", archive(member("app", b"x", mode=0o755)), form=ROOTFS)
        w.arrange("lay_t", ["lay_a"])
        equal(w.read("lay_t", "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n")
        for name, mode in (("proc", 0o555), ("dev", 0o755), ("sys", 0o555), ("tmp", 0o1777), ("root", 0o700), ("run", 0o755)):
            equal(stat.S_IMODE(os.lstat(w.path("lay_t", name)).st_mode), mode, name)
        check(not os.path.exists(w.path("lay_t", "etc/sudoers.d")), "no sudo, no rule")


def images_get_programs_for_cells():
    """What the host template has in /opt/cordon; an image with other things at that name goes without."""
    with tempfile.TemporaryDirectory() as base:
        os.makedirs(base + "/opt/cordon/kernels/python")
        os.makedirs(base + "/opt/cordon/bin")
        pathlib.Path(base, "opt/cordon/bin/cordon-interpreter").write_bytes(b"\x7fELF\0program")
        os.chmod(base + "/opt/cordon/bin/cordon-interpreter", 0o755)
        os.symlink("/usr/bin/python3", base + "/opt/cordon/bin/python")
        pathlib.Path(base, "opt/cordon/kernels/python/kernel.py").write_text("kernel")
        with World(bases=(base, base)) as w:
            w.unpack("lay_a", archive(member("app", b"x", mode=0o755)), form=ROOTFS)
            w.arrange("lay_t", ["lay_a"])
            program = w.path("lay_t", "opt/cordon/bin/cordon-interpreter")
            equal(pathlib.Path(program).read_bytes(), b"\x7fELF\0program")
            equal(stat.S_IMODE(os.stat(program).st_mode), 0o755)
            equal(w.read("lay_t", "opt/cordon/kernels/python/kernel.py"), "kernel")
            check(not os.path.lexists(w.path("lay_t", "opt/cordon/bin/python")), "links stay out")
            w.unpack("lay_b", archive(member("opt", b"a file")), form=ROOTFS)
            w.arrange("lay_u", ["lay_b"])
            check(not os.path.isdir(w.path("lay_u", "opt")), "the image's own /opt stays")


def hostile_images_are_arranged_inside():
    victim = "/tmp/cordon-arrange-victim"
    with World() as w:
        w.unpack("lay_a", archive(symlink("etc", victim), symlink("home", "/.." * 5 + victim), member("run", b"a file"),
                                  member("usr/bin/sudo", b"x"), symlink("root", "/proc/1/root")))
        refused(lambda: w.arrange("lay_t", ["lay_a"]), "not a directory")
        w.unpack("lay_b", archive(member(".wh.run")), lower=["lay_a"])
        w.arrange("lay_t", ["lay_a", "lay_b"])
        check(not os.path.exists(victim), "nothing is made outside")
        has(w.read("lay_t", victim.lstrip("/"), "passwd"), "user:x:1000")
        equal(w.names(), ["lay_a", "lay_b", "lay_t"])


def images_are_found_in_archives():
    layers = [archive(member("a", b"1")), archive(member("b", b"2" * 5000))]
    image = Image(layers, {"Env": ["A=1"]})
    plain = Image(layers, compress=lambda data: data, suffix="")
    with World() as w:
        for data in (image.layout_tar(), gzip.compress(image.layout_tar())):
            got = w.survey(data)
            equal((got["kind"], got["digest"]), ("oci", image.manifest_digest))
            equal([gzip.decompress(one) for one in got["layers"]], layers)
            equal(got["config"], image.blobs[image.config])
        equal(w.survey(plain.layout_tar())["layers"], layers)
        for data in (image.docker_archive("x:1"), gzip.compress(image.docker_archive("x:1"))):
            got = w.survey(data)
            equal((got["kind"], got["layers"], got["tag"]), ("docker", layers, "x:1"))
        equal(w.survey(layers[0])["kind"], "rootfs")
        equal(w.survey(gzip.compress(layers[0]))["kind"], "rootfs")
        equal(w.names(), [], "nothing is left")
        got = w.unpack("lay_p", b"x" * 700 + layers[1] + b"y" * 100, part=(700, len(layers[1])), digest=digest(layers[1]))
        equal(w.read("lay_p", "b"), "2" * 5000, "a layer in the middle of an archive")


def full_file():
    """One that nothing can be written to."""
    fd = os.memfd_create("full", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return os.fdopen(fd, "rb+")


def faulty_images_are_refused():
    layer = archive(member("a", b"1"))
    image = Image([layer])
    blob = "blobs/sha256/" + image.manifest["layers"][0]["digest"][7:]
    files = image.layout_files()

    def tar(**change):
        return archive(*[member(n, change.get(n, d)) for n, d in files.items() if change.get(n, d) is not None])

    rows = [
        ("does not have its digest", tar(**{blob: files[blob][:-1] + b"x"})),
        ("bytes, not", tar(**{blob: files[blob] + b"x"})),
        ("has no blob", tar(**{blob: None})),
        ("its digest is", tar(**{"blobs/sha256/" + image.config[7:]: files["blobs/sha256/" + image.config[7:]].replace(b"linux", b"LINUX")})),
        ("not JSON", tar(**{"index.json": b"{"})),
        ("no image for linux", tar(**{"index.json": files["index.json"].replace(b'"linux"', b'"plan9"')})),
        ("the image is for", Image([layer], arch="pdp11").docker_archive()),
        ("has no config.json", archive(member("manifest.json", b'[{"Config":"config.json","Layers":["x"]}]'))),
        ("not an array", archive(member("manifest.json", b"{}"))),
        ("end marker", image.layout_tar()[:-1024]),
    ]
    with World() as w:
        for why, data in rows:
            refused(lambda data=data: w.survey(data), why)
        refused(lambda: w.survey(gzip.compress(archive(member("x", b"1" * 10000))), size=5000), "more than 5000 bytes")
        refused(lambda: w.survey(gzip.compress(image.layout_tar()), spare=full_file(), reserve=1), "full up to its reserve")


def archives_at_their_bounds():
    """4,096 files of an archive are looked at, and names of four files, of which three are links, lead to one."""
    layer = archive(member("a", b"1"))
    config = json.dumps({"architecture": ARCH, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()

    def tar(extra, links):
        names = ["real.tar", *[f"l{i}.tar" for i in range(1, links + 1)]]
        manifest = json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": [names[-1]]}]).encode()
        return archive(*[member(f"e{i}", b"") for i in range(extra)], member("c.json", config), member("real.tar", layer),
                       *[symlink(names[i], names[i - 1]) for i in range(1, links + 1)], member("manifest.json", manifest))

    with World() as w:
        for data in (tar(0, 0), tar(0, 3), tar(4096 - 3, 0)):
            got = w.survey(data)
            equal((got["kind"], got["layers"], got["tag"]), ("docker", [layer], "x:1"))
        refused(lambda: w.survey(tar(0, 4)), "has no l4.tar")
        equal(w.survey(tar(4097 - 3, 0))["kind"], "rootfs", "an archive with more files is no image")


TESTS = [images_are_found_in_archives, archives_at_their_bounds, faulty_images_are_refused, layers_are_whole_or_not_there, what_is_made_of_a_layer_that_goes_is_refused, a_kill_leaves_nothing,
         a_late_removal_of_a_volume_is_completed, debian_like_images_are_arranged, images_with_many_users_are_arranged, images_with_one_program_are_arranged, images_get_programs_for_cells, hostile_images_are_arranged_inside]


if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv[2:]))
