"""engine.py - the QEMU engine by itself (engine_driver.c), with a small guest (guest_probe.c)."""
import contextlib
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
from checks import Failed, Skip, check, wait_for  # noqa: E402

NAMES = ("engine", "init", "kernel", "initrd", "root", "ram", "devices", "changes", "later")  # of enum boot_fd
MIB = 128
PATIENCE = 90  # seconds: a boot takes two on an idle machine


def archive(entries):
    """A cpio archive as the kernel unpacks it, of {path: (mode, bytes)}."""
    parts = []
    for number, (path, (mode, data)) in enumerate({**entries, "TRAILER!!!": (0, b"")}.items(), 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]
    return b"".join(parts)


def memory_file(data):
    fd = os.memfd_create("test")
    with open(fd, "wb", closefd=False) as f:
        f.write(data)
    return fd


def boot_files(cordon, probe):
    """Descriptors of the kernel (a plain file) and of an initramfs (a memory file) with the probe as its init."""
    if not shutil.which("qemu-system-x86_64"):
        raise Skip("there is no qemu-system-x86_64")
    guest = guest_kernel.state(cordon) / "guest"
    files = archive({"init": (0o100755, pathlib.Path(probe).read_bytes())}) + (guest / "modules").read_bytes()
    return os.open(guest / "vmlinux", os.O_RDONLY), memory_file(files + bytes(-len(files) % 4096))  # as guest_files.c


class Engine(contextlib.AbstractContextManager):
    """One engine and its guest."""

    def __init__(self, driver, mib=MIB, kvm=False, **fds):
        """fds: by their names."""
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.text, console = os.pipe()
        self.stream, self.left, self.said = None, b"", ""
        shell = f"exec 3<&{theirs.fileno()} 4>&{console} {theirs.fileno()}<&- {console}>&-; exec \"$0\""
        self.process = subprocess.Popen(["/bin/bash", "-c", shell, driver], pass_fds=(theirs.fileno(), console))
        theirs.close()
        os.close(console)
        order = [name for name in NAMES if name in fds]
        which = sum(1 << NAMES.index(name) for name in order)
        socket.send_fds(self.ours, [f"start {mib} {which} {int(kvm)}".encode()], [fds[name] for name in order])

    def __exit__(self, *unused):
        self.ours.close()
        self.process.wait()
        if self.stream:
            self.stream.close()
        os.close(self.text)

    def message(self, seconds=PATIENCE):
        """The next message of the driver, and its descriptors."""
        if not select.select([self.ours], [], [], seconds)[0]:
            raise Failed(f"the engine is silent; its console: {self.console()[-2000:]}")
        text, fds, _, _ = socket.recv_fds(self.ours, 1024, 4)
        return text.decode(), fds

    def started(self):
        text, fds = self.message()
        if text != "ok":
            raise Failed(f"{text}; its console: {self.console()[-2000:]}")
        self.stream = socket.socket(fileno=fds[0])
        self.stream.settimeout(PATIENCE)
        return self

    def order(self, word, answer="ok"):
        self.ours.send(word.encode())
        text, fds = self.message()
        if text != answer:
            raise Failed(f"{word}: {text}")
        return fds

    def line(self):
        while b"\n" not in self.left:
            more = self.stream.recv(4096)
            check(more, f"the guest has gone; its console: {self.console()[-2000:]}")
            self.left += more
        text, _, self.left = self.left.partition(b"\n")
        return text.decode()

    def ask(self, text):
        self.stream.sendall(text.encode() + b"\n")
        return self.line()

    def console(self):
        while select.select([self.text], [], [], 0)[0]:
            more = os.read(self.text, 65536)
            if not more:
                break
            self.said += more.decode(errors="replace")
        return self.said

    def qemu(self):
        """The process id of QEMU."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return int(wait_for(lambda: pathlib.Path(children).read_text(), name="QEMU").split()[0])
