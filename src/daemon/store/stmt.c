/* stmt.c - see stmt.h. */
#include "daemon/store/stmt.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/checkpointer.h"
#include "daemon/store/journal_vfs.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

#define TEXT_MAX 4096 /* of a statement with the names of its columns */

/* The linker makes these names for the section of SQL(). */
extern const struct sql stmt_first[] __asm__("__start_store_sql");
extern const struct sql stmt_end[] __asm__("__stop_store_sql");

/* The place of a statement in the section. */
static size_t stmt_place(const struct sql *sql)
{
	return ((uintptr_t)sql - (uintptr_t)stmt_first) / sizeof(*sql);
}

/* ---- errors */

struct stmt_meaning {
	int code; /* of SQLite, with or without its extension */
	enum err_code error;
	enum err_reason reason;
	int sys; /* if SQLite has none */
	const char *words;
};

static const struct stmt_meaning stmt_meanings[] = {
	{ SQLITE_CONSTRAINT_FOREIGNKEY, ERR_NOT_FOUND, REASON_NONE, 0,
	  "the row that it belongs to does not exist" },
	{ SQLITE_CONSTRAINT_PRIMARYKEY, ERR_CONFLICT, REASON_NONE, 0, "it exists already" },
	{ SQLITE_CONSTRAINT_UNIQUE, ERR_CONFLICT, REASON_NONE, 0, "it exists already" },
	{ SQLITE_CONSTRAINT, ERR_INVALID, REASON_NONE, 0, "the schema refuses a value" },
	{ SQLITE_FULL, ERR_LIMIT, REASON_STORAGE_FULL, 0, "the disk is full" },
	/* The index of the journal cannot grow. SQLite has no errno for it. */
	{ SQLITE_IOERR_SHMSIZE, ERR_LIMIT, REASON_STORAGE_FULL, 0, "the disk is full" },
	{ SQLITE_TOOBIG, ERR_LIMIT, REASON_TOO_LARGE, 0, "too large" },
	{ SQLITE_BUSY, ERR_SYSTEM, REASON_UNAVAILABLE, 0,
	  "another process holds the database, try again" },
	{ SQLITE_LOCKED, ERR_SYSTEM, REASON_UNAVAILABLE, 0,
	  "another process holds the database, try again" },
	{ SQLITE_IOERR, ERR_SYSTEM, REASON_NONE, EIO, "the disk failed" },
	{ SQLITE_NOMEM, ERR_SYSTEM, REASON_NONE, ENOMEM, "out of memory" },
	{ SQLITE_READONLY, ERR_SYSTEM, REASON_NONE, EROFS, "the database cannot be written to" },
	{ SQLITE_CANTOPEN, ERR_SYSTEM, REASON_NONE, EIO, "cannot be opened" },
	{ SQLITE_CORRUPT, ERR_INVALID, REASON_DAMAGED, 0,
	  "the file is damaged or is not a database" },
	{ SQLITE_NOTADB, ERR_INVALID, REASON_DAMAGED, 0,
	  "the file is damaged or is not a database" },
};

static struct stmt_meaning stmt_meaning_of(int code)
{
	for (size_t i = 0; i < COUNT(stmt_meanings); i++)
		if (stmt_meanings[i].code == code)
			return stmt_meanings[i];
	return code == (code & 0xff)
		       ? (struct stmt_meaning){ .error = ERR_SYSTEM, .words = "failed" }
		       : stmt_meaning_of(code & 0xff);
}

int sql_error(sqlite3 *db, int code, const char *what, const char *id, struct err *e)
{
	/* For other codes SQLite may still have the errno of an earlier call. */
	int primary = code & 0xff;
	int sys = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL
			  ? sqlite3_system_errno(db)
			  : 0;
	/* SQLite reports some cases of a full disk as I/O errors. */
	bool full = sys == ENOSPC || sys == EDQUOT;
	struct stmt_meaning m = stmt_meaning_of(full ? SQLITE_FULL : code);
	const char *space = id[0] == '\0' ? "" : " ";

	/* A constraint is a client's mistake, and needs no words of the database. */
	if (m.error == ERR_CONFLICT || m.error == ERR_NOT_FOUND)
		(void)err_set(e, m.error, "%s%s%.40s: %s", what, space, id, m.words);
	else
		(void)err_set(e, m.error, "store: %s%s%.40s: %s (%s, %d)", what, space, id, m.words,
			      sqlite3_errstr(code), code);
	e->reason = m.reason;
	e->sys = sys != 0 ? sys : m.sys;
	return -1;
}

/* ---- texts */

struct stmt_text {
	char bytes[TEXT_MAX];
	size_t n; /* TEXT_MAX: it does not fit */
};

static void stmt_text_add(struct stmt_text *t, const char *more, size_t len)
{
	if (len >= TEXT_MAX - t->n) {
		t->n = TEXT_MAX;
		return;
	}
	memcpy(t->bytes + t->n, more, len);
	t->n += len;
	t->bytes[t->n] = '\0';
}

/* Add a form of len bytes for each column of the statement. */
static void stmt_text_add_columns(struct stmt_text *t, const struct sql *sql, const char *form,
				  size_t len)
{
	const char *between = "";

	for (unsigned i = 0; i < sql->table->n; i++) {
		const struct column *c = &sql->table->columns[i];

		if ((c->sets & sql->columns) == 0)
			continue;
		stmt_text_add(t, between, strlen(between));
		for (size_t at = 0; at < len; at++)
			if (form[at] == '%')
				stmt_text_add(t, c->name, strlen(c->name));
			else
				stmt_text_add(t, form + at, 1);
		between = ", ";
	}
}

/* Add the text for the mark at `at`. Return how long the mark is. */
static size_t stmt_text_add_mark(struct stmt_text *t, const struct sql *sql, const char *at)
{
	static const char table[] = "@table";
	size_t len = strcspn(at, "}");

	if (strncmp(at, table, strlen(table)) == 0) {
		stmt_text_add(t, sql->table->name, strlen(sql->table->name));
		return strlen(table);
	}
	if (at[1] == '{') {
		stmt_text_add_columns(t, sql, at + 2, len - 2);
		return len + 1;
	}
	stmt_text_add_columns(t, sql, "%", 1);
	return 1;
}

static void stmt_text_make(struct stmt_text *t, const struct sql *sql)
{
	const char *from = sql->text;
	size_t len;

	for (t->n = 0; *from != '\0'; from += len) {
		len = strcspn(from, "@");
		stmt_text_add(t, from, len);
		if (from[len] == '@')
			len += stmt_text_add_mark(t, sql, from + len);
	}
}

/* Set the table that a statement is about: the word after UPDATE, else after FROM or INTO. */
static void stmt_what(const struct sql *sql, char ret[32])
{
	static const char *const before[] = { "FROM ", "INTO " };
	const char *at = sql->text;

	for (size_t i = 0; i < COUNT(before) && at == sql->text; i++)
		if (strstr(sql->text, before[i]) != NULL)
			at = strstr(sql->text, before[i]) + strlen(before[i]);
	if (strncmp(sql->text, "UPDATE ", 7) == 0)
		at = sql->text + 7;
	if (sql->table != NULL)
		at = sql->table->name;
	(void)snprintf(ret, 32, "%.*s", (int)strcspn(at, " "), at);
}

static int stmt_prepare_one(struct store *s, const struct sql *sql, sqlite3_stmt **ret,
			    struct err *e)
{
	struct stmt_text t;
	int code;

	stmt_text_make(&t, sql);
	if (t.n == TEXT_MAX)
		return err_set(e, ERR_SYSTEM, "store: statement too long: %.80s", sql->text);
	code = sqlite3_prepare_v3(s->db, t.bytes, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
	if (code == SQLITE_ERROR) /* the statement does not fit the schema */
		return err_set(e, ERR_SYSTEM, "store: %s: %.80s", sqlite3_errmsg(s->db), t.bytes);
	return code == SQLITE_OK ? 0 : sql_error(s->db, code, "statements", "", e);
}

int stmt_prepare(struct store *s, struct err *e)
{
	static const struct sql view = { .text = "SELECT 1 FROM sqlite_schema" };

	s->statements = calloc(stmt_place(stmt_end), sizeof(sqlite3_stmt *));
	if (s->statements == NULL)
		return err_sys(e, "store: statements");
	for (size_t i = 0; i < stmt_place(stmt_end); i++)
		if (stmt_prepare_one(s, &stmt_first[i], &s->statements[i], e) < 0)
			return -1;
	return stmt_prepare_one(s, &view, &s->view, e);
}

void stmt_finalize(struct store *s)
{
	(void)sqlite3_finalize(s->view);
	for (size_t i = 0; s->statements != NULL && i < stmt_place(stmt_end); i++)
		(void)sqlite3_finalize(s->statements[i]);
	free(s->statements);
}

/* ---- values */

static int stmt_bind_text(const struct stmt *q, const char *text, sqlite3_destructor_type how)
{
	text = text == NULL ? "" : text;
	return sqlite3_bind_text64(q->st, q->next, text, strlen(text), how, SQLITE_UTF8);
}

static int stmt_bind(const struct stmt *q, const struct value *v)
{
	switch (v->kind) {
	case VALUE_NUMBER:
		return sqlite3_bind_int64(q->st, q->next, v->number);
	case VALUE_TEXT:
		return stmt_bind_text(q, v->bytes, SQLITE_STATIC);
	case VALUE_COPY:
		return stmt_bind_text(q, v->bytes, SQLITE_TRANSIENT);
	case VALUE_BLOB:
		return v->number == 0
			       ? sqlite3_bind_zeroblob(q->st, q->next, 0)
			       : sqlite3_bind_blob64(q->st, q->next, v->bytes,
						     (sqlite3_uint64)v->number, SQLITE_STATIC);
	case VALUE_NULL:
	case VALUE_END:
		break;
	}
	return sqlite3_bind_null(q->st, q->next);
}

void stmt_put(struct stmt *q, const struct value *v)
{
	int code = stmt_bind(q, v);

	if (q->failed == SQLITE_OK)
		q->failed = code;
	q->next++;
}

/* ---- the use of a statement */

/* A statement outside of a transaction begins with a view of the database and gives it up at its
 * end. Between commits each of these costs four locks. So a statement of nothing is kept at its
 * first row, and all statements share its view. Commits of this connection move the view along.
 * Another process, which changes the store only in tests, is seen after VIEW_NS at the latest. */
#define VIEW_NS (5 * CLOCK_MS)

static void stmt_view(struct store *s)
{
	uint64_t now = clock_now_ns();

	if (s->view_ns != 0 && now - s->view_ns < VIEW_NS)
		return;
	stmt_view_end(s);
	if (sqlite3_step(s->view) == SQLITE_ROW)
		s->view_ns = now;
	else
		(void)sqlite3_reset(s->view); /* the statement has the error, too */
}

void stmt_view_end(struct store *s)
{
	if (s->view_ns == 0)
		return;
	(void)sqlite3_reset(s->view);
	s->view_ns = 0;
}

int stmt_cut_journal(struct store *s)
{
	if (s->checkpointer != NULL) /* a running checkpoint has the lock that this needs */
		checkpointer_wait(s->checkpointer);
	stmt_view_end(s);
	return sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

void stmt_open(struct stmt *q, struct store *s, const struct sql *sql, const struct value *in)
{
	*q = (struct stmt){ .s = s,
			    .sql = sql,
			    .st = s->statements[stmt_place(sql)],
			    .next = 1,
			    .failed = SQLITE_OK };
	assert(!sqlite3_stmt_busy(q->st) && "a callback used the function that called it");
	if (sqlite3_get_autocommit(s->db))
		stmt_view(s);
	for (; in != NULL && in->kind != VALUE_END; in++)
		stmt_put(q, in);
}

void stmt_close(struct stmt *q)
{
	(void)sqlite3_reset(q->st); /* returns the result of the last step again */
	(void)sqlite3_clear_bindings(q->st);
}

int stmt_step(struct stmt *q, const char *id, struct err *e)
{
	int code = q->failed != SQLITE_OK ? q->failed : sqlite3_step(q->st);
	char what[32];

	if (code == SQLITE_BUSY_SNAPSHOT && q->s->view_ns != 0) {
		/* Another process has written since the view began. */
		stmt_view_end(q->s);
		(void)sqlite3_reset(q->st);
		code = sqlite3_step(q->st);
	}
	if (code == SQLITE_ROW) {
		q->next = 0;
		return 1;
	}
	if (code == SQLITE_DONE)
		return 0;
	stmt_what(q->sql, what);
	(void)sql_error(q->s->db, code, what, id, e);
	stmt_close(q);
	stmt_view_end(q->s); /* while it is open, SQLite keeps errors of the disk */
	store_rollback(q->s);
	return -1;
}

int stmt_not_found(const struct sql *sql, const char *id, struct err *e)
{
	char what[32];

	stmt_what(sql, what);
	return err_set(e, ERR_NOT_FOUND, "store: %s %.64s: not found", what, id);
}

int stmt_write(struct stmt *q, const char *id, struct err *e)
{
	sqlite3 *db = q->s->db;
	/* A statement outside of a transaction is one of its own. */
	bool commits = sqlite3_get_autocommit(db) != 0;
	int got;

	if (commits)
		journal_hold(db);
	got = stmt_step(q, id, e);
	if (commits)
		journal_release(db);
	if (got < 0)
		return -1;
	stmt_close(q);
	return sqlite3_changes(db);
}

int stmt_write_one(struct stmt *q, const char *id, struct err *e)
{
	int n = stmt_write(q, id, e);

	if (n != 0)
		return n < 0 ? -1 : 0;
	store_rollback(q->s);
	return stmt_not_found(q->sql, id, e);
}

int stmt_run_counted_sql(struct store *s, const struct sql *sql, const struct value *in,
			 const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql, in);
	return stmt_write(&q, id, e);
}

int stmt_run_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		 struct err *e)
{
	return stmt_run_counted_sql(s, sql, in, id, e) < 0 ? -1 : 0;
}

int stmt_change_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		    struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql, in);
	return stmt_write_one(&q, id, e);
}

int stmt_delete_sql(struct store *s, const struct sql *sql, const struct value *in,
		    store_gone_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;
	int got, n = 0;

	stmt_open(&q, s, sql, in);
	for (; (got = stmt_step(&q, "", e)) > 0; n++)
		if (fn != NULL)
			fn(stmt_get_text(&q), cookie);
	stmt_close(&q);
	return got < 0 ? -1 : n;
}

/* Open, and step to the first row. ERR_NOT_FOUND: there is none. The caller closes it. */
static int stmt_first_row(struct stmt *q, struct store *s, const struct sql *sql,
			  const struct value *in, const char *id, struct err *e)
{
	int got;

	stmt_open(q, s, sql, in);
	got = stmt_step(q, id, e);
	return got == 0 ? stmt_not_found(sql, id, e) : got;
}

int stmt_id_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		char ret[STORE_ID_MAX], struct err *e)
{
	struct stmt q;
	int got = stmt_first_row(&q, s, sql, in, id, e);

	if (got > 0)
		stmt_copy_text(&q, ret, STORE_ID_MAX);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int stmt_numbers_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		     uint64_t *ret, uint64_t *ret_second, struct err *e)
{
	struct stmt q;
	int got = stmt_first_row(&q, s, sql, in, id, e);

	if (got > 0)
		*ret = stmt_get_u64(&q);
	if (got > 0 && ret_second != NULL)
		*ret_second = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int stmt_sums_sql(struct store *s, const struct sql *sql, store_sum_fn *fn, void *cookie,
		  struct err *e)
{
	char tenant[STORE_ID_MAX];
	struct stmt q;
	int got;

	stmt_open(&q, s, sql, IN_NONE);
	while ((got = stmt_step(&q, "", e)) > 0) {
		stmt_copy_text(&q, tenant, sizeof(tenant));
		fn(tenant, stmt_get_u64(&q), cookie);
	}
	stmt_close(&q);
	return got;
}

int stmt_exists_sql(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		    struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, sql, in);
	got = stmt_step(&q, id, e);
	stmt_close(&q);
	return got;
}

int64_t stmt_get_i64(struct stmt *q)
{
	return sqlite3_column_int64(q->st, q->next++);
}

uint64_t stmt_get_u64(struct stmt *q)
{
	int64_t value = stmt_get_i64(q);

	return value < 0 ? 0 : (uint64_t)value;
}

const char *stmt_get_text(struct stmt *q)
{
	const unsigned char *text = sqlite3_column_text(q->st, q->next++);

	return text == NULL ? "" : (const char *)text;
}

/* A text is longer than its member only if the file was tampered with. */
void stmt_copy_text(struct stmt *q, char *ret_text, size_t cap)
{
	str_copy_to(ret_text, cap, stmt_get_text(q));
}
