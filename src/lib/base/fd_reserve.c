#include "lib/base/fd_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/fd.h"

/* The first is the read end of a pipe without a writer. The others are duplicates of it. */
static int reserve_open_first(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	fd_close(ends[1]);
	return ends[0];
}

void fd_reserve_fill(struct fd_reserve *r)
{
	while (r->n < FD_RESERVE_MAX) {
		int fd = r->n == 0 ? reserve_open_first() : fcntl(r->fds[0], F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			return;
		r->fds[r->n++] = fd;
	}
}

void fd_reserve_lend(struct fd_reserve *r, size_t n)
{
	for (; n > 0 && r->n > 0; n--)
		fd_close(r->fds[--r->n]);
}

size_t fd_reserve_left(const struct fd_reserve *r)
{
	return r->n;
}

void fd_reserve_release(struct fd_reserve *r)
{
	fd_reserve_lend(r, r->n);
}
