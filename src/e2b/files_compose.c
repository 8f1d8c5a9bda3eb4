/* files_compose.c - POST /files/compose: several files of a sandbox become one. */
#include <stdio.h>
#include <string.h>

#include "e2b_private.h"
#include "cell_file.h"
#include "entry_info.h"
#include "json_members.h"
#include "reply.h"

#define SOURCES_MAX 100
#define STRINGS_MAX (48U << 10) /* bytes of all paths: they are arguments of one order to PID 1 */
#define ENTRY_JSON_MAX (64U << 10)

struct composing {
	struct file_call call;
	struct cell_file file;
	json_t *root; /* owned: the arguments point into it */
	const char *destination;
	struct json j;
	bool begun;
};

static void release(struct request *r, bool answered)
{
	struct composing *c = r->state;

	(void)answered;
	file_call_release(&c->call);
	json_release(&c->j);
	json_decref(c->root);
}

static int on_record(struct file_call *call, const struct file_msg *m, struct err *e)
{
	struct composing *c = call->r->state;

	if (m->kind != FILE_MSG_ENTRY || c->begun)
		return file_call_refuse(e);
	c->begun = true;
	json_init_heap(&c->j, ENTRY_JSON_MAX);
	entry_info_shape_written(&c->j, NULL, &m->entry);
	return 0;
}

static void on_end(struct file_call *call, int status, const struct err *e)
{
	struct composing *c = call->r->state;

	(void)status;
	if (e != NULL)
		cell_file_fail_http(call->r, &c->file, c->destination, e);
	else if (!c->begun)
		reply_code(call->r, 500, "internal", "the cell did not report a result");
	else
		reply_json(call->r, 200, &c->j);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record, .on_end = on_end };
	struct composing *c = r->state;
	struct err e = { 0 };

	if (cell_file_start(&c->file, &c->call, r, s, true, &events, &e) < 0)
		cell_file_fail_http(r, &c->file, c->destination, &e);
}

static int read_sources(struct composing *c, const json_t *sources, struct err *e)
{
	size_t i, sum = strlen(c->destination);
	const json_t *one;

	if (json_array_size(sources) == 0 || json_array_size(sources) > SOURCES_MAX)
		return err_set(e, ERR_INVALID, "source_paths: 1 to %d paths", SOURCES_MAX);
	json_array_foreach(sources, i, one)
	{
		const char *path = json_string_value(one);

		if (path == NULL || path[0] == '\0' || strlen(path) >= FILE_MSG_PATH_MAX)
			return err_set(e, ERR_INVALID, "source_paths: must be paths");
		sum += strlen(path) + 1;
		cell_file_add(&c->file, path);
	}
	if (sum > STRINGS_MAX)
		return err_set(e, ERR_INVALID, "source_paths: too long in all");
	return 0;
}

static int read_body(struct request *r, struct composing *c, const uint8_t *body, size_t len,
		     struct err *e)
{
	const char *user = NULL;
	json_t *sources;
	struct json_members m;

	c->root = json_members_parse(body, len, e);
	if (c->root == NULL)
		return -1;
	json_members_begin(&m, c->root, "", e);
	json_members_text(&m, "destination", FILE_MSG_PATH_MAX - 1, &c->destination);
	json_members_text(&m, "username", ENVD_USER_MAX - 1, &user);
	sources = json_members_array(&m, "source_paths", SOURCES_MAX);
	if (json_members_end(&m) < 0 ||
	    (user == NULL && envd_user_of_files(r, c->file.user, e) < 0))
		return -1;
	if (user != NULL)
		(void)snprintf(c->file.user, sizeof(c->file.user), "%s", user);
	if (c->destination == NULL || c->destination[0] == '\0')
		return err_set(e, ERR_INVALID, "destination: is missing");
	cell_file_init(&c->file, "join");
	cell_file_add(&c->file, c->destination);
	return read_sources(c, sources, e);
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct composing *c = request_state(r, sizeof(*c), release);
	struct err e = { 0 };

	if (c == NULL)
		return;
	if (read_body(r, c, body, len, &e) < 0)
		reply_code(r, 400, "invalid", e.msg);
	else
		request_use(r, on_session);
}

void files_compose(struct request *r)
{
	request_long_body(r, on_body);
}
