/* mcp_request.c - the envelope of a message: JSON-RPC, its era, its params and _meta. And the
 * headers of an HTTP request, as far as they have rules. */
#include "lib/mcp/server/mcp_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/base64.h"
#include "lib/mcp/server/mcp.h"

/* ---- refusals
 *
 * Each mcp_fault_...() fills a fault and returns -1, so that a check ends with its call. */

static int fault_status_of(int code)
{
	if (code == MCP_METHOD_NOT_FOUND)
		return 404;
	return code == MCP_INTERNAL_ERROR ? 500 : 400;
}

static void PRINTF(4, 0)
	mcp_request_fill(struct mcp_fault *f, int status, int code, const char *fmt, va_list args)
{
	*f = (struct mcp_fault){ .status = status, .code = code };
	(void)vsnprintf(f->message, sizeof(f->message), fmt, args);
}

int mcp_fault_set(struct mcp_fault *f, enum mcp_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	mcp_request_fill(f, fault_status_of((int)code), (int)code, fmt, args);
	va_end(args);
	return -1;
}

int mcp_fault_http(struct mcp_fault *f, int status, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	mcp_request_fill(f, status, code, fmt, args);
	va_end(args);
	return -1;
}

int mcp_fault_resource(struct mcp_fault *f, struct json_span uri)
{
	struct json j;

	(void)mcp_fault_set(f, MCP_INVALID_PARAMS, "no such resource");
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_bytes(&j, "uri", uri.p, uri.p == NULL ? 0 : uri.n);
	json_close(&j, '}');
	if (!json_ok(&j))
		f->data[0] = '\0';
	return -1;
}

int mcp_fault_capability(struct mcp_fault *f, const char *name)
{
	struct json j;

	(void)mcp_fault_set(f, MCP_MISSING_CAPABILITY,
			    "this needs the client's capability %s, which it has not declared",
			    name);
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_open(&j, "requiredCapabilities", '{');
	json_open(&j, name, '{');
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, '}');
	return -1;
}

/* ---- revisions */

#define REQUESTED_MAX 64 /* characters of an unknown version sent back */

/* The newest first. A client that asks for another version in initialize is offered the newest. */
static const char *const legacy_versions[] = { MCP_VERSION_LEGACY, "2025-06-18", "2025-03-26" };

static bool mcp_version_is_legacy(struct json_span version)
{
	for (size_t i = 0; i < COUNT(legacy_versions); i++) {
		if (json_span_is(version, legacy_versions[i]))
			return true;
	}
	return false;
}

static void mcp_version_copy(struct json_span version, char ret[MCP_VERSION_MAX])
{
	size_t n = version.p == NULL ? 0 : version.n;

	n = n < MCP_VERSION_MAX ? n : MCP_VERSION_MAX - 1;
	if (n > 0)
		memcpy(ret, version.p, n);
	ret[n] = '\0';
}

/* The version that initialize is answered with: the client's if it is one of ours. */
static void mcp_version_answer(struct json_span asked, char ret[MCP_VERSION_MAX])
{
	const struct json_span newest = { MCP_VERSION_LEGACY, sizeof(MCP_VERSION_LEGACY) - 1 };

	mcp_version_copy(mcp_version_is_legacy(asked) ? asked : newest, ret);
}

/* -32022 with data.supported and data.requested. */
static int mcp_version_refuse(struct json_span asked, struct mcp_fault *f)
{
	size_t n = asked.n < REQUESTED_MAX ? asked.n : REQUESTED_MAX;
	struct json j;

	(void)mcp_fault_set(f, MCP_UNSUPPORTED_VERSION,
			    "this version of the protocol is not supported");
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_open(&j, "supported", '[');
	json_text(&j, NULL, MCP_VERSION);
	json_close(&j, ']');
	json_bytes(&j, "requested", asked.p, n);
	json_close(&j, '}');
	return -1;
}

/* ---- levels of log messages */

static const char *const names[] = { NULL,    "debug",	  "info",  "notice",   "warning",
				     "error", "critical", "alert", "emergency" };

const char *mcp_level_name(enum mcp_level level)
{
	return names[level];
}

enum mcp_level mcp_level_find(struct json_span name)
{
	for (size_t i = 1; i < COUNT(names); i++) {
		if (json_span_is(name, names[i]))
			return (enum mcp_level)i;
	}
	return MCP_LEVEL_NONE;
}

/* ---- the methods of both eras */

/* A row is a method, the eras that have it, the part that must be declared, and the member that
 * names its object. mcp_server_answer() refuses a method outside of its era. */
static const struct mcp_method_row rows[] = {
	{ "server/discover", MCP_DISCOVER, true, false, MCP_PART_ALL, NULL },
	{ "initialize", MCP_INITIALIZE, false, true, MCP_PART_ALL, NULL },
	{ "ping", MCP_PING, false, true, MCP_PART_ALL, NULL },
	{ "tools/list", MCP_TOOLS_LIST, true, true, MCP_PART_TOOLS, NULL },
	{ "tools/call", MCP_TOOLS_CALL, true, true, MCP_PART_TOOLS, "name" },
	{ "resources/list", MCP_RESOURCES_LIST, true, true, MCP_PART_RESOURCES, NULL },
	{ "resources/templates/list", MCP_TEMPLATES_LIST, true, true, MCP_PART_RESOURCES, NULL },
	{ "resources/read", MCP_RESOURCES_READ, true, true, MCP_PART_RESOURCES, "uri" },
	{ "resources/subscribe", MCP_RESOURCES_SUBSCRIBE, false, true, MCP_PART_SUBSCRIBE, "uri" },
	{ "resources/unsubscribe", MCP_RESOURCES_UNSUBSCRIBE, false, true, MCP_PART_SUBSCRIBE,
	  "uri" },
	{ "prompts/list", MCP_PROMPTS_LIST, true, true, MCP_PART_PROMPTS, NULL },
	{ "prompts/get", MCP_PROMPTS_GET, true, true, MCP_PART_PROMPTS, "name" },
	{ "completion/complete", MCP_COMPLETE, true, true, MCP_PART_COMPLETIONS, NULL },
	{ "logging/setLevel", MCP_SET_LEVEL, false, true, MCP_PART_LOGGING, NULL },
	{ "subscriptions/listen", MCP_LISTEN, true, false, MCP_PART_LISTEN, NULL },
	{ "notifications/initialized", MCP_INITIALIZED, false, true, MCP_PART_ALL, NULL },
	{ "notifications/cancelled", MCP_CANCELLED, true, true, MCP_PART_ALL, NULL },
	{ "notifications/roots/list_changed", MCP_ROOTS_CHANGED, false, true, MCP_PART_ALL, NULL },
};

/* NULL: no such method in either era. */
static const struct mcp_method_row *mcp_method_find(struct json_span name)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (json_span_is(name, rows[i].name))
			return &rows[i];
	}
	return NULL;
}

const struct mcp_method_row *mcp_method_row(enum mcp_method method)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (rows[i].method == method)
			return &rows[i];
	}
	return NULL;
}

/* ---- headers of an HTTP request
 *
 * A proxy in front may decide by headers. A modern request repeats parts of its body there, and a
 * difference is refused, so that both see one request. */

static bool headers_accepts(const struct mcp_http *h, const char *type)
{
	bool any = false;

	for (size_t i = 0; i < h->headers_n; i++) {
		struct http1_span v = h->headers[i].value;

		if (!http1_span_is_nocase(h->headers[i].name, "accept"))
			continue;
		any = true;
		while (v.n > 0) {
			const char *comma = memchr(v.p, ',', v.n);
			size_t n = comma == NULL ? v.n : (size_t)(comma - v.p);
			struct http1_span item = { v.p, n };

			while (item.n > 0 && (item.p[0] == ' ' || item.p[0] == '\t'))
				item.p++, item.n--;
			item = http1_media_type(item);
			if (http1_span_is_nocase(item, type) || http1_span_is(item, "*/*"))
				return true;
			v.p += n + (comma != NULL);
			v.n -= n + (comma != NULL);
		}
	}
	return !any;
}

/* POST, Content-Type, Accept. Set accepts_sse and accepts_json. */
static int mcp_headers_check_media(const struct mcp_http *h, struct mcp_request *r,
				   struct mcp_fault *f)
{
	struct http1_span type;

	if (h->method != HTTP1_POST)
		return mcp_fault_http(f, 405, 0, "only POST is supported");
	if (http1_find(h->headers, h->headers_n, "content-type", &type) != 1 ||
	    !http1_span_is_nocase(http1_media_type(type), "application/json"))
		return mcp_fault_http(f, 415, MCP_INVALID_REQUEST,
				      "Content-Type must be application/json");
	r->accepts_json = headers_accepts(h, "application/json");
	r->accepts_sse = headers_accepts(h, "text/event-stream");
	if (!r->accepts_json && !r->accepts_sse)
		return mcp_fault_http(f, 406, MCP_INVALID_REQUEST,
				      "Accept must list application/json and text/event-stream");
	return 0;
}

/* The era that MCP-Protocol-Version names. none: legacy, 2025-03-26. */
static enum mcp_era mcp_headers_era(const struct mcp_http *h, char ret_version[MCP_VERSION_MAX])
{
	struct json_span oldest = { "2025-03-26", 10 }, version;
	struct http1_span value;

	if (http1_find(h->headers, h->headers_n, "mcp-protocol-version", &value) == 0) {
		mcp_version_copy(oldest, ret_version);
		return MCP_LEGACY;
	}
	version = (struct json_span){ value.p, value.n };
	mcp_version_copy(version, ret_version);
	return mcp_version_is_legacy(version) ? MCP_LEGACY : MCP_MODERN;
}

bool mcp_header_is(struct http1_span value, struct json_span text)
{
	static const char open[] = "=?base64?", close[] = "?=";
	const size_t head = sizeof(open) - 1, tail = sizeof(close) - 1;
	uint8_t bytes[BASE64_BYTES(BASE64_LENGTH((size_t)MCP_NAME_MAX))];
	size_t inner;
	ssize_t n;

	if (text.p == NULL)
		return false;
	if (value.n < head + tail || memcmp(value.p, open, head) != 0 ||
	    memcmp(value.p + value.n - tail, close, tail) != 0)
		return value.n == text.n && memcmp(value.p, text.p, text.n) == 0;
	inner = value.n - head - tail;
	if (inner > BASE64_LENGTH((size_t)MCP_NAME_MAX))
		return false;
	n = base64_decode(value.p + head, inner, bytes);
	return n >= 0 && (size_t)n == text.n && memcmp(bytes, text.p, text.n) == 0;
}

/* A header that must be there once, and be equal to a part of the body. */
static int headers_check(const struct mcp_http *h, const char *name, struct json_span text,
			 struct mcp_fault *f)
{
	struct http1_span value;
	size_t n = http1_find(h->headers, h->headers_n, name, &value);

	if (n == 0)
		return mcp_fault_set(f, MCP_HEADER_MISMATCH, "the header %s is missing", name);
	if (n > 1 || !mcp_header_is(value, text))
		return mcp_fault_set(f, MCP_HEADER_MISMATCH, "the header %s differs from the body",
				     name);
	return 0;
}

/* MCP-Protocol-Version is there, once, and equals the version in the body. */
static int mcp_headers_check_version(const struct mcp_http *h, struct json_span in_body,
				     struct mcp_fault *f)
{
	return headers_check(h, "MCP-Protocol-Version", in_body, f);
}

/* As above, for Mcp-Method and Mcp-Name. */
static int mcp_headers_check_names(const struct mcp_http *h, const struct mcp_request *r,
				   struct mcp_fault *f)
{
	const struct mcp_method_row *row = mcp_method_row(r->method);

	if (headers_check(h, "Mcp-Method", r->method_name, f) < 0)
		return -1;
	if (row == NULL || row->name_member == NULL || !row->modern)
		return 0;
	return headers_check(h, "Mcp-Name", r->name, f);
}

/* ---- Origin and Host
 *
 * A page of another site must not use a server on this machine, not even by a name made to resolve
 * to it (DNS rebinding). */

/* "name:80" or "[::1]:80" without the port. Any other text stays as it is, and equals no name. */
static struct http1_span origin_without_port(struct http1_span host)
{
	size_t n = host.n;

	while (n > 0 && host.p[n - 1] >= '0' && host.p[n - 1] <= '9')
		n--;
	if (n < 2 || host.p[n - 1] != ':' || (host.p[0] == '[' && host.p[n - 2] != ']'))
		return host;
	return (struct http1_span){ host.p, n - 1 };
}

static bool origin_is_loopback(struct http1_span host)
{
	struct http1_span name = origin_without_port(host);

	return http1_span_is_nocase(name, "localhost") || http1_span_is(name, "127.0.0.1") ||
	       http1_span_is(name, "[::1]");
}

static bool origin_is_ours(struct http1_span host, const char *const *hosts)
{
	if (origin_is_loopback(host))
		return true;
	for (; hosts != NULL && *hosts != NULL; hosts++) {
		if (http1_span_is_nocase(host, *hosts) ||
		    http1_span_is_nocase(origin_without_port(host), *hosts))
			return true;
	}
	return false;
}

/* The host and port of "https://host:port". Absent if it is no such origin ("null" is none). */
static struct http1_span origin_host(struct http1_span origin)
{
	static const char *const schemes[] = { "https://", "http://" };

	for (size_t i = 0; i < COUNT(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (origin.n > n && memcmp(origin.p, schemes[i], n) == 0 &&
		    memchr(origin.p + n, '/', origin.n - n) == NULL &&
		    memchr(origin.p + n, '@', origin.n - n) == NULL)
			return (struct http1_span){ origin.p + n, origin.n - n };
	}
	return (struct http1_span){ 0 };
}

static bool origin_same(struct http1_span a, struct http1_span b)
{
	return a.n == b.n && a.n > 0 && strncasecmp(a.p, b.p, a.n) == 0;
}

bool mcp_origin_allowed(struct http1_span origin, struct http1_span host, const char *const *hosts,
			bool loopback_only)
{
	struct http1_span from = origin_host(origin);

	if (loopback_only && !origin_is_ours(host, hosts))
		return false;
	if (origin.p == NULL)
		return true;
	if (from.p == NULL)
		return false;
	if (loopback_only)
		return origin_is_ours(from, hosts);
	/* On loopback names any page of the machine's own user may call. Elsewhere only our own. */
	return origin_same(from, host) ||
	       (!origin_is_loopback(from) && origin_is_ours(from, hosts)) ||
	       (origin_is_loopback(from) && origin_is_loopback(host));
}

/* ---- the envelope
 *
 * Reading goes from the outside to the inside: JSON, the kind of message, its era, the members of
 * params. The first fault ends it, with the id if that was read. */

static int request_read_json(struct mcp_request *r, const char *body, size_t len,
			     struct mcp_fault *f)
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
static bool request_is_id(const struct json_node *v)
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

static int request_read_id(struct mcp_request *r, const struct json_node *root, struct mcp_fault *f)
{
	const struct json_node *id = json_tree_get(root, "id");

	if (id == NULL)
		return 0;
	if (!request_is_id(id))
		return mcp_fault_set(f, MCP_INVALID_REQUEST,
				     "id must be a string or an integer of at most %d characters",
				     MCP_ID_MAX);
	r->id = id->raw;
	return 0;
}

static int request_read_response(struct mcp_request *r, const struct json_node *root,
				 struct mcp_fault *f)
{
	r->kind = MCP_RESPONSE;
	r->result = json_tree_get_kind(root, "result", JSON_READ_OBJECT);
	r->error = json_tree_get_kind(root, "error", JSON_READ_OBJECT);
	if (r->id.p == NULL || (r->result == NULL) == (r->error == NULL))
		return mcp_fault_set(f, MCP_INVALID_REQUEST,
				     "neither a request nor a notification nor a response");
	return 0;
}

static int request_read_method(struct mcp_request *r, const struct json_node *root,
			       struct mcp_fault *f)
{
	const struct json_node *method = json_tree_get(root, "method");
	const struct json_node *params = json_tree_get(root, "params");
	const struct mcp_method_row *row;

	if (method == NULL)
		return request_read_response(r, root, f);
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

static int request_read_envelope(struct mcp_request *r, struct mcp_fault *f)
{
	const struct json_node *root = json_tree_root(&r->tree);

	if (json_tree_is(root, JSON_READ_ARRAY))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "batches are not supported");
	if (!json_tree_is(root, JSON_READ_OBJECT))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "the message must be an object");
	if (request_read_id(r, root, f) < 0)
		return -1;
	if (!json_span_is(json_tree_get_text(root, "jsonrpc"), "2.0"))
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
	return request_read_method(r, root, f);
}

static const struct json_node *request_meta_of(const struct mcp_request *r)
{
	return json_tree_get_kind(r->params, "_meta", JSON_READ_OBJECT);
}

static int request_read_token(struct mcp_request *r, const struct json_node *meta,
			      struct mcp_fault *f)
{
	const struct json_node *token = json_tree_get(meta, "progressToken");

	if (token == NULL)
		return 0;
	if (!request_is_id(token))
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "progressToken must be a string or an integer");
	r->progress_token = token->raw;
	return 0;
}

static void request_read_client(struct mcp_request *r, const struct json_node *info)
{
	r->client_name = json_tree_get_text(info, "name");
	r->client_version = json_tree_get_text(info, "version");
}

/* Members that both eras have, and that neither era may have in another type. */
static int request_read_members(struct mcp_request *r, struct mcp_fault *f)
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
	return request_read_token(r, meta, f);
}

static int request_read_inputs(struct mcp_request *r, struct mcp_fault *f)
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

static int request_read_level(struct mcp_request *r, const struct json_node *meta,
			      struct mcp_fault *f)
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

/* A modern request. h is NULL on stdio. */
static int request_read_modern(struct mcp_request *r, const struct mcp_http *h, struct mcp_fault *f)
{
	const struct json_node *meta = request_meta_of(r);
	struct json_span version = json_tree_get_text(meta, MCP_META "protocolVersion");

	if (r->kind == MCP_RESPONSE)
		return mcp_fault_set(f, MCP_INVALID_REQUEST, "a client sends no responses");
	if (r->kind == MCP_NOTIFICATION && version.p == NULL)
		return request_read_members(r, f);
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
	request_read_client(r, json_tree_get(meta, MCP_META "clientInfo"));
	if (request_read_level(r, meta, f) < 0 || request_read_members(r, f) < 0 ||
	    request_read_inputs(r, f) < 0)
		return -1;
	return h == NULL ? 0 : mcp_headers_check_names(h, r, f);
}

static int request_read_legacy(struct mcp_request *r, struct mcp_fault *f)
{
	if (r->method == MCP_INITIALIZE) {
		r->capabilities = json_tree_get_kind(r->params, "capabilities", JSON_READ_OBJECT);
		request_read_client(r, json_tree_get(r->params, "clientInfo"));
		mcp_version_answer(json_tree_get_text(r->params, "protocolVersion"), r->version);
	}
	return request_read_members(r, f);
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
	if (request_read_json(r, body, len, f) < 0 || request_read_envelope(r, f) < 0)
		return -1;
	in_body = json_tree_get_text(request_meta_of(r), MCP_META "protocolVersion");
	if (in_body.p != NULL)
		r->era = MCP_MODERN;
	if (r->era == MCP_LEGACY)
		return request_read_legacy(r, f);
	mcp_version_copy((struct json_span){ MCP_VERSION, sizeof(MCP_VERSION) - 1 }, r->version);
	return request_read_modern(r, h, f);
}

int mcp_request_read_line(struct mcp_request *r, bool *legacy, const char *line, size_t len,
			  struct mcp_fault *f)
{
	const char *version = MCP_VERSION;
	bool modern;

	*r = (struct mcp_request){ .era = *legacy ? MCP_LEGACY : MCP_MODERN };
	if (request_read_json(r, line, len, f) < 0 || request_read_envelope(r, f) < 0)
		return -1;
	modern = json_tree_get(request_meta_of(r), MCP_META "protocolVersion") != NULL;
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
	return r->era == MCP_MODERN ? request_read_modern(r, NULL, f) : request_read_legacy(r, f);
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
