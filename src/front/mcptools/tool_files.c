/* tool_files.c - the tools `list_files`, `read_file` and `write_file`. The last one takes a whole
 * file from text or base64, or edits of one: the file is read, each old text is replaced, which
 * must be there exactly once, and the file is written again. */
#include <stdio.h>
#include <string.h>

#include "front/mcptools/file_bytes.h"
#include "front/mcptools/resource_uri.h"
#include "front/mcptools/tools.h"
#include "front/web/file_call.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "lib/base/base64.h"
#include "lib/base/buf.h"
#include "lib/base/shown_text.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/config/config.h"
#include "lib/loop/jobs.h"
#include "lib/mcp/server/json_text.h"
#include "lib/policy/glob.h"

/* ---- list_files
 *
 * The tool `list_files`: at most LISTED entries of a directory. */

#define LISTED 500U
#define LOOKED 10000U /* entries that a pattern chooses from */

/* Bytes of paths in an answer: each is shown with that of its directory, which may be long. */
#define PATHS_MAX ((size_t)256 << 10)
#define RAW_MAX (PATHS_MAX + LISTED * sizeof(struct files_entry))
#define PIECE ((size_t)16 << 10) /* bytes of paths shown at a time */

/* In `raw`, with the path and the target of a link behind it, each with its NUL. */
struct files_entry {
	uint64_t size, modified_ms;
	uint32_t type;
	uint32_t npath, ntarget; /* with the NUL */
};

struct files_listing {
	struct file_call call;
	struct job job; /* shows the arrived entries */
	char path[FILE_MSG_PATH_MAX], pattern[GLOB_MAX], depth[24], limit[24];
	char top[FILE_MSG_PATH_MAX]; /* absolute. "" before the first entry */
	bool begun, more;
	unsigned n;
	struct buf raw; /* entries to be masked */
	size_t at;	/* of raw: shown so far */
	size_t paths;	/* bytes of paths */
};

/* Runs at the end of every call, also of one that is answered. */
static void list_files_release(struct tool_call *c)
{
	struct files_listing *l = c->own;

	file_call_release(&l->call);
	core_job_cancel(c->r->core, &l->job);
	buf_release(&l->raw);
}

/* A pattern fits the name or the path below the listed directory. */
static bool is_wanted(const struct files_listing *l, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;

	if (l->pattern[0] == '\0')
		return true;
	return glob_fits(l->pattern, name, strlen(name), true) ||
	       glob_fits(l->pattern, path, strlen(path), true);
}

/* The raw buffer has room for all entries within the two bounds. */
static void list_files_take(struct files_listing *l, const struct file_msg_entry *m)
{
	const struct files_entry e = { .size = m->size,
				       .modified_ms = m->mtime_ns <= 0
							      ? 0
							      : (uint64_t)m->mtime_ns / 1000000,
				       .type = m->type,
				       .npath = (uint32_t)strlen(m->path) + 1,
				       .ntarget = (uint32_t)strlen(m->target) + 1 };

	size_t paths = strlen(l->top) + e.npath + e.ntarget;

	if (l->n == LISTED || l->paths + paths > PATHS_MAX) {
		l->more = true;
		return;
	}
	l->n++;
	l->paths += paths;
	buf_put(&l->raw, &e, sizeof(e));
	buf_put(&l->raw, m->path, e.npath);
	buf_put(&l->raw, m->target, e.ntarget);
}

/* ---- shown entries: masked, in pieces of the tenant's share */

/* Return how many bytes of paths it has shown. */
static size_t list_files_show(struct tool_call *c, const struct files_listing *l,
			      const struct files_entry *e, const char *name, const char *target)
{
	char path[2 * FILE_MSG_PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", strcmp(l->top, "/") == 0 ? "" : l->top, name);
	json_open(&c->out, NULL, '{');
	tool_shown(c, "path", path);
	json_text(&c->out, "type", file_msg_type_name((enum file_msg_type)e->type));
	if (e->type == FILE_MSG_FILE)
		json_uint(&c->out, "size", e->size);
	json_view_time(&c->out, "modified_at", e->modified_ms);
	if (target[0] != '\0')
		tool_shown(c, "target", target);
	json_close(&c->out, '}');
	return strlen(path) + e->ntarget;
}

/* True: there are more entries. The answer is written behind the last one. */
static bool list_files_on_piece(struct job *j)
{
	struct tool_call *c = j->arg;
	struct files_listing *l = c->own;
	size_t shown = 0;

	loop_note(core_loop(c->r->core), "list_files");
	while (l->at < l->raw.len && shown < PIECE) {
		const char *at = (const char *)l->raw.data + l->at;
		struct files_entry e;

		memcpy(&e, at, sizeof(e));
		at += sizeof(e);
		shown += list_files_show(c, l, &e, at, at + e.npath) + sizeof(e);
		l->at += sizeof(e) + e.npath + e.ntarget;
	}
	if (l->at < l->raw.len)
		return true;
	json_close(&c->out, ']');
	tool_shown(c, "path", l->top);
	json_bool(&c->out, "more", l->more);
	tool_done(c);
	return false;
}

/* ---- arriving entries */

/* The first entry is the directory itself. Other paths are relative to it. */
static int list_files_on_record(struct file_call *f, const struct file_msg *m, struct err *e)
{
	struct tool_call *c = tool_of(f->r);
	struct files_listing *l = c->own;

	if (m->kind == FILE_MSG_END) {
		l->more |= (m->end.flags & FILE_MSG_TRUNCATED) != 0;
		return 0;
	}
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	if (!l->begun) {
		l->begun = true;
		str_copy(l->top, m->entry.path);
	} else if (is_wanted(l, m->entry.path)) {
		list_files_take(l, &m->entry);
	}
	return 0;
}

/* All entries have arrived. They are masked and shown in jobs. */
static void list_files_on_end(struct file_call *f, int status, const struct err *e)
{
	struct tool_call *c = tool_of(f->r);
	struct files_listing *l = c->own;

	if (e != NULL) {
		reply_file_error(f->r, e);
		return;
	}
	l->job = (struct job){ .on_piece = list_files_on_piece, .arg = c };
	core_job_add(c->r->core, c->r->tenant, &l->job);
}

/* The built-in `list` sends the entries. With a pattern more of them are asked for than are shown.
 */
static void list_files_on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = list_files_on_record,
							.on_end = list_files_on_end };
	struct tool_call *c = tool_of(r);
	struct files_listing *l = c->own;
	const char *argv[] = { "list", l->path, l->depth, l->limit };
	struct err e = { 0 };

	tool_open(c);
	json_open(&c->out, "entries", '[');
	buf_init(&l->raw, RAW_MAX);
	l->call.user = FILE_CALL_USER;
	if (file_call_start(&l->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

static void list_files(struct tool_call *c)
{
	struct files_listing *l = c->own;
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
		request_use(c->r, list_files_on_session);
}

/* clang-format off */
const struct tool tool_list_files = {
	.shown = {
		.name = "list_files",
		.title = "List files",
		.description =
			"Lists a directory of a session (the home directory by default), `depth` levels deep "
			"(1 by default). pattern chooses entries by their name or path below it (`*` any text in "
			"a name, `**` also across directories), among the first 10000. At most 500 entries and 256 KiB of paths; `more` "
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
	.own_size = sizeof(struct files_listing),
	.start = list_files,
	.release = list_files_release,
};
/* clang-format on */

/* ---- read_file
 *
 * The tool `read_file`: text as text, pictures as pictures, anything else as a link to the
 * resource.
 *
 * on_session() starts the reading, on_read() looks at the first bytes and chooses the form. A
 * picture that was cut is read once more as a whole. */

#define BYTES 32768 /* by default */
#define BYTES_MAX (256U << 10)
#define IMAGE_MAX (512U << 10)

/* The state of the call. max: bytes that the client asked for. */
struct files_reading {
	struct file_bytes file;
	uint64_t max;
	bool again; /* a picture is being read whole */
};

static void read_file_release(struct tool_call *c)
{
	struct files_reading *g = c->own;

	file_bytes_release(&g->file);
}

/* n: bytes shown. The next part begins behind them. */
static void write_facts(struct tool_call *c, const struct files_reading *g, size_t n)
{
	tool_shown(c, "path", g->file.path);
	json_uint(&c->out, "size", g->file.size);
	json_uint(&c->out, "offset", g->file.offset);
	json_uint(&c->out, "next", g->file.offset + n);
	json_bool(&c->out, "more", g->file.more || n < g->file.bytes.len);
}

static void answer_text(struct tool_call *c, struct files_reading *g)
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

/* The content is not shown, so n is 0. */
static void answer_link(struct tool_call *c, struct files_reading *g, const char *type)
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

static void answer_image(struct tool_call *c, struct files_reading *g, const char *type)
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
	struct files_reading *g = c->own;
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
	struct files_reading *g = tool_of(r)->own;
	struct err e = { 0 };

	g->file.max = g->again ? IMAGE_MAX : g->max;
	g->file.on_read = on_read;
	if (file_bytes_start(&g->file, r, s, &e) < 0)
		reply_file_error(r, &e);
}

/* The schema has the bounds of both numbers. */
static void read_file(struct tool_call *c)
{
	struct files_reading *g = c->own;
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
	.own_size = sizeof(struct files_reading),
	.start = read_file,
	.release = read_file_release,
};
/* clang-format on */

/* ---- write_file
 *
 * read_content() takes the arguments. Edits need the old file first: read_old(), then on_piece()
 * for each edit. write_content() is the last step of both ways. */

struct files_writing {
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

static struct files_writing *write_file_own(const struct request *r)
{
	return tool_of(r)->own;
}

/* No event of either call follows. */
static void write_file_release(struct tool_call *c)
{
	struct files_writing *w = c->own;

	core_job_cancel(c->r->core, &w->job);
	file_bytes_release(&w->old);
	file_call_release(&w->call);
	buf_release(&w->content);
}

/* ---- writing
 *
 * The content goes to the built-in `write` in chunks, as its input has room. */

/* The entry comes when the file is in place. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	write_file_own(c->r)->existed = (m->entry.flags & FILE_MSG_EXISTED) != 0;
	return 0;
}

/* Called at the start, and again for each piece of room. */
static void send_content(struct files_writing *w)
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
	struct files_writing *w = write_file_own(c->r);

	if (chunk_writer_room(&w->out))
		send_content(w);
}

/* The one end of a writing. */
static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct request *r = c->r;
	struct tool_call *t = tool_of(r);
	struct files_writing *w = write_file_own(r);

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
	struct files_writing *w = write_file_own(r);
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

/* -1 leaves *content as it was. e tells the model how to correct the edit. */
static int write_file_edit(struct buf *content, struct json_span old, struct json_span new,
			   size_t at, struct err *e)
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
	struct files_writing *w = write_file_own(r);
	const struct json_node *edits = json_tree_get(tool_of(r)->q.arguments, "edits");
	const struct json_node *v = w->next_edit;
	struct err e = { 0 };

	if (write_file_edit(&w->content, json_tree_get_text(v, "old"), json_tree_get_text(v, "new"),
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

/* The bytes are plain. No part of them is shown to the client. */
static void on_old(struct file_bytes *f, const struct err *why)
{
	struct request *r = f->call.r;
	struct files_writing *w = write_file_own(r);
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

/* A file beyond the bound is refused by on_old(). */
static void read_old(struct request *r, struct session *s)
{
	struct files_writing *w = write_file_own(r);
	struct err e = { 0 };

	w->old.max = FILE_BYTES_MAX;
	w->old.plain = true;
	w->old.on_read = on_old;
	if (file_bytes_start(&w->old, r, s, &e) < 0)
		reply_file_error(r, &e);
}

/* ---- the arguments
 *
 * The schema cannot say that exactly one of three members is needed. */

/* Only strict base64. */
static int write_file_decode(struct files_writing *w, struct json_span coded, struct err *e)
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

static int read_content(struct tool_call *c, struct files_writing *w, struct err *e)
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
		return write_file_decode(w, coded, e);
	return text.p == NULL ? 0 : buf_add(&w->content, text.p, text.n, e);
}

static void write_file(struct tool_call *c)
{
	struct files_writing *w = c->own;
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
	.own_size = sizeof(struct files_writing),
	.start = write_file,
	.release = write_file_release,
};
/* clang-format on */
