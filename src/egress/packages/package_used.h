/* package_used.h - a session's use of its package limits. Counted by package_gate*.c. */
#pragma once

#include <stdint.h>

struct package_used {
	uint64_t bytes;	    /* of package files sent to the cell, from the cache, too */
	uint64_t new_names; /* names that no registry knew */
};
