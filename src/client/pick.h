/* pick.h - ids as people type them: the beginning is enough if it is unique. */
#pragma once

#include "ask.h"

#define PICK_ID_MAX 80

/* The full id of the one session that begins with word; those that ended count only if no other
 * does. Fails with the server's "not found", or names what the word could mean. */
int pick_session(struct ask *a, const char *word, char ret_id[PICK_ID_MAX], struct err *e) MUST_USE;
int pick_execution(struct ask *a, const char *session, const char *word, char ret_id[PICK_ID_MAX],
		   struct err *e) MUST_USE;

/* "/v1/sessions/{id}" and below: part may be NULL. */
void pick_target(struct target *t, const char *session, const char *part);
/* "/v1/sessions/{id}/executions/{execution}" and below: part may be NULL. */
void pick_execution_target(struct target *t, const char *session, const char *execution,
			   const char *part);
