/* stmt.c - see stmt.h. */
#include "stmt.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "journal_vfs.h"
#include "sql_error.h"
#include "store.h"
#include "store_actor.h"
#include "store_allow.h"
#include "store_db.h"

void stmt_open(struct stmt *q, struct store *s, enum sql sql)
{
	*q = (struct stmt){ .s = s, .st = s->statements[sql], .next = 1, .failed = SQLITE_OK };
	assert(!sqlite3_stmt_busy(q->st) && "a callback used the function that called it");
}

void stmt_close(struct stmt *q)
{
	(void)sqlite3_reset(q->st); /* returns the result of the last step again */
	(void)sqlite3_clear_bindings(q->st);
}

static void keep(struct stmt *q, int code)
{
	if (q->failed == SQLITE_OK)
		q->failed = code;
	q->next++;
}

void stmt_text_or_null(struct stmt *q, const char *value)
{
	keep(q, value == NULL ? sqlite3_bind_null(q->st, q->next)
			      : sqlite3_bind_text64(q->st, q->next, value, strlen(value),
						    SQLITE_STATIC, SQLITE_UTF8));
}

void stmt_text(struct stmt *q, const char *value)
{
	stmt_text_or_null(q, value == NULL ? "" : value);
}

void stmt_u64(struct stmt *q, uint64_t value)
{
	keep(q, sqlite3_bind_int64(q->st, q->next, value > INT64_MAX ? INT64_MAX : (int64_t)value));
}

void stmt_i32(struct stmt *q, int32_t value)
{
	keep(q, sqlite3_bind_int(q->st, q->next, value));
}

void stmt_i64(struct stmt *q, int64_t value)
{
	keep(q, sqlite3_bind_int64(q->st, q->next, value));
}

void stmt_blob(struct stmt *q, const void *value, size_t len)
{
	keep(q, len == 0 ? sqlite3_bind_zeroblob(q->st, q->next, 0)
			 : sqlite3_bind_blob64(q->st, q->next, value, len, SQLITE_STATIC));
}

void stmt_limit(struct stmt *q, unsigned rows)
{
	keep(q, sqlite3_bind_int64(q->st, q->next, rows == 0 ? -1 : (int64_t)rows));
}

int stmt_step(struct stmt *q, const char *what, const char *id, struct err *e)
{
	int code = q->failed != SQLITE_OK ? q->failed : sqlite3_step(q->st);

	if (code == SQLITE_ROW) {
		q->next = 0;
		return 1;
	}
	if (code == SQLITE_DONE)
		return 0;
	(void)sql_error(q->s->db, code, what, id, e);
	stmt_close(q);
	store_rollback(q->s);
	return -1;
}

int stmt_run(struct stmt *q, bool must_change, const char *what, const char *id, struct err *e)
{
	sqlite3 *db = q->s->db;
	/* A statement outside of a transaction is one of its own. */
	bool commits = sqlite3_get_autocommit(db) || q->st == q->s->statements[SQL_COMMIT];
	int got;

	if (commits)
		journal_hold(db);
	got = stmt_step(q, what, id, e);
	if (commits)
		journal_release(db);
	if (got < 0)
		return -1;
	stmt_close(q);
	if (must_change && sqlite3_changes(q->s->db) == 0) {
		store_rollback(q->s);
		return err_set(e, ERR_NOT_FOUND, "store: %s %.40s: not found", what, id);
	}
	return 0;
}

uint64_t stmt_get_u64(struct stmt *q)
{
	int64_t value = sqlite3_column_int64(q->st, q->next++);

	return value < 0 ? 0 : (uint64_t)value;
}

uint32_t stmt_get_u32(struct stmt *q)
{
	uint64_t value = stmt_get_u64(q);

	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

int32_t stmt_get_i32(struct stmt *q)
{
	return sqlite3_column_int(q->st, q->next++);
}

bool stmt_get_bool(struct stmt *q)
{
	return stmt_get_u64(q) != 0;
}

const char *stmt_get_text(struct stmt *q)
{
	const unsigned char *text = sqlite3_column_text(q->st, q->next++);

	return text == NULL ? "" : (const char *)text;
}

void stmt_copy_text(struct stmt *q, char *ret_text, size_t cap)
{
	(void)snprintf(ret_text, cap, "%s", stmt_get_text(q));
}

const void *stmt_get_blob(struct stmt *q, size_t *ret_len)
{
	const void *blob = sqlite3_column_blob(q->st, q->next);

	*ret_len = (size_t)sqlite3_column_bytes(q->st, q->next++);
	return blob;
}

void stmt_copy_blob(struct stmt *q, void *ret, size_t len)
{
	size_t got;
	const void *blob = stmt_get_blob(q, &got);

	memset(ret, 0, len);
	if (got == len && blob != NULL)
		memcpy(ret, blob, len);
}

int stmt_own(const char **const *texts, size_t n, const void **blob, size_t blob_len,
	     void **ret_owned, struct err *e)
{
	size_t total = blob_len + 1;
	char *block;

	for (size_t i = 0; i < n; i++)
		total += strlen(*texts[i]) + 1;
	block = malloc(total);
	if (block == NULL)
		return err_sys(e, "store: a row of %zu bytes", total);
	*ret_owned = block;
	if (blob_len > 0)
		memcpy(block, *blob, blob_len);
	if (blob != NULL)
		*blob = block;
	block += blob_len + 1;
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(*texts[i]) + 1;

		memcpy(block, *texts[i], len);
		*texts[i] = block;
		block += len;
	}
	return 0;
}

void stmt_actor(struct stmt *q, const struct store_actor *value)
{
	stmt_text(q, value->interface);
	stmt_text(q, value->key_id);
	stmt_text(q, value->request_id);
}

void stmt_get_actor(struct stmt *q, struct store_actor *ret)
{
	stmt_copy_text(q, ret->interface, sizeof(ret->interface));
	stmt_copy_text(q, ret->key_id, sizeof(ret->key_id));
	stmt_copy_text(q, ret->request_id, sizeof(ret->request_id));
}

int stmt_deleted(struct stmt *q, store_gone_fn *fn, void *cookie, const char *what, struct err *e)
{
	int got, n = 0;

	for (; (got = stmt_step(q, what, "", e)) > 0; n++)
		if (fn != NULL)
			fn(stmt_get_text(q), cookie);
	stmt_close(q);
	return got < 0 ? -1 : n;
}

int stmt_take_number(struct stmt *q, const char *what, uint64_t *ret, struct err *e)
{
	int got = stmt_step(q, what, "", e);

	if (got > 0)
		*ret = stmt_get_u64(q);
	stmt_close(q);
	return got > 0 ? 0 : -1;
}

void stmt_allow(struct stmt *q, const struct store_allow *value)
{
	stmt_text(q, value->templates);
	stmt_text(q, value->levels);
	stmt_text(q, value->networks);
	stmt_u64(q, value->memory_bytes);
	stmt_u64(q, value->cpu_millis);
	stmt_u64(q, value->pids);
	stmt_u64(q, value->disk_bytes);
	stmt_u64(q, value->timeout_ms);
	stmt_u64(q, value->sessions);
	stmt_u64(q, value->creates_per_minute);
}

void stmt_get_allow(struct stmt *q, struct store_allow *ret)
{
	stmt_copy_text(q, ret->templates, sizeof(ret->templates));
	stmt_copy_text(q, ret->levels, sizeof(ret->levels));
	stmt_copy_text(q, ret->networks, sizeof(ret->networks));
	ret->memory_bytes = stmt_get_u64(q);
	ret->cpu_millis = stmt_get_u64(q);
	ret->pids = stmt_get_u64(q);
	ret->disk_bytes = stmt_get_u64(q);
	ret->timeout_ms = stmt_get_u64(q);
	ret->sessions = stmt_get_u64(q);
	ret->creates_per_minute = stmt_get_u64(q);
}
