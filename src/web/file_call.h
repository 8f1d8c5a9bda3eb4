/* file_call.h - runs one built-in of the cell and splits its output into records. The output is
 * untrusted: a malformed record ends the call. */
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
	/* It is over: status 0 (tar-out also 2) and e NULL, or why it failed. */
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
	bool raw_came; /* its length was announced: an answer has one */
	bool failed;
	struct err why;
};

/* Starts it. On failure nothing was started. */
int file_call_start(struct file_call *c, struct request *r, struct session *s,
		    const char *const *argv, unsigned argc, bool write,
		    const struct file_call_events *events, struct err *e) MUST_USE;
/* For record(): it is of a kind that does not belong there. Returns -1. */
int file_call_refuse(struct err *e) MUST_USE;
/* From now on all output is raw. Inside record(). */
void file_call_raw(struct file_call *c);
void file_call_resume(struct file_call *c);
/* Safe before and after; the events stop. */
void file_call_release(struct file_call *c);
