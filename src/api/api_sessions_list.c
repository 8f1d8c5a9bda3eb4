/* api_sessions_list.c - the tenant's sessions, in pages, filtered by state, template and metadata.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "page_walk.h"
#include "reply.h"
#include "json_view.h"
#include "url.h"

#define WANTED_MAX 8 /* metadata.NAME=VALUE in one query */
#define WANTED_TEXT_MAX 512
#define SCAN_MAX (64U << 10) /* bytes of metadata that one piece parses, about */
#define SCAN_ROW 256	     /* what a row costs without any */

enum { ENDED_ANY, ENDED_NO, ENDED_YES };
static const char *const ended_words[] = { "any", "false", "true" };

struct listing {
	struct page_walk list; /* first */
	uint32_t states;       /* a set of those that are shown; 0: all */
	unsigned ended;	       /* a place in ended_words */
	char template[STORE_NAME_MAX];
	size_t scanned; /* in this piece */
	unsigned nwanted;
	char names[WANTED_MAX][WANTED_TEXT_MAX], values[WANTED_MAX][WANTED_TEXT_MAX];
};

static int read_wanted(struct listing *l, struct err *e)
{
	struct http1_span rest = exchange_request(l->list.walk.r->x)->query, name, value;
	char text[WANTED_TEXT_MAX];
	static const char prefix[] = "metadata.";

	while (url_query_next(&rest, &name, &value)) {
		if (url_decode_form(name, text, sizeof(text)) < 0 ||
		    strncmp(text, prefix, sizeof(prefix) - 1) != 0)
			continue;
		if (l->nwanted == WANTED_MAX)
			return err_set(e, ERR_INVALID, "at most %d metadata.* filters", WANTED_MAX);
		if (url_decode_form(value, l->values[l->nwanted], WANTED_TEXT_MAX) < 0)
			return err_set(e, ERR_INVALID,
				       "a metadata.* filter is malformed or too long");
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

static bool is_in_state(const struct listing *l, const struct store_session *row)
{
	if (l->ended != ENDED_ANY && (l->ended == ENDED_YES) != (row->ended_ms != 0))
		return false;
	return l->states == 0 || (l->states & 1U << session_shown_state(row)) != 0;
}

static int on_row(const struct store_session *row, void *cookie)
{
	struct listing *l = cookie;
	struct session *live;

	if (l->scanned > SCAN_MAX || walk_piece_is_full(&l->list.walk))
		return 1;
	row = session_now(l->list.walk.r->core, row, &live);
	if (!is_in_state(l, row))
		return 0;
	if (l->nwanted > 0)
		l->scanned += strlen(row->metadata) + SCAN_ROW;
	if (!is_wanted(l, row))
		return 0;
	if (!page_walk_admits(&l->list))
		return 1;
	/* Last known numbers: reading a hundred cgroups takes too long for a list. */
	json_view_session(&l->list.walk.j, NULL, row, live, false, false);
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
			return err_set(e, ERR_INVALID, "parameter state: unknown state");
		*ret |= 1U << s;
	}
	return 0;
}

static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	struct listing *l = (struct listing *)p;
	const struct request *r = p->walk.r;
	struct store_session_filter filter = {
		.tenant = tenant_row(r->tenant)->id,
		/* Of those that have ended; the others all pass. */
		.states = l->ended == ENDED_NO ? 1U << SESSION_RUNNING : l->states,
		.template = l->template[0] == '\0' ? NULL : l->template,
		.ascending = p->page.ascending,
		.after_ms = p->page.after_ms,
		.after_id = p->page.after_id,
		.limit = WALK_PIECE,
	};

	l->scanned = 0;
	return store_session_list(core_store(r->core), &filter, on_row, l, ret, e);
}

void api_sessions_list(struct request *r)
{
	struct listing *l = page_walk_new(r, sizeof(*l), read_rows);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (read_states(r, &l->states, &e) < 0 ||
	    request_choice(r, "ended", ended_words, COUNT(ended_words), &l->ended, &e) < 0 ||
	    request_text(r, "template", l->template, sizeof(l->template), &e) < 0 ||
	    read_wanted(l, &e) < 0)
		reply_error(r, &e);
	else
		page_walk_start(&l->list, "sessions");
}
