/* sandbox_list.c - theory of operation
 *
 * Only live sessions are sandboxes, and those are in memory: a request filters and sorts them, and
 * writes one page. Their number is bounded by the tenant's quota. It is one piece of the tenant's
 * long work (list_job.h), so that many lists at once do not make one long turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/base/rfc3339.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/control/sandbox_filter.h"
#include "front/e2b/control/template_find.h"
#include "front/web/json_view.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

#define LIMIT_MAX 100

/* A row is borrowed from its session, within one piece of work. */
struct sandbox_list_found {
	const struct store_session *row;
};

/* The state of a list: its filters, its page, and the sandboxes found. */
struct sandbox_list {
	struct list_job job; /* first */
	struct request *r;
	struct sandbox_filter metadata;
	unsigned states;
	bool by_template;
	char template[256];  /* if by_template: the name of the session's */
	uint64_t started_us; /* not before */
	bool ascending;
	struct sandbox_filter_cursor from; /* id "": from the start */
	uint64_t limit;			   /* 0: none */
	struct sandbox_list_found *found;  /* owned */
	size_t n, cap;
	unsigned running;
	bool failed;
};

static bool is_wanted(const struct sandbox_list *l, const struct store_session *row)
{
	unsigned state = sandbox_is_paused(row) ? SANDBOX_FILTER_PAUSED : SANDBOX_FILTER_RUNNING;

	/* E2B's clients did not make the sessions of MCP servers, and would end them as forgotten.
	 */
	return sandbox_exists(row) && !json_view_is_mcp_server(row) && (l->states & state) != 0 &&
	       (!l->by_template || strcmp(l->template, row->template) == 0) &&
	       row->started_ms * 1000 >= l->started_us &&
	       sandbox_filter_matches(&l->metadata, row->metadata == NULL ? "" : row->metadata);
}

/* session_each() cannot be stopped, so a failure only skips the rest. */
static void on_session(struct session *s, void *arg)
{
	struct sandbox_list *l = arg;
	const struct store_session *row = session_row(s);

	if (l->failed || !is_wanted(l, row))
		return;
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
		void *more = realloc(l->found, cap * sizeof(*l->found));

		if (more == NULL) {
			l->failed = true;
			return;
		}
		l->found = more;
		l->cap = cap;
	}
	l->found[l->n++].row = row;
	l->running += !sandbox_is_paused(row);
}

/* Order by start, the newest first, then by id. */
static int sandbox_list_order(uint64_t a_ms, const char *a_id, uint64_t b_ms, const char *b_id)
{
	if (a_ms != b_ms)
		return a_ms > b_ms ? -1 : 1;
	return strcmp(a_id, b_id);
}

static int sandbox_list_compare(const void *a, const void *b)
{
	const struct store_session *x = ((const struct sandbox_list_found *)a)->row;
	const struct store_session *y = ((const struct sandbox_list_found *)b)->row;

	return sandbox_list_order(x->started_ms, x->id, y->started_ms, y->id);
}

static int compare_ascending(const void *a, const void *b)
{
	return sandbox_list_compare(b, a);
}

/* Is it behind the page before? */
static bool is_behind(const struct sandbox_list *l, const struct store_session *row)
{
	int where;

	if (l->from.id[0] == '\0')
		return true;
	where = sandbox_list_order(row->started_ms, row->id, l->from.ms, l->from.id);
	return l->ascending ? where < 0 : where > 0;
}

/* The token of the page that begins behind a row. */
static void set_next(struct sandbox_list *l, const struct store_session *last)
{
	struct sandbox_filter_cursor next = { .ms = last->started_ms, .ascending = l->ascending };
	char token[SANDBOX_FILTER_CURSOR_MAX];

	str_copy(next.id, last->id);
	sandbox_filter_cursor_write(&next, token);
	exchange_header(l->r->x, "X-Next-Token", token);
}

/* A next token is given only if another row follows. */
static void write_page(struct sandbox_list *l, struct json *j)
{
	const struct store_session *last = NULL;
	uint64_t shown = 0;

	json_open(j, NULL, '[');
	for (size_t i = 0; i < l->n; i++) {
		if (!is_behind(l, l->found[i].row))
			continue;
		if (last != NULL && shown == l->limit) {
			set_next(l, last);
			break;
		}
		sandbox_shape_listed(j, NULL, e2b_of(l->r), l->found[i].row);
		last = l->found[i].row;
		shown++;
	}
	json_close(j, ']');
}

/* The only piece. on_finish() follows in this turn, while the rows are valid. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct sandbox_list *l = (struct sandbox_list *)w;

	session_each(l->r->core, l->r->tenant, on_session, l);
	return l->failed ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

/* X-Total-Running counts sandboxes of all pages. */
static void on_finish(struct list_job *w)
{
	struct sandbox_list *l = (struct sandbox_list *)w;
	char total[16];

	if (l->n > 0)
		qsort(l->found, l->n, sizeof(*l->found),
		      l->ascending ? compare_ascending : sandbox_list_compare);
	if ((l->states & SANDBOX_FILTER_RUNNING) != 0) {
		(void)snprintf(total, sizeof(total), "%u", l->running);
		exchange_header(l->r->x, "X-Total-Running", total);
	}
	write_page(l, &w->j);
}

static int read_metadata(struct sandbox_list *l, struct err *e)
{
	char text[SANDBOX_FILTER_TEXT_MAX];

	return request_text(l->r, "metadata", text, sizeof(text), e) < 0
		       ? -1
		       : sandbox_filter_read(text, &l->metadata, e);
}

static int read_template(struct sandbox_list *l, struct err *e)
{
	const struct template_version *v;
	char text[256];

	if (request_text(l->r, "template", text, sizeof(text), e) < 0)
		return -1;
	if (strchr(text, ':') != NULL)
		return err_set(e, ERR_INVALID, "parameter template: must not have a tag");
	l->by_template = text[0] != '\0';
	v = l->by_template ? template_find(l->r->core, l->r->tenant, text) : NULL;
	/* A removed template may still have sessions. */
	str_copy(l->template, v == NULL ? text : template_row(v)->name);
	return 0;
}

static int read_page(struct sandbox_list *l, struct err *e)
{
	static const char *const orders[] = { "desc", "asc" };
	char text[SANDBOX_FILTER_CURSOR_MAX];
	unsigned which = 0;

	l->limit = LIMIT_MAX;
	if (request_number(l->r, "limit", 1, LIMIT_MAX, &l->limit, e) < 0 ||
	    request_choice(l->r, "order", orders, COUNT(orders), &which, e) < 0 ||
	    request_text(l->r, "startedAfter", text, sizeof(text), e) < 0)
		return -1;
	l->ascending = which == 1;
	if (text[0] != '\0' && rfc3339_read(text, &l->started_us) < 0)
		return err_set(e, ERR_INVALID,
			       "parameter startedAfter: must be a time of RFC 3339");
	if (request_text(l->r, "nextToken", text, sizeof(text), e) < 0)
		return -1;
	if (text[0] == '\0')
		return 0;
	if (sandbox_filter_cursor_read(text, &l->from, e) < 0)
		return -1;
	if (l->from.ascending != l->ascending)
		return err_set(e, ERR_INVALID,
			       "parameter nextToken: belongs to a list in another order");
	return 0;
}

/* -1: a parameter is malformed, and e names it. */
static int read_v2(struct sandbox_list *l, struct err *e)
{
	char states[64];

	if (request_text(l->r, "state", states, sizeof(states), e) < 0 ||
	    sandbox_filter_states(states, &l->states, e) < 0 || read_template(l, e) < 0 ||
	    read_page(l, e) < 0)
		return -1;
	return read_metadata(l, e);
}

static void sandbox_list_release(struct list_job *w)
{
	struct sandbox_list *l = (struct sandbox_list *)w;

	sandbox_filter_release(&l->metadata);
	free(l->found);
}

/* read takes the parameters of one version. v1 has no pages, so its limit stays 0. */
static void sandbox_list_begin(struct request *r,
			       int (*read)(struct sandbox_list *l, struct err *e))
{
	struct sandbox_list *l;
	struct err e = { 0 };
	const char *why;

	if (!core_ready(r->core, &why)) { /* then there may be more of them */
		reply_code(r, 503, "unavailable", why);
		return;
	}
	l = list_job_new(r, sizeof(*l), on_piece, on_finish);
	if (l == NULL)
		return;
	l->job.release = sandbox_list_release;
	l->r = r;
	l->states = SANDBOX_FILTER_RUNNING;
	if (read(l, &e) < 0)
		reply_error(r, &e);
	else
		list_job_start(&l->job);
}

void sandbox_list_v1(struct request *r)
{
	sandbox_list_begin(r, read_metadata);
}

void sandbox_list_v2(struct request *r)
{
	sandbox_list_begin(r, read_v2);
}
