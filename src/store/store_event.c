#include "store_event.h"

#include "stmt.h"
#include "store_db.h"

int store_event_append(struct store *s, const struct store_event *row, uint64_t *ret_seq,
		       struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EVENT_APPEND);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->session);
	stmt_text(&q, row->execution);
	stmt_u64(&q, row->time_ms);
	stmt_text(&q, row->type);
	stmt_text(&q, row->data);
	stmt_actor(&q, &row->actor);
	if (stmt_run(&q, true, "event", row->type, e) < 0)
		return -1;
	if (ret_seq != NULL)
		*ret_seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return 0;
}

static void read_row(struct stmt *q, struct store_event *ret)
{
	ret->seq = stmt_get_u64(q);
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->session, sizeof(ret->session));
	stmt_copy_text(q, ret->execution, sizeof(ret->execution));
	ret->time_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->type, sizeof(ret->type));
	ret->data = stmt_get_text(q);
	stmt_get_actor(q, &ret->actor);
}

static enum sql statement_of(const struct store_event_filter *filter)
{
	if (filter->session != NULL)
		return filter->descending ? SQL_EVENT_LIST_SESSION_DOWN : SQL_EVENT_LIST_SESSION;
	return filter->tenant != NULL ? SQL_EVENT_LIST_TENANT : SQL_EVENT_LIST;
}

int store_event_list(struct store *s, const struct store_event_filter *filter, store_event_fn *fn,
		     void *cookie, struct store_looked *ret, struct err *e)
{
	struct store_looked done = { .seq = filter->after_seq };
	struct store_event row;
	struct stmt q;
	int got, stop = 0;

	stmt_open(&q, s, statement_of(filter));
	stmt_u64(&q, filter->descending && filter->after_seq == 0 ? UINT64_MAX : filter->after_seq);
	stmt_limit(&q, filter->limit);
	if (filter->session != NULL || filter->tenant != NULL)
		stmt_text_or_null(&q, filter->tenant);
	if (filter->session != NULL)
		stmt_text(&q, filter->session);
	while (stop == 0 && (got = stmt_step(&q, "events", "", e)) > 0) {
		read_row(&q, &row);
		stop = fn(&row, cookie) != 0;
		if (stop == 0) {
			done.seq = row.seq;
			done.rows++;
		}
	}
	stmt_close(&q);
	done.end = stop == 0 && got == 0 && (filter->limit == 0 || done.rows < filter->limit);
	if (ret != NULL)
		*ret = done;
	return stop == 0 && got < 0 ? -1 : 0;
}

int store_event_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EVENT_LAST);
	got = stmt_step(&q, "events", "", e);
	if (got > 0)
		*ret_seq = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_event_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		      void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EVENT_PRUNE);
	stmt_u64(&q, before_ms);
	stmt_limit(&q, limit);
	return stmt_deleted(&q, fn, cookie, "events", e);
}

int store_event_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EVENT_COUNT);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "events of", tenant, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_event_drop(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EVENT_DROP);
	stmt_text(&q, tenant);
	stmt_limit(&q, limit);
	if (stmt_run(&q, false, "events of", tenant, e) < 0)
		return -1;
	return sqlite3_changes(s->db);
}
