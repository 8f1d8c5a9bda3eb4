/* tar_out.c - the built-in tar-out: writes a directory or a file as an archive.
 *
 * The tree is walked with a stack of open directories, following no link. Within an archive there
 * can be no ERROR record, so failures are reported otherwise: files that cannot be read or put into
 * a tar are left out, and the exit status is 2. A file that shrinks while it is read is filled up
 * with zeros, as tar(1) does, with the same status. Any other failure ends the archive without its
 * end marker, with exit status 1 and the reason on standard error. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_resolve.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/wire/tar_head.h"

struct tar_level {
	DIR *dir;
	size_t path_len; /* of this directory's path */
};

static struct tar_level stack[BUILTIN_DEPTH_MAX];
static unsigned used;
static char path[FILE_MSG_PATH_MAX];
static uint64_t room; /* bytes that may still be written */
static bool incomplete;

static int tar_out_put(const void *bytes, size_t len, struct err *e)
{
	if (len > room)
		return err_set(e, ERR_LIMIT, "the archive is larger than allowed");
	room -= len;
	return builtin_io_bytes(bytes, len, e);
}

static int tar_out_put_zeros(uint64_t len, struct err *e)
{
	static const char zeros[TAR_HEAD_BLOCK];

	for (; len > 0; len -= len < sizeof(zeros) ? len : sizeof(zeros))
		if (tar_out_put(zeros, len < sizeof(zeros) ? (size_t)len : sizeof(zeros), e) < 0)
			return -1;
	return 0;
}

static int tar_out_put_head(const struct tar_head *h, struct err *e)
{
	static struct tar_head pax;
	static char body[2 * TAR_HEAD_PATH_MAX + 128];
	uint8_t block[TAR_HEAD_BLOCK], first[TAR_HEAD_BLOCK];

	if (!tar_head_write(h, block)) {
		pax.type = TAR_HEAD_PAX;
		pax.mode = 0644;
		pax.size = tar_head_pax_write(h, body, sizeof(body));
		(void)snprintf(pax.path, sizeof(pax.path), "PaxHeader");
		if (!tar_head_write(&pax, first))
			return err_set(e, ERR_LIMIT, "pax header does not fit");
		if (tar_out_put(first, sizeof(first), e) < 0 ||
		    tar_out_put(body, (size_t)pax.size, e) < 0 ||
		    tar_out_put_zeros(tar_head_padding(pax.size), e) < 0)
			return -1;
	}
	return tar_out_put(block, sizeof(block), e);
}

static int tar_out_put_content(int fd, uint64_t size, struct err *e)
{
	static char buffer[BUILTIN_IO_BUFFER];
	uint64_t left = size;

	while (left > 0) {
		size_t want = left < sizeof(buffer) ? (size_t)left : sizeof(buffer);
		ssize_t n = read(fd, buffer, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (tar_out_put(buffer, (size_t)n, e) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	incomplete |= left > 0;
	return tar_out_put_zeros(left + tar_head_padding(size), e);
}

static int tar_out_put_regular(int fd, struct tar_head *h, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		incomplete = true;
		return 0;
	}
	h->type = TAR_HEAD_FILE;
	h->size = (uint64_t)st.st_size;
	return tar_out_put_head(h, e) < 0 ? -1 : tar_out_put_content(fd, h->size, e);
}

static int tar_out_put_file(int dir, const char *name, struct tar_head *h, struct err *e)
{
	OWN_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		return tar_out_put_regular(fd, h, e);
	incomplete = true;
	return 0;
}

static int tar_out_push(int dir, const char *name, size_t path_len)
{
	int fd = used == COUNT(stack)
			 ? -1
			 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 || !file_resolve_allows(fd) ? NULL : fdopendir(fd);

	if (d == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return -1;
	}
	stack[used++] = (struct tar_level){ d, path_len };
	return 0;
}

static int tar_out_put_directory(int dir, const char *name, struct tar_head *h, struct err *e)
{
	size_t n = strlen(path);

	h->type = TAR_HEAD_DIR;
	(void)snprintf(h->path, sizeof(h->path), "%.*s/", (int)sizeof(h->path) - 2, path);
	if (tar_out_put_head(h, e) < 0)
		return -1;
	if (tar_out_push(dir, name, n) < 0)
		incomplete = true;
	return 0;
}

/* One entry. path is its name in the archive. */
static int tar_out_put_entry(int dir, const char *name, struct err *e)
{
	static struct tar_head h;
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		incomplete |= errno != ENOENT;
		return 0;
	}
	h = (struct tar_head){ .mode = st.st_mode & 07777, .mtime = st.st_mtim.tv_sec };
	memcpy(h.path, path, strlen(path) + 1);
	if (S_ISDIR(st.st_mode))
		return tar_out_put_directory(dir, name, &h, e);
	if (S_ISREG(st.st_mode))
		return tar_out_put_file(dir, name, &h, e);
	n = S_ISLNK(st.st_mode) ? readlinkat(dir, name, h.link, sizeof(h.link) - 1) : -1;
	if (n < 0) {
		incomplete = true;
		return 0;
	}
	h.link[n] = '\0';
	h.type = TAR_HEAD_SYMLINK;
	return tar_out_put_head(&h, e);
}

/* Append the name to the directory's path. False if it does not fit. */
static bool tar_out_extend(size_t at, const char *name)
{
	int n = snprintf(path + at, sizeof(path) - at, "%s%s", at > 0 ? "/" : "", name);

	/* One byte more for the slash that a directory gets. */
	return n > 0 && at + (size_t)n + 1 < sizeof(path);
}

static int tar_out_put_tree(int top, struct err *e)
{
	if (tar_out_push(top, ".", 0) < 0)
		return builtin_io_fail(e, "open", "the directory");
	while (used > 0) {
		struct tar_level *l = &stack[used - 1];
		struct dirent *entry = readdir(l->dir);

		if (entry == NULL) {
			(void)closedir(l->dir);
			used--;
		} else if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
			continue;
		} else if (!tar_out_extend(l->path_len, entry->d_name)) {
			incomplete = true;
		} else if (tar_out_put_entry(dirfd(l->dir), entry->d_name, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* The archive of a single file has one entry, with the file's name. */
static int tar_out_put_single(int fd, const struct stat *st, const char *real, struct err *e)
{
	static struct tar_head h;
	const char *slash = strrchr(real, '/');

	h.mode = st->st_mode & 07777;
	h.mtime = st->st_mtim.tv_sec;
	str_copy(h.path, slash == NULL ? real : slash + 1);
	return tar_out_put_regular(fd, &h, e);
}

int tar_out(int argc, char **argv, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	OWN_FD pinned = -1;
	OWN_FD top = -1;
	struct stat st;

	if (units_count(argv[1], 0, INT64_MAX, &room, e) < 0)
		return -1;
	pinned = file_resolve_open(argv[0], true, real, e);
	if (pinned < 0)
		return -1;
	if (fstat(pinned, &st) < 0)
		return builtin_io_fail(e, "stat", argv[0]);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "neither directory nor file: %s", argv[0]);
	top = file_resolve_reopen(pinned, O_RDONLY | O_NONBLOCK);
	if (top < 0)
		return builtin_io_fail(e, "open", argv[0]);
	if (file_entry_send(pinned, real, argv[0], 0, e) < 0)
		return -1;
	if ((S_ISDIR(st.st_mode) ? tar_out_put_tree(top, e)
				 : tar_out_put_single(top, &st, real, e)) < 0 ||
	    tar_out_put_zeros(2 * (uint64_t)TAR_HEAD_BLOCK, e) < 0) {
		IGNORED(dprintf(2, "%s\n", e->msg), "it may be closed");
		return 1;
	}
	return incomplete ? 2 : 0;
}
