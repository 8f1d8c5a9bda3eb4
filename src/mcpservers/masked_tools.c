#include "masked_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

static const char nothing[] = "\"inputSchema\":{\"type\":\"object\"}";

static bool name_has_value(const struct tool *t, const struct session *s)
{
	char name[sizeof(t->name)];

	(void)snprintf(name, sizeof(name), "%s", t->name);
	session_redact(s, name);
	return strcmp(name, t->name) != 0;
}

/* Masking takes no room: the text stays where it is. */
static void mask_rest(struct tool *t, const struct session *s)
{
	struct buf text = BUF_INIT(TOOL_DEFINITION_MAX + 2);
	size_t n = strlen(t->rest);

	session_redact(s, t->rest);
	if (tool_schema(t, &text).kind != JSON_READ_OBJECT && n >= sizeof(nothing) - 1)
		memcpy(t->rest, nothing, sizeof(nothing));
	buf_release(&text);
}

void masked_tools(struct tool_list *l, size_t first, const struct session *s)
{
	size_t kept = first;

	if (session_mask(s) == NULL)
		return;
	for (size_t i = first; i < l->n; i++) {
		struct tool *t = &l->tools[i];

		if (name_has_value(t, s)) {
			free(t->rest);
			l->dropped++;
			continue;
		}
		mask_rest(t, s);
		l->tools[kept++] = *t;
	}
	l->n = kept;
}
