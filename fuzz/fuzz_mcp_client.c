/* A message of a server in a cell, as a gateway reads it: exactly one kind, and what is made of it
 * for the other side is one line of JSON again. */
#include "fuzz.h"

#include "json_check.h"
#include "mcp_client.h"

unsigned long fuzz_accepted;

static void check_message(struct json *j)
{
	assert(json_ok(j) && json_check_valid(j->text, j->len));
	assert(memchr(j->text, '\n', j->len) == NULL);
	json_release(j);
}

static void check_taken(const struct mcp_incoming *m)
{
	struct mcp_client c = { .name = "g", .program_version = "1" };
	struct err e;
	struct json j;

	fuzz_accepted++;
	assert((m->result != NULL) == (m->kind == MCP_IN_RESULT));
	assert((m->error != NULL) == (m->kind == MCP_IN_ERROR));
	assert(m->kind != MCP_IN_REQUEST || (m->raw_id.p != NULL && m->method.p != NULL));
	if (m->kind == MCP_IN_RESULT && mcp_client_take_initialize(&c, m, &e) == 0)
		assert(c.era == MCP_LEGACY && c.version[0] != '\0');
	if (m->kind == MCP_IN_RESULT && mcp_client_take_discover(&c, m, &e) == 0)
		assert(c.era == MCP_MODERN);
	json_init_heap(&j, 4U << 20);
	if (m->kind == MCP_IN_REQUEST)
		mcp_client_refuse(&j, m->raw_id, "no");
	else
		mcp_client_call(&j, &c, 7, (struct json_span){ "t", 1 },
				json_tree_get_kind(m->result, "a", JSON_TREE_OBJECT), m->params,
				true);
	check_message(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	struct mcp_incoming m;
	struct err e;

	if (mcp_incoming_read(&m, text, size, &json_tree_default, &e) == 0) {
		check_taken(&m);
		mcp_incoming_release(&m);
	}
	free(text);
	return 0;
}
