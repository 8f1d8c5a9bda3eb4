/* tar_member.h - the members of a tar archive, one by one, with all that extensions say about them:
 * GNU's long names and sparse files, pax records with names, sizes, owners, times, extended
 * attributes and sparse maps. For untrusted bytes. Makes nothing. Called by what unpacks archives.
 */
#pragma once

#include "lib/wire/tar_head.h"
#include "storage/stream_in.h"

#define TAR_MEMBER_XATTRS_MAX 64
#define TAR_MEMBER_PAX_MAX (1U << 20)	 /* bytes of records for one member */
#define TAR_MEMBER_SPARSE_MAX (1U << 18) /* pieces of a sparse file */

struct tar_xattr {
	const char *name; /* without "SCHILY.xattr.". Borrowed from the reader, as value */
	const uint8_t *value;
	size_t len;
};

struct tar_piece {
	uint64_t offset, len;
};

struct tar_member {
	struct tar_head head; /* head.size: bytes of the body that tar_reader_body() gives */
	uint32_t mtime_ns;
	bool is_sparse;
	uint64_t real_size; /* of the file: head.size, unless it is sparse */
	/* For a sparse file: where the bytes of the body go, ascending. The rest are holes. */
	const struct tar_piece *pieces;
	size_t npieces;
	struct tar_xattr xattrs[TAR_MEMBER_XATTRS_MAX];
	size_t nxattrs;
};

struct tar_reader;

/* The stream is borrowed. NULL: no memory. */
struct tar_reader *tar_reader_new(struct stream_in *in, struct err *e) MUST_USE;
void tar_reader_free(struct tar_reader *r);

/* The next member. The unread rest of the last one's body is passed over. Types other than files,
 * links, devices, FIFOs and directories are returned as they are, with their body. 0: there is one,
 * valid until the next call. 1: the end marker was read. -1: malformed, or the archive ends without
 * its end marker. */
int tar_reader_next(struct tar_reader *r, struct tar_member *ret, struct err *e) MUST_USE;

/* The next bytes of the body: as read(2). */
ssize_t tar_reader_body(struct tar_reader *r, void *ret, size_t cap, struct err *e) MUST_USE;

/* As above, into a file without a copy here, where possible (stream_in_splice()). */
ssize_t tar_reader_splice(struct tar_reader *r, int to, uint64_t n, struct err *e) MUST_USE;

/* How many bytes of the archive, uncompressed, were before the body. */
uint64_t tar_reader_at(const struct tar_reader *r);
