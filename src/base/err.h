/* err.h - the one error type. Filled by the function that fails, logged by the one that stops. */
#pragma once

#include "own.h"

enum err_code {
	ERR_NONE,
	ERR_INVALID,	 /* the caller sent something malformed */
	ERR_DENIED,	 /* policy or permissions say no */
	ERR_NOT_FOUND,	 /* no such object */
	ERR_CONFLICT,	 /* wrong state for this operation */
	ERR_LIMIT,	 /* a quota or a fixed bound was hit */
	ERR_UNSUPPORTED, /* this machine cannot do it */
	ERR_SYSTEM,	 /* a system call failed; sys = errno */
	ERR_CODES
};

/* Lives on the caller's stack; owns nothing; plain bytes, so it may be copied over a socket. */
struct err {
	enum err_code code;
	int sys;
	char msg[256];
};

/* Each returns -1, so that failing is one statement: return err_set(e, ERR_INVALID, "..."). */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
int err_sys(struct err *e, const char *fmt, ...) PRINTF(2, 3);	/* appends strerror(errno) */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF(2, 3); /* puts "context: " in front */

/* "invalid", "denied", ...: the stable word for programs. */
const char *err_code_name(enum err_code code);

/* Makes an error safe to print whose words came from elsewhere: no control bytes, a real code. */
void err_sanitize(struct err *e);
