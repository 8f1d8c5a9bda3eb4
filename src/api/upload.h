/* upload.h - a request's body into a built-in of the cell, in chunks (file_msg.h), so that the cell
 * can tell a whole body from one that broke off. */
#pragma once

#include "file_call.h"

struct upload {
	struct file_call *call;
	uint64_t chunk_left; /* of the chunk that was announced */
	uint8_t head[FILE_MSG_CHUNK_HEAD];
	size_t head_left; /* bytes of a head not yet taken */
	bool ending;	  /* the last, empty chunk is on its way */
	bool reading;	  /* the body is not at its end */
	uint64_t dropped; /* bytes of it that came after the call's end */
	void (*then)(struct file_call *c);
};

/* Begins to read the body, at most max bytes. The request's state must begin with the call,
 * followed by the upload. The call's room event goes to upload_room(). */
void upload_start(struct upload *u, struct file_call *c, uint64_t max);
void upload_room(struct upload *u);
/* The call is over: calls then when the body has been read, too, or is too long to wait for. Many
 * clients cannot hear an answer before they have sent everything. */
void upload_then(struct upload *u, void (*then)(struct file_call *c));
