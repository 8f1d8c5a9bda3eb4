#include "file_entry.h"

#include <limits.h>

#include "builtin_io.h"
#include "file_names.h"

static uint8_t type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return FILE_MSG_DIR;
	case S_IFLNK:
		return FILE_MSG_SYMLINK;
	case S_IFIFO:
		return FILE_MSG_FIFO;
	case S_IFSOCK:
		return FILE_MSG_SOCKET;
	case S_IFCHR:
		return FILE_MSG_CHAR;
	case S_IFBLK:
		return FILE_MSG_BLOCK;
	default:
		return FILE_MSG_FILE;
	}
}

/* Times that nanoseconds since 1970 in 64 bits cannot hold are far from any real one. */
static int64_t nanoseconds(const struct timespec *t)
{
	if (t->tv_sec > INT64_MAX / 1000000000 - 1 || t->tv_sec < INT64_MIN / 1000000000 + 1)
		return 0;
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static struct file_msg describe(const struct stat *st, const char *path, const char *target)
{
	return (struct file_msg){
		.kind = FILE_MSG_ENTRY,
		.entry = { .type = type_of(st->st_mode),
			   .mode = st->st_mode & 07777,
			   .uid = st->st_uid,
			   .gid = st->st_gid,
			   .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
			   .mtime_ns = nanoseconds(&st->st_mtim),
			   .owner = file_names_user(st->st_uid),
			   .group = file_names_group(st->st_gid),
			   .path = path,
			   .target = target },
	};
}

int file_entry_say_at(int dir, const char *name, const struct stat *st, const char *path,
		      struct err *e)
{
	char target[FILE_MSG_PATH_MAX] = "";
	struct file_msg m;
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof(target) - 1) : 0;

	target[n > 0 ? n : 0] = '\0';
	m = describe(st, path, target);
	return builtin_io_record(&m, e);
}

int file_entry_say(int pinned, const char *path, uint16_t flags, struct err *e)
{
	char target[FILE_MSG_PATH_MAX] = "";
	struct file_msg m;
	struct stat st;
	ssize_t n = 0;

	if (fstat(pinned, &st) < 0)
		return builtin_io_fail(e, "stat", path);
	if (S_ISLNK(st.st_mode))
		n = readlinkat(pinned, "", target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	m = describe(&st, path, target);
	m.entry.flags = flags;
	return builtin_io_record(&m, e);
}

int file_entry_say_sized(const struct stat *st, const char *path, uint64_t size, struct err *e)
{
	struct file_msg m = describe(st, path, "");

	m.entry.size = size;
	return builtin_io_record(&m, e);
}
