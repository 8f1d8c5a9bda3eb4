/* go_h1.h - Go's hash of a module's zip ("h1:", golang.org/x/mod/sumdb/dirhash): SHA-256 of the
 * sorted list of "SHA-256 of the content, two spaces, name". Called by cordon-egress, which has the
 * zip in a file. Pure: reads by a callback; in slices, so that a turn of the loop is bounded.
 *
 * Strict: no ZIP64, no comment at the end, no encryption, stored or deflated content only, sizes as
 * the directory says. Bounds: GO_ZIP_*; beyond them ERR_LIMIT. Go itself refuses modules of more
 * than 500 MB. */
#pragma once

#include "digest.h"

#define GO_ZIP_FILES 60000U
#define GO_ZIP_NAMES (16U << 20)    /* bytes of all names */
#define GO_ZIP_CONTENT (600U << 20) /* bytes of all content */

struct go_h1;

struct go_h1_source {
	uint64_t size;
	/* Reads exactly n bytes, inside of size. */
	int (*read_at)(void *arg, uint64_t at, void *ret, size_t n, struct err *e);
	void *arg;
};

struct go_h1 *go_h1_new(const struct go_h1_source *source, struct err *e) MUST_USE;
/* Reads or unpacks about `most` bytes. 1: there is more to do; 0: done; -1: no module's zip. */
int go_h1_step(struct go_h1 *h, size_t most, struct err *e) MUST_USE;
/* After it is done. */
void go_h1_result(const struct go_h1 *h, struct digest *ret);
void go_h1_free(struct go_h1 *h); /* also NULL */
