/* code_request.h - the bodies of requests, read: POST /execute and POST /contexts. For text of any
 * client. Pure. Nothing is copied but short words. */
#pragma once

#include "lib/json/json_read.h"

#define CODE_REQUEST_CODE_MAX (16U << 20) /* as it stands in the body */
#define CODE_REQUEST_ENV_MAX (1U << 20)
#define CODE_REQUEST_WORD_MAX 64
#define CODE_REQUEST_PATH_MAX 4096

struct code_request {
	struct json_value code;			  /* a text */
	struct json_value env;			  /* an object of texts, or NONE */
	char context_id[CODE_REQUEST_WORD_MAX];	  /* "": none */
	char language[CODE_REQUEST_WORD_MAX];	  /* small letters. "": none */
	char context_name[CODE_REQUEST_WORD_MAX]; /* of `run`: made at its first use. "": none */
	char cwd[CODE_REQUEST_PATH_MAX];	  /* of a new context. "": the default */
};

/* ERR_INVALID and a text for the client. The values are spans of the text. */
int code_request_execute(const char *text, size_t len, struct code_request *ret,
			 struct err *e) MUST_USE;
/* language and cwd only. An empty text is an empty object. */
int code_request_context(const char *text, size_t len, struct code_request *ret,
			 struct err *e) MUST_USE;

/* Is it an object whose values are texts without NULs, with names that an environment can have? */
bool code_request_is_env(struct json_value v);
