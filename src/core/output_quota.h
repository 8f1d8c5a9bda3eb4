/* output_quota.h - how much output of executions is kept: see output_quota.c. Called by
 * execution_io.c around every move of bytes into a log. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct execution;
struct session;
struct tenant;

/* Sets by how much the log may grow, after an attempt to make room for need bytes. can_wait: the
 * caller can try later, if the space of removed logs is not free yet. */
void output_quota_make(struct execution *x, uint64_t need, bool can_wait);
/* Counts the change of the log's size since `before`. */
void output_quota_count(struct execution *x, uint64_t before);
/* By how much the stored output of the session may still grow. */
uint64_t output_quota_room(const struct session *s);
/* Counts so many bytes that were stored for the session besides its logs. */
void output_quota_kept(struct session *s, uint64_t bytes);
/* Counts out logs of so many bytes, which were removed with the record of their session. */
void output_quota_gone(struct tenant *t, uint64_t bytes);
