#include "lib/base/fd_std.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void fd_std_fill(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", O_RDWR) != fd) /* NOLINT: inherited */
			abort();
}

int fd_std_replace(int fd, int with)
{
	if (fd >= 0 && fd <= STDERR_FILENO)
		return dup2(with, fd);
	errno = EBADF;
	return -1;
}
