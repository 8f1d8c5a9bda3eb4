/* process_connect.c - Connect: follows a process from now on. For one that ended a moment ago the
 * end is taken from its record. */
#include "e2b_private.h"
#include "process_event.h"
#include "process_feed.h"
#include "process_find.h"
#include "reply.h"

struct connect {
	struct process_feed feed; /* first, see rpc.h */
	struct process_selector which;
};

static void release(struct request *r, bool answered)
{
	struct connect *c = r->state;

	(void)answered;
	process_feed_release(&c->feed);
	process_selector_release(&c->which);
}

static void ignore_room(struct request *r)
{
	(void)r;
}

static void send_ended(struct request *r, uint32_t pid, const struct store_execution *row)
{
	struct connect *c = r->state;
	char start[PROCESS_EVENT_MAX], end[PROCESS_EVENT_MAX];
	struct json j;

	c->feed.fd = -1;
	rpc_stream_begin(&c->feed.stream, r, PROCESS_EVENT_KEEPALIVE, ignore_room, NULL);
	json_init(&j, start, sizeof(start));
	process_event_start(&j, pid);
	rpc_stream_send(&c->feed.stream, j.text, j.len);
	json_init(&j, end, sizeof(end));
	process_event_end(&j, row);
	if (rpc_stream_ready(&c->feed.stream)) /* the first bytes of an answer always fit */
		rpc_stream_send(&c->feed.stream, j.text, j.len);
	rpc_stream_end(&c->feed.stream, RPC_OK, NULL);
}

static void connect_to_ended(struct request *r, struct session *s)
{
	const struct connect *c = r->state;
	const char *id = c->which.tag != NULL ? NULL : execution_past_by_pid(s, c->which.pid);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	if (id == NULL || execution_get(r->core, r->session_id, id, &row, &e) < 0) {
		process_find_fail(r, &c->which);
		return;
	}
	send_ended(r, c->which.pid, &row);
	store_execution_release(&row);
}

static void on_session(struct request *r, struct session *s)
{
	struct connect *c = r->state;
	struct execution *x = process_find(s, &c->which);

	if (x == NULL)
		connect_to_ended(r, s);
	else
		process_feed_begin(&c->feed, r, s, x, false);
}

static void on_message(struct request *r, json_t *message)
{
	struct connect *c = request_state(r, sizeof(*c), release);
	struct err e = { 0 };
	uint64_t ms;

	if (c == NULL)
		return;
	if (process_selector_read(message, &c->which, &e) < 0 || rpc_timeout(r, &ms, &e) < 0)
		process_find_refuse(r, &e);
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void process_connect(struct request *r)
{
	rpc_read_stream(r, on_message);
}
