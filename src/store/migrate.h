/* migrate.h - brings a database to the newest schema, one numbered step after the other. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "err.h"

/* "crdb", in the file's header, so that it is known as ours. */
#define MIGRATE_APPLICATION 0x63726462

/* Each step is one transaction, with the new number: interrupted, it is done again. Fails with
 * ERR_UNSUPPORTED on a database with more than n steps behind it, ERR_INVALID on one that is not
 * ours. */
int migrate_run(sqlite3 *db, const char *const *steps, size_t n, struct err *e) MUST_USE;
