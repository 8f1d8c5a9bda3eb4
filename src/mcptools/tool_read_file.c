/* tool_read_file.c - the tool `read_file`: text as text, pictures as pictures, anything else as a
 * link to the resource. */
#include "tools.h"

#include <stdio.h>
#include <string.h>

#include "file_bytes.h"
#include "file_kind.h"
#include "json_text.h"
#include "reply.h"
#include "resource_uri.h"
#include "shown_text.h"
#include "utf8.h"

#define BYTES 32768 /* by default */
#define BYTES_MAX (256U << 10)
#define IMAGE_MAX (512U << 10)

struct reading {
	struct file_bytes file;
	uint64_t max;
	bool again; /* a picture is being read whole */
};

static void release(struct tool_call *c)
{
	struct reading *g = c->own;

	file_bytes_release(&g->file);
}

static void write_facts(struct tool_call *c, const struct reading *g, size_t n)
{
	tool_shown(c, "path", g->file.path);
	json_uint(&c->out, "size", g->file.size);
	json_uint(&c->out, "offset", g->file.offset);
	json_uint(&c->out, "next", g->file.offset + n);
	json_bool(&c->out, "more", g->file.more || n < g->file.bytes.len);
}

static void answer_text(struct tool_call *c, struct reading *g)
{
	const struct buf *b = &g->file.bytes;
	struct buf text = BUF_INIT(SHOWN_TEXT_GROWTH * BYTES_MAX + 1);
	size_t n = b->len;

	if (g->file.more && n > 4)
		n = utf8_cut(b->data, n - 3, n); /* the next part begins with a whole character */
	shown_text(&text, b->data, n);
	tool_open(c);
	json_bytes(&c->out, "text", buf_text(&text), text.len);
	write_facts(c, g, n);
	tool_text(c, buf_text(&text), text.len);
	buf_release(&text);
	tool_done(c);
}

static void answer_link(struct tool_call *c, struct reading *g, const char *type)
{
	char uri[RESOURCE_URI_MAX], words[160];

	tool_open(c);
	write_facts(c, g, 0);
	json_text(&c->out, "mime_type", type);
	(void)snprintf(words, sizeof(words),
		       "Not text (%s, %llu bytes). Work on it with run, or read the resource.",
		       type, (unsigned long long)g->file.size);
	tool_text(c, words, strlen(words));
	if (resource_uri_file(c->r->session_id, g->file.path, uri))
		tool_link(c, uri, g->file.path, type);
	tool_done(c);
}

static void answer_image(struct tool_call *c, struct reading *g, const char *type)
{
	tool_open(c);
	write_facts(c, g, g->file.bytes.len);
	json_text(&c->out, "mime_type", type);
	tool_image(c, type, g->file.bytes.data, g->file.bytes.len);
	tool_done(c);
}

static void on_session(struct request *r, struct session *s);

static void on_read(struct file_bytes *f, const struct err *e)
{
	struct request *r = f->call.r;
	struct tool_call *c = tool_of(r);
	struct reading *g = c->own;
	const char *image;

	if (e != NULL) {
		reply_file_error(r, e);
		return;
	}
	image = f->offset == 0 ? file_kind_image(f->bytes.data, f->bytes.len) : NULL;
	if (image != NULL && f->more && f->size <= IMAGE_MAX && !g->again) {
		g->again = true;
		file_bytes_release(f);
		f->call = (struct file_call){ 0 };
		request_use(r, on_session);
	} else if (image != NULL && !f->more) {
		answer_image(c, g, image);
	} else if (image != NULL || file_kind_is_binary(f->bytes.data, f->bytes.len)) {
		answer_link(c, g, image != NULL ? image : "application/octet-stream");
	} else {
		answer_text(c, g);
	}
}

static void on_session(struct request *r, struct session *s)
{
	struct reading *g = tool_of(r)->own;
	struct err e = { 0 };

	g->file.max = g->again ? IMAGE_MAX : g->max;
	g->file.on_read = on_read;
	if (file_bytes_start(&g->file, r, s, &e) < 0)
		reply_file_error(r, &e);
}

static void read_file(struct tool_call *c)
{
	struct reading *g = c->own;
	struct err e = { 0 };

	g->file.offset = tool_arg_number(c, "offset", 0);
	g->max = tool_arg_number(c, "max_bytes", BYTES);
	if (tool_arg_text(c, "path", g->file.path, sizeof(g->file.path), &e) < 0)
		reply_error(c->r, &e);
	else if (tool_take_session(c))
		request_use(c->r, on_session);
}

/* clang-format off */
const struct tool tool_read_file = {
	.shown = {
		.name = "read_file",
		.title = "Read a file",
		.description =
			"Reads a file of a session: text from byte `offset` on, at most max_bytes (32768 by "
			"default, 262144 at most; `next` continues where `more` is true). Pictures up to 512 KiB "
			"come as images, other binary files as a link. For large files use run with grep, sed or "
			"a program.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {"type": "string"},
				"path": {
					"type": "string", "minLength": 1, "maxLength": 4095,
					"description": "absolute, or relative to the home directory"
				},
				"offset": {"type": "integer", "minimum": 0},
				"max_bytes": {"type": "integer", "minimum": 16, "maximum": 262144}
			},
			"required": ["session_id", "path"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"text": {"type": "string"}, "path": {"type": "string"},
				"size": {"type": "integer"}, "offset": {"type": "integer"},
				"next": {"type": "integer"}, "more": {"type": "boolean"},
				"mime_type": {"type": "string"}
			},
			"required": ["size", "more"]
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.own_size = sizeof(struct reading),
	.start = read_file,
	.release = release,
};
/* clang-format on */
