/* qemu_command.h - the command line of QEMU for one guest. Used by engine_qemu.c.
 *
 * A clone must have exactly the devices of the guest that its memory image was made from, so the
 * same code makes both. What it has: no firmware settings of the user, no default devices, one
 * serial line (the console), one virtio-serial port (the guest's stream), one read-only disk. A
 * clone is given neither kernel nor command line: these are in its memory. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot_msg.h"

#define QEMU_WORDS_MAX 64
#define QEMU_TEXT_MAX 4096

/* Descriptors are numbers in QEMU's process; -1 where there is none. */
struct qemu_plan {
	const struct boot_request *request;
	enum boot_accel accel; /* KVM or TCG */
	uint64_t tsc_khz;      /* of this machine; a cold start with TCG needs it */
	int control_fd, stream_fd;
	int kernel_fd, initrd_fd; /* memory files; a cold start */
	int root_fd;		  /* open for reading only */
	int ram_fd;		  /* a clone */
};

struct qemu_command {
	char text[QEMU_TEXT_MAX];
	size_t used;
	char *argv[QEMU_WORDS_MAX + 1];
	unsigned n;
	bool full;
};

/* ERR_LIMIT if it does not fit, which the bounds of the request exclude. */
int qemu_command_make(const struct qemu_plan *p, struct qemu_command *ret, struct err *e) MUST_USE;
