/* cpio.h - writes archives in the kernel's initramfs format ("newc", see the kernel's
 * Documentation/driver-api/early-userspace/buffer-format.rst). All entries are root's, with time 0,
 * so that the same content is always the same bytes. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct cpio {
	int fd; /* borrowed: written at its position */
	uint32_t entries;
};

/* A directory, a file or (data: its target) a link, by its mode. Directories come before their
 * entries. */
int cpio_add(struct cpio *c, const char *name, mode_t mode, const void *data, size_t len,
	     struct err *e) MUST_USE;
int cpio_add_device(struct cpio *c, const char *name, mode_t mode, uint32_t major, uint32_t minor,
		    struct err *e) MUST_USE;
/* The last entry. Another archive may follow behind it: the kernel unpacks all of them. */
int cpio_end(struct cpio *c, struct err *e) MUST_USE;
