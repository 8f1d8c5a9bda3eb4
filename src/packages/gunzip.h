/* gunzip.h - gzip that arrives in pieces, with bounds against bombs: apt's indexes (Packages.gz).
 * Called by cordon-egress. Pure; zlib's inflate. */
#pragma once

#include <stddef.h>

#include "err.h"

/* Beyond the first MiB, output of more than this many times the input is refused. */
#define GUNZIP_RATIO 100

struct gunzip;

/* limit: bytes of output. */
struct gunzip *gunzip_new(size_t limit, struct err *e) MUST_USE;
/* Gives what comes out to on_bytes, at most 64 KiB at a time; its failure ends the call. */
int gunzip_feed(struct gunzip *g, const void *bytes, size_t n,
		int (*on_bytes)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
		struct err *e) MUST_USE;
/* Fails unless the last member is complete. */
int gunzip_end(const struct gunzip *g, struct err *e) MUST_USE;
void gunzip_free(struct gunzip *g); /* also NULL */
