/* byte_range.h - the header Range: one range of bytes. Pure, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/http/http1.h"

struct byte_range {
	bool from_end;	/* the last `first` bytes */
	uint64_t first; /* offset */
	uint64_t last;	/* included. UINT64_MAX: to the end */
};

/* False for headers to be ignored (RFC 9110, 14.2): other units, several ranges, malformed ones. */
bool byte_range_parse(struct http1_span value, struct byte_range *ret);
