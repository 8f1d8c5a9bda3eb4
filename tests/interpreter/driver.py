"""driver.py - speaks to the Python kernel as cordon-interpreter does: a warm parent, kernels forked from it.

Python programs of this folder use it; it starts real processes and has no server."""
import array
import json
import os
import select
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL = os.path.join(HERE, "..", "..", "src", "incell", "interpreter", "kernels", "python", "kernel.py")
SECONDS = 60
NUDGE_SECONDS = 0.2  # as NUDGE_MS in src/incell/interpreter/context.c


class Ended(Exception):
    """The kernel closed its socket."""


class Parent:
    """kernel.py --parent. without: names of modules that its Python shall not find."""
    def __init__(self, python="/usr/bin/python3", env=None, without=()):
        ours, theirs = socket.socketpair()
        self.control = ours
        code = ("import os, sys, runpy\nos.dup2(%d, 3)\n"
                "for name in %r: sys.modules[name] = None\n"
                "sys.argv = [%r, '--parent']\nsys.path[0] = os.path.dirname(sys.argv[0])\n"
                "runpy.run_path(sys.argv[0], run_name='__main__')\n") % (theirs.fileno(), list(without), KERNEL)
        started = time.monotonic()
        args = [python, "-c", code] if without else [python, KERNEL, "--parent"]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, pass_fds=[] if not without else
                                        [theirs.fileno()], env=dict(os.environ, **(env or {})),
                                        preexec_fn=None if without else lambda: os.dup2(theirs.fileno(), 3),
                                        close_fds=bool(without))
        theirs.close()
        self.unread = b""
        assert self.receive()["type"] == "ready"
        self.seconds = time.monotonic() - started

    def receive(self):
        while b"\n" not in self.unread:
            assert select.select([self.control], [], [], SECONDS)[0], "the parent says nothing"
            data = self.control.recv(65536)
            assert data, "the parent ended"
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def spawn(self, cwd="/"):
        return Kernel(self, cwd)

    def close(self):
        self.control.close()
        self.process.wait(SECONDS)


class Kernel:
    def __init__(self, parent, cwd="/"):
        self.socket, theirs = socket.socketpair()
        self.pipes, ends = [], []
        for _ in range(2):
            r, w = os.pipe()
            os.set_blocking(r, False)
            self.pipes.append(r)
            ends.append(w)
        fds = array.array("i", [theirs.fileno()] + ends)
        line = json.dumps({"op": "spawn", "cwd": cwd}).encode() + b"\n"
        parent.control.sendmsg([line], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        theirs.close()
        for end in ends:
            os.close(end)
        while True:
            answer = parent.receive()
            if answer["type"] == "spawned":
                break
        self.pid = answer["pid"]
        self.unread = b""
        self.next_id = 1
        self.is_interrupted = False
        assert self.receive() == {"type": "ready"}

    def send(self, **message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def drain(self):
        """Raw output, as messages like those of the socket."""
        for pipe, name in zip(self.pipes, ("stdout", "stderr")):
            try:
                data = os.read(pipe, 1 << 20)
            except BlockingIOError:
                continue
            if data:
                yield {"type": name, "text": data.decode("utf-8", "replace"), "raw": True}

    def wait(self, seconds):
        """Until the kernel sends something. Like the server, wakes an interrupted kernel: a SIGINT that came just
        before a system call would else be noticed at the end of that call."""
        end = time.monotonic() + seconds
        while not select.select([self.socket], [], [], NUDGE_SECONDS)[0]:
            assert time.monotonic() < end, "the kernel says nothing"
            if self.is_interrupted:
                os.kill(self.pid, signal.SIGURG)

    def receive(self, seconds=SECONDS):
        parts = [self.unread]
        while b"\n" not in parts[-1]:
            self.wait(seconds)
            data = self.socket.recv(1 << 20)
            if not data:
                raise Ended
            parts.append(data)
        line, _, self.unread = b"".join(parts).partition(b"\n")
        assert line.isascii() and len(line) < 32 << 20
        return json.loads(line)

    def start(self, code, **more):
        self.send(op="execute", id=self.next_id, code=code, **more)
        self.next_id += 1

    def finish(self):
        """All messages up to done, which is left out."""
        got = []
        while True:
            message = self.receive()
            got += self.drain()
            if message["type"] == "done":
                assert message["id"] == self.next_id - 1, message
                self.is_interrupted = False
                return Answer(got)
            got.append(message)

    def run(self, code, **more):
        self.start(code, **more)
        return self.finish()

    def interrupt(self):
        self.is_interrupted = True
        os.killpg(self.pid, signal.SIGINT)

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.close()

    def close(self):
        self.socket.close()
        for pipe in self.pipes:
            os.close(pipe)
        self.pipes = []


class Answer:
    def __init__(self, messages):
        self.messages = messages

    def of(self, kind):
        return [message for message in self.messages if message["type"] == kind]

    @property
    def stdout(self):
        return "".join(message["text"] for message in self.of("stdout"))

    @property
    def stderr(self):
        return "".join(message["text"] for message in self.of("stderr"))

    @property
    def results(self):
        return self.of("result")

    @property
    def error(self):
        errors = self.of("error")
        assert len(errors) <= 1, errors
        return errors[0] if errors else None

    @property
    def text(self):
        """Of the main result."""
        main = [message for message in self.results if message["is_main_result"]]
        assert len(main) == 1, self.messages
        return main[0]["text"]
