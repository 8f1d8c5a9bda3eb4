/* checkpointer.h - a thread that moves the journal of the database into the database.
 *
 * A checkpoint waits for the disk: tens of milliseconds for a few thousand pages. The store's own
 * connection, and with it the loop of cordond, must not wait that long. So the thread has a
 * connection of its own, on which it does nothing but SQLite's passive checkpoint, which blocks
 * neither readers nor writers.
 *
 * SQLite starts the journal from its beginning again only after a checkpoint of the whole journal.
 * Under a steady load the writer is always a few pages ahead of the thread. So the thread repeats
 * its checkpoint until less than CHECKPOINTER_REST pages are left, and the store moves these
 * itself, after its next commit (store.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define CHECKPOINTER_REST 256 /* pages */

struct checkpointer;

/* Open the database at path and start the thread. The thread inherits the Landlock rules of its
 * caller, and cannot be started once cordond has its system-call filter. */
int checkpointer_start(struct checkpointer **ret, const char *path, struct err *e) MUST_USE;

/* Ask the thread for a checkpoint. False: one is in progress. */
bool checkpointer_ask(struct checkpointer *c);

/* Is no checkpoint in progress? *ret_moved: the pages of the journal that the last one has
 * moved. */
bool checkpointer_is_idle(struct checkpointer *c, unsigned *ret_moved);

/* Wait until no checkpoint is in progress. */
void checkpointer_wait(struct checkpointer *c);

/* Ask the thread to make the present journal durable. Return a number for checkpointer_synced(): 1
 * when done, 0 not yet, -1 it failed. */
uint64_t checkpointer_sync(struct checkpointer *c);
int checkpointer_synced(struct checkpointer *c, uint64_t number, struct err *e) MUST_USE;

/* Wait for the thread to end. Safe with NULL. */
void checkpointer_stop(struct checkpointer *c);
