/* guest_memory.h - copies the memory of a stopped guest out of its engine's process, into a memory
 * file that is sealed then. Used by engine_qemu.c.
 *
 * The guest's memory is a private mapping (guest_mapping.h): of a base, with the pages that the
 * engine has written since; or of nothing. Pages that the process has of its own are read from it,
 * and the others from the base: reading them from the process, too, would map each of them there.
 * Pages of zeros stay holes in the copy.
 *
 * Instead, the copy may have the pages only that the process has of its own, which with the base
 * are the same memory. Then a page of zeros that is not so in the base is written, and holes are
 * what the base has.
 *
 * The engine is not trusted: what it maps is copied as it is. The number of bytes is bounded by the
 * size that the caller gives. The work is done in steps, so that the shim can do other work in
 * between; the engine must not run the guest meanwhile, or the copy is of no single moment. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

struct guest_memory {
	int base_fd;	      /* borrowed; -1 after a cold start */
	int mem_fd, pages_fd; /* of the engine's process */
	int copy_fd;	      /* what is made */
	uint64_t start, size; /* of the mapping */
	uint64_t at;	      /* what is below was copied */
	uint64_t data, hole;  /* of the base: the extent at or behind `at` */
	bool only_changes;    /* of the base */
};

/* Makes it empty, so that guest_memory_end() may be called. */
void guest_memory_init(struct guest_memory *m);

/* Finds the mapping and makes the file. base: as the member. changes_max: only_changes is chosen if
 * there is a base and the changes are at most so many bytes. ERR_NOT_FOUND if the process has no
 * such mapping. */
int guest_memory_begin(struct guest_memory *m, pid_t engine, int base, uint64_t size,
		       uint64_t changes_max, struct err *e) MUST_USE;

/* Copies the next part, about `most` bytes. 1: there is more; 0: all is copied. */
int guest_memory_step(struct guest_memory *m, uint64_t most, struct err *e) MUST_USE;

/* Seals the copy and gives it to the caller. */
int guest_memory_take(struct guest_memory *m, int *ret_fd, struct err *e) MUST_USE;

/* Closes all that is open; may be called at any time. */
void guest_memory_end(struct guest_memory *m);

/* Seals a memory file for good: its content and size cannot change any more. */
int guest_memory_seal(int fd, struct err *e) MUST_USE;
