/* mcp_client.h - the side of a client, for a gateway in front of other servers: writes requests of
 * either era, reads answers. Pure. The gateway keeps which id belongs to what.
 *
 * To find the era of a stdio server: send mcp_client_discover(); a result means modern, an error
 * means legacy: then mcp_client_initialize(), and after its result mcp_client_initialized(). */
#pragma once

#include "mcp.h"

struct mcp_client {
	enum mcp_era era;
	char version[MCP_VERSION_MAX];
	const char *name, *program_version; /* of the client: the gateway */
	/* JSON of the capabilities that the client declares; NULL: {}. */
	const char *capabilities;
};

/* Each writes one message. id is a number of the caller's. */
void mcp_client_discover(struct json *j, const struct mcp_client *c, uint64_t id);
void mcp_client_initialize(struct json *j, const struct mcp_client *c, uint64_t id);
void mcp_client_initialized(struct json *j);
/* cursor: absent for the first page. method: "tools/list", ... */
void mcp_client_list(struct json *j, const struct mcp_client *c, uint64_t id, const char *method,
		     struct json_span cursor);
/* arguments may be NULL; it and extra are written as they are. progress: ask for notifications,
 * with the id as token. extra: further members of params (inputResponses, requestState), as an
 * object whose members are taken over, or NULL. */
void mcp_client_call(struct json *j, const struct mcp_client *c, uint64_t id, struct json_span tool,
		     const struct json_node *arguments, const struct json_node *extra,
		     bool progress);
/* Any other request, with params as a JSON object ("{...}") that has no _meta; NULL: none. */
void mcp_client_request(struct json *j, const struct mcp_client *c, uint64_t id, const char *method,
			const char *params);
void mcp_client_cancel(struct json *j, uint64_t id, const char *reason);
/* The answer to a request of the server that the client refuses. id is JSON. */
void mcp_client_refuse(struct json *j, struct json_span id, const char *words);

enum mcp_incoming_kind {
	MCP_IN_RESULT,
	MCP_IN_ERROR,
	MCP_IN_NOTIFICATION,
	MCP_IN_REQUEST /* of the server: legacy sampling, elicitation, roots, ping */
};

/* A message of a server. */
struct mcp_incoming {
	enum mcp_incoming_kind kind;
	uint64_t id;		 /* results and errors: 0 if it is none of ours */
	struct json_span raw_id; /* as JSON */
	struct json_span method;
	const struct json_node *params, *result, *error;
	/* Of results: "complete" if the server says nothing. */
	struct json_span result_type;
	int64_t error_code;
	struct json_span error_message;
	uint64_t progress_id;  /* notifications/progress: the id of the request; else 0 */
	struct json_tree tree; /* owned */
};

/* Answers of servers may be larger than requests: limits are the caller's. */
int mcp_incoming_read(struct mcp_incoming *m, const char *line, size_t len,
		      const struct json_tree_limits *limits, struct err *e) MUST_USE;
void mcp_incoming_release(struct mcp_incoming *m);

/* Takes the version from the result of initialize. ERR_UNSUPPORTED: one that we do not know. */
int mcp_client_take_initialize(struct mcp_client *c, const struct mcp_incoming *m,
			       struct err *e) MUST_USE;
/* Does a discover result offer MCP_VERSION? Sets era and version. */
int mcp_client_take_discover(struct mcp_client *c, const struct mcp_incoming *m,
			     struct err *e) MUST_USE;
