/* api_stream.c - the output of an execution as server-sent events. */
#include <stdio.h>

#include "api_handlers.h"
#include "base64.h"
#include "sse_stream.h"
#include "json.h"
#include "log_reader.h"
#include "reply.h"
#include "json_view.h"
#include "net_refusals.h"

#define EVENT_MAX (4U << 20) /* the exit event may hold the command */

struct stream {
	struct sse_stream feed; /* first, see sse_stream.c */
	struct log_reader reader;
};

static void release(struct request *r, bool answered)
{
	struct stream *s = r->state;

	(void)answered;
	sse_stream_release(&s->feed);
	log_reader_close(&s->reader);
}

static void write_bytes(struct json *j, const struct log_reader_item *item)
{
	char coded[BASE64_LENGTH(sizeof(item->bytes)) + 1];

	json_uint(j, "offset", item->offset);
	if (item->is_text) {
		json_bytes(j, "text", item->bytes, item->n);
		return;
	}
	base64_encode(item->bytes, item->n, coded);
	json_text(j, "base64", coded);
}

/* The event's name; NULL: the execution is gone from the store. */
static const char *write_item(struct stream *s, struct json *j, const struct log_reader_item *item)
{
	struct execution *x = log_reader_live(&s->reader);
	const char *name = "cut";
	struct err e;

	json_open(j, NULL, '{');
	switch (item->what) {
	case LOG_READER_START:
		name = "start";
		if (x != NULL && execution_pid(x) != 0)
			json_uint(j, "pid", execution_pid(x));
		else
			json_none(j, "pid");
		break;
	case LOG_READER_BYTES:
		name = item->stream == OUTPUT_RESULT   ? "result"
		       : item->stream == OUTPUT_STDERR ? "stderr"
						       : "stdout";
		write_bytes(j, item);
		break;
	case LOG_READER_EXIT:
		name = json_view_reader(j, "execution", &s->reader, net_refusals_write, &e) < 0
			       ? NULL
			       : "exit";
		break;
	case LOG_READER_CUT:
	case LOG_READER_NOTHING:
	case LOG_READER_END:
	case LOG_READER_FAILED:
		json_none(j, "stream"); /* the bound is for both together */
		json_bytes(j, "reason", item->bytes, item->n);
		break;
	}
	json_close(j, '}');
	return name;
}

static void send(struct stream *s, const struct log_reader_item *item)
{
	const char *name;
	char id[24];
	struct json j;

	json_init_heap(&j, EVENT_MAX);
	name = write_item(s, &j, item);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)item->after);
	if (name == NULL || !json_ok(&j)) {
		s->feed.ended = true;
		exchange_abort(s->feed.r->x);
	} else {
		sse_stream_event(&s->feed, name, id, j.text, j.len);
		log_reader_advance(&s->reader, item);
	}
	json_release(&j);
}

static void pump(struct request *r)
{
	struct stream *s = r->state;
	struct log_reader_item item;
	struct err e = { 0 };

	while (sse_stream_ready(&s->feed)) {
		log_reader_next(&s->reader, true, &item, &e);
		if (item.what == LOG_READER_NOTHING)
			return;
		if (item.what == LOG_READER_END) {
			sse_stream_end(&s->feed);
			return;
		}
		if (item.what == LOG_READER_FAILED) {
			s->feed.ended = true;
			exchange_abort(r->x);
			return;
		}
		send(s, &item);
	}
}

static void on_more(struct execution_follower *f)
{
	pump(f->arg);
}

static void open_stream(struct request *r, struct session *live)
{
	struct stream *s = request_state(r, sizeof(*s), release);
	struct err e = { 0 };
	uint64_t after;

	if (s == NULL)
		return;
	if (log_reader_after(r, &after, &e) < 0 ||
	    log_reader_open(&s->reader, r, live, after, on_more, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL && s->reader.x != NULL)
		request_hold(r, live);
	if (sse_stream_begin(&s->feed, r, pump))
		pump(r);
}

void api_stream_get(struct request *r)
{
	struct session *live = NULL;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || request_stream(r, &e) < 0)
		reply_error(r, &e);
	else if (live != NULL && execution_live(live, r->id) != NULL)
		request_use(r, open_stream); /* a paused session is resumed for a follower */
	else
		open_stream(r, live);
}
