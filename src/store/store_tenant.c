#include "store_tenant.h"

#include <string.h>

#include "stmt_rows.h"

static void put_limits(struct stmt *q, const struct store_tenant *row)
{
	stmt_u64(q, row->max_sessions);
	stmt_u64(q, row->create_rate_milli);
	stmt_u64(q, row->create_burst);
	stmt_u64(q, row->queue_length);
	stmt_u64(q, row->queue_ms);
	stmt_u64(q, row->max_memory);
	stmt_u64(q, row->max_storage);
	stmt_u64(q, row->max_pids);
	stmt_u64(q, row->max_stored);
	stmt_allow(q, &row->allow);
}

int store_tenant_insert(struct store *s, const struct store_tenant *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TENANT_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->is_operator);
	stmt_u64(&q, row->disabled);
	stmt_u64(&q, row->created_ms);
	put_limits(&q, row);
	return stmt_run(&q, true, "tenant", row->name, e);
}

int store_tenant_update(struct store *s, const struct store_tenant *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TENANT_UPDATE);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->is_operator);
	stmt_u64(&q, row->disabled);
	put_limits(&q, row);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "tenant", row->id, e);
}

static void read_row(struct stmt *q, struct store_tenant *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->is_operator = stmt_get_bool(q);
	ret->disabled = stmt_get_bool(q);
	ret->created_ms = stmt_get_u64(q);
	ret->max_sessions = stmt_get_u64(q);
	ret->create_rate_milli = stmt_get_u64(q);
	ret->create_burst = stmt_get_u64(q);
	ret->queue_length = stmt_get_u64(q);
	ret->queue_ms = stmt_get_u64(q);
	ret->max_memory = stmt_get_u64(q);
	ret->max_storage = stmt_get_u64(q);
	ret->max_pids = stmt_get_u64(q);
	ret->max_stored = stmt_get_u64(q);
	stmt_get_allow(q, &ret->allow);
}

STMT_ROWS_EACH(store_tenant, "tenants")

int store_tenant_get_policy(struct store *s, const char *id, char **ret, struct err *e)
{
	struct stmt q;
	int got;

	*ret = NULL;
	stmt_open(&q, s, SQL_TENANT_POLICY);
	stmt_text(&q, id);
	got = stmt_step(&q, "tenant", id, e);
	if (got > 0) {
		*ret = strdup(stmt_get_text(&q));
		if (*ret == NULL)
			got = err_sys(e, "store: tenant %.40s", id);
	}
	stmt_close(&q);
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "store: tenant %.40s: not found", id);
	return got > 0 ? 0 : -1;
}

int store_tenant_set_policy(struct store *s, const char *id, const char *policy, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TENANT_SET_POLICY);
	stmt_text(&q, policy);
	stmt_text(&q, id);
	return stmt_run(&q, true, "tenant", id, e);
}

int store_tenant_each(struct store *s, store_tenant_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TENANT_EACH);
	return each_row(&q, fn, cookie, e);
}
