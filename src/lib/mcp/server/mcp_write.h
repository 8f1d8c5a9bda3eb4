/* mcp_write.h - writes messages to a client, each a whole JSON-RPC object on one line. Pure.
 *
 * A result is written in parts:
 *	mcp_write_result(j, s, r);	opens it, with resultType and _meta where the era has them
 *	json_...(j, ...);		members of the result
 *	mcp_write_result_end(j);
 * Strings of other JSON that go in raw must have no newline: json_tree_write() takes care of it. */
#pragma once

#include "lib/base/buf.h"
#include "lib/mcp/server/mcp_server.h"

void mcp_write_result(struct json *j, const struct mcp_server *s, const struct mcp_request *r);
void mcp_write_result_end(struct json *j);
/* ttlMs and cacheScope inside a result. Nothing in the legacy era. */
void mcp_write_cache(struct json *j, const struct mcp_request *r, uint64_t ttl_ms, bool is_public);
/* A result without members of its own: {} in the legacy era. */
void mcp_write_empty(struct json *j, const struct mcp_server *s, const struct mcp_request *r);

void mcp_write_error(struct json *j, const struct mcp_request *r, const struct mcp_fault *f);
/* The status that goes with it: a legacy client gets JSON-RPC errors of methods with 200. */
int mcp_fault_status(const struct mcp_request *r, const struct mcp_fault *f);

/* ---- results of tools/call, inside mcp_write_result() */
/* A text for the model. annotations.audience is ["assistant"] if for_model. */
void mcp_write_text(struct json *j, const char *text, size_t n, bool for_model);
/* {"content":[{"type":"text",...}],"isError":true}: a whole message. */
void mcp_write_tool_error(struct json *j, const struct mcp_server *s, const struct mcp_request *r,
			  const char *text);

/* ---- notifications of a request. false: the client did not ask for it, nothing was written */
/* total < 0, message NULL: left out. */
bool mcp_write_progress(struct json *j, const struct mcp_request *r, double progress, double total,
			const char *message);
/* data is JSON. A legacy client gets all levels from min_legacy on (it has no level in requests).
 */
bool mcp_write_message(struct json *j, const struct mcp_request *r, enum mcp_level level,
		       const char *logger, const char *data, enum mcp_level min_legacy);

/* ---- requests of a server to a legacy client, on the stream of its own request */
/* id: chosen by the server, unguessable. The answer comes as MCP_RESPONSE with that id (a JSON
 * string). params is JSON. */
void mcp_write_request(struct json *j, const char *id, const char *method, const char *params);

/* ---- framing */
/* Append a message as an event of an SSE stream, or as a line of stdio. */
int mcp_frame_event(struct buf *out, const char *message, size_t n, struct err *e) MUST_USE;
int mcp_frame_line(struct buf *out, const char *message, size_t n, struct err *e) MUST_USE;
#define MCP_KEEPALIVE ": keepalive\n\n" /* every 15 s on a silent stream */

/* As mcp_write_result(), with another resultType. Legacy clients get none. */
void mcp_write_result_of(struct json *j, const struct mcp_server *s, const struct mcp_request *r,
			 const char *type);
/* {"name":...,"version":...} */
void mcp_write_server_info(struct json *j, const char *name, const struct mcp_server *s);
