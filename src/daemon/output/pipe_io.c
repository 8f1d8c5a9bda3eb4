/* pipe_io.c - see pipe_io.h. */
#include "daemon/output/pipe_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BYTES 65536

/* Empty between two calls. */
static int scratch[2] = { -1, -1 };
/* /dev/null, which takes pages without copying them. */
static int null_fd = -1;

static int open_scratch(void)
{
	return scratch[0] >= 0 ? 0 : pipe2(scratch, O_CLOEXEC | O_NONBLOCK);
}

static int open_null(void)
{
	if (null_fd < 0)
		null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return null_fd < 0 ? -1 : 0;
}

int pipe_io_setup(struct err *e)
{
	if (open_scratch() < 0)
		return err_sys(e, "pipe");
	if (open_null() < 0)
		return err_sys(e, "open /dev/null");
	return 0;
}

ssize_t pipe_io_drop(int fd, size_t n)
{
	ssize_t moved;

	if (open_null() < 0)
		return -1;
	do
		moved = splice(fd, NULL, null_fd, NULL, n, SPLICE_F_NONBLOCK);
	while (moved < 0 && errno == EINTR);
	return moved;
}

ssize_t pipe_io_read(int fd, void *ret, size_t cap)
{
	ssize_t moved;

	if (open_scratch() < 0)
		return -1;
	do
		moved = splice(fd, NULL, scratch[1], NULL, cap < PIPE_BYTES ? cap : PIPE_BYTES,
			       SPLICE_F_NONBLOCK);
	while (moved < 0 && errno == EINTR);
	if (moved <= 0)
		return moved;
	return read(scratch[0], ret, (size_t)moved);
}

ssize_t pipe_io_peek(int fd, void *ret, size_t cap)
{
	ssize_t copied;

	if (open_scratch() < 0)
		return -1;
	do
		copied =
			tee(fd, scratch[1], cap < PIPE_BYTES ? cap : PIPE_BYTES, SPLICE_F_NONBLOCK);
	while (copied < 0 && errno == EINTR);
	if (copied <= 0)
		return copied;
	return read(scratch[0], ret, (size_t)copied);
}

ssize_t pipe_io_write(int fd, const void *data, size_t len)
{
	unsigned char back[4096];
	ssize_t put, moved;
	int why;

	if (open_scratch() < 0)
		return -1;
	put = write(scratch[1], data, len < PIPE_BYTES ? len : PIPE_BYTES);
	if (put <= 0)
		return -1;
	moved = splice(scratch[0], NULL, fd, NULL, (size_t)put, SPLICE_F_NONBLOCK);
	why = moved < 0 ? errno : 0;
	while (read(scratch[0], back, sizeof(back)) > 0)
		; /* bytes that did not fit are not counted as written */
	explicit_bzero(back, sizeof(back));
	if (moved >= 0 || why == EAGAIN || why == EINTR)
		return moved < 0 ? 0 : moved;
	errno = why;
	return -1;
}
