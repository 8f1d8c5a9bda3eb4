/* tar_head.h - reads and writes header blocks of tar archives: ustar, GNU's long names, pax. Pure,
 * for untrusted bytes. Callers read and write the stream: cell/init/files/tar_*.c,
 * cmd/client/pack.c, cmd/client/transfer.c, storage/tar_member.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/own.h"

#define TAR_HEAD_BLOCK 512U
#define TAR_HEAD_PATH_MAX 4096U /* with NUL */
#define TAR_HEAD_PAX_MAX 65536U /* body of an extension. More is refused */
#define TAR_HEAD_SIZE_MAX ((uint64_t)1 << 60)

/* Supported values of the type field. */
enum {
	TAR_HEAD_FILE = '0',
	TAR_HEAD_HARDLINK = '1',
	TAR_HEAD_SYMLINK = '2',
	TAR_HEAD_CHAR = '3',
	TAR_HEAD_BLOCK_DEVICE = '4',
	TAR_HEAD_DIR = '5',
	TAR_HEAD_FIFO = '6',
	TAR_HEAD_LONG_NAME = 'L', /* GNU: the body is the next entry's name */
	TAR_HEAD_LONG_LINK = 'K', /* GNU: the body is the next entry's link target */
	TAR_HEAD_PAX = 'x',	  /* the body is records for the next entry */
	TAR_HEAD_PAX_GLOBAL = 'g',
};

struct tar_head {
	char type;     /* '\0' and '7' come out as FILE, a v7 name that ends in '/' as DIR */
	uint32_t mode; /* at most 07777 */
	uint64_t size; /* bytes of body behind the block, without padding */
	int64_t mtime;
	uint64_t uid, gid;     /* as the archive has them */
	uint32_t major, minor; /* of a device. Only read */
	char path[TAR_HEAD_PATH_MAX];
	char link[TAR_HEAD_PATH_MAX];
};

/* Read a block whose checksum is right. Return 1 for a block of zeros (the end marker is two of
 * them), 0 for a header, -1 (ERR_INVALID, *ret undefined) for anything else. */
int tar_head_read(const uint8_t block[TAR_HEAD_BLOCK], struct tar_head *ret,
		  struct err *e) MUST_USE;

/* A number of an archive: octal text, or binary as GNU tar writes large ones. false: malformed. */
bool tar_head_number(const uint8_t *field, size_t n, uint64_t *ret);

/* The fields that pax records override. NULL or false: not there. */
struct tar_head_pax {
	const char *path, *link; /* point into the body, whose bytes are changed: see below */
	bool has_size;
	uint64_t size;
};

/* Read the body of a pax extension. Put NULs behind the values it returns. Keywords that do not
 * matter here are passed over. Sparse files are refused (ERR_UNSUPPORTED). */
int tar_head_pax_read(char *body, size_t len, struct tar_head_pax *ret, struct err *e) MUST_USE;

/* Write a header. Return false if path, link or size does not fit: then a pax extension has to go
 * in front, and the block, itself complete, holds as much as fits. Times before 1970 become 0, ids
 * that do not fit 65534. */
bool tar_head_write(const struct tar_head *h, uint8_t ret_block[TAR_HEAD_BLOCK]) MUST_USE;

/* Write the records for all that tar_head_write() could not fit into at most cap bytes. Return
 * the length. cap of 2 * TAR_HEAD_PATH_MAX + 128 is always enough. */
size_t tar_head_pax_write(const struct tar_head *h, char *ret_body, size_t cap) MUST_USE;

/* Bytes of padding behind a body. */
size_t tar_head_padding(uint64_t size);

/* ---- records of pax extensions, "LENGTH KEYWORD=VALUE
": attributes, times, holes of sparse files.
 * Written by cell/init/changes/capture_out.c. */

#define PAX_RECORD_XATTR "SCHILY.xattr."

/* Each appends a record, and returns its length. 0 if it does not fit into cap bytes. A time is
 * seconds, with nanoseconds as a fraction. s may be negative, and then ns leads towards 0. */
size_t pax_record_put(char *at, size_t cap, const char *key, const void *value,
		      size_t len) MUST_USE;
size_t pax_record_number(char *at, size_t cap, const char *key, uint64_t value) MUST_USE;
size_t pax_record_time(char *at, size_t cap, const char *key, int64_t s, uint32_t ns) MUST_USE;
