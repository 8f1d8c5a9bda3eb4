#include "table_follow.h"

#include <stdalign.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>

#include "json.h"
#include "json_view.h"
#include "reply.h"
#include "sse_stream.h"
#include "walk.h"

#define LIMIT 100 /* by default */
#define LIMIT_MAX 1000

struct follower {
	struct sse_stream stream; /* first, see sse_stream.c */
	const struct table_follow_kind *kind;
	struct job job; /* looks at a batch */
	uint64_t after; /* the last record that was looked at */
	bool listening;
	alignas(max_align_t) uint8_t own[];
};

struct listing {
	struct walk walk; /* first */
	const struct table_follow_kind *kind;
	uint64_t after, limit, shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
	alignas(max_align_t) uint8_t own[];
};

/* One of the two. */
struct table_follow_sink {
	struct follower *follower;
	struct listing *listing;
};

/* ---- followed */

static void release(struct request *r, bool answered)
{
	struct follower *f = r->state;

	(void)answered;
	sse_stream_release(&f->stream);
	core_job_cancel(r->core, &f->job);
	if (f->listening)
		f->kind->unlisten(f->own);
}

/* Sends the record if there is room for it. */
static int send_record(struct follower *f, uint64_t seq, const char *event, const void *row)
{
	char id[24];
	struct json j;

	if (!sse_stream_ready(&f->stream))
		return 1;
	json_init_heap(&j, f->kind->record_max);
	f->kind->show(&j, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)seq);
	if (json_ok(&j))
		sse_stream_event(&f->stream, event, id, j.text, j.len);
	json_release(&j);
	return 0;
}

/* If there are more records than a batch, the next one waits after other jobs of the tenant. */
static bool on_batch(struct job *job)
{
	struct request *r = job->arg;
	struct follower *f = r->state;
	struct table_follow_sink to = { .follower = f };
	struct store_looked looked;
	struct err e = { 0 };

	if (f->kind->read_rows(r, f->own, f->after, f->kind->batch, &to, &looked, &e) < 0) {
		f->stream.ended = true;
		exchange_abort(r->x);
		return false;
	}
	f->after = looked.seq;
	if (!looked.end && sse_stream_ready(&f->stream))
		core_job_add(r->core, r->tenant, job);
	return false;
}

void table_follow_wake(struct request *r)
{
	struct follower *f = r->state;

	if (sse_stream_ready(&f->stream))
		core_job_add(r->core, r->tenant, &f->job);
}

static void follow(struct request *r, const struct table_follow_kind *kind,
		   const struct table_follow_query *q, const void *own)
{
	struct follower *f = request_state(r, sizeof(*f) + kind->own_size, release);
	struct err e = { 0 };

	if (f == NULL)
		return;
	f->kind = kind;
	f->after = q->after;
	f->job = (struct job){ .on_piece = on_batch, .arg = r };
	if (own != NULL)
		memcpy(f->own, own, kind->own_size);
	/* Without a number to begin at: from now on. */
	if (request_stream(r, &e) < 0 ||
	    (!q->after_given && kind->read_last(core_store(r->core), &f->after, &e) < 0)) {
		reply_error(r, &e);
		return;
	}
	if (!sse_stream_begin(&f->stream, r, table_follow_wake))
		return;
	kind->listen(r, f->own);
	f->listening = true;
	table_follow_wake(r);
}

/* ---- in pages */

static int list_record(struct listing *l, const void *row)
{
	/* A record may be long: a page ends before it is too large to be sent. */
	l->more = l->shown == l->limit || walk_page_is_full(&l->walk);
	if (l->more || walk_piece_is_full(&l->walk))
		return 1;
	l->kind->show(&l->walk.j, row);
	l->shown++;
	return 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct listing *l = (struct listing *)w;
	struct table_follow_sink to = { .listing = l };
	struct store_looked looked;

	if (l->kind->read_rows(w->r, l->own, l->after, WALK_PIECE, &to, &looked, e) < 0)
		return -1;
	l->after = looked.seq;
	l->end = looked.end;
	return walk_count(w, &looked) && !l->more;
}

static void on_finish(struct walk *w)
{
	struct listing *l = (struct listing *)w;

	json_close(&w->j, ']');
	json_view_next(&w->j, !l->end, l->after);
	json_close(&w->j, '}');
}

static void list(struct request *r, const struct table_follow_kind *kind,
		 const struct table_follow_query *q, const void *own)
{
	struct listing *l = walk_new(r, sizeof(*l) + kind->own_size, on_piece, on_finish);

	if (l == NULL)
		return;
	l->kind = kind;
	l->after = q->after;
	l->limit = q->limit;
	if (own != NULL)
		memcpy(l->own, own, kind->own_size);
	json_open(&l->walk.j, NULL, '{');
	json_open(&l->walk.j, kind->list, '[');
	walk_start(&l->walk);
}

/* ---- both */

int table_follow_add(struct table_follow_sink *to, uint64_t seq, const char *event, const void *row)
{
	if (to->follower != NULL)
		return send_record(to->follower, seq, event, row);
	return list_record(to->listing, row);
}

int table_follow_read(struct request *r, struct table_follow_query *ret, struct err *e)
{
	*ret = (struct table_follow_query){ .limit = LIMIT, .after = UINT64_MAX };
	if (request_bool(r, "follow", &ret->follow, e) < 0 ||
	    request_number(r, "after", 0, INT64_MAX, &ret->after, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &ret->limit, e) < 0)
		return -1;
	ret->after_given =
		(ret->follow && sse_stream_last_id(r, &ret->after)) || ret->after != UINT64_MAX;
	if (!ret->after_given)
		ret->after = 0;
	return 0;
}

void table_follow_start(struct request *r, const struct table_follow_kind *kind,
			const struct table_follow_query *q, const void *own)
{
	if (q->follow)
		follow(r, kind, q, own);
	else
		list(r, kind, q, own);
}
