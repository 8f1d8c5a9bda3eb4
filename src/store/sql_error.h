/* sql_error.h - what a result code of SQLite means for the callers of the store (store.h,
 * "Errors"). For the store's own files. */
#pragma once

#include <sqlite3.h>

#include "err.h"

/* Sets the error for a code: "store: what id: ...". Returns -1. */
int sql_error(sqlite3 *db, int code, const char *what, const char *id, struct err *e);
