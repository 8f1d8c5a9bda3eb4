/* store_db.h - what is behind struct store, for the store's own files. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "err.h"
#include "sql.h"

struct checkpointer;

struct store {
	sqlite3 *db;			     /* owned */
	sqlite3_stmt *statements[SQL_COUNT]; /* owned */
	struct checkpointer *checkpointer;   /* owned; NULL: there is none */
	unsigned journal_pages;
	bool can_shrink;
};

/* For a write of more than one statement: opens a transaction unless the caller has one open, and
 * commits only what it opened. What fails in between takes it back (stmt.c). */
int store_join(struct store *s, bool *ret_own, struct err *e) MUST_USE;
int store_leave(struct store *s, bool own, struct err *e) MUST_USE;
