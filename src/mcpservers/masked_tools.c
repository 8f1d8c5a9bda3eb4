#include "masked_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define PIECE ((size_t)16 << 10)

static const char nothing[] = "\"inputSchema\":{\"type\":\"object\"}";

static bool name_has_value(const struct tool *t, const struct session *s)
{
	char name[sizeof(t->name)];

	(void)snprintf(name, sizeof(name), "%s", t->name);
	session_redact(s, name);
	return strcmp(name, t->name) != 0;
}

/* Masking takes no room: the text stays where it is. */
static void check_rest(struct tool *t)
{
	struct buf text = BUF_INIT(TOOL_DEFINITION_MAX + 2);
	size_t n = strlen(t->rest);

	if (tool_schema(t, &text).kind != JSON_READ_OBJECT && n >= sizeof(nothing) - 1)
		memcpy(t->rest, nothing, sizeof(nothing));
	buf_release(&text);
}

/* The list may be freed at any time: each definition is in it once. */
static void keep(struct tool_masking *w, struct tool_list *l)
{
	struct tool t = l->tools[w->at];

	l->tools[w->at++].rest = NULL;
	l->tools[w->kept++] = t;
}

/* The next tool, or a part of it. Returns how many bytes it has masked. */
static size_t mask_some(struct tool_masking *w, struct tool_list *l, const struct session *s,
			size_t max)
{
	const struct mask *m = session_mask(s);
	struct tool *t = &l->tools[w->at];
	size_t before = w->work.at, n = strlen(t->rest);

	if (before == 0 && name_has_value(t, s)) {
		free(t->rest);
		t->rest = NULL;
		l->dropped++;
		w->at++;
		return sizeof(t->name);
	}
	w->work.places = 0;
	if (n > 0 && !mask_work_step(m, &w->work, (uint8_t *)t->rest, n, max))
		return max;
	check_rest(t);
	keep(w, l);
	return n - before + sizeof(t->name);
}

bool masked_tools_piece(struct tool_masking *w, struct tool_list *l, const struct session *s)
{
	const struct mask *m = session_mask(s);
	size_t left = m == NULL || mask_turn(m) > PIECE ? PIECE : mask_turn(m);

	while (m != NULL && left > 0 && w->at < l->n) {
		size_t n = mask_some(w, l, s, left);

		left -= n < left ? n : left;
	}
	if (m != NULL && w->at < l->n)
		return false;
	while (w->at < l->n) /* the mask is gone */
		keep(w, l);
	l->n = w->kept;
	masked_tools_release(w);
	return true;
}

void masked_tools_release(struct tool_masking *w)
{
	mask_work_release(&w->work);
}
