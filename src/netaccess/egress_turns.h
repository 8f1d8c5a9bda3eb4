/* egress_turns.h - how long the turns of cordon-egress take, as it says, for /metrics. */
#pragma once

#include <stddef.h>

#include "err.h"
#include "turns.h"

struct buf;

struct egress_turns {
	struct turns turns;
	char slowest[TURNS_NAME_MAX];
};

/* What EGRESS_TURNS says; ERR_INVALID: nothing that can be shown. */
int egress_turns_take(struct egress_turns *t, const char *text, size_t len, struct err *e) MUST_USE;
void egress_turns_write(const struct egress_turns *t, struct buf *to);
