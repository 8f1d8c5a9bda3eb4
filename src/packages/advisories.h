/* advisories.h - a list of packages that are known as malicious, as `cordon packages advisories
 * import` writes it: one line each, sorted by bytes, looked up by bisection in a mapped file. Pure;
 * any bytes are safe to look into, and a file that is not such a list has nothing in it.
 *
 *   cordon-advisories 1 SECONDS LINES       the time of the import, since the epoch
 *   ECOSYSTEM NAME VERSION|* ID             the name in its normal form
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "package.h"

#define ADVISORY_ID_MAX 64
#define ADVISORIES_MAX (256U << 20) /* bytes of a list */
#define ADVISORIES_MAGIC "cordon-advisories 1 "

struct advisories {
	const char *text; /* borrowed: the lines after the first */
	size_t n;
	uint64_t time_s, lines; /* as its first line says */
};

/* False: not such a list; *ret is empty then. */
bool advisories_open(const void *bytes, size_t n, struct advisories *ret);

/* Is this version listed? version NULL: all versions of the name; "": some version. *ret: the id of
 * the advisory, printable. */
bool advisories_find(const struct advisories *a, enum ecosystem eco, const char *name,
		     const char *version, char ret[ADVISORY_ID_MAX]);
