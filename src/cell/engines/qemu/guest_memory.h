/* guest_memory.h - copies the memory of a stopped guest out of its engine's process, into a memory
 * file, sealed at the end. Used by engine_qemu.c.
 *
 * The guest's memory is a private mapping (guest_memory.h): of a base, with the pages that the
 * engine has written since, or of nothing. Pages that the process has of its own are read from it,
 * and the others from the base: reading them from the process, too, would map each of them there.
 * Pages of zeros stay holes in the copy.
 *
 * Instead, the copy may have the pages only that the process has of its own, which with the base
 * are the same memory. Then a page of zeros over other bytes of the base is written, and holes
 * stand for pages of the base.
 *
 * The engine is not trusted: its mappings are copied as they are. The number of bytes is bounded by
 * the size that the caller gives. The work is done in steps, so that the shim can do other work in
 * between. The engine must not run the guest during the copy, or the copy is of no single moment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct guest_memory {
	int base_fd;	      /* borrowed, -1 after a cold start */
	int mem_fd, pages_fd; /* of the engine's process */
	int copy_fd;	      /* what is made */
	uint64_t start, size; /* of the mapping */
	uint64_t at;	      /* what is below was copied */
	uint64_t data, hole;  /* of the base: the extent at or behind `at` */
	bool only_changes;    /* of the base */
};

/* Make it empty, so that guest_memory_end() may be called. */
void guest_memory_init(struct guest_memory *m);

/* Find the mapping and make the file. base: as the member. changes_max: only_changes is chosen if
 * there is a base and the changes are at most so many bytes. ERR_NOT_FOUND if the process has no
 * such mapping. */
int guest_memory_begin(struct guest_memory *m, pid_t engine, int base, uint64_t size,
		       uint64_t changes_max, struct err *e) MUST_USE;

/* Copy the next part, about `most` bytes. 1: there is more. 0: all is copied. */
int guest_memory_step(struct guest_memory *m, uint64_t most, struct err *e) MUST_USE;

/* Seal the copy and give it to the caller. */
int guest_memory_take(struct guest_memory *m, int *ret_fd, struct err *e) MUST_USE;

/* Close all open parts. May be called at any time. */
void guest_memory_end(struct guest_memory *m);

/* Seal a memory file for good: its content and size cannot change any more. */
int guest_memory_seal(int fd, struct err *e) MUST_USE;

struct guest_memory_changes {
	int from_fd; /* owned: the changed pages, -1 */
	int mem_fd;  /* of the engine's process */
	uint64_t start, size;
	uint64_t at, hole; /* what is below was written, the end of the extent at `at` */
};

/* Make it empty, so that guest_memory_changes_end() may be called. */
void guest_memory_changes_init(struct guest_memory_changes *c);

/* Find the mapping of base. from is taken over in any case. */
int guest_memory_changes_begin(struct guest_memory_changes *c, pid_t engine, int base,
			       uint64_t size, int from, struct err *e) MUST_USE;

/* Write the next part, about `most` bytes. 1: there is more. 0: all is written. */
int guest_memory_changes_step(struct guest_memory_changes *c, uint64_t most,
			      struct err *e) MUST_USE;

/* Close all open parts. May be called at any time. */
void guest_memory_changes_end(struct guest_memory_changes *c);

/* Make it. *ret_writer: a descriptor of it that QEMU can use. The caller owns both. */
int guest_memory_devices_make(int *ret, int *ret_writer, struct err *e) MUST_USE;

/* Seal it. ERR_INVALID: its content cannot be the state of devices. */
int guest_memory_devices_seal(int fd, struct err *e) MUST_USE;

/* For a clone: with an offset of its own, as others may read the same file. */
int guest_memory_devices_reopen(int fd, int *ret, struct err *e) MUST_USE;
