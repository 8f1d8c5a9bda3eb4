/* store_build_cache.c - results of steps and uploaded archives: see store_build.h. */
#include "stmt_rows.h"
#include "store_build.h"
#include "store_layer.h"

/* ---- the cache */

int store_build_cache_put(struct store *s, const struct store_build_cached *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_CACHE_PUT);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->key);
	stmt_text(&q, row->layer);
	stmt_u64(&q, row->bytes);
	stmt_u64(&q, row->used_ms);
	stmt_text(&q, row->user);
	stmt_text(&q, row->workdir);
	stmt_blob(&q, row->env, row->env_len);
	return stmt_run(&q, true, "cached step", row->key, e);
}

static void read_row(struct stmt *q, struct store_build_cached *ret)
{
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->key, sizeof(ret->key));
	stmt_copy_text(q, ret->layer, sizeof(ret->layer));
	ret->bytes = stmt_get_u64(q);
	ret->used_ms = stmt_get_u64(q);
	ret->user = stmt_get_text(q);
	ret->workdir = stmt_get_text(q);
	ret->env = stmt_get_blob(q, &ret->env_len);
	ret->owned = NULL;
}

static int own_row(struct store_build_cached *row, struct err *e)
{
	const char **const texts[] = { &row->user, &row->workdir };

	return stmt_own(texts, COUNT(texts), &row->env, row->env_len, &row->owned, e);
}

STMT_ROWS_GET(store_build_cached, "cached step")

void store_build_cache_release(struct store_build_cached *row)
{
	free(row->owned);
	row->owned = NULL;
}

int store_build_cache_get(struct store *s, const char *tenant, const char *key,
			  struct store_build_cached *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_CACHE_GET);
	stmt_text(&q, tenant);
	stmt_text(&q, key);
	return get_row(&q, key, ret, e);
}

int store_build_cache_oldest(struct store *s, const char *tenant, bool idle,
			     struct store_build_cached *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, idle ? SQL_BUILD_CACHE_IDLE : SQL_BUILD_CACHE_OLDEST);
	stmt_text(&q, tenant);
	return get_row(&q, tenant, ret, e);
}

int store_build_cache_touch(struct store *s, const char *tenant, const char *key, uint64_t now_ms,
			    struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_CACHE_TOUCH);
	stmt_u64(&q, now_ms);
	stmt_text(&q, tenant);
	stmt_text(&q, key);
	return stmt_run(&q, false, "cached step", key, e);
}

int store_build_cache_clear(struct store *s, const char *tenant, struct err *e)
{
	struct stmt q;
	bool own;

	if (store_join(s, &own, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_BUILD_CACHE_UNUSE);
	stmt_u64(&q, STORE_LAYER_OF_CACHE);
	stmt_text(&q, tenant);
	if (stmt_run(&q, false, "cached steps of", tenant, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_BUILD_CACHE_CLEAR);
	stmt_text(&q, tenant);
	if (stmt_run(&q, false, "cached steps of", tenant, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_build_cache_delete(struct store *s, const char *tenant, const char *key, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_CACHE_DELETE);
	stmt_text(&q, tenant);
	stmt_text(&q, key);
	return stmt_run(&q, true, "cached step", key, e);
}

static int read_share(struct stmt *q, struct store_build_share *ret, struct err *e)
{
	int got = stmt_step(q, "cached steps", "", e);

	if (got > 0) {
		stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
		ret->bytes = stmt_get_u64(q);
		ret->rows = stmt_get_u64(q);
	} else if (got == 0) {
		(void)err_set(e, ERR_NOT_FOUND, "cached steps: none");
	}
	stmt_close(q);
	return got > 0 ? 0 : -1;
}

int store_build_cache_share(struct store *s, const char *tenant, struct store_build_share *ret,
			    struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_CACHE_SHARE);
	stmt_text(&q, tenant);
	stmt_text(&q, tenant);
	return read_share(&q, ret, e);
}

int store_build_cache_most(struct store *s, bool by_bytes, struct store_build_share *ret,
			   struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, by_bytes ? SQL_BUILD_CACHE_MOST_BYTES : SQL_BUILD_CACHE_MOST_ROWS);
	return read_share(&q, ret, e);
}

int store_build_cache_sum(struct store *s, uint64_t *ret_bytes, uint64_t *ret_rows, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_CACHE_SUM);
	got = stmt_step(&q, "cached steps", "", e);
	if (got > 0) {
		*ret_bytes = stmt_get_u64(&q);
		*ret_rows = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

/* ---- uploads */

int store_build_upload_put(struct store *s, const struct store_build_upload *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_PUT);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->template_id);
	stmt_text(&q, row->hash);
	stmt_text(&q, row->digest);
	stmt_text(&q, row->file);
	stmt_u64(&q, row->bytes);
	stmt_u64(&q, row->used_ms);
	return stmt_run(&q, true, "upload", row->hash, e);
}

static void read_upload(struct stmt *q, struct store_build_upload *ret)
{
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->template_id, sizeof(ret->template_id));
	stmt_copy_text(q, ret->hash, sizeof(ret->hash));
	stmt_copy_text(q, ret->digest, sizeof(ret->digest));
	stmt_copy_text(q, ret->file, sizeof(ret->file));
	ret->bytes = stmt_get_u64(q);
	ret->used_ms = stmt_get_u64(q);
}

int store_build_upload_get(struct store *s, const char *tenant, const char *template_id,
			   const char *hash, struct store_build_upload *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_GET);
	stmt_text(&q, tenant);
	stmt_text(&q, template_id);
	stmt_text(&q, hash);
	got = stmt_step(&q, "upload", hash, e);
	if (got > 0)
		read_upload(&q, ret);
	else if (got == 0)
		(void)err_set(e, ERR_NOT_FOUND, "upload %.64s: not found", hash);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_build_upload_delete(struct store *s, const char *file, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_DELETE);
	stmt_text(&q, file);
	return stmt_run(&q, false, "upload", file, e);
}

static int each_upload(struct stmt *q, store_build_upload_fn *fn, void *cookie, struct err *e)
{
	struct store_build_upload row;
	int got;

	while ((got = stmt_step(q, "uploads", "", e)) > 0) {
		read_upload(q, &row);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(q);
	return got < 0 ? -1 : 0;
}

int store_build_upload_each(struct store *s, store_build_upload_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_EACH);
	return each_upload(&q, fn, cookie, e);
}

int store_build_upload_of(struct store *s, const char *tenant, const char *template_id,
			  store_build_upload_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_OF);
	stmt_text(&q, tenant);
	stmt_text(&q, template_id);
	return each_upload(&q, fn, cookie, e);
}

int store_build_upload_sum(struct store *s, const char *tenant, uint64_t *ret_bytes,
			   uint64_t *ret_rows, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_SUM);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "uploads", tenant, e);
	if (got > 0) {
		*ret_bytes = stmt_get_u64(&q);
		*ret_rows = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_build_upload_has(struct store *s, const char *file, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_UPLOAD_BY_FILE);
	stmt_text(&q, file);
	got = stmt_step(&q, "upload", file, e);
	stmt_close(&q);
	return got;
}
