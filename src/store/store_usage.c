#include "store_usage.h"

#include "stmt.h"
#include "store_db.h"

static int add(struct store *s, const char *session, uint64_t hour_ms,
	       const struct store_usage_sums *m, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_USAGE_ADD);
	stmt_text(&q, session);
	stmt_u64(&q, hour_ms);
	stmt_u64(&q, m->cpu_us);
	stmt_u64(&q, m->memory_kib_ms);
	stmt_u64(&q, m->disk_kib_ms);
	stmt_u64(&q, m->net_bytes_in);
	stmt_u64(&q, m->net_bytes_out);
	stmt_u64(&q, m->sessions);
	return stmt_run(&q, true, "usage of", session, e);
}

int store_usage_add(struct store *s, const char *session, uint64_t hour_ms,
		    const struct store_usage_sums *more, const struct store_usage_mark *mark,
		    struct err *e)
{
	struct stmt q;
	bool own;

	if (store_join(s, &own, e) < 0 || add(s, session, hour_ms, more, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_USAGE_SET_MARK);
	stmt_text(&q, session);
	stmt_u64(&q, mark->cpu_us);
	stmt_u64(&q, mark->net_bytes_in);
	stmt_u64(&q, mark->net_bytes_out);
	stmt_u64(&q, mark->seen_ns);
	if (stmt_run(&q, true, "usage of", session, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_usage_mark(struct store *s, const char *session, struct store_usage_mark *ret,
		     struct err *e)
{
	struct stmt q;
	int got;

	*ret = (struct store_usage_mark){ 0 };
	stmt_open(&q, s, SQL_USAGE_MARK);
	stmt_text(&q, session);
	got = stmt_step(&q, "usage of", session, e);
	if (got > 0) {
		ret->cpu_us = stmt_get_u64(&q);
		ret->net_bytes_in = stmt_get_u64(&q);
		ret->net_bytes_out = stmt_get_u64(&q);
		ret->seen_ns = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_usage_forget(struct store *s, const char *session, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_USAGE_FORGET);
	stmt_text(&q, session);
	return stmt_run(&q, false, "usage of", session, e);
}

int store_usage_sum(struct store *s, const char *tenant, uint64_t from_ms, uint64_t to_ms,
		    unsigned limit, store_usage_fn *fn, void *cookie, struct err *e)
{
	struct store_usage_sums sums;
	char label[4 * STORE_USAGE_LABEL_MAX];
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_USAGE_SUM);
	stmt_text(&q, tenant);
	stmt_u64(&q, from_ms);
	stmt_u64(&q, to_ms);
	stmt_limit(&q, limit);
	while ((got = stmt_step(&q, "usage of", tenant, e)) > 0) {
		stmt_copy_text(&q, label, sizeof(label));
		sums.cpu_us = stmt_get_u64(&q);
		sums.memory_kib_ms = stmt_get_u64(&q);
		sums.disk_kib_ms = stmt_get_u64(&q);
		sums.net_bytes_in = stmt_get_u64(&q);
		sums.net_bytes_out = stmt_get_u64(&q);
		sums.sessions = stmt_get_u64(&q);
		fn(label, &sums, cookie);
	}
	stmt_close(&q);
	return got;
}

int store_usage_prune(struct store *s, uint64_t before_ms, unsigned limit, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_USAGE_PRUNE);
	stmt_u64(&q, before_ms);
	stmt_limit(&q, limit);
	if (stmt_run(&q, false, "usage", "", e) < 0)
		return -1;
	return sqlite3_changes(s->db);
}
