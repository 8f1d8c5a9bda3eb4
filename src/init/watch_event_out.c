#include "watch_event_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin_io.h"
#include "file_entry.h"
#include "file_resolve.h"
#include "open_path.h"
#include "kernel.h"

static struct {
	char real[FILE_MSG_PATH_MAX], abs[FILE_MSG_PATH_MAX]; /* abs: as requested */
	dev_t dev;
	ino_t ino;
	bool entries, limited;
} top;

int watch_event_out_begin(const char *path, bool entries, struct err *e)
{
	OWN_FD fd = file_resolve_open(path, true, top.real, e);
	struct stat st;

	if (fd < 0)
		return -1;
	errno = ENOTDIR;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return builtin_io_fail(e, "watch", path);
	top.dev = st.st_dev;
	top.ino = st.st_ino;
	top.entries = entries;
	file_entry_absolute(path, top.abs);
	return 0;
}

/* The top is opened each time: the kernel does not report the removal of a directory while it is
 * open.
 */
int watch_event_out_open(const char *path, uint64_t flags)
{
	OWN_FD fd = open_path(AT_FDCWD, top.real, O_PATH | O_DIRECTORY | O_CLOEXEC,
			      RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != top.dev || st.st_ino != top.ino)
		return -1;
	return open_path(fd, *path == '\0' ? "." : path, O_DIRECTORY | O_CLOEXEC | flags,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Sends an event, and the entry of the file, if it still exists. */
static int send_with_entry(struct file_msg *m, struct err *e)
{
	bool renamed = m->event.what == FILE_MSG_RENAME;
	const char *path = renamed ? m->event.to : m->event.path, *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	char dir[FILE_MSG_PATH_MAX];
	OWN_FD fd = -1;
	struct stat st;

	(void)snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 0 : (int)(slash - path), path);
	fd = watch_event_out_open(dir, O_PATH);
	m->event.has_entry = fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (builtin_io_record(m, e) < 0)
		return -1;
	return m->event.has_entry ? file_entry_send_at(fd, name, &st, path, top.abs, e) : 0;
}

int watch_event_out(enum file_msg_what what, bool is_dir, const char *path, const char *to,
		    struct err *e)
{
	const char *at = what == FILE_MSG_RENAME ? to : path; /* where the file is now */
	bool stays = what == FILE_MSG_CREATE || what == FILE_MSG_WRITE || what == FILE_MSG_CHMOD ||
		     what == FILE_MSG_RENAME;
	struct file_msg m = {
		.kind = FILE_MSG_EVENT,
		.event = { .what = (uint8_t)what, .is_dir = is_dir, .path = path, .to = to },
	};

	if (top.entries && stays && *at != '\0')
		return send_with_entry(&m, e);
	return builtin_io_record(&m, e);
}

int watch_event_out_limit(const char *path, struct err *e)
{
	if (top.limited)
		return 0;
	top.limited = true;
	return watch_event_out(FILE_MSG_LIMITED, true, path, "", e);
}
