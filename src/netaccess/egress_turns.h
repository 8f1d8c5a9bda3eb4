/* egress_turns.h - how long turns of cordon-egress's loop take, as it reports them, for /metrics.
 */
#pragma once

#include <stddef.h>

#include "err.h"
#include "turns.h"

struct buf;

struct egress_turns {
	struct turns turns; /* of the process that is connected, or was last */
	char slowest[TURNS_NAME_MAX];
	struct turns past; /* of those before it; its slowest turn is not kept */
};

/* Reads the text of an EGRESS_TURNS message; ERR_INVALID: it is malformed. */
int egress_turns_take(struct egress_turns *t, const char *text, size_t len, struct err *e) MUST_USE;
/* Another process takes the place of this one: counts must not go back. */
void egress_turns_restart(struct egress_turns *t);
/* The sum of both; the longest and slowest turn of the two. */
void egress_turns_add(struct egress_turns *to, const struct egress_turns *t);
void egress_turns_write(const struct egress_turns *t, struct buf *to);
