#include "front/mcptools/tool.h"

#include <string.h>

#include "daemon/store/store_execution.h"
#include "front/mcptools/resources.h"
#include "front/web/auth.h"
#include "front/web/reply.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/session_id.h"
#include "lib/base/shown_text.h"
#include "lib/base/str.h"
#include "lib/mcp/server/mcp_write.h"

/* ---- calls in progress
 *
 * All calls of the process, for cancellations that come by another request. */

static struct tool_call *calls;

void open_calls_add(struct tool_call *c)
{
	LIST_PUSH(&calls, c);
}

void open_calls_remove(struct tool_call *c)
{
	if (c->link != NULL)
		LIST_REMOVE(c);
}

/* All four must be equal, so that no client ends the calls of another one. */
static bool is_same_client(const struct tool_call *a, const struct tool_call *b)
{
	return a->r->tenant == b->r->tenant &&
	       strcmp(a->r->grant.key_id, b->r->grant.key_id) == 0 &&
	       strcmp(a->client, b->client) == 0 &&
	       memcmp(exchange_address(a->r->x), exchange_address(b->r->x), 16) == 0;
}

/* Two calls that fit: neither is cancelled. */
void open_calls_cancel(const struct tool_call *from)
{
	const struct json_node *id = json_tree_get(from->q.params, "requestId");
	struct tool_call *found = NULL;

	if (id == NULL)
		return;
	for (struct tool_call *c = calls; c != NULL; c = c->next) {
		if (c->done || c->q.id.n != id->raw.n ||
		    memcmp(c->q.id.p, id->raw.p, id->raw.n) != 0 || !is_same_client(c, from))
			continue;
		if (found != NULL)
			return;
		found = c;
	}
	if (found != NULL)
		tool_cancel(found);
}

/* ---- calls */

#define TICK_NS (1000 * CLOCK_MS)
#define STREAM_AFTER \
	5 /* seconds after which any answer becomes a stream: proxies drop silent ones */

struct tool_call *tool_of(const struct request *r)
{
	return r->state;
}

/* ---- answering
 *
 * A call is answered once (done). tool_done(), tool_failed() and tool_cancel() do nothing after
 * that. */

/* Complete parts go out as soon as there is room. */
static void on_room(struct request *r)
{
	struct tool_call *c = tool_of(r);

	if (!c->done || !sse_out_ready(&c->stream))
		return;
	exchange_unreserve(c->r->x, c->held + c->counted);
	c->held = c->counted = 0;
	if (c->answer.len > 0)
		sse_out_event(&c->stream, NULL, NULL, c->answer.text, c->answer.len);
	json_release(&c->answer); /* the stream has a copy */
	sse_out_end(&c->stream);
}

/* In a stream the answer waits until the client has read all before it: until then it is counted
 * for the tenant here, and then by the stream. The count of a file, whose bytes are freed, passes
 * to it. */
static void count_answer(struct tool_call *c)
{
	size_t more = c->answer.len > c->held ? c->answer.len - c->held : 0;

	if (!json_ok(&c->answer) || more == 0)
		return;
	if (exchange_reserve(c->r->x, more)) {
		c->counted = more;
		return;
	}
	json_release(&c->answer);
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_tool_error(&c->answer, &c->server, &c->q,
			     "There is no room for the result beside other answers that wait to be "
			     "read (tenant_bodies_max). Read them, and call fewer tools at once.");
}

/* The answer is the whole message, in c->answer. */
void tool_send(struct tool_call *c)
{
	loop_timer_cancel(core_loop(c->r->core), &c->tick);
	c->done = true;
	/* A client may take its time to read: only the answer stays in memory until then. */
	json_release(&c->out);
	json_release(&c->content);
	buf_release(&c->plain);
	if (c->streams) {
		count_answer(c);
		on_room(c->r);
		return;
	}
	if (json_ok(&c->answer))
		exchange_reply(c->r->x, c->status == 0 ? 200 : c->status, "application/json",
			       c->answer.text, c->answer.len);
	else
		exchange_reply(c->r->x, 500, NULL, "", 0);
	json_release(&c->answer); /* the exchange has a copy, and counts it */
}

/* An answer that did not fit is replaced by one that says so. */
static void check_size(struct tool_call *c)
{
	if (json_ok(&c->answer) && json_ok(&c->out) && json_ok(&c->content))
		return;
	json_release(&c->answer);
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_tool_error(&c->answer, &c->server, &c->q,
			     "The result is too large. Ask for less of it at a time.");
}

/* Without any content block the structured result is also the text. */
void tool_done(struct tool_call *c)
{
	if (c->done)
		return; /* cancelled in between */
	json_close(&c->out, '}');
	if (c->resource) {
		resources_done(c);
		return;
	}
	if (c->content.text == NULL || c->content.len <= 1)
		tool_text(c, c->out.text, c->out.len);
	json_close(&c->content, ']');
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_result(&c->answer, &c->server, &c->q);
	json_raw_bytes(&c->answer, "content", c->content.text, c->content.len);
	json_raw_bytes(&c->answer, "structuredContent", c->out.text, c->out.len);
	json_bool(&c->answer, "isError", false);
	mcp_write_result_end(&c->answer);
	check_size(c);
	tool_send(c);
}

/* A model reads the text and may correct the call. */
void tool_failed(struct tool_call *c, const char *text)
{
	if (c->done)
		return;
	json_release(&c->answer);
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_tool_error(&c->answer, &c->server, &c->q, text);
	tool_send(c);
}

/* A client that cancels expects no answer, so it is an empty one. */
void tool_cancel(struct tool_call *c)
{
	if (c->done)
		return;
	c->cancelled = true;
	json_release(&c->answer);
	c->done = true;
	loop_timer_cancel(core_loop(c->r->core), &c->tick);
	if (c->streams)
		on_room(c->r);
	else
		exchange_reply(c->r->x, 202, NULL, "", 0);
}

/* ---- time
 *
 * The tick counts the seconds of a call and turns a slow answer into a stream. */

/* Progress must rise, so the same number is not sent twice. */
static void send_progress(struct tool_call *c)
{
	struct buf message = BUF_INIT(TOOL_PROGRESS_TEXT * SHOWN_TEXT_GROWTH);
	uint64_t done = c->seconds;
	struct json j;

	if (c->tool->progress == NULL || !c->tool->progress(c, &done, &message) ||
	    done <= c->shown_done || !sse_out_ready(&c->stream)) {
		buf_release(&message);
		return;
	}
	json_init_heap(&j, 2 * TOOL_PROGRESS_TEXT * SHOWN_TEXT_GROWTH + 1024);
	if (mcp_write_progress(&j, &c->q, (double)done, -1,
			       message.len == 0 ? NULL : buf_text(&message)) &&
	    json_ok(&j)) {
		c->shown_done = done;
		sse_out_event(&c->stream, NULL, NULL, j.text, j.len);
	}
	json_release(&j);
	buf_release(&message);
}

/* Once a second until the answer. A client that asked for progress gets a stream at once. */
static void on_tick(struct loop_timer *t)
{
	struct tool_call *c = t->arg;
	struct loop *l = core_loop(c->r->core);
	bool asked = c->q.progress_token.p != NULL;

	c->seconds++;
	loop_timer_set(l, t, loop_now_ns(l) + TICK_NS);
	if (!c->streams && c->q.accepts_sse && (asked || c->seconds >= STREAM_AFTER))
		c->streams = sse_out_begin(&c->stream, c->r, on_room);
	if (c->streams && asked)
		send_progress(c);
}

/* Tools without drain() get the server's own answer. */
static void on_drain(struct exchange *x)
{
	struct tool_call *c = tool_of(request_of(x));

	if (!c->done)
		c->tool->drain(c);
}

/* The state is zeroed. t->start() answers now or later. */
void tool_start(struct tool_call *c, const struct tool *t)
{
	struct loop *l = core_loop(c->r->core);

	c->tool = t;
	c->own = calloc(1, t->own_size + 1);
	if (c->own == NULL) {
		tool_failed(c, "The server is out of memory. Try again later.");
		return;
	}
	c->tick.on_expire = on_tick;
	c->tick.arg = c;
	loop_timer_set(l, &c->tick, loop_now_ns(l) + TICK_NS);
	if (t->drain != NULL)
		exchange_on_drain(c->r->x, on_drain);
	open_calls_add(c);
	t->start(c);
}

void tool_release(struct tool_call *c, bool answered)
{
	/* In the modern era a gone client has cancelled the call. */
	bool gone = c->cancelled || (!answered && c->q.era == MCP_MODERN);

	open_calls_remove(c);
	loop_timer_cancel(core_loop(c->r->core), &c->tick);
	sse_out_release(&c->stream);
	if (gone && c->own != NULL && c->tool->cancel != NULL)
		c->tool->cancel(c);
	if (c->own != NULL && c->tool->release != NULL)
		c->tool->release(c);
	free(c->own);
	json_release(&c->out);
	json_release(&c->content);
	json_release(&c->answer);
	buf_release(&c->plain);
	json_tree_release(&c->made_tree);
	mcp_request_release(&c->q);
}

/* ---- arguments
 *
 * They fit the tool's schema already. */

int tool_arg_text(const struct tool_call *c, const char *name, char *ret, size_t cap, struct err *e)
{
	struct json_span text = json_tree_get_text(c->q.arguments, name);

	ret[0] = '\0';
	if (text.p == NULL)
		return 0;
	if (text.n >= cap || memchr(text.p, '\0', text.n) != NULL)
		return err_set(e, ERR_INVALID, "%s: is too long, or has a NUL", name);
	memcpy(ret, text.p, text.n);
	ret[text.n] = '\0';
	return 0;
}

/* The schema has the bounds. */
uint64_t tool_arg_number(const struct tool_call *c, const char *name, uint64_t otherwise)
{
	int64_t n;

	if (!json_tree_int(json_tree_get(c->q.arguments, name), &n) || n < 0)
		return otherwise;
	return (uint64_t)n;
}

bool tool_arg_bool(const struct tool_call *c, const char *name)
{
	return json_tree_get_bool(c->q.arguments, name, false);
}

/* One text for sessions of another tenant and missing ones, so that ids cannot be probed. */
static void no_session(struct tool_call *c)
{
	struct err e;

	IGNORED(err_set(&e, ERR_NOT_FOUND, "no such session: this is not an id"), "answered");
	reply_error(c->r, &e);
}

/* auth_may_use_session() answers if the key has too small a scope. */
bool tool_take_session(struct tool_call *c)
{
	struct json_span id = json_tree_get_text(c->q.arguments, "session_id");

	if (id.p != NULL && session_id_read(id.p, id.n, c->r->session_id))
		return auth_may_use_session(c->r);
	c->r->session_id[0] = '\0';
	no_session(c);
	return false;
}

/* An execution of another tenant is as one that does not exist. */
bool tool_take_execution(struct tool_call *c)
{
	struct request *r = c->r;
	struct store_execution row = { 0 };
	struct err e = { 0 };
	bool own = false;

	if (tool_arg_text(c, "execution_id", r->id, STORE_ID_MAX, &e) == 0 &&
	    store_execution_get(core_store(r->core), r->id, &row, &e) == 0) {
		own = strcmp(row.tenant, tenant_row(r->tenant)->id) == 0;
		str_copy(r->session_id, row.session);
		store_execution_release(&row);
	} else if (e.code != ERR_NOT_FOUND && e.code != ERR_INVALID) {
		reply_error(r, &e);
		return false;
	}
	if (own)
		return auth_may_use_session(r);
	r->session_id[0] = '\0';
	IGNORED(err_set(&e, ERR_NOT_FOUND, "no execution of this id"), "answered");
	reply_error(r, &e);
	return false;
}

/* ---- results
 *
 * Text from a cell is shown by tool_shown*(). It is covered and its control characters are made
 * visible. */

void tool_open(struct tool_call *c)
{
	json_release(&c->out);
	json_release(&c->content);
	json_init_heap(&c->out, TOOL_RESULT_MAX / 2);
	json_open(&c->out, NULL, '{');
	json_init_heap(&c->content, TOOL_RESULT_MAX / 2);
	json_open(&c->content, NULL, '[');
}

void tool_shown_stored(struct json *j, const char *name, const char *text)
{
	size_t n = strlen(text);
	struct buf shown = BUF_INIT(n * SHOWN_TEXT_GROWTH + 1);

	shown_text(&shown, (const uint8_t *)text, n);
	json_bytes(j, name, buf_text(&shown), shown.len);
	buf_release(&shown);
}

void tool_shown_in(const struct tool_call *c, struct json *j, const char *name, const char *text)
{
	const struct session *s = session_find(c->r->core, c->r->session_id);
	OWN_MEM char *copy = strdup(text);

	if (copy == NULL) {
		j->full = true;
		return;
	}
	if (s != NULL)
		session_redact(s, copy);
	else
		memset(copy, '*', strlen(copy));
	tool_shown_stored(j, name, copy);
}

void tool_shown(struct tool_call *c, const char *name, const char *text)
{
	tool_shown_in(c, &c->out, name, text);
}

void tool_text(struct tool_call *c, const void *text, size_t n)
{
	if (c->resource) {
		buf_init(&c->plain, TOOL_RESULT_MAX / 2);
		buf_put(&c->plain, text, n);
	} else {
		mcp_write_text(&c->content, text, n, true);
	}
}

/* The block is for the model. */
static void tool_audience(struct json *j)
{
	json_open(j, "annotations", '{');
	json_open(j, "audience", '[');
	json_text(j, NULL, "assistant");
	json_close(j, ']');
	json_close(j, '}');
}

void tool_image(struct tool_call *c, const char *type, const void *bytes, size_t n)
{
	OWN_MEM char *coded = malloc(BASE64_LENGTH(n) + 1);

	if (coded == NULL) {
		c->content.full = true;
		return;
	}
	base64_encode(bytes, n, coded);
	json_open(&c->content, NULL, '{');
	json_text(&c->content, "type", "image");
	json_text(&c->content, "data", coded);
	json_text(&c->content, "mimeType", type);
	tool_audience(&c->content);
	json_close(&c->content, '}');
}

void tool_link(struct tool_call *c, const char *uri, const char *name, const char *type)
{
	json_open(&c->content, NULL, '{');
	json_text(&c->content, "type", "resource_link");
	json_text(&c->content, "uri", uri);
	json_text(&c->content, "name", name);
	if (type != NULL)
		json_text(&c->content, "mimeType", type);
	tool_audience(&c->content);
	json_close(&c->content, '}');
}
