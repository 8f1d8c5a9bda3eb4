#include "store_volume.h"

#include "stmt_rows.h"

/* Values and columns come in the order of VOLUME_COLUMNS in sql.c. */

int store_volume_insert(struct store *s, const struct store_volume *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->kind);
	stmt_u64(&q, row->state);
	stmt_u64(&q, row->bytes);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, row->expires_ms);
	stmt_u64(&q, row->generation);
	return stmt_run(&q, true, "volume", row->name, e);
}

static int change(struct store *s, enum sql sql, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, id);
	return stmt_run(&q, true, "volume", id, e);
}

int store_volume_set_ready(struct store *s, const char *id, struct err *e)
{
	return change(s, SQL_VOLUME_SET_READY, id, e);
}

int store_volume_set_kind(struct store *s, const char *id, uint32_t kind, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_SET_KIND);
	stmt_text(&q, id);
	stmt_u64(&q, kind);
	return stmt_run(&q, true, "volume", id, e);
}

int store_volume_set_dying(struct store *s, const char *id, struct err *e)
{
	return change(s, SQL_VOLUME_SET_DYING, id, e);
}

int store_volume_delete(struct store *s, const char *id, struct err *e)
{
	return change(s, SQL_VOLUME_DELETE, id, e);
}

static void read_row(struct stmt *q, struct store_volume *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->kind = stmt_get_u32(q);
	ret->state = stmt_get_u32(q);
	ret->bytes = stmt_get_u64(q);
	ret->created_ms = stmt_get_u64(q);
	ret->expires_ms = stmt_get_u64(q);
	ret->generation = stmt_get_u64(q);
}

/* Its texts are copies already. */
static int own_row(struct store_volume *row, struct err *e)
{
	(void)row;
	(void)e;
	return 0;
}

STMT_ROWS_GET(store_volume, "volume")
STMT_ROWS_EACH(store_volume, "volumes")

int store_volume_get(struct store *s, const char *id, struct store_volume *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_GET);
	stmt_text(&q, id);
	return get_row(&q, id, ret, e);
}

int store_volume_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_volume *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_BY_NAME);
	stmt_text(&q, tenant);
	stmt_text(&q, name);
	return get_row(&q, name, ret, e);
}

int store_volume_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_volume_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_LIST);
	stmt_text(&q, tenant);
	stmt_text(&q, after);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_volume_each_unready(struct store *s, const char *after_id, unsigned limit,
			      store_volume_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_UNREADY);
	stmt_text(&q, after_id);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_volume_expired(struct store *s, uint64_t until_ms, unsigned limit, store_volume_fn *fn,
			 void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_EXPIRED);
	stmt_u64(&q, until_ms);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_volume_sum(struct store *s, const char *tenant, uint64_t *ret_count, uint64_t *ret_bytes,
		     struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_VOLUME_SUM);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "volumes", tenant, e);
	if (got > 0) {
		*ret_count = stmt_get_u64(&q);
		*ret_bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_volume_add_use(struct store *s, const char *volume, const char *session, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_VOLUME_ADD_USE);
	stmt_text(&q, volume);
	stmt_text(&q, session);
	return stmt_run(&q, true, "volume", volume, e);
}

int store_volume_uses(struct store *s, const char *id, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_VOLUME_USES);
	stmt_text(&q, id);
	got = stmt_step(&q, "volume", id, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}
