/* list_page.h - lists in pages: their parameters of lists in pages: limit, cursor, order. */
#pragma once

#include "daemon/store/store.h"
#include "front/web/list_job.h"
#include "front/web/request.h"
#include "lib/json/json.h"

#define PAGE_LIMIT 100 /* by default */
#define PAGE_LIMIT_MAX 1000

struct page {
	unsigned limit;
	bool ascending;
	uint64_t after_ms; /* of the last row read */
	char after_id[STORE_ID_MAX];
};

/* Continue after the rows read. */
void page_advance(struct page *p, const struct store_looked *looked);
/* Write the member "next": the cursor of the next page, or null at the end. */
void page_next(struct json *j, const struct page *p, bool end);

/* From the parameters limit, after and order (if the route has it). */
int page_read(struct request *r, struct page *ret, struct err *e) MUST_USE;

/* ---- pages of short lists
 *
 * A page of a list that few rows can have (volumes, secrets, tenants): {NAME: [...], "next": ...},
 * written in one turn. It ends at its limit, or with the row that brings it to LIST_PART_BYTES. */

#define LIST_PART_BYTES (64U << 10)

struct list_part {
	struct json j;
	uint64_t limit;
	bool by_time; /* pages continue after a time and an id. Otherwise after a name */
	uint64_t n;   /* rows shown */
	bool more;    /* than the page may have */
	uint64_t ms;  /* by_time: of the row before the page, then of the last one shown */
	char last[STORE_NAME_MAX]; /* the name or id of that row. "": there is none */
};

/* Read limit and after, and begin the answer. On failure there is nothing to release. */
int list_part_begin(struct list_part *p, struct request *r, const char *name, bool by_time,
		    struct err *e) MUST_USE;
/* Count a row to show. False: the page has ended, and the caller reads no more rows. */
bool list_part_admits(struct list_part *p, uint64_t ms, const char *id);
/* How many rows to read from the store: one more than the page may have. */
unsigned list_part_rows(const struct list_part *p);
/* Answer. */
void list_part_reply(struct list_part *p, struct request *r);

/* ---- pages from many rows
 *
 * A list of the store's rows in pages, from newest to oldest or the other way, for the routes of
 * sessions, executions and keys.
 *
 * A route's state begins with a struct page_walk. Its read_rows() reads rows after page.after_*
 * and asks page_walk_admits() before it shows one. Rows are read in pieces (list_job.h). An empty
 * page may have a next one. */

struct page_walk {
	struct list_job job; /* first */
	struct page page;
	unsigned shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
	/* Look at LIST_JOB_PIECE rows at most. */
	int (*read_rows)(struct page_walk *p, struct store_looked *ret, struct err *e);
};

/* State of that size, with the page's parameters read. NULL: the request was answered. */
void *page_walk_new(struct request *r, size_t size,
		    int (*read_rows)(struct page_walk *p, struct store_looked *ret,
				     struct err *e)) MUST_USE;
/* Answer with {name: [...], "next": ...}. */
void page_walk_start(struct page_walk *p, const char *name);
/* Count a row to show. False: do not show it now, and return 1 from the store's callback. */
bool page_walk_admits(struct page_walk *p);
