/* body_feed.h - passes the body of a request to a taker with its own speed: a file of a volume, an
 * import. The client is not read while the taker has no room.
 *
 * The answer comes when the body was read and the taker has ended: many clients cannot receive an
 * answer before they have sent everything. If the taker fails early, the rest of the body is
 * dropped, up to a bound. The feed must be the first member of the request's state. */
#pragma once

#include "front/web/request.h"

struct body_feed {
	/* Return how many bytes were taken. Fewer: body_feed_on_room() follows. */
	size_t (*put)(struct request *r, const uint8_t *data, size_t len);
	/* The body is complete. Called again after body_feed_on_room() until it returns true. */
	bool (*end)(struct request *r);
	/* The body did not come whole: nothing is to be kept. The server answers if need be. */
	void (*cut)(struct request *r);
	/* Once. e NULL: the taker has ended well. */
	void (*answer)(struct request *r, const struct err *e);
	/* The rest is for body_feed.c only. */
	bool reading; /* the body is not at its end */
	bool ending;  /* the body is complete, and its end is to be passed on */
	bool over;    /* the taker has ended */
	bool failed;
	struct err why;
	uint64_t dropped;
};

/* Begin to read the body, at most max bytes. The functions above are set. */
void body_feed_start(struct body_feed *f, struct request *r, uint64_t max);
/* The taker has room. arg: the request. */
void body_feed_on_room(void *arg);
/* The taker has ended, well or not: once. */
void body_feed_over(struct request *r, const struct err *e);
/* End as a completion whose arg is the request. */
void body_feed_on_done(struct completion *c, const struct err *e);
