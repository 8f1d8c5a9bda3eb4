/* volume_file.c - files of a volume, read and written by /volumecontent/{volume}/file. Bytes are
 * passed on between the client and cordon-storage in bounded pieces, as fast as the slower of the
 * two. */
#include "body_feed.h"
#include "config.h"
#include "e2b_private.h"
#include "reply.h"
#include "volume_access.h"

#define ENTRY_JSON_MAX (64U << 10)

/* ---- out */

struct reading {
	struct content_call call;
	bool begun, sized; /* sized: there are bytes, so the answer has begun */
	uint64_t left;
};

static void release_reading(struct request *r, bool answered)
{
	struct reading *g = r->state;

	(void)answered;
	content_call_cancel(&g->call);
}

static int on_read_entry(struct content_call *c, const struct content_entry *entry, struct err *e)
{
	(void)c;
	(void)entry;
	(void)e;
	return 0;
}

static void on_data_begins(struct content_call *c, uint64_t len)
{
	const struct request *r = c->arg;
	struct reading *g = r->state;

	g->begun = true;
	g->left = len;
	g->sized = len > 0;
	if (g->sized)
		exchange_begin(r->x, 200, "application/octet-stream", len);
}

static size_t on_data(struct content_call *c, const uint8_t *data, size_t len)
{
	const struct request *r = c->arg;
	struct reading *g = r->state;
	size_t n = exchange_write(r->x, data, len);

	g->left -= n;
	return n;
}

static void on_writable(struct exchange *x)
{
	struct reading *g = request_of(x)->state;

	content_call_resume(&g->call);
}

static void on_read_end(struct content_call *c, const struct err *e)
{
	struct request *r = c->arg;
	const struct reading *g = r->state;

	if (!g->begun && e != NULL)
		volume_access_fail(r, STORAGE_CONTENT_READ, e);
	else if (!g->begun || g->left > 0)
		exchange_abort(r->x);
	else if (g->sized)
		exchange_end(r->x);
	else /* an empty file */
		exchange_reply(r->x, 200, "application/octet-stream", "", 0);
}

void volume_file_read(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_read_entry,
							   .on_data_begins = on_data_begins,
							   .on_data = on_data,
							   .on_end = on_read_end };
	struct storage_content s = { .what = STORAGE_CONTENT_READ, .depth = 1 };
	struct store_volume v;
	struct reading *g;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return;
	g = request_state(r, sizeof(*g), release_reading);
	if (g == NULL)
		return;
	g->call.arg = r;
	exchange_on_writable(r->x, on_writable);
	if (volume_access_params(r, &s, &e) < 0 ||
	    content_call_start(&g->call, r->core, &v, &s, &events, &e) < 0)
		reply_error(r, &e);
}

/* ---- in */

struct writing {
	struct body_feed body; /* first */
	struct content_call call;
	struct json j;
};

static void release_writing(struct request *r, bool answered)
{
	struct writing *w = r->state;

	(void)answered;
	content_call_cancel(&w->call);
	json_release(&w->j);
}

static void answer(struct request *r, const struct err *e)
{
	struct writing *w = r->state;

	if (e != NULL)
		volume_access_fail(r, STORAGE_CONTENT_WRITE, e);
	else
		reply_json(r, 201, &w->j);
}

static int on_written_entry(struct content_call *c, const struct content_entry *entry,
			    struct err *e)
{
	const struct request *r = c->arg;
	struct writing *w = r->state;

	(void)e;
	volume_access_shape(&w->j, entry);
	return 0;
}

static void on_room(struct content_call *c)
{
	body_feed_on_room(c->arg);
}

static void on_written(struct content_call *c, const struct err *e)
{
	body_feed_over(c->arg, e);
}

static size_t put(struct request *r, const uint8_t *data, size_t len)
{
	struct writing *w = r->state;

	return content_call_input(&w->call, data, len);
}

static bool end(struct request *r)
{
	struct writing *w = r->state;

	return content_call_end_input(&w->call);
}

static void cut(struct request *r)
{
	struct writing *w = r->state;

	content_call_cancel(&w->call);
}

void volume_file_write(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_written_entry,
							   .on_room = on_room,
							   .on_end = on_written };
	uint64_t max = core_config(r->core)->file_max;
	struct storage_content s = { .what = STORAGE_CONTENT_WRITE, .depth = 1, .bytes_max = max };
	struct store_volume v;
	struct writing *w;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return;
	w = request_state(r, sizeof(*w), release_writing);
	if (w == NULL)
		return;
	w->body = (struct body_feed){ .put = put, .end = end, .cut = cut, .answer = answer };
	json_init_heap(&w->j, ENTRY_JSON_MAX);
	w->call.arg = r;
	if (volume_access_params(r, &s, &e) < 0 ||
	    content_call_start(&w->call, r->core, &v, &s, &events, &e) < 0)
		reply_error(r, &e);
	else
		body_feed_start(&w->body, r, max);
}
