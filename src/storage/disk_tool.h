/* disk_tool.h - runs mkfs.ext4 and e2fsck on an image, for op_disk.c and op_volume.c. They run in
 * the jail of the runner that starts them. */
#pragma once

#include "lib/base/err.h"

/* Run a program of the machine to its end: argv[0] is its path, the list ends with NULL.
 * *ret_status is its exit status. ERR_UNSUPPORTED: the machine has no such program. The first line
 * that it prints is left in ret_line. */
int disk_tool_run(const char *const *argv, int *ret_status, char *ret_line, unsigned cap,
		  struct err *e) MUST_USE;

/* The error of mkfs that ended with this status and line. REASON_STORAGE_FULL: there is no room,
 * for which mkfs has several messages. */
int disk_tool_not_made(int status, const char *line, struct err *e) MUST_USE;
