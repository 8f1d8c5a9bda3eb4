/* filesystem_watch.c - WatchDir: changes below a directory as a stream of messages, at the client's
 * pace. A rename is two messages, of which the second may have to wait for room here. */
#include "e2b_private.h"
#include "dir_watch.h"
#include "reply.h"

#define EVENT_MAX (64U << 10)
#define START "{\"start\":{}}"
#define KEEPALIVE "{\"keepalive\":{}}"

struct watching {
	struct rpc_stream stream; /* first, see rpc.h */
	struct dir_watch watch;
	struct json second; /* waits for room, if it has any text */
	bool over;	    /* the watch has ended */
	enum rpc_code code; /* then: how it ends */
	const char *why;
};

static void release(struct request *r, bool answered)
{
	struct watching *g = r->state;

	(void)answered;
	rpc_stream_release(&g->stream);
	dir_watch_release(&g->watch);
	json_release(&g->second);
}

static struct watching *of(struct dir_watch *w)
{
	return w->call.r->state;
}

/* Sends what waits. True: there is room for more. */
static bool flush(struct watching *g)
{
	if (!rpc_stream_ready(&g->stream))
		return false;
	if (g->second.text == NULL)
		return true;
	rpc_stream_send(&g->stream, g->second.text, g->second.len);
	json_release(&g->second);
	g->second.text = NULL;
	return rpc_stream_ready(&g->stream);
}

static void end(struct watching *g, enum rpc_code code, const char *why)
{
	(void)flush(g);
	g->over = true;
	g->code = code;
	g->why = why;
	if (g->second.text == NULL)
		rpc_stream_end(&g->stream, code, why);
}

static void on_more(struct request *r)
{
	struct watching *g = r->state;

	(void)flush(g);
	if (g->over)
		end(g, g->code, g->why);
	else
		file_call_resume(&g->watch.call);
}

static void on_deadline(struct request *r)
{
	struct watching *g = r->state;

	rpc_stream_end(&g->stream, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
}

static void on_ready(struct dir_watch *w)
{
	struct watching *g = of(w);

	rpc_stream_begin(&g->stream, w->call.r, KEEPALIVE, on_more, on_deadline);
	rpc_stream_send(&g->stream, START, sizeof(START) - 1);
}

static bool has_room(struct dir_watch *w)
{
	struct watching *g = of(w);

	return g->stream.ended || flush(g);
}

static void on_event(struct dir_watch *w, const char *type, const char *name,
		     const struct file_msg_entry *entry)
{
	struct watching *g = of(w);
	struct json j;

	if (g->stream.ended)
		return;
	json_init_heap(&j, EVENT_MAX);
	json_open(&j, NULL, '{');
	dir_watch_shape(&j, "filesystem", type, name, entry);
	json_close(&j, '}');
	if (!json_ok(&j)) { /* out of memory: the stream must not continue with a gap */
		json_release(&j);
		rpc_stream_drop(&g->stream);
		return;
	}
	if (!flush(g)) {
		g->second = j;
		return;
	}
	rpc_stream_send(&g->stream, j.text, j.len);
	json_release(&j);
}

static void on_over(struct dir_watch *w, enum rpc_code code, const char *why)
{
	end(of(w), code, why);
}

static void on_failure(struct dir_watch *w, const struct err *e)
{
	struct watching *g = of(w);

	if (!g->stream.begun)
		dir_watch_fail(w, w->call.r, e);
	else if (cell_file_is_gone(e) && !g->stream.ended)
		rpc_stream_drop(&g->stream);
	else
		rpc_stream_end(&g->stream, RPC_INTERNAL, e->msg);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct dir_watch_events events = { .on_ready = on_ready,
							.has_room = has_room,
							.on_event = on_event,
							.on_end = on_over,
							.on_failure = on_failure };
	struct watching *g = r->state;
	struct err e = { 0 };

	request_hold(r, s);
	if (dir_watch_start(&g->watch, r, s, &events, &e) < 0)
		dir_watch_fail(&g->watch, r, &e);
}

static void on_message(struct request *r, json_t *message)
{
	struct watching *g = request_state(r, sizeof(*g), release);
	struct err e = { 0 };
	uint64_t ms;

	if (g == NULL)
		return;
	if (dir_watch_read(&g->watch, r, message, &e) < 0 || rpc_timeout(r, &ms, &e) < 0)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void filesystem_watch_dir(struct request *r)
{
	rpc_read_stream(r, on_message);
}
