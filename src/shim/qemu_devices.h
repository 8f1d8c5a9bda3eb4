/* qemu_devices.h - the memory file that QEMU writes the state of its devices into, for a snapshot,
 * and reads it from, as a clone. Used by engine_qemu.c. What QEMU has written is not trusted: it is
 * bounded, and sealed before any other program reads it. */
#pragma once

#include "err.h"

/* Makes it. *ret_writer: a descriptor of it that QEMU can use; the caller owns both. */
int qemu_devices_make(int *ret, int *ret_writer, struct err *e) MUST_USE;

/* Seals it. ERR_INVALID: what is in it cannot be the state of devices. */
int qemu_devices_seal(int fd, struct err *e) MUST_USE;

/* For a clone: with an offset of its own, as others may read the same file. */
int qemu_devices_reopen(int fd, int *ret, struct err *e) MUST_USE;
