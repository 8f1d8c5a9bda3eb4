/* body_feed.c - see body_feed.h. */
#include "body_feed.h"

#define DROP_MAX (64U << 20)

static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct body_feed *f = r->state;

	if (!f->over)
		return f->put(r, data, len);
	f->dropped += len;
	if (f->dropped > DROP_MAX && f->reading) {
		f->reading = false;
		f->answer(r);
	}
	return len;
}

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
		f->answer(r);
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

void body_feed_room(struct body_feed *f, struct request *r)
{
	if (f->ending)
		f->ending = !f->end(r);
	else if (f->reading)
		exchange_resume_body(r->x);
}

void body_feed_over(struct body_feed *f, struct request *r)
{
	f->over = true;
	f->ending = false;
	if (f->reading)
		exchange_resume_body(r->x);
	else
		f->answer(r);
}
