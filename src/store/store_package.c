#include "store_package.h"

#include "stmt_rows.h"
#include "store_db.h"

int store_package_add(struct store *s, const struct store_package *row, bool *ret_new,
		      struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_PACKAGE_ADD);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->session);
	stmt_text(&q, row->ecosystem);
	stmt_text(&q, row->registry);
	stmt_text(&q, row->name);
	stmt_text(&q, row->version);
	stmt_u64(&q, row->result);
	stmt_u64(&q, row->attempts);
	stmt_u64(&q, row->downloads);
	stmt_u64(&q, row->refusals);
	stmt_u64(&q, row->bytes);
	stmt_u64(&q, row->first_ms);
	stmt_u64(&q, row->last_ms);
	stmt_text(&q, row->execution);
	stmt_text(&q, row->data);
	got = stmt_step(&q, "package", row->name, e);
	if (got > 0)
		*ret_new = stmt_get_u64(&q) == row->attempts;
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_package_sum_add(struct store *s, const char *session, const struct store_package_sum *sum,
			  struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_SUM_ADD);
	stmt_text(&q, session);
	stmt_u64(&q, sum->downloads);
	stmt_u64(&q, sum->refusals);
	stmt_u64(&q, sum->mismatches);
	stmt_u64(&q, sum->bytes);
	stmt_u64(&q, sum->hits);
	return stmt_run(&q, true, "packages of", session, e);
}

int store_package_sum_get(struct store *s, const char *session, struct store_package_sum *ret,
			  struct err *e)
{
	struct stmt q;
	int got;

	*ret = (struct store_package_sum){ 0 };
	stmt_open(&q, s, SQL_PACKAGE_SUM_GET);
	stmt_text(&q, session);
	got = stmt_step(&q, "packages of", session, e);
	if (got > 0) {
		ret->downloads = stmt_get_u64(&q);
		ret->refusals = stmt_get_u64(&q);
		ret->mismatches = stmt_get_u64(&q);
		ret->bytes = stmt_get_u64(&q);
		ret->hits = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

static void read_row(struct stmt *q, struct store_package *ret)
{
	ret->seq = stmt_get_u64(q);
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->session, sizeof(ret->session));
	stmt_copy_text(q, ret->ecosystem, sizeof(ret->ecosystem));
	stmt_copy_text(q, ret->registry, sizeof(ret->registry));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	stmt_copy_text(q, ret->version, sizeof(ret->version));
	ret->result = (unsigned)stmt_get_u64(q);
	ret->attempts = stmt_get_u64(q);
	ret->downloads = stmt_get_u64(q);
	ret->refusals = stmt_get_u64(q);
	ret->bytes = stmt_get_u64(q);
	ret->first_ms = stmt_get_u64(q);
	ret->last_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->execution, sizeof(ret->execution));
	ret->data = stmt_get_text(q);
}

STMT_ROWS_LOOK(store_package, "packages")

int store_package_list(struct store *s, const struct store_package_filter *filter,
		       store_package_fn *fn, void *cookie, struct store_looked *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_LOOK);
	stmt_text(&q, filter->session);
	stmt_u64(&q, filter->after_seq);
	stmt_limit(&q, filter->limit);
	stmt_text_or_null(&q, filter->ecosystem);
	stmt_text_or_null(&q, filter->name);
	stmt_text_or_null(&q, filter->execution);
	stmt_i32(&q, filter->result);
	return look_rows(&q, SQL_PACKAGE_ROW, filter, fn, cookie, ret, e);
}

int store_package_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_LAST);
	return stmt_take_number(&q, "packages", ret_seq, e);
}

int store_package_count(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_COUNT);
	stmt_text(&q, session);
	return stmt_take_number(&q, "packages", ret, e);
}

static int drop(struct store *s, enum sql sql, const char *of, unsigned limit, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, of);
	stmt_limit(&q, limit);
	if (stmt_run(&q, false, "packages of", of, e) < 0)
		return -1;
	return sqlite3_changes(s->db);
}

int store_package_drop(struct store *s, const char *session, unsigned limit, struct err *e)
{
	return drop(s, SQL_PACKAGE_DROP, session, limit, e);
}

int store_package_sum_delete(struct store *s, const char *session, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_SUM_DELETE);
	stmt_text(&q, session);
	return stmt_run(&q, false, "packages of", session, e);
}

int store_package_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
			void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_PRUNE);
	stmt_u64(&q, before_ms);
	stmt_limit(&q, limit);
	return stmt_deleted(&q, fn, cookie, "packages", e);
}

int store_package_count_tenant(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_PACKAGE_COUNT_TENANT);
	stmt_text(&q, tenant);
	return stmt_take_number(&q, "packages", ret, e);
}

int store_package_drop_tenant(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	return drop(s, SQL_PACKAGE_DROP_TENANT, tenant, limit, e);
}
