/* reply.h - answers: JSON, nothing, and the one shape of errors. Each ends the handler's work: the
 * handler must not use the request after it. */
#pragma once

#include "err.h"
#include "json.h"

struct request;

#define REPLY_JSON_MAX (16U << 20)

/* Sends what was written and releases it; 500 if it did not fit. */
void reply_json(struct request *r, int status, struct json *j);
/* Without a body. */
void reply_empty(struct request *r, int status);

/* An error with a given code (a word, for programs). 4xx is the user's fault, the rest the
 * server's.
 */
void reply_code(struct request *r, int status, const char *code, const char *message);
/* Any failure of the core: the status and the code in the answer follow from its reason, code and
 * errno. */
void reply_error(struct request *r, const struct err *e);
/* A failure of a file operation, by its errno. */
void reply_file_error(struct request *r, const struct err *e);
/* ERR_LIMIT with a time to wait. */
void reply_refusal(struct request *r, const struct err *e, unsigned retry_s);

/* The status that reply_error() would answer with. */
int reply_status_of(const struct err *e);
/* Writes {"code","message","fault"} of an error as the member "error". */
void reply_error_member(struct json *j, const struct err *e);
