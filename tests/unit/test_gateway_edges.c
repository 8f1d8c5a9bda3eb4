/* Goal: each bound of the configuration of mcp-gateway and of lists of tools is taken at its value,
 * and refused one beyond. */
#include "edge.h"

#include <stdarg.h>

#include "incell/mcpgateway/gateway_config.h"
#include "lib/mcp/client/peer.h"
#include "lib/mcp/client/tool_list.h"

static bool config(const char *text, size_t len, struct err *e)
{
	struct gateway_config c;
	int done = gateway_config_read(text, len, &c, e);

	gateway_config_release(&c);
	return done == 0;
}

#define SERVER "{\"a\":{\"command\":\"c\","

static void configurations(void)
{
	static const struct edge rows[] = {
		{ config, "{", "\"s%d\":{\"command\":\"c\"}", GATEWAY_SERVERS_MAX, "}",
		  "more than 32 servers" },
		{ config, "{\"a\":{\"command\":\"c\",\"x\":\"", "x", GATEWAY_CONFIG_MAX - 28,
		  "\"}}", "the configuration has more than 262144 bytes" },
		{ config, "{\"a\":{\"command\":\"", "c", 32U << 10, "\"}}", NULL },
		{ config, SERVER "\"installCmd\":\"", "c", 32U << 10, "\"}}", NULL },
		{ config, SERVER "\"envs\":{\"V\":\"", "v", (128U << 10) - 3, "\"}}}", NULL },
		{ config, SERVER "\"cwd\":\"/", "d", 4095, "\"}}", NULL },
		{ config, "{\"", "s", JOIN_SERVER_MAX, "\":{\"command\":\"c\"}}",
		  "its name must be 1 to 40" },
	};
	struct edge_text t = { 0 };

	edge_try(rows, COUNT(rows));
	for (unsigned more = 0; more < 2; more++) {
		t.len = 0;
		edge_put(&t, SERVER "\"x\":");
		edge_put_times(&t, "[", 14 + more);
		edge_put_times(&t, "]", 14 + more);
		edge_put(&t, "}}");
		edge_expect(config, &t, more > 0, NULL);
	}
	free(t.p);
}

/* A definition beyond the bound is left out. */
static bool tools(const char *text, size_t len, struct err *e)
{
	struct tool_list l = { 0 };
	struct json_value v;
	bool all;

	CHECK(json_read(text, len, 8, &v, e) == 0 && tool_list_add(&l, v, e) == 0);
	all = l.dropped == 0 && l.n > 0;
	tool_list_clear(&l);
	(void)err_set(e, ERR_INVALID, "left out");
	return all;
}

/* The schema of a tool that has none. */
#define SCHEMA (sizeof(",\"inputSchema\":{\"type\":\"object\"}") - 1)

static void definitions(void)
{
	static const struct edge rows[] = {
		{ tools, "[{\"name\":\"", "n", TOOL_NAME_MAX, "\"}]", NULL },
		{ tools, "[", "{\"name\":\"t%d\"}", TOOL_LIST_MAX, "]", NULL },
		{ tools, "[{\"name\":\"t\",\"description\":\"", "d",
		  TOOL_DEFINITION_MAX - 16 - SCHEMA, "\"}]", NULL },
	};
	struct edge_text t = { 0 };

	edge_try(rows, COUNT(rows));
	/* All definitions of a server: 16 of the most bytes, of which each has a NUL, and one
	 * of 16. */
	for (unsigned more = 0; more < 2; more++) {
		t.len = 0;
		edge_put(&t, "[");
		for (unsigned i = 0; i < TOOL_LIST_BYTES_MAX / TOOL_DEFINITION_MAX; i++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "%s{\"name\":\"t%u\",",
				       i == 0 ? "" : ",", i);
			edge_put(&t, name);
			edge_put(&t, "\"description\":\"");
			edge_put_times(&t, "d", TOOL_DEFINITION_MAX - 16 - SCHEMA);
			edge_put(&t, "\"}");
		}
		edge_put(&t, more > 0 ? ",{\"name\":\"u\"}]" : "]");
		edge_expect(tools, &t, more > 0, NULL);
	}
	free(t.p);
}

/* ---- what a server says, and what it is sent */

static unsigned failed, ended;
static enum peer_end last_end;

static void on_tools(struct peer *p)
{
}

static void on_failed(struct peer *p)
{
	failed++;
}

static void on_done(struct peer_call *c, const struct peer_answer *a)
{
	ended++;
	last_end = a->end;
}

static const struct peer_events events = { .on_tools = on_tools, .on_failed = on_failed };

__attribute__((format(printf, 2, 3))) static void say(struct peer *p, const char *format, ...)
{
	struct edge_text t = { 0 };
	static char line[PEER_CURSOR_MAX + 1024];
	va_list ap;

	va_start(ap, format);
	edge_put_bytes(&t, line, (size_t)vsnprintf(line, sizeof(line), format, ap));
	va_end(ap);
	peer_feed(p, t.p, t.len);
	free(t.p);
}

#define ID (unsigned long long)p->step_id

static void begin(struct peer *p)
{
	failed = ended = 0;
	peer_init(p, &events, NULL);
	p->name = "s";
	peer_begin(p);
	say(p,
	    "{\"id\":%llu,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{"
	    "\"tools\":{}},\"serverInfo\":{}}}\n",
	    ID);
	CHECK(p->state == PEER_LISTING);
}

static void make_ready(struct peer *p)
{
	begin(p);
	say(p, "{\"id\":%llu,\"result\":{\"tools\":[{\"name\":\"a\"}]}}\n", ID);
	CHECK(p->state == PEER_READY);
	buf_clear(&p->out);
}

/* A place in a list of tools that is longer than the bound is not asked for: the list ends. */
static void cursors(void)
{
	struct peer it, *p = &it;

	for (int more = 0; more < 2; more++) { /* with its quotes, and a NUL behind it */
		begin(p);
		buf_clear(&p->out);
		say(p, "{\"id\":%llu,\"result\":{\"tools\":[],\"nextCursor\":\"%0*d\"}}\n", ID,
		    PEER_CURSOR_MAX - 3 + more, 7);
		CHECK(p->state == (more > 0 ? PEER_READY : PEER_LISTING));
		CHECK((strstr(buf_text(&p->out), "007\"") != NULL) == (more == 0));
		peer_release(p);
	}
}

static int call(struct peer *p, struct peer_call *c, const char *arguments, struct err *e)
{
	struct json_value v;

	CHECK(json_read(arguments, strlen(arguments), 8, &v, e) == 0);
	*c = (struct peer_call){ .on_done = on_done };
	return peer_call(p, c, "a", v, 60000, e);
}

static void depth_of_messages(void)
{
	struct peer it, *p = &it;
	struct edge_text t = { 0 };
	struct peer_call c;
	struct err e;

	for (unsigned more = 0; more < 2; more++) {
		char head[64];

		make_ready(p);
		CHECK(call(p, &c, "{}", &e) == 0);
		t.len = 0;
		(void)snprintf(head, sizeof(head),
			       "{\"id\":%llu,\"result\":{\"a\":", (unsigned long long)c.id);
		edge_put(&t, head);
		edge_put_times(&t, "[", PEER_DEPTH_MAX - 2 + more);
		edge_put_times(&t, "]", PEER_DEPTH_MAX - 2 + more);
		edge_put(&t, "}}\n");
		ended = 0;
		peer_feed(p, t.p, t.len);
		CHECK(ended == 1 &&
		      (last_end == PEER_RESULT) == (more == 0)); /* ended all the same */
		peer_release(p);
	}
	free(t.p);
}

static void calls_at_a_time(void)
{
	static struct peer_call calls[PEER_CALLS_MAX + 1];
	struct peer it, *p = &it;
	struct err e;

	make_ready(p);
	for (unsigned i = 0; i < PEER_CALLS_MAX; i++)
		CHECK(call(p, &calls[i], "{}", &e) == 0);
	CHECK(call(p, &calls[PEER_CALLS_MAX], "{}", &e) < 0);
	CHECK_HAS("calls", e.msg, "128 calls under way");
	peer_cancel(&calls[0]);
	CHECK(call(p, &calls[0], "{}", &e) == 0 && ended == 0);
	for (unsigned i = 0; i < PEER_CALLS_MAX; i++)
		peer_cancel(&calls[i]);
	peer_release(p);
}

/* Bytes of a call as a line: those of its arguments, and the rest as it is found here. */
static void bytes_of_a_call(void)
{
	struct peer it, *p = &it;
	struct edge_text t = { 0 };
	struct peer_call c;
	struct err e;
	size_t rest;

	make_ready(p);
	CHECK(call(p, &c, "{\"x\":\"\"}", &e) == 0);
	rest = p->out.len - 1; /* without the end of the line */
	peer_cancel(&c);
	peer_release(p);
	for (size_t more = 0; more < 2; more++) {
		make_ready(p);
		t.len = 0;
		edge_put(&t, "{\"x\":\"");
		edge_put_times(&t, "x", (2U << 20) - 1 - rest + more);
		edge_put(&t, "\"}");
		CHECK((call(p, &c, t.p, &e) == 0) == (more == 0));
		if (more == 0)
			peer_cancel(&c);
		else
			CHECK_HAS("call", e.msg, "a message of more than 2097152 bytes");
		peer_release(p);
	}
	free(t.p);
}

TEST_MAIN({ "configurations", configurations }, { "definitions", definitions },
	  { "cursors", cursors }, { "depth of messages", depth_of_messages },
	  { "calls at a time", calls_at_a_time }, { "bytes of a call", bytes_of_a_call })
