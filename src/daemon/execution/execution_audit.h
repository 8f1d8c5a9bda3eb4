/* execution_audit.h - facts of executions that only their audit records have: command, duration,
 * hashes of the output. */
#pragma once

#include "daemon/tenant/event_log.h"
#include "lib/base/sha256.h"

struct execution;

struct execution_audit {
	struct event_more more; /* points into the rest, and into the execution */
	char facts[512];
	char command[2 * SHA256_SIZE + 1];
};

/* Of execution.started: the command is the sealed hash of its text. */
void execution_audit_started(const struct execution *x, struct execution_audit *ret);
/* Of execution.ended: duration, bytes, and the hashes of the kept output of each stream if it is
 * short. */
void execution_audit_ended(const struct execution *x, struct execution_audit *ret);
