/* guest_boot.h - cordon-init as the first program of a virtual machine (level microvm): turns the
 * booted kernel into the equivalent of a new cell, so that programs see the same.
 *
 *   guest_boot.c     the order, modules, devices, network
 *   guest_root.c     the file systems
 *   guest_limits.c   limits of programs, and the limits that they have hit
 *   guest_limits.c kills a program before the kernel gets stuck for want of memory
 *   guest_changes.c  the built-ins "diff" and "capture"
 *
 * The kernel starts /init of the initramfs (src/cell/kernel/guest_files.h) with the modules in
 * /modules. The machine has one disk, /dev/vda: an erofs image of the template's files, never
 * written, and one serial port of virtio with the name GUEST_PORT, over which the shim speaks
 * (lib/wire/mux.h).
 *
 * Invariant: nothing of this protects the host, which takes the whole guest for hostile. It
 * protects PID 1 from programs of the guest, as in a cell. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

#define GUEST_PORT "cordon"

/* True if this process is /init of a virtual machine. */
bool guest_boot_is_ours(const char *argv0);

/* Called once, before anything else. Afterwards the root directory is the template's, INIT_FD_DISK,
 * INIT_FD_EGRESS and INIT_FD_DIAG are as in a cell, and *ret_port is the port: not blocking,
 * close-on-exec. */
int guest_boot(int *ret_port, struct err *e) MUST_USE;

/* Print the error to the console and end the machine: the kernel panics without its PID 1. */
void guest_boot_fail(const struct err *e) NORETURN;
