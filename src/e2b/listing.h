/* listing.h - the entries of a directory, until all are there and can be put in order.
 *
 * What is kept counts against the bound that all requests have together (rpc.h). */
#pragma once

#include "json.h"

struct listing {
	char *text; /* owned: paths and JSON, each with its NUL */
	size_t len, size;
	struct listing_entry *entries; /* owned */
	size_t n, cap;
};

/* path: relative to the directory. False: it is too much. */
bool listing_add(struct listing *l, const char *path, const struct json *entry) MUST_USE;
/* An array, name by name: what is in a directory comes right behind it. */
void listing_write(struct listing *l, struct json *j, const char *name);
/* Safe if it is all zero. */
void listing_release(struct listing *l);
