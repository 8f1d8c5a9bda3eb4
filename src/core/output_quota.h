/* output_quota.h - how much output of executions is kept: see output_quota.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct execution;
struct tenant;

/* Sets by how much the log may grow, after an attempt to make room for need bytes. can_wait: the
 * caller can try later, if the space of removed logs is not free yet. */
void output_quota_make(struct execution *x, uint64_t need, bool can_wait);
/* The log has grown from that size, or has shrunk. */
void output_quota_count(struct execution *x, uint64_t before);
/* Logs of so many bytes were removed with their session's record. */
void output_quota_gone(struct tenant *t, uint64_t bytes);
