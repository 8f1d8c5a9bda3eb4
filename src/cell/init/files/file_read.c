/* file_read.c - the built-in read.
 *
 * The number of bytes is sent before the bytes, so that the reader can tell whether it got all of
 * them. st_size is not reliable: it is 0 for files of /proc, 4096 for those of /sys. So the first
 * buffer is read before anything is sent. If the file ends within it, its size is known. If st_size
 * is 0 and the file does not end there, the file is read to its end first. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_resolve.h"
#include "lib/base/units.h"

#define UNSIZED_MAX (16U << 20)

static char buffer[BUILTIN_IO_BUFFER];

struct file_read_span {
	uint64_t at, len;
};

/* Fill the buffer with up to len bytes. Fewer: the end of the file. */
static ssize_t file_read_at(int fd, uint64_t at, uint64_t len)
{
	size_t want = len < sizeof(buffer) ? (size_t)len : sizeof(buffer), got = 0;

	while (got < want) {
		ssize_t n = pread(fd, buffer + got, want - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int file_read_parse_span(char **argv, struct file_read_span *ret, struct err *e)
{
	ret->len = INT64_MAX;
	if (units_count(argv[1], 0, INT64_MAX, &ret->at, e) < 0)
		return -1;
	if (strcmp(argv[2], "-1") == 0)
		return 0;
	return units_count(argv[2], 0, INT64_MAX, &ret->len, e);
}

/* Determine how many bytes are sent, and the size that ENTRY has, after the first read. */
static void file_read_settle(const struct stat *st, size_t first, struct file_read_span *s,
			     uint64_t *ret_size)
{
	uint64_t size = (uint64_t)st->st_size, room = size > s->at ? size - s->at : 0;
	uint64_t wanted = s->len < sizeof(buffer) ? s->len : sizeof(buffer);

	*ret_size = size;
	if (first < wanted) { /* the end of the file */
		s->len = first;
		if (first > 0 || s->at == 0)
			*ret_size = s->at + first;
		return;
	}
	if (size == 0 && first > 0)
		*ret_size = s->at + first;
	else if (s->len > room)
		s->len = room;
}

/* Send the bytes. There can be no ERROR record here: it would be taken for content. A failure
 * shows as too few bytes and by the exit status. */
static int file_read_send_bytes(int fd, struct file_read_span s, size_t first)
{
	struct err ignored;

	size_t n = first < s.len ? first : (size_t)s.len;

	while (n > 0) {
		ssize_t got;

		if (builtin_io_bytes(buffer, n, &ignored) < 0)
			return 1;
		s.at += n;
		s.len -= n;
		got = file_read_at(fd, s.at, s.len);
		n = got > 0 ? (size_t)got : 0;
	}
	return s.len == 0 ? 0 : 1;
}

/* Read the whole file, from the offset on, into *ret, which the caller frees. */
static ssize_t file_read_unsized(int fd, const struct file_read_span *s, char **ret, struct err *e)
{
	OWN_MEM char *all = NULL;
	size_t len = 0, cap = 0;
	ssize_t n;

	do {
		if (cap - len < sizeof(buffer)) {
			char *more = realloc(all, cap * 2 + sizeof(buffer));

			if (more == NULL)
				return err_sys(e, "read");
			all = more;
			cap = cap * 2 + sizeof(buffer);
		}
		n = file_read_at(fd, s->at + len, s->len - len);
		if (n < 0)
			return builtin_io_fail(e, "read", "a file of unknown size");
		memcpy(all + len, buffer, (size_t)n);
		len += (size_t)n;
		if (len > UNSIZED_MAX)
			return err_set(e, ERR_LIMIT,
				       "a file of unknown size is larger than 16 MiB");
	} while (n > 0);
	*ret = all;
	all = NULL;
	return (ssize_t)len;
}

static int file_read_send_unsized(int fd, int pinned, const char *real, const char *requested,
				  struct file_read_span s, struct err *e)
{
	OWN_MEM char *all = NULL;
	struct file_msg data = { .kind = FILE_MSG_DATA };
	ssize_t n = file_read_unsized(fd, &s, &all, e);

	if (n < 0)
		return -1;
	data.data.len = (uint64_t)n;
	if (file_entry_send_sized(pinned, real, requested, s.at + data.data.len, e) < 0 ||
	    builtin_io_record(&data, e) < 0)
		return -1;
	return builtin_io_bytes(all, (size_t)n, e) < 0 ? 1 : 0;
}

int file_read(int argc, char **argv, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	struct file_msg data = { .kind = FILE_MSG_DATA };
	OWN_FD pinned = -1;
	OWN_FD fd = -1;
	struct file_read_span s;
	struct stat st;
	uint64_t size;
	ssize_t first;

	if (file_read_parse_span(argv, &s, e) < 0)
		return -1;
	pinned = file_resolve_open(argv[0], true, real, e);
	if (pinned < 0)
		return -1;
	if (fstat(pinned, &st) < 0)
		return builtin_io_fail(e, "stat", argv[0]);
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return builtin_io_fail(e, "read", argv[0]);
	}
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", argv[0]);
	fd = file_resolve_reopen(pinned, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return builtin_io_fail(e, "open", argv[0]);
	first = file_read_at(fd, s.at, s.len);
	if (first < 0)
		return builtin_io_fail(e, "read", argv[0]);
	if (st.st_size == 0 && (size_t)first == sizeof(buffer) && s.len > sizeof(buffer))
		return file_read_send_unsized(fd, pinned, real, argv[0], s, e);
	file_read_settle(&st, (size_t)first, &s, &size);
	data.data.len = s.len;
	if (file_entry_send_sized(pinned, real, argv[0], size, e) < 0 ||
	    builtin_io_record(&data, e) < 0)
		return -1;
	return file_read_send_bytes(fd, s, (size_t)first);
}
