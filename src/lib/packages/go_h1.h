/* go_h1.h - Go's hash of a module's zip ("h1:", golang.org/x/mod/sumdb/dirhash): SHA-256 of the
 * sorted list of "SHA-256 of the content, two spaces, name". cordon-egress calls it with the zip in
 * a file. Pure: it reads by a callback, and works in slices, so that a turn of the loop is bounded.
 *
 * Strict: no ZIP64, no comment at the end, no encryption, stored or deflated content only, sizes
 * equal to those of the directory. Bounds: GO_ZIP_*, beyond them ERR_LIMIT. Go itself refuses
 * modules of more than 500 MB. */
#pragma once

#include "lib/base/buf.h"
#include "lib/packages/digest.h"

#define GO_ZIP_FILES 60000U
#define GO_ZIP_NAMES (16U << 20)    /* bytes of all names */
#define GO_ZIP_CONTENT (600U << 20) /* bytes of all content */

struct go_h1;

/* The zip file. */
struct go_h1_source {
	uint64_t size;
	/* Read exactly n bytes inside of size. */
	int (*read_at)(void *arg, uint64_t at, void *ret, size_t n, struct err *e);
	void *arg;
};

/* The callback and its argument must stay valid until go_h1_free(). */
struct go_h1 *go_h1_new(const struct go_h1_source *source, struct err *e) MUST_USE;
/* Read or unpack about `most` bytes. 1: more is to do. 0: done. -1: not the zip of a module. */
int go_h1_step(struct go_h1 *h, size_t most, struct err *e) MUST_USE;
/* Return the hash. Only valid after go_h1_step() returned 0. */
void go_h1_result(const struct go_h1 *h, struct digest *ret);
void go_h1_free(struct go_h1 *h); /* h may be NULL */

/* ---- reads the directory of a zip file for go_h1.c. Private to src/lib/packages. */

/* A file of the zip. */
struct go_zip_entry {
	uint32_t name; /* its place in names, NUL-terminated */
	uint32_t packed, unpacked;
	uint64_t at; /* the local header */
	bool deflated;
	uint8_t hash[32]; /* SHA-256 of the content, set by go_h1.c */
};

struct go_zip {
	struct go_h1_source source;
	struct go_zip_entry *entries; /* owned */
	size_t n, want;
	struct buf names;
	/* place of the directory, its next entry, and its end */
	uint64_t directory, next, end;
	uint64_t content; /* bytes unpacked, of all entries so far */
};

/* Find the directory. */
int go_zip_open(struct go_zip *z, const struct go_h1_source *source, struct err *e) MUST_USE;
/* Read one entry of the directory. 1: read, 0: no more entries. */
int go_zip_next(struct go_zip *z, struct err *e) MUST_USE;
/* Find the place of an entry's content, all of it inside the file. */
int go_zip_content(const struct go_zip *z, const struct go_zip_entry *entry, uint64_t *ret,
		   struct err *e) MUST_USE;
void go_zip_release(struct go_zip *z);
