/* trace.h - which programs of a session started and ended: reads the ring that the watcher of its
 * cell writes (watch_file.h). Called by the interfaces.
 *
 * A record for people. No decision may depend on it. */
#pragma once

#include "daemon/session/session.h"
#include "daemon/store/store.h"
#include "lib/wire/watch_file.h"

struct trace_row {
	struct watch_entry entry; /* its texts end, and are masked */
	uint64_t lost;		  /* entries between the one before and this one */
	const char *call;	  /* WATCH_CALL: its name */
};

/* Return non-zero to stop before this row. */
typedef int trace_fn(const struct trace_row *row, void *cookie);

/* Any bytes of the watcher's file become texts, with values covered. The arguments stay apart: each
 * ends with a NUL. Those of a call are numbers, and behind them is the address. Return how many
 * bytes were looked at. */
size_t trace_cover(const struct session *s, struct watch_entry *w);

/* The entries after a number, in order, at most limit of them, and fewer if it takes long to cover
 * values in them: *ret says whether there are more. ERR_CONFLICT: the session has no
 * trace. Without a cell there are none. */
int trace_list(struct session *s, uint64_t after, unsigned limit, trace_fn *fn, void *cookie,
	       struct store_looked *ret, struct err *e) MUST_USE;
