/* api_content.c - a file's bytes out of a cell, and into it.
 *
 * A read runs the built-in `read`. The answer begins with the first byte, so an earlier failure is
 * an ordinary error and a later one cuts the answer. A range from the end needs the size first, by
 * `stat`. In a session with secrets a key of scope read gets masked content, and whole files only.
 *
 * A write streams the body into the built-in `write`, which puts the file in place when all of it
 * has come. The status says whether the file is new. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "front/rest/api_handlers.h"
#include "front/web/file_call.h"
#include "front/web/json_view.h"
#include "front/web/masked.h"
#include "front/web/reply.h"
#include "lib/config/config.h"
#include "lib/http/byte_range.h"
#include "lib/json/json.h"

/* Room for a number as text, for an argument of a built-in. */
#define NUMBER_MAX 24
#define ENTRY_JSON_MAX (64U << 10)

/* ---- out
 *
 * The built-in `read` sends one entry record and then the raw bytes. on_session_to_read() starts
 * it, once for the content, and before that with `stat` if the range counts from the end. */

struct content_reading {
	struct file_call call;
	char path[FILE_MSG_PATH_MAX], offset_text[NUMBER_MAX], length_text[NUMBER_MAX];
	uint64_t offset, length; /* UINT64_MAX: to the end */
	bool ranged;		 /* there is a Range header */
	struct byte_range range;
	bool sized;  /* the size is known, for a range from the end */
	bool begun;  /* the answer has begun */
	bool beyond; /* the range begins after the end of the file */
	bool ending; /* only bytes held back by the mask are left to be written */
	struct masked masked;
	struct file_msg_entry entry; /* numbers only */
};

/* No event of the call follows. */
static void release_reading(struct request *r, bool answered)
{
	struct content_reading *g = r->state;

	file_call_release(&g->call);
	masked_release(&g->masked);
}

/* Headers of the answer. len: its bytes. For a range the file's whole size is shown as well. */
static void content_headers(struct request *r, const struct content_reading *g, uint64_t len)
{
	time_t t = (time_t)(g->entry.mtime_ns / 1000000000);
	char text[96];
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL &&
	    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
		exchange_header(r->x, "Last-Modified", text);
	(void)snprintf(text, sizeof(text), "%04o", g->entry.mode & 07777U);
	exchange_header(r->x, "X-Cordon-Mode", text);
	exchange_header(r->x, "Accept-Ranges", "bytes");
	if (!g->ranged)
		return;
	(void)snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)g->offset,
		       (unsigned long long)(g->offset + len - 1),
		       (unsigned long long)g->entry.size);
	exchange_header(r->x, "Content-Range", text);
}

/* The entry comes before the bytes. A cell that sends another record is refused. */
static int on_read_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct content_reading *g = c->r->state;

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	g->entry = m->entry;
	g->beyond = g->ranged && g->offset >= m->entry.size;
	return 0;
}

/* The answer begins here, when its length is known. Returns the bytes that the client's buffer
 * took, and the call keeps the rest. Bytes for a range beyond the end are dropped. */
static size_t on_read_bytes(struct file_call *c, const uint8_t *data, size_t len)
{
	struct content_reading *g = c->r->state;

	if (g->beyond)
		return len;
	if (!g->begun) {
		g->begun = true;
		content_headers(c->r, g, c->raw_left);
		exchange_begin(c->r->x, g->ranged ? 206 : 200, "application/octet-stream",
			       c->raw_left);
	}
	return masked_write(&g->masked, c->r, data, len);
}

/* The mask may hold the last bytes back. Without room on_writable() calls this again. */
static void end_reading(struct request *r, struct content_reading *g)
{
	g->ending = true;
	if (masked_end(&g->masked, r))
		exchange_end(r->x);
}

/* The client has room again. */
static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct content_reading *g = r->state;

	if (g->ending)
		end_reading(r, g);
	else
		file_call_resume(&g->call);
}

/* 416 with the size, as RFC 9110 wants it. */
static void content_unsatisfiable(struct request *r, const struct content_reading *g)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)g->entry.size);
	exchange_header(r->x, "Content-Range", text);
	reply_code(r, 416, "invalid", "the range is beyond the end of the file");
}

/* The one end of a reading. Missing bytes cut the connection, because the length was promised. */
static void on_read_end(struct file_call *c, int status, const struct err *e)
{
	struct content_reading *g = c->r->state;

	if (g->begun && c->raw_left > 0) {
		exchange_abort(c->r->x);
	} else if (g->begun) { /* complete, even if the cell died after the last byte */
		end_reading(c->r, g);
	} else if (e != NULL) {
		reply_file_error(c->r, e);
	} else if (g->beyond) {
		content_unsatisfiable(c->r, g);
	} else { /* empty */
		g->ranged = false;
		content_headers(c->r, g, 0);
		exchange_reply(c->r->x, 200, "application/octet-stream", "", 0);
	}
}

static void on_session_to_read(struct request *r, struct session *s);

/* The size is known: turns a range from the end into one from the start. */
static void on_size(struct file_call *c, int status, const struct err *e)
{
	struct request *r = c->r;
	struct content_reading *g = r->state;
	uint64_t n = g->range.first < g->entry.size ? g->range.first : g->entry.size;

	if (e != NULL) {
		reply_file_error(r, e);
		return;
	}
	g->sized = true;
	g->offset = g->entry.size - n;
	g->length = n;
	request_use(r, on_session_to_read);
}

/* Part of a secret cannot be recognized, so ranges are not supported here: a server may ignore the
 * Range header. */
static bool read_whole(struct request *r, struct content_reading *g)
{
	if (!g->ranged && (g->offset != 0 || g->length != UINT64_MAX)) {
		reply_code(r, 403, "denied",
			   "a key of scope read can only read whole files in a session that has "
			   "secrets");
		return false;
	}
	g->ranged = false;
	g->offset = 0;
	g->length = UINT64_MAX;
	return true;
}

/* Runs once or twice: a range from the end starts `stat` first, and on_size() returns here. */
static void on_session_to_read(struct request *r, struct session *s)
{
	static const struct file_call_events size_events = { .on_record = on_read_record,
							     .on_end = on_size };
	static const struct file_call_events events = { .on_record = on_read_record,
							.on_raw = on_read_bytes,
							.on_end = on_read_end };
	struct content_reading *g = r->state;
	bool size_first;
	const char *size_argv[] = { "stat", g->path };
	const char *argv[] = { "read", g->path, g->offset_text, g->length_text };
	struct err e = { 0 };
	int started;

	masked_begin(&g->masked, r, s);
	if (g->masked.on && !read_whole(r, g))
		return;
	size_first = g->ranged && g->range.from_end && !g->sized;
	(void)snprintf(g->offset_text, NUMBER_MAX, "%llu", (unsigned long long)g->offset);
	(void)snprintf(g->length_text, NUMBER_MAX, g->length == UINT64_MAX ? "-1" : "%llu",
		       (unsigned long long)g->length);
	exchange_on_writable(r->x, on_writable);
	if (size_first)
		started = file_call_start(&g->call, r, s, size_argv, COUNT(size_argv), false,
					  &size_events, &e);
	else
		started = file_call_start(&g->call, r, s, argv, COUNT(argv), false, &events, &e);
	if (started < 0)
		reply_file_error(r, &e);
}

/* Only one range is understood. Any other header is ignored, and the whole file is sent. */
static void read_header(struct request *r, struct content_reading *g)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;

	if (http1_find(q->headers, q->headers_n, "range", &value) != 1 ||
	    !byte_range_parse(value, &g->range))
		return;
	g->ranged = true;
	g->offset = g->range.from_end ? 0 : g->range.first;
	if (!g->range.from_end && g->range.last != UINT64_MAX)
		g->length = g->range.last - g->range.first + 1;
}

/* The parameters offset and length win over a Range header. */
void api_content_get(struct request *r)
{
	struct content_reading *g = request_state(r, sizeof(*g), release_reading);
	struct err e = { 0 };

	if (g == NULL)
		return;
	g->length = UINT64_MAX;
	if (request_text(r, "path", g->path, sizeof(g->path), &e) < 0 ||
	    request_number(r, "offset", 0, INT64_MAX, &g->offset, &e) < 0 ||
	    request_number(r, "length", 0, INT64_MAX, &g->length, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (g->path[0] == '\0') {
		reply_code(r, 400, "invalid", "parameter path: is missing");
		return;
	}
	if (g->offset == 0 && g->length == UINT64_MAX)
		read_header(r, g);
	request_use(r, on_session_to_read);
}

/* ---- in
 *
 * The body goes to the built-in's input at the cell's pace (struct upload). The answer waits for
 * both: the end of the body, and the end of the built-in. */

struct content_writing {
	struct file_call call;
	struct upload upload; /* second, see file_call.c */
	char path[FILE_MSG_PATH_MAX], mode[8], owner[2 * FILE_MSG_NAME_MAX];
	char flags[4], max[NUMBER_MAX];
	struct json j;
	int status;
};

/* No event of the call follows. The cell never sees the last chunk of a body that was cut, so it
 * does not take that body for complete. */
static void release_writing(struct request *r, bool answered)
{
	struct content_writing *w = r->state;

	file_call_release(&w->call);
	json_release(&w->j);
}

/* One entry comes, after the file is in place. A second one is refused. */
static int on_write_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct content_writing *w = c->r->state;

	if (m->kind != FILE_MSG_ENTRY || w->status != 0)
		return file_call_refuse(e);
	w->status = (m->entry.flags & FILE_MSG_EXISTED) != 0 ? 200 : 201;
	json_view_entry(&w->j, NULL, &m->entry);
	return 0;
}

/* The built-in has read some input. */
static void on_write_room(struct file_call *c)
{
	struct content_writing *w = c->r->state;

	upload_room(&w->upload);
}

/* upload_finish() calls this when the call has ended and the body was read, or is too long to wait
 * for. */
static void answer_writing(struct file_call *c)
{
	struct content_writing *w = c->r->state;

	if (c->failed)
		reply_file_error(c->r, &c->why);
	else if (w->status == 0)
		reply_code(c->r, 500, "internal", "the cell did not report what it wrote");
	else
		reply_json(c->r, w->status, &w->j);
}

/* A failure in the cell still waits for the rest of the body, so that the client reads the answer.
 */
static void on_written(struct file_call *c, int status, const struct err *e)
{
	struct content_writing *w = c->r->state;

	(void)e; /* the call keeps it */
	upload_finish(&w->upload, answer_writing);
}

/* "-" keeps the built-in's default for mode and owner. max stops a body that has no length. */
static void on_session_to_write(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_write_record,
							.on_room = on_write_room,
							.on_end = on_written };
	struct content_writing *w = r->state;
	const char *argv[] = { "write",
			       w->path,
			       w->mode[0] == '\0' ? "-" : w->mode,
			       w->owner[0] == '\0' ? "-" : w->owner,
			       w->flags,
			       w->max };
	uint64_t max = core_config(r->core)->file_max;
	struct err e = { 0 };

	json_init_heap(&w->j, ENTRY_JSON_MAX);
	(void)snprintf(w->max, sizeof(w->max), "%llu", (unsigned long long)max);
	if (file_call_start(&w->call, r, s, argv, COUNT(argv), true, &events, &e) < 0)
		reply_file_error(r, &e);
	else
		upload_start(&w->upload, &w->call, max);
}

/* flags are the built-in's letters: a appends, x wants a new file. */
static int read_writing(struct request *r, struct content_writing *w, struct err *e)
{
	bool append = false, exclusive = false;

	if (request_text(r, "path", w->path, sizeof(w->path), e) < 0 ||
	    request_text(r, "mode", w->mode, sizeof(w->mode), e) < 0 ||
	    request_text(r, "owner", w->owner, sizeof(w->owner), e) < 0 ||
	    request_bool(r, "append", &append, e) < 0 ||
	    request_bool(r, "exclusive", &exclusive, e) < 0)
		return -1;
	if (w->path[0] == '\0')
		return err_set(e, ERR_INVALID, "parameter path: is missing");
	if (w->mode[strspn(w->mode, "01234567")] != '\0' || strlen(w->mode) > 4)
		return err_set(e, ERR_INVALID, "parameter mode: must be octal digits like 0644");
	(void)snprintf(w->flags, sizeof(w->flags), "p%s%s", append ? "a" : "",
		       exclusive ? "x" : "");
	return 0;
}

void api_content_put(struct request *r)
{
	struct content_writing *w = request_state(r, sizeof(*w), release_writing);
	struct err e = { 0 };

	if (w == NULL)
		return;
	if (read_writing(r, w, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_to_write);
}
