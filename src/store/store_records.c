#include "store_records.h"

#include "stmt.h"

int store_records_get(struct store *s, const char *tenant, uint64_t *ret_rows, uint64_t *ret_bytes,
		      struct err *e)
{
	struct stmt q;
	int got;

	*ret_rows = *ret_bytes = 0;
	stmt_open(&q, s, SQL_RECORDS_GET);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "records of", tenant, e);
	if (got > 0) {
		*ret_rows = stmt_get_u64(&q);
		*ret_bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_records_add(struct store *s, const char *tenant, int64_t rows, int64_t bytes,
		      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_RECORDS_ADD);
	stmt_text(&q, tenant);
	stmt_i64(&q, rows);
	stmt_i64(&q, bytes);
	return stmt_run(&q, true, "records of", tenant, e);
}
