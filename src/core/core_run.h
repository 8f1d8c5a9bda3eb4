/* core_run.h - the core as a whole: made, connected to its keepers, drained, freed. Called by
 * cordond's main() and by tests. */
#pragma once

#include "core.h"

/* The store is open, and stays the caller's. Opens nothing but what is in the two folders of the
 * options. */
struct core *core_new(struct loop *l, struct store *s, const struct core_options *o,
		      struct err *e) MUST_USE;
void core_free(struct core *c);

/* Descriptors that the receiver of the supervisor's messages may use when the process has no others
 * left. */
struct fd_reserve *core_reserve(struct core *c);

/* Takes over channel A of the keeper in that slot, a new one or a replacement. Recovery starts when
 * the first keeper has sent its HELLO. */
int core_set_keeper(struct core *c, unsigned slot, int channel_fd, struct err *e) MUST_USE;

/* Takes over channel D of cordon-storage, a new one or a replacement. */
int core_set_storage(struct core *c, int channel_fd, struct err *e) MUST_USE;

/* Can sessions of every kind be made at once, without waiting for a program? core_ready(),
 * cordon-storage is there, and every part of sessions is fit, too. For /readyz; requests that come
 * meanwhile wait for what they need, or are answered with 503. */
bool core_fit(const struct core *c, const char **ret_why);

/* Ends the pool, before an upgrade or an end. Sessions go on, and requests that have begun are
 * served to their end. */
void core_drain(struct core *c);
/* After core_drain(): are all cells gone that were to be removed? */
bool core_drained(const struct core *c);
/* How many of them are not gone yet. */
unsigned core_cells_ending(const struct core *c);
