/* event_log.c - see event_log.h. */
#include "daemon/tenant/event_log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/fact_lines.h"
#include "daemon/node/core_private.h"
#include "daemon/tenant/record_quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/hex.h"
#include "lib/base/list.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define ACCESS_EVENTS_DATA_MAX 1024

/* The tenant of the key that caused the event. "": none did, or the key is gone. */
static int find_actor_tenant(struct core *c, const struct store_actor *who, char ret[STORE_ID_MAX],
			     struct err *e)
{
	struct store_key key;

	ret[0] = '\0';
	if (who == NULL || who->key_id[0] == '\0')
		return 0;
	if (store_key_get(c->store, who->key_id, &key, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	memcpy(ret, key.tenant, STORE_ID_MAX);
	return 0;
}

/* An operator's change of another tenant is on record for both. */
static int event_log_write_row(struct core *c, const struct store_actor *who, const char *tenant,
			       const char *type, const char *data, struct err *e)
{
	char by[STORE_ID_MAX];

	if (find_actor_tenant(c, who, by, e) < 0 ||
	    event_log_append(c, who, tenant, "", "", type, e, "tenant_id\t%s\n%s", tenant, data) <
		    0)
		return -1;
	if (by[0] == '\0' || strcmp(by, tenant) == 0)
		return 0;
	return event_log_append(c, who, by, "", "", type, e, "tenant_id\t%s\n%s", tenant, data);
}

static void list_scopes(unsigned scopes, char *ret, size_t cap)
{
	static const struct {
		unsigned bit;
		const char *name;
	} all[] = { { TENANT_READ, "read" },
		    { TENANT_SESSIONS, "sessions" },
		    { TENANT_ADMIN, "admin" },
		    { TENANT_AUDIT, "audit" } };
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < COUNT(all); i++)
		if ((scopes & all[i].bit) != 0)
			n += (size_t)snprintf(ret + n, cap - n, "%s%s", n == 0 ? "" : " ",
					      all[i].name);
}

int access_events_key(struct core *c, const struct store_actor *who, const char *type,
		      const struct store_key *k, struct err *e)
{
	char data[ACCESS_EVENTS_DATA_MAX], scopes[64];

	list_scopes(k->scopes, scopes, sizeof(scopes));
	(void)fact_lines_print(data, sizeof(data), "key_id\t%s\nname\t%s\nscopes\t%s\n", k->id,
			       k->name, scopes);
	return event_log_write_row(c, who, k->tenant, type, data, e);
}

int access_events_tenant(struct core *c, const struct store_actor *who, const char *type,
			 const struct store_tenant *t, struct err *e)
{
	char data[ACCESS_EVENTS_DATA_MAX];

	(void)fact_lines_print(data, sizeof(data), "name\t%s\n", t->name);
	return event_log_write_row(c, who, t->id, type, data, e);
}

int access_events_policy(struct core *c, const struct store_actor *who,
			 const struct store_tenant *t, const char *document, struct err *e)
{
	char data[ACCESS_EVENTS_DATA_MAX], hex[2 * SHA256_SIZE + 1];
	uint8_t hash[SHA256_SIZE];
	struct sha256 sum;

	sha256_init(&sum);
	audit_leaf_hash_policy(&sum, document, "proxy");
	sha256_end(&sum, hash);
	hex_encode(hash, sizeof(hash), hex);
	(void)fact_lines_print(data, sizeof(data), "name\t%s\npolicy_sha256\t%s\n", t->name, hex);
	return event_log_write_row(c, who, t->id, "tenant.network", data, e);
}

#define MEMBER(text, member)                                          \
	{                                                             \
		text, offsetof(struct store_tenant, member),          \
			sizeof(((struct store_tenant *)NULL)->member) \
	}

/* The names of changed members, without their values. */
static size_t list_changes(const struct store_tenant *before, const struct store_tenant *after,
			   char *ret, size_t cap)
{
	static const struct {
		const char *name;
		size_t offset, size;
	} members[] = {
		MEMBER("name", name),
		MEMBER("max_sessions", max_sessions),
		MEMBER("create_rate", create_rate_milli),
		MEMBER("burst", create_burst),
		MEMBER("queue_length", queue_length),
		MEMBER("queue_timeout", queue_ms),
		MEMBER("max_memory", max_memory),
		MEMBER("max_storage", max_storage),
		MEMBER("max_pids", max_pids),
		MEMBER("max_stored", max_stored),
		MEMBER("captured_secrets", captured_secrets),
		MEMBER("allow", allow),
		MEMBER("redact", redact),
	};
	size_t n = 0;

	for (size_t i = 0; i < COUNT(members); i++)
		if (memcmp((const char *)before + members[i].offset,
			   (const char *)after + members[i].offset, members[i].size) != 0)
			n += (size_t)snprintf(ret + n, cap - n, "%s%s", n == 0 ? "" : " ",
					      members[i].name);
	return n;
}

int access_events_changed(struct core *c, const struct store_actor *who,
			  const struct store_tenant *before, const struct store_tenant *after,
			  struct err *e)
{
	char data[ACCESS_EVENTS_DATA_MAX], changed[ACCESS_EVENTS_DATA_MAX / 2];

	if (list_changes(before, after, changed, sizeof(changed)) == 0)
		return 0;
	(void)fact_lines_print(data, sizeof(data), "name\t%s\nchanged\t%s\n", after->name, changed);
	return event_log_write_row(c, who, after->id, "tenant.changed", data, e);
}

#define DATA_MAX 2048

/* Mark the listeners of the event's tenant, and of its session if they follow one. */
static void notify_later(struct core *c, const struct store_event *row)
{
	bool any = false;

	for (struct event_log_listener *l = c->listeners; l != NULL; l = l->next)
		if (!l->due && strcmp(l->tenant, row->tenant) == 0 &&
		    (l->session[0] == '\0' || strcmp(l->session, row->session) == 0))
			any = l->due = true;
	if (any)
		loop_defer(c->loop, &c->notify_listeners);
}

/* Events without a record: marks of a growing log, and changed files, whose own records have the
 * path sealed. */
static bool is_no_record(const char *type)
{
	return strcmp(type, "execution.output") == 0 || strcmp(type, "file.changed") == 0;
}

/* Every other event is a record of the audit log, too. */
static int append_both(struct core *c, const struct store_event *row,
		       const struct store_actor *actor, const char *data,
		       const struct event_more *more, struct err *e)
{
	struct audit_record record = { .tenant = row->tenant,
				       .session = row->session,
				       .execution = row->execution,
				       .type = row->type,
				       .actor = actor,
				       .time_ms = row->time_ms };
	char facts[2 * DATA_MAX];
	bool alone;

	(void)snprintf(facts, sizeof(facts), "%s%s", data,
		       more == NULL || more->facts == NULL ? "" : more->facts);
	if (more != NULL)
		memcpy(record.sealed, more->sealed, sizeof(record.sealed));
	if (store_join(c->store, &alone, e) < 0 || store_event_append(c->store, row, NULL, e) < 0 ||
	    (!is_no_record(row->type) && audit_append_facts(c->audit, &record, facts, e) < 0))
		return -1;
	return store_leave(c->store, alone, e);
}

static int append_event(struct core *c, const struct store_actor *actor, const char *tenant,
			const char *session, const char *execution, const char *type,
			const struct event_more *more, const char *data, struct err *e)
{
	struct store_event row = { .time_ms = core_now_ms() };
	char all[2 * DATA_MAX];

	str_copy(row.tenant, tenant);
	str_copy(row.session, session);
	str_copy(row.execution, execution);
	str_copy(row.type, type);
	row.data = data;
	if (more != NULL && more->event != NULL) {
		(void)snprintf(all, sizeof(all), "%s%s", data, more->event);
		row.data = all;
	}
	if (actor != NULL)
		row.actor = *actor;
	if (append_both(c, &row, actor, data, more, e) < 0)
		return -1;
	record_bounds_add(c, tenant_find(c, tenant), RECORD_EVENT, 1);
	notify_later(c, &row);
	return 0;
}

int event_log_append(struct core *c, const struct store_actor *actor, const char *tenant,
		     const char *session, const char *execution, const char *type, struct err *e,
		     const char *fmt, ...)
{
	char data[DATA_MAX];
	va_list args;

	va_start(args, fmt);
	(void)fact_lines_vprint(data, sizeof(data), fmt, args);
	va_end(args);
	return append_event(c, actor, tenant, session, execution, type, NULL, data, e);
}

int event_log_append_more(struct core *c, const struct store_actor *actor, const char *tenant,
			  const char *session, const char *execution, const char *type,
			  const struct event_more *more, struct err *e, const char *fmt, ...)
{
	char data[DATA_MAX];
	va_list args;

	va_start(args, fmt);
	(void)fact_lines_vprint(data, sizeof(data), fmt, args);
	va_end(args);
	return append_event(c, actor, tenant, session, execution, type, more, data, e);
}

void event_log_listen(struct core *c, struct event_log_listener *l)
{
	LIST_PUSH(&c->listeners, l);
}

void event_log_unlisten(struct event_log_listener *l)
{
	LIST_REMOVE(l);
}

static struct event_log_listener *find_calling(struct event_log_listener *l)
{
	while (l != NULL && !l->calling)
		l = l->next;
	return l;
}

/* Only listeners marked before this turn are called, each once. */
void event_log_on_notify(struct loop_task *t)
{
	struct core *c = t->arg;
	struct event_log_listener *l;

	for (l = c->listeners; l != NULL; l = l->next) {
		l->calling = l->due;
		l->due = false;
	}
	/* A listener may end others: after each the search begins again. */
	while ((l = find_calling(c->listeners)) != NULL) {
		l->calling = false;
		l->on_events(l);
	}
}
