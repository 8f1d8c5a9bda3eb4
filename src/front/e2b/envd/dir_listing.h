/* dir_listing.h - the entries of a directory, until all are there and can be put in order.
 * Called by filesystem.c. Sorting and writing take several turns of the loop, since there may be a
 * hundred thousand entries.
 *
 * Kept bytes count against the common bound of all requests (rpc.h). */
#pragma once

#include "lib/json/json.h"

#define DIR_LISTING_RUN 256	  /* entries sorted at a time */
#define DIR_LISTING_MERGED 4096	  /* entries put in place in one piece */
#define DIR_LISTING_WRITTEN 65536 /* bytes written in one piece, about */

struct dir_listing {
	char *text; /* owned: paths and JSON, each with its NUL */
	size_t len, size;
	struct dir_listing_entry *entries; /* owned */
	size_t n, cap;
	struct dir_listing_entry *spare; /* owned: where runs are merged to */
	size_t run;			 /* entries in each sorted run. 0: none is sorted so far */
	size_t at;			 /* where this pass over the entries is */
	size_t left, right;		 /* the next entries of the two merging runs */
	bool sorted;
};

/* path: relative to the directory. False: the list is too large. */
bool dir_listing_add(struct dir_listing *l, const char *path, const struct json *entry) MUST_USE;
/* Sort the entries and write them as an array, one piece of work in each call. The entries of a
 * directory follow the directory. The caller has opened the array. False: it is done. j is full
 * without memory. */
bool dir_listing_piece(struct dir_listing *l, struct json *j) MUST_USE;
/* Safe if it is all zero. */
void dir_listing_release(struct dir_listing *l);
