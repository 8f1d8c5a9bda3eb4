/* net_usage.c - see net_usage.h. */
#include "daemon/egressctl/net_usage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/egressctl/net_state.h"
#include "daemon/node/core.h"
#include "daemon/secrets/secret_egress.h"
#include "daemon/session/session.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/json/json.h"
#include "lib/policy/access_record_text.h"
#include "lib/wire/egress_msg.h"

#define SECRETS_COST 4 /* a byte of a secret is looked for in many encodings */

int egress_config_write(struct session *s, const char *policy, struct json *j, size_t *ret_cost,
			struct err *e)
{
	json_open(j, NULL, '{');
	if (policy != NULL) {
		json_text(j, "tenant", session_row(s)->tenant);
		if (net_usage_write(s, j, e) < 0)
			return -1;
		json_raw(j, "policy", policy);
	}
	*ret_cost = j->len;
	if (secret_egress_write(s, policy, j, e) < 0)
		return -1;
	*ret_cost += SECRETS_COST * (j->len - *ret_cost);
	json_close(j, '}');
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}

#define ROWS_MAX                                                                        \
	(1U + EGRESS_RULES_KEPT_MAX) /* of a session: one of its own, one for each rule \
				      */
#define ROWS_PER_TURN 256U	     /* written in one transaction */
#define AGAIN_MS 1000		     /* after a failure */

static void on_due(struct loop_timer *t);

void net_usage_init(struct net_usage_due *d, struct core *c)
{
	*d = (struct net_usage_due){ .core = c };
	d->timer = (struct loop_timer){ .on_expire = on_due, .arg = d };
}

/* ---- rows */

/* The place of the rule's row, or where it would be inserted. */
static size_t net_usage_place_of(const struct net_usage *u, const char *rule)
{
	size_t low = 0, high = u->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(u->rows[mid].row.rule, rule) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct net_usage_row *net_usage_row_of(struct net_usage *u, const char *rule)
{
	size_t at = net_usage_place_of(u, rule);

	if (at < u->n && strcmp(u->rows[at].row.rule, rule) == 0)
		return &u->rows[at];
	if (u->n == ROWS_MAX)
		return NULL;
	if (u->n == u->room) {
		u->room = u->room == 0 ? 4 : 2 * u->room;
		u->rows = realloc(u->rows, u->room * sizeof(*u->rows));
		assert(u->rows != NULL);
	}
	memmove(u->rows + at + 1, u->rows + at, (u->n - at) * sizeof(*u->rows));
	u->n++;
	u->rows[at] = (struct net_usage_row){ .unsaved = false };
	memcpy(u->rows[at].row.rule, rule, strlen(rule) + 1);
	return &u->rows[at];
}

static bool net_usage_raise_to(uint64_t *count, uint64_t to)
{
	if (to > INT64_MAX || *count >= to)
		return false;
	*count = to;
	return true;
}

static bool net_usage_add(struct net_usage *u, const char *rule, uint64_t in, uint64_t out)
{
	struct net_usage_row *r = net_usage_row_of(u, rule);
	bool raised;

	if (r == NULL)
		return false;
	raised = net_usage_raise_to(&r->row.in, in);
	raised = net_usage_raise_to(&r->row.out, out) || raised;
	r->unsaved = r->unsaved || raised;
	return raised;
}

static int net_usage_load_row(const struct store_net_claim *row, void *cookie)
{
	struct net_usage *u = cookie;

	(void)net_usage_add(u, row->rule, row->in, row->out);
	return 0;
}

static int net_usage_load(struct session *s, struct err *e)
{
	struct net_usage *u = &net_session_of(s)->used;

	if (u->loaded)
		return 0;
	/* The store has nothing of a session that this server has just made. */
	if (session_is_restored(s) &&
	    store_net_claim_each(core_store(session_core(s)), session_row(s)->id, ROWS_MAX,
				 net_usage_load_row, u, e) < 0)
		return -1;
	u->loaded = true;
	return 0;
}

/* ---- the list of those to be written */

static void net_usage_mark_due(struct session *s)
{
	struct net_usage_due *d = &net_access_of(session_core(s))->used;
	struct net_usage *u = &net_session_of(s)->used;

	if (u->due)
		return;
	u->due = true;
	u->prev = NULL;
	u->next = d->first;
	if (u->next != NULL)
		net_session_of(u->next)->used.prev = s;
	d->first = s;
	if (d->timer.place == 0)
		loop_timer_set(core_loop(session_core(s)), &d->timer,
			       clock_now_ns() + NET_USAGE_MS * CLOCK_MS);
}

static void net_usage_unmark_due(struct session *s)
{
	struct net_usage *u = &net_session_of(s)->used;

	if (!u->due)
		return;
	*(u->prev != NULL ? &net_session_of(u->prev)->used.next
			  : &net_access_of(session_core(s))->used.first) = u->next;
	if (u->next != NULL)
		net_session_of(u->next)->used.prev = u->prev;
	u->due = false;
}

/* Write up to *room rows of one session, inside a transaction. */
static int net_usage_save(struct session *s, unsigned *room, struct err *e)
{
	struct net_usage *u = &net_session_of(s)->used;

	if (store_session_update_usage(core_store(session_core(s)), session_row(s)->id,
				       session_usage(s), e) < 0)
		return -1;
	for (size_t i = 0; i<u->n && * room> 0; i++) {
		if (!u->rows[i].unsaved)
			continue;
		if (store_net_claim_set(core_store(session_core(s)), session_row(s)->id,
					&u->rows[i].row, e) < 0)
			return -1;
		(*room)--;
	}
	return 0;
}

/* Mark the rows that net_usage_save() has written. True: no unsaved row is left. */
static bool net_usage_saved(struct net_usage *u, unsigned *room)
{
	size_t i;

	for (i = 0; i<u->n && * room> 0; i++) {
		*room -= u->rows[i].unsaved;
		u->rows[i].unsaved = false;
	}
	while (i < u->n && !u->rows[i].unsaved)
		i++;
	return i == u->n;
}

static int net_usage_save_some(struct net_usage_due *d, struct err *e)
{
	unsigned room = ROWS_PER_TURN, written = ROWS_PER_TURN, sessions = 0;
	struct session *s;

	if (store_begin(core_store(d->core), e) < 0)
		return -1;
	for (s = d->first; s != NULL && room > 0 && sessions < ROWS_PER_TURN; sessions++) {
		if (net_usage_save(s, &room, e) < 0)
			return -1;
		s = net_session_of(s)->used.next;
	}
	if (store_commit(core_store(d->core), e) < 0)
		return -1;
	while (sessions-- > 0) {
		s = d->first;
		if (!net_usage_saved(&net_session_of(s)->used, &written))
			break;
		net_usage_unmark_due(s);
	}
	return 0;
}

static void on_due(struct loop_timer *t)
{
	struct net_usage_due *d = t->arg;
	uint64_t wait_ms = 0;
	struct err e;

	if (net_usage_save_some(d, &e) < 0) {
		store_rollback(core_store(d->core));
		log_error("network usage of sessions could not be written", "error=%s", e.msg);
		wait_ms = AGAIN_MS;
	}
	if (d->first != NULL)
		loop_timer_set(core_loop(d->core), t, clock_now_ns() + wait_ms * CLOCK_MS);
}

void net_usage_release(struct net_usage_due *d)
{
	loop_timer_cancel(core_loop(d->core), &d->timer);
}

/* ---- for others */

void net_usage_take(struct session *s, const struct record_counts *counts)
{
	bool raised;
	struct err e;

	if (session_row(s)->state >= SESSION_ENDING)
		return;
	if (net_usage_load(s, &e) < 0) /* the claims of egress are at least those in the store */
		log_warn("network usage of a session could not be read", "session_id=%s error=%s",
			 session_row(s)->id, e.msg);
	raised = net_usage_add(&net_session_of(s)->used, "", counts->own.in, counts->own.out);
	for (size_t i = 0; i < counts->nrules; i++) {
		const struct record_claim *c = &counts->rules[i];

		raised = net_usage_add(&net_session_of(s)->used, c->rule, c->in, c->out) || raised;
	}
	if (raised)
		net_usage_mark_due(s);
}

static void net_usage_write_claim(struct json *j, const struct store_net_claim *row)
{
	json_uint(j, "claimed_in", row->in);
	json_uint(j, "claimed_out", row->out);
}

int net_usage_write(struct session *s, struct json *j, struct err *e)
{
	const struct store_usage *usage = session_usage(s);
	struct net_usage *u = &net_session_of(s)->used;

	if (net_usage_load(s, e) < 0)
		return -1;
	json_open(j, "used", '{');
	json_uint(j, "bytes_in", usage->net_bytes_in);
	json_uint(j, "bytes_out", usage->net_bytes_out);
	json_uint(j, "requests", usage->net_requests);
	if (u->n > 0 && u->rows[0].row.rule[0] == '\0')
		net_usage_write_claim(j, &u->rows[0].row);
	json_open(j, "rules", '[');
	for (size_t i = 0; i < u->n; i++) {
		if (u->rows[i].row.rule[0] == '\0')
			continue;
		json_open(j, NULL, '{');
		json_text(j, "rule", u->rows[i].row.rule);
		net_usage_write_claim(j, &u->rows[i].row);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
	return 0;
}

void net_usage_end(struct session *s)
{
	struct err e;

	net_usage_unmark_due(s);
	for (size_t i = 0; i < net_session_of(s)->used.n; i++)
		net_session_of(s)->used.rows[i].unsaved = false;
	if (net_session_of(s)->used.n > 0)
		IGNORED(store_net_claim_delete(core_store(session_core(s)), session_row(s)->id, &e),
			"retention deletes it with the session");
}

void net_usage_forget(struct session *s)
{
	unsigned room = ROWS_MAX;
	struct err e;

	if (net_session_of(s)->used.due)
		IGNORED(net_usage_save(s, &room, &e), "egress reports it again to the next daemon");
	net_usage_unmark_due(s);
	free(net_session_of(s)->used.rows);
	net_session_of(s)->used = (struct net_usage){ .n = 0 };
}
