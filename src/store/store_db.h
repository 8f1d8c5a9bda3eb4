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
