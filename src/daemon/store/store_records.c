/* store_records.c - see store_records.h. */
#include "daemon/store/store_records.h"

#include <assert.h>
#include <string.h>

#include "daemon/store/stmt.h"
#include "lib/base/str.h"

/* As the statement of store_records_write(). */
static uint64_t records_sum(uint64_t a, int64_t b)
{
	if (b >= 0)
		return a + (uint64_t)b;
	return (uint64_t)-b > a ? 0 : a - (uint64_t)-b;
}

static bool records_are_due(const struct store *s, const char *tenant)
{
	return s->records_due.any && strcmp(s->records_due.tenant, tenant) == 0;
}

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
	stmt_open(&q, s, SQL("SELECT rows, bytes FROM records WHERE tenant = ?"), IN(tenant));
	got = stmt_step(&q, tenant, e);
	if (got > 0) {
		*ret_rows = stmt_get_u64(&q);
		*ret_bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	if (got < 0)
		return -1;
	if (records_are_due(s, tenant)) {
		*ret_rows = records_sum(*ret_rows, s->records_due.rows);
		*ret_bytes = records_sum(*ret_bytes, s->records_due.bytes);
	}
	str_copy(s->records.tenant, tenant);
	s->records.rows = *ret_rows;
	s->records.bytes = *ret_bytes;
	s->records.known = true;
	return 0;
}

int store_records_write(struct store *s, struct err *e)
{
	if (!s->records_due.any)
		return 0;
	s->records_due.any = false;
	return stmt_change(
		s,
		"INSERT INTO records (tenant, rows, bytes) VALUES (?, ?, ?)"
		" ON CONFLICT (tenant) DO UPDATE"
		" SET rows = max(0, rows + excluded.rows), bytes = max(0, bytes + excluded.bytes)",
		IN(s->records_due.tenant, s->records_due.rows, s->records_due.bytes),
		s->records_due.tenant, e);
}

int store_records_add(struct store *s, const char *tenant, int64_t rows, int64_t bytes,
		      struct err *e)
{
	assert(!sqlite3_get_autocommit(s->db));
	if (s->records_due.any && !records_are_due(s, tenant) && store_records_write(s, e) < 0)
		return -1;
	if (!s->records_due.any) {
		s->records_due.any = true;
		str_copy(s->records_due.tenant, tenant);
		s->records_due.rows = s->records_due.bytes = 0;
	}
	s->records_due.rows += rows;
	s->records_due.bytes += bytes;
	if (s->records.known && strcmp(s->records.tenant, tenant) == 0) {
		s->records.rows = records_sum(s->records.rows, rows);
		s->records.bytes = records_sum(s->records.bytes, bytes);
	}
	return 0;
}
