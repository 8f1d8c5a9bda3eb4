"""cache_channel.py - cordond's and cordon-egress's sides of the channels to cordon-cache (src/lib/wire/cache_msg.h), for tests
of that program."""
import array
import fcntl
import hashlib
import os
import signal
import socket
import struct
import threading

FIND, STORE, COMMIT, ABORT, TOUCH, DROP, SEEN, KNOWN = range(1, 9)
FOUND, NONE, STORED, FAILED, SEEN_AT = range(32, 37)
LINK, LIST, STATS, GC, VERIFY = range(64, 69)
LISTED, STATED, DONE, REFUSED = range(96, 100)
CHANNEL_FD, DIR_FD = 3, 4
PACKET = 16384
GIB = 1 << 30


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<H", len(data)) + data + b"\0"


def get_string(data):
    size, = struct.unpack_from("<H", data)
    return data[2:2 + size].decode(), data[3 + size:]


class Fields:
    """Reads the fields of a message, one after the other."""

    def __init__(self, data):
        self.data = data

    def text(self):
        value, self.data = get_string(self.data)
        return value

    def number(self, width):
        value, self.data = int.from_bytes(self.data[:width], "little"), self.data[width:]
        return value

    def bytes(self, n):
        value, self.data = self.data[:n], self.data[n:]
        return value


def key(scope="public", registry="npm npm.test", path="/a/-/a-1.0.0.tgz"):
    return string(scope) + string(registry) + string(path)


class Channel:
    """Packets with descriptors, over a SOCK_SEQPACKET."""

    def __init__(self, sock):
        self.sock, self.last = sock, 0
        sock.settimeout(20)

    def send(self, kind, body=b"", fds=(), number=None):
        if number is None:
            self.last += 1
            number = self.last
        self.raw(struct.pack("<HI", kind, number) + body, fds)
        return number

    def raw(self, packet, fds=()):
        self.sock.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def receive(self):
        """(type, id, fields, descriptor or None); EOFError at the end."""
        data, fds, _, _ = socket.recv_fds(self.sock, PACKET + 1, 4)
        if not data:
            raise EOFError("the channel has ended")
        kind, number = struct.unpack_from("<HI", data)
        return kind, number, Fields(data[6:]), (fds[0] if fds else None)

    def expect(self, number, kind=None):
        while True:
            got, of, fields, fd = self.receive()
            if of != number:
                if fd is not None:
                    os.close(fd)
                continue
            if kind is not None and got != kind:
                text = ""
                if got in (FAILED, REFUSED):
                    fields.number(1)
                    text = fields.text()
                raise AssertionError(f"message {got} in place of {kind}: {text}")
            return (fields, fd) if kind is not None else (got, fields, fd)

    def close(self):
        self.sock.close()


class Link(Channel):
    """A link, as cordon-egress has it."""

    def find(self, k):
        """None, or (meta, sha256 as hex, the bytes)."""
        kind, fields, fd = self.expect(self.send(FIND, k))
        if kind == NONE:
            return None
        assert kind == FOUND and fd is not None, kind
        meta = [fields.text() for _ in range(3)]
        self.fetched, size = fields.number(8), fields.number(8)
        digest = fields.bytes(32).hex()
        with os.fdopen(fd, "rb") as f:
            data = f.read()
        assert len(data) == size, (len(data), size)
        return meta, digest, data

    def begin(self, k, expected=None, meta=("", "", ""), number=None):
        ours, its = socket.socketpair()
        body = k + b"".join(string(x) for x in meta) + (b"\1" + expected if expected else b"\0" + bytes(32))
        number = self.send(STORE, body, [its.fileno()], number)
        its.close()
        return number, ours

    def commit(self, number, size):
        self.send(COMMIT, struct.pack("<Q", size), number=number)

    def store(self, k, data, expected=None, meta=("", "", ""), size=None):
        """(True, hex) or (False, why)."""
        number, ours = self.begin(k, expected, meta)
        try:
            ours.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        ours.close()
        self.commit(number, len(data) if size is None else size)
        return self.stored(number)

    def stored(self, number):
        kind, fields, _ = self.expect(number)
        if kind == STORED:
            fields.number(8)
            return True, fields.bytes(32).hex()
        fields.number(1)
        return False, fields.text()

    def seen(self, name, scope="public", registry="go proxy.test", ask=SEEN):
        fields, _ = self.expect(self.send(ask, string(scope) + string(registry) + string("") + string(name)), SEEN_AT)
        return fields.number(8)


class Cache:
    """A running cordon-cache."""

    def __init__(self, program, folder, size=GIB, files=100000, reserve=0):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log, err = os.pipe()
        given = {CHANNEL_FD: its.fileno(), DIR_FD: os.open(folder, os.O_RDONLY | os.O_DIRECTORY), 2: err}
        high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for number, fd in given.items()}
        self.pid = os.posix_spawn(program, [program, f"--start=0:0:{size}:{files}:{reserve}"], {},
                                  file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in high.items()])
        its.close()
        for fd in [given[DIR_FD], err, *high.values()]:
            os.close(fd)
        self.control, self.stderr, self.log, self.links = Channel(ours), open(log, "rb"), [], []
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.slot = 0

    def read_log(self):
        for line in self.stderr:
            self.log.append(line.decode("utf-8", "replace"))

    def link(self, slot=None):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if slot is None:
            slot, self.slot = self.slot, self.slot + 1
        self.control.send(LINK, struct.pack("<I", slot), [its.fileno()])
        its.close()
        self.links.append(Link(ours))
        return self.links[-1]

    def stats(self):
        names = ("bytes max_bytes objects views seen hits misses stored refused evicted bad max_files").split()
        fields, _ = self.control.expect(self.control.send(STATS), STATED)
        return {name: fields.number(8) for name in names} | {"loading": fields.number(1)}

    def order(self, kind, body=b""):
        """DONE: (count, bytes, bad)."""
        fields, _ = self.control.expect(self.control.send(kind, body), DONE)
        size, count, bad = (fields.number(8) for _ in range(3))
        return count, size, bad

    def list(self):
        """All views: {(scope, registry, path): (hex, size)}."""
        found, place = {}, 0
        while True:
            fields, _ = self.control.expect(self.control.send(LIST, struct.pack("<I", place)), LISTED)
            place = fields.number(4)
            while fields.data:
                name = fields.text(), fields.text(), fields.text()
                digest, size = fields.bytes(32).hex(), fields.number(8)
                fields.bytes(16)
                found[name] = digest, size
            if place == 0:
                return found

    def wait(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for link in self.links:
            link.close()
        self.control.close()
        self.reader.join(10)
        self.stderr.close()
        return code

    def close(self):
        self.control.close()
        return self.wait()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def files_of(folder):
    """All files below it, by path."""
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def sha256(data):
    return hashlib.sha256(data).hexdigest()
