/* log_removal.c - theory of operation
 *
 * A file system takes long to free a large file, so a log is freed in pieces. A removed log is
 * renamed into STATE/output/removed at once: from then on it is not found by its name and does not
 * count. A job of its owner (a tenant) then shortens it by one step in each piece, and unlinks the
 * rest.
 *
 * Logs that make room for others (daemon/tenant/record_quota.c) are first: their session is
 * writing. Those of sessions past their retention (daemon/tenant/retention.c) follow. A log whose
 * reader opened it before the retention ended is held until the reader has closed it. A lock shows
 * that, tested once a second.
 *
 * If the daemon is killed, the next one finds the files in the folder. They are not counted. */
#include "daemon/output/log_removal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/output/output_log.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

#define BACKLOG_MAX (64U << 20) /* bytes of removed logs whose space is already given to others */

static void log_removal_append(struct removed_log_list *l, struct removed_log *g)
{
	g->next = NULL;
	if (l->first == NULL)
		l->end = &l->first;
	*l->end = g;
	l->end = &g->next;
}

static struct removed_log *take_first(struct removed_log_list *l)
{
	struct removed_log *g = l->first;

	if (g != NULL)
		l->first = g->next;
	return g;
}

/* Count a log in or out of the backlog, or of the old logs that retention waits for. */
static void log_removal_count(struct removed_log *g, bool in)
{
	struct log_removal *r = g->owner;
	struct removed_logs *all = r->all;

	if (g->why == LOG_MAKES_ROOM)
		r->backlog = in ? r->backlog + g->bytes : r->backlog - g->bytes;
	else if (in)
		all->old++;
	else if (--all->old == 0 && all->on_old_gone != NULL)
		all->on_old_gone(all->arg);
}

/* One step. Return 1 if there is more to do, 0 if it is gone, -1 if it is being read. */
static int log_removal_shorten(struct removed_logs *all, struct removed_log *g)
{
	OWN_FD fd = output_log_open(all->removed_fd, g->name, O_RDWR);
	struct stat st;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_REMOVAL_STEP &&
	    ftruncate(fd, st.st_size - LOG_REMOVAL_STEP) == 0)
		return 1;
	if (unlinkat(all->removed_fd, g->name, 0) < 0 && errno != ENOENT)
		log_warn("removed log could not be deleted, tried again at the next start",
			 "file=%s errno=%d", g->name, errno);
	return 0;
}

static bool on_piece(struct job *j)
{
	struct log_removal *r = j->arg;
	struct removed_log_list *l = &r->lists[r->lists[LOG_MAKES_ROOM].first == NULL];
	struct removed_log *g = l->first;
	int more;

	if (g == NULL)
		return false;
	more = log_removal_shorten(r->all, g);
	if (more <= 0) {
		(void)take_first(l);
		log_removal_count(g, false);
	}
	if (more < 0)
		log_removal_append(&r->all->held, g);
	else if (more == 0)
		free(g);
	return true;
}

static void log_removal_queue(struct removed_logs *all, struct removed_log *g)
{
	struct log_removal *r = g->owner;

	r->all = all;
	log_removal_append(&r->lists[g->why], g);
	log_removal_count(g, true);
	r->job.on_piece = on_piece;
	r->job.arg = r;
	jobs_add(all->jobs, &r->work, &r->job);
}

static struct removed_log *new_one(struct log_removal *owner, const char *name,
				   enum log_removal_why why)
{
	struct removed_log *g = calloc(1, sizeof(*g));

	assert(g != NULL);
	g->owner = owner;
	g->why = why;
	str_copy(g->name, name);
	return g;
}

bool log_removal_add(struct removed_logs *all, struct log_removal *owner, const char *name,
		     enum log_removal_why why, uint64_t *ret_bytes)
{
	struct removed_log *g;
	struct stat st;

	*ret_bytes = 0;
	if (fstatat(all->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (renameat(all->output_fd, name, all->removed_fd, name) < 0 &&
	    unlinkat(all->output_fd, name, 0) < 0)
		return false;
	*ret_bytes = (uint64_t)st.st_size;
	g = new_one(owner == NULL ? &all->rest : owner, name, why);
	g->bytes = *ret_bytes;
	log_removal_queue(all, g);
	return true;
}

bool log_removal_is_behind(const struct log_removal *r)
{
	return r->backlog >= BACKLOG_MAX;
}

void log_removal_retry(struct removed_logs *all)
{
	struct removed_log_list held = all->held;
	struct removed_log *g;

	all->held.first = NULL;
	while ((g = take_first(&held)) != NULL)
		log_removal_queue(all, g);
}

/* Queue the files that an earlier daemon left. */
static int find_left(struct removed_logs *all, struct err *e)
{
	int fd = openat(all->removed_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (d == NULL) {
		(void)err_sys(e, "read folder output/removed");
		io_close_all(&fd, 1);
		return -1;
	}
	while ((entry = readdir(d)) != NULL)
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < LOG_NAME_MAX)
			log_removal_queue(all, new_one(&all->rest, entry->d_name, LOG_IS_OLD));
	(void)closedir(d);
	return 0;
}

int log_removal_setup(struct removed_logs *all, struct jobs *jobs, int output_fd, struct err *e)
{
	all->jobs = jobs;
	all->output_fd = output_fd;
	if (mkdirat(output_fd, "removed", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make folder output/removed");
	all->removed_fd =
		openat(output_fd, "removed", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (all->removed_fd < 0)
		return err_sys(e, "open folder output/removed");
	return find_left(all, e);
}

static void free_all(struct removed_log_list *l)
{
	struct removed_log *g;

	while ((g = take_first(l)) != NULL)
		free(g);
}

void log_removal_free(struct log_removal *r)
{
	for (unsigned i = 0; i < COUNT(r->lists); i++)
		free_all(&r->lists[i]);
}

void log_removal_release(struct removed_logs *all)
{
	log_removal_free(&all->rest);
	free_all(&all->held);
	io_close_all(&all->removed_fd, 1);
}
