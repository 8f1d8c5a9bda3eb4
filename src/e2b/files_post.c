/* files_post.c - POST /files: files into a sandbox, as they arrive.
 *
 * The body is one file, or a form with any number of them. Either way it is a row of: begin a file,
 * its bytes, its end. Each is one built-in, `write`, that puts it in place when its last byte has
 * come; the body waits meanwhile. What was written before something fails stays, as with E2B. After
 * a failure the rest of the body is dropped before it is answered: many clients cannot receive one
 * before they have sent everything. */
#include <stdio.h>
#include <string.h>

#include "e2b_private.h"
#include "cell_file.h"
#include "chunk_writer.h"
#include "config.h"
#include "multipart.h"
#include "post_head.h"
#include "reply.h"
#include "upload.h"
#include "upload_result.h"

#define NUMBER_MAX 24
#define SKIPPED_MAX (1U << 20) /* bytes of a form that are no file's */

enum step {
	BETWEEN,  /* between two files */
	SKIPPING, /* a part that is not a file */
	WRITING,
	FINISHING, /* all its bytes have been taken, the built-in has not answered */
	FAILED	   /* with this status */
};

struct posting {
	struct file_call call;
	struct cell_file file;
	struct chunk_writer out;
	enum step step;
	bool reading, answered;
	struct post_head head;
	struct multipart form;
	uint64_t skipped, dropped;
	char path[FILE_MSG_PATH_MAX];	/* of the query; "": none */
	char target[FILE_MSG_PATH_MAX]; /* of this file */
	char max[NUMBER_MAX];
	struct upload_result done;
	/* why it failed: of the built-in, or of the request */
	bool of_file;
	int status;
	struct err why;
};

static void release(struct request *r, bool answered)
{
	struct posting *p = r->state;

	(void)answered;
	file_call_release(&p->call);
	upload_result_release(&p->done);
}

/* ---- the end */

static void answer(struct request *r)
{
	struct posting *p = r->state;

	if (p->answered)
		return;
	p->answered = true;
	if (p->step == FAILED && p->of_file)
		cell_file_fail_http(r, &p->file, p->target, &p->why);
	else if (p->step == FAILED)
		reply_code(r, p->status, "invalid", p->why.msg);
	else
		upload_result_reply(&p->done, r);
}

static void fail(struct request *r, int status)
{
	struct posting *p = r->state;

	p->step = FAILED;
	p->of_file = false;
	p->status = status;
	if (!p->reading)
		answer(r);
}

static void fail_text(struct request *r, int status, const char *text)
{
	struct posting *p = r->state;

	IGNORED(err_set(&p->why, ERR_INVALID, "%s", text), "answered");
	fail(r, status);
}

static void fail_file(struct request *r, const struct err *e)
{
	struct posting *p = r->state;

	p->step = FAILED;
	p->of_file = true;
	p->why = *e;
	if (!p->reading)
		answer(r);
}

/* ---- one file */

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct posting *p = c->r->state;

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	return upload_result_add(&p->done, p->target, &m->entry, e);
}

static void on_room(struct file_call *c)
{
	struct posting *p = c->r->state;

	if (chunk_writer_room(&p->out) && p->reading)
		exchange_resume_body(c->r->x);
}

static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct posting *p = c->r->state;
	struct err early;

	(void)status;
	if (p->step == FAILED)
		return;
	if (e == NULL && p->step == WRITING) {
		IGNORED(err_set(&early, ERR_SYSTEM, "the cell did not take the whole file"),
			"reported by e");
		e = &early;
	}
	if (e != NULL) {
		fail_file(c->r, e);
	} else if (upload_result_is_twice(&p->done)) {
		(void)snprintf(p->why.msg, sizeof(p->why.msg),
			       "you cannot upload multiple files to the same path '%.150s'",
			       p->target);
		fail(c->r, 400);
	} else {
		p->step = BETWEEN;
		if (!p->reading)
			answer(c->r);
	}
	if (p->reading)
		exchange_resume_body(c->r->x);
}

/* Starts to write to the target. */
static void begin_file(struct request *r, struct session *s, uint64_t known)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_room = on_room,
							.on_end = on_end };
	struct posting *p = r->state;
	struct err e = { 0 };

	file_call_release(&p->call);
	p->call = (struct file_call){ 0 };
	cell_file_init(&p->file, "write");
	cell_file_add(&p->file, p->target);
	cell_file_add(&p->file, "-");
	cell_file_add(&p->file, "-");
	cell_file_add(&p->file, p->head.gzip ? "pz" : "p");
	cell_file_add(&p->file, p->max);
	cell_file_add(&p->file, p->head.meta);
	if (cell_file_start(&p->file, &p->call, r, s, true, &events, &e) < 0) {
		fail_file(r, &e);
		return;
	}
	chunk_writer_init(&p->out, &p->call, known);
	p->step = WRITING;
}

static void end_file(struct posting *p)
{
	p->step = FINISHING;
	chunk_writer_end(&p->out);
}

/* ---- forms */

static void begin_part(struct request *r)
{
	struct posting *p = r->state;
	const struct part_head *m = &p->form.part;
	struct err e = { 0 };
	struct session *s;

	p->step = SKIPPING;
	if (strcmp(m->name, "file") != 0)
		return;
	(void)snprintf(p->target, sizeof(p->target), "%s",
		       p->path[0] != '\0' ? p->path : m->filename);
	if (p->target[0] == '\0') {
		fail_text(r, 400, "a part of the form has no filename, and there is no path");
		return;
	}
	if (upload_result_has(&p->done, p->target)) {
		(void)snprintf(p->why.msg, sizeof(p->why.msg),
			       "you cannot upload multiple files to the same path '%.150s', only "
			       "the first one was uploaded",
			       p->target);
		fail(r, 400);
		return;
	}
	s = session_live(r->core, r->tenant, r->session_id, &e);
	if (s == NULL)
		fail_file(r, &e);
	else
		begin_file(r, s, 0);
}

/* Bytes of a part. Returns how many were taken. */
static size_t take_part(struct request *r, const uint8_t *data, size_t len)
{
	struct posting *p = r->state;

	if (p->step == WRITING)
		return chunk_writer_put(&p->out, data, len);
	p->skipped += len;
	if (p->step == SKIPPING && p->skipped > SKIPPED_MAX)
		fail_text(r, 413, "the parts of the form that are not files are too large");
	return len;
}

/* Returns how many of the bytes were taken: fewer, if the file in progress has no room, or must be
 * finished first. */
static size_t take_form(struct request *r, const uint8_t *data, size_t len)
{
	struct posting *p = r->state;
	size_t done = 0;

	while (p->step != FAILED && p->step != FINISHING) {
		struct http1_span part;
		size_t used, n;
		enum multipart_result what = multipart_read(&p->form, (const char *)data + done,
							    len - done, &used, &part);

		done += used;
		switch (what) {
		case MULTIPART_PART:
			begin_part(r);
			break;
		case MULTIPART_DATA:
			n = take_part(r, (const uint8_t *)part.p, part.n);
			done += multipart_took(&p->form, n);
			if (n < part.n && p->step != FAILED)
				return done;
			break;
		case MULTIPART_PART_END:
			if (p->step == WRITING)
				end_file(p);
			else
				p->step = BETWEEN;
			break;
		case MULTIPART_BAD:
			fail_text(r, 400, p->form.why);
			break;
		case MULTIPART_MORE:
			return done;
		case MULTIPART_END:
			return len; /* bytes after the form are ignored */
		}
	}
	return done;
}

/* ---- the body */

static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct posting *p = r->state;
	size_t done = 0;

	if (p->step != FAILED && p->head.is_form)
		done = take_form(r, data, len);
	else if (p->step == WRITING)
		done = chunk_writer_put(&p->out, data, len);
	if (p->step != FAILED)
		return done;
	p->dropped += len - done;
	if (p->dropped > UPLOAD_DROP_MAX)
		answer(r);
	return len;
}

static void on_body_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct posting *p = r->state;

	p->reading = false;
	if (!ok) { /* the server answers; without its last chunk the file in progress is unchanged
		    */
		file_call_release(&p->call);
		p->answered = true;
		return;
	}
	if (p->step == WRITING && !p->head.is_form)
		end_file(p);
	else if (p->step != FAILED && p->head.is_form && !multipart_ended(&p->form))
		fail_text(r, 400, "the form ends too early");
	else if (p->step != FINISHING)
		answer(r);
}

static void on_session(struct request *r, struct session *s)
{
	struct posting *p = r->state;
	const struct http1_request *q = exchange_request(r->x);

	p->reading = true;
	request_hold(r, s);
	if (!p->head.is_form) {
		(void)snprintf(p->target, sizeof(p->target), "%s", p->path);
		begin_file(r, s, q->framing == HTTP1_LENGTH ? q->content_length : 0);
	}
	exchange_read_body(r->x, UINT64_MAX, on_data, on_body_end);
}

/* ---- the request */

void files_post(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	uint64_t max = core_config(r->core)->file_max;
	struct posting *p = request_state(r, sizeof(*p), release);
	struct err e = { 0 };

	if (p == NULL)
		return;
	(void)snprintf(p->max, sizeof(p->max), "%llu", (unsigned long long)max);
	if (request_text(r, "path", p->path, sizeof(p->path), &e) < 0 ||
	    envd_user_of_files(r, p->file.user, &e) < 0 || post_head_read(q, &p->head, &e) < 0 ||
	    (p->head.is_form && multipart_init(&p->form, p->head.type, &e) < 0))
		reply_code(r, 400, "invalid", e.msg);
	else if (!p->head.is_form && p->path[0] == '\0')
		reply_code(r, 400, "invalid", "parameter path: is missing");
	else if (!p->head.is_form && q->framing == HTTP1_LENGTH && q->content_length > max)
		reply_code(r, 413, "too_large", "the file is larger than this server accepts");
	else
		request_use(r, on_session);
}
