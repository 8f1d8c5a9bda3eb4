"""notary_channel.py - cordond's side of the channel to cordon-notary (src/lib/wire/notary_msg.h), for tests of that program,
and the Merkle trees that its requests are made of. examples/verify.py verifies the signatures."""
import fcntl
import hashlib
import os
import signal
import socket
import struct
import sys
import threading

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
import verify  # noqa: E402

SIGN, KEY, ATTEST, ROTATE, RETIRE = range(1, 6)
SIGNED, KEY_IS, ATTESTED, REFUSED = range(32, 36)
STALE, ROLLBACK, FORK, ORIGIN, FULL, DISK, DAMAGED = range(1, 8)
CHANNEL_FD, DIR_FD = 3, 4
HEAD = struct.Struct("<IHH")


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Log:
    """A log with all its hashes: for small ones."""

    def __init__(self, leaves=()):
        self.hashes = [verify.leaf_hash(leaf) for leaf in leaves]

    def add(self, *leaves):
        self.hashes += [verify.leaf_hash(leaf) for leaf in leaves]

    def root(self, size=None):
        return self.of(0, len(self.hashes) if size is None else size)

    def of(self, begin, end):
        if begin == end:
            return hashlib.sha256(b"").digest()
        if end - begin == 1:
            return self.hashes[begin]
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        return node(self.of(begin, middle), self.of(middle, end))

    def proof(self, old, size):
        """RFC 6962, 2.1.2."""
        def sub(begin, end, whole):
            if end == old:
                return [] if whole else [self.of(begin, end)]
            middle = begin + (1 << (end - begin - 1).bit_length() - 1)
            if old <= middle:
                return sub(begin, middle, whole) + [self.of(middle, end)]
            return sub(middle, end, False) + [self.of(begin, middle)]
        return [] if old in (0, size) else sub(0, size, True)


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<H", len(data)) + data + b"\0"


class Refused(Exception):
    def __init__(self, reason, size, root, text):
        super().__init__(f"{reason}: {text}")
        self.reason, self.size, self.root = reason, size, root


class Notary:
    """A running cordon-notary."""

    def __init__(self, program, folder):
        ours, its = socket.socketpair()
        log, err = os.pipe()
        given = {CHANNEL_FD: its.fileno(), DIR_FD: os.open(folder, os.O_RDONLY | os.O_DIRECTORY), 2: err}
        high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for number, fd in given.items()}
        self.pid = os.posix_spawn(program, [program, "--start=0:0"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in high.items()])
        its.close()
        for fd in [given[DIR_FD], err, *high.values()]:
            os.close(fd)
        self.sock, self.last, self.stderr, self.log = ours, 0, open(log, "rb"), []
        self.sock.settimeout(60)
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()

    def read_log(self):
        for line in self.stderr:
            self.log.append(line.decode("utf-8", "replace"))

    # -- messages

    def send(self, kind, body=b"", number=None):
        if number is None:
            self.last += 1
            number = self.last
        data = struct.pack("<I", number) + body
        self.raw(HEAD.pack(len(data), kind, 0) + data)
        return number

    def raw(self, data):
        self.sock.sendall(data)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise EOFError("the channel has ended")
            data += more
        return data

    def receive(self):
        """(type, id, fields)."""
        size, kind, stream = HEAD.unpack(self.exactly(HEAD.size))
        data = self.exactly(size)
        assert stream == 0
        return kind, struct.unpack_from("<I", data)[0], data[4:]

    def expect(self, number, kind):
        got, of, data = self.receive()
        assert of == number, (of, number)
        if got == REFUSED:
            raise Refused(data[0], struct.unpack_from("<Q", data, 1)[0], data[9:41], data[43:-1].decode())
        assert got == kind, (got, kind)
        return data

    # -- requests

    def begin_sign(self, origin, old, size, root, proof):
        return self.send(SIGN, string(origin) + struct.pack("<QQ", old, size) + root + bytes([len(proof)]) + b"".join(proof))

    def sign(self, origin, old, size, root, proof):
        """The whole note."""
        data = self.expect(self.begin_sign(origin, old, size, root, proof), SIGNED)
        lines = data[2:-1].decode()
        return f"{origin}\n{size}\n{verify.base64.b64encode(root).decode()}\n\n{lines}"

    def sign_log(self, origin, log, old, size=None):
        size = len(log.hashes) if size is None else size
        return self.sign(origin, old, size, log.root(size), log.proof(old, size))

    def keys(self, kind=KEY):
        """Name, keys as text (the former may be ""), logs."""
        data, texts = self.expect(self.send(kind), KEY_IS), []
        for _ in range(4):
            n, = struct.unpack_from("<H", data)
            texts.append(data[2:2 + n].decode())
            data = data[n + 3:]
        self.next_proof = data[4:]  # by the former key
        return (*texts, struct.unpack("<I", data[:4])[0])

    def attest(self, payload, body):
        data = self.expect(self.send(ATTEST, bytes([payload]) + body), ATTESTED)
        n, = struct.unpack_from("<H", data)
        return data[2:2 + n].decode(), data[n + 3:]

    # -- the end

    def wait(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.sock.close()
        self.reader.join(10)
        self.stderr.close()
        return code

    def close(self):
        self.sock.close()
        return self.wait()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()
