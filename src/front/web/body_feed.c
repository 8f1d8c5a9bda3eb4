#include "front/web/body_feed.h"

/* Bytes that are dropped after a failure before the answer is sent in any case. */
#define DROP_MAX (64U << 20)

/* Called once: when both ends are there, or after DROP_MAX. */
static void body_feed_answer(struct body_feed *f, struct request *r)
{
	f->answer(r, f->failed ? &f->why : NULL);
}

/* After the taker's end the body is dropped. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct body_feed *f = r->state;

	if (!f->over)
		return f->put(r, data, len);
	f->dropped += len;
	if (f->dropped > DROP_MAX && f->reading) {
		f->reading = false;
		body_feed_answer(f, r);
	}
	return len;
}

/* ok false: the body did not come whole. */
static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct body_feed *f = r->state;

	if (!f->reading)
		return; /* answered */
	f->reading = false;
	if (!ok) {
		f->cut(r);
	} else if (f->over) {
		body_feed_answer(f, r);
	} else {
		f->ending = true;
		f->ending = !f->end(r);
	}
}

void body_feed_start(struct body_feed *f, struct request *r, uint64_t max)
{
	f->reading = true;
	exchange_read_body(r->x, max, on_data, on_end);
}

/* The end may need room, too. */
void body_feed_on_room(void *arg)
{
	struct request *r = arg;
	struct body_feed *f = r->state;

	if (f->ending)
		f->ending = !f->end(r);
	else if (f->reading)
		exchange_resume_body(r->x);
}

/* The answer waits for the body's end. */
void body_feed_over(struct request *r, const struct err *e)
{
	struct body_feed *f = r->state;

	f->failed = e != NULL;
	if (e != NULL)
		f->why = *e;
	f->over = true;
	f->ending = false;
	if (f->reading)
		exchange_resume_body(r->x);
	else
		body_feed_answer(f, r);
}

void body_feed_on_done(struct completion *c, const struct err *e)
{
	body_feed_over(c->arg, e);
}
