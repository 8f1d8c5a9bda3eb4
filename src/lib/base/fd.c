#include "lib/base/fd.h"

#include <stdlib.h>
#include <unistd.h>

void fd_close(int fd)
{
	if (fd > STDERR_FILENO)
		(void)close(fd);
	else if (fd >= 0 && CORDON_STRICT)
		abort();
}
