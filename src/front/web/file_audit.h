/* file_audit.h - the audit record of a client's file operation: read, written, made,
 * moved, removed, exported or imported, by any interface (file_call.c); and of one on a volume.
 *
 * The record is written when the operation has ended or was given up, with the bytes that moved and
 * their hash, within a rate (audit_flood.h). Path and hash are sealed values: a hash of a short
 * text can be guessed back. Values of the session's secrets are covered in the path. */
#pragma once

#include <stdint.h>

#include "daemon/session/session.h"
#include "daemon/store/store_volume.h"
#include "lib/base/sha256.h"

struct request;

struct file_audit {
	const char *type; /* NULL: the operation has no record, or has it already */
	char *path, *to;  /* owned. NULL: none */
	char session[STORE_ID_MAX], tenant[STORE_ID_MAX];
	bool has_content;
	uint64_t bytes;
	struct sha256 sum;
};

/* argv: of the built-in, without options before its name. */
void file_audit_begin(struct file_audit *f, const struct session *s, const char *const *argv,
		      unsigned argc);
/* Bytes of the content, in order. */
void file_audit_add(struct file_audit *f, const void *bytes, size_t n);
/* Record an operation on the content of a volume, before it begins. op: a word. path: the client's.
 */
int file_audit_volume(struct request *r, const struct store_volume *v, const char *op,
		      const char *path, struct err *e) MUST_USE;
/* how: "done", "failed" or "cut". Idempotent. */
void file_audit_end(struct file_audit *f, struct request *r, const char *how);
