/* store.h - cordond's persistent data, in one SQLite database: DIR/cordon.db.
 *
 * One connection, one thread (but see store_checkpoint_in_thread()). The rows and their functions
 * are in store_tenant.h, store_key.h, store_session.h, store_execution.h, store_event.h,
 * store_net.h, store_package.h, store_sample.h, store_secret.h, store_template.h, store_layer.h,
 * store_volume.h and store_audit.h. For all of them:
 *
 * - Text in a row is borrowed: on the way in from the caller. In a callback from SQLite, until the
 * callback returns. After a *_get() from the row's own block, which *_release() frees. It is never
 * NULL on the way out. NULL on the way in means "".
 * - Times are wall-clock milliseconds. 0 means never, none, or not yet.
 * - A callback may read from the store, but not by the function that calls it, and must not write.
 *   It returns 0 to continue, another number to end the iteration (no error).
 * - Errors: ERR_NOT_FOUND no such row (on insert: no such row to belong to). ERR_CONFLICT the id
 *   or name is taken; REASON_STORAGE_FULL and REASON_TOO_LARGE (a value); REASON_UNAVAILABLE
 *   another process holds the database; REASON_DAMAGED the file is damaged; ERR_SYSTEM the rest,
 *   with sys = EIO where the disk fails. The
 *   store can be used after any of them: a failed write changes nothing and, inside a transaction,
 *   rolls the whole transaction back, so that the caller only returns.
 * - Numbers are kept as 63 bits. A larger one is kept as the largest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/session_id.h"

#define STORE_ID_MAX SESSION_ID_MAX /* the longest of all ids */
#define STORE_NAME_MAX 64
#define STORE_VERSION 63 /* of the schema */
#define STORE_FILE "cordon.db"

struct store;

/* Called for each deleted row of a tenant. Must not use the store. */
typedef void store_gone_fn(const char *tenant, void *cookie);

/* Called for each tenant, with a sum of bytes. Must not use the store. */
typedef void store_sum_fn(const char *tenant, uint64_t bytes, void *cookie);

/* How far a list has got. A list looks at `limit` rows at most and shows those that its filter
 * matches, so a call is short even if the filter matches nothing. The next call continues after the
 * last row looked at. The row at which the callback ended the iteration does not count as looked
 * at: the next call begins with it. */
struct store_looked {
	unsigned rows;
	bool end;	       /* there are no more */
	uint64_t ms, seq;      /* of the last row: created_ms, or its number */
	char id[STORE_ID_MAX]; /* "" if the list goes by numbers, or no row was looked at */
};

/* Open or make the database in a directory that exists. Bring an older schema up to date.
 * ERR_UNSUPPORTED: the schema is newer than this program. ERR_INVALID: the file is not a database
 * of Cordon. The caller closes it. */
int store_open(struct store **ret, const char *dir, struct err *e) MUST_USE;

/* Safe with NULL. An open transaction is rolled back. */
void store_close(struct store *s);

/* The writes between begin and commit are there all or not at all. They do not nest. Without them
 * every write is a transaction of its own. A committed transaction survives the death of this
 * process at any moment. A power cut may lose the last transactions, each of them as a whole. */
int store_begin(struct store *s, struct err *e) MUST_USE;
int store_commit(struct store *s, struct err *e) MUST_USE; /* ERR_CONFLICT: none is open now */
void store_rollback(struct store *s);			   /* allowed if none is open */

/* For a write of more than one statement: opens a transaction unless the caller has one open, and
 * commits only its own. A statement that fails in between rolls it back (stmt.c). */
int store_join(struct store *s, bool *ret_own, struct err *e) MUST_USE;
int store_leave(struct store *s, bool own, struct err *e) MUST_USE;

/* The journal is moved into the database by a thread that this starts (checkpointer.h), whenever
 * it has STORE_CHECKPOINT_PAGES. The store itself is still used by one thread only.
 * Without the thread, or if the thread cannot keep up, the commit that brings the journal to
 * STORE_JOURNAL_PAGES moves it, which takes long. */
#define STORE_CHECKPOINT_PAGES 4000 /* 16 MiB */
#define STORE_JOURNAL_PAGES 32000
int store_checkpoint_in_thread(struct store *s, struct err *e) MUST_USE;

/* Make present commits survive a power cut, in the thread. sync returns a number for synced: 1 when
 * done, 0 not yet, -1 it failed. Without the thread synced does it itself. */
uint64_t store_sync(struct store *s);
int store_synced(struct store *s, uint64_t number, struct err *e) MUST_USE;

/* Take room on disk for the journal, the missing part of it (store.c). Repeatable. */
void store_keep_room(struct store *s);

/* Pages in the journal after the last commit. */
unsigned store_journal_pages(const struct store *s);

/* Give up to so many free pages back to the file system, if a quarter of the file is free. Return
 * how many. 0: too few are free, or the file cannot shrink (store_can_shrink()). */
int store_shrink(struct store *s, unsigned pages, struct err *e) MUST_USE;
/* False for a large file that a version before 9 made: it must be rewritten once, see store.c. */
bool store_can_shrink(const struct store *s);

/* Small facts by name, such as the boot id of the last start. get copies the text, ERR_LIMIT if it
 * does not fit into cap. */
int store_meta_set(struct store *s, const char *key, const char *value, struct err *e) MUST_USE;
int store_meta_get(struct store *s, const char *key, char *ret_value, size_t cap,
		   struct err *e) MUST_USE;
/* Delete a fact so that its text is nowhere in the files any more. No error if there is none. */
int store_meta_wipe(struct store *s, const char *key, struct err *e) MUST_USE;
