/* page.h - lists in pieces: how many, from where, in which order. */
#pragma once

#include "request.h"

#define PAGE_LIMIT 100 /* unless told */
#define PAGE_LIMIT_MAX 1000

struct page {
	unsigned limit;
	bool ascending;
	uint64_t after_ms; /* of the last row of the page before */
	char after_id[STORE_ID_MAX];
};

/* From the parameters limit, after and order (if the route has it). */
int page_read(struct request *r, struct page *ret, struct err *e) MUST_USE;
