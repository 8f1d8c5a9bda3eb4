/* A request of MCP, from HTTP and from stdio: whatever the bytes are, the answer is one line of
 * JSON, an error keeps the id, and a modern request that is taken names its version and, in HTTP,
 * has headers that say what its body says. Input: header lines, an empty line, the body. */
#include "fuzz.h"

#include "json_check.h"
#include "lib/mcp/server/mcp_arguments.h"
#include "lib/mcp/server/mcp_listen.h"
#include "lib/mcp/server/mcp_digest.h"

unsigned long fuzz_accepted;

#define HEADERS_MAX 16

static const struct mcp_tool tools[] = {
	{ .name = "run",
	  .description = "d",
	  .input_schema = "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\","
			  "\"x-mcp-header\":\"Command\"},\"n\":{\"type\":\"integer\",\"minimum\":0,"
			  "\"maximum\":9},\"list\":{\"type\":\"array\",\"maxItems\":2,\"items\":{"
			  "\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"x\",\"y\"]}},"
			  "\"additionalProperties\":{\"type\":[\"null\",\"boolean\"]}}}},"
			  "\"required\":[\"command\"]}" },
};
static const struct mcp_server server = { .name = "n",
					  .version = "1",
					  .tools = tools,
					  .tools_n = COUNT(tools),
					  .tools_changed = true,
					  .has_resources = true,
					  .resources_subscribe = true,
					  .has_prompts = true,
					  .has_logging = true };

static void check_message(struct json *j)
{
	assert(json_ok(j) && json_check_valid(j->text, j->len));
	assert(memchr(j->text, '\n', j->len) == NULL);
	json_release(j);
}

static void check_error(const struct mcp_request *r, const struct mcp_fault *f)
{
	struct json j;

	assert(f->status >= 400 && f->status <= 500);
	if (f->code == 0)
		return;
	json_init_heap(&j, 1U << 16);
	mcp_write_error(&j, r, f);
	assert(r->id.p == NULL || memmem(j.text, j.len, r->id.p, r->id.n) != NULL);
	check_message(&j);
}

static void check_call(const struct mcp_request *r, const struct mcp_http *h)
{
	const struct mcp_tool *tool;
	char digest[MCP_DIGEST_MAX];
	struct mcp_fault f;
	struct err e;

	tool = mcp_server_tool(&server, r, &f);
	if (tool == NULL ||
	    (h != NULL && mcp_check_param_headers((struct json_span){ tool->input_schema,
								      strlen(tool->input_schema) },
						  h, r, &f) < 0)) {
		check_error(r, &f);
		return;
	}
	assert(json_span_is(r->name, "run"));
	assert(mcp_digest(r->arguments, digest, &e) == 0 && strlen(digest) == 64);
	if (mcp_arguments_check(tool->input_schema, r->arguments, &e) < 0)
		assert(e.code == ERR_INVALID);
	else
		assert(json_tree_get_text(r->arguments, "command").p != NULL);
}

static void check_listen(const struct mcp_request *r)
{
	struct mcp_listen l;
	struct mcp_fault f;
	struct json j;

	if (mcp_listen_read(&l, &server, r, &f) < 0) {
		check_error(r, &f);
		return;
	}
	json_init_heap(&j, 1U << 20);
	mcp_listen_write_ack(&j, &l);
	check_message(&j);
	mcp_listen_release(&l);
}

static void check_answer(const struct mcp_request *r, const struct mcp_http *h)
{
	struct mcp_fault f;
	struct json j;

	json_init_heap(&j, 1U << 20);
	switch (mcp_server_answer(&server, r, &j, &f)) {
	case MCP_ANSWERED:
		assert(r->id.p != NULL);
		check_message(&j);
		return;
	case MCP_REFUSED:
		check_error(r, &f);
		break;
	case MCP_FOR_CALLER:
		if (r->kind == MCP_REQUEST && r->method == MCP_TOOLS_CALL)
			check_call(r, h);
		else if (r->kind == MCP_REQUEST && r->method == MCP_LISTEN)
			check_listen(r);
		break;
	case MCP_ACCEPTED:
	default:
		assert(r->kind == MCP_NOTIFICATION);
	}
	if (!mcp_write_progress(&j, r, 1, 2, "m"))
		json_text(&j, NULL, "nothing");
	check_message(&j);
}

static void check_taken(const struct mcp_request *r, const struct mcp_http *h)
{
	struct http1_span value;

	fuzz_accepted++;
	assert((r->kind == MCP_NOTIFICATION) == (r->id.p == NULL));
	if (r->era == MCP_MODERN && r->kind == MCP_REQUEST) {
		assert(r->capabilities != NULL && strcmp(r->version, MCP_VERSION) == 0);
		if (h != NULL) {
			assert(http1_find(h->headers, h->headers_n, "mcp-method", &value) == 1);
			assert(mcp_header_is(value, r->method_name));
		}
	}
	check_answer(r, h);
}

/* Cuts "Name: value" lines off the input. */
static size_t take_headers(const char *text, size_t size, struct http1_header *headers, size_t *n)
{
	size_t at = 0;

	for (*n = 0; at < size && *n < HEADERS_MAX;) {
		const char *end = memchr(text + at, '\n', size - at);
		const char *colon = memmem(text + at, size - at, ": ", 2);
		const char *line = text + at;

		if (end == NULL)
			return at;
		at = (size_t)(end - text) + 1;
		if (colon == NULL || colon > end)
			return at;
		headers[*n].name = (struct http1_span){ line, (size_t)(colon - line) };
		headers[*n].value = (struct http1_span){ colon + 2, (size_t)(end - colon) - 2 };
		(*n)++;
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http1_header headers[HEADERS_MAX];
	char *text = fuzz_copy(data, size), *body;
	struct mcp_http h = { .method = HTTP1_POST, .headers = headers };
	struct mcp_request r;
	struct mcp_fault f;
	bool legacy = size % 2 == 0;
	size_t at = take_headers(text, size, headers, &h.headers_n);

	body = fuzz_copy(text + at, size - at);
	if (mcp_request_read_http(&r, &h, body, size - at, &f) == 0)
		check_taken(&r, &h);
	else
		check_error(&r, &f);
	mcp_request_release(&r);
	if (mcp_request_read_line(&r, &legacy, body, size - at, &f) == 0)
		check_taken(&r, NULL);
	else
		check_error(&r, &f);
	mcp_request_release(&r);
	free(body);
	free(text);
	return 0;
}
