/* store_support.h - a database in a directory of its own, rows that differ in every field, and
 * lists of what came back. */
#ifndef CORDON_TESTS_UNIT_STORE_SUPPORT_H
#define CORDON_TESTS_UNIT_STORE_SUPPORT_H

#include <sqlite3.h>
#include <stdint.h>

#include "daemon/store/store.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_tenant.h"
#include "support.h"

#define MUST(call)                                          \
	do {                                                \
		if ((call) < 0) {                           \
			print_text("# error: ", e.msg);     \
			fail_at(__FILE__, __LINE__, #call); \
		}                                           \
	} while (0)

/* Fails, and as it should. */
/* A client's mistake has no words of the database; every other error names the store first. */
static inline bool store_words(const struct err *e)
{
	if (e->code == ERR_CONFLICT || e->code == ERR_NOT_FOUND)
		return strstr(e->msg, "constraint failed") == NULL;
	return strncmp(e->msg, "store: ", 7) == 0;
}

#define FAILS(call, want)                                                  \
	do {                                                               \
		e = (struct err){ 0 };                                     \
		if ((call) >= 0 || e.code != (want) || !store_words(&e)) { \
			print_text("# error: ", e.msg);                    \
			fail_at(__FILE__, __LINE__, #call);                \
		}                                                          \
	} while (0)

static char test_dir[64];

static inline void remove_dir(void)
{
	static const char *const files[] = { "cordon.db", "cordon.db-wal", "cordon.db-shm",
					     "cordon.db-reserve" };
	char path[128];

	for (size_t i = 0; i < COUNT(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", test_dir, files[i]);
		(void)unlink(path);
	}
	(void)rmdir(test_dir);
}

static inline void make_dir(void)
{
	(void)snprintf(test_dir, sizeof(test_dir), "/tmp/cordon-store-XXXXXX");
	CHECK(mkdtemp(test_dir) != NULL);
}

static inline const char *db_path(void)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", test_dir, STORE_FILE);
	return path;
}

static inline struct store *open_store(void)
{
	struct store *s = NULL;
	struct err e;

	MUST(store_open(&s, test_dir, &e));
	return s;
}

/* A new one, with the tenants ten_a and ten_b. */
static inline struct store *new_store(void)
{
	struct store_tenant a = { .id = "ten_a", .name = "a" }, b = { .id = "ten_b", .name = "b" };
	struct store *s;
	struct err e;

	make_dir();
	s = open_store();
	MUST(store_tenant_insert(s, &a, &e));
	MUST(store_tenant_insert(s, &b, &e));
	return s;
}

static inline void end_store(struct store *s)
{
	store_close(s);
	remove_dir();
}

static inline struct store_session a_session(const char *id, const char *tenant,
					     uint64_t created_ms)
{
	struct store_session row = { .template = "host", .created_ms = created_ms };

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	return row;
}

/* Ids in the order in which they came: "a b c". */
struct ids {
	char text[1024];
	size_t n, stop_at; /* stop_at > 0: enough after so many */
};

static inline int add_id(struct ids *ids, const char *id)
{
	size_t len = strlen(ids->text);

	(void)snprintf(ids->text + len, sizeof(ids->text) - len, "%s%s", len == 0 ? "" : " ", id);
	ids->n++;
	return ids->stop_at > 0 && ids->n == ids->stop_at;
}

/* A second connection, as another process has it. */
static inline sqlite3 *other_connection(void)
{
	sqlite3 *db = NULL;

	CHECK(sqlite3_open(db_path(), &db) == SQLITE_OK);
	return db;
}

static inline int64_t number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return value;
}

static inline void other_runs(sqlite3 *db, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_at(__FILE__, __LINE__, why);
}

/* a: 1 to 5, the last two at the same time; b: 6. */
static inline struct store *six_sessions(void)
{
	static const uint64_t created[] = { 10, 20, 30, 40, 40, 25 };
	struct store *s = new_store();
	struct err e;

	for (size_t i = 0; i < COUNT(created); i++) {
		char id[STORE_ID_MAX];
		struct store_session row;

		(void)snprintf(id, sizeof(id), "ses_%zu", i + 1);
		row = a_session(id, i == 5 ? "ten_b" : "ten_a", created[i]);
		row.state = (uint32_t)i;
		row.ended_ms = i < 2 ? 100 + i : 0;
		row.limits.memory_bytes = 1ULL << i;
		row.limits.disk_bytes = 100;
		if (i == 2)
			memcpy(row.template, "other", 6);
		MUST(store_session_insert(s, &row, &e));
	}
	return s;
}

#endif
