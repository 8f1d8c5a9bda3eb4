/* store_tenant.c - see store_tenant.h. */
#include "daemon/store/store_tenant.h"

#include <string.h>

#include "daemon/store/stmt.h"

enum { CHANGES = COLUMN_GROUP }; /* store_tenant_update() writes it */

#define ROW struct store_tenant
static const struct column tenant_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(name, "name", CHANGES),
	COLUMN(is_operator, "operator", CHANGES),
	COLUMN(disabled, "disabled", CHANGES),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(max_sessions, "max_sessions", CHANGES),
	COLUMN(create_rate_milli, "create_rate_milli", CHANGES),
	COLUMN(create_burst, "create_burst", CHANGES),
	COLUMN(queue_length, "queue_length", CHANGES),
	COLUMN(queue_ms, "queue_ms", CHANGES),
	COLUMN(max_memory, "max_memory", CHANGES),
	COLUMN(max_storage, "max_storage", CHANGES),
	COLUMN(max_pids, "max_pids", CHANGES),
	COLUMN(max_stored, "max_stored", CHANGES),
	COLUMN(captured_secrets, "captured_secrets", CHANGES),
	COLUMNS_ALLOW(CHANGES),
	COLUMN(redact, "redact", CHANGES),
};
static const struct table tenant_table = TABLE("tenant", tenant_columns);
#undef ROW

ROWS_EACH(tenant_each, store_tenant)

int store_tenant_insert(struct store *s, const struct store_tenant *row, struct err *e)
{
	return row_insert(s, tenant_table, row, row->name, e);
}

int store_tenant_update(struct store *s, const struct store_tenant *row, struct err *e)
{
	return row_update(s, tenant_table, CHANGES, row, row->id, e);
}

int store_tenant_each(struct store *s, store_tenant_fn *fn, void *cookie, struct err *e)
{
	return tenant_each(s, READ(tenant_table, "FROM tenant ORDER BY name"), IN_NONE, fn, cookie,
			   e);
}

int store_tenant_list(struct store *s, const char *after, store_tenant_fn *fn, void *cookie,
		      struct err *e)
{
	return tenant_each(s, READ(tenant_table, "FROM tenant WHERE name > ? ORDER BY name"),
			   IN(after), fn, cookie, e);
}

int store_tenant_get_policy(struct store *s, const char *id, char **ret, struct err *e)
{
	struct stmt q;
	int got;

	*ret = NULL;
	stmt_open(&q, s, SQL("SELECT policy FROM tenant WHERE id = ?"), IN(id));
	got = stmt_step(&q, id, e);
	if (got == 0)
		got = stmt_not_found(q.sql, id, e);
	if (got > 0 && (*ret = strdup(stmt_get_text(&q))) == NULL)
		got = err_sys(e, "store: tenant %.40s", id);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_tenant_set_policy(struct store *s, const char *id, const char *policy, struct err *e)
{
	return stmt_change(s, "UPDATE tenant SET policy = ? WHERE id = ?", IN(policy, id), id, e);
}
