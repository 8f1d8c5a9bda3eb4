/* advisories.h - a list of packages known as malicious, in the form that `cordon packages
 * advisories import` writes: one line each, sorted by bytes, found by bisection in a mapped file.
 * Pure. Any bytes are safe to search. A file of another form counts as an empty list.
 *
 *   cordon-advisories 1 SECONDS LINES       the time of the import, since the epoch
 *   ECOSYSTEM NAME VERSION|* ID             the name in its normal form */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/packages/package.h"

#define ADVISORY_ID_MAX 64
#define ADVISORIES_MAX (256U << 20) /* bytes of a list */
#define ADVISORIES_MAGIC "cordon-advisories 1 "

/* An open list. The mapping must outlive it. */
struct advisories {
	const char *text; /* borrowed: the lines after the first */
	size_t n;
	uint64_t time_s, lines; /* from its first line */
};

/* Open a list. False: another form, and *ret is empty. */
bool advisories_open(const void *bytes, size_t n, struct advisories *ret);

/* Is this version listed? version NULL: all versions of the name, "": an unknown version. *ret: the
 * id of the advisory, printable. */
bool advisories_find(const struct advisories *a, enum ecosystem eco, const char *name,
		     const char *version, char ret[ADVISORY_ID_MAX]);
