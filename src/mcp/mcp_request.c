/* mcp_request.c - the envelope of a message: JSON-RPC, its era, its params and _meta. */
#include "mcp_request.h"

#include <string.h>

#include "mcp_headers.h"
#include "mcp_method.h"
#include "mcp_version.h"

static int read_json(struct mcp_request *r, const char *body, size_t len, struct mcp_fault *f)
{
	static const struct json_tree_limits limits = { .bytes = MCP_BODY_MAX,
							.values = MCP_VALUES_MAX,
							.depth = JSON_TREE_DEPTH_MAX };
	struct err e;

	if (json_tree_read(&r->tree, body, len, &limits, &e) == 0)
		return 0;
	if (e.code == ERR_LIMIT)
		return mcp_fault_http(f, 413, MCP_INVALID_REQUEST, "%s", e.msg);
	if (e.code == ERR_SYSTEM)
		return mcp_fault_set(f, MCP_INTERNAL_ERROR, "out of memory");
	return mcp_fault_set(f, MCP_PARSE_ERROR, "%s", e.msg);
}

/* A string, or a whole number without fraction or exponent: it goes back as it came. */
static bool is_id(const struct json_node *v)
{
	int64_t ignored;

	if (v == NULL || v->raw.n > MCP_ID_MAX)
		return false;
	if (v->kind == JSON_READ_TEXT)
		return true;
	return v->kind == JSON_READ_NUMBER && json_tree_int(v, &ignored) &&
	       memchr(v->raw.p, '.', v->raw.n) == NULL && memchr(v->raw.p, 'e', v->raw.n) == NULL &&
	       memchr(v->raw.p, 'E', v->raw.n) == NULL;
}

static int read_id(struct mcp_request *r, const struct json_node *root, struct mcp_fault *f)
{
	const struct json_node *id = json_tree_get(root, "id");

	if (id == NULL)
		return 0;
	if (!is_id(id))
		return mcp_fault_set(f, MCP_INVALID_REQUEST,
				     "id must be a string or an integer of at most %d characters",
				     MCP_ID_MAX);
	r->id = id->raw;
	return 0;
}

static int read_response(struct mcp_request *r, const struct json_node *root, struct mcp_fault *f)
{
	r->kind = MCP_RESPONSE;
	r->result = json_tree_get_kind(root, "result", JSON_READ_OBJECT);
	r->error = json_tree_get_kind(root, "error", JSON_READ_OBJECT);
	if (r->id.p == NULL || (r->result == NULL) == (r->error == NULL))
		return mcp_fault_set(f, MCP_INVALID_REQUEST,
				     "neither a request nor a notification nor a response");
	return 0;
}

static int read_method(struct mcp_request *r, const struct json_node *root, struct mcp_fault *f)
{
	const struct json_node *method = json_tree_get(root, "method");
	const struct json_node *params = json_tree_get(root, "params");
	const struct mcp_method_row *row;

	if (method == NULL)
		return read_response(r, root, f);
	if (method->kind != JSON_READ_TEXT)
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "method must be a string");
	if (json_tree_get(root, "result") != NULL || json_tree_get(root, "error") != NULL)
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "a request and a response at once");
	r->method_name = method->text;
	row = mcp_method_find(method->text);
	r->method = row == NULL ? MCP_UNKNOWN : row->method;
	r->kind = r->id.p == NULL ? MCP_NOTIFICATION : MCP_REQUEST;
	if (params != NULL && params->kind != JSON_READ_OBJECT)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "params must be an object");
	r->params = params;
	return 0;
}

static int read_envelope(struct mcp_request *r, struct mcp_fault *f)
{
	const struct json_node *root = json_tree_root(&r->tree);

	if (json_tree_is(root, JSON_READ_ARRAY))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "batches are not supported");
	if (!json_tree_is(root, JSON_READ_OBJECT))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "the message must be an object");
	if (read_id(r, root, f) < 0)
		return -1;
	if (!json_span_is(json_tree_get_text(root, "jsonrpc"), "2.0"))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
	return read_method(r, root, f);
}

static const struct json_node *meta_of(const struct mcp_request *r)
{
	return json_tree_get_kind(r->params, "_meta", JSON_READ_OBJECT);
}

static int read_token(struct mcp_request *r, const struct json_node *meta, struct mcp_fault *f)
{
	const struct json_node *token = json_tree_get(meta, "progressToken");

	if (token == NULL)
		return 0;
	if (!is_id(token))
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "progressToken must be a string or an integer");
	r->progress_token = token->raw;
	return 0;
}

static void read_client(struct mcp_request *r, const struct json_node *info)
{
	r->client_name = json_tree_get_text(info, "name");
	r->client_version = json_tree_get_text(info, "version");
}

/* What both eras have, and what neither era may have in another type. */
static int read_members(struct mcp_request *r, struct mcp_fault *f)
{
	const struct json_node *meta = json_tree_get(r->params, "_meta");
	const struct mcp_method_row *row = mcp_method_row(r->method);
	const struct json_node *arguments = json_tree_get(r->params, "arguments");

	if (meta != NULL && meta->kind != JSON_READ_OBJECT)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "_meta must be an object");
	if (arguments != NULL && row != NULL && row->name_member != NULL &&
	    arguments->kind != JSON_READ_OBJECT)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "arguments must be an object");
	r->arguments = json_tree_is(arguments, JSON_READ_OBJECT) ? arguments : NULL;
	if (row != NULL && row->name_member != NULL &&
	    (r->era == MCP_MODERN ? row->modern : row->legacy)) {
		r->name = json_tree_get_text(r->params, row->name_member);
		if (r->name.p == NULL || r->name.n > MCP_NAME_MAX)
			return mcp_fault_set(f, MCP_INVALID_PARAMS,
					     "%s must be a string of at most %d bytes",
					     row->name_member, MCP_NAME_MAX);
	}
	r->cursor = json_tree_get_text(r->params, "cursor");
	r->traceparent = json_tree_get_text(meta, "traceparent");
	r->tracestate = json_tree_get_text(meta, "tracestate");
	r->baggage = json_tree_get_text(meta, "baggage");
	return read_token(r, meta, f);
}

static int read_inputs(struct mcp_request *r, struct mcp_fault *f)
{
	const struct json_node *inputs = json_tree_get(r->params, "inputResponses");
	const struct json_node *state = json_tree_get(r->params, "requestState");

	if (inputs != NULL && inputs->kind != JSON_READ_OBJECT)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "inputResponses must be an object");
	if (state != NULL && state->kind != JSON_READ_TEXT)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "requestState must be a string");
	r->input_responses = inputs;
	if (state != NULL)
		r->request_state = state->text;
	return 0;
}

static int read_level(struct mcp_request *r, const struct json_node *meta, struct mcp_fault *f)
{
	const struct json_node *level = json_tree_get(meta, MCP_META "logLevel");

	if (level == NULL)
		return 0;
	r->log_level = mcp_level_find(json_tree_get_text(meta, MCP_META "logLevel"));
	if (r->log_level == MCP_LEVEL_NONE)
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "logLevel must be debug, info, notice, "
				     "warning, error, critical, alert or "
				     "emergency");
	return 0;
}

/* A modern request; h is NULL on stdio. */
static int read_modern(struct mcp_request *r, const struct mcp_http *h, struct mcp_fault *f)
{
	const struct json_node *meta = meta_of(r);
	struct json_span version = json_tree_get_text(meta, MCP_META "protocolVersion");

	if (r->kind == MCP_RESPONSE)
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "a client sends no responses");
	if (r->kind == MCP_NOTIFICATION && version.p == NULL)
		return read_members(r, f);
	if (version.p == NULL)
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "_meta must have " MCP_META "protocolVersion, a string");
	if (h != NULL && mcp_headers_check_version(h, version, f) < 0)
		return -1;
	if (!json_span_is(version, MCP_VERSION))
		return mcp_version_refuse(version, f);
	r->capabilities = json_tree_get_kind(meta, MCP_META "clientCapabilities", JSON_READ_OBJECT);
	if (r->capabilities == NULL && r->kind == MCP_REQUEST)
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "_meta must have " MCP_META "clientCapabilities, an object");
	read_client(r, json_tree_get(meta, MCP_META "clientInfo"));
	if (read_level(r, meta, f) < 0 || read_members(r, f) < 0 || read_inputs(r, f) < 0)
		return -1;
	return h == NULL ? 0 : mcp_headers_check_names(h, r, f);
}

static int read_legacy(struct mcp_request *r, struct mcp_fault *f)
{
	if (r->method == MCP_INITIALIZE) {
		r->capabilities = json_tree_get_kind(r->params, "capabilities", JSON_READ_OBJECT);
		read_client(r, json_tree_get(r->params, "clientInfo"));
		mcp_version_answer(json_tree_get_text(r->params, "protocolVersion"), r->version);
	}
	return read_members(r, f);
}

int mcp_request_read_http(struct mcp_request *r, const struct mcp_http *h, const char *body,
			  size_t len, struct mcp_fault *f)
{
	struct json_span in_body;

	*r = (struct mcp_request){ 0 };
	if (mcp_headers_check_media(h, r, f) < 0)
		return -1;
	/* Errors before the body was read are those of the era that the headers name. */
	r->era = mcp_headers_era(h, r->version);
	if (read_json(r, body, len, f) < 0 || read_envelope(r, f) < 0)
		return -1;
	in_body = json_tree_get_text(meta_of(r), MCP_META "protocolVersion");
	if (in_body.p != NULL)
		r->era = MCP_MODERN;
	if (r->era == MCP_LEGACY)
		return read_legacy(r, f);
	mcp_version_copy((struct json_span){ MCP_VERSION, sizeof(MCP_VERSION) - 1 }, r->version);
	return read_modern(r, h, f);
}

int mcp_request_read_line(struct mcp_request *r, bool *legacy, const char *line, size_t len,
			  struct mcp_fault *f)
{
	const char *version = MCP_VERSION;
	bool modern;

	*r = (struct mcp_request){ .era = *legacy ? MCP_LEGACY : MCP_MODERN };
	if (read_json(r, line, len, f) < 0 || read_envelope(r, f) < 0)
		return -1;
	modern = json_tree_get(meta_of(r), MCP_META "protocolVersion") != NULL;
	if (r->method == MCP_INITIALIZE && !modern)
		*legacy = true;
	/* A legacy client may send ping before initialize. */
	if (modern || (!*legacy && r->kind != MCP_RESPONSE && r->method != MCP_PING)) {
		r->era = MCP_MODERN;
	} else {
		r->era = MCP_LEGACY;
		version = MCP_VERSION_LEGACY;
	}
	mcp_version_copy((struct json_span){ version, strlen(version) }, r->version);
	return r->era == MCP_MODERN ? read_modern(r, NULL, f) : read_legacy(r, f);
}

void mcp_request_release(struct mcp_request *r)
{
	json_tree_release(&r->tree);
	*r = (struct mcp_request){ 0 };
}

bool mcp_client_has(const struct mcp_request *r, const char *capability, const char *part)
{
	const struct json_node *c =
		json_tree_get_kind(r->capabilities, capability, JSON_READ_OBJECT);

	if (c == NULL || part == NULL)
		return c != NULL;
	if (c->size == 0)
		return strcmp(capability, "elicitation") == 0 && strcmp(part, "form") == 0;
	return json_tree_get_kind(c, part, JSON_READ_OBJECT) != NULL;
}
