#include "cell/init/files/builtin_io.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/io.h"

static uint8_t out[BUILTIN_IO_BUFFER];
static size_t out_len;

int builtin_io_flush(struct err *e)
{
	size_t n = out_len;

	out_len = 0;
	return n == 0 ? 0 : io_write_all(1, out, n, e);
}

int builtin_io_bytes(const void *bytes, size_t len, struct err *e)
{
	const uint8_t *p = bytes;

	while (len > 0) {
		size_t room = sizeof(out) - out_len, part = len < room ? len : room;

		memcpy(out + out_len, p, part);
		out_len += part;
		p += part;
		len -= part;
		if (out_len == sizeof(out) && builtin_io_flush(e) < 0)
			return -1;
	}
	return 0;
}

int builtin_io_record(const struct file_msg *m, struct err *e)
{
	static uint8_t bytes[FILE_MSG_MAX];
	size_t n = file_msg_write(m, bytes);

	if (n == 0)
		return err_set(e, ERR_LIMIT, "a name or path is too long for a record");
	return builtin_io_bytes(bytes, n, e);
}

/* Read len bytes, or to the end of file. Return how many. */
static ssize_t builtin_io_read_some(void *ret, size_t len, struct err *e)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(0, (char *)ret + got, len - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "input");
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int plain = -1; /* input without chunks */

int builtin_io_take_plain(int fd)
{
	int before = plain;

	plain = fd;
	return before;
}

static ssize_t builtin_io_read_plain(void *ret, size_t cap, struct err *e)
{
	ssize_t n;

	do
		n = read(plain, ret, cap);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(e, "read input") : n;
}

ssize_t builtin_io_read(void *ret, size_t cap, struct err *e)
{
	static uint32_t left; /* of the current chunk */
	static bool complete;
	size_t part;
	ssize_t n;

	if (plain >= 0)
		return builtin_io_read_plain(ret, cap, e);
	if (complete)
		return 0;
	if (left == 0) {
		uint8_t head[FILE_MSG_CHUNK_HEAD];
		int64_t len;

		n = builtin_io_read_some(head, sizeof(head), e);
		if (n < 0)
			return -1;
		if ((size_t)n < sizeof(head))
			return err_set(e, ERR_CONFLICT, "the input ended before it was complete");
		len = file_msg_chunk_read(head);
		if (len < 0)
			return err_set(e, ERR_INVALID, "input: chunk too long");
		left = (uint32_t)len;
		complete = len == 0;
		if (complete)
			return 0;
	}
	part = cap < left ? cap : left;
	n = builtin_io_read_some(ret, part, e);
	if (n >= 0 && (size_t)n < part)
		return err_set(e, ERR_CONFLICT, "the input ended before it was complete");
	left -= (uint32_t)part;
	return n;
}

int builtin_io_read_exactly(void *ret, size_t len, struct err *e)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = builtin_io_read((char *)ret + got, len - got, e);

		if (n < 0)
			return -1;
		if (n == 0 && got > 0)
			return err_set(e, ERR_INVALID,
				       "the input is shorter than its content says");
		if (n == 0)
			return 1;
		got += (size_t)n;
	}
	return 0;
}

static enum err_code builtin_io_code_of(int sys)
{
	switch (sys) {
	case ENOENT:
	case ENOTDIR:
	case ESRCH:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_DENIED;
	case EEXIST:
	case ENOTEMPTY:
	case EISDIR:
	case EBUSY:
		return ERR_CONFLICT;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENAMETOOLONG:
	case E2BIG:
		return ERR_LIMIT;
	case EINVAL:
	case ELOOP:
		return ERR_INVALID;
	default:
		return ERR_SYSTEM;
	}
}

int builtin_io_fail(struct err *e, const char *step, const char *path)
{
	int sys = errno;

	/* The cause first: the path may be longer than the message. */
	(void)err_set(e, builtin_io_code_of(sys), "%s: %s: %s", step, strerror(sys), path);
	e->sys = sys;
	return -1;
}

int builtin_io_mode(const char *text, uint32_t *ret, struct err *e)
{
	uint32_t v = 0;
	size_t i;

	if (strcmp(text, "-") == 0)
		return 0;
	for (i = 0; text[i] >= '0' && text[i] <= '7' && i < 5; i++)
		v = v << 3 | (uint32_t)(text[i] - '0');
	if (i == 0 || text[i] != '\0' || v > 07777)
		return err_set(e, ERR_INVALID, "'%s' is not an octal mode up to 7777", text);
	*ret = v;
	return 0;
}
