/* file_put.h - writes a file, completely or not at all, with owner, mode and metadata. Called by
 * file_write.c and file_join.c. */
#pragma once

#include "file_resolve.h"
#include "file_stage.h"
#include "file_xattr.h"

#define FILE_PUT_KEEP UINT32_MAX

struct file_put {
	const char *path;
	uint32_t mode, uid, gid; /* FILE_PUT_KEEP: as the old file, or the default */
	bool parents, append, exclusive;
	const struct file_xattr *meta; /* NULL: not changed */
};

/* Default values, with the owner of --for (file_user.h). */
struct file_put file_put_for_user(const char *path);

/* Stages a file (file_stage.h), calls `fill` to write its content, and puts it in place. The caller
 * owns *ret, where the file is. On failure nothing has changed, parents included; except that a
 * file that can only be written in place may be incomplete if the disk is full. Returns 1 if there
 * was a file before, else 0. */
int file_put(const struct file_put *r, int (*fill)(struct file_stage *s, void *arg, struct err *e),
	     void *arg, struct file_place *ret, struct err *e) MUST_USE;

/* Sends the ENTRY of the file; existed: the result of file_put(). */
int file_put_send_entry(const struct file_put *r, const struct file_place *p, int existed,
			struct err *e) MUST_USE;
