/* io_write.c - io_write_all(). Apart from io.c, so that programs that only write link no more. */
#include <errno.h>

#include "lib/base/io.h"

int io_write_all(int fd, const void *data, size_t len, struct err *e)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "write");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
