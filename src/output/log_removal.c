/* log_removal.c - theory of operation
 *
 * A large log takes the file system long to free, so that is done in pieces. A log that goes is
 * renamed into STATE/output/removed, which costs nothing: from then on it is not found by its
 * name, and is counted as gone. A job of its tenant's then shortens it, a step in each piece, and
 * unlinks the rest.
 *
 * Logs that make room for others (output_quota.c) go first: their session is writing. Those of
 * sessions whose retention is over (retention.c) go when there are none of the first kind. One that
 * is being read, by a client that opened it before its retention was over, is held until the reader
 * has closed it; that is looked at once a second.
 *
 * Killed in between, the next daemon finds the files in the folder. They are not counted. */
#include "log_removal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core_private.h"
#include "io.h"
#include "log.h"
#include "output_log.h"
#include "own.h"
#include "retention.h"

#define BACKLOG_MAX (64U << 20) /* of bytes that still take space though others have their room */

static struct log_removal *removal_of(struct core *c, struct tenant *t)
{
	return t == NULL ? &c->removal : &t->removal;
}

static void append(struct removed_log_list *l, struct removed_log *g)
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

/* Counts one in or out of what others wait for. */
static void count(struct core *c, struct removed_log *g, bool in)
{
	struct log_removal *r = removal_of(c, g->tenant);

	if (g->why == LOG_MAKES_ROOM)
		r->backlog = in ? r->backlog + g->bytes : r->backlog - g->bytes;
	else if (in)
		c->old_logs++;
	else if (--c->old_logs == 0)
		retention_start(c);
}

/* One step. Returns 1 if there is more to do, 0 if it is gone, -1 if it is being read. */
static int shorten(struct core *c, struct removed_log *g)
{
	OWN_FD fd = output_log_open(c->removed_fd, g->name, O_RDWR);
	struct stat st;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_REMOVAL_STEP &&
	    ftruncate(fd, st.st_size - LOG_REMOVAL_STEP) == 0)
		return 1;
	if (unlinkat(c->removed_fd, g->name, 0) < 0 && errno != ENOENT)
		log_warn("a removed log stays until the next start", "file=%s errno=%d", g->name,
			 errno);
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
	more = shorten(r->core, g);
	if (more <= 0) {
		(void)take_first(l);
		count(r->core, g, false);
	}
	if (more < 0)
		append(&r->core->held_logs, g);
	else if (more == 0)
		free(g);
	return true;
}

static void queue(struct core *c, struct removed_log *g)
{
	struct log_removal *r = removal_of(c, g->tenant);

	append(&r->lists[g->why], g);
	count(c, g, true);
	r->core = c;
	r->job.piece = on_piece;
	r->job.arg = r;
	jobs_add(&c->jobs, &r->work, &r->job);
}

static struct removed_log *new_one(struct tenant *t, const char *name, enum log_removal_why why)
{
	struct removed_log *g = calloc(1, sizeof(*g));

	assert(g != NULL);
	g->tenant = t;
	g->why = why;
	(void)snprintf(g->name, sizeof(g->name), "%s", name);
	return g;
}

bool log_removal_add(struct core *c, struct tenant *t, const char *name, enum log_removal_why why,
		     uint64_t *ret_bytes)
{
	struct removed_log *g;
	struct stat st;

	*ret_bytes = 0;
	if (fstatat(c->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (renameat(c->output_fd, name, c->removed_fd, name) < 0 &&
	    unlinkat(c->output_fd, name, 0) < 0)
		return false;
	*ret_bytes = (uint64_t)st.st_size;
	g = new_one(t, name, why);
	g->bytes = *ret_bytes;
	queue(c, g);
	return true;
}

bool log_removal_is_behind(const struct tenant *t)
{
	return t->removal.backlog >= BACKLOG_MAX;
}

void log_removal_retry(struct core *c)
{
	struct removed_log_list held = c->held_logs;
	struct removed_log *g;

	c->held_logs.first = NULL;
	while ((g = take_first(&held)) != NULL)
		queue(c, g);
}

/* What an earlier daemon left. */
static int find_left(struct core *c, struct err *e)
{
	int fd = openat(c->removed_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (d == NULL) {
		(void)err_sys(e, "read folder output/removed");
		io_close_all(&fd, 1);
		return -1;
	}
	while ((entry = readdir(d)) != NULL)
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < LOG_NAME_MAX)
			queue(c, new_one(NULL, entry->d_name, LOG_IS_OLD));
	(void)closedir(d);
	return 0;
}

int log_removal_setup(struct core *c, struct err *e)
{
	if (mkdirat(c->output_fd, "removed", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make folder output/removed");
	c->removed_fd =
		openat(c->output_fd, "removed", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (c->removed_fd < 0)
		return err_sys(e, "open folder output/removed");
	return find_left(c, e);
}

static void free_all(struct removed_log_list *l)
{
	struct removed_log *g;

	while ((g = take_first(l)) != NULL)
		free(g);
}

void log_removal_release(struct core *c)
{
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		for (unsigned i = 0; i < COUNT(t->removal.lists); i++)
			free_all(&t->removal.lists[i]);
	for (unsigned i = 0; i < COUNT(c->removal.lists); i++)
		free_all(&c->removal.lists[i]);
	free_all(&c->held_logs);
	io_close_all(&c->removed_fd, 1);
}
