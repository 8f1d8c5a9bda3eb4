/* page_walk.h - a list of the store's rows in pages, from newest to oldest or the other way: the
 * part that routes for sessions, executions and keys share.
 *
 * A route's state begins with a struct page_walk. Its read_rows() reads rows after page.after_*
 * and asks page_walk_admits() before it shows one. Rows are looked at in pieces (walk.h); a page
 * may be empty and have a next one. */
#pragma once

#include "page.h"
#include "walk.h"

struct page_walk {
	struct walk walk; /* first */
	struct page page;
	unsigned shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
	/* Looks at WALK_PIECE rows at most. */
	int (*read_rows)(struct page_walk *p, struct store_looked *ret, struct err *e);
};

/* State of that size, with the page's parameters read; NULL: the request was answered. */
void *page_walk_new(struct request *r, size_t size,
		    int (*read_rows)(struct page_walk *p, struct store_looked *ret,
				     struct err *e)) MUST_USE;
/* Answers with {name: [...], "next": ...}. */
void page_walk_start(struct page_walk *p, const char *name);
/* Counts a row that is to be shown. False: it must not be shown now, and the store's callback
 * returns 1. */
bool page_walk_admits(struct page_walk *p);
