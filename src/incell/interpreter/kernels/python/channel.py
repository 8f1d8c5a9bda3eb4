"""channel.py - the socket to cordon-interpreter: one JSON object per line, each way.

The descriptor is moved to a high number, out of the way of code that closes or reuses 3, and is not
passed on to programs. In a process that the user's code forked it is closed: such a process has no say,
what it prints goes to the pipes 1 and 2."""
import _thread
import collections
import fcntl
import json
import os
import resource
import select
import struct
import termios
import time

from . import values

HIGHEST = 1000
READ_SIZE = 1 << 16
LINE_MAX = 128 << 20
SETTLE_TURNS, SETTLE_SECONDS = 100, 0.0005


def move_high(fd, keep=False):
    """A copy of the descriptor at a high number, closed on exec; the old one is closed unless kept."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft > HIGHEST:
        soft = HIGHEST
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, soft - 16))
    if not keep:
        os.close(fd)
    return copy


def is_interrupt(line):
    try:
        return b"interrupt" in line and json.loads(line)["op"] == "interrupt"
    except (ValueError, TypeError, KeyError):
        return False


class Channel:
    def __init__(self, fd, interrupts):
        self.fd = move_high(fd)
        os.set_blocking(self.fd, True)
        self.interrupts = interrupts
        self.lock = _thread.allocate_lock()
        self.owner = 0  # the thread that writes
        self.late = collections.deque()
        self.unread = bytearray()
        self.searched = 0
        self.forked = False

    def after_fork(self):
        """In a child that the user's code made."""
        self.forked = True
        self.owner = 0
        self.lock = _thread.allocate_lock()
        try:
            os.close(self.fd)
        except OSError:
            pass
        self.fd = -1

    def send(self, **message):
        self.send_text(values.encode(message, str))

    def send_text(self, text):
        if self.forked:
            return
        data = text.encode("ascii") + b"\n"
        if self.owner == _thread.get_ident():
            self.late.append(data)  # from a destructor that ran while a message is written
            return
        with self.interrupts, self.lock:
            self.owner = _thread.get_ident()
            try:
                self._write(data)
                while self.late:
                    self._write(self.late.popleft())
            finally:
                self.owner = 0

    def _write(self, data):
        data = memoryview(data)
        while data:
            try:
                data = data[os.write(self.fd, data):]
            except OSError:  # the server is gone, or the user's code closed the socket
                os._exit(1)

    def settle(self):
        """Waits, not for long, until the server has read what was sent."""
        for _ in range(SETTLE_TURNS):
            try:
                unread = struct.unpack("i", fcntl.ioctl(self.fd, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
            except OSError:
                return
            if unread == 0:
                return
            time.sleep(SETTLE_SECONDS)

    def _take_line(self):
        end = self.unread.find(b"\n", self.searched)
        if end < 0:
            self.searched = len(self.unread)
            return None
        line = bytes(self.unread[:end])
        del self.unread[:end + 1]
        self.searched = 0
        return line

    def receive(self):
        """The next request, a dict; None at the end. What is not a JSON object is passed over."""
        while True:
            line = self._take_line()
            if line is None:
                if len(self.unread) > LINE_MAX:
                    return None
                try:
                    more = os.read(self.fd, READ_SIZE)
                except OSError:
                    return None
                if not more:
                    return None
                self.unread += more
                continue
            try:
                request = json.loads(line)
            except ValueError:
                continue
            if isinstance(request, dict):
                return request

    def interrupt_waits(self):
        """Whether an interrupt came behind the request that was taken last. Its line was written before its
        signal was sent: a signal that came too early to be noticed has left its line here."""
        if not self.unread and not self.is_readable():
            return False
        if self.is_readable():
            self.unread += os.read(self.fd, READ_SIZE)
        return any(is_interrupt(line) for line in self.unread.split(b"\n"))

    def is_readable(self):
        return bool(select.select([self.fd], [], [], 0)[0])
