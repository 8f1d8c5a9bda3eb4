#include "access_events.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "event_log.h"
#include "tenant.h"

#define DATA_MAX 1024

/* Control characters separate the lines and fields of an event's data. */
static void copy_plain(const char *text, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%s", text);
	for (; *ret != '\0'; ret++)
		if ((unsigned char)*ret < 0x20 || *ret == 0x7f)
			*ret = '?';
}

/* The tenant of the key that caused the event; "": none did, or the key is not there any more. */
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

static int append(struct core *c, const struct store_actor *who, const char *tenant,
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
		    { TENANT_ADMIN, "admin" } };
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
	char data[DATA_MAX], name[STORE_NAME_MAX], scopes[64];

	copy_plain(k->name, name, sizeof(name));
	list_scopes(k->scopes, scopes, sizeof(scopes));
	(void)snprintf(data, sizeof(data), "key_id\t%s\nname\t%s\nscopes\t%s\n", k->id, name,
		       scopes);
	return append(c, who, k->tenant, type, data, e);
}

int access_events_tenant(struct core *c, const struct store_actor *who, const char *type,
			 const struct store_tenant *t, struct err *e)
{
	char data[DATA_MAX], name[STORE_NAME_MAX];

	copy_plain(t->name, name, sizeof(name));
	(void)snprintf(data, sizeof(data), "name\t%s\n", name);
	return append(c, who, t->id, type, data, e);
}

#define MEMBER(text, member)                                          \
	{                                                             \
		text, offsetof(struct store_tenant, member),          \
			sizeof(((struct store_tenant *)NULL)->member) \
	}

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
		MEMBER("allow", allow),
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
	char data[DATA_MAX], name[STORE_NAME_MAX], changed[DATA_MAX / 2];

	if (list_changes(before, after, changed, sizeof(changed)) == 0)
		return 0;
	copy_plain(after->name, name, sizeof(name));
	(void)snprintf(data, sizeof(data), "name\t%s\nchanged\t%s\n", name, changed);
	return append(c, who, after->id, "tenant.changed", data, e);
}
