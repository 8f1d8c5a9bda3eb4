/* unpack.c - theory of operation
 *
 * The names and contents were chosen by programs in the cell, and this program may run as root. So
 * every entry is opened from the target directory, component by component, with openat2(2) flags
 * that follow no link on the way; "..", and what is neither file, directory nor symbolic link, is
 * refused or left out; files belong to the caller, and setuid bits are dropped. A symbolic link is
 * created as it is, and never followed here: not even one that existed before, unless it is the
 * target directory itself.
 *
 * Only the formats that the server writes are read: ustar headers and pax extensions. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "kernel.h"
#include "saved_file.h"
#include "tar_head.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define PARTS_MAX 128

struct unpack {
	int top;
	unpack_read_fn *read;
	void *arg;
	struct unpack_count *count;
	mode_t mask;
};

static int read_exactly(struct unpack *u, void *ret, size_t len, struct err *e)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = u->read(u->arg, (char *)ret + at, len - at, e);

		if (n < 0)
			return -1;
		if (n == 0)
			return err_set(e, ERR_INVALID, "the archive ends too early");
		at += (size_t)n;
	}
	return 0;
}

/* The body and its padding, to fd, or nowhere if it is -1. */
static int read_body(struct unpack *u, uint64_t size, int fd, struct err *e)
{
	static char buffer[65536];

	for (uint64_t left = size; left > 0;) {
		size_t n = left < sizeof(buffer) ? (size_t)left : sizeof(buffer);

		if (read_exactly(u, buffer, n, e) < 0 ||
		    (fd >= 0 && saved_file_put(fd, buffer, n, e) < 0))
			return -1;
		left -= n;
	}
	return read_exactly(u, buffer, tar_head_padding(size), e);
}

/* 1: *ret is an entry; 0: the end marker. */
static int next_entry(struct unpack *u, struct tar_head *ret, struct err *e)
{
	static char body[TAR_HEAD_PAX_MAX + TAR_HEAD_BLOCK];
	struct tar_head_pax pax = { 0 };
	uint8_t block[TAR_HEAD_BLOCK];
	int n;

	for (;;) {
		if (read_exactly(u, block, sizeof(block), e) < 0)
			return -1;
		n = tar_head_read(block, ret, e);
		if (n != 0)
			return n < 0 ? -1 : 0;
		if (ret->type != TAR_HEAD_PAX)
			break;
		if (ret->size > TAR_HEAD_PAX_MAX || pax.path != NULL || pax.link != NULL)
			return err_set(e, ERR_INVALID,
				       "the archive has an extended header that is too large");
		if (read_exactly(u, body, (size_t)ret->size + tar_head_padding(ret->size), e) < 0 ||
		    tar_head_pax_read(body, (size_t)ret->size, &pax, e) < 0)
			return -1;
	}
	if (pax.path != NULL)
		memcpy(ret->path, pax.path, strlen(pax.path) + 1);
	if (pax.link != NULL)
		memcpy(ret->link, pax.link, strlen(pax.link) + 1);
	if (pax.has_size)
		ret->size = pax.size;
	if (ret->type == TAR_HEAD_DIR || ret->type == TAR_HEAD_SYMLINK)
		ret->size = 0;
	return 1;
}

/* The directory below at with this name, made if it is missing. */
static int step(int at, const char *name)
{
	if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
		return -1;
	return kernel_openat2(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
}

/* Takes the path apart: opens the directory of its last part (owned by the caller) and names that,
 * "" if there is none. The path is written to. */
static int find(struct unpack *u, char *path, const char **ret_name, struct err *e)
{
	OWN_FD at = fcntl(u->top, F_DUPFD_CLOEXEC, 3);
	char *name = path + strspn(path, "/");

	for (int parts = 0; at >= 0; parts++) {
		size_t n = strcspn(name, "/"), gap = strspn(name + n, "/");
		bool last = name[n + gap] == '\0', here = n == 1 && *name == '.';
		int next;

		name[n] = '\0';
		if (strcmp(name, "..") == 0 || n > NAME_MAX || parts == PARTS_MAX)
			return err_set(
				e, ERR_INVALID,
				"the archive has an entry whose path has '..' or is too long");
		if (last) {
			*ret_name = here ? "" : name;
			return TAKE_FD(at);
		}
		next = here ? fcntl(at, F_DUPFD_CLOEXEC, 3) : step(at, name);
		fd_close(at);
		at = next;
		name += n + gap;
	}
	return err_sys(e, "open the directory of an entry");
}

static int make_directory(const struct unpack *u, int dir, const char *name,
			  const struct tar_head *h, struct err *e)
{
	OWN_FD fd = step(dir, name);

	/* Writable for its owner, so that later entries can be created in it. */
	if (fd < 0 || fchmod(fd, ((h->mode & 0777) | 0700) & ~u->mask) < 0)
		return err_sys(e, "make directory '%.100s'", name);
	u->count->directories++;
	return 0;
}

static int clear(int dir, const char *name, struct err *e)
{
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, "replace '%.100s'", name);
	return 0;
}

static int make_file(struct unpack *u, int dir, const char *name, const struct tar_head *h,
		     struct err *e)
{
	const struct timespec times[2] = { { 0, UTIME_NOW }, { h->mtime, 0 } };

	if (clear(dir, name, e) < 0)
		return -1;
	OWN_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "make '%.100s'", name);
	if (read_body(u, h->size, fd, e) < 0)
		return -1;
	if (ftruncate(fd, (off_t)h->size) < 0)
		return err_sys(e, "set length of '%.100s'", name);
	if (fchmod(fd, h->mode & 0777 & ~u->mask) < 0 || futimens(fd, times) < 0)
		return err_sys(e, "set mode of '%.100s'", name);
	u->count->files++;
	return 0;
}

static int make_entry(struct unpack *u, struct tar_head *h, struct err *e)
{
	const char *name = "";
	OWN_FD dir = -1;

	if (h->type != TAR_HEAD_FILE && h->type != TAR_HEAD_DIR && h->type != TAR_HEAD_SYMLINK) {
		u->count->skipped++;
		return read_body(u, h->size, -1, e);
	}
	dir = find(u, h->path, &name, e);
	if (dir < 0)
		return -1;
	if (*name == '\0' && h->type == TAR_HEAD_DIR)
		return 0; /* the top itself */
	if (*name == '\0')
		return err_set(e, ERR_INVALID, "the archive has an entry without a name");
	if (h->type == TAR_HEAD_DIR)
		return make_directory(u, dir, name, h, e);
	if (h->type == TAR_HEAD_FILE)
		return make_file(u, dir, name, h, e);
	if (clear(dir, name, e) < 0)
		return -1;
	if (symlinkat(h->link, dir, name) < 0)
		return err_sys(e, "make link '%.100s'", name);
	u->count->links++;
	return 0;
}

int unpack_tree(int top, unpack_read_fn *read, void *arg, struct unpack_count *ret, struct err *e)
{
	static struct tar_head h;
	struct unpack u = { .top = top, .read = read, .arg = arg, .count = ret };
	char rest[4096];
	int n;

	u.mask = umask(0);
	(void)umask(u.mask);
	*ret = (struct unpack_count){ 0 };
	while ((n = next_entry(&u, &h, e)) > 0)
		if (make_entry(&u, &h, e) < 0)
			return -1;
	if (n < 0)
		return -1;
	/* The second block of the end marker, and whatever fills up the last record. */
	for (uint64_t total = 0; (n = (int)read(arg, rest, sizeof(rest), e)) > 0;) {
		total += (uint64_t)n;
		if (total > (1U << 20))
			return err_set(e, ERR_INVALID, "the archive has no end marker");
	}
	return n < 0 ? -1 : 0;
}
