/* fixture.c - the server, its streams, and its open calls.
 *
 *	fixture ADDRESS [HOST]...
 *
 * HOST: names that it is called by, besides those of loopback. Prints the address it listens on.
 *GET /quit ends it; it then frees everything. */
#include "fixture.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/rand.h"
#include "daemon/secrets/seal.h"

#define KEEPALIVE_MS 15000
#define ANSWER_MAX ((size_t)1 << 20)

static struct loop *the_loop;
static struct server *http_server;
static struct seal *keys;
static struct call *calls;
static size_t open_calls;
static const char *const *own_names; /* NULL-terminated */

bool fixture_changed;

static bool tool_visible(const struct mcp_tool *t, void *arg)
{
	return fixture_changed || strcmp(t->name, "test_added_tool") != 0;
}

/* Lengths are set in main(): they belong to tables of other files. */
struct mcp_server the_server = {
	.name = "cordon-fixture",
	.version = "1.0.0",
	.instructions = "Tools for the conformance suite.",
	.tools = fixture_tools,
	.tool_visible = tool_visible,
	.tools_changed = true,
	.has_resources = true,
	.resources_changed = true,
	.resources_subscribe = true,
	.resources = fixture_resources,
	.templates = fixture_templates,
	.has_prompts = true,
	.prompts_changed = true,
	.has_completions = true,
	.has_logging = true,
	.tools_ttl_ms = 1000,
};

static int on_close(void *arg, const char *about, const void *value, size_t len, uint8_t **ret,
		    size_t *ret_len, struct err *e)
{
	return seal_close(keys, about, value, len, ret, ret_len, e);
}

static int on_open(void *arg, const char *about, const void *box, size_t len, uint8_t **ret,
		   size_t *ret_len, struct err *e)
{
	char *value;

	if (seal_open(keys, about, box, len, &value, ret_len, e) < 0)
		return -1;
	*ret = (uint8_t *)value;
	return 0;
}

const struct mcp_sealer the_sealer = { .close = on_close, .open = on_open };

/* ---- answers */

static void begin_stream(struct call *call)
{
	if (call->stream)
		return;
	call->stream = true;
	exchange_header(call->x, "X-Accel-Buffering", "no");
	exchange_header(call->x, "Cache-Control", "no-cache");
	exchange_begin(call->x, 200, "text/event-stream", EXCHANGE_CHUNKED);
}

/* Messages of the fixture are short: the buffer of a connection has room for all of them. */
static void write_all(struct call *call, const void *bytes, size_t n)
{
	size_t taken = exchange_write(call->x, bytes, n);

	assert(taken == n);
}

static void send_event(struct call *call, struct json *j)
{
	struct buf b = BUF_INIT(2 * ANSWER_MAX);
	struct err e;

	assert(json_ok(j));
	if (mcp_frame_event(&b, j->text, j->len, &e) < 0)
		assert(!"an event");
	write_all(call, b.data, b.len);
	buf_release(&b);
	json_release(j);
}

void call_send(struct call *call, struct json *j)
{
	begin_stream(call);
	send_event(call, j);
}

void call_finish(struct call *call, struct json *j)
{
	if (call->stream) {
		send_event(call, j);
		exchange_end(call->x);
		return;
	}
	assert(json_ok(j));
	exchange_reply(call->x, 200, "application/json", j->text, j->len);
	json_release(j);
}

void call_refuse(struct call *call, const struct mcp_fault *f)
{
	struct json j;

	if (f->code == 0) {
		if (f->status == 405)
			exchange_header(call->x, "Allow", "POST");
		exchange_reply(call->x, f->status, NULL, NULL, 0);
		return;
	}
	json_init_heap(&j, ANSWER_MAX);
	mcp_write_error(&j, &call->r, f);
	if (call->stream) {
		call_finish(call, &j);
		return;
	}
	exchange_reply(call->x, mcp_fault_status(&call->r, f), "application/json", j.text, j.len);
	json_release(&j);
}

void finish_text(struct call *call, const char *text)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	mcp_write_result(&j, &the_server, &call->r);
	json_open(&j, "content", '[');
	mcp_write_text(&j, text, strlen(text), false);
	json_close(&j, ']');
	mcp_write_result_end(&j);
	call_finish(call, &j);
}

/* ---- what takes time */

static void on_timer(struct loop_timer *t)
{
	struct call *call = t->arg;

	call->step++;
	call->on_step(call);
}

void call_step_after(struct call *call, unsigned ms, void (*on_step)(struct call *call))
{
	call->on_step = on_step;
	loop_timer_set(the_loop, &call->timer, loop_now_ns(the_loop) + ms * CLOCK_MS);
}

void call_ask(struct call *call, const char *method, const char *params,
	      void (*on_answer)(struct call *call, const struct mcp_request *answer))
{
	uint8_t random[16];
	struct json j;

	rand_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), call->question);
	call->on_answer = on_answer;
	json_init_heap(&j, ANSWER_MAX);
	mcp_write_request(&j, call->question, method, params);
	call_send(call, &j);
}

/* The response of a legacy client, in a POST of its own. */
static void take_response(struct call *call)
{
	struct call *asked = NULL;

	for (struct call *c = calls; c != NULL; c = c->next) {
		size_t n = strlen(c->question);

		if (n > 0 && call->r.id.n == n + 2 && memcmp(call->r.id.p + 1, c->question, n) == 0)
			asked = c;
	}
	if (asked != NULL) {
		asked->question[0] = '\0';
		asked->on_answer(asked, &call->r);
	}
	exchange_reply(call->x, asked == NULL ? 404 : 202, NULL, NULL, 0);
}

/* ---- subscriptions/listen */

static void on_keepalive(struct call *call)
{
	write_all(call, MCP_KEEPALIVE, sizeof(MCP_KEEPALIVE) - 1);
	call_step_after(call, KEEPALIVE_MS, on_keepalive);
}

static void listen_to(struct call *call)
{
	struct mcp_fault f;
	struct json j;

	if (mcp_listen_read(&call->listen, &the_server, &call->r, &f) < 0) {
		call_refuse(call, &f);
		return;
	}
	call->listening = true;
	json_init_heap(&j, ANSWER_MAX);
	mcp_listen_write_ack(&j, &call->listen);
	call_send(call, &j);
	call_step_after(call, KEEPALIVE_MS, on_keepalive);
}

void announce(enum mcp_change what)
{
	for (struct call *c = calls; c != NULL; c = c->next) {
		struct json j;

		if (!c->listening)
			continue;
		json_init_heap(&j, ANSWER_MAX);
		if (mcp_listen_write_change(&j, &c->listen, what))
			call_send(c, &j);
		else
			json_release(&j);
	}
}

/* ---- requests */

static void do_yours(struct call *call)
{
	static void (*const handlers[MCP_METHODS])(struct call * call) = {
		[MCP_TOOLS_CALL] = tools_call,	   [MCP_RESOURCES_READ] = resources_read,
		[MCP_PROMPTS_LIST] = prompts_list, [MCP_PROMPTS_GET] = prompts_get,
		[MCP_COMPLETE] = complete,	   [MCP_LISTEN] = listen_to,
	};
	struct json j;

	if (call->r.kind == MCP_RESPONSE) {
		take_response(call);
	} else if (call->r.kind == MCP_NOTIFICATION) {
		exchange_reply(call->x, 202, NULL, NULL, 0);
	} else if (handlers[call->r.method] != NULL) {
		handlers[call->r.method](call);
	} else { /* resources/subscribe and unsubscribe */
		json_init_heap(&j, ANSWER_MAX);
		mcp_write_empty(&j, &the_server, &call->r);
		call_finish(call, &j);
	}
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	const struct http1_request *q = exchange_request(x);
	struct call *call = exchange_arg(x);
	struct mcp_http h = { q->method, q->headers, q->headers_n };
	struct mcp_fault f;
	struct json j;

	if (mcp_request_read_http(&call->r, &h, (const char *)body, len, &f) < 0) {
		call_refuse(call, &f);
		return;
	}
	json_init_heap(&j, ANSWER_MAX);
	switch (mcp_server_answer(&the_server, &call->r, &j, &f)) {
	case MCP_ANSWERED:
		call_finish(call, &j);
		return;
	case MCP_ACCEPTED:
		exchange_reply(x, 202, NULL, NULL, 0);
		break;
	case MCP_REFUSED:
		call_refuse(call, &f);
		break;
	case MCP_FOR_CALLER:
	default:
		do_yours(call);
		break;
	}
	json_release(&j);
}

static void on_done(struct exchange *x, bool answered)
{
	struct call *call = exchange_arg(x);

	loop_timer_cancel(the_loop, &call->timer);
	LIST_REMOVE(call);
	mcp_request_release(&call->r);
	mcp_listen_release(&call->listen);
	free(call);
	open_calls--;
}

static bool origin_ok(const struct http1_request *q)
{
	struct http1_span origin;

	return http1_find(q->headers, q->headers_n, "origin", &origin) <= 1 &&
	       mcp_origin_allowed(origin, q->host, own_names, true);
}

static void on_request(struct exchange *x, void *arg)
{
	const struct http1_request *q = exchange_request(x);
	struct call *call;

	if (http1_span_is(q->path, "/quit")) {
		exchange_reply(x, 200, NULL, NULL, 0);
		loop_stop(the_loop);
		return;
	}
	if (!origin_ok(q)) {
		exchange_reply(x, 403, NULL, NULL, 0);
		return;
	}
	if (!http1_span_is(q->path, "/mcp")) {
		exchange_reply(x, 404, NULL, NULL, 0);
		return;
	}
	call = calloc(1, sizeof(*call));
	assert(call != NULL);
	call->x = x;
	call->timer = (struct loop_timer){ .on_expire = on_timer, .arg = call };
	LIST_PUSH(&calls, call);
	open_calls++;
	exchange_set_arg(x, call);
	exchange_on_done(x, on_done);
	exchange_read_all(x, MCP_BODY_MAX, on_body);
}

/* ---- start */

static int make_keys(struct err *e)
{
	char line[SEAL_LINE_MAX];

	seal_make_line("k1", line);
	return seal_read(line, strlen(line), &keys, e);
}

static int serve(const char *where, struct err *e)
{
	struct server_options o = { .head_max = 16384,
				    .connections_max = 1000,
				    .head_ms = 10000,
				    .idle_ms = 60000,
				    .body_ms = 10000,
				    .write_ms = 10000,
				    .on_request = on_request };
	char text[ADDR_TEXT_MAX];
	struct addr address;
	int fd;

	if (addr_parse(where, &address, e) < 0 || make_keys(e) < 0)
		return -1;
	the_loop = loop_new(e);
	http_server = the_loop == NULL ? NULL : server_new(the_loop, &o, e);
	fd = addr_listen(&address, 0600, e);
	if (http_server == NULL || fd < 0 || addr_of_socket(fd, &address, e) < 0 ||
	    server_listen(http_server, fd, e) < 0)
		return -1;
	addr_format(&address, text, sizeof(text));
	(void)printf("%s\n", text);
	(void)fflush(stdout);
	if (loop_run(the_loop, e) < 0)
		return -1;
	server_free(http_server);
	loop_free(the_loop);
	seal_free(keys);
	assert(open_calls == 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	the_server.tools_n = fixture_tools_n;
	the_server.resources_n = fixture_resources_n;
	the_server.templates_n = fixture_templates_n;
	if (argc > 1)
		own_names = (const char *const *)argv + 2;
	if (argc < 2 || serve(argv[1], &e) < 0) {
		(void)fprintf(stderr, "fixture: %s\n", argc > 1 ? e.msg : "an address is missing");
		return 1;
	}
	return 0;
}
