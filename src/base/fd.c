#include "fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void fd_fill_std(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", O_RDWR) != fd) /* NOLINT: inherited */
			abort();
}

void fd_close(int fd)
{
	if (fd > STDERR_FILENO)
		(void)close(fd);
#ifdef FD_STRICT
	else if (fd >= 0)
		abort();
#endif
}
