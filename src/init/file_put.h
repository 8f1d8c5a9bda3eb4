/* file_put.h - content into a file: complete or not at all, with owner, mode and metadata. */
#pragma once

#include "file_resolve.h"
#include "file_stage.h"
#include "file_xattr.h"

#define FILE_PUT_KEEP UINT32_MAX

struct file_put {
	const char *path;
	uint32_t mode, uid, gid; /* FILE_PUT_KEEP: of the file there was, or the default */
	bool parents, append, exclusive;
	const struct file_xattr *meta; /* exactly these; NULL: as it comes */
};

/* A file like this, for the user the built-in works for. */
struct file_put file_put_for_user(const char *path);

/* Stages a file where it belongs, lets `fill` bring its content, and puts it in place. *ret is
 * where that is, and the caller's. On failure nothing has changed, parents included (but a file
 * that can only be written in place may be left half written if there is no more room). Returns 1
 * if there was a file before, else 0. */
int file_put(const struct file_put *r, int (*fill)(struct file_stage *s, void *arg, struct err *e),
	     void *arg, struct file_place *ret, struct err *e) MUST_USE;

/* Says the ENTRY of what was put: existed is what file_put() returned. */
int file_put_send_entry(const struct file_put *r, const struct file_place *p, int existed,
			struct err *e) MUST_USE;
