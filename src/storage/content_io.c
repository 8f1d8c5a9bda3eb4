/* content_io.c - the answer of an operation on a volume's content, and its input. See content.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "file_msg.h"
#include "io.h"

int content_put_bytes(const struct content *c, const void *bytes, size_t len)
{
	struct err ignored;

	return io_write_all(c->out, bytes, len, &ignored);
}

int content_put(const struct content *c, const struct content_record *r)
{
	uint8_t bytes[CONTENT_RECORD_MAX];

	return content_put_bytes(c, bytes, content_msg_write(r, bytes));
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint32_t type_of(mode_t mode)
{
	return S_ISREG(mode)   ? CONTENT_FILE
	       : S_ISDIR(mode) ? CONTENT_DIRECTORY
	       : S_ISLNK(mode) ? CONTENT_SYMLINK
			       : CONTENT_UNKNOWN;
}

int content_put_entry(const struct content *c, int fd, const char *path)
{
	struct content_record r = { .kind = CONTENT_ENTRY };
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0)
		return -1;
	r.entry = (struct content_entry){ .size = (uint64_t)st.st_size,
					  .atime_ns = ns(st.st_atim),
					  .mtime_ns = ns(st.st_mtim),
					  .ctime_ns = ns(st.st_ctim),
					  .type = type_of(st.st_mode),
					  .mode = st.st_mode & 07777,
					  .uid = c->single ? 1000 : st.st_uid - c->shift,
					  .gid = c->single ? 1000 : st.st_gid - c->shift };
	(void)snprintf(r.entry.path, CONTENT_PATH_MAX, "%s", path);
	if (S_ISLNK(st.st_mode))
		n = readlinkat(fd, "", r.entry.target, CONTENT_PATH_MAX - 1);
	if (n < 0)
		return -1;
	return content_put(c, &r);
}

/* 1: filled; 0: the input ended. */
static int read_exactly(int fd, void *ret, size_t len)
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

ssize_t content_get_bytes(const struct content *c, void *ret, size_t cap, struct err *e)
{
	static uint64_t left; /* of the chunk; a child does one operation */
	uint8_t head[FILE_MSG_CHUNK_HEAD];
	int64_t next;
	ssize_t n;

	if (left == 0) {
		next = read_exactly(c->in, head, sizeof(head)) > 0 ? file_msg_chunk_read(head) : -1;
		if (next < 0)
			return err_set(e, ERR_CONFLICT, "the content was cut off");
		if (next == 0)
			return 0;
		left = (uint64_t)next;
	}
	do
		n = read(c->in, ret, left < cap ? (size_t)left : cap);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(e, ERR_CONFLICT, "the content was cut off");
	left -= (uint64_t)n;
	return n;
}
