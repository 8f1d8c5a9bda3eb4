#include "store_net.h"

#include "stmt_rows.h"
#include "store_db.h"

int store_net_append(struct store *s, const struct store_net *row, uint64_t *ret_seq, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_APPEND);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->session);
	stmt_u64(&q, row->time_ms);
	stmt_text(&q, row->kind);
	stmt_u64(&q, row->allowed);
	stmt_text(&q, row->name);
	stmt_text(&q, row->data);
	stmt_text(&q, row->execution);
	if (stmt_run(&q, true, "net", row->session, e) < 0)
		return -1;
	if (ret_seq != NULL)
		*ret_seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return 0;
}

static void read_row(struct stmt *q, struct store_net *ret)
{
	ret->seq = stmt_get_u64(q);
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->session, sizeof(ret->session));
	ret->time_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->kind, sizeof(ret->kind));
	ret->allowed = stmt_get_bool(q);
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->data = stmt_get_text(q);
	stmt_copy_text(q, ret->execution, sizeof(ret->execution));
}

STMT_ROWS_LOOK(store_net, "net")

int store_net_list(struct store *s, const struct store_net_filter *filter, store_net_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_LOOK);
	stmt_text(&q, filter->session);
	stmt_u64(&q, filter->after_seq);
	stmt_limit(&q, filter->limit);
	stmt_text_or_null(&q, filter->kind);
	stmt_i32(&q, filter->verdict == STORE_NET_ANY ? -1 : (int32_t)filter->verdict);
	stmt_text_or_null(&q, filter->name);
	stmt_text_or_null(&q, filter->execution);
	return look_rows(&q, SQL_NET_ROW, filter, fn, cookie, ret, e);
}

int store_net_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_LAST);
	return stmt_take_number(&q, "net", ret_seq, e);
}

int store_net_count(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_COUNT);
	stmt_text(&q, session);
	return stmt_take_number(&q, "net", ret, e);
}

int store_net_drop(struct store *s, const char *session, uint64_t weight, uint64_t *ret,
		   struct err *e)
{
	struct stmt q;
	int got, n = 0;

	*ret = 0;
	stmt_open(&q, s, SQL_NET_DROP);
	stmt_text(&q, session);
	stmt_u64(&q, weight);
	for (; (got = stmt_step(&q, "net", session, e)) > 0; n++)
		*ret += stmt_get_u64(&q);
	stmt_close(&q);
	return got < 0 ? -1 : n;
}

int store_net_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		    void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_PRUNE);
	stmt_u64(&q, before_ms);
	stmt_limit(&q, limit);
	return stmt_deleted(&q, fn, cookie, "network records", e);
}

int store_net_count_tenant(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_NET_COUNT_TENANT);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "network records of", tenant, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_net_drop_tenant(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_DROP_TENANT);
	stmt_text(&q, tenant);
	stmt_limit(&q, limit);
	if (stmt_run(&q, false, "network records of", tenant, e) < 0)
		return -1;
	return sqlite3_changes(s->db);
}
