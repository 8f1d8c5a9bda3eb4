/* retention.h - deletes records beyond their age or number: see retention.c. */
#pragma once

#include "daemon/node/core.h"

/* Before the first record is appended: record_quota.c starts the job, too. */
void retention_init(struct core *c);
/* Start the job, unless it runs. */
void retention_start(struct core *c);
