#include "store_records.h"

#include <stdio.h>
#include <string.h>

#include "stmt.h"
#include "store_db.h"

int store_records_get(struct store *s, const char *tenant, uint64_t *ret_rows, uint64_t *ret_bytes,
		      struct err *e)
{
	struct stmt q;
	int got;

	*ret_rows = *ret_bytes = 0;
	if (s->records.known && strcmp(s->records.tenant, tenant) == 0) {
		*ret_rows = s->records.rows;
		*ret_bytes = s->records.bytes;
		return 0;
	}
	stmt_open(&q, s, SQL_RECORDS_GET);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "records of", tenant, e);
	if (got > 0) {
		*ret_rows = stmt_get_u64(&q);
		*ret_bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	if (got < 0)
		return -1;
	(void)snprintf(s->records.tenant, sizeof(s->records.tenant), "%s", tenant);
	s->records.rows = *ret_rows;
	s->records.bytes = *ret_bytes;
	s->records.known = true;
	return 0;
}

/* As SQL_RECORDS_ADD does it. */
static uint64_t sum(uint64_t a, int64_t b)
{
	if (b >= 0)
		return a + (uint64_t)b;
	return (uint64_t)-b > a ? 0 : a - (uint64_t)-b;
}

int store_records_add(struct store *s, const char *tenant, int64_t rows, int64_t bytes,
		      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_RECORDS_ADD);
	stmt_text(&q, tenant);
	stmt_i64(&q, rows);
	stmt_i64(&q, bytes);
	if (stmt_run(&q, true, "records of", tenant, e) < 0)
		return -1;
	if (s->records.known && strcmp(s->records.tenant, tenant) == 0) {
		s->records.rows = sum(s->records.rows, rows);
		s->records.bytes = sum(s->records.bytes, bytes);
	}
	return 0;
}
