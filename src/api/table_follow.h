/* table_follow.h - numbered records of the store (events, network records), in pages or followed
 * live.
 *
 * api_events.c and api_network_log.c describe their table by a struct table_follow_kind; the rest
 * is here. A page is made in pieces (walk.h). A follower gets server-sent events: when its listener
 * reports new records, it reads them from the store after the last number it has seen, a batch at a
 * time, in its tenant's share of the loop (jobs.h) and only while its client takes them. So a slow
 * client costs nothing, many followers cost their own tenant, and no record is missed. */
#pragma once

#include "request.h"
#include "store.h"

struct table_follow_sink;
struct json;

/* The parameters that every such route has. */
struct table_follow_query {
	uint64_t after, limit;
	bool follow, after_given;
};

struct table_follow_kind {
	const char *list; /* the member of a page that holds the records */
	unsigned batch;	  /* records that a follower looks at in one piece of work */
	size_t record_max;
	size_t own_size; /* of the kind's own data: its filter and its listener */
	/* Calls table_follow_add() for the records after that number, at most limit of them. */
	int (*read_rows)(struct request *r, const void *own, uint64_t after, unsigned limit,
			 struct table_follow_sink *to, struct store_looked *ret, struct err *e);
	int (*read_last)(struct store *s, uint64_t *ret, struct err *e);
	/* Registers the listener in own, whose callback calls table_follow_wake(), and removes it.
	 */
	void (*listen)(struct request *r, void *own);
	void (*unlisten)(void *own);
	void (*show)(struct json *j, const void *row);
};

/* Reads follow, after and limit; of a follower also Last-Event-ID. */
int table_follow_read(struct request *r, struct table_follow_query *ret, struct err *e) MUST_USE;
/* Answers the request. own is copied; NULL: zeroes. */
void table_follow_start(struct request *r, const struct table_follow_kind *kind,
			const struct table_follow_query *q, const void *own);
/* There are new records. */
void table_follow_wake(struct request *r);
/* From inside read_rows(): one record. Returns what the store's callback is to return. */
int table_follow_add(struct table_follow_sink *to, uint64_t seq, const char *event,
		     const void *row);

/* A member of a filter as the store takes it: NULL if it was not given. */
static inline const char *table_follow_given(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}
