#include "lib/mcp/client/tool_list.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text_hash.h"

#define SCHEMA_DEPTH 64 /* peer.h reads no deeper message */

bool tool_name_is_valid(const char *name, size_t n)
{
	if (n == 0 || n > TOOL_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || c == '-' || c == '.'))
			return false;
	}
	return true;
}

/* So that most names are compared by one number. */
static uint32_t tool_key_of(const char *name, size_t n)
{
	return (uint32_t)text_hash_part(name, n);
}

const struct listed_tool *tool_list_find(const struct tool_list *l, const char *name, size_t n)
{
	uint32_t key = tool_key_of(name, n);

	for (size_t i = 0; i < l->n; i++) {
		if (l->tools[i].key == key && strncmp(l->tools[i].name, name, n) == 0 &&
		    l->tools[i].name[n] == '\0')
			return &l->tools[i];
	}
	return NULL;
}

bool tool_list_full(const struct tool_list *l)
{
	return l->n + l->dropped >= TOOL_LIST_MAX;
}

struct json_value tool_schema(const struct listed_tool *t, struct buf *text)
{
	struct json_value definition = { 0 };
	struct err e;

	buf_put(text, "{", 1);
	buf_put_text(text, t->rest);
	buf_put(text, "}", 1);
	if (buf_check(text, &e) < 0 ||
	    json_read((const char *)text->data, text->len, SCHEMA_DEPTH, &definition, &e) < 0)
		return (struct json_value){ 0 };
	return json_read_member(definition, "inputSchema");
}

void tool_list_clear(struct tool_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->tools[i].rest);
	free(l->tools);
	*l = (struct tool_list){ 0 };
}

/* Line ends between values: a message with the definition is one line. */
static void tool_remove_line_ends(struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		if (b->data[i] == '\n' || b->data[i] == '\r')
			b->data[i] = ' ';
	}
}

/* The members of a definition but its name, as they are. One written with escapes is left out:
 * readers would not agree which it is. */
static int tool_copy_rest(struct json_value definition, struct buf *to)
{
	struct json_value name, value;
	const char *at = NULL;
	bool schema = false;

	while (json_read_next(definition, &at, &name, &value)) {
		if (json_read_is(name, "name") || memchr(name.p, '\\', name.n) != NULL)
			continue;
		if (json_read_is(name, "inputSchema")) {
			if (value.kind != JSON_READ_OBJECT || schema)
				return -1;
			schema = true;
		}
		buf_put(to, to->len > 0 ? "," : "", to->len > 0);
		buf_put(to, name.p, name.n);
		buf_put(to, ":", 1);
		buf_put(to, value.p, value.n);
	}
	if (!schema) {
		buf_put(to, to->len > 0 ? "," : "", to->len > 0);
		buf_put_text(to, "\"inputSchema\":{\"type\":\"object\"}");
	}
	tool_remove_line_ends(to);
	return to->full ? -1 : 0;
}

/* The NUL between name and rest keeps the two apart. */
static void tool_set_hash(struct listed_tool *t)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, t->name, strlen(t->name) + 1);
	sha256_add(&s, t->rest, strlen(t->rest));
	sha256_end(&s, t->hash);
}

/* Doubled, so that a list of TOOL_LIST_MAX takes few moves. */
static bool tool_make_room(struct tool_list *l)
{
	struct listed_tool *grown;
	size_t size;

	if (l->n < l->size)
		return true;
	size = l->size == 0 ? 16 : l->size * 2;
	grown = realloc(l->tools, size * sizeof(*grown));
	if (grown == NULL)
		return false;
	l->tools = grown;
	l->size = size;
	return true;
}

static bool tool_read_name(struct json_value definition, struct listed_tool *ret)
{
	struct json_value name = json_read_member(definition, "name");

	/* A name that needs escapes has characters that no name may have. */
	if (name.kind != JSON_READ_TEXT || !tool_name_is_valid(name.p + 1, name.n - 2))
		return false;
	memcpy(ret->name, name.p + 1, name.n - 2);
	ret->name[name.n - 2] = '\0';
	ret->key = tool_key_of(ret->name, name.n - 2);
	return true;
}

/* A tool that cannot be listed is counted in dropped, and is no error: the server's other tools
 * stay usable. -1: out of memory. */
static int tool_add_one(struct tool_list *l, struct json_value definition, struct err *e)
{
	struct buf rest = BUF_INIT(TOOL_DEFINITION_MAX);
	struct listed_tool t = { .rest = NULL };

	if (!tool_read_name(definition, &t) || tool_list_find(l, t.name, strlen(t.name)) != NULL ||
	    tool_copy_rest(definition, &rest) < 0 || l->bytes + rest.len > TOOL_LIST_BYTES_MAX) {
		buf_release(&rest);
		l->dropped++;
		return 0;
	}
	t.rest = tool_make_room(l) ? strdup(buf_text(&rest)) : NULL;
	l->bytes += t.rest == NULL ? 0 : rest.len;
	buf_release(&rest);
	if (t.rest == NULL)
		return err_set(e, ERR_SYSTEM, "list of tools: out of memory");
	tool_set_hash(&t);
	l->tools[l->n++] = t;
	return 0;
}

int tool_list_add(struct tool_list *l, struct json_value array, struct err *e)
{
	struct json_value definition;
	const char *at = NULL;

	while (json_read_next(array, &at, &(struct json_value){ 0 }, &definition)) {
		if (tool_list_full(l)) {
			l->dropped++;
			return 0;
		}
		if (tool_add_one(l, definition, e) < 0)
			return -1;
	}
	return 0;
}
