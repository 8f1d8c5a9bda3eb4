/* mcp_digest.h - the digest of the arguments of a call, for records. Pure. */
#pragma once

#include "lib/base/err.h"
#include "lib/json/json_tree.h"

/* The hex SHA-256 of a value, names in a fixed order and without white space, so that the same
 * arguments have the same digest. v may be NULL: no arguments. */
#define MCP_DIGEST_MAX 65
int mcp_digest(const struct json_node *v, char ret[MCP_DIGEST_MAX], struct err *e) MUST_USE;
