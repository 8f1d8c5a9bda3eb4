#include "front/mcptools/resources.h"

#include <stdio.h>
#include <string.h>

#include "front/mcptools/file_bytes.h"
#include "front/mcptools/resource_uri.h"
#include "front/mcptools/tools.h"
#include "front/web/auth.h"
#include "front/web/mcp_front.h"
#include "front/web/reply.h"
#include "lib/base/base64.h"
#include "lib/base/shown_text.h"
#include "lib/base/str.h"
#include "lib/mcp/server/mcp_write.h"

/* Sessions in a list, and bytes of it. */
#define LISTED 1000
#define LIST_MAX (1U << 20)

const struct mcp_resource resources_templates[RESOURCES_TEMPLATES] = {
	{ "cordon://sessions/{id}", "session", "A session", "state, limits and usage of a session",
	  "application/json" },
	{ "cordon://sessions/{id}/files/{+path}", "file", "A file of a session",
	  "the first 1 MiB of a file; the path is absolute, without its first slash", NULL },
	{ "cordon://sessions/{id}/executions/{execution}/output", "output", "Output of a command",
	  "the first 64 KiB that a command wrote", "text/plain" },
	{ "cordon://sessions/{id}/changes", "changes", "Changed files of a session",
	  "files that it added, changed and deleted, at most 500", "application/json" },
};

/* ---- list
 *
 * One answer without pages: sessions beyond LISTED are left out. */

struct resource_listing {
	struct json *j;
	unsigned n;
};

/* Sessions that end are not listed. */
static void resources_see(struct session *s, void *arg)
{
	const struct store_session *row = session_row(s);
	struct resource_listing *l = arg;
	char text[REQUEST_ID_MAX + 32];

	if (row->id[0] == '\0' || row->state >= SESSION_ENDING || l->n++ >= LISTED)
		return;
	json_open(l->j, NULL, '{');
	(void)snprintf(text, sizeof(text), "cordon://sessions/%s", row->id);
	json_text(l->j, "uri", text);
	json_text(l->j, "name", row->id);
	(void)snprintf(text, sizeof(text), "session of template %.60s", row->template);
	json_text(l->j, "description", text);
	json_text(l->j, "mimeType", "application/json");
	json_close(l->j, '}');
}

static void send_json(struct tool_call *c, struct json *j)
{
	if (json_ok(j))
		exchange_reply(c->r->x, 200, "application/json", j->text, j->len);
	else
		exchange_reply(c->r->x, 500, NULL, "", 0);
}

void resources_list(struct tool_call *c)
{
	struct json j;
	struct resource_listing l = { .j = &j };

	json_init_heap(&j, LIST_MAX);
	mcp_write_result(&j, &c->server, &c->q);
	json_open(&j, "resources", '[');
	session_each(c->r->core, c->r->tenant, resources_see, &l);
	json_close(&j, ']');
	mcp_write_cache(&j, &c->q, 0, false);
	mcp_write_result_end(&j);
	send_json(c, &j);
	json_release(&j);
}

/* ---- read
 *
 * The content of a resource is the answer of a tool, which tool_done() and mcptools_fail() bring
 * here. */

/* member: "text", or "blob" for base64. */
static void write_content(struct tool_call *c, const char *type, const char *member,
			  const void *text, size_t n)
{
	if (c->done)
		return; /* cancelled in between */
	json_release(&c->answer);
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_result(&c->answer, &c->server, &c->q);
	json_open(&c->answer, "contents", '[');
	json_open(&c->answer, NULL, '{');
	json_bytes(&c->answer, "uri", c->q.name.p, c->q.name.n);
	json_text(&c->answer, "mimeType", type);
	json_bytes(&c->answer, member, text, n);
	json_close(&c->answer, '}');
	json_close(&c->answer, ']');
	mcp_write_cache(&c->answer, &c->q, 0, false);
	mcp_write_result_end(&c->answer);
	tool_send(c);
}

void resources_done(struct tool_call *c)
{
	if (c->plain.data != NULL || c->out.len <= 2)
		write_content(c, "text/plain", "text", buf_text(&c->plain), c->plain.len);
	else
		write_content(c, "application/json", "text", c->out.text, c->out.len);
}

/* A missing resource has a code of its own in the protocol. */
void resources_failed(struct tool_call *c, const struct failure *f)
{
	struct mcp_fault why = { 0 };

	if (c->done)
		return;
	if (f->status == 404 || f->status == 410)
		IGNORED(mcp_fault_resource(&why, c->q.name), "sent");
	else
		IGNORED(mcp_fault_set(&why,
				      f->status >= 500 ? MCP_INTERNAL_ERROR : MCP_INVALID_PARAMS,
				      "%s", f->message),
			"sent");
	json_init_heap(&c->answer, TOOL_RESULT_MAX);
	mcp_write_error(&c->answer, &c->q, &why);
	c->status = mcp_fault_status(&c->q, &why);
	tool_send(c);
}

/* ---- a file
 *
 * The one resource that no tool makes. It is a tool without a name. */

struct file_read {
	struct file_bytes file;
};

static void resources_release(struct tool_call *c)
{
	struct file_read *f = c->own;

	file_bytes_release(&f->file);
}

/* Text is shown with its control characters visible, anything else in base64. */
static void on_read(struct file_bytes *f, const struct err *e)
{
	struct tool_call *c = tool_of(f->call.r);
	struct buf text = BUF_INIT(2 * FILE_BYTES_MAX);
	const char *image;
	OWN_MEM char *coded = NULL;

	if (e != NULL) {
		reply_file_error(c->r, e);
		return;
	}
	image = file_kind_image(f->bytes.data, f->bytes.len);
	if (image == NULL && !file_kind_is_binary(f->bytes.data, f->bytes.len)) {
		(void)shown_text_head(&text, f->bytes.data, f->bytes.len, 2 * FILE_BYTES_MAX - 1);
		write_content(c, "text/plain", "text", buf_text(&text), text.len);
		buf_release(&text);
		return;
	}
	coded = malloc(BASE64_LENGTH(f->bytes.len) + 1);
	if (coded == NULL) {
		tool_failed(c, "out of memory");
		return;
	}
	base64_encode(f->bytes.data, f->bytes.len, coded);
	write_content(c, image != NULL ? image : "application/octet-stream", "blob", coded,
		      strlen(coded));
}

static void on_session(struct request *r, struct session *s)
{
	struct file_read *f = tool_of(r)->own;
	struct err e = { 0 };

	if (file_bytes_start(&f->file, r, s, &e) < 0)
		reply_file_error(r, &e);
}

/* The path comes from the URI, not from arguments. */
static void read_file(struct tool_call *c)
{
	struct file_read *f = c->own;
	struct resource_uri u;

	resource_uri_read(c->q.name, &u);
	str_copy(f->file.path, u.path);
	str_copy(c->r->session_id, u.session);
	f->file.max = FILE_BYTES_MAX;
	f->file.on_read = on_read;
	if (auth_may_use_session(c->r)) /* or it has answered */
		request_use(c->r, on_session);
}

/* Not listed as a tool. */
static const struct tool resource_file = { .scope = TENANT_READ,
					   .own_size = sizeof(struct file_read),
					   .start = read_file,
					   .release = resources_release };

/* ---- by its URI
 *
 * set_arguments() writes the arguments that the tool would get from a client. */

static int set_arguments(struct tool_call *c, const struct resource_uri *u, struct err *e)
{
	int n = u->kind == RESOURCE_OUTPUT
			? snprintf(c->made, sizeof(c->made),
				   "{\"execution_id\":\"%s\",\"max_bytes\":65536}", u->execution)
			: snprintf(c->made, sizeof(c->made), "{\"session_id\":\"%s\"}", u->session);

	if (json_tree_read(&c->made_tree, c->made, (size_t)n, &json_tree_default, e) < 0)
		return -1;
	c->q.arguments = json_tree_root(&c->made_tree);
	return 0;
}

void resources_read(struct tool_call *c)
{
	static const struct tool *const by_kind[] = { [RESOURCE_SESSION] = &tool_session_info,
						      [RESOURCE_FILE] = &resource_file,
						      [RESOURCE_OUTPUT] = &tool_read_output,
						      [RESOURCE_CHANGES] = &tool_get_changes };
	struct mcp_fault f = { 0 };
	struct resource_uri u;
	struct err e = { 0 };

	resource_uri_read(c->q.name, &u);
	if (u.kind == RESOURCE_NONE) {
		IGNORED(mcp_fault_resource(&f, c->q.name), "sent");
		mcp_front_refuse(c->r, &c->q, &f);
		return;
	}
	c->resource = true;
	if (set_arguments(c, &u, &e) < 0)
		reply_error(c->r, &e);
	else
		tool_start(c, by_kind[u.kind]);
}
