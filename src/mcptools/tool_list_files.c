/* tool_list_files.c - the tool `list_files`: what is in a directory, at most LISTED entries. */
#include "tools.h"

#include <stdio.h>
#include <string.h>

#include "file_call.h"
#include "glob.h"
#include "json_text.h"
#include "json_view.h"
#include "reply.h"

#define LISTED 500U
#define LOOKED 10000U /* entries that a pattern chooses from */

struct listing {
	struct file_call call;
	char path[FILE_MSG_PATH_MAX], pattern[GLOB_MAX], depth[24], limit[24];
	char top[FILE_MSG_PATH_MAX]; /* absolute; "" before the first entry */
	bool begun, more;
	unsigned n;
};

static void release(struct tool_call *c)
{
	struct listing *l = c->own;

	file_call_release(&l->call);
}

static bool is_wanted(const struct listing *l, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;

	if (l->pattern[0] == '\0')
		return true;
	return glob_fits(l->pattern, name, strlen(name), true) ||
	       glob_fits(l->pattern, path, strlen(path), true);
}

static void show(struct tool_call *c, struct listing *l, const struct file_msg_entry *m)
{
	char path[2 * FILE_MSG_PATH_MAX];

	if (l->n == LISTED) {
		l->more = true;
		return;
	}
	l->n++;
	(void)snprintf(path, sizeof(path), "%s/%s", strcmp(l->top, "/") == 0 ? "" : l->top,
		       m->path);
	json_open(&c->out, NULL, '{');
	tool_shown(c, "path", path);
	json_text(&c->out, "type", file_msg_type_name((enum file_msg_type)m->type));
	if (m->type == FILE_MSG_FILE)
		json_uint(&c->out, "size", m->size);
	json_view_time(&c->out, "modified_at",
		       m->mtime_ns <= 0 ? 0 : (uint64_t)m->mtime_ns / 1000000);
	if (m->target[0] != '\0')
		tool_shown(c, "target", m->target);
	json_close(&c->out, '}');
}

/* The first entry is the directory itself; paths of the others are relative to it. */
static int on_record(struct file_call *f, const struct file_msg *m, struct err *e)
{
	struct tool_call *c = tool_of(f->r);
	struct listing *l = c->own;

	if (m->kind == FILE_MSG_END) {
		l->more |= (m->end.flags & FILE_MSG_TRUNCATED) != 0;
		return 0;
	}
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	if (!l->begun) {
		l->begun = true;
		(void)snprintf(l->top, sizeof(l->top), "%s", m->entry.path);
	} else if (is_wanted(l, m->entry.path)) {
		show(c, l, &m->entry);
	}
	return 0;
}

static void on_end(struct file_call *f, int status, const struct err *e)
{
	struct tool_call *c = tool_of(f->r);
	struct listing *l = c->own;

	(void)status;
	if (e != NULL) {
		reply_file_error(f->r, e);
		return;
	}
	json_close(&c->out, ']');
	tool_shown(c, "path", l->top);
	json_bool(&c->out, "more", l->more);
	tool_done(c);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record, .on_end = on_end };
	struct tool_call *c = tool_of(r);
	struct listing *l = c->own;
	const char *argv[] = { "list", l->path, l->depth, l->limit };
	struct err e = { 0 };

	tool_open(c);
	json_open(&c->out, "entries", '[');
	l->call.user = FILE_CALL_USER;
	if (file_call_start(&l->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

static void list_files(struct tool_call *c)
{
	struct listing *l = c->own;
	struct err e = { 0 };

	if (tool_arg_text(c, "path", l->path, sizeof(l->path), &e) < 0 ||
	    tool_arg_text(c, "pattern", l->pattern, sizeof(l->pattern), &e) < 0) {
		reply_error(c->r, &e);
		return;
	}
	if (l->path[0] == '\0')
		(void)snprintf(l->path, sizeof(l->path), ".");
	(void)snprintf(l->depth, sizeof(l->depth), "%llu",
		       (unsigned long long)tool_arg_number(c, "depth", 1));
	(void)snprintf(l->limit, sizeof(l->limit), "%u",
		       l->pattern[0] == '\0' ? LISTED + 1 : LOOKED);
	if (tool_take_session(c))
		request_use(c->r, on_session);
}

/* clang-format off */
const struct tool tool_list_files = {
	.shown = {
		.name = "list_files",
		.title = "List files",
		.description =
			"Lists a directory of a session (the home directory by default), `depth` levels deep "
			"(1 by default). pattern chooses entries by their name or path below it (`*` any text in "
			"a name, `**` also across directories), among the first 10000. At most 500 entries; `more` "
			"says whether there are others.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {"type": "string"},
				"path": {
					"type": "string", "maxLength": 4095,
					"description": "absolute, or relative to the home directory"
				},
				"depth": {"type": "integer", "minimum": 1, "maximum": 32},
				"pattern": {"type": "string", "maxLength": 200}
			},
			"required": ["session_id"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"entries": {"type": "array", "items": {"type": "object"}},
				"path": {"type": "string"}, "more": {"type": "boolean"}
			},
			"required": ["entries", "more"]
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.own_size = sizeof(struct listing),
	.start = list_files,
	.release = release,
};
/* clang-format on */
