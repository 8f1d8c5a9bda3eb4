#include "store_mcp_pin.h"

#include "stmt.h"

int store_mcp_pin_add(struct store *s, const char *session, const struct store_mcp_pin *row,
		      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_MCP_PIN_ADD);
	stmt_text(&q, session);
	stmt_text(&q, row->tool);
	stmt_text(&q, row->hash);
	return stmt_run(&q, false, "mcp_pin", session, e);
}

int store_mcp_pin_each(struct store *s, const char *session, unsigned limit, store_mcp_pin_fn *fn,
		       void *cookie, struct err *e)
{
	struct store_mcp_pin row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_MCP_PIN_EACH);
	stmt_text(&q, session);
	stmt_limit(&q, limit);
	while ((got = stmt_step(&q, "mcp_pin", session, e)) > 0) {
		stmt_copy_text(&q, row.tool, sizeof(row.tool));
		stmt_copy_text(&q, row.hash, sizeof(row.hash));
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_mcp_pin_delete(struct store *s, const char *session, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_MCP_PIN_DELETE);
	stmt_text(&q, session);
	return stmt_run(&q, false, "mcp_pin", session, e);
}

int store_mcp_pin_sweep(struct store *s, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_MCP_PIN_SWEEP);
	return stmt_run(&q, false, "mcp_pin", "", e);
}
