/* mcp_headers.h - the rules for headers of an HTTP request. For mcp_request.c. */
#pragma once

#include "mcp_request.h"

/* POST, Content-Type, Accept. Sets accepts_sse and accepts_json. */
int mcp_headers_check_media(const struct mcp_http *h, struct mcp_request *r,
			    struct mcp_fault *f) MUST_USE;
/* The era that MCP-Protocol-Version names; none: legacy, 2025-03-26. */
enum mcp_era mcp_headers_era(const struct mcp_http *h, char ret_version[MCP_VERSION_MAX]);
/* MCP-Protocol-Version is there, once, and equals the version in the body. */
int mcp_headers_check_version(const struct mcp_http *h, struct json_span in_body,
			      struct mcp_fault *f) MUST_USE;
/* The same for Mcp-Method and Mcp-Name. */
int mcp_headers_check_names(const struct mcp_http *h, const struct mcp_request *r,
			    struct mcp_fault *f) MUST_USE;
