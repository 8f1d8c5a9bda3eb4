#include "store_key.h"

#include <string.h>

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
	stmt_allow(&q, &row->allow);
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
	stmt_get_allow(q, &ret->allow);
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

int store_key_revoke_all(struct store *s, const char *tenant, uint64_t revoked_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_REVOKE_ALL);
	stmt_u64(&q, revoked_ms);
	stmt_text(&q, tenant);
	return stmt_run(&q, false, "keys of", tenant, e);
}

int store_key_list(struct store *s, const struct store_key_filter *f, store_key_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e)
{
	struct store_looked done = { 0 };
	struct store_key row;
	struct stmt q;
	int got, stop = 0;

	stmt_open(&q, s, SQL_KEY_LIST);
	stmt_text(&q, f->tenant);
	stmt_u64(&q, f->after_id == NULL || f->after_id[0] == '\0' ? 0 : f->after_ms);
	stmt_text(&q, f->after_id);
	stmt_limit(&q, f->limit);
	while (stop == 0 && (got = stmt_step(&q, "keys of", f->tenant, e)) > 0) {
		read_row(&q, &row);
		stop = fn(&row, cookie) != 0;
		if (stop == 0) {
			done.rows++;
			done.ms = row.created_ms;
			memcpy(done.id, row.id, sizeof(done.id));
		}
	}
	stmt_close(&q);
	done.end = stop == 0 && got == 0 && (f->limit == 0 || done.rows < f->limit);
	if (ret != NULL)
		*ret = done;
	return stop == 0 && got < 0 ? -1 : 0;
}

int store_key_expiring(struct store *s, uint64_t after_ms, const char *after_id, unsigned limit,
		       store_key_fn *fn, void *cookie, struct err *e)
{
	struct store_key row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_KEY_EXPIRING);
	stmt_u64(&q, after_ms);
	stmt_text(&q, after_id);
	stmt_limit(&q, limit);
	while ((got = stmt_step(&q, "keys", "that expire", e)) > 0) {
		read_row(&q, &row);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_key_count(struct store *s, const char *tenant, uint64_t now_ms, uint64_t *ret,
		    struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_KEY_COUNT);
	stmt_text(&q, tenant);
	stmt_u64(&q, now_ms);
	got = stmt_step(&q, "keys of", tenant, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_key_prune(struct store *s, const char *tenant, uint64_t now_ms, uint64_t keep,
		    struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_KEY_PRUNE);
	stmt_text(&q, tenant);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, keep);
	return stmt_run(&q, false, "keys of", tenant, e);
}
