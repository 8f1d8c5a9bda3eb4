/* tar_in.c - the built-in tar-in: extracts an archive below one directory.
 *
 * The archive is untrusted. Names are made relative and may not contain "..". The directory of an
 * entry is opened from the top by openat2(2), which refuses every link on the path, whether the
 * archive or a process of the cell made it. Files appear complete or not at all; what was extracted
 * before an error stays. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin.h"
#include "builtin_io.h"
#include "builtin_table.h"
#include "file_resolve.h"
#include "file_stage.h"
#include "tar_in.h"
#include "tar_stream.h"
#include "open_path.h"
#include "kernel.h"
#include "units.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)

struct extraction {
	int top;
	uint64_t room, entries; /* bytes and entries that may still follow */
	struct file_msg_end end;
};

static int make_and_enter(int at, const char *name)
{
	if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
		return -1;
	return open_path(at, name, DIR_FLAGS, BENEATH);
}

/* The directory of a cleaned path, made if it is missing. Fails with errno. */
static int open_dirs(int top, char *dirs)
{
	int fd = open_path(top, *dirs == '\0' ? "." : dirs, DIR_FLAGS, BENEATH);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	OWN_FD at = open_path(top, ".", DIR_FLAGS, BENEATH);

	while (at >= 0 && *dirs != '\0') {
		size_t n = strcspn(dirs, "/");
		char end = dirs[n];
		int next;

		dirs[n] = '\0';
		next = make_and_enter(at, dirs);
		dirs[n] = end;
		fd_close(at);
		at = next;
		dirs += n + (end != '\0');
	}
	return TAKE_FD(at);
}

/* Splits a cleaned path and opens its directory. */
static int find_entry(int top, const char *path, struct file_place *ret, struct err *e)
{
	char dirs[TAR_HEAD_PATH_MAX];
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	size_t n = slash == NULL ? 0 : (size_t)(slash - path);

	if (strlen(name) > NAME_MAX)
		return err_set(e, ERR_LIMIT, "tar: a name of over 255 bytes");
	memcpy(dirs, path, n);
	dirs[n] = '\0';
	memcpy(ret->name, name, strlen(name) + 1);
	ret->dir = open_dirs(top, dirs);
	return ret->dir < 0 ? builtin_io_fail(e, "tar: open directory of", path) : 0;
}

/* Removes an entry that is not a directory. */
static int clear_entry(const struct file_place *p)
{
	return unlinkat(p->dir, p->name, 0) < 0 && errno != ENOENT ? -1 : 0;
}

static int make_file(struct extraction *x, const struct file_place *p, const struct tar_head *h,
		     struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;
	const struct timespec times[2] = { { 0, UTIME_NOW }, { h->mtime, 0 } };

	if (h->size > x->room)
		return err_set(e, ERR_LIMIT, "tar: content is larger than allowed");
	if (file_stage_open(p->dir, &stage) < 0)
		return builtin_io_fail(e, "tar: make", h->path);
	if (tar_stream_body(stage.fd, h, e) < 0)
		return -1;
	/* Without set-id bits. */
	if (fchmod(stage.fd, h->mode & 0777) < 0 || futimens(stage.fd, times) < 0 ||
	    file_stage_link(&stage, p->dir, p->name, true) < 0)
		return builtin_io_fail(e, "tar: make", h->path);
	x->room -= h->size;
	x->end.bytes += h->size;
	return 0;
}

/* Directories stay writable by their owner: later entries are extracted into them. */
static int make_directory(const struct file_place *p, const struct tar_head *h, struct err *e)
{
	OWN_FD fd = -1;
	struct stat st;

	if (mkdirat(p->dir, p->name, 0700) < 0) {
		if (errno == EEXIST && fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			return 0;
		if (errno != EEXIST || clear_entry(p) < 0 || mkdirat(p->dir, p->name, 0700) < 0)
			return builtin_io_fail(e, "tar: make directory", h->path);
	}
	fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, (h->mode & 0777) | 0700) < 0)
		return builtin_io_fail(e, "tar: make directory", h->path);
	return 0;
}

static int make_symlink(const struct file_place *p, const struct tar_head *h, struct err *e)
{
	if (clear_entry(p) < 0 || symlinkat(h->link, p->dir, p->name) < 0)
		return builtin_io_fail(e, "tar: make link", h->path);
	return 0;
}

static int make_hard_link(struct extraction *x, const struct file_place *p, struct tar_head *h,
			  struct err *e)
{
	FILE_PLACE source = FILE_PLACE_NONE;

	if (h->size != 0 || tar_stream_clean(h->link, e) < 0 || h->link[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: hard link points outside or has content: %s",
			       h->path);
	if (strcmp(h->link, h->path) == 0)
		return 0;
	if (find_entry(x->top, h->link, &source, e) < 0)
		return -1;
	if (clear_entry(p) < 0 || linkat(source.dir, source.name, p->dir, p->name, 0) < 0)
		return builtin_io_fail(e, "tar: make hard link", h->path);
	return 0;
}

static int skip_entry(struct extraction *x, const struct tar_head *h, struct err *e)
{
	x->end.skipped++;
	if (h->size > x->room)
		return err_set(e, ERR_LIMIT, "tar: content is larger than allowed");
	x->room -= h->size;
	return tar_stream_body(-1, h, e);
}

static bool is_made(char type)
{
	return strchr("0125", type) != NULL && type != '\0';
}

static int one_entry(struct extraction *x, struct tar_head *h, struct err *e)
{
	FILE_PLACE p = FILE_PLACE_NONE;

	if (x->entries == 0)
		return err_set(e, ERR_LIMIT, "tar: more entries than allowed");
	x->entries--;
	if (h->type == 'S' || h->type == 'M')
		return err_set(e, ERR_UNSUPPORTED, "tar: sparse or split file: %s", h->path);
	if (!is_made(h->type))
		return skip_entry(x, h, e);
	if (tar_stream_clean(h->path, e) < 0)
		return -1;
	if (h->path[0] == '\0' && h->type == TAR_HEAD_DIR)
		return 0; /* the top itself */
	if (h->path[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: an entry without a name");
	if (find_entry(x->top, h->path, &p, e) < 0)
		return -1;
	x->end.count++;
	if (h->type == TAR_HEAD_DIR)
		return make_directory(&p, h, e);
	if (h->type == TAR_HEAD_SYMLINK)
		return make_symlink(&p, h, e);
	if (h->type == TAR_HEAD_HARDLINK)
		return make_hard_link(x, &p, h, e);
	return make_file(x, &p, h, e);
}

int tar_in_extract(int top, uint64_t max_bytes, uint64_t max_entries, struct file_msg_end *ret,
		   struct err *e)
{
	static struct tar_head h;
	struct extraction x = { .top = top, .room = max_bytes, .entries = max_entries };
	int rc;

	while ((rc = tar_stream_next(&h, e)) == 0)
		if (one_entry(&x, &h, e) < 0)
			return -1;
	*ret = x.end;
	return rc < 0 ? -1 : 0;
}

int tar_in(int argc, char **argv, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	struct file_msg_end end;
	uint64_t bytes, entries;
	OWN_FD top = -1;
	struct stat st;

	(void)argc;
	if (units_count(argv[1], 0, INT64_MAX, &bytes, e) < 0 ||
	    units_count(argv[2], 0, UINT32_MAX, &entries, e) < 0)
		return -1;
	top = file_resolve_open(argv[0], true, real, e);
	if (top < 0)
		return -1;
	errno = ENOTDIR;
	if (fstat(top, &st) < 0 || !S_ISDIR(st.st_mode))
		return builtin_io_fail(e, "extract into", argv[0]);
	if (tar_in_extract(top, bytes, entries, &end, e) < 0)
		return -1;
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = end }, e);
}
