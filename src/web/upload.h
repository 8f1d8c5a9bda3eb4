/* upload.h - passes the body of a request to a built-in of the cell. */
#pragma once

#include "chunk_writer.h"

#define UPLOAD_DROP_MAX (64U << 20)

struct upload {
	struct chunk_writer out;
	bool reading;	  /* the body is not at its end */
	uint64_t dropped; /* bytes of the body that arrived after the call's end */
	void (*on_finished)(struct file_call *c);
};

/* Begins to read the body, at most max bytes. The request's state must begin with the call,
 * followed by the upload. The call's room event goes to upload_room(). */
void upload_start(struct upload *u, struct file_call *c, uint64_t max);
void upload_room(struct upload *u);
/* The call is over: calls on_finished when the body has been read, too, or is too long to wait for.
 * Many clients cannot receive an answer before they have sent everything. */
void upload_finish(struct upload *u, void (*on_finished)(struct file_call *c));
