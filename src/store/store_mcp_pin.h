/* store_mcp_pin.h - definitions of tools of MCP servers, as they were first seen in a session. See
 * store.h for what holds for all rows. */
#pragma once

#include "store.h"

#define STORE_MCP_PIN_TOOL 136
#define STORE_MCP_PIN_HASH 65 /* hex digits, and a NUL */

struct store_mcp_pin {
	char tool[STORE_MCP_PIN_TOOL];
	char hash[STORE_MCP_PIN_HASH];
};

typedef int store_mcp_pin_fn(const struct store_mcp_pin *row, void *cookie);

/* Does nothing if the session has one of this tool. */
int store_mcp_pin_add(struct store *s, const char *session, const struct store_mcp_pin *row,
		      struct err *e) MUST_USE;
/* In order of tools, at most so many. */
int store_mcp_pin_each(struct store *s, const char *session, unsigned limit, store_mcp_pin_fn *fn,
		       void *cookie, struct err *e) MUST_USE;
int store_mcp_pin_delete(struct store *s, const char *session, struct err *e) MUST_USE;
/* Deletes those of sessions without a record. */
int store_mcp_pin_sweep(struct store *s, struct err *e) MUST_USE;
