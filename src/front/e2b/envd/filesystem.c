/* filesystem.c - the calls of the filesystem service with an answer in one piece. Each is one
 * built-in of the cell, whose records become the answer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/cell_file.h"
#include "front/e2b/envd/dir_listing.h"
#include "front/e2b/envd/entry_info.h"
#include "front/e2b/envd/rpc.h"
#include "front/web/reply.h"
#include "lib/base/str.h"
#include "lib/loop/jobs.h"

#define ENTRY_JSON_MAX (64U << 10)
#define NUMBER_MAX 24
#define LIST_MAX 100000U
#define DEPTH_MAX 64U /* of the built-in */

/* The state of every call here. j is the answer, or one entry of a list. */
struct filesystem {
	struct file_call call;
	struct cell_file file;
	char path[FILE_MSG_PATH_MAX], to[FILE_MSG_PATH_MAX];
	char depth[NUMBER_MAX], limit[NUMBER_MAX];
	const struct file_call_events *events;
	bool write, begun, existed;
	struct json j;
	struct dir_listing list;
	struct job job; /* that writes the list */
	bool truncated;
};

static void fs_release(struct request *r, bool answered)
{
	struct filesystem *f = r->state;

	core_job_cancel(r->core, &f->job);
	file_call_release(&f->call);
	json_release(&f->j);
	dir_listing_release(&f->list);
}

/* write: the call changes files. */
static void on_session(struct request *r, struct session *s)
{
	struct filesystem *f = r->state;
	struct err e = { 0 };

	if (cell_file_start(&f->file, &f->call, r, s, f->write, f->events, &e) < 0)
		cell_file_fail_rpc(r, &f->file, f->path, &e);
}

static int read_path(const json_t *message, const char *name, char ret[FILE_MSG_PATH_MAX],
		     struct err *e)
{
	const char *text = "";

	if (rpc_text(message, name, &text, e) < 0)
		return -1;
	if (strlen(text) >= FILE_MSG_PATH_MAX)
		return err_set(e, ERR_INVALID, "%s: is too long", name);
	/* An empty path is the home directory, as for E2B. */
	str_copy_to(ret, FILE_MSG_PATH_MAX, text[0] == '\0' ? "." : text);
	return 0;
}

/* The state of a call on one path. NULL if it was answered. */
static struct filesystem *fs_begin(struct request *r, const json_t *message, const char *builtin,
				   const char *path, const struct file_call_events *events)
{
	struct filesystem *f = request_state(r, sizeof(*f), fs_release);
	struct err e = { 0 };

	if (f == NULL)
		return NULL;
	if (envd_user_of_rpc(r, f->file.user, &e) < 0 ||
	    read_path(message, path, f->path, &e) < 0) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
		return NULL;
	}
	f->events = events;
	cell_file_init(&f->file, builtin);
	cell_file_add(&f->file, f->path);
	return f;
}

/* ---- calls with one entry as answer */

/* A second entry is refused. */
static int on_one_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct filesystem *f = c->r->state;

	if (m->kind != FILE_MSG_ENTRY || f->begun)
		return file_call_refuse(e);
	f->begun = true;
	f->existed = (m->entry.flags & FILE_MSG_EXISTED) != 0;
	json_init_heap(&f->j, ENTRY_JSON_MAX);
	json_open(&f->j, NULL, '{');
	entry_info_shape(&f->j, "entry", &m->entry, entry_info_path(&m->entry));
	json_close(&f->j, '}');
	return 0;
}

static void on_one_end(struct file_call *c, int status, const struct err *e)
{
	struct filesystem *f = c->r->state;

	if (e != NULL)
		cell_file_fail_rpc(c->r, &f->file, f->path, e);
	else if (!f->begun)
		rpc_fail(c->r, RPC_INTERNAL, "the cell did not report a result");
	else
		rpc_reply(c->r, &f->j);
}

static const struct file_call_events one_events = { .on_record = on_one_record,
						    .on_end = on_one_end };

static void on_stat(struct request *r, json_t *message)
{
	struct filesystem *f = fs_begin(r, message, "stat", "path", &one_events);

	if (f == NULL)
		return;
	cell_file_add(&f->file, "nofollow");
	request_use(r, on_session);
}

void filesystem_stat(struct request *r)
{
	rpc_read(r, on_stat);
}

static void on_made(struct file_call *c, int status, const struct err *e)
{
	struct filesystem *f = c->r->state;

	if (e != NULL && (e->sys == EEXIST || e->sys == ENOTDIR))
		rpc_fail(c->r, RPC_INVALID_ARGUMENT,
			 "path already exists but it is not a directory: %.200s", f->path);
	else if (e == NULL && f->existed)
		rpc_fail(c->r, RPC_ALREADY_EXISTS, "directory already exists: %.200s", f->path);
	else
		on_one_end(c, status, e);
}

static void on_make_dir(struct request *r, json_t *message)
{
	static const struct file_call_events events = { .on_record = on_one_record,
							.on_end = on_made };
	struct filesystem *f = fs_begin(r, message, "mkdir", "path", &events);

	if (f == NULL)
		return;
	f->write = true;
	cell_file_add(&f->file, "-");
	cell_file_add(&f->file, "p");
	request_use(r, on_session);
}

void filesystem_make_dir(struct request *r)
{
	rpc_read(r, on_make_dir);
}

static void on_move(struct request *r, json_t *message)
{
	struct filesystem *f = fs_begin(r, message, "move", "source", &one_events);
	struct err e = { 0 };

	if (f == NULL)
		return;
	if (read_path(message, "destination", f->to, &e) < 0) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
		return;
	}
	f->write = true;
	cell_file_add(&f->file, f->to);
	cell_file_add(&f->file, "p");
	request_use(r, on_session);
}

void filesystem_move(struct request *r)
{
	rpc_read(r, on_move);
}

/* ---- remove */

/* The counts are of no interest. */
static int on_remove_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	return m->kind == FILE_MSG_END ? 0 : file_call_refuse(e);
}

/* Removing a missing path is no error. */
static void on_removed(struct file_call *c, int status, const struct err *e)
{
	struct filesystem *f = c->r->state;

	if (e != NULL && e->sys != ENOENT)
		cell_file_fail_rpc(c->r, &f->file, f->path, e);
	else
		rpc_reply_empty(c->r);
}

static void on_remove(struct request *r, json_t *message)
{
	static const struct file_call_events events = { .on_record = on_remove_record,
							.on_end = on_removed };
	struct filesystem *f = fs_begin(r, message, "remove", "path", &events);

	if (f == NULL)
		return;
	f->write = true;
	cell_file_add(&f->file, "recursive");
	request_use(r, on_session);
}

void filesystem_remove(struct request *r)
{
	rpc_read(r, on_remove);
}

/* ---- list
 *
 * Entries are collected first, then sorted and written in pieces (dir_listing.h). */

/* -1: there is no room, and everything kept is freed at once. */
static int fs_keep(struct request *r, const struct file_msg_entry *entry, struct err *e)
{
	struct filesystem *f = r->state;
	char path[2 * FILE_MSG_PATH_MAX];
	bool kept;

	(void)snprintf(path, sizeof(path), "%s/%s", f->to, entry->path);
	json_init_heap(&f->j, ENTRY_JSON_MAX);
	entry_info_shape(&f->j, NULL, entry, path);
	kept = json_ok(&f->j) && dir_listing_add(&f->list, entry->path, &f->j);
	json_release(&f->j);
	if (!kept)
		return err_set(e, ERR_LIMIT,
			       "the directory has too many entries for one answer, or "
			       "too many such lists are made at a time");
	if (reply_count(r, f->list.len, e) == 0)
		return 0;
	dir_listing_release(&f->list);
	return -1;
}

/* The first entry is the directory itself. The other paths are relative to it. */
static int on_list_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct filesystem *f = c->r->state;
	const char *path;

	if (m->kind == FILE_MSG_END) {
		f->truncated = (m->end.flags & FILE_MSG_TRUNCATED) != 0;
		return 0;
	}
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	if (f->begun)
		return fs_keep(c->r, &m->entry, e);
	f->begun = true;
	path = entry_info_path(&m->entry);
	str_copy(f->to, strcmp(path, "/") == 0 ? "" : path);
	return 0;
}

/* A short list takes one piece. */
static bool on_list_piece(struct job *job)
{
	struct request *r = job->arg;
	struct filesystem *f = r->state;

	loop_note(core_loop(r->core), "ListDir");
	if (dir_listing_piece(&f->list, &f->j))
		return true;
	dir_listing_release(&f->list); /* the client may take its time to read */
	json_close(&f->j, ']');
	json_close(&f->j, '}');
	rpc_reply(r, &f->j);
	return false;
}

/* A cut list is an error: the contract has no word for it. */
static void on_list_end(struct file_call *c, int status, const struct err *e)
{
	struct filesystem *f = c->r->state;

	if (e != NULL && e->sys == ENOENT) {
		rpc_fail(c->r, RPC_NOT_FOUND, "directory not found: %.200s", f->path);
		return;
	}
	if (e != NULL) {
		cell_file_fail_rpc(c->r, &f->file, f->path, e);
		return;
	}
	if (f->truncated) {
		rpc_fail(c->r, RPC_RESOURCE_EXHAUSTED,
			 "the directory has more than %u entries, list a part of it", LIST_MAX);
		return;
	}
	json_init_heap(&f->j, REPLY_JSON_MAX);
	json_open(&f->j, NULL, '{');
	json_open(&f->j, "entries", '[');
	f->job = (struct job){ .on_piece = on_list_piece, .arg = c->r };
	if (on_list_piece(&f->job))
		core_job_add(c->r->core, c->r->tenant, &f->job);
}

static void on_list_dir(struct request *r, json_t *message)
{
	static const struct file_call_events events = { .on_record = on_list_record,
							.on_end = on_list_end };
	struct filesystem *f = fs_begin(r, message, "list", "path", &events);
	uint32_t depth = 0;
	struct err e = { 0 };

	if (f == NULL)
		return;
	if (rpc_uint32(message, "depth", &depth, &e) < 0) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
		return;
	}
	depth = depth == 0 ? 1 : depth;
	(void)snprintf(f->depth, sizeof(f->depth), "%u", depth < DEPTH_MAX ? depth : DEPTH_MAX);
	(void)snprintf(f->limit, sizeof(f->limit), "%u", LIST_MAX);
	cell_file_add(&f->file, f->depth);
	cell_file_add(&f->file, f->limit);
	request_use(r, on_session);
}

void filesystem_list_dir(struct request *r)
{
	rpc_read(r, on_list_dir);
}
