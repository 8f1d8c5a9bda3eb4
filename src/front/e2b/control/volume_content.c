/* volume_content.c - access to a volume, and its entries: read, written, listed, made, looked up,
 * changed, removed, by /volumecontent/{volume}/dir and /path. The work is done by cordon-storage.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/disk/layers.h"
#include "daemon/volumes/content_call.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/base/rfc3339.h"
#include "front/e2b/control/volume_token.h"
#include "front/web/body_feed.h"
#include "front/web/file_audit.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/config/config.h"
#include "lib/json/json.h"

/* ---- access
 *
 * What the requests for a volume's content have in common: the token, parameters, and how an entry
 * and a failure are written.
 *
 * volume_access() comes first in every handler, then volume_access_params(), then
 * volume_content_start(). The answer follows from the events of the call. */

#define ENTRY_JSON_MAX (64U << 10)
#define ROOM_LEAST (1U << 20)

/* The only part of the contract whose code is a text. */
static void volume_access_report(struct request *r, const struct failure *f)
{
	char text[256 + 6 * sizeof(((struct err *)NULL)->msg)], code[8];
	struct json j;

	(void)snprintf(code, sizeof(code), "%d", f->status);
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_text(&j, "code", code);
	json_text(&j, "message", f->message);
	json_close(&j, '}');
	exchange_reply(r->x, f->status, "application/json", j.text, j.len);
}

static const struct dialect content_dialect = { .interface = "e2b", .fail = volume_access_report };

/* ---- the token */

/* *ret is the text behind "Bearer ". */
static bool volume_access_bearer(const struct request *r, struct http1_span *ret)
{
	static const char scheme[] = "Bearer ";
	const struct http1_request *q = exchange_request(r->x);

	if (http1_find(q->headers, q->headers_n, "authorization", ret) != 1 ||
	    ret->n < sizeof(scheme) || strncasecmp(ret->p, scheme, sizeof(scheme) - 1) != 0)
		return false;
	ret->p += sizeof(scheme) - 1;
	ret->n -= sizeof(scheme) - 1;
	return true;
}

/* Check the token of the request and find the volume of its path. From now on the request
 * belongs to the volume's tenant. False: it was answered. */
static bool volume_access(struct request *r, struct store_volume *ret)
{
	char key[STORE_ID_MAX];
	struct http1_span token;
	struct err e = { 0 };
	int found;

	r->dialect = &content_dialect;
	if (!volume_access_bearer(r, &token)) {
		reply_code(r, 401, "unauthorized", "the token of the volume is missing");
		return false;
	}
	/* No difference is made between a volume that does not exist and a wrong token. */
	found = store_volume_get(core_store(r->core), r->id, ret, &e);
	if (found < 0 && e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	if (found < 0 || ret->state != STORE_VOLUME_READY ||
	    !volume_token_check(&e2b_of(r)->key, ret, core_now_ms(), token, key)) {
		reply_code(r, 401, "unauthorized", "the token of the volume is not valid");
		return false;
	}
	r->tenant = tenant_of_key(r->core, key, &r->scopes, &r->grant, &e);
	if (r->tenant == NULL && e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	if (r->tenant == NULL) {
		reply_code(r, 401, "unauthorized", "the key that the token was made for has ended");
		return false;
	}
	if (tenant_check(r->tenant, &e) < 0 || request_count(r, &e) < 0) {
		reply_error(r, &e);
		return false;
	}
	exchange_set_account(r->x, tenant_account(r->tenant), true);
	return true;
}

/* ---- parameters */

/* Make a path clean: it begins with '/' and has no empty, "." or ".." component. None leads out of
 * the root. ERR_INVALID: empty, or too long. Pure. */
static int volume_access_clean(const char *path, char ret[CONTENT_PATH_MAX], struct err *e)
{
	size_t len = 0;

	if (*path == '\0')
		return err_set(e, ERR_INVALID, "path: is missing");
	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (len > 0 && ret[--len] != '/')
				;
		} else if (n > 0 && (n != 1 || *path != '.')) {
			if (len + n + 2 > CONTENT_PATH_MAX)
				return err_set(e, ERR_INVALID, "path: is too long");
			ret[len++] = '/';
			memcpy(ret + len, path, n);
			len += n;
		}
		path += n + (path[n] == '/');
	}
	if (len == 0)
		ret[len++] = '/';
	ret[len] = '\0';
	return 0;
}

/* Put it on record, and begin. Looking up and listing are not recorded, as in sessions. */
static int volume_content_start(struct request *r, struct content_call *c,
				const struct store_volume *v, const struct storage_content *s,
				const struct content_call_events *events, struct err *e)
{
	static const char *const ops[STORAGE_CONTENT_WHATS] = {
		[STORAGE_CONTENT_MAKE] = "make",     [STORAGE_CONTENT_CHANGE] = "change",
		[STORAGE_CONTENT_REMOVE] = "remove", [STORAGE_CONTENT_READ] = "read",
		[STORAGE_CONTENT_WRITE] = "write",
	};

	if (ops[s->what] != NULL && file_audit_volume(r, v, ops[s->what], s->path, e) < 0)
		return -1;
	return content_call_start(c, r->core, v, s, events, e);
}

/* *ret is STORAGE_CONTENT_UNSET if the parameter is absent. */
static int read_number(struct request *r, const char *name, uint64_t max, uint32_t *ret,
		       struct err *e)
{
	uint64_t value = STORAGE_CONTENT_UNSET;

	if (request_number(r, name, 0, max, &value, e) < 0)
		return -1;
	*ret = (uint32_t)value;
	return 0;
}

/* The parameters path, uid, gid, mode and force, into r. path is made clean. ERR_INVALID. */
static int volume_access_params(struct request *r, struct storage_content *ret, struct err *e)
{
	char path[CONTENT_PATH_MAX];
	bool force = false;

	if (request_text(r, "path", path, sizeof(path), e) < 0 ||
	    volume_access_clean(path, ret->path, e) < 0 ||
	    read_number(r, "uid", STORAGE_CONTENT_ID_MAX, &ret->uid, e) < 0 ||
	    read_number(r, "gid", STORAGE_CONTENT_ID_MAX, &ret->gid, e) < 0 ||
	    read_number(r, "mode", 07777, &ret->mode, e) < 0 ||
	    request_bool(r, "force", &force, e) < 0)
		return -1;
	ret->flags = force ? STORAGE_CONTENT_FORCE : 0;
	return 0;
}

/* ---- answers
 *
 * Entries and failures are written alike for all operations. */

static void shape_time(struct json *j, const char *name, int64_t ns)
{
	char text[RFC3339_MAX];

	rfc3339_write(ns < 0 ? 0 : (uint64_t)ns / 1000000, text);
	json_text(j, name, text);
}

/* The entry comes from cordon-storage. Its texts may be any bytes, and the writer escapes them. */
static void volume_access_shape(struct json *j, const struct content_entry *e)
{
	static const char *const types[CONTENT_TYPES] = { [CONTENT_UNKNOWN] = "unknown",
							  [CONTENT_FILE] = "file",
							  [CONTENT_DIRECTORY] = "directory",
							  [CONTENT_SYMLINK] = "symlink" };
	const char *slash = strrchr(e->path, '/');

	json_open(j, NULL, '{');
	json_text(j, "name", slash == NULL || slash[1] == '\0' ? "/" : slash + 1);
	json_text(j, "type", types[e->type]);
	json_text(j, "path", e->path);
	json_uint(j, "size", e->size);
	json_uint(j, "mode", e->mode);
	json_uint(j, "uid", e->uid);
	json_uint(j, "gid", e->gid);
	shape_time(j, "atime", e->atime_ns);
	shape_time(j, "mtime", e->mtime_ns);
	shape_time(j, "ctime", e->ctime_ns);
	if (e->type == CONTENT_SYMLINK)
		json_text(j, "target", e->target);
	json_close(j, '}');
}

/* Status by errno. Exceptions of one operation come first. 0: any operation. */
static const struct {
	int sys, status;
	uint32_t what;
} statuses[] = {
	{ EISDIR, 404, STORAGE_CONTENT_READ },
	{ EINVAL, 400, STORAGE_CONTENT_REMOVE },
	{ ENOENT, 404, 0 },
	{ ENOTDIR, 400, 0 },
	{ EISDIR, 409, 0 },
	{ EEXIST, 409, 0 },
	{ ENOTEMPTY, 409, 0 },
	{ EBUSY, 409, 0 },
	{ ELOOP, 400, 0 },
	{ EINVAL, 400, 0 },
	{ ENAMETOOLONG, 400, 0 },
	{ EACCES, 403, 0 },
	{ EPERM, 403, 0 },
	{ EROFS, 403, 0 },
	{ ENOSPC, 507, 0 },
	{ EDQUOT, 507, 0 },
	{ EFBIG, 413, 0 },
};

/* A volume whose disk is full has errors of its device, or has become read-only by one. */
static bool is_full(const struct request *r, const struct err *e)
{
	struct err ignored;

	return e->reason == REASON_NONE && (e->sys == EIO || e->sys == EROFS) &&
	       layers_check_reserve(core_layers(r->core), ROOM_LEAST, &ignored) < 0;
}

/* Answer a failed operation. what: enum storage_content_what. */
static void volume_access_fail(struct request *r, uint32_t what, const struct err *e)
{
	if (is_full(r, e)) {
		reply_code(r, 507, "storage_full", e->msg);
		return;
	}
	if (e->reason == REASON_NONE && e->code != ERR_CONFLICT)
		for (size_t i = 0; i < COUNT(statuses); i++)
			if (statuses[i].sys == e->sys &&
			    (statuses[i].what == 0 || statuses[i].what == what)) {
				reply_code(r, statuses[i].status, "content", e->msg);
				return;
			}
	if (e->reason == REASON_NONE && e->code == ERR_LIMIT && what == STORAGE_CONTENT_LIST)
		reply_code(r, 400, "invalid", e->msg);
	else
		reply_error(r, e);
}

/* ---- files
 *
 * Files of a volume, read and written by /volumecontent/{volume}/file. Bytes are
 * passed on between the client and cordon-storage in bounded pieces, as fast as the slower of the
 * two. */

/* ---- out
 *
 * cordon-storage sends one entry and then the bytes. The answer begins with their length. */

/* left: bytes that the client has not been given. */
struct volume_content_reading {
	struct content_call call;
	bool begun, sized; /* sized: there are bytes, so the answer has begun */
	uint64_t left;
};

static void release_reading(struct request *r, bool answered)
{
	struct volume_content_reading *g = r->state;

	content_call_cancel(&g->call);
}

/* The answer has no use for the entry. */
static int on_read_entry(struct content_call *c, const struct content_entry *entry, struct err *e)
{
	return 0;
}

/* An empty file is answered at the end. */
static void on_data_begins(struct content_call *c, uint64_t len)
{
	const struct request *r = c->arg;
	struct volume_content_reading *g = r->state;

	g->begun = true;
	g->left = len;
	g->sized = len > 0;
	if (g->sized)
		exchange_begin(r->x, 200, "application/octet-stream", len);
}

/* Returns what fits, and on_writable() asks for the rest. */
static size_t on_data(struct content_call *c, const uint8_t *data, size_t len)
{
	const struct request *r = c->arg;
	struct volume_content_reading *g = r->state;
	size_t n = exchange_write(r->x, data, len);

	g->left -= n;
	return n;
}

static void on_writable(struct exchange *x)
{
	struct volume_content_reading *g = request_of(x)->state;

	content_call_resume(&g->call);
}

/* Missing bytes cut the connection, as the length was promised. */
static void on_read_end(struct content_call *c, const struct err *e)
{
	struct request *r = c->arg;
	const struct volume_content_reading *g = r->state;

	if (!g->begun && e != NULL)
		volume_access_fail(r, STORAGE_CONTENT_READ, e);
	else if (!g->begun || g->left > 0)
		exchange_abort(r->x);
	else if (g->sized)
		exchange_end(r->x);
	else /* an empty file */
		exchange_reply(r->x, 200, "application/octet-stream", "", 0);
}

void volume_file_read(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_read_entry,
							   .on_data_begins = on_data_begins,
							   .on_data = on_data,
							   .on_end = on_read_end };
	struct storage_content s = { .what = STORAGE_CONTENT_READ, .depth = 1 };
	struct store_volume v;
	struct volume_content_reading *g;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return;
	g = request_state(r, sizeof(*g), release_reading);
	if (g == NULL)
		return;
	g->call.arg = r;
	exchange_on_writable(r->x, on_writable);
	if (volume_access_params(r, &s, &e) < 0 ||
	    volume_content_start(r, &g->call, &v, &s, &events, &e) < 0)
		reply_error(r, &e);
}

/* ---- in
 *
 * body_feed passes the body to the call at its pace, and answers when both have ended. */

/* j gets the entry of the new file. */
struct volume_content_writing {
	struct body_feed body; /* first */
	struct content_call call;
	struct json j;
};

static void release_writing(struct request *r, bool answered)
{
	struct volume_content_writing *w = r->state;

	content_call_cancel(&w->call);
	json_release(&w->j);
}

static void volume_file_answer(struct request *r, const struct err *e)
{
	struct volume_content_writing *w = r->state;

	if (e != NULL)
		volume_access_fail(r, STORAGE_CONTENT_WRITE, e);
	else
		reply_json(r, 201, &w->j);
}

static int on_written_entry(struct content_call *c, const struct content_entry *entry,
			    struct err *e)
{
	const struct request *r = c->arg;
	struct volume_content_writing *w = r->state;

	volume_access_shape(&w->j, entry);
	return 0;
}

static void on_room(struct content_call *c)
{
	body_feed_on_room(c->arg);
}

static void on_written(struct content_call *c, const struct err *e)
{
	body_feed_over(c->arg, e);
}

static size_t volume_file_put(struct request *r, const uint8_t *data, size_t len)
{
	struct volume_content_writing *w = r->state;

	return content_call_input(&w->call, data, len);
}

static bool volume_file_end(struct request *r)
{
	struct volume_content_writing *w = r->state;

	return content_call_end_input(&w->call);
}

/* The call is cancelled, so nothing is kept. */
static void volume_file_cut(struct request *r)
{
	struct volume_content_writing *w = r->state;

	content_call_cancel(&w->call);
}

void volume_file_write(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_written_entry,
							   .on_room = on_room,
							   .on_end = on_written };
	uint64_t max = core_config(r->core)->file_max;
	struct storage_content s = { .what = STORAGE_CONTENT_WRITE, .depth = 1, .bytes_max = max };
	struct store_volume v;
	struct volume_content_writing *w;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return;
	w = request_state(r, sizeof(*w), release_writing);
	if (w == NULL)
		return;
	w->body = (struct body_feed){ .put = volume_file_put,
				      .end = volume_file_end,
				      .cut = volume_file_cut,
				      .answer = volume_file_answer };
	json_init_heap(&w->j, ENTRY_JSON_MAX);
	w->call.arg = r;
	if (volume_access_params(r, &s, &e) < 0 ||
	    volume_content_start(r, &w->call, &v, &s, &events, &e) < 0)
		reply_error(r, &e);
	else
		body_feed_start(&w->body, r, max);
}

/* ---- folders
 *
 * volume_content_begin() makes the state, and volume_content_ask() starts the call. Operations
 * differ in `what` and in the status. */

#define DEPTH_MAX 10
#define ENTRIES_MAX 50000

/* The state of a request for entries, with its volume's row as it was at the start. */
struct asking {
	struct content_call call;
	struct store_volume volume;
	struct storage_content r;
	struct json j;
	int status; /* of the answer, if it worked */
};

static void volume_content_release(struct request *r, bool answered)
{
	struct asking *a = r->state;

	content_call_cancel(&a->call);
	json_release(&a->j);
}

/* A list's bytes count for the tenant while it grows. */
static int on_entry(struct content_call *c, const struct content_entry *entry, struct err *e)
{
	struct request *r = c->arg;
	struct asking *a = r->state;

	volume_access_shape(&a->j, entry);
	if (!json_ok(&a->j))
		return err_set(e, ERR_LIMIT,
			       "the directory has too many entries for one answer: list a part "
			       "of it, or less deep");
	return reply_count(r, a->j.len, e);
}

/* The one end of the call. */
static void on_end(struct content_call *c, const struct err *e)
{
	struct request *r = c->arg;
	struct asking *a = r->state;

	if (e != NULL) {
		volume_access_fail(r, a->r.what, e);
		return;
	}
	if (a->r.what == STORAGE_CONTENT_LIST)
		json_close(&a->j, ']');
	if (a->status == 204)
		reply_empty(r, 204);
	else
		reply_json(r, a->status, &a->j);
}

static void volume_content_ask(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_entry, .on_end = on_end };
	struct asking *a = r->state;
	struct err e = { 0 };

	if (volume_content_start(r, &a->call, &a->volume, &a->r, &events, &e) < 0)
		reply_error(r, &e);
}

/* Check the token and read the parameters. NULL: the request was answered. */
static struct asking *volume_content_begin(struct request *r, enum storage_content_what what,
					   int status)
{
	struct store_volume v;
	struct asking *a;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return NULL;
	a = request_state(r, sizeof(*a), volume_content_release);
	if (a == NULL)
		return NULL;
	a->volume = v;
	a->call.arg = r;
	a->status = status;
	json_init_heap(&a->j, what == STORAGE_CONTENT_LIST ? REPLY_JSON_MAX : ENTRY_JSON_MAX);
	a->r = (struct storage_content){ .what = what, .depth = 1, .entries_max = ENTRIES_MAX };
	if (volume_access_params(r, &a->r, &e) == 0)
		return a;
	reply_error(r, &e);
	return NULL;
}

void volume_content_list(struct request *r)
{
	struct asking *a = volume_content_begin(r, STORAGE_CONTENT_LIST, 200);
	uint64_t depth = 1;
	struct err e = { 0 };

	if (a == NULL)
		return;
	if (request_number(r, "depth", 1, DEPTH_MAX, &depth, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	a->r.depth = (uint32_t)depth;
	json_open(&a->j, NULL, '[');
	volume_content_ask(r);
}

void volume_content_make_dir(struct request *r)
{
	if (volume_content_begin(r, STORAGE_CONTENT_MAKE, 201) != NULL)
		volume_content_ask(r);
}

void volume_content_stat(struct request *r)
{
	if (volume_content_begin(r, STORAGE_CONTENT_STAT, 200) != NULL)
		volume_content_ask(r);
}

void volume_content_remove(struct request *r)
{
	if (volume_content_begin(r, STORAGE_CONTENT_REMOVE, 204) != NULL)
		volume_content_ask(r);
}

/* ---- change */

/* Absent members leave the file as it is. */
static int read_change(const uint8_t *body, size_t len, struct storage_content *ret, struct err *e)
{
	uint64_t uid = STORAGE_CONTENT_UNSET, gid = uid, mode = uid;
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "uid", 0, STORAGE_CONTENT_ID_MAX, &uid);
	json_members_count(&m, "gid", 0, STORAGE_CONTENT_ID_MAX, &gid);
	json_members_count(&m, "mode", 0, 07777, &mode);
	read = json_members_end_lenient(&m);
	json_decref(root);
	ret->uid = (uint32_t)uid;
	ret->gid = (uint32_t)gid;
	ret->mode = (uint32_t)mode;
	return read;
}

static void on_change_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct asking *a = r->state;
	struct err e = { 0 };

	if (read_change(body, len, &a->r, &e) < 0)
		reply_error(r, &e);
	else
		volume_content_ask(r);
}

void volume_content_change(struct request *r)
{
	if (volume_content_begin(r, STORAGE_CONTENT_CHANGE, 200) != NULL)
		request_body(r, on_change_body);
}
