/* completion.h - the end of one asynchronous request.
 *
 * A completion is embedded in the structure that waits. It is begun, then ends exactly once: by
 * completion_end(), by its deadline, or with its whole list. If it is cancelled, its callback is
 * never called. The rules that every user may rely on:
 *
 * - Before on_done is called the completion is out of its list, its deadline is off, and it counts
 *   as ended. So the callback may free the owner, begin the same completion again, cancel or end
 *   others, and end or free the owner of the list.
 * - on_done is never called from inside the callback of the loop that began the completion. An end
 *   that comes that early is kept, with a copy of its error. on_done is called at the end of the
 *   turn.
 * - Ending one that does not wait does nothing (in builds with CORDON_TEST_ABORTS: aborts).
 * - Cancelling is allowed at any time: before it is begun, while an early end is kept, inside
 *   on_done, and twice.
 *
 * All zeros is a valid completion, never begun. on_done and arg are set by the owner. */
#pragma once

#include "lib/loop/loop.h"

struct completion;

/* e: NULL if it worked. Valid during the call only. */
typedef void completion_fn(struct completion *c, const struct err *e);

enum completion_state { COMPLETION_IDLE, COMPLETION_WAITING, COMPLETION_ENDED };

struct completion {
	completion_fn *on_done; /* the owner's */
	void *arg;		/* the owner's */
	/* The rest is for completion.c only. */
	struct completion *next, **link; /* link is NULL while in no list */
	enum completion_state state;	 /* ENDED: on_done is due at the end of this turn */
	struct loop *loop;
	uint64_t begun_at; /* loop_step() */
	struct loop_timer deadline;
	const char *what;
	uint64_t deadline_ms;
	struct loop_task later;
	struct err err; /* of ENDED. Code ERR_NONE: it worked */
};

struct completions {
	struct completion *first; /* the youngest */
};

/* Begin to wait, in that list (NULL: in none). One that waits already is cancelled first. */
void completion_begin(struct completion *c, struct loop *l, struct completions *list);

/* While it waits: ends it after so many milliseconds with REASON_TIMEOUT and ETIMEDOUT. what names
 * the request in the message: a constant. */
void completion_set_deadline(struct completion *c, uint64_t ms, const char *what);

void completion_end(struct completion *c, const struct err *e);

/* For a request whose outcome is known at once: begins and ends it. on_done comes from the loop. */
void completion_end_soon(struct completion *c, struct loop *l, const struct err *e);

void completion_cancel(struct completion *c);

/* Begun, and neither ended nor cancelled. */
bool completion_is_waiting(const struct completion *c);

/* If it has ended, but its on_done is still due: the error, NULL if it worked or if it has not
 * ended. For owners that cancel it then. */
const struct err *completion_early_error(const struct completion *c);

/* End all completions in the list now. Callbacks may add to it, cancel others, and free its
 * owner. */
void completions_end_all(struct completions *list, const struct err *e);

/* Move all to the end of another list, so that the first one's owner can be freed before they
 * end. */
void completions_move(struct completions *from, struct completions *to);
