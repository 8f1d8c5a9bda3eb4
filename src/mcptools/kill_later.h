/* kill_later.h - ends an execution for a client that does not wait for it any more. */
#pragma once

struct execution;

/* Kills it with all processes that it started. */
void kill_later(struct execution *x);
