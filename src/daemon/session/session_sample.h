/* session_sample.h - samples the usage of sessions, every few seconds: see session_sample.c. */
#pragma once

#include "daemon/node/core.h"

/* Start a round, unless one is in progress. */
void session_sample_all(struct core *c);
