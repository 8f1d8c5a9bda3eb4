#include "fd_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include "fd.h"

void fd_reserve_fill(struct fd_reserve *r)
{
	while (r->n < FD_RESERVE_MAX) {
		int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

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
