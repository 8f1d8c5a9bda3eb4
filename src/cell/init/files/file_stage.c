/* file_stage.c - theory of operation
 *
 * O_TMPFILE makes a file without a name: if the process is killed, nothing is left. link(2) gives
 * the file its name, but does not replace another file. So to replace one, the file first gets a
 * random name, then the right one by a rename. On file systems without O_TMPFILE it has a random
 * name from the start, which a kill leaves behind. */
#include "cell/init/files/file_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cell/init/files/builtin_io.h"
#include "lib/base/inflate.h"
#include "lib/base/io.h"

#define NOREPLACE 1 /* RENAME_NOREPLACE, which musl hides */

static char buffer[BUILTIN_IO_BUFFER];

static int file_stage_random_name(struct file_stage *s)
{
	uint64_t bits = 0;

	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		return -1;
	(void)snprintf(s->name, sizeof(s->name), FILE_STAGE_PREFIX "%016llx",
		       (unsigned long long)bits);
	return 0;
}

int file_stage_open(int dir, struct file_stage *ret)
{
	struct file_stage s = { .dir = dir };

	s.fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s.fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		if (file_stage_random_name(&s) < 0)
			return -1;
		s.fd = openat(dir, s.name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC,
			      0600);
	}
	if (s.fd < 0)
		return -1;
	*ret = s;
	return 0;
}

void file_stage_drop(struct file_stage *s)
{
	if (s->fd < 0)
		return;
	if (s->name[0] != '\0')
		(void)unlinkat(s->dir, s->name, 0);
	fd_close(s->fd);
	s->fd = -1;
}

/* Where content is written to, and how much of it may follow. */
struct file_stage_sink {
	int fd;
	uint64_t room;
};

static int file_stage_write_content(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	struct file_stage_sink *p = arg;

	if (len > p->room)
		return err_set(e, ERR_LIMIT, "content is larger than allowed");
	p->room -= len;
	while (len > 0) {
		ssize_t n = write(p->fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return builtin_io_fail(e, "write", "content");
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static ssize_t file_stage_next_part(void *arg, const uint8_t **ret, struct err *e)
{
	*ret = (const uint8_t *)buffer;
	return builtin_io_read(buffer, sizeof(buffer), e);
}

int file_stage_fill(struct file_stage *s, uint64_t max, bool gzip, struct err *e)
{
	struct file_stage_sink p = { .fd = s->fd, .room = max };
	const struct inflate_io io = { .read = file_stage_next_part,
				       .write = file_stage_write_content,
				       .arg = &p };
	const uint8_t *part;
	ssize_t n;

	if (gzip)
		return inflate_gzip(&io, e);
	while ((n = file_stage_next_part(NULL, &part, e)) > 0)
		if (file_stage_write_content(&p, part, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? -1 : 0;
}

static int file_stage_link_nameless(const struct file_stage *s, int dir, const char *name)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW);
}

/* A file with a random name from the start. A link shows watchers that the file is new, as that of
 * a file without a name does, and never replaces another file. GVisor has no RENAME_NOREPLACE. */
static int file_stage_move_named(const struct file_stage *s, int dir, const char *name,
				 bool replace)
{
	if (linkat(s->dir, s->name, dir, name, 0) == 0) {
		(void)unlinkat(s->dir, s->name, 0);
		return 0;
	}
	if (errno == EEXIST && !replace)
		return -1;
	return (int)syscall(SYS_renameat2, s->dir, s->name, dir, name, replace ? 0 : NOREPLACE);
}

int file_stage_link(struct file_stage *s, int dir, const char *name, bool replace)
{
	if (s->name[0] == '\0') {
		if (file_stage_link_nameless(s, dir, name) == 0)
			return 0;
		if (errno != EEXIST || !replace)
			return -1;
		s->dir = dir;
		if (file_stage_random_name(s) < 0)
			return -1;
		if (file_stage_link_nameless(s, dir, s->name) < 0) {
			s->name[0] = '\0';
			return -1;
		}
	}
	if (file_stage_move_named(s, dir, name, replace) < 0)
		return -1;
	s->name[0] = '\0';
	return 0;
}

int file_stage_copy(int from, int to)
{
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, buffer, sizeof(buffer), at)) != 0) {
		struct err ignored;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || io_write_all(to, buffer, (size_t)n, &ignored) < 0)
			return -1;
		at += n;
	}
	return 0;
}
