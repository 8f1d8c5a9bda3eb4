/* follow.h - reads a stream of server-sent events, and continues it after a break of the
 * connection. */
#pragma once

#include "cmd/client/api_call.h"

struct follow_event {
	const char *name, *data; /* borrowed until the next one. data is the JSON text */
	const json_t *json;	 /* parsed data. NULL if it is not JSON */
};

/* Return 0 to continue, 1 to end, -1 with e set. */
typedef int follow_fn(void *arg, const struct follow_event *event, struct err *e);

/* Give every event of the stream at t to take, after the position `after` (NULL: from the start. t
 * must not have "after" in it). resumes: events have positions, so that a break loses nothing.
 * Without that it is an error. complete: while it is false, the end of the connection is a break.
 * Once it is true, it is the end of the stream. a should be opened with API_CALL_STREAM_MS. */
struct follow_options {
	const char *after;
	bool resumes;
	const bool *complete; /* NULL: never */
};

int follow_events(struct api_call *a, const struct target *t, const struct follow_options *o,
		  follow_fn *take, void *arg, struct err *e) MUST_USE;

/* A followed list: past events and new ones. */
struct follow_list {
	const char *member; /* of a page: the list */
	const char *after;  /* from this position on. NULL: from the start */
	bool follow;	    /* wait for new items without end */
	void (*print)(const void *arg, const json_t *item);
	const void *arg;
};

/* Print the list at t, in pages or as a stream. */
int follow_list(struct api_call *a, struct target *t, const struct follow_list *l,
		struct err *e) MUST_USE;
