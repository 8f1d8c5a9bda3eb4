/* Goal: a line of stdio is read in the era that it or the process is of; Origin and Host decide as
 * written; frames hold one message each. HTTP is tested with a real server, in tests/mcp. */
#include "lib/mcp/server/mcp_request.h"

#include "lib/mcp/server/mcp_write.h"
#include "support.h"

static const struct mcp_server server = { .name = "n", .version = "1", .tools_by_caller = true };

#define META                                                          \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"     \
	"\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities" \
	"\":{\"elicitation\":{\"url\":{}},\"sampling\":{}}}"

/* Reads a line; the fault's code, or 0. */
static int read_line(struct mcp_request *r, bool *legacy, const char *line)
{
	struct mcp_fault f = { 0 };

	return mcp_request_read_line(r, legacy, line, strlen(line), &f) == 0 ? 0 : f.code;
}

static void a_process_is_of_one_era(void)
{
	static const char modern[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META "}}";
	static const char plain[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
	static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
	static const char initialize[] =
		"{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"2025-03-26\",\"capabilities\":{},\"clientInfo\":{"
		"\"name\":\"c\",\"version\":\"2\"}}}";
	struct mcp_request r;
	bool legacy = false;

	CHECK(read_line(&r, &legacy, modern) == 0 && r.era == MCP_MODERN && !legacy);
	CHECK(mcp_client_has(&r, "sampling", NULL) && mcp_client_has(&r, "elicitation", "url"));
	CHECK(!mcp_client_has(&r, "elicitation", "form") && !mcp_client_has(&r, "roots", NULL));
	mcp_request_release(&r);
	CHECK(read_line(&r, &legacy, plain) == MCP_INVALID_PARAMS);
	mcp_request_release(&r);
	CHECK(read_line(&r, &legacy, ping) == 0 && r.era == MCP_LEGACY && !legacy);
	mcp_request_release(&r);
	CHECK(read_line(&r, &legacy, initialize) == 0 && r.era == MCP_LEGACY && legacy);
	CHECK_STR(r.version, "2025-03-26");
	CHECK(json_span_is(r.id, "\"i\"") && json_span_is(r.client_name, "c"));
	mcp_request_release(&r);
	CHECK(read_line(&r, &legacy, plain) == 0 && r.era == MCP_LEGACY);
	mcp_request_release(&r);
	CHECK(read_line(&r, &legacy, modern) == 0 && r.era == MCP_MODERN && legacy);
	mcp_request_release(&r);
}

static void members_are_found(void)
{
	static const char line[] =
		"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u00e9\",\"method\":\"tools/call\",\"params\":{"
		"\"name\":\"r\\u0075n\",\"arguments\":{\"x\":1},\"inputResponses\":{\"k\":{}},"
		"\"requestState\":\"s\",\"_meta\":{"
		"\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
		"\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":9,"
		"\"io.modelcontextprotocol/logLevel\":\"warning\",\"traceparent\":\"00-1-2-01\","
		"\"tracestate\":\"a=b\",\"baggage\":\"c=d\"}}}";
	struct mcp_request r;
	bool legacy = false;
	char text[256];
	struct json j;

	CHECK(read_line(&r, &legacy, line) == 0 && r.method == MCP_TOOLS_CALL);
	CHECK(json_span_is(r.name, "run") && json_span_is(r.id, "\"a\\u00e9\""));
	CHECK(json_span_is(r.progress_token, "9") && r.log_level == MCP_WARNING);
	CHECK(json_span_is(r.traceparent, "00-1-2-01") && json_span_is(r.tracestate, "a=b"));
	CHECK(json_span_is(r.baggage, "c=d") && json_span_is(r.request_state, "s"));
	CHECK(r.input_responses->size == 1 && r.arguments->size == 1);
	json_init(&j, text, sizeof(text));
	CHECK(!mcp_write_message(&j, &r, MCP_INFO, NULL, "\"x\"", MCP_DEBUG));
	CHECK_STR(text, "");
	CHECK(mcp_write_message(&j, &r, MCP_ERROR, "l", "\"x\"", MCP_DEBUG));
	CHECK_STR(text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{"
			"\"level\":\"error\",\"logger\":\"l\",\"data\":\"x\"}}");
	json_init(&j, text, sizeof(text));
	CHECK(mcp_write_progress(&j, &r, 1.5, -1, NULL));
	CHECK_STR(text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
			"\"progressToken\":9,\"progress\":1.5}}");
	mcp_request_release(&r);
}

/* What an answer to this Accept may be. */
/* As many values as other bodies of requests, and not one more. */
static void values_are_counted(void)
{
	struct buf line = BUF_INIT(1U << 20);

	for (unsigned more = 0; more < 2; more++) {
		/* The object, four members, its params with one: eight with the list. */
		unsigned n = MCP_VALUES_MAX - 6 + more;
		struct mcp_request r;
		bool legacy = true;

		buf_clear(&line);
		buf_put_text(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{"
				    "\"x\":[0");
		for (unsigned i = 1; i < n; i++)
			buf_put_text(&line, ",0");
		buf_put_text(&line, "]}}");
		CHECK((read_line(&r, &legacy, buf_text(&line)) == 0) == (more == 0));
		mcp_request_release(&r);
	}
	buf_release(&line);
}

static void the_answer_fits_accept(void)
{
	static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
	static const struct {
		const char *accept;
		bool json, sse;
	} rows[] = {
		{ "application/json, text/event-stream", true, true },
		{ "text/event-stream,application/json", true, true },
		{ "text/event-stream;q=0.9 , application/json ; q=1", true, true },
		{ "application/json", true, false },
		{ "TEXT/Event-Stream", false, true },
		{ "*/*", true, true },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct http1_header headers[] = {
			{ { "Content-Type", 12 }, { "application/json", 16 } },
			{ { "Accept", 6 }, { rows[i].accept, strlen(rows[i].accept) } },
		};
		struct mcp_http h = { HTTP1_POST, headers, COUNT(headers) };
		struct mcp_request r;
		struct mcp_fault f;

		CHECK(mcp_request_read_http(&r, &h, body, sizeof(body) - 1, &f) == 0);
		CHECK(r.accepts_json == rows[i].json && r.accepts_sse == rows[i].sse);
		mcp_request_release(&r);
	}
}

/* A server that declares nothing has no method for it. */
static void what_is_not_declared_is_not_there(void)
{
	static const char *const methods[] = { "resources/list", "resources/read", "prompts/list",
					       "completion/complete", "subscriptions/listen" };
	struct mcp_request r;
	struct mcp_fault f;
	bool legacy = false;
	char line[512], text[1024];
	struct json j;

	for (size_t i = 0; i < COUNT(methods); i++) {
		(void)snprintf(line, sizeof(line),
			       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{"
			       "\"uri\":\"a://b\"," META "}}",
			       methods[i]);
		CHECK(read_line(&r, &legacy, line) == 0);
		json_init(&j, text, sizeof(text));
		CHECK(mcp_server_answer(&server, &r, &j, &f) == MCP_REFUSED);
		CHECK(f.code == MCP_METHOD_NOT_FOUND && f.status == 404);
		mcp_request_release(&r);
	}
}

static void origins_are_judged(void)
{
	static const char *const ours[] = { "cordon.example", "api.example:8443", NULL };
	static const struct {
		const char *origin, *host;
		bool loopback, open; /* the verdict of a server on loopback, and of another */
	} rows[] = {
		{ NULL, "localhost:3000", true, true },
		{ NULL, "cordon.example", true, true },
		{ NULL, "other.example", false, true },
		{ "http://localhost:1", "localhost:3000", true, true },
		{ "https://cordon.example", "localhost", true, true },
		{ "https://cordon.example", "other.example", false, true },
		{ "https://cordon.example:9", "10.0.0.1:80", false, true },
		{ "https://api.example:8443", "api.example:8443", true, true },
		{ "https://api.example", "cordon.example", false, false },
		{ "https://other.example", "other.example", false, true },
		{ "https://OTHER.example", "other.EXAMPLE", false, true },
		{ "https://evil.example", "other.example", false, false },
		{ "http://localhost", "other.example", false, false },
		{ "null", "localhost", false, false },
		{ "", "localhost", false, false },
		{ "http://localhost.", "localhost", false, false },
		{ "http://cordon.example.evil.example", "localhost", false, false },
		{ "http://[::1]:4", "[::1]:4", true, true },
		{ "http://[::1].evil.example", "localhost", false, false },
		{ NULL, "[::1]evil.example", false, true },
		{ NULL, "localhost:80x", false, true },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct http1_span host = { rows[i].host, strlen(rows[i].host) }, origin = { 0 };

		if (rows[i].origin != NULL)
			origin = (struct http1_span){ rows[i].origin, strlen(rows[i].origin) };
		CHECK(mcp_origin_allowed(origin, host, ours, true) == rows[i].loopback);
		CHECK(mcp_origin_allowed(origin, host, ours, false) == rows[i].open);
	}
}

static void a_frame_holds_one_message(void)
{
	struct buf b = BUF_INIT(1000);
	struct err e;

	CHECK(mcp_frame_line(&b, "{}", 2, &e) == 0 && mcp_frame_event(&b, "[]", 2, &e) == 0);
	CHECK_STR(buf_text(&b), "{}\nevent: message\ndata: []\n\n");
	CHECK(mcp_frame_line(&b, "{\n}", 3, &e) < 0 && mcp_frame_event(&b, "{\r}", 3, &e) < 0);
	buf_release(&b);
}

TEST_MAIN({ "a_process_is_of_one_era", a_process_is_of_one_era },
	  { "values_are_counted", values_are_counted }, { "members_are_found", members_are_found },
	  { "the_answer_fits_accept", the_answer_fits_accept },
	  { "what_is_not_declared_is_not_there", what_is_not_declared_is_not_there },
	  { "origins_are_judged", origins_are_judged },
	  { "a_frame_holds_one_message", a_frame_holds_one_message })
