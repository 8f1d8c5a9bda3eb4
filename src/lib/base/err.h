/* err.h - the error type. The function that fails fills it in. The one that handles it logs it. */
#pragma once

#include "lib/base/err_reason.h"
#include "lib/base/own.h"

enum err_code {
	ERR_NONE,
	ERR_INVALID,	 /* malformed input of the caller */
	ERR_DENIED,	 /* refused by policy or permissions */
	ERR_NOT_FOUND,	 /* no such object */
	ERR_CONFLICT,	 /* wrong state for this operation */
	ERR_LIMIT,	 /* a quota or a fixed bound was hit */
	ERR_UNSUPPORTED, /* this machine cannot do it */
	ERR_SYSTEM,	 /* a system call or a part of the server failed */
	ERR_CODES
};

/* Lives on the caller's stack. Owns nothing. Plain bytes, so it may be copied over a socket. */
struct err {
	enum err_code code;
	int sys; /* errno of the system call that failed, else 0 */
	char msg[256];
	enum err_reason reason; /* REASON_NONE, unless err_set_reason() has set one */
};

/* Each returns -1, so that failing is one statement: return err_set(e, ERR_INVALID, "..."). */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
int err_set_reason(struct err *e, enum err_reason reason, const char *fmt, ...) PRINTF(3, 4);
int err_sys(struct err *e, const char *fmt, ...) PRINTF(2, 3);	/* appends strerror(errno) */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF(2, 3); /* puts "context: " in front */

/* Analyzers see that it is -1: results set only on success are not read after it. */
#define err_set(...) (err_set(__VA_ARGS__), -1)

/* "invalid", "denied", ...: the stable word for programs. */
const char *err_code_name(enum err_code code);

/* "gone", "quota_sessions", .... "" for none. */
const char *err_reason_name(enum err_reason reason);
/* The code that it belongs to. ERR_NONE for none. */
enum err_code err_reason_code(enum err_reason reason);

/* Make an error from another process safe to use and print: no control bytes, a code and a reason
 * that exist. */
void err_sanitize(struct err *e);
