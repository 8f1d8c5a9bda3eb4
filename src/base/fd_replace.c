#include <errno.h>
#include <unistd.h>

#include "fd.h"

int fd_replace_std(int fd, int with)
{
	if (fd >= 0 && fd <= STDERR_FILENO)
		return dup2(with, fd);
	errno = EBADF;
	return -1;
}
