/* go_zip.h - the directory of a zip file, for go_h1.c. */
#pragma once

#include "buf.h"
#include "go_h1.h"

struct go_zip_entry {
	uint32_t name; /* where it is in names, NUL-terminated */
	uint32_t packed, unpacked;
	uint64_t at; /* the local header */
	bool deflated;
	uint8_t hash[32]; /* of the content, by go_h1.c */
};

struct go_zip {
	struct go_h1_source source;
	struct go_zip_entry *entries; /* owned */
	size_t n, want;
	struct buf names;
	uint64_t directory, next, end; /* where the directory is; the next entry; its end */
	uint64_t content;	       /* bytes unpacked, of all entries so far */
};

/* Finds the directory. */
int go_zip_open(struct go_zip *z, const struct go_h1_source *source, struct err *e) MUST_USE;
/* Reads one entry of it; 0 when all are read, else 1. */
int go_zip_next(struct go_zip *z, struct err *e) MUST_USE;
/* Where the content of an entry begins; all of it is inside of the file. */
int go_zip_content(const struct go_zip *z, const struct go_zip_entry *entry, uint64_t *ret,
		   struct err *e) MUST_USE;
void go_zip_release(struct go_zip *z);
