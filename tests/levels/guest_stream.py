"""guest_stream.py - the shim's end of the stream to a guest's agent, for tests that have a guest without a shim.

Formats: src/lib/wire/frame.h, mux.h, guest_msg.h, agent_msg.h."""
import collections
import os
import struct
import time

from checks import Failed, check, equal

SPAWN, FORGET, STAT = 1, 7, 10
STARTED, FAILED, EXITED, HELD, SYNCED, STATED = 65, 66, 67, 69, 70, 73
PAD = (4 << 20) + (128 << 10)
HELLO, QUIESCE, GO_ON, READY, QUIESCED = 128, 129, 130, 160, 161
DATA, EOF, CREDIT, RESET, OPEN = range(192, 197)
NO_STDIN, HOLD, BUILTIN = 2, 4, 8
IS_HELD, HAS_STDIN, HIT_MEMORY, HIT_PIDS = 2, 4, 1 << 9, 1 << 10
EGRESS, READ_ONLY, LOCKED = 1, 2, 4
NO_PROFILE, NO_READ_ONLY = 1 << 7, 1 << 8
EVENT = struct.Struct("<IIIiIIII9Q")
Event = collections.namedtuple("Event", "handle pid stage sys exit_code signal timed_out flags cpu_us maxrss disk_full inodes_full mark "
                                        "disk_bytes disk_limit inodes processes")
Ended = collections.namedtuple("Ended", "event out err")


def text(value):
    return struct.pack("<H", len(value)) + value.encode() + b"\0"


class Guest:
    """The agent behind a connected socket. One program at a time."""

    def __init__(self, sock):
        self.sock, self.got, self.streams, self.opened, self.refused, self.handle, self.longest = sock, b"", {}, [], set(), 0, 0
        self.ignored = ()  # messages that may come at any time

    def send(self, kind, stream, body=b""):
        self.sock.sendall(struct.pack("<IHH", len(body), kind, stream) + body)

    def frame(self):
        while len(self.got) < 8 or len(self.got) < 8 + struct.unpack_from("<I", self.got)[0]:
            more = self.sock.recv(65536)
            check(more, "the guest has gone")
            self.got += more
        size, kind, stream = struct.unpack_from("<IHH", self.got)
        body, self.got = self.got[8:8 + size], self.got[8 + size:]
        return kind, stream, body

    def message(self, *wanted):
        """The next message of one of these types; streams are served meanwhile."""
        while True:
            kind, stream, body = self.frame()
            if stream == 0 and kind in wanted:
                return kind, body
            if kind == DATA and stream in self.streams:
                self.streams[stream] += body
                self.longest = max(self.longest, len(body))
                self.send(CREDIT, stream, struct.pack("<I", len(body)))
            elif kind == RESET and stream in self.refused:
                self.refused.remove(stream)  # both ends have said it: the number is free
            elif kind == RESET:
                self.send(RESET, stream, struct.pack("<I", 0))
            elif kind == OPEN:
                family, port, address = body[1], struct.unpack_from("<H", body, 2)[0], body[16:32]
                self.opened.append((body[0], family, port, address))
                self.send(RESET, stream, struct.pack("<I", 111))  # connection refused
                self.refused.add(stream)
            elif stream == 0 and kind not in self.ignored:
                raise Failed(f"message {kind} where {wanted} was awaited")

    def hello(self, generation=1, wall_ns=None, flags=EGRESS, pids=0, memory=0, nofile=0, disk=64 << 20, inodes=4096, machine_id="a" * 32,
              hostname="guest", uid=1000):
        """Greets, and returns which parts the guest refused, and why."""
        body = struct.pack("<QQI5Q", generation, time.time_ns() if wall_ns is None else wall_ns, flags, pids, memory, nofile, disk, inodes)
        self.send(HELLO, 0, body + os.urandom(64) + text(machine_id) + text(hostname) + (struct.pack("<II", uid, uid) if flags & LOCKED else b""))
        again, version, refused, sys = struct.unpack("<QIII", self.message(READY)[1])
        equal(again, generation, "the generation of READY")
        return refused, os.strerror(sys) if sys else ""

    def quiesce(self):
        """From here on the guest sends nothing until go_on(), or HELLO of another shim."""
        rest = struct.pack("<IHH", PAD, QUIESCE, 0) + bytes(PAD)
        for at in range(0, len(rest), 16384):  # as the shim does: in whole pages
            self.sock.sendall(rest[at:at + 16384])
        self.message(QUIESCED)

    def go_on(self):
        self.send(GO_ON, 0)

    def synced(self):
        """The programs that the guest had before this shim, as events."""
        held = []
        while True:
            kind, body = self.message(HELD, SYNCED)
            if kind == SYNCED:
                return held
            held.append(Event(*EVENT.unpack_from(body)))

    def spawn(self, *argv, user="root", cwd="/", flags=NO_STDIN, env=(), nofile=0):
        self.handle += 1
        strings = b"".join(word.encode() + b"\0" for word in (user, cwd, *argv, *env))
        self.send(SPAWN, 0, struct.pack("<IIHHIIIQQ", self.handle, flags, 0, 0, len(argv), len(env), 0, 0, nofile) + strings)
        kind, body = self.message(STARTED, FAILED)
        event = Event(*EVENT.unpack_from(body))
        if kind == FAILED:
            raise Failed(f"{argv}: step {event.stage}: {os.strerror(event.sys)}")
        return struct.unpack(f"<{(len(body) - EVENT.size) // 2}H", body[EVENT.size:])

    def run(self, *argv, given=None, flags=NO_STDIN, **how):
        """Runs a program to its end, with this input or none."""
        numbers = self.spawn(*argv, flags=flags if given is None else flags & ~NO_STDIN, **how)
        if given is not None:
            self.send(DATA, numbers[0], given)
            self.send(EOF, numbers[0])
            numbers = numbers[1:]
        self.streams = {number: b"" for number in numbers}
        event = Event(*EVENT.unpack_from(self.message(EXITED)[1]))
        out, err = (self.streams[number].decode(errors="replace") for number in numbers[:2])
        return Ended(event, out, err)

    def shell(self, script, **how):
        """The output of a shell script that must succeed."""
        ended = self.run("/bin/sh", "-c", script, **how)
        equal((ended.event.exit_code, ended.event.signal), (0, 0), f"{script}: {ended.err}{ended.out}")
        return ended.out

    def stat(self):
        self.send(STAT, 0, struct.pack("<IiHHHHQ", 0, 0, 0, 0, 0, 0, 0))
        return Event(*EVENT.unpack_from(self.message(STATED)[1]))
