/* stmt.h - one use of a prepared statement: values in by order, columns out by order. For the
 * store's own files only, as everything that shows SQLite.
 *
 *	struct stmt q;
 *
 *	stmt_open(&q, s, SQL_META_GET);
 *	stmt_text(&q, key);
 *	if (stmt_step(&q, "meta", key, e) > 0) ... stmt_get_text(&q) ...
 *	stmt_close(&q);
 *
 * Values are not copied: they must live until stmt_close(). What fails while they are put in shows
 * at the first step. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "sql.h"
#include "store.h"

struct store_actor;
struct store_allow;

struct stmt {
	struct store *s;
	sqlite3_stmt *st;
	int next;   /* value or column that comes next */
	int failed; /* SQLite's code */
};

void stmt_open(struct stmt *q, struct store *s, enum sql sql);
void stmt_close(struct stmt *q);

void stmt_text(struct stmt *q, const char *value); /* NULL: "" */
void stmt_text_or_null(struct stmt *q, const char *value);
void stmt_u64(struct stmt *q, uint64_t value); /* at most INT64_MAX */
void stmt_i32(struct stmt *q, int32_t value);
void stmt_i64(struct stmt *q, int64_t value);
void stmt_blob(struct stmt *q, const void *value, size_t len);
void stmt_actor(struct stmt *q, const struct store_actor *value); /* three columns */
void stmt_allow(struct stmt *q, const struct store_allow *value); /* ten columns */
void stmt_limit(struct stmt *q, unsigned rows);			  /* for LIMIT; 0: none */

/* 1: a row is there, and its columns are read from the first on; 0: there are no more rows; -1:
 * failed, and an open transaction is rolled back. Messages begin with "store: what id". */
int stmt_step(struct stmt *q, const char *what, const char *id, struct err *e) MUST_USE;
/* The number in the one row of a statement that always has one. Closes it. */
int stmt_take_number(struct stmt *q, const char *what, uint64_t *ret, struct err *e) MUST_USE;

/* For writes: steps once and closes. -1 and ERR_NOT_FOUND if must_change and no row was changed. */
int stmt_run(struct stmt *q, bool must_change, const char *what, const char *id,
	     struct err *e) MUST_USE;

/* Steps through a DELETE ... RETURNING tenant and closes. Returns how many rows were deleted; calls
 * fn, which may be NULL, for each. */
int stmt_deleted(struct stmt *q, store_gone_fn *fn, void *cookie, const char *what,
		 struct err *e) MUST_USE;

uint64_t stmt_get_u64(struct stmt *q);
uint32_t stmt_get_u32(struct stmt *q);
int32_t stmt_get_i32(struct stmt *q);
bool stmt_get_bool(struct stmt *q);
void stmt_get_actor(struct stmt *q, struct store_actor *ret); /* three columns */
void stmt_get_allow(struct stmt *q, struct store_allow *ret); /* ten columns */
const char *stmt_get_text(struct stmt *q);		      /* until the next step; never NULL */
void stmt_copy_text(struct stmt *q, char *ret_text,
		    size_t cap);			    /* cut, if the file was tampered with */
void stmt_copy_blob(struct stmt *q, void *ret, size_t len); /* zeros, if it has another size */
const void *stmt_get_blob(struct stmt *q, size_t *ret_len);

/* Moves texts and a blob that a row borrows into one block that is the caller's to free. */
int stmt_own(const char **const *texts, size_t n, const void **blob, size_t blob_len,
	     void **ret_owned, struct err *e) MUST_USE;
