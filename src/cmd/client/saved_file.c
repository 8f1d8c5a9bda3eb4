/* saved_file.c - see saved_file.h. Open, write, commit, release: a file that was not committed
 * leaves nothing behind, however the process ends, except where O_TMPFILE is missing and the
 * process is killed. */
#include "cmd/client/saved_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/rand.h"
#include "lib/base/zeros.h"

/* Zeros are looked for in blocks of the usual size of file systems. */
#define BLOCK 4096

/* The directory of the target. */
static void folder_of(const char *target, char *ret, size_t cap)
{
	const char *slash = strrchr(target, '/');

	if (slash == NULL)
		(void)snprintf(ret, cap, ".");
	else
		(void)snprintf(ret, cap, "%.*s", slash == target ? 1 : (int)(slash - target),
			       target);
}

/* The name of the part has a random ending, so two downloads of one file do not disturb each
 * other. O_TMPFILE is not known to every file system. */
int saved_file_open(struct saved_file *f, const char *target, struct err *e)
{
	char folder[PATH_MAX], id[RAND_ID_MAX];
	int n;

	*f = (struct saved_file){ .target = target, .fd = -1 };
	rand_id("", id, sizeof(id));
	n = snprintf(f->part, sizeof(f->part), "%s.%s", target, id);
	if (n < 0 || (size_t)n >= sizeof(f->part))
		return err_set(e, ERR_INVALID, "%.100s: the path is too long", target);
	folder_of(target, folder, sizeof(folder));
	f->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (f->fd >= 0)
		return 0;
	f->fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return err_sys(e, "%.150s", target);
	f->named = true;
	return 0;
}

/* A hole is made by seeking. Its bytes read as zeros. */
int saved_file_put(int fd, const void *bytes, size_t n, struct err *e)
{
	const uint8_t *at = bytes;

	while (n > 0) {
		size_t piece = n < BLOCK ? n : BLOCK;

		if (!zeros_only(at, piece)) {
			if (io_write_all(fd, at, piece, e) < 0)
				return -1;
		} else if (lseek(fd, (off_t)piece, SEEK_CUR) < 0) {
			return err_sys(e, "seek");
		}
		at += piece;
		n -= piece;
	}
	return 0;
}

/* Pieces may have any length. length counts all bytes, also those of holes. */
int saved_file_write(struct saved_file *f, const void *bytes, size_t n, struct err *e)
{
	f->length += n;
	return saved_file_put(f->fd, bytes, n, e);
}

/* The length first, since a hole at the end is not in the file yet. linkat() cannot replace a
 * file, so the link gets the name of the part and is then renamed. */
int saved_file_commit(struct saved_file *f, mode_t mode, struct err *e)
{
	char link[64];

	if (ftruncate(f->fd, (off_t)f->length) < 0 || fchmod(f->fd, mode) < 0)
		return err_sys(e, "%.150s", f->target);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", f->fd);
	if (!f->named && linkat(AT_FDCWD, link, AT_FDCWD, f->part, AT_SYMLINK_FOLLOW) < 0)
		return err_sys(e, "%.150s", f->target);
	f->named = true;
	if (rename(f->part, f->target) < 0)
		return err_sys(e, "%.150s", f->target);
	f->named = false;
	return 0;
}

void saved_file_release(struct saved_file *f)
{
	if (f->named)
		(void)unlink(f->part);
	io_close_all(&f->fd, 1);
}
