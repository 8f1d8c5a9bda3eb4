/* audit.c - see audit.h. */
#include "daemon/audit/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_private.h"
#include "daemon/audit/fact_lines.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"
#include "lib/base/text_hash.h"

#define FACTS_MAX 4096

/* ---- logs in memory */

static struct audit_log **audit_place(struct audit *a, const char *tenant)
{
	struct audit_log **at = &a->logs[text_hash(tenant) % AUDIT_BUCKETS];

	while (*at != NULL && strcmp((*at)->tenant, tenant) != 0)
		at = &(*at)->next_log;
	return at;
}

static int audit_write(struct audit *a, struct audit_log *l, const struct audit_record *r,
		       const struct audit_type *type, const char *facts, struct err *e);

static int audit_begin_epoch(struct audit *a, struct audit_log *l, uint64_t epoch,
			     const char *alarm, struct err *e)
{
	struct store_audit_log row = { .epoch = epoch, .created_ms = clock_wall_ms() };

	str_copy(row.tenant, l->tenant);
	str_copy(row.alarm, alarm);
	str_copy(row.named, a->vkey);
	if (store_audit_log_add(a->store, &row, &l->id, e) < 0)
		return -1;
	l->epoch = epoch;
	l->next = 0;
	return 0;
}

/* Of the first record of a log that began because cordon-notary has another name. */
static int audit_key_facts(struct audit *a, const struct audit_log *l, char *ret, size_t cap,
			   struct err *e)
{
	struct store_audit_log row;

	if (store_audit_log_get(a->store, l->tenant, l->epoch, &row, e) < 0)
		return -1;
	(void)snprintf(ret, cap, "vkey\t%s\nformer\t%s\n", a->vkey, row.vkey);
	store_audit_log_release(&row);
	return 0;
}

/* The alarm of a log is the last word of the type. */
int audit_alarm(struct audit *a, struct audit_log *l, const char *type, uint64_t size,
		uint64_t known, struct err *e)
{
	const char *why = type + strlen("audit.");
	char facts[1024] = "";
	struct audit_record record = { .tenant = l->tenant,
				       .type = type,
				       .time_ms = clock_wall_ms() };
	uint64_t before = l->epoch;
	size_t n;

	if (audit_alarm_place(why) == ALARM_KEY &&
	    audit_key_facts(a, l, facts, sizeof(facts), e) < 0)
		return -1;
	n = strlen(facts);
	(void)snprintf(facts + n, sizeof(facts) - n, "epoch\t%llu\nrecords\t%llu\nknown\t%llu\n",
		       (unsigned long long)before, (unsigned long long)size,
		       (unsigned long long)known);
	if (audit_begin_epoch(a, l, before + 1, why, e) < 0 ||
	    audit_write(a, l, &record, audit_type_find(type), facts, e) < 0)
		return -1;
	a->alarms[audit_alarm_place(why)]++;
	log_error("the audit log is not what it was: a new one was begun",
		  "tenant=%s alarm=%s epoch=%llu records=%llu known=%llu", l->tenant, why,
		  (unsigned long long)before, (unsigned long long)size, (unsigned long long)known);
	return 0;
}

/* Read the log from the store, as the open transaction has it. */
static int audit_read(struct audit *a, struct audit_log *l, struct err *e)
{
	struct store_audit_log row;
	uint64_t next;

	if (store_audit_log_get(a->store, l->tenant, 0, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? audit_begin_epoch(a, l, 1, "", e) : -1;
	if (store_audit_next(a->store, &row, &next, e) < 0) {
		store_audit_log_release(&row);
		return -1;
	}
	l->id = row.id;
	l->epoch = row.epoch;
	l->next = next;
	store_audit_log_release(&row);
	/* Records that the tiles cover are gone. */
	return next < row.hashed ? audit_alarm(a, l, "audit.gap", next, row.hashed, e) : 0;
}

/* The log of a tenant, known as the store has it. Inside a transaction. */
struct audit_log *audit_find(struct audit *a, const char *tenant, struct err *e)
{
	struct audit_log **at = audit_place(a, tenant), *l = *at;

	if (l == NULL) {
		l = calloc(1, sizeof(*l));
		if (l == NULL) {
			(void)err_sys(e, "audit");
			return NULL;
		}
		str_copy(l->tenant, tenant);
		*at = l;
	}
	if (l->known && l->rollbacks == store_rollbacks(a->store))
		return l;
	l->known = false;
	if (audit_read(a, l, e) < 0)
		return NULL;
	l->rollbacks = store_rollbacks(a->store);
	l->known = true;
	return l;
}

/* The next round raises the alarm. */
void audit_record_missing(struct audit *a, const char *tenant, uint64_t epoch)
{
	struct audit_log *l = NULL;
	struct err e;
	bool own;

	if (store_join(a->store, &own, &e) == 0) {
		l = audit_find(a, tenant, &e);
		if (l == NULL)
			store_rollback(a->store);
		else if (store_leave(a->store, own, &e) < 0)
			l = NULL;
	}
	if (l == NULL) {
		log_error("an alarm of the audit log could not be written", "tenant=%s error=%s",
			  tenant, e.msg);
		return;
	}
	if (l->epoch != epoch)
		return;
	l->missing = epoch;
	audit_due(a, l, audit_interval(a, true));
}

/* ---- append */

void audit_notify(struct audit *a, const char *tenant)
{
	bool any = false;

	for (struct audit_listener *l = a->listeners; l != NULL; l = l->next)
		if (!l->due && strcmp(l->tenant, tenant) == 0)
			any = l->due = true;
	if (any)
		loop_defer(a->loop, &a->notify);
}

static int audit_write(struct audit *a, struct audit_log *l, const struct audit_record *r,
		       const struct audit_type *type, const char *facts, struct err *e)
{
	struct store_audit row = { .time_ms = r->time_ms };
	struct audit_leaf leaf;
	int done;

	if (audit_leaf_make(&leaf, r, type, l->next, facts, e) < 0)
		return -1;
	str_copy(row.session, r->session == NULL ? "" : r->session);
	row.leaf = leaf.text;
	row.leaf_len = leaf.len;
	row.side = leaf.side;
	done = store_audit_append(a->store, l->id, l->next, &row, e);
	audit_leaf_release(&leaf);
	if (done < 0)
		return -1;
	l->next++;
	return 0;
}

/* The end of a session is signed soon. */
static bool is_end(const struct audit_record *r)
{
	return strcmp(r->type, "session.ended") == 0;
}

int audit_append_facts(struct audit *a, const struct audit_record *r, const char *facts,
		       struct err *e)
{
	const struct audit_type *type = audit_type_find(r->type);
	struct audit_record own = *r;
	struct audit_log *l;
	bool alone;

	if (type == NULL)
		return err_set(e, ERR_SYSTEM, "audit: %.40s: no such type", r->type);
	if (own.time_ms == 0)
		own.time_ms = clock_wall_ms();
	if (store_join(a->store, &alone, e) < 0)
		return -1;
	l = audit_find(a, own.tenant, e);
	if (l == NULL || audit_write(a, l, &own, type, facts, e) < 0) {
		store_rollback(
			a->store); /* a record that does not fit is no failure of the store */
		return -1;
	}
	if (store_leave(a->store, alone, e) < 0)
		return -1;
	a->appended++;
	audit_due(a, l, audit_interval(a, is_end(&own)));
	audit_notify(a, own.tenant);
	return 0;
}

int audit_append(struct audit *a, const struct audit_record *r, struct err *e, const char *fmt, ...)
{
	char facts[FACTS_MAX];
	va_list args;

	va_start(args, fmt);
	(void)fact_lines_vprint(facts, sizeof(facts), fmt, args);
	va_end(args);
	return audit_append_facts(a, r, facts, e);
}

/* ---- listeners */

void audit_listen(struct audit *a, struct audit_listener *l)
{
	LIST_PUSH(&a->listeners, l);
}

void audit_unlisten(struct audit_listener *l)
{
	LIST_REMOVE(l);
}

static struct audit_listener *audit_find_calling(struct audit_listener *l)
{
	while (l != NULL && !l->calling)
		l = l->next;
	return l;
}

static void on_notify(struct loop_task *t)
{
	struct audit *a = t->arg;
	struct audit_listener *l;

	for (l = a->listeners; l != NULL; l = l->next) {
		l->calling = l->due;
		l->due = false;
	}
	/* A listener may end others: after each the search begins again. */
	while ((l = audit_find_calling(a->listeners)) != NULL) {
		l->calling = false;
		l->on_records(l);
	}
}

/* ---- */

/* Make the node's log before those of tenants. A record of the last log is added at the end of
 * the table, any other in the middle, where SQLite divides a full page among its neighbours. On
 * most machines one tenant has nearly all records. */
static void audit_make_first(struct audit *a)
{
	struct err e;
	bool own;

	if (store_join(a->store, &own, &e) < 0)
		return;
	if (audit_find(a, "", &e) == NULL)
		store_rollback(a->store);
	else
		IGNORED(store_leave(a->store, own, &e), "the first record makes it");
}

struct audit *audit_new(const struct audit_options *o, struct err *e)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		(void)err_sys(e, "audit");
		return NULL;
	}
	a->o = *o;
	a->loop = o->loop;
	a->store = o->store;
	a->begun_wall_ms = clock_wall_ms();
	a->begun_ns = clock_now_ns();
	a->notify = (struct loop_task){ .on_run = on_notify, .arg = a };
	a->flood_timer = (struct loop_timer){ .on_expire = audit_flood_on_timer, .arg = a };
	a->pruning = (struct job){ .on_piece = audit_prune_on_piece, .arg = a };
	if (audit_checkpoint_setup(a, e) < 0) {
		audit_free(a);
		return NULL;
	}
	audit_make_first(a);
	return a;
}

void audit_free(struct audit *a)
{
	if (a == NULL)
		return;
	loop_task_cancel(a->loop, &a->notify);
	loop_timer_cancel(a->loop, &a->flood_timer);
	jobs_cancel(a->o.jobs, &a->pruning);
	audit_checkpoint_release(a);
	for (size_t i = 0; i < AUDIT_BUCKETS; i++)
		while (a->logs[i] != NULL) {
			struct audit_log *l = a->logs[i];

			a->logs[i] = l->next_log;
			free(l);
		}
	free(a);
}

bool audit_is_named(const struct audit *a, const struct store_audit_log *log)
{
	size_t n = strlen(a->name);

	return log->vkey[0] == '\0' || (strncmp(log->vkey, a->name, n) == 0 && log->vkey[n] == '+');
}

/* A log that was signed by a cordon-notary of another name keeps that name. */
void audit_origin(const struct audit *a, const struct store_audit_log *log, char ret[TLOG_NAME_MAX])
{
	const char *name = audit_is_named(a, log) ? a->name : log->vkey;

	(void)snprintf(ret, TLOG_NAME_MAX, "%.*s/%s/%llu", (int)strcspn(name, "+"), name,
		       log->tenant[0] == '\0' ? "node" : log->tenant,
		       (unsigned long long)log->epoch);
}

const char *audit_vkey(const struct audit *a)
{
	return a->vkey;
}

int audit_log_get(struct audit *a, const char *tenant, struct store_audit_log *ret,
		  uint64_t *ret_size, struct err *e)
{
	if (store_audit_log_get(a->store, tenant, 0, ret, e) < 0)
		return -1;
	if (store_audit_next(a->store, ret, ret_size, e) == 0)
		return 0;
	store_audit_log_release(ret);
	return -1;
}
