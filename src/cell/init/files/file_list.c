/* file_list.c - the built-in list.
 *
 * Breadth first: a client that wants a thousand entries of a deep tree gets its top. The queue
 * holds the relative paths of directories still to be listed. Each is opened from the top,
 * following no links. So memory is bounded by QUEUE_MAX. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_entry.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/open_path.h"
#include "lib/base/kernel.h"
#include "lib/base/units.h"

#define QUEUE_MAX (4U << 20)

struct file_walk {
	int top;
	char abs[FILE_MSG_PATH_MAX]; /* of the top, as requested */
	uint64_t depth, max;
	struct file_msg_end end;
	char *queue; /* owned: records of u8 depth, path, NUL */
	size_t head, tail, cap;
};

/* False if the queue is full. */
static bool file_list_queue_push(struct file_walk *w, const char *path, unsigned depth)
{
	size_t n = strlen(path) + 2;

	if (w->tail + n > w->cap) {
		size_t cap = w->cap == 0 ? 4096 + n : 2 * w->cap;
		char *more = cap > QUEUE_MAX ? NULL : realloc(w->queue, cap);

		if (more == NULL)
			return false;
		w->queue = more;
		w->cap = cap;
	}
	w->queue[w->tail] = (char)depth;
	memcpy(w->queue + w->tail + 1, path, n - 1);
	w->tail += n;
	return true;
}

/* 0: listed. 1: enough. */
static int file_list_one_entry(struct file_walk *w, int dir, const char *name, const char *in,
			       unsigned depth, struct err *e)
{
	char path[FILE_MSG_PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", in, *in != '\0' ? "/" : "", name);

	if (w->end.count >= w->max) {
		w->end.flags |= FILE_MSG_TRUNCATED;
		return 1;
	}
	if (n < 0 || (size_t)n >= sizeof(path) ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		w->end.skipped++;
		return 0;
	}
	if (file_entry_send_at(dir, name, &st, path, w->abs, e) < 0)
		return -1;
	w->end.count++;
	if (S_ISDIR(st.st_mode) && depth < w->depth && !file_list_queue_push(w, path, depth + 1))
		w->end.flags |= FILE_MSG_TRUNCATED;
	return 0;
}

static DIR *file_list_open_below(const struct file_walk *w, const char *path)
{
	int fd = open_path(w->top, *path == '\0' ? "." : path,
			   O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d == NULL && fd >= 0)
		fd_close(fd);
	return d;
}

static int file_list_one_directory(struct file_walk *w, const char *path, unsigned depth,
				   struct err *e)
{
	DIR *d = file_list_open_below(w, path);
	int rc = 0;

	if (d == NULL && *path == '\0')
		return builtin_io_fail(e, "list", "the directory");
	if (d == NULL) {
		w->end.skipped++;
		return 0;
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = file_list_one_entry(w, dirfd(d), entry->d_name, path, depth, e);
	(void)closedir(d);
	return rc;
}

static int file_list_all_directories(struct file_walk *w, struct err *e)
{
	int rc = file_list_one_directory(w, "", 1, e);

	while (rc == 0 && w->head < w->tail) {
		char path[FILE_MSG_PATH_MAX];
		unsigned depth = (unsigned char)w->queue[w->head];
		size_t n = strlen(w->queue + w->head + 1) + 1;

		/* A copy: the queue may move when it grows. */
		memcpy(path, w->queue + w->head + 1, n);
		w->head += n + 1;
		rc = file_list_one_directory(w, path, depth, e);
	}
	free(w->queue);
	return rc < 0 ? -1 : 0;
}

int file_list(int argc, char **argv, struct err *e)
{
	char real[FILE_MSG_PATH_MAX];
	struct file_walk w = { 0 };
	struct stat st;
	OWN_FD top = -1;

	if (units_count(argv[1], 1, BUILTIN_DEPTH_MAX, &w.depth, e) < 0 ||
	    units_count(argv[2], 1, UINT32_MAX, &w.max, e) < 0)
		return -1;
	top = file_resolve_open(argv[0], true, real, e);
	if (top < 0)
		return -1;
	errno = ENOTDIR;
	if (fstat(top, &st) < 0 || !S_ISDIR(st.st_mode))
		return builtin_io_fail(e, "list", argv[0]);
	w.top = top;
	file_entry_absolute(argv[0], w.abs);
	if (file_entry_send(top, real, argv[0], 0, e) < 0 || file_list_all_directories(&w, e) < 0)
		return -1;
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = w.end }, e);
}
