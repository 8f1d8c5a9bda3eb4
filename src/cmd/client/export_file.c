/* export_file.c - items as JSON lines in a file, rotated by size.
 *
 * Items count as sent when fdatasync(2) has returned. After a failure the file is closed. The
 * next attempt opens it, cuts the rest of an unfinished line, and writes the items again: a line
 * may come twice, and never in part. Pipes and terminals are neither cut nor rotated. The
 * callers are in verb_export.c. The path is borrowed from the command line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/client/export_sink.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/io.h"

#define PIECE 4096

/* The next send opens the file again and cuts half a line. */
static void file_release(struct export_sink *s)
{
	fd_close(s->fd);
	s->fd = -1;
}

/* A killed export may leave a part of a line. The whole line is written again. */
static int cut_part(int fd, uint64_t *size, struct err *e)
{
	char piece[PIECE];
	uint64_t end = *size;

	while (end > 0) {
		size_t n = end < PIECE ? (size_t)end : PIECE;
		ssize_t got = pread(fd, piece, n, (off_t)(end - n));

		if (got != (ssize_t)n)
			return err_sys(e, "read");
		while (n > 0 && piece[n - 1] != '\n')
			n--;
		end = end - (uint64_t)got + n;
		if (n > 0)
			break;
	}
	if (end < *size && ftruncate(fd, (off_t)end) < 0)
		return err_sys(e, "truncate");
	*size = end;
	return 0;
}

/* Open for appending, and cut the rest of a killed export. Called again after each failure. */
static int file_begin(struct export_sink *s, struct err *e)
{
	struct stat st;

	s->fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return err_sys(e, "%.150s", s->path);
	s->size = (uint64_t)st.st_size;
	if (!S_ISREG(st.st_mode)) {
		s->max_size = 0; /* a pipe or a terminal: neither cut nor rotated */
		return 0;
	}
	return cut_part(s->fd, &s->size, e) < 0 ? err_wrap(e, "%.150s", s->path) : 0;
}

/* The path of the n-th older file. 0: the current one. */
static int export_file_numbered(const struct export_sink *s, uint64_t n, char ret[PATH_MAX],
				struct err *e)
{
	int len = n == 0 ? snprintf(ret, PATH_MAX, "%s", s->path)
			 : snprintf(ret, PATH_MAX, "%s.%llu", s->path, (unsigned long long)n);

	return len < 0 || len >= PATH_MAX ? err_set(e, ERR_INVALID, "--file: the path is too long")
					  : 0;
}

/* FILE becomes FILE.1 and so on. The last one is replaced. All is on disk before the names move,
 * so that an item that counts as sent is in one of the files. */
static int file_rotate(struct export_sink *s, struct err *e)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (fsync(s->fd) < 0)
		return err_sys(e, "%.150s", s->path);
	file_release(s);
	for (uint64_t n = s->max_files - 1; n > 0; n--) {
		if (export_file_numbered(s, n - 1, from, e) < 0 ||
		    export_file_numbered(s, n, to, e) < 0)
			return -1;
		if (rename(from, to) < 0 && errno != ENOENT)
			return err_sys(e, "%.150s", to);
	}
	if (s->max_files == 1 && unlink(s->path) < 0)
		return err_sys(e, "%.150s", s->path);
	return file_begin(s, e);
}

/* One item as a line. json_dumps() writes no line break inside. */
static int file_line(struct export_sink *s, const struct export_item *i, struct buf *b,
		     struct err *e)
{
	json_t *line = export_line(i, true);
	OWN_MEM char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
	size_t len;

	json_decref(line);
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	len = strlen(text);
	text[len] = '\n'; /* in place of its NUL */
	return buf_add(b, text, len + 1, e);
}

/* Whole lines only, so a rotation never cuts an item in two. */
static int file_flush(struct export_sink *s, struct buf *b, struct err *e)
{
	if (io_write_all(s->fd, buf_text(b), b->len, e) < 0)
		return err_wrap(e, "%.150s", s->path);
	s->size += b->len;
	buf_clear(b);
	return s->max_size > 0 && s->size >= s->max_size ? file_rotate(s, e) : 0;
}

/* The items count as sent after fdatasync(). Up to 1 MiB is collected before a write. EINVAL
 * comes from pipes and terminals, which have nothing to sync. */
static int file_send(struct export_sink *s, const struct export_node *node,
		     const struct export_item *items, size_t n, uint64_t *ret_wait_ms,
		     struct err *e)
{
	struct buf b = BUF_INIT((size_t)16 << 20);
	int done = 0;

	*ret_wait_ms = 0; /* a disk may have room again */
	if (s->fd < 0)
		done = file_begin(s, e);
	for (size_t i = 0; i < n && done == 0; i++) {
		done = file_line(s, &items[i], &b, e);
		if (done == 0 && (b.len > (size_t)1 << 20 ||
				  (s->max_size > 0 && s->size + b.len >= s->max_size)))
			done = file_flush(s, &b, e);
	}
	if (done == 0)
		done = file_flush(s, &b, e);
	if (done == 0 && fdatasync(s->fd) < 0 && errno != EINVAL)
		done = err_sys(e, "%.150s", s->path);
	buf_release(&b);
	if (done < 0)
		file_release(s); /* what is there of a line is cut off */
	return done;
}

/* A file that cannot be written shows here, before the first record was read. */
int export_file_open(struct export_sink *s, const char *path, uint64_t max_size, uint64_t max_files,
		     struct err *e)
{
	*s = (struct export_sink){ .send = file_send,
				   .release = file_release,
				   .fd = -1,
				   .path = path,
				   .max_size = max_size,
				   .max_files = max_files };
	return file_begin(s, e);
}
