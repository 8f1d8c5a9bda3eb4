#include "store_net_claim.h"

#include "stmt.h"

int store_net_claim_set(struct store *s, const char *session, const struct store_net_claim *row,
			struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_CLAIM_SET);
	stmt_text(&q, session);
	stmt_text(&q, row->rule);
	stmt_u64(&q, row->in);
	stmt_u64(&q, row->out);
	return stmt_run(&q, true, "used", session, e);
}

int store_net_claim_each(struct store *s, const char *session, unsigned limit,
			 store_net_claim_fn *fn, void *cookie, struct err *e)
{
	struct store_net_claim row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_NET_CLAIM_EACH);
	stmt_text(&q, session);
	stmt_limit(&q, limit);
	while ((got = stmt_step(&q, "used", session, e)) > 0) {
		stmt_copy_text(&q, row.rule, sizeof(row.rule));
		row.in = stmt_get_u64(&q);
		row.out = stmt_get_u64(&q);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_net_claim_delete(struct store *s, const char *session, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_NET_CLAIM_DELETE);
	stmt_text(&q, session);
	return stmt_run(&q, false, "used", session, e);
}
