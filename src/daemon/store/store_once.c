/* store_once.c - see store_once.h. */
#include "daemon/store/store_once.h"

#include "daemon/store/stmt.h"

#define REMOVED 32 /* old rows for each new one: of all tenants, so that none stay for long */

#define ROW struct store_once
static const struct column once_columns[] = {
	COLUMN(tenant, "tenant", 0),	     COLUMN(key, "key", 0),
	COLUMN(digest, "digest", 0),	     COLUMN(object, "object", 0),
	COLUMN(created_ms, "created_ms", 0),
};
static const struct table once_table = TABLE("once", once_columns);
#undef ROW

/* The first time that counts. */
static uint64_t once_since(uint64_t now_ms)
{
	return now_ms < STORE_ONCE_MS ? 0 : now_ms - STORE_ONCE_MS;
}

int store_once_insert(struct store *s, const struct store_once *row, struct err *e)
{
	if (store_once_delete(s, row->tenant, row->key, e) < 0 ||
	    stmt_run(s,
		     "DELETE FROM once WHERE (tenant, key) IN (SELECT tenant, key FROM once"
		     " WHERE created_ms < ? ORDER BY created_ms LIMIT ?)",
		     IN(once_since(row->created_ms), value_limit(REMOVED)), row->key, e) < 0)
		return -1;
	return row_insert(s, once_table, row, row->key, e);
}

int store_once_get(struct store *s, const char *tenant, const char *key, uint64_t now_ms,
		   struct store_once *ret, struct err *e)
{
	return row_get(s, once_table, "FROM once WHERE tenant = ? AND key = ? AND created_ms >= ?",
		       IN(tenant, key, once_since(now_ms)), key, ret, e);
}

int store_once_count(struct store *s, const char *tenant, uint64_t now_ms, uint64_t *ret,
		     struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM once WHERE tenant = ? AND created_ms >= ?",
			   IN(tenant, once_since(now_ms)), tenant, ret, e);
}

int store_once_delete(struct store *s, const char *tenant, const char *key, struct err *e)
{
	return stmt_run(s, "DELETE FROM once WHERE tenant = ? AND key = ?", IN(tenant, key), key,
			e);
}
