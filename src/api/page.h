/* page.h - parameters of lists in pages: limit, cursor, order. */
#pragma once

#include "json.h"
#include "request.h"

#define PAGE_LIMIT 100 /* by default */
#define PAGE_LIMIT_MAX 1000

struct page {
	unsigned limit;
	bool ascending;
	uint64_t after_ms; /* of the last row that was looked at */
	char after_id[STORE_ID_MAX];
};

/* Continues after the rows that were looked at. */
void page_advance(struct page *p, const struct store_looked *looked);
/* Writes the member "next": the cursor of the next page, or null at the end. */
void page_next(struct json *j, const struct page *p, bool end);

/* From the parameters limit, after and order (if the route has it). */
int page_read(struct request *r, struct page *ret, struct err *e) MUST_USE;
