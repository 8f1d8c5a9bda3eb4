/* file_call.h - runs one built-in of PID 1 of a cell (doc/file-protocol.md) and splits its output
 * into records. The output is untrusted: a malformed record ends the call. */
#pragma once

#include "daemon/execution/file_op.h"
#include "front/web/file_audit.h"
#include "front/web/request.h"
#include "lib/wire/file_msg.h"

#define FILE_CALL_ARGS_MAX 8
#define FILE_CALL_USER "user" /* by default */
/* Paths that a key of scope read cannot access: secrets as files, and environments of processes. */
#define FILE_CALL_HIDDEN "/proc:/dev/shm/secrets:/run/secrets"

struct file_call;

struct file_call_events {
	/* A record other than ERROR and DATA. Return -1 with e set to abort the call. */
	int (*on_record)(struct file_call *c, const struct file_msg *m, struct err *e);
	/* Can it take a record now? If not, file_call_resume() follows. NULL: always. */
	bool (*is_ready)(struct file_call *c);
	/* Bytes outside records: those a DATA record announced, or all after file_call_raw().
	 * Return how many were taken. file_call_resume() when it can take more. NULL: there must
	 * be none. */
	size_t (*on_raw)(struct file_call *c, const uint8_t *data, size_t len);
	/* There is room for input. May be NULL. */
	void (*on_room)(struct file_call *c);
	/* The call has ended. e is NULL and status 0 (of tar-out also 2), or e is the reason of a
	 * failure. */
	void (*on_end)(struct file_call *c, int status, const struct err *e);
};

struct file_event;

struct file_call {
	struct request *r;
	const struct file_call_events *events;
	const char *user;	   /* to run it as. Set before, or NULL: the parameter "user" */
	struct file_op *op;	   /* NULL before and after */
	struct file_event *change; /* owned: the change it makes. NULL: none, or it is recorded */
	uint8_t *bytes;		   /* owned: an incomplete record */
	size_t len;
	uint64_t raw_left;
	bool raw_came; /* a DATA record came. An answer has one at most */
	bool failed;
	struct err why;
	struct file_audit audit;
};

/* Start it. On failure nothing was started. */
int file_call_start(struct file_call *c, struct request *r, struct session *s,
		    const char *const *argv, unsigned argc, bool write,
		    const struct file_call_events *events, struct err *e) MUST_USE;
/* For on_record(): a record of this kind is not expected. Return -1. */
int file_call_refuse(struct err *e) MUST_USE;
/* All further output is raw. Called from on_record(). */
void file_call_raw(struct file_call *c);
void file_call_resume(struct file_call *c);
/* No events follow. Safe before the start and after the end. */
void file_call_release(struct file_call *c);

/* ---- content in chunks
 *
 * Sends bytes to a built-in of the cell in chunks (file_msg.h), so that the cell can distinguish
 * complete content from cut content. */

struct chunk_writer {
	struct file_call *call;
	uint64_t known;	     /* bytes that certainly follow. 0: unknown */
	uint64_t chunk_left; /* of the announced chunk */
	uint8_t head[FILE_MSG_CHUNK_HEAD];
	size_t head_left; /* bytes of a head not yet taken */
	bool ending;	  /* the last, empty chunk is on its way */
};

/* For a just started call. known: the length of the content. Chunks are then as long as possible.
 * 0: the length is unknown. */
void chunk_writer_init(struct chunk_writer *k, struct file_call *c, uint64_t known);
/* Take up to len bytes and return how many. Fewer than len: there is no room now, and the call's
 * room event follows. If the call has ended or failed, the bytes are dropped and len is returned.
 */
size_t chunk_writer_put(struct chunk_writer *k, const uint8_t *data, size_t len);
/* The content is complete. */
void chunk_writer_end(struct chunk_writer *k);
/* In the call's room event: true, if chunk_writer_put() may be called. */
bool chunk_writer_room(struct chunk_writer *k);

/* ---- bodies as content
 *
 * Passes the body of a request to a built-in of the cell. */

#define UPLOAD_DROP_MAX (64U << 20)

struct upload {
	struct chunk_writer out;
	bool reading;	  /* the body is not at its end */
	uint64_t dropped; /* bytes of the body that arrived after the call's end */
	void (*on_finished)(struct file_call *c);
};

/* Begin to read the body, at most max bytes. The request's state must begin with the call,
 * followed by the upload. The call's room event goes to upload_room(). */
void upload_start(struct upload *u, struct file_call *c, uint64_t max);
void upload_room(struct upload *u);
/* The call has ended: call on_finished when the body has been read, too, or is too long to wait
 * for. Many clients cannot receive an answer before they have sent everything. */
void upload_finish(struct upload *u, void (*on_finished)(struct file_call *c));
