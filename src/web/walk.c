#include "walk.h"

#include "core.h"
#include "reply.h"
#include "routes.h"

static void release(struct request *r, bool answered)
{
	struct walk *w = r->state;

	(void)answered;
	core_job_cancel(r->core, &w->job);
	if (w->release != NULL)
		w->release(w);
	json_release(&w->j);
}

void *walk_new(struct request *r, size_t size, int (*on_piece)(struct walk *w, struct err *e),
	       void (*on_finish)(struct walk *w))
{
	struct walk *w = request_state(r, size, release);

	if (w == NULL)
		return NULL;
	w->r = r;
	w->on_piece = on_piece;
	w->on_finish = on_finish;
	w->rows_max = WALK_ROWS;
	json_init_heap(&w->j, REPLY_JSON_MAX);
	return w;
}

static void answer(struct walk *w)
{
	struct json j;

	w->on_finish(w);
	j = w->j; /* w belongs to the request, which must not be used after reply_json() */
	w->j = (struct json){ .full = true };
	reply_json(w->r, 200, &j);
}

static bool on_job(struct job *job)
{
	struct walk *w = job->arg;
	struct err e = { 0 };
	int got;

	loop_note(core_loop(w->r->core), w->r->route->pattern);
	w->piece_began = w->j.len;
	got = w->on_piece(w, &e);
	if (got > 0)
		return true;
	if (got < 0)
		reply_error(w->r, &e);
	else
		answer(w);
	return false;
}

void walk_start(struct walk *w)
{
	w->job.on_piece = on_job;
	w->job.arg = w;
	core_job_add(w->r->core, w->r->tenant, &w->job);
}

int walk_count(struct walk *w, const struct store_looked *looked)
{
	w->rows += looked->rows;
	return !looked->end && w->rows < w->rows_max;
}

bool walk_piece_is_full(const struct walk *w)
{
	return w->j.len - w->piece_began >= WALK_PIECE_BYTES;
}

bool walk_page_is_full(const struct walk *w)
{
	return w->j.len >= WALK_BYTES;
}
