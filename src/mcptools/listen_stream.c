#include "listen_stream.h"

#include "mcp_front.h"
#include "mcp_listen.h"
#include "reply.h"

#define MESSAGE_MAX (64U << 10)

static void on_room(struct request *r)
{
	(void)r; /* there is nothing to send */
}

static void on_drain(struct exchange *x)
{
	struct tool_call *c = tool_of(request_of(x));
	struct json j;

	json_init_heap(&j, MESSAGE_MAX);
	mcp_listen_write_end(&j, &c->server, &c->q);
	if (json_ok(&j) && sse_stream_ready(&c->stream))
		sse_stream_event(&c->stream, NULL, NULL, j.text, j.len);
	json_release(&j);
	sse_stream_end(&c->stream);
}

void listen_stream_start(struct tool_call *c)
{
	struct mcp_listen l = { 0 };
	struct mcp_fault f = { 0 };
	struct err e = { 0 };
	struct json j;

	if (mcp_listen_read(&l, &c->server, &c->q, &f) < 0) {
		mcp_front_refuse(c->r, &c->q, &f);
		return;
	}
	if (request_stream(c->r, &e) < 0) {
		mcp_listen_release(&l);
		reply_error(c->r, &e);
		return;
	}
	json_init_heap(&j, MESSAGE_MAX);
	mcp_listen_write_ack(&j, &l);
	mcp_listen_release(&l);
	exchange_on_drain(c->r->x, on_drain);
	if (sse_stream_begin(&c->stream, c->r, on_room) && json_ok(&j))
		sse_stream_event(&c->stream, NULL, NULL, j.text, j.len);
	json_release(&j);
}
