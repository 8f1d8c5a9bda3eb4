/* schema.h - the schema of the database, as numbered steps, and the code that takes them. Called by
 * store.c when the store is opened. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "lib/base/err.h"

/* "crdb", the application id in the header of the file. */
#define SCHEMA_APPLICATION 0x63726462

/* The first step makes version 1 of an empty database, each next one the version after it. There
 * are STORE_VERSION of them. A released step is never changed. */
extern const char *const schema_steps[];

/* Bring a database to the version n. Each step is one transaction together with its number: after
 * an interruption it is done again. ERR_UNSUPPORTED: the database has seen more than n steps.
 * ERR_INVALID: it is not Cordon's. */
int schema_migrate(sqlite3 *db, const char *const *steps, size_t n, struct err *e) MUST_USE;
