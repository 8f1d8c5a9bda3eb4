/* store_secret.c - see store_secret.h. */
#include "daemon/store/store_secret.h"

#include "daemon/store/stmt.h"

enum { CHANGES = COLUMN_GROUP }; /* store_secret_update() writes it */

#define ROW struct store_secret
static const struct column secret_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(name, "name", 0),
	COLUMN(version, "version", CHANGES),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(updated_ms, "updated_ms", CHANGES),
	COLUMN(expires_ms, "expires_ms", CHANGES),
	COLUMN(ways, "ways", CHANGES),
	COLUMN(metadata, "metadata", CHANGES),
	COLUMN(hosts, "hosts", CHANGES),
	COLUMN(methods, "methods", CHANGES),
	COLUMN(paths, "paths", CHANGES),
	COLUMN(places, "places", CHANGES),
	COLUMN_BLOB(box, box_len, "box", CHANGES),
};
static const struct table secret_table = TABLE_OWNED("secret", secret_columns);
#undef ROW

ROWS_EACH(secret_each, store_secret)

int store_secret_insert(struct store *s, const struct store_secret *row, struct err *e)
{
	return row_insert(s, secret_table, row, row->name, e);
}

int store_secret_update(struct store *s, const struct store_secret *row, struct err *e)
{
	return row_update(s, secret_table, CHANGES, row, row->id, e);
}

int store_secret_reseal(struct store *s, const struct store_secret *row, struct err *e)
{
	return stmt_change(s, "UPDATE secret SET box = ? WHERE id = ? AND version = ?",
			   IN(value_blob(row->box, row->box_len), row->id, row->version), row->name,
			   e);
}

int store_secret_get(struct store *s, const char *id, struct store_secret *ret, struct err *e)
{
	return row_get(s, secret_table, "FROM secret WHERE id = ?", IN(id), id, ret, e);
}

int store_secret_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_secret *ret, struct err *e)
{
	return row_get(s, secret_table, "FROM secret WHERE tenant = ? AND name = ?",
		       IN(tenant, name), name, ret, e);
}

void store_secret_release(struct store_secret *row)
{
	row_release(&secret_table, row);
}

int store_secret_delete(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s, "DELETE FROM secret WHERE id = ?", IN(id), id, e);
}

int store_secret_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_secret_fn *fn, void *cookie, struct err *e)
{
	return secret_each(s,
			   READ(secret_table,
				"FROM secret WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?"),
			   IN(tenant, after, value_limit(limit)), fn, cookie, e);
}

int store_secret_each(struct store *s, const char *after_id, unsigned limit, store_secret_fn *fn,
		      void *cookie, struct err *e)
{
	return secret_each(s, READ(secret_table, "FROM secret WHERE id > ? ORDER BY id LIMIT ?"),
			   IN(after_id, value_limit(limit)), fn, cookie, e);
}

int store_secret_expiring(struct store *s, uint64_t after_ms, const char *after_id,
			  uint64_t until_ms, unsigned limit, store_secret_fn *fn, void *cookie,
			  struct err *e)
{
	return secret_each(s,
			   READ(secret_table,
				"FROM secret INDEXED BY secret_expires WHERE expires_ms > 0"
				" AND expires_ms >= ?1 AND (expires_ms > ?1 OR id > ?2)"
				" AND expires_ms <= ?3 ORDER BY expires_ms, id LIMIT ?4"),
			   IN(after_ms, after_id, until_ms, value_limit(limit)), fn, cookie, e);
}

int store_secret_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM secret WHERE tenant = ?", IN(tenant), tenant,
			   ret, e);
}
