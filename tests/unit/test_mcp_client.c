/* Goal: the side of a client writes what the side of a server reads, in both eras, and reads what
 * it answers. */
#include "mcp_client.h"

#include "mcp_write.h"
#include "support.h"

static const struct mcp_tool tools[] = {
	{ .name = "add", .description = "adds", .input_schema = "{}" }
};
static const struct mcp_server server = {
	.name = "n", .version = "1", .tools = tools, .tools_n = 1
};

/* Gives the message to a server, and its answer to ret. Returns the fault's code, or 0. */
static int serve(const struct json *message, bool *legacy, struct json *ret)
{
	struct mcp_request r;
	struct mcp_fault f = { 0 };
	int code = 0;

	CHECK(json_ok(message));
	if (mcp_request_read_line(&r, legacy, message->text, message->len, &f) < 0 ||
	    mcp_server_answer(&server, &r, ret, &f) == MCP_REFUSED) {
		mcp_write_error(ret, &r, &f);
		code = f.code;
	}
	mcp_request_release(&r);
	return code;
}

static char sent[4096], got[4096];

/* One round trip; m must be released. */
static int ask(struct json *message, bool *legacy, struct mcp_incoming *m)
{
	struct json answer;
	struct err e;
	int code;

	json_init(&answer, got, sizeof(got));
	code = serve(message, legacy, &answer);
	CHECK(mcp_incoming_read(m, got, answer.len, &json_tree_default, &e) == 0);
	CHECK(m->id == 7);
	return code;
}

static void both_eras_are_spoken(void)
{
	struct mcp_client c = { .name = "gate", .program_version = "2" };
	struct mcp_incoming m;
	bool legacy = false;
	struct json j;
	struct err e;

	for (int era = MCP_MODERN; era <= MCP_LEGACY; era++) {
		json_init(&j, sent, sizeof(sent));
		if (era == MCP_MODERN)
			mcp_client_discover(&j, &c, 7);
		else
			mcp_client_initialize(&j, &c, 7);
		CHECK(ask(&j, &legacy, &m) == 0 && m.kind == MCP_IN_RESULT);
		CHECK((era == MCP_MODERN ? mcp_client_take_discover(&c, &m, &e)
					 : mcp_client_take_initialize(&c, &m, &e)) == 0);
		CHECK((int)c.era == era && legacy == (era == MCP_LEGACY));
		CHECK(json_span_is(m.result_type, "complete"));
		mcp_incoming_release(&m);
		json_init(&j, sent, sizeof(sent));
		mcp_client_list(&j, &c, 7, "tools/list", (struct json_span){ "cur", 3 });
		CHECK(ask(&j, &legacy, &m) == 0);
		CHECK(json_tree_get_kind(m.result, "tools", JSON_TREE_ARRAY)->size == 1);
		mcp_incoming_release(&m);
		json_init(&j, sent, sizeof(sent));
		mcp_client_request(&j, &c, 7, "no/such", "{\"a\":1}");
		CHECK(ask(&j, &legacy, &m) == MCP_METHOD_NOT_FOUND && m.kind == MCP_IN_ERROR);
		CHECK(m.error_code == MCP_METHOD_NOT_FOUND && m.error_message.p != NULL);
		mcp_incoming_release(&m);
	}
	json_init(&j, sent, sizeof(sent)); /* a server that knows initialize only */
	mcp_client_discover(&j, &c, 7);
	CHECK(strstr(sent, MCP_META "clientCapabilities") != NULL);
}

static void a_call_carries_its_arguments(void)
{
	struct mcp_client c = { .name = "gate", .program_version = "2" };
	static const char text[] = "{\"a\" : [ 1,\n2 ]}", more[] = "{\"requestState\":\"s\"}";
	struct json_tree arguments, extra;
	struct mcp_request r;
	struct mcp_fault f;
	bool legacy = false;
	struct json j;
	struct err e;

	CHECK(json_tree_read(&arguments, text, sizeof(text) - 1, &json_tree_default, &e) == 0);
	CHECK(json_tree_read(&extra, more, sizeof(more) - 1, &json_tree_default, &e) == 0);
	json_init(&j, sent, sizeof(sent));
	mcp_client_call(&j, &c, 9, (struct json_span){ "add", 3 }, json_tree_root(&arguments),
			json_tree_root(&extra), true);
	CHECK(memchr(sent, '\n', j.len) == NULL);
	CHECK(mcp_request_read_line(&r, &legacy, sent, j.len, &f) == 0);
	CHECK(json_span_is(r.name, "add") && json_span_is(r.arguments->raw, "{\"a\":[1,2]}"));
	CHECK(json_span_is(r.request_state, "s") && json_span_is(r.progress_token, "9"));
	mcp_request_release(&r);
	json_tree_release(&arguments);
	json_tree_release(&extra);
}

static void messages_of_servers_are_told_apart(void)
{
	static const struct {
		const char *text;
		int kind; /* -1: refused */
		uint64_t id, progress;
	} rows[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}", MCP_IN_RESULT, 3, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"3\",\"result\":{}}", MCP_IN_RESULT, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":-3,\"result\":{}}", MCP_IN_RESULT, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{}}", MCP_IN_ERROR, 3, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1}}", MCP_IN_ERROR, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", MCP_IN_REQUEST, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
		  "\"progressToken\":5}}",
		  MCP_IN_NOTIFICATION, 0, 5 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{},\"error\":{}}", -1, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":[]}", -1, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3}", -1, 0, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"id\":4,\"result\":{}}", -1, 0, 0 },
		{ "{\"id\":3,\"result\":{}}", -1, 0, 0 },
		{ "[]", -1, 0, 0 },
		{ "Server started on stdio", -1, 0, 0 },
	};
	struct mcp_incoming m;
	struct err e;

	for (size_t i = 0; i < COUNT(rows); i++) {
		int result = mcp_incoming_read(&m, rows[i].text, strlen(rows[i].text),
					       &json_tree_default, &e);

		CHECK((result < 0) == (rows[i].kind < 0));
		if (result < 0)
			continue;
		CHECK((int)m.kind == rows[i].kind && m.id == rows[i].id);
		CHECK(m.progress_id == rows[i].progress);
		mcp_incoming_release(&m);
	}
}

TEST_MAIN({ "both_eras_are_spoken", both_eras_are_spoken },
	  { "a_call_carries_its_arguments", a_call_carries_its_arguments },
	  { "messages_of_servers_are_told_apart", messages_of_servers_are_told_apart })
