/* store_key.c - see store_key.h. */
#include "daemon/store/store_key.h"

#include "daemon/store/stmt.h"

#define ROW struct store_key
static const struct column key_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(name, "name", 0),
	COLUMN(hash, "hash", 0),
	COLUMN(prefix, "prefix", 0),
	COLUMN(scopes, "scopes", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(expires_ms, "expires_ms", 0),
	COLUMN(last_used_ms, "last_used_ms", 0),
	COLUMN(revoked_ms, "revoked_ms", 0),
	COLUMNS_ALLOW(0),
};
static const struct table key_table = TABLE("key", key_columns);
#undef ROW

ROWS_EACH(key_each, store_key)
ROWS_LIST(key_list, store_key)

/* It cannot be used any more. ?2 is the time. */
#define KEY_DEAD "(revoked_ms > 0 OR (expires_ms > 0 AND expires_ms <= ?2))"

int store_key_insert(struct store *s, const struct store_key *row, struct err *e)
{
	return row_insert(s, key_table, row, row->id, e);
}

int store_key_get(struct store *s, const char *id, struct store_key *ret, struct err *e)
{
	return row_get(s, key_table, "FROM key WHERE id = ?", IN(id), id, ret, e);
}

int store_key_get_by_hash(struct store *s, const uint8_t hash[STORE_KEY_HASH],
			  struct store_key *ret, struct err *e)
{
	return row_get(s, key_table, "FROM key WHERE hash = ?",
		       IN(value_blob(hash, STORE_KEY_HASH)), "with this hash", ret, e);
}

int store_key_touch(struct store *s, const char *id, uint64_t used_ms, struct err *e)
{
	return stmt_change(s, "UPDATE key SET last_used_ms = max(last_used_ms, ?) WHERE id = ?",
			   IN(used_ms, id), id, e);
}

int store_key_revoke(struct store *s, const char *id, uint64_t revoked_ms, struct err *e)
{
	return stmt_change(s,
			   "UPDATE key SET revoked_ms = CASE revoked_ms WHEN 0 THEN ? ELSE"
			   " revoked_ms END WHERE id = ?",
			   IN(revoked_ms, id), id, e);
}

int store_key_revoke_all(struct store *s, const char *tenant, uint64_t revoked_ms, struct err *e)
{
	return stmt_run(s, "UPDATE key SET revoked_ms = ? WHERE tenant = ? AND revoked_ms = 0",
			IN(revoked_ms, tenant), tenant, e);
}

int store_key_list(struct store *s, const struct store_key_filter *f, store_key_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e)
{
	bool resumed = f->after_id != NULL && f->after_id[0] != '\0';
	struct row_list l = {
		.look = READ_AS(key_table,
				"SELECT 0, 1, created_ms, id, @ FROM key WHERE tenant = ?"
				" AND (created_ms, id) > (?, ?) ORDER BY created_ms, id LIMIT ?"),
		.in = IN(f->tenant, resumed ? f->after_ms : 0, f->after_id, value_limit(f->limit)),
		.limit = f->limit,
	};

	return key_list(s, &l, fn, cookie, ret, e);
}

int store_key_expiring(struct store *s, uint64_t after_ms, const char *after_id, unsigned limit,
		       store_key_fn *fn, void *cookie, struct err *e)
{
	return key_each(s,
			READ(key_table,
			     "FROM key WHERE expires_ms > 0 AND revoked_ms = 0"
			     " AND (expires_ms, id) > (?, ?) ORDER BY expires_ms, id LIMIT ?"),
			IN(after_ms, after_id, value_limit(limit)), fn, cookie, e);
}

int store_key_count(struct store *s, const char *tenant, uint64_t now_ms, uint64_t *ret,
		    struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM key WHERE tenant = ?1 AND NOT " KEY_DEAD,
			   IN(tenant, now_ms), tenant, ret, e);
}

int store_key_prune(struct store *s, const char *tenant, uint64_t now_ms, uint64_t keep,
		    struct err *e)
{
	return stmt_run(
		s,
		"DELETE FROM key WHERE id IN (SELECT id FROM key WHERE tenant = ?1 AND " KEY_DEAD
		" ORDER BY created_ms DESC, id DESC LIMIT -1 OFFSET ?3)",
		IN(tenant, now_ms, keep), tenant, e);
}
