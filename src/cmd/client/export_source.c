/* export_source.c - see export_source.h. The first part finds traces and details, the second reads
 * the audit log, the third the network records. export_source_next() joins them to one batch: one
 * page of each kind of record.
 *
 * Items point into s->pages and s->shown, so all of these live until the next batch. The caller's
 * cursor moves only when the receiver has the batch. s->after is its next value. */
#include "cmd/client/export_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/member.h"
#include "lib/base/str.h"

#define KNOWN_MAX 4096
#define SESSIONS_MAX 10000
#define ID_MAX 64

/* Traces of known sessions. The hash of the id names the place. A place is overwritten by
 * another session with the same hash. Then the server is asked again, so the table is a cache
 * and never wrong. */
struct export_known {
	struct export_source_known {
		char session[ID_MAX];
		struct export_trace trace;
	} all[KNOWN_MAX];
};

int export_source_open(struct export_source *s, struct err *e)
{
	s->known = calloc(1, sizeof(*s->known));
	return s->known == NULL ? err_sys(e, "allocate") : 0;
}

/* Items of the last batch are invalid from here on. */
static void source_drop(struct export_source *s)
{
	for (size_t i = 0; i < COUNT(s->pages); i++) {
		json_decref(s->pages[i]);
		s->pages[i] = NULL;
	}
	while (s->nshown > 0)
		json_decref(s->shown[--s->nshown]);
	s->n = 0;
}

void export_source_release(struct export_source *s)
{
	source_drop(s);
	free(s->known);
	s->known = NULL;
}

/* ---- sessions and executions */

/* GET of one thing. NULL without an error: it is not there any more. */
static int source_show(struct export_source *s, const struct target *t, const json_t **ret,
		       struct err *e)
{
	json_t *got = NULL;

	*ret = NULL;
	if (api_call_json(s->api, "GET", t, NULL, &got, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (got == NULL || s->nshown == COUNT(s->shown)) {
		json_decref(got);
		return 0;
	}
	s->shown[s->nshown++] = got;
	*ret = got;
	return 0;
}

/* FNV-1a. A collision costs a request. */
static struct export_source_known *known_place(struct export_source *s, const char *session)
{
	uint64_t h = 14695981039346656037ULL;

	for (const char *p = session; *p != '\0'; p++)
		h = (h ^ (uint8_t)*p) * 1099511628211ULL;
	return &s->known->all[h % KNOWN_MAX];
}

/* Remember the trace, whether or not the place is taken. */
static void export_source_know(struct export_source *s, const char *session,
			       const char *traceparent)
{
	struct export_source_known *k = known_place(s, session);

	str_copy(k->session, session);
	export_trace_of(session, traceparent, &k->trace);
}

static int find_session(struct export_source *s, const char *id, const json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/sessions");
	target_part(&t, id);
	return source_show(s, &t, ret, e);
}

/* Find the trace of the record's session. If the session's row is gone, the trace follows from the
 * id alone. */
static int source_trace(struct export_source *s, struct export_item *i, const char *session,
			struct err *e)
{
	const struct export_source_known *k = known_place(s, session);

	i->trace = (struct export_trace){ 0 };
	if (session[0] == '\0' || strlen(session) >= ID_MAX || !s->details)
		return 0;
	if (strcmp(k->session, session) != 0) {
		const json_t *shown;

		if (find_session(s, session, &shown, e) < 0)
			return -1;
		export_source_know(s, session, member_text(shown, "traceparent", NULL));
	}
	i->trace = k->trace;
	return 0;
}

/* The ends of sessions and executions become spans, whose times are in the server's rows. Both
 * may be gone already: the span then has what the record says. */
static int source_details(struct export_source *s, struct export_item *i, struct err *e)
{
	const char *type = member_text(i->record, "type", ""),
		   *session = member_text(i->record, "session", ""),
		   *execution = member_text(i->record, "execution", "");
	struct target t;

	if (!s->details || session[0] == '\0')
		return 0;
	if (strcmp(type, "session.ended") == 0)
		return find_session(s, session, &i->session, e);
	if (strcmp(type, "execution.ended") != 0)
		return 0;
	target_init(&t, "/v1/sessions");
	target_part(&t, session);
	target_part(&t, "executions");
	target_part(&t, execution);
	return source_show(s, &t, &i->execution, e);
}

/* ---- the audit log */

/* "cordon.NODE/TENANT/EPOCH" without its last part. */
static void log_of(const char *origin, char ret[EXPORT_ORIGIN_MAX])
{
	const char *end = strrchr(origin, '/');

	(void)snprintf(ret, EXPORT_ORIGIN_MAX, "%.*s",
		       (int)(end == NULL ? strlen(origin) : (size_t)(end - origin)), origin);
}

/* How long the log is. Unlike a page it is no reading, so looking again and again leaves no
 * records. */
static int audit_state(struct export_source *s, json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/audit/checkpoint");
	target_query(&t, "tenant", s->tenant);
	return api_call_json(s->api, "GET", &t, NULL, ret, e);
}

/* The page begins behind the last exported record. after is left out at the beginning, because
 * record 0 exists. */
static int audit_page(struct export_source *s, const struct export_cursor *c, json_t **ret,
		      struct err *e)
{
	struct target t;

	target_init(&t, "/v1/audit");
	target_query_number(&t, "limit", EXPORT_BATCH);
	target_query(&t, "tenant", s->tenant);
	target_query_number(&t, "epoch", c->epoch);
	if (c->next > 0)
		target_query_number(&t, "after", c->next - 1);
	return api_call_json(s->api, "GET", &t, NULL, ret, e);
}

/* The page behind the cursor, NULL if nothing is new. A log that ended is read to its end before
 * the one after it. Then network records are read again: a restored store gives their numbers
 * again. */
static int audit_next(struct export_source *s, struct export_cursor *c, const json_t *state,
		      json_t **ret, struct err *e)
{
	uint64_t last = member_number(state, "epoch", 1);

	*ret = NULL;
	if (c->epoch == 0)
		c->epoch = 1;
	for (; c->epoch < last; c->epoch++, c->next = c->network = 0) {
		if (audit_page(s, c, ret, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		if (json_array_size(json_object_get(*ret, "records")) > 0)
			return 0;
		json_decref(*ret);
		*ret = NULL;
	}
	return c->next >= member_number(state, "records", 0) ? 0 : audit_page(s, c, ret, e);
}

/* A cursor of another log would skip records, so it is refused. The name goes into the cursor's
 * JSON, so its characters are checked. */
static int check_log(struct export_cursor *c, const json_t *state, struct err *e)
{
	char log[EXPORT_ORIGIN_MAX];

	log_of(member_text(state, "origin", ""), log);
	if (c->log[0] != '\0' && strcmp(c->log, log) != 0)
		return err_set(e, ERR_CONFLICT, "the cursor is of the log %.80s, not of %.80s",
			       c->log, log);
	if (strspn(log, "abcdefghijklmnopqrstuvwxyz0123456789./_") != strlen(log))
		return err_set(e, ERR_SYSTEM, "the server's log has no valid name");
	str_copy(c->log, log);
	return 0;
}

/* Retention deleted records before they were exported. The export continues, and stderr has the
 * gap. */
static void tell_gap(const struct export_cursor *c, const json_t *page)
{
	uint64_t first = member_number(page, "first", 0);

	if (first > c->next)
		(void)fprintf(stderr,
			      "cordon: records %llu to %llu of %s were deleted before they were "
			      "exported (audit_retention)\n",
			      (unsigned long long)c->next, (unsigned long long)first - 1, c->log);
}

/* At most EXPORT_BATCH. c->next follows each item, so that a break in between loses none. */
static int add_audit(struct export_source *s, struct export_cursor *c, const json_t *page,
		     struct err *e)
{
	const json_t *records = member_group(page, "records"), *row;
	size_t at;

	json_array_foreach((json_t *)(uintptr_t)records, at, row)
	{
		struct export_item *i = &s->items[s->n];
		const json_t *record = json_object_get(row, "record"),
			     *side = json_object_get(row, "side");
		const char *session = member_text(record, "session", "");

		if (s->n == EXPORT_BATCH)
			break;
		*i = (struct export_item){ .kind = EXPORT_AUDIT,
					   .seq = member_number(row, "seq", 0),
					   .record = record,
					   .side = s->values && json_is_object(side) ? side
										     : NULL };
		str_copy(i->origin, s->origin);
		if (strcmp(member_text(record, "type", ""), "session.created") == 0)
			export_source_know(
				s, session,
				member_text(member_group(record, "data"), "traceparent", NULL));
		if (source_trace(s, i, session, e) < 0 || source_details(s, i, e) < 0)
			return -1;
		s->n++;
		c->next = i->seq + 1;
	}
	/* Records up to this number were looked at. */
	if (json_is_integer(json_object_get(page, "next")) &&
	    member_number(page, "next", 0) + 1 > c->next)
		c->next = member_number(page, "next", 0) + 1;
	return 0;
}

/* ---- network records */

/* Network records of another tenant cannot be read, so there are none with --tenant. Their
 * numbers are those of this tenant's records. */
static int add_network(struct export_source *s, struct export_cursor *c, struct err *e)
{
	const json_t *records, *row;
	struct target t;
	size_t at, most = s->n + EXPORT_BATCH;

	if (s->tenant != NULL)
		return 0;
	target_init(&t, "/v1/network/log");
	target_query_number(&t, "limit", EXPORT_BATCH);
	target_query_number(&t, "after", c->network);
	if (api_call_json(s->api, "GET", &t, NULL, &s->pages[1], e) < 0)
		return -1;
	records = member_group(s->pages[1], "records");
	json_array_foreach((json_t *)(uintptr_t)records, at, row)
	{
		struct export_item *i = &s->items[s->n];

		if (s->n == most)
			break;
		*i = (struct export_item){ .kind = EXPORT_NETWORK,
					   .seq = member_number(row, "seq", 0),
					   .record = row };
		(void)snprintf(i->origin, sizeof(i->origin), "%.240s/network", c->log);
		if (source_trace(s, i, member_text(row, "session_id", ""), e) < 0)
			return -1;
		s->n++;
		c->network = i->seq;
	}
	return 0;
}

/* The state of the log is asked first: without new records no page is read, because reading is
 * itself recorded. */
int export_source_next(struct export_source *s, const struct export_cursor *c, struct err *e)
{
	struct export_cursor *to = &s->after;
	OWN_JSON *state = NULL;
	const char *end;

	source_drop(s);
	*to = *c;
	if (audit_state(s, &state, e) < 0 || check_log(to, state, e) < 0 ||
	    audit_next(s, to, state, &s->pages[0], e) < 0)
		return -1;
	str_copy(s->origin, member_text(s->pages[0] == NULL ? state : s->pages[0], "origin", ""));
	end = strchr(to->log, '/');
	str_copy(s->own_tenant, end == NULL || strcmp(end, "/node") == 0 ? "" : end + 1);
	if (s->pages[0] != NULL) {
		tell_gap(to, s->pages[0]);
		if (add_audit(s, to, s->pages[0], e) < 0)
			return -1;
	}
	if (add_network(s, to, e) < 0)
		return -1;
	return s->n > 0;
}

/* For metrics only. */
int export_source_sessions(struct export_source *s, json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/sessions");
	target_query_number(&t, "limit", 1000);
	return api_call_pages(s->api, &t, "sessions", NULL, SESSIONS_MAX, ret, e);
}
