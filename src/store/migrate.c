/* migrate.c - see migrate.h. */
#include "migrate.h"

#include <stdio.h>

#include "own.h"
#include "sql_error.h"

static int run(sqlite3 *db, const char *sql, struct err *e)
{
	int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : sql_error(db, code, "schema", "", e);
}

static int read_number(sqlite3 *db, const char *sql, int64_t *ret, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(st);
	if (code == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return code == SQLITE_ROW ? 0 : sql_error(db, code, "schema", "", e);
}

/* Checks that the database is Cordon's, or empty. */
static int check_file(sqlite3 *db, size_t n, int64_t *ret_version, struct err *e)
{
	int64_t application = 0, tables = 0, version = 0;

	if (read_number(db, "PRAGMA application_id", &application, e) < 0 ||
	    read_number(db, "PRAGMA user_version", &version, e) < 0 ||
	    read_number(db, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0)
		return -1;
	if (application != MIGRATE_APPLICATION && (application != 0 || version != 0 || tables != 0))
		return err_set(e, ERR_INVALID, "store: the file is not a database of Cordon's");
	if (version < 0 || version > (int64_t)n)
		return err_set(
			e, ERR_UNSUPPORTED,
			"store: the database has schema version %lld, and this program knows "
			"%zu: it was made by a newer Cordon",
			(long long)version, n);
	*ret_version = version;
	return 0;
}

static int take_step(sqlite3 *db, const char *step, int version, struct err *e)
{
	char mark[96];

	(void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		       MIGRATE_APPLICATION, version);
	if (run(db, "BEGIN IMMEDIATE", e) < 0)
		return -1;
	if (run(db, step, e) == 0 && run(db, mark, e) == 0 && run(db, "COMMIT", e) == 0)
		return 0;
	if (sqlite3_get_autocommit(db) == 0)
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return err_wrap(e, "schema version %d", version);
}

int migrate_run(sqlite3 *db, const char *const *steps, size_t n, struct err *e)
{
	int64_t version = 0;

	if (check_file(db, n, &version, e) < 0)
		return -1;
	for (; version < (int64_t)n; version++)
		if (take_step(db, steps[version], (int)version + 1, e) < 0)
			return -1;
	return 0;
}
