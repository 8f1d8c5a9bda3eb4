/* tool_list.h - the tools that one MCP server offers, as peer.c reads them from its answers. Pure.
 *
 * Everything here was written by the server and is not trusted: names have the characters that the
 * specification allows and no others, counts and sizes are bounded, and what does not fit is left
 * out and counted. Descriptions and schemas are kept as the server wrote them; readers of a list
 * treat them as text. */
#pragma once

#include <stdbool.h>

#include "json_read.h"
#include "sha256.h"

#define TOOL_LIST_MAX 1000
#define TOOL_LIST_BYTES_MAX (2U << 20) /* of all definitions of a server */
#define TOOL_DEFINITION_MAX (128U << 10)
#define TOOL_NAME_MAX 128

struct tool {
	char name[TOOL_NAME_MAX + 1];
	uint32_t key; /* a short hash of the name */
	char *rest;   /* owned: the members of its definition other than the name, with commas
			 between them; "" if there are none */
	uint8_t hash[SHA256_SIZE]; /* of the name and the rest */
};

struct tool_list {
	struct tool *tools; /* owned */
	size_t n, size, bytes;
	size_t dropped; /* that were left out: malformed, named twice, or too many */
};

/* Letters, digits, '_', '-' and '.', 1 to TOOL_NAME_MAX of them. */
bool tool_name_is_valid(const char *name, size_t n);

/* Adds what an array of definitions has, up to the TOOL_LIST_MAX-th of the list; those that are
 * left out count, too. Fails only without memory. */
int tool_list_add(struct tool_list *l, struct json_value array, struct err *e) MUST_USE;
/* NULL: there is none. */
const struct tool *tool_list_find(const struct tool_list *l, const char *name, size_t n);
/* No more definitions are read. */
bool tool_list_full(const struct tool_list *l);
void tool_list_clear(struct tool_list *l);

/* The input schema of a tool: a span of text, which is filled in and belongs to the caller. NONE:
 * no memory. */
struct json_value tool_schema(const struct tool *t, struct buf *text);
