/* inflate.h - a strict streaming decompressor for gzip (RFC 1952, 1951): headers, checksums and
 * lengths must be correct. After the last of one or more members no data may follow.
 *
 * Input and output pass through functions of the caller, which bounds both. Less than 80 KiB of
 * memory is used for any input. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct inflate_io {
	/* Read more input. Return the number of bytes at *ret, which stay valid until the next
	 * call. 0 at the end of input. -1 and an error. */
	ssize_t (*read)(void *arg, const uint8_t **ret, struct err *e);
	/* Take decompressed bytes, at most 64 KiB in a call. -1 and an error aborts. */
	int (*write)(void *arg, const uint8_t *bytes, size_t len, struct err *e);
	void *arg;
};

/* Decompresses all of the input. Malformed or truncated input is ERR_INVALID. Content written
 * before the error must be discarded. */
int inflate_gzip(const struct inflate_io *io, struct err *e) MUST_USE;
