/* diff_record.h - one record of the list of what a cell changed (src/init/diff.h). Pure, fuzzed. */
#pragma once

#include <stdint.h>

#include "err.h"

struct diff_record {
	char kind; /* 'A'dded, 'C'hanged, 'D'eleted, 'T'runcated: below path there was more; 'E'nd
		    */
	uint32_t mode;
	uint64_t size;
	const char *path; /* borrowed; any bytes */
};

/* Reads "kind TAB mode TAB size TAB path" without its final NUL. */
int diff_record_parse(const char *text, struct diff_record *ret, struct err *e) MUST_USE;
