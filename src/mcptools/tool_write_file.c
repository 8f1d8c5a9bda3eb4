/* tool_write_file.c - the tool `write_file`: a whole file from text or base64, or edits of one. For
 * edits the file is read, each old text is replaced, which must be there exactly once, and the file
 * is written again. */
#include "tools.h"

#include <stdio.h>
#include <string.h>

#include "base64.h"
#include "chunk_writer.h"
#include "config.h"
#include "file_bytes.h"
#include "jobs.h"
#include "json_text.h"
#include "reply.h"

struct writing {
	struct file_bytes old; /* of edits */
	struct job job;	       /* applies them, one in a piece */
	const struct json_node *next_edit;
	size_t nedits; /* done */
	struct file_call call;
	struct chunk_writer out;
	struct buf content;
	size_t sent;
	bool ended, existed;
	char max[24];
};

static struct writing *own(const struct request *r)
{
	return tool_of(r)->own;
}

static void release(struct tool_call *c)
{
	struct writing *w = c->own;

	core_job_cancel(c->r->core, &w->job);
	file_bytes_release(&w->old);
	file_call_release(&w->call);
	buf_release(&w->content);
}

/* ---- writing */

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	own(c->r)->existed = (m->entry.flags & FILE_MSG_EXISTED) != 0;
	return 0;
}

static void send_content(struct writing *w)
{
	if (w->ended)
		return;
	w->sent += chunk_writer_put(&w->out, w->content.data + w->sent, w->content.len - w->sent);
	if (w->sent < w->content.len)
		return;
	w->ended = true;
	chunk_writer_end(&w->out);
}

static void on_room(struct file_call *c)
{
	struct writing *w = own(c->r);

	if (chunk_writer_room(&w->out))
		send_content(w);
}

static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct request *r = c->r;
	struct tool_call *t = tool_of(r);
	struct writing *w = own(r);

	(void)status;
	if (e != NULL) {
		reply_file_error(r, e);
		return;
	}
	tool_open(t);
	json_uint(&t->out, "bytes", w->content.len);
	json_bool(&t->out, "created", !w->existed);
	tool_done(t);
}

static void write_content(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_room = on_room,
							.on_end = on_end };
	struct writing *w = own(r);
	const char *argv[] = { "write", w->old.path, "-", "-", "p", w->max };
	struct err e = { 0 };

	(void)snprintf(w->max, sizeof(w->max), "%llu",
		       (unsigned long long)core_config(r->core)->file_max);
	w->call.user = FILE_CALL_USER;
	if (file_call_start(&w->call, r, s, argv, COUNT(argv), true, &events, &e) < 0) {
		reply_file_error(r, &e);
		return;
	}
	chunk_writer_init(&w->out, &w->call, w->content.len);
	send_content(w);
}

/* ---- edits */

static int edit(struct buf *content, struct json_span old, struct json_span new, size_t at,
		struct err *e)
{
	struct buf next = BUF_INIT(2 * FILE_BYTES_MAX);
	uint8_t *found = old.n == 0 ? NULL : memmem(content->data, content->len, old.p, old.n);
	size_t before, behind;

	if (found == NULL)
		return err_set(e, ERR_INVALID,
			       "edits[%zu].old is not in the file: read it and give the exact text",
			       at);
	before = (size_t)(found - content->data);
	behind = content->len - before - old.n;
	if (memmem(found + 1, content->len - before - 1, old.p, old.n) != NULL)
		return err_set(
			e, ERR_INVALID,
			"edits[%zu].old is in the file more than once: give more of the text "
			"around it",
			at);
	buf_put(&next, content->data, before);
	buf_put(&next, new.p, new.n);
	buf_put(&next, found + old.n, behind);
	if (buf_check(&next, e) < 0) {
		buf_release(&next);
		return -1;
	}
	buf_release(content);
	*content = next;
	return 0;
}

/* Each edit looks through up to 2 MiB twice. */
static bool on_piece(struct job *job)
{
	struct request *r = job->arg;
	struct writing *w = own(r);
	const struct json_node *edits = json_tree_get(tool_of(r)->q.arguments, "edits");
	const struct json_node *v = w->next_edit;
	struct err e = { 0 };

	if (edit(&w->content, json_tree_get_text(v, "old"), json_tree_get_text(v, "new"),
		 w->nedits++, &e) < 0) {
		reply_error(r, &e);
		return false;
	}
	w->next_edit = json_tree_next(edits, v);
	if (w->next_edit != NULL)
		return true;
	request_use(r, write_content);
	return false;
}

static void on_old(struct file_bytes *f, const struct err *why)
{
	struct request *r = f->call.r;
	struct writing *w = own(r);
	struct tool_call *c = tool_of(r);

	if (why != NULL) {
		reply_file_error(r, why);
		return;
	}
	if (f->more) {
		tool_failed(c, "The file is larger than 1 MiB: change it with run.");
		return;
	}
	w->content = f->bytes;
	f->bytes = (struct buf){ 0 };
	w->next_edit = json_tree_first(json_tree_get(c->q.arguments, "edits"));
	w->job = (struct job){ .on_piece = on_piece, .arg = r };
	core_job_add(r->core, r->tenant, &w->job);
}

static void read_old(struct request *r, struct session *s)
{
	struct writing *w = own(r);
	struct err e = { 0 };

	w->old.max = FILE_BYTES_MAX;
	w->old.plain = true;
	w->old.on_read = on_old;
	if (file_bytes_start(&w->old, r, s, &e) < 0)
		reply_file_error(r, &e);
}

/* ---- the arguments */

static int decode(struct writing *w, struct json_span coded, struct err *e)
{
	uint8_t *to = buf_reserve(&w->content, BASE64_BYTES(coded.n) + 3, e);
	ssize_t n;

	if (to == NULL)
		return -1;
	n = base64_decode(coded.p, coded.n, to);
	if (n < 0)
		return err_set(e, ERR_INVALID, "base64: is not base64");
	buf_commit(&w->content, (size_t)n);
	return 0;
}

static int read_content(struct tool_call *c, struct writing *w, struct err *e)
{
	struct json_span text = json_tree_get_text(c->q.arguments, "text");
	struct json_span coded = json_tree_get_text(c->q.arguments, "base64");
	bool edits = json_tree_get(c->q.arguments, "edits") != NULL;

	buf_init(&w->content, 2 * FILE_BYTES_MAX);
	if ((text.p != NULL) + (coded.p != NULL) + edits != 1)
		return err_set(e, ERR_INVALID,
			       "give exactly one of text, base64 and edits (edits: [{old, new}])");
	if (tool_arg_text(c, "path", w->old.path, sizeof(w->old.path), e) < 0)
		return -1;
	if (coded.p != NULL)
		return decode(w, coded, e);
	return text.p == NULL ? 0 : buf_add(&w->content, text.p, text.n, e);
}

static void write_file(struct tool_call *c)
{
	struct writing *w = c->own;
	bool edits = json_tree_get(c->q.arguments, "edits") != NULL;
	struct err e = { 0 };

	if (read_content(c, w, &e) < 0)
		reply_error(c->r, &e);
	else if (tool_take_session(c))
		request_use(c->r, edits ? read_old : write_content);
}

/* clang-format off */
const struct tool tool_write_file = {
	.shown = {
		.name = "write_file",
		.title = "Write or edit a file",
		.description =
			"Writes a file of a session, as text or base64 (at most about 1 MiB with the whole call), "
			"or changes one by edits: each old text must be in the file exactly once and is replaced "
			"by new. Missing directories are made. The file is replaced as a whole or not at all.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {"type": "string"},
				"path": {
					"type": "string", "minLength": 1, "maxLength": 4095,
					"description": "absolute, or relative to the home directory"
				},
				"text": {"type": "string"}, "base64": {"type": "string"},
				"edits": {
					"type": "array", "minItems": 1, "maxItems": 100,
					"items": {
						"type": "object",
						"properties": {
							"old": {"type": "string", "minLength": 1},
							"new": {"type": "string"}
						},
						"required": ["old", "new"],
						"additionalProperties": false
					}
				}
			},
			"required": ["session_id", "path"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {"bytes": {"type": "integer"}, "created": {"type": "boolean"}},
			"required": ["bytes", "created"]
		}),
		.destructive = true,
		.idempotent = true,
	},
	.scope = TENANT_SESSIONS,
	.own_size = sizeof(struct writing),
	.start = write_file,
	.release = release,
};
/* clang-format on */
