#include "endpoint_call.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define CALL_MS 600000
#define STREAM_NS (3000 * CLOCK_MS) /* an answer that takes longer becomes a stream */
#define LOOK_NS (50 * CLOCK_MS)	    /* between looks at a server that is starting */
#define LOOKS_MAX 1200		    /* 60 s, as when the session is made */

static void on_done(struct peer_call *p, const struct peer_answer *a)
{
	struct call *c = p->arg;
	struct json_value type = json_read_member(a->result, "resultType");

	if (a->end == PEER_RESULT && type.kind == JSON_READ_TEXT && !json_read_is(type, "complete"))
		endpoint_error(c, "server %s asks for input, which is not passed on", c->server);
	else if (a->end == PEER_RESULT)
		endpoint_result(c, a->result);
	else if (a->end == PEER_ERROR)
		endpoint_error(c, "server %s refuses the call: %s", c->server, a->message);
	else
		endpoint_error(c, "server %s: %s", c->server, a->message);
}

static void on_progress(struct peer_call *p, struct json_value params)
{
	struct call *c = p->arg;
	struct json_value n = json_read_member(params, "progress");
	struct json_value total = json_read_member(params, "total");
	struct json j;

	if (!c->q.accepts_sse || n.kind != JSON_READ_NUMBER)
		return;
	if (!c->streams)
		c->streams = sse_stream_begin(&c->stream, c->r, endpoint_on_room);
	if (!c->streams || !sse_stream_ready(&c->stream))
		return; /* the client reads more slowly than the server reports */
	json_init_heap(&j, 1024);
	if (mcp_write_progress(&j, &c->q, strtod(n.p, NULL),
			       total.kind == JSON_READ_NUMBER ? strtod(total.p, NULL) : -1, NULL) &&
	    json_ok(&j))
		sse_stream_event(&c->stream, NULL, NULL, j.text, j.len);
	json_release(&j);
}

static void on_timer(struct loop_timer *t)
{
	struct call *c = t->arg;

	if (!c->done && !c->streams && c->q.accepts_sse)
		c->streams = sse_stream_begin(&c->stream, c->r, endpoint_on_room);
}

/* The server, and where the name of the tool begins; NULL: there is none. */
struct server_link *endpoint_server(struct call *c, const char **ret_tool)
{
	size_t server, tool;

	if (!join_split(c->q.name.p, c->q.name.n, &server, &tool))
		return NULL;
	*ret_tool = c->record.tool + tool;
	return servers_find(c->r->core, c->r->session_id, c->q.name.p, server);
}

static bool may_call(struct call *c, const struct server_link *k, const char *tool)
{
	c->record.allowed = tool_policy_allows(&k->spec.policy, tool, c->record.rule);
	if (c->record.allowed && k->spec.strict && tool_pins_changed(&k->pins, tool)) {
		c->record.allowed = false;
		(void)snprintf(c->record.rule, sizeof(c->record.rule), "pin strict");
	}
	return c->record.allowed;
}

static void send_call(struct call *c, struct server_link *k, const char *tool)
{
	struct json_value arguments = { .kind = JSON_READ_NONE };
	struct err e;

	if (c->q.arguments != NULL)
		arguments = (struct json_value){ JSON_READ_OBJECT, c->q.arguments->raw.p,
						 c->q.arguments->raw.n };
	c->peer = (struct peer_call){ .on_done = on_done, .arg = c };
	if (c->q.progress_token.p != NULL)
		c->peer.on_progress = on_progress;
	if (peer_call(&k->peer, &c->peer, tool, arguments, CALL_MS, &e) < 0) {
		endpoint_error(c, "%s", k->failure[0] == '\0' ? e.msg : k->failure);
		return;
	}
	server_link_flush(k);
}

static void refuse(struct call *c)
{
	endpoint_error(c, "The tool is refused by the policy of this session (%s).",
		       c->record.rule);
}

static void send_when_ready(struct call *c);

static void on_look(struct loop_timer *t)
{
	send_when_ready(t->arg);
}

/* The session runs. After a pause without memory, or if its programs were killed, its server is
 * only being started. Its tools may then be others than those that were judged: so the call is
 * judged again, and with `pin: strict` not before they are listed. */
static void send_when_ready(struct call *c)
{
	struct loop *l = core_loop(c->r->core);
	const char *tool;
	struct server_link *k = endpoint_server(c, &tool);
	bool unlisted = k != NULL && k->spec.strict && k->peer.state == PEER_LISTING;

	if (k == NULL) {
		endpoint_error(c, "server %s: its session has ended", c->server);
	} else if ((unlisted || server_link_is_starting(k)) && c->looks++ < LOOKS_MAX) {
		c->look = (struct loop_timer){ .on_expire = on_look, .arg = c };
		loop_timer_set(l, &c->look, loop_now_ns(l) + LOOK_NS);
	} else if (unlisted) {
		endpoint_error(c, "server %s: it does not list its tools", c->server);
	} else if (!may_call(c, k, tool)) {
		refuse(c);
	} else {
		send_call(c, k, tool);
	}
}

static void on_usable(struct completion *w, const struct err *e)
{
	struct call *c = w->arg;

	if (e != NULL)
		endpoint_error(c, "server %s: %s", c->server, e->msg);
	else
		send_when_ready(c);
}

void endpoint_cancel(struct call *c)
{
	struct server_link *k = c->peer.peer == NULL ? NULL : c->peer.peer->arg;

	loop_timer_cancel(core_loop(c->r->core), &c->timer);
	loop_timer_cancel(core_loop(c->r->core), &c->look);
	completion_cancel(&c->use);
	endpoint_result_release(c);
	if (k != NULL) {
		peer_cancel(&c->peer);
		server_link_flush(k);
	}
}

/* cordond ends: the call is over, in the words of the protocol. */
static void on_drain(struct exchange *x)
{
	struct call *c = request_of(x)->state;

	if (c->done)
		return;
	endpoint_cancel(c);
	endpoint_error(c, "The server is being restarted: it is not known whether the tool ran.");
}

/* The session of the server is resumed if it was paused. */
static void begin_call(struct call *c, struct server_link *k)
{
	struct loop *l = core_loop(c->r->core);

	c->timer = (struct loop_timer){ .on_expire = on_timer, .arg = c };
	loop_timer_set(l, &c->timer, loop_now_ns(l) + STREAM_NS);
	c->use = (struct completion){ .on_done = on_usable, .arg = c };
	exchange_on_drain(c->r->x, on_drain);
	if (session_use(k->session, request_actor(c->r), &c->use))
		send_when_ready(c);
}

/* Headers that repeat arguments. */
static int check_headers(const struct call *c, const struct tool *t, struct mcp_fault *f)
{
	const struct http1_request *h = exchange_request(c->r->x);
	const struct mcp_http http = { h->method, h->headers, h->headers_n };
	struct buf text = BUF_INIT(TOOL_DEFINITION_MAX + 2);
	struct json_value schema = tool_schema(t, &text);
	int checked = 0;

	if (schema.kind == JSON_READ_OBJECT)
		checked = mcp_check_param_headers((struct json_span){ schema.p, schema.n }, &http,
						  &c->q, f);
	buf_release(&text);
	return checked;
}

void endpoint_call_tool(struct call *c)
{
	const struct tool *found = NULL;
	struct mcp_fault f = { 0 };
	struct server_link *k;
	const char *tool = "";

	call_record_begin(&c->record, &c->q);
	c->counts = true;
	k = endpoint_server(c, &tool);
	if (k != NULL) {
		(void)snprintf(c->server, sizeof(c->server), "%s", k->spec.name);
		(void)snprintf(c->record.server, sizeof(c->record.server), "%s", k->spec.name);
		found = tool_list_find(&k->peer.tools, tool, strlen(tool));
	}
	if (k != NULL && !may_call(c, k, tool)) {
		refuse(c);
	} else if (found == NULL) {
		(void)snprintf(c->record.rule, sizeof(c->record.rule), "no such tool");
		IGNORED(mcp_fault_set(&f, MCP_INVALID_PARAMS, "unknown tool"), "sent");
		endpoint_fault(c, &f);
	} else if (check_headers(c, found, &f) < 0) {
		endpoint_fault(c, &f);
	} else {
		begin_call(c, k);
	}
}
