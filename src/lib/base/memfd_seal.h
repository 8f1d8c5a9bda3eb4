/* memfd_seal.h - seals a memfd of many pages. Used where memory images are written.
 *
 * The kernel refuses F_SEAL_WRITE with EBUSY while something else has a reference to a page of it:
 * its own scans of memory do, for moments, and among 100,000 pages there is often one. The call
 * itself waits for up to a sixth of a second. */
#pragma once

#include <errno.h>
#include <fcntl.h>

#define MEMFD_SEAL_TRIES 20

/* 0, or -1 with errno. */
static inline int memfd_seal(int fd, int seals)
{
	int r = -1;

	for (unsigned i = 0; i < MEMFD_SEAL_TRIES; i++) {
		r = fcntl(fd, F_ADD_SEALS, seals);
		if (r == 0 || errno != EBUSY)
			break;
	}
	return r;
}
