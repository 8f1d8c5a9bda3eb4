/* Goal: each bound of the configuration of mcp-gateway and of lists of tools is taken at its value,
 * and refused one beyond. */
#include "edge.h"
#include "incell/mcpgateway/gateway_config.h"
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

TEST_MAIN({ "configurations", configurations }, { "definitions", definitions })
