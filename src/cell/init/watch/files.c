/* files.c - theory of operation
 *
 * A thread that opens a file waits until the watcher has answered. The watcher reads the path in
 * its memory and looks the path up beneath the thread's root directory, without opening the file:
 * so symbolic links and relative paths lead to the name that the file has, or will have. A path
 * that cannot be looked up from here counts as one to a watched file. Then it lets the call pass.
 * The kernel reads the path again, and another thread may change it in between: every entry is
 * claimed.
 *
 * The call may still fail. An entry says that the program asked for the file.
 *
 * A process that asks again within a second gets one entry with a count. Only requests for
 * watched paths are recorded unless all are wanted. */
#include "cell/init/watch/files.h"

#include <errno.h>
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
#include "lib/base/text_hash.h"
#include "lib/wire/watch_file.h"

#define FILES_PATH 4096
#define FILES_RECENT 256
#define CWD (-1)
#define NONE (-2)
#define FILES_LINKS 8	/* that lead to what is not there */
#define FILES_MISSING 8 /* names of a path that are not there, before it counts as unknown */

static struct watch_wish wish;
static const char *patterns[WATCH_PATTERNS];
static size_t npatterns;

/* Requests in this second, by a hash. */
static struct recent_files {
	uint64_t hash, seq, second;
	uint32_t count;
} recent[FILES_RECENT];
static uint64_t last_seq; /* of the newest entry */

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

	(void)text_hash(""); /* makes its seed, which a later call could not */
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

/* Is it a directory that the pattern's names are below? */
static bool files_is_above(const char *pattern, const char *path)
{
	char top[WATCH_PATTERN];

	(void)snprintf(top, sizeof(top), "%s", pattern);
	for (char *at = strrchr(top, '/'); at != NULL && at > top; at = strrchr(top, '/')) {
		*at = '\0';
		if (fnmatch(top, path, FNM_PATHNAME) == 0)
			return true;
	}
	return false;
}

/* whole: also a directory that watched paths are below. */
static bool files_is_watched(char *path, bool whole)
{
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
		if (whole && files_is_above(patterns[i], path))
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

static bool files_is_below_root(const char *root, char name[FILES_PATH])
{
	size_t n = strlen(root);

	if (strcmp(root, "/") == 0)
		return name[0] == '/';
	if (strncmp(name, root, n) != 0 || (name[n] != '/' && name[n] != '\0'))
		return false;
	memmove(name, name + n, strlen(name + n) + 1);
	return true;
}

/* A name by a link of /proc. False: it is too long, or of a removed directory. */
static bool files_link(const char *link, char ret[FILES_PATH])
{
	static const char gone[] = " (deleted)";
	ssize_t n = readlink(link, ret, FILES_PATH - 1);

	if (n < 0 || n >= FILES_PATH - 1)
		return false;
	ret[n] = '\0';
	return n < (ssize_t)sizeof(gone) || strcmp(ret + n - (sizeof(gone) - 1), gone) != 0;
}

/* The text of the path beneath the thread's root, with the directory that it begins at. False: it
 * has none, as in a removed directory, or in one outside of the root. */
static bool files_compose(pid_t pid, const char *from, const char *raw, char ret[FILES_PATH])
{
	static char root[FILES_PATH];
	char link[48];
	size_t n;

	if (raw[0] == '/') {
		memcpy(ret, raw, strlen(raw) + 1);
		return true;
	}
	(void)snprintf(link, sizeof(link), "/%d/root", (int)pid);
	if (!files_link(from, ret) || !files_link(link, root) || !files_is_below_root(root, ret))
		return false;
	n = strlen(ret);
	if (raw[0] == '\0')
		return true; /* AT_EMPTY_PATH: the descriptor itself */
	return snprintf(ret + n, FILES_PATH - n, "/%s", raw) < (int)(FILES_PATH - n);
}

/* 0, or an error. */
static int files_look(int root, const char *path, bool follow, char ret[FILES_PATH])
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | (follow ? 0 : (uint64_t)O_NOFOLLOW),
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	OWN_FD fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	char link[48];

	if (fd < 0)
		return errno;
	(void)snprintf(link, sizeof(link), "/self/fd/%d", fd);
	return files_link(link, ret) ? 0 : ENAMETOOLONG;
}

/* Links of /proc to the caller itself lead nowhere for the watcher: the caller's number in their
 * place. at: behind the link. */
static bool files_name_self(pid_t pid, const char *link, char path[FILES_PATH], size_t at)
{
	static char rest[FILES_PATH];
	const char *name = strcmp(link, "/proc/self") == 0 ? "self" : "thread-self";
	struct watch_entry e = { .pid = 0 };
	size_t n = strlen(name);

	if (strcmp(name, "self") != 0 && strcmp(link, "/proc/thread-self") != 0)
		return false;
	trace_identity(pid, &e);
	if (e.pid == 0 || at < n || strncmp(path + at - n, name, n) != 0)
		return false;
	memcpy(rest, path + at, strlen(path + at) + 1);
	n = FILES_PATH - (at - n);
	return snprintf(path + FILES_PATH - n, n, "%u%s", e.pid, rest) < (int)n;
}

/* The target of a link in place of its name, from at to end. */
static bool files_name_target(int root, char path[FILES_PATH], size_t at, size_t end)
{
	static char target[FILES_PATH], rest[FILES_PATH];
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	ssize_t n;

	memcpy(rest, path + end, strlen(path + end) + 1);
	path[end] = '\0';
	OWN_FD fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
	if (n <= 0 || n >= FILES_PATH - 1)
		return false;
	target[n] = '\0';
	if (target[0] == '/')
		at = 0;
	return snprintf(path + at, FILES_PATH - at, "%s%s", target, rest) < (int)(FILES_PATH - at);
}

/* There is no such file. What of it is there has a name, and the rest is new. False: a link in it
 * leads to what is not there, and path goes on behind the link (again) or cannot be known. */
static bool files_name_missing(int root, pid_t pid, char path[FILES_PATH], bool *ret_again,
			       char ret[FILES_PATH])
{
	size_t len = strlen(path), end, cut;
	int sys;

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	end = len;
	for (unsigned up = 0; up < FILES_MISSING; up++) {
		char c = path[end];

		for (cut = end; cut > 0 && path[cut - 1] != '/'; cut--) {
		}
		path[end] = '\0';
		sys = files_look(root, path, false, ret);
		path[end] = c;
		if (sys == 0) {
			*ret_again = files_name_self(pid, ret, path, end) ||
				     files_name_target(root, path, cut, end);
			return false;
		}
		for (end = cut; end > 0 && path[end - 1] == '/'; end--) {
		}
		c = path[end];
		path[end] = '\0';
		sys = files_look(root, end == 0 ? "/" : path, true, ret);
		path[end] = c;
		if (sys == 0) {
			size_t n = strcmp(ret, "/") == 0 ? 0 : strlen(ret);

			return snprintf(ret + n, FILES_PATH - n, "/%s", path + cut) <
			       (int)(FILES_PATH - n);
		}
		if (sys != ENOENT)
			return false;
	}
	return false;
}

/* One path of a call. in_root: the directory is its root (RESOLVE_IN_ROOT). */
struct files_wanted {
	pid_t pid;
	int dir;
	bool follow, in_root;
};

/* The name that the file has. False: it cannot be known, and ret is what the call says. The call
 * may still succeed, such as through a link of /proc that leads elsewhere. */
static bool files_resolve(const struct files_wanted *w, const char *raw, char ret[FILES_PATH])
{
	static char path[FILES_PATH];
	char from[48], link[48];
	bool known, again = true;

	if (w->dir == AT_FDCWD)
		(void)snprintf(from, sizeof(from), "/%d/cwd", (int)w->pid);
	else
		(void)snprintf(from, sizeof(from), "/%d/fd/%d", (int)w->pid, w->dir);
	(void)snprintf(link, sizeof(link), "/%d/root", (int)w->pid);
	OWN_FD root = open(w->in_root ? from : link, O_PATH | O_CLOEXEC | O_DIRECTORY);
	if (w->in_root)
		memcpy(path, raw, strlen(raw) + 1);
	known = root >= 0 && (w->in_root || files_compose(w->pid, from, raw, path));
	for (unsigned tries = 0; known && again && tries < FILES_LINKS; tries++) {
		int sys = files_look(root, path, w->follow, ret);

		again = false;
		if (sys == ENOENT)
			known = files_name_missing(root, w->pid, path, &again, ret) || again;
		else
			known = sys == 0 || sys == ENOTDIR;
		if (sys == ENOTDIR)
			memcpy(ret, path, strlen(path) + 1);
	}
	if (!known || again)
		memcpy(ret, raw, strlen(raw) + 1);
	return known && !again;
}

/* ---- entries */

static int files_access(const struct watched_file_call *c, const struct seccomp_notif *n,
			struct files_wanted *w)
{
	struct open_how how = { .flags = c->flags < 0 ? 0 : n->data.args[c->flags] };
	int access;

	if (c->access != 0)
		return c->access;
	if (c->nr == SYS_openat2 && trace_copy(w->pid, how.flags, &how, sizeof(how)) < sizeof(how))
		how.flags = O_RDWR;
	w->in_root = c->nr == SYS_openat2 && (how.resolve & RESOLVE_IN_ROOT) != 0;
	/* O_PATH: the file can be opened by its descriptor later. */
	if ((how.flags & O_PATH) == O_PATH)
		return WATCH_READ;
	access = (how.flags & O_ACCMODE) == O_RDONLY   ? WATCH_READ
		 : (how.flags & O_ACCMODE) == O_WRONLY ? WATCH_WRITE
						       : WATCH_READ | WATCH_WRITE;
	return access | ((how.flags & O_TRUNC) != 0 ? WATCH_WRITE : 0);
}

/* Programs choose the names: without its seed no two can be found that look the same. */
static uint64_t files_hash(pid_t pid, int access, const char *path, const char *to)
{
	static char text[2 * FILES_PATH + 32];
	int n = snprintf(text, sizeof(text), "%d %d %s", (int)pid, access, path);

	(void)snprintf(text + n + 1, sizeof(text) - (size_t)n - 1, "%s", to);
	return text_hash_part(text, (size_t)n + 1 + strlen(to));
}

/* Was it recorded in this second? Then only its count grows. */
static bool files_again(struct recent_files *r, uint64_t hash, uint64_t second)
{
	off_t at = WATCH_RING_AT + (off_t)(r->seq % WATCH_RING * sizeof(struct watch_entry)) +
		   (off_t)offsetof(struct watch_entry, count);

	if (r->hash != hash || r->second != second || last_seq - r->seq >= WATCH_RING)
		return false; /* the last: its place in the ring has another entry now */
	r->count++;
	return pwrite(WATCH_FD_FILE, &r->count, sizeof(r->count), at) == sizeof(r->count);
}

static void files_put(struct watch_entry *e, const char *path, const char *to)
{
	size_t room = to[0] == '\0' ? WATCH_ARGS - 2 : WATCH_HALF, n = strnlen(path, room);

	if (path[n] != '\0' || strlen(to) > WATCH_HALF)
		e->flags |= WATCH_CUT;
	memcpy(e->args, path, n);
	e->args_len = (uint32_t)n + 1;
	n = strnlen(to, WATCH_HALF);
	memcpy(e->args + e->args_len, to, n);
	e->args_len += n == 0 ? 0 : (uint32_t)n + 1;
}

void files_call(const struct seccomp_notif *n, const struct trace_ops *ops)
{
	static char raw[FILES_PATH], path[FILES_PATH], to[FILES_PATH];
	const struct watched_file_call *c = files_find(n->data.nr);
	struct watch_entry e = { .kind = WATCH_FILE, .count = 1 };
	uint64_t second = clock_now_ns() / (1000 * CLOCK_MS), hash;
	struct files_wanted from = { .pid = (pid_t)n->pid }, into = { .pid = (pid_t)n->pid };
	bool moves, watched, known;
	struct recent_files *r;

	if (c == NULL || !files_copy_path(from.pid, n->data.args[c->path], raw)) {
		ops->answer(n->id);
		return;
	}
	from.dir = c->dir == CWD ? AT_FDCWD : (int)n->data.args[c->dir];
	e.code = files_access(c, n, &from);
	moves = (e.code & (WATCH_REMOVE | WATCH_RENAME | WATCH_LINK)) != 0;
	from.follow = !moves || (c->nr == SYS_linkat && (n->data.args[4] & AT_SYMLINK_FOLLOW) != 0);
	known = files_resolve(&from, raw, path);
	to[0] = '\0';
	if (c->to != NONE && files_copy_path(into.pid, n->data.args[c->to], raw)) {
		into.dir = c->to_dir == CWD ? AT_FDCWD : (int)n->data.args[c->to_dir];
		known = files_resolve(&into, raw, to) && known;
	}
	/* A new name is watched like the old one: what it replaces is gone. */
	watched = files_is_watched(path, moves) || (to[0] != '\0' && files_is_watched(to, moves)) ||
		  (npatterns > 0 && !known);
	if (!watched && wish.all == 0) {
		ops->answer(n->id);
		return;
	}
	hash = files_hash(from.pid, e.code, path, to);
	r = &recent[hash % FILES_RECENT];
	if (files_again(r, hash, second)) {
		ops->answer(n->id);
		return;
	}
	trace_identity(from.pid, &e);
	trace_link(from.pid, "exe", e.path, sizeof(e.path), &e.flags);
	ops->answer(n->id);
	if (e.pid == 1)
		return; /* the cell's own */
	e.flags |= watched ? (uint32_t)WATCH_MATCHED : 0;
	files_put(&e, path, to);
	ops->write(&e);
	last_seq = e.seq;
	*r = (struct recent_files){ .hash = hash, .seq = e.seq, .second = second, .count = 1 };
}
