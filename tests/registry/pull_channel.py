"""pull_channel.py - cordond's side of the channel to cordon-pull (src/lib/wire/pull_msg.h), for tests of that program."""
import fcntl
import os
import select
import socket
import struct
import threading
import time

START, BLOB, END, PING, DOCUMENT, PROGRESS, BLOB_DONE, FAILED, PONG = 1, 2, 3, 4, 64, 65, 66, 67, 68
INVALID, DENIED, NOT_FOUND, CONFLICT, LIMIT, UNSUPPORTED, SYSTEM = range(1, 8)
CHANNEL_FD, RESOLV_FD, HOSTS_FD, BUNDLE_FD, EXTRA_FD = 4, 5, 6, 7, 9


def string(text):
    data = text.encode()
    return struct.pack("<H", len(data)) + data + b"\0"


class Failure(Exception):
    def __init__(self, code, word, text):
        super().__init__(f"code {code} {word!r}: {text}")
        self.code, self.word, self.text = code, word, text


class Puller:
    """A running cordon-pull."""

    def __init__(self, program, hosts="", ca=None, resolv=""):
        self.ours, its = socket.socketpair()
        files = {RESOLV_FD: resolv.encode(), HOSTS_FD: hosts.encode(), BUNDLE_FD: ca or b""}
        fds = {CHANNEL_FD: os.dup(its.fileno())}
        its.close()
        for number, data in files.items():
            fds[number] = os.memfd_create("given")
            os.write(fds[number], data)
        log, fds[2] = os.pipe()
        # above the numbers that they get in the program
        high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for number, fd in fds.items()}
        self.pid = os.posix_spawn(program, [program, "--start=0:0"], {},
                                  file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in high.items()])
        for fd in [*fds.values(), *high.values()]:
            os.close(fd)
        self.stderr = open(log, "rb")
        self.log = []
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.buffer, self.number, self.waiting = b"", 0, {}

    def read_log(self):
        for line in self.stderr:
            self.log.append(line.decode("utf-8", "replace"))

    def close(self):
        self.ours.close()
        self.reader.join(10)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.stderr.close()
        return code

    def send(self, kind, pull, blob=0, body=b"", fds=()):
        body = struct.pack("<II", pull, blob) + body
        data = struct.pack("<IHH", len(body), kind, 0) + body
        socket.send_fds(self.ours, [data], list(fds))

    def receive(self, timeout):
        """The next message: (type, pull, blob, body); None at the end of the channel."""
        end = time.monotonic() + timeout
        while True:
            if len(self.buffer) >= 8:
                size, kind, zero = struct.unpack("<IHH", self.buffer[:8])
                assert zero == 0
                if len(self.buffer) >= 8 + size:
                    body, self.buffer = self.buffer[8:8 + size], self.buffer[8 + size:]
                    pull, blob = struct.unpack("<II", body[:8])
                    return kind, pull, blob, body[8:]
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.ours], [], [], left)[0]:
                raise TimeoutError("no message of cordon-pull")
            got = self.ours.recv(1 << 20)
            if not got:
                return None
            self.buffer += got

    def start(self, host, path="a/b", reference="t", user="", password="", mirror="", open_hosts=None,
              deadline=60000, patience=10000, aws=False):
        self.number += 1
        body = b"".join(string(x) for x in (host, path, reference, user, password, mirror,
                                            host if open_hosts is None else open_hosts))
        self.send(START, self.number, body=body + struct.pack("<QQB", deadline, patience, aws))
        return self.number

    def expect(self, pull, timeout=30):
        """The next message about this pull; a failure of it is raised."""
        for at, message in enumerate(self.waiting.get(pull, [])):
            del self.waiting[pull][at]
            return self.judged(message)
        while True:
            message = self.receive(timeout)
            if message is None:
                raise EOFError("cordon-pull ended")
            if message[1] == pull:
                return self.judged(message)
            self.waiting.setdefault(message[1], []).append(message)

    @staticmethod
    def judged(message):
        kind, _, blob, body = message
        if kind != FAILED:
            return kind, blob, body
        code, n = struct.unpack("<BH", body[:3])
        word, rest = body[3:3 + n].decode(), body[3 + n + 1:]
        raise Failure(code, word, rest[2:-1].decode())

    def documents(self, host, **how):
        """(pull, [(kind, bytes), ...]) up to the configuration."""
        pull, got = self.start(host, **how), []
        while not got or got[-1][0] != 2:
            kind, _, body = self.expect(pull)
            assert kind == DOCUMENT, kind
            got.append((body[0], body[1:]))
        return pull, got

    def blob(self, pull, digest, size, number=1, slow=None):
        """The bytes of a blob, as they came through a pipe."""
        read, write = os.pipe()
        self.send(BLOB, pull, number, bytes.fromhex(digest.split(":")[1]) + struct.pack("<Q", size), [write])
        os.close(write)
        parts, failure = [], []

        def drain():
            while True:
                if slow:
                    time.sleep(slow)  # the pace of a slow reader
                part = os.read(read, 65536)
                if not part:
                    break
                parts.append(part)
        thread = threading.Thread(target=drain, daemon=True)
        thread.start()
        try:
            while self.expect(pull)[:2] != (BLOB_DONE, number):
                pass
        except Failure as e:
            failure.append(e)
        thread.join(30)
        os.close(read)
        if failure:
            raise failure[0]
        return b"".join(parts)

    def pull(self, host, **how):
        """Everything: (documents, [blob, ...])."""
        import json
        pull, got = self.documents(host, **how)
        manifest = json.loads(got[-2][1])
        blobs = [self.blob(pull, x["digest"], x["size"], n + 1) for n, x in enumerate(manifest["layers"])]
        self.send(END, pull)
        return got, blobs
