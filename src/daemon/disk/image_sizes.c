/* image_sizes.c - see image_sizes.h.
 *
 * The answer is a file in memory, read in pieces of PIECE rows. Each round replaces all sizes.
 * Images absent from the answer were removed. A new image is compared with nothing, so that all of
 * it is growth, except in the first round. */
#include "daemon/disk/image_sizes.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/text_hash.h"

#define ASK_MS 60000
#define WALK_MS 5000	/* of a volume without an image */
#define WALK_AGAIN 4	/* a walk is followed by a rest of so many times its length */
#define PIECE 512	/* rows */
#define SHARE "(sizes)" /* of cordon-storage: no tenant has this name */

struct image_size {
	struct image_size *next, **link; /* list.h: in its bucket */
	struct image_sizes *table;
	char id[STORAGE_ID_MAX], tenant[STORAGE_ID_MAX];
	uint64_t bytes, before; /* now, and what growth is counted from */
	uint64_t round;
	/* For a volume without an image. */
	bool is_tree, is_unknown;
	struct storage_job walk;
	uint64_t walk_ns; /* when it began, then when the next one may begin */
};

/* ---- the table */

static struct image_size **sizes_bucket(struct image_sizes *t, const char *id)
{
	return &t->table[text_hash(id) % IMAGE_SIZES_BUCKETS];
}

static struct image_size *sizes_find(const struct image_sizes *t, const char *id)
{
	struct image_size *s = t->table[text_hash(id) % IMAGE_SIZES_BUCKETS];

	while (s != NULL && strcmp(s->id, id) != 0)
		s = s->next;
	return s;
}

static struct image_size *sizes_add(struct image_sizes *t, const char *id)
{
	struct image_size *s = calloc(1, sizeof(*s));

	assert(s != NULL);
	s->table = t;
	s->walk.fd = -1;
	str_copy(s->id, id);
	LIST_PUSH(sizes_bucket(t, id), s);
	return s;
}

static void sizes_remove(struct image_size *s)
{
	storage_link_cancel(s->table->link, &s->walk);
	LIST_REMOVE(s);
	free(s);
}

/* is_first: nothing is known of it from before. */
static void sizes_set(struct image_size *s, uint64_t bytes, bool is_first)
{
	s->bytes = bytes;
	if (is_first || !s->table->is_fixed)
		s->before = bytes;
}

static uint64_t sizes_grown(const struct image_size *s)
{
	if (s->is_unknown)
		return IMAGE_SIZES_UNKNOWN;
	return s->bytes > s->before ? s->bytes - s->before : 0;
}

uint64_t image_sizes_grown(const struct image_sizes *t, const char *id)
{
	const struct image_size *s = sizes_find(t, id);

	return s == NULL ? 0 : sizes_grown(s);
}

void image_sizes_fix(struct image_sizes *t, bool is_fixed)
{
	t->is_fixed = is_fixed;
}

void image_sizes_forget(struct image_sizes *t)
{
	loop_task_cancel(t->link->loop, &t->read);
	storage_link_cancel(t->link, &t->job);
	io_close_all(&t->fd, 1);
	t->rounds = 0;
	for (unsigned i = 0; i < IMAGE_SIZES_BUCKETS; i++)
		while (t->table[i] != NULL)
			sizes_remove(t->table[i]);
}

/* ---- images */

static void sizes_end(struct image_sizes *t)
{
	for (unsigned i = 0; i < IMAGE_SIZES_BUCKETS; i++)
		LIST_WALK_ENDING(struct image_size, s, t->table[i])
			/* alone: a removed image has no walk, and so nothing is called */
			if (!s->is_tree && s->round != t->rounds)
				sizes_remove(s);
	t->on_measured(t->arg);
}

static void on_read(struct loop_task *task)
{
	struct image_sizes *t = task->arg;
	struct storage_size rows[PIECE];
	ssize_t n = pread(t->fd, rows, sizeof(rows), (off_t)t->at);
	size_t count = n > 0 ? (size_t)n / sizeof(rows[0]) : 0;

	for (size_t i = 0; i < count; i++) {
		rows[i].id[STORAGE_ID_MAX - 1] = '\0';
		struct image_size *s = sizes_find(t, rows[i].id);

		if (s == NULL)
			s = sizes_add(t, rows[i].id);
		s->is_tree = s->is_unknown = false;
		s->round = t->rounds;
		sizes_set(s, rows[i].bytes, t->rounds == 1);
	}
	t->at += count * sizeof(rows[0]);
	if (count == PIECE) {
		loop_defer(t->link->loop, &t->read);
		return;
	}
	io_close_all(&t->fd, 1);
	sizes_end(t);
}

/* After an error the sizes of before stand, and are asked for again. */
static void on_answer(struct completion *done, const struct err *e)
{
	struct image_sizes *t = done->arg;

	if (e != NULL) {
		log_warn("disks and volumes cannot be measured", "error=%s", e->msg);
		io_close_all(&t->fd, 1);
		return;
	}
	t->rounds++;
	t->at = 0;
	loop_defer(t->link->loop, &t->read);
}

void image_sizes_ask(struct image_sizes *t)
{
	const struct storage_list r = { .head = { .op = STORAGE_SIZES, .deadline_ms = ASK_MS } };
	int copy;

	if (t->fd >= 0)
		return;
	t->fd = memfd_create("sizes", MFD_CLOEXEC);
	copy = t->fd < 0 ? -1 : fcntl(t->fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		io_close_all(&t->fd, 1);
		return;
	}
	t->job.done = (struct completion){ .on_done = on_answer, .arg = t };
	t->job.tenant = SHARE;
	storage_link_ask(t->link, &t->job, &r, sizeof(r), &copy, 1);
}

/* ---- volumes without an image */

static void on_walked(struct completion *done, const struct err *e)
{
	struct image_size *s = done->arg;
	uint64_t now = clock_now_ns();
	bool is_first = s->round == 0;

	s->is_unknown = e != NULL;
	s->round = 1;
	if (e == NULL)
		sizes_set(s, s->walk.reply.bytes, is_first);
	s->walk_ns = now + (now - s->walk_ns) * WALK_AGAIN;
}

static void sizes_walk(struct image_size *s)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_USAGE,
					      .deadline_ms = WALK_MS } };

	if (s->walk.call != NULL || clock_now_ns() < s->walk_ns)
		return;
	str_copy(r.volume, s->id);
	s->walk_ns = clock_now_ns();
	s->walk.done = (struct completion){ .on_done = on_walked, .arg = s };
	s->walk.tenant = SHARE;
	storage_link_ask(s->table->link, &s->walk, &r, sizeof(r), NULL, 0);
}

void image_sizes_claim(struct image_sizes *t, const char *id, const char *tenant, bool is_volume)
{
	struct image_size *s = sizes_find(t, id);

	if (s == NULL && is_volume && t->rounds > 0) { /* no answer has an image of it */
		s = sizes_add(t, id);
		s->is_tree = true;
	}
	if (s == NULL)
		return;
	str_copy(s->tenant, tenant);
	if (s->is_tree)
		sizes_walk(s);
}

void image_sizes_each_grown(const struct image_sizes *t,
			    void (*add)(const char *tenant, uint64_t bytes, void *arg), void *arg)
{
	for (unsigned i = 0; i < IMAGE_SIZES_BUCKETS; i++)
		/* alone: add counts a number for a tenant */
		LIST_WALK(const struct image_size, s, t->table[i])
			if (s->tenant[0] != '\0' && sizes_grown(s) > 0)
				add(s->tenant, sizes_grown(s), arg);
}

/* ---- */

void image_sizes_init(struct image_sizes *t, struct storage_link *link)
{
	*t = (struct image_sizes){ .link = link, .fd = -1, .job.fd = -1 };
	t->read = (struct loop_task){ .on_run = on_read, .arg = t };
}

void image_sizes_release(struct image_sizes *t)
{
	if (t->link == NULL)
		return;
	image_sizes_forget(t);
	t->link = NULL;
}
