/* store_db.h - what is behind struct store, for the store's own files. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "sql.h"

struct store {
	sqlite3 *db;			     /* owned */
	sqlite3_stmt *statements[SQL_COUNT]; /* owned */
	unsigned journal_pages;
};
