/* api_sessions_list.c - the tenant's sessions, in pages, filtered. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "cursor.h"
#include "page.h"
#include "reply.h"
#include "shape.h"
#include "url.h"

#define WANTED_MAX 8 /* metadata.NAME=VALUE in one query */
#define WANTED_TEXT_MAX 512
/* Bytes of metadata that one request may have parsed: as long nobody else is served. What was not
 * looked at is behind the cursor. */
#define SCAN_MAX (2U << 20)
#define SCAN_ROW 256 /* what a row costs without any */

struct listing {
	struct request *r;
	struct json *j;
	struct page page;
	unsigned shown;
	size_t scanned;
	bool more;
	uint64_t last_ms;
	char last_id[STORE_ID_MAX];
	unsigned nwanted;
	char names[WANTED_MAX][WANTED_TEXT_MAX], values[WANTED_MAX][WANTED_TEXT_MAX];
};

static int read_wanted(struct listing *l, struct err *e)
{
	struct http1_span rest = exchange_request(l->r->x)->query, name, value;
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
	struct err e;

	bool wanted = l->scanned <= SCAN_MAX && is_wanted(l, row);

	if (l->scanned > SCAN_MAX || (wanted && l->shown == l->page.limit)) {
		l->more = true;
		return 1;
	}
	l->last_ms = row->created_ms;
	(void)snprintf(l->last_id, sizeof(l->last_id), "%s", row->id);
	if (l->nwanted > 0)
		l->scanned += strlen(row->metadata) + SCAN_ROW;
	if (!wanted)
		return 0;
	if (row->state == SESSION_STOPPED) {
		shape_session(l->j, NULL, row, NULL, false);
	} else {
		struct session *s = session_live(l->r->core, l->r->tenant, row->id, &e);

		/* Numbers of the last look: reading a hundred cgroups is too much for a list. */
		shape_session(l->j, NULL, s == NULL ? row : session_row(s), s, false);
	}
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

static int list(struct listing *l, struct err *e)
{
	struct store_session_filter filter = { .tenant = tenant_row(l->r->tenant)->id };
	char template[STORE_NAME_MAX];

	if (page_read(l->r, &l->page, e) < 0 || read_states(l->r, &filter.states, e) < 0 ||
	    request_text(l->r, "template", template, sizeof(template), e) < 0 ||
	    read_wanted(l, e) < 0)
		return -1;
	filter.template = template[0] == '\0' ? NULL : template;
	filter.ascending = l->page.ascending;
	filter.after_ms = l->page.after_ms;
	filter.after_id = l->page.after_id;
	filter.limit = l->nwanted == 0 ? l->page.limit + 1 : 0;
	return store_session_list(core_store(l->r->core), &filter, list_one, l, e);
}

void api_sessions_list(struct request *r)
{
	struct listing l = { .r = r };
	struct err e = { 0 };
	struct json j;

	json_init_heap(&j, REPLY_JSON_MAX);
	l.j = &j;
	json_open(&j, NULL, '{');
	json_open(&j, "sessions", '[');
	if (list(&l, &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	json_close(&j, ']');
	if (l.more)
		cursor_write(&j, "next", l.last_ms, l.last_id);
	else
		json_none(&j, "next");
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
