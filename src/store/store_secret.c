#include "store_secret.h"

#include "stmt_rows.h"

/* Values and columns come in the order of SECRET_COLUMNS in sql.c. */

static void put_texts(struct stmt *q, const struct store_secret *row)
{
	stmt_text(q, row->metadata);
	stmt_text(q, row->hosts);
	stmt_text(q, row->methods);
	stmt_text(q, row->paths);
	stmt_text(q, row->places);
	stmt_blob(q, row->box, row->box_len);
}

int store_secret_insert(struct store *s, const struct store_secret *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->version);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, row->updated_ms);
	stmt_u64(&q, row->expires_ms);
	stmt_u64(&q, row->ways);
	put_texts(&q, row);
	return stmt_run(&q, true, "secret", row->name, e);
}

int store_secret_update(struct store *s, const struct store_secret *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_UPDATE);
	stmt_u64(&q, row->version);
	stmt_u64(&q, row->updated_ms);
	stmt_u64(&q, row->expires_ms);
	stmt_u64(&q, row->ways);
	put_texts(&q, row);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "secret", row->name, e);
}

int store_secret_reseal(struct store *s, const struct store_secret *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_RESEAL);
	stmt_blob(&q, row->box, row->box_len);
	stmt_text(&q, row->id);
	stmt_u64(&q, row->version);
	return stmt_run(&q, true, "secret", row->name, e);
}

static void read_row(struct stmt *q, struct store_secret *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->version = stmt_get_u64(q);
	ret->created_ms = stmt_get_u64(q);
	ret->updated_ms = stmt_get_u64(q);
	ret->expires_ms = stmt_get_u64(q);
	ret->ways = stmt_get_u32(q);
	ret->metadata = stmt_get_text(q);
	ret->hosts = stmt_get_text(q);
	ret->methods = stmt_get_text(q);
	ret->paths = stmt_get_text(q);
	ret->places = stmt_get_text(q);
	ret->box = stmt_get_blob(q, &ret->box_len);
	ret->owned = NULL;
}

static int own_row(struct store_secret *row, struct err *e)
{
	const char **const texts[] = { &row->metadata, &row->hosts, &row->methods, &row->paths,
				       &row->places };

	return stmt_own(texts, COUNT(texts), &row->box, row->box_len, &row->owned, e);
}

STMT_ROWS_GET(store_secret, "secret")
STMT_ROWS_EACH(store_secret, "secrets")

int store_secret_get(struct store *s, const char *id, struct store_secret *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_GET);
	stmt_text(&q, id);
	return get_row(&q, id, ret, e);
}

int store_secret_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_secret *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_BY_NAME);
	stmt_text(&q, tenant);
	stmt_text(&q, name);
	return get_row(&q, name, ret, e);
}

void store_secret_release(struct store_secret *row)
{
	free(row->owned);
	row->owned = NULL;
}

int store_secret_delete(struct store *s, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_DELETE);
	stmt_text(&q, id);
	return stmt_run(&q, true, "secret", id, e);
}

int store_secret_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_secret_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_LIST);
	stmt_text(&q, tenant);
	stmt_text(&q, after);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_secret_each(struct store *s, const char *after_id, unsigned limit, store_secret_fn *fn,
		      void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_EACH);
	stmt_text(&q, after_id);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_secret_expiring(struct store *s, uint64_t after_ms, const char *after_id,
			  uint64_t until_ms, unsigned limit, store_secret_fn *fn, void *cookie,
			  struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SECRET_EXPIRING);
	stmt_u64(&q, after_ms);
	stmt_text(&q, after_id);
	stmt_u64(&q, until_ms);
	stmt_limit(&q, limit);
	return each_row(&q, fn, cookie, e);
}

int store_secret_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_SECRET_COUNT);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "secrets", tenant, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}
