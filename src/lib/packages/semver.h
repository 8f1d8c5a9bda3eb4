/* semver.h - the order of versions by semver.org 2.0.0, as npm, cargo and Go use it: "1.2.3",
 * "1.2.3-rc.1", "1.2.3+build", also with a 'v' in front. Other forms have no order here. Pure.
 * Called by the shapers of metadata and by cordon-egress for Go's versions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct semver {
	uint64_t number[3];
	const char *pre; /* borrowed: identifiers behind '-', not NUL-terminated */
	size_t npre;	 /* 0: a release */
};

/* Read a version. False: another form. ret borrows text. */
bool semver_read(const char *text, struct semver *ret);
/* Return below 0, 0, or above 0. Builds do not count. */
int semver_compare(const struct semver *a, const struct semver *b);
