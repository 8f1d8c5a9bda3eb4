/* content_file.c - the operations read and write of a file in a volume. See content.h.
 *
 * A file is written in the directory new and renamed when it is complete and on disk, so a reader
 * sees the old content or the new one, and a client that goes away leaves nothing. An image is
 * sparse: that the disk below it is full shows only when its bytes are brought there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "chunk_in.h"
#include "content.h"
#include "io.h"

#define BUFFER 65536
#define NOREPLACE 1U /* RENAME_NOREPLACE, which musl hides */

static char buffer[BUFFER];

/* ---- read */

static int open_file(const struct content *c, struct stat *st, struct err *e)
{
	OWN_FD seen = content_open(c, c->r->path, O_PATH);
	OWN_FD fd = -1;

	if (seen < 0 || fstat(seen, st) < 0)
		return content_fail(e, c->r->path);
	errno = EISDIR;
	if (S_ISDIR(st->st_mode))
		return content_fail(e, c->r->path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_INVALID, "%.100s: not a regular file", c->r->path);
	fd = content_open(c, c->r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, st) < 0)
		return content_fail(e, c->r->path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_CONFLICT, "%.100s: was replaced meanwhile", c->r->path);
	return TAKE_FD(fd);
}

/* After DATA no error can be sent: too few bytes show it. */
static int send_bytes(const struct content *c, int fd, uint64_t left)
{
	while (left > 0) {
		size_t want = left < BUFFER ? (size_t)left : BUFFER;
		ssize_t n = read(fd, buffer, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || content_put_bytes(c, buffer, (size_t)n) < 0)
			_exit(1);
		left -= (uint64_t)n;
	}
	return 0;
}

int content_read(const struct content *c, struct err *e)
{
	struct content_record data = { .kind = CONTENT_DATA };
	struct stat st;
	OWN_FD fd = open_file(c, &st, e);

	if (fd < 0)
		return -1;
	data.len = (uint64_t)st.st_size;
	if (content_put_entry(c, fd, c->r->path) < 0 || content_put(c, &data) < 0)
		return content_fail(e, c->r->path);
	return send_bytes(c, fd, data.len);
}

/* ---- write */

static int fill(const struct content *c, int fd, struct err *e)
{
	uint64_t total = 0;
	ssize_t n;

	while ((n = chunk_in_read(c->in, buffer, BUFFER, e)) > 0) {
		total += (uint64_t)n;
		if (total > c->r->bytes_max)
			return err_set_reason(e, REASON_TOO_LARGE, "%.100s: more than %llu bytes",
					      c->r->path, (unsigned long long)c->r->bytes_max);
		if (io_write_all(fd, buffer, (size_t)n, e) < 0)
			return -1; /* it has set errno */
	}
	return n < 0 ? -1 : 0;
}

/* Before the content is read: is the path one that can be written? */
static int check(const struct content *c, const struct content_place *p, struct err *e)
{
	struct stat st;

	if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : content_fail(e, c->r->path);
	errno = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
	if (S_ISDIR(st.st_mode) || (c->r->flags & STORAGE_CONTENT_FORCE) == 0)
		return content_fail(e, c->r->path);
	return 0;
}

static int commit(const struct content *c, const struct content_place *p, int new, const char *name,
		  int fd, struct err *e)
{
	bool force = (c->r->flags & STORAGE_CONTENT_FORCE) != 0;
	mode_t mode = c->r->mode == STORAGE_CONTENT_UNSET ? 0644 : c->r->mode;

	if (content_give(c, fd, mode) < 0 || fsync(fd) < 0)
		return content_fail(e, c->r->path);
	if ((int)syscall(SYS_renameat2, new, name, p->dir, p->name, force ? 0 : NOREPLACE) < 0)
		return content_fail(e, c->r->path);
	return content_put_entry(c, fd, c->r->path) < 0 ? content_fail(e, c->r->path) : 0;
}

/* Missing parents are made when the content is complete. */
static int find(const struct content *c, bool parents, struct content_place *ret, struct err *e)
{
	bool force = (c->r->flags & STORAGE_CONTENT_FORCE) != 0;

	if (content_find(c, c->r->path, parents && force, ret, e) < 0)
		return !parents && force && e->sys == ENOENT ? 0 : -1;
	return check(c, ret, e);
}

int content_write(const struct content *c, struct err *e)
{
	CONTENT_PLACE p = CONTENT_PLACE_NONE;
	OWN_FD new = -1;
	OWN_FD fd = -1;
	char name[32];

	if (c->r->path[1] == '\0') {
		errno = EISDIR;
		return content_fail(e, c->r->path);
	}
	if (find(c, false, &p, e) < 0)
		return -1;
	content_place_release(&p);
	if ((new = content_new_open(c->volume)) < 0 || (fd = content_new_file(new, name)) < 0)
		return content_fail(e, c->r->path);
	if (fill(c, fd, e) == 0 && find(c, true, &p, e) == 0 &&
	    commit(c, &p, new, name, fd, e) == 0)
		return 0;
	(void)unlinkat(new, name, 0);
	return -1;
}
