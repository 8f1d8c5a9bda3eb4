/* tar_in.c - the built-in tar-in: extracts an archive below one directory.
 *
 * The archive is untrusted. Names are made relative and may not contain "..". The directory of an
 * entry is opened from the top by openat2(2), which refuses every link on the path, whether the
 * archive or a process of the cell made it. Files appear complete or not at all. Entries extracted
 * before an error stay. */
#include "cell/init/files/tar_in.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_stage.h"
#include "cell/init/files/open_path.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/units.h"
#include "lib/wire/tar_head.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)

/* Reads a tar archive from the input of a built-in, entry by entry. Called by
 * tar_in.c. */

#define EXTENSIONS_MAX 8	/* in front of one entry */
#define TRAILER_MAX (16U << 20) /* behind the end marker */

/* From extension headers, for the next entry. */
struct pending {
	char path[TAR_HEAD_PATH_MAX], link[TAR_HEAD_PATH_MAX];
	bool has_size;
	uint64_t size;
};

static char body[TAR_HEAD_PAX_MAX + TAR_HEAD_BLOCK];

static int tar_in_stream_read_block(uint8_t *ret, struct err *e)
{
	int rc = builtin_io_read_exactly(ret, TAR_HEAD_BLOCK, e);

	return rc > 0 ? err_set(e, ERR_INVALID, "tar: ends without its end marker") : rc;
}

static int tar_in_stream_read_bytes(void *ret, size_t len, struct err *e)
{
	int rc = builtin_io_read_exactly(ret, len, e);

	return rc > 0 ? err_set(e, ERR_INVALID, "tar: ends in the middle of an entry") : rc;
}

static int tar_in_stream_read_extension(const struct tar_head *h, struct err *e)
{
	if (h->size > TAR_HEAD_PAX_MAX)
		return err_set(e, ERR_LIMIT, "tar: extension of over 64 KiB");
	return tar_in_stream_read_bytes(body, (size_t)h->size + tar_head_padding(h->size), e);
}

/* GNU's long name: the whole body, which may end in NUL. */
static int tar_in_stream_take_long(const struct tar_head *h, char *ret, struct err *e)
{
	const char *end = memchr(body, '\0', (size_t)h->size);
	size_t n = end == NULL ? (size_t)h->size : (size_t)(end - body);

	if (n >= TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	memcpy(ret, body, n);
	ret[n] = '\0';
	return 0;
}

static int tar_in_stream_take_pax(const struct tar_head *h, struct pending *p, struct err *e)
{
	struct tar_head_pax pax;

	if (tar_head_pax_read(body, (size_t)h->size, &pax, e) < 0)
		return -1;
	if (pax.path != NULL)
		memcpy(p->path, pax.path, strlen(pax.path) + 1);
	if (pax.link != NULL)
		memcpy(p->link, pax.link, strlen(pax.link) + 1);
	if (pax.has_size) {
		p->has_size = true;
		p->size = pax.size;
	}
	return 0;
}

/* Return 1 if this was an extension, 0 if it is an entry. */
static int tar_in_stream_take_extension(const struct tar_head *h, struct pending *p, struct err *e)
{
	int rc;

	if (strchr("LKxgX", h->type) == NULL || h->type == '\0')
		return 0;
	if (tar_in_stream_read_extension(h, e) < 0)
		return -1;
	if (h->type == TAR_HEAD_LONG_NAME)
		rc = tar_in_stream_take_long(h, p->path, e);
	else if (h->type == TAR_HEAD_LONG_LINK)
		rc = tar_in_stream_take_long(h, p->link, e);
	else if (h->type == TAR_HEAD_PAX_GLOBAL)
		rc = 0; /* comments and times */
	else
		rc = tar_in_stream_take_pax(h, p, e);
	return rc < 0 ? -1 : 1;
}

static void tar_in_stream_apply(const struct pending *p, struct tar_head *h)
{
	if (p->path[0] != '\0')
		memcpy(h->path, p->path, strlen(p->path) + 1);
	if (p->link[0] != '\0')
		memcpy(h->link, p->link, strlen(p->link) + 1);
	if (p->has_size)
		h->size = p->size;
	/* Some programs write a size for these types, but no content. */
	if (h->type == TAR_HEAD_DIR || h->type == TAR_HEAD_SYMLINK || h->type == TAR_HEAD_CHAR ||
	    h->type == TAR_HEAD_BLOCK_DEVICE || h->type == TAR_HEAD_FIFO)
		h->size = 0;
}

static int tar_in_stream_drain(struct err *e)
{
	uint64_t total = 0;
	ssize_t n;

	while ((n = builtin_io_read(body, sizeof(body), e)) > 0) {
		total += (uint64_t)n;
		if (total > TRAILER_MAX)
			return err_set(e, ERR_LIMIT, "tar: too much behind the end marker");
	}
	return n < 0 ? -1 : 1;
}

/* Read the header of the next entry, with names and size of extension headers before it. Return
 * 0, 1 after the end marker (the rest of the input was read and ignored), or -1, also if the
 * archive has no end marker. */
static int tar_in_stream_next(struct tar_head *ret, struct err *e)
{
	static struct pending p;
	uint8_t block[TAR_HEAD_BLOCK];
	int rc;

	p.path[0] = p.link[0] = '\0';
	p.has_size = false;
	for (int i = 0; i <= EXTENSIONS_MAX; i++) {
		if (tar_in_stream_read_block(block, e) < 0)
			return -1;
		rc = tar_head_read(block, ret, e);
		if (rc < 0)
			return -1;
		if (rc == 1)
			return tar_in_stream_drain(e);
		rc = tar_in_stream_take_extension(ret, &p, e);
		if (rc < 0)
			return -1;
		if (rc == 0) {
			tar_in_stream_apply(&p, ret);
			return 0;
		}
	}
	return err_set(e, ERR_LIMIT, "tar: too many extensions for one entry");
}

/* Read the entry's body and padding, and write the body to fd, unless fd is -1. */
static int tar_in_stream_body(int fd, const struct tar_head *h, struct err *e)
{
	for (uint64_t left = h->size; left > 0;) {
		size_t n = left < BUILTIN_IO_BUFFER ? (size_t)left : BUILTIN_IO_BUFFER;

		if (tar_in_stream_read_bytes(body, n, e) < 0)
			return -1;
		if (fd >= 0 && io_write_all(fd, body, n, e) < 0)
			return builtin_io_fail(e, "tar: write", h->path);
		left -= n;
	}
	return tar_in_stream_read_bytes(body, tar_head_padding(h->size), e);
}

/* Make a path relative, in place: removes leading slashes, empty and "." components. ".." and more
 * than BUILTIN_DEPTH_MAX components are errors. The result may be "". */
static int tar_in_stream_clean(char *path, struct err *e)
{
	const char *from = path;
	char *to = path;
	unsigned parts = 0;

	while (*from != '\0') {
		size_t n = strcspn(from, "/");

		if (n == 2 && memcmp(from, "..", 2) == 0)
			return err_set(e, ERR_INVALID, "tar: a name with '..' in it");
		if (n > 0 && !(n == 1 && *from == '.')) {
			if (++parts > BUILTIN_DEPTH_MAX)
				return err_set(e, ERR_LIMIT, "tar: over %d levels deep",
					       BUILTIN_DEPTH_MAX);
			if (to != path)
				*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n + (from[n] == '/');
	}
	*to = '\0';
	return 0;
}

struct extraction {
	int top;
	uint64_t room, entries; /* bytes and entries that may still follow */
	struct file_msg_end end;
};

static int tar_in_make_and_enter(int at, const char *name)
{
	if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
		return -1;
	return open_path(at, name, DIR_FLAGS, BENEATH);
}

/* The directory of a cleaned path, made if it is missing. Fail with errno. */
static int tar_in_open_dirs(int top, char *dirs)
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
		next = tar_in_make_and_enter(at, dirs);
		dirs[n] = end;
		fd_close(at);
		at = next;
		dirs += n + (end != '\0');
	}
	return TAKE_FD(at);
}

/* Split a cleaned path and open its directory. */
static int tar_in_find_entry(int top, const char *path, struct file_place *ret, struct err *e)
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
	ret->dir = tar_in_open_dirs(top, dirs);
	return ret->dir < 0 ? builtin_io_fail(e, "tar: open directory of", path) : 0;
}

/* Remove an entry other than a directory. */
static int tar_in_clear_entry(const struct file_place *p)
{
	return unlinkat(p->dir, p->name, 0) < 0 && errno != ENOENT ? -1 : 0;
}

static int tar_in_make_file(struct extraction *x, const struct file_place *p,
			    const struct tar_head *h, struct err *e)
{
	FILE_STAGE stage = FILE_STAGE_NONE;
	const struct timespec times[2] = { { 0, UTIME_NOW }, { h->mtime, 0 } };

	if (h->size > x->room)
		return err_set(e, ERR_LIMIT, "tar: content is larger than allowed");
	if (file_stage_open(p->dir, &stage) < 0)
		return builtin_io_fail(e, "tar: make", h->path);
	if (tar_in_stream_body(stage.fd, h, e) < 0)
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
static int tar_in_make_directory(const struct file_place *p, const struct tar_head *h,
				 struct err *e)
{
	OWN_FD fd = -1;
	struct stat st;

	if (mkdirat(p->dir, p->name, 0700) < 0) {
		if (errno == EEXIST && fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			return 0;
		if (errno != EEXIST || tar_in_clear_entry(p) < 0 ||
		    mkdirat(p->dir, p->name, 0700) < 0)
			return builtin_io_fail(e, "tar: make directory", h->path);
	}
	fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, (h->mode & 0777) | 0700) < 0)
		return builtin_io_fail(e, "tar: make directory", h->path);
	return 0;
}

static int tar_in_make_symlink(const struct file_place *p, const struct tar_head *h, struct err *e)
{
	if (tar_in_clear_entry(p) < 0 || symlinkat(h->link, p->dir, p->name) < 0)
		return builtin_io_fail(e, "tar: make link", h->path);
	return 0;
}

static int tar_in_make_hard_link(struct extraction *x, const struct file_place *p,
				 struct tar_head *h, struct err *e)
{
	FILE_PLACE source = FILE_PLACE_NONE;

	if (h->size != 0 || tar_in_stream_clean(h->link, e) < 0 || h->link[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: hard link points outside or has content: %s",
			       h->path);
	if (strcmp(h->link, h->path) == 0)
		return 0;
	if (tar_in_find_entry(x->top, h->link, &source, e) < 0)
		return -1;
	if (tar_in_clear_entry(p) < 0 || linkat(source.dir, source.name, p->dir, p->name, 0) < 0)
		return builtin_io_fail(e, "tar: make hard link", h->path);
	return 0;
}

static int tar_in_skip_entry(struct extraction *x, const struct tar_head *h, struct err *e)
{
	x->end.skipped++;
	if (h->size > x->room)
		return err_set(e, ERR_LIMIT, "tar: content is larger than allowed");
	x->room -= h->size;
	return tar_in_stream_body(-1, h, e);
}

static bool tar_in_is_made(char type)
{
	return strchr("0125", type) != NULL && type != '\0';
}

static int tar_in_one_entry(struct extraction *x, struct tar_head *h, struct err *e)
{
	FILE_PLACE p = FILE_PLACE_NONE;

	if (x->entries == 0)
		return err_set(e, ERR_LIMIT, "tar: more entries than allowed");
	x->entries--;
	if (h->type == 'S' || h->type == 'M')
		return err_set(e, ERR_UNSUPPORTED, "tar: sparse or split file: %s", h->path);
	if (!tar_in_is_made(h->type))
		return tar_in_skip_entry(x, h, e);
	if (tar_in_stream_clean(h->path, e) < 0)
		return -1;
	if (h->path[0] == '\0' && h->type == TAR_HEAD_DIR)
		return 0; /* the top itself */
	if (h->path[0] == '\0')
		return err_set(e, ERR_INVALID, "tar: an entry without a name");
	if (tar_in_find_entry(x->top, h->path, &p, e) < 0)
		return -1;
	x->end.count++;
	if (h->type == TAR_HEAD_DIR)
		return tar_in_make_directory(&p, h, e);
	if (h->type == TAR_HEAD_SYMLINK)
		return tar_in_make_symlink(&p, h, e);
	if (h->type == TAR_HEAD_HARDLINK)
		return tar_in_make_hard_link(x, &p, h, e);
	return tar_in_make_file(x, &p, h, e);
}

int tar_in_extract(int top, uint64_t max_bytes, uint64_t max_entries, struct file_msg_end *ret,
		   struct err *e)
{
	static struct tar_head h;
	struct extraction x = { .top = top, .room = max_bytes, .entries = max_entries };
	int rc;

	while ((rc = tar_in_stream_next(&h, e)) == 0)
		if (tar_in_one_entry(&x, &h, e) < 0)
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
