/* list_job.h - answers a request from many rows of the store, in pieces, in the tenant's share of
 * the loop (jobs.h).
 *
 * The state of a route begins with a struct list_job. Its on_piece() looks at LIST_JOB_PIECE rows,
 * adds some of them to the answer, and returns whether there are more. Other clients are served
 * between two pieces. After rows_max rows the job ends as if there were no more: the route's answer
 * has the position to continue from. */
#pragma once

#include "daemon/store/store.h"
#include "front/web/request.h"
#include "lib/json/json.h"
#include "lib/loop/jobs.h"

#define LIST_JOB_PIECE 256	   /* rows in one piece */
#define LIST_JOB_ROWS 20000	   /* in one request, for lists with a cursor */
#define LIST_JOB_BYTES (4U << 20)  /* of an answer: a list ends its page there */
#define LIST_JOB_PIECE_BYTES 65536 /* by which an answer grows in one piece, about */

struct list_job {
	struct request *r;
	struct job job;
	struct json j;	    /* the answer so far */
	size_t piece_began; /* its length when this piece began */
	unsigned rows, rows_max;
	/* 1: there are more rows, 0: no, or enough was found. -1: failed. */
	int (*on_piece)(struct list_job *w, struct err *e);
	/* The job is at its end: writes the rest of the answer. */
	void (*on_finish)(struct list_job *w);
	/* May be NULL. */
	void (*release)(struct list_job *w);
};

/* State of that size for the request, or NULL (then it was answered). Set on_piece and on_finish.
 * The caller fills in the rest before list_job_start(). */
void *list_job_new(struct request *r, size_t size,
		   int (*on_piece)(struct list_job *w, struct err *e),
		   void (*on_finish)(struct list_job *w)) MUST_USE;
/* The job answers the request, or already has when this returns. */
void list_job_start(struct list_job *w);

/* Rows that a piece has looked at. Return what on_piece() is to return: 1 if there may be more. */
int list_job_count(struct list_job *w, const struct store_looked *looked);
/* Is the answer long enough for this piece, or for the page? */
bool list_job_piece_is_full(const struct list_job *w);
bool list_job_page_is_full(const struct list_job *w);
