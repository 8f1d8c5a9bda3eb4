#!/usr/bin/python3 -B
"""test_kvm_probe.py - cordon doctor says how fast guests of level microvm run: with a KVM that works, one that refuses, and
one that hangs. The working one is this machine's, if it has any."""
import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
import guest_kernel  # noqa: E402
from checks import Skip, check, equal, has, named_tests, run_tap  # noqa: E402

CORDON = str(pathlib.Path(sys.argv[1]).resolve())
TCG = "tcg (software emulation, about 10 times slower)"


def microvm_lines(*before, preexec=None):
    command = [*before, CORDON, "doctor", "--quick", "--state-dir", guest_kernel.state(CORDON)]
    text = subprocess.run(command, capture_output=True, text=True, preexec_fn=preexec, close_fds=False).stdout
    return {m[1]: (m[2], m[3]) for m in re.finditer(r"^level +(microvm.*?) +(yes|no) +(.*)$", text, re.M)}


def test_engine_and_kernel_are_named():
    lines = microvm_lines()
    equal(lines["microvm"][0], "yes", "microvm")
    check(re.search(r"QEMU \d+\.\d+ with (kvm|tcg), guest kernel \S+", lines["microvm"][1]), lines["microvm"])


def test_speed_of_this_machine():
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        raise Skip("no /dev/kvm")
    answer, text = microvm_lines()["microvm speed"]
    measured = re.search(r"([\d.]+) ns for an instruction", text)
    check(measured, text)
    equal(answer == "yes", float(measured[1]) < 50, "below 50 ns KVM is used")
    equal(text.startswith("kvm" if answer == "yes" else TCG), True, text)


def test_no_kvm():
    answer, text = microvm_lines("unshare", "-m", "sh", "-c", 'test -e /dev/kvm && mount --bind /dev/null /dev/kvm; "$@"', "sh")["microvm speed"]
    equal(answer, "no", text)
    has(text, f"{TCG}: no KVM, ", "speed")


def hang_in_kvm():
    """Calls that make a virtual machine wait for an answer that never comes: the listener stays open and is not read."""
    def insn(code, yes, no, k):
        return struct.pack("<HBBI", code, yes, no, k)
    program = b"".join([insn(0x20, 0, 0, 0), insn(0x15, 0, 3, 16), insn(0x20, 0, 0, 24), insn(0x15, 0, 1, 0xAE01),
                        insn(0x06, 0, 0, 0x7FC00000), insn(0x06, 0, 0, 0x7FFF0000)])
    kept = ctypes.create_string_buffer(program)
    fprog = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)
    listener = libc.syscall(317, 1, 8, fprog)  # seccomp(SECCOMP_SET_MODE_FILTER, NEW_LISTENER)
    if listener < 0:
        os._exit(99)
    os.set_inheritable(listener, True)


def test_kvm_that_hangs():
    if not os.path.exists("/dev/kvm"):
        raise Skip("no /dev/kvm")
    begin = time.monotonic()
    answer, text = microvm_lines(preexec=hang_in_kvm)["microvm speed"]
    equal((answer, text), ("no", f"{TCG}: /dev/kvm does not answer"), "speed")
    check(time.monotonic() - begin > 1.9, "it was waited for")


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[2:])))
