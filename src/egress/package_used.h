/* package_used.h - what a session has used of its limits of packages. Counted by package_gate*.c.
 */
#pragma once

#include <stdint.h>

struct package_used {
	uint64_t bytes;	    /* of package files sent to the cell, from the cache, too */
	uint64_t new_names; /* names that no registry knew */
};
