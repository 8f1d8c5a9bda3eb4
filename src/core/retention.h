/* retention.h - deletes what is too old or too much: see retention.c. */
#pragma once

#include "core.h"

/* How far it is; a member of struct core. */
struct retention {
	struct job job;
	unsigned step;
	char id[STORE_ID_MAX]; /* the session that is being deleted; "": none */
	uint64_t after_ms;     /* the last one that was looked at, by its end */
	char after_id[STORE_ID_MAX];
};

/* Starts the job, if it does not run already. */
void retention_start(struct core *c);
