/* capture_out.c - see capture_out.h. Heads are collected in a buffer. Content is moved from the
 * file to the pipe by splice(2), without a copy here. */
#include "cell/init/changes/capture_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/wire/tar_head.h"

#define BUFFER (256U << 10)
#define PAX_MAX (256U << 10) /* records of one member */
#define EXTENTS_MAX 65536    /* of a sparse file, holes behind them are stored as zeros */

/* The files met so far, by their inode: for hard links in the archive of capture.c. Bounded,
 * because a cell chooses how many there are and how long their names. */
/* A hash table with open addressing. Paths are in one piece of memory that grows.
 */

#define BYTES_MAX (64U << 20) /* of paths, in the machine's memory */
#define FIRST_SLOTS 1024U

struct capture_out_slot {
	uint64_t device, inode;
	uint32_t path; /* where in paths. 0: free */
};

static struct capture_out_slot *slots;
static size_t nslots, nused;
static char *paths;
static size_t paths_len = 1, paths_cap;

static struct capture_out_slot *capture_out_link_slot(uint64_t device, uint64_t inode)
{
	uint64_t hash = (inode ^ device << 32) * 0x9e3779b97f4a7c15ULL;
	size_t at = (size_t)(hash >> 20) % nslots;

	while (slots[at].path != 0 && (slots[at].inode != inode || slots[at].device != device))
		at = (at + 1) % nslots;
	return &slots[at];
}

static int capture_out_link_grow_slots(struct err *e)
{
	struct capture_out_slot *old = slots;
	size_t n = nslots;

	nslots = n == 0 ? FIRST_SLOTS : 2 * n;
	slots = calloc(nslots, sizeof(*slots));
	if (slots == NULL)
		return err_sys(e, "hard links");
	for (size_t i = 0; i < n; i++)
		if (old[i].path != 0)
			*capture_out_link_slot(old[i].device, old[i].inode) = old[i];
	free(old);
	return 0;
}

static int capture_out_link_keep_path(const char *path, uint32_t *ret_at, struct err *e)
{
	size_t n = strlen(path) + 1;

	if (paths_len + n > BYTES_MAX)
		return err_set(e, ERR_LIMIT, "too many files with hard links");
	if (paths_len + n > paths_cap) {
		size_t cap = 2 * (paths_cap + n);
		char *more = realloc(paths, cap);

		if (more == NULL)
			return err_sys(e, "hard links");
		paths = more;
		paths_cap = cap;
	}
	memcpy(paths + paths_len, path, n);
	*ret_at = (uint32_t)paths_len;
	paths_len += n;
	return 0;
}

/* *ret_first is the path under which the file was met first. NULL: this is the first time, and path
 * is kept. ERR_LIMIT: too many. */
static int capture_out_link_find(uint64_t device, uint64_t inode, const char *path,
				 const char **ret_first, struct err *e)
{
	struct capture_out_slot *s;

	*ret_first = NULL;
	if (2 * nused >= nslots && capture_out_link_grow_slots(e) < 0)
		return -1;
	s = capture_out_link_slot(device, inode);
	if (s->path != 0) {
		*ret_first = paths + s->path;
		return 0;
	}
	nused++;
	s->device = device;
	s->inode = inode;
	return capture_out_link_keep_path(path, &s->path, e);
}

static char buffer[BUFFER];
static size_t used;
static uint64_t members;

/* ---- bytes */

static int capture_out_flush(struct err *e)
{
	size_t n = used;

	used = 0;
	return io_write_all(STDOUT_FILENO, buffer, n, e);
}

static int capture_out_put(const void *bytes, size_t len, struct err *e)
{
	const char *from = bytes;

	while (len > 0) {
		size_t part = len < BUFFER - used ? len : BUFFER - used;

		memcpy(buffer + used, from, part);
		used += part;
		from += part;
		len -= part;
		if (used == BUFFER && capture_out_flush(e) < 0)
			return -1;
	}
	return 0;
}

static int capture_out_put_padding(uint64_t size, struct err *e)
{
	static const char zeros[TAR_HEAD_BLOCK];

	return capture_out_put(zeros, tar_head_padding(size), e);
}

/* By read and write, where the output is not a pipe or the file cannot be spliced. */
static int capture_out_copy_bytes(int fd, off_t at, uint64_t len, struct err *e)
{
	while (len > 0) {
		size_t room = BUFFER - used;
		ssize_t n = pread(fd, buffer + used, len < room ? (size_t)len : room, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, ERR_SYSTEM, "a file changed while it was read");
		used += (size_t)n;
		at += n;
		len -= (uint64_t)n;
		if (used == BUFFER && capture_out_flush(e) < 0)
			return -1;
	}
	return 0;
}

static int capture_out_put_bytes(int fd, off_t at, uint64_t len, struct err *e)
{
	if (len < BUFFER)
		return capture_out_copy_bytes(fd, at, len, e);
	if (capture_out_flush(e) < 0)
		return -1;
	while (len > 0) {
		ssize_t n = splice(fd, &at, STDOUT_FILENO, NULL,
				   len < 1U << 30 ? (size_t)len : 1U << 30, SPLICE_F_MOVE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EINVAL)
			return capture_out_copy_bytes(fd, at, len, e);
		if (n < 0)
			return err_sys(e, "write the archive");
		if (n == 0)
			return err_set(e, ERR_SYSTEM, "a file changed while it was read");
		len -= (uint64_t)n;
	}
	return 0;
}

/* ---- heads */

/* Records for the next head. */
static char pax[PAX_MAX];
static size_t pax_len;

static int capture_out_need(size_t put_len, const char *path, struct err *e)
{
	pax_len += put_len;
	return put_len > 0 ? 0
			   : err_set(e, ERR_LIMIT, "attributes of over %u KiB: %.100s",
				     PAX_MAX / 1024, path);
}

static int capture_out_put_head(const struct tar_head *h, struct err *e)
{
	static struct tar_head first;
	uint8_t block[TAR_HEAD_BLOCK], first_block[TAR_HEAD_BLOCK];

	if (!tar_head_write(h, block))
		pax_len += tar_head_pax_write(h, pax + pax_len, sizeof(pax) - pax_len);
	members++;
	if (pax_len > 0) {
		first.type = TAR_HEAD_PAX;
		first.mode = 0600;
		first.size = pax_len;
		(void)snprintf(first.path, sizeof(first.path), "PaxHeader");
		if (!tar_head_write(&first, first_block))
			return err_set(e, ERR_LIMIT, "pax header does not fit");
		if (capture_out_put(first_block, sizeof(first_block), e) < 0 ||
		    capture_out_put(pax, pax_len, e) < 0 || capture_out_put_padding(pax_len, e) < 0)
			return -1;
	}
	pax_len = 0;
	return capture_out_put(block, sizeof(block), e);
}

/* Those that mean something in a cell. user.overlay.* are overlayfs's own notes, where it cannot
 * keep them elsewhere. */
static bool capture_out_is_kept(const char *name)
{
	return strcmp(name, "security.capability") == 0 ||
	       strncmp(name, "system.posix_acl_", 17) == 0 ||
	       (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0);
}

/* Of fd. -1: of the entry `file` of the current directory, which cannot be opened. */
static int capture_out_put_attributes(int fd, const char *file, const char *path, struct err *e)
{
	static char names[65536], value[65536];
	ssize_t n = fd < 0 ? llistxattr(file, names, sizeof(names))
			   : flistxattr(fd, names, sizeof(names));

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : err_sys(e, "attributes of %.100s", path);
	for (const char *name = names; name < names + n; name += strlen(name) + 1) {
		char key[sizeof(PAX_RECORD_XATTR) + 256];
		ssize_t len;

		if (!capture_out_is_kept(name))
			continue;
		len = fd < 0 ? lgetxattr(file, name, value, sizeof(value))
			     : fgetxattr(fd, name, value, sizeof(value));
		if (len < 0)
			return err_sys(e, "attribute %.60s of %.100s", name, path);
		(void)snprintf(key, sizeof(key), PAX_RECORD_XATTR "%.255s", name);
		if (capture_out_need(pax_record_put(pax + pax_len, sizeof(pax) - pax_len, key,
						    value, (size_t)len),
				     path, e) < 0)
			return -1;
	}
	return 0;
}

static int capture_out_put_time(const struct stat *st, const char *path, struct err *e)
{
	if (st->st_mtim.tv_nsec == 0 && st->st_mtim.tv_sec >= 0 &&
	    st->st_mtim.tv_sec < (time_t)1 << 32)
		return 0;
	return capture_out_need(pax_record_time(pax + pax_len, sizeof(pax) - pax_len, "mtime",
						st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec),
				path, e);
}

/* ---- content */

struct extent {
	uint64_t at, len;
};

static struct extent extents[EXTENTS_MAX + 1];

/* Where a file has data. The last one is empty and ends at the file's size if that lies in a hole.
 */
static size_t capture_out_find_extents(int fd, uint64_t size)
{
	size_t n = 0;
	off_t at = 0;

	while ((uint64_t)at < size) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0 || (uint64_t)data >= size)
			break;
		hole = n + 1 == EXTENTS_MAX ? (off_t)size : lseek(fd, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size)
			hole = (off_t)size;
		extents[n++] = (struct extent){ (uint64_t)data, (uint64_t)(hole - data) };
		at = hole;
	}
	if (n == 0 || extents[n - 1].at + extents[n - 1].len < size)
		extents[n++] = (struct extent){ size, 0 };
	return n;
}

/* The map of GNU's format 1.0: decimal numbers, each ended by a newline, filled up with zeros to
 * whole blocks. Written if out, else only measured. */
static int capture_out_put_map(size_t n, bool out, uint64_t *ret_len, struct err *e)
{
	uint64_t total = 0;
	char text[64];

	for (size_t i = 0; i <= n; i++) {
		int len = i == 0 ? snprintf(text, sizeof(text), "%zu\n", n)
				 : snprintf(text, sizeof(text), "%llu\n%llu\n",
					    (unsigned long long)extents[i - 1].at,
					    (unsigned long long)extents[i - 1].len);

		total += (uint64_t)len;
		if (out && capture_out_put(text, (size_t)len, e) < 0)
			return -1;
	}
	if (out && capture_out_put_padding(total, e) < 0)
		return -1;
	*ret_len = total + tar_head_padding(total);
	return 0;
}

static int capture_out_put_sparse(struct tar_head *h, const struct stat *st, int fd, struct err *e)
{
	uint64_t size = (uint64_t)st->st_size, map, data = 0;
	size_t n = capture_out_find_extents(fd, size);

	for (size_t i = 0; i < n; i++)
		data += extents[i].len;
	if (capture_out_put_map(n, false, &map, e) < 0)
		return -1;
	h->size = map + data;
	if (capture_out_need(
		    pax_record_number(pax + pax_len, sizeof(pax) - pax_len, "GNU.sparse.major", 1),
		    h->path, e) < 0 ||
	    capture_out_need(
		    pax_record_number(pax + pax_len, sizeof(pax) - pax_len, "GNU.sparse.minor", 0),
		    h->path, e) < 0 ||
	    capture_out_need(pax_record_number(pax + pax_len, sizeof(pax) - pax_len,
					       "GNU.sparse.realsize", size),
			     h->path, e) < 0 ||
	    capture_out_need(pax_record_put(pax + pax_len, sizeof(pax) - pax_len, "GNU.sparse.name",
					    h->path, strlen(h->path)),
			     h->path, e) < 0)
		return -1;
	if (capture_out_put_head(h, e) < 0 || capture_out_put_map(n, true, &map, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (capture_out_put_bytes(fd, (off_t)extents[i].at, extents[i].len, e) < 0)
			return -1;
	return capture_out_put_padding(h->size, e);
}

static int capture_out_put_regular(struct tar_head *h, const struct stat *st, int fd, struct err *e)
{
	if ((uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size)
		return capture_out_put_sparse(h, st, fd, e);
	h->size = (uint64_t)st->st_size;
	if (capture_out_put_head(h, e) < 0 || capture_out_put_bytes(fd, 0, h->size, e) < 0)
		return -1;
	return capture_out_put_padding(h->size, e);
}

/* ---- members */

/* An entry with several names is stored under the first one. Return 1 if this is a later one,
 * written as a link. */
static int capture_out_put_link(struct tar_head *h, const struct stat *st, struct err *e)
{
	const char *first;

	if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
		return 0;
	if (capture_out_link_find(st->st_dev, st->st_ino, h->path, &first, e) < 0)
		return -1;
	if (first == NULL)
		return 0;
	h->type = TAR_HEAD_HARDLINK;
	str_copy(h->link, first);
	return capture_out_put_head(h, e) < 0 ? -1 : 1;
}

/* Opening a FIFO would wake a program that waits for its other end. */
static int capture_out_put_fifo_attributes(int dir, const char *name, const char *path,
					   struct err *e)
{
	OWN_FD here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int result;

	if (here < 0 || fchdir(dir) < 0)
		return err_sys(e, "go to the directory of %.100s", path);
	result = capture_out_put_attributes(-1, name, path, e);
	return fchdir(here) < 0 ? err_sys(e, "go back") : result;
}

static int capture_out_put_all_attributes(const struct stat *st, int fd, const char *link,
					  const char *path, struct err *e)
{
	if (fd < 0)
		return 0;
	return S_ISFIFO(st->st_mode) ? capture_out_put_fifo_attributes(fd, link, path, e)
				     : capture_out_put_attributes(fd, NULL, path, e);
}

int capture_out_entry(const char *path, const struct stat *st, int fd, const char *link,
		      struct err *e)
{
	static struct tar_head h;
	int linked;

	h = (struct tar_head){ .mode = st->st_mode & 07777,
			       .mtime = st->st_mtim.tv_sec,
			       .uid = st->st_uid,
			       .gid = st->st_gid };
	str_copy(h.path, path);
	pax_len = 0;
	linked = capture_out_put_link(&h, st, e);
	if (linked != 0)
		return linked < 0 ? -1 : 0;
	if (capture_out_put_time(st, path, e) < 0 ||
	    capture_out_put_all_attributes(st, fd, link, path, e) < 0)
		return -1;
	if (S_ISREG(st->st_mode)) {
		h.type = TAR_HEAD_FILE;
		return capture_out_put_regular(&h, st, fd, e);
	}
	h.type = S_ISDIR(st->st_mode)	? TAR_HEAD_DIR
		 : S_ISLNK(st->st_mode) ? TAR_HEAD_SYMLINK
					: TAR_HEAD_FIFO;
	if (S_ISLNK(st->st_mode))
		str_copy(h.link, link);
	return capture_out_put_head(&h, e);
}

int capture_out_whiteout(const char *path, struct err *e)
{
	static struct tar_head h;

	h = (struct tar_head){ .type = TAR_HEAD_CHAR };
	str_copy(h.path, path);
	pax_len = 0;
	return capture_out_put_head(&h, e);
}

int capture_out_end(const struct err *failure, struct err *e)
{
	static const char zeros[2 * TAR_HEAD_BLOCK];
	static struct tar_head h;
	char text[sizeof(e->msg)];
	int n = failure != NULL ? snprintf(text, sizeof(text), "%s", failure->msg)
				: snprintf(text, sizeof(text), "%llu", (unsigned long long)members);

	h = (struct tar_head){ .type = TAR_HEAD_FILE, .mode = 0600, .size = (uint64_t)n };
	str_copy(h.path, failure != NULL ? "failed" : "whole");
	pax_len = 0;
	if (capture_out_put_head(&h, e) < 0 || capture_out_put(text, (size_t)n, e) < 0 ||
	    capture_out_put_padding(h.size, e) < 0 || capture_out_put(zeros, sizeof(zeros), e) < 0)
		return -1;
	return capture_out_flush(e);
}
