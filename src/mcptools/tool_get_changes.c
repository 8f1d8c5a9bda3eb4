/* tool_get_changes.c - the tool `get_changes`: files that a session added, changed and deleted
 * since its start, also of one that has ended and kept the list. */
#include "tools.h"

#include <string.h>

#include "changes.h"
#include "json_text.h"
#include "reply.h"

#define LISTED 500
#define LIST_JSON_MAX (1U << 20)

enum { ADDED, CHANGED, DELETED, KINDS };
static const char *const names[KINDS] = { "added", "changed", "deleted" };

struct listing {
	struct changes changes;
	struct json lists[KINDS];
	unsigned n;
	bool more, kept; /* kept: of a session that has ended */
};

static struct listing *own(const struct changes *l)
{
	return tool_of(l->r)->own;
}

static void release(struct tool_call *c)
{
	struct listing *l = c->own;

	changes_release(&l->changes);
	for (unsigned i = 0; i < KINDS; i++)
		json_release(&l->lists[i]);
}

static void on_change(struct changes *changes, const struct diff_record *r)
{
	struct listing *l = own(changes);
	unsigned kind = r->kind == 'A' ? ADDED : r->kind == 'C' ? CHANGED : DELETED;

	if (r->kind == 'T' || l->n == LISTED) {
		l->more = true;
		return;
	}
	l->n++;
	json_open(&l->lists[kind], NULL, '{');
	if (l->kept)
		tool_shown_stored(&l->lists[kind], "path", r->path);
	else
		tool_shown_in(tool_of(changes->r), &l->lists[kind], "path", r->path);
	if (kind != DELETED)
		json_uint(&l->lists[kind], "size", r->size);
	json_close(&l->lists[kind], '}');
}

static void on_end(struct changes *changes, const struct err *e)
{
	struct tool_call *c = tool_of(changes->r);
	struct listing *l = own(changes);

	if (e != NULL) {
		reply_error(c->r, e);
		return;
	}
	tool_open(c);
	for (unsigned i = 0; i < KINDS; i++) {
		json_close(&l->lists[i], ']');
		c->out.full |= !json_ok(&l->lists[i]);
		json_raw_bytes(&c->out, names[i], l->lists[i].text, l->lists[i].len);
	}
	json_bool(&c->out, "more", l->more);
	tool_done(c);
}

static void on_session(struct request *r, struct session *s)
{
	struct listing *l = tool_of(r)->own;

	changes_start(&l->changes, r, s);
}

static void get_changes(struct tool_call *c)
{
	struct listing *l = c->own;

	for (unsigned i = 0; i < KINDS; i++) {
		json_init_heap(&l->lists[i], LIST_JSON_MAX);
		json_open(&l->lists[i], NULL, '[');
	}
	l->changes.on_change = on_change;
	l->changes.on_end = on_end;
	if (!tool_take_session(c))
		return;
	l->kept = session_find(c->r->core, c->r->session_id) == NULL;
	if (!changes_read_kept(&l->changes, c->r))
		request_use(c->r, on_session);
}

/* clang-format off */
const struct tool tool_get_changes = {
	.shown = {
		.name = "get_changes",
		.title = "List changed files",
		.description =
			"Lists the files that a session added, changed or deleted since its start, compared with "
			"its template: at most 500; `more` says whether there are others. For the text of changes "
			"use run with git diff or diff.",
		.input_schema = JSON_TEXT({
			"type": "object", "properties": {"session_id": {"type": "string"}},
			"required": ["session_id"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"added": {"type": "array", "items": {"type": "object"}},
				"changed": {"type": "array", "items": {"type": "object"}},
				"deleted": {"type": "array", "items": {"type": "object"}},
				"more": {"type": "boolean"}
			},
			"required": ["added", "changed", "deleted", "more"]
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.own_size = sizeof(struct listing),
	.start = get_changes,
	.release = release,
};
/* clang-format on */
