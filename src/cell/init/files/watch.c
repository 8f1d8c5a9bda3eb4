/* watch.c - the built-in watch: reports changes in a directory, or in all below it.
 *
 * inotify(7) watches directories, not trees. So each directory has a watch of its own. A new
 * directory is listed after its watch is set, so that earlier files in it are reported, too (some
 * perhaps twice). A move is two events of the kernel. The first is held back until the second
 * arrives or PAIR_MS have passed. A file that the built-in write replaces has a temporary name for
 * a moment. It is reported as chmod and write (file_write.c).
 *
 * If the output pipe is full, the built-in blocks and the kernel's queue may overflow. That is
 * reported (FILE_MSG_OVERFLOW). The built-in ends when the other end of the pipe is closed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_stage.h"
#include "cell/init/files/open_path.h"
#include "lib/base/kernel.h"
#include "lib/base/str.h"
#include "lib/wire/file_msg.h"

#define MASK                                                                           \
	(IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define PAIR_MS 20 /* how long the second half of a move may take */

/* Sends events, and opens directories of the watched tree. */

static struct {
	char real[FILE_MSG_PATH_MAX], abs[FILE_MSG_PATH_MAX]; /* abs: as requested */
	dev_t dev;
	ino_t ino;
	bool entries, limited;
} top;

/* Remembers the directory, by path and inode. entries: an event of a file that exists is followed
 * by its ENTRY. */
static int watch_begin(const char *path, bool entries, struct err *e)
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

/* Opens a directory of the tree ("" is the top), following no link, -1 if it does not exist. */
/* The top is opened each time: the kernel does not report the removal of a directory while it is
 * open.
 */
static int watch_open(const char *path, uint64_t flags)
{
	OWN_FD fd = open_path(AT_FDCWD, top.real, O_PATH | O_DIRECTORY | O_CLOEXEC,
			      RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != top.dev || st.st_ino != top.ino)
		return -1;
	return open_path(fd, *path == '\0' ? "." : path, O_DIRECTORY | O_CLOEXEC | flags,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Send an event, and the entry of the file, if it still exists. */
static int watch_send_with_entry(struct file_msg *m, struct err *e)
{
	bool renamed = m->event.what == FILE_MSG_RENAME;
	const char *path = renamed ? m->event.to : m->event.path, *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	char dir[FILE_MSG_PATH_MAX];
	OWN_FD fd = -1;
	struct stat st;

	(void)snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 0 : (int)(slash - path), path);
	fd = watch_open(dir, O_PATH);
	m->event.has_entry = fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (builtin_io_record(m, e) < 0)
		return -1;
	return m->event.has_entry ? file_entry_send_at(fd, name, &st, path, top.abs, e) : 0;
}

static int watch_send(enum file_msg_what what, bool is_dir, const char *path, const char *to,
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
		return watch_send_with_entry(&m, e);
	return builtin_io_record(&m, e);
}

/* Report, once, that changes below a path are not reported. */
static int watch_send_limit(const char *path, struct err *e)
{
	if (top.limited)
		return 0;
	top.limited = true;
	return watch_send(FILE_MSG_LIMITED, true, path, "", e);
}

/* The table of watched directories of watch.c, by watch descriptor and by path. */

struct file_watch_entry {
	int wd;
	char *path; /* relative to the top ("") */
};

static struct file_watch_entry table[BUILTIN_WATCHES_MAX];
static size_t count;

static struct file_watch_entry *watch_slot(int wd)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].wd == wd)
			return &table[i];
	return NULL;
}

/* Add a directory, or change the path of a known watch descriptor. False if the table is full. */
static bool watch_add(int wd, const char *path)
{
	struct file_watch_entry *t = watch_slot(wd);
	char *copy;

	if (t == NULL && count == COUNT(table))
		return false;
	copy = strdup(path);
	if (copy == NULL)
		return false;
	if (t == NULL) {
		t = &table[count++];
		t->wd = wd;
	} else {
		free(t->path);
	}
	t->path = copy;
	return true;
}

/* The entry of a watch descriptor, or at an index. NULL if there is none. New entries are added at
 * the end. watch_drop() moves the last one to the place of the dropped one. */
static const struct file_watch_entry *watch_find(int wd)
{
	return watch_slot(wd);
}

static const struct file_watch_entry *watch_at(size_t i)
{
	return i < count ? &table[i] : NULL;
}

static size_t watch_count(void)
{
	return count;
}

static void watch_drop(int wd)
{
	struct file_watch_entry *t = watch_slot(wd);

	if (t == NULL)
		return;
	free(t->path);
	*t = table[--count];
}

static bool watch_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* A directory was moved: paths at or below `from` now begin with `to`. Paths that would become too
 * long are not changed. */
static void watch_rename(const char *from, const char *to)
{
	for (size_t i = 0; i < count; i++) {
		char path[FILE_MSG_PATH_MAX];
		char *copy;
		int n;

		if (!watch_is_below(table[i].path, from))
			continue;
		n = snprintf(path, sizeof(path), "%s%s", to, table[i].path + strlen(from));
		copy = n < 0 || (size_t)n >= sizeof(path) ? NULL : strdup(path);
		if (copy == NULL)
			continue;
		free(table[i].path);
		table[i].path = copy;
	}
}

/* The watch descriptor of any entry at or below a path, -1 if there is none. */
static int watch_below(const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (watch_is_below(table[i].path, path))
			return table[i].wd;
	return -1;
}

static struct {
	int in, top_wd;
	bool recursive;
	/* The first half of a move. */
	bool moving, moving_dir, moving_staged;
	uint32_t cookie;
	char from[FILE_MSG_PATH_MAX];
	char created[FILE_MSG_PATH_MAX]; /* by the last event. "": it was another one */
} w;					 /* numbers of watches begin at 1 */

static unsigned watch_depth_of(const char *path)
{
	unsigned n = *path != '\0';

	for (; *path != '\0'; path++)
		n += *path == '/';
	return n;
}

/* Watch one directory. Does nothing if it is gone or the user may not read it. */
static int watch_one(const char *path, struct err *e)
{
	OWN_FD fd = watch_open(path, O_PATH);
	char link[32];
	int wd;

	if (fd < 0)
		return 0;
	if (watch_depth_of(path) > BUILTIN_DEPTH_MAX)
		return watch_send_limit(path, e);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w.in, link, MASK);
	if (wd < 0)
		return errno == ENOSPC ? watch_send_limit(path, e) : 0;
	if (*path == '\0')
		w.top_wd = wd;
	if (watch_add(wd, path))
		return 0;
	(void)inotify_rm_watch(w.in, wd);
	return watch_send_limit(path, e);
}

static bool watch_join(char *ret, const char *dir, const char *name)
{
	int n = snprintf(ret, FILE_MSG_PATH_MAX, "%s%s%s", dir, *dir != '\0' ? "/" : "", name);

	return n > 0 && (size_t)n < FILE_MSG_PATH_MAX;
}

static bool watch_is_directory(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Watch the sub-directories of a directory. is_new: all its entries are reported. */
static int watch_scan(const char *path, bool is_new, struct err *e)
{
	int fd = watch_open(path, O_RDONLY | O_NONBLOCK);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int rc = 0;

	if (d == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return 0;
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(d)) != NULL;) {
		char child[FILE_MSG_PATH_MAX];
		bool is_dir = watch_is_directory(dirfd(d), entry);

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    !watch_join(child, path, entry->d_name))
			continue;
		if (is_new)
			rc = watch_send(FILE_MSG_CREATE, is_dir, child, "", e);
		if (rc == 0 && is_dir)
			rc = watch_one(child, e);
	}
	(void)closedir(d);
	return rc;
}

/* Watch a directory and, if recursive, all below it: watch_scan() adds those to the table. */
static int watch_tree(const char *path, bool is_new, struct err *e)
{
	size_t first = watch_count();

	if (watch_one(path, e) < 0)
		return -1;
	for (size_t i = first; w.recursive && i < watch_count(); i++) {
		char dir[FILE_MSG_PATH_MAX];
		const struct file_watch_entry *t = watch_at(i);

		str_copy(dir, t->path);
		if (watch_scan(dir, is_new, e) < 0)
			return -1;
	}
	return 0;
}

static void watch_forget_tree(const char *path)
{
	for (int wd; (wd = watch_below(path)) >= 0;) {
		(void)inotify_rm_watch(w.in, wd);
		watch_drop(wd);
	}
}

/* The second event of a move did not arrive: the file was moved to a directory without a watch. */
static int watch_settle_move(struct err *e)
{
	if (!w.moving)
		return 0;
	w.moving = false;
	if (w.moving_staged)
		return 0;
	if (w.moving_dir && w.recursive)
		watch_forget_tree(w.from);
	return watch_send(FILE_MSG_RENAME, w.moving_dir, w.from, "", e);
}

static int on_create(const char *path, bool is_dir, struct err *e)
{
	if (watch_send(FILE_MSG_CREATE, is_dir, path, "", e) < 0)
		return -1;
	return is_dir && w.recursive ? watch_tree(path, true, e) : 0;
}

static int on_moved_to(const struct inotify_event *v, const char *path, struct err *e)
{
	bool is_dir = (v->mask & IN_ISDIR) != 0;

	if (!w.moving || w.cookie != v->cookie)
		return watch_settle_move(e) < 0 ? -1 : on_create(path, is_dir, e);
	w.moving = false;
	if (w.moving_staged) {
		if (watch_send(FILE_MSG_CHMOD, false, path, "", e) < 0)
			return -1;
		return watch_send(FILE_MSG_WRITE, false, path, "", e);
	}
	if (is_dir)
		watch_rename(w.from, path);
	return watch_send(FILE_MSG_RENAME, is_dir, w.from, path, e);
}

static int on_moved_from(const struct inotify_event *v, const char *path, bool staged,
			 struct err *e)
{
	if (watch_settle_move(e) < 0)
		return -1;
	w.moving = true;
	w.moving_dir = (v->mask & IN_ISDIR) != 0;
	w.moving_staged = staged;
	w.cookie = v->cookie;
	str_copy(w.from, path);
	return 0;
}

/* inotify reports a file without a name (O_TMPFILE) as "#" and its inode number. */
static bool watch_is_nameless(const struct inotify_event *v, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[FILE_MSG_PATH_MAX];
	struct stat st;

	if (v->name[0] != '#' || v->name[1] == '\0' ||
	    v->name[1 + strspn(v->name + 1, "0123456789")] != '\0')
		return false;
	(void)snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 0 : (int)(slash - path), path);
	OWN_FD fd = watch_open(dir, O_PATH);
	return fd < 0 || fstatat(fd, v->name, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

/* A new file was linked to its name and then lost its temporary one: the events that file_write.c
 * causes for other new files follow. Also reported, without need, if both were of different files.
 */
static int on_staged_gone(struct err *e)
{
	char path[sizeof(w.created)];

	if (w.created[0] == '\0')
		return 0;
	str_copy(path, w.created);
	w.created[0] = '\0';
	if (watch_send(FILE_MSG_CHMOD, false, path, "", e) < 0)
		return -1;
	return watch_send(FILE_MSG_WRITE, false, path, "", e);
}

/* An event of an entry in a watched directory. */
static int on_entry_event(const struct inotify_event *v, const char *path, struct err *e)
{
	bool is_dir = (v->mask & IN_ISDIR) != 0;
	bool staged = strncmp(v->name, FILE_STAGE_PREFIX, sizeof(FILE_STAGE_PREFIX) - 1) == 0;

	if ((v->mask & IN_MOVED_FROM) != 0)
		return on_moved_from(v, path, staged, e);
	if ((v->mask & IN_MOVED_TO) != 0)
		return on_moved_to(v, path, e);
	if (watch_settle_move(e) < 0)
		return -1;
	if (staged)
		return (v->mask & IN_DELETE) != 0 ? on_staged_gone(e) : 0;
	str_copy(w.created, (v->mask & IN_CREATE) != 0 && !is_dir ? path : "");
	if ((v->mask & IN_CREATE) != 0)
		return on_create(path, is_dir, e);
	if ((v->mask & IN_DELETE) != 0)
		return watch_send(FILE_MSG_REMOVE, is_dir, path, "", e);
	if (watch_is_nameless(v, path))
		return 0;
	return watch_send((v->mask & IN_MODIFY) != 0 ? FILE_MSG_WRITE : FILE_MSG_CHMOD, is_dir,
			  path, "", e);
}

/* Return 1 if the watched directory was removed. */
static int on_event(const struct inotify_event *v, struct err *e)
{
	const struct file_watch_entry *t = watch_find(v->wd);
	char path[FILE_MSG_PATH_MAX];

	if ((v->mask & IN_Q_OVERFLOW) != 0)
		return watch_send(FILE_MSG_OVERFLOW, false, "", "", e);
	if (t == NULL)
		return 0;
	if (v->wd == w.top_wd &&
	    (v->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) {
		if (watch_settle_move(e) < 0 || watch_send(FILE_MSG_GONE, true, "", "", e) < 0)
			return -1;
		return 1;
	}
	if ((v->mask & IN_IGNORED) != 0) {
		watch_drop(v->wd);
		return 0;
	}
	/* For a directory below the top, the watch of its parent reports it, too. */
	if (v->len == 0)
		return v->wd == w.top_wd && (v->mask & IN_ATTRIB) != 0
			       ? watch_send(FILE_MSG_CHMOD, true, "", "", e)
			       : 0;
	return watch_join(path, t->path, v->name) ? on_entry_event(v, path, e) : 0;
}

static int watch_read_events(struct err *e)
{
	static _Alignas(struct inotify_event) char buffer[16384];
	ssize_t n = read(w.in, buffer, sizeof(buffer));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : builtin_io_fail(e, "watch", "");
	for (size_t at = 0; at < (size_t)n;) {
		const struct inotify_event *v = (const void *)(buffer + at);
		int rc = on_event(v, e);

		if (rc != 0)
			return rc;
		at += sizeof(*v) + v->len;
	}
	return 0;
}

static int watch_follow(struct err *e)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = w.in, .events = POLLIN }, { .fd = 1 } };
		int n = poll(p, 2, w.moving ? PAIR_MS : -1), rc = 0;

		if (n < 0 && errno != EINTR)
			return builtin_io_fail(e, "watch", "");
		if (n > 0 && (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
			return 0;
		if (n == 0)
			rc = watch_settle_move(e);
		else if (n > 0)
			rc = watch_read_events(e);
		if (rc < 0 || builtin_io_flush(e) < 0)
			return -1;
		if (rc == 1)
			return 0;
	}
}

int watch_directory(int argc, char **argv, struct err *e)
{
	bool entries = argc > 2 && strcmp(argv[2], "entries") == 0;

	if (argc > 2 && !entries && strcmp(argv[2], "-") != 0)
		return err_set(e, ERR_INVALID, "watch: unknown option: %s", argv[2]);
	w.recursive = strcmp(argv[1], "recursive") == 0;
	if (!w.recursive && strcmp(argv[1], "-") != 0)
		return err_set(e, ERR_INVALID, "watch: unknown option: %s", argv[1]);
	if (watch_begin(argv[0], entries, e) < 0)
		return -1;
	/* The kernel does not report the removal of a directory while it is a working directory. */
	if (chdir("/") < 0)
		return builtin_io_fail(e, "enter", "/");
	w.in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w.in < 0)
		return builtin_io_fail(e, "watch", argv[0]);
	if (watch_tree("", false, e) < 0)
		return -1;
	if (w.top_wd == 0)
		return err_set(e, ERR_DENIED, "watch: no permission to read %s", argv[0]);
	if (builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_READY }, e) < 0 ||
	    builtin_io_flush(e) < 0)
		return -1;
	return watch_follow(e);
}
