/* Goal: each bound of what E2B's clients, clients of MCP and heads of HTTP send is taken at its
 * value, and refused one beyond. */
#include <jansson.h>

#include "edge.h"
#include "front/e2b/base/rpc_message.h"
#include "front/e2b/control/destination.h"
#include "front/e2b/control/network_policy.h"
#include "front/e2b/control/sandbox_filter.h"
#include "front/e2b/control/sandbox_spec.h"
#include "front/e2b/envd/multipart.h"
#include "front/e2b/envd/process_spec.h"
#include "front/mcpservers/server_spec.h"
#include "front/mcpservers/tool_policy.h"
#include "lib/http/byte_range.h"
#include "lib/json/json_tree.h"
#include "lib/mcp/client/join.h"
#include "lib/mcp/server/mcp_request.h"

/* ---- E2B */

static bool sandbox(const char *text, size_t len, struct err *e)
{
	struct sandbox_spec s;
	int done = sandbox_spec_read(text, len, SANDBOX_SPEC_V2, &s, e);

	sandbox_spec_release(&s);
	return done == 0;
}

static bool message(const char *text, size_t len, struct err *e)
{
	json_t *m = rpc_parse(text, len, e);

	json_decref(m);
	return m != NULL;
}

static bool process(const char *text, size_t len, struct err *e)
{
	json_t *m = rpc_parse(text, len, e);
	struct process_spec s;
	int done;

	CHECK(m != NULL);
	done = process_spec_read(m, &s, e);
	process_spec_release(&s);
	json_decref(m);
	return done == 0;
}

/* A parameter of a query ends in NUL, also in memory of just its size. */
static bool filter(const char *text, size_t len, struct err *e)
{
	char *ended = strndup(text, len);
	struct sandbox_filter f;
	int done;

	CHECK(ended != NULL);
	done = sandbox_filter_read(ended, &f, e);
	sandbox_filter_release(&f);
	free(ended);
	return done == 0;
}

#define X63 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define BASE "{\"templateID\":\"base\","
#define NETWORK BASE "\"network\":{"
#define DENIES "\"denyOut\":[\"0.0.0.0/0\"],"
#define HEADERS NETWORK "\"rules\":{\"a.example\":[{\"transform\":{\"headers\":{"
#define PROXY NETWORK "\"egressProxy\":{"

static void sandboxes(void)
{
	static const struct edge rows[] = {
		{ sandbox, "{\"templateID\":\"", "t", 256, "\"}",
		  "templateID: is too long: at most 256 bytes" },
		{ sandbox, BASE "\"envVars\":{", "\"V%d\":\"x\"", 256, "}}",
		  "envVars: has too many members: at most 256" },
		{ sandbox, BASE "\"envVars\":{\"V\":\"", "v", (256U << 10) - 3, "\"}}",
		  "envVars: is too large: at most 262144 bytes" },
		{ sandbox, BASE "\"metadata\":{", "\"m%d\":\"x\"", 64, "}}",
		  "metadata: has too many members: at most 64" },
		{ sandbox, BASE "\"metadata\":{\"m\":\"", "v", 16384 - 8, "\"}}",
		  "metadata: is too large: at most 16384 bytes" },
		{ sandbox, BASE "\"volumeMounts\":[", "{}", 64, "]}",
		  "volumeMounts: has too many elements: at most 64" },
		{ sandbox, NETWORK "\"denyOut\":[", "\"10.0.0.1\"", 512, "]}}",
		  "network.denyOut: has too many elements: at most 512" },
		{ sandbox, NETWORK "\"httpsPorts\":[", "%d", 128, "]}}",
		  "network.httpsPorts: has too many elements: at most 128" },
		{ sandbox, NETWORK "\"rules\":{", "\"h%d.example\":[]", 10, "}}}",
		  "network.rules: has too many members: at most 10" },
		{ sandbox, HEADERS, "\"H%d\":\"v\"", 20, "}}}]}}}", "at most 20 valid headers" },
		{ sandbox, HEADERS "\"", "h", 64, "\":\"v\"}}}]}}}", "valid headers" },
		{ sandbox, HEADERS "\"h\":\"", "v", 2048, "\"}}}]}}}", "valid headers" },
		{ sandbox, NETWORK DENIES "\"allowOut\":[\"" X63 "." X63 "." X63 ".", "a", 61,
		  "\"]}}", "is not an address, a CIDR block or a domain" },
		{ sandbox, NETWORK "\"rules\":{\"a.b." X63 ".", "a", 60, "\":[]}}}",
		  "a domain of at most 128 characters" },
		{ sandbox, PROXY "\"address\":\"a:1\",\"username\":\"", "u", 255, "\"}}}",
		  "network.egressProxy.username: is too long: at most 255 bytes" },
		{ sandbox, PROXY "\"address\":\"a:1\",\"username\":\"u\",\"password\":\"", "p", 255,
		  "\"}}}", "network.egressProxy.password: is too long: at most 255 bytes" },
		{ sandbox, NETWORK "\"maskRequestHost\":\"", "h", 255, "\"}}",
		  "network.maskRequestHost: is too long: at most 255 bytes" },
	};
	struct sandbox_spec s;
	struct err e;

	edge_try(rows, COUNT(rows));
	for (unsigned more = 0; more < 2; more++) {
		char text[128];

		(void)snprintf(text, sizeof(text), BASE "\"metadata\":{\"cordon.disk\":\"%llu\"}}",
			       (1ULL << 50) + more);
		CHECK((sandbox_spec_read(text, strlen(text), SANDBOX_SPEC_V2, &s, &e) == 0) ==
		      (more == 0));
		sandbox_spec_release(&s);
	}
	CHECK_HAS("cordon.disk", e.msg, "cordon.disk");
}

static int count_name(const char *name, void *arg)
{
	size_t *longest = arg;

	if (strlen(name) > *longest)
		*longest = strlen(name);
	return 0;
}

/* The name of a secret in a header. A longer one is no placeholder and is sent as it is. */
static void secrets_of_headers(void)
{
	for (size_t n = 127; n <= 128; n++) {
		char name[129] = "", text[512];
		size_t longest = 0;

		memset(name, 's', n);
		(void)snprintf(text, sizeof(text),
			       "{\"rules\":{\"a.example\":[{\"transform\":{\"headers\":{"
			       "\"H\":\"${e2b.secrets.%s}\"}}}]}}",
			       name);
		CHECK(network_policy_secrets(text, count_name, &longest) == 0);
		CHECK(longest == (n == 127 ? 127 : 0));
	}
}

static void processes(void)
{
	static const struct edge rows[] = {
		{ process, "{\"process\":{\"cmd\":\"a\",\"envs\":{", "\"V%d\":\"x\"", 4096, "}}}",
		  "envs: more than 4096" },
		{ process, "{\"process\":{\"cmd\":\"", "c", (4U << 20) - 4096 - 1, "\"}}",
		  "args and envs: more than 4190208 bytes" },
		{ process, "{\"process\":{\"cmd\":\"c\",\"cwd\":\"", "d", 4095, "\"}}",
		  "cwd: is too long" },
		{ process, "{\"process\":{\"cmd\":\"c\"},\"tag\":\"", "t", 1024, "\"}",
		  "tag: is too long" },
		{ filter, "a=", "v", 4093, "", "parameter metadata" },
	};

	edge_try(rows, COUNT(rows));
}

/* As json_size.h counts them: one, one for each bracket, and one for each comma. */
static void messages(void)
{
	struct edge_text t = { 0 };

	for (unsigned more = 0; more < 2; more++) {
		t.len = 0;
		edge_put(&t, "{\"a\":[");
		edge_put_items(&t, "[]", (12000 - 3) / 2 + 1 + more);
		edge_put(&t, "]}");
		edge_expect(message, &t, more > 0, NULL);
		t.len = 0;
		edge_put(&t, "{\"a\":");
		edge_put_times(&t, "[", 63 + more);
		edge_put_times(&t, "]", 63 + more);
		edge_put(&t, "}");
		edge_expect(message, &t, more > 0, NULL);
	}
	free(t.p);
}

/* A token behind the id of a host's name is kept up to its bound. A longer one is none. */
static void tokens_of_hosts(void)
{
	for (size_t n = DESTINATION_TOKEN_MAX - 1; n <= DESTINATION_TOKEN_MAX; n++) {
		char token[DESTINATION_TOKEN_MAX + 1] = "", head[256];
		struct http1_request q;
		struct http1_fault fault;
		struct destination to;
		int len;

		memset(token, 'k', n);
		len = snprintf(head, sizeof(head),
			       "GET / HTTP/1.1\r\nHost: 3000-iabc-%s.example\r\n\r\n", token);
		CHECK(http1_request_read(head, (size_t)len, &q, &fault) == len);
		destination_find(&q, &to);
		CHECK(to.kind == DESTINATION_SANDBOX);
		CHECK_STR(to.token, n < DESTINATION_TOKEN_MAX ? token : "");
	}
}

static bool form(const char *text, size_t len, struct err *e)
{
	static const char type[] = "multipart/form-data; boundary=XYZ";
	static struct multipart m;
	struct http1_span data;
	size_t used;

	return multipart_init(&m, (struct http1_span){ type, strlen(type) }, e) == 0 &&
	       multipart_read(&m, text, len, &used, &data) == MULTIPART_PART;
}

#define PART "--XYZ\r\nContent-Disposition: form-data; name="
#define FILE_PART PART "file; filename=f\r\n"

static void forms(void)
{
	static const struct edge rows[] = {
		{ form, PART, "n", PART_HEAD_NAME_MAX - 1, "; filename=f\r\n\r\n", NULL },
		{ form, FILE_PART "A: ", "a",
		  MULTIPART_HEAD_MAX - (sizeof(FILE_PART) - 1 - 7) - 3 - 4, "\r\n\r\n", NULL },
	};

	edge_try(rows, COUNT(rows));
}

/* ---- servers of MCP of a session */

static bool servers(const char *text, size_t len, struct err *e)
{
	json_t *root = json_loadb(text, len, 0, NULL);
	char *kept = NULL;
	int done;

	CHECK(root != NULL);
	done = server_spec_check(root, &kept, e);
	free(kept);
	json_decref(root);
	return done == 0;
}

static bool tools(const char *text, size_t len, struct err *e)
{
	struct tool_policy p;
	struct json_value v;

	return json_read(text, len, 8, &v, e) == 0 && tool_policy_read(v, &p, e) == 0;
}

#define SERVER "\":{\"command\":\"c\"}}}"

static void servers_of_a_session(void)
{
	/* The text that is kept: {"mcp": what was given}. */
	static const char start[] = "{\"servers\":{\"a\":{\"command\":\"";
	static const struct edge rows[] = {
		{ servers, "{\"servers\":{", "\"s%d\":{\"command\":\"c\"}", 16, "}}",
		  "mcp.servers: must have 1 to 16" },
		{ servers, "{\"servers\":{\"", "s", JOIN_SERVER_MAX, SERVER,
		  "a name must be 1 to 40" },
		{ servers, start, "c", (128U << 10) - 8 - (sizeof(start) - 1) - 4, "\"}}}",
		  "mcp: has more than 131072 bytes" },
		{ tools, "{\"allow\":[\"", "t", TOOL_POLICY_RULE_MAX, "\"]}",
		  "must have names of tools" },
		{ tools, "{\"deny\":[", "\"t%d\"", TOOL_POLICY_RULES, "]}",
		  "tools.deny: has more than 32" },
	};

	edge_try(rows, COUNT(rows));
}

/* ---- requests of MCP */

static bool request(const char *text, size_t len, struct err *e)
{
	struct mcp_fault f = { 0 };
	struct mcp_request r;
	bool legacy = true;
	int done = mcp_request_read_line(&r, &legacy, text, len, &f);

	(void)err_set(e, ERR_INVALID, "%s", f.message);
	mcp_request_release(&r);
	return done == 0;
}

#define CALL "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"

static void requests_of_mcp(void)
{
	static const struct edge rows[] = {
		{ request, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"", "i",
		  MCP_ID_MAX - 2, "\"}",
		  "id must be a string or an integer of at most 256 characters" },
		{ request, CALL "\"arguments\":{},\"name\":\"", "n", MCP_NAME_MAX, "\"}}",
		  "name must be a string of at most 2048 bytes" },
		{ request, CALL "\"name\":\"n\",\"arguments\":{\"a\":\"", "x",
		  MCP_BODY_MAX - sizeof(CALL "\"name\":\"n\",\"arguments\":{\"a\":\"\"}}}") + 1,
		  "\"}}}", NULL },
	};

	edge_try(rows, COUNT(rows));
}

/* ---- HTTP */

static bool head(const char *text, size_t len, struct err *e)
{
	struct http1_request q;
	struct http1_fault fault = { 0 };
	int n = http1_request_read(text, len, &q, &fault);

	(void)err_set(e, ERR_INVALID, "%s", n < 0 ? fault.words : "");
	return n == (int)len;
}

#define GET " / HTTP/1.1\r\nHost: x\r\n\r\n"

static void heads(void)
{
	static const struct edge rows[] = {
		{ head, "", "G", 32, GET, NULL },
		{ head, "GET / HTTP/1.1\r\nHost: ", "h", 255, "\r\n\r\n", NULL },
		{ head, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: ", "9", 18, "\r\n\r\n",
		  NULL },
	};

	edge_try(rows, COUNT(rows));
}

static void ranges(void)
{
	static const char most[] = "bytes=0-999999999999999999",
			  more[] = "bytes=0-1000000000000000000";
	struct byte_range r;

	CHECK(byte_range_parse((struct http1_span){ most, strlen(most) }, &r));
	CHECK(!byte_range_parse((struct http1_span){ more, strlen(more) }, &r));
}

static bool number(const char *text, size_t len, struct err *e)
{
	struct json_tree t = { 0 };
	double ret;
	bool is_one;

	CHECK(json_tree_read(&t, text, len, &json_tree_default, e) == 0);
	is_one = json_tree_number(json_tree_root(&t), &ret);
	json_tree_release(&t);
	(void)err_set(e, ERR_INVALID, "none");
	return is_one;
}

static void numbers(void)
{
	static const struct edge rows[] = { { number, "0.", "1", 62, "", NULL } };

	edge_try(rows, COUNT(rows));
}

TEST_MAIN({ "sandboxes", sandboxes }, { "names of secrets in headers", secrets_of_headers },
	  { "processes", processes }, { "messages", messages },
	  { "tokens of hosts", tokens_of_hosts }, { "servers of a session", servers_of_a_session },
	  { "requests of MCP", requests_of_mcp }, { "heads", heads }, { "ranges", ranges },
	  { "forms", forms }, { "numbers", numbers })
