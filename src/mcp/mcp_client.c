#include "mcp_client.h"

#include <stdio.h>
#include <string.h>

#include "mcp_version.h"

static void open_message(struct json *j, const char *method)
{
	json_open(j, NULL, '{');
	json_text(j, "jsonrpc", "2.0");
	if (method != NULL)
		json_text(j, "method", method);
}

static void write_info(struct json *j, const struct mcp_client *c, const char *name)
{
	json_open(j, name, '{');
	json_text(j, "name", c->name);
	json_text(j, "version", c->program_version);
	json_close(j, '}');
}

static const char *capabilities(const struct mcp_client *c)
{
	return c->capabilities == NULL ? "{}" : c->capabilities;
}

/* _meta of a request; token: 0 for none. */
static void write_meta(struct json *j, const struct mcp_client *c, uint64_t token)
{
	if (c->era == MCP_LEGACY && token == 0)
		return;
	json_open(j, "_meta", '{');
	if (c->era == MCP_MODERN) {
		json_text(j, MCP_META "protocolVersion", MCP_VERSION);
		write_info(j, c, MCP_META "clientInfo");
		json_raw(j, MCP_META "clientCapabilities", capabilities(c));
	}
	if (token != 0)
		json_uint(j, "progressToken", token);
	json_close(j, '}');
}

static void open_request(struct json *j, uint64_t id, const char *method)
{
	open_message(j, method);
	json_uint(j, "id", id);
	json_open(j, "params", '{');
}

static void close_request(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

void mcp_client_discover(struct json *j, const struct mcp_client *c, uint64_t id)
{
	struct mcp_client modern = *c;

	modern.era = MCP_MODERN;
	open_request(j, id, "server/discover");
	write_meta(j, &modern, 0);
	close_request(j);
}

void mcp_client_initialize(struct json *j, const struct mcp_client *c, uint64_t id)
{
	open_request(j, id, "initialize");
	json_text(j, "protocolVersion", MCP_VERSION_LEGACY);
	json_raw(j, "capabilities", capabilities(c));
	write_info(j, c, "clientInfo");
	close_request(j);
}

void mcp_client_initialized(struct json *j)
{
	open_message(j, "notifications/initialized");
	json_close(j, '}');
}

void mcp_client_list(struct json *j, const struct mcp_client *c, uint64_t id, const char *method,
		     struct json_span cursor)
{
	open_request(j, id, method);
	write_meta(j, c, 0);
	if (cursor.p != NULL)
		json_bytes(j, "cursor", cursor.p, cursor.n);
	close_request(j);
}

/* Takes over the members of an object. Names come without their escapes. */
static void write_members(struct json *j, const struct json_node *o)
{
	for (const struct json_node *k = json_tree_first(o); k != NULL; k = json_tree_next(o, k)) {
		char name[64];

		if (k->text.n >= sizeof(name) || memchr(k->text.p, '\0', k->text.n) != NULL)
			continue;
		memcpy(name, k->text.p, k->text.n);
		name[k->text.n] = '\0';
		json_tree_write(j, name, json_tree_value(k));
	}
}

void mcp_client_call(struct json *j, const struct mcp_client *c, uint64_t id, struct json_span tool,
		     const struct json_node *arguments, const struct json_node *extra,
		     bool progress)
{
	open_request(j, id, "tools/call");
	write_meta(j, c, progress ? id : 0);
	json_bytes(j, "name", tool.p, tool.n);
	if (arguments != NULL)
		json_tree_write(j, "arguments", arguments);
	else
		json_raw(j, "arguments", "{}");
	if (json_tree_is(extra, JSON_TREE_OBJECT))
		write_members(j, extra);
	close_request(j);
}

void mcp_client_request(struct json *j, const struct mcp_client *c, uint64_t id, const char *method,
			const char *params)
{
	size_t n = params == NULL ? 0 : strlen(params);

	open_request(j, id, method);
	write_meta(j, c, 0);
	if (n > 2) /* "{...}" */
		json_raw_bytes(j, NULL, params + 1, n - 2);
	close_request(j);
}

void mcp_client_cancel(struct json *j, uint64_t id, const char *reason)
{
	open_message(j, "notifications/cancelled");
	json_open(j, "params", '{');
	json_uint(j, "requestId", id);
	if (reason != NULL)
		json_text(j, "reason", reason);
	close_request(j);
}

void mcp_client_refuse(struct json *j, struct json_span id, const char *words)
{
	open_message(j, NULL);
	json_raw_bytes(j, "id", id.p, id.n);
	json_open(j, "error", '{');
	json_int(j, "code", MCP_METHOD_NOT_FOUND);
	json_text(j, "message", words);
	json_close(j, '}');
	json_close(j, '}');
}

/* An id of ours is a positive number. */
static uint64_t our_id(const struct json_node *v)
{
	int64_t id;

	return json_tree_int(v, &id) && id > 0 ? (uint64_t)id : 0;
}

static int read_answer(struct mcp_incoming *m, const struct json_node *root, struct err *e)
{
	m->result = json_tree_get_kind(root, "result", JSON_TREE_OBJECT);
	m->error = json_tree_get_kind(root, "error", JSON_TREE_OBJECT);
	if ((m->result == NULL) == (m->error == NULL))
		return err_set(e, ERR_INVALID, "a message without method, result and error");
	m->id = our_id(json_tree_get(root, "id"));
	m->kind = m->result != NULL ? MCP_IN_RESULT : MCP_IN_ERROR;
	m->result_type = json_tree_get_text(m->result, "resultType");
	if (m->result != NULL && m->result_type.p == NULL)
		m->result_type = (struct json_span){ "complete", 8 };
	if (m->error != NULL && !json_tree_int(json_tree_get(m->error, "code"), &m->error_code))
		m->error_code = MCP_INTERNAL_ERROR;
	m->error_message = json_tree_get_text(m->error, "message");
	return 0;
}

static int read_message(struct mcp_incoming *m, struct err *e)
{
	const struct json_node *root = json_tree_root(&m->tree), *id;

	if (!json_tree_is(root, JSON_TREE_OBJECT) ||
	    !json_span_is(json_tree_get_text(root, "jsonrpc"), "2.0"))
		return err_set(e, ERR_INVALID, "no message of JSON-RPC 2.0");
	id = json_tree_get(root, "id");
	if (json_tree_is(id, JSON_TREE_STRING) || json_tree_is(id, JSON_TREE_NUMBER))
		m->raw_id = id->raw;
	if (json_tree_get(root, "method") == NULL)
		return read_answer(m, root, e);
	m->method = json_tree_get_text(root, "method");
	m->params = json_tree_get_kind(root, "params", JSON_TREE_OBJECT);
	if (m->method.p == NULL || m->raw_id.n > MCP_ID_MAX)
		return err_set(e, ERR_INVALID, "a request with a bad method or id");
	m->kind = m->raw_id.p == NULL ? MCP_IN_NOTIFICATION : MCP_IN_REQUEST;
	if (json_span_is(m->method, "notifications/progress"))
		m->progress_id = our_id(json_tree_get(m->params, "progressToken"));
	return 0;
}

int mcp_incoming_read(struct mcp_incoming *m, const char *line, size_t len,
		      const struct json_tree_limits *limits, struct err *e)
{
	*m = (struct mcp_incoming){ 0 };
	if (json_tree_read(&m->tree, line, len, limits, e) < 0)
		return -1;
	if (read_message(m, e) == 0)
		return 0;
	mcp_incoming_release(m);
	return -1;
}

void mcp_incoming_release(struct mcp_incoming *m)
{
	json_tree_release(&m->tree);
	*m = (struct mcp_incoming){ 0 };
}

int mcp_client_take_initialize(struct mcp_client *c, const struct mcp_incoming *m, struct err *e)
{
	struct json_span version = json_tree_get_text(m->result, "protocolVersion");

	/* The first revision is the same for what a gateway does over stdio. */
	if (!mcp_version_is_legacy(version) && !json_span_is(version, "2024-11-05"))
		return err_set(e, ERR_UNSUPPORTED,
			       "the server speaks an unknown version of the protocol");
	c->era = MCP_LEGACY;
	mcp_version_copy(version, c->version);
	return 0;
}

int mcp_client_take_discover(struct mcp_client *c, const struct mcp_incoming *m, struct err *e)
{
	const struct json_node *list =
		json_tree_get_kind(m->result, "supportedVersions", JSON_TREE_ARRAY);

	for (const struct json_node *t = json_tree_first(list); t != NULL;
	     t = json_tree_next(list, t)) {
		if (!json_span_is(t->text, MCP_VERSION))
			continue;
		c->era = MCP_MODERN;
		mcp_version_copy(t->text, c->version);
		return 0;
	}
	return err_set(e, ERR_UNSUPPORTED, "the server does not offer version " MCP_VERSION);
}
