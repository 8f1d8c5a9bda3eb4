/* diff_record.h - one record of the list of a cell's changes (src/cell/init/changes/diff.h). Pure,
 * fuzzed. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"

struct diff_record {
	char kind; /* 'A'dded, 'C'hanged, 'D'eleted, 'T'runcated: below path there was more. 'E'nd
		    */
	uint32_t mode;
	uint64_t size;
	uint64_t changed_ms; /* since 1970. 0: not known */
	const char *path;    /* borrowed. Any bytes */
};

/* Read "kind TAB mode TAB size TAB time TAB path" without its final NUL. Lists that earlier
 * versions kept have no time. */
int diff_record_parse(const char *text, struct diff_record *ret, struct err *e) MUST_USE;
/* "added", "changed" or "deleted". */
const char *diff_record_kind(const struct diff_record *c);
