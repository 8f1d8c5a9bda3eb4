#!/usr/bin/python3
"""Guests under KVM on a machine without a good one: kvm_check.c inside an emulated machine whose processor has AMD's
virtualization (tests/vm/boot). Takes one to three minutes; `make check-kvm`. On a machine with a good KVM, `make bench-kvm` measures the same (--here).

    kvm_lane.py CORDON KVM_CHECK GUEST_PROBE [--here]"""
import os
import pathlib
import subprocess
import sys

import engine
import guest_kernel

BOOT = pathlib.Path(__file__).resolve().parent.parent / "vm" / "boot"
# what QEMU reads of its own data when it starts a microvm
FIRMWARE = "qemu/bios-microvm.bin", "seabios/bios-microvm.bin", "qemu/qboot.rom", "qemu/linuxboot_dma.bin", "qemu/pvh.bin"
MODULES = "irqbypass", "kvm", "kvm_amd"


def main():
    cordon, check, probe = sys.argv[1:4]
    build = pathlib.Path(cordon).resolve().parent
    guest = guest_kernel.state(cordon) / "guest"
    initramfs = build / "guest-kernel" / "probe-initramfs"
    init = engine.archive({"init": (0o100755, pathlib.Path(probe).read_bytes())})
    initramfs.write_bytes(init + (guest / "modules").read_bytes())
    if "--here" in sys.argv:
        done = subprocess.run([check, guest / "vmlinux", initramfs], stdout=subprocess.PIPE, text=True)
        good = "not ok 1" not in done.stdout
        print(done.stdout if good else f"QEMU by itself under KVM is left out: this machine's is not good\n{done.stdout}", end="")
        sys.exit(done.returncode if good else 0)
    command = [BOOT, "--cache", build / "vm", "--memory", "3072", "--timeout", "600", "--prog", "qemu-system-x86_64"]
    for module in MODULES:
        command += ["--module", module]
    for name in FIRMWARE:
        path = pathlib.Path("/usr/share", name)
        if path.exists():
            command += ["--add", f"{path.resolve()}:{path}"]
    command += ["--add", f"{check}:/usr/bin/kvm_check", "--add", f"{guest / 'vmlinux'}:/root/vmlinux",
                "--add", f"{initramfs}:/root/initramfs", "--", "/usr/bin/kvm_check", "/root/vmlinux", "/root/initramfs"]
    os.execv(BOOT, command)


if __name__ == "__main__":
    main()
