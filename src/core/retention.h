/* retention.h - deletes what is too old or too much: see retention.c. */
#pragma once

#include "core.h"

/* The state of the job; a member of struct core. */
struct retention {
	struct job job;
	unsigned step;
	char id[STORE_ID_MAX]; /* the session that is being deleted; "": none */
	uint64_t after_ms;     /* when the session ended that was looked at last, and its id */
	char after_id[STORE_ID_MAX];
};

/* Before the first record is appended: record_bounds.c starts the job, too. */
void retention_init(struct core *c);
/* Starts the job, unless it runs. */
void retention_start(struct core *c);
