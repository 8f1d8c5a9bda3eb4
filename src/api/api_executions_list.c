/* api_executions_list.c - a session's executions, in pages, filtered by state. */
#include "api_handlers.h"
#include "json_view.h"
#include "page_walk.h"
#include "reply.h"

struct listing {
	struct page_walk list;	 /* first */
	struct session *session; /* live, in this piece */
	uint32_t states;	 /* a set; 0: all */
};

static int on_row(const struct store_execution *row, void *cookie)
{
	struct listing *l = cookie;
	struct execution *x = NULL;

	if (l->session != NULL && row->ended_ms == 0)
		x = execution_live(l->session, row->id);
	if (x != NULL)
		row = execution_row(x);
	if (l->states != 0 && (l->states & 1U << row->state) == 0)
		return 0;
	if (!page_walk_admits(&l->list))
		return 1;
	json_view_execution(&l->list.walk.j, NULL, row, x);
	return 0;
}

static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	struct listing *l = (struct listing *)p;
	struct request *r = p->walk.r;
	struct store_execution_filter filter = { .session = r->session_id,
						 .states = l->states,
						 .ascending = p->page.ascending,
						 .after_ms = p->page.after_ms,
						 .after_id = p->page.after_id,
						 .limit = WALK_PIECE };

	if (request_owns(r, &l->session, e) < 0)
		return -1;
	return store_execution_list(core_store(r->core), &filter, on_row, l, ret, e);
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
	struct listing *l = page_walk_new(r, sizeof(*l), read_rows);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (request_owns(r, &l->session, &e) < 0 || read_state(r, &l->states, &e) < 0)
		reply_error(r, &e);
	else
		page_walk_start(&l->list, "executions");
}
