/* output_quota.h - how much output of executions is kept: see output_quota.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct execution;
struct session;
struct tenant;

/* Sets by how much the log may grow, after an attempt to make room for need bytes. can_wait: the
 * caller can try later, if the space of removed logs is not free yet. */
void output_quota_make(struct execution *x, uint64_t need, bool can_wait);
/* The log has grown from that size, or has shrunk. */
void output_quota_count(struct execution *x, uint64_t before);
/* By how much the stored output of the session may still grow. */
uint64_t output_quota_room(const struct session *s);
/* So many bytes were stored for the session besides its logs. */
void output_quota_kept(struct session *s, uint64_t bytes);
/* Logs of so many bytes were removed with their session's record. */
void output_quota_gone(struct tenant *t, uint64_t bytes);
