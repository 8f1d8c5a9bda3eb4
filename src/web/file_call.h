/* file_call.h - runs one built-in of PID 1 of a cell (doc/file-protocol.md) and splits its output
 * into records. The output is untrusted: a malformed record ends the call. */
#pragma once

#include "file_msg.h"
#include "file_op.h"
#include "request.h"

#define FILE_CALL_ARGS_MAX 8
#define FILE_CALL_USER "user" /* by default */
/* Paths that a key of scope read cannot access: secrets as files, and environments of processes. */
#define FILE_CALL_HIDDEN "/proc:/dev/shm/secrets:/run/secrets"

struct file_call;

struct file_call_events {
	/* A record other than ERROR and DATA. Returns -1 with e set to abort the call. */
	int (*on_record)(struct file_call *c, const struct file_msg *m, struct err *e);
	/* Can it take a record now? If not, file_call_resume() follows. NULL: always. */
	bool (*is_ready)(struct file_call *c);
	/* Bytes that are no records: those a DATA record announced, or all after file_call_raw().
	 * Returns how many were taken; file_call_resume() when it can take more. NULL: there must
	 * be none. */
	size_t (*on_raw)(struct file_call *c, const uint8_t *data, size_t len);
	/* There is room for input. May be NULL. */
	void (*on_room)(struct file_call *c);
	/* The call is over. e is NULL and status 0 (of tar-out also 2), or e is the reason of a
	 * failure. */
	void (*on_end)(struct file_call *c, int status, const struct err *e);
};

struct file_call {
	struct request *r;
	const struct file_call_events *events;
	const char *user;   /* to run it as; set before, or NULL: the parameter "user" */
	struct file_op *op; /* NULL before and after */
	uint8_t *bytes;	    /* owned: an incomplete record */
	size_t len;
	uint64_t raw_left;
	bool raw_came; /* there was a DATA record; an answer has one at most */
	bool failed;
	struct err why;
};

/* Starts it. On failure nothing was started. */
int file_call_start(struct file_call *c, struct request *r, struct session *s,
		    const char *const *argv, unsigned argc, bool write,
		    const struct file_call_events *events, struct err *e) MUST_USE;
/* For on_record(): a record of this kind is not expected. Returns -1. */
int file_call_refuse(struct err *e) MUST_USE;
/* All further output is raw. Called from on_record(). */
void file_call_raw(struct file_call *c);
void file_call_resume(struct file_call *c);
/* No events follow. Safe before the start and after the end. */
void file_call_release(struct file_call *c);
