/* id_match.h - ids as people type them: the beginning is enough if it is unique. */
#pragma once

#include "api_call.h"

#define ID_MATCH_ID_MAX 80

/* The full id of the one session that begins with word; those that ended count only if no other
 * does. Fails with the server's "not found", or names what the word could mean. */
int id_match_session(struct api_call *a, const char *word, char ret_id[ID_MATCH_ID_MAX],
		     struct err *e) MUST_USE;
/* word NULL: the execution that was started last. */
int id_match_execution(struct api_call *a, const char *session, const char *word,
		       char ret_id[ID_MATCH_ID_MAX], struct err *e) MUST_USE;

/* "/v1/sessions/{id}" and below: part may be NULL. */
void id_match_target(struct target *t, const char *session, const char *part);
/* "/v1/sessions/{id}/executions/{execution}" and below: part may be NULL. */
void id_match_execution_target(struct target *t, const char *session, const char *execution,
			       const char *part);
