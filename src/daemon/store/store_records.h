/* store_records.h - the size of a tenant's records: its sessions and executions, ended ones
 * included, until retention deletes them. See store.h for what holds for all rows.
 *
 * The sum is a row of its own, written in the same transaction as each record: it is exact after
 * any crash. A record counts with its texts and STORE_RECORD_BASE bytes for the rest. */
#pragma once

#include "daemon/store/store.h"

#define STORE_RECORD_BASE 1024

/* 0 and no records if the tenant has none. */
int store_records_get(struct store *s, const char *tenant, uint64_t *ret_rows, uint64_t *ret_bytes,
		      struct err *e) MUST_USE;

/* For the store's own files, inside a transaction. The changes of a transaction are written
 * together by store_records_write(), which store_commit() calls. */
int store_records_add(struct store *s, const char *tenant, int64_t rows, int64_t bytes,
		      struct err *e) MUST_USE;
int store_records_write(struct store *s, struct err *e) MUST_USE;
