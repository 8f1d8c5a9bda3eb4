#include "front/web/list_job.h"

#include "daemon/node/core.h"
#include "front/web/reply.h"
#include "front/web/routes.h"

/* The job may be queued, done, or never started. */
static void list_job_release(struct request *r, bool answered)
{
	struct list_job *w = r->state;

	core_job_cancel(r->core, &w->job);
	if (w->release != NULL)
		w->release(w);
	json_release(&w->j);
}

void *list_job_new(struct request *r, size_t size,
		   int (*on_piece)(struct list_job *w, struct err *e),
		   void (*on_finish)(struct list_job *w))
{
	struct list_job *w = request_state(r, size, list_job_release);

	if (w == NULL)
		return NULL;
	w->r = r;
	w->on_piece = on_piece;
	w->on_finish = on_finish;
	w->rows_max = LIST_JOB_ROWS;
	json_init_heap(&w->j, REPLY_JSON_MAX);
	return w;
}

static void list_job_answer(struct list_job *w)
{
	struct json j;

	w->on_finish(w);
	j = w->j; /* w belongs to the request, which must not be used after reply_json() */
	w->j = (struct json){ .full = true };
	reply_json(w->r, 200, &j);
}

/* True: there is another piece. */
static bool on_job(struct job *job)
{
	struct list_job *w = job->arg;
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
		list_job_answer(w);
	return false;
}

/* The first piece runs in a turn of the tenant, never in this call. */
void list_job_start(struct list_job *w)
{
	w->job.on_piece = on_job;
	w->job.arg = w;
	core_job_add(w->r->core, w->r->tenant, &w->job);
}

int list_job_count(struct list_job *w, const struct store_looked *looked)
{
	w->rows += looked->rows;
	return !looked->end && w->rows < w->rows_max;
}

bool list_job_piece_is_full(const struct list_job *w)
{
	return w->j.len - w->piece_began >= LIST_JOB_PIECE_BYTES;
}

bool list_job_page_is_full(const struct list_job *w)
{
	return w->j.len >= LIST_JOB_BYTES;
}
