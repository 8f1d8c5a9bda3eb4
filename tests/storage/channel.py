"""channel.py - cordon-storage as cordond talks to it: the messages of lib/wire/storage_msg.h, written by hand."""
import array
import fcntl
import os
import re
import socket
import struct
import subprocess
import tempfile

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/lib/wire/storage_msg.h"), encoding="utf-8") as header:
    OPS = re.findall(r"^\tSTORAGE_(\w+),", re.search(r"enum storage_op \{(.*?)\n\};", header.read(), re.S).group(1), re.M)
UNPACK, REMOVE, LIST, FOLD, ARRANGE = (OPS.index(name) for name in ("UNPACK", "REMOVE", "LIST", "FOLD", "ARRANGE"))
SURVEY, VOLUME_REMOVE = OPS.index("SURVEY"), OPS.index("VOLUME_REMOVE")
ROOT_MAKE, ROOT_OPEN, MEMORY_SAVE, MEMORY_LOAD, MEMORY_COPY = (OPS.index(name) for name in ("ROOT_MAKE", "ROOT_OPEN", "MEMORY_SAVE", "MEMORY_LOAD", "MEMORY_COPY"))
SURVEY_RESULT = struct.Struct("<IIII32s256s")
CAPTURE, OCI_LAYER, ROOTFS = 0, 1, 2
CHECK_SHA256 = 2
BOTTOM, HOST, DIR = 1, 2, 4  # what is below the layers of FOLD
STACK_MAX, ID_MAX = 128, 72
REPLY = struct.Struct("<IIQii256si4xQQ32sQQQQQ")


def ids(names):
    return b"".join(n.encode().ljust(ID_MAX, b"\0") for n in names).ljust(STACK_MAX * ID_MAX, b"\0")


class Refused(Exception):
    pass


def places_at(names):
    """Those behind the first."""
    return b"".join(p.encode().ljust(16, b"\0") for p in ("", *names)).ljust(64, b"\0")


class Storage:
    """A cordon-storage with a folder of its own."""
    prefix = ()  # a program that starts it

    def __init__(self, program, folder=None, authority=b"", bases=()):
        """bases: template_dir, and the directories of the host template, the first of them in a folder with others like it."""
        self.program, self.authority, self.bases = program, authority, bases
        self.folder = folder or tempfile.mkdtemp(prefix="cordon-storage-")
        os.chmod(self.folder, 0o700)
        self.job = 0
        self.start()

    def start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        top = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        cert = os.memfd_create("cert")
        os.write(cert, self.authority)
        given = [os.path.dirname(path) if i == 1 else path for i, path in enumerate(self.bases)]
        bases = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in given]
        sources = [os.dup(fd) for fd in (theirs.fileno(), top, cert, *bases)]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for fd in sources]

        def place():
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)

        self.process = subprocess.Popen([*self.prefix, self.program], preexec_fn=place, pass_fds=[*range(3, 3 + len(high))] + high)
        for fd in sources + high + bases + [top, cert]:
            os.close(fd)
        theirs.close()
        self.sock = ours
        self.hello = self.receive()

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.sock, 65536, 1)
        if not data:
            raise EOFError
        op, version, job, code, sys_, msg, reason, size, entries, sha, *disk = REPLY.unpack(data)
        return {"op": op, "job": job, "code": code, "msg": msg.split(b"\0")[0].decode(errors="replace"), "bytes": size,
                "entries": entries, "sha256": sha.hex(), "fd": fds[0] if fds else None}

    def ask(self, op, body, fds=()):
        self.send(op, body, fds)
        return self.answer()

    def answer(self):
        got = self.receive()
        if got["code"] != 0:
            raise Refused(got["msg"])
        return got

    def send(self, op, body, fds=(), deadline_ms=60000):
        self.job += 1
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([struct.pack("<IIQ", op, deadline_ms, self.job) + body], control)

    def unpack_request(self, layer, form=OCI_LAYER, lower=(), digest=None, size=1 << 30, entries=100000, part=(0, 0), silence_ms=0,
                       places=(), reserve=0):
        return struct.pack("<IIQQQQ32s72sII", form, CHECK_SHA256 if digest else 0, size, entries, *part,
                           bytes.fromhex(digest[7:]) if digest else b"", layer.encode(), len(lower), silence_ms) + ids(lower) + places_at(places) + struct.pack("<II", reserve, 0)

    def unpack(self, layer, data, **more):
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.seek(0)
            return self.ask(UNPACK, self.unpack_request(layer, **more), [f.fileno()])

    def host(self, below=HOST):
        """The name of the host template's first directory."""
        return os.path.basename(self.bases[1]) if below == HOST and len(self.bases) > 1 else "host" if below == HOST else ""

    def arrange(self, layer, lower):
        return self.ask(ARRANGE, struct.pack("<II72s72s", len(lower), 0, layer.encode(), self.host().encode()) + ids(lower))

    def survey(self, data, size=1 << 30, spare=None, reserve=0):
        """Kind, bytes of layers, configuration, digest, tag. spare: the file for what was unpacked, closed in the end."""
        with tempfile.TemporaryFile() as f, spare or tempfile.TemporaryFile() as spare, tempfile.TemporaryFile() as result:
            f.write(data)
            f.flush()
            self.ask(SURVEY, struct.pack("<QII", size, reserve, 0), [f.fileno(), spare.fileno(), result.fileno()])
            result.seek(0)
            kind, in_spare, n, config_len, sha, tag = SURVEY_RESULT.unpack(result.read(SURVEY_RESULT.size))
            places = [struct.unpack("<QQ", result.read(16)) for _ in range(127)][:n]
            config = result.read()
            layers = []
            for offset, length in places:
                (spare if in_spare else f).seek(offset)
                layers.append((spare if in_spare else f).read(length))
            return {"kind": ["rootfs", "oci", "docker"][kind], "layers": layers, "config": config, "digest": "sha256:" + sha.hex(),
                    "tag": tag.split(b"\0")[0].decode()}

    def remove(self, layer):
        return self.ask(REMOVE, layer.encode().ljust(ID_MAX, b"\0"))

    def fold(self, layer, stack, below=BOTTOM, base="", stay=0, reserve=0):
        """stay: so many of the lowest are only looked at."""
        return self.ask(FOLD, struct.pack("<IIII72s256s", below, len(stack), stay, reserve, layer.encode(), (base or self.host(below)).encode()) + ids(stack))

    def root_request(self, layer, stack=(), below=BOTTOM, base="", places=(), size=1 << 36, reserve=0):
        return struct.pack("<IIIIQ72s256s", below, len(stack), reserve, 0, size, layer.encode(), (base or self.host(below)).encode()) + places_at(places) + ids(stack)

    def root_make(self, layer, stack=(), **more):
        """The answer, with a descriptor of the image."""
        return self.ask(ROOT_MAKE, self.root_request(layer, stack, **more))

    def root_open(self, layer):
        return self.ask(ROOT_OPEN, layer.encode().ljust(ID_MAX, b"\0"))

    def memory_save(self, layer, ram, devices, size=1 << 36, reserve=0):
        return self.ask(MEMORY_SAVE, struct.pack("<IIQ72s", reserve, 0, size, layer.encode()), [ram, devices])

    def memory_load(self, layer, ram, devices):
        return self.ask(MEMORY_LOAD, struct.pack("<IIQ72s", 0, 0, 0, layer.encode()), [ram, devices])

    def memory_copy(self, image, copy, size=1 << 36):
        return self.ask(MEMORY_COPY, struct.pack("<IIQ72s", 0, 0, size, b""), [*image, *copy])

    def listed(self):
        with tempfile.TemporaryFile() as f:
            self.ask(LIST, b"", [f.fileno()])
            f.seek(0)
            return sorted(f.read().decode().split("\0")[:-1])

    def names(self):
        return sorted(os.listdir(os.path.join(self.folder, "layers")))

    def path(self, layer, *parts):
        return os.path.join(self.folder, "layers", layer, "0", *parts)

    def read(self, layer, *parts):
        with open(self.path(layer, *parts), "rb") as f:
            return f.read().decode()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.sock.close()

    def stop(self):
        self.sock.close()
        self.process.wait(10)
