/* storage_queue.c - see storage_queue.h.
 *
 * A share is what one tenant has here: a queue of waiting calls for each class. It is made with its
 * first call and freed with its last, so a tenant that waits keeps its turn. */
#include "storage_queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "list.h"

struct storage_share {
	struct storage_share *next, **link; /* list.h */
	char tenant[STORAGE_ID_MAX];
	unsigned calls; /* in any place */
	struct storage_calls waiting[STORAGE_CLASSES];
	unsigned sent[STORAGE_CLASSES];
	uint64_t turn[STORAGE_CLASSES]; /* when it was served last */
};

/* At a time: of all tenants, and of one. */
static const struct {
	unsigned all, tenant;
} room[STORAGE_CLASSES] = {
	[STORAGE_CLASS_QUICK] = { 12, 4 }, /* session_capture.c has up to 6 of these, 3 of one */
	[STORAGE_CLASS_FILES] = { 2, 1 },
	[STORAGE_CLASS_FOLD] = { 4, 2 },
	[STORAGE_CLASS_LONG] = { 4, 2 },
	[STORAGE_CLASS_STREAM] = { STORAGE_STREAMS_MAX, STORAGE_STREAMS_MAX / 2 },
};

static_assert(12 + 2 + 4 + 4 == STORAGE_JOBS_MAX, "the sum of all classes but streams");

static enum storage_class class_of(const union storage_request *r, bool for_session)
{
	if (storage_msg_is_stream(r))
		return STORAGE_CLASS_STREAM;
	switch (r->head.op) {
	case STORAGE_UNPACK:
		return r->unpack.format == STORAGE_CAPTURE ? STORAGE_CLASS_QUICK
							   : STORAGE_CLASS_LONG;
	case STORAGE_FOLD:
		return for_session ? STORAGE_CLASS_FOLD : STORAGE_CLASS_LONG;
	case STORAGE_SURVEY:
	case STORAGE_ARRANGE:
	case STORAGE_ROOT_MAKE:
		return STORAGE_CLASS_LONG;
	case STORAGE_FILES:
		return STORAGE_CLASS_FILES;
	default:
		return STORAGE_CLASS_QUICK;
	}
}

static void calls_init(struct storage_calls *l)
{
	*l = (struct storage_calls){ .end = &l->first };
}

void storage_queue_init(struct storage_queue *q)
{
	*q = (struct storage_queue){ 0 };
	calls_init(&q->sent);
	calls_init(&q->lost);
}

static struct storage_share *share_of(struct storage_queue *q, const char *tenant)
{
	struct storage_share *s = q->shares;

	while (s != NULL && strcmp(s->tenant, tenant) != 0)
		s = s->next;
	if (s != NULL)
		return s;
	s = calloc(1, sizeof(*s));
	assert(s != NULL);
	(void)snprintf(s->tenant, sizeof(s->tenant), "%s", tenant);
	for (unsigned i = 0; i < STORAGE_CLASSES; i++)
		calls_init(&s->waiting[i]);
	LIST_PUSH(&q->shares, s);
	return s;
}

struct storage_call *storage_queue_call(struct storage_queue *q, const char *tenant,
					bool for_session, const void *request, size_t len)
{
	struct storage_call *c = calloc(1, offsetof(struct storage_call, r) + len);

	assert(c != NULL && len <= sizeof(c->r));
	memset(c->fds, 0xff, sizeof(c->fds)); /* every descriptor -1 */
	c->len = len;
	memcpy(&c->r, request, len);
	c->class = class_of(&c->r, for_session);
	c->share = share_of(q, tenant);
	c->share->calls++;
	return c;
}

void storage_queue_free(struct storage_queue *q, struct storage_call *c)
{
	struct storage_share *s = c->share;

	storage_queue_move(q, c, STORAGE_NOWHERE);
	io_close_all(c->fds, c->nfds);
	free(c);
	if (--s->calls > 0)
		return;
	LIST_REMOVE(s);
	free(s);
}

static struct storage_calls *calls_of(struct storage_queue *q, struct storage_call *c,
				      enum storage_place place)
{
	return place == STORAGE_WAITING ? &c->share->waiting[c->class]
	       : place == STORAGE_SENT	? &q->sent
	       : place == STORAGE_LOST	? &q->lost
					: NULL;
}

void storage_queue_move(struct storage_queue *q, struct storage_call *c, enum storage_place to)
{
	struct storage_calls *from = calls_of(q, c, c->place), *into = calls_of(q, c, to);

	if (from != NULL) {
		LIST_REMOVE_FROM(&from->end, c);
		from->n--;
	}
	if (c->place == STORAGE_SENT) {
		c->share->sent[c->class]--;
		q->at_work[c->class]--;
	}
	if (to == STORAGE_SENT) {
		c->share->sent[c->class]++;
		q->at_work[c->class]++;
		c->share->turn[c->class] = ++q->turn;
	}
	c->place = to;
	if (into != NULL) {
		LIST_APPEND(&into->end, c);
		into->n++;
	}
}

/* Is the first to be served before the second? */
static bool is_before(const struct storage_share *a, const struct storage_share *b, unsigned class)
{
	if (a->sent[class] != b->sent[class])
		return a->sent[class] < b->sent[class];
	return a->turn[class] < b->turn[class];
}

static struct storage_call *next_of(const struct storage_queue *q, unsigned class)
{
	const struct storage_share *best = NULL;

	if (q->at_work[class] >= room[class].all)
		return NULL;
	for (const struct storage_share *s = q->shares; s != NULL; s = s->next)
		if (s->waiting[class].first != NULL && s->sent[class] < room[class].tenant &&
		    (best == NULL || is_before(s, best, class)))
			best = s;
	return best == NULL ? NULL : best->waiting[class].first;
}

struct storage_call *storage_queue_next(const struct storage_queue *q)
{
	struct storage_call *c = NULL;

	for (unsigned class = 0; class < STORAGE_CLASSES && c == NULL; class ++)
		c = next_of(q, class);
	return c;
}

/* The first that waits, of this share and class or one behind them. */
static struct storage_call *first_waiting(const struct storage_share *s, unsigned class)
{
	for (; s != NULL; s = s->next, class = 0)
		for (; class < STORAGE_CLASSES; class ++)
			if (s->waiting[class].first != NULL)
				return s->waiting[class].first;
	return NULL;
}

struct storage_call *storage_queue_each(const struct storage_queue *q, enum storage_place place,
					const struct storage_call *c)
{
	if (c != NULL && c->next != NULL)
		return c->next;
	if (place == STORAGE_WAITING)
		return c == NULL ? first_waiting(q->shares, 0)
				 : first_waiting(c->share, (unsigned)c->class + 1);
	if (c != NULL)
		return NULL;
	return place == STORAGE_SENT ? q->sent.first : q->lost.first;
}
