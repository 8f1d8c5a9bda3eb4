"""output.py - sys.stdout and sys.stderr of a kernel: text goes out as messages, in the order it was written.

Text of both streams waits in one queue. It is sent when much is there, on flush(), before any other
message, at the end of the cell, and by a thread FLUSH_SECONDS after the first write, so print() in a long
cell is seen while it runs. The thread starts with the first write and ends before the user's code forks: so
that a fork sees one thread only.

Before a program or a process starts that writes to the pipes 1 and 2 itself, text that waits is written
there, too: so it comes before what the program prints. In a process that the user's code forked all text
goes to the descriptors 1 and 2."""
import _thread
import codecs
import collections
import io
import os
import time

FLUSH_SECONDS = 0.2
FLUSH_CHARS = 1 << 16   # in the queue
MESSAGE_CHARS = 1 << 16  # in one message


class Output:
    def __init__(self, channel, interrupts, pipes):
        self.channel = channel
        self.pipes = pipes  # copies of 1 and 2
        self.interrupts = interrupts
        self.queue = collections.deque()
        self.chars = 0
        self.forked = False
        self.stdout = Stream(self, "stdout", 1)
        self.stderr = Stream(self, "stderr", 2)
        self._new_locks()
        os.register_at_fork(before=self.before_fork, after_in_child=self.after_fork,
                            after_in_parent=interrupts.after_fork_in_parent)

    def _new_locks(self):
        self.lock = _thread.allocate_lock()
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.armed = False
        self.running = False
        self.stop = False
        self.thread = 0
        self.owner = 0  # the thread that flushes
        self.to_pipes = False

    def write(self, name, text):
        if not text:
            return
        self.queue.append((name, text))
        self.chars += len(text)
        if self.forked:
            if self.chars > FLUSH_CHARS or text.endswith("\n"):
                self.flush()
        elif self.chars >= FLUSH_CHARS:
            self.flush()
        elif not self.armed:
            self._arm()

    def _arm(self):
        with self.interrupts:
            self.armed = True
            if not self.running:
                self.running = True
                try:
                    _thread.start_new_thread(self._flush_late, ())
                except RuntimeError:  # no more threads: the end of the cell flushes
                    self.running = False
                    return
            try:
                self.wake.release()
            except RuntimeError:  # another thread did
                pass

    def _flush_late(self):
        self.thread = _thread.get_native_id()
        while True:
            self.wake.acquire()
            if not self.stop:
                self.wake.acquire(timeout=FLUSH_SECONDS)
            if self.stop:
                break
            self.armed = False
            self.flush()
        self.running = False

    def before_program(self):
        """What was printed goes ahead of what a program prints that starts now."""
        if self.owner == _thread.get_ident():
            return
        with self.interrupts, self.lock:
            self.to_pipes = not self.forked
            try:
                self._flush_locked()
            finally:
                self.to_pipes = False
            self.channel.settle()

    def flush(self):
        if self.owner == _thread.get_ident():
            return  # called by a destructor that runs in the loop below, which takes its text, too
        with self.interrupts, self.lock:
            self.owner = _thread.get_ident()
            try:
                self._flush_locked()
            finally:
                self.owner = 0

    def _flush_locked(self):
        self.chars = 0
        name, parts, size = None, [], 0
        while True:
            try:
                next_name, text = self.queue.popleft()
            except IndexError:
                break
            if parts and (next_name != name or size + len(text) > MESSAGE_CHARS):
                self._send(name, "".join(parts))
                parts, size = [], 0
            name = next_name
            parts.append(text)
            size += len(text)
        if parts:
            self._send(name, "".join(parts))

    def _send(self, name, text):
        if self.forked:
            self._write_descriptor(1 if name == "stdout" else 2, text)
            return
        if self.to_pipes:
            self._write_descriptor(self.pipes[name == "stderr"], text)
            return
        for start in range(0, len(text), MESSAGE_CHARS):
            self.channel.send(type=name, text=text[start:start + MESSAGE_CHARS])

    def _write_descriptor(self, fd, text):
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data:
                data = data[os.write(fd, data):]
        except OSError:
            pass

    def before_fork(self):
        """The child must not have text that this process sends, nor a copy of a lock that is held."""
        self.interrupts.before_fork()
        if self.forked:
            return
        if self.running:
            self._end_thread()
        self.before_program()

    def _end_thread(self):
        self.stop = True
        try:
            self.wake.release()
        except RuntimeError:
            pass
        for _ in range(1000):
            if not self.running and not os.path.exists("/proc/self/task/%d" % self.thread):
                break
            time.sleep(0.0005)
        self.stop = self.armed = False
        if not self.running:
            self.wake.acquire(blocking=False)

    def after_fork(self):
        self.forked = True
        self.queue.clear()
        self.chars = 0
        self._new_locks()
        self.interrupts.after_fork_in_child()
        self.channel.after_fork()


class Stream(io.TextIOBase):
    """What the user's code has as sys.stdout or sys.stderr. It cannot be closed."""
    encoding = "utf-8"
    errors = "replace"
    newlines = None
    line_buffering = False
    write_through = False
    mode = "w"

    def __init__(self, output, kind, fd):
        super().__init__()
        self._output = output
        self._kind = kind
        self._fd = fd
        self.name = "<" + kind + ">"
        self.buffer = Bytes(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self._output.write(self._kind, str(text))
        return len(text)

    def flush(self):
        self._output.flush()

    def close(self):
        self.flush()

    def fileno(self):
        return self._fd

    def writable(self):
        return True

    def isatty(self):
        return False

    def reconfigure(self, **_settings):
        self.flush()


class Bytes(io.BufferedIOBase):
    """sys.stdout.buffer: bytes that are not UTF-8 become U+FFFD."""
    def __init__(self, stream):
        super().__init__()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = self

    def write(self, data):
        data = bytes(data)
        self._stream.write(self._decoder.decode(data))
        return len(data)

    def flush(self):
        self._stream.flush()

    def close(self):
        self.flush()

    def fileno(self):
        return self._stream.fileno()

    def writable(self):
        return True
