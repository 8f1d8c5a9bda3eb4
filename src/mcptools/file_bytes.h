/* file_bytes.h - a part of a file of a session in memory, masked: for the tools that show or edit
 * files, and for resources.
 *
 * Values of secrets are covered as in output, in pieces of the tenant's turns. A value that lies
 * across an end of the part could not be found, so as much is read on both sides as the longest
 * value takes in the longest of its forms, and cut off again. With more line breaks in a value than
 * one in 16 bytes that is too little; so a key of scope read may read only from the beginning in a
 * session that has secrets (web/masked.h).
 *
 * The bytes are counted for the tenant, as bodies of requests are. */
#pragma once

#include "buf.h"
#include "file_call.h"
#include "jobs.h"
#include "mask.h"

struct file_bytes {
	struct file_call call; /* first */
	char path[FILE_MSG_PATH_MAX];
	uint64_t offset, max; /* what is wanted */
	bool plain;	      /* not masked: to be written back, never shown */
	/* The result. */
	struct buf bytes;
	uint64_t size; /* of the file */
	bool more;     /* the file goes on behind the bytes */
	uint8_t type;  /* enum file_msg_type */
	void (*on_read)(struct file_bytes *f, const struct err *e);
	/* The rest is file_bytes.c's. */
	uint64_t begin;
	struct job job;
	struct mask_work work;
	bool no_room;
	char offset_text[24], length_text[24];
};

#define FILE_BYTES_MAX ((size_t)1 << 20)

/* path, offset, max (at most FILE_BYTES_MAX) and on_read are set, the rest is zero. The session
 * runs. on_read is called once, later; on failure of the start nothing is called. */
int file_bytes_start(struct file_bytes *f, struct request *r, struct session *s,
		     struct err *e) MUST_USE;
void file_bytes_release(struct file_bytes *f); /* safe if it is all zero */
