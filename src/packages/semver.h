/* semver.h - the order of versions by semver.org 2.0.0, which npm, cargo and Go have: "1.2.3",
 * "1.2.3-rc.1", "1.2.3+build", also with a 'v' before it. What has another form has no order here.
 * Pure. Called by the shapers of metadata and by cordon-egress for Go's versions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct semver {
	uint64_t number[3];
	const char *pre; /* of the text: identifiers behind '-'; not NUL-terminated */
	size_t npre;	 /* 0: a release */
};

/* False: no such version. ret borrows text. */
bool semver_read(const char *text, struct semver *ret);
/* Below 0, 0, above 0. Builds do not count. */
int semver_compare(const struct semver *a, const struct semver *b);
