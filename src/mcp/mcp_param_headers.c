/* mcp_param_headers.c - headers that repeat parameters of a tool: Mcp-Param-X. */
#include <stdio.h>
#include <string.h>

#include "mcp_server.h"

#define PREFIX "Mcp-Param-"
#define HEADER_MAX 80

/* A header, and the argument that it repeats; NULL: the client did not give it. */
static int check(const struct mcp_http *h, const char *name, const struct json_node *v,
		 struct mcp_fault *f)
{
	struct http1_span value;
	size_t n = http1_find(h->headers, h->headers_n, name, &value);
	bool absent = v == NULL || v->kind == JSON_READ_NULL;

	if (absent && n == 0)
		return 0;
	if (n == 0)
		return mcp_fault_set(f, MCP_HEADER_MISMATCH, "the header %s is missing", name);
	if (absent || n > 1 || !mcp_header_is(value, v->kind == JSON_READ_TEXT ? v->text : v->raw))
		return mcp_fault_set(f, MCP_HEADER_MISMATCH,
				     "the header %s differs from the arguments", name);
	return 0;
}

/* One property of the schema: key is its name. */
static int check_property(const struct json_node *key, const struct mcp_http *h,
			  const struct mcp_request *r, struct mcp_fault *f)
{
	struct json_span mark = json_tree_get_text(json_tree_value(key), "x-mcp-header");
	const struct json_node *argument = NULL;
	char name[HEADER_MAX];
	int n;

	if (mark.p == NULL)
		return 0;
	n = snprintf(name, sizeof(name), PREFIX "%.*s", (int)mark.n, mark.p);
	if (n < 0 || (size_t)n >= sizeof(name) || !http1_is_token(name, (size_t)n))
		return mcp_fault_set(f, MCP_INTERNAL_ERROR, "the schema names a bad header");
	for (const struct json_node *k = json_tree_first(r->arguments); k != NULL;
	     k = json_tree_next(r->arguments, k)) {
		if (k->text.n == key->text.n && memcmp(k->text.p, key->text.p, k->text.n) == 0)
			argument = json_tree_value(k);
	}
	return check(h, name, argument, f);
}

int mcp_check_param_headers(struct json_span schema, const struct mcp_http *h,
			    const struct mcp_request *r, struct mcp_fault *f)
{
	static const char mark[] = "x-mcp-header";
	const struct json_node *properties;
	struct json_tree t;
	struct err e;
	int result = 0;

	if (r->era == MCP_LEGACY || memmem(schema.p, schema.n, mark, sizeof(mark) - 1) == NULL)
		return 0;
	if (json_tree_read(&t, schema.p, schema.n, &json_tree_default, &e) < 0)
		return mcp_fault_set(f, MCP_INTERNAL_ERROR, "the schema of this tool is not valid");
	properties = json_tree_get_kind(json_tree_root(&t), "properties", JSON_READ_OBJECT);
	for (const struct json_node *k = json_tree_first(properties); k != NULL && result == 0;
	     k = json_tree_next(properties, k))
		result = check_property(k, h, r, f);
	json_tree_release(&t);
	return result;
}
