/* api_files.c - file operations in a cell: stat, list, mkdir, move, remove, whole trees as tar, and
 * a stream of changes.
 *
 * Each runs one built-in of PID 1 (file_call.h), as the requested user, and makes its records into
 * the answer. The records are untrusted: one of the wrong kind or number ends the call. Bounds of a
 * list: entries, depth, and bytes of the answer, which are counted for the tenant. */
#include <stdio.h>
#include <string.h>

#include "front/rest/api_handlers.h"
#include "front/web/file_call.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/masked.h"
#include "front/web/reply.h"
#include "front/web/sse_out.h"
#include "lib/base/str.h"
#include "lib/config/config.h"
#include "lib/json/json.h"

/* ---- trees as tar
 *
 * Whole trees as tar, out of a cell and into it. */

#define NUMBER_MAX 24
#define ENTRIES_MAX "1000000"

/* The folder to pack, or to unpack into. */
static int archive_read_path(struct request *r, char ret[FILE_MSG_PATH_MAX], struct err *e)
{
	if (request_text(r, "path", ret, FILE_MSG_PATH_MAX, e) < 0)
		return -1;
	if (ret[0] == '\0')
		return err_set(e, ERR_INVALID, "parameter path: is missing");
	return 0;
}

/* ---- out
 *
 * The built-in `tar-out` sends one entry and then the archive, whose length is unknown. So the
 * answer is chunked, and a late failure cuts it without its last chunk. */

struct packing {
	struct file_call call;
	char path[FILE_MSG_PATH_MAX], max[NUMBER_MAX];
	bool begun, ending;
	struct masked masked;
};

/* No event of the call follows. */
static void release_packing(struct request *r, bool answered)
{
	struct packing *p = r->state;

	file_call_release(&p->call);
	masked_release(&p->masked);
}

/* The entry says that the path exists. Raw bytes follow. */
static int on_pack_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	file_call_raw(c);
	return 0;
}

/* Returns the bytes that were taken. The call keeps the others until on_writable(). */
static size_t on_pack_bytes(struct file_call *c, const uint8_t *data, size_t len)
{
	struct packing *p = c->r->state;

	if (!p->begun) {
		p->begun = true;
		exchange_begin(c->r->x, 200, "application/x-tar", EXCHANGE_CHUNKED);
	}
	return masked_write(&p->masked, c->r, data, len);
}

/* The mask may have bytes left. on_writable() calls this again if the client has no room for them.
 */
static void end_packing(struct request *r, struct packing *p)
{
	p->ending = true;
	if (masked_end(&p->masked, r))
		exchange_end(r->x);
}

static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct packing *p = r->state;

	if (p->ending)
		end_packing(r, p);
	else
		file_call_resume(&p->call);
}

/* An archive has at least two empty blocks, so an end without bytes is the cell's fault. */
static void on_packed(struct file_call *c, int status, const struct err *e)
{
	struct packing *p = c->r->state;

	(void)status; /* 2: no error, but a tar cannot hold some entries */
	if (e != NULL && !p->begun)
		reply_file_error(c->r, e);
	else if (e != NULL)
		exchange_abort(c->r->x);
	else if (p->begun)
		end_packing(c->r, p);
	else
		reply_code(c->r, 500, "internal", "the cell sent no archive");
}

/* max bounds the archive's bytes in the cell. */
static void on_session_to_pack(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_pack_record,
							.on_raw = on_pack_bytes,
							.on_end = on_packed };
	struct packing *p = r->state;
	const char *argv[] = { "tar-out", p->path, p->max };
	struct err e = { 0 };

	(void)snprintf(p->max, sizeof(p->max), "%llu",
		       (unsigned long long)core_config(r->core)->disk_max);
	masked_begin(&p->masked, r, s);
	exchange_on_writable(r->x, on_writable);
	if (file_call_start(&p->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

void api_archive_get(struct request *r)
{
	struct packing *p = request_state(r, sizeof(*p), release_packing);
	struct err e = { 0 };

	if (p == NULL)
		return;
	if (archive_read_path(r, p->path, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_to_pack);
}

/* ---- in
 *
 * The body streams into the built-in `tar-in`. The archive is unpacked inside the cell. The daemon
 * never parses it. */

struct files_unpacking {
	struct file_call call;
	struct upload upload; /* second, see file_call.c */
	char path[FILE_MSG_PATH_MAX], max[NUMBER_MAX];
	struct file_msg_end end;
	bool ended;
};

static void release_unpacking(struct request *r, bool answered)
{
	struct files_unpacking *u = r->state;

	file_call_release(&u->call);
}

/* The counts, once all is unpacked. */
static int on_unpack_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct files_unpacking *u = c->r->state;

	if (m->kind != FILE_MSG_END)
		return file_call_refuse(e);
	u->end = m->end;
	u->ended = true;
	return 0;
}

static void on_unpack_room(struct file_call *c)
{
	struct files_unpacking *u = c->r->state;

	upload_room(&u->upload);
}

/* upload_finish() calls this at the end. A cell that reported no counts is at fault (500). */
static void answer_unpacking(struct file_call *c)
{
	struct files_unpacking *u = c->r->state;
	struct json j;

	if (c->failed) {
		reply_file_error(c->r, &c->why);
		return;
	}
	if (!u->ended) {
		reply_code(c->r, 500, "internal", "the cell did not report what it unpacked");
		return;
	}
	json_init_heap(&j, 1024);
	json_open(&j, NULL, '{');
	json_uint(&j, "entries", u->end.count);
	json_uint(&j, "skipped", u->end.skipped);
	json_uint(&j, "bytes", u->end.bytes);
	json_close(&j, '}');
	reply_json(c->r, 200, &j);
}

/* The answer waits for the rest of the body. */
static void on_unpacked(struct file_call *c, int status, const struct err *e)
{
	struct files_unpacking *u = c->r->state;

	(void)e; /* the call keeps it */
	upload_finish(&u->upload, answer_unpacking);
}

static void on_session_to_unpack(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_unpack_record,
							.on_room = on_unpack_room,
							.on_end = on_unpacked };
	struct files_unpacking *u = r->state;
	const char *argv[] = { "tar-in", u->path, u->max, ENTRIES_MAX };
	uint64_t max = core_config(r->core)->file_max;
	struct err e = { 0 };

	(void)snprintf(u->max, sizeof(u->max), "%llu", (unsigned long long)max);
	if (file_call_start(&u->call, r, s, argv, COUNT(argv), true, &events, &e) < 0)
		reply_file_error(r, &e);
	else
		upload_start(&u->upload, &u->call, max);
}

void api_archive_put(struct request *r)
{
	struct files_unpacking *u = request_state(r, sizeof(*u), release_unpacking);
	struct err e = { 0 };

	if (u == NULL)
		return;
	if (archive_read_path(r, u->path, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_to_unpack);
}

/* ---- watching
 *
 * Changes below a directory, as server-sent events. The answer begins when the watch
 * is there, so that a path that cannot be watched is an ordinary error. */

#define EVENT_MAX (64U << 10)

/* A watch is one built-in that runs until the client leaves. feed is the answer, call the records.
 */
struct watch {
	struct sse_out feed; /* first, see paced_stream.h */
	struct file_call call;
	char path[FILE_MSG_PATH_MAX];
	bool recursive, begun;
};

static void watch_release(struct request *r, bool answered)
{
	struct watch *w = r->state;

	sse_out_release(&w->feed);
	file_call_release(&w->call);
}

/* v NULL: the event has no members. An event that does not fit is left out. */
static void watch_send(struct watch *w, const char *name, const struct file_msg_event *v)
{
	struct json j;

	json_init_heap(&j, EVENT_MAX);
	json_open(&j, NULL, '{');
	if (v != NULL) {
		json_text(&j, "path", v->path);
		json_bool(&j, "directory", v->is_dir != 0);
	}
	if (v != NULL && v->what == FILE_MSG_RENAME)
		json_text(&j, "to", v->to[0] == '\0' ? NULL : v->to);
	json_close(&j, '}');
	if (json_ok(&j))
		sse_out_event(&w->feed, name, NULL, j.text, j.len);
	json_release(&j);
}

/* The client has taken enough: read further records. */
static void on_more(struct request *r)
{
	struct watch *w = r->state;

	file_call_resume(&w->call);
}

/* READY comes first and once, and begins the answer. An event before it is refused. */
static int watch_on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct watch *w = c->r->state;

	if (m->kind == FILE_MSG_READY && !w->begun) {
		w->begun = true;
		if (sse_out_begin(&w->feed, c->r, on_more))
			watch_send(w, "ready", NULL);
		return 0;
	}
	if (m->kind != FILE_MSG_EVENT || !w->begun)
		return file_call_refuse(e);
	if (!w->feed.paced.ended)
		watch_send(w, file_msg_what_name((enum file_msg_what)m->event.what), &m->event);
	return 0;
}

/* False: no record is read from the cell until on_more(). */
static bool is_ready(struct file_call *c)
{
	struct watch *w = c->r->state;

	return !w->begun || w->feed.paced.ended || sse_out_ready(&w->feed);
}

/* The end of the session, of the directory or of the built-in ends the stream. The client gets no
 * error then, because the answer has begun. */
static void watch_on_end(struct file_call *c, int status, const struct err *e)
{
	struct watch *w = c->r->state;

	if (!w->begun && e != NULL)
		reply_file_error(c->r, e);
	else if (!w->begun)
		reply_code(c->r, 500, "internal", "the cell did not start watching");
	else
		sse_out_end(&w->feed);
}

/* A watched session is not idle. */
static void watch_on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = watch_on_record,
							.is_ready = is_ready,
							.on_end = watch_on_end };
	struct watch *w = r->state;
	const char *argv[] = { "watch", w->path, w->recursive ? "recursive" : "-" };
	struct err e = { 0 };

	request_hold(r, s);
	if (file_call_start(&w->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

void api_watch_get(struct request *r)
{
	struct watch *w = request_state(r, sizeof(*w), watch_release);
	struct err e = { 0 };

	if (w == NULL)
		return;
	if (request_text(r, "path", w->path, sizeof(w->path), &e) < 0 ||
	    request_bool(r, "recursive", &w->recursive, &e) < 0)
		reply_error(r, &e);
	else if (w->path[0] == '\0')
		reply_code(r, 400, "invalid", "parameter path: is missing");
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, watch_on_session);
}

/* ---- files and folders
 *
 * Each route fills in struct files and calls request_use(). Then on_session() starts the built-in,
 * on_record() takes its records, and on_end() answers. */

#define ENTRY_JSON_MAX (64U << 10)
#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define LIST_JSON_MAX (15U << 20) /* names may have six characters for each byte */
#define DEPTH_MAX 64

/* The state of every operation in this section. argv points into the other members. status is the
 * answer's if all goes well. */
struct files {
	struct file_call call;
	const char *argv[FILE_CALL_ARGS_MAX];
	unsigned argc;
	bool write;
	char path[FILE_MSG_PATH_MAX], to[FILE_MSG_PATH_MAX], user[STORE_NAME_MAX];
	char mode[8], depth[NUMBER_MAX], limit[NUMBER_MAX], flags[4];
	struct json j;
	int status;
	bool list, truncated, cut, answered;
};

static void files_release(struct request *r, bool answered)
{
	struct files *f = r->state;

	file_call_release(&f->call);
	json_release(&f->j);
}

/* The first entry of a list is the directory itself. The other paths are relative to it and are
 * shown as full paths. */
static int list_entry(struct request *r, const struct file_msg_entry *entry, struct err *e)
{
	struct files *f = r->state;
	struct file_msg_entry shown = *entry;
	char path[2 * FILE_MSG_PATH_MAX];

	if (!f->answered) {
		str_copy(f->to, strcmp(entry->path, "/") == 0 ? "" : entry->path);
		return 0;
	}
	if (f->j.len > LIST_JSON_MAX) {
		f->cut = true;
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", f->to, entry->path);
	shown.path = path;
	json_view_entry(&f->j, NULL, &shown);
	if (reply_count(r, f->j.len, e) == 0)
		return 0;
	json_release(&f->j);
	return -1;
}

/* An operation answers with one entry, a list with many and an END. A made folder that existed
 * changes 201 to 200. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct files *f = c->r->state;

	if (m->kind == FILE_MSG_ENTRY && (f->list || !f->answered)) {
		if (f->list && list_entry(c->r, &m->entry, e) < 0)
			return -1;
		if (!f->list)
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

/* The one end of the operation. */
static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct files *f = c->r->state;

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
		json_bool(&f->j, "truncated", f->truncated || f->cut);
		json_close(&f->j, '}');
	}
	reply_json(c->r, f->status, &f->j);
}

/* Common to all operations: the arguments were written before. */
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

/* State for the built-in `name`. NULL: the request was answered. write: the operation changes
 * files. */
static struct files *files_begin(struct request *r, const char *name, int status, bool write)
{
	struct files *f = request_state(r, sizeof(*f), files_release);

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
	struct files *f = files_begin(r, "stat", 200, false);
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

/* The cell counts entries and depth. cut and truncated tell that the list is incomplete. */
void api_files_list(struct request *r)
{
	struct files *f = files_begin(r, "list", 200, false);
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
	struct files *f = files_begin(r, "remove", 204, true);
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

/* ---- with a body
 *
 * A reader copies the members into struct files and completes argv. The body is freed before the
 * session is used. */

/* A longer text than ret has room for fails in json_members_end(). */
static void copy_text(struct json_members *m, const char *name, char *ret, size_t cap)
{
	const char *text = NULL;

	json_members_text(m, name, cap - 1, &text);
	if (text != NULL)
		str_copy_to(ret, cap, text);
}

static void files_need(struct json_members *m, const char *name, const char *value)
{
	if (value[0] == '\0')
		(void)json_members_fail(m, name, "is missing");
}

/* The mode's form is checked here, because the cell gets it as an argument. */
static int read_mkdir(struct files *f, json_t *root, struct err *e)
{
	bool parents = false;
	struct json_members m;

	json_members_begin(&m, root, "", e);
	copy_text(&m, "path", f->path, sizeof(f->path));
	copy_text(&m, "mode", f->mode, sizeof(f->mode));
	copy_text(&m, "user", f->user, sizeof(f->user));
	json_members_bool(&m, "parents", &parents);
	files_need(&m, "path", f->path);
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
	files_need(&m, "from", f->path);
	files_need(&m, "to", f->to);
	f->argv[f->argc++] = f->path;
	f->argv[f->argc++] = f->to;
	return json_members_end(&m);
}

/* read() fills the request's state, made by files_begin(). */
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
	if (files_begin(r, "mkdir", 201, true) != NULL)
		request_body(r, on_mkdir_body);
}

void api_files_move(struct request *r)
{
	if (files_begin(r, "move", 200, true) != NULL)
		request_body(r, on_move_body);
}
