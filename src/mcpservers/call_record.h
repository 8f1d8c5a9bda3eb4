/* call_record.h - the record of a call of a tool of an MCP server: an event `mcp.call` of the
 * session, whatever came of it. Called by mcp_endpoint.c. */
#pragma once

#include "mcp_digest.h"
#include "mcp_request.h"
#include "request.h"
#include "tool_policy.h"

struct call_record {
	char server[64], tool[130], rule[TOOL_POLICY_WORD_MAX];
	char digest[MCP_DIGEST_MAX]; /* of the arguments; "": there were none */
	bool allowed, is_error;
	uint64_t bytes; /* of the answer */
	uint64_t began_ns;
};

/* Fills in what the request says. */
void call_record_begin(struct call_record *c, const struct mcp_request *q);
/* Writes it. A record that cannot be written is logged; the call is over. */
void call_record_write(const struct call_record *c, struct request *r, const struct mcp_request *q);
