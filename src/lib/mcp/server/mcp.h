/* mcp.h - constants of the Model Context Protocol, and the error that a request is answered with.
 *
 * src/lib/mcp/server is the protocol only: bytes to structures and back, no I/O, no state between
 * requests. Users: cordond (its own tools), mcp-gateway (servers in a cell), the fixture of
 * tests/mcp. Two eras: modern is revision 2026-07-28 (no handshake, every request is complete in
 * itself), legacy is 2025-11-25 and two revisions before. See doc/decisions/029-mcp.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/own.h"
#include "lib/json/json.h"
#include "lib/json/json_tree.h"

enum mcp_era { MCP_MODERN, MCP_LEGACY };

#define MCP_VERSION "2026-07-28"	/* the modern revision */
#define MCP_VERSION_LEGACY "2025-11-25" /* the newest legacy revision, offered in initialize */
#define MCP_VERSION_MAX 16		/* characters kept of a version, with its NUL */

#define MCP_BODY_MAX (1U << 20) /* of a request */
#define MCP_VALUES_MAX 12000	/* of a request, as other bodies have (front/web/json_members.h) */
#define MCP_ID_MAX 256		/* characters of a request's id or progress token */
#define MCP_NAME_MAX 2048	/* of a tool, a prompt, a URI */
#define MCP_TOOL_NAME_MAX 128

/* The prefix of reserved names in _meta. */
#define MCP_META "io.modelcontextprotocol/"

enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL_ERROR = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_UNSUPPORTED_VERSION = -32022
};

/* Why a request is refused: an HTTP status, and an error object, which stdio has alone. */
struct mcp_fault {
	int status;
	int code; /* 0: the HTTP answer has no body */
	char message[200];
	char data[1024]; /* JSON. "": none */
};

/* Return -1. The status follows from the code: 404 for an unknown method, 500 for an internal
 * error, 400 else. Legacy errors behind a valid envelope are sent with 200 (see
 * mcp_fault_status()). */
int mcp_fault_set(struct mcp_fault *f, enum mcp_code code, const char *fmt, ...) PRINTF(3, 4);
/* As above, with another status. code 0: no body. */
int mcp_fault_http(struct mcp_fault *f, int status, int code, const char *fmt, ...) PRINTF(4, 5);
/* -32602 with data.uri. */
int mcp_fault_resource(struct mcp_fault *f, struct json_span uri);
/* -32021 with data.requiredCapabilities: {"<name>": {}}. */
int mcp_fault_capability(struct mcp_fault *f, const char *name);
