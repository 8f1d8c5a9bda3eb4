/* chunk_in.c - see chunk_in.h. */
#include "storage/chunk_in.h"

#include <errno.h>
#include <unistd.h>

#include "lib/wire/file_msg.h"

/* 1: filled. 0: the input ended. */
static int chunk_read_exactly(int fd, void *ret, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = read(fd, (char *)ret + got, len - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		got += (size_t)n;
	}
	return 1;
}

/* A piece never spans two chunks. The empty chunk ends the stream: a call after that would read
 * behind it. */
ssize_t chunk_in_read(int fd, void *ret, size_t cap, struct err *e)
{
	static uint64_t left; /* of the chunk. A process reads one stream */
	uint8_t head[FILE_MSG_CHUNK_HEAD];
	int64_t next;
	ssize_t n;

	if (left == 0) {
		next = chunk_read_exactly(fd, head, sizeof(head)) > 0 ? file_msg_chunk_read(head)
								      : -1;
		if (next < 0)
			return err_set(e, ERR_CONFLICT, "the content was cut off");
		if (next == 0)
			return 0;
		left = (uint64_t)next;
	}
	do
		n = read(fd, ret, left < cap ? (size_t)left : cap);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(e, ERR_CONFLICT, "the content was cut off");
	left -= (uint64_t)n;
	return n;
}
