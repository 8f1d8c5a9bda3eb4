#include "incell/mcpgateway/out_send.h"

#include <errno.h>
#include <unistd.h>

int out_send(int fd, struct buf *out)
{
	while (out->len > 0) {
		ssize_t n = write(fd, out->data, out->len);

		if (n >= 0)
			buf_consume(out, (size_t)n);
		else if (errno != EINTR)
			return errno == EAGAIN ? 0 : -1;
	}
	buf_release(out);
	return 0;
}
