/* secret_execution.c - see the header.
 *
 * An execution's lines are in its row, so that the next daemon finds them. Names that executions of
 * the session had are in secret_state.had: their values are masked like the session's own, since
 * the next program can print a file that one program wrote. HAD_MAX bounds that list, so that no
 * value ever has to be dropped from the mask. */
#include "daemon/secrets/secret_execution.h"

#include <assert.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/secret_admit.h"
#include "daemon/secrets/secret_audit.h"
#include "daemon/secrets/secret_delivery.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/session/session_hooks.h"
#include "daemon/tenant/quota.h"
#include "lib/base/log.h"

#define HAD_MAX 64 /* names, of all executions of a session */

/* "" for an ended execution: its secrets are taken back. */
static const char *secret_execution_lines_of(const struct execution *x)
{
	const char *lines = execution_ended(x) ? NULL : execution_row(x)->secrets;

	return lines == NULL ? "" : lines;
}

bool secret_walk_next(struct secret_walk *w, struct secret_spec *ret)
{
	if (!w->begun) {
		w->begun = true;
		w->at = session_row(w->session)->secrets;
	}
	while (!secret_spec_next(&w->at, ret)) {
		w->execution = execution_next(w->session, w->execution);
		if (w->execution == NULL)
			return false;
		w->at = secret_execution_lines_of(w->execution);
	}
	return true;
}

bool secret_has_way(const char *lines, unsigned ways)
{
	struct secret_spec l;

	while (secret_spec_next(&lines, &l))
		if ((l.way & ways) != 0)
			return true;
	return false;
}

bool secret_walk_has_file(struct session *s)
{
	for (struct execution *x = NULL; (x = execution_next(s, x)) != NULL;)
		if (secret_has_way(secret_execution_lines_of(x), SECRET_FILE))
			return true;
	return false;
}

/* ---- names that executions had */

static unsigned secret_execution_count_lines(const char *at)
{
	unsigned n = 0;

	for (; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
		n++;
	return n;
}

/* True: at least one name is new. */
static bool secret_execution_add_had(struct session *s, const char *lines)
{
	struct secret_state *st = secret_state(s);
	struct buf had = BUF_INIT((size_t)2 * HAD_MAX * STORE_NAME_MAX);
	struct secret_spec l;
	bool news = false;

	buf_put_text(&had, st->had == NULL ? "" : st->had);
	while (secret_spec_next(&lines, &l))
		if (!secret_values_has_line(buf_text(&had), l.name, strlen(l.name))) {
			buf_printf(&had, "%s\n", l.name);
			news = true;
		}
	free(st->had);
	st->had = strdup(buf_text(&had));
	assert(st->had != NULL);
	buf_release(&had);
	return news;
}

static void secret_execution_add_stored(const char *lines, void *arg)
{
	struct session *s = arg;

	(void)secret_execution_add_had(s, lines);
	secret_state(s)->files = true; /* perhaps one ended while there was no daemon */
}

void secret_restored(struct session *s)
{
	struct err e;

	if (store_execution_each_secrets(core_store(session_core(s)), session_row(s)->id,
					 secret_execution_add_stored, s, &e) < 0)
		log_error("secrets of executions could not be read", "session_id=%s error=%s",
			  session_row(s)->id, e.msg);
}

/* ---- at the start */

/* Files of all executions are in one folder. Each execution has its own variables. */
static bool secret_execution_is_taken(struct session *s, const char *own,
				      const struct secret_spec *l)
{
	struct secret_walk w = { .session = s };
	struct secret_spec other;

	if (secret_admit_is_twice(own, l))
		return true;
	while (l->way == SECRET_FILE && secret_walk_next(&w, &other))
		if (other.way == SECRET_FILE && strcmp(other.where, l->where) == 0)
			return true;
	return false;
}

/* *more grows only by values that the session does not mask yet. */
static int secret_execution_check_one(struct session *s, struct secret_spec *l, struct buf *own,
				      size_t *more, struct err *e)
{
	size_t bytes = 0;

	if (l->way == SECRET_SOCKET)
		return err_set(
			e, ERR_INVALID,
			"secret %s: only a session can have it as a socket, not one execution",
			l->name);
	if (secret_admit_one(s, l, &bytes, e) < 0)
		return -1;
	if (secret_execution_is_taken(s, buf_text(own), l))
		return err_set(e, ERR_CONFLICT, "secret %s: another one is already in that place",
			       l->name);
	if (!secret_values_has(s, l->name))
		*more += bytes;
	secret_spec_write(l, own);
	return 0;
}

static unsigned secret_execution_count_walk(struct session *s)
{
	struct secret_walk w = { .session = s };
	struct secret_spec l;
	unsigned n = 0;

	while (secret_walk_next(&w, &l))
		n++;
	return n;
}

/* How many of the lines name a secret absent from the list. */
static unsigned secret_execution_count_new(const char *had, const char *lines)
{
	struct secret_spec l;
	unsigned n = 0;

	while (secret_spec_next(&lines, &l))
		n += had == NULL || !secret_values_has_line(had, l.name, strlen(l.name));
	return n;
}

/* Both bounds are those of the whole session, because its mask has all the values. */
static int secret_execution_check_counts(struct session *s, const char *lines, struct err *e)
{
	const struct secret_state *st = secret_state_of(s);
	unsigned n = secret_execution_count_lines(lines);

	if (secret_execution_count_walk(s) + n > SECRET_LINES_MAX)
		return err_set_reason(
			e, REASON_QUOTA_SECRETS,
			"a session and its running executions may have at most %d secrets",
			SECRET_LINES_MAX);
	if (st != NULL &&
	    secret_execution_count_lines(st->had) + secret_execution_count_new(st->had, lines) >
		    HAD_MAX)
		return err_set_reason(e, REASON_QUOTA_SECRETS,
				      "the executions of a session may name at most %d secrets",
				      HAD_MAX);
	return 0;
}

static size_t secret_execution_secret_bytes(const struct session *s)
{
	const struct secret_state *st = secret_state_of(s);

	return st == NULL ? 0 : st->bytes;
}

/* After success x has its lines, and the mask has their values before the program starts. */
int secret_check_execution(struct session *s, struct execution *x, const char *lines, struct err *e)
{
	struct buf own = BUF_INIT(SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256));
	struct secret_spec l;
	size_t more = 0;
	int settled = secret_execution_check_counts(s, lines, e);

	while (settled == 0 && secret_spec_next(&lines, &l))
		settled = secret_execution_check_one(s, &l, &own, &more, e);
	if (settled == 0)
		settled = buf_check(&own, e);
	if (settled == 0)
		settled = secret_quota_session(s, more, e);
	/* cordon-egress is sent all values of the session, with those of the execution. */
	if (settled == 0 && secret_has_way(buf_text(&own), SECRET_WAYS))
		settled = change_quota_take(session_tenant(s),
					    secret_execution_secret_bytes(s) + more, e);
	if (settled == 0) {
		execution_set_secrets(x, buf_text(&own));
		if (secret_execution_add_had(s, buf_text(&own)))
			secret_mask(s);
	}
	buf_release(&own);
	return settled;
}

/* True: w ends when the cell has the files. The program waits for it. */
bool secret_prepare(struct session *s, struct execution *x, struct completion *w)
{
	struct secret_state *st;

	secret_audit_given(s, secret_execution_lines_of(x), execution_row(x)->id);
	if (!secret_has_way(secret_execution_lines_of(x), SECRET_FILE))
		return false;
	st = secret_state(s);
	completion_begin(w, core_loop(session_core(s)), &st->when_delivered);
	st->tries = 0;
	secret_delivery_start(s);
	return true;
}

/* Files and configurations for egress lose the execution's secrets. */
void secret_execution_ended(struct session *s, struct execution *x)
{
	const char *lines = execution_row(x)->secrets;

	if (lines == NULL || !secret_has_way(lines, SECRET_FILE | SECRET_BROKER) ||
	    session_row(s)->state >= SESSION_ENDING)
		return;
	secret_state(s)->changed = true;
	session_parts_changed(s);
}

/* ---- memory that others would begin with */

/* A placeholder is no value: only cordon-egress has that. */
static bool secret_execution_has_values(const char *lines)
{
	return lines != NULL && secret_has_way(lines, SECRET_WAYS & ~(unsigned)SECRET_BROKER);
}

static void on_secrets(const char *text, void *cookie)
{
	bool *found = cookie;

	*found |= secret_execution_has_values(text);
}

int secret_check_memory(struct session *s, bool same, struct err *e)
{
	const struct store_session *row = session_row(s);
	bool session_has = !same && secret_execution_has_values(row->secrets),
	     execution_has = false;

	if (store_execution_each_secrets(core_store(session_core(s)), row->id, on_secrets,
					 &execution_has, e) < 0)
		return -1;
	if (!session_has && !execution_has)
		return 0;
	return err_set_reason(e, REASON_SECRETS_IN_MEMORY,
			      "%s session %s got values of secrets, which may be in its memory: "
			      "other sessions would get them with it",
			      session_has ? "programs of" : "an execution of", row->id);
}
