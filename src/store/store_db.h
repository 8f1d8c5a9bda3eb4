/* store_db.h - the definition of struct store, for the store's own files. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "err.h"
#include "sql.h"
#include "store.h"

struct checkpointer;

struct store {
	sqlite3 *db;			     /* owned */
	sqlite3_stmt *statements[SQL_COUNT]; /* owned */
	struct checkpointer *checkpointer;   /* owned; NULL: there is none */
	unsigned journal_pages;
	bool can_shrink;
	struct {
		bool known; /* else the rest is of no meaning */
		char tenant[STORE_ID_MAX];
		uint64_t rows, bytes;
	} records; /* the row that was read last, as the open transaction has it */
};
