"""kernel.py - a kernel without its server: what cordon-interpreter does with one, over a socket pair.

    with Kernel("javascript") as k:
        equal(k.run("1+1").text, "2")

A language whose program is not installed is skipped with the package's name; run(tests) prints how many were."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "shared"))
from checks import Failed, Skip, check, equal, has, note  # noqa: E402,F401

KERNELS = os.path.join(HERE, "..", "..", "src", "incell", "interpreter", "kernels")
COMMANDS = {
    "javascript": ("nodejs", ["node", "javascript/kernel.mjs"]),
    "typescript": ("nodejs", ["node", "javascript/kernel.mjs", "--typescript"]),
    "bash": ("bash", ["bash", "bash/kernel.sh"]),
    "r": ("r-base-core", ["Rscript", "r/kernel.R"]),
    "java": ("openjdk-17-jdk-headless", ["java", "java/Kernel.java"]),
}


class Run:
    """What one execution gave: its messages in order, and what they come to."""

    def __init__(self, messages):
        self.messages = messages

    def of(self, kind):
        return [m for m in self.messages if m["type"] == kind]

    def joined(self, kind):
        return "".join(m["text"] for m in self.of(kind))

    @property
    def stdout(self):
        return self.joined("stdout")

    @property
    def stderr(self):
        return self.joined("stderr")

    @property
    def results(self):
        return self.of("result")

    @property
    def text(self):
        """The text of the main result; fails where there is an error."""
        if self.error:
            raise Failed(f"error: {self.error}")
        return next((m.get("text") for m in self.results if m["is_main_result"]), None)

    @property
    def error(self):
        errors = self.of("error")
        check(len(errors) <= 1, f"more than one error: {errors}")
        return errors[0] if errors else None

    @property
    def count(self):
        return self.of("count")[0]["execution_count"]


class Dead(Exception):
    pass


class Kernel:
    def __init__(self, language, cwd="/tmp", env=None):
        package, command = COMMANDS[language]
        program = shutil.which(command[0])
        if not program:
            raise Skip(f"{language}: no {command[0]} (Debian package {package})")
        self.link, theirs = socket.socketpair()
        self.pipes = {}
        ends = []
        for kind in ("stdout", "stderr"):
            r, w = os.pipe()
            os.set_blocking(r, False)
            self.pipes[r] = kind
            ends.append(w)
        argv = [program, os.path.abspath(os.path.join(KERNELS, command[1])), *command[2:]]
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec 3<&{theirs.fileno()} {theirs.fileno()}<&-; exec "$@"', "sh", *argv],
            stdin=subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            pass_fds=[theirs.fileno()],
            cwd=cwd,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
        for fd in ends:
            os.close(fd)
        theirs.close()
        self.rest, self.n, self.strays = b"", 0, []
        equal(self.receive(60), {"type": "ready"}, "the first message")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.link.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = {}

    def drain(self):
        """Native output comes before the message that follows it."""
        for fd, kind in self.pipes.items():
            while True:
                try:
                    data = os.read(fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    break
                self.strays.append({"type": kind, "text": data.decode(errors="replace"), "native": True})

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0:
                self.drain()
                raise Failed(f"no message within {seconds} s; output {self.strays}, part {self.rest[:200]!r}")
            ready, _, _ = select.select([self.link, *self.pipes], [], [], min(left, 0.2))
            self.drain()
            if self.link not in ready:
                if self.process.poll() is not None:
                    raise Dead(f"the kernel ended; output {self.strays}")
                continue
            data = self.link.recv(1 << 16)
            if not data:
                raise Dead(f"the kernel ended; output {self.strays}")
            self.rest += data
            self.drain()  # of messages that came together, too: their output is older than the last of them
        line, self.rest = self.rest.split(b"\n", 1)
        check(all(c < 128 for c in line), f"not ASCII: {line[:200]!r}")
        return json.loads(line)

    def send(self, **message):
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def begin(self, code, **more):
        self.n += 1
        self.send(op="execute", id=self.n, code=code, **{"env": {}, "silent": False, **more})

    def finish(self, seconds=30, until=None):
        """The messages up to `done`, or up to the first that `until` likes."""
        messages = []
        while True:
            message = self.receive(seconds)
            if message["type"] != "count":  # output of the same moment comes after it
                messages += self.strays
                self.strays = []
            if message["type"] == "done":
                equal(message["id"], self.n, "id of done")
                return Run(messages)
            messages.append(message)
            if until and until(message):
                return Run(messages)

    def run(self, code, seconds=30, **more):
        self.begin(code, **more)
        return self.finish(seconds)

    def interrupt(self):
        self.send(op="interrupt")
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupted(self):
        """As the server does it, twice: a program that a shell was just about to start does not see the first signal."""
        self.interrupt()
        again = threading.Timer(2, os.killpg, (self.process.pid, signal.SIGINT))
        again.start()
        try:
            return self.finish(10)
        finally:
            again.cancel()


def run(tests):
    names = sys.argv[1:]
    chosen = [(n, f) for n, f in tests.items() if n.startswith("test_") and (not names or any(x in n for x in names))]
    print(f"1..{len(chosen)}")
    bad = skipped = 0
    for i, (name, body) in enumerate(chosen, 1):
        began, why, end = time.monotonic(), "", ""
        try:
            body()
        except Skip as e:
            skipped, end = skipped + 1, f" # SKIP {e}"
        except Exception:
            why = traceback.format_exc()
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {i} - {name[5:].replace('_', ' ')}{end}")
        note(f"{why}{time.monotonic() - began:.2f} s")
    if skipped:
        note(f"{skipped} skipped")
    sys.exit(bool(bad) or (skipped > 0 and os.environ.get("CORDON_MUST_WORK") == "1"))
