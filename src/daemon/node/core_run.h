/* core_run.h - the core as a whole: made, connected to its keepers, drained, freed. Called by
 * cordond's main() and by tests. */
#pragma once

#include "daemon/node/core.h"

/* Set up the core. The store is open, and stays the caller's. Only files in the two folders of the
 * options are opened. */
struct core *core_new(struct loop *l, struct store *s, const struct core_options *o,
		      struct err *e) MUST_USE;
/* Free the core. Sessions with a cell continue without a server until the next daemon adopts them.
 */
void core_free(struct core *c);

/* Descriptors for the receiver of the supervisor's messages, when the process has no others left.
 */
struct fd_reserve *core_reserve(struct core *c);

/* Take over channel A of the keeper in that slot, a new one or a replacement. Recovery starts when
 * the first keeper has sent its HELLO. */
int core_set_keeper(struct core *c, unsigned slot, int channel_fd, struct err *e) MUST_USE;

/* Take over channel D of cordon-storage, a new one or a replacement. */
int core_set_storage(struct core *c, int channel_fd, struct err *e) MUST_USE;

/* Can sessions of every kind be made at once, without waiting for a program? core_ready(),
 * cordon-storage is connected, and every part of sessions is fit, too. For /readyz. Requests that
 * come before wait, or are answered with 503. */
bool core_fit(const struct core *c, const char **ret_why);

/* The record node.program: a program was started. */
void core_note_program(struct core *c, const char *program, unsigned slot);

/* End the pool, before an upgrade or an end. Sessions continue, and requests in progress are served
 * to their end. */
void core_drain(struct core *c);
/* After core_drain(): are all cells in removal gone? */
bool core_drained(const struct core *c);
/* How many of them remain. */
unsigned core_cells_ending(const struct core *c);

/* ---- recovery: compares the store with the existing cells, after a start */

/* Recover. Called when the first keeper is ready, and again a second after a failure. After success
 * core_recovered() is true and sessions can be used. */
int core_recover(struct core *c, struct err *e) MUST_USE;

struct buf;
/* Write all metrics, after reading the uncounted numbers: sessions by state, cell memory, the
 * pools, and the metrics of the parts. */
int core_metrics_write(struct core *c, struct buf *b, struct err *e) MUST_USE;
