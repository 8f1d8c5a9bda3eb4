/* reply.h - answers: JSON, nothing, and the one shape of errors. Each ends the handler's work: the
 * handler must not use the request after it. */
#pragma once

#include "lib/base/err.h"
#include "lib/json/json.h"

struct request;

#define REPLY_JSON_MAX (16U << 20)

/* An answer collected over several turns is counted for the tenant (tenant_bodies_max): size is its
 * size so far. From when it is sent, its connection counts it. ERR_LIMIT: there is no room, and
 * nothing of it is counted any more. The caller frees it at once, since the request may end later:
 * many that grow together would all fail otherwise. */
int reply_count(struct request *r, size_t size, struct err *e) MUST_USE;
/* It is sent, or its memory was freed. */
void reply_uncount(struct request *r);

/* Send the writer's text and release the writer. 500 if it did not fit. */
void reply_json(struct request *r, int status, struct json *j);
/* Without a body. */
void reply_empty(struct request *r, int status);

/* An error with a given code (a word, for programs). 4xx is the user's fault, the rest the
 * server's.
 */
void reply_code(struct request *r, int status, const char *code, const char *message);
/* Add Location: the path of the object that the request made. The id is escaped. Before the
 * answer. */
void reply_location(struct request *r, const char *prefix, const char *id);
/* 404: no such KIND 'NAME'. */
void reply_missing(struct request *r, const char *kind, const char *name);
/* Any failure of the core: the status and the code in the answer follow from its reason, code and
 * errno. */
void reply_error(struct request *r, const struct err *e);
/* A failure of a file operation, by its errno. */
void reply_file_error(struct request *r, const struct err *e);
/* ERR_LIMIT with a time to wait. */
void reply_refusal(struct request *r, const struct err *e, unsigned retry_s);

/* The status that reply_error() would answer with. */
int reply_status_of(const struct err *e);
/* Write {"code","message","fault"} of an error as the member "error". */
void reply_error_member(struct json *j, const struct err *e);
