/* session_sample.h - samples of what sessions use, taken every few seconds: see session_sample.c.
 */
#pragma once

#include "core.h"

/* The state of the current round over all sessions; a member of struct core. */
struct sampling {
	struct job job;
	unsigned bucket;
	uint64_t memory_bytes; /* of the sessions in the buckets before */
};

/* Starts a round, unless one is under way. */
void session_sample_all(struct core *c);
