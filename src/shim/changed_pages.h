/* changed_pages.h - makes a clone that was not started yet what another guest was: writes the pages
 * that guest_memory.h has found changed into the engine's process. Used by engine_qemu.c.
 *
 * The pages become private ones of the engine: they are charged to its cell, and the image that it
 * maps stays as it is. The engine must not have loaded the state of its devices, which is checked
 * against the memory. The file is sealed and as large as the guest's memory; its holes are left
 * alone. The work is done in steps, as that of guest_memory.h. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "err.h"

struct changed_pages {
	int from_fd; /* owned: the changed pages; -1 */
	int mem_fd;  /* of the engine's process */
	uint64_t start, size;
	uint64_t at, hole; /* what is below was written; the end of the extent at `at` */
};

/* Makes it empty, so that changed_pages_end() may be called. */
void changed_pages_init(struct changed_pages *c);

/* Finds the mapping of base. from is taken over in any case. */
int changed_pages_begin(struct changed_pages *c, pid_t engine, int base, uint64_t size, int from,
			struct err *e) MUST_USE;

/* Writes the next part, about `most` bytes. 1: there is more; 0: all is written. */
int changed_pages_step(struct changed_pages *c, uint64_t most, struct err *e) MUST_USE;

/* Closes all that is open; may be called at any time. */
void changed_pages_end(struct changed_pages *c);
