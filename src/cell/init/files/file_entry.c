#include "cell/init/files/file_entry.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "cell/init/files/builtin_io.h"
#include "cell/init/files/file_names.h"
#include "cell/init/files/file_path.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_xattr.h"

static uint8_t file_entry_type_of(mode_t mode)
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

/* Times that do not fit into 64 bits of nanoseconds become 0. */
static int64_t file_entry_nanoseconds(const struct timespec *t)
{
	if (t->tv_sec > INT64_MAX / 1000000000 - 1 || t->tv_sec < INT64_MIN / 1000000000 + 1)
		return 0;
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* All but the target of a link and metadata. */
static struct file_msg file_entry_describe(const struct stat *st, const char *path, const char *abs)
{
	return (struct file_msg){
		.kind = FILE_MSG_ENTRY,
		.entry = { .type = file_entry_type_of(st->st_mode),
			   .mode = st->st_mode & 07777,
			   .uid = st->st_uid,
			   .gid = st->st_gid,
			   .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
			   .mtime_ns = file_entry_nanoseconds(&st->st_mtim),
			   .owner = file_names_user(st->st_uid),
			   .group = file_names_group(st->st_gid),
			   .path = path,
			   .target = "",
			   .resolved = "",
			   .abs = abs },
	};
}

static void file_entry_read_metadata(int fd, int dir, const char *name, struct file_msg_entry *f)
{
	static struct file_xattr meta;
	char proc_path[sizeof("/proc/self/fd/2147483647/") + NAME_MAX];

	if (fd >= 0)
		(void)snprintf(proc_path, sizeof(proc_path), "/proc/self/fd/%d", fd);
	else
		(void)snprintf(proc_path, sizeof(proc_path), "/proc/self/fd/%d/%s", dir, name);
	file_xattr_read(proc_path, fd >= 0, &meta);
	f->meta = (struct file_meta){ meta.bytes, meta.len };
}

/* Add the target of a link and metadata, then write the record. dir and name: where the file is.
 * Pinned: the file itself, or -1. */
static int file_entry_complete(struct file_msg *m, int dir, const char *name, int pinned,
			       struct err *e)
{
	static char target[FILE_MSG_PATH_MAX], resolved[FILE_MSG_PATH_MAX];
	struct file_msg_entry *f = &m->entry;
	uint8_t type = f->type;
	OWN_FD target_fd = -1;
	struct stat st;

	if (type == FILE_MSG_SYMLINK) {
		ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		f->target = target;
		target_fd = file_resolve_follow(dir, name, resolved);
		if (target_fd >= 0 && fstat(target_fd, &st) == 0) {
			f->resolved = resolved;
			f->target_type = type = file_entry_type_of(st.st_mode);
			f->target_mode = st.st_mode & 07777;
		}
	}
	/* Only files and directories have user attributes. */
	if (type == FILE_MSG_FILE || type == FILE_MSG_DIR)
		file_entry_read_metadata(target_fd >= 0 ? target_fd : pinned, dir, name, f);
	return builtin_io_record(m, e);
}

void file_entry_absolute(const char *requested, char *ret)
{
	char here[FILE_MSG_PATH_MAX] = "";

	if ((*requested != '/' && getcwd(here, sizeof(here)) == NULL) ||
	    !file_path_join(here, requested, ret, FILE_MSG_PATH_MAX))
		*ret = '\0';
}

int file_entry_send_at(int dir, const char *name, const struct stat *st, const char *path,
		       const char *top, struct err *e)
{
	char abs[FILE_MSG_PATH_MAX] = "";
	struct file_msg m;

	if (*top != '\0' && !file_path_join(top, path, abs, sizeof(abs)))
		*abs = '\0';
	m = file_entry_describe(st, path, abs);
	return file_entry_complete(&m, dir, name, -1, e);
}

/* A symlink is read by its real path again: its target cannot be found by the descriptor. */
static int file_entry_send_entry(int pinned, const char *real, const char *requested,
				 uint16_t flags, const uint64_t *size, struct err *e)
{
	char abs[FILE_MSG_PATH_MAX];
	struct file_msg m;
	struct stat st;

	if (fstat(pinned, &st) < 0)
		return builtin_io_fail(e, "stat", real);
	file_entry_absolute(requested, abs);
	m = file_entry_describe(&st, real, abs);
	m.entry.flags = flags;
	if (size != NULL)
		m.entry.size = *size;
	return file_entry_complete(&m, AT_FDCWD, real, pinned, e);
}

int file_entry_send(int pinned, const char *real, const char *requested, uint16_t flags,
		    struct err *e)
{
	return file_entry_send_entry(pinned, real, requested, flags, NULL, e);
}

int file_entry_send_sized(int pinned, const char *real, const char *requested, uint64_t size,
			  struct err *e)
{
	return file_entry_send_entry(pinned, real, requested, 0, &size, e);
}
