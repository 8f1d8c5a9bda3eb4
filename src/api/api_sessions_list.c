/* api_sessions_list.c - the tenant's sessions, in pages, filtered. Rows are looked at in pieces
 * (walk.h); a page may be empty and have a next one. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "page.h"
#include "reply.h"
#include "json_views.h"
#include "url.h"
#include "walk.h"

#define WANTED_MAX 8 /* metadata.NAME=VALUE in one query */
#define WANTED_TEXT_MAX 512
#define SCAN_MAX (64U << 10) /* bytes of metadata that one piece parses, about */
#define SCAN_ROW 256	     /* what a row costs without any */

struct listing {
	struct walk walk; /* first */
	struct page page;
	uint32_t states; /* a set; 0: all */
	char template[STORE_NAME_MAX];
	unsigned shown;
	size_t scanned; /* in this piece */
	bool more;	/* than the page may have */
	bool end;	/* there are no more */
	unsigned nwanted;
	char names[WANTED_MAX][WANTED_TEXT_MAX], values[WANTED_MAX][WANTED_TEXT_MAX];
};

static int read_wanted(struct listing *l, struct err *e)
{
	struct http1_span rest = exchange_request(l->walk.r->x)->query, name, value;
	char text[WANTED_TEXT_MAX];
	static const char prefix[] = "metadata.";

	while (url_query_next(&rest, &name, &value)) {
		if (url_decode_form(name, text, sizeof(text)) < 0 ||
		    strncmp(text, prefix, sizeof(prefix) - 1) != 0)
			continue;
		if (l->nwanted == WANTED_MAX)
			return err_set(e, ERR_INVALID, "at most %d filters metadata.*", WANTED_MAX);
		if (url_decode_form(value, l->values[l->nwanted], WANTED_TEXT_MAX) < 0)
			return err_set(e, ERR_INVALID,
				       "a filter metadata.* is malformed or too long");
		(void)snprintf(l->names[l->nwanted++], WANTED_TEXT_MAX, "%s",
			       text + sizeof(prefix) - 1);
	}
	return 0;
}

static bool is_wanted(const struct listing *l, const struct store_session *row)
{
	json_t *metadata;
	unsigned i = 0;

	if (l->nwanted == 0)
		return true;
	metadata = json_loads(row->metadata, 0, NULL);
	while (i < l->nwanted) {
		const char *value = json_string_value(json_object_get(metadata, l->names[i]));

		if (value == NULL || strcmp(value, l->values[i]) != 0)
			break;
		i++;
	}
	json_decref(metadata);
	return i == l->nwanted;
}

static int list_one(const struct store_session *row, void *cookie)
{
	struct listing *l = cookie;
	struct session *live;

	if (l->scanned > SCAN_MAX || walk_piece_is_full(&l->walk))
		return 1;
	row = session_now(l->walk.r->core, row, &live);
	if (l->states != 0 && (l->states & 1U << row->state) == 0)
		return 0;
	if (l->nwanted > 0)
		l->scanned += strlen(row->metadata) + SCAN_ROW;
	if (!is_wanted(l, row))
		return 0;
	l->more = l->shown == l->page.limit || walk_page_is_full(&l->walk);
	if (l->more)
		return 1;
	/* Numbers of the last look: reading a hundred cgroups is too much for a list. */
	json_view_session(&l->walk.j, NULL, row, live, false);
	l->shown++;
	return 0;
}

/* "running,paused" as a set. */
static int read_states(struct request *r, uint32_t *ret, struct err *e)
{
	char text[128];

	if (request_text(r, "state", text, sizeof(text), e) < 0)
		return -1;
	for (char *at = text, *next; *at != '\0'; at = next) {
		size_t n = strcspn(at, ",");
		unsigned s = 0;

		next = at[n] == '\0' ? at + n : at + n + 1;
		at[n] = '\0';
		while (s < SESSION_STATES &&
		       strcmp(session_state_name((enum session_state)s), at) != 0)
			s++;
		if (s == SESSION_STATES)
			return err_set(e, ERR_INVALID, "parameter state: there is no such state");
		*ret |= 1U << s;
	}
	return 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct listing *l = (struct listing *)w;
	struct store_session_filter filter = {
		.tenant = tenant_row(w->r->tenant)->id,
		.states = l->states,
		.template = l->template[0] == '\0' ? NULL : l->template,
		.ascending = l->page.ascending,
		.after_ms = l->page.after_ms,
		.after_id = l->page.after_id,
		.limit = WALK_PIECE,
	};
	struct store_looked looked;

	l->scanned = 0;
	if (store_session_list(core_store(w->r->core), &filter, list_one, l, &looked, e) < 0)
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

void api_sessions_list(struct request *r)
{
	struct listing *l = walk_new(r, sizeof(*l), on_piece, on_finish);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (page_read(r, &l->page, &e) < 0 || read_states(r, &l->states, &e) < 0 ||
	    request_text(r, "template", l->template, sizeof(l->template), &e) < 0 ||
	    read_wanted(l, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_open(&l->walk.j, NULL, '{');
	json_open(&l->walk.j, "sessions", '[');
	walk_start(&l->walk);
}
