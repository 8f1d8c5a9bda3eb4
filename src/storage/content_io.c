/* content_io.c - the answer of an operation on a volume's content. See content.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
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
