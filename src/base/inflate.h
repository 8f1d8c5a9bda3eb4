/* inflate.h - gzip (RFC 1952, 1951) undone as a stream, strictly: headers, checksums and lengths
 * must be right, members may follow one another, anything else behind them is an error.
 *
 * What is taken and what is given passes through the caller's functions, so bounds on both are his;
 * of its own it needs 80 KiB, whatever comes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

struct inflate_io {
	/* More input: how many bytes are at *ret, which stay there until the next call; 0 at its
	 * end; -1 and an error. */
	ssize_t (*more)(void *arg, const uint8_t **ret, struct err *e);
	/* Takes content, at most 64 KiB at once; -1 and an error ends it all. */
	int (*out)(void *arg, const uint8_t *bytes, size_t len, struct err *e);
	void *arg;
};

/* Until the end of the input. Malformed or broken off: ERR_INVALID, and some content may have been
 * given before: it is good for nothing. */
int inflate_gzip(const struct inflate_io *io, struct err *e) MUST_USE;
