/* tar_pax.h - records of pax extensions, collected for one member. Called by tar_member.c. Pure. */
#pragma once

#include "buf.h"
#include "tar_member.h"

struct tar_pax {
	struct buf bytes; /* of all records; xattrs and names point into copies of it */
	char path[TAR_HEAD_PATH_MAX], link[TAR_HEAD_PATH_MAX], sparse_name[TAR_HEAD_PATH_MAX];
	bool has_size, has_uid, has_gid, has_mtime;
	uint64_t size, uid, gid;
	int64_t mtime;
	uint32_t mtime_ns;
	/* GNU's sparse files of three versions: a map in the body (1.0), in one record (0.1), in
	 * records of their own (0.0) */
	bool is_sparse, map_in_body, has_real_size;
	uint64_t real_size;
	struct tar_piece *pieces; /* owned */
	size_t npieces, pieces_room;
	struct tar_xattr xattrs[TAR_MEMBER_XATTRS_MAX];
	size_t nxattrs;
};

/* Empty again; memory is kept. */
void tar_pax_clear(struct tar_pax *p);
void tar_pax_release(struct tar_pax *p);

/* Reads the body of an extension: whole records. Values stay in body, which must not change while
 * the member is used. */
int tar_pax_read(struct tar_pax *p, char *body, size_t len, struct err *e) MUST_USE;

/* One more piece of a sparse file: behind the ones before. */
int tar_pax_piece(struct tar_pax *p, uint64_t offset, uint64_t len, struct err *e) MUST_USE;

/* Do the pieces lie within the file, and are they as many bytes as the body has? */
int tar_pax_check_pieces(const struct tar_pax *p, uint64_t body, struct err *e) MUST_USE;

/* A decimal number of n digits, nothing else. */
bool tar_pax_decimal(const char *p, size_t n, uint64_t max, uint64_t *ret);
