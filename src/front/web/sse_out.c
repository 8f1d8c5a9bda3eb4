#include "front/web/sse_out.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/units.h"
#include "lib/http/sse.h"

#define KEEPALIVE_NS (15000 * CLOCK_MS)
#define EVENT_OVERHEAD 256 /* names and ids of events are short */

/* A comment, which clients ignore. None is sent while an event waits for room. */
static uint64_t sse_out_keepalive(struct paced_stream *p, uint64_t now_ns)
{
	static const char comment[] = ":\n\n";

	if (p->pending == NULL && exchange_room(p->r->x) >= sizeof(comment))
		(void)exchange_write(p->r->x, comment, sizeof(comment) - 1);
	return now_ns + KEEPALIVE_NS;
}

bool sse_out_begin(struct sse_out *f, struct request *r, void (*on_room)(struct request *r))
{
	f->paced.on_room = on_room;
	f->paced.counts = true;
	f->paced.on_keepalive = sse_out_keepalive;
	return paced_stream_begin(&f->paced, r, "text/event-stream", KEEPALIVE_NS);
}

bool sse_out_ready(struct sse_out *f)
{
	return paced_stream_ready(&f->paced);
}

/* An event that cannot be made drops the stream, as it would have a gap. */
void sse_out_event(struct sse_out *f, const char *event, const char *id, const char *data,
		   size_t len)
{
	size_t cap = len + EVENT_OVERHEAD;
	char *text = malloc(cap);
	int n = text == NULL ? -1 : sse_event(text, cap, event, id, data, len);

	if (n < 0) {
		free(text);
		text = NULL;
	}
	(void)paced_stream_put(&f->paced, text, n < 0 ? 0 : (size_t)n);
}

void sse_out_end(struct sse_out *f)
{
	paced_stream_end(&f->paced);
}

void sse_out_release(struct sse_out *f)
{
	paced_stream_release(&f->paced);
}

/* False: there is none, or it is not a number. */
bool sse_out_last_id(struct request *r, uint64_t *ret)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;
	char text[24];
	struct err e;

	if (http1_find(q->headers, q->headers_n, "last-event-id", &value) != 1 || value.n == 0 ||
	    value.n >= sizeof(text))
		return false;
	memcpy(text, value.p, value.n);
	text[value.n] = '\0';
	return units_count(text, 0, INT64_MAX, ret, &e) == 0;
}
