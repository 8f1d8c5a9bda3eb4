/* audit.h - cordond's half of the audit log: one log for each tenant and one for the node, whose
 * records are the leaves of a Merkle tree (doc/audit.md).
 *
 * A record is written in the transaction of the fact. That costs one INSERT. Hashes, tiles
 * and checkpoints come later, from the stored rows.
 *
 * The next number of each log is counted in memory, and read again from the store after any
 * rollback. The store refuses a number that a log has already. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/audit/audit_leaf.h"
#include "daemon/store/store.h"
#include "lib/base/err.h"
#include "lib/base/own.h"
#include "lib/loop/loop.h"
#include "lib/tlog/tlog_note.h"

struct audit;

/* The log of the node belongs to no tenant. */
#define AUDIT_NODE ""

struct config;
struct notary_link;
struct jobs;
struct job_queue;

struct audit_options {
	struct loop *loop; /* all borrowed */
	struct store *store;
	struct jobs *jobs;	/* for long work, */
	struct job_queue *work; /* in this share of it */
	const struct config *config;
	struct notary_link *notary; /* NULL: no checkpoint is signed */
};

struct audit *audit_new(const struct audit_options *o, struct err *e) MUST_USE;
void audit_free(struct audit *a); /* safe with NULL */

/* Append a record to the log of its tenant. The format makes its facts: lines "key TAB value" as
 * those of fact_lines_print(), or "". In an open transaction of the store it is part of it.
 * ERR_SYSTEM, without a trace: the type is not in the table. Other errors are the store's, after it
 * rolled the transaction back. */
int audit_append(struct audit *a, const struct audit_record *r, struct err *e, const char *fmt, ...)
	PRINTF(4, 5) MUST_USE;
/* audit_append() takes a format, this one finished facts. */
int audit_append_facts(struct audit *a, const struct audit_record *r, const char *facts,
		       struct err *e) MUST_USE;

/* A record of the log is not there that should be. Of the current epoch it is an alarm. */
void audit_record_missing(struct audit *a, const char *tenant, uint64_t epoch);

/* "NAME/TENANT/EPOCH", with "node" for the log of the node. NAME is that of the key that verifies
 * the log's checkpoints: "cordon.NODE". */
void audit_origin(const struct audit *a, const struct store_audit_log *log,
		  char ret[TLOG_NAME_MAX]);
/* The key that checkpoints are verified with, by its C2SP text. "": not known yet. */
const char *audit_vkey(const struct audit *a);

/* Followers are called after the turn in which records were appended to their tenant's log. */
struct audit_listener {
	struct audit_listener *next, **link; /* the audit's */
	char tenant[STORE_ID_MAX];
	bool due, calling;
	void (*on_records)(struct audit_listener *l);
	void *arg; /* the caller's */
};
void audit_listen(struct audit *a, struct audit_listener *l);
void audit_unlisten(struct audit_listener *l);

/* The current log of a tenant, as it is in the store. ERR_NOT_FOUND: it has no record yet. */
int audit_log_get(struct audit *a, const char *tenant, struct store_audit_log *ret,
		  uint64_t *ret_size, struct err *e) MUST_USE;
