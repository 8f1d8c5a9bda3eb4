/* migrate.h - brings a database to the newest schema, one numbered step after the other. Called by
 * store.c when the store is opened. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "err.h"

/* "crdb", the application id in the header of the file. */
#define MIGRATE_APPLICATION 0x63726462

/* Each step is one transaction together with the new number: after an interruption it is done
 * again. ERR_UNSUPPORTED: the database has seen more than n steps; ERR_INVALID: it is not Cordon's.
 */
int migrate_run(sqlite3 *db, const char *const *steps, size_t n, struct err *e) MUST_USE;
