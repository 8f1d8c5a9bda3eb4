/* api_executions_list.c - a session's executions, in pages, filtered by state. Rows are looked at
 * in pieces (walk.h); a page may be empty and have a next one. */
#include "api_handlers.h"
#include "cursor.h"
#include "page.h"
#include "reply.h"
#include "json_views.h"
#include "walk.h"

struct listing {
	struct walk walk; /* first */
	struct page page;
	struct session *session; /* live, in this piece */
	uint32_t states;	 /* a set; 0: all */
	unsigned shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
};

static int list_one(const struct store_execution *row, void *cookie)
{
	struct listing *l = cookie;
	struct execution *x = NULL;

	if (l->session != NULL && row->ended_ms == 0)
		x = execution_live(l->session, row->id);
	if (x != NULL)
		row = execution_row(x);
	if (l->states != 0 && (l->states & 1U << row->state) == 0)
		return 0;
	l->more = l->shown == l->page.limit || walk_page_is_full(&l->walk);
	if (l->more || walk_piece_is_full(&l->walk))
		return 1;
	json_view_execution(&l->walk.j, NULL, row, x);
	l->shown++;
	return 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct listing *l = (struct listing *)w;
	struct request *r = w->r;
	struct store_execution_filter filter = { .session = r->session_id,
						 .states = l->states,
						 .ascending = l->page.ascending,
						 .after_ms = l->page.after_ms,
						 .after_id = l->page.after_id,
						 .limit = WALK_PIECE };
	struct store_looked looked;

	if (request_owns(r, &l->session, e) < 0 ||
	    store_execution_list(core_store(r->core), &filter, list_one, l, &looked, e) < 0)
		return -1;
	page_go_on(&l->page, &looked);
	l->end = looked.end;
	return walk_count(w, &looked) && !l->more;
}

static void on_finish(struct walk *w)
{
	struct listing *l = (struct listing *)w;

	json_close(&w->j, ']');
	page_next(&w->j, &l->page, l->end);
	json_close(&w->j, '}');
}

static int read_state(struct request *r, uint32_t *ret, struct err *e)
{
	const char *names[EXECUTION_STATES];
	unsigned state = EXECUTION_STATES;

	for (unsigned i = 0; i < EXECUTION_STATES; i++)
		names[i] = execution_state_name((enum execution_state)i);
	if (request_choice(r, "state", names, EXECUTION_STATES, &state, e) < 0)
		return -1;
	*ret = state == EXECUTION_STATES ? 0 : 1U << state;
	return 0;
}

void api_executions_list(struct request *r)
{
	struct listing *l = walk_new(r, sizeof(*l), on_piece, on_finish);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (request_owns(r, &l->session, &e) < 0 || page_read(r, &l->page, &e) < 0 ||
	    read_state(r, &l->states, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_open(&l->walk.j, NULL, '{');
	json_open(&l->walk.j, "executions", '[');
	walk_start(&l->walk);
}
