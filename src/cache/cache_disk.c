#include "cache/cache_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/own.h"

static const char *const folders[CACHE_KINDS] = { "objects", "views" };

/* A folder that is there already is no error. */
static int disk_make_folder(int dir, const char *name, struct err *e)
{
	if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
		return 0;
	return err_sys(e, "make the folder %s", name);
}

int cache_disk_open(struct cache_disk *d, int dir, unsigned reserve, struct err *e)
{
	char name[CACHE_DISK_NAME_MAX];

	*d = (struct cache_disk){ .dir = dir, .reserve = reserve };
	if (disk_make_folder(dir, "tmp", e) < 0)
		return -1;
	for (int kind = 0; kind < CACHE_KINDS; kind++) {
		if (disk_make_folder(dir, folders[kind], e) < 0)
			return -1;
		for (unsigned i = 0; i < 256; i++) {
			cache_disk_folder((enum cache_kind)kind, i, name);
			if (disk_make_folder(dir, name, e) < 0)
				return -1;
		}
	}
	return 0;
}

void cache_disk_folder(enum cache_kind kind, unsigned number, char ret[CACHE_DISK_NAME_MAX])
{
	(void)snprintf(ret, CACHE_DISK_NAME_MAX, "%s/%02x", folders[kind], number);
}

/* 256 folders keep each one short. */
static void disk_path_of(enum cache_kind kind, const uint8_t name[32],
			 char ret[CACHE_DISK_NAME_MAX])
{
	char digits[65];

	hex_encode(name, 32, digits);
	(void)snprintf(ret, CACHE_DISK_NAME_MAX, "%s/%.2s/%s", folders[kind], digits, digits + 2);
}

/* Numbers do not repeat within a process, and tmp is emptied at its start. */
int cache_disk_create(struct cache_disk *d, char ret_tmp[CACHE_DISK_NAME_MAX], struct err *e)
{
	int fd;

	(void)snprintf(ret_tmp, CACHE_DISK_NAME_MAX, "tmp/%u", ++d->last_tmp);
	fd = openat(d->dir, ret_tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
	return fd >= 0 ? fd : err_sys(e, "create %s", ret_tmp);
}

void cache_disk_discard(struct cache_disk *d, const char *tmp)
{
	(void)unlinkat(d->dir, tmp, 0);
}

/* On failure the file in tmp is gone, too. */
int cache_disk_keep(struct cache_disk *d, const char *tmp, enum cache_kind kind,
		    const uint8_t name[32], struct err *e)
{
	char path[CACHE_DISK_NAME_MAX];

	disk_path_of(kind, name, path);
	if (renameat(d->dir, tmp, d->dir, path) == 0)
		return 0;
	(void)err_sys(e, "rename to %s", path);
	cache_disk_discard(d, tmp);
	return -1;
}

void cache_disk_remove(struct cache_disk *d, enum cache_kind kind, const uint8_t name[32])
{
	char path[CACHE_DISK_NAME_MAX];

	disk_path_of(kind, name, path);
	(void)unlinkat(d->dir, path, 0);
}

int cache_disk_object(struct cache_disk *d, const uint8_t sha256[32])
{
	char path[CACHE_DISK_NAME_MAX];

	disk_path_of(CACHE_OBJECTS, sha256, path);
	return openat(d->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
}

/* A failure only makes the object look older after a restart. */
void cache_disk_use(struct cache_disk *d, const uint8_t sha256[32], uint64_t used_ms)
{
	const struct timespec at = { .tv_sec = (time_t)(used_ms / 1000) };
	const struct timespec both[2] = { at, at };
	char path[CACHE_DISK_NAME_MAX];

	disk_path_of(CACHE_OBJECTS, sha256, path);
	(void)utimensat(d->dir, path, both, AT_SYMLINK_NOFOLLOW);
}

int cache_disk_put_view(struct cache_disk *d, const uint8_t name[32], const struct view *v,
			struct err *e)
{
	uint8_t bytes[VIEW_FILE_MAX];
	char tmp[CACHE_DISK_NAME_MAX];
	int n = view_file_write(v, bytes);

	if (n < 0)
		return err_set(e, ERR_INVALID, "the names of a view are too long");
	OWN_FD fd = cache_disk_create(d, tmp, e);
	if (fd < 0)
		return -1;
	if (io_write_all(fd, bytes, (size_t)n, e) < 0) {
		cache_disk_discard(d, tmp);
		return -1;
	}
	return cache_disk_keep(d, tmp, CACHE_VIEWS, name, e);
}

bool cache_disk_get_view(struct cache_disk *d, const uint8_t name[32], uint8_t bytes[VIEW_FILE_MAX],
			 struct view *ret)
{
	char path[CACHE_DISK_NAME_MAX];
	uint8_t its[32];
	ssize_t n;

	disk_path_of(CACHE_VIEWS, name, path);
	OWN_FD fd = openat(d->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
	if (fd < 0)
		return false;
	n = read(fd, bytes, VIEW_FILE_MAX);
	if (n <= 0 || !view_file_read(bytes, (size_t)n, ret))
		return false;
	view_name(&ret->key, its);
	return memcmp(its, name, sizeof(its)) == 0;
}

/* A disk that cannot be asked counts as full. */
uint64_t cache_disk_missing(const struct cache_disk *d, uint64_t n)
{
	struct statvfs fs;
	uint64_t reserve, free_bytes;

	if (fstatvfs(d->dir, &fs) < 0 || n > UINT64_MAX / 2)
		return UINT64_MAX;
	reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 100 * d->reserve;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return reserve + n < free_bytes ? 0 : reserve + n - free_bytes + 1;
}
