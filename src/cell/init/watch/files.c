/* files.c - theory of operation
 *
 * A thread that opens a file waits until the watcher has answered. The watcher reads the path in
 * its memory and looks the path up beneath the thread's root directory, without opening the file:
 * so symbolic links and relative paths lead to the name that the file has. Then it lets the call
 * pass. The kernel reads the path again, and another thread may change it in between: every entry
 * is claimed.
 *
 * The call may still fail. An entry says that the program asked for the file.
 *
 * A process that asks again within a second gets one entry with a count. Only requests for
 * watched paths are recorded unless all are wanted. */
#include "cell/init/watch/files.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cell/init/watch/watch.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/wire/watch_file.h"

#define FILES_PATH 4096
#define FILES_RECENT 256
#define FILES_HALF (WATCH_ARGS / 2 - 1) /* bytes of each of two paths in an entry */
#define CWD (-1)
#define NONE (-2)

static struct watch_wish wish;
static const char *patterns[WATCH_PATTERNS];
static size_t npatterns;

/* Requests in this second, by a hash. */
static struct recent_files {
	uint64_t hash, seq, second;
	uint32_t count;
} recent[FILES_RECENT];

/* Which arguments have the paths. access 0: the flags say it. */
static const struct watched_file_call {
	int nr, dir, path, flags, to_dir, to;
	int access;
} files_table[] = {
#ifdef SYS_open
	{ SYS_open, CWD, 0, 1, NONE, NONE, 0 },
	{ SYS_creat, CWD, 0, NONE, NONE, NONE, WATCH_WRITE },
	{ SYS_unlink, CWD, 0, NONE, NONE, NONE, WATCH_REMOVE },
	{ SYS_rmdir, CWD, 0, NONE, NONE, NONE, WATCH_REMOVE },
	{ SYS_rename, CWD, 0, NONE, CWD, 1, WATCH_RENAME },
	{ SYS_link, CWD, 0, NONE, CWD, 1, WATCH_LINK },
#endif
	{ SYS_openat, 0, 1, 2, NONE, NONE, 0 },
	{ SYS_openat2, 0, 1, 2, NONE, NONE, 0 },
	{ SYS_truncate, CWD, 0, NONE, NONE, NONE, WATCH_WRITE },
	{ SYS_unlinkat, 0, 1, NONE, NONE, NONE, WATCH_REMOVE },
#ifdef SYS_renameat
	{ SYS_renameat, 0, 1, NONE, 2, 3, WATCH_RENAME },
#endif
	{ SYS_renameat2, 0, 1, NONE, 2, 3, WATCH_RENAME },
	{ SYS_linkat, 0, 1, NONE, 2, 3, WATCH_LINK },
};

static const struct watched_file_call *files_find(int nr)
{
	for (size_t i = 0; i < COUNT(files_table); i++)
		if (files_table[i].nr == nr)
			return &files_table[i];
	return NULL;
}

bool files_is_call(int nr)
{
	return files_find(nr) != NULL;
}

/* ---- watched paths */

void files_begin(void)
{
	char *at = wish.patterns;

	if (pread(WATCH_FD_FILE, &wish, sizeof(wish), WATCH_WISH_AT) != (ssize_t)sizeof(wish) ||
	    wish.version != WATCH_VERSION)
		memset(&wish, 0, sizeof(wish));
	wish.patterns[sizeof(wish.patterns) - 1] = '\0';
	while (*at != '\0' && npatterns < WATCH_PATTERNS) {
		char *end = strchrnul(at, '\n');

		patterns[npatterns++] = at;
		at = *end == '\0' ? end : end + 1;
		*end = '\0';
	}
}

/* "DIR" and "/" and two stars: the directory and all below it. */
static bool files_is_below(const char *pattern, size_t dir, char *path)
{
	char top[WATCH_PATTERN];

	memcpy(top, pattern, dir);
	top[dir] = '\0';
	for (char *at = path + 1;; at++) {
		char c = *at;
		bool same;

		if (c != '/' && c != '\0')
			continue;
		*at = '\0';
		same = fnmatch(top, path, FNM_PATHNAME) == 0;
		*at = c;
		if (same || c == '\0')
			return same;
	}
}

/* whole: also a directory that watched paths are below. */
static bool files_is_watched(char *path, bool whole)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < npatterns; i++) {
		size_t n = strlen(patterns[i]);

		if (n >= WATCH_PATTERN || path[0] != '/')
			continue;
		if (n > 3 && strcmp(patterns[i] + n - 3, "/**") == 0) {
			if (files_is_below(patterns[i], n - 3, path))
				return true;
		} else if (fnmatch(patterns[i], path, FNM_PATHNAME) == 0) {
			return true;
		}
		if (whole && strncmp(patterns[i], path, len) == 0 && patterns[i][len] == '/')
			return true;
	}
	return false;
}

/* ---- paths */

static bool files_copy_path(pid_t pid, uint64_t from, char ret[FILES_PATH])
{
	size_t n = 0;

	while (n < FILES_PATH - 1) {
		size_t got = trace_copy(pid, from + n, ret + n, FILES_PATH - 1 - n);

		if (got == 0)
			return false;
		if (memchr(ret + n, '\0', got) != NULL)
			return true;
		n += got;
	}
	ret[n] = '\0';
	return true;
}

/* The text of the path with the directory that it begins at. */
static bool files_compose(pid_t pid, int dir, const char *raw, char ret[FILES_PATH])
{
	char link[48];
	ssize_t n;

	if (raw[0] == '/')
		return snprintf(ret, FILES_PATH, "%s", raw) < FILES_PATH;
	if (dir == AT_FDCWD)
		(void)snprintf(link, sizeof(link), "/%d/cwd", (int)pid);
	else
		(void)snprintf(link, sizeof(link), "/%d/fd/%d", (int)pid, dir);
	n = readlink(link, ret, FILES_PATH - 1);
	if (n < 0)
		return false;
	ret[n] = '\0';
	return snprintf(ret + n, FILES_PATH - (size_t)n, "/%s", raw) < FILES_PATH - (int)n;
}

/* In /proc a link leads to a directory or file that the path does not name. */
static bool files_is_magic(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 &&
	       (strstr(path, "/root") != NULL || strstr(path, "/cwd") != NULL ||
		strstr(path, "/fd/") != NULL);
}

/* The name that the file has, or the text of the path if there is no such file. */
static void files_resolve(pid_t pid, int dir, const char *raw, bool follow, char ret[FILES_PATH])
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | (follow ? 0 : (uint64_t)O_NOFOLLOW),
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	char link[48];
	ssize_t n;

	if (!files_compose(pid, dir, raw, ret)) {
		(void)snprintf(ret, FILES_PATH, "%s", raw);
		return;
	}
	(void)snprintf(link, sizeof(link), "/%d/root", (int)pid);
	OWN_FD root = open(link, O_PATH | O_CLOEXEC | O_DIRECTORY);
	OWN_FD fd = root < 0 ? -1 : (int)syscall(SYS_openat2, root, ret, &how, sizeof(how));
	if (fd < 0)
		return;
	(void)snprintf(link, sizeof(link), "/self/fd/%d", fd);
	n = readlink(link, ret, FILES_PATH - 1);
	if (n >= 0)
		ret[n] = '\0';
}

/* ---- entries */

static int files_access(const struct watched_file_call *c, const struct seccomp_notif *n)
{
	uint64_t flags = c->flags < 0 ? 0 : n->data.args[c->flags];

	if (c->access != 0)
		return c->access;
	if (c->nr == SYS_openat2 && trace_copy((pid_t)n->pid, flags, &flags, sizeof(flags)) == 0)
		flags = O_RDWR;
	/* O_PATH: the file can be opened by its descriptor later. */
	if ((flags & O_PATH) == O_PATH)
		return WATCH_READ;
	return (flags & O_ACCMODE) == O_RDONLY	 ? WATCH_READ
	       : (flags & O_ACCMODE) == O_WRONLY ? WATCH_WRITE
						 : WATCH_READ | WATCH_WRITE;
}

static uint64_t files_hash(pid_t pid, int access, const char *path)
{
	uint64_t h = 0xcbf29ce484222325U ^ ((uint64_t)(uint32_t)pid << 8) ^ (uint32_t)access;

	for (; *path != '\0'; path++)
		h = (h ^ (uint8_t)*path) * 0x100000001b3U;
	return h;
}

/* Was it recorded in this second? Then only its count grows. */
static bool files_again(struct recent_files *r, uint64_t hash, uint64_t second)
{
	off_t at = WATCH_RING_AT + (off_t)(r->seq % WATCH_RING * sizeof(struct watch_entry)) +
		   (off_t)offsetof(struct watch_entry, count);

	if (r->hash != hash || r->second != second)
		return false;
	r->count++;
	return pwrite(WATCH_FD_FILE, &r->count, sizeof(r->count), at) == sizeof(r->count);
}

static void files_put(struct watch_entry *e, const char *path, const char *to)
{
	size_t room = to[0] == '\0' ? WATCH_ARGS - 2 : FILES_HALF, n = strnlen(path, room);

	if (path[n] != '\0' || strlen(to) > FILES_HALF)
		e->flags |= WATCH_CUT;
	memcpy(e->args, path, n);
	e->args_len = (uint32_t)n + 1;
	n = strnlen(to, FILES_HALF);
	memcpy(e->args + e->args_len, to, n);
	e->args_len += n == 0 ? 0 : (uint32_t)n + 1;
}

void files_call(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	static char raw[FILES_PATH], path[FILES_PATH], to[FILES_PATH];
	const struct watched_file_call *c = files_find(n->data.nr);
	struct watch_entry e = { .kind = WATCH_FILE, .count = 1 };
	uint64_t second = clock_now_ns() / (1000 * CLOCK_MS), hash;
	pid_t pid = (pid_t)n->pid;
	bool moves, watched;
	struct recent_files *r;

	if (c == NULL || !files_copy_path(pid, n->data.args[c->path], raw)) {
		ops->answer(n->id);
		return;
	}
	e.code = files_access(c, n);
	moves = (e.code & (WATCH_REMOVE | WATCH_RENAME | WATCH_LINK)) != 0;
	files_resolve(pid, c->dir == CWD ? AT_FDCWD : (int)n->data.args[c->dir], raw, !moves, path);
	to[0] = '\0';
	if (c->to != NONE && files_copy_path(pid, n->data.args[c->to], raw))
		files_resolve(pid, c->to_dir == CWD ? AT_FDCWD : (int)n->data.args[c->to_dir], raw,
			      false, to);
	/* A new name is watched like the old one: what it replaces is gone. */
	watched = files_is_watched(path, moves) || (to[0] != '\0' && files_is_watched(to, moves)) ||
		  (npatterns > 0 && files_is_magic(path));
	if (!watched && wish.all == 0) {
		ops->answer(n->id);
		return;
	}
	hash = files_hash(pid, e.code, path);
	r = &recent[hash % FILES_RECENT];
	if (files_again(r, hash, second)) {
		ops->answer(n->id);
		return;
	}
	trace_identity(pid, &e);
	trace_link(pid, "exe", e.path, sizeof(e.path), &e.flags);
	ops->answer(n->id);
	if (e.pid == 1)
		return; /* the cell's own */
	e.flags |= watched ? (uint32_t)WATCH_MATCHED : 0;
	files_put(&e, path, to);
	ops->write(&e);
	*r = (struct recent_files){ .hash = hash, .seq = e.seq, .second = second, .count = 1 };
}
