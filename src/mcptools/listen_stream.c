#include "listen_stream.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "event_log.h"
#include "fnv.h"
#include "mcp_front.h"
#include "mcp_listen.h"
#include "reply.h"

#define MESSAGE_MAX (64U << 10)
#define PAUSE_NS (1000 * CLOCK_MS)

struct listening {
	struct mcp_listen filter;
	struct event_log_listener listener;
	uint64_t sessions; /* a hash of their ids when the client was last notified */
	bool due;	   /* something may have changed since the last look */
};

static struct listening *own(const struct tool_call *c)
{
	return c->own;
}

static void release(struct tool_call *c)
{
	event_log_unlisten(&own(c)->listener);
	mcp_listen_release(&own(c)->filter);
}

/* ---- changes */

static void add_id(struct session *s, void *arg)
{
	const struct store_session *row = session_row(s);
	uint64_t *sum = arg;

	if (row->id[0] == '\0' || row->state >= SESSION_STOPPING)
		return;
	*sum += fnv_add(FNV_START, row->id, strlen(row->id));
}

static uint64_t sessions_of(const struct tool_call *c)
{
	uint64_t sum = 0;

	session_each(c->r->core, c->r->tenant, add_id, &sum);
	return sum;
}

static void tell(struct tool_call *c)
{
	struct listening *l = own(c);
	uint64_t now;
	struct json j;

	if (!l->due || !sse_stream_ready(&c->stream))
		return; /* on_room() follows */
	l->due = false;
	now = sessions_of(c);
	if (now == l->sessions)
		return;
	l->sessions = now;
	json_init_heap(&j, MESSAGE_MAX);
	if (mcp_listen_write_change(&j, &l->filter, MCP_RESOURCES_CHANGED) && json_ok(&j))
		sse_stream_event(&c->stream, NULL, NULL, j.text, j.len);
	json_release(&j);
}

static void on_pause_end(struct loop_timer *t)
{
	tell(t->arg);
}

static void on_events(struct event_log_listener *e)
{
	struct tool_call *c = e->arg;
	struct loop *l = core_loop(c->r->core);

	if (own(c)->due)
		return;
	own(c)->due = true;
	loop_timer_set(l, &c->tick, loop_now_ns(l) + PAUSE_NS);
}

static void on_room(struct request *r)
{
	struct tool_call *c = tool_of(r);

	if (c->own != NULL)
		tell(c);
}

/* ---- the stream */

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

static void begin(struct tool_call *c)
{
	struct listening *l = own(c);
	struct json j;

	(void)snprintf(l->listener.tenant, STORE_ID_MAX, "%s", tenant_row(c->r->tenant)->id);
	l->listener.on_events = on_events;
	l->listener.arg = c;
	l->sessions = sessions_of(c);
	c->tick.on_expire = on_pause_end;
	c->tick.arg = c;
	exchange_on_drain(c->r->x, on_drain);
	json_init_heap(&j, MESSAGE_MAX);
	mcp_listen_write_ack(&j, &l->filter);
	if (sse_stream_begin(&c->stream, c->r, on_room) && json_ok(&j))
		sse_stream_event(&c->stream, NULL, NULL, j.text, j.len);
	json_release(&j);
	if (l->filter.resources)
		event_log_listen(c->r->core, &l->listener);
}

void listen_stream_start(struct tool_call *c)
{
	static const struct tool stream = { .release = release };
	struct listening *l = calloc(1, sizeof(*l));
	struct mcp_fault f = { 0 };
	struct err e = { 0 };

	if (l == NULL) {
		exchange_reply(c->r->x, 500, NULL, "", 0);
		return;
	}
	if (mcp_listen_read(&l->filter, &c->server, &c->q, &f) < 0) {
		free(l);
		mcp_front_refuse(c->r, &c->q, &f);
	} else if (request_stream(c->r, &e) < 0) {
		mcp_listen_release(&l->filter);
		free(l);
		reply_error(c->r, &e);
	} else {
		c->own = l;
		c->tool = &stream;
		begin(c);
	}
}
