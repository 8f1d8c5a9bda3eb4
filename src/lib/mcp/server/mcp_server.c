#include "lib/mcp/server/mcp_server.h"

#include <stdio.h>
#include <string.h>

#include "lib/mcp/server/mcp_request.h"
#include "lib/mcp/server/mcp_write.h"

/* ---- headers that repeat parameters of a tool: Mcp-Param-X */

#define PREFIX "Mcp-Param-"
#define HEADER_MAX 80

/* A header, and the argument that it repeats. NULL: the client did not give it. */
static int param_headers_check(const struct mcp_http *h, const char *name,
			       const struct json_node *v, struct mcp_fault *f)
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

/* One property of the schema: key is its name. The mark is the tail of the header's name. A schema
 * with a bad mark is our own fault or its server's, not the client's. */
static int param_headers_check_property(const struct json_node *key, const struct mcp_http *h,
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
	return param_headers_check(h, name, argument, f);
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
		result = param_headers_check_property(k, h, r, f);
	json_tree_release(&t);
	return result;
}

/* ---- answers */

static void server_write_capability(struct json *j, const char *name, bool has, bool changed,
				    bool subscribe)
{
	if (!has)
		return;
	json_open(j, name, '{');
	if (changed)
		json_bool(j, "listChanged", true);
	if (subscribe)
		json_bool(j, "subscribe", true);
	json_close(j, '}');
}

/* listChanged of a legacy client would need a stream that it opens with GET: there is none. */
static void server_write_capabilities(struct json *j, const struct mcp_server *s, enum mcp_era era)
{
	bool modern = era == MCP_MODERN;

	json_open(j, "capabilities", '{');
	server_write_capability(j, "tools", s->tools_n > 0 || s->tools_by_caller,
				s->tools_changed && modern, false);
	server_write_capability(j, "resources", s->has_resources, s->resources_changed && modern,
				s->resources_subscribe);
	server_write_capability(j, "prompts", s->has_prompts, s->prompts_changed && modern, false);
	server_write_capability(j, "completions", s->has_completions, false, false);
	server_write_capability(j, "logging", s->has_logging, false, false);
	json_close(j, '}');
}

static void server_answer_discover(const struct mcp_server *s, const struct mcp_request *r,
				   struct json *j)
{
	mcp_write_result(j, s, r);
	json_open(j, "supportedVersions", '[');
	json_text(j, NULL, MCP_VERSION);
	json_close(j, ']');
	server_write_capabilities(j, s, r->era);
	if (s->instructions != NULL)
		json_text(j, "instructions", s->instructions);
	mcp_write_cache(j, r, s->list_ttl_ms, s->cache_public);
	mcp_write_result_end(j);
}

static void server_answer_initialize(const struct mcp_server *s, const struct mcp_request *r,
				     struct json *j)
{
	mcp_write_result(j, s, r);
	json_text(j, "protocolVersion", r->version);
	server_write_capabilities(j, s, r->era);
	mcp_write_server_info(j, "serverInfo", s);
	if (s->instructions != NULL)
		json_text(j, "instructions", s->instructions);
	mcp_write_result_end(j);
}

/* A tool that is not visible is neither listed nor found. */
static bool server_visible(const struct mcp_server *s, const struct mcp_tool *t)
{
	return s->tool_visible == NULL || s->tool_visible(t, s->arg);
}

static void server_write_annotations(struct json *j, const struct mcp_tool *t)
{
	json_open(j, "annotations", '{');
	if (t->title != NULL)
		json_text(j, "title", t->title);
	json_bool(j, "readOnlyHint", t->read_only);
	if (!t->read_only) {
		json_bool(j, "destructiveHint", t->destructive);
		json_bool(j, "idempotentHint", t->idempotent);
	}
	json_bool(j, "openWorldHint", t->open_world);
	json_close(j, '}');
}

static void server_write_tool(struct json *j, const struct mcp_tool *t)
{
	json_open(j, NULL, '{');
	json_text(j, "name", t->name);
	if (t->title != NULL)
		json_text(j, "title", t->title);
	json_text(j, "description", t->description);
	json_raw(j, "inputSchema", t->input_schema);
	if (t->output_schema != NULL)
		json_raw(j, "outputSchema", t->output_schema);
	if (!t->no_annotations)
		server_write_annotations(j, t);
	json_close(j, '}');
}

static void server_answer_tools(const struct mcp_server *s, const struct mcp_request *r,
				struct json *j)
{
	mcp_write_result(j, s, r);
	json_open(j, "tools", '[');
	for (size_t i = 0; i < s->tools_n; i++) {
		if (server_visible(s, &s->tools[i]))
			server_write_tool(j, &s->tools[i]);
	}
	json_close(j, ']');
	mcp_write_cache(j, r, s->tools_ttl_ms, s->cache_public);
	mcp_write_result_end(j);
}

static void server_write_optional(struct json *j, const char *name, const char *value)
{
	if (value != NULL)
		json_text(j, name, value);
}

static void server_write_resource(struct json *j, const struct mcp_resource *t,
				  const char *uri_member)
{
	json_open(j, NULL, '{');
	json_text(j, uri_member, t->uri);
	json_text(j, "name", t->name);
	server_write_optional(j, "title", t->title);
	server_write_optional(j, "description", t->description);
	server_write_optional(j, "mimeType", t->mime_type);
	json_close(j, '}');
}

static void server_answer_resources(const struct mcp_server *s, const struct mcp_request *r,
				    struct json *j)
{
	bool templates = r->method == MCP_TEMPLATES_LIST;
	const struct mcp_resource *rows = templates ? s->templates : s->resources;
	size_t n = templates ? s->templates_n : s->resources_n;

	mcp_write_result(j, s, r);
	json_open(j, templates ? "resourceTemplates" : "resources", '[');
	for (size_t i = 0; i < n; i++)
		server_write_resource(j, &rows[i], templates ? "uriTemplate" : "uri");
	json_close(j, ']');
	mcp_write_cache(j, r, s->list_ttl_ms, s->cache_public);
	mcp_write_result_end(j);
}

/* Has the server declared the capability of this method? */
static bool server_declared(const struct mcp_server *s, enum mcp_part part)
{
	const bool has[MCP_PARTS] = {
		[MCP_PART_ALL] = true,
		[MCP_PART_TOOLS] = s->tools_n > 0 || s->tools_by_caller,
		[MCP_PART_RESOURCES] = s->has_resources,
		[MCP_PART_SUBSCRIBE] = s->has_resources && s->resources_subscribe,
		[MCP_PART_PROMPTS] = s->has_prompts,
		[MCP_PART_COMPLETIONS] = s->has_completions,
		[MCP_PART_LOGGING] = s->has_logging,
		[MCP_PART_LISTEN] = s->tools_changed || s->prompts_changed ||
				    s->resources_changed || s->resources_subscribe,
	};

	return has[part];
}

static enum mcp_outcome server_refuse_method(const struct mcp_request *r, struct mcp_fault *f)
{
	const size_t max = 64;

	(void)mcp_fault_set(f, MCP_METHOD_NOT_FOUND, "there is no method %.*s",
			    (int)(r->method_name.n < max ? r->method_name.n : max),
			    r->method_name.p);
	return MCP_REFUSED;
}

/* The level of logging/setLevel is checked and not kept: there is no state between requests. */
static bool server_level_ok(const struct mcp_request *r, struct mcp_fault *f)
{
	if (r->method != MCP_SET_LEVEL ||
	    mcp_level_find(json_tree_get_text(r->params, "level")) != MCP_LEVEL_NONE)
		return true;
	(void)mcp_fault_set(f, MCP_INVALID_PARAMS, "level is not one of the levels");
	return false;
}

static void server_answer_empty(const struct mcp_server *s, const struct mcp_request *r,
				struct json *j)
{
	mcp_write_empty(j, s, r);
}

typedef void answer_fn(const struct mcp_server *s, const struct mcp_request *r, struct json *j);

static answer_fn *const answers[MCP_METHODS] = {
	[MCP_DISCOVER] = server_answer_discover,
	[MCP_INITIALIZE] = server_answer_initialize,
	[MCP_PING] = server_answer_empty,
	[MCP_SET_LEVEL] = server_answer_empty,
	[MCP_TOOLS_LIST] = server_answer_tools,
	[MCP_RESOURCES_LIST] = server_answer_resources,
	[MCP_TEMPLATES_LIST] = server_answer_resources,
};

static bool server_is_callers(const struct mcp_server *s, enum mcp_method method)
{
	return answers[method] == NULL || (method == MCP_TOOLS_LIST && s->tools_by_caller) ||
	       (method == MCP_RESOURCES_LIST && s->resources_by_caller);
}

enum mcp_outcome mcp_server_answer(const struct mcp_server *s, const struct mcp_request *r,
				   struct json *j, struct mcp_fault *f)
{
	const struct mcp_method_row *row = mcp_method_row(r->method);

	if (r->kind == MCP_RESPONSE)
		return MCP_FOR_CALLER;
	if (r->kind == MCP_NOTIFICATION)
		return r->method == MCP_CANCELLED ? MCP_FOR_CALLER : MCP_ACCEPTED;
	if (row == NULL || !(r->era == MCP_MODERN ? row->modern : row->legacy) ||
	    r->method >= MCP_INITIALIZED || !server_declared(s, row->part))
		return server_refuse_method(r, f);
	if (server_is_callers(s, r->method))
		return MCP_FOR_CALLER;
	if (!server_level_ok(r, f))
		return MCP_REFUSED;
	answers[r->method](s, r, j);
	return MCP_ANSWERED;
}

const struct mcp_tool *mcp_server_tool(const struct mcp_server *s, const struct mcp_request *r,
				       struct mcp_fault *f)
{
	for (size_t i = 0; i < s->tools_n; i++) {
		if (json_span_is(r->name, s->tools[i].name) && server_visible(s, &s->tools[i]))
			return &s->tools[i];
	}
	(void)mcp_fault_set(f, MCP_INVALID_PARAMS, "there is no tool %.*s: see tools/list",
			    r->name.n < 100 ? (int)r->name.n : 100,
			    r->name.p == NULL ? "" : r->name.p);
	return NULL;
}
