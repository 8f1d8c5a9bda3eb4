/* files_get.c - GET /files: the bytes of a file, at the client's pace. Usually it is one built-in,
 * `read`, whose first record has the length. Only if the answer depends on the file (a condition,
 * its last bytes, its size alone) `stat` runs before. */
#include <errno.h>
#include <stdio.h>

#include "front/e2b/base/condition.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/cell_file.h"
#include "front/e2b/envd/files_head.h"
#include "front/web/reply.h"
#include "lib/http/byte_range.h"

#define NUMBER_MAX 24
#define NS 1000000000LL

/* The state of a download. path and both texts are arguments of the built-in. */
struct getting {
	struct file_call call;
	struct cell_file file;
	char path[FILE_MSG_PATH_MAX], offset_text[NUMBER_MAX], length_text[NUMBER_MAX];
	bool ranged;
	struct byte_range range;
	uint64_t offset, length; /* length UINT64_MAX: to the end */
	bool begun;		 /* the answer has begun */
	bool beyond;		 /* the range begins behind the end of the file */
	bool is_dir;
	uint64_t size;
	int64_t changed_s;
};

static void files_get_release(struct request *r, bool answered)
{
	struct getting *g = r->state;

	file_call_release(&g->call);
}

/* ---- the answer
 *
 * Headers are the same for 200, 206 and 304. */

static void files_get_headers(struct request *r, const struct getting *g)
{
	char text[DISPOSITION_MAX], date[CONDITION_DATE_MAX];

	disposition_write(g->path, text);
	exchange_header(r->x, "Content-Disposition", text);
	exchange_header(r->x, "Vary", "Accept-Encoding");
	exchange_header(r->x, "Accept-Ranges", "bytes");
	if (condition_write_date(g->changed_s, date))
		exchange_header(r->x, "Last-Modified", date);
	exchange_header(r->x, "X-Content-Type-Options", "nosniff");
	/* The content comes from a sandbox, and all sandboxes share this origin. */
	if (disposition_is_active(disposition_type(g->path)))
		exchange_header(r->x, "Content-Security-Policy", "sandbox");
}

/* len: bytes that follow. */
static void files_get_begin(struct request *r, struct getting *g, uint64_t len)
{
	char text[96];

	g->begun = true;
	files_get_headers(r, g);
	if (g->ranged) {
		(void)snprintf(
			text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)g->offset,
			(unsigned long long)(g->offset + len - 1), (unsigned long long)g->size);
		exchange_header(r->x, "Content-Range", text);
	}
	exchange_begin(r->x, g->ranged ? 206 : 200, disposition_type(g->path), len);
}

static void files_get_unsatisfiable(struct request *r, const struct getting *g)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)g->size);
	exchange_header(r->x, "Content-Range", text);
	reply_code(r, 416, "range", "invalid range: failed to overlap");
}

static void is_directory(struct request *r, const struct getting *g)
{
	struct err e = { .code = ERR_SYSTEM, .sys = EISDIR };

	cell_file_fail_http(r, &g->file, g->path, &e);
}

/* ---- reading
 *
 * The built-in `read` sends its entry, then the bytes. Without bytes the answer is made at its end.
 */

/* Also for `stat`. Seconds are rounded down, before 1970 as well. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct getting *g = c->r->state;

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	g->size = m->entry.size;
	g->changed_s = m->entry.mtime_ns / NS - (m->entry.mtime_ns % NS < 0);
	g->is_dir = m->entry.type == FILE_MSG_DIR;
	if (g->size == 0) /* some clients send Range with every request */
		g->ranged = false;
	g->beyond = g->ranged && g->offset >= g->size;
	return 0;
}

/* Returns how many bytes the client's buffer took. */
static size_t on_bytes(struct file_call *c, const uint8_t *data, size_t len)
{
	struct getting *g = c->r->state;

	if (g->beyond)
		return len;
	if (!g->begun)
		files_get_begin(c->r, g, c->raw_left);
	return exchange_write(c->r->x, data, len);
}

static void on_writable(struct exchange *x)
{
	struct getting *g = request_of(x)->state;

	file_call_resume(&g->call);
}

static void on_read_end(struct file_call *c, int status, const struct err *e)
{
	struct getting *g = c->r->state;

	if (g->begun && c->raw_left > 0) {
		exchange_abort(c->r->x); /* incomplete: the client must see that */
	} else if (g->begun) { /* whole, also if the cell died right behind the last byte */
		exchange_end(c->r->x);
	} else if (e != NULL) {
		cell_file_fail_http(c->r, &g->file, g->path, e);
	} else if (g->beyond) {
		files_get_unsatisfiable(c->r, g);
	} else {
		g->ranged = false;
		files_get_headers(c->r, g);
		exchange_reply(c->r->x, 200, disposition_type(g->path), "", 0);
	}
}

static void on_session_to_read(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_raw = on_bytes,
							.on_end = on_read_end };
	struct getting *g = r->state;
	struct err e = { 0 };

	(void)snprintf(g->offset_text, NUMBER_MAX, "%llu", (unsigned long long)g->offset);
	(void)snprintf(g->length_text, NUMBER_MAX, g->length == UINT64_MAX ? "-1" : "%llu",
		       (unsigned long long)g->length);
	exchange_on_writable(r->x, on_writable);
	request_hold(r, s);
	cell_file_init(&g->file, "read");
	cell_file_add(&g->file, g->path);
	cell_file_add(&g->file, g->offset_text);
	cell_file_add(&g->file, g->length_text);
	if (cell_file_start(&g->file, &g->call, r, s, false, &events, &e) < 0)
		cell_file_fail_http(r, &g->file, g->path, &e);
}

/* ---- looking first
 *
 * on_looked() has the entry, and answers or starts the reading. */

/* HEAD: the length without the bytes. */
static void answer_head(struct request *r, struct getting *g)
{
	uint64_t len = g->size;

	if (g->ranged) {
		uint64_t rest = g->size - g->offset;

		len = g->length < rest ? g->length : rest;
	}
	files_get_begin(r, g, len);
	exchange_end(r->x);
}

static void files_get_unchanged(struct request *r, const struct getting *g)
{
	files_get_headers(r, g);
	reply_empty(r, 304);
}

/* The size is known: from the end becomes from the start. */
static void settle_range(struct getting *g)
{
	if (g->ranged && g->range.from_end) {
		g->length = g->range.first < g->size ? g->range.first : g->size;
		g->offset = g->size - g->length;
	}
	if (!g->ranged) {
		g->offset = 0;
		g->length = UINT64_MAX;
	}
}

/* The conditions are checked in one place, before any byte is read. */
static void on_looked(struct file_call *c, int status, const struct err *e)
{
	struct request *r = c->r;
	struct getting *g = r->state;
	enum condition condition;
	bool whole;

	if (e != NULL) {
		cell_file_fail_http(r, &g->file, g->path, e);
		return;
	}
	if (g->is_dir) {
		is_directory(r, g);
		return;
	}
	condition = condition_check(exchange_request(r->x), g->changed_s, &whole);
	g->ranged = g->ranged && !whole;
	settle_range(g);
	g->beyond = g->ranged && g->offset >= g->size;
	if (condition == CONDITION_UNCHANGED)
		files_get_unchanged(r, g);
	else if (condition == CONDITION_FAILED)
		reply_code(r, 412, "condition", "the file was changed");
	else if (g->beyond)
		files_get_unsatisfiable(r, g);
	else if (request_is_head(r))
		answer_head(r, g);
	else
		request_use(r, on_session_to_read);
}

static void on_session_to_look(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_end = on_looked };
	struct getting *g = r->state;
	struct err e = { 0 };

	cell_file_init(&g->file, "stat");
	cell_file_add(&g->file, g->path);
	if (cell_file_start(&g->file, &g->call, r, s, false, &events, &e) < 0)
		cell_file_fail_http(r, &g->file, g->path, &e);
}

/* ---- the request
 *
 * Each parameter is checked here. The sandbox is used afterwards. */

/* A header that byte_range_parse() refuses is ignored, and the whole file is sent. */
static void read_range(struct request *r, struct getting *g)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;

	g->length = UINT64_MAX;
	if (http1_find(q->headers, q->headers_n, "range", &value) != 1 ||
	    !byte_range_parse(value, &g->range))
		return;
	g->ranged = true;
	g->offset = g->range.from_end ? 0 : g->range.first;
	if (!g->range.from_end && g->range.last != UINT64_MAX)
		g->length = g->range.last - g->range.first + 1;
}

void files_get(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct getting *g = request_state(r, sizeof(*g), files_get_release);
	struct err e = { 0 };

	if (g == NULL)
		return;
	if (request_text(r, "path", g->path, sizeof(g->path), &e) < 0 ||
	    envd_user_of_files(r, g->file.user, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (g->path[0] == '\0') {
		reply_code(r, 400, "invalid", "parameter path: is missing");
		return;
	}
	if (!condition_takes_identity(q)) {
		reply_code(r, 406, "encoding",
			   "no acceptable encoding: files are sent as they are (identity)");
		return;
	}
	read_range(r, g);
	if (condition_given(q) || request_is_head(r) || (g->ranged && g->range.from_end))
		request_use(r, on_session_to_look);
	else
		request_use(r, on_session_to_read);
}
