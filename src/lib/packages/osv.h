/* osv.h - reads advisories in OSV's JSON form, as collections of malicious packages publish them.
 * Pure, for untrusted bytes. Used by `cordon packages advisories import`, which makes the list of
 * advisories.h from them.
 *
 * Only reports of malicious packages count (ids MAL-...), because a vulnerability is no reason to
 * refuse every version. Withdrawn reports and working copies (MAL-0000-...) are dropped. Ranges of
 * versions are not computed: all versions count as affected, unless the report lists single
 * versions and no range from the first version without an end. */
#pragma once

#include "lib/base/err.h"
#include "lib/packages/package.h"

#define OSV_TEXT_MAX (8U << 20) /* of one report */
#define OSV_ID_MAX 64		/* with its NUL */

/* One affected package and version. */
struct osv_entry {
	enum ecosystem ecosystem;
	const char *name;    /* normal form */
	const char *version; /* "*": all */
	const char *id;
};

/* Call on_entry for each package and version, borrowed until on_entry returns. *ret_skipped counts
 * unusable entries: other ecosystems, malformed names. 0: read, also if no entry counts. */
int osv_read(const char *text, size_t len,
	     int (*on_entry)(void *arg, const struct osv_entry *entry, struct err *e), void *arg,
	     size_t *ret_skipped, struct err *e) MUST_USE;
