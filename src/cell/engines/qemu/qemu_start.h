/* qemu_start.h - starts QEMU's process with exactly the descriptors it needs. Used by
 * engine_qemu.c. */
#pragma once

#include <sys/types.h>

#include "lib/wire/boot_msg.h"

/* The shim's record of a started QEMU. The caller owns the descriptors. */
struct qemu_process {
	pid_t pid;
	int control_fd, stream_fd; /* non-blocking, close-on-exec */
	enum boot_accel accel;
};

/* Start it. fds: those of the request (boot_fds_index()), borrowed. console: for its output. */
int qemu_start(const struct boot_request *r, const int *fds, int console, struct qemu_process *ret,
	       struct err *e) MUST_USE;
