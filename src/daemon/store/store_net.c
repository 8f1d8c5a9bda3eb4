/* store_net.c - see store_net.h. */
#include "daemon/store/store_net.h"

#include "daemon/store/stmt.h"

#define ROW struct store_net
static const struct column net_columns[] = {
	COLUMN_READ_ONLY(seq, "seq"),
	/* given by the caller */
	COLUMN(tenant, "tenant", 0),
	COLUMN(session, "session", 0),
	COLUMN(time_ms, "time_ms", 0),
	COLUMN(kind, "kind", 0),
	COLUMN(allowed, "allowed", 0),
	COLUMN(name, "name", 0),
	COLUMN(data, "data", 0),
	COLUMN(execution, "execution", 0),
};
static const struct table net_table = TABLE("net", net_columns);
#undef ROW

#define ROW struct store_net_claim
static const struct column claim_columns[] = {
	COLUMN(rule, "rule", 0),
	COLUMN(in, "bytes_in", 0),
	COLUMN(out, "bytes_out", 0),
};
static const struct table claim_table = TABLE("used", claim_columns);
#undef ROW

ROWS_LIST(net_list, store_net)
ROWS_EACH(claim_each, store_net_claim)

/* As STORE_NET_WEIGHT(). */
#define NET_WEIGHT "1 + length(CAST(data AS BLOB)) / 1024"

int store_net_append(struct store *s, const struct store_net *row, uint64_t *ret_seq, struct err *e)
{
	if (row_insert(s, net_table, row, row->session, e) < 0)
		return -1;
	if (ret_seq != NULL)
		*ret_seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return 0;
}

/* The data, which may be long, is read only of rows that the list shows. */
#define NET_LIST(index, column)                                                      \
	SQL("SELECT seq, (?4 IS NULL OR kind = ?4) AND (?5 < 0"                      \
	    " OR allowed = ?5) AND (?6 IS NULL OR name = ?6) AND (?7 IS NULL"        \
	    " OR execution = ?7), 0, '' FROM net INDEXED BY " index " WHERE " column \
	    " = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")

int store_net_list(struct store *s, const struct store_net_filter *f, store_net_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e)
{
	int32_t allowed = f->verdict == STORE_NET_ANY ? -1 : (int32_t)f->verdict;
	struct row_list l = {
		.look = f->session != NULL ? NET_LIST("net_session", "session")
					   : NET_LIST("net_tenant", "tenant"),
		.in = IN(f->session != NULL ? f->session : f->tenant, f->after_seq,
			 value_limit(f->limit), value_or_null(f->kind), allowed,
			 value_or_null(f->name), value_or_null(f->execution)),
		.row = READ(net_table, "FROM net WHERE seq = ?"),
		.limit = f->limit,
		.at = { .seq = f->after_seq },
	};

	return net_list(s, &l, fn, cookie, ret, e);
}

int store_net_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	return stmt_number(
		s, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'net'), 0)",
		IN_NONE, "", ret_seq, e);
}

int store_net_count(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	return stmt_number(s,
			   "SELECT coalesce(sum(" NET_WEIGHT
			   "), 0) FROM net INDEXED BY net_session WHERE session = ?",
			   IN(session), session, ret, e);
}

int store_net_drop(struct store *s, const char *session, uint64_t weight, uint64_t *ret,
		   struct err *e)
{
	struct stmt q;
	int got, n = 0;

	*ret = 0;
	/* Each record weighs 1 at least, so that no more than ?2 have to be looked at. */
	stmt_open(&q, s,
		  SQL("DELETE FROM net WHERE session = ?1 AND seq <= (SELECT max(seq)"
		      " FROM (SELECT seq, sum(weight) OVER (ORDER BY seq) - weight AS before"
		      " FROM (SELECT seq, " NET_WEIGHT
		      " AS weight FROM net INDEXED BY net_session WHERE session = ?1"
		      " ORDER BY seq LIMIT ?2)) WHERE before < ?2) RETURNING " NET_WEIGHT),
		  IN(session, weight));
	for (; (got = stmt_step(&q, session, e)) > 0; n++)
		*ret += stmt_get_u64(&q);
	stmt_close(&q);
	return got < 0 ? -1 : n;
}

int store_net_batched(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT net_batched FROM session WHERE id = ?", IN(session), session,
			   ret, e);
}

int store_net_set_batched(struct store *s, const char *session, uint64_t seq, struct err *e)
{
	return stmt_change(s, "UPDATE session SET net_batched = ? WHERE id = ?", IN(seq, session),
			   session, e);
}

int store_net_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		    void *cookie, struct err *e)
{
	return stmt_delete(s,
			   "DELETE FROM net WHERE seq IN (SELECT seq FROM"
			   " (SELECT seq, time_ms FROM net ORDER BY seq LIMIT ?2)"
			   " WHERE time_ms < ?1) RETURNING tenant",
			   IN(before_ms, value_limit(limit)), fn, cookie, e);
}

int store_net_count_tenant(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM net INDEXED BY net_tenant WHERE tenant = ?",
			   IN(tenant), tenant, ret, e);
}

int store_net_drop_tenant(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	return stmt_run_counted(s,
				"DELETE FROM net WHERE seq IN (SELECT seq FROM net"
				" INDEXED BY net_tenant WHERE tenant = ? ORDER BY seq LIMIT ?)",
				IN(tenant, value_limit(limit)), tenant, e);
}

/* ---- claims */

int store_net_claim_set(struct store *s, const char *session, const struct store_net_claim *row,
			struct err *e)
{
	return row_add(s, claim_table, "INSERT OR REPLACE INTO used (session, @) VALUES (?, @{?})",
		       IN(session), row, session, e);
}

int store_net_claim_each(struct store *s, const char *session, unsigned limit,
			 store_net_claim_fn *fn, void *cookie, struct err *e)
{
	return claim_each(s, READ(claim_table, "FROM used WHERE session = ? ORDER BY rule LIMIT ?"),
			  IN(session, value_limit(limit)), fn, cookie, e);
}

int store_net_claim_delete(struct store *s, const char *session, struct err *e)
{
	return stmt_run(s, "DELETE FROM used WHERE session = ?", IN(session), session, e);
}
