#include "store_key.h"

#include "stmt.h"

int store_key_insert(struct store *s, const struct store_key *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	stmt_blob(&q, row->hash, sizeof(row->hash));
	stmt_text(&q, row->prefix);
	stmt_u64(&q, row->scopes);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, row->expires_ms);
	stmt_u64(&q, row->last_used_ms);
	stmt_u64(&q, row->revoked_ms);
	return stmt_run(&q, true, "key", row->id, e);
}

static void read_row(struct stmt *q, struct store_key *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	stmt_copy_blob(q, ret->hash, sizeof(ret->hash));
	stmt_copy_text(q, ret->prefix, sizeof(ret->prefix));
	ret->scopes = stmt_get_u32(q);
	ret->created_ms = stmt_get_u64(q);
	ret->expires_ms = stmt_get_u64(q);
	ret->last_used_ms = stmt_get_u64(q);
	ret->revoked_ms = stmt_get_u64(q);
}

/* The statement's values are in. */
static int get(struct stmt *q, const char *id, struct store_key *ret, struct err *e)
{
	int got = stmt_step(q, "key", id, e);

	if (got > 0)
		read_row(q, ret);
	stmt_close(q);
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "store: key %.40s: not found", id);
	return got > 0 ? 0 : -1;
}

int store_key_get(struct store *s, const char *id, struct store_key *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_GET);
	stmt_text(&q, id);
	return get(&q, id, ret, e);
}

int store_key_get_by_hash(struct store *s, const uint8_t hash[STORE_KEY_HASH],
			  struct store_key *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_BY_HASH);
	stmt_blob(&q, hash, STORE_KEY_HASH);
	return get(&q, "with this hash", ret, e);
}

int store_key_touch(struct store *s, const char *id, uint64_t used_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_TOUCH);
	stmt_u64(&q, used_ms);
	stmt_text(&q, id);
	return stmt_run(&q, true, "key", id, e);
}

int store_key_revoke(struct store *s, const char *id, uint64_t revoked_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_REVOKE);
	stmt_u64(&q, revoked_ms);
	stmt_text(&q, id);
	return stmt_run(&q, true, "key", id, e);
}

int store_key_each(struct store *s, const char *tenant, store_key_fn *fn, void *cookie,
		   struct err *e)
{
	struct store_key row;
	struct stmt q;
	int got;

	stmt_open(&q, s, tenant == NULL ? SQL_KEY_EACH : SQL_KEY_EACH_OF_TENANT);
	if (tenant != NULL)
		stmt_text(&q, tenant);
	while ((got = stmt_step(&q, "keys", "", e)) > 0) {
		read_row(&q, &row);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}
