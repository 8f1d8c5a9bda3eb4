"""guest_held.py - a guest of level microvm that is held at one state of its life (src/cell/shim/guest_life.c), for guest_steps.py.

Either QEMU or the shim runs, for a moment at a time, and the other is stopped by SIGSTOP. So each state that waits for the guest or
for QEMU is seen: it stays as it is while QEMU is stopped. The state is read from the memory of cordon-shim, in a build that has
its symbols."""
import contextlib
import os
import re
import signal
import struct
import subprocess
import time

from cells import comm, processes_of
from harness import Failed, wait_for

LIFE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/cell/shim/guest_life.c")
SLICE = 0.002  # seconds that QEMU runs at a time
REST = 0.003  # for the shim to do what it can do without QEMU


class Symbols:
    """Where the state is, and what its numbers mean."""

    def __init__(self, shim):
        found = re.findall(r"^(\w+) \w state$", subprocess.run(["nm", shim], check=True, stdout=subprocess.PIPE, text=True).stdout, re.M)
        if len(found) != 1:
            raise Failed(f"{shim}: {len(found)} symbols 'state'")
        self.offset = int(found[0], 16)
        with open(LIFE, encoding="utf-8") as f:
            body = re.search(r"^enum guest_life_state \{(.*?)^\};", f.read(), re.M | re.S).group(1)
        self.names = re.findall(r"^\t(\w+),", body, re.M)


def pid_in(session, name):
    """Of a process of its cell; None."""
    return next((pid for pid in processes_of({session}) if comm(pid).startswith(name)), None)


def stat_of(pid):
    """The letter of its state; X: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


class Held:
    """The shim and QEMU of a session's cell, as soon as it has them."""

    def __init__(self, session, symbols, gone=()):
        """gone: processes of an earlier cell."""
        self.session, self.symbols = session, symbols
        self.shim = wait_for(lambda: self.other("cordon-shim", gone), 60, f"the shim of {session}", step=0.001)
        self.qemu = wait_for(lambda: self.other("qemu-system", gone), 60, f"QEMU of {session}", step=0.001)
        self.signal(signal.SIGSTOP)
        self.base = self.find_base()

    def other(self, name, gone):
        pid = pid_in(self.session, name)
        return None if pid in gone else pid

    def find_base(self):
        exe = os.readlink(f"/proc/{self.shim}/exe")
        with open(f"/proc/{self.shim}/maps", encoding="utf-8") as f:
            for line in f:
                if line.rstrip("\n").endswith(exe) and line.split()[2] == "00000000":
                    return int(line.split("-")[0], 16)
        raise Failed(f"no mapping of {exe}")

    def state(self):
        with open(f"/proc/{self.shim}/mem", "rb", buffering=0) as f:
            f.seek(self.base + self.symbols.offset)
            return self.symbols.names[struct.unpack("<i", f.read(4))[0]]

    def signal(self, number, pid=None):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or self.qemu, number)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def stop_shim(self):
        self.signal(signal.SIGSTOP, self.shim)
        wait_for(lambda: stat_of(self.shim) in "TZX", 10, "the shim to stop", step=0.0005)

    def slice(self, state):
        """QEMU runs, then the shim does what it can do without it; unless the state has changed since it was read."""
        self.stop_shim()
        if self.state() != state:
            self.signal(signal.SIGCONT, self.shim)
            return
        self.signal(signal.SIGCONT)
        time.sleep(SLICE)
        self.signal(signal.SIGSTOP)
        self.signal(signal.SIGCONT, self.shim)
        time.sleep(REST)

    def step_to(self, wanted, seconds=60):
        """QEMU runs in slices until the shim is in that state; it is stopped then."""
        end, seen = time.monotonic() + seconds, []
        while (now := self.state()) != wanted:
            if not seen or seen[-1] != now:
                seen.append(now)
            if time.monotonic() > end:
                raise Failed(f"{self.session} does not come to {wanted}: {seen[-12:]}")
            self.slice(now)
