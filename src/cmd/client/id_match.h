/* id_match.h - ids as people type them: the beginning is enough if it is unique. */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"
#include "cmd/client/args.h"

/* word: the session as given on the command line. *ret is a new reference. */
int session_part_get(const struct args_common *common, const char *word, const char *part,
		     json_t **ret, struct err *e) MUST_USE;

#define ID_MATCH_ID_MAX 80

/* The full id of the one session that begins with word. Those that ended count only if no other
 * does. Fail with the server's "not found", or name the possible meanings of the word. */
int id_match_session(struct api_call *a, const char *word, char ret_id[ID_MATCH_ID_MAX],
		     struct err *e) MUST_USE;
/* word NULL: the execution started last. */
int id_match_execution(struct api_call *a, const char *session, const char *word,
		       char ret_id[ID_MATCH_ID_MAX], struct err *e) MUST_USE;

/* "/v1/sessions/{id}" and below: part may be NULL. */
void id_match_target(struct target *t, const char *session, const char *part);
/* "/v1/sessions/{id}/executions/{execution}" and below: part may be NULL. */
void id_match_execution_target(struct target *t, const char *session, const char *execution,
			       const char *part);
