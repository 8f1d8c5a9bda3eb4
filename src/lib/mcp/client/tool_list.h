/* tool_list.h - the tools that one MCP server offers, as peer.c reads them from its answers. Pure.
 *
 * Everything here was written by the server and is not trusted: names have the characters that the
 * specification allows and no others, counts and sizes are bounded, and tools that do not fit are
 * left out and counted. Descriptions and schemas are kept as the server wrote them. Readers of a
 * list treat them as text. */
#pragma once

#include <stdbool.h>

#include "lib/base/sha256.h"
#include "lib/json/json_read.h"

#define TOOL_LIST_MAX 1000
#define TOOL_LIST_BYTES_MAX (2U << 20) /* of all definitions of a server */
#define TOOL_DEFINITION_MAX (128U << 10)
#define TOOL_NAME_MAX 128

struct listed_tool {
	char name[TOOL_NAME_MAX + 1];
	uint32_t key; /* a short hash of the name */
	char *rest;   /* owned: the members of its definition other than the name, with commas
			 between them. "" if there are none */
	uint8_t hash[SHA256_SIZE]; /* of the name and the rest */
};

struct tool_list {
	struct listed_tool *tools; /* owned */
	size_t n, size, bytes;
	size_t dropped; /* left out: malformed, named twice, or too many */
};

/* Letters, digits, '_', '-' and '.', 1 to TOOL_NAME_MAX of them. */
bool tool_name_is_valid(const char *name, size_t n);

/* Add the tools of an array of definitions, up to the TOOL_LIST_MAX-th of the list. Those left out
 * count, too. Fail only without memory. */
int tool_list_add(struct tool_list *l, struct json_value array, struct err *e) MUST_USE;
/* NULL: there is none. */
const struct listed_tool *tool_list_find(const struct tool_list *l, const char *name, size_t n);
/* No more definitions are read. */
bool tool_list_full(const struct tool_list *l);
void tool_list_clear(struct tool_list *l);

/* The input schema of a tool: a span of text, filled in and owned by the caller. NONE: no
 * memory. */
struct json_value tool_schema(const struct listed_tool *t, struct buf *text);
