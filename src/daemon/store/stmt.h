/* stmt.h - statements, their values, and rows as tables of columns. For the store's own files only,
 * as everything that shows SQLite.
 *
 * The text of a statement stands where the statement is used:
 *
 *	return stmt_change(s, "UPDATE key SET name = ? WHERE id = ?", IN(name, id), id, e);
 *
 * Such a text is a constant of the program, by SQL(). The linker puts these constants into one
 * array. store_open() prepares them all, so that a text that does not fit the schema fails there.
 *
 * A table describes the columns of a row, one line for each:
 *
 *	#define ROW struct store_key
 *	static const struct column key_columns[] = {
 *		COLUMN(id, "id", 0),
 *		COLUMN(expires_ms, "expires_ms", 0),
 *	};
 *	static const struct table key_table = TABLE("key", key_columns);
 *	#undef ROW
 *
 *	return row_get(s, key_table, "FROM key WHERE id = ?", IN(id), id, ret, e);
 *
 * In the text of a statement of a table, @{FORM} stands for the form of each column, with commas
 * between, where % is the name of the column: @{?} is "?, ?" and @{% = ?} is "id = ?, expires_ms =
 * ?". @ alone is @{%}, and @table is the name of the table. A statement takes the columns that can
 * be read, those that a new row has, or those of one group. Their order is that of the table, in
 * texts as in values. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/store/store.h"
#include "lib/base/err.h"
#include "lib/base/own.h"

struct checkpointer;

struct store {
	sqlite3 *db;			   /* owned */
	sqlite3_stmt **statements;	   /* owned: one for each SQL() */
	sqlite3_stmt *view;		   /* owned: see stmt_view() */
	uint64_t view_ns;		   /* when it began. 0: it is not open */
	struct checkpointer *checkpointer; /* owned. NULL: there is none */
	unsigned journal_pages;
	bool can_shrink;
	uint64_t rollbacks; /* store_rollbacks() */
	struct {
		bool is_known;	    /* else the rest is of no meaning */
		uint64_t kept;	    /* in the table meta: the last number when its row went */
		uint64_t rollbacks; /* when it was read */
	} events;
	struct {
		bool known; /* else the rest is of no meaning */
		char tenant[STORE_ID_MAX];
		uint64_t rows, bytes;
	} records; /* the row read last, as the open transaction has it */
	struct {
		bool any; /* else the rest is of no meaning */
		char tenant[STORE_ID_MAX];
		int64_t rows, bytes;
	} records_due; /* what store_records_write() adds to a row in the open transaction */
};

/* Set the error of a result code of SQLite (store.h, "Errors"): "store: what id: ...". Return -1.
 */
int sql_error(sqlite3 *db, int code, const char *what, const char *id, struct err *e);

/* ---- texts */

struct sql {
	const char *text;
	const struct table *table; /* NULL: none */
	unsigned columns;	   /* those of the table in one of these sets */
} __attribute__((aligned(32)));	   /* its size, too: no gaps in the section */

#define SQL_OF(text, table, columns)                                                            \
	(__extension__({                                                                        \
		static const struct sql sql_                                                    \
			__attribute__((section("store_sql"))) = { (text), (table), (columns) }; \
		&sql_;                                                                          \
	}))
#define SQL(text) SQL_OF(text, NULL, 0)
#define READ_AS(of, text) SQL_OF(text, &(of), COLUMN_READ)
#define READ(of, text) READ_AS(of, "SELECT @ " text)
#define INSERT(of, text) SQL_OF(text, &(of), COLUMN_NEW)
#define UPDATE(of, group, text) SQL_OF(text, &(of), group)

/* Prepare all statements. */
int stmt_prepare(struct store *s, struct err *e) MUST_USE;
/* Undo stmt_prepare(), also where it has failed. */
void stmt_finalize(struct store *s);

/* End the view that statements share (stmt_open()): the next one begins with a new view. A
 * checkpoint of this connection needs it, and one of another moves more pages. */
void stmt_view_end(struct store *s);
/* Move the whole journal into the database, and cut it. Return SQLite's code. */
int stmt_cut_journal(struct store *s);

/* ---- values of a statement, in the order of its placeholders */

enum value_kind {
	VALUE_END,
	VALUE_NUMBER,
	VALUE_TEXT, /* "" for NULL */
	VALUE_COPY, /* the same. The text may go after stmt_put() */
	VALUE_BLOB,
	VALUE_NULL,
};

struct value {
	enum value_kind kind;
	int64_t number;	   /* of a blob: its length */
	const void *bytes; /* borrowed until stmt_close() */
};

static inline struct value value_i64(int64_t n)
{
	return (struct value){ .kind = VALUE_NUMBER, .number = n };
}

/* INT64_MAX for a larger number. */
static inline struct value value_u64(uint64_t n)
{
	return value_i64(n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static inline struct value value_text(const char *text)
{
	return (struct value){ .kind = VALUE_TEXT, .bytes = text };
}

static inline struct value value_or_null(const char *text)
{
	return (struct value){ .kind = text == NULL ? VALUE_NULL : VALUE_TEXT, .bytes = text };
}

static inline struct value value_blob(const void *bytes, size_t len)
{
	return (struct value){ .kind = VALUE_BLOB, .bytes = bytes, .number = (int64_t)len };
}

/* For LIMIT. 0: none. */
static inline struct value value_limit(unsigned rows)
{
	return value_i64(rows == 0 ? -1 : (int64_t)rows);
}

static inline struct value value_itself(struct value v)
{
	return v;
}

#define VALUE(x) \
	_Generic((x),                     \
		char *: value_text,       \
		const char *: value_text, \
		bool: value_i64,          \
		int32_t: value_i64,       \
		uint32_t: value_i64,      \
		int64_t: value_i64,       \
		uint64_t: value_u64,      \
		struct value: value_itself)(x)
#define VALUES_1(a) [0] = VALUE(a)
#define VALUES_2(a, b) VALUES_1(a), [1] = VALUE(b)
#define VALUES_3(a, b, c) VALUES_2(a, b), [2] = VALUE(c)
#define VALUES_4(a, b, c, d) VALUES_3(a, b, c), [3] = VALUE(d)
#define VALUES_5(a, b, c, d, e) VALUES_4(a, b, c, d), [4] = VALUE(e)
#define VALUES_6(a, b, c, d, e, f) VALUES_5(a, b, c, d, e), [5] = VALUE(f)
#define VALUES_7(a, b, c, d, e, f, g) VALUES_6(a, b, c, d, e, f), [6] = VALUE(g)
#define VALUES_PICK(a, b, c, d, e, f, g, picked, ...) picked

/* One to seven values of the types of VALUE(). */
#define IN(...)                                                                                   \
	((const struct value[]){ VALUES_PICK(__VA_ARGS__, VALUES_7, VALUES_6, VALUES_5, VALUES_4, \
					     VALUES_3, VALUES_2, VALUES_1, 0)(__VA_ARGS__),       \
				 { .kind = VALUE_END } })
#define IN_NONE NULL

/* ---- the use of a statement */

struct stmt {
	struct store *s;
	const struct sql *sql;
	sqlite3_stmt *st;
	int next;   /* the value or column that comes next */
	int failed; /* SQLite's code for a value, which the first step reports */
};

void stmt_open(struct stmt *q, struct store *s, const struct sql *sql, const struct value *in);
void stmt_close(struct stmt *q);

/* Put one more value in. */
void stmt_put(struct stmt *q, const struct value *v);

/* 1: a row is there, and its columns are read from the first on. 0: there are no more rows. -1:
 * failed, the statement is closed, and an open transaction is rolled back. */
int stmt_step(struct stmt *q, const char *id, struct err *e) MUST_USE;

/* Read the next column of a row. A text is never NULL, and is valid until the next step. */
int64_t stmt_get_i64(struct stmt *q);
uint64_t stmt_get_u64(struct stmt *q);
const char *stmt_get_text(struct stmt *q);
void stmt_copy_text(struct stmt *q, char *ret_text, size_t cap); /* cut to cap */

/* Set ERR_NOT_FOUND. Return -1. */
int stmt_not_found(const struct sql *sql, const char *id, struct err *e);

/* Step a statement that writes once, and close it. Return how many rows were changed. */
int stmt_write(struct stmt *q, const char *id, struct err *e) MUST_USE;

/* As above. 0, or ERR_NOT_FOUND if no row was changed. */
int stmt_write_one(struct stmt *q, const char *id, struct err *e) MUST_USE;

/* Run a statement that writes. stmt_change(): ERR_NOT_FOUND if no row was changed.
 * stmt_run_counted() returns how many rows were changed. */
#define stmt_run(s, text, in, id, e) stmt_run_sql(s, SQL(text), in, id, e)
int stmt_run_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		 struct err *e) MUST_USE;
#define stmt_change(s, text, in, id, e) stmt_change_sql(s, SQL(text), in, id, e)
int stmt_change_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		    struct err *e) MUST_USE;
#define stmt_run_counted(s, text, in, id, e) stmt_run_counted_sql(s, SQL(text), in, id, e)
int stmt_run_counted_sql(struct store *s, const struct sql *sql, const struct value *in,
			 const char *id, struct err *e) MUST_USE;
/* Run a DELETE ... RETURNING tenant. Return how many rows were deleted, and call fn, which may be
 * NULL, for each. */
#define stmt_delete(s, text, in, fn, cookie, e) stmt_delete_sql(s, SQL(text), in, fn, cookie, e)
int stmt_delete_sql(struct store *s, const struct sql *sql, const struct value *in,
		    store_gone_fn *fn, void *cookie, struct err *e) MUST_USE;

/* Read the first column of a statement's first row, or the first two. ERR_NOT_FOUND: it has no
 * row. */
#define stmt_number(s, text, in, id, ret, e) stmt_numbers_sql(s, SQL(text), in, id, ret, NULL, e)
#define stmt_numbers(s, text, in, id, ret, ret_second, e) \
	stmt_numbers_sql(s, SQL(text), in, id, ret, ret_second, e)
int stmt_numbers_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		     uint64_t *ret, uint64_t *ret_second, struct err *e) MUST_USE;
#define stmt_id(s, text, in, id, ret, e) stmt_id_sql(s, SQL(text), in, id, ret, e)
int stmt_id_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		char ret[STORE_ID_MAX], struct err *e) MUST_USE;
/* 1: the statement has a row, 0: none, -1. */
#define stmt_exists(s, text, in, id, e) stmt_exists_sql(s, SQL(text), in, id, e)
int stmt_exists_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		    struct err *e) MUST_USE;
/* Call fn with the first two columns of each row: a tenant and a sum. */
#define stmt_sums(s, text, fn, cookie, e) stmt_sums_sql(s, SQL(text), fn, cookie, e)
int stmt_sums_sql(struct store *s, const struct sql *sql, store_sum_fn *fn, void *cookie,
		  struct err *e) MUST_USE;

/* ---- tables */

enum column_kind {
	KIND_U64,
	KIND_U32,
	KIND_I32,
	KIND_BOOL,
	KIND_CHARS,  /* an array of characters, which holds a copy */
	KIND_BYTES,  /* an array of bytes */
	KIND_TEXT,   /* a borrowed text */
	KIND_BLOB,   /* borrowed bytes, with their length in another member */
	KIND_SIZE,   /* no member: the record's size for its tenant (row_size()) */
	KIND_LIMITS, /* two arrays of characters: the limit that ended an execution, all that it hit
		      */
};

/* Sets of columns. */
enum {
	COLUMN_READ = 1 << 0,
	COLUMN_NEW = 1 << 1,	 /* a new row has it */
	COLUMN_COUNTED = 1 << 2, /* its length is a part of row_size() */
	COLUMN_GROUP = 1 << 3,	 /* the first of the groups that a table may name */
};

struct column {
	const char *name; /* of a read-only column: an expression */
	uint8_t kind;
	uint16_t sets;
	uint16_t at, size;		 /* the member */
	uint16_t second_at, second_size; /* of KIND_BLOB: its length. Of KIND_LIMITS: the list */
};

struct table {
	const char *name;
	const struct column *columns;
	uint16_t n, size;
	uint16_t owned; /* offset of the member `owned` of the row. 0: it has none */
};

#define COLUMN_KIND(x) \
	_Generic((x),                        \
		uint64_t: KIND_U64,          \
		uint32_t: KIND_U32,          \
		int32_t: KIND_I32,           \
		bool: KIND_BOOL,             \
		char *: KIND_CHARS,          \
		unsigned char *: KIND_BYTES, \
		const char *: KIND_TEXT)
#define COLUMN_OF(member, column_name, column_kind, column_sets)             \
	.name = (column_name), .kind = (column_kind), .sets = (column_sets), \
	.at = offsetof(ROW, member), .size = sizeof(((ROW *)0)->member)
/* A column of rows of the type ROW, and its sets besides COLUMN_READ and COLUMN_NEW. The type of
 * the member decides its kind. */
#define COLUMN(member, name, more)                                       \
	{                                                                \
		COLUMN_OF(member, name, COLUMN_KIND(((ROW *)0)->member), \
			  COLUMN_READ | COLUMN_NEW | (more))             \
	}
/* An expression, or a column that the database fills in. */
#define COLUMN_READ_ONLY(member, expression)                                                \
	{                                                                                   \
		COLUMN_OF(member, expression, COLUMN_KIND(((ROW *)0)->member), COLUMN_READ) \
	}
#define COLUMN_BLOB(member, len_member, name, more)                                    \
	{                                                                              \
		COLUMN_OF(member, name, KIND_BLOB, COLUMN_READ | COLUMN_NEW | (more)), \
			.second_at = offsetof(ROW, len_member)                         \
	}
#define COLUMN_SIZE(column_name, more)                                                \
	{                                                                             \
		.name = (column_name), .kind = KIND_SIZE, .sets = COLUMN_NEW | (more) \
	}
#define COLUMN_LIMITS(member, list_member, name, more)                                   \
	{                                                                                \
		COLUMN_OF(member, name, KIND_LIMITS, COLUMN_READ | COLUMN_NEW | (more)), \
			.second_at = offsetof(ROW, list_member),                         \
			.second_size = sizeof(((ROW *)0)->list_member)                   \
	}

/* Columns of several tables. */
#define COLUMNS_ACTOR                                                                        \
	COLUMN(actor.interface, "actor_interface", 0), COLUMN(actor.key_id, "actor_key", 0), \
		COLUMN(actor.request_id, "actor_request", 0)
#define COLUMNS_ALLOW(more)                                         \
	COLUMN(allow.templates, "allow_templates", more),           \
		COLUMN(allow.levels, "allow_levels", more),         \
		COLUMN(allow.networks, "allow_networks", more),     \
		COLUMN(allow.memory_bytes, "allow_memory", more),   \
		COLUMN(allow.cpu_millis, "allow_cpu_milli", more),  \
		COLUMN(allow.pids, "allow_pids", more),             \
		COLUMN(allow.disk_bytes, "allow_disk", more),       \
		COLUMN(allow.timeout_ms, "allow_timeout_ms", more), \
		COLUMN(allow.sessions, "allow_sessions", more),     \
		COLUMN(allow.creates_per_minute, "allow_creates", more)

#define TABLE(name, columns)                                  \
	{                                                     \
		name, columns, COUNT(columns), sizeof(ROW), 0 \
	}
/* Of rows with a member `owned`. */
#define TABLE_OWNED(name, columns)                                               \
	{                                                                        \
		name, columns, COUNT(columns), sizeof(ROW), offsetof(ROW, owned) \
	}

/* ---- rows
 *
 * The type of a passed row must be that of the table. */

/* Put the columns of a row in, as the values that come next. */
#define row_put(q, row) row_put_sized(q, row, sizeof(*(row)))
void row_put_sized(struct stmt *q, const void *row, size_t size);

/* Step, and read the columns of the table from the next one on. Texts are borrowed. */
#define row_next(q, id, ret, e) row_next_sized(q, id, ret, sizeof(*(ret)), e)
int row_next_sized(struct stmt *q, const char *id, void *ret, size_t size, struct err *e) MUST_USE;

/* Read one row. Its texts become its own. Without a member `owned` they are NULL. ERR_NOT_FOUND:
 * there is none, and *ret stays as it was. */
#define row_get(s, table, text, in, id, ret, e) row_get_sql(s, READ(table, text), in, id, ret, e)
#define row_get_sql(s, sql, in, id, ret, e) row_get_sized(s, sql, in, id, ret, sizeof(*(ret)), e)
int row_get_sized(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		  void *ret, size_t size, struct err *e) MUST_USE;
/* As above, for a row there or zero. Its texts are NULL. */
#define row_find(s, table, text, in, id, ret, e) \
	row_find_sized(s, READ(table, text), in, id, ret, sizeof(*(ret)), e)
int row_find_sized(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		   void *ret, size_t size, struct err *e) MUST_USE;

/* Insert a row. row_add() does so by a text, with values of other columns before. ERR_NOT_FOUND: no
 * row was changed. */
#define row_insert(s, table, row, id, e) \
	row_add(s, table, "INSERT INTO @table (@) VALUES (@{?})", IN_NONE, row, id, e)
#define row_add(s, table, text, in, row, id, e) \
	row_write_sized(s, INSERT(table, text), in, row, sizeof(*(row)), IN_NONE, id, e)
/* Update the columns of a group in the row with that id. ERR_NOT_FOUND: there is none. */
#define row_update(s, table, group, row, id, e)                                             \
	row_write_sized(s, UPDATE(table, group, "UPDATE @table SET @{% = ?} WHERE id = ?"), \
			IN_NONE, row, sizeof(*(row)), IN(id), id, e)
int row_write_sized(struct store *s, const struct sql *sql, const struct value *before,
		    const void *row, size_t size, const struct value *after, const char *id,
		    struct err *e) MUST_USE;

/* Move the texts that a row borrows into a block that row_release() frees. The row is zeroed if
 * there is no memory. */
int row_own(const struct table *t, void *row, struct err *e) MUST_USE;
void row_release(const struct table *t, void *row);

/* Bytes of a row's texts in one of these column sets. */
size_t row_length(const struct table *t, const void *row, unsigned sets);
/* The record's size for its tenant: store_records.h. */
uint64_t row_size(const struct table *t, const void *row);

/* Define a static function that calls fn for each row of a statement, until fn returns another
 * number than 0. A macro, so that the compiler checks the types of rows and callbacks. */
#define ROWS_EACH(name, type)                                                           \
	static int name(struct store *s, const struct sql *sql, const struct value *in, \
			type##_fn *fn, void *cookie, struct err *e)                     \
	{                                                                               \
		struct type row;                                                        \
		struct stmt q;                                                          \
		int got;                                                                \
                                                                                        \
		stmt_open(&q, s, sql, in);                                              \
		while ((got = row_next(&q, "", &row, e)) > 0 && fn(&row, cookie) == 0)  \
			;                                                               \
		stmt_close(&q);                                                         \
		return got < 0 ? -1 : 0;                                                \
	}

/* ---- lists: struct store_looked of store.h
 *
 * The statement of a list has four columns: the number of a row, whether the filter takes the row,
 * and its created_ms and id, or 0 and ''. The columns of the row follow, or the list has a second
 * statement that reads a row by its number, so that an index alone answers the filter. */

struct row_list {
	const struct sql *look;
	const struct value *in;
	const struct sql *row;	/* NULL: the columns follow */
	unsigned limit;		/* that the values have. 0: none */
	struct store_looked at; /* where the list begins, then where it is */
	/* internal */
	struct stmt looking, reading;
	struct store_looked next;
	int got;
	bool shown;
};

void row_list_open(struct row_list *l, struct store *s);
/* The next row that the filter takes. 1, 0 or -1. */
int row_list_next(struct row_list *l, void *ret, size_t size, struct err *e) MUST_USE;
/* ret may be NULL. */
int row_list_close(struct row_list *l, struct store_looked *ret) MUST_USE;

/* Define a static function that calls fn for each row of a list, as ROWS_EACH(). */
#define ROWS_LIST(name, type)                                                               \
	static int name(struct store *s, struct row_list *l, type##_fn *fn, void *cookie,   \
			struct store_looked *ret, struct err *e)                            \
	{                                                                                   \
		struct type row;                                                            \
                                                                                            \
		row_list_open(l, s);                                                        \
		while (row_list_next(l, &row, sizeof(row), e) > 0 && fn(&row, cookie) == 0) \
			;                                                                   \
		return row_list_close(l, ret);                                              \
	}
