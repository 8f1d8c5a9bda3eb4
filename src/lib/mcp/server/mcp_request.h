/* mcp_request.h - reads one message of a client: an HTTP request, or a line of stdio. Pure.
 *
 * The message is read strictly (lib/json/json_tree.h). Decisions are made on the body, never on
 * headers alone. On failure the caller answers with the fault (mcp_write_error()), which keeps the
 * id where it could be read. The request is released in either case. All spans and nodes point into
 * the body or the tree, so the body must outlive the request. */
#pragma once

#include "lib/http/http1.h"
#include "lib/mcp/server/mcp.h"

enum mcp_kind {
	MCP_REQUEST,
	MCP_NOTIFICATION, /* answered by 202, or on stdio by nothing */
	MCP_RESPONSE /* legacy only: the client's answer to a request of the server. See result */
};

enum mcp_method {
	MCP_UNKNOWN,
	MCP_DISCOVER,
	MCP_INITIALIZE,
	MCP_PING,
	MCP_TOOLS_LIST,
	MCP_TOOLS_CALL,
	MCP_RESOURCES_LIST,
	MCP_TEMPLATES_LIST,
	MCP_RESOURCES_READ,
	MCP_RESOURCES_SUBSCRIBE,
	MCP_RESOURCES_UNSUBSCRIBE,
	MCP_PROMPTS_LIST,
	MCP_PROMPTS_GET,
	MCP_COMPLETE,
	MCP_SET_LEVEL,
	MCP_LISTEN,
	MCP_INITIALIZED, /* notifications */
	MCP_CANCELLED,
	MCP_ROOTS_CHANGED,
	MCP_METHODS
};

/* As in syslog, from the least to the most severe. */
enum mcp_level {
	MCP_LEVEL_NONE, /* the client wants no messages */
	MCP_DEBUG,
	MCP_INFO,
	MCP_NOTICE,
	MCP_WARNING,
	MCP_ERROR,
	MCP_CRITICAL,
	MCP_ALERT,
	MCP_EMERGENCY
};

struct mcp_request {
	enum mcp_era era;
	enum mcp_kind kind;
	enum mcp_method method;
	char version[MCP_VERSION_MAX];
	struct json_span method_name;
	struct json_span id; /* JSON, as the client wrote it: 7 or "a". absent: none was read */
	const struct json_node *params; /* an object, or NULL */
	/* Of params. Absent or NULL if not there. */
	struct json_span name; /* name of tools/call and prompts/get, uri of resources/... */
	const struct json_node *arguments; /* an object */
	struct json_span cursor;
	const struct json_node *input_responses; /* an object: answers to inputRequests */
	struct json_span request_state;
	/* Of params._meta. */
	struct json_span progress_token; /* JSON, a string or an integer */
	enum mcp_level log_level;	 /* modern. legacy: MCP_LEVEL_NONE */
	struct json_span traceparent, tracestate, baggage;
	const struct json_node *capabilities; /* of the client. legacy: in initialize only */
	struct json_span client_name, client_version;
	/* Of HTTP: may the answer be a stream of events. May it be plain JSON? */
	bool accepts_sse, accepts_json;
	/* MCP_RESPONSE: one of both is set. */
	const struct json_node *result, *error;
	struct json_tree tree; /* owned */
};

/* The parts of an HTTP request that matter. */
struct mcp_http {
	enum http1_method method;
	const struct http1_header *headers;
	size_t headers_n;
};

/* Return 0, or -1 and what to answer. It checks, in this order: the HTTP method (405), media types
 * (415, 406), JSON (-32700, a batch -32600), the envelope, the era, and for a modern request
 * version, _meta and the headers that repeat parts of the body. Origin and Host are checked before
 * that, by mcp_origin_allowed(). */
int mcp_request_read_http(struct mcp_request *r, const struct mcp_http *h, const char *body,
			  size_t len, struct mcp_fault *f) MUST_USE;

/* One line of stdio, without its newline. *legacy: false at first. Set by initialize, and then true
 * for the life of the process: all messages without modern _meta are legacy. */
int mcp_request_read_line(struct mcp_request *r, bool *legacy, const char *line, size_t len,
			  struct mcp_fault *f) MUST_USE;

void mcp_request_release(struct mcp_request *r);

/* Has the client declared this capability, and inside it this part (NULL: any)? elicitation without
 * parts means form. Always false for a legacy request. */
bool mcp_client_has(const struct mcp_request *r, const char *capability, const char *part);

/* May a page at this Origin use a server at this Host? Both are header values, absent if not sent.
 * hosts: the server's own names besides loopback names, without port, or with one that then must be
 * the same. NULL-terminated or NULL. loopback_only: the server listens on loopback, so Host must be
 * one of these, too. Else any Host is taken and Origin must be one of ours or name the same host
 * and port as Host. No Origin is allowed: it comes from browsers only. */
bool mcp_origin_allowed(struct http1_span origin, struct http1_span host, const char *const *hosts,
			bool loopback_only);

/* Is the value of a header equal to this text? "=?base64?...?=" stands for the bytes inside. */
bool mcp_header_is(struct http1_span value, struct json_span text);

/* "debug" and so on. NULL for MCP_LEVEL_NONE, and back. */
const char *mcp_level_name(enum mcp_level level);
enum mcp_level mcp_level_find(struct json_span name);

/* ---- the methods of both eras, for mcp_server.c */

/* The capability that a server must have declared for the method to exist. */
enum mcp_part {
	MCP_PART_ALL,
	MCP_PART_TOOLS,
	MCP_PART_RESOURCES,
	MCP_PART_SUBSCRIBE,
	MCP_PART_PROMPTS,
	MCP_PART_COMPLETIONS,
	MCP_PART_LOGGING,
	MCP_PART_LISTEN,
	MCP_PARTS
};

struct mcp_method_row {
	const char *name;
	enum mcp_method method;
	bool modern, legacy;
	enum mcp_part part;
	const char *name_member; /* of params: repeated in Mcp-Name. NULL: none */
};

const struct mcp_method_row *mcp_method_row(enum mcp_method method);
