/* record_quota.h - how many bytes the records of executions and sessions may take in the store: see
 * record_quota.c. Called before a session or an execution is recorded. */
#pragma once

#include <stdint.h>

#include "err.h"

#define RECORD_TEXT_MAX 4096 /* bytes of a command that are kept; its hash is of all of it */

struct core;
struct session;
struct tenant;

/* Cuts a text that is longer than RECORD_TEXT_MAX, between two characters; it then ends in "...".
 */
void record_quota_cut(char *text);

/* Is there room for the record of one more execution of the session? ERR_LIMIT: a bound of the
 * session or of its tenant is reached. */
int record_quota_check(struct session *s, struct err *e) MUST_USE;
/* The texts of all records of a session count for session_output_max. Empties this text if there is
 * no room for it, else counts it. */
void record_quota_text(struct session *s, char *text);

/* Is there room for records of the tenant? Returns 0; 1 if its bound, *ret_max, is reached; -1: the
 * store failed. */
int record_quota_session(struct core *c, const struct tenant *t, uint64_t *ret_max,
			 struct err *e) MUST_USE;
