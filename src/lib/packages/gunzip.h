/* gunzip.h - unpacks gzip that arrives in pieces, with bounds against bombs: apt's indexes
 * (Packages.gz). Called by cordon-egress. Pure. Uses zlib's inflate. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"

/* Beyond the first MiB, output is refused if it is more than this many times the input. */
#define GUNZIP_RATIO 100

struct gunzip;

/* limit: bytes of output. */
struct gunzip *gunzip_new(size_t limit, struct err *e) MUST_USE;
/* Pass output to on_bytes, at most 64 KiB at a time. A failure of on_bytes ends the call. */
int gunzip_feed(struct gunzip *g, const void *bytes, size_t n,
		int (*on_bytes)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
		struct err *e) MUST_USE;
/* Fail unless the last member is complete. */
int gunzip_end(const struct gunzip *g, struct err *e) MUST_USE;
void gunzip_free(struct gunzip *g); /* g may be NULL */
