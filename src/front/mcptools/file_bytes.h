/* file_bytes.h - a part of a file of a session in memory, masked: for the tools that show or edit
 * files, and for resources.
 *
 * Values of secrets are covered as in output, in pieces of the tenant's turns. A value across an
 * end of the part could not be found, so the longest form of the longest value is read on both
 * sides, and cut off again. With more line breaks in a value than one in 16 bytes the margin is too
 * small. So a key of scope read may read only from the beginning in a session with secrets
 * (front/web/masked.h).
 *
 * The bytes are counted for the tenant, as request bodies are. */
#pragma once

#include "front/web/file_call.h"
#include "lib/base/buf.h"
#include "lib/loop/jobs.h"
#include "lib/mask/mask.h"

struct file_bytes {
	struct file_call call; /* first */
	char path[FILE_MSG_PATH_MAX];
	uint64_t offset, max; /* what is wanted */
	bool plain;	      /* not masked: to be written back, never shown */
	/* The result. */
	struct buf bytes;
	uint64_t size; /* of the file */
	bool more;     /* the file continues behind the bytes */
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
 * runs. on_read is called once, later. If the start fails, nothing is called. */
int file_bytes_start(struct file_bytes *f, struct request *r, struct session *s,
		     struct err *e) MUST_USE;
void file_bytes_release(struct file_bytes *f); /* safe if it is all zero */
