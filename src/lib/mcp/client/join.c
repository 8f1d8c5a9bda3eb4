#include "lib/mcp/client/join.h"

#include <stdio.h>
#include <string.h>

#define SEPARATOR_LEN (sizeof(JOIN_SEPARATOR) - 1)

static bool join_is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The name is one part of SERVER__TOOL, so it must not have the separator inside or an underscore
 * at its end. */
bool join_server_name_is_valid(const char *name, size_t n)
{
	if (n == 0 || n > JOIN_SERVER_MAX || !join_is_alnum(name[0]) || !join_is_alnum(name[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!join_is_alnum(name[i]) && name[i] != '-' && name[i] != '_')
			return false;
		if (name[i] == '_' && name[i + 1] == '_')
			return false;
	}
	return true;
}

/* The first separator counts. Names of tools may have more of them. */
bool join_split(const char *name, size_t n, size_t *ret_server, size_t *ret_tool)
{
	const char *at = memmem(name, n, JOIN_SEPARATOR, SEPARATOR_LEN);

	if (at == NULL)
		return false;
	*ret_server = (size_t)(at - name);
	*ret_tool = *ret_server + SEPARATOR_LEN;
	return join_server_name_is_valid(name, *ret_server) &&
	       tool_name_is_valid(name + *ret_tool, n - *ret_tool);
}

bool join_write_tool(struct json *j, const char *server, const struct listed_tool *t)
{
	char name[JOIN_SERVER_MAX + SEPARATOR_LEN + TOOL_NAME_MAX + 1];
	int n = snprintf(name, sizeof(name), "%s%s%s", server == NULL ? "" : server,
			 server == NULL ? "" : JOIN_SEPARATOR, t->name);

	if (n > TOOL_NAME_MAX)
		return false;
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_raw(j, NULL, t->rest); /* several members at once, with their names */
	json_close(j, '}');
	return true;
}

/* Names are compared as they are written, since those with escapes were left out. */
static bool join_is_among(const struct json_value *names, size_t n, struct json_value name)
{
	for (size_t i = 0; i < n; i++) {
		if (names[i].n == name.n && memcmp(names[i].p, name.p, name.n) == 0)
			return true;
	}
	return false;
}

/* Line ends between values: each would be one more line of an event. */
static void join_remove_line_ends(struct json *j, size_t from)
{
	for (size_t i = from; i < j->len; i++) {
		if (j->text[i] == '\n' || j->text[i] == '\r')
			j->text[i] = ' ';
	}
}

/* Each member is compared with JOIN_RESULT_MEMBERS names at most. */
void join_write_result(struct json *j, struct json_value result)
{
	size_t from = j->len;
	struct json_value written[JOIN_RESULT_MEMBERS], name, v;
	const char *at = NULL;
	char text[64];
	size_t n = 0;

	while (n < JOIN_RESULT_MEMBERS && json_read_next(result, &at, &name, &v)) {
		if (json_read_is(name, "resultType") || json_read_is(name, "_meta") ||
		    name.n - 2 >= sizeof(text) || memchr(name.p, '\\', name.n) != NULL ||
		    join_is_among(written, n, name))
			continue;
		written[n++] = name;
		memcpy(text, name.p + 1, name.n - 2);
		text[name.n - 2] = '\0';
		json_raw_bytes(j, text, v.p, v.n);
	}
	if (json_ok(j))
		join_remove_line_ends(j, from);
}
