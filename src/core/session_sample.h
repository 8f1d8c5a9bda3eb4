/* session_sample.h - what all sessions use, looked at every few seconds: see session_sample.c. */
#pragma once

#include "core.h"

/* How far the current round is; a member of struct core. */
struct sampling {
	struct job job;
	unsigned bucket;
	uint64_t memory_bytes; /* of the sessions in the buckets before */
};

/* Starts a round, if the last one is over. */
void session_sample_all(struct core *c);
