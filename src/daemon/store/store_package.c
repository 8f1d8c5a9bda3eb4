/* store_package.c - see store_package.h. */
#include "daemon/store/store_package.h"

#include "daemon/store/stmt.h"

#define ROW struct store_package
static const struct column package_columns[] = {
	COLUMN_READ_ONLY(seq, "seq"),
	COLUMN(tenant, "tenant", 0),
	COLUMN(session, "session", 0),
	COLUMN(ecosystem, "ecosystem", 0),
	COLUMN(registry, "registry", 0),
	COLUMN(name, "name", 0),
	COLUMN(version, "version", 0),
	/* of all records of the package */
	COLUMN(result, "result", 0),
	COLUMN(attempts, "attempts", 0),
	COLUMN(downloads, "downloads", 0),
	COLUMN(refusals, "refusals", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(first_ms, "first_ms", 0),
	COLUMN(last_ms, "last_ms", 0),
	COLUMN(execution, "execution", 0),
	COLUMN(data, "data", 0),
};
static const struct table package_table = TABLE("package", package_columns);
#undef ROW

#define ROW struct store_package_sum
static const struct column sum_columns[] = {
	COLUMN(downloads, "downloads", 0),
	COLUMN(refusals, "refusals", 0),
	COLUMN(mismatches, "mismatches", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(hits, "hits", 0),
};
static const struct table sum_table = TABLE("package_sum", sum_columns);
#undef ROW

ROWS_LIST(package_list, store_package)

/* 2^53: sums of numbers that cordon-egress reports stay below it, since a sum that overflows is an
 * error. */
#define NUMBER_MAX "9007199254740992"

/* A record is added to a row. Details are those of the record with the higher result. Files, an
 * object of names and digests, are those of both. */
#define PACKAGE_DATA "CASE WHEN excluded.result >= result THEN excluded.data ELSE data END"
#define PACKAGE_FILES(of) "coalesce(json_extract(" of ", '$.files'), '{}')"

/* The right sides see the row as it was before. */
#define PACKAGE_ADD                                                                                           \
	"INSERT INTO package (@) VALUES (@{?})"                                                               \
	" ON CONFLICT (session, ecosystem, registry, name, version) DO UPDATE SET"                            \
	" attempts = attempts + excluded.attempts, downloads = downloads + excluded.downloads,"               \
	" refusals = refusals + excluded.refusals,"                                                           \
	" bytes = min(bytes + excluded.bytes, " NUMBER_MAX "),"                                               \
	" last_ms = max(last_ms, excluded.last_ms), execution ="                                              \
	" CASE WHEN excluded.result >= result THEN excluded.execution ELSE execution END,"                    \
	" data = CASE WHEN " PACKAGE_FILES(                                                                   \
		"data") " = '{}'"                                                                             \
			" AND " PACKAGE_FILES(                                                                \
				"excluded.data") " = '{}' THEN " PACKAGE_DATA                                 \
						 " WHEN length(data) > 16384" /* so many files                \
										 that no more are             \
										 noted */                     \
						 " THEN json_set(" PACKAGE_DATA                               \
						 ", '$.files', json(" PACKAGE_FILES(                          \
							 "data") "))"                                         \
								 " ELSE json_set(" PACKAGE_DATA               \
								 ", '$.files', "                              \
								 "json(json_patch(" PACKAGE_FILES(            \
									 "data") ","                          \
										 " " PACKAGE_FILES(           \
											 "exclude"            \
											 "d.data") "))) END," \
												   " result = max(result, excluded.result) RETURNING attempts"

int store_package_add(struct store *s, const struct store_package *row, bool *ret_new,
		      struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, INSERT(package_table, PACKAGE_ADD), IN_NONE);
	row_put(&q, row);
	got = stmt_step(&q, row->name, e);
	if (got > 0)
		*ret_new = stmt_get_u64(&q) == row->attempts;
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_package_sum_add(struct store *s, const char *session, const struct store_package_sum *sum,
			  struct err *e)
{
	return row_add(s, sum_table,
		       "INSERT INTO package_sum (session, @) VALUES (?, @{?})"
		       " ON CONFLICT (session) DO UPDATE SET @{% = min(% + excluded.%, " NUMBER_MAX
		       ")}",
		       IN(session), sum, session, e);
}

int store_package_sum_get(struct store *s, const char *session, struct store_package_sum *ret,
			  struct err *e)
{
	return row_find(s, sum_table, "FROM package_sum WHERE session = ?", IN(session), session,
			ret, e);
}

int store_package_sum_delete(struct store *s, const char *session, struct err *e)
{
	return stmt_run(s, "DELETE FROM package_sum WHERE session = ?", IN(session), session, e);
}

int store_package_list(struct store *s, const struct store_package_filter *f, store_package_fn *fn,
		       void *cookie, struct store_looked *ret, struct err *e)
{
	struct row_list l = {
		.look = SQL("SELECT seq, (?4 IS NULL OR ecosystem = ?4) AND (?5 IS NULL"
			    " OR name = ?5) AND (?6 IS NULL OR execution = ?6) AND (?7 < 0"
			    " OR result = ?7), 0, '' FROM package"
			    " INDEXED BY package_session WHERE session = ?1 AND seq > ?2"
			    " ORDER BY seq LIMIT ?3"),
		.in = IN(f->session, f->after_seq, value_limit(f->limit),
			 value_or_null(f->ecosystem), value_or_null(f->name),
			 value_or_null(f->execution), f->result),
		.row = READ(package_table, "FROM package WHERE seq = ?"),
		.limit = f->limit,
		.at = { .seq = f->after_seq },
	};

	return package_list(s, &l, fn, cookie, ret, e);
}

int store_package_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	return stmt_number(
		s, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'package'), 0)",
		IN_NONE, "", ret_seq, e);
}

int store_package_count(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	return stmt_number(
		s, "SELECT count(*) FROM package INDEXED BY package_session WHERE session = ?",
		IN(session), session, ret, e);
}

int store_package_drop(struct store *s, const char *session, unsigned limit, struct err *e)
{
	return stmt_run_counted(
		s,
		"DELETE FROM package WHERE seq IN (SELECT seq FROM package"
		" INDEXED BY package_drop WHERE session = ? ORDER BY downloads > 0, seq LIMIT ?)",
		IN(session, value_limit(limit)), session, e);
}

int store_package_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
			void *cookie, struct err *e)
{
	return stmt_delete(s,
			   "DELETE FROM package WHERE seq IN (SELECT seq FROM package"
			   " INDEXED BY package_last WHERE last_ms < ?1 ORDER BY last_ms"
			   " LIMIT ?2) RETURNING tenant",
			   IN(before_ms, value_limit(limit)), fn, cookie, e);
}

int store_package_count_tenant(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(
		s, "SELECT count(*) FROM package INDEXED BY package_tenant WHERE tenant = ?",
		IN(tenant), tenant, ret, e);
}

int store_package_drop_tenant(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	return stmt_run_counted(s,
				"DELETE FROM package WHERE seq IN (SELECT seq"
				" FROM package INDEXED BY package_tenant WHERE tenant = ?"
				" ORDER BY seq LIMIT ?)",
				IN(tenant, value_limit(limit)), tenant, e);
}
