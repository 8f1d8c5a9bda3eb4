/* api_files.c - operations on files that are answered in one piece: stat, list, mkdir, move,
 * remove. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "file_call.h"
#include "json.h"
#include "json_members.h"
#include "reply.h"
#include "json_view.h"

#define ENTRY_JSON_MAX (64U << 10)
#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define DEPTH_MAX 64
#define NUMBER_MAX 24

struct files {
	struct file_call call;
	const char *argv[FILE_CALL_ARGS_MAX];
	unsigned argc;
	bool write;
	char path[FILE_MSG_PATH_MAX], to[FILE_MSG_PATH_MAX], user[STORE_NAME_MAX];
	char mode[8], depth[NUMBER_MAX], limit[NUMBER_MAX], flags[4];
	struct json j;
	int status;
	bool list, truncated, answered;
};

static void release(struct request *r, bool answered)
{
	struct files *f = r->state;

	(void)answered;
	file_call_release(&f->call);
	json_release(&f->j);
}

/* The first entry of a list is the directory itself; the paths of the others are relative to it and
 * are shown as full paths. */
static void list_entry(struct files *f, const struct file_msg_entry *entry)
{
	struct file_msg_entry shown = *entry;
	char path[2 * FILE_MSG_PATH_MAX];

	if (!f->answered) {
		(void)snprintf(f->to, sizeof(f->to), "%s",
			       strcmp(entry->path, "/") == 0 ? "" : entry->path);
		return;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", f->to, entry->path);
	shown.path = path;
	json_view_entry(&f->j, NULL, &shown);
}

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct files *f = c->r->state;

	if (m->kind == FILE_MSG_ENTRY && (f->list || !f->answered)) {
		if (f->list)
			list_entry(f, &m->entry);
		else
			json_view_entry(&f->j, NULL, &m->entry);
		if (f->status == 201 && (m->entry.flags & FILE_MSG_EXISTED) != 0)
			f->status = 200;
		f->answered = true;
		return 0;
	}
	if (m->kind == FILE_MSG_END) {
		f->truncated = (m->end.flags & FILE_MSG_TRUNCATED) != 0;
		return 0;
	}
	return file_call_refuse(e);
}

static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct files *f = c->r->state;

	(void)status;
	if (e != NULL) {
		reply_file_error(c->r, e);
		return;
	}
	if (f->status == 204) {
		reply_empty(c->r, 204);
		return;
	}
	if (f->list) {
		json_close(&f->j, ']');
		json_bool(&f->j, "truncated", f->truncated || !json_ok(&f->j));
		json_close(&f->j, '}');
	}
	reply_json(c->r, f->status, &f->j);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record, .on_end = on_end };
	struct files *f = r->state;
	struct err e = { 0 };

	json_init_heap(&f->j, f->list ? REPLY_JSON_MAX : ENTRY_JSON_MAX);
	if (f->list) {
		json_open(&f->j, NULL, '{');
		json_open(&f->j, "entries", '[');
	}
	f->call.user = f->user[0] == '\0' ? NULL : f->user;
	if (file_call_start(&f->call, r, s, f->argv, f->argc, f->write, &events, &e) < 0)
		reply_file_error(r, &e);
}

static struct files *begin(struct request *r, const char *name, int status, bool write)
{
	struct files *f = request_state(r, sizeof(*f), release);

	if (f == NULL)
		return NULL;
	f->argv[f->argc++] = name;
	f->status = status;
	f->write = write;
	return f;
}

static int read_path(struct request *r, char ret[FILE_MSG_PATH_MAX], struct err *e)
{
	if (request_text(r, "path", ret, FILE_MSG_PATH_MAX, e) < 0)
		return -1;
	if (ret[0] == '\0')
		return err_set(e, ERR_INVALID, "parameter path: is missing");
	return 0;
}

void api_files_stat(struct request *r)
{
	struct files *f = begin(r, "stat", 200, false);
	bool follow = false;
	struct err e = { 0 };

	if (f == NULL)
		return;
	if (read_path(r, f->path, &e) < 0 || request_bool(r, "follow", &follow, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	f->argv[f->argc++] = f->path;
	if (!follow)
		f->argv[f->argc++] = "nofollow";
	request_use(r, on_session);
}

void api_files_list(struct request *r)
{
	struct files *f = begin(r, "list", 200, false);
	uint64_t depth = 1, limit = LIST_DEFAULT;
	struct err e = { 0 };

	if (f == NULL)
		return;
	if (read_path(r, f->path, &e) < 0 ||
	    request_number(r, "depth", 1, DEPTH_MAX, &depth, &e) < 0 ||
	    request_number(r, "limit", 1, LIST_MAX, &limit, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	f->list = true;
	(void)snprintf(f->depth, sizeof(f->depth), "%llu", (unsigned long long)depth);
	(void)snprintf(f->limit, sizeof(f->limit), "%llu", (unsigned long long)limit);
	f->argv[f->argc++] = f->path;
	f->argv[f->argc++] = f->depth;
	f->argv[f->argc++] = f->limit;
	request_use(r, on_session);
}

void api_files_delete(struct request *r)
{
	struct files *f = begin(r, "remove", 204, true);
	bool recursive = false;
	struct err e = { 0 };

	if (f == NULL)
		return;
	if (read_path(r, f->path, &e) < 0 || request_bool(r, "recursive", &recursive, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	f->argv[f->argc++] = f->path;
	f->argv[f->argc++] = recursive ? "recursive" : "-";
	request_use(r, on_session);
}

/* ---- with a body */

static void copy_text(struct json_members *m, const char *name, char *ret, size_t cap)
{
	const char *text = NULL;

	json_members_text(m, name, cap - 1, &text);
	if (text != NULL)
		(void)snprintf(ret, cap, "%s", text);
}

static void need(struct json_members *m, const char *name, const char *value)
{
	if (value[0] == '\0')
		(void)json_members_fail(m, name, "is missing");
}

static int read_mkdir(struct files *f, json_t *root, struct err *e)
{
	bool parents = false;
	struct json_members m;

	json_members_begin(&m, root, "", e);
	copy_text(&m, "path", f->path, sizeof(f->path));
	copy_text(&m, "mode", f->mode, sizeof(f->mode));
	copy_text(&m, "user", f->user, sizeof(f->user));
	json_members_bool(&m, "parents", &parents);
	need(&m, "path", f->path);
	if (f->mode[strspn(f->mode, "01234567")] != '\0' || strlen(f->mode) > 4)
		(void)json_members_fail(&m, "mode", "must be octal digits like 0755");
	f->argv[f->argc++] = f->path;
	f->argv[f->argc++] = f->mode[0] == '\0' ? "-" : f->mode;
	f->argv[f->argc++] = parents ? "p" : "-";
	return json_members_end(&m);
}

static int read_move(struct files *f, json_t *root, struct err *e)
{
	struct json_members m;

	json_members_begin(&m, root, "", e);
	copy_text(&m, "from", f->path, sizeof(f->path));
	copy_text(&m, "to", f->to, sizeof(f->to));
	copy_text(&m, "user", f->user, sizeof(f->user));
	need(&m, "from", f->path);
	need(&m, "to", f->to);
	f->argv[f->argc++] = f->path;
	f->argv[f->argc++] = f->to;
	return json_members_end(&m);
}

static void with_body(struct exchange *x, const uint8_t *body, size_t len,
		      int (*read)(struct files *f, json_t *root, struct err *e))
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	int done = root == NULL ? -1 : read(r->state, root, &e);

	json_decref(root);
	if (done < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

static void on_mkdir_body(struct exchange *x, const uint8_t *body, size_t len)
{
	with_body(x, body, len, read_mkdir);
}

static void on_move_body(struct exchange *x, const uint8_t *body, size_t len)
{
	with_body(x, body, len, read_move);
}

void api_files_mkdir(struct request *r)
{
	if (begin(r, "mkdir", 201, true) != NULL)
		request_body(r, on_mkdir_body);
}

void api_files_move(struct request *r)
{
	if (begin(r, "move", 200, true) != NULL)
		request_body(r, on_move_body);
}
