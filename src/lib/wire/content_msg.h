/* content_msg.h - the stream in which cordon-storage answers an operation on the content of a
 * volume (storage_msg.h, CONTENT). Written by storage/content_*.c, read by
 * daemon/volumes/content_call.c.
 *
 * A record is a head and a body. An answer is: ENTRY..., perhaps DATA and the bytes that it
 * announces, END, or ERROR at any point before DATA. A stream that ends without END or ERROR was
 * cut off. Native layout, as both ends run on one machine. The writer works on files that a tenant
 * controls, so the reader trusts nothing: every length is bounded, and a record is whole or an
 * error. Pure.
 *
 * The input of a write is chunks as of file_msg.h: truncated content has no last chunk, and is
 * dropped. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define CONTENT_PATH_MAX 4096U /* with its NUL, as a target */
#define CONTENT_RECORD_MAX (128U + 2 * CONTENT_PATH_MAX)

enum content_kind { CONTENT_ERROR = 1, CONTENT_ENTRY, CONTENT_DATA, CONTENT_END };

enum content_type {
	CONTENT_UNKNOWN, /* a pipe, a socket, a device */
	CONTENT_FILE,
	CONTENT_DIRECTORY,
	CONTENT_SYMLINK,
	CONTENT_TYPES
};

struct content_entry {
	uint64_t size;
	int64_t atime_ns, mtime_ns, ctime_ns;
	uint32_t type, mode, uid, gid;
	char path[CONTENT_PATH_MAX];   /* in the volume, absolute */
	char target[CONTENT_PATH_MAX]; /* of a symlink. Else "" */
};

struct content_record {
	enum content_kind kind;
	union {
		struct err error;
		struct content_entry entry;
		uint64_t len; /* DATA: so many bytes follow */
	};
};

/* Write a record into CONTENT_RECORD_MAX bytes and return its size. Texts are ended by NUL. */
size_t content_msg_write(const struct content_record *r, uint8_t *ret);

/* Read the record at the start of the bytes: how many it takes, 0 if it is not all there (never
 * with CONTENT_RECORD_MAX bytes), -1 (ERR_SYSTEM) if it is malformed. */
int content_msg_read(const uint8_t *bytes, size_t len, struct content_record *ret,
		     struct err *e) MUST_USE;
